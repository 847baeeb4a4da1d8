/* Chains of activation layers: the number of launches that they become. The launches must give the same bits as the
 * layers one by one, and match plain C in double. */
#include "two_models.h"

#include <math.h>

/* ---- models ---- */

static clq_tensor activate_all(clq_model *m, clq_tensor x, size_t count, const clq_activation *activations) {
    for (size_t i = 0; i < count; i++) x = clq_activate(m, x, activations[i], NULL);
    return x;
}
#define ACTIVATE(m, x, ...)                                                                                            \
    activate_all(m, x, CLQ_COUNT_OF(((const clq_activation[]){__VA_ARGS__})), (const clq_activation[]){__VA_ARGS__})

static clq_tensor to_classes(clq_model *m, clq_tensor x) {
    return clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 4});
}

/* A dense layer that takes over the first activation, with a reshape before the chain and a flatten in it. */
static clq_tensor build_dense(clq_model *m) {
    clq_tensor x = clq_reshape(m, clq_input(m, CLQ_SHAPE(12)), CLQ_SHAPE(3, 4), NULL);
    x = clq_reshape(m, clq_dense(m, x, &(clq_dense_config){.units = 5}), CLQ_SHAPE(5, 3), NULL);
    x = clq_flatten(m, ACTIVATE(m, x, CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_SIGMOID), NULL);
    return to_classes(m, ACTIVATE(m, x, CLQ_ACTIVATION_TANH));
}

/* A convolution with an activation of its own. */
static clq_tensor build_conv_run(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(6, 5, 2));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {2, 2}, .activation = CLQ_ACTIVATION_TANH});
    x = clq_flatten(m, ACTIVATE(m, x, CLQ_ACTIVATION_SIGMOID), NULL);
    return to_classes(m, ACTIVATE(m, x, CLQ_ACTIVATION_TANH));
}

/* Nine activations behind the dense layer's own, and a linear one, which computes nothing. */
static clq_tensor build_long(clq_model *m) {
    clq_tensor x =
        clq_dense(m, clq_input(m, CLQ_SHAPE(8)), &(clq_dense_config){.units = 6, .activation = CLQ_ACTIVATION_SIGMOID});
    x = ACTIVATE(m, x, CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_LINEAR, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH,
                 CLQ_ACTIVATION_RELU);
    x = clq_reshape(m, x, CLQ_SHAPE(2, 3), NULL);
    return to_classes(m, ACTIVATE(m, x, CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_RELU,
                                  CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_TANH));
}

static clq_tensor build_input(clq_model *m) {
    return to_classes(
        m, ACTIVATE(m, clq_input(m, CLQ_SHAPE(10)), CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_RELU, CLQ_ACTIVATION_SIGMOID));
}

/* As in LeNet-5: average pools, each with one activation layer behind it. */
static clq_tensor build_average(clq_model *m) {
    clq_tensor x = clq_conv2d(m, clq_input(m, CLQ_SHAPE(9, 8, 1)),
                              &(clq_conv2d_config){.filters = 3, .kernel = {2, 2}, .padding = CLQ_PADDING_SAME});
    x = ACTIVATE(m, clq_average_pool2d(m, x, NULL), CLQ_ACTIVATION_TANH);
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 16, .kernel = {2, 2}, .activation = CLQ_ACTIVATION_RELU});
    return to_classes(m, ACTIVATE(m, clq_average_pool2d(m, x, NULL), CLQ_ACTIVATION_SIGMOID));
}

/* Pools with overlapping windows: a maximum with two activations behind it, and a mean with three. */
static clq_tensor build_overlapping(clq_model *m) {
    const clq_pool_config overlap = {.size = {3, 3}, .strides = {2, 2}, .padding = CLQ_PADDING_SAME};
    clq_tensor x = clq_conv2d(m, clq_input(m, CLQ_SHAPE(9, 8, 1)),
                              &(clq_conv2d_config){.filters = 5, .kernel = {2, 2}, .padding = CLQ_PADDING_SAME});
    x = ACTIVATE(m, clq_max_pool2d(m, x, &overlap), CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_RELU);
    x = clq_average_pool2d(m, clq_conv2d(m, x, &(clq_conv2d_config){.filters = 2, .kernel = {2, 2}}), &overlap);
    return to_classes(m, ACTIVATE(m, x, CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH));
}

/* A maximum that is by rule not fused with its convolution: there are too few channels. */
static clq_tensor build_max(clq_model *m) {
    clq_tensor x =
        clq_conv2d(m, clq_input(m, CLQ_SHAPE(9, 8, 1)), &(clq_conv2d_config){.filters = 3, .kernel = {2, 2}});
    return to_classes(m, ACTIVATE(m, clq_max_pool2d(m, x, NULL), CLQ_ACTIVATION_TANH));
}

/* A chain behind a softmax, whose gradient cannot take over the slopes of other activations. */
static clq_tensor build_softmax(clq_model *m) {
    clq_tensor x =
        clq_dense(m, clq_input(m, CLQ_SHAPE(8)), &(clq_dense_config){.units = 7, .activation = CLQ_ACTIVATION_SOFTMAX});
    return to_classes(m, ACTIVATE(m, x, CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH));
}

/* A chain at the end of the model. */
static clq_tensor build_end(clq_model *m) {
    clq_tensor x =
        clq_dense(m, clq_input(m, CLQ_SHAPE(8)), &(clq_dense_config){.units = 5, .activation = CLQ_ACTIVATION_TANH});
    x = ACTIVATE(m, to_classes(m, x), CLQ_ACTIVATION_SIGMOID, CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_LINEAR);
    return clq_reshape(m, x, CLQ_SHAPE(4), NULL);
}

/* Two branches from one activation. They are one launch, so the activation has only one reader. */
static clq_tensor build_diamond(clq_model *m) {
    clq_tensor x = ACTIVATE(m, clq_input(m, CLQ_SHAPE(10)), CLQ_ACTIVATION_TANH);
    return to_classes(
        m, clq_add(m, CLQ_TENSORS(ACTIVATE(m, x, CLQ_ACTIVATION_SIGMOID), ACTIVATE(m, x, CLQ_ACTIVATION_RELU)), NULL));
}

typedef struct chain_case {
    subject s;
    size_t forward, backward;      /* launches of activations alone that remain in training */
    size_t fewer_inference, fewer; /* launches than layers one by one */
} chain_case;

#define SUBJECT(label, size, dtype, logits_)                                                                           \
    {                                                                                                                  \
        .name = #label, .build = build_##label, .sample = (size), .classes = 4, .sample_dtype = (dtype), .loss = {     \
            .kind = CLQ_LOSS_CATEGORICAL,                                                                              \
            .classes = 4,                                                                                              \
            .weight = 1,                                                                                               \
            .metric_count = 1,                                                                                         \
            .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY},                                                              \
            .from_logits = (logits_)                                                                                   \
        }                                                                                                              \
    }
static const chain_case cases[] = {
    {SUBJECT(dense, 12, CLQ_F32, true), 1, 0, 2, 5},       {SUBJECT(conv_run, 60, CLQ_U8, true), 1, 0, 1, 3},
    {SUBJECT(long, 8, CLQ_F32, true), 1, 0, 8, 17},        {SUBJECT(input, 10, CLQ_F32, true), 1, 0, 2, 2},
    {SUBJECT(input, 10, CLQ_U8, true), 1, 0, 2, 2},        {SUBJECT(average, 72, CLQ_U8, true), 0, 0, 2, 4},
    {SUBJECT(overlapping, 72, CLQ_F32, true), 2, 2, 3, 6}, {SUBJECT(max, 72, CLQ_F32, true), 0, 0, 1, 2},
    {SUBJECT(softmax, 8, CLQ_F32, true), 1, 1, 1, 2},      {SUBJECT(end, 8, CLQ_F32, false), 1, 0, 1, 3},
    {SUBJECT(diamond, 10, CLQ_F32, true), 1, 0, 3, 3},
};

/* ---- the same bits from fewer launches ---- */

/* Random parameters, the same in every plan of a model. */
static void put_parameters(const bench *b) {
    clq_random random = clq_random_start(11, 0);
    size_t bytes = clq_plan_arena_bytes(b->plan), n = bytes / sizeof(float);
    float *weights = clq_alloc(n, sizeof *weights);
    assert_non_null(weights);
    for (size_t i = 0; i < n; i++) weights[i] = uniform(&random, -0.7, 0.7);
    CHECK_OK(clq_queue_write(b->queue, clq_plan_parameters(b->plan), 0, weights, bytes, true));
    clq_free(weights);
}

/* How many launches of activations alone there are. label: "forward" or "backward". */
static size_t activations_of(const bench *b, const char *label) {
    size_t found = 0;
    for (size_t i = 0; i < clq_list_launch_count(b->plan->list); i++) {
        clq_launch_info info;
        clq_list_launch_info(b->plan->list, i, &info);
        found += info.file && strcmp(info.function, "elementwise") == 0 && strcmp(info.label, label) == 0;
    }
    return found;
}

/* The results of `count` examples: a training plan's gradient and metrics, or an inference plan's outputs. The caller
 * frees them. */
static void *result_of(const bench *b, uint32_t count, size_t *bytes) {
    size_t arena = clq_plan_gradient(b->plan) ? clq_plan_arena_bytes(b->plan) : 0;
    *bytes = arena ? arena + 2 * sizeof(float) : count * b->s->classes * sizeof(float);
    unsigned char *out = clq_alloc(*bytes + 1, 1);
    assert_non_null(out);
    run_segments(b, count, 0.125f, 0);
    if (arena) {
        CHECK_OK(clq_queue_read(b->queue, clq_plan_gradient(b->plan), 0, out, arena, true));
        CHECK_OK(clq_queue_read(b->queue, clq_plan_metrics(b->plan), 0, out + arena, 2 * sizeof(float), true));
    } else if (*bytes) {
        CHECK_OK(clq_queue_read(b->queue, clq_plan_output(b->plan, 0), 0, out, *bytes, true));
    }
    return out;
}

static void compare(const bench *fused, const bench *plain, uint32_t count) {
    size_t bytes, same;
    float *a = result_of(fused, count, &bytes), *b = result_of(plain, count, &same);
    assert_int_equal(bytes, same);
    for (size_t i = 0; i < bytes / sizeof *a; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0)
            fail_msg("%s, %s, %u examples: [%zu of %zu] is %.9g fused and %.9g not", clq_device_label(fused->device),
                     fused->s->name, (unsigned)count, i, bytes / sizeof *a, (double)a[i], (double)b[i]);
    clq_free(a);
    clq_free(b);
}

static void check_case(clq_device *device, clq_queue *queue, const chain_case *c, bool train) {
    clq_plan_config config = train ? training_of(&c->s, COUNT_MOST) : inference_of(&c->s, COUNT_MOST);
    config.gradient_norms = false;
    bench fused = open_bench(device, queue, &c->s, config);
    config.unfused_graph = true;
    bench plain = open_bench(device, queue, &c->s, config);
    data d = make_data(&c->s);
    size_t launches = clq_list_launch_count(plain.plan->list) - clq_list_launch_count(fused.plan->list);
    assert_int_equal(launches, train ? c->fewer : c->fewer_inference);
    assert_int_equal(activations_of(&fused, "forward"), c->forward);
    assert_int_equal(activations_of(&fused, "backward"), train ? c->backward : 0);
    bench *const both[] = {&fused, &plain};
    for (size_t i = 0; i < CLQ_COUNT_OF(both); i++) {
        blank(both[i], 0xFF); /* NaN: shows what was not written */
        put_parameters(both[i]);
        put_batch(both[i], &d, COUNT_MOST);
    }
    compare(&fused, &plain, COUNT_MOST);
    compare(&fused, &plain, 4);
    compare(&fused, &plain, 0);
    close_bench(&fused);
    close_bench(&plain);
}

static void chains_on(clq_device *device, clq_queue *queue) {
    /* Each driver runs every other case, as it must compile what it runs. Inference adds few kernels to training's. */
    for (size_t i = clq_device_runs_in_caller(device); i < CLQ_COUNT_OF(cases); i += 2) {
        check_case(device, queue, &cases[i], true);
        check_case(device, queue, &cases[i], false);
    }
}

static void chains_give_the_same_bits(void **state) {
    (void)state;
    on_each_driver(chains_on);
}

/* ---- plain C in double ---- */

/* A small LeNet, a dense layer whose activation begins a chain, and a dense layer with no activation behind it. */
static clq_tensor build_lenet(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(6, 6, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 2, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_SIGMOID});
    x = ACTIVATE(m, clq_average_pool2d(m, x, NULL), CLQ_ACTIVATION_TANH);
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 6, .activation = CLQ_ACTIVATION_RELU});
    x = ACTIVATE(m, x, CLQ_ACTIVATION_TANH, CLQ_ACTIVATION_SIGMOID);
    return clq_dense(m, x, &(clq_dense_config){.units = 3});
}

static void lenet_logits(const double *w, size_t count, const double *x, double *out) {
    static const clq_conv2d_problem conv = {.in_h = 6,
                                            .in_w = 6,
                                            .in_c = 1,
                                            .out_h = 4,
                                            .out_w = 4,
                                            .out_c = 2,
                                            .kernel_h = 3,
                                            .kernel_w = 3,
                                            .stride_h = 1,
                                            .stride_w = 1,
                                            .dilation_h = 1,
                                            .dilation_w = 1};
    static const clq_pool2d_problem mean = {.in_h = 4,
                                            .in_w = 4,
                                            .channels = 2,
                                            .out_h = 2,
                                            .out_w = 2,
                                            .size_h = 2,
                                            .size_w = 2,
                                            .stride_h = 2,
                                            .stride_w = 2,
                                            .average = true};
    double a[COUNT_MOST * 32], b[COUNT_MOST * 32];
    ref_conv2d(&conv, count, x, w, w + 18, a);
    ref_activation(CLQ_ACTIVATION_SIGMOID, count, 32, a, b);
    ref_pool2d(&mean, count, b, a, NULL);
    ref_activation(CLQ_ACTIVATION_TANH, count, 8, a, b);
    ref_dense(&(clq_dense_problem){.in = 8, .out = 6, .rows_per_example = 1}, count, b, w + 20, w + 68, a);
    ref_activation(CLQ_ACTIVATION_RELU, count, 6, a, b);
    ref_activation(CLQ_ACTIVATION_TANH, count, 6, b, a);
    ref_activation(CLQ_ACTIVATION_SIGMOID, count, 6, a, b);
    ref_dense(&(clq_dense_problem){.in = 6, .out = 3, .rows_per_example = 1}, count, b, w + 74, w + 92, out);
}

static const subject lenet_subject = {.name = "lenet",
                                      .build = build_lenet,
                                      .logits = lenet_logits,
                                      .sample = 36,
                                      .classes = 3,
                                      .variables = 6,
                                      .weights = 95,
                                      .elements = {18, 2, 48, 6, 18, 3},
                                      .sample_dtype = CLQ_F32,
                                      .loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                               .classes = 3,
                                               .from_logits = true,
                                               .weight = 1,
                                               .metric_count = 1,
                                               .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}}};

/* Central differences are accurate to about 1e-10. The tolerance is for float32 rounding (test_plan.c). */
static void lenet_on(clq_device *device, clq_queue *queue) {
    const double h = 1e-5, scale = 0.125;
    const subject *s = &lenet_subject;
    data d = make_data(s);
    float gradient[WEIGHTS_MOST], loss;
    double differences[WEIGHTS_MOST], w[WEIGHTS_MOST], want = loss_of(&d, d.weights, COUNT_MOST);
    bench b = open_bench(device, queue, s, training_of(s, COUNT_MOST));
    assert_int_equal(activations_of(&b, "forward"), 1);
    assert_int_equal(activations_of(&b, "backward"), 0);
    blank(&b, 0xFF);
    put_weights(&b, &d);
    put_batch(&b, &d, COUNT_MOST);
    run_segments(&b, COUNT_MOST, (float)scale, 0);
    read_arena(&b, clq_plan_gradient(b.plan), gradient);
    read_floats(&b, clq_plan_metrics(b.plan), 0, &loss, 1);
    assert_true(fabs((double)loss - want) <= 1e-6 * want);
    memcpy(w, d.weights, sizeof w);
    for (size_t i = 0; i < s->weights; i++) {
        w[i] = d.weights[i] + h;
        double above = loss_of(&d, w, COUNT_MOST);
        w[i] = d.weights[i] - h;
        differences[i] = scale * (above - loss_of(&d, w, COUNT_MOST)) / (2 * h);
        w[i] = d.weights[i];
    }
    for (size_t v = 0, at = 0; v < s->variables; at += s->elements[v++]) {
        double most = 0;
        for (size_t i = at; i < at + s->elements[v]; i++) most = fmax(most, fabs(differences[i]));
        assert_true(most > 1e-5);
        for (size_t i = at; i < at + s->elements[v]; i++)
            if (!(fabs((double)gradient[i] - differences[i]) <= 2e-6 * most))
                fail_msg("%s: gradient %zu of variable %zu is %.9g, should be %.9g", clq_device_label(device), i - at,
                         v, (double)gradient[i], differences[i]);
    }
    close_bench(&b);
}

static void gradients_match_finite_differences(void **state) {
    (void)state;
    on_each_driver(lenet_on);
}

/* ---- layers that compute nothing ---- */

static clq_tensor build_nothing(clq_model *m) {
    return clq_flatten(m, ACTIVATE(m, clq_input(m, CLQ_SHAPE(2, 2)), CLQ_ACTIVATION_LINEAR, CLQ_ACTIVATION_LINEAR),
                       NULL);
}

/* The input is then also the output, so one launch must copy it. */
static void nothing_on(clq_device *device, clq_queue *queue) {
    static const subject subjects[] = {SUBJECT(nothing, 4, CLQ_U8, true), SUBJECT(nothing, 4, CLQ_F32, true)};
    if (!clq_device_runs_in_caller(device)) return; /* nothing here depends on the driver */
    for (size_t i = 0; i < CLQ_COUNT_OF(subjects); i++) {
        data d = make_data(&subjects[i]);
        float got[COUNT_MOST * 4];
        bench b = open_bench(device, queue, &subjects[i], inference_of(&subjects[i], COUNT_MOST));
        assert_int_equal(clq_list_launch_count(b.plan->list), 1);
        put_batch(&b, &d, COUNT_MOST);
        run_segments(&b, COUNT_MOST, 1.0f, 0);
        read_floats(&b, clq_plan_output(b.plan, 0), 0, got, CLQ_COUNT_OF(got));
        for (size_t k = 0; k < CLQ_COUNT_OF(got); k++) assert_true(fabs((double)got[k] - d.x[k]) < 1e-6);
        close_bench(&b);
    }
}

static void linear_layers_vanish(void **state) {
    (void)state;
    on_each_device(nothing_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_give_the_same_bits),
        cmocka_unit_test(gradients_match_finite_differences),
        cmocka_unit_test(linear_layers_vanish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
