/* Conv1D and Conv2D. A row of steps is an image of height 1. */
#include "graph/layers/layer.h"

#define SHARED_ATTRIBUTES                                                                                              \
    {CLQ_LAYER_ATTRIBUTE("filters", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, filters), .needed = true},                 \
        {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, clq_conv2d_config, activation)},                  \
        {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, clq_conv2d_config, no_bias)},                         \
        {CLQ_LAYER_ATTRIBUTE("groups", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, groups), .fallback = 1},                \
        {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                              \
        {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_conv2d_config, kernel_initialiser)}, \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_conv2d_config, bias_initialiser)        \
    }

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, kernel), .count = 2, .needed = true},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, strides), .count = 2, .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, dilation), .count = 2, .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_conv2d_config, padding)},
    SHARED_ATTRIBUTES,
};
/* Along the width. Heights stay 0, which means 1. */
static const clq_attribute attributes_1d[] = {
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, kernel[1]), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, strides[1]), .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, clq_conv2d_config, dilation[1]), .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_conv2d_config, padding), .causal = true},
    SHARED_ATTRIBUTES,
};

static bool is_1d(const clq_layer *layer) { return layer->kind == &clq_layer_conv1d; }

static clq_window_pair windows_of(const clq_conv2d_config *config) {
    return (clq_window_pair){.size = {config->kernel[0], config->kernel[1]},
                             .strides = {config->strides[0], config->strides[1]},
                             .dilation = {config->dilation[0], config->dilation[1]},
                             .padding = config->padding};
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_conv2d_config *config = layer->config;
    const clq_window_pair windows = windows_of(config);
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0));
    CLQ_TRY(clq_infer_windows(model, &windows, is_1d(layer) ? 1 : 2, y));
    if (channels % config->groups || config->filters % config->groups)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "groups %zu should divide both its %zu filters and the input's %zu channels", config->groups,
                        config->filters, channels);
    y->shape.dims[y->shape.rank - 1] = config->filters;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_conv2d_config *config = layer->config;
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0)) / config->groups;
    const clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                            bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    const clq_shape shape = is_1d(layer) ? CLQ_SHAPE(config->kernel[1], channels, config->filters)
                                         : CLQ_SHAPE(config->kernel[0], config->kernel[1], channels, config->filters);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, shape, &kernel));
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(config->filters), &bias);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_conv2d_config *config = e->layer->config;
    const clq_window_pair windows = windows_of(config);
    clq_conv2d_problem problem = clq_expand_windows(e, &windows);
    problem.out_c = config->filters;
    problem.activation = clq_layer_fused_activation(config->activation);
    return clq_expand_product(e, clq_expand_convolution(e, &problem, config->groups), x[0], config->activation);
}

const clq_layer_kind clq_layer_conv2d = {.type = "Conv2D",
                                         .stem = "conv2d",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(clq_conv2d_config, attributes),
                                         .infer = infer,
                                         .declare = declare,
                                         .expand = expand};
const clq_layer_kind clq_layer_conv1d = {.type = "Conv1D",
                                         .stem = "conv1d",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(clq_conv2d_config, attributes_1d),
                                         .infer = infer,
                                         .declare = declare,
                                         .expand = expand};

clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_conv2d_config, config);
    const clq_conv2d_config all = config ? *config : (clq_conv2d_config){0};
    return clq_model_add_layer(model, &clq_layer_conv2d, all.name, &all, &x, 1);
}

clq_tensor clq_conv1d(clq_model *model, clq_tensor x, const clq_conv1d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_conv1d_config, config);
    const clq_conv1d_config given = config ? *config : (clq_conv1d_config){0};
    const clq_conv2d_config all = {.filters = given.filters,
                                   .kernel = {0, given.kernel},
                                   .strides = {0, given.strides},
                                   .dilation = {0, given.dilation},
                                   .padding = given.padding,
                                   .activation = given.activation,
                                   .no_bias = given.no_bias,
                                   .kernel_initialiser = given.kernel_initialiser,
                                   .bias_initialiser = given.bias_initialiser,
                                   .groups = given.groups};
    return clq_model_add_layer(model, &clq_layer_conv1d, given.name, &all, &x, 1);
}
