/* DepthwiseConv1D and 2D, which convolve each channel by itself; SeparableConv1D and 2D, in which a convolution over
 * all channels with 1 x 1 filters follows. */
#include "graph/layers/layer.h"

enum { DEPTHWISE = 2 }; /* the number of a separable layer's depthwise kernel, behind CLQ_KERNEL and CLQ_BIAS */

#define WINDOWS_2D                                                                                                     \
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, kernel), .count = 2,         \
     .needed = true},                                                                                                  \
        {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, strides), .count = 2,        \
         .fallback = 1},                                                                                               \
        {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, dilation), .count = 2, \
         .fallback = 1},                                                                                               \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_depthwise_conv2d_config, padding)                    \
    }
#define WINDOWS_1D                                                                                                     \
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, kernel[1]), .needed = true}, \
        {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, strides[1]), .fallback = 1}, \
        {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, dilation[1]),          \
         .fallback = 1},                                                                                               \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_depthwise_conv2d_config, padding)                    \
    }
#define OTHERS                                                                                                         \
    {CLQ_LAYER_ATTRIBUTE("depth_multiplier", CLQ_ATTRIBUTE_SIZES, clq_depthwise_conv2d_config, multiplier),            \
     .fallback = 1},                                                                                                   \
        {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, clq_depthwise_conv2d_config, activation)},        \
        {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, clq_depthwise_conv2d_config, no_bias)},               \
        {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                              \
        {CLQ_LAYER_ATTRIBUTE("depthwise_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_depthwise_conv2d_config,          \
                             depthwise_initialiser)},                                                                  \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_depthwise_conv2d_config,                \
                            bias_initialiser)                                                                          \
    }
#define OF_SEPARABLE                                                                                                   \
    {CLQ_LAYER_ATTRIBUTE("filters", CLQ_ATTRIBUTE_SIZES, clq_separable_conv2d_config, filters), .needed = true}, {     \
        CLQ_LAYER_ATTRIBUTE("pointwise_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_separable_conv2d_config,           \
                            pointwise_initialiser)                                                                     \
    }
/* A separable layer's config begins with the config of its depthwise part. */
_Static_assert(offsetof(clq_separable_conv2d_config, depthwise) == 0, "the depthwise part is first");

static const clq_attribute depthwise_2d[] = {WINDOWS_2D, OTHERS}, depthwise_1d[] = {WINDOWS_1D, OTHERS},
                           separable_2d[] = {WINDOWS_2D, OTHERS, OF_SEPARABLE},
                           separable_1d[] = {WINDOWS_1D, OTHERS, OF_SEPARABLE};

static bool is_separable(const clq_layer *layer) {
    return layer->kind == &clq_layer_separable_conv1d || layer->kind == &clq_layer_separable_conv2d;
}
static unsigned axes_of(const clq_layer *layer) {
    return layer->kind == &clq_layer_depthwise_conv1d || layer->kind == &clq_layer_separable_conv1d ? 1 : 2;
}
static size_t filters_of(const clq_layer *layer) {
    return ((const clq_separable_conv2d_config *)layer->config)->filters;
}

static clq_window_pair windows_of(const clq_depthwise_conv2d_config *config) {
    return (clq_window_pair){.size = {config->kernel[0], config->kernel[1]},
                             .strides = {config->strides[0], config->strides[1]},
                             .dilation = {config->dilation[0], config->dilation[1]},
                             .padding = config->padding};
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_depthwise_conv2d_config *config = layer->config;
    const clq_window_pair windows = windows_of(config);
    CLQ_TRY(clq_infer_windows(model, &windows, axes_of(layer), y));
    size_t *channels = &y->shape.dims[y->shape.rank - 1];
    if (!clq_mul_size(*channels, config->multiplier, channels) || *channels > INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "depth_multiplier %zu is too large", config->multiplier);
    if (is_separable(layer)) *channels = filters_of(layer);
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_depthwise_conv2d_config *config = layer->config;
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0)), m = config->multiplier;
    const bool separable = is_separable(layer), line = axes_of(layer) == 1;
    clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->depthwise_initialiser),
                      bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    const clq_shape shape =
        line ? CLQ_SHAPE(config->kernel[1], channels, m) : CLQ_SHAPE(config->kernel[0], config->kernel[1], channels, m);
    if (separable) kernel.what = "depthwise_kernel";
    CLQ_TRY(clq_model_declare_variable(model, layer, separable ? DEPTHWISE : CLQ_KERNEL, shape, &kernel));
    if (separable) {
        const clq_separable_conv2d_config *all = layer->config;
        clq_variable_kind pointwise = clq_variable_kind_by(&clq_variable_kernel, &all->pointwise_initialiser);
        pointwise.what = "pointwise_kernel";
        CLQ_TRY(clq_model_declare_variable(
            model, layer, CLQ_KERNEL,
            line ? CLQ_SHAPE(1, channels * m, all->filters) : CLQ_SHAPE(1, 1, channels * m, all->filters), &pointwise));
    }
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(clq_model_channels(y)), &bias);
}

/* Convolves what the depthwise part gave with the 1 x 1 filters. */
static clq_id expand_pointwise(clq_expansion *e, const clq_conv2d_problem *depthwise, clq_id z,
                               clq_activation activation) {
    const clq_conv2d_problem pointwise = {.in_h = depthwise->out_h,
                                          .in_w = depthwise->out_w,
                                          .in_c = depthwise->out_c,
                                          .out_h = depthwise->out_h,
                                          .out_w = depthwise->out_w,
                                          .out_c = filters_of(e->layer),
                                          .kernel_h = 1,
                                          .kernel_w = 1,
                                          .stride_h = 1,
                                          .stride_w = 1,
                                          .dilation_h = 1,
                                          .dilation_w = 1,
                                          .activation = clq_layer_fused_activation(activation)};
    return clq_expand_product(e, clq_expand_convolution(e, &pointwise, 1), z, activation);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_depthwise_conv2d_config *config = e->layer->config;
    const clq_window_pair windows = windows_of(config);
    const bool separable = is_separable(e->layer);
    clq_conv2d_problem problem = clq_expand_windows(e, &windows);
    problem.out_c = problem.in_c * config->multiplier;
    if (!separable) {
        problem.activation = clq_layer_fused_activation(config->activation);
        return clq_expand_product(e, clq_expand_convolution(e, &problem, problem.in_c), x[0], config->activation);
    }
    clq_node node = clq_expand_convolution(e, &problem, problem.in_c);
    clq_shape shape = e->y->shape;
    shape.dims[shape.rank - 1] = problem.out_c;
    node.inputs[0] = x[0];
    node.inputs[1] = clq_expand_weight(e, DEPTHWISE);
    node.outputs[0] = clq_expand_value(e, &shape, problem.out_h * problem.out_w * problem.out_c);
    return expand_pointwise(e, &problem, clq_graph_add_node(e->graph, &node), config->activation);
}

#define KIND(kind, class_name, name_stem, config, rows)                                                                \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(config, rows),                                                       \
                                 .infer = infer,                                                                       \
                                 .declare = declare,                                                                   \
                                 .expand = expand}
KIND(clq_layer_depthwise_conv2d, "DepthwiseConv2D", "depthwise_conv2d", clq_depthwise_conv2d_config, depthwise_2d);
KIND(clq_layer_depthwise_conv1d, "DepthwiseConv1D", "depthwise_conv1d", clq_depthwise_conv2d_config, depthwise_1d);
KIND(clq_layer_separable_conv2d, "SeparableConv2D", "separable_conv2d", clq_separable_conv2d_config, separable_2d);
KIND(clq_layer_separable_conv1d, "SeparableConv1D", "separable_conv1d", clq_separable_conv2d_config, separable_1d);

clq_tensor clq_depthwise_conv2d(clq_model *model, clq_tensor x, const clq_depthwise_conv2d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_depthwise_conv2d_config, config);
    const clq_depthwise_conv2d_config all = config ? *config : (clq_depthwise_conv2d_config){0};
    return clq_model_add_layer(model, &clq_layer_depthwise_conv2d, all.name, &all, &x, 1);
}

clq_tensor clq_separable_conv2d(clq_model *model, clq_tensor x, const clq_separable_conv2d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_depthwise_conv2d_config, config ? &config->depthwise : NULL);
    if (config && !clq_layer_knows(model, "clq_separable_conv2d_config", config->depthwise.name, config->reserved,
                                   sizeof config->reserved))
        return (clq_tensor){0};
    const clq_separable_conv2d_config all = config ? *config : (clq_separable_conv2d_config){0};
    return clq_model_add_layer(model, &clq_layer_separable_conv2d, all.depthwise.name, &all, &x, 1);
}
