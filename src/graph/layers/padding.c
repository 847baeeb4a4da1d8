/* ZeroPadding and Cropping, 1D to 3D: zeros added around a sample, or places taken away. */
#include "graph/layers/layer.h"

#include <string.h>

enum { AXES_MOST = 3 };
typedef struct sides_config {
    size_t sides[AXES_MOST][2]; /* in front and behind, for each axis except the channels' */
} sides_config;

#define ATTRIBUTES(name, key_of, axes)                                                                                 \
    static const clq_attribute name[] = {                                                                              \
        {CLQ_LAYER_ATTRIBUTE(key_of, CLQ_ATTRIBUTE_SIDES, sides_config, sides), .count = (axes), .fallback = 1},       \
        {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},                              \
    }
ATTRIBUTES(padding_1d, "padding", 1);
ATTRIBUTES(padding_2d, "padding", 2);
ATTRIBUTES(padding_3d, "padding", 3);
static const clq_attribute cropping_1d[] = {
    {CLQ_LAYER_ATTRIBUTE("cropping", CLQ_ATTRIBUTE_SIDES, sides_config, sides), .fallback = 1}, /* no data_format */
};
ATTRIBUTES(cropping_2d, "cropping", 2);
ATTRIBUTES(cropping_3d, "cropping", 3);

static bool crops(const clq_layer *layer) {
    const clq_attribute *rows = layer->kind->attributes;
    return rows == cropping_1d || rows == cropping_2d || rows == cropping_3d;
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const size_t(*sides)[2] = ((const sides_config *)layer->config)->sides;
    const unsigned axes = CLQ_MAX(layer->kind->attributes[0].count, 1u);
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(clq_layer_check_rank(&y->shape, axes));
    for (unsigned d = 0; d < axes; d++) {
        size_t *size = &y->shape.dims[d];
        if (sides[d][0] > INT32_MAX / 4 || sides[d][1] > INT32_MAX / 4)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%zu and %zu places at axis %u are too many", sides[d][0], sides[d][1],
                            d);
        const size_t both = sides[d][0] + sides[d][1];
        if (crops(layer) && both >= *size)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "cropping takes %zu and %zu of the %zu places along axis %u: none is left", sides[d][0],
                            sides[d][1], *size, d);
        *size = crops(layer) ? *size - both : *size + both;
    }
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const size_t(*sides)[2] = ((const sides_config *)e->layer->config)->sides;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_arrangement a = clq_arrangement_of(in->rank, in->dims);
    for (unsigned d = 0; d + 1 < in->rank; d++) {
        a.axes[d].out = e->y->shape.dims[d];
        a.axes[d].first = crops(e->layer) ? (long)sides[d][0] : -(long)sides[d][0];
    }
    return clq_expand_arrange(e, &a, x[0]);
}

#define KIND(kind, class_name, name_stem, rows)                                                                        \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {1, 1},                                                                     \
                                 CLQ_LAYER_CONFIG(sides_config, rows),                                                 \
                                 .moves = true,                                                                        \
                                 .infer = infer,                                                                       \
                                 .expand = expand}
KIND(clq_layer_zero_padding1d, "ZeroPadding1D", "zero_padding1d", padding_1d);
KIND(clq_layer_zero_padding2d, "ZeroPadding2D", "zero_padding2d", padding_2d);
KIND(clq_layer_zero_padding3d, "ZeroPadding3D", "zero_padding3d", padding_3d);
KIND(clq_layer_cropping1d, "Cropping1D", "cropping1d", cropping_1d);
KIND(clq_layer_cropping2d, "Cropping2D", "cropping2d", cropping_2d);
KIND(clq_layer_cropping3d, "Cropping3D", "cropping3d", cropping_3d);

/* Chooses the kind by the input's rank. An input of any other rank goes to the 2D kind, which refuses it. */
static clq_tensor add(clq_model *model, clq_tensor x, const clq_layer_kind *const kinds[AXES_MOST],
                      const size_t (*sides)[2], const char *name) {
    const unsigned axes = clq_model_rank(model, x) - 1;
    const bool fits = axes >= 1 && axes <= AXES_MOST;
    sides_config config = {0};
    if (sides && fits) memcpy(config.sides, sides, axes * sizeof *sides);
    return clq_model_add_layer(model, kinds[fits ? axes - 1 : 1], name, &config, &x, 1);
}

clq_tensor clq_zero_padding(clq_model *model, clq_tensor x, const size_t (*sides)[2], const char *name) {
    static const clq_layer_kind *const kinds[] = {&clq_layer_zero_padding1d, &clq_layer_zero_padding2d,
                                                  &clq_layer_zero_padding3d};
    return add(model, x, kinds, sides, name);
}

clq_tensor clq_cropping(clq_model *model, clq_tensor x, const size_t (*sides)[2], const char *name) {
    static const clq_layer_kind *const kinds[] = {&clq_layer_cropping1d, &clq_layer_cropping2d, &clq_layer_cropping3d};
    return add(model, x, kinds, sides, name);
}
