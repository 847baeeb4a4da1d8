/* keras.ops as layers: the same numbers in other shapes and places. */
#include "graph/layers/layer.h"

#define NUMPY "keras.src.ops.numpy"

/* ---- the same memory in another shape ---- */

static clq_id expand_reshape(clq_expansion *e, const clq_id *x) {
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
}

typedef struct shape_config {
    clq_shape shape;
} shape_config;
static const clq_attribute reshape_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("newshape", CLQ_ATTRIBUTE_BATCH_SHAPE, shape_config, shape), .needed = true},
};
static clq_status infer_reshape(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_model_tensor *x = clq_model_input_of(model, y, 0);
    char to[CLQ_SHAPE_TEXT_MAX], from[CLQ_SHAPE_TEXT_MAX];
    size_t elements;
    y->shape = ((const shape_config *)layer->config)->shape;
    CLQ_TRY(clq_shape_elements(&y->shape, &elements));
    if (elements == x->elements) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "newshape %s has %zu values of each sample and its input, %s, has %zu",
                    clq_shape_describe(&y->shape, to), elements, clq_shape_describe(&x->shape, from), x->elements);
}

/* One axis more, or less: counted as in the shape that has it, behind the batch. */
typedef struct axis_config {
    int axis;
} axis_config;
static const clq_attribute squeeze_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, axis_config, axis), .needed = true},
};
static clq_status infer_squeeze(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const int given = ((const axis_config *)layer->config)->axis;
    unsigned axis;
    if (!clq_find_axis(x, given, &axis) || x->dims[axis] != 1 || x->rank == 1)
        return clq_fail(CLQ_ARGUMENT, "axis %d should be one of several, with one place", given);
    y->shape.rank = 0;
    for (unsigned d = 0; d < x->rank; d++)
        if (d != axis) y->shape.dims[y->shape.rank++] = x->dims[d];
    return CLQ_OK;
}

static const clq_attribute expand_dims_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_NEW_AXIS, axis_config, axis), .needed = true},
};
/* Where a new axis goes among `rank` others. */
static clq_status find_new(int given, unsigned rank, unsigned *out) {
    const int axis = given < 0 ? given + (int)rank + 1 : given;
    if (axis < 0 || axis > (int)rank || rank == CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ARGUMENT, "axis %d is no place for one more of %u axes", given, rank);
    *out = (unsigned)axis;
    return CLQ_OK;
}
static void insert_axis(const clq_shape *x, unsigned axis, size_t size, clq_shape *out) {
    out->rank = x->rank + 1;
    for (unsigned d = 0; d < out->rank; d++) out->dims[d] = d == axis ? size : x->dims[d - (d > axis)];
}
static clq_status infer_expand_dims(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    unsigned axis;
    CLQ_TRY(find_new(((const axis_config *)layer->config)->axis, x->rank, &axis));
    insert_axis(x, axis, 1, &y->shape);
    return CLQ_OK;
}

#define KIND(name, class_name, name_stem, config, rows, most, shape, expansion)                                        \
    const clq_layer_kind clq_layer_op_##name = {.type = (class_name),                                                  \
                                                .stem = (name_stem),                                                   \
                                                .module = NUMPY,                                                       \
                                                .inputs = {1, (most)},                                                 \
                                                CLQ_LAYER_CONFIG(config, rows),                                        \
                                                .moves = true,                                                         \
                                                .infer = (shape),                                                      \
                                                .expand = (expansion)}
KIND(reshape, "Reshape", "reshape", shape_config, reshape_attributes, 1, infer_reshape, expand_reshape);
KIND(squeeze, "Squeeze", "squeeze", axis_config, squeeze_attributes, 1, infer_squeeze, expand_reshape);
KIND(expand_dims, "ExpandDims", "expand_dims", axis_config, expand_dims_attributes, 1, infer_expand_dims,
     expand_reshape);

/* ---- axes in another order ---- */

static const clq_attribute transpose_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axes", CLQ_ATTRIBUTE_ORDER, shape_config, shape), .needed = true},
};
KIND(transpose, "Transpose", "transpose", shape_config, transpose_attributes, 1, clq_layer_infer_permuted,
     clq_layer_expand_permuted);

/* ---- several side by side ---- */

static const clq_attribute concatenate_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, axis_config, axis), .needed = true},
};
KIND(concatenate, "Concatenate", "concatenate", axis_config, concatenate_attributes, SIZE_MAX,
     clq_layer_infer_concatenated, clq_layer_expand_concatenated);

static const clq_attribute stack_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_NEW_AXIS, axis_config, axis), .needed = true},
};
static clq_status infer_stack(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    unsigned axis;
    CLQ_TRY(find_new(((const axis_config *)layer->config)->axis, x->rank, &axis));
    for (size_t i = 1; i < y->input_count; i++)
        if (!clq_shape_equal(x, &clq_model_input_of(model, y, i)->shape))
            return clq_fail(CLQ_ARGUMENT, "its inputs should all have the same shape");
    insert_axis(x, axis, y->input_count, &y->shape);
    return CLQ_OK;
}
static clq_id expand_stack(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    unsigned axis = 0;
    size_t rows = 1;
    (void)find_new(((const axis_config *)e->layer->config)->axis, in->rank, &axis);
    for (unsigned d = 0; d < axis; d++) rows *= in->dims[d];
    return clq_expand_joined(e, x, rows);
}
KIND(stack, "Stack", "stack", axis_config, stack_attributes, SIZE_MAX, infer_stack, expand_stack);

/* ---- what is taken of each axis ---- */

typedef struct places_config {
    clq_places places;
} places_config;
static const clq_attribute places_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("places", CLQ_ATTRIBUTE_PLACES, places_config, places)},
};

/* Python's rule: what is left out is an end, what is below 0 counts from the axis's end, what is beyond it is it. */
static bool range_of(const struct clq_index *place, size_t size, clq_arranged_axis *axis) {
    const long n = (long)size, step = place->step;
    const long low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    long first = place->from_begin ? (step > 0 ? 0 : n - 1) : place->first,
         end = place->to_end ? (step > 0 ? n : -1) : place->end;
    if (!place->from_begin && first < 0) first += n;
    if (!place->to_end && end < 0) end += n;
    first = CLQ_MIN(CLQ_MAX(first, low), high);
    end = CLQ_MIN(CLQ_MAX(end, low), high);
    const long apart = step > 0 ? end - first : first - end, by = step > 0 ? step : -step;
    if (apart <= 0) return false;
    axis->first = first;
    axis->step = step;
    axis->out = (size_t)((apart + by - 1) / by);
    return true;
}

/* How y's numbers are x's, and y's shape, which leaves out axes of which one place is taken, and has new ones. */
static clq_status find_places(const clq_places *p, const clq_shape *x, clq_arrangement *a, clq_shape *y) {
    unsigned named = 0, d = 0;
    *a = clq_arrangement_of(x->rank, x->dims);
    y->rank = 0;
    for (unsigned i = 0; i < p->count; i++) named += p->axes[i].kind != CLQ_PLACES_NEW;
    if (named > x->rank) return clq_fail(CLQ_ARGUMENT, "%u indices are too many for %u axes", named, x->rank);
    const unsigned whole = x->rank - named;
    for (unsigned i = 0; i <= p->count; i++) {
        const bool rest = p->rest ? i + 1 == p->rest : i == p->count;
        if (rest && whole > CLQ_SHAPE_MAX - y->rank) return clq_fail(CLQ_UNSUPPORTED, "there are too many axes");
        for (unsigned k = 0; k < whole && rest; k++) y->dims[y->rank++] = x->dims[d++];
        if (i == p->count) break;
        const struct clq_index *place = &p->axes[i];
        if (y->rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_UNSUPPORTED, "there are too many axes");
        if (place->kind == CLQ_PLACES_NEW) {
            y->dims[y->rank++] = 1;
            continue;
        }
        clq_arranged_axis *axis = &a->axes[d];
        const long n = (long)x->dims[d++];
        if (place->kind == CLQ_PLACES_ONE) {
            axis->first = place->first < 0 ? place->first + n : place->first;
            axis->out = 1;
            if (axis->first < 0 || axis->first >= n)
                return clq_fail(CLQ_ARGUMENT, "index %ld is none of %ld places", place->first, n);
            continue;
        }
        if (!range_of(place, (size_t)n, axis)) return clq_fail(CLQ_ARGUMENT, "a slice of %ld places is empty", n);
        y->dims[y->rank++] = axis->out;
    }
    if (y->rank == 0) *y = CLQ_SHAPE(1);
    return CLQ_OK;
}

static clq_status infer_places(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    clq_arrangement a;
    return find_places(&((const places_config *)layer->config)->places, &clq_model_input_of(model, y, 0)->shape, &a,
                       &y->shape);
}

static clq_id expand_places(clq_expansion *e, const clq_id *x) {
    clq_arrangement a;
    clq_shape shape;
    (void)find_places(&((const places_config *)e->layer->config)->places, &clq_model_input_of(e->model, e->y, 0)->shape,
                      &a, &shape);
    return clq_expand_arrange(e, &a, x[0]);
}
KIND(get_item, "GetItem", "get_item", places_config, places_attributes, 1, infer_places, expand_places);
