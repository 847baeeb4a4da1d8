/* MaxPooling2D and AveragePooling2D. */
#include "graph/layers/layer.h"

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("pool_size", CLQ_ATTRIBUTE_PAIR, clq_pool_config, size), .fallback = 2},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_PAIR, clq_pool_config, strides)}, /* none: as pool_size */
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_pool_config, padding)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

/* Where the window lies in x; both axes. */
static clq_status place(const clq_pool_config *config, const clq_shape *x, clq_window *h, clq_window *w) {
    *h = (clq_window){.axis = "height", .in = x->dims[0], .size = config->size[0], .dilation = 1};
    *w = (clq_window){.axis = "width", .in = x->dims[1], .size = config->size[1], .dilation = 1};
    h->stride = clq_or_default(config->strides[0], h->size);
    w->stride = clq_or_default(config->strides[1], w->size);
    CLQ_TRY(clq_window_place(h, config->padding));
    return clq_window_place(w, config->padding);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_pool_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    clq_window h, w;
    size_t area;
    CLQ_TRY(clq_layer_check_image(x));
    CLQ_TRY(place(config, x, &h, &w));
    if (!clq_mul_size(h.size, w.size, &area) || area > INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "its window of %zu x %zu is too large", h.size, w.size);
    y->shape = CLQ_SHAPE(h.out, w.out, x->dims[2]);
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node node = clq_expand_node(e, &clq_op_pool2d);
    clq_window h, w;
    (void)place(e->layer->config, in, &h, &w); /* as it was inferred */
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = h.in,
                                                  .in_w = w.in,
                                                  .channels = in->dims[2],
                                                  .out_h = h.out,
                                                  .out_w = w.out,
                                                  .size_h = h.size,
                                                  .size_w = w.size,
                                                  .stride_h = h.stride,
                                                  .stride_w = w.stride,
                                                  .pad_top = h.pad,
                                                  .pad_left = w.pad,
                                                  .average = e->layer->kind == &clq_layer_average_pool2d};
    return clq_expand_unary(e, node, x[0]);
}

const clq_layer_kind clq_layer_max_pool2d = {.type = "MaxPooling2D",
                                             .stem = "max_pooling2d",
                                             .inputs = {1, 1},
                                             CLQ_LAYER_CONFIG(clq_pool_config, attributes),
                                             .infer = infer,
                                             .expand = expand};
const clq_layer_kind clq_layer_average_pool2d = {.type = "AveragePooling2D",
                                                 .stem = "average_pooling2d",
                                                 .inputs = {1, 1},
                                                 CLQ_LAYER_CONFIG(clq_pool_config, attributes),
                                                 .infer = infer,
                                                 .expand = expand};

static clq_tensor add(clq_model *model, clq_tensor x, const clq_pool_config *config, const clq_layer_kind *kind) {
    const clq_pool_config all = config ? *config : (clq_pool_config){.name = NULL};
    return clq_model_add_layer(model, kind, all.name, &all, &x, 1);
}

clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    return add(model, x, config, &clq_layer_max_pool2d);
}

clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    return add(model, x, config, &clq_layer_average_pool2d);
}
