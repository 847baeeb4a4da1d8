/* The builder: shapes, names and variables against numbers worked out by hand from Keras's formulas
 *     valid: floor((in - (kernel - 1) * dilation - 1) / stride) + 1        same: ceil(in / stride)
 * Also what is refused, and whether the message names the layer and the reason. */
#include "graph/step/step.h"
#include "support/check.h"

#include <stdio.h>

static clq_model *new_model(void) {
    clq_model *model = NULL;
    assert_ok(clq_model_create("test", &model));
    return model;
}

static void assert_shape(const char *what, clq_shape got, clq_shape want) {
    assert_int_equal(got.rank, want.rank);
    for (unsigned d = 0; d < want.rank; d++)
        if (got.dims[d] != want.dims[d])
            fail_msg("%s: dimension %u is %zu, should be %zu", what, d, got.dims[d], want.dims[d]);
}

/* ---- shapes ---- */

typedef struct window_case {
    const char *what;
    size_t in[3]; /* h, w, c */
    size_t size[2], strides[2], dilation[2];
    clq_padding padding;
    size_t out[2], pad[2]; /* h, w; zeros above and to the left */
} window_case;

static const window_case convolutions[] = {
    {"valid", {28, 28, 1}, {3, 3}, {0, 0}, {0, 0}, CLQ_PADDING_VALID, {26, 26}, {0, 0}},
    {"valid, unlike sides", {5, 7, 2}, {3, 2}, {1, 1}, {1, 1}, CLQ_PADDING_VALID, {3, 6}, {0, 0}},
    {"valid, strides leave a rest", {7, 8, 1}, {3, 3}, {2, 2}, {0, 0}, CLQ_PADDING_VALID, {3, 3}, {0, 0}},
    {"valid, strides above the kernel", {10, 11, 3}, {2, 1}, {3, 5}, {0, 0}, CLQ_PADDING_VALID, {3, 3}, {0, 0}},
    {"valid, kernel as large as the input", {4, 6, 2}, {4, 6}, {0, 0}, {0, 0}, CLQ_PADDING_VALID, {1, 1}, {0, 0}},
    {"valid, dilation", {9, 9, 1}, {3, 3}, {0, 0}, {2, 3}, CLQ_PADDING_VALID, {5, 3}, {0, 0}},
    {"valid, dilation of one row", {9, 4, 1}, {1, 2}, {0, 0}, {50, 3}, CLQ_PADDING_VALID, {9, 1}, {0, 0}},
    {"same", {7, 8, 1}, {3, 3}, {0, 0}, {0, 0}, CLQ_PADDING_SAME, {7, 8}, {1, 1}},
    {"same, even kernels pad behind", {5, 5, 2}, {4, 2}, {0, 0}, {0, 0}, CLQ_PADDING_SAME, {5, 5}, {1, 0}},
    {"same, strides 2", {7, 8, 1}, {3, 3}, {2, 2}, {0, 0}, CLQ_PADDING_SAME, {4, 4}, {1, 0}},
    {"same, strides 3 and 4", {7, 9, 1}, {3, 2}, {3, 4}, {0, 0}, CLQ_PADDING_SAME, {3, 3}, {1, 0}},
    {"same, strides without need of padding", {8, 9, 1}, {2, 3}, {2, 3}, {0, 0}, CLQ_PADDING_SAME, {4, 3}, {0, 0}},
    {"same, dilation", {9, 6, 1}, {3, 2}, {0, 0}, {2, 4}, CLQ_PADDING_SAME, {9, 6}, {2, 2}},
    {"same, kernel above the input", {2, 3, 1}, {5, 7}, {0, 0}, {0, 0}, CLQ_PADDING_SAME, {2, 3}, {2, 3}},
    {"one point", {1, 1, 4}, {1, 1}, {0, 0}, {0, 0}, CLQ_PADDING_VALID, {1, 1}, {0, 0}},
};

/* The attributes of the last operation in the model's step graph. */
static clq_attributes last_operation(const clq_model *model) {
    const clq_plan_config config = {.mode = CLQ_MODE_PREDICT, .capacity = 1};
    const clq_pass_context context = {.config = &config};
    clq_graph graph = {.model = model};
    clq_graph_expand(&graph, &context);
    assert_int_equal(graph.error.status, CLQ_OK);
    assert_true(graph.node_count > 0);
    const clq_attributes found = graph.nodes[graph.node_count - 1].attributes;
    clq_graph_release(&graph);
    return found;
}

static void shapes_of_convolutions(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(convolutions); i++) {
        const window_case *c = &convolutions[i];
        clq_model *model = new_model();
        clq_tensor x = clq_input(model, CLQ_SHAPE(c->in[0], c->in[1], c->in[2]));
        x = clq_conv2d(model, x,
                       &(clq_conv2d_config){.filters = 6,
                                            .kernel = {c->size[0], c->size[1]},
                                            .strides = {c->strides[0], c->strides[1]},
                                            .dilation = {c->dilation[0], c->dilation[1]},
                                            .padding = c->padding});
        assert_ok(clq_model_finish(model, x));
        assert_shape(c->what, clq_model_output_shape(model, 0), CLQ_SHAPE(c->out[0], c->out[1], 6));
        clq_variable_info kernel, bias;
        assert_ok(clq_model_variable(model, 0, &kernel));
        assert_ok(clq_model_variable(model, 1, &bias));
        assert_shape(c->what, kernel.shape, CLQ_SHAPE(c->size[0], c->size[1], c->in[2], 6));
        assert_shape(c->what, bias.shape, CLQ_SHAPE(6));
        const clq_conv2d_problem p = last_operation(model).conv2d;
        assert_int_equal(p.pad_top, c->pad[0]);
        assert_int_equal(p.pad_left, c->pad[1]);
        assert_int_equal(p.stride_h, c->strides[0] ? c->strides[0] : 1);
        assert_int_equal(p.dilation_w, c->dilation[1] ? c->dilation[1] : 1);
        clq_model_destroy(model);
    }
}

static const window_case pools[] = {
    {"the defaults", {28, 28, 3}, {0, 0}, {0, 0}, {1, 1}, CLQ_PADDING_VALID, {14, 14}, {0, 0}},
    {"a rest is left out", {7, 9, 2}, {0, 0}, {0, 0}, {1, 1}, CLQ_PADDING_VALID, {3, 4}, {0, 0}},
    {"a rest is kept", {7, 9, 2}, {0, 0}, {0, 0}, {1, 1}, CLQ_PADDING_SAME, {4, 5}, {0, 0}},
    {"strides are the size", {7, 8, 1}, {3, 2}, {0, 0}, {1, 1}, CLQ_PADDING_VALID, {2, 4}, {0, 0}},
    {"one stride is the size", {7, 8, 1}, {3, 2}, {1, 0}, {1, 1}, CLQ_PADDING_VALID, {5, 4}, {0, 0}},
    {"same, strides are the size", {7, 8, 1}, {3, 2}, {0, 0}, {1, 1}, CLQ_PADDING_SAME, {3, 4}, {1, 0}},
    {"same, strides 1", {6, 5, 1}, {2, 3}, {1, 1}, {1, 1}, CLQ_PADDING_SAME, {6, 5}, {0, 1}},
    {"same, overlapping", {4, 6, 3}, {3, 3}, {2, 2}, {1, 1}, CLQ_PADDING_SAME, {2, 3}, {0, 0}},
    {"the whole input", {5, 3, 2}, {5, 3}, {0, 0}, {1, 1}, CLQ_PADDING_VALID, {1, 1}, {0, 0}},
};

static void shapes_of_pools(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * CLQ_COUNT_OF(pools); i++) {
        const window_case *c = &pools[i / 2];
        const clq_pool_config config = {
            .size = {c->size[0], c->size[1]}, .strides = {c->strides[0], c->strides[1]}, .padding = c->padding};
        clq_model *model = new_model();
        clq_tensor x = clq_input(model, CLQ_SHAPE(c->in[0], c->in[1], c->in[2]));
        bool by_default = c->size[0] == 0 && c->padding == CLQ_PADDING_VALID;
        x = (i % 2 ? clq_average_pool2d : clq_max_pool2d)(model, x, by_default ? NULL : &config);
        assert_ok(clq_model_finish(model, x));
        assert_shape(c->what, clq_model_output_shape(model, 0), CLQ_SHAPE(c->out[0], c->out[1], c->in[2]));
        assert_int_equal(clq_model_variable_count(model), 0);
        const clq_pool2d_problem p = last_operation(model).pool2d;
        assert_int_equal(p.pad_top, c->pad[0]);
        assert_int_equal(p.pad_left, c->pad[1]);
        assert_int_equal(p.average, i % 2);
        clq_model_destroy(model);
    }
}

/* A dense layer replaces the last axis of its input. The shape of its kernel depends on the last axis only. */
static void shapes_of_dense(void **state) {
    (void)state;
    const clq_shape inputs[] = {CLQ_SHAPE(784), CLQ_SHAPE(3, 4), CLQ_SHAPE(2, 3, 4), CLQ_SHAPE(1, 2, 1, 2, 1, 5)};
    const clq_shape outputs[] = {CLQ_SHAPE(7), CLQ_SHAPE(3, 7), CLQ_SHAPE(2, 3, 7), CLQ_SHAPE(1, 2, 1, 2, 1, 7)};
    const size_t last[] = {784, 4, 4, 5}, parameters[] = {784 * 7 + 7, 35, 35, 42};
    for (size_t i = 0; i < CLQ_COUNT_OF(inputs); i++) {
        clq_model *model = new_model();
        clq_tensor x = clq_dense(model, clq_input(model, inputs[i]), &(clq_dense_config){.units = 7});
        assert_ok(clq_model_finish(model, x));
        assert_shape("dense", clq_model_output_shape(model, 0), outputs[i]);
        clq_variable_info kernel;
        assert_ok(clq_model_variable(model, 0, &kernel));
        assert_shape("kernel", kernel.shape, CLQ_SHAPE(last[i], 7));
        assert_int_equal(clq_model_parameter_count(model), parameters[i]);
        clq_model_destroy(model);
    }
}

static void shapes_of_the_rest(void **state) {
    (void)state;
    clq_model *model = new_model();
    clq_tensor x = clq_input(model, CLQ_SHAPE(2, 3, 4));
    x = clq_activate(model, x, CLQ_ACTIVATION_RELU, NULL);
    assert_shape("activation", model->tensors[x.id - 1].shape, CLQ_SHAPE(2, 3, 4));
    x = clq_reshape(model, x, CLQ_SHAPE(4, 6), NULL);
    assert_shape("reshape", model->tensors[x.id - 1].shape, CLQ_SHAPE(4, 6));
    x = clq_reshape(model, x, CLQ_SHAPE(1, 24, 1, 1, 1, 1), NULL);
    assert_shape("reshape", model->tensors[x.id - 1].shape, CLQ_SHAPE(1, 24, 1, 1, 1, 1));
    x = clq_flatten(model, x, NULL);
    assert_shape("flatten", model->tensors[x.id - 1].shape, CLQ_SHAPE(24));
    x = clq_flatten(model, x, NULL);
    assert_shape("flatten of a flat one", model->tensors[x.id - 1].shape, CLQ_SHAPE(24));
    x = clq_activate(model, x, CLQ_ACTIVATION_SOFTMAX, NULL);
    assert_ok(clq_model_finish(model, x));
    assert_shape("input", clq_model_input_shape(model), CLQ_SHAPE(2, 3, 4));
    assert_shape("output", clq_model_output_shape(model, 0), CLQ_SHAPE(24));
    clq_model_destroy(model);
}

/* ---- names and variables ---- */

typedef struct expected_variable {
    const char *name;
    size_t elements, fan_in, fan_out;
} expected_variable;

static void assert_variables(const clq_model *model, const expected_variable *want, size_t count, size_t parameters) {
    assert_int_equal(clq_model_variable_count(model), count);
    assert_int_equal(clq_model_parameter_count(model), parameters);
    for (size_t i = 0; i < count; i++) {
        clq_variable_info got;
        assert_ok(clq_model_variable(model, i, &got));
        assert_string_equal(got.name, want[i].name);
        assert_int_equal(got.elements, want[i].elements);
        assert_int_equal(got.fan_in, want[i].fan_in);
        assert_int_equal(got.fan_out, want[i].fan_out);
        assert_int_equal(got.is_bias, strstr(got.name, "/bias") != NULL);
    }
    clq_variable_info untouched = {.elements = 77};
    assert_fails(CLQ_ERROR_ARGUMENT, "out of range", clq_model_variable(model, count, &untouched));
    assert_int_equal(untouched.elements, 77);
}

/* The counts are those that Keras's summary() prints. */
static void builtin_models(void **state) {
    (void)state;
    static const expected_variable mlp[] = {
        {"dense/kernel", 100352, 784, 128},
        {"dense/bias", 128, 128, 128},
        {"dense_1/kernel", 1280, 128, 10},
        {"dense_1/bias", 10, 10, 10},
    };
    static const expected_variable cnn[] = {
        {"conv2d/kernel", 288, 9, 288}, {"conv2d/bias", 32, 32, 32},       {"conv2d_1/kernel", 18432, 288, 576},
        {"conv2d_1/bias", 64, 64, 64},  {"dense/kernel", 16000, 1600, 10}, {"dense/bias", 10, 10, 10},
    };
    static const expected_variable cnn1[] = {
        {"conv2d/kernel", 288, 9, 288},
        {"conv2d/bias", 32, 32, 32},
        {"dense/kernel", 54080, 5408, 10},
        {"dense/bias", 10, 10, 10},
    };
    const struct {
        const char *name;
        const expected_variable *variables;
        size_t count, parameters;
    } models[] = {{"mlp", mlp, 4, 101770}, {"cnn", cnn, 6, 34826}, {"cnn1", cnn1, 4, 54410}};
    for (size_t i = 0; i < CLQ_COUNT_OF(models); i++) {
        clq_model *model = NULL;
        assert_ok(clq_model_builtin(models[i].name, &model));
        assert_string_equal(clq_model_name(model), models[i].name);
        assert_shape("input", clq_model_input_shape(model), CLQ_SHAPE(28, 28, 1));
        assert_shape("output", clq_model_output_shape(model, 0), CLQ_SHAPE(10));
        assert_variables(model, models[i].variables, models[i].count, models[i].parameters);
        clq_model_destroy(model);
    }
    clq_model *none = NULL;
    assert_fails(CLQ_ERROR_ARGUMENT, "'cnn2' is unknown: expected mlp, cnn, cnn1", clq_model_builtin("cnn2", &none));
    assert_null(none);
}

static const char *name_of(const clq_model *model, clq_tensor x) {
    return x.id ? clq_model_tensor_name(model, &model->tensors[x.id - 1]) : "none";
}

/* Keras numbers the layers of each class. Given names do not count, but a made name never repeats a given name. */
static void names_are_made_as_in_keras(void **state) {
    (void)state;
    clq_model *m = new_model();
    const clq_dense_config dense = {.units = 3}, named = {.units = 3, .name = "dense_1"};
    const clq_conv2d_config conv = {.filters = 3, .kernel = {1, 1}};
    clq_tensor x = clq_input(m, CLQ_SHAPE(4, 4, 1));
    assert_string_equal(name_of(m, x), "input_layer");
    assert_string_equal(name_of(m, x = clq_conv2d(m, x, &conv)), "conv2d");
    assert_string_equal(name_of(m, x = clq_conv2d(m, x, &conv)), "conv2d_1");
    assert_string_equal(name_of(m, x = clq_max_pool2d(m, x, NULL)), "max_pooling2d");
    assert_string_equal(name_of(m, x = clq_average_pool2d(m, x, NULL)), "average_pooling2d");
    assert_string_equal(name_of(m, x = clq_conv2d(m, x, &conv)), "conv2d_2");
    assert_string_equal(name_of(m, x = clq_activate(m, x, CLQ_ACTIVATION_TANH, NULL)), "activation");
    assert_string_equal(name_of(m, x = clq_activate(m, x, CLQ_ACTIVATION_SOFTMAX, NULL)), "softmax");
    assert_string_equal(name_of(m, x = clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL)), "activation_1");
    assert_string_equal(name_of(m, x = clq_flatten(m, x, NULL)), "flatten");
    assert_string_equal(name_of(m, x = clq_reshape(m, x, CLQ_SHAPE(3, 1), NULL)), "reshape");
    assert_string_equal(name_of(m, x = clq_dense(m, x, &dense)), "dense");
    assert_string_equal(name_of(m, x = clq_dense(m, x, &named)), "dense_1");
    assert_string_equal(name_of(m, x = clq_dense(m, x, &dense)), "dense_2");
    char longest[128];
    memset(longest, 'n', 127);
    longest[127] = '\0';
    assert_string_equal(
        name_of(m, x = clq_dense(m, x, &(clq_dense_config){.units = 1, .no_bias = true, .name = longest})), longest);
    assert_ok(clq_model_finish(m, x));
    clq_variable_info last;
    assert_ok(clq_model_variable(m, clq_model_variable_count(m) - 1, &last));
    assert_int_equal(strlen(last.name), 127 + strlen("/kernel")); /* and it has no bias */
    clq_model_destroy(m);
}

/* Each name is found among thousands of layers, also the names that remain when other layers are left out. */
static void names_of_many_layers(void **state) {
    enum { MANY = 3000 };
    (void)state;
    clq_model *m = new_model();
    const clq_tensor x = clq_input(m, CLQ_SHAPE(2));
    clq_tensor y = x, last = x;
    char name[32];
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof name, "layer %u", i * 7919 % MANY);
        assert_false(clq_model_has_layer(m, name));
        last = clq_activate(m, i % 2 ? x : y, CLQ_ACTIVATION_TANH,
                            i % 3 ? name : NULL); /* every second layer leads nowhere */
        if (i % 2 == 0) y = last;
        assert_int_equal(clq_model_has_layer(m, name), i % 3 != 0);
    }
    (void)snprintf(name, sizeof name, "activation_%u", MANY / 3 - 1);
    assert_true(clq_model_has_layer(m, name) && clq_model_has_layer(m, "layer 1"));
    (void)snprintf(name, sizeof name, "activation_%u", MANY / 3);
    assert_false(clq_model_has_layer(m, name) || clq_model_has_layer(m, "layer"));
    assert_ok(clq_model_finish(m, y));
    for (uint32_t i = 0; i < m->layer_count; i++) assert_true(clq_model_has_layer(m, m->layers[i].name));
    assert_int_equal(m->layer_count, 1 + MANY / 2);
    assert_true(clq_model_has_layer(m, "activation"));    /* of layer 0, */
    assert_false(clq_model_has_layer(m, "activation_1")); /* and 3 */
    clq_model_destroy(m);
}

/* Branches and a tail that lead to no output are left out, and so are their variables. */
static void layers_off_the_path_are_left_out(void **state) {
    (void)state;
    clq_model *m = new_model();
    clq_tensor x = clq_input(m, CLQ_SHAPE(5));
    clq_tensor kept = clq_dense(m, x, &(clq_dense_config){.units = 4});
    clq_tensor branch = clq_dense(m, kept, &(clq_dense_config){.units = 9});
    clq_dense(m, branch, &(clq_dense_config){.units = 9});
    kept = clq_dense(m, kept, &(clq_dense_config){.units = 3, .no_bias = true});
    clq_dense(m, x, &(clq_dense_config){.units = 2});
    kept = clq_dense(m, kept, &(clq_dense_config){.units = 2});
    clq_activate(m, kept, CLQ_ACTIVATION_RELU, NULL);
    assert_ok(clq_model_finish(m, kept));
    static const expected_variable want[] = {
        {"dense/kernel", 20, 5, 4},  {"dense/bias", 4, 4, 4},   {"dense_3/kernel", 12, 4, 3},
        {"dense_5/kernel", 6, 3, 2}, {"dense_5/bias", 2, 2, 2},
    };
    assert_variables(m, want, CLQ_COUNT_OF(want), 44);
    assert_int_equal(m->layer_count, 4);
    assert_shape("output", clq_model_output_shape(m, 0), CLQ_SHAPE(2));
    for (uint32_t i = 0; i < m->variable_count; i++) { /* variables and layers have each other's new numbers */
        const clq_layer *node = &m->layers[m->variables[i].layer - 1];
        assert_int_equal(strncmp(m->variables[i].name, node->name, strlen(node->name)), 0);
        assert_int_equal(node->variables[m->variables[i].is_bias ? 1 : 0], i + 1);
    }
    clq_model_destroy(m);
}

/* ---- what is refused ---- */

typedef struct refusal {
    clq_tensor (*build)(clq_model *m, clq_tensor image); /* image: (6, 5, 2) */
    const char *layer, *words;
    clq_status status; /* OK means CLQ_ERROR_ARGUMENT */
} refusal;

static clq_tensor conv_null(clq_model *m, clq_tensor x) { return clq_conv2d(m, x, NULL); }
static clq_tensor conv_no_filters(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.kernel = {3, 3}});
}
static clq_tensor conv_no_kernel(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {3, 0}});
}
static clq_tensor conv_wide(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {6, 6}, .name = "wide"});
}
static clq_tensor conv_dilated(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {3, 3}, .dilation = {3, 1}});
}
static clq_tensor conv_both(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x,
                      &(clq_conv2d_config){.filters = 1, .kernel = {2, 2}, .strides = {1, 2}, .dilation = {2, 1}});
}
static clq_tensor conv_padding(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {2, 2}, .padding = (clq_padding)2});
}
static clq_tensor conv_activation(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {2, 2}, .activation = (clq_activation)55});
}
static clq_tensor conv_flat(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, clq_flatten(m, x, NULL), &(clq_conv2d_config){.filters = 1, .kernel = {1, 1}});
}
static clq_tensor conv_minus_filters(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = (size_t)-1, .kernel = {1, 1}});
}
static clq_tensor conv_minus_kernel(clq_model *m, clq_tensor x) {
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {1, (size_t)-1}, .padding = CLQ_PADDING_SAME});
}
static clq_tensor conv_minus_stride(clq_model *m, clq_tensor x) {
    return clq_conv2d(
        m, x,
        &(clq_conv2d_config){.filters = 1, .kernel = {1, 1}, .strides = {(size_t)-1, 1}, .padding = CLQ_PADDING_SAME});
}
static clq_tensor conv_minus_dilation(clq_model *m, clq_tensor x) {
    return clq_conv2d(
        m, x,
        &(clq_conv2d_config){.filters = 1, .kernel = {3, 3}, .dilation = {(size_t)-1, 1}, .padding = CLQ_PADDING_SAME});
}
static clq_tensor conv_large_kernel(clq_model *m, clq_tensor x) { /* 65536 * 32768 * 2 weights */
    return clq_conv2d(m, x, &(clq_conv2d_config){.filters = 1, .kernel = {65536, 32768}, .padding = CLQ_PADDING_SAME});
}
static clq_tensor pool_wide(clq_model *m, clq_tensor x) {
    return clq_max_pool2d(m, x, &(clq_pool_config){.size = {7, 1}});
}
static clq_tensor pool_flat(clq_model *m, clq_tensor x) { return clq_average_pool2d(m, clq_flatten(m, x, NULL), NULL); }
static clq_tensor pool_minus(clq_model *m, clq_tensor x) {
    return clq_max_pool2d(m, x, &(clq_pool_config){.size = {2, 2}, .strides = {1, (size_t)-1}, .name = "p"});
}
static clq_tensor pool_area(clq_model *m, clq_tensor x) {
    return clq_average_pool2d(m, x, &(clq_pool_config){.size = {65536, 65536}, .padding = CLQ_PADDING_SAME});
}
static clq_tensor dense_null(clq_model *m, clq_tensor x) { return clq_dense(m, x, NULL); }
static clq_tensor dense_no_units(clq_model *m, clq_tensor x) {
    return clq_dense(m, x, &(clq_dense_config){.name = "head"});
}
static clq_tensor dense_minus(clq_model *m, clq_tensor x) {
    return clq_dense(m, x, &(clq_dense_config){.units = (size_t)-1});
}
static clq_tensor dense_activation(clq_model *m, clq_tensor x) {
    return clq_dense(m, x, &(clq_dense_config){.units = 1, .activation = (clq_activation)-1});
}
static clq_tensor dense_large_kernel(clq_model *m, clq_tensor x) { /* each side fits, their product does not */
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 50000});
    return clq_dense(m, x, &(clq_dense_config){.units = 50000});
}
static clq_tensor reshape_count(clq_model *m, clq_tensor x) { return clq_reshape(m, x, CLQ_SHAPE(5, 11), NULL); }
static clq_tensor reshape_zero(clq_model *m, clq_tensor x) { return clq_reshape(m, x, CLQ_SHAPE(60, 0), NULL); }
static clq_tensor reshape_rank(clq_model *m, clq_tensor x) {
    return clq_reshape(m, x, (clq_shape){.rank = 7, .dims = {60, 1, 1, 1, 1, 1}}, NULL);
}
static clq_tensor reshape_wraps(clq_model *m, clq_tensor x) { /* 60 modulo 2^64 */
    return clq_reshape(m, x, CLQ_SHAPE(((size_t)1 << 62) + 15, 4), NULL);
}
static clq_tensor activation_unknown(clq_model *m, clq_tensor x) {
    return clq_activate(m, x, (clq_activation)77, "what");
}
static clq_tensor nothing(clq_model *m, clq_tensor x) { return (void)x, clq_flatten(m, (clq_tensor){0}, NULL); }
static clq_tensor later_tensor(clq_model *m, clq_tensor x) { return clq_flatten(m, (clq_tensor){m, x.id + 1}, NULL); }
static clq_tensor name_empty(clq_model *m, clq_tensor x) { return clq_flatten(m, x, ""); }
static clq_tensor name_slash(clq_model *m, clq_tensor x) { return clq_flatten(m, x, "a/b"); }
static clq_tensor name_control(clq_model *m, clq_tensor x) { return clq_flatten(m, x, "two\nlines"); }
static clq_tensor name_long(clq_model *m, clq_tensor x) {
    return clq_flatten(m, x,
                       "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
                       "567890123456789012345678901234567");
}
static clq_tensor name_twice(clq_model *m, clq_tensor x) {
    return clq_flatten(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, "twin"), "twin");
}
static clq_tensor name_as_made(clq_model *m, clq_tensor x) {
    return clq_flatten(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL), "activation");
}
static clq_tensor second_input(clq_model *m, clq_tensor x) { return (void)x, clq_input(m, CLQ_SHAPE(3)); }

static const refusal refusals[] = {
    {conv_null, "conv2d", "at least 1", CLQ_OK},
    {conv_no_filters, "conv2d", "at least 1", CLQ_OK},
    {conv_no_kernel, "conv2d", "at least 1", CLQ_OK},
    {conv_wide, "wide", "covers 6 values of the input's width, which is 5", CLQ_OK},
    {conv_dilated, "conv2d", "covers 7 values of the input's height, which is 6", CLQ_OK},
    {conv_both, "conv2d", "cannot both be above 1", CLQ_OK},
    {conv_padding, "conv2d", "padding 2", CLQ_OK},
    {conv_activation, "conv2d", "activation 55", CLQ_OK},
    {conv_flat, "conv2d", "its input is (60)", CLQ_OK},
    {conv_minus_filters, "conv2d", "make it smaller", CLQ_OK},
    {conv_minus_kernel, "conv2d", "along its width is too large", CLQ_OK},
    {conv_minus_stride, "conv2d", "along its height is too large", CLQ_OK},
    {conv_minus_dilation, "conv2d", "along its height is too large", CLQ_OK},
    {conv_large_kernel, "conv2d", "its kernel: (65536, 32768, 2, 1) has more than", CLQ_OK},
    {pool_wide, "max_pooling2d", "covers 7 values of the input's height, which is 6", CLQ_OK},
    {pool_flat, "average_pooling2d", "its input is (60)", CLQ_OK},
    {pool_minus, "p", "along its width is too large", CLQ_OK},
    {pool_area, "average_pooling2d", "65536 x 65536 is too large", CLQ_OK},
    {dense_null, "dense", "units must be at least 1", CLQ_OK},
    {dense_no_units, "head", "units must be at least 1", CLQ_OK},
    {dense_minus, "dense", "make it smaller", CLQ_OK},
    {dense_activation, "dense", "activation -1", CLQ_OK},
    {dense_large_kernel, "dense_1", "its kernel: (50000, 50000) has more than", CLQ_OK},
    {reshape_count, "reshape", "(5, 11) has 55 values and its input, (6, 5, 2), has 60", CLQ_OK},
    {reshape_zero, "reshape", "a dimension of (60, 0) is 0", CLQ_OK},
    {reshape_rank, "reshape", "1 to 6 dimensions, not 7", CLQ_OK},
    {reshape_wraps, "reshape", "has more than", CLQ_OK},
    {activation_unknown, "what", "activation 77", CLQ_OK},
    {nothing, "flatten", "its input is no tensor", CLQ_OK},
    {later_tensor, "flatten", "tensor of another model", CLQ_OK},
    {name_empty, "", "1 to 127 bytes", CLQ_OK},
    {name_slash, "a/b", "no '/'", CLQ_OK},
    {name_control, "two lines", "no control characters", CLQ_OK},
    {name_long, "0123456789", "1 to 127 bytes", CLQ_OK},
    {name_twice, "twin", "two layers have this name", CLQ_OK},
    {name_as_made, "activation", "two layers have this name", CLQ_OK},
    {second_input, "input_layer_1", "clq_inputs adds several", CLQ_ERROR_UNSUPPORTED},
};

/* Each mistake has its own message. A second mistake after it changes nothing. */
static void first_error_wins(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(refusals); i++) {
        const refusal *r = &refusals[i];
        clq_status status = r->status == CLQ_OK ? CLQ_ERROR_ARGUMENT : r->status;
        char layer[96];
        snprintf(layer, sizeof layer, "layer '%s", r->layer);
        clq_model *m = new_model();
        clq_tensor x = r->build(m, clq_input(m, CLQ_SHAPE(6, 5, 2)));
        assert_int_equal(x.id, 0);
        x = clq_dense(m, x, &(clq_dense_config){.name = "second"});
        assert_int_equal(x.id, 0);
        assert_fails(status, r->words, clq_model_finish(m, x));
        assert_fails(status, layer, clq_model_finish(m, x)); /* and fails again */
        assert_null(strstr(clq_error_detail(), "second"));
        assert_null(strchr(clq_error_detail(), '\n'));
        clq_model_destroy(m);
    }
}

static void impossible_inputs(void **state) {
    (void)state;
    const struct {
        clq_shape shape;
        const char *words;
    } cases[] = {
        {{.rank = 0}, "1 to 6 dimensions, not 0"},
        {{.rank = 7, .dims = {1, 1, 1, 1, 1, 1}}, "1 to 6 dimensions, not 7"},
        {{.rank = (unsigned)-1}, "1 to 6 dimensions"},
        {{.rank = 3, .dims = {28, 0, 1}}, "a dimension of (28, 0, 1) is 0"},
        {{.rank = 1, .dims = {(size_t)-1}}, "make it smaller"},
        {{.rank = 1, .dims = {(size_t)INT32_MAX + 1}}, "make it smaller"},
        {{.rank = 2, .dims = {65536, 32768}}, "(65536, 32768) has more than the 2147483647"},
        {{.rank = 2, .dims = {(size_t)1 << 63, 2}}, "make it smaller"}, /* 0 modulo 2^64 */
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *m = new_model();
        clq_tensor x = clq_input(m, cases[i].shape);
        assert_fails(CLQ_ERROR_ARGUMENT, cases[i].words, clq_model_finish(m, x));
        assert_non_null(strstr(clq_error_detail(), "layer 'input_layer'"));
        clq_model_destroy(m);
    }
    clq_model *m = new_model();
    clq_tensor x = clq_input(m, CLQ_SHAPE(INT32_MAX)); /* the largest possible size */
    assert_ok(clq_model_finish(m, x));
    clq_model_destroy(m);
}

static void tensors_of_other_models(void **state) {
    (void)state;
    clq_model *one = new_model(), *other = new_model();
    clq_tensor x = clq_input(one, CLQ_SHAPE(4)), y = clq_input(other, CLQ_SHAPE(4));
    assert_fails(CLQ_ERROR_ARGUMENT, "tensor of another model", clq_model_finish(one, y));
    assert_fails(CLQ_ERROR_ARGUMENT, "has no output", clq_model_finish(one, (clq_tensor){0}));
    assert_int_equal(clq_dense(one, y, &(clq_dense_config){.units = 2, .name = "mixed"}).id, 0);
    assert_fails(CLQ_ERROR_ARGUMENT, "layer 'mixed': its input is a tensor of another model", clq_model_finish(one, x));
    assert_ok(clq_model_finish(other, y));
    clq_model_destroy(one);
    clq_model_destroy(other);
}

/* A loss takes a mask of steps if each step has one row of values, or rows along one more axis. For other outputs, the
 * message says how to end the mask. */
static void masked_outputs(void **state) {
    (void)state;
    clq_model *m = new_model();
    clq_tensor x = clq_input(m, CLQ_SHAPE(5));
    x = clq_embedding(m, x, &(clq_embedding_config){.rows = 7, .width = 3, .mask_zero = true});
    const clq_tensor many = clq_keep_mask(m, clq_reshape(m, x, CLQ_SHAPE(5, 3, 1, 1), "many"), x),
                     rows = clq_keep_mask(m, clq_reshape(m, x, CLQ_SHAPE(5, 3, 1), "rows"), x);
    assert_fails(CLQ_ERROR_UNSUPPORTED, "output 'many' (5, 3, 1, 1) has a mask (5)", clq_model_finish(m, many));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "a keras.ops.multiply by 1 behind it ends the mask", clq_model_finish(m, many));
    x = clq_dense(m, x, &(clq_dense_config){.units = 4, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "tags"});
    const clq_tensor outputs[] = {x, rows};
    assert_ok(clq_model_finish_outputs(m, outputs, 2));
    clq_model_destroy(m);
}

static void finished_is_finished(void **state) {
    (void)state;
    clq_model *m = new_model();
    assert_int_equal(clq_model_input_shape(m).rank, 0);
    assert_int_equal(clq_model_output_shape(m, 0).rank, 0);
    clq_tensor x = clq_dense(m, clq_input(m, CLQ_SHAPE(4)), &(clq_dense_config){.units = 2});
    assert_ok(clq_model_finish(m, x));
    clq_tensor (*const late[])(clq_model *, clq_tensor) = {conv_wide,     pool_flat,          dense_null,
                                                           reshape_count, activation_unknown, second_input};
    for (size_t i = 0; i < CLQ_COUNT_OF(late); i++) {
        clq_fail(CLQ_OK, "%s", "");
        assert_int_equal(late[i](m, x).id, 0);
        assert_non_null(strstr(clq_error_detail(), "model test is finished"));
    }
    assert_fails(CLQ_ERROR_STATE, "finished already", clq_model_finish(m, x));
    assert_int_equal(m->layer_count, 2);
    assert_int_equal(clq_model_variable_count(m), 2);
    assert_shape("output", clq_model_output_shape(m, 0), CLQ_SHAPE(2));
    clq_model_destroy(m);
}

static void model_names(void **state) {
    (void)state;
    char name[129];
    memset(name, 'm', 128);
    name[128] = '\0';
    clq_model *model = NULL;
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 127 bytes", clq_model_create(name, &model));
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 127 bytes", clq_model_create("", &model));
    assert_fails(CLQ_ERROR_ARGUMENT, "1 to 127 bytes", clq_model_create(NULL, &model));
    assert_null(model);
    assert_ok(clq_model_create(name + 1, &model));
    assert_string_equal(clq_model_name(model), name + 1);
    clq_model_destroy(model);
    clq_model_destroy(NULL);
}

/* ---- out of memory ---- */

/* Builds more layers and variables than fit in the memory that is first allocated for them. */
static clq_status build_deep(void *context) {
    (void)context;
    clq_model *m;
    CLQ_TRY(clq_model_create("deep", &m));
    clq_tensor x = clq_input(m, CLQ_SHAPE(6, 6, 1));
    for (unsigned i = 0; i < 20; i++) {
        x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 2, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME});
        x = clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL);
    }
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 3});
    clq_status status = clq_model_finish(m, x);
    if (status == CLQ_OK && clq_model_variable_count(m) != 42) status = CLQ_ERROR_MISMATCH;
    clq_model_destroy(m);
    return status;
}

static clq_status take_builtin(void *context) {
    clq_model *model = NULL;
    clq_status status = clq_model_builtin(context, &model);
    if (status != CLQ_OK && model) return CLQ_ERROR_STATE; /* a failure wrote the output */
    clq_model_destroy(model);
    return status;
}

static clq_status be_refused(void *context) {
    clq_status status = take_builtin(context);
    return status == CLQ_ERROR_ARGUMENT ? CLQ_OK : status;
}

static void runs_out_of_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(build_deep, NULL) >= 7); /* the model; nodes for 16, 32, 64; variables likewise */
    assert_true(walk_allocations(take_builtin, (void *)(uintptr_t) "cnn") >= 3);
    assert_true(walk_allocations(be_refused, (void *)(uintptr_t) "none") >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_of_convolutions),  cmocka_unit_test(shapes_of_pools),
        cmocka_unit_test(shapes_of_dense),         cmocka_unit_test(shapes_of_the_rest),
        cmocka_unit_test(builtin_models),          cmocka_unit_test(names_are_made_as_in_keras),
        cmocka_unit_test(names_of_many_layers),    cmocka_unit_test(layers_off_the_path_are_left_out),
        cmocka_unit_test(first_error_wins),        cmocka_unit_test(impossible_inputs),
        cmocka_unit_test(tensors_of_other_models), cmocka_unit_test(masked_outputs),
        cmocka_unit_test(finished_is_finished),    cmocka_unit_test(model_names),
        cmocka_unit_test(runs_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
