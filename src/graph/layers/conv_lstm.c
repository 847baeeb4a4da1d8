/* ConvLSTM1D to 3D (Shi et al., "Convolutional LSTM network", 2015): an LSTM whose products are convolutions of rows,
 * images or volumes. Each step becomes operations of its own, one step behind the other. A row is an image of height 1,
 * and an image is a volume of depth 1. */
#include "graph/layers/volume.h"

enum { KERNEL, RECURRENT, BIAS };
enum { IN, FORGET, CELL, OUT, GATES }; /* in Keras's order */
enum { AXES = CLQ_VOLUME_AXES };

typedef struct conv_lstm_config {
    size_t filters, kernel[AXES], strides[AXES], dilation[AXES]; /* of axes that the layer lacks: 0, which means 1 */
    clq_padding padding;
    clq_activation activation, gate_activation;
    bool no_bias, no_forget_ones, return_sequences, go_backwards;
    clq_initialiser kernel_initialiser, recurrent_initialiser, bias_initialiser;
} conv_lstm_config;

#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, conv_lstm_config, member)
/* `seed` is for dropout, and `zero_output_for_mask` for masked steps. Neither is supported, so both are unused. */
#define SHARED_ATTRIBUTES                                                                                              \
    {MEMBER("padding", CLQ_ATTRIBUTE_PADDING, padding)},                                                               \
        {MEMBER("activation", CLQ_ATTRIBUTE_ACTIVATION, activation), .fallback = CLQ_ACTIVATION_TANH},                 \
        {MEMBER("recurrent_activation", CLQ_ATTRIBUTE_ACTIVATION, gate_activation),                                    \
         .fallback = CLQ_ACTIVATION_SIGMOID},                                                                          \
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

/* For a layer with `axes` axes, which are the last ones of the config. */
#define ATTRIBUTES(axes)                                                                                               \
    {                                                                                                                  \
        {MEMBER("kernel_size", CLQ_ATTRIBUTE_SIZES, kernel[AXES - (axes)]), .count = (axes), .needed = true},          \
            {MEMBER("strides", CLQ_ATTRIBUTE_SIZES, strides[AXES - (axes)]), .count = (axes), .fallback = 1},          \
            {MEMBER("dilation_rate", CLQ_ATTRIBUTE_SIZES, dilation[AXES - (axes)]), .count = (axes), .fallback = 1},   \
            {MEMBER("filters", CLQ_ATTRIBUTE_SIZES, filters), .needed = true}, SHARED_ATTRIBUTES,                      \
    }
static const clq_attribute attributes_1d[] = ATTRIBUTES(1), attributes_2d[] = ATTRIBUTES(2),
                           attributes_3d[] = ATTRIBUTES(3);

static const conv_lstm_config *config_of(const clq_layer *layer) { return layer->config; }
static unsigned axes_of(const clq_layer *layer) { return layer->kind->attributes[0].count; }

/* The windows of the convolution of a step's input. x: (steps, …, channels). */
static clq_status place(const conv_lstm_config *config, const clq_shape *x, clq_volume_windows *out) {
    static const char *const names[AXES] = {"depth", "height", "width"};
    const unsigned absent = AXES + 2 - x->rank;
    for (unsigned d = 0; d < AXES; d++) {
        out->of[d] = (clq_window){.axis = names[d],
                                  .in = d < absent ? 1 : x->dims[1 + d - absent],
                                  .size = clq_or_default(config->kernel[d], 1),
                                  .stride = clq_or_default(config->strides[d], 1),
                                  .dilation = clq_or_default(config->dilation[d], 1)};
        CLQ_TRY(clq_window_place(&out->of[d], config->padding));
    }
    return CLQ_OK;
}
/* The windows of the state's convolution: padding same, strides and dilation 1. */
static clq_volume_windows of_state(const clq_volume_windows *input) {
    clq_volume_windows state = *input;
    for (unsigned d = 0; d < AXES; d++) {
        clq_window *w = &state.of[d];
        w->in = w->out;
        w->stride = w->dilation = 1;
        w->pad = (w->size - 1) / 2;
    }
    return state;
}

static clq_status check_activation(const char *key, clq_activation activation) {
    if (activation != CLQ_ACTIVATION_SOFTMAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s 'softmax' is not supported", key);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const conv_lstm_config *config = config_of(layer);
    const clq_model_tensor *in = clq_model_input_of(model, y, 0);
    static const char *const wanted[] = {"", "places", "height, width", "depth, height, width"};
    const clq_shape *x = &in->shape;
    clq_volume_windows of;
    bool strides = false, dilation = false;
    size_t elements;
    char text[CLQ_SHAPE_TEXT_MAX];
    if (x->rank != axes_of(layer) + 2)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (steps, %s, channels), and its input is %s",
                        wanted[axes_of(layer)], clq_shape_describe(x, text));
    if (x->dims[0] > CLQ_PARTS_STEPS)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "more than %d steps are not supported: there are %zu", CLQ_PARTS_STEPS,
                        x->dims[0]);
    if (in->mask) return clq_fail(CLQ_ERROR_UNSUPPORTED, "a mask of its steps is not supported");
    CLQ_TRY(check_activation("activation", config->activation));
    CLQ_TRY(check_activation("recurrent_activation", config->gate_activation));
    CLQ_TRY(place(config, x, &of));
    for (unsigned d = 0; d < AXES; d++) {
        strides = strides || of.of[d].stride > 1;
        dilation = dilation || of.of[d].dilation > 1;
    }
    if (strides && dilation)
        return clq_fail(CLQ_ERROR_ARGUMENT, "strides and dilation_rate cannot both be above 1: drop one");
    const clq_shape gates = CLQ_SHAPE(GATES, of.of[0].out, of.of[1].out, of.of[2].out, config->filters);
    CLQ_TRY(clq_shape_elements(&gates, &elements));
    if (axes_of(layer) == AXES) {
        const clq_volume_windows state = of_state(&of);
        CLQ_TRY(clq_volume_check(&of, x->dims[x->rank - 1], GATES * config->filters));
        CLQ_TRY(clq_volume_check(&state, config->filters, GATES * config->filters));
    }
    y->shape.rank = 0;
    if (config->return_sequences) y->shape.dims[y->shape.rank++] = x->dims[0];
    for (unsigned d = AXES - axes_of(layer); d < AXES; d++) y->shape.dims[y->shape.rank++] = of.of[d].out;
    y->shape.dims[y->shape.rank++] = config->filters;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    static const clq_initialiser orthogonal = {.kind = CLQ_INITIALISER_ORTHOGONAL, .gain = 1};
    const conv_lstm_config *config = config_of(layer);
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0)), width = GATES * config->filters;
    clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                      state = clq_variable_kind_by(&clq_variable_kernel, &orthogonal),
                      bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    state = clq_variable_kind_by(&state, &config->recurrent_initialiser);
    state.what = "recurrent_kernel";
    if (!config->no_forget_ones) {
        bias.ones[0] = config->filters;
        bias.ones[1] = 2 * config->filters;
    }
    clq_shape shape = {.rank = axes_of(layer) + 2};
    for (unsigned d = 0; d < axes_of(layer); d++) shape.dims[d] = config->kernel[AXES - axes_of(layer) + d];
    shape.dims[shape.rank - 2] = channels;
    shape.dims[shape.rank - 1] = width;
    CLQ_TRY(clq_model_declare_variable(model, layer, KERNEL, shape, &kernel));
    shape.dims[shape.rank - 2] = config->filters;
    CLQ_TRY(clq_model_declare_variable(model, layer, RECURRENT, shape, &state));
    return config->no_bias ? CLQ_OK : clq_model_declare_variable(model, layer, BIAS, CLQ_SHAPE(width), &bias);
}

/* ---- operations ---- */

typedef struct steps {
    clq_expansion *e;
    const clq_parts *parts;
    const conv_lstm_config *config;
    clq_volume_windows input, state; /* of the convolutions of a step's input, and of the state */
    clq_shape volume;                /* the state's shape */
    size_t elements;                 /* of the state */
} steps;

static steps steps_of(clq_expansion *e, const clq_parts *parts) {
    const conv_lstm_config *config = config_of(e->layer);
    steps s = {.e = e, .parts = parts, .config = config};
    (void)place(config, &clq_model_input_of(e->model, e->y, 0)->shape, &s.input); /* as it was inferred */
    s.state = of_state(&s.input);
    const clq_window *of = s.input.of;
    s.volume = axes_of(e->layer) == AXES ? CLQ_SHAPE(of[0].out, of[1].out, of[2].out, config->filters)
                                         : CLQ_SHAPE(of[1].out, of[2].out, config->filters);
    s.elements = of[0].out * of[1].out * of[2].out * config->filters;
    return s;
}

static clq_id convolve(const steps *s, const clq_volume_windows *w, size_t channels, clq_id x, unsigned kernel) {
    const clq_id weights = clq_expand_weight(s->e, kernel), bias = kernel == KERNEL ? clq_expand_weight(s->e, BIAS) : 0;
    const clq_window *height = &w->of[CLQ_HEIGHT], *width = &w->of[CLQ_WIDTH];
    const clq_volume_sizes sizes = {.channels = channels, .filters = GATES * s->config->filters, .groups = 1};
    if (axes_of(s->e->layer) == AXES) return clq_volume_convolve(s->e, s->parts, w, &sizes, x, weights, bias);
    const clq_conv2d_problem problem = {.in_h = height->in,
                                        .in_w = width->in,
                                        .in_c = channels,
                                        .out_h = height->out,
                                        .out_w = width->out,
                                        .out_c = sizes.filters,
                                        .kernel_h = height->size,
                                        .kernel_w = width->size,
                                        .stride_h = height->stride,
                                        .stride_w = width->stride,
                                        .dilation_h = height->dilation,
                                        .dilation_w = width->dilation,
                                        .pad_top = height->pad,
                                        .pad_left = width->pad};
    clq_node node = clq_expand_convolution(s->e, &problem, 1);
    node.inputs[0] = x;
    node.inputs[1] = weights;
    node.inputs[2] = bias;
    return clq_part_add(s->parts, node, CLQ_SHAPE(height->out, width->out, sizes.filters));
}

/* Takes step t of the inputs. */
static clq_id take_step(const steps *s, clq_id x, size_t t) {
    const clq_shape *all = &clq_model_input_of(s->e->model, s->e->y, 0)->shape;
    clq_shape step = {.rank = all->rank - 1};
    size_t elements = 1;
    for (unsigned d = 0; d < step.rank; d++) elements *= step.dims[d] = all->dims[d + 1];
    return clq_part_run(s->parts, x, t * elements, step);
}

static clq_id take_gate(const steps *s, clq_id z, unsigned gate) {
    const size_t sizes[] = {s->elements / s->config->filters, GATES, s->config->filters};
    return clq_part_activate(s->parts, gate == CELL ? s->config->activation : s->config->gate_activation,
                             clq_part_slice(s->parts, z, sizes, gate, s->volume), 0);
}

/* The new cell is in * cell + forget * before. In the first step there is no cell before, and `before` is 0. */
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
    const clq_model_tensor *in = clq_model_input_of(e->model, e->y, 0);
    const size_t all = in->shape.dims[0], channels = clq_model_channels(in);
    clq_joining sequence = {.rows = 1};
    clq_id h = 0, c = 0;
    (void)clq_expand_weight(e, RECURRENT); /* a single step does not read it, and its gradient is then 0 */
    for (size_t t = 0; t < all; t++) {
        clq_id z =
            convolve(&s, &s.input, channels, take_step(&s, x[0], s.config->go_backwards ? all - 1 - t : t), KERNEL);
        if (t > 0)
            z = clq_part_combine(&parts, CLQ_ELEMENT_ADD, z, convolve(&s, &s.state, s.config->filters, h, RECURRENT));
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
                                 .takes_mask = true,                                                                   \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .stores = stores,                                                                     \
                                 .expand = expand}
KIND(clq_layer_conv_lstm1d, "ConvLSTM1D", "conv_lstm1d", attributes_1d);
KIND(clq_layer_conv_lstm2d, "ConvLSTM2D", "conv_lstm2d", attributes_2d);
KIND(clq_layer_conv_lstm3d, "ConvLSTM3D", "conv_lstm3d", attributes_3d);
