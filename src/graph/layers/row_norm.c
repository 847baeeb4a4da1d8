/* LayerNormalization, RMSNormalization, GroupNormalization and UnitNormalization, which normalise each row by
 * itself. */
#include "graph/layers/layer.h"

#include <math.h>

enum { GAMMA, BETA };

static const clq_variable_kind
    gamma_kind = {.what = "gamma", .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = 1}},
    scale_kind = {.what = "scale", .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = 1}},
    weight_kind = {.what = "weight", .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = 1}},
    more_kind = {.what = "scale", .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}},
    beta_kind = {.what = "beta", .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}, .is_bias = true};

static const clq_attribute layer_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, clq_row_norm_config, axes)},
    {CLQ_LAYER_ATTRIBUTE("epsilon", CLQ_ATTRIBUTE_NUMBER, clq_row_norm_config, epsilon), .fallback = 1e-3, .most = 1},
    {CLQ_LAYER_ATTRIBUTE("center", CLQ_ATTRIBUTE_OPPOSITE, clq_row_norm_config, no_center)},
    {CLQ_LAYER_ATTRIBUTE("scale", CLQ_ATTRIBUTE_OPPOSITE, clq_row_norm_config, no_scale)},
    {CLQ_LAYER_ATTRIBUTE("beta_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_row_norm_config, beta_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("gamma_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_row_norm_config, gamma_initialiser)},
    {.key = "rms_scaling", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
};
static const clq_attribute rms_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, clq_row_norm_config, axes)},
    {CLQ_LAYER_ATTRIBUTE("epsilon", CLQ_ATTRIBUTE_NUMBER, clq_row_norm_config, epsilon), .fallback = 1e-6, .most = 1},
};
static const clq_attribute group_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("groups", CLQ_ATTRIBUTE_NUMBER, clq_row_norm_config, groups), .fallback = 32, .least = -1,
     .whole = true, .most = INT32_MAX},
    {.key = "axis", .type = CLQ_ATTRIBUTE_ONLY_LAST_AXIS},
    {CLQ_LAYER_ATTRIBUTE("epsilon", CLQ_ATTRIBUTE_NUMBER, clq_row_norm_config, epsilon), .fallback = 1e-3, .most = 1},
    {CLQ_LAYER_ATTRIBUTE("center", CLQ_ATTRIBUTE_OPPOSITE, clq_row_norm_config, no_center)},
    {CLQ_LAYER_ATTRIBUTE("scale", CLQ_ATTRIBUTE_OPPOSITE, clq_row_norm_config, no_scale)},
    {CLQ_LAYER_ATTRIBUTE("beta_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_row_norm_config, beta_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("gamma_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_row_norm_config, gamma_initialiser)},
};
static const clq_attribute unit_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, clq_row_norm_config, axes)},
};

static bool is_group(const clq_layer *layer) { return layer->kind == &clq_layer_group_norm; }
static bool is_layer(const clq_layer *layer) { return layer->kind == &clq_layer_layer_norm; }
/* Whether the layer divides by the root mean square: it has a scale, but subtracts no mean. */
static bool is_rms(const clq_layer *layer) {
    return !is_group(layer) && !is_layer(layer) && layer->kind != &clq_layer_unit_norm;
}

/* Whether the scale is 1 plus the variable. */
static bool is_from_one(const clq_layer *layer) {
    return layer->kind == &clq_layer_gemma_norm || layer->kind == &clq_layer_gemma3_norm;
}

/* Finds the first axis of the rows. All axes behind it have to be axes of the rows, too. */
static clq_status find_first(const clq_axes *axes, const clq_shape *x, unsigned *first) {
    unsigned seen = 0;
    char text[CLQ_SHAPE_TEXT_MAX];
    *first = x->rank - 1;
    if (axes->count == 0) return CLQ_OK;
    for (unsigned i = 0; i < axes->count; i++) {
        unsigned axis;
        if (!clq_find_axis(x, axes->axes[i], &axis))
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "its input %s has no axis %d: there are %u, counted from 0 behind the batch",
                            clq_shape_describe(x, text), axes->axes[i], x->rank);
        seen |= 1u << axis;
        *first = CLQ_MIN(*first, axis);
    }
    if (seen == ((1u << x->rank) - 1) >> *first << *first) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "axes that are not the last ones are not supported: permute the input first");
}

/* Sets the problem, and `weights` to the shape of gamma and beta. */
static clq_status find_problem(const clq_layer *layer, const clq_model_tensor *x, clq_row_norm_problem *out,
                               clq_shape *weights) {
    const clq_row_norm_config *config = layer->config;
    unsigned first;
    *out = (clq_row_norm_problem){.outer = 1,
                                  .positions = 1,
                                  .groups = 1,
                                  .width = 1,
                                  .centred = is_layer(layer) || is_group(layer),
                                  .epsilon = config->epsilon};
    if (is_group(layer)) {
        const size_t channels = clq_model_channels(x);
        const double groups = config->groups < 0 ? (double)channels : config->groups;
        if (groups < 1 || groups != floor(groups) || channels % (size_t)groups)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "groups %g should be -1, or a whole number that divides the %zu channels", config->groups,
                            channels);
        out->groups = (size_t)groups;
        out->width = channels / out->groups;
        out->positions = x->elements / channels;
        *weights = CLQ_SHAPE(channels);
        return CLQ_OK;
    }
    CLQ_TRY(find_first(&config->axes, &x->shape, &first));
    weights->rank = x->shape.rank - first;
    for (unsigned d = 0; d < weights->rank; d++) {
        weights->dims[d] = x->shape.dims[first + d];
        out->width *= weights->dims[d];
    }
    out->outer = x->elements / out->width;
    if (layer->kind == &clq_layer_unit_norm) out->epsilon = 1e-24 / (double)out->width;
    return CLQ_OK;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    clq_row_norm_problem problem;
    clq_shape weights;
    const clq_model_tensor *x = clq_model_input_of(model, y, 0);
    y->shape = x->shape;
    return find_problem(layer, x, &problem, &weights);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_row_norm_config *config = layer->config;
    clq_row_norm_problem problem;
    clq_shape shape;
    CLQ_TRY(find_problem(layer, clq_model_input_of(model, y, 0), &problem, &shape));
    const clq_variable_kind *scale = is_from_one(layer)                  ? &more_kind
                                     : layer->kind == &clq_layer_t5_norm ? &weight_kind
                                     : is_rms(layer)                     ? &scale_kind
                                                                         : &gamma_kind;
    const clq_variable_kind gamma = clq_variable_kind_by(scale, &config->gamma_initialiser),
                            beta = clq_variable_kind_by(&beta_kind, &config->beta_initialiser);
    if (!config->no_scale) CLQ_TRY(clq_model_declare_variable(model, layer, GAMMA, shape, &gamma));
    if (config->no_center || is_rms(layer)) return CLQ_OK;
    return clq_model_declare_variable(model, layer, BETA, shape, &beta);
}

/* 1 + weight. Like the weight, it is one value for all samples. */
static clq_id add_one(clq_expansion *e, clq_id weight) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element),
                   one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = number, .b = one});
    node.inputs[0] = weight;
    node.outputs[0] = clq_graph_add_like(e->graph, weight, e->layer->name);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_row_norm);
    clq_shape weights;
    (void)find_problem(e->layer, clq_model_input_of(e->model, e->y, 0), &node.attributes.row_norm, &weights);
    node.inputs[1] = clq_expand_weight(e, GAMMA);
    node.inputs[2] = clq_expand_weight(e, BETA);
    if (is_from_one(e->layer)) node.inputs[1] = add_one(e, node.inputs[1]);
    return clq_expand_unary(e, node, x[0]);
}

/* Divides by the root of the sum of squares, not by that of their mean. */
static clq_id expand_unit(clq_expansion *e, const clq_id *x) {
    const clq_id normal = expand(e, x);
    clq_row_norm_problem problem;
    clq_shape weights;
    (void)find_problem(e->layer, clq_model_input_of(e->model, e->y, 0), &problem, &weights);
    const clq_instruction scale = {.op = CLQ_ELEMENT_SCALE, .number = 1 / sqrt((double)problem.width)};
    return normal ? clq_expand_elements(e, scale, &normal) : 0;
}

/* By token if the rows lie behind the tokens' axis. */
static bool is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    unsigned first = 0;
    (void)model;
    (void)find_first(&((const clq_row_norm_config *)layer->config)->axes, &y->shape, &first); /* as it was inferred */
    return first > 0 && !is_group(layer);
}

#define KIND(kind, class_name, name_stem, rows, of_mask, variables, expansion)                                         \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(clq_row_norm_config, rows),                                          \
                                 .mask = (of_mask),                                                                    \
                                 .by_token = is_by_token,                                                              \
                                 .infer = infer,                                                                       \
                                 .declare = (variables),                                                               \
                                 .expand = (expansion)}
KIND(clq_layer_layer_norm, "LayerNormalization", "layer_normalization", layer_attributes, clq_layer_keep_mask, declare,
     expand);
KIND(clq_layer_rms_norm, "RMSNormalization", "rms_normalization", rms_attributes, NULL, declare, expand);
KIND(clq_layer_group_norm, "GroupNormalization", "group_normalization", group_attributes, clq_layer_keep_mask, declare,
     expand);
KIND(clq_layer_unit_norm, "UnitNormalization", "unit_normalization", unit_attributes, clq_layer_keep_mask, NULL,
     expand_unit);

/* keras_hub's layers that divide by the root mean square. */
static const clq_attribute hub_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("epsilon", CLQ_ATTRIBUTE_NUMBER, clq_row_norm_config, epsilon), .fallback = 1e-6, .most = 1},
};
#define HUB_KIND(kind, class_name, name_stem, in_module)                                                               \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .module = "keras_hub.src.models." in_module,                                          \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(clq_row_norm_config, hub_attributes),                                \
                                 .by_token = is_by_token,                                                              \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .expand = expand}
HUB_KIND(clq_layer_llama_norm, "LlamaLayerNorm", "llama_layer_norm", "llama.llama_layernorm");
HUB_KIND(clq_layer_mistral_norm, "MistralLayerNormalization", "mistral_layer_normalization",
         "mistral.mistral_layer_norm");
HUB_KIND(clq_layer_qwen_norm, "QwenLayerNorm", "qwen_layer_norm", "qwen.qwen_layernorm");
HUB_KIND(clq_layer_qwen3_norm, "Qwen3LayerNorm", "qwen3_layer_norm", "qwen3.qwen3_layernorm");
HUB_KIND(clq_layer_t5_norm, "T5LayerNorm", "t5_layer_norm", "t5.t5_layer_norm");
HUB_KIND(clq_layer_phi3_norm, "Phi3LayerNorm", "phi3_layer_norm", "phi3.phi3_layernorm");
HUB_KIND(clq_layer_gemma_norm, "RMSNormalization", "gemma_rms_normalization", "gemma.rms_normalization");
HUB_KIND(clq_layer_gemma3_norm, "RMSNormalization", "gemma3_rms_normalization", "gemma3.gemma3_layers");

static clq_tensor add(clq_model *model, clq_tensor x, const clq_row_norm_config *config, const clq_layer_kind *kind,
                      double epsilon) {
    clq_row_norm_config all = config ? *config : (clq_row_norm_config){.name = NULL};
    if (!config || config->epsilon == 0) all.epsilon = epsilon;
    if (all.groups == 0) all.groups = 32;
    return clq_model_add_layer(model, kind, all.name, &all, &x, 1);
}

clq_tensor clq_layer_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config) {
    CLQ_LAYER_KNOWS(model, clq_row_norm_config, config);
    return add(model, x, config, &clq_layer_layer_norm, 1e-3);
}
clq_tensor clq_rms_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config) {
    CLQ_LAYER_KNOWS(model, clq_row_norm_config, config);
    return add(model, x, config, &clq_layer_rms_norm, 1e-6);
}
clq_tensor clq_group_norm(clq_model *model, clq_tensor x, const clq_row_norm_config *config) {
    CLQ_LAYER_KNOWS(model, clq_row_norm_config, config);
    return add(model, x, config, &clq_layer_group_norm, 1e-3);
}
clq_tensor clq_unit_norm(clq_model *model, clq_tensor x, const char *name) {
    const clq_row_norm_config config = {.no_scale = true, .no_center = true};
    return clq_model_add_layer(model, &clq_layer_unit_norm, name, &config, &x, 1);
}
