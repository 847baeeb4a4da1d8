/* Fused layers compute the same as the layers one by one. */
#include "device/fixture.h"
#include "graph/plan.h"
#include "support/check.h"

#include <math.h>

enum { CAPACITY = 9, SAMPLE = 15 * 14, CLASSES = 4 };

/* Two convolutions, each read by a pooling alone. One has an activation of its own, the other an activation layer. Both
 * poolings have activation layers behind them. */
static clq_tensor build_pooled(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(15, 14, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 16, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_RELU});
    x = clq_activate(m, clq_max_pool2d(m, x, &(clq_pool_config){.size = {2, 2}}), CLQ_ACTIVATION_SIGMOID, NULL);
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 5, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME});
    x = clq_max_pool2d(m, clq_activate(m, x, CLQ_ACTIVATION_TANH, NULL), &(clq_pool_config){.size = {3, 2}});
    x = clq_activate(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL), CLQ_ACTIVATION_SIGMOID, NULL);
    return clq_dense(m, clq_flatten(m, x, NULL),
                     &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
}

/* No convolution can be fused with its pooling: overlapping windows, a mean, a softmax before the pooling. */
static clq_tensor build_other(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(15, 14, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {2, 2}});
    x = clq_max_pool2d(m, x, &(clq_pool_config){.size = {3, 3}, .strides = {2, 2}});
    x = clq_average_pool2d(m, clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {2, 2}}), NULL);
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {1, 1}, .activation = CLQ_ACTIVATION_SOFTMAX});
    return clq_dense(m, clq_flatten(m, clq_max_pool2d(m, x, NULL), NULL), &(clq_dense_config){.units = CLASSES});
}

/* Activation layers behind products, the last of them the model's output, and one activation layer without a product in
 * front of it. */
static clq_tensor build_activated(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(15, 14, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}, .strides = {3, 3}});
    x = clq_activate(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL), CLQ_ACTIVATION_TANH, NULL);
    x = clq_activate(m, clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 7}), CLQ_ACTIVATION_TANH,
                     NULL);
    return clq_activate(m, clq_dense(m, x, &(clq_dense_config){.units = CLASSES}), CLQ_ACTIVATION_SIGMOID, NULL);
}

typedef struct bench {
    clq_queue *queue;
    clq_model *model;
    clq_plan *plan;
} bench;

/* Whether a convolution is fused with its pooling. AUTO: if that is known to be faster. ON: whenever possible. */
typedef enum fusion { AUTO, OFF, ON } fusion;

static bench open_bench(clq_device *device, clq_queue *queue, clq_tensor (*build)(clq_model *m), fusion how,
                        bool train) {
    static const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                          .classes = CLASSES,
                                          .weight = 1,
                                          .metric_count = 1,
                                          .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    static const clq_optimizer update = {.kind = CLQ_OPTIMIZER_SGD};
    static const clq_selection one = {"conv + pool *", "one"};
    static const clq_selections fused = {.entries = &one, .count = 1};
    bench b = {.queue = queue};
    CHECK_OK(clq_model_create("fused", &b.model));
    CHECK_OK(clq_model_finish(b.model, build(b.model)));
    clq_plan_config config = {
        .capacity = CAPACITY, .sample_dtype = CLQ_U8, .metric_slots = 1, .unfused_graph = how == OFF};
    if (how == ON) config.selections = &fused;
    if (train) config.loss = &loss;
    if (train) config.update = &update;
    CHECK_OK(clq_plan_create_alone(b.model, device, &config, &b.plan));
    return b;
}

static void close_bench(bench *b) {
    clq_plan_destroy(b->plan);
    clq_model_destroy(b->model);
}

/* Gives every plan the same weights, samples and, if it has any, labels. */
static void fill(const bench *b) {
    clq_random random = clq_random_start(6, 0);
    size_t floats = clq_plan_arena_bytes(b->plan) / sizeof(float);
    float *weights = clq_alloc(floats, sizeof *weights);
    unsigned char samples[CAPACITY * SAMPLE];
    int32_t labels[CAPACITY];
    assert_non_null(weights);
    for (size_t i = 0; i < floats; i++) weights[i] = (float)(clq_random_unit(&random) - 0.5);
    for (size_t i = 0; i < sizeof samples; i++) samples[i] = (unsigned char)clq_random_below(&random, 256);
    for (size_t i = 0; i < CAPACITY; i++) labels[i] = (int32_t)clq_random_below(&random, CLASSES);
    CHECK_OK(clq_queue_write(b->queue, clq_plan_parameters(b->plan), 0, weights, floats * sizeof *weights, true));
    CHECK_OK(clq_queue_write(b->queue, clq_plan_samples(b->plan), 0, samples, sizeof samples, true));
    if (clq_plan_labels(b->plan, 0))
        CHECK_OK(clq_queue_write(b->queue, clq_plan_labels(b->plan, 0), 0, labels, sizeof labels, true));
    clq_free(weights);
}

/* Runs the first `count` samples. Returns the gradient arena, or an inference plan's outputs. The caller frees it. */
static float *run(const bench *b, uint32_t count, size_t *floats, float metrics[2]) {
    const clq_buffer *result = clq_plan_gradient(b->plan) ? clq_plan_gradient(b->plan) : clq_plan_output(b->plan, 0);
    clq_plan_set_params(b->plan, &(clq_step_params){.count = count, .scale = 0.125f});
    for (int s = CLQ_SEGMENT_FORWARD; s < CLQ_SEGMENT_UPDATE; s++)
        CHECK_OK(clq_plan_run(b->plan, b->queue, (clq_segment)s, (clq_segment)s));
    *floats = clq_plan_gradient(b->plan) ? clq_buffer_bytes(result) / sizeof(float) : (size_t)count * CLASSES;
    float *out = clq_alloc(*floats + 1, sizeof *out);
    assert_non_null(out);
    if (*floats) CHECK_OK(clq_queue_read(b->queue, result, 0, out, *floats * sizeof *out, true));
    if (clq_plan_metrics(b->plan))
        CHECK_OK(clq_queue_read(b->queue, clq_plan_metrics(b->plan), 0, metrics, 2 * sizeof *metrics, true));
    return out;
}

static size_t launches_of(const bench *b, const char *function) {
    size_t found = 0;
    for (size_t i = 0; i < clq_list_launch_count(clq_plan_list(b->plan)); i++) {
        clq_launch_info info;
        clq_list_launch_info(clq_plan_list(b->plan), i, &info);
        found += info.file && strcmp(info.function, function) == 0;
    }
    return found;
}

/* How many launches of activations alone there are. label: "forward" or "backward". */
static size_t activations_of(const bench *b, const char *label) {
    size_t found = 0;
    for (size_t i = 0; i < clq_list_launch_count(clq_plan_list(b->plan)); i++) {
        clq_launch_info info;
        clq_list_launch_info(clq_plan_list(b->plan), i, &info);
        found += info.file && strcmp(info.function, "elementwise") == 0 && strcmp(info.label, label) == 0;
    }
    return found;
}

static void assert_close(const float *got, const float *want, size_t n) {
    float most = 0;
    for (size_t i = 0; i < n; i++) most = fmaxf(most, fabsf(want[i]));
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - want[i]) <= 2e-6f * most))
            fail_msg("[%zu of %zu] is %.9g fused and %.9g not", i, n, (double)got[i], (double)want[i]);
}

static void compare(const bench *fused, const bench *plain, uint32_t count) {
    size_t n, same;
    float fused_metrics[2] = {0}, plain_metrics[2] = {0};
    float *a = run(fused, count, &n, fused_metrics), *b = run(plain, count, &same, plain_metrics);
    assert_int_equal(n, same);
    assert_close(a, b, n);
    assert_true(fabsf(fused_metrics[0] - plain_metrics[0]) <= 2e-6f * plain_metrics[0]);
    assert_true(fused_metrics[1] == plain_metrics[1]);
    clq_free(a);
    clq_free(b);
}

/* Once a bucket says that its gradients are complete, they must not change. */
static void check_buckets(const bench *b) {
    clq_bucket *buckets;
    size_t count, floats, first, end;
    float metrics[2];
    float *whole = run(b, CAPACITY, &floats, metrics), *now = clq_alloc(floats, sizeof *now);
    assert_non_null(now);
    CHECK_OK(clq_plan_buckets(b->plan, 1, &buckets, &count));
    assert_int_equal(count, 3);
    clq_plan_segment_range(b->plan, CLQ_SEGMENT_BACKWARD, &first, &end);
    memset(now, 0xFF, floats * sizeof *now);
    CHECK_OK(clq_queue_write(b->queue, clq_plan_gradient(b->plan), 0, now, floats * sizeof *now, true));
    CHECK_OK(clq_plan_run(b->plan, b->queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_FORWARD));
    CHECK_OK(clq_plan_run(b->plan, b->queue, CLQ_SEGMENT_LOSS, CLQ_SEGMENT_LOSS));
    for (size_t i = 0; i < count; first = buckets[i++].done) {
        CHECK_OK(clq_plan_run_part(b->plan, b->queue, first, buckets[i].done));
        for (size_t v = 0; v < clq_model_variable_count(b->model); v++) {
            clq_variable_info info;
            size_t offset = clq_plan_variable_offset(b->plan, v);
            CHECK_OK(clq_model_variable(b->model, v, &info));
            if (offset < buckets[i].begin || offset >= buckets[i].end) continue;
            CHECK_OK(
                clq_queue_read(b->queue, clq_plan_gradient(b->plan), offset, now, info.elements * sizeof *now, true));
            assert_memory_equal(now, whole + offset / sizeof *now, info.elements * sizeof *now);
        }
    }
    clq_free(buckets);
    clq_free(whole);
    clq_free(now);
}

static void fused_on(clq_device *device, clq_queue *queue) {
    for (int train = clq_device_runs_in_caller(device) ? 0 : 1; train < 2;
         train++) { /* inference: one driver is enough */
        bench fused = open_bench(device, queue, build_pooled, ON, train),
              plain = open_bench(device, queue, build_pooled, OFF, train);
        assert_int_equal(launches_of(&fused, "conv_pool_forward"), 2);
        assert_int_equal(launches_of(&fused, "pool2d_forward"), 0);
        assert_int_equal(activations_of(&fused, "forward"), 2);
        assert_int_equal(activations_of(&fused, "backward"), 0);
        assert_int_equal(launches_of(&plain, "conv_pool_forward"), 0);
        assert_int_equal(launches_of(&plain, "pool2d_forward"), 2);
        fill(&fused);
        fill(&plain);
        compare(&fused, &plain, CAPACITY);
        compare(&fused, &plain, 4);
        compare(&fused, &plain, 0);
        if (train) check_buckets(&fused);
        close_bench(&fused);
        close_bench(&plain);
    }
}

static void fused_layers_compute_the_same(void **state) {
    (void)state;
    on_each_driver(fused_on);
}

static void activated_on(clq_device *device, clq_queue *queue) {
    if (!clq_device_runs_in_caller(device)) return; /* nothing here depends on the driver */
    for (int train = 0; train < 2; train++) {
        bench fused = open_bench(device, queue, build_activated, AUTO, train),
              plain = open_bench(device, queue, build_activated, OFF, train);
        /* In training, the loss reads the input of the last sigmoid, so nothing computes the sigmoid. The backward sums
         * of biases are fused with the derivatives, also with those of the chain. */
        assert_int_equal(activations_of(&plain, "forward"), train ? 3 : 4);
        assert_int_equal(activations_of(&fused, "forward"), 1);
        size_t all = clq_list_launch_count(clq_plan_list(plain.plan));
        assert_int_equal(clq_list_launch_count(clq_plan_list(fused.plan)), all - (train ? 5 : 3));
        fill(&fused);
        fill(&plain);
        compare(&fused, &plain, CAPACITY);
        compare(&fused, &plain, 4);
        close_bench(&fused);
        close_bench(&plain);
    }
}

static void products_take_activations_over(void **state) {
    (void)state;
    on_each_driver(activated_on);
}

static void others_on(clq_device *device, clq_queue *queue) {
    if (!clq_device_runs_in_caller(device)) return; /* nothing here depends on the driver */
    bench b = open_bench(device, queue, build_other, ON, true);
    assert_int_equal(launches_of(&b, "conv_pool_forward"), 0);
    assert_int_equal(launches_of(&b, "pool2d_forward"), 3);
    close_bench(&b);
}

static void other_layers_stay_as_they_are(void **state) {
    (void)state;
    on_each_driver(others_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_layers_compute_the_same),
        cmocka_unit_test(products_take_activations_over),
        cmocka_unit_test(other_layers_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
