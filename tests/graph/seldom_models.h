/* Models that random draws seldom or never give, one function each: models with more than one elementwise program
 * holds, and models with kinds of layers that the random models do not have. The list at the end also has the models of
 * recurrent_models.h and special_models.h. */
#ifndef CLQ_TEST_GRAPH_SELDOM_MODELS_H
#define CLQ_TEST_GRAPH_SELDOM_MODELS_H

#include "graph/recurrent_models.h"
#include "graph/special_models.h"

/* ---- models with more than one elementwise program holds, among others ---- */

enum { MANY = 8 };

static clq_tensor repeated(subject *s, clq_tensor x, bool activated) {
    for (unsigned i = 0; i < MANY; i++) {
        x = clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.25});
        if (activated) x = clq_activate(s->model, x, i % 2 ? CLQ_ACTIVATION_TANH : CLQ_ACTIVATION_SIGMOID, NULL);
    }
    return clq_flatten(s->model, x, NULL);
}

static clq_tensor dropouts_in_a_row(subject *s, clq_tensor x) { return repeated(s, x, false); }
static clq_tensor dropouts_and_activations(subject *s, clq_tensor x) { return repeated(s, x, true); }

/* The gradient of x has MANY contributions, and MANY readers are merged. */
static clq_tensor read_by_many(subject *s, clq_tensor x, bool merged) {
    clq_tensor readers[MANY];
    x = clq_dense(s->model, clq_flatten(s->model, x, NULL), &(clq_dense_config){.units = 4});
    for (unsigned i = 0; i < MANY; i++)
        readers[i] = clq_dense(s->model, x, &(clq_dense_config){.units = 4, .activation = CLQ_ACTIVATION_TANH});
    return merged ? clq_average(s->model, readers, MANY, NULL) : clq_concatenate(s->model, readers, MANY, 0, NULL);
}

static clq_tensor averaged_readers(subject *s, clq_tensor x) { return read_by_many(s, x, true); }
static clq_tensor concatenated_readers(subject *s, clq_tensor x) { return read_by_many(s, x, false); }

/* The first dropout has a seed of its own and reads the samples directly. */
static clq_tensor seeded_dropout_of_samples(subject *s, clq_tensor x) {
    x = clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.5, .seed = 9});
    return clq_flatten(s->model, clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.25}), NULL);
}

/* The peak of memory use comes while the frames of the convolution are not in use. */
static clq_tensor framed(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 4, .kernel = {3, 3}, .padding = CLQ_PADDING_SAME});
    x = clq_flatten(s->model, clq_max_pool2d(s->model, x, NULL), NULL);
    for (unsigned i = 0; i < 2; i++)
        x = clq_dense(s->model, x, &(clq_dense_config){.units = 150, .activation = CLQ_ACTIVATION_TANH});
    return x;
}

/* Applies up to EACH activations, from `first` on, to the same values. The three callers together have all activations
 * that the random models do not have. */
static clq_tensor activated(subject *s, clq_tensor x, unsigned first) {
    enum { EACH = 7 };
    clq_tensor ends[EACH];
    size_t count = 0;
    x = clq_dense(s->model, clq_flatten(s->model, x, NULL), &(clq_dense_config){.units = 5});
    for (unsigned a = first; a < first + EACH && clq_activation_row_of((clq_activation)a); a++)
        ends[count++] = clq_activate(s->model, x, (clq_activation)a, NULL);
    return clq_concatenate(s->model, ends, count, 0, NULL);
}
static clq_tensor first_activations(subject *s, clq_tensor x) { return activated(s, x, CLQ_ACTIVATION_SILU); }
static clq_tensor more_activations(subject *s, clq_tensor x) { return activated(s, x, CLQ_ACTIVATION_SILU + 7); }
static clq_tensor last_activations(subject *s, clq_tensor x) { return activated(s, x, CLQ_ACTIVATION_SILU + 14); }

/* ---- models with layers that the random models do not have ---- */

static clq_tensor padded(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, clq_zero_padding(s->model, x, (const size_t[][2]){{1, 0}, {2, 1}}, NULL),
                   &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}});
    x = clq_cropping(s->model, x, (const size_t[][2]){{1, 0}, {0, 2}}, NULL);
    x = clq_permute(s->model, x, CLQ_SHAPE(3, 1, 2), NULL);
    return clq_flatten(s->model, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL), NULL);
}

static clq_tensor depthwise(subject *s, clq_tensor x) {
    x = clq_depthwise_conv2d(
        s->model, x,
        &(clq_depthwise_conv2d_config){
            .kernel = {3, 2}, .multiplier = 2, .padding = CLQ_PADDING_SAME, .activation = CLQ_ACTIVATION_SILU});
    x = clq_conv2d(
        s->model, x,
        &(clq_conv2d_config){.filters = 6, .kernel = {2, 2}, .groups = 2, .activation = CLQ_ACTIVATION_TANH});
    x = clq_separable_conv2d(s->model, x,
                             &(clq_separable_conv2d_config){.depthwise = {.kernel = {3, 3},
                                                                          .strides = {2, 2},
                                                                          .padding = CLQ_PADDING_SAME,
                                                                          .activation = CLQ_ACTIVATION_SIGMOID},
                                                            .filters = 4});
    return clq_global_max_pool(s->model, x, false, NULL);
}

static clq_tensor upwards(subject *s, clq_tensor x) {
    x = clq_max_pool2d(s->model, x, NULL);
    clq_tensor y = clq_conv2d_transpose(s->model, x,
                                        &(clq_conv2d_config){.filters = 3,
                                                             .kernel = {3, 2},
                                                             .strides = {2, 2},
                                                             .padding = CLQ_PADDING_SAME,
                                                             .activation = CLQ_ACTIVATION_TANH});
    clq_tensor z = clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 3, .kernel = {1, 1}});
    z = clq_up_sampling2d(s->model, z, NULL, NULL);
    x = clq_conv2d_transpose(s->model, clq_add(s->model, CLQ_TENSORS(y, z), NULL),
                             &(clq_conv2d_config){.filters = 2, .kernel = {3, 3}, .no_bias = true});
    return clq_flatten(s->model, x, NULL);
}

static clq_tensor in_a_row(subject *s, clq_tensor x) {
    x = clq_reshape(s->model, x, CLQ_SHAPE(18, 4), NULL);
    x = clq_conv1d(s->model, x,
                   &(clq_conv1d_config){.filters = 5,
                                        .kernel = 3,
                                        .dilation = 2,
                                        .padding = CLQ_PADDING_CAUSAL,
                                        .activation = CLQ_ACTIVATION_RELU});
    x = clq_max_pool1d(s->model, x, &(clq_pool1d_config){.size = 3, .strides = 2});
    x = clq_conv1d(s->model, x,
                   &(clq_conv1d_config){.filters = 4, .kernel = 3, .strides = 2, .padding = CLQ_PADDING_SAME});
    clq_tensor mean = clq_average_pool1d(s->model, x, NULL), all = clq_global_average_pool(s->model, x, false, NULL);
    all = clq_flatten(s->model, clq_repeat_vector(s->model, all, 2, NULL), NULL);
    return clq_concatenate(s->model, CLQ_TENSORS(clq_flatten(s->model, mean, NULL), all), 0, NULL);
}

static clq_tensor by_rows(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 4, .kernel = {2, 2}});
    x = clq_group_norm(s->model, x, &(clq_row_norm_config){.groups = 2});
    x = clq_layer_norm(s->model, clq_activate(s->model, x, CLQ_ACTIVATION_TANH, NULL),
                       &(clq_row_norm_config){.epsilon = 0.1});
    x = clq_rms_norm(s->model, x, &(clq_row_norm_config){.axes = {2, {-2, -1}}});
    x = clq_unit_norm(s->model, clq_prelu(s->model, x, true, NULL), NULL);
    return clq_layer_norm(s->model, clq_flatten(s->model, x, NULL), &(clq_row_norm_config){.no_scale = true});
}

/* Scaling layers: given statistics, samples read as raw bytes, trained slopes, and frozen layers. */
static clq_tensor scaled(subject *s, clq_tensor x) {
    static const float mean[] = {3, -1}, variance[] = {4, 0.25f};
    x = clq_normalization(s->model, clq_rescaling(s->model, x, 1.0 / 64, -1, NULL), 2, mean, variance, NULL);
    x = clq_normalization(s->model, clq_prelu(s->model, x, false, NULL), 0, NULL, NULL, NULL);
    x = clq_freeze(s->model, clq_conv2d(s->model, x, &(clq_conv2d_config){.filters = 3, .kernel = {3, 3}}));
    x = clq_leaky_relu(s->model, clq_freeze(s->model, clq_batch_norm(s->model, x, NULL)), 0.1, NULL);
    x = clq_dense(s->model, clq_flatten(s->model, x, NULL), &(clq_dense_config){.units = 4});
    x = clq_rescaling(s->model, x, 1.0 / 16, 0, NULL); /* if tanh is flat, 1 - y * y keeps few digits of a float */
    return clq_freeze(s->model,
                      clq_dense(s->model, x, &(clq_dense_config){.units = 4, .activation = CLQ_ACTIVATION_TANH}));
}

static clq_tensor noisy(subject *s, clq_tensor x) {
    x = clq_conv2d(s->model, x,
                   &(clq_conv2d_config){.filters = 4, .kernel = {2, 2}, .activation = CLQ_ACTIVATION_SELU});
    x = clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.4, .shared = 3});            /* channels */
    clq_tensor y = clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.3, .shared = 7}); /* all of a sample */
    x = clq_add(s->model, CLQ_TENSORS(x, y), NULL);
    x = clq_dropout(s->model, x, &(clq_dropout_config){.rate = 0.3, .shared = 2}); /* rows */
    x = clq_alpha_dropout(s->model, clq_gaussian_noise(s->model, x, 0.2, NULL), 0.25, NULL);
    return clq_minimum(s->model,
                       CLQ_TENSORS(clq_flatten(s->model, x, NULL), clq_dense(s->model, clq_flatten(s->model, y, NULL),
                                                                             &(clq_dense_config){.units = 100})),
                       NULL);
}

static clq_tensor attentive(subject *s, clq_tensor x) {
    clq_tensor y = clq_reshape(s->model, x, CLQ_SHAPE(12, 6), NULL),
               z = clq_reshape(s->model, x, CLQ_SHAPE(2, 9, 4), NULL);
    z = clq_dense(s->model, z, &(clq_dense_config){.units = 5, .activation = CLQ_ACTIVATION_TANH});
    y = clq_attention(s->model, &y, 1, &(clq_attention_config){.heads = 2, .key = 3, .causal = true});
    y = clq_reshape(s->model, y, CLQ_SHAPE(2, 6, 6), NULL);
    y = clq_attention(
        s->model, CLQ_TENSORS(y, z),
        &(clq_attention_config){.heads = 2, .key = 4, .value = 3, .output = 4, .dropout = 0.2, .axes = {1, {-2}}});
    return clq_flatten(s->model, clq_layer_norm(s->model, y, &(clq_row_norm_config){.epsilon = 0.1}), NULL);
}

static clq_tensor of_tokens(subject *s, clq_tensor x) {
    x = clq_embedding(s->model, clq_reshape(s->model, x, CLQ_SHAPE(8, 9), NULL),
                      &(clq_embedding_config){.rows = 200, .width = 3});
    return clq_flatten(s->model, clq_average_pool2d(s->model, x, NULL), NULL);
}

static build_layers *const special[] = {framed,
                                        dropouts_in_a_row,
                                        dropouts_and_activations,
                                        averaged_readers,
                                        concatenated_readers,
                                        seeded_dropout_of_samples,
                                        first_activations,
                                        more_activations,
                                        last_activations,
                                        padded,
                                        depthwise,
                                        upwards,
                                        in_a_row,
                                        by_rows,
                                        scaled,
                                        noisy,
                                        attentive,
                                        of_tokens,
                                        masked_both_ways,
                                        dropped_sequences,
                                        from_state_to_state,
                                        regularised,
                                        moved,
                                        expressed,
                                        expressed_by_variables};

#endif
