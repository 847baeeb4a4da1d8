/* BatchNormalization, over the last axis. */
#include "graph/layers/layer.h"

enum { GAMMA, BETA, MOVING_MEAN, MOVING_VARIANCE };

#define ZEROS                                                                                                          \
    { .kind = CLQ_INITIALISER_CONSTANT }
#define ONES                                                                                                           \
    { .kind = CLQ_INITIALISER_CONSTANT, .value = 1 }
static const clq_variable_kind gamma_kind = {.what = "gamma", .initialiser = ONES},
                               beta_kind = {.what = "beta", .initialiser = ZEROS, .is_bias = true},
                               mean_kind = {.what = "moving_mean", .role = CLQ_ROLE_STATE, .initialiser = ZEROS},
                               variance_kind = {.what = "moving_variance", .role = CLQ_ROLE_STATE, .initialiser = ONES};

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("momentum", CLQ_ATTRIBUTE_NUMBER, clq_batch_norm_config, momentum), .fallback = 0.99,
     .most = 1},
    {CLQ_LAYER_ATTRIBUTE("epsilon", CLQ_ATTRIBUTE_NUMBER, clq_batch_norm_config, epsilon), .fallback = 1e-3, .most = 1},
    {CLQ_LAYER_ATTRIBUTE("center", CLQ_ATTRIBUTE_OPPOSITE, clq_batch_norm_config, no_center)},
    {CLQ_LAYER_ATTRIBUTE("scale", CLQ_ATTRIBUTE_OPPOSITE, clq_batch_norm_config, no_scale)},
    {CLQ_LAYER_ATTRIBUTE("synchronized", CLQ_ATTRIBUTE_FLAG, clq_batch_norm_config, synchronized)},
    {.key = "axis", .type = CLQ_ATTRIBUTE_ONLY_LAST_AXIS},
    {.key = "renorm", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
    {.key = "renorm_clipping", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "renorm_momentum", .type = CLQ_ATTRIBUTE_UNUSED},
    {CLQ_LAYER_ATTRIBUTE("beta_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_batch_norm_config, beta_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("gamma_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_batch_norm_config, gamma_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("moving_mean_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_batch_norm_config,
                         moving_mean_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("moving_variance_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_batch_norm_config,
                         moving_variance_initialiser)},
};

/* Keras's statistics leave masked steps out. */
static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    if (clq_model_input_of(model, y, 0)->mask)
        return clq_fail(CLQ_UNSUPPORTED, "its input has a mask, which is not supported");
    return clq_layer_keep_shape(model, layer, y);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_shape shape = CLQ_SHAPE(y->shape.dims[y->shape.rank - 1]);
    const clq_batch_norm_config *config = layer->config;
    const clq_variable_kind gamma = clq_variable_kind_by(&gamma_kind, &config->gamma_initialiser),
                            beta = clq_variable_kind_by(&beta_kind, &config->beta_initialiser);
    clq_variable_kind mean = clq_variable_kind_by(&mean_kind, &config->moving_mean_initialiser),
                      variance = clq_variable_kind_by(&variance_kind, &config->moving_variance_initialiser);
    mean.synchronized = variance.synchronized = config->synchronized;
    if (!config->no_scale) CLQ_TRY(clq_model_declare_variable(model, layer, GAMMA, shape, &gamma));
    if (!config->no_center) CLQ_TRY(clq_model_declare_variable(model, layer, BETA, shape, &beta));
    CLQ_TRY(clq_model_declare_variable(model, layer, MOVING_MEAN, shape, &mean));
    return clq_model_declare_variable(model, layer, MOVING_VARIANCE, shape, &variance);
}

static clq_node normalise_node(const clq_expansion *e, const clq_operation *op) {
    const clq_batch_norm_config *config = e->layer->config;
    const size_t channels = e->y->shape.dims[e->y->shape.rank - 1];
    clq_node node = clq_expand_node(e, op);
    node.attributes.normalise.problem = (clq_normalise_problem){.positions = e->y->elements / channels,
                                                                .channels = channels,
                                                                .epsilon = config->epsilon,
                                                                .momentum = config->momentum};
    if (config->synchronized) node.attributes.normalise.exchange = e->config->exchange;
    return node;
}

/* Those of the batch, which the moving ones follow. */
static clq_id add_statistics(clq_expansion *e, clq_id x) {
    clq_node moments = normalise_node(e, &clq_op_moments), node = normalise_node(e, &clq_op_statistics);
    const clq_step_sum *exchange = &node.attributes.normalise.exchange;
    moments.inputs[0] = x;
    moments.outputs[0] =
        clq_add_channel_rows(e->graph, &moments, clq_step_sum_ranks(exchange) * CLQ_MOMENTS_ROWS, "moments");
    node.inputs[0] = clq_add_all_reduce(e->graph, &moments, clq_graph_add_node(e->graph, &moments), exchange);
    node.inputs[1] = clq_expand_weight(e, GAMMA);
    node.inputs[2] = clq_expand_weight(e, MOVING_MEAN);
    node.inputs[3] = clq_expand_weight(e, MOVING_VARIANCE);
    node.outputs[0] = clq_add_channel_rows(e->graph, &node, CLQ_STATISTICS_ROWS, "statistics");
    node.outputs[1] = clq_expand_new_state(e, MOVING_MEAN);
    node.outputs[2] = clq_expand_new_state(e, MOVING_VARIANCE);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id add_moving_statistics(clq_expansion *e) {
    clq_node node = normalise_node(e, &clq_op_moving_statistics);
    node.inputs[0] = clq_expand_weight(e, GAMMA);
    node.inputs[1] = clq_expand_weight(e, MOVING_MEAN);
    node.inputs[2] = clq_expand_weight(e, MOVING_VARIANCE);
    node.outputs[0] = clq_add_channel_rows(e->graph, &node, CLQ_STATISTICS_ROWS, "statistics");
    return clq_graph_add_node(e->graph, &node);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node node = normalise_node(e, &clq_op_normalise);
    const bool of_batch = e->config->mode == CLQ_MODE_TRAIN && !e->layer->frozen;
    node.inputs[1] = of_batch ? add_statistics(e, x[0]) : add_moving_statistics(e);
    node.inputs[2] = clq_expand_weight(e, BETA);
    node.inputs[3] = clq_expand_weight(e, GAMMA);
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_batch_norm = {.type = "BatchNormalization",
                                             .stem = "batch_normalization",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(clq_batch_norm_config, attributes),
                                             .infer = infer,
                                             .declare = declare,
                                             .expand = expand};

clq_batch_norm_config clq_batch_norm_config_default(void) {
    return (clq_batch_norm_config){.momentum = 0.99, .epsilon = 1e-3};
}

clq_tensor clq_batch_norm(clq_model *model, clq_tensor x, const clq_batch_norm_config *config) {
    const clq_batch_norm_config all = config ? *config : clq_batch_norm_config_default();
    return clq_model_add_layer(model, &clq_layer_batch_norm, all.name, &all, &x, 1);
}
