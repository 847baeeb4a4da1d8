/* What ends a group: a rank that never comes, a wait event that turns negative, a device error, an abort. With every
 * algorithm and transport, the event of every rank ends within the deadline + 1 s, the group reports what happened, and
 * no thread is left. */
#include "support/check.h"
#include "support/comm_cases.h"
#include "support/faults.h"
#include "support/files.h"

#include <dirent.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 3001, LARGE = 400009, RANKS = 3 };
static const double deadline_s = 0.3, grace_s = 1;

static faults layer;

/* Devices, memory, and a group with one setting. */
typedef struct rig {
    ranks all;
    clq_group *group;
    cl_mem memory[RANKS];
    cl_event done[RANKS];
    size_t count;
    unsigned threads;
    double abort_after_s;
} rig;

static void nap(double seconds) { nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL); }

static unsigned count_threads(void) {
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* The system may still list a joined thread for a moment. */
static void expect_threads(unsigned expected) {
    for (double end = clq_now() + 5; count_threads() > expected && clq_now() < end;) nap(1e-3);
    assert_true(count_threads() <= expected);
}

static void rig_open(rig *g, const clq_group_config *setting, size_t count) {
    *g = (rig){.count = count};
    bool together = setting->transport == CLQ_TRANSPORT_PEER;
    ranks_open(&g->all, together ? "b1b1b1" : "b1b2b1", false, NULL);
    for (unsigned r = 0; r < RANKS; r++) {
        cl_int error;
        g->memory[r] = clCreateBuffer(clq_device_context(g->all.devices[r]), CL_MEM_READ_WRITE,
                                      count * RANKS * sizeof(float), NULL, &error);
        cl_ok(error);
    }
}

static void rig_begin(rig *g, const clq_group_config *setting, double seconds) {
    clq_group_config config = *setting;
    config.deadline_s = seconds;
    if (config.chunk_bytes == 0) config.chunk_bytes = g->count > COUNT ? 65536 : 4096;
    memset(g->done, 0, sizeof g->done);
    g->threads = count_threads();
    g->group = comm_case_group(&g->all, &config);
}

static void rig_end(rig *g) {
    for (unsigned r = 0; r < RANKS; r++)
        if (g->done[r]) cl_ok(clReleaseEvent(g->done[r]));
    clq_group_destroy(g->group);
    expect_threads(g->threads);
}

static void rig_close(rig *g) {
    for (unsigned r = 0; r < RANKS; r++) cl_ok(clReleaseMemObject(g->memory[r]));
    ranks_close(&g->all);
}

/* Issues one of five collectives in turn. */
static clq_status issue(rig *g, unsigned turn, const cl_event *waits) {
    clq_slice in[RANKS], out[RANKS], part[RANKS];
    for (unsigned r = 0; r < RANKS; r++) {
        in[r] = out[r] = part[r] = (clq_slice){g->memory[r], 0};
        part[r].offset = r * g->count * sizeof(float);
    }
    switch (turn % 5) {
    case 0: return clq_all_reduce(g->group, in, out, g->count, CLQ_F32, CLQ_REDOP_SUM, waits, g->done);
    case 1: return clq_reduce_scatter(g->group, in, part, g->count, CLQ_F32, CLQ_REDOP_SUM, waits, g->done);
    case 2: return clq_all_gather(g->group, part, out, g->count, CLQ_F32, waits, g->done);
    case 3: return clq_broadcast(g->group, in, out, g->count, CLQ_F32, 1, waits, g->done);
    default: return clq_reduce(g->group, in, out, g->count, CLQ_F32, CLQ_REDOP_SUM, 1, waits, g->done);
    }
}

/* Checks that the event of every rank is negative before `until`, and that the group reports `status`. */
static void expect_end(rig *g, const clq_group_config *setting, double until, clq_status status, const char *said) {
    for (unsigned r = 0; r < RANKS; r++) {
        while (state_of(g->done[r]) > 0 && clq_now() < until) nap(1e-3);
        if (state_of(g->done[r]) >= 0)
            fail_msg("%s over %s: the event of rank %u is %d, not %s", clq_algorithm_name(setting->algorithm),
                     clq_transport_name(setting->transport), r, state_of(g->done[r]), clq_status_text(status));
    }
    assert_int_equal(clq_group_wait(g->group), status);
    expect_text(clq_error_detail(), said);
    /* Later calls fail alike. */
    cl_event none[RANKS] = {NULL};
    memcpy(none, g->done, sizeof none);
    memset(g->done, 0, sizeof g->done);
    assert_int_equal(issue(g, 0, NULL), status);
    expect_text(clq_error_detail(), said);
    memcpy(g->done, none, sizeof none);
}

typedef enum ending { NEVER_COMES, TURNS_NEGATIVE, ABORTED, ENDINGS } ending;

static void abort_soon(void *context) {
    nap(0.02);
    clq_group_abort(context);
}

/* Rank 1 waits for an event of the caller, while the other ranks are already in the collective. */
static void check_ending(rig *g, const clq_group_config *setting, ending how, unsigned turn) {
    cl_event waits[RANKS] = {NULL};
    cl_int error;
    clq_thread *thread = NULL;
    rig_begin(g, setting, how == NEVER_COMES ? deadline_s : 30);
    waits[1] = clCreateUserEvent(clq_device_context(g->all.devices[1]), &error);
    cl_ok(error);
    if (issue(g, turn, waits) != CLQ_OK) fail_msg("%s", clq_error_detail());
    double start = clq_now();
    if (how == TURNS_NEGATIVE) {
        nap(0.02);
        cl_ok(clSetUserEventStatus(waits[1], -77));
        expect_end(g, setting, start + grace_s, CLQ_ERROR_DEVICE, "rank 1");
    } else if (how == ABORTED) {
        assert_int_equal(clq_thread_start("aborter", abort_soon, g->group, &thread), CLQ_OK);
        expect_end(g, setting, start + grace_s, CLQ_ERROR_ABORTED, "aborted");
    } else {
        expect_end(g, setting, start + deadline_s + grace_s, CLQ_ERROR_TIMEOUT, "rank 1 on pocl");
    }
    clq_thread_join(thread);
    rig_end(g);
    if (how != TURNS_NEGATIVE) cl_ok(clSetUserEventStatus(waits[1], CL_COMPLETE)); /* too late */
    cl_ok(clReleaseEvent(waits[1]));
}

static void test_endings(void **state) {
    (void)state;
    for (size_t s = 0; s < (size_t)COMM_SETTINGS; s++) {
        rig g;
        rig_open(&g, &comm_settings[s], COUNT);
        for (unsigned how = 0; how < ENDINGS; how++)
            check_ending(&g, &comm_settings[s], (ending)how, (unsigned)s + how);
        rig_close(&g);
    }
}

static void abort_after(void *context) {
    const rig *g = context;
    nap(g->abort_after_s);
    clq_group_abort(g->group);
}

/* An abort at any time between the first and the last chunk. */
static void test_abort_at_any_time(void **state) {
    (void)state;
    enum { TIMES = 6 };
    for (size_t s = 0; s < (size_t)COMM_SETTINGS; s++) {
        rig g;
        rig_open(&g, &comm_settings[s], LARGE);
        for (unsigned i = 0; i < TIMES; i++) {
            clq_thread *thread;
            rig_begin(&g, &comm_settings[s], 30);
            g.abort_after_s = 3e-4 * i * i;
            assert_int_equal(clq_thread_start("aborter", abort_after, &g, &thread), CLQ_OK);
            double start = clq_now();
            clq_status status = issue(&g, i, NULL);
            assert_true(status == CLQ_OK || status == CLQ_ERROR_ABORTED);
            status = clq_group_wait(g.group);
            double took = clq_now() - start;
            clq_thread_join(thread);
            assert_true(status == CLQ_OK || status == CLQ_ERROR_ABORTED);
            assert_true(took < g.abort_after_s + grace_s);
            for (unsigned r = 0; r < RANKS; r++)
                if (g.done[r]) assert_true(state_of(g.done[r]) <= 0);
            assert_int_equal(clq_group_wait(g.group), CLQ_ERROR_ABORTED);
            rig_end(&g);
        }
        rig_close(&g);
    }
}

/* The n-th OpenCL call of a collective fails. If sticky, all later calls fail too. Returns how many calls there
 * were. */
static unsigned check_fault(rig *g, const clq_group_config *setting, unsigned turn, unsigned n, bool sticky) {
    const double seconds = 10;
    rig_begin(g, setting, seconds);
    double start = clq_now();
    (void)layer.arm(n, CL_OUT_OF_RESOURCES, sticky);
    clq_status status = issue(g, turn, NULL);
    bool issued = status == CLQ_OK;
    if (issued) status = clq_group_wait(g->group);
    unsigned calls = layer.arm(0, 0, false);
    char said[512] = "";
    if (status != CLQ_OK) (void)snprintf(said, sizeof said, "%s", clq_error_detail());
    assert_true(clq_now() - start < seconds + grace_s);
    assert_true(n != 0 || status == CLQ_OK);
    if (status != CLQ_OK) {
        /* A link that is opened in this call tests itself, and may report that its test failed. */
        bool untested = status == CLQ_ERROR_UNSUPPORTED && strstr(said, "peer copies failed their test");
        if (status != CLQ_ERROR_DEVICE && status != CLQ_ERROR_DEVICE_MEMORY && !untested)
            fail_msg("call %u of %u: %s: %s", n, calls, clq_status_text(status), said);
        expect_text(said, "pocl");
        if (issued) expect_text(said, "rank ");
    }
    for (unsigned r = 0; issued && r < RANKS; r++)
        if (state_of(g->done[r]) > 0)
            fail_msg("%s over %s: call %u failed (%s), and the event of rank %u is %d",
                     clq_algorithm_name(setting->algorithm), clq_transport_name(setting->transport), n, said, r,
                     state_of(g->done[r]));
    rig_end(g);
    return calls;
}

static void test_device_errors(void **state) {
    (void)state;
    enum { PLACES = 9 };
    for (size_t s = 0; s < (size_t)COMM_SETTINGS; s++) {
        rig g;
        unsigned failed = 0;
        rig_open(&g, &comm_settings[s], COUNT);
        unsigned turn = (unsigned)s, calls = check_fault(&g, &comm_settings[s], turn, 0, false);
        assert_true(calls > PLACES);
        for (unsigned i = 0; i < PLACES; i++)
            failed += check_fault(&g, &comm_settings[s], turn, 1 + i * (calls - 1) / PLACES, i % 2) > 0;
        assert_int_equal(failed, PLACES);
        rig_close(&g);
    }
}

/* Compiling takes longer than the deadline, both when the group is made and in the first call of a type. No rank counts
 * as late. */
static void test_slow_compiler(void **state) {
    (void)state;
    const double seconds = 0.6;
    const unsigned build_ms = 900;
    const clq_group_config setting = {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED};
    rig g;
    clq_slice slices[RANKS];
    rig_open(&g, &setting, COUNT);
    for (unsigned r = 0; r < RANKS; r++) slices[r] = (clq_slice){g.memory[r], 0};
    layer.slow(build_ms);
    rig_begin(&g, &setting, seconds);
    if (issue(&g, 0, NULL) != CLQ_OK || clq_group_wait(g.group) != CLQ_OK) fail_msg("%s", clq_error_detail());
    layer.slow(build_ms);
    if (clq_all_reduce(g.group, slices, slices, COUNT, CLQ_I32, CLQ_REDOP_MAX, NULL, NULL) != CLQ_OK)
        fail_msg("%s", clq_error_detail());
    rig_end(&g);
    rig_close(&g);
}

/* A group can be made and measured however short the deadline of its collectives is. */
static void test_measuring(void **state) {
    (void)state;
    const clq_group_config setting = {.transport = CLQ_TRANSPORT_STAGED};
    rig g;
    assert_int_equal(setenv("CLIQUE_CACHE_DIR", files_path("unmeasured"), 1), 0);
    rig_open(&g, &setting, COUNT);
    rig_begin(&g, &setting, 1e-5);
    rig_end(&g);
    rig_close(&g);
}

int main(void) {
    if (faults_load(&layer) != 0) {
        (void)fprintf(stderr, "the layer that makes OpenCL calls fail is missing: %s\n", dlerror());
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_endings), cmocka_unit_test(test_abort_at_any_time),
                                       cmocka_unit_test(test_device_errors), cmocka_unit_test(test_slow_compiler),
                                       cmocka_unit_test(test_measuring)};
    return cmocka_run_group_tests_name("comm/group_failure", tests, files_begin, files_end);
}
