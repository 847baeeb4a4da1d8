/* Two small models with the basic layers, and a third with unusual ends. Each has a function that builds it, and a
 * reference in plain C, in double, whose shapes are written by hand: nothing is taken from the built model. Also plans
 * of the models, with their data. */
#ifndef CLQ_TEST_GRAPH_TWO_MODELS_H
#define CLQ_TEST_GRAPH_TWO_MODELS_H

#include "device/fixture.h"
#include "graph/plan.h"
#include "ref/ref_elementwise.h"
#include "ref/ref_product.h"
#include "support/check.h"

enum { COUNT_MOST = 9, SAMPLE_MOST = 84, CLASSES_MOST = 4, WEIGHTS_MOST = 229, VARIABLES_MOST = 6 };

typedef struct subject {
    const char *name;
    clq_tensor (*build)(clq_model *m);
    /* Computes the logits (count, classes) that the loss reads. w: all variables, in the order of the layers. */
    void (*logits)(const double *w, size_t count, const double *x, double *out);
    size_t sample, classes, variables, weights;
    size_t elements[VARIABLES_MOST];             /* of each variable */
    size_t offsets[VARIABLES_MOST], arena_bytes; /* last layer first, bias before kernel, each at a multiple of 512 */
    clq_dtype sample_dtype;
    clq_loss_problem loss;
} subject;

/* ---- conv: (7, 6, 2) bytes -> conv, max pool, dilated conv without bias, average pool, dense, softmax over 3 ---- */

static inline clq_tensor build_conv(clq_model *m) {
    clq_tensor x = clq_input(m, CLQ_SHAPE(7, 6, 2));
    x = clq_conv2d(m, x,
                   &(clq_conv2d_config){.filters = 3,
                                        .kernel = {3, 2},
                                        .strides = {2, 1},
                                        .padding = CLQ_PADDING_SAME,
                                        .activation = CLQ_ACTIVATION_TANH});
    x = clq_max_pool2d(m, x, &(clq_pool_config){.size = {3, 3}, .strides = {2, 2}, .padding = CLQ_PADDING_SAME});
    x = clq_conv2d(m, x,
                   &(clq_conv2d_config){.filters = 4,
                                        .kernel = {2, 2},
                                        .dilation = {1, 2},
                                        .padding = CLQ_PADDING_SAME,
                                        .activation = CLQ_ACTIVATION_SIGMOID,
                                        .no_bias = true});
    x = clq_average_pool2d(m, x, &(clq_pool_config){.size = {2, 2}, .strides = {1, 1}, .padding = CLQ_PADDING_SAME});
    return clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 3, .activation = CLQ_ACTIVATION_SOFTMAX});
}

static inline void conv_logits(const double *w, size_t count, const double *x, double *out) {
    static const clq_conv2d_problem first = {.in_h = 7,
                                             .in_w = 6,
                                             .in_c = 2,
                                             .out_h = 4,
                                             .out_w = 6,
                                             .out_c = 3,
                                             .kernel_h = 3,
                                             .kernel_w = 2,
                                             .stride_h = 2,
                                             .stride_w = 1,
                                             .dilation_h = 1,
                                             .dilation_w = 1,
                                             .pad_top = 1,
                                             .pad_left = 0};
    static const clq_pool2d_problem most = {.in_h = 4,
                                            .in_w = 6,
                                            .channels = 3,
                                            .out_h = 2,
                                            .out_w = 3,
                                            .size_h = 3,
                                            .size_w = 3,
                                            .stride_h = 2,
                                            .stride_w = 2,
                                            .pad_top = 0,
                                            .pad_left = 0};
    static const clq_conv2d_problem second = {.in_h = 2,
                                              .in_w = 3,
                                              .in_c = 3,
                                              .out_h = 2,
                                              .out_w = 3,
                                              .out_c = 4,
                                              .kernel_h = 2,
                                              .kernel_w = 2,
                                              .stride_h = 1,
                                              .stride_w = 1,
                                              .dilation_h = 1,
                                              .dilation_w = 2,
                                              .pad_top = 0,
                                              .pad_left = 1};
    static const clq_pool2d_problem mean = {.in_h = 2,
                                            .in_w = 3,
                                            .channels = 4,
                                            .out_h = 2,
                                            .out_w = 3,
                                            .size_h = 2,
                                            .size_w = 2,
                                            .stride_h = 1,
                                            .stride_w = 1,
                                            .pad_top = 0,
                                            .pad_left = 0,
                                            .average = true};
    double a[COUNT_MOST * 72], b[COUNT_MOST * 72];
    ref_conv2d(&first, count, x, w, w + 36, a);
    ref_activation(CLQ_ACTIVATION_TANH, count, 72, a, b);
    ref_pool2d(&most, count, b, a, NULL);
    ref_conv2d(&second, count, a, w + 39, NULL, b);
    ref_activation(CLQ_ACTIVATION_SIGMOID, count, 24, b, a);
    ref_pool2d(&mean, count, a, b, NULL);
    ref_dense(&(clq_dense_problem){.in = 24, .out = 3, .rows_per_example = 1}, count, b, w + 87, w + 159, out);
}

static const subject conv_subject = {.name = "conv",
                                     .build = build_conv,
                                     .logits = conv_logits,
                                     .sample = 84,
                                     .classes = 3,
                                     .variables = 5,
                                     .weights = 162,
                                     .elements = {36, 3, 48, 72, 3},
                                     .offsets = {2048, 1536, 1024, 512, 0},
                                     .arena_bytes = 2560,
                                     .sample_dtype = CLQ_U8,
                                     .loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                              .classes = 3,
                                              .weight = 1,
                                              .metric_count = 1,
                                              .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}}};

/* ---- mlp: (12) floats -> dense over the last axis, activations in place and not, a softmax inside, 4 logits ---- */

static inline clq_tensor build_mlp(clq_model *m) {
    clq_tensor x = clq_reshape(m, clq_input(m, CLQ_SHAPE(12)), CLQ_SHAPE(3, 4), NULL);
    x = clq_activate(m, clq_dense(m, x, &(clq_dense_config){.units = 5}), CLQ_ACTIVATION_RELU, NULL);
    x = clq_dense(m, clq_flatten(m, x, NULL), &(clq_dense_config){.units = 10, .activation = CLQ_ACTIVATION_SOFTMAX});
    x = clq_activate(m, x, CLQ_ACTIVATION_SIGMOID, NULL);
    return clq_dense(m, x, &(clq_dense_config){.units = 4});
}

static inline void mlp_logits(const double *w, size_t count, const double *x, double *out) {
    double a[COUNT_MOST * 15], b[COUNT_MOST * 15];
    ref_dense(&(clq_dense_problem){.in = 4, .out = 5, .rows_per_example = 3}, count, x, w, w + 20, a);
    ref_activation(CLQ_ACTIVATION_RELU, count, 15, a, b);
    ref_dense(&(clq_dense_problem){.in = 15, .out = 10, .rows_per_example = 1}, count, b, w + 25, w + 175, a);
    ref_activation(CLQ_ACTIVATION_SOFTMAX, count, 10, a, b);
    ref_activation(CLQ_ACTIVATION_SIGMOID, count, 10, b, a);
    ref_dense(&(clq_dense_problem){.in = 10, .out = 4, .rows_per_example = 1}, count, a, w + 185, w + 225, out);
}

static const subject mlp_subject = {.name = "mlp",
                                    .build = build_mlp,
                                    .logits = mlp_logits,
                                    .sample = 12,
                                    .classes = 4,
                                    .variables = 6,
                                    .weights = 229,
                                    .elements = {20, 5, 150, 10, 40, 4},
                                    .offsets = {3072, 2560, 1536, 1024, 512, 0},
                                    .arena_bytes = 3584,
                                    .sample_dtype = CLQ_F32,
                                    .loss = {.kind = CLQ_LOSS_CATEGORICAL,
                                             .classes = 4,
                                             .from_logits = true,
                                             .label_smoothing = 0.125f,
                                             .weight = 1,
                                             .metric_count = 1,
                                             .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}}};

/* ---- odd: no weights before the dense layer, and a reshape after the softmax: the loss reads probabilities ---- */

static inline clq_tensor build_odd(clq_model *m) {
    clq_tensor x = clq_max_pool2d(m, clq_input(m, CLQ_SHAPE(4, 4, 1)), NULL);
    x = clq_flatten(m, clq_activate(m, x, CLQ_ACTIVATION_TANH, NULL), NULL);
    x = clq_dense(m, x, &(clq_dense_config){.units = 3, .activation = CLQ_ACTIVATION_SOFTMAX});
    return clq_reshape(m, x, CLQ_SHAPE(3), NULL);
}

static inline void odd_logits(const double *w, size_t count, const double *x, double *out) {
    static const clq_pool2d_problem most = {.in_h = 4,
                                            .in_w = 4,
                                            .channels = 1,
                                            .out_h = 2,
                                            .out_w = 2,
                                            .size_h = 2,
                                            .size_w = 2,
                                            .stride_h = 2,
                                            .stride_w = 2};
    double a[COUNT_MOST * 4], b[COUNT_MOST * 4];
    ref_pool2d(&most, count, x, a, NULL);
    ref_activation(CLQ_ACTIVATION_TANH, count, 4, a, b);
    ref_dense(&(clq_dense_problem){.in = 4, .out = 3, .rows_per_example = 1}, count, b, w, w + 12, out);
}

static const subject odd_subject = {.name = "odd",
                                    .build = build_odd,
                                    .logits = odd_logits,
                                    .sample = 16,
                                    .classes = 3,
                                    .variables = 2,
                                    .weights = 15,
                                    .elements = {12, 3},
                                    .offsets = {512, 0},
                                    .arena_bytes = 1024,
                                    .sample_dtype = CLQ_F32,
                                    .loss = {.kind = CLQ_LOSS_SPARSE_CATEGORICAL,
                                             .classes = 3,
                                             .weight = 1,
                                             .metric_count = 1,
                                             .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}}};

/* ---- data: the same numbers for the plan and, in double, for the reference ---- */

typedef struct data {
    const subject *s;
    double weights[WEIGHTS_MOST];
    float weights_f32[WEIGHTS_MOST];
    double x[COUNT_MOST * SAMPLE_MOST], targets[COUNT_MOST * CLASSES_MOST];
    unsigned char x_u8[COUNT_MOST * SAMPLE_MOST];
    float x_f32[COUNT_MOST * SAMPLE_MOST], soft[COUNT_MOST * CLASSES_MOST];
    int32_t labels[COUNT_MOST];
} data;

static inline float uniform(clq_random *random, double low, double high) {
    return (float)(low + (high - low) * clq_random_unit(random));
}

static inline data make_data(const subject *s) {
    clq_random random = clq_random_start(5, s->sample);
    data d = {.s = s};
    for (size_t i = 0; i < s->weights; i++) d.weights[i] = (double)(d.weights_f32[i] = uniform(&random, -0.9, 0.9));
    for (size_t i = 0; i < COUNT_MOST * s->sample; i++) {
        d.x_u8[i] = (unsigned char)clq_random_below(&random, 256);
        d.x_f32[i] = uniform(&random, -1, 1);
        d.x[i] = s->sample_dtype == CLQ_U8 ? d.x_u8[i] / 255.0 : (double)d.x_f32[i];
    }
    bool sparse = s->loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
    for (size_t e = 0; e < COUNT_MOST; e++) {
        d.labels[e] = (int32_t)clq_random_below(&random, s->classes);
        for (size_t c = 0; c < s->classes; c++) {
            float share = uniform(&random, 0.0, 0.5);
            d.soft[e * s->classes + c] = share;
            d.targets[e * s->classes + c] = sparse ? (int32_t)c == d.labels[e] : (double)share;
        }
    }
    return d;
}

/* The loss summed over `count` examples, from weights `w`. */
static inline double loss_of(const data *d, const double *w, size_t count) {
    const subject *s = d->s;
    clq_loss_problem from_logits = s->loss;
    from_logits.from_logits = true;
    double logits[COUNT_MOST * CLASSES_MOST], sum = 0;
    s->logits(w, count, d->x, logits);
    for (size_t e = 0; e < count; e++)
        sum += ref_cross_entropy(&from_logits, logits + e * s->classes, d->targets + e * s->classes);
    return sum;
}

static inline size_t right_answers(const data *d, size_t count) {
    const subject *s = d->s;
    double logits[COUNT_MOST * CLASSES_MOST];
    size_t right = 0;
    s->logits(d->weights, count, d->x, logits);
    for (size_t e = 0; e < count; e++)
        right += ref_argmax(logits + e * s->classes, s->classes) == ref_argmax(d->targets + e * s->classes, s->classes);
    return right;
}

/* ---- a plan of a subject ---- */

typedef struct bench {
    const subject *s;
    clq_device *device;
    clq_queue *queue;
    clq_model *model;
    clq_plan *plan;
    uint32_t capacity;
    bool labelled;
} bench;

static const clq_optimizer plain_sgd = {.kind = CLQ_OPTIMIZER_SGD};

static inline clq_plan_config training_of(const subject *s, uint32_t capacity) {
    return (clq_plan_config){.capacity = capacity,
                             .sample_dtype = s->sample_dtype,
                             .loss = &s->loss,
                             .update = &plain_sgd,
                             .gradient_norms = true,
                             .metric_slots = 3};
}

static inline clq_plan_config inference_of(const subject *s, uint32_t capacity) {
    return (clq_plan_config){.capacity = capacity, .sample_dtype = s->sample_dtype, .metric_slots = 1};
}

static inline bench open_bench(clq_device *device, clq_queue *queue, const subject *s, clq_plan_config config) {
    bench b = {.s = s, .device = device, .queue = queue, .capacity = config.capacity, .labelled = config.loss != NULL};
    CHECK_OK(clq_model_create(s->name, &b.model));
    CHECK_OK(clq_model_finish(b.model, s->build(b.model)));
    CHECK_OK(clq_plan_create_alone(b.model, device, &config, &b.plan));
    return b;
}

static inline void close_bench(bench *b) {
    clq_plan_destroy(b->plan);
    clq_model_destroy(b->model);
}

static inline void fill(const bench *b, clq_buffer *buffer, size_t offset, size_t bytes, int byte) {
    if (!buffer || bytes == 0) return;
    void *content = clq_alloc(bytes, 1);
    assert_non_null(content);
    memset(content, byte, bytes);
    CHECK_OK(clq_queue_write(b->queue, buffer, offset, content, bytes, true));
    clq_free(content);
}

static inline void fill_whole(const bench *b, clq_buffer *buffer, int byte) {
    if (buffer) fill(b, buffer, 0, clq_buffer_bytes(buffer), byte);
}

/* Fills with `byte` all memory that a run must write or must not read: not the parameters and the gradient's gaps. */
static inline void blank(const bench *b, int byte) {
    const clq_plan *plan = b->plan;
    clq_buffer *const whole[] = {clq_plan_samples(plan), clq_plan_labels(plan, 0), plan->output[0], plan->metrics,
                                 plan->norms};
    for (size_t i = 0; i < CLQ_COUNT_OF(whole); i++) fill_whole(b, whole[i], byte);
    for (size_t c = 0; c < plan->placement.chunk_count; c++) fill_whole(b, plan->placement.chunks[c], byte);
    for (size_t v = 0; v < b->s->variables && plan->weights->gradient; v++)
        fill(b, plan->weights->gradient, clq_plan_variable_offset(plan, v), b->s->elements[v] * sizeof(float), byte);
}

static inline void put_weights(const bench *b, const data *d) {
    const float *from = d->weights_f32;
    for (size_t v = 0; v < b->s->variables; from += b->s->elements[v++])
        CHECK_OK(clq_queue_write(b->queue, clq_plan_parameters(b->plan), clq_plan_variable_offset(b->plan, v), from,
                                 b->s->elements[v] * sizeof(float), true));
}

static inline void put_batch(const bench *b, const data *d, uint32_t count) {
    const subject *s = b->s;
    if (count == 0) return;
    const void *x = s->sample_dtype == CLQ_U8 ? (const void *)d->x_u8 : d->x_f32;
    bool sparse = s->loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
    const void *labels = sparse ? (const void *)d->labels : d->soft;
    size_t label = sparse ? sizeof(int32_t) : s->classes * sizeof(float);
    CHECK_OK(clq_queue_write(b->queue, clq_plan_samples(b->plan), 0, x,
                             count * s->sample * clq_dtype_bytes(s->sample_dtype), true));
    if (b->labelled) CHECK_OK(clq_queue_write(b->queue, clq_plan_labels(b->plan, 0), 0, labels, count * label, true));
}

/* Everything but the update. */
static inline void run_segments(const bench *b, uint32_t count, float scale, uint32_t slot) {
    clq_plan_set_params(b->plan, &(clq_step_params){.count = count, .scale = scale, .slot = slot});
    for (int segment = CLQ_SEGMENT_FORWARD; segment < CLQ_SEGMENT_UPDATE; segment++)
        CHECK_OK(clq_plan_run(b->plan, b->queue, (clq_segment)segment, (clq_segment)segment));
    CHECK_OK(clq_queue_finish(b->queue));
}

static inline void read_floats(const bench *b, const clq_buffer *buffer, size_t offset, float *out, size_t n) {
    CHECK_OK(clq_queue_read(b->queue, buffer, offset, out, n * sizeof(float), true));
}

/* Reads all variables from an arena, in the order of the layers. */
static inline void read_arena(const bench *b, const clq_buffer *arena, float *out) {
    for (size_t v = 0; v < b->s->variables; out += b->s->elements[v++])
        read_floats(b, arena, clq_plan_variable_offset(b->plan, v), out, b->s->elements[v]);
}

#endif
