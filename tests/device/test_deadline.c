/* A compiler that does not end. The call fails with TIMEOUT within the build deadline, and nothing of the device is
 * used afterwards. The thread that is left behind touches no freed memory (the sanitizers watch this). A note helps the
 * next process that wants the program. */
#include "device/internal.h"
#include "fixture.h"

#include "support/files.h"

#include <dlfcn.h>
#include <time.h>

enum { LOADERS = 4 };

static void (*hang_end)(void);
static unsigned (*hang_count)(void), (*hang_misused)(void);

/* Replaces the machine's count (--wrap in cmake/tests.cmake): as many threads load programs. */
unsigned __wrap_clq_cpu_count(void);
unsigned __wrap_clq_cpu_count(void) { return LOADERS; }

static int start(void **state) {
    const char *folder = clq_environment("CLQ_TEST_BINARY");
    char path[1024];
    if (!folder || files_begin(state) != 0) return -1;
    (void)snprintf(path, sizeof path, "%s/tests/clq_hang_layer.so", folder);
    if (setenv("OPENCL_LAYERS", path, 1) != 0) return -1;
    void *library = dlopen(path, RTLD_NOW);
    if (!library) return -1;
    void *end = dlsym(library, "hang_end"), *count = dlsym(library, "hang_count"),
         *misused = dlsym(library, "hang_misused");
    memcpy(&hang_end, &end, sizeof end);
    memcpy(&hang_count, &count, sizeof count);
    memcpy(&hang_misused, &misused, sizeof misused);
    return end && count && misused ? 0 : -1;
}

static const char source[] = "kernel void sequence(global int *out) { *out = 1; }\n";

/* How the program that was used last was made. */
static struct {
    bool from_source;
    unsigned attempt;
} made;

static clq_status use(clq_device *device, const char *options, bool optional) {
    const clq_program_wish wish = {
        .file = "waits", .options = options, .kernels = "", .text = source, .optional = optional};
    const size_t one = 1;
    clq_kernel *kernel = NULL;
    clq_buffer *buffer = NULL;
    clq_queue *queue = NULL;
    clq_status status = clq_kernel_create_among(device, &wish, "sequence", &kernel);
    if (status == CLQ_OK) status = clq_buffer_create(device, CLQ_MEMORY_DEVICE, 128, "an answer", &buffer);
    if (status == CLQ_OK) status = clq_kernel_set_buffer(kernel, 0, buffer);
    if (status == CLQ_OK) status = clq_queue_create(device, 0, &queue);
    if (status == CLQ_OK) status = clq_queue_launch(queue, kernel, 1, &one, &one);
    int32_t answer = 0;
    if (status == CLQ_OK) status = clq_queue_read(queue, buffer, 0, &answer, sizeof answer, true);
    if (status == CLQ_OK) assert_int_equal(answer, 1);
    if (status == CLQ_OK)
        made.from_source = kernel->program->from_source, made.attempt = kernel->program->claim.attempt;
    clq_queue_destroy(queue);
    clq_buffer_destroy(buffer);
    clq_kernel_destroy(kernel);
    return status;
}

static clq_system *open_with(double deadline_s, clq_device **device) {
    clq_system *system;
    uint32_t indices[TEST_DEVICES];
    CHECK_OK(clq_system_open(&(clq_system_config){.cache_dir = files_folder, .build_deadline_s = deadline_s}, &system));
    (void)find_devices(system, indices);
    CHECK_OK(clq_device_open(system, (clq_device_choice){indices[TEST_POOL], 0, 1}, device));
    return system;
}

static void hangs(const char *where, bool optional, bool noted_wanted) {
    clq_device *device;
    bool noted;
    clq_system *system = open_with(0.5, &device);
    assert_false(clq_system_is_stuck(system, &noted));
    assert_int_equal(setenv("CLQ_HANG", where, 1), 0);
    CHECK_FAILS(CLQ_ERROR_TIMEOUT, use(device, where[0] == 'b' ? "-DB" : "-DL", optional));
    CHECK_DETAIL("waits.cl");
    CHECK_DETAIL("build deadline of 0.5 s");
    CHECK_DETAIL(clq_device_label(device));
    assert_true(hang_count() > 0);
    assert_true(clq_system_is_stuck(system, &noted));
    assert_int_equal(noted, noted_wanted);
    assert_true(clq_device_lost(device));
    CHECK_FAILS(CLQ_ERROR_DEVICE, use(device, "", false));
    clq_device *other = NULL; /* a device of the same driver, which may not answer */
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_device_open(system, (clq_device_choice){0, 0, 1}, &other));
    CHECK_DETAIL("missed the build deadline of 0.5 s (--build-deadline, build_deadline_s); start a new process");
    clq_device_close(device);
    clq_system_close(system);
    assert_int_equal(unsetenv("CLQ_HANG"), 0);
}

/* The next device that wants the program makes it again, with other options, while the driver still works on the first
 * build. This works at once, even while the lost device is open. */
static void made_anew(const char *options, unsigned attempt) {
    for (int kept = 0; kept < 2; kept++) {
        clq_device *device;
        clq_system *system = open_with(0, &device);
        CHECK_OK(use(device, options, false));
        assert_int_equal(made.from_source, !kept);
        assert_int_equal(made.attempt, attempt);
        clq_device_close(device);
        clq_system_close(system);
    }
}

/* where: "build" or "launch" hangs only for a program that the caches do not hold; "build-all" hangs for the cache's
 * binary, too. */
static void goes_on(const char *where, const char *options, unsigned attempt) {
    clq_device *device;
    clq_system *system = open_with(0.5, &device);
    assert_int_equal(setenv("CLQ_HANG", where, 1), 0);
    CHECK_FAILS(CLQ_ERROR_TIMEOUT, use(device, options, false));
    assert_int_equal(unsetenv("CLQ_HANG"), 0);
    if (attempt % 2) made_anew(options, attempt);
    clq_device_close(device);
    clq_system_close(system);
    if (attempt % 2 == 0) made_anew(options, attempt);
}

static void go_on(void) {
    goes_on("build", "-DGOES=1", 1);
    goes_on("build-all", "-DGOES=1", 2);
    goes_on("launch", "-DGOES=2", 1);
    goes_on("build-all", "-DGOES=2", 2);
    goes_on("launch", "-DGOES=3", 1);
}

/* If the cache has a part of a program, the program is built again when the device closes. A compiler that hangs then
 * says nothing against the program, which was launched. The system still knows of the hang after the device is gone. */
static void hang_at_close(void) {
    const clq_program_wish wish = {
        .file = "waits", .options = "-DCLOSES", .kernels = "", .text = source, .optional = true};
    clq_device *device;
    clq_system *system = open_with(0, &device);
    clq_kernel *kernel;
    CHECK_OK(clq_kernel_create_among(device, &wish, "sequence", &kernel));
    clq_programs_offer(device, kernel->program->key);
    assert_true(kernel->program->early);
    clq_kernel_destroy(kernel);
    CHECK_OK(use(device, "-DCLOSES", true));
    const unsigned before = hang_count();
    bool noted;
    assert_false(clq_system_is_stuck(system, &noted));
    assert_int_equal(setenv("CLQ_HANG", "build", 1), 0);
    device->build.deadline_s = 0.5; /* only for the call that hangs */
    clq_device_close(device);
    assert_int_equal(unsetenv("CLQ_HANG"), 0);
    assert_int_equal(hang_count(), before + 1);
    assert_true(clq_system_is_stuck(system, &noted));
    assert_false(noted);
    assert_int_equal(hang_misused(), 0);
    clq_system_close(system);
    system = open_with(0, &device);
    CHECK_OK(use(device, "-DCLOSES", true));
    clq_device_close(device);
    clq_system_close(system);
}

/* PoCL compiles the kernels that were not launched when it is asked for the program's binary. Three callers ask:
 * clq_device_keep_programs, the device's close, and a twin that wants the program. */
static clq_status keep_now(clq_system *system, clq_device *device) {
    (void)system;
    return clq_device_keep_programs(device);
}

static clq_status close_now(clq_system *system, clq_device *device) {
    bool noted;
    (void)clq_fail(CLQ_ERROR_READ, "what the caller gives up for");
    clq_device_close(device); /* keeping its programs fails, too */
    CHECK_DETAIL("what the caller gives up for");
    return clq_system_is_stuck(system, &noted) && !noted ? CLQ_ERROR_TIMEOUT : CLQ_OK;
}

static clq_status ask_twin(clq_system *system, clq_device *device) {
    const clq_program_wish wish = {.file = "waits", .options = "-DKEPT=3", .kernels = "", .text = source};
    uint32_t indices[TEST_DEVICES];
    clq_device *twin;
    clq_kernel *first, *second;
    (void)find_devices(system, indices);
    CHECK_OK(clq_device_open(system, (clq_device_choice){indices[TEST_POOL], 0, 1}, &twin));
    CHECK_OK(clq_kernel_create_among(device, &wish, "sequence", &first));
    clq_status status = clq_kernel_create_among(twin, &wish, "sequence", &second);
    clq_kernel_destroy(first);
    clq_device_close(twin);
    return status;
}

static void keep(const char *options, clq_status (*way)(clq_system *, clq_device *)) {
    clq_device *device;
    clq_system *system = open_with(0, &device);
    const unsigned before = hang_count();
    device->build.deadline_s = 0.5;                            /* only for the call that hangs */
    if (way != ask_twin) CHECK_OK(use(device, options, true)); /* a twin asks only for unlaunched programs */
    assert_int_equal(setenv("CLQ_HANG", "binary", 1), 0);
    CHECK_FAILS(CLQ_ERROR_TIMEOUT, way(system, device));
    assert_int_equal(unsetenv("CLQ_HANG"), 0);
    assert_int_equal(hang_count(), before + 1);
    if (way != close_now) {
        CHECK_DETAIL("waits.cl");
        CHECK_DETAIL("build deadline of 0.5 s");
        assert_true(clq_device_lost(device));
        clq_device_close(device);
    }
    assert_int_equal(hang_misused(), 0);
    clq_system_close(system);
    made_anew(options, 1);
}

static void keep_programs(void) {
    clq_device *device;
    clq_system *system = open_with(0, &device);
    const bool has_twins = device->twin >= 0;
    clq_device_close(device);
    clq_system_close(system);
    keep("-DKEPT=1", keep_now);
    keep("-DKEPT=2", close_now);
    if (has_twins) keep("-DKEPT=3", ask_twin);
}

/* The threads that load programs wait for the thread that builds. When its time is over, none of them may call the
 * driver any more, because each call would wait for a deadline of its own. The error names the program that hung, not a
 * program before it that had to wait. If a program is wanted several times, the threads that wait for it may not call
 * the driver either. */
static void load(const char *first_text, bool same) {
    clq_device *device;
    clq_system *system = open_with(0.5, &device);
    clq_program_wish wishes[LOADERS];
    char files[LOADERS][16], options[LOADERS][16];
    size_t failed;
    for (size_t i = 0; i < LOADERS; i++) {
        (void)snprintf(files[i], sizeof files[i], "waits_%zu", same ? 0 : i);
        (void)snprintf(options[i], sizeof options[i], "-DMANY=%zu", same ? 0 : i);
        wishes[i] = (clq_program_wish){
            .file = files[i], .options = options[i], .kernels = "", .text = i == 0 ? first_text : source};
    }
    const unsigned before = hang_count();
    assert_int_equal(setenv("CLQ_HANG", "build", 1), 0);
    CHECK_FAILS(CLQ_ERROR_TIMEOUT, clq_device_load_programs(device, wishes, LOADERS, &failed));
    CHECK_DETAIL("build deadline of 0.5 s");
    assert_int_equal(hang_count(), before + 1);
    assert_true(failed < LOADERS);
    CHECK_DETAIL(files[failed]);
    assert_int_equal(unsetenv("CLQ_HANG"), 0);
    clq_device_close(device);
    clq_system_close(system);
}

/* A program that reaches the compiler late: its text takes long to read, so other programs are there first. */
static char *late_text(void) {
    const char end[] = "kernel void late(global int *out) { *out = 1; }\n";
    const size_t blanks = (size_t)64 << 20;
    char *text = malloc(blanks + sizeof end);
    assert_non_null(text);
    memset(text, ' ', blanks);
    memcpy(text + blanks, end, sizeof end);
    return text;
}

static void load_many(void) {
    char *late = late_text();
    load(source, false);
    load(source, true);
    load(late, false);
    free(late);
}

static void test_hangs(void **state) {
    (void)state;
    hangs("build", false, false);
    hangs("launch", false, false);
    hangs("build", true, true);
    hangs("launch", true, true);
    load_many();
    go_on();
    hang_at_close();
    keep_programs();
    hang_end(); /* the threads left behind go on after their devices and systems are gone */
    for (int i = 0; i < 6000 && hang_count() > 0; i++) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(hang_count(), 0);
    clq_device *device;
    clq_system *system = open_with(0, &device);
    const char *const options[] = {"-DB", "-DL"};
    for (size_t i = 0; i < CLQ_COUNT_OF(options); i++) {
        CHECK_FAILS(CLQ_ERROR_UNSUPPORTED, use(device, options[i], true));
        CHECK_OK(use(device, options[i], false));
    }
    clq_device_close(device);
    clq_system_close(system);
}

static void test_refused(void **state) {
    (void)state;
    clq_device *device;
    clq_system *system = open_with(0, &device);
    for (int i = 0; i < 2; i++) {
        const clq_program_wish wish = {
            .file = "wrong", .options = "", .kernels = "", .text = "kernel void k( {\n", .optional = true};
        clq_kernel *kernel;
        CHECK_FAILS(CLQ_ERROR_UNSUPPORTED, clq_kernel_create_among(device, &wish, "k", &kernel));
        assert_false(clq_device_lost(device));
    }
    clq_device_close(device);
    clq_system_close(system);
}

/* If a compiler fails and does not say why, the cause may be a full disk. So a later run must not leave the program
 * out. */
static void test_silent(void **state) {
    (void)state;
    for (int later = 0; later < 2; later++) {
        clq_device *device;
        clq_system *system = open_with(0, &device);
        assert_int_equal(later ? unsetenv("CLQ_HANG") : setenv("CLQ_HANG", "refuse", 1), 0);
        for (int again = 0; again < 2; again++) {
            if (later)
                CHECK_OK(use(device, "-DSILENT", true));
            else
                CHECK_FAILS(CLQ_ERROR_UNSUPPORTED, use(device, "-DSILENT", true));
        }
        clq_device_close(device);
        clq_system_close(system);
    }
}

typedef struct named {
    clq_device *device;
    unsigned nth;
} named;
static clq_status use_once(void *context) {
    named *n = context;
    char options[32];
    (void)snprintf(options, sizeof options, "-DN=%u", n->nth++);
    return use(n->device, options, true);
}

static void test_allocations(void **state) {
    (void)state;
    clq_device *device;
    clq_system *system = open_with(0, &device);
    assert_true(walk_allocations(use_once, &(named){.device = device}) > 0);
    clq_device_close(device);
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_silent),
        cmocka_unit_test(test_allocations),
        cmocka_unit_test(test_hangs),
    };
    return cmocka_run_group_tests(tests, start, files_end);
}
