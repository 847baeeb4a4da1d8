/* Launch lists: a list latches and names its first wrong use, and a run keeps to the list's capacity. */
#include "device/fixture.h"
#include "launch/launch.h"
#include "support/check.h"

enum { CAPACITY = 8, BYTES = 64 };

static void begin(clq_list *list) { clq_launch_begin(list, "scale", "elementwise", "", "elementwise"); }
static void work(clq_list *list) { clq_launch_work(list, 1, (size_t[]){4}, (size_t[]){1}, -1, 0, 0); }
static clq_value external(clq_list *list) { return clq_list_value(list, CLQ_VALUE_EXTERNAL, "memory", BYTES, 0); }

static unsigned calls;
static clq_status count_call(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    (void)context, (void)queue, (void)buffers;
    calls += 1 + count * 100;
    return CLQ_OK;
}
static clq_status failing_call(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    (void)context, (void)queue, (void)count, (void)buffers;
    return clq_fail(CLQ_ERROR_DEVICE, "it does not work");
}

static void argument_outside(clq_list *list) { clq_launch_int(list, 3); }
static void begun_twice(clq_list *list) { begin(list), begin(list); }
static void no_such_value(clq_list *list) { begin(list), clq_launch_value(list, 77, CLQ_READS); }
static void empty_value(clq_list *list) { (void)clq_list_value(list, CLQ_VALUE_SCRATCH, "nothing", 0, 0); }
static void huge_value(clq_list *list) { (void)clq_list_value(list, CLQ_VALUE_SCRATCH, "much", 0, SIZE_MAX / 4); }
static void part_outside(clq_list *list) {
    clq_value v = external(list);
    begin(list), clq_launch_value_at(list, v, 0, BYTES + 1, CLQ_READS);
}
static void part_off_its_alignment(clq_list *list) {
    clq_value v = external(list);
    begin(list), clq_launch_value_at(list, v, 4, 8, CLQ_READS);
}
static void read_before_written(clq_list *list) {
    clq_value v = clq_list_value(list, CLQ_VALUE_SCRATCH, "draft", BYTES, 0);
    begin(list), clq_launch_value(list, v, CLQ_READS_WRITES);
}
static void no_work_items(clq_list *list) {
    begin(list), clq_launch_work(list, 1, (size_t[]){0}, (size_t[]){1}, -1, 0, 0);
}
static void odd_groups(clq_list *list) {
    begin(list), clq_launch_work(list, 1, (size_t[]){10}, (size_t[]){4}, -1, 0, 0);
}
static void four_dimensions(clq_list *list) {
    begin(list), clq_launch_work(list, 4, (size_t[]){1, 1, 1, 1}, NULL, -1, 0, 0);
}
static void cost_of_nothing(clq_list *list) { clq_launch_cost(list, 1, 1, 1, 1); }
static void call_inside(clq_list *list) { begin(list), clq_launch_call(list, "call", "count", count_call, NULL); }
static void begun_after_values(clq_list *list) { clq_launch_value(list, external(list), CLQ_READS), begin(list); }

static const struct {
    void (*build)(clq_list *list);
    clq_status status;
    const char *word;
} wrong[] = {
    {argument_outside, CLQ_ERROR_INTERNAL, "outside of a launch"},
    {begun_twice, CLQ_ERROR_INTERNAL, "scale is begun before"},
    {no_such_value, CLQ_ERROR_INTERNAL, "no value 77"},
    {empty_value, CLQ_ERROR_ARGUMENT, "nothing has 0 bytes"},
    {huge_value, CLQ_ERROR_ARGUMENT, "much has"},
    {part_outside, CLQ_ERROR_INTERNAL, "no part of memory with 64"},
    {part_off_its_alignment, CLQ_ERROR_INTERNAL, "multiples of"},
    {read_before_written, CLQ_ERROR_INTERNAL, "draft is read before"},
    {no_work_items, CLQ_ERROR_ARGUMENT, "impossible work size"},
    {odd_groups, CLQ_ERROR_ARGUMENT, "impossible work size"},
    {four_dimensions, CLQ_ERROR_ARGUMENT, "impossible work size"},
    {cost_of_nothing, CLQ_ERROR_INTERNAL, "without a launch"},
    {call_inside, CLQ_ERROR_INTERNAL, "inside of a launch"},
    {begun_after_values, CLQ_ERROR_INTERNAL, "scale is begun before"},
};

static void wrong_building(clq_device *device, clq_queue *queue) {
    (void)queue;
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        clq_list *list;
        assert_ok(clq_list_create(device, CAPACITY, &list));
        clq_list_scope(list, "layer");
        wrong[i].build(list);
        assert_fails(wrong[i].status, wrong[i].word, clq_list_status(list));
        assert_fails(wrong[i].status, "layer", clq_list_status(list));
        size_t launches = clq_list_launch_count(list);
        begin(list), work(list); /* nothing is added any more, and the first failure stays */
        assert_int_equal(clq_list_launch_count(list), launches);
        assert_fails(wrong[i].status, wrong[i].word, clq_list_bind(list));
        clq_list_destroy(list);
    }
    clq_list *list = NULL;
    assert_fails(CLQ_ERROR_INTERNAL, "0 examples", clq_list_create(device, 0, &list));
    assert_null(list);
    clq_list_destroy(NULL);
}

static void wrong_running(clq_device *device, clq_queue *queue) {
    clq_list *list;
    clq_buffer *buffer;
    assert_ok(clq_list_create(device, CAPACITY, &list));
    assert_ok(clq_buffer_create(device, CLQ_MEMORY_DEVICE, BYTES, "memory", &buffer));
    clq_value v = external(list);
    clq_launch_value(list, v, CLQ_READS);
    clq_launch_call(list, "first", "count", count_call, NULL);
    clq_launch_call(list, "second", "fail", failing_call, NULL);
    assert_fails(CLQ_ERROR_INTERNAL, "before it is bound", clq_list_run(list, queue, 0, 1));
    assert_fails(CLQ_ERROR_INTERNAL, "memory has no place", clq_list_bind(list));
    clq_list_place(list, v, buffer, 0);
    clq_list_set_fused(list, true);
    assert_ok(clq_list_bind(list));
    assert_false(clq_list_is_fused(list)); /* calls are no kernels */
    for (int count = 0; count <= CAPACITY; count += CAPACITY) {
        clq_list_set_params(list, &(clq_step_params){.count = (uint32_t)count});
        calls = 0;
        assert_ok(clq_list_run(list, queue, 0, 1));
        assert_int_equal(calls, 1 + count * 100); /* calls see a count of 0 too */
    }
    assert_fails(CLQ_ERROR_DEVICE, "second: it does not work", clq_list_run(list, queue, 0, 2));
    assert_fails(CLQ_ERROR_INTERNAL, "launches 1 to 3 of a list of 2", clq_list_run(list, queue, 1, 3));
    clq_list_set_params(list, &(clq_step_params){.count = CAPACITY + 1});
    assert_fails(CLQ_ERROR_INTERNAL, "0 to 8 examples is run with 9", clq_list_run(list, queue, 0, 1));
    clq_list_set_params(list, &(clq_step_params){.count = UINT32_MAX});
    assert_fails(CLQ_ERROR_INTERNAL, "run with 4294967295", clq_list_run(list, queue, 0, 1));
    begin(list);
    assert_fails(CLQ_ERROR_INTERNAL, "bound cannot grow", clq_list_status(list));
    clq_list_destroy(list);
    clq_buffer_destroy(buffer);
}

static void wrong_places(clq_device *device, clq_queue *queue) {
    (void)queue;
    const size_t align = clq_device_view_align(device), offsets[] = {1, align * 4, SIZE_MAX - align + 1};
    for (size_t i = 0; i < CLQ_COUNT_OF(offsets); i++) {
        clq_list *list;
        clq_buffer *buffer;
        assert_ok(clq_list_create(device, CAPACITY, &list));
        assert_ok(clq_buffer_create(device, CLQ_MEMORY_DEVICE, align * 4, "memory", &buffer));
        clq_list_place(list, external(list), buffer, offsets[i]);
        assert_fails(CLQ_ERROR_INTERNAL, "has no place at", clq_list_status(list));
        clq_list_destroy(list);
        clq_buffer_destroy(buffer);
    }
}

static void building(void **state) {
    (void)state;
    on_each_driver(wrong_building);
}
static void running(void **state) {
    (void)state;
    on_each_driver(wrong_running);
}
static void placing(void **state) {
    (void)state;
    on_each_driver(wrong_places);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(building), cmocka_unit_test(running),
                                       cmocka_unit_test(placing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
