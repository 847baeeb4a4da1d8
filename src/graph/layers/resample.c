/* Resizing, CenterCrop, keras.ops.image.resize, and UpSampling2D that interpolates. Each axis is resized by a product
 * with a matrix of weights, those of the kernels of Keras's backends (half-pixel centres; Keys, "Cubic convolution
 * interpolation", 1981). */
#include "graph/layers/layer.h"

#include <math.h>

const char *const clq_layer_interpolations[] = {"nearest", "bilinear", "bicubic", NULL};
enum { NEAREST, BILINEAR };

typedef struct resize_config {
    size_t size[2]; /* height, width */
    int interpolation;
    bool antialias, crop; /* crop: to the largest middle part with the new shape's aspect ratio */
} resize_config;
#define SHARED_ATTRIBUTES                                                                                              \
    {CLQ_LAYER_ATTRIBUTE("interpolation", CLQ_ATTRIBUTE_CHOICE, resize_config, interpolation),                         \
     .words = clq_layer_interpolations, .fallback = BILINEAR},                                                         \
        {CLQ_LAYER_ATTRIBUTE("antialias", CLQ_ATTRIBUTE_FLAG, resize_config, antialias)},                              \
        {CLQ_LAYER_ATTRIBUTE("crop_to_aspect_ratio", CLQ_ATTRIBUTE_FLAG, resize_config, crop)},                        \
        {.key = "pad_to_aspect_ratio", .type = CLQ_ATTRIBUTE_ONLY_FALSE},                                              \
        {.key = "fill_mode", .type = CLQ_ATTRIBUTE_UNUSED}, {.key = "fill_value", .type = CLQ_ATTRIBUTE_UNUSED}, {     \
        .key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"                                 \
    }
#define SIDES                                                                                                          \
    {CLQ_LAYER_ATTRIBUTE("height", CLQ_ATTRIBUTE_SIZES, resize_config, size[0]), .needed = true}, {                    \
        CLQ_LAYER_ATTRIBUTE("width", CLQ_ATTRIBUTE_SIZES, resize_config, size[1]), .needed = true                      \
    }
static const clq_attribute attributes[] = {SIDES, SHARED_ATTRIBUTES};
static const clq_attribute op_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("size", CLQ_ATTRIBUTE_SIZES, resize_config, size), .count = 2, .needed = true},
    SHARED_ATTRIBUTES,
};
static const clq_attribute crop_attributes[] = {
    SIDES,
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

/* ---- matrices ---- */

static double weight_of(int interpolation, double x) {
    if (interpolation == BILINEAR) return x < 1 ? 1 - x : 0;
    if (x >= 2) return 0;
    return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2;
}

/* Row i of the matrix: how much each of `in` places gives to place i of `out`. */
static void fill_row(float *row, size_t i, size_t in, size_t out, int interpolation, bool antialias) {
    const double step = (double)in / (double)out, at = ((double)i + 0.5) * step - 0.5,
                 wide = antialias ? fmax(step, 1) : 1;
    double total = 0;
    for (size_t k = 0; k < in; k++) row[k] = 0;
    if (interpolation == NEAREST) {
        row[CLQ_MIN((size_t)floor(at + 0.5), in - 1)] = 1;
        return;
    }
    for (size_t k = 0; k < in; k++) total += weight_of(interpolation, fabs(at - (double)k) / wide);
    for (size_t k = 0; k < in; k++) row[k] = (float)(weight_of(interpolation, fabs(at - (double)k) / wide) / total);
}

static clq_id add_matrix(clq_expansion *e, size_t in, size_t out, int interpolation, bool antialias) {
    float *weights = clq_alloc(in * out, sizeof *weights);
    if (!weights) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < out; i++) fill_row(weights + i * in, i, in, out, interpolation, antialias);
    const clq_id id = clq_graph_add_constant(e->graph, "weights", &CLQ_SHAPE(out, in), in * out, weights);
    clq_free(weights);
    return id;
}

/* ---- images ---- */

/* Resizes the middle axis of (outer, in, inner) to `out` places. */
static clq_id resample(clq_expansion *e, clq_id x, size_t outer, size_t in, size_t out, size_t inner, int interpolation,
                       bool antialias) {
    if (in == out || !x) return x;
    const clq_shape shape = CLQ_SHAPE(outer, out, inner);
    clq_node node = clq_expand_node(e, &clq_op_batched);
    node.attributes.batched = (clq_batched_problem){
        .counts = {outer, 1},
        .m = out,
        .n = inner,
        .k = in,
        .a = {.row = in, .column = 1},
        .b = {.sample = outer * in * inner, .pitch = {in * inner, 0}, .row = inner, .column = 1},
        .c = {.sample = outer * out * inner, .pitch = {out * inner, 0}, .row = inner, .column = 1},
        .scale = 1};
    node.inputs[0] = add_matrix(e, in, out, interpolation, antialias);
    node.inputs[1] = x;
    node.outputs[0] = clq_expand_value(e, &shape, outer * out * inner);
    return node.inputs[0] ? clq_graph_add_node(e->graph, &node) : 0;
}

/* Resizes both axes, in the order that costs less. */
clq_id clq_layer_expand_resampled_from(clq_expansion *e, clq_id x, const clq_shape *from, int interpolation,
                                       bool antialias) {
    const clq_shape *to = &e->y->shape;
    const size_t h = from->dims[0], w = from->dims[1], c = from->dims[2], high = to->dims[0], wide = to->dims[1];
    const double rows_first = (double)high * (double)w * (double)(h + wide),
                 columns_first = (double)wide * (double)h * (double)w + (double)high * (double)h * (double)wide;
    if (rows_first <= columns_first) {
        x = resample(e, x, 1, h, high, w * c, interpolation, antialias);
        x = resample(e, x, high, w, wide, c, interpolation, antialias);
    } else {
        x = resample(e, x, h, w, wide, c, interpolation, antialias);
        x = resample(e, x, 1, h, high, wide * c, interpolation, antialias);
    }
    return x ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x) : 0;
}

clq_id clq_layer_expand_resampled(clq_expansion *e, clq_id x, int interpolation, bool antialias) {
    return clq_layer_expand_resampled_from(e, x, &clq_model_input_of(e->model, e->y, 0)->shape, interpolation,
                                           antialias);
}

/* ---- Resizing, keras.ops.image.resize and CenterCrop ---- */

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    enum { PLACES_MOST = 16384 };
    const resize_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_rank(x, 2));
    if (config->size[0] > PLACES_MOST || config->size[1] > PLACES_MOST)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "a size of more than %d is not supported", PLACES_MOST);
    if (x->dims[0] > PLACES_MOST || x->dims[1] > PLACES_MOST)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "an image with a side of more than %d is not supported", PLACES_MOST);
    y->shape = CLQ_SHAPE(config->size[0], config->size[1], x->dims[2]);
    return CLQ_OK;
}

/* The middle part of an image, of shape `taken`. */
static clq_id take_middle(clq_expansion *e, clq_id x, const clq_shape *from, const clq_shape *taken) {
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    clq_node node = clq_part_node(&parts, &clq_op_arrange, CLQ_IDS(x));
    clq_arrangement *a = &node.attributes.arrangement;
    *a = clq_arrangement_of(3, from->dims);
    for (unsigned d = 0; d < 2; d++) {
        a->axes[d].first = (long)((from->dims[d] - taken->dims[d]) / 2);
        a->axes[d].out = taken->dims[d];
    }
    return clq_part_add(&parts, node, *taken);
}

/* A side of the largest part with the aspect ratio of y. */
static size_t crop_side(size_t side, size_t other, size_t to, size_t other_to) {
    const size_t fits = (size_t)((double)(other * to) / (double)other_to);
    return CLQ_MAX(CLQ_MIN(side, fits), (size_t)1);
}
static clq_id crop_and_resample(clq_expansion *e, clq_id x, int interpolation, bool antialias) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape, *to = &e->y->shape;
    const size_t h = in->dims[0], w = in->dims[1], high = to->dims[0], wide = to->dims[1];
    const clq_shape taken = CLQ_SHAPE(crop_side(h, w, high, wide), crop_side(w, h, wide, high), in->dims[2]);
    x = take_middle(e, x, in, &taken);
    return x ? clq_layer_expand_resampled_from(e, x, &taken, interpolation, antialias) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const resize_config *config = e->layer->config;
    if (config->crop) return crop_and_resample(e, x[0], config->interpolation, config->antialias);
    return clq_layer_expand_resampled(e, x[0], config->interpolation, config->antialias);
}

/* As in Keras, an image with a side that is too small for the crop is resized instead. */
static clq_id expand_crop(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape, *to = &e->y->shape;
    if (in->dims[0] < to->dims[0] || in->dims[1] < to->dims[1]) return crop_and_resample(e, x[0], BILINEAR, false);
    const clq_id y = take_middle(e, x[0], in, to);
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}

#define KIND(name, class_name, name_stem, in_module, rows, expansion)                                                  \
    const clq_layer_kind clq_layer_##name = {.type = (class_name),                                                     \
                                             .stem = (name_stem),                                                      \
                                             .module = (in_module),                                                    \
                                             .inputs = {1, 1},                                                         \
                                             .moves = true,                                                            \
                                             CLQ_LAYER_CONFIG(resize_config, rows),                                    \
                                             .infer = infer,                                                           \
                                             .expand = (expansion)}
KIND(resizing, "Resizing", "resizing", NULL, attributes, expand);
KIND(op_resize, "Resize", "resize", "keras.src.ops.image", op_attributes, expand);
KIND(center_crop, "CenterCrop", "center_crop", NULL, crop_attributes, expand_crop);
