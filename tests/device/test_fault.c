/* Lets OpenCL calls of whole_life fail in turn. The result is always a clean, named error or, if the work can go on
 * without the call, the right answer. Kept programs are still kept afterwards, and a life in which nothing fails is
 * right. In the short form some of the calls fail, among them the first call of each function. With CLQ_TEST_WHOLE=1 in
 * the environment each call fails. */
#include "whole_life.h"

#include "support/faults.h"
#include "support/files.h"

enum { CALLS_MAX = 2000 };

static faults layer;
static bool is_long;

static int start(void **state) {
    is_long = clq_environment("CLQ_TEST_WHOLE") != NULL;
    if (faults_load(&layer) != 0 || files_begin(state) != 0) return -1;
    return setenv("CLIQUE_CACHE_DIR", files_folder, 1);
}

static bool documented(clq_status status) {
    return status == CLQ_ERROR_MEMORY || status == CLQ_ERROR_NO_DEVICE || status == CLQ_ERROR_DEVICE ||
           status == CLQ_ERROR_DEVICE_MEMORY || status == CLQ_ERROR_BUILD;
}

static void live_well(const char *spec) {
    uint32_t answer = 0;
    CHECK_OK(whole_life(spec, &answer));
    assert_int_equal(answer, 5);
}

/* Lists the kept binaries: each one's file name and a newline. */
static void list_kept(char *out, size_t bytes) {
    DIR *folder = opendir(files_path("programs"));
    size_t used = 0;
    assert_non_null(folder);
    *out = '\0';
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        if (!strstr(entry->d_name, ".bin")) continue;
        used += (size_t)snprintf(out + used, bytes - used, "%s\n", entry->d_name);
        assert_true(used < bytes);
    }
    (void)closedir(folder);
}

static void expect_kept(char *names) {
    for (char *name = names, *end; (end = strchr(name, '\n')); name = end + 1) {
        *end = '\0';
        char *path = clq_strprintf("%s/%s", files_path("programs"), name);
        if (!path || access(path, F_OK) != 0) fail_msg("%s is not kept any more", name);
        clq_free(path);
        *end = '\n';
    }
}

/* Lets calls fail, each in a life of its own: every stride-th call from `first` on, and on pocl:0 also the first of
 * each function. In the long form each call fails. */
static void fail_calls(const char *spec, cl_int error, bool sticky, unsigned first, unsigned stride) {
    (void)layer.arm(0, 0, false);
    live_well(spec); /* builds the programs, and keeps them */
    (void)layer.arm(0, 0, false);
    live_well(spec);
    unsigned calls = layer.arm(0, 0, false), failures = 0;
    char kept[4096];
    list_kept(kept, sizeof kept);
    assert_true(strlen(kept) > 0);
    assert_true(calls > 50 && calls < CALLS_MAX); /* the layer is really there */
    fault_walk walk = {.from = first, .stride = stride};
    if (is_long)
        walk = (fault_walk){.from = 1, .stride = 1};
    else if (strcmp(spec, "pocl:0") == 0)
        walk = faults_walk(&layer, first, stride);
    for (unsigned n = 1; n <= calls; n++) {
        if (!faults_wants(&walk, n)) continue;
        (void)layer.arm(n, error, sticky);
        uint32_t answer = 0;
        (void)alarm(120); /* ends a life that hangs */
        clq_status status = whole_life(spec, &answer);
        (void)alarm(0);
        (void)layer.arm(0, 0, false);
        expect_kept(kept);
        if (status == CLQ_OK && answer != 5)
            fail_msg("call %u with %d: the answer is %u", n, (int)error, (unsigned)answer);
        if (status == CLQ_OK) continue;
        failures++;
        if (!documented(status))
            fail_msg("call %u with %d: %s: %s", n, (int)error, clq_status_text(status), clq_error_detail());
        assert_true(strlen(clq_error_detail()) > 10);
    }
    assert_true(failures > 20);
    live_well(spec);
}

/* Each device has both errors, one in one way and the other in the other way, at other calls. The long form has both
 * errors in both ways. */
static void fail_some_calls(const char *spec, unsigned first, unsigned stride) {
    fail_calls(spec, CL_OUT_OF_RESOURCES, false, first, stride);
    fail_calls(spec, CL_MEM_OBJECT_ALLOCATION_FAILURE, true, first + 1 + stride / 2, stride);
    if (!is_long) return;
    fail_calls(spec, CL_OUT_OF_RESOURCES, true, first, stride);
    fail_calls(spec, CL_MEM_OBJECT_ALLOCATION_FAILURE, false, first, stride);
}

static void test_in_caller(void **state) {
    (void)state;
    fail_some_calls("pocl:0", 1, 6);
}

static void test_pool(void **state) {
    (void)state;
    fail_some_calls("pocl:5", 1, 8);
}

static void test_intel(void **state) {
    (void)state;
#if defined(__x86_64__)
    fail_some_calls("intel:0", 3, 8); /* other calls than on the pool */
#endif
}

/* A mark that fails leaves its output as it was. */
static void test_failing_flush(void **state) {
    (void)state;
    clq_system *system;
    clq_device *device;
    clq_queue *queue;
    clq_event *event = NULL;
    enum { FLUSH = 2 }; /* the call after the one for the marker */
    CHECK_OK(clq_system_open(NULL, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
    CHECK_OK(clq_queue_create(device, 0, &queue));
    (void)layer.arm(FLUSH, CL_OUT_OF_HOST_MEMORY, false);
    CHECK_FAILS(CLQ_ERROR_MEMORY, clq_queue_mark(queue, &event));
    CHECK_DETAIL("handing over commands");
    assert_null(event);
    (void)layer.arm(FLUSH, CL_OUT_OF_HOST_MEMORY, false);
    CHECK_FAILS(CLQ_ERROR_MEMORY, clq_queue_mark_again(queue, &event));
    assert_null(event);
    (void)layer.arm(0, 0, false);
    CHECK_OK(clq_queue_mark_again(queue, &event));
    const cl_event marked = clq_event_handle(event);
    (void)layer.arm(FLUSH, CL_OUT_OF_HOST_MEMORY, false);
    CHECK_FAILS(CLQ_ERROR_MEMORY, clq_queue_mark_again(queue, &event));
    (void)layer.arm(0, 0, false);
    assert_ptr_equal(clq_event_handle(event), marked);
    CHECK_OK(clq_event_wait(event));
    clq_event_destroy(event);
    clq_queue_destroy(queue);
    clq_device_close(device);
    clq_system_close(system);
}

/* If the device gave the memory and only the callback for its end cannot be set, the error is not that of too much
 * memory. */
static void test_failing_callback(void **state) {
    (void)state;
    clq_system *system;
    clq_device *device;
    clq_buffer *buffer = NULL;
    enum { CALLBACK = 3 }; /* the call after the two for the memory and the buffer over it */
    CHECK_OK(clq_system_open(NULL, &system));
    CHECK_OK(clq_device_open(system, (clq_device_choice){0, 0, 1}, &device));
    assert_true(clq_device_get_info(device)->fine_grain_svm);
    (void)layer.arm(CALLBACK, CL_OUT_OF_RESOURCES, false);
    CHECK_FAILS(CLQ_ERROR_DEVICE, clq_buffer_create(device, CLQ_MEMORY_DEVICE, 64, "words", &buffer));
    CHECK_DETAIL("making the buffer of words: CL_OUT_OF_RESOURCES");
    assert_int_equal(layer.arm(0, 0, false), CALLBACK);
    assert_null(buffer);
    assert_int_equal(clq_device_memory_used(device), 0);
    clq_device_close(device);
    clq_system_close(system);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failing_flush), cmocka_unit_test(test_failing_callback),
        cmocka_unit_test(test_in_caller),     cmocka_unit_test(test_pool),
        cmocka_unit_test(test_intel),
    };
    return cmocka_run_group_tests_name("fault", tests, start, files_end);
}
