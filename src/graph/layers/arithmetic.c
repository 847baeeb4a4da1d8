/* keras.ops as layers: arithmetic of two operands, of which one may be a number, functions of one, and sums and means
 * over axes; and Inception-ResNet's CustomScaleLayer. */
#include "graph/layers/layer.h"

#define NUMPY "keras.src.ops.numpy"
#define NN "keras.src.ops.nn"

/* ---- two operands ---- */

typedef struct binary_config {
    clq_operand operand;
} binary_config;
static const clq_attribute binary_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("number", CLQ_ATTRIBUTE_OPERAND, binary_config, operand)},
};

static const clq_operand *operand_of(const clq_layer *layer) {
    return &((const binary_config *)layer->config)->operand;
}

/* The batch is an axis like others for NumPy's rule, so both have as many axes. */
static clq_status infer_binary(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const bool number = operand_of(layer)->place > 0;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (y->input_count != (number ? 1 : 2))
        return clq_fail(CLQ_ARGUMENT, "it takes two operands, tensors or one of them a number");
    if (number) return CLQ_OK;
    const clq_shape first = y->shape, *second = &clq_model_input_of(model, y, 1)->shape;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    bool fits = first.rank == second->rank;
    for (unsigned d = 0; d < first.rank && fits; d++) {
        fits = first.dims[d] == second->dims[d] || first.dims[d] == 1 || second->dims[d] == 1;
        y->shape.dims[d] = CLQ_MAX(first.dims[d], second->dims[d]);
    }
    if (fits) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "its inputs %s and %s do not broadcast: sizes must be equal or 1, axis by axis",
                    clq_shape_describe(&first, a), clq_shape_describe(second, b));
}

static clq_id expand_binary(clq_expansion *e, const clq_id *x, clq_element_op op) {
    const clq_operand *operand = operand_of(e->layer);
    clq_id terms[2];
    if (operand->place == 0) {
        for (unsigned i = 0; i < 2; i++)
            terms[i] = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, i)->shape, &e->y->shape, x[i]);
        return clq_expand_elements(e, (clq_instruction){.op = op}, CLQ_IDS(terms[0], terms[1]));
    }
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned tensor = clq_element_take(p, clq_each_element);
    const unsigned number = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = operand->number});
    const bool first = operand->place == 1;
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = op, .a = first ? number : tensor, .b = first ? tensor : number});
    return clq_expand_unary(e, node, x[0]);
}

#define BINARY(name, class_name, name_stem, op)                                                                        \
    static clq_id expand_##name(clq_expansion *e, const clq_id *x) { return expand_binary(e, x, op); }                 \
    const clq_layer_kind clq_layer_op_##name = {.type = (class_name),                                                  \
                                                .stem = (name_stem),                                                   \
                                                .module = NUMPY,                                                       \
                                                .inputs = {1, 2},                                                      \
                                                CLQ_LAYER_CONFIG(binary_config, binary_attributes),                    \
                                                .infer = infer_binary,                                                 \
                                                .expand = expand_##name}
BINARY(add, "Add", "add", CLQ_ELEMENT_ADD);
BINARY(subtract, "Subtract", "subtract", CLQ_ELEMENT_SUBTRACT);
BINARY(multiply, "Multiply", "multiply", CLQ_ELEMENT_MULTIPLY);
BINARY(divide, "Divide", "divide", CLQ_ELEMENT_DIVIDE);
BINARY(true_divide, "TrueDivide", "true_divide", CLQ_ELEMENT_DIVIDE);
BINARY(maximum, "Maximum", "maximum", CLQ_ELEMENT_MAXIMUM);
BINARY(minimum, "Minimum", "minimum", CLQ_ELEMENT_MINIMUM);

/* ---- functions of one ---- */

static clq_id expand_function(clq_expansion *e, const clq_id *x, clq_element_op op) {
    return clq_expand_elements(e, (clq_instruction){.op = op}, x);
}

#define FUNCTION(name, class_name, name_stem, op)                                                                      \
    static clq_id expand_##name(clq_expansion *e, const clq_id *x) { return expand_function(e, x, op); }               \
    CLQ_FUNCTION_KIND(clq_layer_op_##name, class_name, name_stem, NUMPY, expand_##name)
FUNCTION(negative, "Negative", "negative", CLQ_ELEMENT_NEGATE);
FUNCTION(absolute, "Absolute", "absolute", CLQ_ELEMENT_ABS);
FUNCTION(square, "Square", "square", CLQ_ELEMENT_SQUARE);
FUNCTION(sqrt, "Sqrt", "sqrt", CLQ_ELEMENT_SQRT);
FUNCTION(exp, "Exp", "exp", CLQ_ELEMENT_EXP);
FUNCTION(log, "Log", "log", CLQ_ELEMENT_LOG);
FUNCTION(sin, "Sin", "sin", CLQ_ELEMENT_SIN);
FUNCTION(cos, "Cos", "cos", CLQ_ELEMENT_COS);
FUNCTION(tanh, "Tanh", "tanh", CLQ_ELEMENT_TANH);

#define ACTIVATION(name, class_name, name_stem, which)                                                                 \
    static clq_id expand_##name(clq_expansion *e, const clq_id *x) { return clq_expand_activation(e, which, x[0]); }   \
    CLQ_FUNCTION_KIND(clq_layer_op_##name, class_name, name_stem, NN, expand_##name)
ACTIVATION(relu, "Relu", "relu", CLQ_RELU);
ACTIVATION(relu6, "Relu6", "relu6", CLQ_RELU6);
ACTIVATION(sigmoid, "Sigmoid", "sigmoid", CLQ_SIGMOID);
ACTIVATION(silu, "Silu", "silu", CLQ_SILU);
ACTIVATION(softplus, "Softplus", "softplus", CLQ_SOFTPLUS);
ACTIVATION(softsign, "Softsign", "softsign", CLQ_SOFTSIGN);
ACTIVATION(log_sigmoid, "LogSigmoid", "log_sigmoid", CLQ_LOG_SIGMOID);

/* ---- sums and means over axes that lie side by side ---- */

typedef struct reduce_config {
    clq_axes axes;
    bool keep_dims;
} reduce_config;
static const clq_attribute reduce_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, reduce_config, axes), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("keepdims", CLQ_ATTRIBUTE_FLAG, reduce_config, keep_dims)},
};

/* Bit d: axis d is summed over. */
static clq_status find_axes(const clq_axes *axes, const clq_shape *x, unsigned *out) {
    *out = 0;
    for (unsigned i = 0; i < axes->count; i++) {
        unsigned axis;
        if (!clq_find_axis(x, axes->axes[i], &axis))
            return clq_fail(CLQ_ARGUMENT, "axis: its input has no axis %d", axes->axes[i]);
        *out |= 1u << axis;
    }
    unsigned lowest = 0, highest = x->rank;
    while (lowest < x->rank && !(*out & 1u << lowest)) lowest++;
    while (highest > 0 && !(*out & 1u << (highest - 1))) highest--;
    for (unsigned d = lowest; d < highest; d++)
        if (!(*out & 1u << d))
            return clq_fail(CLQ_UNSUPPORTED, "axis: only axes side by side are supported; permute the input first");
    return CLQ_OK;
}

static clq_status infer_reduce(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const reduce_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    unsigned axes;
    CLQ_TRY(find_axes(&config->axes, x, &axes));
    y->shape.rank = 0;
    for (unsigned d = 0; d < x->rank; d++)
        if (!(axes & 1u << d))
            y->shape.dims[y->shape.rank++] = x->dims[d];
        else if (config->keep_dims)
            y->shape.dims[y->shape.rank++] = 1;
    if (y->shape.rank == 0) y->shape = CLQ_SHAPE(1); /* a number for each sample */
    return CLQ_OK;
}

static clq_id expand_reduce(clq_expansion *e, clq_id x, bool mean) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node node = clq_expand_node(e, &clq_op_reduce);
    clq_repeat_problem *p = &node.attributes.repeat;
    unsigned axes;
    (void)find_axes(&((const reduce_config *)e->layer->config)->axes, in, &axes);
    *p = (clq_repeat_problem){.outer = 1, .repeats = 1, .inner = 1, .scale = 1};
    for (unsigned d = 0; d < in->rank; d++)
        *(axes & 1u << d ? &p->repeats : axes >> d ? &p->outer : &p->inner) *= in->dims[d];
    if (mean) p->scale = (float)(1.0 / (double)p->repeats);
    return clq_expand_unary(e, node, x);
}
static clq_id expand_sum(clq_expansion *e, const clq_id *x) { return expand_reduce(e, x[0], false); }
static clq_id expand_mean(clq_expansion *e, const clq_id *x) { return expand_reduce(e, x[0], true); }

#define REDUCE(name, class_name, name_stem)                                                                            \
    const clq_layer_kind clq_layer_op_##name = {.type = (class_name),                                                  \
                                                .stem = (name_stem),                                                   \
                                                .module = NUMPY,                                                       \
                                                .inputs = {1, 1},                                                      \
                                                CLQ_LAYER_CONFIG(reduce_config, reduce_attributes),                    \
                                                .infer = infer_reduce,                                                 \
                                                .expand = expand_##name}
REDUCE(sum, "Sum", "sum");
REDUCE(mean, "Mean", "mean");

/* ---- CustomScaleLayer: the first input and a part of the second ---- */

typedef struct scale_config {
    double scale;
} scale_config;
static const clq_attribute scale_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("scale", CLQ_ATTRIBUTE_NUMBER, scale_config, scale), .needed = true},
};

static clq_status infer_scale(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    (void)layer;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (clq_shape_equal(&y->shape, &clq_model_input_of(model, y, 1)->shape)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "its inputs should have the same shape");
}

static clq_id expand_scale(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned first = clq_element_take(p, clq_each_element), second = clq_element_take(p, clq_each_element);
    const unsigned scaled = clq_element_do(
        p, (clq_instruction){
               .op = CLQ_ELEMENT_SCALE, .a = second, .number = ((const scale_config *)e->layer->config)->scale});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = first, .b = scaled});
    node.inputs[1] = x[1];
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_custom_scale = {.type = "CustomScaleLayer",
                                               .stem = "custom_scale_layer",
                                               .module = "keras.src.applications.inception_resnet_v2",
                                               .inputs = {2, 2},
                                               CLQ_LAYER_CONFIG(scale_config, scale_attributes),
                                               .infer = infer_scale,
                                               .expand = expand_scale};
