/* MaxPooling2D and AveragePooling2D. */
#include "graph/layers/layer.h"

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_pool_config *config = &layer->config.pool2d;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_image(x));
    clq_window h = {.axis = "height", .in = x->dims[0], .size = clq_or_default(config->size[0], 2), .dilation = 1};
    clq_window w = {.axis = "width", .in = x->dims[1], .size = clq_or_default(config->size[1], 2), .dilation = 1};
    h.stride = clq_or_default(config->strides[0], h.size);
    w.stride = clq_or_default(config->strides[1], w.size);
    CLQ_TRY(clq_window_place(&h, config->padding));
    CLQ_TRY(clq_window_place(&w, config->padding));
    size_t area;
    if (!clq_mul_size(h.size, w.size, &area) || area > INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "its window of %zu x %zu is too large", h.size, w.size);
    y->shape = CLQ_SHAPE(h.out, w.out, x->dims[2]);
    y->pool2d = (clq_pool2d_problem){.in_h = h.in,
                                     .in_w = w.in,
                                     .channels = x->dims[2],
                                     .out_h = h.out,
                                     .out_w = w.out,
                                     .size_h = h.size,
                                     .size_w = w.size,
                                     .stride_h = h.stride,
                                     .stride_w = w.stride,
                                     .pad_top = h.pad,
                                     .pad_left = w.pad,
                                     .average = layer->kind == &clq_layer_average_pool2d};
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_node node = clq_expand_node(e, &clq_op_pool2d);
    node.attributes.pool2d = e->y->pool2d;
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_max_pool2d = {
    .type = "MaxPooling2D", .stem = "max_pooling2d", .inputs = {1, 1}, .infer = infer, .expand = expand};
const clq_layer_kind clq_layer_average_pool2d = {
    .type = "AveragePooling2D", .stem = "average_pooling2d", .inputs = {1, 1}, .infer = infer, .expand = expand};

static clq_tensor add(clq_model *model, clq_tensor x, const clq_pool_config *config, const clq_layer_kind *kind) {
    const clq_layer_config all = {.pool2d = config ? *config : (clq_pool_config){.name = NULL}};
    return clq_model_add_layer(model, kind, config ? config->name : NULL, &all, &x, 1);
}

clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    return add(model, x, config, &clq_layer_max_pool2d);
}

clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    return add(model, x, config, &clq_layer_average_pool2d);
}
