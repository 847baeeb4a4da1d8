/* Launch lists with an order. The first launch waits for the order's event, and the event that comes back is that of
 * the last launch. This holds for kernels, fused runs of kernels, library calls, and kernels with no work. */
#include "device/fixture.h"
#include "launch/launch.h"
#include "support/check.h"

#include <unistd.h>

enum { FLOATS = 203, CAPACITY = 4, LAUNCHES = 3, SECONDS_MOST = 120 };
typedef enum what { KERNEL, CALL, NO_WORK } what;

static clq_event *gate; /* what the queue waits for in the middle */

static clq_status copy(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    (void)context, (void)count;
    return clq_queue_copy(queue, buffers[0], 0, buffers[1], 0, FLOATS * sizeof(float));
}

static clq_status wait_at_gate(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    (void)context, (void)count, (void)buffers;
    return clq_queue_wait(queue, gate);
}

/* to -= rate * from, or to = from, or nothing. */
static void add_launch(clq_list *list, what kind, clq_value to, clq_value from) {
    const int lanes = (int)clq_device_vector(clq_list_device(list));
    if (kind == CALL) {
        clq_launch_value(list, from, CLQ_READS);
        clq_launch_value(list, to, CLQ_WRITES);
        clq_launch_call(list, "copy", "test", copy, NULL);
        return;
    }
    clq_launch_begin(list, "step", "update", "-DTILE -DTAIL", "update");
    clq_launch_value(list, to, CLQ_READS_WRITES);
    clq_launch_value(list, from, CLQ_READS);
    clq_launch_int(list, FLOATS / lanes);
    clq_launch_int(list, FLOATS % lanes);
    clq_launch_int(list, 0);
    clq_launch_param(list, CLQ_PARAM_RATE);
    for (unsigned i = 0; i < 8; i++) clq_launch_float(list, 0);
    clq_launch_int(list, 0);
    clq_launch_work(list, 1, (size_t[]){6}, (size_t[]){1}, kind == NO_WORK ? 0 : -1, 1, 1);
}

typedef struct bench {
    clq_list *list;
    clq_buffer *buffers[2 * LAUNCHES];
} bench;

/* Launch i reads array 2i, all ones, and changes array 2i + 1, all zeros. */
static bench open_bench(clq_device *device, const what *kinds, bool fused) {
    bench b;
    clq_value values[2 * LAUNCHES];
    assert_ok(clq_list_create(device, CAPACITY, &b.list));
    clq_list_set_fused(b.list, fused);
    clq_list_scope(b.list, "test");
    for (size_t i = 0; i < 2 * LAUNCHES; i++) {
        values[i] = clq_list_value(b.list, CLQ_VALUE_EXTERNAL, "array", FLOATS * sizeof(float), 0);
        assert_ok(clq_buffer_create(device, CLQ_MEMORY_DEVICE, FLOATS * sizeof(float), "array", &b.buffers[i]));
        float *host = clq_buffer_host(b.buffers[i]);
        for (size_t k = 0; k < FLOATS; k++) host[k] = i % 2 ? 0.0f : 1.0f;
        clq_list_place(b.list, values[i], b.buffers[i], 0);
    }
    for (size_t i = 0; i < LAUNCHES; i++) {
        if (i == 1 && !fused)
            clq_launch_call(b.list, "gate", "test", wait_at_gate, NULL);
        else
            add_launch(b.list, kinds[i], values[2 * i + 1], values[2 * i]);
    }
    assert_ok(clq_list_bind(b.list));
    assert_true(clq_list_is_fused(b.list) == fused);
    clq_list_set_params(b.list, &(clq_step_params){.rate = -1.0f}); /* of no examples */
    return b;
}

static bool is_done(const clq_event *event) {
    bool complete;
    assert_ok(clq_event_look(event, &complete));
    return complete;
}

static bool is_made(const bench *b, size_t launch) {
    const volatile float *result = clq_buffer_host(b->buffers[2 * launch + 1]);
    return result[0] >= 1.0f && result[FLOATS - 1] >= 1.0f;
}

static void check(clq_device *device, clq_queue *queue, const what *kinds, bool fused) {
    bench b = open_bench(device, kinds, fused);
    clq_event *before, *done = NULL;
    assert_ok(clq_event_create(device, &before));
    assert_ok(clq_event_create(device, &gate));
    for (unsigned again = 0; again < 2; again++) { /* the second time, the new event replaces the event from before */
        const bool holds = again == 0;
        const clq_order order = {.after = {NULL, before}, .done = &done};
        assert_ok(clq_list_run_after(b.list, queue, 0, LAUNCHES, &order));
        assert_ok(clq_queue_flush(queue));
        (void)usleep(holds ? 20000 : 0);
        assert_true(is_done(done) == false || !holds);
        assert_false(holds && kinds[0] != NO_WORK && is_made(&b, 0));
        if (holds) assert_ok(clq_event_complete(before, true));
        while (!fused && kinds[0] != NO_WORK && !is_made(&b, 0)) (void)usleep(100);
        assert_false(holds && !fused && is_done(done));
        if (holds) assert_ok(clq_event_complete(gate, true));
        assert_ok(clq_event_wait(done));
        assert_true(kinds[LAUNCHES - 1] == NO_WORK || again || is_made(&b, LAUNCHES - 1));
    }
    clq_event_destroy(done);
    clq_event_destroy(before);
    clq_event_destroy(gate);
    clq_list_destroy(b.list);
    for (size_t i = 0; i < CLQ_COUNT_OF(b.buffers); i++) clq_buffer_destroy(b.buffers[i]);
}

/* If the device runs its commands in the calling thread, orders have no events to wait for. */
static void run_in_order(clq_device *device, clq_queue *queue) {
    if (clq_device_runs_in_caller(device)) return;
    for (what first = KERNEL; first <= NO_WORK; first++)
        for (what last = KERNEL; last <= NO_WORK; last++)
            check(device, queue, (const what[LAUNCHES]){first, KERNEL, last}, false);
    if (clq_device_family(device) == CLQ_FAMILY_TILE)
        check(device, queue, (const what[LAUNCHES]){KERNEL, KERNEL, KERNEL}, true);
}

static void lists_keep_orders(void **state) {
    (void)state;
    (void)alarm(SECONDS_MOST);
    on_each_device(run_in_order);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lists_keep_orders)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
