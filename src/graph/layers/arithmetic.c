/* keras.ops as layers: arithmetic of two operands, of which one may be numbers; functions of one operand; reductions
 * over axes. Also Inception-ResNet's CustomScaleLayer. */
#include "graph/layers/layer.h"

#define NUMPY "keras.src.ops.numpy"
#define NN "keras.src.ops.nn"

/* ---- two operands ---- */

/* The config is a clq_operand. */
const clq_attribute clq_layer_operand_rows[] = {{.key = "number", .type = CLQ_ATTRIBUTE_OPERAND}};
_Static_assert(CLQ_COUNT_OF(clq_layer_operand_rows) == CLQ_OPERAND_ROWS, "layer.h has as many");

static const clq_operand *operand_of(const clq_layer *layer) { return layer->config; }

clq_status clq_layer_check_operand(const clq_operand *operand, const clq_shape *x) {
    const unsigned given = operand->in_front + operand->shape.rank;
    if (given <= x->rank + 1) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_UNSUPPORTED,
        "an array of %u axes would put axes in front of the batch of a tensor of %u, the batch's among them; "
        "leave out the array's first",
        given, x->rank + 1);
}

/* Broadcasts by NumPy's rule, in which the batch is an axis. Two tensors must therefore have as many axes. */
clq_status clq_layer_infer_binary(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_operand *operand = operand_of(layer);
    const bool given = operand->place > 0;
    const clq_shape first = y->shape = clq_model_input_of(model, y, 0)->shape;
    clq_shape second = operand->shape;
    if (y->input_count != (given ? 1 : 2))
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes two operands, tensors or one of them a number");
    if (given && operand->array.count == 0) return CLQ_OK;
    if (given) CLQ_TRY(clq_layer_check_operand(operand, &first));
    if (!given) second = clq_model_input_of(model, y, 1)->shape;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    const unsigned apart = first.rank >= second.rank ? first.rank - second.rank : 0;
    bool fits = first.rank == second.rank || (given && first.rank > second.rank);
    for (unsigned d = apart; d < first.rank && fits; d++) {
        const size_t other = second.dims[d - apart];
        fits = first.dims[d] == other || first.dims[d] == 1 || other == 1;
        y->shape.dims[d] = CLQ_MAX(first.dims[d], other);
    }
    if (fits) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "its operands %s and %s do not broadcast: sizes must be equal or 1, axis by axis",
                    clq_shape_describe(&first, a), clq_shape_describe(&second, b));
}

float clq_layer_operand_number(const clq_operand *operand, const clq_shape *y, size_t at) {
    size_t from = 0, pitch = 1;
    for (unsigned i = 0; i < y->rank; i++) {
        const unsigned d = y->rank - 1 - i;
        const size_t place = at % y->dims[d];
        at /= y->dims[d];
        if (i >= operand->shape.rank) continue;
        const size_t size = operand->shape.dims[operand->shape.rank - 1 - i];
        from += (size == 1 ? 0 : place) * pitch;
        pitch *= size;
    }
    return operand->array.values[from];
}

/* The array as a constant that repeats. It spans as many of y's last axes as the array has. */
static clq_id add_array(clq_expansion *e, const clq_operand *operand, size_t *channels) {
    const clq_shape *y = &e->y->shape;
    *channels = 1;
    for (unsigned i = 0; i < CLQ_MIN(operand->shape.rank, y->rank); i++) *channels *= y->dims[y->rank - 1 - i];
    float *numbers = clq_alloc(*channels, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < *channels; i++) numbers[i] = clq_layer_operand_number(operand, y, i);
    const clq_id id = clq_graph_add_constant(e->graph, "array", &CLQ_SHAPE(*channels), *channels, numbers);
    clq_free(numbers);
    return id;
}

static clq_id expand_array(clq_expansion *e, clq_id x, clq_layer_combine combine) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const clq_operand *operand = operand_of(e->layer);
    size_t channels;
    clq_node node = clq_expand_node(e, &clq_op_elementwise), flat = clq_expand_node(e, &clq_op_reshape);
    clq_element_program *p = &node.attributes.program;
    const unsigned tensor = clq_element_take(p, clq_each_element), array = clq_element_take(p, by_channel);
    const bool first = operand->place == 1;
    p->outputs[p->output_count++].from = combine(p, first ? array : tensor, first ? tensor : array);
    node.inputs[1] = add_array(e, operand, &channels);
    const clq_shape rows = CLQ_SHAPE(e->y->elements / channels, channels);
    flat.inputs[0] = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, 0)->shape, &e->y->shape, x);
    flat.outputs[0] = clq_expand_value(e, &rows, e->y->elements);
    if (!node.inputs[1] || !flat.inputs[0]) return 0;
    node.inputs[0] = clq_graph_add_node(e->graph, &flat);
    node.outputs[0] = clq_expand_value(e, &rows, e->y->elements);
    const clq_id made = clq_graph_add_node(e->graph, &node);
    return made ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), made) : 0;
}

clq_id clq_layer_expand_binary(clq_expansion *e, const clq_id *x, clq_layer_combine combine) {
    const clq_operand *operand = operand_of(e->layer);
    if (operand->array.count > 0) return expand_array(e, x[0], combine);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    if (operand->place == 0) {
        clq_id terms[2];
        for (unsigned i = 0; i < 2; i++)
            terms[i] = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, i)->shape, &e->y->shape, x[i]);
        const unsigned left = clq_element_take(p, clq_each_element), right = clq_element_take(p, clq_each_element);
        p->outputs[p->output_count++].from = combine(p, left, right);
        node.inputs[1] = terms[1];
        return clq_expand_unary(e, node, terms[0]);
    }
    const unsigned tensor = clq_element_take(p, clq_each_element);
    const unsigned number = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = operand->number});
    const bool first = operand->place == 1;
    p->outputs[p->output_count++].from = combine(p, first ? number : tensor, first ? tensor : number);
    return clq_expand_unary(e, node, x[0]);
}

#define BINARY(name, class_name, name_stem, operation)                                                                 \
    static unsigned do_##name(clq_element_program *p, unsigned a, unsigned b) {                                        \
        return clq_element_do(p, (clq_instruction){.op = (operation), .a = a, .b = b});                                \
    }                                                                                                                  \
    static clq_id expand_##name(clq_expansion *e, const clq_id *x) {                                                   \
        return clq_layer_expand_binary(e, x, do_##name);                                                               \
    }                                                                                                                  \
    CLQ_BINARY_KIND(clq_layer_op_##name, class_name, name_stem, NUMPY, expand_##name)
BINARY(add, "Add", "add", CLQ_ELEMENT_ADD);
BINARY(subtract, "Subtract", "subtract", CLQ_ELEMENT_SUBTRACT);
BINARY(multiply, "Multiply", "multiply", CLQ_ELEMENT_MULTIPLY);
BINARY(divide, "Divide", "divide", CLQ_ELEMENT_DIVIDE);
BINARY(true_divide, "TrueDivide", "true_divide", CLQ_ELEMENT_DIVIDE);
BINARY(maximum, "Maximum", "maximum", CLQ_ELEMENT_MAXIMUM);
BINARY(minimum, "Minimum", "minimum", CLQ_ELEMENT_MINIMUM);

/* ---- to the power of a number ---- */

static clq_status infer_power(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_operand *operand = operand_of(layer);
    if (operand->place != 2 || operand->array.count > 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "only a number is supported as the exponent");
    return clq_layer_keep_shape(model, layer, y);
}
static clq_id expand_power(clq_expansion *e, const clq_id *x) {
    const double exponent = operand_of(e->layer)->number;
    if (exponent == 2) return clq_expand_elements(e, (clq_instruction){.op = CLQ_ELEMENT_SQUARE}, x);
    return clq_expand_elements(e, (clq_instruction){.op = CLQ_ELEMENT_POWER, .number = exponent}, x);
}
const clq_layer_kind clq_layer_op_power = {.type = "Power",
                                           .stem = "power",
                                           .module = NUMPY,
                                           .inputs = {1, 1},
                                           CLQ_LAYER_CONFIG(clq_operand, clq_layer_operand_rows),
                                           .takes_scalars = true,
                                           .infer = infer_power,
                                           .expand = expand_power};

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
FUNCTION(sign, "Sign", "sign", CLQ_ELEMENT_SIGN);
FUNCTION(expm1, "Expm1", "expm1", CLQ_ELEMENT_EXPM1);
FUNCTION(log1p, "Log1p", "log1p", CLQ_ELEMENT_LOG1P);
static clq_id expand_erf(clq_expansion *e, const clq_id *x) { return expand_function(e, x, CLQ_ELEMENT_ERF); }
CLQ_FUNCTION_KIND(clq_layer_op_erf, "Erf", "erf", "keras.src.ops.math", expand_erf);

static clq_id expand_reciprocal(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned one = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 1});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_DIVIDE, .a = one, .b = number});
    return clq_expand_unary(e, node, x[0]);
}
CLQ_FUNCTION_KIND(clq_layer_op_reciprocal, "Reciprocal", "reciprocal", NUMPY, expand_reciprocal);

/* The numbers stay the same: whatever type they have in Keras, they are floats here. */
static clq_id expand_identity(clq_expansion *e, const clq_id *x) {
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
}
static const clq_attribute convert_attributes[] = {{.key = "dtype", .type = CLQ_ATTRIBUTE_ONLY_FLOAT},
                                                   {.key = "sparse", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
                                                   {.key = "ragged", .type = CLQ_ATTRIBUTE_ONLY_FALSE}};
const clq_layer_kind clq_layer_op_convert = {.type = "ConvertToTensor",
                                             .stem = "convert_to_tensor",
                                             .module = "keras.src.ops.core",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_ATTRIBUTES(convert_attributes),
                                             .moves = true,
                                             .takes_scalars = true,
                                             .infer = clq_layer_keep_shape,
                                             .expand = expand_identity};

typedef struct clip_config {
    double least, most;
} clip_config;
static const clq_attribute clip_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("x_min", CLQ_ATTRIBUTE_NUMBER, clip_config, least), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("x_max", CLQ_ATTRIBUTE_NUMBER, clip_config, most), .needed = true},
};
static clq_id expand_clip(clq_expansion *e, const clq_id *x) {
    const clip_config *config = e->layer->config;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const unsigned least = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = config->least});
    const unsigned most = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = config->most});
    const unsigned above = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MAXIMUM, .a = number, .b = least});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MINIMUM, .a = above, .b = most});
    return clq_expand_unary(e, node, x[0]);
}
const clq_layer_kind clq_layer_op_clip = {.type = "Clip",
                                          .stem = "clip",
                                          .module = NUMPY,
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(clip_config, clip_attributes),
                                          .takes_scalars = true,
                                          .infer = clq_layer_keep_shape,
                                          .expand = expand_clip};

#define ACTIVATION(name, class_name, name_stem, which)                                                                 \
    static clq_id expand_##name(clq_expansion *e, const clq_id *x) { return clq_expand_activation(e, which, x[0]); }   \
    CLQ_FUNCTION_KIND(clq_layer_op_##name, class_name, name_stem, NN, expand_##name)
ACTIVATION(relu, "Relu", "relu", CLQ_ACTIVATION_RELU);
ACTIVATION(relu6, "Relu6", "relu6", CLQ_ACTIVATION_RELU6);
ACTIVATION(sigmoid, "Sigmoid", "sigmoid", CLQ_ACTIVATION_SIGMOID);
ACTIVATION(silu, "Silu", "silu", CLQ_ACTIVATION_SILU);
ACTIVATION(softplus, "Softplus", "softplus", CLQ_ACTIVATION_SOFTPLUS);
ACTIVATION(softsign, "Softsign", "softsign", CLQ_ACTIVATION_SOFTSIGN);
ACTIVATION(log_sigmoid, "LogSigmoid", "log_sigmoid", CLQ_ACTIVATION_LOG_SIGMOID);
ACTIVATION(selu, "Selu", "selu", CLQ_ACTIVATION_SELU);
ACTIVATION(hard_sigmoid, "HardSigmoid", "hard_sigmoid", CLQ_ACTIVATION_HARD_SIGMOID);
ACTIVATION(hard_silu, "HardSilu", "hard_silu", CLQ_ACTIVATION_HARD_SILU);
ACTIVATION(hard_tanh, "HardTanh", "hard_tanh", CLQ_ACTIVATION_HARD_TANH);
ACTIVATION(tanh_shrink, "TanhShrink", "tanh_shrink", CLQ_ACTIVATION_TANH_SHRINK);

typedef struct gelu_config {
    bool exact;
} gelu_config;
static const clq_attribute gelu_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("approximate", CLQ_ATTRIBUTE_OPPOSITE, gelu_config, exact)},
};
static clq_id expand_gelu(clq_expansion *e, const clq_id *x) {
    const gelu_config *config = e->layer->config;
    return clq_expand_activation(e, config->exact ? CLQ_ACTIVATION_GELU : CLQ_ACTIVATION_GELU_APPROXIMATE, x[0]);
}
const clq_layer_kind clq_layer_op_gelu = {.type = "Gelu",
                                          .stem = "gelu",
                                          .module = NN,
                                          .inputs = {1, 1},
                                          CLQ_LAYER_CONFIG(gelu_config, gelu_attributes),
                                          .takes_scalars = true,
                                          .by_token = clq_layer_is_by_token,
                                          .infer = clq_layer_keep_shape,
                                          .expand = expand_gelu};

/* ---- over adjacent axes: sums, means, largest and smallest numbers ---- */

const clq_attribute clq_layer_reduction_rows[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, clq_reduction_config, axes), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("keepdims", CLQ_ATTRIBUTE_FLAG, clq_reduction_config, keep_dims)},
    {.key = "initial", .type = CLQ_ATTRIBUTE_ONLY_NULL},
};
_Static_assert(CLQ_COUNT_OF(clq_layer_reduction_rows) == CLQ_REDUCTION_ROWS, "layer.h has as many");

/* Sets bit d of `out` for each axis d that is reduced. */
static clq_status find_axes(const clq_axes *axes, const clq_shape *x, unsigned *out) {
    *out = 0;
    for (unsigned i = 0; i < axes->count; i++) {
        unsigned axis;
        if (!clq_find_axis(x, axes->axes[i], &axis))
            return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", axes->axes[i]);
        if (*out & 1u << axis) return clq_fail(CLQ_ERROR_ARGUMENT, "axis: axis %u is named twice", axis);
        *out |= 1u << axis;
    }
    unsigned lowest = 0, highest = x->rank;
    while (lowest < x->rank && !(*out & 1u << lowest)) lowest++;
    while (highest > 0 && !(*out & 1u << (highest - 1))) highest--;
    for (unsigned d = lowest; d < highest; d++)
        if (!(*out & 1u << d))
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "axis: only axes side by side are supported; permute the input first");
    return CLQ_OK;
}

clq_status clq_layer_infer_reduction(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_reduction_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    unsigned axes;
    CLQ_TRY(find_axes(&config->axes, x, &axes));
    y->shape.rank = 0;
    for (unsigned d = 0; d < x->rank; d++)
        if (!(axes & 1u << d))
            y->shape.dims[y->shape.rank++] = x->dims[d];
        else if (config->keep_dims)
            y->shape.dims[y->shape.rank++] = 1;
    return CLQ_OK;
}

clq_repeat_problem clq_layer_runs(const clq_expansion *e) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_repeat_problem p = {.outer = 1, .repeats = 1, .inner = 1, .scale = 1};
    unsigned axes;
    (void)find_axes(&((const clq_reduction_config *)e->layer->config)->axes, in, &axes); /* as it was inferred */
    for (unsigned d = 0; d < in->rank; d++)
        *(axes & 1u << d ? &p.repeats : axes >> d ? &p.outer : &p.inner) *= in->dims[d];
    return p;
}

clq_id clq_layer_expand_sum(clq_expansion *e, clq_id x, double scale) {
    clq_node node = clq_expand_node(e, &clq_op_reduce);
    node.attributes.repeat = clq_layer_runs(e);
    node.attributes.repeat.scale = (float)scale;
    return clq_expand_unary(e, node, x);
}
static clq_id expand_sum(clq_expansion *e, const clq_id *x) { return clq_layer_expand_sum(e, x[0], 1); }
static clq_id expand_mean(clq_expansion *e, const clq_id *x) {
    return clq_layer_expand_sum(e, x[0], 1.0 / (double)clq_layer_runs(e).repeats);
}

/* The largest number of each run. Each run is one window of a pooling. */
static clq_id add_largest(clq_expansion *e, clq_id x) {
    const clq_repeat_problem p = clq_layer_runs(e);
    clq_node node = clq_expand_node(e, &clq_op_pool2d);
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = p.outer,
                                                  .in_w = p.repeats,
                                                  .channels = p.inner,
                                                  .out_h = p.outer,
                                                  .out_w = 1,
                                                  .size_h = 1,
                                                  .size_w = p.repeats,
                                                  .stride_h = 1,
                                                  .stride_w = p.repeats};
    return clq_expand_unary(e, node, x);
}
static clq_id expand_max(clq_expansion *e, const clq_id *x) { return add_largest(e, x[0]); }
static clq_id expand_min(clq_expansion *e, const clq_id *x) {
    const clq_model_tensor *in = clq_model_input_of(e->model, e->y, 0);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_NEGATE, .a = number});
    node.inputs[0] = x[0];
    node.outputs[0] = clq_expand_value(e, &in->shape, in->elements);
    const clq_id turned = clq_graph_add_node(e->graph, &node), most = turned ? add_largest(e, turned) : 0;
    return most ? clq_expand_elements(e, (clq_instruction){.op = CLQ_ELEMENT_NEGATE}, &most) : 0;
}

CLQ_REDUCTION_KIND(clq_layer_op_sum, "Sum", "sum", NUMPY, expand_sum);
CLQ_REDUCTION_KIND(clq_layer_op_mean, "Mean", "mean", NUMPY, expand_mean);
CLQ_REDUCTION_KIND(clq_layer_op_max, "Max", "max", NUMPY, expand_max);
CLQ_REDUCTION_KIND(clq_layer_op_min, "Min", "min", NUMPY, expand_min);

/* ---- CustomScaleLayer: the first input plus `scale` times the second ---- */

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
    return clq_fail(CLQ_ERROR_ARGUMENT, "its inputs should have the same shape");
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
                                               .takes_list = true,
                                               CLQ_LAYER_CONFIG(scale_config, scale_attributes),
                                               .infer = infer_scale,
                                               .expand = expand_scale};
