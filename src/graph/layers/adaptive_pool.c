/* AdaptiveAveragePooling and AdaptiveMaxPooling, 1D to 3D, which have a given number of windows along each axis. Window
 * i of m over n places begins at floor(i n / m) and ends at ceil((i + 1) n / m). The layers pool along one axis after
 * another.
 *
 * With g = gcd(n, m) the windows repeat: an axis consists of g stretches of n / g places. Each stretch has m / g
 * windows, none of which reaches beyond it. */
#include "graph/layers/layer.h"

enum { AXES_MOST = 3, WINDOWS_MOST = 256 }; /* windows of an axis that do not repeat: each is an operation */

typedef struct adaptive_config {
    size_t size[AXES_MOST];
} adaptive_config;
#define ATTRIBUTES(axes)                                                                                               \
    {                                                                                                                  \
        {CLQ_LAYER_ATTRIBUTE("output_size", CLQ_ATTRIBUTE_SIZES, adaptive_config, size), .count = (axes),              \
         .needed = true},                                                                                              \
            {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                          \
    }
static const clq_attribute attributes_1d[] = ATTRIBUTES(1), attributes_2d[] = ATTRIBUTES(2),
                           attributes_3d[] = ATTRIBUTES(3);

static unsigned axes_of(const clq_layer *layer) { return layer->kind->attributes[0].count; }
static const size_t *sizes_of(const clq_layer *layer) { return ((const adaptive_config *)layer->config)->size; }

/* How an axis of `in` places is divided into stretches with windows, `out` in all. */
typedef struct stretches {
    size_t count, places, windows;
} stretches;
static stretches stretches_of(size_t in, size_t out) {
    size_t a = in, b = out;
    while (b) {
        const size_t rest = a % b;
        a = b;
        b = rest;
    }
    return (stretches){.count = a, .places = in / a, .windows = out / a};
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const size_t *sizes = sizes_of(layer);
    size_t elements;
    CLQ_TRY(clq_layer_check_rank(x, axes_of(layer)));
    y->shape = *x;
    for (unsigned d = 0; d < axes_of(layer); d++) {
        if (sizes[d] > INT32_MAX) return clq_fail(CLQ_ERROR_ARGUMENT, "an output_size of %zu is too large", sizes[d]);
        const stretches s = stretches_of(x->dims[d], sizes[d]);
        if (s.windows > WINDOWS_MOST)
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "an output_size of %zu over %zu places needs %zu windows that do not repeat, and %d are "
                            "supported: take one that shares a larger divisor with the places",
                            sizes[d], x->dims[d], s.windows, WINDOWS_MOST);
        y->shape.dims[d] = sizes[d];
        CLQ_TRY(clq_shape_elements(&y->shape, &elements)); /* also what is pooled along these axes only */
    }
    return CLQ_OK;
}

/* Sizes: in front of an axis, along it and behind it. */
typedef struct axis {
    size_t outer, places, inner;
} axis;

static clq_id take(const clq_parts *parts, const axis *a, size_t first, size_t end, clq_id x) {
    clq_node node = clq_part_node(parts, &clq_op_arrange, CLQ_IDS(x));
    node.attributes.arrangement = clq_arrangement_of(3, (const size_t[]){a->outer, a->places, a->inner});
    node.attributes.arrangement.axes[1].first = (long)first;
    node.attributes.arrangement.axes[1].out = end - first;
    if (first == 0 && end == a->places) return x;
    return clq_part_add(parts, node, CLQ_SHAPE(a->outer, end - first, a->inner));
}

/* Pools all places with one window. */
static clq_id pool(const clq_parts *parts, const axis *a, bool average, clq_id x) {
    clq_node node = clq_part_node(parts, &clq_op_pool2d, CLQ_IDS(x));
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = a->outer,
                                                  .in_w = a->places,
                                                  .channels = a->inner,
                                                  .out_h = a->outer,
                                                  .out_w = 1,
                                                  .size_h = 1,
                                                  .size_w = a->places,
                                                  .stride_h = 1,
                                                  .stride_w = a->places,
                                                  .average = average};
    if (a->places == 1) return x;
    return clq_part_add(parts, node, CLQ_SHAPE(a->outer, 1, a->inner));
}

static clq_id expand_axis(const clq_parts *parts, const axis *a, size_t windows, bool average, clq_id x) {
    clq_joining joined = {.rows = a->outer};
    for (size_t i = 0; i < windows; i++) {
        const size_t first = i * a->places / windows, end = clq_ceil_div((i + 1) * a->places, windows);
        const axis window = {.outer = a->outer, .places = end - first, .inner = a->inner};
        clq_joining_add(parts, &joined, pool(parts, &window, average, take(parts, a, first, end, x)), a->inner);
    }
    return clq_joining_end(parts, &joined);
}

static clq_id expand_all(clq_expansion *e, bool average, clq_id x) {
    clq_shape shape = clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    for (unsigned d = 0; d < axes_of(e->layer) && x; d++) {
        const stretches s = stretches_of(shape.dims[d], sizes_of(e->layer)[d]);
        axis a = {.outer = s.count, .places = s.places, .inner = 1};
        for (unsigned i = 0; i < shape.rank; i++)
            if (i != d) *(i < d ? &a.outer : &a.inner) *= shape.dims[i];
        shape.dims[d] = sizes_of(e->layer)[d];
        x = expand_axis(&parts, &a, s.windows, average, x);
    }
    return x ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x) : 0;
}

static clq_id expand_average(clq_expansion *e, const clq_id *x) { return expand_all(e, true, x[0]); }
static clq_id expand_max(clq_expansion *e, const clq_id *x) { return expand_all(e, false, x[0]); }

#define KIND(kind, class_name, name_stem, rows, expansion)                                                             \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(adaptive_config, rows),                                              \
                                 .infer = infer,                                                                       \
                                 .expand = (expansion)}
KIND(clq_layer_adaptive_average1d, "AdaptiveAveragePooling1D", "adaptive_average_pooling1d", attributes_1d,
     expand_average);
KIND(clq_layer_adaptive_average2d, "AdaptiveAveragePooling2D", "adaptive_average_pooling2d", attributes_2d,
     expand_average);
KIND(clq_layer_adaptive_average3d, "AdaptiveAveragePooling3D", "adaptive_average_pooling3d", attributes_3d,
     expand_average);
KIND(clq_layer_adaptive_max1d, "AdaptiveMaxPooling1D", "adaptive_max_pooling1d", attributes_1d, expand_max);
KIND(clq_layer_adaptive_max2d, "AdaptiveMaxPooling2D", "adaptive_max_pooling2d", attributes_2d, expand_max);
KIND(clq_layer_adaptive_max3d, "AdaptiveMaxPooling3D", "adaptive_max_pooling3d", attributes_3d, expand_max);
