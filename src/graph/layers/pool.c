/* MaxPooling1D and 2D, AveragePooling1D and 2D. A row of steps is an image of height 1. */
#include "graph/layers/layer.h"

static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("pool_size", CLQ_ATTRIBUTE_SIZES, clq_pool_config, size), .count = 2, .fallback = 2},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_pool_config, strides), .count = 2}, /* 0: as pool_size */
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_pool_config, padding)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};
/* Along the width. Heights stay 0, which means 1. */
static const clq_attribute attributes_1d[] = {
    {CLQ_LAYER_ATTRIBUTE("pool_size", CLQ_ATTRIBUTE_SIZES, clq_pool_config, size[1]), .fallback = 2},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_pool_config, strides[1])},
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_pool_config, padding)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static bool is_1d(const clq_layer *layer) {
    return layer->kind == &clq_layer_max_pool1d || layer->kind == &clq_layer_average_pool1d;
}
static bool is_average(const clq_layer *layer) {
    return layer->kind == &clq_layer_average_pool1d || layer->kind == &clq_layer_average_pool2d;
}

static clq_window_pair windows_of(const clq_pool_config *config) {
    return (clq_window_pair){.size = {config->size[0], config->size[1]},
                             .strides = {clq_or_default(config->strides[0], config->size[0]),
                                         clq_or_default(config->strides[1], config->size[1])},
                             .padding = config->padding};
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_window_pair windows = windows_of(layer->config);
    const size_t h = clq_or_default(windows.size[0], 1), w = windows.size[1];
    size_t area;
    CLQ_TRY(clq_infer_windows(model, &windows, is_1d(layer) ? 1 : 2, y));
    if (clq_mul_size(h, w, &area) && area <= INT32_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "its window of %zu x %zu is too large", h, w);
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_window_pair windows = windows_of(e->layer->config);
    const clq_conv2d_problem w = clq_expand_windows(e, &windows);
    clq_node node = clq_expand_node(e, &clq_op_pool2d);
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = w.in_h,
                                                  .in_w = w.in_w,
                                                  .channels = w.in_c,
                                                  .out_h = w.out_h,
                                                  .out_w = w.out_w,
                                                  .size_h = w.kernel_h,
                                                  .size_w = w.kernel_w,
                                                  .stride_h = w.stride_h,
                                                  .stride_w = w.stride_w,
                                                  .pad_top = w.pad_top,
                                                  .pad_left = w.pad_left,
                                                  .average = is_average(e->layer)};
    return clq_expand_unary(e, node, x[0]);
}

#define KIND(kind, class_name, name_stem, rows)                                                                        \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(clq_pool_config, rows),                                              \
                                 .infer = infer,                                                                       \
                                 .expand = expand}
KIND(clq_layer_max_pool2d, "MaxPooling2D", "max_pooling2d", attributes);
KIND(clq_layer_average_pool2d, "AveragePooling2D", "average_pooling2d", attributes);
KIND(clq_layer_max_pool1d, "MaxPooling1D", "max_pooling1d", attributes_1d);
KIND(clq_layer_average_pool1d, "AveragePooling1D", "average_pooling1d", attributes_1d);

static clq_tensor add(clq_model *model, clq_tensor x, const clq_pool_config *config, const clq_layer_kind *kind) {
    const clq_pool_config all = config ? *config : (clq_pool_config){.name = NULL};
    return clq_model_add_layer(model, kind, all.name, &all, &x, 1);
}

clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    CLQ_LAYER_KNOWS(model, clq_pool_config, config);
    return add(model, x, config, &clq_layer_max_pool2d);
}

clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    CLQ_LAYER_KNOWS(model, clq_pool_config, config);
    return add(model, x, config, &clq_layer_average_pool2d);
}

static clq_tensor add_1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config, const clq_layer_kind *kind) {
    const clq_pool1d_config given = config ? *config : (clq_pool1d_config){.name = NULL};
    const clq_pool_config all = {.size = {0, given.size}, .strides = {0, given.strides}, .padding = given.padding};
    return clq_model_add_layer(model, kind, given.name, &all, &x, 1);
}

clq_tensor clq_max_pool1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_pool1d_config, config);
    return add_1d(model, x, config, &clq_layer_max_pool1d);
}

clq_tensor clq_average_pool1d(clq_model *model, clq_tensor x, const clq_pool1d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_pool1d_config, config);
    return add_1d(model, x, config, &clq_layer_average_pool1d);
}
