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
    return clq_fail(CLQ_ERROR_ARGUMENT, "newshape %s has %zu values of each sample and its input, %s, has %zu",
                    clq_shape_describe(&y->shape, to), elements, clq_shape_describe(&x->shape, from), x->elements);
}

/* One axis more or less. The axis is counted in the shape that has it, from 0 behind the batch. */
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
    if (!clq_find_axis(x, given, &axis) || x->dims[axis] != 1)
        return clq_fail(CLQ_ERROR_ARGUMENT, "axis %d should be one with one place", given);
    y->shape.rank = 0;
    for (unsigned d = 0; d < x->rank; d++)
        if (d != axis) y->shape.dims[y->shape.rank++] = x->dims[d];
    return CLQ_OK;
}

static const clq_attribute expand_dims_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_NEW_AXIS, axis_config, axis), .needed = true},
};
/* Finds where a new axis goes among `rank` others. */
static clq_status find_new(int given, unsigned rank, unsigned *out) {
    const int axis = given < 0 ? given + (int)rank + 1 : given;
    if (axis < 0 || axis > (int)rank || rank == CLQ_SHAPE_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "axis %d is no place for one more of %u axes", given, rank);
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
                                                .takes_list = (most) > 1,                                              \
                                                CLQ_LAYER_CONFIG(config, rows),                                        \
                                                .moves = true,                                                         \
                                                .takes_scalars = true,                                                 \
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
            return clq_fail(CLQ_ERROR_ARGUMENT, "its inputs should all have the same shape");
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

/* ---- indices and slices ---- */

typedef struct places_config {
    clq_places places;
} places_config;
static const clq_attribute places_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("places", CLQ_ATTRIBUTE_PLACES, places_config, places)},
};

/* Python's rule for slices: a bound that is left out is an end of the axis, a bound below 0 counts from the axis's end,
 * and a bound beyond the axis is its end. False: the slice is empty. */
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

/* Finds which numbers of x are y's, and y's shape. An axis of which one place is taken is dropped, and new axes are
 * added. */
static clq_status find_places(const clq_places *p, const clq_shape *x, clq_arrangement *a, clq_shape *y) {
    unsigned named = 0, d = 0;
    *a = clq_arrangement_of(x->rank, x->dims);
    y->rank = 0;
    for (unsigned i = 0; i < p->count; i++) named += p->axes[i].kind != CLQ_PLACES_NEW;
    if (named > x->rank) return clq_fail(CLQ_ERROR_ARGUMENT, "%u indices are too many for %u axes", named, x->rank);
    const unsigned whole = x->rank - named;
    for (unsigned i = 0; i <= p->count; i++) {
        const bool rest = p->rest ? i + 1 == p->rest : i == p->count;
        if (rest && whole > CLQ_SHAPE_MAX - y->rank) return clq_fail(CLQ_ERROR_UNSUPPORTED, "there are too many axes");
        for (unsigned k = 0; k < whole && rest; k++) y->dims[y->rank++] = x->dims[d++];
        if (i == p->count) break;
        const struct clq_index *place = &p->axes[i];
        if (y->rank == CLQ_SHAPE_MAX) return clq_fail(CLQ_ERROR_UNSUPPORTED, "there are too many axes");
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
                return clq_fail(CLQ_ERROR_ARGUMENT, "index %ld is none of %ld places", place->first, n);
            continue;
        }
        if (!range_of(place, (size_t)n, axis)) return clq_fail(CLQ_ERROR_ARGUMENT, "a slice of %ld places is empty", n);
        y->dims[y->rank++] = axis->out;
    }
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

/* ---- an axis in parts: each part is a layer of its own ---- */

typedef struct split_config {
    clq_sections sections;
    int axis;
    size_t part;
} split_config;
static const clq_attribute split_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("indices_or_sections", CLQ_ATTRIBUTE_SECTIONS, split_config, sections), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, split_config, axis), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("part", CLQ_ATTRIBUTE_SIZES, split_config, part)},
};

static unsigned count_parts(const clq_layer *layer) {
    const clq_sections *sections = &((const split_config *)layer->config)->sections;
    return (unsigned)(sections->parts ? sections->parts : sections->count + 1);
}

/* Finds where the layer's part is along the axis. */
static clq_status find_split(const clq_layer *layer, const clq_shape *x, clq_arrangement *a, unsigned *axis) {
    const split_config *config = layer->config;
    const clq_sections *sections = &config->sections;
    *a = clq_arrangement_of(x->rank, x->dims);
    if (!clq_find_axis(x, config->axis, axis))
        return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", config->axis);
    const size_t size = x->dims[*axis], part = config->part;
    size_t first = part == 0 ? 0 : sections->places[part - 1],
           end = part == sections->count ? size : sections->places[part];
    if (sections->parts) {
        if (size % sections->parts)
            return clq_fail(CLQ_ERROR_ARGUMENT, "axis %d has %zu places, which are not %zu times as many", config->axis,
                            size, sections->parts);
        first = size / sections->parts * part;
        end = first + size / sections->parts;
    }
    if (first >= end || end > size)
        return clq_fail(CLQ_ERROR_ARGUMENT, "its parts should be cut at ascending places of axis %d, which has %zu",
                        config->axis, size);
    a->axes[*axis].first = (long)first;
    a->axes[*axis].out = end - first;
    return CLQ_OK;
}
static clq_status infer_split(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    clq_arrangement a;
    unsigned axis;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(find_split(layer, &y->shape, &a, &axis));
    y->shape.dims[axis] = a.axes[axis].out;
    return CLQ_OK;
}
static clq_id expand_split(clq_expansion *e, const clq_id *x) {
    clq_arrangement a;
    unsigned axis;
    (void)find_split(e->layer, &clq_model_input_of(e->model, e->y, 0)->shape, &a, &axis); /* as it was inferred */
    return clq_expand_arrange(e, &a, x[0]);
}
const clq_layer_kind clq_layer_op_split = {.type = "Split",
                                           .stem = "split",
                                           .module = NUMPY,
                                           .inputs = {1, 1},
                                           CLQ_LAYER_CONFIG(split_config, split_attributes),
                                           .moves = true,
                                           .output_count = count_parts,
                                           .output_member = CLQ_OUTPUT_MEMBER(split_config, part),
                                           .infer = infer_split,
                                           .expand = expand_split};

/* ---- two axes swapped; axes reversed ---- */

typedef struct swap_config {
    int first, second;
} swap_config;
static const clq_attribute swap_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis1", CLQ_ATTRIBUTE_AXIS, swap_config, first), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("axis2", CLQ_ATTRIBUTE_AXIS, swap_config, second), .needed = true},
};
static clq_status find_swap(const clq_layer *layer, const clq_shape *x, unsigned *first, unsigned *second) {
    const swap_config *config = layer->config;
    if (clq_find_axis(x, config->first, first) && clq_find_axis(x, config->second, second)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "axes %d and %d should be axes of its input, which has %u", config->first,
                    config->second, x->rank);
}
static clq_status infer_swap(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    unsigned first, second;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(find_swap(layer, x, &first, &second));
    y->shape = *x;
    y->shape.dims[first] = x->dims[second];
    y->shape.dims[second] = x->dims[first];
    return CLQ_OK;
}
static clq_id expand_swap(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const clq_arrangement whole = clq_arrangement_of(in->rank, in->dims);
    clq_arrangement a = whole;
    unsigned first = 0, second = 0;
    (void)find_swap(e->layer, in, &first, &second); /* as it was inferred */
    a.axes[first] = whole.axes[second];
    a.axes[second] = whole.axes[first];
    return clq_expand_arrange(e, &a, x[0]);
}
KIND(swapaxes, "Swapaxes", "swapaxes", swap_config, swap_attributes, 1, infer_swap, expand_swap);

typedef struct flip_config {
    clq_axes axes;
} flip_config;
static const clq_attribute flip_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, flip_config, axes), .needed = true},
};
static clq_status find_flip(const clq_layer *layer, const clq_shape *x, clq_arrangement *a) {
    const clq_axes *axes = &((const flip_config *)layer->config)->axes;
    *a = clq_arrangement_of(x->rank, x->dims);
    for (unsigned i = 0; i < axes->count; i++) {
        unsigned axis;
        if (!clq_find_axis(x, axes->axes[i], &axis))
            return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", axes->axes[i]);
        a->axes[axis].first = (long)x->dims[axis] - 1;
        a->axes[axis].step = -1;
    }
    return CLQ_OK;
}
static clq_status infer_flip(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    clq_arrangement a;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return find_flip(layer, &y->shape, &a);
}
static clq_id expand_flip(clq_expansion *e, const clq_id *x) {
    clq_arrangement a;
    (void)find_flip(e->layer, &e->y->shape, &a); /* as it was inferred */
    return clq_expand_arrange(e, &a, x[0]);
}
KIND(flip, "Flip", "flip", flip_config, flip_attributes, 1, infer_flip, expand_flip);
