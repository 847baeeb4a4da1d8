/* Conv2D. */
#include "graph/layers/layer.h"

static clq_status check(const clq_conv2d_config *config) {
    if (!config->filters || !config->kernel[0] || !config->kernel[1])
        return clq_fail(CLQ_ARGUMENT, "filters and both sides of kernel must be at least 1");
    return clq_layer_check_activation(config->activation);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_conv2d_config *config = &layer->config.conv2d;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(check(config));
    CLQ_TRY(clq_layer_check_image(x));
    clq_window h = {.axis = "height",
                    .in = x->dims[0],
                    .size = config->kernel[0],
                    .stride = clq_or_default(config->strides[0], 1),
                    .dilation = clq_or_default(config->dilation[0], 1)};
    clq_window w = {.axis = "width",
                    .in = x->dims[1],
                    .size = config->kernel[1],
                    .stride = clq_or_default(config->strides[1], 1),
                    .dilation = clq_or_default(config->dilation[1], 1)};
    if ((h.stride > 1 || w.stride > 1) && (h.dilation > 1 || w.dilation > 1))
        return clq_fail(CLQ_ARGUMENT, "strides (%zu, %zu) and dilation (%zu, %zu) cannot both be above 1: drop one",
                        h.stride, w.stride, h.dilation, w.dilation);
    CLQ_TRY(clq_window_place(&h, config->padding));
    CLQ_TRY(clq_window_place(&w, config->padding));
    y->shape = CLQ_SHAPE(h.out, w.out, config->filters);
    y->conv2d = (clq_conv2d_problem){.in_h = h.in,
                                     .in_w = w.in,
                                     .in_c = x->dims[2],
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
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_conv2d_problem *p = &y->conv2d;
    const clq_shape kernel = CLQ_SHAPE(p->kernel_h, p->kernel_w, p->in_c, p->out_c);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, kernel, &clq_variable_kernel));
    if (layer->config.conv2d.no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(p->out_c), &clq_variable_bias);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_conv2d);
    node.attributes.conv2d = e->y->conv2d;
    return clq_expand_product(e, node, x[0], e->layer->config.conv2d.activation);
}

const clq_layer_kind clq_layer_conv2d = {
    .type = "Conv2D", .stem = "conv2d", .inputs = {1, 1}, .infer = infer, .declare = declare, .expand = expand};

clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config) {
    const clq_layer_config all = {.conv2d = config ? *config : (clq_conv2d_config){0}};
    return clq_model_add_layer(model, &clq_layer_conv2d, config ? config->name : NULL, &all, &x, 1);
}
