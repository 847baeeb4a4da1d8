/* Activation, ReLU, LeakyReLU, ELU, PReLU and Softmax. */
#include "graph/layers/layer.h"

#include <math.h>

clq_status clq_layer_check_activation(clq_activation activation) {
    if (clq_activation_row_of(activation)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "activation %d is none of clq_activation", (int)activation);
}

/* ---- by name ---- */

typedef struct activation_config {
    clq_activation activation;
} activation_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, activation_config, activation)},
};
static clq_id expand(clq_expansion *e, const clq_id *x) {
    return clq_expand_activation(e, ((const activation_config *)e->layer->config)->activation, x[0]);
}
const clq_layer_kind clq_layer_activation = {.type = "Activation",
                                             .stem = "activation",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(activation_config, attributes),
                                             .mask = clq_layer_keep_mask,
                                             .by_token = clq_layer_is_by_row,
                                             .infer = clq_layer_keep_shape,
                                             .expand = expand};

/* ---- with numbers ---- */

/* Ends a node of one input: register `from` of its program is the output. */
static clq_id finish(clq_expansion *e, clq_node *node, unsigned from, clq_id x) {
    clq_element_program *p = &node->attributes.program;
    p->outputs[p->output_count++].from = from;
    return clq_expand_unary(e, *node, x);
}

typedef struct relu_config {
    double most, slope, threshold;
} relu_config;
static const clq_attribute relu_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("max_value", CLQ_ATTRIBUTE_NUMBER, relu_config, most), .fallback = INFINITY, .most = INFINITY},
    {CLQ_LAYER_ATTRIBUTE("negative_slope", CLQ_ATTRIBUTE_NUMBER, relu_config, slope), .most = INFINITY},
    {CLQ_LAYER_ATTRIBUTE("threshold", CLQ_ATTRIBUTE_NUMBER, relu_config, threshold), .most = INFINITY},
};
/* x if it is at least the threshold, and otherwise slope (x - threshold). Both are cut at max_value, above which the
 * gradient is 0. */
static clq_id expand_relu(clq_expansion *e, const clq_id *x) {
    const relu_config *config = e->layer->config;
    if (config->slope == 0 && config->threshold == 0 && isinf(config->most))
        return clq_expand_activation(e, CLQ_ACTIVATION_RELU, x[0]);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    unsigned y;
    if (config->slope == 0 && config->threshold == 0) {
        y = clq_activation_do(p, CLQ_ACTIVATION_RELU, number);
    } else {
        const unsigned threshold =
            clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = config->threshold});
        const unsigned above =
            clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_AT_LEAST, .a = number, .b = threshold});
        const unsigned apart =
            clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SUBTRACT, .a = number, .b = threshold});
        const unsigned below =
            clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = apart, .number = config->slope});
        y = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = above, .b = number, .c = below});
    }
    if (!isinf(config->most)) {
        const unsigned most = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = config->most});
        y = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MINIMUM, .a = most, .b = y});
    }
    return finish(e, &node, y, x[0]);
}
const clq_layer_kind clq_layer_relu = {.type = "ReLU",
                                       .stem = "re_lu",
                                       .inputs = {1, 1},
                                       CLQ_LAYER_CONFIG(relu_config, relu_attributes),
                                       .mask = clq_layer_keep_mask,
                                       .by_token = clq_layer_is_by_token,
                                       .infer = clq_layer_keep_shape,
                                       .expand = expand_relu};

typedef struct slope_config {
    double slope;
} slope_config;
static const clq_attribute leaky_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("negative_slope", CLQ_ATTRIBUTE_NUMBER, slope_config, slope), .alias = "alpha",
     .fallback = 0.3, .most = INFINITY},
};
static clq_id expand_leaky(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    return finish(e, &node, clq_leaky_relu_do(p, ((const slope_config *)e->layer->config)->slope, number), x[0]);
}
const clq_layer_kind clq_layer_leaky_relu = {.type = "LeakyReLU",
                                             .stem = "leaky_re_lu",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(slope_config, leaky_attributes),
                                             .mask = clq_layer_keep_mask,
                                             .by_token = clq_layer_is_by_token,
                                             .infer = clq_layer_keep_shape,
                                             .expand = expand_leaky};

static const clq_attribute op_leaky_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("negative_slope", CLQ_ATTRIBUTE_NUMBER, slope_config, slope), .fallback = 0.2},
};
const clq_layer_kind clq_layer_op_leaky_relu = {.type = "LeakyRelu",
                                                .stem = "leaky_relu",
                                                .module = "keras.src.ops.nn",
                                                .inputs = {1, 1},
                                                CLQ_LAYER_CONFIG(slope_config, op_leaky_attributes),
                                                .takes_scalars = true,
                                                .by_token = clq_layer_is_by_token,
                                                .infer = clq_layer_keep_shape,
                                                .expand = expand_leaky};

static const clq_attribute elu_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("alpha", CLQ_ATTRIBUTE_NUMBER, slope_config, slope), .fallback = 1, .most = INFINITY},
};
static clq_id expand_elu(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    return finish(e, &node, clq_elu_do(p, ((const slope_config *)e->layer->config)->slope, number), x[0]);
}
const clq_layer_kind clq_layer_elu = {.type = "ELU",
                                      .stem = "elu",
                                      .inputs = {1, 1},
                                      CLQ_LAYER_CONFIG(slope_config, elu_attributes),
                                      .mask = clq_layer_keep_mask,
                                      .by_token = clq_layer_is_by_token,
                                      .infer = clq_layer_keep_shape,
                                      .expand = expand_elu};

const clq_layer_kind clq_layer_op_elu = {.type = "Elu",
                                         .stem = "elu",
                                         .module = "keras.src.ops.nn",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(slope_config, elu_attributes),
                                         .takes_scalars = true,
                                         .by_token = clq_layer_is_by_token,
                                         .infer = clq_layer_keep_shape,
                                         .expand = expand_elu};

/* ---- with slopes that are trained (He et al., "Delving deep into rectifiers", 2015) ---- */

typedef struct prelu_config {
    clq_axes shared;
    clq_initialiser initialiser;
} prelu_config;
static const clq_attribute prelu_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("shared_axes", CLQ_ATTRIBUTE_AXES, prelu_config, shared)},
    {CLQ_LAYER_ATTRIBUTE("alpha_initializer", CLQ_ATTRIBUTE_INITIALISER, prelu_config, initialiser)},
};
static const clq_variable_kind slope_kind = {.what = "alpha", .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}};

/* There may be a slope for each element, or one for each channel. Anything between is refused. */
static clq_status infer_prelu(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_axes *shared = &((const prelu_config *)layer->config)->shared;
    unsigned bits = 0;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    for (unsigned i = 0; i < shared->count; i++) {
        unsigned axis;
        if (!clq_find_axis(&y->shape, shared->axes[i], &axis))
            return clq_fail(CLQ_ERROR_ARGUMENT, "shared_axes: its input has no axis %d", shared->axes[i]);
        bits |= 1u << axis;
    }
    if (bits == 0 || bits == (1u << (y->shape.rank - 1)) - 1) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "shared_axes should be none, or all but the last");
}

static bool is_by_channel(const clq_layer *layer) { return ((const prelu_config *)layer->config)->shared.count > 0; }

static clq_status declare_prelu(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_variable_kind slope =
        clq_variable_kind_by(&slope_kind, &((const prelu_config *)layer->config)->initialiser);
    clq_shape shape = y->shape;
    for (unsigned d = 0; d + 1 < shape.rank && is_by_channel(layer); d++) shape.dims[d] = 1;
    return clq_model_declare_variable(model, layer, CLQ_KERNEL, shape, &slope);
}

/* Slopes of each element are slopes of channels if a sample is one row. */
static clq_id expand_prelu(clq_expansion *e, const clq_id *x) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const clq_shape row = CLQ_SHAPE(e->y->elements);
    const clq_id slopes = clq_expand_weight(e, CLQ_KERNEL);
    if (!slopes) return 0;
    clq_node node = clq_expand_node(e, &clq_op_elementwise), flat = clq_expand_node(e, &clq_op_reshape);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), slope = clq_element_take(p, by_channel);
    const unsigned zero = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT});
    const unsigned above = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_GREATER, .a = number, .b = zero});
    const unsigned below = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = slope, .b = number});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = above, .b = number, .c = below});
    node.inputs[1] = slopes;
    if (is_by_channel(e->layer)) return clq_expand_unary(e, node, x[0]);
    flat.inputs[0] = x[0];
    flat.outputs[0] = clq_expand_value(e, &row, e->y->elements);
    node.inputs[0] = clq_graph_add_node(e->graph, &flat);
    node.outputs[0] = clq_expand_value(e, &row, e->y->elements);
    const clq_id y = clq_graph_add_node(e->graph, &node);
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}
const clq_layer_kind clq_layer_prelu = {.type = "PReLU",
                                        .stem = "p_re_lu",
                                        .inputs = {1, 1},
                                        CLQ_LAYER_CONFIG(prelu_config, prelu_attributes),
                                        .mask = clq_layer_keep_mask,
                                        .infer = infer_prelu,
                                        .declare = declare_prelu,
                                        .expand = expand_prelu};

/* ---- softmax ---- */

typedef struct softmax_config {
    int axis;
} softmax_config;
static const clq_attribute softmax_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, softmax_config, axis), .fallback = -1}};

clq_id clq_layer_move_axis(clq_expansion *e, clq_id x, const clq_shape *from, unsigned axis, bool back, clq_shape *to) {
    const clq_arrangement whole = clq_arrangement_of(from->rank, from->dims);
    const unsigned last = from->rank - 1;
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    clq_arrangement *a = &node.attributes.arrangement;
    a->rank = to->rank = from->rank;
    for (unsigned d = 0; d <= last; d++) {
        const unsigned forth = d == last ? axis : d + (d >= axis), home = d == axis ? last : d - (d > axis);
        a->axes[d] = whole.axes[back ? home : forth];
        to->dims[d] = a->axes[d].out;
    }
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, to, e->y->elements);
    return clq_graph_add_node(e->graph, &node);
}

static clq_status infer_softmax(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const int given = ((const softmax_config *)layer->config)->axis;
    unsigned axis;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (clq_find_axis(&y->shape, given, &axis)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "its input has no axis %d", given);
}

/* Keras's Softmax layer leaves out what the mask leaves out. The function of keras.ops ignores masks. */
static clq_status infer_softmax_layer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    if (clq_model_input_of(model, y, 0)->mask)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "its input has a mask, which is not supported");
    return infer_softmax(model, layer, y);
}

static clq_id expand_softmax(clq_expansion *e, const clq_id *x) {
    unsigned axis = 0;
    (void)clq_find_axis(&e->y->shape, ((const softmax_config *)e->layer->config)->axis, &axis); /* as it was inferred */
    if (axis == e->y->shape.rank - 1) return clq_expand_activation(e, CLQ_ACTIVATION_SOFTMAX, x[0]);
    clq_shape moved, home;
    clq_node node = clq_expand_node(e, &clq_op_softmax);
    node.inputs[0] = clq_layer_move_axis(e, x[0], &e->y->shape, axis, false, &moved);
    node.outputs[0] = clq_expand_value(e, &moved, e->y->elements);
    const clq_id y = clq_graph_add_node(e->graph, &node);
    return clq_layer_move_axis(e, y, &moved, axis, true, &home);
}
static bool softmax_is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    unsigned axis = 0;
    (void)model;
    (void)clq_find_axis(&y->shape, ((const softmax_config *)layer->config)->axis, &axis); /* as it was inferred */
    return axis > 0;
}
const clq_layer_kind clq_layer_softmax = {.type = "Softmax",
                                          .stem = "softmax",
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(softmax_config, softmax_attributes),
                                          .mask = clq_layer_keep_mask,
                                          .takes_mask = true,
                                          .by_token = softmax_is_by_token,
                                          .infer = infer_softmax_layer,
                                          .expand = expand_softmax};

const clq_layer_kind clq_layer_op_softmax = {.type = "Softmax",
                                             .stem = "softmax",
                                             .module = "keras.src.ops.nn",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(softmax_config, softmax_attributes),
                                             .by_token = softmax_is_by_token,
                                             .infer = infer_softmax,
                                             .expand = expand_softmax};

/* ---- builders ---- */

clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name) {
    const activation_config config = {activation};
    const softmax_config last = {-1};
    return activation == CLQ_ACTIVATION_SOFTMAX
               ? clq_model_add_layer(model, &clq_layer_softmax, name, &last, &x, 1)
               : clq_model_add_layer(model, &clq_layer_activation, name, &config, &x, 1);
}

clq_tensor clq_leaky_relu(clq_model *model, clq_tensor x, double slope, const char *name) {
    return clq_model_add_layer(model, &clq_layer_leaky_relu, name, &(slope_config){slope}, &x, 1);
}

clq_tensor clq_prelu(clq_model *model, clq_tensor x, bool by_channel, const char *name) {
    prelu_config config = {.shared.count = 0};
    const unsigned rank = clq_model_rank(model, x);
    for (unsigned d = 0; by_channel && d + 1 < rank; d++) config.shared.axes[config.shared.count++] = (int)d;
    return clq_model_add_layer(model, &clq_layer_prelu, name, &config, &x, 1);
}
