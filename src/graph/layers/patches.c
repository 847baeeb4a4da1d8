/* keras.ops.image.extract_patches of images and volumes: the numbers of each window, side by side. */
#include "graph/layers/layer.h"

enum { AXES_MOST = 3, SIZE_MOST = 256 }; /* places of overlapping windows along an axis: each is an operation */

typedef struct patches_config {
    clq_shape size, strides, dilation; /* for each axis, or one for all */
    clq_padding padding;
} patches_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("size", CLQ_ATTRIBUTE_OPEN_SHAPE, patches_config, size), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("strides", CLQ_ATTRIBUTE_OPEN_SHAPE, patches_config, strides), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("dilation_rate", CLQ_ATTRIBUTE_OPEN_SHAPE, patches_config, dilation), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("padding", CLQ_ATTRIBUTE_PADDING, patches_config, padding)},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

/* The windows along the axes, and the number of channels. */
typedef struct windows {
    unsigned axes;
    clq_window of[AXES_MOST];
    size_t channels;
    bool apart; /* windows lie side by side without overlap */
} windows;

static clq_status take_sizes(const clq_shape *given, unsigned axes, const char *key, size_t out[AXES_MOST]) {
    for (unsigned d = 0; d < axes; d++) {
        if (given->rank != 1 && given->rank != axes)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s should be one whole number or %u, not %u", key, axes, given->rank);
        out[d] = given->dims[given->rank == 1 ? 0 : d];
        if (out[d] == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "%s should be whole numbers of at least 1", key);
    }
    return CLQ_OK;
}

/* As in Keras, a size of three numbers is for volumes, and any other size for images. */
static clq_status place(const patches_config *config, const clq_shape *x, windows *out) {
    static const char *const names[] = {"depth", "height", "width"};
    size_t size[AXES_MOST], strides[AXES_MOST], dilation[AXES_MOST];
    *out = (windows){.axes = config->size.rank == 3 ? 3 : 2, .apart = true};
    CLQ_TRY(clq_layer_check_rank(x, out->axes));
    CLQ_TRY(take_sizes(&config->size, out->axes, "size", size));
    CLQ_TRY(take_sizes(&config->strides, out->axes, "strides", strides));
    CLQ_TRY(take_sizes(&config->dilation, out->axes, "dilation_rate", dilation));
    for (unsigned d = 0; d < out->axes; d++) {
        out->of[d] = (clq_window){.axis = names[d + AXES_MOST - out->axes],
                                  .in = x->dims[d],
                                  .size = size[d],
                                  .stride = strides[d],
                                  .dilation = dilation[d]};
        CLQ_TRY(clq_window_place(&out->of[d], config->padding));
        out->apart = out->apart && size[d] == strides[d] && dilation[d] == 1;
    }
    out->channels = x->dims[out->axes];
    return CLQ_OK;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    size_t width, elements;
    windows w;
    CLQ_TRY(place(layer->config, &clq_model_input_of(model, y, 0)->shape, &w));
    y->shape.rank = w.axes + 1;
    width = w.channels;
    for (unsigned d = 0; d < w.axes; d++) {
        y->shape.dims[d] = w.of[d].out;
        if (!w.apart && w.of[d].size > SIZE_MOST)
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "patches of more than %d places along the %s that overlap are not supported", SIZE_MOST,
                            w.of[d].axis);
        if (!clq_mul_size(width, w.of[d].size, &width))
            return clq_fail(CLQ_ERROR_ARGUMENT, "its patches are too large");
    }
    y->shape.dims[w.axes] = width;
    return clq_shape_elements(&y->shape, &elements);
}

static clq_id arrange(const clq_parts *parts, const clq_arrangement *a, clq_id x, const size_t *sizes, unsigned rank) {
    clq_node node = clq_part_node(parts, &clq_op_arrange, CLQ_IDS(x));
    clq_shape shape = {.rank = rank};
    for (unsigned d = 0; d < rank; d++) shape.dims[d] = sizes[d];
    node.attributes.arrangement = *a;
    return clq_part_add(parts, node, shape);
}

/* For windows that stand apart: takes what they cover, with zeros beyond the input, then moves the places within
 * windows behind the windows' positions. sizes: of x; changed. */
static clq_id split(clq_expansion *e, const clq_parts *parts, const windows *w, size_t *sizes, clq_id x) {
    clq_arrangement covered = clq_arrangement_of(w->axes + 1, sizes), a = {.rank = 2 * w->axes};
    bool all = true;
    for (unsigned d = 0; d < w->axes; d++) {
        covered.axes[d].first = -(long)w->of[d].pad;
        covered.axes[d].out = w->of[d].out * w->of[d].size;
        all = all && covered.axes[d].out == sizes[d];
        sizes[d] = covered.axes[d].out;
    }
    if (!all) x = arrange(parts, &covered, x, sizes, w->axes + 1);
    const clq_arrangement whole = clq_arrangement_of(w->axes + 1, sizes);
    for (unsigned d = 0; d < w->axes; d++) {
        a.axes[d] = a.axes[w->axes + d] = whole.axes[d];
        a.axes[d].in = a.axes[d].out = w->of[d].out;
        a.axes[d].pitch *= w->of[d].size;
        a.axes[w->axes + d].in = a.axes[w->axes + d].out = w->of[d].size;
    }
    clq_arranged_axis *last = &a.axes[a.rank - 1]; /* channels lie behind the last axis's places in x, too */
    last->in = last->out = last->out * w->channels;
    last->pitch = 1;
    return x ? clq_expand_arrange(e, &a, x) : 0;
}

/* For windows that overlap: along one axis after another, the last one first, joins what each place of the windows has.
 * sizes: of x; changed. */
static clq_id join(clq_expansion *e, const clq_parts *parts, const windows *w, size_t *sizes, clq_id x) {
    for (unsigned d = w->axes; d-- > 0;) {
        const clq_window *window = &w->of[d];
        clq_arrangement a = clq_arrangement_of(w->axes + 1, sizes);
        clq_joining joined = {.rows = 1};
        a.axes[d].step = (long)window->stride;
        a.axes[d].out = sizes[d] = window->out;
        for (unsigned i = 0; i < w->axes; i++) joined.rows *= sizes[i];
        for (size_t k = 0; k < window->size; k++) {
            a.axes[d].first = (long)(k * window->dilation) - (long)window->pad;
            clq_joining_add(parts, &joined, arrange(parts, &a, x, sizes, w->axes + 1), sizes[w->axes]);
        }
        sizes[w->axes] *= window->size;
        x = clq_joining_end(parts, &joined);
    }
    return x ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    clq_shape sizes = clq_model_input_of(e->model, e->y, 0)->shape;
    windows w;
    clq_node of;
    (void)place(e->layer->config, &sizes, &w); /* as it was inferred */
    const clq_parts parts = clq_expand_parts(e, &of);
    return (w.apart ? split : join)(e, &parts, &w, sizes.dims, x[0]);
}

const clq_layer_kind clq_layer_op_extract_patches = {.type = "ExtractPatches",
                                                     .stem = "extract_patches",
                                                     .module = "keras.src.ops.image",
                                                     .inputs = {1, 1},
                                                     .moves = true,
                                                     CLQ_LAYER_CONFIG(patches_config, attributes),
                                                     .infer = infer,
                                                     .expand = expand};
