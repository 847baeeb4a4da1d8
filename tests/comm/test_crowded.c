/* Imitates a machine so crowded that each yield lasts for the time slices of many other threads. A waiting thread must
 * not yield again and again, because during a yield it sees neither an abort nor the deadline. This program defines its
 * own sched_yield, which counts its calls. The test limits the number of calls, not the time they take. */
#include "comm/link/gate.h"
#include "support/comm_ranks.h"

#include <sched.h>
#include <time.h>

enum { YIELDS_MOST = 6, COUNT = 3000 };

static const struct timespec turns_of_others = {.tv_nsec = 20000000};
static _Thread_local unsigned yields;
static _Thread_local atomic_bool *set_by_yield; /* is set to true while this thread yields */

int sched_yield(void) {
    yields++;
    nanosleep(&turns_of_others, NULL);
    if (set_by_yield) atomic_store(set_by_yield, true);
    return 0;
}

static void gate_sees_an_abort(void **state) {
    (void)state;
    clq_gate gate;
    atomic_bool aborted = false;
    assert_int_equal(clq_gate_init(&gate), CLQ_OK);
    yields = 0;
    set_by_yield = &aborted;
    assert_int_equal(clq_gate_wait(&gate, 1, clq_now_running() + 60, &aborted), CLQ_ERROR_ABORTED);
    set_by_yield = NULL;
    assert_int_equal(yields, 1);
    clq_gate_end(&gate);
}

static void gate_sees_its_deadline(void **state) {
    (void)state;
    clq_gate gate;
    const atomic_bool aborted = false;
    assert_int_equal(clq_gate_init(&gate), CLQ_OK);
    yields = 0;
    assert_int_equal(clq_gate_wait(&gate, 1, clq_now_running() + 0.001, &aborted), CLQ_ERROR_TIMEOUT);
    assert_within(yields, 0, 1);
    clq_gate_raise(&gate, 2);
    assert_int_equal(clq_gate_wait(&gate, 2, 0, &aborted), CLQ_OK);
    clq_gate_end(&gate);
}

typedef struct plan {
    clq_buffer *buffers[CLQ_REPLICAS_MAX];
    unsigned yields[CLQ_REPLICAS_MAX];
} plan;

static clq_status act(ranks *all, unsigned rank, void *context) {
    plan *p = context;
    yields = 0;
    clq_status status = clq_comm_all_reduce(all->comm, rank, all->queues[rank], p->buffers[rank], 0, p->buffers[rank],
                                            0, COUNT, CLQ_F32);
    p->yields[rank] = yields;
    return status;
}

/* One rank's queue hangs. The rank stays in the collective as long as it may, and the other ranks wait for it to
 * leave. */
static void ranks_that_leave(void **state) {
    (void)state;
    ranks all;
    plan p = {0};
    clq_event *event;
    ranks_open(&all, "bbp", false, &(clq_group_config){.algorithm = CLQ_ALGORITHM_DIRECT, .deadline_s = 0.2});
    for (unsigned r = 0; r < all.count; r++)
        assert_int_equal(clq_buffer_create(all.devices[r], CLQ_MEMORY_DEVICE, COUNT * 4, "test", &p.buffers[r]),
                         CLQ_OK);
    assert_int_equal(clq_event_create(all.devices[2], &event), CLQ_OK);
    assert_int_equal(clq_queue_wait(all.queues[2], event), CLQ_OK);
    ranks_run(&all, act, &p);
    for (unsigned r = 0; r < all.count; r++) {
        assert_int_not_equal(all.results[r].status, CLQ_OK);
        assert_within(p.yields[r], 0, YIELDS_MOST);
    }
    assert_int_equal(clq_event_complete(event, true), CLQ_OK);
    clq_event_destroy(event);
    for (unsigned r = 0; r < all.count; r++) clq_buffer_destroy(p.buffers[r]);
    ranks_close(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gate_sees_an_abort),
        cmocka_unit_test(gate_sees_its_deadline),
        cmocka_unit_test(ranks_that_leave),
    };
    return cmocka_run_group_tests_name("comm/crowded", tests, NULL, NULL);
}
