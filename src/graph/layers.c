/* The layers that can be added: shape inference and checks. */
#include "graph/model.h"

static clq_tensor refuse(clq_model *model, const char *name, const char *stem, clq_status status) {
    return clq_model_latch(model, status, name ? name : stem);
}

clq_tensor clq_input(clq_model *model, clq_shape shape) {
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    if (model->finished) return clq_model_latch(model, clq_fail(CLQ_STATE, "model %s is finished: no input can be added", model->name), NULL);
    if (model->input) return clq_model_latch(model, clq_fail(CLQ_UNSUPPORTED, "model %s has an input already: one is supported", model->name), NULL);
    clq_tensor x = clq_model_add_node(model, (clq_node){.kind = CLQ_NODE_INPUT, .type = "InputLayer", .shape = shape}, "input", NULL);
    model->input = x.id;
    return x;
}

/* ---- windows: convolutions and pools -------------------------------------------------------------------------------- */

typedef struct window {
    size_t out, pad; /* positions of the window; zeros in front */
} window;

/* TensorFlow's rule: 'same' gives ceil(in / stride) positions and puts the odd zero behind. */
static clq_status place_window(const char *axis, size_t in, size_t kernel, size_t stride, size_t dilation, clq_padding padding, window *out) {
    size_t extent;
    if (!clq_mul_size(kernel - 1, dilation, &extent) || !clq_add_size(extent, 1, &extent) || extent > INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "its %s window is too large", axis);
    if (padding == CLQ_SAME) {
        size_t positions = clq_ceil_div(in, stride), needed;
        if (!clq_mul_size(positions - 1, stride, &needed) || !clq_add_size(needed, extent, &needed))
            return clq_fail(CLQ_ARGUMENT, "its %s window is too large", axis);
        *out = (window){.out = positions, .pad = needed > in ? (needed - in) / 2 : 0};
        return CLQ_OK;
    }
    if (extent > in)
        return clq_fail(CLQ_ARGUMENT, "its window covers %zu values of the input's %s and there are %zu: use a smaller window or padding same", extent, axis, in);
    *out = (window){.out = (in - extent) / stride + 1};
    return CLQ_OK;
}

static clq_status check_image(const clq_node *x) {
    if (x->shape.rank == 3) return CLQ_OK;
    char shape[96];
    clq_shape_describe(&x->shape, shape);
    return clq_fail(CLQ_ARGUMENT, "it takes (h, w, channels) and its input is %s: reshape it first", shape);
}

static size_t or_default(size_t value, size_t otherwise) { return value ? value : otherwise; }

static clq_status plan_conv2d(const clq_node *x, const clq_conv2d_config *config, clq_conv2d_problem *out) {
    CLQ_TRY(check_image(x));
    if (config->filters == 0 || config->kernel[0] == 0 || config->kernel[1] == 0)
        return clq_fail(CLQ_ARGUMENT, "filters and kernel must be at least 1");
    clq_conv2d_problem p = {.in_h = x->shape.dims[0], .in_w = x->shape.dims[1], .in_c = x->shape.dims[2], .out_c = config->filters,
                            .kernel_h = config->kernel[0], .kernel_w = config->kernel[1],
                            .stride_h = or_default(config->strides[0], 1), .stride_w = or_default(config->strides[1], 1),
                            .dilation_h = or_default(config->dilation[0], 1), .dilation_w = or_default(config->dilation[1], 1),
                            .activation = config->activation == CLQ_SOFTMAX ? CLQ_LINEAR : config->activation};
    if ((p.stride_h > 1 || p.stride_w > 1) && (p.dilation_h > 1 || p.dilation_w > 1))
        return clq_fail(CLQ_ARGUMENT, "strides and dilation cannot both be above 1");
    window h, w;
    CLQ_TRY(place_window("height", p.in_h, p.kernel_h, p.stride_h, p.dilation_h, config->padding, &h));
    CLQ_TRY(place_window("width", p.in_w, p.kernel_w, p.stride_w, p.dilation_w, config->padding, &w));
    p.out_h = h.out;
    p.out_w = w.out;
    p.pad_top = h.pad;
    p.pad_left = w.pad;
    *out = p;
    return CLQ_OK;
}

clq_tensor clq_conv2d(clq_model *model, clq_tensor x, const clq_conv2d_config *config) {
    const clq_node *source = clq_model_source(model, x, "a convolution");
    if (!source) return (clq_tensor){0};
    clq_conv2d_problem p;
    clq_status status = plan_conv2d(source, config, &p);
    if (status != CLQ_OK) return refuse(model, config->name, "conv2d", status);
    clq_node node = {.kind = CLQ_NODE_CONV2D, .type = "Conv2D", .input = x.id, .activation = config->activation,
                     .shape = CLQ_SHAPE(p.out_h, p.out_w, p.out_c), .conv2d = p};
    clq_tensor y = clq_model_add_node(model, node, "conv2d", config->name);
    size_t window_size = 0, fan_in, fan_out;
    if (!clq_mul_size(p.kernel_h, p.kernel_w, &window_size) || !clq_mul_size(window_size, p.in_c, &fan_in) || !clq_mul_size(window_size, p.out_c, &fan_out))
        return refuse(model, config->name, "conv2d", clq_fail(CLQ_ARGUMENT, "its kernel is too large"));
    uint32_t kernel = clq_model_add_variable(model, "kernel", CLQ_SHAPE(p.kernel_h, p.kernel_w, p.in_c, p.out_c), fan_in, fan_out);
    uint32_t bias = config->no_bias ? 0 : clq_model_add_variable(model, "bias", CLQ_SHAPE(p.out_c), fan_in, p.out_c);
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    model->nodes[y.id - 1].kernel = kernel;
    model->nodes[y.id - 1].bias = bias;
    return y;
}

static clq_status plan_pool2d(const clq_node *x, const clq_pool_config *config, bool average, clq_pool2d_problem *out) {
    CLQ_TRY(check_image(x));
    clq_pool2d_problem p = {.in_h = x->shape.dims[0], .in_w = x->shape.dims[1], .channels = x->shape.dims[2],
                            .size_h = or_default(config->size[0], 2), .size_w = or_default(config->size[1], 2), .average = average};
    p.stride_h = or_default(config->strides[0], p.size_h);
    p.stride_w = or_default(config->strides[1], p.size_w);
    window h, w;
    CLQ_TRY(place_window("height", p.in_h, p.size_h, p.stride_h, 1, config->padding, &h));
    CLQ_TRY(place_window("width", p.in_w, p.size_w, p.stride_w, 1, config->padding, &w));
    p.out_h = h.out;
    p.out_w = w.out;
    p.pad_top = h.pad;
    p.pad_left = w.pad;
    *out = p;
    return CLQ_OK;
}

static clq_tensor add_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config, bool average) {
    static const clq_pool_config defaults;
    const char *stem = average ? "average_pooling2d" : "max_pooling2d";
    const clq_node *source = clq_model_source(model, x, "a pool");
    if (!source) return (clq_tensor){0};
    if (!config) config = &defaults;
    clq_pool2d_problem p;
    clq_status status = plan_pool2d(source, config, average, &p);
    if (status != CLQ_OK) return refuse(model, config->name, stem, status);
    clq_node node = {.kind = CLQ_NODE_POOL2D, .type = average ? "AveragePooling2D" : "MaxPooling2D", .input = x.id,
                     .shape = CLQ_SHAPE(p.out_h, p.out_w, p.channels), .pool2d = p};
    return clq_model_add_node(model, node, stem, config->name);
}

clq_tensor clq_max_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) { return add_pool2d(model, x, config, false); }
clq_tensor clq_average_pool2d(clq_model *model, clq_tensor x, const clq_pool_config *config) { return add_pool2d(model, x, config, true); }

/* ---- dense, shapes, activations ----------------------------------------------------------------------------------------- */

clq_tensor clq_dense(clq_model *model, clq_tensor x, const clq_dense_config *config) {
    const clq_node *source = clq_model_source(model, x, "a dense layer");
    if (!source) return (clq_tensor){0};
    if (config->units == 0) return refuse(model, config->name, "dense", clq_fail(CLQ_ARGUMENT, "units must be at least 1"));
    if (source->shape.rank == 0) return refuse(model, config->name, "dense", clq_fail(CLQ_ARGUMENT, "its input has no axis: reshape it to (1)"));
    size_t in = source->shape.dims[source->shape.rank - 1];
    clq_node node = {.kind = CLQ_NODE_DENSE, .type = "Dense", .input = x.id, .activation = config->activation, .shape = source->shape,
                     .dense = {.in = in, .out = config->units, .rows_per_example = source->elements / in,
                               .activation = config->activation == CLQ_SOFTMAX ? CLQ_LINEAR : config->activation}};
    node.shape.dims[node.shape.rank - 1] = config->units;
    clq_tensor y = clq_model_add_node(model, node, "dense", config->name);
    uint32_t kernel = clq_model_add_variable(model, "kernel", CLQ_SHAPE(in, config->units), in, config->units);
    uint32_t bias = config->no_bias ? 0 : clq_model_add_variable(model, "bias", CLQ_SHAPE(config->units), in, config->units);
    if (model->error.status != CLQ_OK) return (clq_tensor){0};
    model->nodes[y.id - 1].kernel = kernel;
    model->nodes[y.id - 1].bias = bias;
    return y;
}

clq_tensor clq_flatten(clq_model *model, clq_tensor x, const char *name) {
    const clq_node *source = clq_model_source(model, x, "a flattening");
    if (!source) return (clq_tensor){0};
    return clq_model_add_node(model, (clq_node){.kind = CLQ_NODE_RESHAPE, .type = "Flatten", .input = x.id, .shape = CLQ_SHAPE(source->elements)}, "flatten", name);
}

clq_tensor clq_reshape(clq_model *model, clq_tensor x, clq_shape shape, const char *name) {
    const clq_node *source = clq_model_source(model, x, "a reshaping");
    if (!source) return (clq_tensor){0};
    clq_node node = {.kind = CLQ_NODE_RESHAPE, .type = "Reshape", .input = x.id, .shape = shape};
    size_t elements = source->elements;
    clq_shape from = source->shape;
    clq_tensor y = clq_model_add_node(model, node, "reshape", name);
    if (y.id == 0 || model->nodes[y.id - 1].elements == elements) return y;
    char old_shape[96], new_shape[96];
    clq_shape_describe(&from, old_shape);
    clq_shape_describe(&shape, new_shape);
    return refuse(model, name, "reshape", clq_fail(CLQ_ARGUMENT, "%s has another number of values than its input, %s", new_shape, old_shape));
}

clq_tensor clq_activate(clq_model *model, clq_tensor x, clq_activation activation, const char *name) {
    const clq_node *source = clq_model_source(model, x, "an activation");
    if (!source) return (clq_tensor){0};
    bool softmax = activation == CLQ_SOFTMAX;
    if (softmax && source->shape.rank == 0) return refuse(model, name, "softmax", clq_fail(CLQ_ARGUMENT, "its input has no axis"));
    clq_node node = {.kind = CLQ_NODE_ACTIVATION, .type = softmax ? "Softmax" : "Activation", .input = x.id, .shape = source->shape, .activation = activation};
    return clq_model_add_node(model, node, softmax ? "softmax" : "activation", name);
}
