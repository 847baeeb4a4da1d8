/* keras.ops that move numbers in blocks: between channels and places, round the ends of an axis, and by repeating; and
 * moveaxis. */
#include "graph/layers/layer.h"

#define NUMPY "keras.src.ops.numpy"

#define KIND(name, class_name, name_stem, in_module, config, rows, shape, expansion)                                   \
    const clq_layer_kind clq_layer_op_##name = {.type = (class_name),                                                  \
                                                .stem = (name_stem),                                                   \
                                                .module = (in_module),                                                 \
                                                .inputs = {1, 1},                                                      \
                                                .moves = true,                                                         \
                                                CLQ_LAYER_CONFIG(config, rows),                                        \
                                                .infer = (shape),                                                      \
                                                .expand = (expansion)}

/* ---- places to channels, and back (Shi et al., "Real-time single image and video super-resolution", 2016) ---- */

typedef struct block_config {
    size_t side;
} block_config;
static const clq_attribute block_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("block_size", CLQ_ATTRIBUTE_SIZES, block_config, side), .needed = true},
    {.key = "data_format", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "channels_last"},
};

static clq_status infer_blocks(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const size_t side = ((const block_config *)layer->config)->side;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const bool to_places = layer->kind == &clq_layer_op_depth_to_space;
    size_t area, elements;
    CLQ_TRY(clq_layer_check_rank(x, 2));
    const size_t h = x->dims[0], w = x->dims[1], c = x->dims[2];
    if (!clq_mul_size(side, side, &area) || area > INT32_MAX || (to_places && c % area) ||
        (!to_places && (h % side || w % side)))
        return to_places ? clq_fail(CLQ_ERROR_ARGUMENT,
                                    "block_size %zu needs channels that its square divides, not %zu", side, c)
                         : clq_fail(CLQ_ERROR_ARGUMENT, "block_size %zu needs sides that it divides, not %zu x %zu",
                                    side, h, w);
    y->shape = to_places ? CLQ_SHAPE(h * side, w * side, c / area) : CLQ_SHAPE(h / side, w / side, c * area);
    return clq_shape_elements(&y->shape, &elements);
}

/* An image with blocks of places, (h, side, w, side, c), becomes (h, w, side, side, c), or the other way round. */
static clq_id expand_blocks(clq_expansion *e, const clq_id *x) {
    enum { H, IN_H, W, IN_W };
    const size_t side = ((const block_config *)e->layer->config)->side;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const bool to_places = e->layer->kind == &clq_layer_op_depth_to_space;
    const clq_shape *places = to_places ? &e->y->shape : in;
    const size_t sizes[] = {places->dims[0] / side, side, places->dims[1] / side, side, places->dims[2]};
    const size_t turned[] = {sizes[H], sizes[W], side, side, sizes[4]};
    const clq_arrangement whole = clq_arrangement_of(5, to_places ? turned : sizes);
    clq_arrangement a = whole;
    a.axes[1] = whole.axes[2]; /* both ways, the two axes in the middle change places */
    a.axes[2] = whole.axes[1];
    return clq_expand_arrange(e, &a, x[0]);
}
KIND(depth_to_space, "DepthToSpace", "depth_to_space", "keras.src.ops.nn", block_config, block_attributes, infer_blocks,
     expand_blocks);
KIND(space_to_depth, "SpaceToDepth", "space_to_depth", "keras.src.ops.nn", block_config, block_attributes, infer_blocks,
     expand_blocks);

/* ---- lists of numbers that must be whole ---- */

enum { WHOLE_MOST = 1 << 24 }; /* float32 has all whole numbers up to this one */
static clq_status take_whole(const char *key, float number, long *out) {
    *out = number >= -(float)WHOLE_MOST && number <= (float)WHOLE_MOST ? (long)number : WHOLE_MOST;
    if ((float)*out == number && *out != WHOLE_MOST) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s: %g is no whole number below %d", key, (double)number, WHOLE_MOST);
}

/* ---- roll: what leaves an axis at one end comes in at the other ---- */

typedef struct roll_config {
    clq_numbers shift; /* for each axis, or one for all */
    clq_axes axes;
} roll_config;
static const clq_attribute roll_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("shift", CLQ_ATTRIBUTE_NUMBERS, roll_config, shift), .needed = true, .whole = true},
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXES, roll_config, axes), .needed = true},
};

/* How many places to roll along each axis of x. Each is below the axis's size. */
static clq_status find_rolls(const roll_config *config, const clq_shape *x, size_t rolls[CLQ_SHAPE_MAX]) {
    for (unsigned d = 0; d < x->rank; d++) rolls[d] = 0;
    if (config->shift.count != 1 && config->shift.count != config->axes.count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "shift has %zu numbers, and axis %u", config->shift.count,
                        config->axes.count);
    for (unsigned i = 0; i < config->axes.count; i++) {
        unsigned axis;
        long shift;
        if (!clq_find_axis(x, config->axes.axes[i], &axis))
            return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", config->axes.axes[i]);
        CLQ_TRY(take_whole("shift", config->shift.values[config->shift.count == 1 ? 0 : i], &shift));
        const long size = (long)x->dims[axis];
        rolls[axis] = (rolls[axis] + (size_t)((shift % size + size) % size)) % x->dims[axis];
    }
    return CLQ_OK;
}
static clq_status infer_roll(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    size_t rolls[CLQ_SHAPE_MAX];
    y->shape = clq_model_input_of(model, y, 0)->shape;
    return find_rolls(layer->config, &y->shape, rolls);
}

/* Takes `count` places of an axis, from place `first` on. */
static clq_id take_run(const clq_parts *parts, const clq_shape *shape, unsigned axis, size_t first, size_t count,
                       clq_id x) {
    clq_node node = clq_part_node(parts, &clq_op_arrange, CLQ_IDS(x));
    clq_shape taken = *shape;
    node.attributes.arrangement = clq_arrangement_of(shape->rank, shape->dims);
    node.attributes.arrangement.axes[axis].first = (long)first;
    node.attributes.arrangement.axes[axis].out = taken.dims[axis] = count;
    return clq_part_add(parts, node, taken);
}
static clq_id expand_roll(clq_expansion *e, const clq_id *x) {
    const clq_shape *shape = &e->y->shape;
    size_t rolls[CLQ_SHAPE_MAX];
    clq_node of;
    clq_id y = x[0];
    const clq_parts parts = clq_expand_parts(e, &of);
    (void)find_rolls(e->layer->config, shape, rolls); /* as it was inferred */
    size_t rows = 1, inner = e->y->elements;
    for (unsigned d = 0; d < shape->rank; d++) {
        const size_t size = shape->dims[d], roll = rolls[d];
        inner /= size;
        if (roll > 0) {
            const clq_id terms[] = {take_run(&parts, shape, d, size - roll, roll, y),
                                    take_run(&parts, shape, d, 0, size - roll, y)};
            y = clq_part_side_by_side(&parts, terms, (const size_t[]){roll * inner, (size - roll) * inner}, 2, rows);
        }
        rows *= size;
    }
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}
KIND(roll, "Roll", "roll", NUMPY, roll_config, roll_attributes, infer_roll, expand_roll);

/* ---- repeat: each place of an axis several times in a row; tile: whole axes several times ---- */

typedef struct repeat_config {
    size_t times;
    int axis;
} repeat_config;
static const clq_attribute repeat_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("repeats", CLQ_ATTRIBUTE_SIZES, repeat_config, times), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("axis", CLQ_ATTRIBUTE_AXIS, repeat_config, axis), .needed = true},
};

static clq_status lengthen(size_t *size, size_t times) {
    if (clq_mul_size(*size, times, size) && *size <= INT32_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%zu times as many places are too many", times);
}
static clq_status infer_repeat(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const repeat_config *config = layer->config;
    unsigned axis;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    if (!clq_find_axis(&y->shape, config->axis, &axis))
        return clq_fail(CLQ_ERROR_ARGUMENT, "axis: its input has no axis %d", config->axis);
    return lengthen(&y->shape.dims[axis], config->times);
}
static clq_id expand_repeat(clq_expansion *e, const clq_id *x) {
    const repeat_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    clq_node node = clq_expand_node(e, &clq_op_repeat);
    clq_repeat_problem *p = &node.attributes.repeat;
    unsigned axis = 0;
    (void)clq_find_axis(in, config->axis, &axis); /* as it was inferred */
    *p = (clq_repeat_problem){.outer = 1, .repeats = config->times, .inner = 1, .scale = 1};
    for (unsigned d = 0; d < in->rank; d++) *(d <= axis ? &p->outer : &p->inner) *= in->dims[d];
    return clq_expand_unary(e, node, x[0]);
}
KIND(repeat, "Repeat", "repeat", NUMPY, repeat_config, repeat_attributes, infer_repeat, expand_repeat);

typedef struct tile_config {
    clq_numbers times; /* for the last axes; a number for the batch may stand in front, and is 1 */
} tile_config;
static const clq_attribute tile_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("repeats", CLQ_ATTRIBUTE_NUMBERS, tile_config, times), .needed = true, .whole = true},
};

static clq_status find_times(const tile_config *config, const clq_shape *x, size_t times[CLQ_SHAPE_MAX]) {
    const size_t count = config->times.count, axes = x->rank + 1; /* with the batch */
    for (unsigned d = 0; d < x->rank; d++) times[d] = 1;
    if (count > axes)
        return clq_fail(CLQ_ERROR_ARGUMENT, "repeats has %zu numbers, and its input %zu axes", count, axes);
    for (size_t i = 0; i < count; i++) {
        const size_t axis = axes - count + i;
        long number;
        CLQ_TRY(take_whole("repeats", config->times.values[i], &number));
        if (number < 1 || (axis == 0 && number != 1))
            return axis == 0
                       ? clq_fail(CLQ_ERROR_UNSUPPORTED, "repeats: the batch can be there once, not %ld times", number)
                       : clq_fail(CLQ_ERROR_UNSUPPORTED, "repeats: number %zu is %ld, and should be 1 or more", i + 1,
                                  number);
        if (axis > 0) times[axis - 1] = (size_t)number;
    }
    return CLQ_OK;
}
static clq_status infer_tile(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    size_t times[CLQ_SHAPE_MAX], elements;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    CLQ_TRY(find_times(layer->config, &y->shape, times));
    for (unsigned d = 0; d < y->shape.rank; d++) CLQ_TRY(lengthen(&y->shape.dims[d], times[d]));
    return clq_shape_elements(&y->shape, &elements);
}
/* From the last axis on, repeats each run of an axis with all that lies behind it. */
static clq_id expand_tile(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    size_t times[CLQ_SHAPE_MAX], inner = 1, outer = 1;
    clq_node of;
    clq_id y = x[0];
    const clq_parts parts = clq_expand_parts(e, &of);
    (void)find_times(e->layer->config, in, times); /* as it was inferred */
    for (unsigned d = 0; d < in->rank; d++) outer *= in->dims[d];
    for (unsigned d = in->rank; d-- > 0;) {
        const clq_repeat_problem p = {
            .outer = outer /= in->dims[d], .repeats = times[d], .inner = inner *= in->dims[d], .scale = 1};
        if (times[d] > 1) y = clq_part_repeat(&parts, y, &p, CLQ_SHAPE(outer, inner * times[d]));
        inner *= times[d];
    }
    return y ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), y) : 0;
}
KIND(tile, "Tile", "tile", NUMPY, tile_config, tile_attributes, infer_tile, expand_tile);

/* ---- moveaxis ---- */

typedef struct move_config {
    clq_axes from, to;
} move_config;
static const clq_attribute move_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("source", CLQ_ATTRIBUTE_AXES, move_config, from), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("destination", CLQ_ATTRIBUTE_AXES, move_config, to), .needed = true},
};

/* For each axis of y, finds the axis of x. The axes that are not named keep their order. */
static clq_status find_moves(const move_config *config, const clq_shape *x, unsigned from[CLQ_SHAPE_MAX]) {
    unsigned taken = 0, set = 0, next = 0;
    if (config->from.count != config->to.count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "source has %u axes, and destination %u", config->from.count,
                        config->to.count);
    for (unsigned i = 0; i < config->from.count; i++) {
        unsigned a, b;
        if (!clq_find_axis(x, config->from.axes[i], &a) || !clq_find_axis(x, config->to.axes[i], &b) ||
            (taken & 1u << a) || (set & 1u << b))
            return clq_fail(CLQ_ERROR_ARGUMENT, "source and destination should be axes of its input, each once");
        taken |= 1u << a;
        set |= 1u << b;
        from[b] = a;
    }
    for (unsigned d = 0; d < x->rank; d++) {
        if (set & 1u << d) continue;
        while (taken & 1u << next) next++;
        from[d] = next++;
    }
    return CLQ_OK;
}
static clq_status infer_move(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    unsigned from[CLQ_SHAPE_MAX];
    CLQ_TRY(find_moves(layer->config, x, from));
    y->shape.rank = x->rank;
    for (unsigned d = 0; d < x->rank; d++) y->shape.dims[d] = x->dims[from[d]];
    return CLQ_OK;
}
static clq_id expand_move(clq_expansion *e, const clq_id *x) {
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const clq_arrangement whole = clq_arrangement_of(in->rank, in->dims);
    clq_arrangement a = {.rank = in->rank};
    unsigned from[CLQ_SHAPE_MAX];
    (void)find_moves(e->layer->config, in, from); /* as it was inferred */
    for (unsigned d = 0; d < in->rank; d++) a.axes[d] = whole.axes[from[d]];
    return clq_expand_arrange(e, &a, x[0]);
}
KIND(moveaxis, "Moveaxis", "moveaxis", NUMPY, move_config, move_attributes, infer_move, expand_move);
