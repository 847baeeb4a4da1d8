/* Calls that are issued together, between clq_group_start and clq_group_end. */
#include "comm/group/group.h"
#include "support/check.h"
#include "support/comm_cases.h"

enum { ELEMENTS = 1 << 18, RANKS_MOST = 4 };

/* A group, with a memory object on each rank and a host copy of its expected content. All values are whole numbers. */
typedef struct field {
    ranks all;
    clq_group *group;
    bool plain;
    cl_mem memory[RANKS_MOST];
    clq_buffer *wrapped[RANKS_MOST];
    int32_t *expected[RANKS_MOST];
} field;

static void field_open(field *f, const char *kinds, bool plain, clq_group_config config) {
    *f = (field){.plain = plain};
    ranks_open(&f->all, kinds, false, &config);
    f->group = comm_case_group(&f->all, &config);
    clq_random random = clq_random_start(7, 0);
    for (unsigned r = 0; r < f->all.count; r++) {
        f->expected[r] = clq_alloc(ELEMENTS, sizeof(int32_t));
        assert_non_null(f->expected[r]);
        for (size_t i = 0; i < ELEMENTS; i++) f->expected[r][i] = (int32_t)clq_random_below(&random, 1000);
        cl_int error = CL_SUCCESS;
        if (plain)
            f->memory[r] = clCreateBuffer(clq_device_context(f->all.devices[r]), CL_MEM_READ_WRITE,
                                          ELEMENTS * sizeof(int32_t), NULL, &error);
        else
            assert_ok(clq_group_alloc(f->group, r, ELEMENTS * sizeof(int32_t), &f->memory[r]));
        assert_int_equal(error, CL_SUCCESS);
        assert_ok(clq_buffer_wrap(f->all.devices[r], f->memory[r], &f->wrapped[r]));
        assert_ok(
            clq_queue_write(f->all.queues[r], f->wrapped[r], 0, f->expected[r], ELEMENTS * sizeof(int32_t), true));
        assert_ok(clq_queue_finish(f->all.queues[r]));
    }
}

static void field_check(const field *f, const char *what) {
    int32_t *found = clq_alloc(ELEMENTS, sizeof *found);
    assert_non_null(found);
    for (unsigned r = 0; r < f->all.count; r++) {
        assert_ok(clq_queue_read(f->all.queues[r], f->wrapped[r], 0, found, ELEMENTS * sizeof *found, true));
        for (size_t i = 0; i < ELEMENTS; i++)
            if (found[i] != f->expected[r][i])
                fail_msg("%s: rank %u, element %zu is %d and not %d", what, r, i, found[i], f->expected[r][i]);
    }
    clq_free(found);
}

static void field_close(field *f) {
    for (unsigned r = 0; r < f->all.count; r++) {
        clq_buffer_destroy(f->wrapped[r]);
        if (f->plain) clReleaseMemObject(f->memory[r]);
        clq_free(f->expected[r]);
    }
    clq_group_destroy(f->group);
    ranks_close(&f->all);
}

/* Does to the expected copies what the call does to the memory. */
static void expect_reduced(field *f, size_t in, size_t out, size_t count, clq_redop op) {
    for (size_t i = 0; i < count; i++) {
        int32_t value = f->expected[0][in + i];
        for (unsigned r = 1; r < f->all.count; r++) {
            int32_t other = f->expected[r][in + i];
            value = op == CLQ_REDOP_SUM ? (int32_t)((uint32_t)value + (uint32_t)other) : CLQ_MAX(value, other);
        }
        for (unsigned r = 0; r < f->all.count; r++) f->expected[r][out + i] = value;
    }
}

static clq_status reduce(field *f, size_t in, size_t out, size_t count, clq_redop op, const cl_event *waits,
                         cl_event *done) {
    clq_slice from[RANKS_MOST], to[RANKS_MOST];
    for (unsigned r = 0; r < f->all.count; r++) {
        from[r] = (clq_slice){f->memory[r], in * sizeof(int32_t)};
        to[r] = (clq_slice){f->memory[r], out * sizeof(int32_t)};
    }
    return clq_all_reduce(f->group, from, to, count, CLQ_I32, op, waits, done);
}

static const clq_group_config automatic, staged = {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 4096};
static const struct {
    const char *kinds;
    bool plain;
    const clq_group_config *config;
} fields[] = {{"bb", false, &automatic},
              {"bb", true, &automatic},
              {"p", false, &automatic},
              {"bib", true, &staged},
              {"pi", false, &staged}};

/* Any mixture of sizes, operations and places gives the same result as the calls one by one, even if later calls use
 * results of earlier calls. */
static void test_as_one_by_one(void **state) {
    (void)state;
    clq_random random = clq_random_start(11, 0);
    for (size_t c = 0; c < CLQ_COUNT_OF(fields); c++) {
        field f;
        clq_group_config config = *fields[c].config;
        config.bucket_bytes = c % 2 ? 0 : 20000;
        field_open(&f, fields[c].kinds, fields[c].plain, config);
        for (int round = 0; round < 4; round++) {
            assert_ok(clq_group_start(f.group));
            for (int i = 0; i < 40; i++) {
                size_t count = clq_random_below(&random, i % 9 == 8 ? 40000 : 1500);
                bool in_place = clq_random_below(&random, 2) == 0;
                size_t in = clq_random_below(&random, ELEMENTS / 2 - count);
                size_t out = in_place ? in : ELEMENTS / 2 + clq_random_below(&random, ELEMENTS / 2 - count);
                if (!in_place && i % 3 == 0) { /* back again: uses results of other calls */
                    size_t other = in;
                    in = out;
                    out = other;
                }
                clq_redop op = clq_random_below(&random, 4) == 0 ? CLQ_REDOP_MAX : CLQ_REDOP_SUM;
                assert_ok(reduce(&f, in, out, count, op, NULL, NULL));
                expect_reduced(&f, in, out, count, op);
            }
            assert_ok(clq_group_end(f.group));
            field_check(&f, fields[c].kinds);
        }
        field_close(&f);
    }
}

static size_t meetings_of(field *f, size_t bucket_bytes, unsigned calls) {
    clq_group_config config = staged;
    config.bucket_bytes = bucket_bytes;
    field_open(f, "bb", false, config);
    size_t before = atomic_load(&f->group->comm->members[0].meetings);
    assert_ok(clq_group_start(f->group));
    for (unsigned i = 0; i < calls; i++) {
        assert_ok(reduce(f, i * 1000, i * 1000, 10 + i, CLQ_REDOP_SUM, NULL, NULL));
        expect_reduced(f, i * 1000, i * 1000, 10 + i, CLQ_REDOP_SUM);
    }
    assert_ok(clq_group_end(f->group));
    field_check(f, "meetings");
    size_t after = atomic_load(&f->group->comm->members[0].meetings);
    field_close(f);
    return after - before;
}

/* Twenty messages travel as one. With a bucket too small for all, they travel as two, and without buckets each by
 * itself. */
static void test_travel_together(void **state) {
    (void)state;
    field f;
    size_t each = meetings_of(&f, 1, 20), once = meetings_of(&f, 0, 20), twice = meetings_of(&f, 20 * 128 / 2, 20);
    assert_int_equal(each, 20 * once);
    assert_int_equal(twice, 2 * once);
}

/* Calls that ask for events. One call waits for an event of the caller, another waits for a call of the same group. */
static void test_events(void **state) {
    (void)state;
    for (size_t c = 0; c < CLQ_COUNT_OF(fields); c++) {
        field f;
        cl_event done[4][RANKS_MOST], waits[RANKS_MOST] = {NULL};
        cl_int error;
        field_open(&f, fields[c].kinds, fields[c].plain, *fields[c].config);
        cl_event gate = clCreateUserEvent(clq_device_context(f.all.devices[0]), &error);
        assert_int_equal(error, CL_SUCCESS);
        waits[0] = gate;
        assert_ok(clq_group_start(f.group));
        assert_ok(reduce(&f, 0, 0, 100, CLQ_REDOP_SUM, NULL, done[0]));
        assert_ok(reduce(&f, 500, 500, 100, CLQ_REDOP_SUM, waits, done[1]));
        assert_ok(reduce(&f, 1000, 1000, 100, CLQ_REDOP_SUM, done[0], done[2]));
        assert_ok(reduce(&f, 1500, 1500, 100, CLQ_REDOP_SUM, NULL, done[3]));
        for (unsigned r = 0; r < f.all.count; r++) assert_true(state_of(done[3][r]) > CL_COMPLETE);
        assert_ok(clq_group_end(f.group));
        assert_int_equal(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
        for (int i = 0; i < 4; i++) {
            expect_reduced(&f, (size_t)i * 500, (size_t)i * 500, 100, CLQ_REDOP_SUM);
            for (unsigned r = 0; r < f.all.count; r++) {
                assert_int_equal(clWaitForEvents(1, &done[i][r]), CL_SUCCESS);
                clReleaseEvent(done[i][r]);
            }
        }
        field_check(&f, "events");
        clReleaseEvent(gate);
        field_close(&f);
    }
}

/* If an event turns negative, the group ends: all calls that travel with the waiting call fail, and so do all later
 * calls. */
static void test_failed_event(void **state) {
    (void)state;
    for (size_t c = 0; c < CLQ_COUNT_OF(fields); c++) {
        field f;
        cl_event done[3][RANKS_MOST], waits[RANKS_MOST] = {NULL};
        cl_int error;
        field_open(&f, fields[c].kinds, fields[c].plain, *fields[c].config);
        unsigned last = f.all.count - 1;
        waits[last] = clCreateUserEvent(clq_device_context(f.all.devices[last]), &error);
        assert_int_equal(error, CL_SUCCESS);
        assert_ok(clq_group_start(f.group));
        assert_ok(reduce(&f, 0, 0, 100, CLQ_REDOP_SUM, waits, done[0]));
        assert_ok(reduce(&f, 500, 500, 100, CLQ_REDOP_SUM, NULL, done[1]));
        assert_ok(reduce(&f, 0, 0, 100, CLQ_REDOP_SUM, NULL, done[2]));
        assert_ok(clq_group_end(f.group));
        assert_int_equal(clSetUserEventStatus(waits[last], -77), CL_SUCCESS);
        assert_int_equal(clq_group_wait(f.group), CLQ_ERROR_DEVICE);
        if (!strstr(clq_error_detail(), "what the collective waits for")) fail_msg("\"%s\"", clq_error_detail());
        for (int i = 0; i < 3; i++)
            for (unsigned r = 0; r < f.all.count; r++) {
                assert_true(state_of(done[i][r]) < 0);
                clReleaseEvent(done[i][r]);
            }
        assert_ok(clq_group_start(f.group));
        assert_int_equal(reduce(&f, 0, 0, 100, CLQ_REDOP_SUM, NULL, NULL), CLQ_ERROR_DEVICE);
        assert_int_equal(clq_group_end(f.group), CLQ_ERROR_DEVICE);
        clReleaseEvent(waits[last]);
        field_close(&f);
    }
}

static void test_misuse(void **state) {
    (void)state;
    field f;
    cl_event done[RANKS_MOST];
    field_open(&f, "bb", false, staged);
    assert_int_equal(clq_group_end(f.group), CLQ_ERROR_STATE);
    assert_ok(clq_group_start(f.group));
    assert_int_equal(clq_group_start(f.group), CLQ_ERROR_STATE);
    assert_int_equal(clq_group_wait(f.group), CLQ_ERROR_STATE);
    /* A refused call is not noted. The other calls are. */
    assert_ok(reduce(&f, 0, 0, 100, CLQ_REDOP_SUM, NULL, NULL));
    assert_int_equal(reduce(&f, ELEMENTS - 5, 0, 100, CLQ_REDOP_SUM, NULL, NULL), CLQ_ERROR_ARGUMENT);
    assert_ok(reduce(&f, 200, 200, 100, CLQ_REDOP_SUM, NULL, NULL));
    assert_ok(clq_group_end(f.group));
    expect_reduced(&f, 0, 0, 100, CLQ_REDOP_SUM);
    expect_reduced(&f, 200, 200, 100, CLQ_REDOP_SUM);
    field_check(&f, "misuse");
    assert_ok(clq_group_start(f.group));
    assert_ok(clq_group_end(f.group)); /* without a call */
    /* Memory that a noted call uses is freed only after the call. */
    cl_mem extra;
    assert_ok(clq_group_alloc(f.group, 0, 4096, &extra));
    assert_ok(clq_group_start(f.group));
    const clq_slice from[2] = {{extra, 0}, {f.memory[1], 4096}}, to[2] = {{f.memory[0], 0}, {f.memory[1], 0}};
    assert_ok(clq_all_reduce(f.group, from, to, 16, CLQ_I32, CLQ_REDOP_SUM, NULL, NULL));
    clq_group_free(f.group, extra);
    assert_ok(clq_group_end(f.group));
    for (unsigned r = 0; r < 2; r++) memcpy(f.expected[r], f.expected[1] + 1024, 16 * sizeof(int32_t));
    field_check(&f, "freed");
    /* If a group is destroyed before its calls are issued, their events still complete. */
    assert_ok(clq_group_start(f.group));
    assert_ok(reduce(&f, 0, 0, 100, CLQ_REDOP_SUM, NULL, done));
    clq_group_destroy(f.group);
    f.group = NULL;
    for (unsigned r = 0; r < 2; r++) {
        assert_true(state_of(done[r]) < 0);
        clReleaseEvent(done[r]);
    }
    field_close(&f);
    const clq_group_config too_large = {.bucket_bytes = (size_t)-1};
    ranks all;
    clq_comm *comm = NULL;
    ranks_open(&all, "bb", false, NULL);
    assert_int_equal(clq_comm_create(all.devices, 2, &too_large, &comm), CLQ_ERROR_ARGUMENT);
    ranks_close(&all);
}

/* An allocation fails: every event completes, each call is done as a whole or not begun, and the group goes on. */
static void test_allocation_failures(void **state) {
    (void)state;
    field f;
    clq_status status = CLQ_ERROR_MEMORY;
    field_open(&f, "bb", false, staged);
    for (uint64_t nth = 1; status != CLQ_OK; nth++) {
        cl_event done[3][RANKS_MOST];
        assert_true(nth < 2000);
        assert_ok(clq_group_start(f.group));
        for (size_t i = 0; i < 3; i++) assert_ok(reduce(&f, i * 500, i * 500, 100, CLQ_REDOP_SUM, NULL, done[i]));
        clq_memory_fail_at(nth, false);
        status = clq_group_end(f.group);
        clq_memory_fail_at(0, false);
        clq_error why;
        bool ended = clq_comm_failure(f.group->comm, &why) != CLQ_OK;
        for (size_t i = 0; i < 3; i++)
            for (unsigned r = 0; r < 2; r++) {
                cl_int found = state_of(done[i][r]);
                assert_true(found == CL_COMPLETE || found < 0);
                if (status == CLQ_OK && !ended) assert_int_equal(found, CL_COMPLETE);
                clReleaseEvent(done[i][r]);
            }
        if (status != CLQ_OK) assert_int_equal(status, CLQ_ERROR_MEMORY);
        if (!ended) continue;
        assert_int_equal(why.status, CLQ_ERROR_MEMORY); /* a rank's thread failed, so the group is over */
        field_close(&f);
        field_open(&f, "bb", false, staged);
        status = CLQ_ERROR_MEMORY;
    }
    field_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_one_by_one), cmocka_unit_test(test_travel_together),
        cmocka_unit_test(test_events),        cmocka_unit_test(test_failed_event),
        cmocka_unit_test(test_misuse),        cmocka_unit_test(test_allocation_failures)};
    return cmocka_run_group_tests_name("comm/grouping", tests, NULL, NULL);
}
