/* Conv3D, MaxPooling3D and AveragePooling3D, computed by convolutions and poolings of images. */
#include "graph/layers/volume.h"

enum { DEPTH = CLQ_DEPTH, HEIGHT = CLQ_HEIGHT, WIDTH = CLQ_WIDTH, AXES = CLQ_VOLUME_AXES };
enum { WIDTH_MOST = 256 }; /* places of a kernel along the width: each is an operation */

static const clq_attribute attributes[] = {
    CLQ_VOLUME_ATTRIBUTES,
    {CLQ_LAYER_ATTRIBUTE("groups", CLQ_ATTRIBUTE_SIZES, clq_conv3d_config, groups), .fallback = 1},
};
static const clq_attribute pool_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("pool_size", CLQ_ATTRIBUTE_SIZES, clq_pool3d_config, size), .count = 3, .fallback = 2},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_SIZES, clq_pool3d_config, strides), .count = 3}, /* 0: as size */
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, clq_pool3d_config, padding)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

/* ---- windows ---- */

typedef clq_volume_windows windows;

clq_status clq_volume_windows_of(const clq_shape *x, const size_t *size, const size_t *strides, const size_t *dilation,
                                 clq_volume_windows *out) {
    static const char *const names[AXES] = {"depth", "height", "width"};
    CLQ_TRY(clq_layer_check_rank(x, AXES));
    for (unsigned d = 0; d < AXES; d++)
        out->of[d] = (clq_window){.axis = names[d],
                                  .in = x->dims[d],
                                  .size = size[d],
                                  .stride = strides[d],
                                  .dilation = dilation ? dilation[d] : 1};
    return CLQ_OK;
}

static clq_status place(clq_padding padding, windows *w) {
    for (unsigned d = 0; d < AXES; d++) CLQ_TRY(clq_window_place(&w->of[d], padding));
    return CLQ_OK;
}
static clq_status place_convolution(const clq_layer *layer, const clq_shape *x, windows *out) {
    const clq_conv3d_config *config = layer->config;
    CLQ_TRY(clq_volume_windows_of(x, config->kernel, config->strides, config->dilation, out));
    return place(config->padding, out);
}
static clq_status place_pooling(const clq_layer *layer, const clq_shape *x, windows *out) {
    const clq_pool3d_config *config = layer->config;
    size_t strides[AXES];
    for (unsigned d = 0; d < AXES; d++) strides[d] = clq_or_default(config->strides[d], config->size[d]);
    CLQ_TRY(clq_volume_windows_of(x, config->size, strides, NULL, out));
    return place(config->padding, out);
}

/* ---- a convolution as one of images ---- */

/* How many depths an image has. */
static size_t depth_of(const clq_window *d) {
    return (d->out - 1) * d->stride + clq_ceil_div((d->size - 1) * d->dilation + 1, d->stride) * d->stride;
}

clq_status clq_volume_check(const clq_volume_windows *w, size_t channels, size_t filters) {
    size_t elements;
    bool strides = false, dilation = false;
    for (unsigned d = 0; d < AXES; d++) {
        strides = strides || w->of[d].stride > 1;
        dilation = dilation || w->of[d].dilation > 1;
    }
    if (strides && dilation)
        return clq_fail(CLQ_ERROR_ARGUMENT, "strides and dilation_rate cannot both be above 1: drop one");
    if (w->of[WIDTH].size > WIDTH_MOST)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "a kernel of more than %d places along the last axis is not supported: it has %zu", WIDTH_MOST,
                        w->of[WIDTH].size);
    const size_t images = w->of[WIDTH].out, depth = depth_of(&w->of[DEPTH]);
    const clq_shape joined = {.rank = 5, .dims = {images, depth, w->of[HEIGHT].in, w->of[WIDTH].size, channels}},
                    made = {.rank = 4, .dims = {images, depth / w->of[DEPTH].stride, w->of[HEIGHT].out, filters}};
    CLQ_TRY(clq_shape_elements(&joined, &elements));
    return clq_shape_elements(&made, &elements);
}

clq_status clq_volume_declare(clq_model *model, clq_layer *layer, size_t in, size_t out) {
    const clq_conv3d_config *config = layer->config;
    const size_t *k = config->kernel;
    const clq_variable_kind kernel = clq_variable_kind_by(&clq_variable_kernel, &config->kernel_initialiser),
                            bias = clq_variable_kind_by(&clq_variable_bias, &config->bias_initialiser);
    CLQ_TRY(clq_model_declare_variable(model, layer, CLQ_KERNEL, CLQ_SHAPE(k[DEPTH], k[HEIGHT], k[WIDTH], in, out),
                                       &kernel));
    if (config->no_bias) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_BIAS, CLQ_SHAPE(config->filters), &bias);
}

clq_conv2d_problem clq_volume_problem(const clq_volume_windows *w, size_t channels, size_t filters) {
    const clq_window *depth = &w->of[DEPTH], *height = &w->of[HEIGHT], *width = &w->of[WIDTH];
    const size_t all = width->out * depth_of(depth);
    return (clq_conv2d_problem){.in_h = all,
                                .in_w = height->in,
                                .in_c = width->size * channels,
                                .out_h = all / depth->stride,
                                .out_w = height->out,
                                .out_c = filters,
                                .kernel_h = depth->size,
                                .kernel_w = height->size,
                                .stride_h = depth->stride,
                                .stride_w = height->stride,
                                .dilation_h = depth->dilation,
                                .dilation_w = height->dilation,
                                .pad_left = height->pad};
}

clq_arrangement clq_volume_place(const clq_volume_windows *w, size_t k, size_t channels) {
    const clq_window *depth = &w->of[DEPTH], *width = &w->of[WIDTH];
    const size_t sizes[] = {depth->in, w->of[HEIGHT].in, width->in, channels};
    const clq_arrangement whole = clq_arrangement_of(4, sizes);
    clq_arrangement a = {.rank = 4, .axes = {whole.axes[WIDTH], whole.axes[DEPTH], whole.axes[HEIGHT], whole.axes[3]}};
    a.axes[0].out = width->out;
    a.axes[0].first = (long)(k * width->dilation) - (long)width->pad;
    a.axes[0].step = (long)width->stride;
    a.axes[1].out = depth_of(depth);
    a.axes[1].first = -(long)depth->pad;
    return a;
}

clq_arrangement clq_volume_positions(const clq_volume_windows *w, size_t filters) {
    const size_t sizes[] = {w->of[WIDTH].out, depth_of(&w->of[DEPTH]) / w->of[DEPTH].stride, w->of[HEIGHT].out,
                            filters};
    const clq_arrangement whole = clq_arrangement_of(4, sizes);
    clq_arrangement a = {.rank = 4, .axes = {whole.axes[1], whole.axes[2], whole.axes[0], whole.axes[3]}};
    a.axes[0].out = w->of[DEPTH].out;
    return a;
}

/* ---- Conv3D ---- */

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_conv3d_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    windows w;
    CLQ_TRY(place_convolution(layer, x, &w));
    const size_t channels = x->dims[AXES];
    if (channels % config->groups || config->filters % config->groups)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "groups %zu should divide both its %zu filters and the input's %zu channels", config->groups,
                        config->filters, channels);
    CLQ_TRY(clq_volume_check(&w, channels, config->filters));
    y->shape = CLQ_SHAPE(w.of[DEPTH].out, w.of[HEIGHT].out, w.of[WIDTH].out, config->filters);
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_conv3d_config *config = layer->config;
    const size_t channels = clq_model_channels(clq_model_input_of(model, y, 0)) / config->groups;
    return clq_volume_declare(model, layer, channels, config->filters);
}

static clq_id arrange(const clq_parts *parts, const clq_arrangement *a, clq_id x, clq_shape shape) {
    clq_node node = clq_part_node(parts, &clq_op_arrange, CLQ_IDS(x));
    node.attributes.arrangement = *a;
    return clq_part_add(parts, node, shape);
}

/* For each position, what all places of the window along the width have, side by side within each group of channels. */
static clq_id take_windows(const clq_parts *parts, clq_id x, const windows *w, size_t channels, size_t groups) {
    clq_joining joined = {.rows = w->of[WIDTH].out * depth_of(&w->of[DEPTH]) * w->of[HEIGHT].in * groups};
    for (size_t k = 0; k < w->of[WIDTH].size; k++) {
        const clq_arrangement a = clq_volume_place(w, k, channels);
        const clq_shape shape = CLQ_SHAPE(a.axes[0].out, a.axes[1].out, a.axes[2].out, channels);
        clq_joining_add(parts, &joined, arrange(parts, &a, x, shape), channels / groups);
    }
    return clq_joining_end(parts, &joined);
}

clq_id clq_volume_convolve(const clq_expansion *e, const clq_parts *parts, const clq_volume_windows *w,
                           const clq_volume_sizes *sizes, clq_id x, clq_id kernel, clq_id bias) {
    const clq_conv2d_problem problem = clq_volume_problem(w, sizes->channels, sizes->filters);
    const clq_arrangement positions = clq_volume_positions(w, sizes->filters);
    clq_node node = clq_expand_convolution(e, &problem, sizes->groups);
    node.inputs[0] = take_windows(parts, x, w, sizes->channels, sizes->groups);
    node.inputs[1] = kernel;
    node.inputs[2] = bias;
    if (!node.inputs[0] || !kernel) return 0;
    const clq_id z = clq_part_add(parts, node, CLQ_SHAPE(problem.out_h, problem.out_w, sizes->filters));
    return arrange(parts, &positions, z,
                   CLQ_SHAPE(w->of[DEPTH].out, w->of[HEIGHT].out, w->of[WIDTH].out, sizes->filters));
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_conv3d_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const clq_volume_sizes sizes = {.channels = in->dims[AXES], .filters = config->filters, .groups = config->groups};
    windows w;
    clq_node of;
    (void)place_convolution(e->layer, in, &w); /* as it was inferred */
    const clq_parts parts = clq_expand_parts(e, &of);
    const clq_id z = clq_volume_convolve(e, &parts, &w, &sizes, x[0], clq_expand_weight(e, CLQ_KERNEL),
                                         clq_expand_weight(e, CLQ_BIAS));
    return z ? clq_expand_activation(e, config->activation, z) : 0;
}

const clq_layer_kind clq_layer_conv3d = {.type = "Conv3D",
                                         .stem = "conv3d",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(clq_conv3d_config, attributes),
                                         .infer = infer,
                                         .declare = declare,
                                         .expand = expand};

clq_tensor clq_conv3d(clq_model *model, clq_tensor x, const clq_conv3d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_conv3d_config, config);
    const clq_conv3d_config all = config ? *config : (clq_conv3d_config){0};
    return clq_model_add_layer(model, &clq_layer_conv3d, all.name, &all, &x, 1);
}

/* ---- pooling: along one axis after the other ---- */

static clq_status infer_pool(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    windows w;
    CLQ_TRY(place_pooling(layer, x, &w));
    y->shape = CLQ_SHAPE(w.of[DEPTH].out, w.of[HEIGHT].out, w.of[WIDTH].out, x->dims[AXES]);
    return CLQ_OK;
}

static clq_id add_node(clq_expansion *e, clq_node *node, clq_id x, const clq_shape *shape) {
    size_t elements = 1;
    for (unsigned d = 0; d < shape->rank; d++) elements *= shape->dims[d];
    if (!x) return 0;
    node->inputs[0] = x;
    node->outputs[0] = clq_expand_value(e, shape, elements);
    return clq_graph_add_node(e->graph, node);
}

/* Pools along one axis after another. The axis is the width of an image: the axes in front of it make the image's
 * height, and the axes behind it its channels. */
static clq_id expand_pool(clq_expansion *e, const clq_id *x) {
    clq_shape shape = clq_model_input_of(e->model, e->y, 0)->shape;
    windows w;
    clq_id y = x[0];
    (void)place_pooling(e->layer, &shape, &w); /* as it was inferred */
    for (unsigned d = AXES; d-- > 0 && y;) {
        const clq_window *window = &w.of[d];
        clq_node node = clq_expand_node(e, &clq_op_pool2d);
        clq_pool2d_problem *p = &node.attributes.pool2d;
        if (window->size == 1 && window->stride == 1) continue;
        *p = (clq_pool2d_problem){.in_h = 1,
                                  .in_w = window->in,
                                  .channels = 1,
                                  .out_w = window->out,
                                  .size_h = 1,
                                  .size_w = window->size,
                                  .stride_h = 1,
                                  .stride_w = window->stride,
                                  .pad_left = window->pad,
                                  .average = e->layer->kind == &clq_layer_average_pool3d};
        for (unsigned i = 0; i < d; i++) p->in_h *= shape.dims[i];
        for (unsigned i = d + 1; i < shape.rank; i++) p->channels *= shape.dims[i];
        p->out_h = p->in_h;
        shape.dims[d] = window->out;
        y = add_node(e, &node, y, &CLQ_SHAPE(p->out_h, p->out_w, p->channels));
    }
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}

#define POOL(kind, class_name, name_stem)                                                                              \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(clq_pool3d_config, pool_attributes),                                 \
                                 .infer = infer_pool,                                                                  \
                                 .expand = expand_pool}
POOL(clq_layer_max_pool3d, "MaxPooling3D", "max_pooling3d");
POOL(clq_layer_average_pool3d, "AveragePooling3D", "average_pooling3d");

static clq_tensor add(clq_model *model, clq_tensor x, const clq_pool3d_config *config, const clq_layer_kind *kind) {
    const clq_pool3d_config all = config ? *config : (clq_pool3d_config){.name = NULL};
    return clq_model_add_layer(model, kind, all.name, &all, &x, 1);
}

clq_tensor clq_max_pool3d(clq_model *model, clq_tensor x, const clq_pool3d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_pool3d_config, config);
    return add(model, x, config, &clq_layer_max_pool3d);
}

clq_tensor clq_average_pool3d(clq_model *model, clq_tensor x, const clq_pool3d_config *config) {
    CLQ_LAYER_KNOWS(model, clq_pool3d_config, config);
    return add(model, x, config, &clq_layer_average_pool3d);
}
