/* Random models for tests of step graphs: a seed determines a model and how it is planned. Half of the models are
 * chains, and a third have two outputs. */
#ifndef CLQ_TEST_GRAPH_RANDOM_MODEL_H
#define CLQ_TEST_GRAPH_RANDOM_MODEL_H

#include "device/fixture.h"
#include "graph/model.h"
#include "graph/plan.h"
#include "support/check.h"

enum { COUNT = 3, CLASSES = 3, LAYERS_MOST = 9, OUTPUTS = 2 };

typedef struct subject {
    clq_random random;
    clq_model *model;
    clq_plan_config config;
    clq_loss_problem losses[OUTPUTS];
    clq_optimizer update;
    char path[512]; /* the names of the layers that were built, for messages */
} subject;

/* Selects one launch, wherever possible, for a convolution with its pooling, and for attention. */
static const clq_selection one[] = {{"conv + pool *", "one"}, {"attention *", "one"}};
static const clq_selections fused = {.entries = one, .count = CLQ_COUNT_OF(one)};

static unsigned below(subject *s, unsigned bound) { return (unsigned)clq_random_below(&s->random, bound); }

static void note(subject *s, const char *what) {
    size_t used = strlen(s->path);
    (void)snprintf(s->path + used, sizeof s->path - used, " %s", what);
}

static clq_activation any_activation(subject *s) {
    static const clq_activation all[] = {CLQ_ACTIVATION_LINEAR, CLQ_ACTIVATION_RELU,    CLQ_ACTIVATION_SIGMOID,
                                         CLQ_ACTIVATION_TANH,   CLQ_ACTIVATION_SOFTMAX, CLQ_ACTIVATION_MISH};
    return all[below(s, CLQ_COUNT_OF(all))];
}

static clq_tensor add_image_layer(subject *s, clq_tensor x, const clq_shape *shape) {
    bool roomy = shape->dims[0] >= 2 && shape->dims[1] >= 2;
    switch (below(s, roomy ? 5 : 1)) {
    case 1:
        note(s, "conv3");
        return clq_conv2d(s->model, x,
                          &(clq_conv2d_config){.filters = 4,
                                               .kernel = {3, 3},
                                               .padding = CLQ_PADDING_SAME,
                                               .activation = any_activation(s),
                                               .no_bias = below(s, 4) == 0});
    case 2:
        note(s, "max");
        return clq_max_pool2d(s->model, x, below(s, 3) ? NULL : &(clq_pool_config){.strides = {1, 1}});
    case 3: note(s, "mean"); return clq_average_pool2d(s->model, x, NULL);
    case 4: note(s, "global"); return clq_global_average_pool2d(s->model, x, below(s, 2), NULL);
    default: note(s, "flatten"); return clq_flatten(s->model, x, NULL);
    }
}

static const clq_shape *shape_of(const subject *s, clq_tensor x) { return &s->model->tensors[x.id - 1].shape; }

static clq_tensor add_layer(subject *s, clq_tensor x) {
    const clq_shape shape = *shape_of(s, x);
    switch (below(s, 9)) {
    case 0:
        note(s, "dense");
        return clq_dense(s->model, x,
                         &(clq_dense_config){.units = 4, .activation = any_activation(s), .no_bias = below(s, 4) == 0});
    case 1:
    case 2: note(s, "activation"); return clq_activate(s->model, x, any_activation(s), NULL);
    case 3:
        note(s, "normalise");
        return clq_batch_norm(
            s->model, x,
            &(clq_batch_norm_config){
                .momentum = 0.7, .epsilon = 0.1, .no_scale = below(s, 3) == 0, .no_center = below(s, 3) == 0});
    case 4:
        note(s, "dropout");
        return clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.25, .seed = below(s, 3)});
    default: return shape.rank == 3 ? add_image_layer(s, x, &shape) : clq_flatten(s->model, x, NULL);
    }
}

/* ---- branches ---- */

typedef struct branches {
    clq_tensor ends[LAYERS_MOST + 2];
    unsigned count;
} branches;

static clq_tensor any_of(subject *s, const branches *b) { return b->ends[below(s, b->count)]; }

/* A tensor with the shape of x, or one that broadcasts to it. */
static clq_tensor partner_of(subject *s, const branches *b, clq_tensor x) {
    const clq_shape want = *shape_of(s, x);
    for (unsigned i = 0; i < 8; i++) {
        clq_tensor y = any_of(s, b);
        if (clq_shape_equal(shape_of(s, y), &want) && (y.id != x.id || i == 7)) return y;
    }
    note(s, "(broadcast)");
    clq_tensor y =
        clq_dense(s->model, clq_flatten(s->model, any_of(s, b), NULL),
                  &(clq_dense_config){.units = want.dims[want.rank - 1], .activation = CLQ_ACTIVATION_SIGMOID});
    if (want.rank < 3 || below(s, 2)) return y;
    /* (h, 1, 1) */
    y = clq_dense(s->model, y, &(clq_dense_config){.units = want.dims[0]});
    return clq_reshape(s->model, y, CLQ_SHAPE(want.dims[0], 1, 1), NULL);
}

static clq_tensor merge(subject *s, const branches *b) {
    const clq_tensor x = any_of(s, b), y = partner_of(s, b, x), z = below(s, 2) ? x : partner_of(s, b, x);
    switch (below(s, 7)) {
    case 0: note(s, "add"); return clq_add(s->model, CLQ_TENSORS(y, x, z), NULL);
    case 1: note(s, "subtract"); return clq_subtract(s->model, CLQ_TENSORS(x, y), NULL);
    case 2: note(s, "multiply"); return clq_multiply(s->model, CLQ_TENSORS(x, y, z), NULL);
    case 3: note(s, "average"); return clq_average(s->model, CLQ_TENSORS(x, y, z), NULL);
    case 4: note(s, "maximum"); return clq_maximum(s->model, CLQ_TENSORS(x, y), NULL);
    case 5:
        note(s, "concatenate");
        return clq_concatenate(s->model, CLQ_TENSORS(x, x), (int)below(s, shape_of(s, x)->rank), NULL);
    default: {
        note(s, "shared");
        clq_tensor first = clq_dense(s->model, x, &(clq_dense_config){.units = 3, .activation = any_activation(s)});
        clq_tensor second = clq_share(s->model, first, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL));
        return clq_subtract(s->model, CLQ_TENSORS(first, second), NULL);
    }
    }
}

/* Concatenates all ends, flattened. */
static clq_tensor gather(subject *s, const branches *b) {
    clq_tensor flat[LAYERS_MOST + 2];
    for (unsigned i = 0; i < b->count; i++) flat[i] = clq_flatten(s->model, b->ends[i], NULL);
    return b->count > 1 ? clq_concatenate(s->model, flat, b->count, 0, NULL) : flat[0];
}

static clq_tensor add_output(subject *s, clq_tensor x) {
    x = clq_dense(s->model, x, &(clq_dense_config){.units = CLASSES, .activation = any_activation(s)});
    return below(s, 3) == 0 ? clq_activate(s->model, x, any_activation(s), NULL) : x;
}

/* Half of the models are chains. In the others, a layer may read any earlier end, so several may read one end. */
static clq_tensor add_layers(subject *s, clq_tensor x) {
    branches b = {.ends = {x}, .count = 1};
    const bool chain = below(s, 2);
    for (unsigned layers = below(s, chain ? LAYERS_MOST - 1 : 6); layers > 0; layers--) {
        clq_tensor y =
            chain || below(s, 2) ? add_layer(s, below(s, 3) ? b.ends[b.count - 1] : any_of(s, &b)) : merge(s, &b);
        if (!chain && below(s, 2)) note(s, "|");
        b.count = chain ? 0 : b.count;
        b.ends[b.count++] = y;
    }
    return gather(s, &b);
}

typedef clq_tensor build_layers(subject *s, clq_tensor input);

/* Adds a second output beside y, which is made from x. The second output reads x too, or reads y: then a layer reads
 * the first output. */
static clq_tensor add_second_output(subject *s, clq_tensor x, clq_tensor y) {
    static const clq_loss_kind kinds[] = {CLQ_LOSS_MEAN_SQUARED_ERROR, CLQ_LOSS_BINARY, CLQ_LOSS_SPARSE_CATEGORICAL,
                                          CLQ_LOSS_CATEGORICAL};
    const unsigned kind = below(s, CLQ_COUNT_OF(kinds));
    const bool behind = below(s, 2);
    note(s, behind ? "two outputs, one behind the other" : "two outputs");
    s->losses[1] =
        (clq_loss_problem){.kind = kinds[kind],
                           .classes = CLASSES,
                           .weight = 2,
                           .metric_count = 1,
                           .metrics = {kind < 2 ? CLQ_METRIC_MEAN_ABSOLUTE_ERROR : CLQ_METRIC_CATEGORICAL_ACCURACY},
                           .from_logits = kind > 0};
    return add_output(s, behind ? y : x);
}

/* Adds a second output to a third of the models. Draws from a random stream of its own, so that s->random stays as it
 * was. */
static void finish(subject *s, uint64_t seed, clq_tensor x, clq_tensor y) {
    const clq_random numbers = s->random;
    s->random = clq_random_start(seed, 16);
    if (below(s, 3) == 0) {
        const clq_tensor z = add_second_output(s, x, y);
        CHECK_OK(below(s, 2) ? clq_model_finish_outputs(s->model, CLQ_TENSORS(y, z))
                             : clq_model_finish_outputs(s->model, CLQ_TENSORS(z, y)));
    } else {
        CHECK_OK(clq_model_finish(s->model, y));
    }
    s->random = numbers;
}

/* Keep the order of the draws in this function: a seed must always give the same model. */
static void build_of(subject *s, uint64_t seed, build_layers *layers) {
    *s = (subject){.random = clq_random_start(seed, 15)};
    bool update = below(s, 4) > 0, loss = update || below(s, 2);
    CHECK_OK(clq_model_create("random", &s->model));
    clq_tensor x = layers(s, clq_input(s->model, CLQ_SHAPE(6, 6, 2))), y = add_output(s, x);
    finish(s, seed, x, y);
    s->losses[0] = (clq_loss_problem){.kind = below(s, 2) ? CLQ_LOSS_SPARSE_CATEGORICAL : CLQ_LOSS_CATEGORICAL,
                                      .classes = CLASSES,
                                      .weight = 1,
                                      .metric_count = 1,
                                      .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY},
                                      .from_logits = true};
    s->config = (clq_plan_config){.capacity = COUNT,
                                  .sample_dtype = below(s, 2) ? CLQ_U8 : CLQ_F32,
                                  .metric_slots = 1,
                                  .loss = loss ? s->losses : NULL,
                                  .update = update ? &s->update : NULL,
                                  .gradient_norms = true,
                                  .mode = below(s, 4) ? CLQ_MODE_TRAIN : CLQ_MODE_EVALUATE,
                                  .seed = seed << 20 | 77,
                                  .selections = &fused};
}

static inline void build(subject *s, uint64_t seed) { build_of(s, seed, add_layers); }

#endif
