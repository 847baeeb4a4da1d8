/* A plan whose launches are joined into one computes the same bits as launch by launch, on devices with several compute
 * units: work-groups share the work-items of all launches and wait for each other. A device that runs in its caller's
 * thread only shows here that a step is one launch. interop/golden_alone and train/paths train on such a device. */
#include "device/fixture.h"
#include "graph/plan.h"
#include "support/check.h"

enum { CAPACITY = 24, SAMPLE = 20 * 20, CLASSES = 10, STEPS = 5 };
static const uint32_t counts[STEPS] = {CAPACITY, 7, 0, CAPACITY, 1};

/* The models together have every kind of kernel for CPU devices: pooled and plain convolutions, Winograd convolutions,
 * an average, packed and unpacked products, separate activations, a softmax inside. */
static clq_tensor build_wide(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(20, 20, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 16, .kernel = {3, 3}, .activation = CLQ_ACTIVATION_RELU});
    x = clq_max_pool2d(m, x, &(clq_pool_config){.size = {2, 2}});
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 16, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME});
    x = clq_average_pool2d(m, clq_activate(m, x, CLQ_ACTIVATION_TANH, NULL), NULL);
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 48, .activation = CLQ_ACTIVATION_SIGMOID});
    return clq_dense(m, x, &(clq_dense_config){.units = CLASSES, .activation = CLQ_ACTIVATION_SOFTMAX});
}
static clq_tensor build_odd(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(20, 20, 1));
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 3, .kernel = {3, 2}, .strides = {2, 1}});
    x = clq_max_pool2d(m, x, &(clq_pool_config){.size = {3, 3}, .strides = {2, 2}, .padding = CLQ_PADDING_SAME});
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = 5, .kernel = {2, 2}, .activation = CLQ_ACTIVATION_SOFTMAX});
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 300, .no_bias = true});
    return clq_dense(m, clq_activate(m, x, CLQ_ACTIVATION_RELU, NULL), &(clq_dense_config){.units = CLASSES});
}
static clq_tensor (*const builds[])(clq_model *m) = {build_wide, build_odd};

typedef struct bench {
    clq_queue *queue;
    clq_model *model;
    clq_plan *plan;
} bench;

static bench open_bench(clq_device *device, clq_queue *queue, clq_tensor (*build)(clq_model *m), bool train,
                        bool fused) {
    static const clq_loss_problem loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                          .classes = CLASSES,
                                          .from_logits = true,
                                          .weight = 1,
                                          .metric_count = 1,
                                          .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    static const clq_optimizer adam = {CLQ_OPTIMIZER_ADAM, {0.001, 0.9, 0.999, 1e-7}};
    bench b = {.queue = queue};
    CHECK_OK(clq_model_create("fused step", &b.model));
    CHECK_OK(clq_model_finish(b.model, build(b.model)));
    clq_plan_config config = {.capacity = CAPACITY,
                              .sample_dtype = CLQ_U8,
                              .metric_slots = STEPS,
                              .gradient_norms = train,
                              .fused_launches = fused};
    if (train) config.loss = &loss;
    if (train) config.update = &adam;
    CHECK_OK(clq_plan_create_alone(b.model, device, &config, &b.plan));
    assert_int_equal(clq_list_is_fused(clq_plan_list(b.plan)), fused && clq_device_family(device) == CLQ_FAMILY_TILE);
    return b;
}

static void close_bench(bench *b) {
    clq_plan_destroy(b->plan);
    clq_model_destroy(b->model);
}

static void write_zeros(const bench *b, clq_buffer *to) {
    if (to) CHECK_OK(clq_queue_fill_zero(b->queue, to, 0, clq_buffer_bytes(to)));
}

/* Gives every plan the same weights, samples and, if it has any, labels. Clears the results of earlier steps. */
static void start(const bench *b) {
    clq_random random = clq_random_start(6, 0);
    size_t floats = clq_plan_arena_bytes(b->plan) / sizeof(float);
    float *weights = clq_alloc(floats, sizeof *weights);
    unsigned char samples[CAPACITY * SAMPLE];
    int32_t labels[CAPACITY];
    assert_non_null(weights);
    for (size_t i = 0; i < floats; i++) weights[i] = (float)(clq_random_unit(&random) - 0.5) / 4;
    for (size_t i = 0; i < sizeof samples; i++) samples[i] = (unsigned char)clq_random_below(&random, 256);
    for (size_t i = 0; i < CAPACITY; i++) labels[i] = (int32_t)clq_random_below(&random, CLASSES);
    CHECK_OK(clq_queue_write(b->queue, clq_plan_parameters(b->plan), 0, weights, floats * sizeof *weights, true));
    CHECK_OK(clq_queue_write(b->queue, clq_plan_samples(b->plan), 0, samples, sizeof samples, true));
    if (clq_plan_labels(b->plan, 0))
        CHECK_OK(clq_queue_write(b->queue, clq_plan_labels(b->plan, 0), 0, labels, sizeof labels, true));
    clq_free(weights);
    clq_buffer *const zero[] = {b->plan->weights->gradient, b->plan->weights->optimizer[0],
                                b->plan->weights->optimizer[1], b->plan->metrics, b->plan->norms};
    for (size_t i = 0; i < CLQ_COUNT_OF(zero); i++) write_zeros(b, zero[i]);
}

/* How a step runs. */
typedef enum way { AT_ONCE, BY_SEGMENTS, ONE_BY_ONE } way;

static void step(const bench *b, size_t index, way how) {
    const clq_step_params params = {
        .count = counts[index], .scale = 0.125f, .slot = (uint32_t)index, .rate = 0.01f * (float)(index + 1)};
    clq_plan_set_params(b->plan, &params);
    size_t launches = clq_list_launch_count(clq_plan_list(b->plan));
    if (how == AT_ONCE) CHECK_OK(clq_plan_run(b->plan, b->queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_UPDATE));
    for (int s = CLQ_SEGMENT_FORWARD; s <= CLQ_SEGMENT_UPDATE && how == BY_SEGMENTS; s++)
        CHECK_OK(clq_plan_run(b->plan, b->queue, (clq_segment)s, (clq_segment)s));
    for (size_t i = 0; i < launches && how == ONE_BY_ONE; i++) CHECK_OK(clq_plan_run_part(b->plan, b->queue, i, i + 1));
}

typedef struct content {
    size_t bytes;
    unsigned char *all;
} content;

/* Reads everything that steps leave behind. */
static content contents(const bench *b) {
    const clq_plan *plan = b->plan;
    clq_buffer *const kept[] = {plan->weights->parameters,   plan->weights->gradient, plan->weights->optimizer[0],
                                plan->weights->optimizer[1], plan->metrics,           plan->norms};
    content c = {0};
    for (size_t i = 0; i < CLQ_COUNT_OF(kept); i++) c.bytes += clq_buffer_bytes(kept[i]);
    c.all = clq_alloc(c.bytes, 1);
    assert_non_null(c.all);
    unsigned char *at = c.all;
    for (size_t i = 0; i < CLQ_COUNT_OF(kept); at += clq_buffer_bytes(kept[i++]))
        CHECK_OK(clq_queue_read(b->queue, kept[i], 0, at, clq_buffer_bytes(kept[i]), true));
    return c;
}

static content train(const bench *b, way how) {
    start(b);
    for (size_t i = 0; i < STEPS; i++) step(b, i, how);
    return contents(b);
}

static void check_same(const bench *b, way how, const content *wanted) {
    content got = train(b, how);
    assert_int_equal(got.bytes, wanted->bytes);
    assert_memory_equal(got.all, wanted->all, got.bytes);
    clq_free(got.all);
}

/* Only a launch that several threads share can show whether work-groups wait correctly. */
static void bits_on(clq_device *device, clq_queue *queue) {
    enum { REPEATS = 40 };
    if (clq_device_runs_in_caller(device)) return;
    for (size_t i = 0; i < CLQ_COUNT_OF(builds); i++) {
        bench plain = open_bench(device, queue, builds[i], true, false);
        content wanted = train(&plain, AT_ONCE);
        bench fused = open_bench(device, queue, builds[i], true, true);
        check_same(&fused, BY_SEGMENTS, &wanted);
        check_same(&fused, ONE_BY_ONE, &wanted);
        for (int r = 0; r < REPEATS; r++) check_same(&fused, AT_ONCE, &wanted);
        clq_free(wanted.all);
        close_bench(&fused);
        close_bench(&plain);
    }
}

static void one_launch_gives_the_same_bits(void **state) {
    (void)state;
    on_each_device(bits_on);
}

static void output_of(const bench *b, float out[CAPACITY * CLASSES]) {
    start(b);
    clq_plan_set_params(b->plan, &(clq_step_params){.count = CAPACITY});
    CHECK_OK(clq_plan_run(b->plan, b->queue, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_LOSS));
    CHECK_OK(clq_queue_read(b->queue, clq_plan_output(b->plan, 0), 0, out, CAPACITY * CLASSES * sizeof *out, true));
}

static void inference_on(clq_device *device, clq_queue *queue) {
    if (clq_device_runs_in_caller(device)) return;
    float got[CAPACITY * CLASSES], wanted[CAPACITY * CLASSES];
    bench plain = open_bench(device, queue, build_wide, false, false);
    bench fused = open_bench(device, queue, build_wide, false, true);
    output_of(&plain, wanted);
    output_of(&fused, got);
    assert_memory_equal(got, wanted, sizeof got);
    assert_true(got[0] > 0 && got[0] < 1);
    close_bench(&fused);
    close_bench(&plain);
}

/* A new buffer with a copy of a plan's buffer. */
static clq_buffer *copy_of(const bench *b, clq_device *device, const clq_buffer *from) {
    clq_buffer *copy;
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, clq_buffer_bytes(from), "a copy", &copy));
    CHECK_OK(clq_queue_copy(b->queue, from, 0, copy, 0, clq_buffer_bytes(from)));
    return copy;
}

/* Runs one step on inputs in other buffers. The plan's own input buffers hold only zeros. */
static void check_moved(const bench *b, clq_device *device, const content *wanted) {
    clq_buffer *own[2] = {clq_plan_samples(b->plan), clq_plan_labels(b->plan, 0)}, *moved[2], *small;
    for (int i = 0; i < 2; i++) moved[i] = copy_of(b, device, own[i]);
    for (int i = 0; i < 2; i++) write_zeros(b, own[i]);
    CHECK_OK(clq_plan_set_input(b->plan, moved));
    step(b, 0, AT_ONCE);
    content got = {wanted->bytes, clq_alloc(wanted->bytes, 1)};
    assert_non_null(got.all);
    CHECK_OK(clq_queue_read(b->queue, b->plan->weights->gradient, 0, got.all, got.bytes, true));
    assert_memory_equal(got.all, wanted->all, got.bytes);
    clq_free(got.all);
    CHECK_OK(clq_buffer_create(device, CLQ_MEMORY_DEVICE, clq_buffer_bytes(own[0]) - 1, "too small", &small));
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_plan_set_input(b->plan, (clq_buffer *[]){small, own[1]}));
    CHECK_OK(clq_plan_set_input(b->plan, own));
    clq_buffer_destroy(small);
    for (int i = 0; i < 2; i++) clq_buffer_destroy(moved[i]);
}

static void moved_on(clq_device *device, clq_queue *queue) {
    if (clq_device_runs_in_caller(device)) return;
    for (int fused = 0; fused < 2; fused++) {
        bench b = open_bench(device, queue, build_wide, true, fused);
        start(&b);
        step(&b, 0, AT_ONCE);
        content wanted = {clq_buffer_bytes(b.plan->weights->gradient),
                          clq_alloc(clq_buffer_bytes(b.plan->weights->gradient), 1)};
        assert_non_null(wanted.all);
        CHECK_OK(clq_queue_read(queue, b.plan->weights->gradient, 0, wanted.all, wanted.bytes, true));
        start(&b);
        check_moved(&b, device, &wanted);
        clq_free(wanted.all);
        close_bench(&b);
    }
}

/* Swaps parameters and gradient together with their contents: steps must give the same. */
static void check_swapped(clq_device *device, clq_queue *queue, bool joined) {
    bench b = open_bench(device, queue, build_wide, true, joined);
    clq_plan *plan = b.plan;
    clq_buffer *weights = plan->weights->parameters, *gradient = plan->weights->gradient;
    content wanted = train(&b, AT_ONCE);
    start(&b);
    step(&b, 0, AT_ONCE);
    clq_buffer *keep = copy_of(&b, device, weights);
    CHECK_OK(clq_queue_copy(queue, gradient, 0, weights, 0, clq_buffer_bytes(weights)));
    CHECK_OK(clq_queue_copy(queue, keep, 0, gradient, 0, clq_buffer_bytes(weights)));
    clq_weights_turn(plan->weights);
    assert_ptr_equal(plan->weights->parameters, gradient);
    for (size_t i = 1; i < STEPS; i++) step(&b, i, AT_ONCE);
    content got = contents(&b);
    assert_int_equal(got.bytes, wanted.bytes);
    assert_memory_equal(got.all, wanted.all, wanted.bytes);
    CHECK_FAILS(CLQ_ERROR_INTERNAL, clq_list_swap(plan->list, weights, plan->metrics));
    clq_weights_turn(plan->weights);
    clq_free(wanted.all);
    clq_free(got.all);
    clq_buffer_destroy(keep);
    close_bench(&b);
}

static void swapped_on(clq_device *device, clq_queue *queue) {
    if (clq_device_runs_in_caller(device)) return;
    for (int joined = 0; joined < 2; joined++) check_swapped(device, queue, joined);
}

static void arenas_may_change_places(void **state) {
    (void)state;
    on_each_device(swapped_on);
}

static void rows_may_lie_elsewhere(void **state) {
    (void)state;
    on_each_device(moved_on);
}

static void inference_too(void **state) {
    (void)state;
    on_each_device(inference_on);
}

static void one_on(clq_device *device, clq_queue *queue) {
    if (clq_device_family(device) != CLQ_FAMILY_TILE) return;
    clq_queue *counting;
    clq_span *launches;
    size_t count;
    double error;
    CHECK_OK(clq_queue_create(device, CLQ_QUEUE_TRACE, &counting));
    bench b = open_bench(device, queue, build_wide, true, true);
    start(&b);
    CHECK_OK(clq_queue_finish(queue));
    b.queue = counting;
    for (size_t i = 0; i < STEPS; i++) step(&b, i, AT_ONCE);
    CHECK_OK(clq_plan_run_part(b.plan, counting, 3, 3)); /* nothing */
    CHECK_OK(clq_queue_spans(counting, &launches, &count, &error));
    assert_int_equal(count, STEPS);
    clq_free(launches);
    close_bench(&b);
    clq_queue_destroy(counting);
}

static void a_step_is_one_launch(void **state) {
    (void)state;
    on_each_device(one_on);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_launch_gives_the_same_bits), cmocka_unit_test(inference_too),
        cmocka_unit_test(rows_may_lie_elsewhere),         cmocka_unit_test(arenas_may_change_places),
        cmocka_unit_test(a_step_is_one_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
