/* Devices of PoCL come and go in one thread, and drop programs, while another thread's device, their twin, looks for
 * programs among them (src/device/program/twin.c). The thread sanitizer finds memory that is read and written at the
 * same time, the address sanitizer memory that is read after it was freed. */
#include "fixture.h"

#include "support/files.h"

enum { SOUGHT = 10, ROUNDS = 4, DROPPED = 2 };

typedef struct worker {
    clq_system *system;
    uint32_t index;
    clq_status status;
    char detail[CLQ_DETAIL_MAX];
} worker;

/* Makes a program. If no twin has it yet, the compiler runs, once for all twins. */
static clq_status make_program(clq_device *device, unsigned number) {
    char options[64];
    static const char text[] = "kernel void add(global float *x) { x[get_global_id(0)] += NUMBER; }\n";
    (void)snprintf(options, sizeof options, "-DNUMBER=%u", number);
    const clq_program_wish wish = {.file = "own", .options = options, .kernels = "", .text = text};
    clq_kernel *kernel;
    CLQ_TRY(clq_kernel_create_among(device, &wish, "add", &kernel));
    clq_kernel_destroy(kernel);
    return CLQ_OK;
}

/* Before a program is built, it is sought among the other thread's devices. */
static clq_status seek(worker *w) {
    clq_device *device;
    CLQ_TRY(clq_device_open(w->system, (clq_device_choice){w->index, 0, 1}, &device));
    clq_status status = CLQ_OK;
    for (unsigned i = 0; i < SOUGHT && status == CLQ_OK; i++) status = make_program(device, i);
    clq_device_close(device);
    return status;
}

static clq_status come_and_go(worker *w) {
    clq_status status = CLQ_OK;
    for (unsigned round = 1; round <= ROUNDS && status == CLQ_OK; round++) {
        clq_device *device;
        CLQ_TRY(clq_device_open(w->system, (clq_device_choice){w->index, 0, 1}, &device));
        status = make_program(device, 0);
        const void *mark = clq_device_mark_programs(device);
        for (unsigned k = 0; k < DROPPED && status == CLQ_OK; k++) status = make_program(device, 100 * round + k);
        clq_device_drop_programs(device, mark);
        clq_device_close(device);
    }
    return status;
}

static void end(worker *w, clq_status status) {
    w->status = status;
    if (status != CLQ_OK) (void)snprintf(w->detail, sizeof w->detail, "%s", clq_error_detail());
}

static void first(void *context) { end(context, seek(context)); }

static void second(void *context) { end(context, come_and_go(context)); }

static void test_come_and_go(void **state) {
    (void)state;
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder}, &system));
    (void)find_devices(system, indices);
    worker workers[2];
    clq_thread *threads[2];
    for (int i = 0; i < 2; i++) workers[i] = (worker){.system = system, .index = indices[0]};
    CHECK_OK(clq_thread_start("first", first, &workers[0], &threads[0]));
    CHECK_OK(clq_thread_start("second", second, &workers[1], &threads[1]));
    for (int i = 0; i < 2; i++) clq_thread_join(threads[i]);
    for (int i = 0; i < 2; i++)
        if (workers[i].status != CLQ_OK) fail_msg("thread %d: %s", i, workers[i].detail);
    clq_system_close(system);
}

/* ---- a program that may be running ---- */

static size_t count_kept(const char *folder) {
    char path[1024];
    size_t kept = 0;
    (void)snprintf(path, sizeof path, "%s/programs", folder);
    DIR *listing = opendir(path);
    if (!listing) return 0;
    for (struct dirent *entry; (entry = readdir(listing));) kept += strspn(entry->d_name, "0123456789abcdef") >= 32;
    closedir(listing);
    return kept;
}

static void launch_once(clq_device *device, clq_kernel *kernel) {
    const size_t one = 1;
    const float zero = 0.0f;
    clq_queue *queue;
    clq_buffer *buffer;
    CHECK_OK(clq_queue_create(device, 0, &queue));
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof zero, "numbers", &buffer));
    CHECK_OK(clq_queue_write(queue, buffer, 0, &zero, sizeof zero, true));
    CHECK_OK(clq_kernel_set_buffer(kernel, 0, buffer));
    CHECK_OK(clq_queue_launch(queue, kernel, 1, &one, &one));
    CHECK_OK(clq_queue_finish(queue));
    clq_buffer_destroy(buffer);
    clq_queue_destroy(queue);
}

/* Returns how many programs are kept once a second device has made a program of the first device. launched: whether the
 * first device launched the program. *twins becomes whether the devices are twins, which ask each other. */
static size_t kept_for_a_twin(const char *name, bool launched, bool *twins) {
    const clq_program_wish wish = {
        .file = "own",
        .options = launched ? "-DNUMBER=1" : "-DNUMBER=2",
        .kernels = "",
        .text = "kernel CLQ_GROUP_OF_ONE void add(global float *x) { x[get_global_id(0)] += NUMBER; }\n"};
    char folder[512];
    (void)snprintf(folder, sizeof folder, "%s/%s", files_folder, name);
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    clq_device *devices[2];
    clq_kernel *kernels[2];
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = folder}, &system));
    (void)find_devices(system, indices);
    for (int i = 0; i < 2; i++)
        CHECK_OK(clq_device_open(system, (clq_device_choice){indices[0], 0, 1}, &devices[i]));
    *twins = clq_device_has_quirk(devices[0], CLQ_QUIRK_MIXES_UP_KERNELS);
    const size_t before = count_kept(folder);
    CHECK_OK(clq_kernel_create_among(devices[0], &wish, "add", &kernels[0]));
    if (launched) launch_once(devices[0], kernels[0]);
    CHECK_OK(clq_kernel_create_among(devices[1], &wish, "add", &kernels[1]));
    const size_t kept = count_kept(folder) - before;
    launch_once(devices[1], kernels[1]); /* it works, wherever it came from */
    for (int i = 0; i < 2; i++) {
        clq_kernel_destroy(kernels[i]);
        clq_device_close(devices[i]);
    }
    clq_system_close(system);
    return kept;
}

/* PoCL before 7.0 ends the process if it is asked for the binary of a program that is running. Devices of later
 * versions are no twins. */
static void test_running_programs_are_left_alone(void **state) {
    (void)state;
    bool twins;
    const size_t idle = kept_for_a_twin("idle", false, &twins);
    assert_int_equal(idle, twins ? 1 : 0);
    assert_int_equal(kept_for_a_twin("runs", true, &twins), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_come_and_go),
                                       cmocka_unit_test(test_running_programs_are_left_alone)};
    return cmocka_run_group_tests_name("twins", tests, files_begin, files_end);
}
