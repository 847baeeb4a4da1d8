/* Building models with branches: shapes by NumPy's broadcasting rule, shared layers, several outputs, layers that are
 * left out, and refusals with their messages. */
#include "graph/graph.h"
#include "support/check.h"

#include <stdio.h>

static clq_model *new_model(void) {
    clq_model *model = NULL;
    assert_ok(clq_model_create("test", &model));
    return model;
}

static clq_shape shape_of(clq_tensor x) { return x.model->tensors[x.id - 1].shape; }

static void assert_shape(clq_tensor x, clq_shape want) {
    if (x.id == 0) fail_msg("no tensor: %s", x.model ? x.model->error.detail : "none");
    const clq_shape got = shape_of(x);
    assert_int_equal(got.rank, want.rank);
    for (unsigned d = 0; d < want.rank; d++) assert_int_equal(got.dims[d], want.dims[d]);
}

typedef clq_tensor (*merge)(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
static const merge merges[] = {clq_add, clq_subtract, clq_multiply, clq_average, clq_maximum};
static const char *const names[] = {"add", "subtract", "multiply", "average", "maximum"};

/* A tensor of any shape, computed from x. */
static clq_tensor value(clq_model *m, clq_tensor x, clq_shape shape) {
    size_t elements = 1;
    for (unsigned d = 0; d < shape.rank; d++) elements *= shape.dims[d];
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = elements});
    return clq_reshape(m, x, shape, NULL);
}

static void shapes_broadcast_as_in_numpy(void **state) {
    (void)state;
    const struct {
        clq_shape a, b, want;
    } cases[] = {
        {CLQ_SHAPE(4, 5, 3), CLQ_SHAPE(4, 5, 3), CLQ_SHAPE(4, 5, 3)},
        {CLQ_SHAPE(4, 5, 3), CLQ_SHAPE(3), CLQ_SHAPE(4, 5, 3)},
        {CLQ_SHAPE(1), CLQ_SHAPE(4, 5, 3), CLQ_SHAPE(4, 5, 3)},
        {CLQ_SHAPE(4, 1, 3), CLQ_SHAPE(1, 5, 1), CLQ_SHAPE(4, 5, 3)},
        {CLQ_SHAPE(5, 1), CLQ_SHAPE(4, 1, 3), CLQ_SHAPE(4, 5, 3)},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++)
        for (size_t k = 0; k < CLQ_COUNT_OF(merges); k++) {
            clq_model *m = new_model();
            clq_tensor x = clq_input(m, CLQ_SHAPE(7));
            clq_tensor y = merges[k](m, CLQ_TENSORS(value(m, x, cases[i].a), value(m, x, cases[i].b)), NULL);
            assert_shape(y, cases[i].want);
            assert_ok(clq_model_finish(m, y));
            assert_string_equal(clq_model_output_name(m, 0), names[k]);
            clq_model_destroy(m);
        }
}

static void concatenations(void **state) {
    (void)state;
    clq_model *m = new_model();
    clq_tensor x = clq_input(m, CLQ_SHAPE(7));
    clq_tensor a = value(m, x, CLQ_SHAPE(4, 5, 3)), b = value(m, x, CLQ_SHAPE(4, 5, 2)),
               c = value(m, x, CLQ_SHAPE(4, 1, 3));
    assert_shape(clq_concatenate(m, CLQ_TENSORS(a, b), -1, NULL), CLQ_SHAPE(4, 5, 5));
    assert_shape(clq_concatenate(m, CLQ_TENSORS(a, b, a, b), 2, NULL), CLQ_SHAPE(4, 5, 10));
    assert_shape(clq_concatenate(m, CLQ_TENSORS(a, c), 1, NULL), CLQ_SHAPE(4, 6, 3));
    assert_shape(clq_concatenate(m, CLQ_TENSORS(a, a), -3, NULL), CLQ_SHAPE(8, 5, 3));
    clq_model_destroy(m);
}

/* A shared layer has one kernel and one bias, however often it is used. A use that leads to no output is left out. */
static void layers_are_shared(void **state) {
    (void)state;
    clq_model *m = new_model();
    clq_tensor x = clq_input(m, CLQ_SHAPE(6, 4));
    clq_tensor first = clq_dense(m, x, &(clq_dense_config){.units = 4, .name = "twice"});
    clq_tensor unused = clq_share(m, first, clq_activate(m, x, CLQ_ACTIVATION_TANH, NULL));
    clq_tensor second = clq_share(m, first, first);
    assert_shape(unused, CLQ_SHAPE(6, 4));
    assert_shape(second, CLQ_SHAPE(6, 4));
    assert_ok(clq_model_finish(m, clq_add(m, CLQ_TENSORS(first, second), NULL)));
    assert_int_equal(clq_model_variable_count(m), 2);
    assert_int_equal(clq_model_parameter_count(m), 20);
    assert_int_equal(m->layer_count, 3);
    assert_int_equal(m->tensor_count, 4);
    clq_model_destroy(m);
}

static void several_outputs(void **state) {
    (void)state;
    clq_model *m = new_model();
    clq_tensor x = clq_input(m, CLQ_SHAPE(5));
    clq_tensor trunk = clq_dense(m, x, &(clq_dense_config){.units = 4}),
               a = clq_dense(m, trunk, &(clq_dense_config){.units = 3, .name = "left"}),
               b = clq_dense(m, trunk, &(clq_dense_config){.units = 2, .name = "right"});
    clq_dense(m, trunk, &(clq_dense_config){.units = 9, .name = "unused"});
    assert_fails(CLQ_ERROR_ARGUMENT, "outputs 0 and 2 are the same tensor, of layer 'right'",
                 clq_model_finish_outputs(m, CLQ_TENSORS(b, a, b)));
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 8 outputs are supported, not 0", clq_model_finish_outputs(m, NULL, 0));
    assert_ok(clq_model_finish_outputs(m, CLQ_TENSORS(b, a, trunk)));
    assert_int_equal(clq_model_output_count(m), 3);
    assert_string_equal(clq_model_output_name(m, 0), "right");
    assert_string_equal(clq_model_output_name(m, 1), "left");
    assert_string_equal(clq_model_output_name(m, 2), "dense");
    assert_null(clq_model_output_name(m, 3));
    assert_int_equal(clq_model_output_shape(m, 1).dims[0], 3);
    assert_int_equal(clq_model_output_shape(m, 3).rank, 0);
    assert_int_equal(clq_model_variable_count(m), 6);
    clq_model_destroy(m);
}

/* ---- what is refused ---- */

static clq_tensor add_unlike(clq_model *m, clq_tensor x) {
    return clq_add(m, CLQ_TENSORS(x, value(m, x, CLQ_SHAPE(5, 2, 4))), "sum");
}
static clq_tensor maximum_third(clq_model *m, clq_tensor x) {
    return clq_maximum(m, CLQ_TENSORS(x, x, value(m, x, CLQ_SHAPE(2, 3))), NULL);
}
static clq_tensor add_one(clq_model *m, clq_tensor x) { return clq_add(m, CLQ_TENSORS(x), NULL); }
static clq_tensor add_none(clq_model *m, clq_tensor x) { return (void)x, clq_multiply(m, NULL, 0, NULL); }
static clq_tensor subtract_three(clq_model *m, clq_tensor x) { return clq_subtract(m, CLQ_TENSORS(x, x, x), NULL); }
static clq_tensor add_nothing(clq_model *m, clq_tensor x) {
    return clq_average(m, CLQ_TENSORS(x, (clq_tensor){0}), NULL);
}
static clq_tensor concatenate_unlike(clq_model *m, clq_tensor x) {
    return clq_concatenate(m, CLQ_TENSORS(x, value(m, x, CLQ_SHAPE(6, 6, 2))), -1, NULL);
}
static clq_tensor concatenate_ranks(clq_model *m, clq_tensor x) {
    return clq_concatenate(m, CLQ_TENSORS(x, clq_flatten(m, x, NULL)), 0, NULL);
}
static clq_tensor concatenate_axis(clq_model *m, clq_tensor x) {
    return clq_concatenate(m, CLQ_TENSORS(x, x), 3, NULL);
}
static clq_tensor concatenate_minus(clq_model *m, clq_tensor x) {
    return clq_concatenate(m, CLQ_TENSORS(x, x), -4, NULL);
}
static clq_tensor share_shapes(clq_model *m, clq_tensor x) {
    clq_tensor y = clq_dense(m, x, &(clq_dense_config){.units = 3, .name = "tied"});
    return clq_share(m, y, clq_flatten(m, x, NULL));
}
static clq_tensor share_channels(clq_model *m, clq_tensor x) {
    clq_tensor y = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}});
    return clq_share(m, y, y);
}
static clq_tensor share_nothing(clq_model *m, clq_tensor x) { return clq_share(m, (clq_tensor){0}, x); }
static clq_tensor share_merge(clq_model *m, clq_tensor x) {
    return clq_share(m, clq_add(m, CLQ_TENSORS(x, x), "sum"), x);
}

static void first_error_wins(void **state) {
    (void)state;
    static const struct {
        clq_tensor (*build)(clq_model *m, clq_tensor image); /* (6, 5, 2) */
        const char *words;
    } refusals[] = {
        {add_unlike, "layer 'sum': its inputs (6, 5, 2) and (5, 2, 4) do not broadcast"},
        {maximum_third, "layer 'maximum': its inputs (6, 5, 2) and (2, 3) do not broadcast"},
        {add_one, "layer 'add': Add takes 2 inputs or more, not 1"},
        {add_none, "layer 'multiply': Multiply takes 2 inputs or more, not 0"},
        {subtract_three, "layer 'subtract': Subtract takes 2 inputs, not 3"},
        {add_nothing, "layer 'average': its input is no tensor"},
        {concatenate_unlike, "layer 'concatenate': its inputs (6, 5, 2) and (6, 6, 2) may differ along axis 2 alone"},
        {concatenate_ranks, "layer 'concatenate': its inputs (6, 5, 2) and (60) may differ along axis 0 alone"},
        {concatenate_axis, "layer 'concatenate': its input (6, 5, 2) has no axis 3"},
        {concatenate_minus, "layer 'concatenate': its input (6, 5, 2) has no axis -4"},
        {share_shapes,
         "layer 'tied': it is shared: its kernel (2, 3) was made for an input of (6, 5, 2), and an input of "
         "(60) would need (60, 3)"},
        {share_channels,
         "layer 'conv2d': it is shared: its kernel (3, 3, 2, 3) was made for an input of (6, 5, 2), and "
         "an input of (4, 3, 3) would need (3, 3, 3, 3)"},
        {share_nothing, "clq_share: the first tensor is none of model test"},
        {share_merge, "layer 'sum': Add takes 2 inputs or more, not 1"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(refusals); i++) {
        clq_model *m = new_model();
        clq_tensor x = refusals[i].build(m, clq_input(m, CLQ_SHAPE(6, 5, 2)));
        assert_int_equal(x.id, 0);
        assert_int_equal(clq_add(m, CLQ_TENSORS(x, x), "second").id, 0);
        assert_fails(CLQ_ERROR_ARGUMENT, refusals[i].words, clq_model_finish(m, x));
        clq_model_destroy(m);
    }
    clq_model *m = new_model();
    clq_tensor x = clq_flatten(m, clq_input(m, CLQ_SHAPE(6, 5)), NULL);
    assert_ok(clq_model_finish(m, x));
    clq_fail(CLQ_OK, "%s", "");
    assert_int_equal(clq_share(m, x, x).id, 0);
    assert_non_null(strstr(clq_error_detail(), "model test is finished: no layer can be applied again"));
    clq_model_destroy(m);
}

static clq_status build_branches(void *context) {
    (void)context;
    clq_model *m;
    CLQ_TRY(clq_model_create("branches", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(4)), y = clq_dense(m, x, &(clq_dense_config){.units = 4});
    for (unsigned i = 0; i < 20; i++) {
        clq_dense(m, y, &(clq_dense_config){.units = 2});
        y = clq_add(m, CLQ_TENSORS(x, clq_share(m, y, x), y), NULL);
        y = clq_dense(m, y, &(clq_dense_config){.units = 4});
    }
    clq_status status = clq_model_finish_outputs(m, CLQ_TENSORS(y, x));
    if (status == CLQ_OK && (clq_model_variable_count(m) != 42 || clq_model_output_count(m) != 2))
        status = CLQ_ERROR_MISMATCH;
    clq_model_destroy(m);
    return status;
}

static void runs_out_of_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(build_branches, NULL) >= 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shapes_broadcast_as_in_numpy),
                                       cmocka_unit_test(concatenations),
                                       cmocka_unit_test(layers_are_shared),
                                       cmocka_unit_test(several_outputs),
                                       cmocka_unit_test(first_error_wins),
                                       cmocka_unit_test(runs_out_of_memory)};
    return cmocka_run_group_tests_name("graph/branches", tests, NULL, NULL);
}
