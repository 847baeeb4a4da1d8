/* Conv1DTranspose and Conv2DTranspose: the gradient of a convolution with respect to its input, as a layer. */
#include "graph/layers/layer.h"

typedef struct transposed_config {
    clq_conv2d_config conv;
    clq_numbers behind;
} transposed_config;

#define SHARED_ATTRIBUTES                                                                                              \
    {CLQ_LAYER_ATTRIBUTE("filters", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.filters), .needed = true},            \
        {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, transposed_config, conv.padding)},                      \
        {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, transposed_config, conv.activation)},             \
        {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, transposed_config, conv.no_bias)},                    \
        {CLQ_LAYER_ATTRIBUTE("output_padding", CLQ_ATTRIBUTE_NUMBERS, transposed_config, behind), .whole = true},      \
        {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                              \
        {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, transposed_config,                       \
                             conv.kernel_initialiser)},                                                                \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, transposed_config, conv.bias_initialiser)   \
    }

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.kernel), .count = 2,
     .needed = true},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.strides), .count = 2, .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.dilation), .count = 2,
     .fallback = 1},
    SHARED_ATTRIBUTES,
};
/* Along the width. Heights stay 0, which means 1. */
static const clq_attribute attributes_1d[] = {
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.kernel[1]), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.strides[1]), .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, transposed_config, conv.dilation[1]), .fallback = 1},
    SHARED_ATTRIBUTES,
};

static bool is_1d(const clq_layer *layer) { return layer->kind == &clq_layer_conv1d_transpose; }

/* The windows of the convolution whose gradient the layer is. That convolution goes from y to x, the layer's input. */
static clq_status place_both(const clq_layer *layer, const clq_shape *x, clq_window *h, clq_window *w) {
    const clq_conv2d_config *config = layer->config;
    *h = (clq_window){.axis = "height",
                      .size = clq_or_default(config->kernel[0], 1),
                      .stride = clq_or_default(config->strides[0], 1),
                      .dilation = clq_or_default(config->dilation[0], 1),
                      .out = is_1d(layer) ? 1 : x->dims[0]};
    *w = (clq_window){.axis = "width",
                      .size = config->kernel[1],
                      .stride = config->strides[1],
                      .dilation = config->dilation[1],
                      .out = x->dims[x->rank - 2]};
    const clq_numbers *given = &((const transposed_config *)layer->config)->behind;
    const size_t *behind;
    const unsigned axes = is_1d(layer) ? 1 : 2;
    size_t places;
    CLQ_TRY(clq_layer_find_behind(given, axes, 0, &places, &behind));
    CLQ_TRY(clq_window_place_transposed(h, config->padding, axes == 2 ? behind : NULL));
    CLQ_TRY(clq_layer_find_behind(given, axes, axes - 1, &places, &behind));
    return clq_window_place_transposed(w, config->padding, behind);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_conv2d_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    clq_window h, w;
    CLQ_TRY(clq_layer_check_rank(x, is_1d(layer) ? 1 : 2));
    CLQ_TRY(place_both(layer, x, &h, &w));
    if ((h.stride > 1 || w.stride > 1) && (h.dilation > 1 || w.dilation > 1))
        return clq_fail(CLQ_ERROR_ARGUMENT, "strides and dilation_rate cannot both be above 1: drop one");
    y->shape = is_1d(layer) ? CLQ_SHAPE(w.in, config->filters) : CLQ_SHAPE(h.in, w.in, config->filters);
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_conv2d_config *config = layer->config;
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0));
    const clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                            bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    const clq_shape shape = is_1d(layer) ? CLQ_SHAPE(config->kernel[1], config->filters, channels)
                                         : CLQ_SHAPE(config->kernel[0], config->kernel[1], config->filters, channels);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, shape, &kernel));
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(config->filters), &bias);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_conv2d_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node node = clq_expand_node(e, &clq_op_conv2d_transpose);
    clq_window h, w;
    (void)place_both(e->layer, in, &h, &w); /* as it was inferred */
    node.attributes.conv2d = (clq_conv2d_problem){.in_h = h.in,
                                                  .in_w = w.in,
                                                  .in_c = config->filters,
                                                  .out_h = h.out,
                                                  .out_w = w.out,
                                                  .out_c = in->dims[in->rank - 1],
                                                  .kernel_h = h.size,
                                                  .kernel_w = w.size,
                                                  .stride_h = h.stride,
                                                  .stride_w = w.stride,
                                                  .dilation_h = h.dilation,
                                                  .dilation_w = w.dilation,
                                                  .pad_top = h.pad,
                                                  .pad_left = w.pad};
    node.inputs[1] = clq_expand_weight(e, CLQ_KERNEL);
    const clq_id z = clq_expand_unary(e, node, x[0]);
    return clq_expand_activation(e, config->activation, clq_expand_bias(e, CLQ_BIAS, z));
}

#define KIND(kind, class_name, name_stem, rows)                                                                        \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(transposed_config, rows),                                            \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .expand = expand}
KIND(clq_layer_conv2d_transpose, "Conv2DTranspose", "conv2d_transpose", attributes);
KIND(clq_layer_conv1d_transpose, "Conv1DTranspose", "conv1d_transpose", attributes_1d);

clq_tensor clq_conv2d_transpose(clq_model *model, clq_tensor x, const clq_conv2d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_conv2d_config, config);
    const transposed_config all = {.conv = config ? *config : (clq_conv2d_config){0}};
    return clq_model_add_layer(model, &clq_layer_conv2d_transpose, all.conv.name, &all, &x, 1);
}
