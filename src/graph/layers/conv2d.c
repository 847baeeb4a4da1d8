/* Conv2D. */
#include "graph/layers/layer.h"

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("filters", CLQ_ATTRIBUTE_SIZE, clq_conv2d_config, filters), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("kernel_size", CLQ_ATTRIBUTE_PAIR, clq_conv2d_config, kernel), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_PAIR, clq_conv2d_config, strides), .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_PAIR, clq_conv2d_config, dilation), .fallback = 1},
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_conv2d_config, padding)},
    {CLQ_LAYER_ATTRIBUTE("activation", CLQ_ATTRIBUTE_ACTIVATION, clq_conv2d_config, activation)},
    {CLQ_LAYER_ATTRIBUTE("use_bias", CLQ_ATTRIBUTE_OPPOSITE, clq_conv2d_config, no_bias)},
    {.key = "groups", .type = CLQ_ATTRIBUTE_ONLY_NUMBER, .fallback = 1},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
    {CLQ_LAYER_ATTRIBUTE("kernel_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_conv2d_config, kernel_initialiser)},
    {CLQ_LAYER_ATTRIBUTE("bias_initializer", CLQ_ATTRIBUTE_INITIALISER, clq_conv2d_config, bias_initialiser)},
};

/* Where the window lies in x; both axes. */
static clq_status place(const clq_conv2d_config *config, const clq_shape *x, clq_window *h, clq_window *w) {
    *h = (clq_window){.axis = "height",
                      .in = x->dims[0],
                      .size = config->kernel[0],
                      .stride = config->strides[0],
                      .dilation = config->dilation[0]};
    *w = (clq_window){.axis = "width",
                      .in = x->dims[1],
                      .size = config->kernel[1],
                      .stride = config->strides[1],
                      .dilation = config->dilation[1]};
    CLQ_TRY(clq_window_place(h, config->padding));
    return clq_window_place(w, config->padding);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_conv2d_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const size_t *strides = config->strides, *dilation = config->dilation;
    clq_window h, w;
    CLQ_TRY(clq_layer_check_image(x));
    if ((strides[0] > 1 || strides[1] > 1) && (dilation[0] > 1 || dilation[1] > 1))
        return clq_fail(CLQ_ARGUMENT,
                        "strides (%zu, %zu) and dilation_rate (%zu, %zu) cannot both be above 1: drop one", strides[0],
                        strides[1], dilation[0], dilation[1]);
    CLQ_TRY(place(config, x, &h, &w));
    y->shape = CLQ_SHAPE(h.out, w.out, config->filters);
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_conv2d_config *config = layer->config;
    const size_t channels = clq_model_input_of(model, y, 0)->shape.dims[2];
    const clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                            bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    const clq_shape shape = CLQ_SHAPE(config->kernel[0], config->kernel[1], channels, config->filters);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, shape, &kernel));
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(config->filters), &bias);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_conv2d_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node node = clq_expand_node(e, &clq_op_conv2d);
    clq_window h, w;
    (void)place(config, in, &h, &w); /* as it was inferred */
    node.attributes.conv2d = (clq_conv2d_problem){.in_h = h.in,
                                                  .in_w = w.in,
                                                  .in_c = in->dims[2],
                                                  .out_h = h.out,
                                                  .out_w = w.out,
                                                  .out_c = config->filters,
                                                  .kernel_h = h.size,
                                                  .kernel_w = w.size,
                                                  .stride_h = h.stride,
                                                  .stride_w = w.stride,
                                                  .dilation_h = h.dilation,
                                                  .dilation_w = w.dilation,
                                                  .pad_top = h.pad,
                                                  .pad_left = w.pad,
                                                  .activation = clq_layer_fused_activation(config->activation)};
    return clq_expand_product(e, node, x[0], config->activation);
}

const clq_layer_kind clq_layer_conv2d = {.type = "Conv2D",
                                         .stem = "conv2d",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(clq_conv2d_config, attributes),
                                         .infer = infer,
                                         .declare = declare,
                                         .expand = expand};

clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config) {
    const clq_conv2d_config all = config ? *config : (clq_conv2d_config){0};
    return clq_model_add_layer(model, &clq_layer_conv2d, all.name, &all, &x, 1);
}
