/* RandomFlip, RandomRotation, RandomZoom, RandomTranslation and RandomCrop. In training each sample draws how its image
 * is moved. What it draws depends on the seed, the layer, the step and the sample's place in the global batch. In
 * evaluation and prediction the layers do nothing, except that RandomCrop takes the middle. */
#include "graph/layers/layer.h"

#include <math.h>

static const char *const modes[] = {"horizontal", "vertical", "horizontal_and_vertical", NULL};
static const char *const fills[] = {"constant", "nearest", "reflect", "wrap", NULL};
static const char *const interpolations[] = {"nearest", "bilinear", NULL};

typedef struct augment_config {
    clq_draw_range height, width; /* factors; for a rotation, `height` in whole turns */
    bool has_width;
    int mode, fill, interpolation;
    double value;
    uint64_t seed;
    size_t size[2]; /* of a crop: height, width */
} augment_config;

#define MEMBER(key, type, member) CLQ_LAYER_ATTRIBUTE(key, type, augment_config, member)
#define COMMON                                                                                                         \
    {MEMBER("seed", CLQ_ATTRIBUTE_SEED, seed)}, {                                                                      \
        .key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"                                 \
    }
#define FILLED                                                                                                         \
    {MEMBER("fill_mode", CLQ_ATTRIBUTE_CHOICE, fill), .words = fills, .fallback = CLQ_FILL_REFLECTED},                 \
        {MEMBER("interpolation", CLQ_ATTRIBUTE_CHOICE, interpolation), .words = interpolations, .fallback = 1}, {      \
        MEMBER("fill_value", CLQ_ATTRIBUTE_NUMBER, value)                                                              \
    }
static const clq_attribute flip_attributes[] = {
    COMMON, {MEMBER("mode", CLQ_ATTRIBUTE_CHOICE, mode), .words = modes, .fallback = 2}};
static const clq_attribute rotation_attributes[] = {
    COMMON, FILLED, {MEMBER("factor", CLQ_ATTRIBUTE_RANGE, height), .needed = true}};
static const clq_attribute zoom_attributes[] = {COMMON,
                                                FILLED,
                                                {MEMBER("height_factor", CLQ_ATTRIBUTE_RANGE, height), .needed = true},
                                                {MEMBER("width_factor", CLQ_ATTRIBUTE_RANGE, width)}};
static const clq_attribute crop_attributes[] = {COMMON,
                                                {MEMBER("height", CLQ_ATTRIBUTE_SIZES, size[0]), .needed = true},
                                                {MEMBER("width", CLQ_ATTRIBUTE_SIZES, size[1]), .needed = true}};

static const augment_config *config_of(const clq_layer *layer) { return layer->config; }
static bool is_crop(const clq_layer *layer) { return layer->kind == &clq_layer_random_crop; }

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const augment_config *config = config_of(layer);
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_rank(&y->shape, 2));
    if (!is_crop(layer)) return CLQ_OK;
    y->shape = CLQ_SHAPE(config->size[0], config->size[1], y->shape.dims[2]);
    return CLQ_OK;
}

/* Draws numbers from a normal distribution, and takes the distribution function of each: uniform numbers from 0 to
 * 1. */
clq_id clq_layer_expand_draws(clq_expansion *e, uint32_t stream, uint64_t seed, size_t count) {
    const clq_shape shape = CLQ_SHAPE(count);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned normal = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_NORMAL, .stream = stream});
    const unsigned scaled =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = normal, .number = sqrt(0.5)});
    const unsigned erf = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ERF, .a = scaled});
    const unsigned half = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = erf, .number = 0.5});
    const unsigned middle = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 0.5});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = half, .b = middle});
    p->seed = seed ? seed : e->config->seed;
    node.outputs[0] = clq_expand_value(e, &shape, count);
    return clq_graph_add_node(e->graph, &node);
}

static clq_id add_warp(clq_expansion *e, clq_id x, uint32_t stream, const clq_warp_problem *rule) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node node = clq_expand_node(e, &clq_op_warp);
    clq_warp_problem *p = &node.attributes.warp;
    *p = *rule;
    p->height = in->dims[0];
    p->width = in->dims[1];
    p->channels = in->dims[2];
    p->out_height = e->y->shape.dims[0];
    p->out_width = e->y->shape.dims[1];
    node.inputs[1] = clq_layer_expand_draws(e, stream, config_of(e->layer)->seed, 4);
    return node.inputs[1] ? clq_expand_unary(e, node, x) : 0;
}

bool clq_layer_begins_draw(clq_expansion *e, uint32_t *stream) {
    *stream = e->dropouts++;
    return e->config->mode == CLQ_MODE_TRAIN;
}

static clq_id expand_flip(clq_expansion *e, const clq_id *x) {
    const int mode = config_of(e->layer)->mode;
    uint32_t stream;
    if (!clq_layer_begins_draw(e, &stream)) return x[0];
    return add_warp(e, x[0], stream,
                    &(clq_warp_problem){.kind = CLQ_WARP_FLIP,
                                        .nearest = true,
                                        .flags = mode == 2   ? 3
                                                 : mode == 1 ? 2
                                                             : 1});
}

static clq_id expand_moved(clq_expansion *e, clq_id x, clq_warp_kind kind) {
    const augment_config *config = config_of(e->layer);
    uint32_t stream;
    if (!clq_layer_begins_draw(e, &stream)) return x;
    return add_warp(e, x, stream,
                    &(clq_warp_problem){
                        .kind = kind,
                        .fill = (clq_warp_fill)config->fill,
                        .nearest = config->interpolation == 0,
                        .ranges = {{config->height.low, config->height.high}, {config->width.low, config->width.high}},
                        .flags = config->width.given,
                        .value = config->value});
}
static clq_id expand_rotation(clq_expansion *e, const clq_id *x) { return expand_moved(e, x[0], CLQ_WARP_TURN); }
static clq_id expand_zoom(clq_expansion *e, const clq_id *x) { return expand_moved(e, x[0], CLQ_WARP_ZOOM); }
static clq_id expand_shift(clq_expansion *e, const clq_id *x) { return expand_moved(e, x[0], CLQ_WARP_SHIFT); }

/* The largest part in the middle with the crop's proportions, resized. */
static clq_id expand_middle(clq_expansion *e, clq_id x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t h = in->dims[0], w = in->dims[1], high = e->y->shape.dims[0], wide = e->y->shape.dims[1];
    const size_t rows = CLQ_MAX(CLQ_MIN(h, w * high / wide), (size_t)1),
                 columns = CLQ_MAX(CLQ_MIN(w, h * wide / high), (size_t)1);
    const clq_shape part = CLQ_SHAPE(rows, columns, in->dims[2]);
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    clq_arrangement *a = &node.attributes.arrangement;
    *a = clq_arrangement_of(3, in->dims);
    a->axes[0].first = (long)((h - rows) / 2);
    a->axes[0].out = rows;
    a->axes[1].first = (long)((w - columns) / 2);
    a->axes[1].out = columns;
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &part, rows * columns * in->dims[2]);
    const clq_id middle = rows == h && columns == w ? x : clq_graph_add_node(e->graph, &node);
    return middle ? clq_layer_expand_resampled_from(e, middle, &part, 1, false) : 0;
}

static clq_id expand_crop(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t high = e->y->shape.dims[0], wide = e->y->shape.dims[1];
    uint32_t stream;
    if (!clq_layer_begins_draw(e, &stream) || in->dims[0] <= high || in->dims[1] <= wide) return expand_middle(e, x[0]);
    return add_warp(e, x[0], stream,
                    &(clq_warp_problem){.kind = CLQ_WARP_CROP,
                                        .nearest = true,
                                        .fill = CLQ_FILL_EDGE,
                                        .ranges = {{0, (double)(in->dims[0] - high) + 1 - 1e-3},
                                                   {0, (double)(in->dims[1] - wide) + 1 - 1e-3}}});
}

#define KIND(kind, class_name, name_stem, rows, expansion)                                                             \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(augment_config, rows),                                               \
                                 .moves = true,                                                                        \
                                 .draws = true,                                                                        \
                                 .infer = infer,                                                                       \
                                 .expand = (expansion)}
KIND(clq_layer_random_flip, "RandomFlip", "random_flip", flip_attributes, expand_flip);
KIND(clq_layer_random_rotation, "RandomRotation", "random_rotation", rotation_attributes, expand_rotation);
KIND(clq_layer_random_zoom, "RandomZoom", "random_zoom", zoom_attributes, expand_zoom);
KIND(clq_layer_random_translation, "RandomTranslation", "random_translation", zoom_attributes, expand_shift);
KIND(clq_layer_random_crop, "RandomCrop", "random_crop", crop_attributes, expand_crop);
