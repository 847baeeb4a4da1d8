/* Fused launches give the same bits as the same launches one by one, whatever part of the list is run. Covers runs of
 * launches between calls, and runs longer than one kernel takes. */
#include "device/fixture.h"
#include "launch/launch.h"
#include "support/check.h"

enum { FLOATS = 203, VALUES_MOST = 48, CAPACITY = 4 };
static const float rate = 0.25f;

/* A list over arrays of small whole numbers, so that every order of sums gives the same bits. */
typedef struct bench {
    clq_device *device;
    clq_queue *queue;
    clq_list *list;
    size_t count;
    clq_value values[VALUES_MOST];
    clq_buffer *buffers[VALUES_MOST];
} bench;

static bench open_bench(clq_device *device, clq_queue *queue, size_t values, bool fused) {
    bench b = {.device = device, .queue = queue, .count = values};
    CHECK_OK(clq_list_create(device, CAPACITY, &b.list));
    clq_list_set_fused(b.list, fused);
    clq_list_scope(b.list, "test");
    for (size_t i = 0; i < values; i++) {
        size_t bytes = FLOATS * sizeof(float);
        b.values[i] = clq_list_value(b.list, CLQ_VALUE_EXTERNAL, "array", bytes, 0);
        CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, bytes, "array", &b.buffers[i]));
        clq_list_place(b.list, b.values[i], b.buffers[i], 0);
    }
    return b;
}

static void close_bench(bench *b) {
    clq_list_destroy(b->list);
    for (size_t i = 0; i < b->count; i++) clq_buffer_destroy(b->buffers[i]);
}

/* values[to] -= rate * values[from]. Other `options` make another function. */
static void add_step(bench *b, size_t to, size_t from, const char *options) {
    int lanes = (int)clq_device_vector(b->device);
    clq_launch_begin(b->list, "step", "update", options, "update");
    clq_launch_value(b->list, b->values[to], CLQ_READS_WRITES);
    clq_launch_value(b->list, b->values[from], CLQ_READS);
    clq_launch_int(b->list, FLOATS / lanes);
    clq_launch_int(b->list, FLOATS % lanes);
    clq_launch_int(b->list, 0);
    clq_launch_param(b->list, CLQ_PARAM_RATE);
    for (unsigned i = 0; i < 8; i++) clq_launch_float(b->list, 0);
    clq_launch_int(b->list, 0);
    clq_launch_work(b->list, 1, (size_t[]){6}, (size_t[]){1}, -1, 0, 0);
}

static bool may_copy = true;

static clq_status copy(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    (void)context;
    assert_true(may_copy);
    assert_int_equal(count, CAPACITY);
    return clq_queue_copy(queue, buffers[0], 0, buffers[1], 0, FLOATS * sizeof(float));
}

static void add_copy(bench *b, size_t to, size_t from) {
    clq_launch_value(b->list, b->values[from], CLQ_READS);
    clq_launch_value(b->list, b->values[to], CLQ_WRITES);
    clq_launch_call(b->list, "copy", "copy", copy, NULL);
}

static float start_of(size_t value, size_t i) { return (float)(64 * ((value * 7 + i * 3) % 11)); }

static void run_parts(const bench *b, const size_t *ends, size_t parts) {
    float floats[FLOATS];
    for (size_t v = 0; v < b->count; v++) {
        for (size_t i = 0; i < FLOATS; i++) floats[i] = start_of(v, i);
        CHECK_OK(clq_queue_write(b->queue, b->buffers[v], 0, floats, sizeof floats, true));
    }
    clq_list_set_params(b->list, &(clq_step_params){.count = CAPACITY, .rate = rate});
    for (size_t i = 0, first = 0; i < parts; first = ends[i++])
        CHECK_OK(clq_list_run(b->list, b->queue, first, ends[i]));
}

static void check_array(const bench *b, size_t value, const float want[FLOATS]) {
    float got[FLOATS];
    CHECK_OK(clq_queue_read(b->queue, b->buffers[value], 0, got, sizeof got, true));
    for (size_t i = 0; i < FLOATS; i++)
        if (got[i] != want[i])
            fail_msg("%s: array %zu: [%zu] is %g, not %g", clq_device_label(b->device), value, i, (double)got[i],
                     (double)want[i]);
}

/* ---- a call between ---- */

enum { A, B, C, D, ARRAYS };

static void add_mixed(bench *b) {
    add_step(b, A, D, "-DTILE -DTAIL");
    add_step(b, B, A, "-DTILE -DTAIL");
    add_copy(b, C, B);
    add_step(b, C, A, "-DTILE -DTAIL -DOTHER");
    add_step(b, D, C, "-DTILE -DTAIL");
}

static void build_mixed(bench *b) {
    add_mixed(b);
    CHECK_OK(clq_list_bind(b->list));
}

/* a, b: the arrays whose buffers hold the first two values. */
static void check_mixed(const bench *of, size_t a, size_t b) {
    float want[ARRAYS][FLOATS];
    for (size_t i = 0; i < FLOATS; i++) {
        want[A][i] = start_of(a, i) - rate * start_of(D, i);
        want[B][i] = start_of(b, i) - rate * want[A][i];
        want[C][i] = want[B][i] - rate * want[A][i];
        want[D][i] = start_of(D, i) - rate * want[C][i];
    }
    const size_t buffers[ARRAYS] = {a, b, C, D};
    for (size_t v = 0; v < ARRAYS; v++) check_array(of, buffers[v], want[v]);
}

/* How many kernels `run` launches on the bench's queue. Meanwhile the bench has a queue that counts. */
static size_t launches_of(bench *b, void (*run)(bench *b)) {
    clq_queue *queue = b->queue;
    clq_span *launches;
    size_t count;
    double error;
    CHECK_OK(clq_queue_create(b->device, CLQ_QUEUE_TRACE, &b->queue));
    run(b);
    CHECK_OK(clq_queue_spans(b->queue, &launches, &count, &error));
    clq_free(launches);
    clq_queue_destroy(b->queue);
    b->queue = queue;
    return count;
}

static void run_whole(bench *b) {
    static const size_t whole[] = {5};
    run_parts(b, whole, 1);
}

static void mixed_on(clq_device *device, clq_queue *queue) {
    static const size_t ends[][5] = {{5}, {2, 3, 5}, {1, 4, 5}, {0, 3, 3, 5}, {1, 2, 3, 4, 5}};
    static const size_t parts[] = {1, 3, 3, 4, 5};
    for (int fused = 0; fused < 2; fused++) {
        bench b = open_bench(device, queue, ARRAYS, fused);
        build_mixed(&b);
        assert_false(clq_list_is_fused(b.list));
        assert_int_equal(clq_list_command_count(b.list), fused ? 3 : 5);
        for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++) {
            run_parts(&b, ends[i], parts[i]);
            check_mixed(&b, A, B);
        }
        CHECK_OK(clq_list_swap(b.list, b.buffers[A], b.buffers[B])); /* the call reads B */
        run_whole(&b);
        check_mixed(&b, B, A);
        assert_int_equal(launches_of(&b, run_whole), fused ? 2 : 4);
        close_bench(&b);
    }
}

static void a_call_parts_two_fused_kernels(void **state) {
    (void)state;
    on_each_driver(mixed_on);
}

static void run_first(bench *b) {
    may_copy = false;
    CHECK_OK(clq_list_launch_first(b->list, b->queue));
    may_copy = true;
}

/* Fused or not, each kernel is launched once, calls are left out, and nothing is left behind. */
static void first_on(clq_device *device, clq_queue *queue) {
    static const float zeros[FLOATS] = {0};
    for (int fused = 0; fused < 2; fused++) {
        bench b = open_bench(device, queue, ARRAYS, fused);
        build_mixed(&b);
        run_parts(&b, NULL, 0);
        assert_int_equal(launches_of(&b, run_first), fused ? 2 : 4);
        for (size_t v = 0; v < ARRAYS; v++) check_array(&b, v, zeros);
        close_bench(&b);
    }
}

static void first_launches_leave_zeros(void **state) {
    (void)state;
    on_each_driver(first_on);
}

static clq_status bind_again(void *context) {
    const bench *made = context;
    bench b = *made;
    clq_status status = clq_list_create(b.device, CAPACITY, &b.list);
    if (status != CLQ_OK) return status;
    clq_list_set_fused(b.list, true);
    for (size_t i = 0; i < b.count; i++) {
        b.values[i] = clq_list_value(b.list, CLQ_VALUE_EXTERNAL, "array", FLOATS * sizeof(float), 0);
        clq_list_place(b.list, b.values[i], b.buffers[i], 0);
    }
    add_mixed(&b);
    status = clq_list_bind(b.list);
    clq_list_destroy(b.list);
    return status;
}

/* Whichever allocation fails, binding reports the failure and leaves nothing behind. */
static void starved_on(clq_device *device, clq_queue *queue) {
    if (!clq_device_runs_in_caller(device)) return; /* nothing here depends on the driver */
    bench b = open_bench(device, queue, ARRAYS, true);
    build_mixed(&b);
    assert_true(walk_allocations(bind_again, &b) > 40);
    close_bench(&b);
}

static void allocations_may_fail(void **state) {
    (void)state;
    on_each_driver(starved_on);
}

/* Replaces the buffer of a value that a fused launch and another launch read. */
static void replaced_on(clq_device *device, clq_queue *queue) {
    static const size_t whole[] = {3};
    bench b = open_bench(device, queue, ARRAYS, true);
    add_step(&b, A, D, "-DTILE -DTAIL");
    add_step(&b, B, D, "-DTILE -DTAIL");
    add_copy(&b, C, D);
    CHECK_OK(clq_list_bind(b.list));
    clq_buffer *moved, *own = b.buffers[D];
    float ones[FLOATS], want[FLOATS];
    for (size_t i = 0; i < FLOATS; i++) ones[i] = 4;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, sizeof ones, "moved", &moved));
    CHECK_OK(clq_queue_write(queue, moved, 0, ones, sizeof ones, true));
    CHECK_OK(clq_list_replace(b.list, b.values[D], moved));
    run_parts(&b, whole, 1);
    check_array(&b, C, ones);
    for (size_t i = 0; i < FLOATS; i++) want[i] = start_of(A, i) - 1;
    check_array(&b, A, want);
    CHECK_OK(clq_list_replace(b.list, b.values[D], own));
    close_bench(&b);
    clq_buffer_destroy(moved);
}

static void a_buffer_is_replaced_in_all_launches(void **state) {
    (void)state;
    on_each_driver(replaced_on);
}

/* ---- more launches than one kernel takes ---- */

static void long_on(clq_device *device, clq_queue *queue) {
    enum { LAUNCHES = 300, HALF = LAUNCHES / 2 };
    static const size_t whole[] = {LAUNCHES}, odd[] = {3, 127, 129, 255, 300};
    static const size_t over[] = {127, 257, 300}; /* the second has the end of a kernel, a whole one, and a beginning */
    float want[2][FLOATS];
    bench b = open_bench(device, queue, 3, true);
    for (size_t i = 0; i < LAUNCHES; i++) add_step(&b, i % 2, 2, "-DTILE -DTAIL");
    CHECK_OK(clq_list_bind(b.list));
    assert_true(clq_list_is_fused(b.list));
    assert_int_equal(clq_list_command_count(b.list), 3);
    for (size_t v = 0; v < 2; v++)
        for (size_t i = 0; i < FLOATS; i++) want[v][i] = start_of(v, i) - rate * HALF * start_of(2, i);
    run_parts(&b, whole, 1);
    for (size_t v = 0; v < 2; v++) check_array(&b, v, want[v]);
    run_parts(&b, odd, CLQ_COUNT_OF(odd));
    for (size_t v = 0; v < 2; v++) check_array(&b, v, want[v]);
    run_parts(&b, over, CLQ_COUNT_OF(over));
    for (size_t v = 0; v < 2; v++) check_array(&b, v, want[v]);
    CHECK_OK(clq_list_swap(b.list, b.buffers[0], b.buffers[2])); /* in every kernel */
    run_parts(&b, whole, 1);
    for (size_t i = 0; i < FLOATS; i++) want[0][i] = start_of(2, i) - rate * HALF * start_of(0, i);
    check_array(&b, 2, want[0]);
    close_bench(&b);
}

static void long_lists_are_several_kernels(void **state) {
    (void)state;
    on_each_driver(long_on);
}

static void wide_on(clq_device *device, clq_queue *queue) {
    static const size_t whole[] = {VALUES_MOST - 1};
    float want[FLOATS];
    if (!clq_device_runs_in_caller(device)) return; /* nothing here depends on the driver */
    bench b = open_bench(device, queue, VALUES_MOST, true);
    for (size_t v = 1; v < VALUES_MOST; v++) add_step(&b, v, v - 1, "-DTILE -DTAIL");
    CHECK_OK(clq_list_bind(b.list));
    assert_true(clq_list_is_fused(b.list));
    assert_int_equal(clq_list_command_count(b.list), 2);
    run_parts(&b, whole, 1);
    for (size_t i = 0; i < FLOATS; i++) want[i] = start_of(0, i);
    for (size_t v = 1; v < 4; v++) {
        for (size_t i = 0; i < FLOATS; i++) want[i] = start_of(v, i) - rate * want[i];
        check_array(&b, v, want);
    }
    close_bench(&b);
}

static void many_buffers_are_several_kernels(void **state) {
    (void)state;
    on_each_driver(wide_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_parts_two_fused_kernels),       cmocka_unit_test(first_launches_leave_zeros),
        cmocka_unit_test(a_buffer_is_replaced_in_all_launches), cmocka_unit_test(long_lists_are_several_kernels),
        cmocka_unit_test(many_buffers_are_several_kernels),     cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
