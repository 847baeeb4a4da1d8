/* Fails each OpenCL call of a whole life in turn, once and from then on: always a clean, named error or, where the work
 * can go on without, the right answer; and the next life, with nothing failing, is right. */
#include "whole_life.h"

#include "support/faults.h"
#include "support/files.h"

enum { CALLS_MAX = 2000 };

static faults layer;

static int start(void **state) {
    if (faults_load(&layer) != 0 || files_begin(state) != 0) return -1;
    return setenv("CLIQUE_CACHE_DIR", files_folder, 1);
}

static bool documented(clq_status status) {
    return status == CLQ_MEMORY || status == CLQ_NO_DEVICE || status == CLQ_DEVICE || status == CLQ_DEVICE_MEMORY ||
           status == CLQ_BUILD;
}

static void live_well(const char *spec) {
    uint32_t answer = 0;
    CHECK_OK(whole_life(spec, &answer));
    assert_int_equal(answer, 5);
}

/* Every stride-th call from `first` on. */
static void fail_calls(const char *spec, cl_int error, bool sticky, unsigned first, unsigned stride) {
    (void)layer.arm(0, 0, false);
    live_well(spec); /* builds the programs, and keeps them */
    live_well(spec);
    const int kept = files_count(files_path("programs"));
    unsigned calls = layer.arm(0, 0, false), failures = 0;
    assert_true(kept > 3);
    assert_true(calls > 50 && calls < CALLS_MAX); /* the layer is really there */
    for (unsigned n = first; n <= calls; n += stride) {
        (void)layer.arm(n, error, sticky);
        uint32_t answer = 0;
        (void)alarm(120); /* for what hangs */
        clq_status status = whole_life(spec, &answer);
        (void)alarm(0);
        (void)layer.arm(0, 0, false);
        /* A binary that could not be loaded then is not lost. */
        assert_true(files_count(files_path("programs")) >= kept);
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

static void test_in_caller(void **state) {
    (void)state;
    fail_calls("pocl:0", CL_OUT_OF_RESOURCES, false, 1, 1);
    fail_calls("pocl:0", CL_OUT_OF_RESOURCES, true, 1, 1);
    fail_calls("pocl:0", CL_MEM_OBJECT_ALLOCATION_FAILURE, false, 1, 1);
    fail_calls("pocl:0", CL_MEM_OBJECT_ALLOCATION_FAILURE, true, 1, 1);
}

/* On the other devices each call fails once: in one of the two ways. */
static void test_pool(void **state) {
    (void)state;
    fail_calls("pocl:5", CL_OUT_OF_RESOURCES, false, 1, 2);
    fail_calls("pocl:5", CL_MEM_OBJECT_ALLOCATION_FAILURE, true, 2, 2);
}

static void test_intel(void **state) {
    (void)state;
#if defined(__x86_64__)
    fail_calls("intel:0", CL_OUT_OF_RESOURCES, true, 1, 2);
    fail_calls("intel:0", CL_MEM_OBJECT_ALLOCATION_FAILURE, false, 2, 2);
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_caller),
        cmocka_unit_test(test_pool),
        cmocka_unit_test(test_intel),
    };
    return cmocka_run_group_tests_name("fault", tests, start, files_end);
}
