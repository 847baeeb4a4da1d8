/* The layers that can be added: shape inference and checks. */
#include "graph/model.h"

static size_t or_default(size_t value, size_t otherwise) { return value ? value : otherwise; }

static clq_status check_activation(clq_activation activation) {
    if ((unsigned)activation <= CLQ_SOFTMAX) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "activation %d is none of clq_activation", (int)activation);
}

/* What the product's own launch applies; a softmax is one of its own. */
static clq_activation fused(clq_activation activation) { return activation == CLQ_SOFTMAX ? CLQ_LINEAR : activation; }

/* ---- windows: convolutions and pools ---- */

typedef struct window {
    const char *axis; /* "height" */
    size_t in, size, stride, dilation;
    size_t out, pad; /* found: positions of the window; zeros in front */
} window;

/* TensorFlow's rule: 'same' gives ceil(in / stride) positions and puts the odd zero behind. */
static clq_status place_window(window *w, clq_padding padding) {
    size_t extent;
    if (padding != CLQ_VALID && padding != CLQ_SAME)
        return clq_fail(CLQ_ARGUMENT, "padding %d is none of clq_padding", (int)padding);
    /* Kernels compute positions up to the input's size plus the window's in 32-bit integers. */
    if (w->stride > INT32_MAX || !clq_mul_size(w->size - 1, w->dilation, &extent) || extent > INT32_MAX ||
        extent + w->in >= INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "a window of %zu with stride %zu and dilation %zu along its %s is too large",
                        w->size, w->stride, w->dilation, w->axis);
    extent += 1;
    if (padding == CLQ_VALID) {
        if (extent > w->in)
            return clq_fail(CLQ_ARGUMENT,
                            "its window covers %zu values of the input's %s, which is %zu: use a smaller window or "
                            "padding same",
                            extent, w->axis, w->in);
        w->out = (w->in - extent) / w->stride + 1;
        return CLQ_OK;
    }
    w->out = clq_ceil_div(w->in, w->stride);
    size_t covered = (w->out - 1) * w->stride + extent;
    w->pad = covered > w->in ? (covered - w->in) / 2 : 0;
    return CLQ_OK;
}

static clq_status check_image(const clq_layer *x) {
    char text[CLQ_SHAPE_TEXT_MAX];
    if (x->shape.rank == 3) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "it takes (height, width, channels) and its input is %s: reshape it first",
                    clq_shape_describe(&x->shape, text));
}

static clq_status fill_conv2d(const clq_layer *x, const clq_conv2d_config *config, clq_layer *layer) {
    if (!config || !config->filters || !config->kernel[0] || !config->kernel[1])
        return clq_fail(CLQ_ARGUMENT, "filters and both sides of kernel must be at least 1");
    CLQ_TRY(check_activation(config->activation));
    CLQ_TRY(check_image(x));
    window h = {.axis = "height",
                .in = x->shape.dims[0],
                .size = config->kernel[0],
                .stride = or_default(config->strides[0], 1),
                .dilation = or_default(config->dilation[0], 1)};
    window w = {.axis = "width",
                .in = x->shape.dims[1],
                .size = config->kernel[1],
                .stride = or_default(config->strides[1], 1),
                .dilation = or_default(config->dilation[1], 1)};
    if ((h.stride > 1 || w.stride > 1) && (h.dilation > 1 || w.dilation > 1))
        return clq_fail(CLQ_ARGUMENT, "strides (%zu, %zu) and dilation (%zu, %zu) cannot both be above 1: drop one",
                        h.stride, w.stride, h.dilation, w.dilation);
    CLQ_TRY(place_window(&h, config->padding));
    CLQ_TRY(place_window(&w, config->padding));
    layer->activation = config->activation;
    layer->shape = CLQ_SHAPE(h.out, w.out, config->filters);
    layer->conv2d = (clq_conv2d_problem){.in_h = h.in,
                                         .in_w = w.in,
                                         .in_c = x->shape.dims[2],
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
                                         .activation = fused(config->activation)};
    return CLQ_OK;
}

clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config) {
    clq_layer layer = {.kind = CLQ_LAYER_CONV2D, .type = "Conv2D"};
    const clq_layer *source = clq_model_begin(model, x, "conv2d", config ? config->name : NULL, &layer);
    if (!source) return (clq_tensor){0};
    clq_status status = fill_conv2d(source, config, &layer);
    if (status != CLQ_OK) return clq_model_latch(model, status, layer.name);
    const clq_conv2d_problem *p = &layer.conv2d;
    clq_tensor y = clq_model_add_layer(model, &layer);
    return clq_model_add_weights(model, y, CLQ_SHAPE(p->kernel_h, p->kernel_w, p->in_c, p->out_c), !config->no_bias);
}

static clq_status fill_pool2d(const clq_layer *x, const clq_pool_config *config, clq_layer *layer) {
    CLQ_TRY(check_image(x));
    window h = {.axis = "height", .in = x->shape.dims[0], .size = or_default(config->size[0], 2), .dilation = 1};
    window w = {.axis = "width", .in = x->shape.dims[1], .size = or_default(config->size[1], 2), .dilation = 1};
    h.stride = or_default(config->strides[0], h.size);
    w.stride = or_default(config->strides[1], w.size);
    CLQ_TRY(place_window(&h, config->padding));
    CLQ_TRY(place_window(&w, config->padding));
    size_t area;
    if (!clq_mul_size(h.size, w.size, &area) || area > INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "its window of %zu x %zu is too large", h.size, w.size);
    size_t channels = x->shape.dims[2];
    layer->shape = CLQ_SHAPE(h.out, w.out, channels);
    layer->pool2d = (clq_pool2d_problem){.in_h = h.in,
                                         .in_w = w.in,
                                         .channels = channels,
                                         .out_h = h.out,
                                         .out_w = w.out,
                                         .size_h = h.size,
                                         .size_w = w.size,
                                         .stride_h = h.stride,
                                         .stride_w = w.stride,
                                         .pad_top = h.pad,
                                         .pad_left = w.pad};
    return CLQ_OK;
}

static clq_tensor add_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config, bool average) {
    static const clq_pool_config defaults;
    if (!config) config = &defaults;
    clq_layer layer = {.kind = CLQ_LAYER_POOL2D, .type = average ? "AveragePooling2D" : "MaxPooling2D"};
    const char *stem = average ? "average_pooling2d" : "max_pooling2d";
    const clq_layer *source = clq_model_begin(model, x, stem, config->name, &layer);
    if (!source) return (clq_tensor){0};
    clq_status status = fill_pool2d(source, config, &layer);
    if (status != CLQ_OK) return clq_model_latch(model, status, layer.name);
    layer.pool2d.average = average;
    return clq_model_add_layer(model, &layer);
}

clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    return add_pool2d(model, x, config, false);
}

clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) {
    return add_pool2d(model, x, config, true);
}

/* ---- dense, shapes, activations ---- */

static clq_status fill_dense(const clq_layer *x, const clq_dense_config *config, clq_layer *layer) {
    if (!config || !config->units) return clq_fail(CLQ_ARGUMENT, "units must be at least 1");
    CLQ_TRY(check_activation(config->activation));
    unsigned last = x->shape.rank - 1;
    size_t in = x->shape.dims[last];
    layer->activation = config->activation;
    layer->shape = x->shape;
    layer->shape.dims[last] = config->units;
    layer->dense = (clq_dense_problem){
        .in = in, .out = config->units, .rows_per_example = x->elements / in, .activation = fused(config->activation)};
    return CLQ_OK;
}

clq_tensor clq_dense(clq_model *model, clq_tensor x, const clq_dense_config *config) {
    clq_layer layer = {.kind = CLQ_LAYER_DENSE, .type = "Dense"};
    const clq_layer *source = clq_model_begin(model, x, "dense", config ? config->name : NULL, &layer);
    if (!source) return (clq_tensor){0};
    clq_status status = fill_dense(source, config, &layer);
    if (status != CLQ_OK) return clq_model_latch(model, status, layer.name);
    clq_tensor y = clq_model_add_layer(model, &layer);
    return clq_model_add_weights(model, y, CLQ_SHAPE(layer.dense.in, layer.dense.out), !config->no_bias);
}

clq_tensor clq_flatten(clq_model *model, clq_tensor x, const char *name) {
    clq_layer layer = {.kind = CLQ_LAYER_RESHAPE, .type = "Flatten"};
    const clq_layer *source = clq_model_begin(model, x, "flatten", name, &layer);
    if (!source) return (clq_tensor){0};
    layer.shape = CLQ_SHAPE(source->elements);
    return clq_model_add_layer(model, &layer);
}

static clq_status check_reshape(const clq_layer *x, const clq_shape *shape) {
    size_t elements;
    CLQ_TRY(clq_shape_elements(shape, &elements));
    if (elements == x->elements) return CLQ_OK;
    char to[CLQ_SHAPE_TEXT_MAX], from[CLQ_SHAPE_TEXT_MAX];
    return clq_fail(CLQ_ARGUMENT, "%s has %zu values and its input, %s, has %zu", clq_shape_describe(shape, to),
                    elements, clq_shape_describe(&x->shape, from), x->elements);
}

clq_tensor clq_reshape(clq_model *model, clq_tensor x, clq_shape shape, const char *name) {
    clq_layer layer = {.kind = CLQ_LAYER_RESHAPE, .type = "Reshape", .shape = shape};
    const clq_layer *source = clq_model_begin(model, x, "reshape", name, &layer);
    if (!source) return (clq_tensor){0};
    clq_status status = check_reshape(source, &shape);
    return status == CLQ_OK ? clq_model_add_layer(model, &layer) : clq_model_latch(model, status, layer.name);
}

clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name) {
    bool softmax = activation == CLQ_SOFTMAX; /* a class of its own in Keras */
    clq_layer layer = {
        .kind = CLQ_LAYER_ACTIVATION, .type = softmax ? "Softmax" : "Activation", .activation = activation};
    const clq_layer *source = clq_model_begin(model, x, softmax ? "softmax" : "activation", name, &layer);
    if (!source) return (clq_tensor){0};
    clq_status status = check_activation(activation);
    if (status != CLQ_OK) return clq_model_latch(model, status, layer.name);
    layer.shape = source->shape;
    return clq_model_add_layer(model, &layer);
}
