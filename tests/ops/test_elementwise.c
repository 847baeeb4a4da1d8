/* Builds the operations that are no products. Every allocation fails once, and the list reports this. */
#include "support/ops_activation.h"
#include "support/ops_rig.h"

static const clq_pool2d_problem pool = {26, 26, 32, 13, 13, 2, 2, 2, 2, 0, 0, false, CLQ_ACTIVATION_LINEAR};
static const activation_chain chain = {3, {CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_RELU}};
static const clq_normalise_problem norm = {26 * 26, 32, 1e-3, 0.99};
static const clq_repeat_problem mean = {1, 13 * 13, 32, 1.0f / (13 * 13)};
static const clq_slice_of_channels narrow = {16, 0}, wide = {32, 16};
static const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                      .classes = 10,
                                      .from_logits = true,
                                      .weight = 1,
                                      .metric_count = 1,
                                      .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
enum { IN = 26 * 26 * 32, OUT = 13 * 13 * 32, FLOATS = 200000 };

static clq_value floats(clq_list *list, size_t per_example) {
    return clq_list_value(list, CLQ_VALUE_ACTIVATION, "floats", 0, per_example * sizeof(float));
}

static clq_status build(const rig *r, clq_list **out) {
    clq_list *list;
    CLQ_TRY(clq_list_create(r->device, 64, &list));
    clq_list_set_family(list, r->family);
    clq_value bytes = clq_list_value(list, CLQ_VALUE_EXTERNAL, "bytes", 0, IN), x = floats(list, IN),
              y = floats(list, OUT);
    clq_value winner = clq_list_value(list, CLQ_VALUE_ACTIVATION, "winner", 0, OUT), dx = floats(list, IN);
    clq_value labels = clq_list_value(list, CLQ_VALUE_EXTERNAL, "labels", 0, sizeof(int32_t)), flat[4];
    clq_value metrics = clq_list_value(list, CLQ_VALUE_EXTERNAL, "metrics", 64, 0);
    for (size_t i = 0; i < 4; i++)
        flat[i] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "flat", FLOATS * sizeof(float), 0);
    const clq_update_arenas arenas = {.w = flat[0], .g = flat[1], .states = {flat[2], flat[3]}, .floats = FLOATS};
    clq_input_u8(list, IN, 1.0f / 255.0f, bytes, x);
    activation_forward(list, CLQ_ACTIVATION_TANH, IN, 32, x, x);
    clq_pool2d_forward(list, &pool, x, y, winner);
    activation_forward(list, CLQ_ACTIVATION_SOFTMAX, OUT, 32, y, y);
    clq_loss_and_metrics(list, &loss, &(clq_loss_values){.x = y, .targets = labels, .dx = y, .metrics = metrics});
    activation_backward(list, CLQ_ACTIVATION_SOFTMAX, OUT, 32, y, y, CLQ_NO_VALUE, metrics);
    clq_pool2d_backward(list, &pool, CLQ_NO_VALUE, y, winner, dx);
    chain_forward(list, &chain, OUT, y, y);
    chain_backward(list, &chain, CLQ_ACTIVATION_TANH, OUT, 32, y, y, y, CLQ_NO_VALUE);
    chain_backward(list, &chain, CLQ_ACTIVATION_TANH, OUT, 32, y, y, y, metrics);
    activation_backward(list, CLQ_ACTIVATION_RELU, IN, 32, x, dx, dx, metrics);
    clq_normalise_moments(list, &norm, x, 0, 1, metrics);
    clq_normalise_statistics(list, &norm, metrics, 1, metrics, metrics, metrics, metrics);
    clq_normalise_moving(list, &norm, metrics, metrics, metrics, metrics);
    clq_normalise_forward(list, &norm, x, metrics, metrics, x);
    clq_normalise_gradients(list, &norm, x, dx, metrics, metrics, metrics);
    clq_normalise_corrections(list, &norm, metrics, metrics, metrics, metrics);
    clq_normalise_backward(list, &norm, x, dx, metrics, metrics, dx);
    clq_reduce_axis(list, &mean, y, x);
    clq_repeat(list, &mean, x, y);
    clq_copy_channels(list, 26 * 26, 16, narrow, wide, dx, x);
    clq_update(list, &(clq_update_problem){.optimizer = {CLQ_OPTIMIZER_SGD, {0.01, 0.9, 1}}}, &arenas);
    clq_update(list, &(clq_update_problem){.optimizer = {CLQ_OPTIMIZER_ADAM, {0.001, 0.9, 0.999, 1e-7}}}, &arenas);
    clq_status status = clq_list_status(list);
    if (status == CLQ_OK)
        *out = list;
    else
        clq_list_destroy(list);
    return status;
}

static void allocations(rig *r) {
    clq_list *list = NULL;
    clq_status status = CLQ_ERROR_MEMORY;
    uint64_t nth = 0;
    while (status == CLQ_ERROR_MEMORY && nth < 1000) {
        clq_memory_fail_at(++nth, false);
        status = build(r, &list);
    }
    clq_memory_fail_at(0, false);
    assert_int_equal(status, CLQ_OK);
    assert_true(nth > 50);
    /* the list tells the cost of every launch */
    for (size_t i = 0; i < clq_list_launch_count(list); i++) {
        clq_launch_info info;
        clq_list_launch_info(list, i, &info);
        assert_non_null(info.file);
        assert_true(info.bytes > 0 && info.flops > 0);
    }
    clq_list_destroy(list);
}

static void test_allocations(void **state) {
    (void)state;
    rig_each(allocations);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_allocations)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
