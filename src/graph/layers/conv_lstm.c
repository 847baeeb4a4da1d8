/* ConvLSTM1D and 2D (Shi et al., "Convolutional LSTM network", 2015): an LSTM whose products are convolutions, of rows
 * or images, step by step. It is made of the steps' operations, one behind the other. A row is an image of height 1. */
#include "graph/layers/layer.h"

enum { KERNEL, RECURRENT, BIAS };
enum { IN, FORGET, CELL, OUT, GATES }; /* as Keras orders them */

typedef struct conv_lstm_config {
    size_t filters, kernel[2], strides[2], dilation[2];
    clq_padding padding;
    clq_activation activation, gate_activation;
    bool no_bias, no_forget_ones, return_sequences, go_backwards;
    clq_initialiser kernel_initialiser, recurrent_initialiser, bias_initialiser;
} conv_lstm_config;

#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, conv_lstm_config, member)
/* Seeds are of dropouts, and zeros of steps that a mask leaves out. */
#define SHARED_ATTRIBUTES                                                                                              \
    {MEMBER("padding", CLQ_ATTRIBUTE_PADDING, padding)},                                                               \
        {MEMBER("activation", CLQ_ATTRIBUTE_ACTIVATION, activation), .fallback = CLQ_TANH},                            \
        {MEMBER("recurrent_activation", CLQ_ATTRIBUTE_ACTIVATION, gate_activation), .fallback = CLQ_SIGMOID},          \
        {MEMBER("use_bias", CLQ_ATTRIBUTE_OPPOSITE, no_bias)},                                                         \
        {MEMBER("unit_forget_bias", CLQ_ATTRIBUTE_OPPOSITE, no_forget_ones)},                                          \
        {MEMBER("return_sequences", CLQ_ATTRIBUTE_FLAG, return_sequences)},                                            \
        {MEMBER("go_backwards", CLQ_ATTRIBUTE_FLAG, go_backwards)},                                                    \
        {MEMBER("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, kernel_initialiser)},                                 \
        {MEMBER("recurrent_initializer", CLQ_ATTRIBUTE_INITIALISER, recurrent_initialiser)},                           \
        {MEMBER("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, bias_initialiser)},                                     \
        {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                              \
        {.key = "dropout", .type = CLQ_ATTRIBUTE_ONLY_NUMBER},                                                         \
        {.key = "recurrent_dropout", .type = CLQ_ATTRIBUTE_ONLY_NUMBER},                                               \
        {.key = "return_state", .type = CLQ_ATTRIBUTE_ONLY_FALSE},                                                     \
        {.key = "stateful", .type = CLQ_ATTRIBUTE_ONLY_FALSE}, {.key = "seed", .type = CLQ_ATTRIBUTE_UNUSED},          \
        {.key = "unroll", .type = CLQ_ATTRIBUTE_UNUSED}, {                                                             \
        .key = "zero_output_for_mask", .type = CLQ_ATTRIBUTE_UNUSED                                                    \
    }

static const clq_attribute attributes[] = {
    {MEMBER("kernel_size", CLQ_ATTRIBUTE_SIZES, kernel), .count = 2, .needed = true},
    {MEMBER("strides", CLQ_ATTRIBUTE_SIZES, strides), .count = 2, .fallback = 1},
    {MEMBER("dilation_rate", CLQ_ATTRIBUTE_SIZES, dilation), .count = 2, .fallback = 1},
    {MEMBER("filters", CLQ_ATTRIBUTE_SIZES, filters), .needed = true},
    SHARED_ATTRIBUTES,
};
/* Along the width; heights stay 0, which means 1. */
static const clq_attribute attributes_1d[] = {
    {MEMBER("kernel_size", CLQ_ATTRIBUTE_SIZES, kernel[1]), .needed = true},
    {MEMBER("strides", CLQ_ATTRIBUTE_SIZES, strides[1]), .fallback = 1},
    {MEMBER("dilation_rate", CLQ_ATTRIBUTE_SIZES, dilation[1]), .fallback = 1},
    {MEMBER("filters", CLQ_ATTRIBUTE_SIZES, filters), .needed = true},
    SHARED_ATTRIBUTES,
};

static const conv_lstm_config *config_of(const clq_layer *layer) { return layer->config; }
static bool is_1d(const clq_layer *layer) { return layer->kind == &clq_layer_conv_lstm1d; }

/* The windows of the inputs' convolution over a step's image. */
static clq_status place(const conv_lstm_config *config, const clq_shape *x, clq_window of[2]) {
    static const char *const names[] = {"height", "width"};
    for (unsigned d = 0; d < 2; d++) {
        const bool is_row = x->rank == 3;
        of[d] = (clq_window){.axis = names[d],
                             .in = d == 1   ? x->dims[x->rank - 2]
                                   : is_row ? 1
                                            : x->dims[1],
                             .size = clq_or_default(config->kernel[d], 1),
                             .stride = clq_or_default(config->strides[d], 1),
                             .dilation = clq_or_default(config->dilation[d], 1)};
        CLQ_TRY(clq_window_place(&of[d], config->padding));
    }
    return CLQ_OK;
}

static clq_status check_activation(const char *key, clq_activation activation) {
    if (activation != CLQ_SOFTMAX) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED, "%s 'softmax' is not supported", key);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const conv_lstm_config *config = config_of(layer);
    const clq_model_tensor *in = clq_model_input_of(model, y, 0);
    const clq_shape *x = &in->shape;
    clq_window of[2];
    size_t elements;
    char text[CLQ_SHAPE_TEXT_MAX];
    if (x->rank != (is_1d(layer) ? 3 : 4))
        return clq_fail(CLQ_ARGUMENT, "it takes (steps, %s, channels), and its input is %s",
                        is_1d(layer) ? "places" : "height, width", clq_shape_describe(x, text));
    if (x->dims[0] > CLQ_PARTS_STEPS)
        return clq_fail(CLQ_UNSUPPORTED, "more than %d steps are not supported: there are %zu", CLQ_PARTS_STEPS,
                        x->dims[0]);
    if (in->mask) return clq_fail(CLQ_UNSUPPORTED, "a mask of its steps is not supported");
    CLQ_TRY(check_activation("activation", config->activation));
    CLQ_TRY(check_activation("recurrent_activation", config->gate_activation));
    CLQ_TRY(place(config, x, of));
    if ((of[0].stride > 1 || of[1].stride > 1) && (of[0].dilation > 1 || of[1].dilation > 1))
        return clq_fail(CLQ_ARGUMENT, "strides and dilation_rate cannot both be above 1: drop one");
    const clq_shape gates = {.rank = 4, .dims = {GATES, of[0].out, of[1].out, config->filters}};
    CLQ_TRY(clq_shape_elements(&gates, &elements));
    y->shape.rank = 0;
    if (config->return_sequences) y->shape.dims[y->shape.rank++] = x->dims[0];
    for (unsigned d = is_1d(layer); d < 2; d++) y->shape.dims[y->shape.rank++] = of[d].out;
    y->shape.dims[y->shape.rank++] = config->filters;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    static const clq_initialiser orthogonal = {.kind = CLQ_INITIALISER_ORTHOGONAL, .gain = 1};
    const conv_lstm_config *config = config_of(layer);
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0)), width = GATES * config->filters;
    const size_t h = config->kernel[0], w = config->kernel[1], state_channels = config->filters;
    clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                      state = clq_variable_kind_by(&clq_variable_kernel, &orthogonal),
                      bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    state = clq_variable_kind_by(&state, &config->recurrent_initialiser);
    state.what = "recurrent_kernel";
    if (!config->no_forget_ones) {
        bias.ones[0] = config->filters;
        bias.ones[1] = 2 * config->filters;
    }
    const clq_shape of_input = is_1d(layer) ? CLQ_SHAPE(w, channels, width) : CLQ_SHAPE(h, w, channels, width),
                    of_state =
                        is_1d(layer) ? CLQ_SHAPE(w, state_channels, width) : CLQ_SHAPE(h, w, state_channels, width);
    CLQ_TRY(clq_model_declare_variable(model, layer, KERNEL, of_input, &kernel));
    CLQ_TRY(clq_model_declare_variable(model, layer, RECURRENT, of_state, &state));
    return config->no_bias ? CLQ_OK : clq_model_declare_variable(model, layer, BIAS, CLQ_SHAPE(width), &bias);
}

/* ---- operations ---- */

typedef struct steps {
    clq_expansion *e;
    const clq_parts *parts;
    const conv_lstm_config *config;
    clq_conv2d_problem input, state; /* the convolutions of a step's image, and of the state */
    clq_shape image;                 /* of the state */
    size_t elements;                 /* of it */
} steps;

static steps steps_of(clq_expansion *e, const clq_parts *parts) {
    const conv_lstm_config *config = config_of(e->layer);
    const clq_shape *x = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_window of[2];
    steps s = {.e = e, .parts = parts, .config = config};
    (void)place(config, x, of); /* as it was inferred */
    s.image = CLQ_SHAPE(of[0].out, of[1].out, config->filters);
    s.elements = of[0].out * of[1].out * config->filters;
    s.input = s.state = (clq_conv2d_problem){.in_h = of[0].in,
                                             .in_w = of[1].in,
                                             .in_c = x->dims[x->rank - 1],
                                             .out_h = of[0].out,
                                             .out_w = of[1].out,
                                             .out_c = GATES * config->filters,
                                             .kernel_h = of[0].size,
                                             .kernel_w = of[1].size,
                                             .stride_h = of[0].stride,
                                             .stride_w = of[1].stride,
                                             .dilation_h = of[0].dilation,
                                             .dilation_w = of[1].dilation,
                                             .pad_top = of[0].pad,
                                             .pad_left = of[1].pad};
    s.state.in_h = s.state.out_h; /* padding same, one place after the other */
    s.state.in_w = s.state.out_w;
    s.state.in_c = config->filters;
    s.state.stride_h = s.state.stride_w = s.state.dilation_h = s.state.dilation_w = 1;
    s.state.pad_top = (of[0].size - 1) / 2;
    s.state.pad_left = (of[1].size - 1) / 2;
    return s;
}

static clq_id convolve(const steps *s, const clq_conv2d_problem *problem, clq_id x, unsigned kernel) {
    clq_node node = clq_expand_convolution(s->e, problem, 1);
    node.inputs[0] = x;
    node.inputs[1] = clq_expand_weight(s->e, kernel);
    if (kernel == KERNEL) node.inputs[2] = clq_expand_weight(s->e, BIAS);
    return clq_part_add(s->parts, node, CLQ_SHAPE(problem->out_h, problem->out_w, problem->out_c));
}

/* Step t of the inputs. */
static clq_id take_step(const steps *s, clq_id x, size_t t) {
    const clq_shape image = CLQ_SHAPE(s->input.in_h, s->input.in_w, s->input.in_c);
    return clq_part_run(s->parts, x, t * s->input.in_h * s->input.in_w * s->input.in_c, image);
}

static clq_id take_gate(const steps *s, clq_id z, unsigned gate) {
    const size_t sizes[] = {s->elements / s->config->filters, GATES, s->config->filters};
    return clq_part_activate(s->parts, gate == CELL ? s->config->activation : s->config->gate_activation,
                             clq_part_slice(s->parts, z, sizes, gate, s->image), 0);
}

/* in cell + forget c before, which is none at first: 0. */
static clq_id next_cell(const steps *s, clq_id z, clq_id before) {
    const clq_id in = take_gate(s, z, IN),
                 c = clq_part_combine(s->parts, CLQ_ELEMENT_MULTIPLY, in, take_gate(s, z, CELL));
    if (!before) return c;
    const clq_id kept = clq_part_combine(s->parts, CLQ_ELEMENT_MULTIPLY, take_gate(s, z, FORGET), before);
    return clq_part_combine(s->parts, CLQ_ELEMENT_ADD, c, kept);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    const steps s = steps_of(e, &parts);
    const size_t all = clq_model_input_of(e->model, e->y, 0)->shape.dims[0];
    clq_joining sequence = {.rows = 1};
    clq_id h = 0, c = 0;
    (void)clq_expand_weight(e, RECURRENT); /* a single step has no use for it, and then its gradient is 0 */
    for (size_t t = 0; t < all; t++) {
        clq_id z = convolve(&s, &s.input, take_step(&s, x[0], s.config->go_backwards ? all - 1 - t : t), KERNEL);
        if (t > 0) z = clq_part_combine(&parts, CLQ_ELEMENT_ADD, z, convolve(&s, &s.state, h, RECURRENT));
        c = next_cell(&s, z, c);
        h = clq_part_activate(&parts, s.config->activation, c, 0);
        h = clq_part_combine(&parts, CLQ_ELEMENT_MULTIPLY, take_gate(&s, z, OUT), h);
        if (s.config->return_sequences) clq_joining_add(&parts, &sequence, h, s.elements);
    }
    return clq_part_reshape(&parts, s.config->return_sequences ? clq_joining_end(&parts, &sequence) : h, e->y->shape);
}

static const char *const stores[] = {[KERNEL] = "cell/vars/0", [RECURRENT] = "cell/vars/1", [BIAS] = "cell/vars/2"};

#define KIND(kind, class_name, name_stem, rows)                                                                        \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(conv_lstm_config, rows),                                             \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .stores = stores,                                                                     \
                                 .expand = expand}
KIND(clq_layer_conv_lstm1d, "ConvLSTM1D", "conv_lstm1d", attributes_1d);
KIND(clq_layer_conv_lstm2d, "ConvLSTM2D", "conv_lstm2d", attributes);
