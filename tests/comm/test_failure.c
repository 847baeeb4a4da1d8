/* If one rank fails, the collective ends soon on all ranks, and the error says which rank failed, where, and how. */
#include "support/check.h"
#include "support/comm_ranks.h"

#include <time.h>

enum { COUNT = 5000 };

typedef struct plan {
    clq_buffer *buffers[CLQ_REPLICAS_MAX];
    size_t offset[CLQ_REPLICAS_MAX], count[CLQ_REPLICAS_MAX];
    unsigned absent; /* a rank that does not come; CLQ_REPLICAS_MAX: every rank comes */
    bool broadcasts[CLQ_REPLICAS_MAX];
    double seconds[CLQ_REPLICAS_MAX];
} plan;

static clq_status act(ranks *all, unsigned rank, void *context) {
    plan *p = context;
    double start = clq_now();
    clq_status status = CLQ_OK;
    if (rank == p->absent) return CLQ_OK;
    if (p->broadcasts[rank])
        status = clq_comm_broadcast(all->comm, rank, all->queues[rank], p->buffers[rank], 0, p->count[rank], 0);
    else
        status = clq_comm_all_reduce(all->comm, rank, all->queues[rank], p->buffers[rank], p->offset[rank],
                                     p->buffers[rank], p->offset[rank], p->count[rank], CLQ_F32);
    p->seconds[rank] = clq_now() - start;
    return status;
}

static void start(ranks *all, const char *kinds, clq_group_config config, plan *p) {
    ranks_open(all, kinds, false, &config);
    *p = (plan){.absent = CLQ_REPLICAS_MAX};
    for (unsigned r = 0; r < all->count; r++) {
        p->count[r] = COUNT;
        assert_int_equal(clq_buffer_create(all->devices[r], CLQ_MEMORY_DEVICE, COUNT * 4, "test", &p->buffers[r]),
                         CLQ_OK);
    }
}

static void end(ranks *all, plan *p) {
    for (unsigned r = 0; r < all->count; r++) clq_buffer_destroy(p->buffers[r]);
    ranks_close(all);
}

/* Checks that `first` failed with `status`, and that all other ranks were told so. */
static void expect_failure(const ranks *all, const plan *p, unsigned first, clq_status status, const char *part,
                           double limit_s) {
    for (unsigned r = 0; r < all->count; r++) {
        if (r == p->absent) continue;
        const clq_error *result = &all->results[r];
        assert_int_equal(result->status, r == first ? status : CLQ_ERROR_ABORTED);
        expect_text(result->detail, part);
        assert_true(p->seconds[r] < limit_s);
    }
    clq_error failure;
    assert_int_equal(clq_comm_failure(all->comm, &failure), status);
    expect_text(failure.detail, part);
}

static unsigned who_has(const ranks *all, clq_status status) {
    for (unsigned r = 0; r < all->count; r++)
        if (all->results[r].status == status) return r;
    fail_msg("no rank says %s", clq_status_text(status));
    return 0;
}

static const clq_group_config direct_1s = {.algorithm = CLQ_ALGORITHM_DIRECT, .deadline_s = 1};
static const clq_group_config ring_1s = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 256, .deadline_s = 1};
static const clq_group_config hosted_ring_1s = {
    .algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_MAPPED, .chunk_bytes = 256, .deadline_s = 1};

static void check_absent(clq_group_config config) {
    ranks all;
    plan p;
    start(&all, "bbb", config, &p);
    p.absent = 1;
    ranks_run(&all, act, &p);
    expect_failure(&all, &p, who_has(&all, CLQ_ERROR_TIMEOUT), CLQ_ERROR_TIMEOUT, "rank 1 on pocl:1", 2);
    /* Later calls fail at once, also on the late rank. */
    p.absent = CLQ_REPLICAS_MAX;
    ranks_run(&all, act, &p);
    for (unsigned r = 0; r < all.count; r++) {
        assert_int_equal(all.results[r].status, CLQ_ERROR_ABORTED);
        assert_true(p.seconds[r] < 0.9);
    }
    end(&all, &p);
}

static void test_absent_rank(void **state) {
    (void)state;
    check_absent(direct_1s);
    check_absent(ring_1s);
    check_absent(hosted_ring_1s);
}

static void test_bad_range(void **state) {
    (void)state;
    ranks all;
    plan p;
    start(&all, "bbb", ring_1s, &p);
    p.offset[2] = 8;
    ranks_run(&all, act, &p);
    expect_failure(&all, &p, 2, CLQ_ERROR_INTERNAL, "rank 2, all-reduce, on pocl:2", 1);
    end(&all, &p);

    start(&all, "bb", direct_1s, &p);
    p.offset[1] = 6;
    p.count[0] = p.count[1] = 3;
    ranks_run(&all, act, &p);
    expect_failure(&all, &p, 1, CLQ_ERROR_INTERNAL, "offset 6 is no multiple", 1);
    end(&all, &p);

    start(&all, "bb", direct_1s, &p);
    p.count[0] = (size_t)-1 / 2;
    ranks_run(&all, act, &p);
    expect_failure(&all, &p, 0, CLQ_ERROR_INTERNAL, "more than can be addressed", 1);
    end(&all, &p);
}

static void test_disagreement(void **state) {
    (void)state;
    ranks all;
    plan p;
    for (int kind = 0; kind < 2; kind++) {
        start(&all, "bbb", kind ? direct_1s : ring_1s, &p);
        if (kind)
            p.broadcasts[1] = true;
        else
            p.count[1] = COUNT - 1;
        ranks_run(&all, act, &p);
        expect_failure(&all, &p, who_has(&all, CLQ_ERROR_INTERNAL), CLQ_ERROR_INTERNAL, "collective mismatch: rank ",
                       1);
        end(&all, &p);
    }
}

/* A device fails in the middle of a collective: the buffer belongs to another context, and only the transfer
 * notices. */
static void test_device_error_in_the_ring(void **state) {
    (void)state;
    ranks all;
    plan p;
    start(&all, "bbb", ring_1s, &p);
    clq_buffer *mine = p.buffers[1];
    p.buffers[1] = p.buffers[2];
    ranks_run(&all, act, &p);
    expect_failure(&all, &p, 1, CLQ_ERROR_DEVICE, "rank 1, all-reduce step 1 chunk 0: pocl:1", 2);
    expect_text(all.results[0].detail, "step 1 chunk 0");
    p.buffers[1] = mine;
    end(&all, &p);
}

/* Work before the collective never ends. The other ranks return, and so does this rank. */
static void check_queue_that_hangs(const char *kinds) {
    ranks all;
    plan p;
    clq_event *event;
    start(&all, kinds, (clq_group_config){.deadline_s = 0.5}, &p);
    assert_int_equal(clq_event_create(all.devices[1], &event), CLQ_OK);
    assert_int_equal(clq_queue_wait(all.queues[1], event), CLQ_OK);
    ranks_run(&all, act, &p);
    unsigned first = who_has(&all, CLQ_ERROR_TIMEOUT);
    for (unsigned r = 0; r < all.count; r++) {
        assert_int_equal(all.results[r].status, r == first ? CLQ_ERROR_TIMEOUT : CLQ_ERROR_ABORTED);
        assert_true(p.seconds[r] < 1.5);
    }
    expect_text(all.results[first].detail, "rank 1"); /* reported by rank 1, or by another about rank 1 */
    expect_text(all.results[first].detail, "pocl:5");
    assert_int_equal(clq_event_complete(event, true), CLQ_OK);
    clq_event_destroy(event);
    end(&all, &p);
}

static void test_queue_that_hangs(void **state) {
    (void)state;
    check_queue_that_hangs("bp");
    check_queue_that_hangs("bpi");
}

typedef struct aborter {
    clq_comm *comm;
    const clq_error *why;
} aborter;

static void abort_soon(void *context) {
    aborter *a = context;
    struct timespec soon = {.tv_nsec = 50000000};
    nanosleep(&soon, NULL);
    clq_comm_abort(a->comm, a->why);
}

static void test_abort_from_outside(void **state) {
    (void)state;
    const clq_error why = {CLQ_ERROR_INTERRUPTED, "the user pressed the key"};
    for (int named = 0; named < 2; named++) {
        ranks all;
        plan p;
        clq_thread *thread;
        start(&all, "bbb", (clq_group_config){0}, &p);
        p.absent = 0;
        aborter a = {all.comm, named ? &why : NULL};
        assert_int_equal(clq_thread_start("aborter", abort_soon, &a, &thread), CLQ_OK);
        ranks_run(&all, act, &p);
        clq_thread_join(thread);
        for (unsigned r = 1; r < all.count; r++) {
            assert_int_equal(all.results[r].status, CLQ_ERROR_ABORTED);
            expect_text(all.results[r].detail, named ? "pressed the key" : "aborted by its owner");
            assert_true(p.seconds[r] < 1);
        }
        assert_int_equal(clq_comm_failure(all.comm, NULL), named ? CLQ_ERROR_INTERRUPTED : CLQ_ERROR_ABORTED);
        end(&all, &p);
    }
}

/* Invalid configurations. */
static void test_bad_configurations(void **state) {
    (void)state;
    ranks all;
    clq_comm *comm = NULL;
    ranks_open(&all, "bb", false, NULL);
    const struct {
        clq_group_config config;
        clq_status status;
        const char *words;
    } cases[] = {
        {{.transport = CLQ_TRANSPORT_PEER}, CLQ_ERROR_UNSUPPORTED, "no peer copies"},
        {{.algorithm = CLQ_ALGORITHM_DIRECT, .transport = CLQ_TRANSPORT_STAGED},
         CLQ_ERROR_UNSUPPORTED,
         "auto or mapped"},
        {{.algorithm = CLQ_ALGORITHM_DIRECT, .transport = CLQ_TRANSPORT_PEER}, CLQ_ERROR_UNSUPPORTED, "auto or mapped"},
        {{.algorithm = (clq_algorithm)77}, CLQ_ERROR_ARGUMENT, "algorithm 77 is none"},
        {{.transport = (clq_transport)77}, CLQ_ERROR_ARGUMENT, "transport 77 none"},
        {{.slots = 1000}, CLQ_ERROR_ARGUMENT, "slots is 1000"},
        {{.chunk_bytes = (size_t)1 << 40}, CLQ_ERROR_ARGUMENT, "chunk_bytes 1099511627776"},
        {{.deadline_s = -1}, CLQ_ERROR_ARGUMENT, "deadline_s is -1: expected seconds from 0 to 1e9"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        assert_int_equal(clq_comm_create(all.devices, 2, &cases[i].config, &comm), cases[i].status);
        assert_null(comm);
        if (!strstr(clq_error_detail(), cases[i].words)) fail_msg("no \"%s\": %s", cases[i].words, clq_error_detail());
    }
    assert_int_equal(clq_comm_create(all.devices, 0, NULL, &comm), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_comm_create(all.devices, CLQ_REPLICAS_MAX + 1, NULL, &comm), CLQ_ERROR_ARGUMENT);
    assert_int_equal(clq_comm_all_reduce(all.comm, 2, all.queues[0], NULL, 0, NULL, 0, 1, CLQ_F32), CLQ_ERROR_INTERNAL);
    clq_comm_destroy(NULL);
    ranks_close(&all);
}

/* Each allocation of making a communicator fails once. Nothing leaks, and nothing is left half made. Measuring the
 * costs of the algorithms makes thousands of allocations. So beyond the first 128 the test fails only some of them. */
static void test_allocation_failures(void **state) {
    (void)state;
    const clq_group_config configs[] = {{0},
                                        {.transport = CLQ_TRANSPORT_STAGED, .chunk_bytes = 256},
                                        {.transport = CLQ_TRANSPORT_PEER, .chunk_bytes = 256}};
    for (size_t c = 0; c < CLQ_COUNT_OF(configs); c++) {
        ranks all;
        ranks_open(&all, "bb", true, NULL);
        clq_status status = CLQ_ERROR_MEMORY;
        for (uint64_t nth = 1; status != CLQ_OK; nth += 1 + nth / 128 * 32) {
            clq_comm *comm = NULL;
            clq_memory_fail_at(nth, false);
            status = clq_comm_create(all.devices, 2, &configs[c], &comm);
            clq_memory_fail_at(0, false);
            assert_true(nth < 1000000);
            assert_true(status == CLQ_OK || (status == CLQ_ERROR_MEMORY && comm == NULL));
            clq_comm_destroy(comm);
        }
        ranks_close(&all);
    }
}

/* Each allocation of a run of the ring fails once: all ranks return, and one of them says why. */
static void test_allocation_failures_in_a_ring(void **state) {
    (void)state;
    bool succeeded = false;
    for (uint64_t nth = 1; !succeeded; nth += 3) {
        ranks all;
        plan p;
        start(&all, "bb", (clq_group_config){.algorithm = CLQ_ALGORITHM_RING, .chunk_bytes = 4096, .deadline_s = 5},
              &p);
        assert_int_equal(clq_memory_fail_at(0, false) > 0, true);
        clq_memory_fail_at(nth + 4, false); /* skips the allocations that start the threads */
        ranks_run(&all, act, &p);
        clq_memory_fail_at(0, false);
        clq_status first = clq_comm_failure(all.comm, NULL);
        assert_true(first == CLQ_OK || first == CLQ_ERROR_MEMORY);
        succeeded = first == CLQ_OK;
        for (unsigned r = 0; r < all.count; r++) {
            clq_status status = all.results[r].status;
            assert_true(succeeded ? status == CLQ_OK : status == CLQ_ERROR_MEMORY || status == CLQ_ERROR_ABORTED);
        }
        assert_true(nth < 1000);
        end(&all, &p);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_rank),
        cmocka_unit_test(test_bad_range),
        cmocka_unit_test(test_disagreement),
        cmocka_unit_test(test_device_error_in_the_ring),
        cmocka_unit_test(test_queue_that_hangs),
        cmocka_unit_test(test_abort_from_outside),
        cmocka_unit_test(test_bad_configurations),
        cmocka_unit_test(test_allocation_failures),
        cmocka_unit_test(test_allocation_failures_in_a_ring),
    };
    return cmocka_run_group_tests_name("comm/failure", tests, NULL, NULL);
}
