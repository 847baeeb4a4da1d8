/* Uses of a group that callers may make beside the plain one: sub-buffers, memory objects that ranks share, queues and
 * events that the caller holds back, allocating and freeing memory meanwhile, and aborts at any moment. */
#include "comm/group/group.h"
#include "support/check.h"
#include "support/comm_cases.h"

#include <time.h>

enum { RANKS_MOST = 4, BYTES = 1 << 16 };

typedef struct rig {
    ranks all;
    clq_group *group;
    cl_mem memory[RANKS_MOST];
} rig;

static void rig_open(rig *g, const char *kinds, clq_group_config config) {
    *g = (rig){0};
    ranks_open(&g->all, kinds, false, &config);
    g->group = comm_case_group(&g->all, &config);
    for (unsigned r = 0; r < g->all.count; r++) {
        cl_int error;
        g->memory[r] = clCreateBuffer(clq_device_context(g->all.devices[r]), CL_MEM_READ_WRITE, BYTES, NULL, &error);
        cl_ok(error);
    }
}

static void rig_close(rig *g) {
    clq_group_destroy(g->group);
    for (unsigned r = 0; r < g->all.count; r++) clReleaseMemObject(g->memory[r]);
    ranks_close(&g->all);
}

static void put(const rig *g, unsigned rank, cl_mem memory, size_t offset, const void *from, size_t bytes) {
    cl_ok(clEnqueueWriteBuffer(clq_queue_handle(g->all.queues[rank]), memory, CL_TRUE, offset, bytes, from, 0, NULL,
                               NULL));
    cl_ok(clFinish(clq_queue_handle(g->all.queues[rank])));
}

static void get(const rig *g, unsigned rank, cl_mem memory, size_t offset, void *to, size_t bytes) {
    cl_ok(
        clEnqueueReadBuffer(clq_queue_handle(g->all.queues[rank]), memory, CL_TRUE, offset, bytes, to, 0, NULL, NULL));
}

static int32_t value_at(const rig *g, unsigned rank, cl_mem memory, size_t offset) {
    int32_t value;
    get(g, rank, memory, offset, &value, sizeof value);
    return value;
}

static clq_status sum(rig *g, const clq_slice *in, const clq_slice *out, const cl_event *waits, cl_event *done) {
    return clq_all_reduce(g->group, in, out, 1, CLQ_I32, CLQ_REDOP_SUM, waits, done);
}

/* Each rank's memory from an offset to its end. */
static void slices_at(const rig *g, size_t offset, clq_slice *out) {
    for (unsigned r = 0; r < g->all.count; r++) out[r] = (clq_slice){g->memory[r], offset};
}

static void release_all(cl_event *events, unsigned count) {
    for (unsigned i = 0; i < count; i++) clReleaseEvent(events[i]);
}

static const clq_group_config automatic, staged = {.transport = CLQ_TRANSPORT_STAGED};

/* Two ranks share one memory object. What one call writes for one rank, the next call reads for the other rank. */
static void test_shared_memory(void **state) {
    (void)state;
    for (int grouped = 0; grouped < 2; grouped++) {
        rig g;
        rig_open(&g, "b1b1", staged);
        cl_mem all = g.memory[0];
        const int32_t first = 1, second = 2;
        put(&g, 0, all, 0, &first, 4);
        put(&g, 0, all, 64, &second, 4);
        const clq_slice a_in[2] = {{all, 0}, {all, 64}}, a_out[2] = {{all, 128}, {all, 192}};
        const clq_slice b_in[2] = {{all, 192}, {all, 128}}, b_out[2] = {{all, 256}, {all, 320}};
        if (grouped) assert_ok(clq_group_start(g.group));
        assert_ok(sum(&g, a_in, a_out, NULL, NULL));
        assert_ok(sum(&g, b_in, b_out, NULL, NULL));
        if (grouped) assert_ok(clq_group_end(g.group));
        assert_int_equal(value_at(&g, 0, all, 128), 3);
        assert_int_equal(value_at(&g, 0, all, 320), 6);
        rig_close(&g);
    }
}

/* The group recognises sub-buffers of one memory object. A call may continue from the result of another call. A call
 * with overlapping slices is refused. */
static void test_sub_buffers(void **state) {
    (void)state;
    rig g;
    clq_slice whole[2], parts[2], behind[2];
    cl_mem part[2];
    rig_open(&g, "bb", staged);
    slices_at(&g, 4096, whole);
    slices_at(&g, 4100, behind);
    for (unsigned r = 0; r < 2; r++) {
        const int32_t five = 5;
        const cl_buffer_region region = {4096, 8192};
        cl_int error;
        part[r] = clCreateSubBuffer(g.memory[r], CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
        cl_ok(error);
        parts[r] = (clq_slice){part[r], 0};
        put(&g, r, g.memory[r], 4096, &five, 4);
    }
    assert_ok(clq_group_start(g.group));
    assert_ok(sum(&g, whole, whole, NULL, NULL));
    assert_ok(sum(&g, parts, parts, NULL, NULL));
    assert_ok(clq_group_end(g.group));
    assert_int_equal(value_at(&g, 1, g.memory[1], 4096), 20);
    assert_int_equal(clq_all_reduce(g.group, behind, parts, 100, CLQ_I32, CLQ_REDOP_SUM, NULL, NULL),
                     CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_all_reduce(g.group, whole, parts, 100, CLQ_I32, CLQ_REDOP_SUM, NULL, NULL),
                     CLQ_ERROR_ARGUMENT);
    for (unsigned r = 0; r < 2; r++) clReleaseMemObject(part[r]);
    rig_close(&g);
}

/* The group refuses memory that the host may not access, and goes on. */
static void test_private_memory(void **state) {
    (void)state;
    rig g;
    clq_slice slices[2];
    cl_int error;
    rig_open(&g, "pp", automatic);
    cl_mem hidden = clCreateBuffer(clq_device_context(g.all.devices[1]), CL_MEM_READ_WRITE | CL_MEM_HOST_NO_ACCESS,
                                   4096, NULL, &error);
    cl_ok(error);
    slices_at(&g, 0, slices);
    slices[1].memory = hidden;
    assert_int_equal(sum(&g, slices, slices, NULL, NULL), CLQ_ERROR_UNSUPPORTED);
    assert_non_null(strstr(clq_error_detail(), "rank 1"));
    slices[1].memory = g.memory[1];
    assert_ok(sum(&g, slices, slices, NULL, NULL));
    clReleaseMemObject(hidden);
    rig_close(&g);
}

/* A call on memory of the group, with a queue that the caller holds back, returns at once and waits. */
static void test_held_queue(void **state) {
    (void)state;
    static const char *const kinds[] = {"pp", "ii"};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++) {
        rig g;
        clq_slice slices[2];
        cl_event done[2];
        rig_open(&g, kinds[k], (clq_group_config){.deadline_s = 1});
        for (unsigned r = 0; r < 2; r++) {
            const int32_t seven = 7;
            slices[r].offset = 0;
            assert_ok(clq_group_alloc(g.group, r, BYTES, &slices[r].memory));
            put(&g, r, slices[r].memory, 0, &seven, 4);
        }
        cl_event gate = user_event(&g.all, 1);
        cl_ok(clEnqueueMarkerWithWaitList(clq_queue_handle(g.all.queues[1]), 1, &gate, NULL));
        assert_ok(sum(&g, slices, slices, NULL, done));
        assert_true(state_of(done[0]) > CL_COMPLETE);
        cl_ok(clSetUserEventStatus(gate, CL_COMPLETE));
        assert_ok(clq_group_wait(g.group));
        assert_int_equal(value_at(&g, 0, slices[0].memory, 0), 14);
        release_all(done, 2);
        clReleaseEvent(gate);
        rig_close(&g);
    }
}

/* One call waits for the events of another. On devices that run commands in the calling thread, both calls are done on
 * return. */
static void test_chained_events(void **state) {
    (void)state;
    rig g;
    clq_slice slices[2];
    cl_event first[2], second[2];
    rig_open(&g, "bb", automatic);
    slices_at(&g, 0, slices);
    assert_ok(sum(&g, slices, slices, NULL, first));
    assert_ok(sum(&g, slices, slices, first, second));
    for (unsigned r = 0; r < 2; r++) assert_int_equal(state_of(second[r]), CL_COMPLETE);
    release_all(first, 2);
    release_all(second, 2);
    rig_close(&g);
}

/* Two calls between start and end. The first blocks or asks for events, the second waits for events of the caller.
 * clq_group_end waits for a blocking first call, but not for the second. The caller's events delay no earlier call. */
static void test_held_call(void **state) {
    (void)state;
    for (int blocking = 0; blocking < 2; blocking++) {
        rig g;
        clq_slice first[2], second[2];
        cl_event waits[2], before[2], done[2];
        rig_open(&g, "pp", staged);
        slices_at(&g, 0, first);
        slices_at(&g, 4096, second);
        for (unsigned r = 0; r < 2; r++) {
            const int32_t three = 3;
            put(&g, r, g.memory[r], 0, &three, 4);
            waits[r] = user_event(&g.all, r);
        }
        assert_ok(clq_group_start(g.group));
        assert_ok(sum(&g, first, first, NULL, blocking ? NULL : before));
        assert_ok(sum(&g, second, second, waits, done));
        assert_ok(clq_group_end(g.group));
        if (!blocking) cl_ok(clWaitForEvents(1, &before[0]));
        assert_int_equal(value_at(&g, 0, g.memory[0], 0), 6);
        assert_true(state_of(done[0]) > CL_COMPLETE);
        for (unsigned r = 0; r < 2; r++) cl_ok(clSetUserEventStatus(waits[r], CL_COMPLETE));
        assert_ok(clq_group_wait(g.group));
        release_all(waits, 2);
        release_all(done, 2);
        if (!blocking) release_all(before, 2);
        rig_close(&g);
    }
}

/* Memory is allocated and freed while calls that do not use it are running or held back. */
static void test_memory_meanwhile(void **state) {
    (void)state;
    rig g;
    clq_slice slices[2];
    cl_event waits[2], done[2];
    cl_mem extra;
    rig_open(&g, "bb", automatic);
    slices_at(&g, 0, slices);
    for (unsigned r = 0; r < 2; r++) waits[r] = user_event(&g.all, r);
    assert_ok(clq_group_alloc(g.group, 0, 4096, &extra));
    assert_ok(sum(&g, slices, slices, waits, done));
    clq_group_free(g.group, extra);
    for (int i = 0; i < 50; i++) {
        assert_ok(clq_group_alloc(g.group, (unsigned)i % 2, 4096, &extra));
        if (i == 25)
            for (unsigned r = 0; r < 2; r++) cl_ok(clSetUserEventStatus(waits[r], CL_COMPLETE));
        clq_group_free(g.group, extra);
    }
    assert_ok(clq_group_wait(g.group));
    release_all(waits, 2);
    release_all(done, 2);
    rig_close(&g);
}

/* All ranks get the same bits, even for values (NaNs, zeros of both signs) whose result depends on the order of the
 * operands. */
static void test_same_bits_of_odd_values(void **state) {
    (void)state;
    static const char *const kinds[] = {"bb", "bbb", "bi"};
    static const uint32_t odd[4][4] = {{0x80000000, 0x7fc00001, 0xffc00001, 0x7f800000},
                                       {0x00000000, 0x7fc00002, 0x7fc00005, 0xff800000},
                                       {0x80000000, 0x7fc00003, 0x7fc00006, 0x7fc00007},
                                       {0x00000000, 0x7fc00004, 0x7fc00008, 0x00000000}};
    for (size_t k = 0; k < CLQ_COUNT_OF(kinds); k++)
        for (int algorithm = CLQ_ALGORITHM_AUTO; algorithm < CLQ_ALGORITHM_COUNT; algorithm++)
            for (int hosted = 0; hosted < 2; hosted++) {
                rig g;
                clq_slice slices[RANKS_MOST];
                if (algorithm == CLQ_ALGORITHM_DIRECT && !hosted) continue;
                rig_open(&g, kinds[k],
                         (clq_group_config){.algorithm = (clq_algorithm)algorithm,
                                            .transport = hosted ? CLQ_TRANSPORT_MAPPED : CLQ_TRANSPORT_STAGED});
                slices_at(&g, 0, slices);
                for (int op = 0; op < CLQ_REDOP_COUNT; op++) {
                    uint32_t first[4], other[4];
                    for (unsigned r = 0; r < g.all.count; r++) put(&g, r, g.memory[r], 0, odd[r], sizeof odd[r]);
                    assert_ok(clq_all_reduce(g.group, slices, slices, 4, CLQ_F32, (clq_redop)op, NULL, NULL));
                    get(&g, 0, g.memory[0], 0, first, sizeof first);
                    for (unsigned r = 1; r < g.all.count; r++) {
                        get(&g, r, g.memory[r], 0, other, sizeof other);
                        assert_memory_equal(first, other, sizeof first);
                    }
                }
                rig_close(&g);
            }
}

static void abort_later(void *context) {
    rig *g = context;
    const struct timespec soon = {.tv_nsec = 2000000};
    nanosleep(&soon, NULL);
    clq_group_abort(g->group);
}

/* An abort at any moment: if a call says that it is done, its result is complete. */
static void test_abort(void **state) {
    (void)state;
    enum { ROUNDS = 60, COUNT = 200000 };
    int32_t *values = clq_alloc(COUNT, sizeof *values);
    assert_non_null(values);
    for (int round = 0; round < ROUNDS; round++) {
        rig g;
        clq_slice slices[2];
        clq_thread *aborter;
        rig_open(&g, "bb", automatic);
        for (size_t i = 0; i < COUNT; i++) values[i] = 1;
        for (unsigned r = 0; r < 2; r++) {
            slices[r].offset = 0;
            assert_ok(clq_group_alloc(g.group, r, COUNT * sizeof *values, &slices[r].memory));
            put(&g, r, slices[r].memory, 0, values, COUNT * sizeof *values);
        }
        int32_t expected = 1;
        assert_ok(clq_thread_start("aborter", abort_later, &g, &aborter));
        for (;;) {
            cl_event done[2];
            if (clq_all_reduce(g.group, slices, slices, COUNT, CLQ_I32, CLQ_REDOP_SUM, NULL, done) != CLQ_OK) break;
            for (unsigned r = 0; r < 2; r++) (void)clWaitForEvents(1, &done[r]);
            bool all_done = state_of(done[0]) == CL_COMPLETE && state_of(done[1]) == CL_COMPLETE;
            release_all(done, 2);
            if (!all_done) break;
            expected = (int32_t)((uint32_t)expected * 2);
            get(&g, 1, slices[1].memory, 0, values, COUNT * sizeof *values);
            for (size_t i = 0; i < COUNT; i++) assert_int_equal(values[i], expected);
        }
        clq_thread_join(aborter);
        assert_int_equal(clq_group_wait(g.group), CLQ_ERROR_ABORTED);
        rig_close(&g);
    }
    clq_free(values);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared_memory),
                                       cmocka_unit_test(test_sub_buffers),
                                       cmocka_unit_test(test_private_memory),
                                       cmocka_unit_test(test_held_queue),
                                       cmocka_unit_test(test_chained_events),
                                       cmocka_unit_test(test_held_call),
                                       cmocka_unit_test(test_memory_meanwhile),
                                       cmocka_unit_test(test_same_bits_of_odd_values),
                                       cmocka_unit_test(test_abort)};
    return cmocka_run_group_tests_name("comm/callers", tests, NULL, NULL);
}
