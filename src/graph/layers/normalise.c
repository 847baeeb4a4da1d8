/* BatchNormalization: normalises each place of one axis, mostly of the last, the channels. */
#include "graph/layers/layer.h"

enum { GAMMA, BETA, MOVING_MEAN, MOVING_VARIANCE };

/* The builder's config; and the axis, which only files choose. */
typedef struct norm_config {
    clq_batch_norm_config all;
    int axis;
} norm_config;
#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, norm_config, member)

#define ZEROS                                                                                                          \
    { .kind = CLQ_INITIALISER_CONSTANT }
#define ONES                                                                                                           \
    { .kind = CLQ_INITIALISER_CONSTANT, .value = 1 }
static const clq_variable_kind gamma_kind = {.what = "gamma", .initialiser = ONES},
                               beta_kind = {.what = "beta", .initialiser = ZEROS, .is_bias = true},
                               mean_kind = {.what = "moving_mean", .role = CLQ_ROLE_STATE, .initialiser = ZEROS},
                               variance_kind = {.what = "moving_variance", .role = CLQ_ROLE_STATE, .initialiser = ONES};

static const clq_attribute attributes[] = {
    {MEMBER("momentum", CLQ_ATTRIBUTE_NUMBER, all.momentum), .fallback = 0.99, .most = 1},
    {MEMBER("epsilon", CLQ_ATTRIBUTE_NUMBER, all.epsilon), .fallback = 1e-3, .most = 1},
    {MEMBER("center", CLQ_ATTRIBUTE_OPPOSITE, all.no_center)},
    {MEMBER("scale", CLQ_ATTRIBUTE_OPPOSITE, all.no_scale)},
    {MEMBER("synchronized", CLQ_ATTRIBUTE_FLAG, all.synchronized)},
    {MEMBER("axis", CLQ_ATTRIBUTE_AXIS, axis), .fallback = -1},
    {.key = "renorm", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
    {.key = "renorm_clipping", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "renorm_momentum", .type = CLQ_ATTRIBUTE_UNUSED},
    {MEMBER("beta_initializer", CLQ_ATTRIBUTE_INITIALISER, all.beta_initialiser)},
    {MEMBER("gamma_initializer", CLQ_ATTRIBUTE_INITIALISER, all.gamma_initialiser)},
    {MEMBER("moving_mean_initializer", CLQ_ATTRIBUTE_INITIALISER, all.moving_mean_initialiser)},
    {MEMBER("moving_variance_initializer", CLQ_ATTRIBUTE_INITIALISER, all.moving_variance_initialiser)},
};

/* The axis of y that is normalised. `infer` has checked it. */
static unsigned axis_of(const clq_layer *layer, const clq_model_tensor *y) {
    unsigned axis = 0;
    (void)clq_find_axis(&y->shape, ((const norm_config *)layer->config)->axis, &axis);
    return axis;
}
static size_t channels_of(const clq_layer *layer, const clq_model_tensor *y) {
    return y->shape.dims[axis_of(layer, y)];
}

/* Keras leaves masked steps out of the statistics, so masks are refused. */
static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    if (clq_model_input_of(model, y, 0)->mask)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "its input has a mask, which is not supported");
    const int given = ((const norm_config *)layer->config)->axis;
    unsigned axis;
    CLQ_TRY(clq_layer_keep_shape(model, layer, y));
    if (clq_find_axis(&y->shape, given, &axis)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", given);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_shape shape = CLQ_SHAPE(channels_of(layer, y));
    const clq_batch_norm_config *config = &((const norm_config *)layer->config)->all;
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
    const clq_batch_norm_config *config = &((const norm_config *)e->layer->config)->all;
    const size_t channels = channels_of(e->layer, e->y);
    clq_node node = clq_expand_node(e, op);
    node.attributes.normalise.problem = (clq_normalise_problem){.positions = e->y->elements / channels,
                                                                .channels = channels,
                                                                .epsilon = config->epsilon,
                                                                .momentum = config->momentum};
    if (config->synchronized) node.attributes.normalise.exchange = e->config->exchange;
    return node;
}

/* The statistics of the batch. The moving statistics are updated with them. */
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

static clq_node normalised(clq_expansion *e, clq_id x) {
    clq_node node = normalise_node(e, &clq_op_normalise);
    const bool of_batch = e->config->mode == CLQ_MODE_TRAIN && !e->layer->frozen;
    node.inputs[0] = x;
    node.inputs[1] = of_batch ? add_statistics(e, x) : add_moving_statistics(e);
    node.inputs[2] = clq_expand_weight(e, BETA);
    node.inputs[3] = clq_expand_weight(e, GAMMA);
    return node;
}

/* The kernels need the channels last: any other axis is moved there, and back. */
static clq_id expand(clq_expansion *e, const clq_id *x) {
    const unsigned axis = axis_of(e->layer, e->y);
    clq_shape moved, home;
    if (axis == e->y->shape.rank - 1) return clq_expand_unary(e, normalised(e, x[0]), x[0]);
    const clq_id last = clq_layer_move_axis(e, x[0], &e->y->shape, axis, false, &moved);
    clq_node node = normalised(e, last);
    node.outputs[0] = clq_expand_value(e, &moved, e->y->elements);
    const clq_id y = clq_graph_add_node(e->graph, &node);
    return clq_layer_move_axis(e, y, &moved, axis, true, &home);
}

const clq_layer_kind clq_layer_batch_norm = {.type = "BatchNormalization",
                                             .stem = "batch_normalization",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(norm_config, attributes),
                                             .takes_mask = true,
                                             .infer = infer,
                                             .declare = declare,
                                             .expand = expand};

clq_batch_norm_config clq_batch_norm_config_default(void) {
    return (clq_batch_norm_config){.momentum = 0.99, .epsilon = 1e-3};
}

clq_tensor clq_batch_norm(clq_model *model, clq_tensor x, const clq_batch_norm_config *config) {
    CLQ_LAYER_KNOWS(model, clq_batch_norm_config, config);
    const norm_config given = {.all = config ? *config : clq_batch_norm_config_default(), .axis = -1};
    return clq_model_add_layer(model, &clq_layer_batch_norm, given.all.name, &given, &x, 1);
}
