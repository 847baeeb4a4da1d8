/* Rescaling and Normalization: a linear function of each channel, whose numbers are given or were adapted to data. Also
 * LayerScale. */
#include "graph/layers/layer.h"

#include <math.h>

/* An elementwise program under construction: x, and operations with numbers of channels. */
typedef struct line {
    clq_expansion *e;
    clq_node node;
    unsigned at, inputs; /* the result's register so far; how many inputs the node has */
} line;

static line begin(clq_expansion *e) {
    line l = {.e = e, .node = clq_expand_node(e, &clq_op_elementwise), .inputs = 1};
    l.at = clq_element_take(&l.node.attributes.program, clq_each_element);
    return l;
}

static void apply(line *l, clq_element_op op, unsigned with) {
    l->at = clq_element_do(&l->node.attributes.program, (clq_instruction){.op = op, .a = l->at, .b = with});
}

static unsigned take(line *l, clq_id value) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    l->node.inputs[l->inputs++] = value;
    return clq_element_take(&l->node.attributes.program, by_channel);
}

/* Applies one number, or one number for each channel. */
static void apply_numbers(line *l, clq_element_op op, const clq_numbers *numbers) {
    const clq_shape shape = CLQ_SHAPE(numbers->count);
    if (numbers->count == 1) {
        const clq_instruction one = {.op = CLQ_ELEMENT_CONSTANT, .number = (double)numbers->values[0]};
        apply(l, op, clq_element_do(&l->node.attributes.program, one));
    } else {
        apply(l, op,
              take(l, clq_graph_add_constant(l->e->graph, l->e->layer->name, &shape, numbers->count, numbers->values)));
    }
}

static clq_id end(line *l, clq_id x) {
    clq_element_program *p = &l->node.attributes.program;
    p->outputs[p->output_count++].from = l->at;
    return clq_expand_unary(l->e, l->node, x);
}

static clq_status check_numbers(const clq_numbers *numbers, const char *key, size_t channels) {
    if (numbers->count <= 1 || numbers->count == channels) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s has %zu numbers; it should have 1, or one for each of the %zu channels",
                    key, numbers->count, channels);
}

/* ---- Rescaling ---- */

typedef struct rescaling_config {
    clq_numbers scale, offset;
} rescaling_config;
static const clq_attribute rescaling_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("scale", CLQ_ATTRIBUTE_NUMBERS, rescaling_config, scale), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("offset", CLQ_ATTRIBUTE_NUMBERS, rescaling_config, offset)},
};

static clq_status infer_rescaling(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const rescaling_config *config = layer->config;
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0));
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(check_numbers(&config->scale, "scale", channels));
    return check_numbers(&config->offset, "offset", channels);
}

static clq_id expand_rescaling(clq_expansion *e, const clq_id *x) {
    const rescaling_config *config = e->layer->config;
    line l = begin(e);
    if (config->scale.count > 0) apply_numbers(&l, CLQ_ELEMENT_MULTIPLY, &config->scale);
    const bool shifts = config->offset.count > 1 || (config->offset.count == 1 && config->offset.values[0] != 0);
    if (shifts) apply_numbers(&l, CLQ_ELEMENT_ADD, &config->offset);
    return end(&l, x[0]);
}

static bool takes_bytes(const clq_layer *layer) {
    (void)layer;
    return true;
}

const clq_layer_kind clq_layer_rescaling = {.type = "Rescaling",
                                            .stem = "rescaling",
                                            .inputs = {1, 1},
                                            CLQ_LAYER_CONFIG(rescaling_config, rescaling_attributes),
                                            .takes_bytes = takes_bytes,
                                            .mask = clq_layer_keep_mask,
                                            .infer = infer_rescaling,
                                            .expand = expand_rescaling};

/* ---- Normalization ---- */

enum { MEAN, VARIANCE };
static const float least_deviation = 1e-7f; /* Keras's epsilon */

typedef struct normalization_config {
    clq_axes axes;
    clq_numbers mean, variance;
    bool inverts;
} normalization_config;
static const clq_attribute normalization_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, normalization_config, axes), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("mean", CLQ_ATTRIBUTE_NUMBERS, normalization_config, mean)},
    {CLQ_LAYER_ATTRIBUTE("variance", CLQ_ATTRIBUTE_NUMBERS, normalization_config, variance)},
    {CLQ_LAYER_ATTRIBUTE("invert", CLQ_ATTRIBUTE_FLAG, normalization_config, inverts)},
};
static const clq_variable_kind mean_kind = {.what = "mean",
                                            .role = CLQ_ROLE_STATE,
                                            .fixed = true,
                                            .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}},
                               variance_kind = {.what = "variance",
                                                .role = CLQ_ROLE_STATE,
                                                .fixed = true,
                                                .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = 1}};

static bool is_given(const normalization_config *config) { return config->mean.count > 0; }

static clq_status infer_normalization(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const normalization_config *config = layer->config;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    const size_t channels = y->shape.dims[y->shape.rank - 1];
    const int axis = config->axes.count ? config->axes.axes[0] : -1;
    if (config->axes.count > 1 || (axis != -1 && axis + 1 != (int)y->shape.rank))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "axis: only the last one is supported");
    if (is_given(config) != (config->variance.count > 0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "mean and variance are given together, or none of them");
    for (size_t i = 0; i < config->variance.count; i++)
        if (config->variance.values[i] < 0)
            return clq_fail(CLQ_ERROR_ARGUMENT, "variance %g is below 0", (double)config->variance.values[i]);
    CLQ_TRY(check_numbers(&config->mean, "mean", channels));
    return check_numbers(&config->variance, "variance", channels);
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_shape shape = CLQ_SHAPE(clq_model_channels(y));
    if (is_given(layer->config)) return CLQ_OK;
    CLQ_TRY(clq_model_declare_variable(model, layer, MEAN, shape, &mean_kind));
    return clq_model_declare_variable(model, layer, VARIANCE, shape, &variance_kind);
}

/* (x - mean) / deviation; or if `inverts`, back to x. */
static clq_id expand_adapted(clq_expansion *e, clq_id x, bool inverts) {
    line l = begin(e);
    clq_element_program *p = &l.node.attributes.program;
    const unsigned mean = take(&l, clq_expand_weight(e, MEAN)), variance = take(&l, clq_expand_weight(e, VARIANCE));
    const unsigned root = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SQRT, .a = variance});
    const unsigned least =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = (double)least_deviation});
    const unsigned deviation = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM, .a = root, .b = least});
    if (inverts) {
        apply(&l, CLQ_ELEMENT_MULTIPLY, deviation);
        apply(&l, CLQ_ELEMENT_ADD, mean);
    } else {
        apply(&l, CLQ_ELEMENT_SUBTRACT, mean);
        apply(&l, CLQ_ELEMENT_DIVIDE, deviation);
    }
    return end(&l, x);
}

static clq_id expand_normalization(clq_expansion *e, const clq_id *x) {
    const normalization_config *config = e->layer->config;
    if (!is_given(config)) return expand_adapted(e, x[0], config->inverts);
    float *deviations = clq_alloc(config->variance.count, sizeof *deviations);
    if (!deviations) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < config->variance.count; i++)
        deviations[i] = fmaxf(sqrtf(config->variance.values[i]), least_deviation);
    const clq_numbers of = {config->variance.count, deviations};
    line l = begin(e);
    if (config->inverts) {
        apply_numbers(&l, CLQ_ELEMENT_MULTIPLY, &of);
        apply_numbers(&l, CLQ_ELEMENT_ADD, &config->mean);
    } else {
        apply_numbers(&l, CLQ_ELEMENT_SUBTRACT, &config->mean);
        apply_numbers(&l, CLQ_ELEMENT_DIVIDE, &of);
    }
    clq_free(deviations);
    return end(&l, x[0]);
}

const clq_layer_kind clq_layer_normalization = {.type = "Normalization",
                                                .stem = "normalization",
                                                .inputs = {1, 1},
                                                CLQ_LAYER_CONFIG(normalization_config, normalization_attributes),
                                                .takes_bytes = takes_bytes,
                                                .mask = clq_layer_keep_mask,
                                                .infer = infer_normalization,
                                                .declare = declare,
                                                .zero_store = "vars/2", /* Keras's count */
                                                .expand = expand_normalization};

/* ---- LayerScale (Touvron et al., "Going deeper with image transformers", 2021) ---- */

typedef struct layer_scale_config {
    double first;
    size_t channels;
} layer_scale_config;
static const clq_attribute layer_scale_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("init_values", CLQ_ATTRIBUTE_NUMBER, layer_scale_config, first), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("projection_dim", CLQ_ATTRIBUTE_SIZES, layer_scale_config, channels), .needed = true},
};

static clq_status infer_layer_scale(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const size_t wanted = ((const layer_scale_config *)layer->config)->channels;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    const size_t channels = y->shape.dims[y->shape.rank - 1];
    if (channels == wanted) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "projection_dim %zu should be its input's channels, which are %zu", wanted,
                    channels);
}

static clq_status declare_layer_scale(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const layer_scale_config *config = layer->config;
    const clq_variable_kind gamma = {.what = "gamma",
                                     .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = config->first}};
    return clq_model_declare_variable(model, layer, CLQ_KERNEL, CLQ_SHAPE(clq_model_channels(y)), &gamma);
}

static clq_id expand_layer_scale(clq_expansion *e, const clq_id *x) {
    line l = begin(e);
    apply(&l, CLQ_ELEMENT_MULTIPLY, take(&l, clq_expand_weight(e, CLQ_KERNEL)));
    return end(&l, x[0]);
}

const clq_layer_kind clq_layer_layer_scale = {.type = "LayerScale",
                                              .stem = "layer_scale",
                                              .module = "keras.src.applications.convnext",
                                              .inputs = {1, 1},
                                              CLQ_LAYER_CONFIG(layer_scale_config, layer_scale_attributes),
                                              .infer = infer_layer_scale,
                                              .declare = declare_layer_scale,
                                              .expand = expand_layer_scale};

/* ---- builders ---- */

clq_tensor clq_rescaling(clq_model *model, clq_tensor x, double scale, double offset, const char *name) {
    const float factor = (float)scale, shift = (float)offset;
    const rescaling_config config = {.scale = {1, &factor}, .offset = {1, &shift}};
    return clq_model_add_layer(model, &clq_layer_rescaling, name, &config, &x, 1);
}

clq_tensor clq_normalization(clq_model *model, clq_tensor x, size_t count, const float *mean, const float *variance,
                             const char *name) {
    const normalization_config config = {.mean = {mean ? count : 0, mean},
                                         .variance = {variance ? count : 0, variance}};
    return clq_model_add_layer(model, &clq_layer_normalization, name, &config, &x, 1);
}
