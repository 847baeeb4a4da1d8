/* A process is stopped for longer than the deadline. A thread that waits goes on waiting as if nothing had happened: in
 * a barrier, at a gate, for an event, and in collectives of each kind. A rank that really does not come still counts as
 * late (comm/failure). */
#include "comm/link/gate.h"
#include "support/comm_ranks.h"
#include "support/stop.h"

static const double deadline_s = 1, stopped_s = 1.6;
enum { COUNT = 5000 };

/* What each thread waits for, and how its wait ended. */
typedef struct waits {
    clq_barrier *barrier;
    clq_gate gate;
    atomic_bool aborted;
    clq_event *event;
    clq_status barrier_ended, gate_ended, event_ended;
} waits;

static void wait_in_barrier(void *context) {
    waits *w = context;
    w->barrier_ended = clq_barrier_wait(w->barrier, deadline_s);
}
static void wait_at_gate(void *context) {
    waits *w = context;
    w->gate_ended = clq_gate_wait(&w->gate, 1, clq_now_running() + deadline_s, &w->aborted);
}
static void wait_for_event(void *context) {
    waits *w = context;
    w->event_ended = clq_event_wait_until(w->event, clq_now_running() + deadline_s, &w->aborted);
}

static void each_wait_goes_on(void **state) {
    (void)state;
    void (*bodies[])(void *) = {wait_in_barrier, wait_at_gate, wait_for_event};
    clq_thread *threads[CLQ_COUNT_OF(bodies)];
    ranks all;
    waits w = {.barrier_ended = CLQ_ERROR_STATE, .gate_ended = CLQ_ERROR_STATE, .event_ended = CLQ_ERROR_STATE};
    ranks_open(&all, "b", false, NULL);
    assert_ok(clq_barrier_create(2, &w.barrier));
    assert_ok(clq_gate_init(&w.gate));
    assert_ok(clq_event_create(all.devices[0], &w.event));
    for (size_t i = 0; i < CLQ_COUNT_OF(bodies); i++) assert_ok(clq_thread_start("waiter", bodies[i], &w, &threads[i]));
    nap(0.1);
    stop_process(stopped_s);
    nap(0.1); /* a thread that takes the stop for the end of its deadline would report so now */
    assert_ok(clq_barrier_wait(w.barrier, deadline_s));
    clq_gate_raise(&w.gate, 1);
    assert_ok(clq_event_complete(w.event, true));
    for (size_t i = 0; i < CLQ_COUNT_OF(bodies); i++) clq_thread_join(threads[i]);
    assert_int_equal(w.barrier_ended, CLQ_OK);
    assert_int_equal(w.gate_ended, CLQ_OK);
    assert_int_equal(w.event_ended, CLQ_OK);
    clq_event_destroy(w.event);
    clq_gate_end(&w.gate);
    clq_barrier_destroy(w.barrier);
    ranks_close(&all);
}

static clq_status come(ranks *all, unsigned rank, void *context) {
    clq_buffer **buffers = context;
    if (rank == 1) { /* the other ranks wait for rank 1 */
        nap(0.1);
        stop_process(stopped_s);
        nap(0.1);
    }
    return clq_comm_all_reduce(all->comm, rank, all->queues[rank], buffers[rank], 0, buffers[rank], 0, COUNT, CLQ_F32);
}

static void collectives_go_on(void **state) {
    (void)state;
    const struct {
        const char *kinds;
        clq_group_config config;
    } cases[] = {
        {"bbb", {.algorithm = CLQ_ALGORITHM_DIRECT, .deadline_s = deadline_s}},
        {"bbp", {.algorithm = CLQ_ALGORITHM_RING, .transport = CLQ_TRANSPORT_STAGED, .deadline_s = deadline_s}}};
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        ranks all;
        clq_buffer *buffers[CLQ_REPLICAS_MAX];
        ranks_open(&all, cases[i].kinds, false, &cases[i].config);
        for (unsigned r = 0; r < all.count; r++)
            assert_ok(clq_buffer_create(all.devices[r], CLQ_MEMORY_DEVICE, COUNT * sizeof(float), "test", &buffers[r]));
        ranks_run(&all, come, buffers);
        ranks_expect_ok(&all);
        for (unsigned r = 0; r < all.count; r++) clq_buffer_destroy(buffers[r]);
        ranks_close(&all);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_wait_goes_on),
        cmocka_unit_test(collectives_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
