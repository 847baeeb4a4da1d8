/* keras.ops.pad: adds places in front of axes and behind them. They have a number, or mirror what is next to the
 * edge. */
#include "graph/layers/layer.h"

enum { ZEROS, REFLECTED, SYMMETRIC };
static const char *const modes[] = {"constant", "reflect", "symmetric", NULL};

typedef struct pad_config {
    clq_pads pads;
    int mode;
    double number; /* for ZEROS: what the zeros become */
} pad_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("pad_width", CLQ_ATTRIBUTE_PADS, pad_config, pads), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("mode", CLQ_ATTRIBUTE_CHOICE, pad_config, mode), .words = modes},
    {CLQ_LAYER_ATTRIBUTE("constant_values", CLQ_ATTRIBUTE_KEYWORD_NUMBER, pad_config, number)},
};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const pad_config *config = layer->config;
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    y->shape = *x;
    if (config->mode != ZEROS && config->number != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "constant_values are of mode constant");
    if (config->pads.rank != x->rank)
        return clq_fail(CLQ_ERROR_ARGUMENT, "pad_width has %u axes behind the batch, and its input %u",
                        config->pads.rank, x->rank);
    for (unsigned d = 0; d < x->rank; d++) {
        const size_t *sides = config->pads.sides[d], most = CLQ_MAX(sides[0], sides[1]),
                     there = config->mode == REFLECTED ? x->dims[d] - 1 : x->dims[d];
        if (config->mode != ZEROS && most > there)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "pad_width %zu is more than the %zu places that there are to take",
                            most, there);
        y->shape.dims[d] += sides[0] + sides[1];
    }
    return CLQ_OK;
}

/* Takes `count` places along an axis, `step` apart, from `first` on. */
static clq_id take(clq_expansion *e, const clq_shape *shape, unsigned axis, size_t first, long step, size_t count,
                   clq_id x) {
    clq_node node = clq_expand_node(e, &clq_op_arrange);
    clq_shape taken = *shape;
    size_t elements = 1;
    node.attributes.arrangement = clq_arrangement_of(shape->rank, shape->dims);
    node.attributes.arrangement.axes[axis].first = (long)first;
    node.attributes.arrangement.axes[axis].step = step;
    node.attributes.arrangement.axes[axis].out = taken.dims[axis] = count;
    for (unsigned d = 0; d < taken.rank; d++) elements *= taken.dims[d];
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &taken, elements);
    return clq_graph_add_node(e->graph, &node);
}

/* Mirrors the places of an axis at both of its ends. REFLECTED does not repeat the places at the edges. */
static clq_id mirror(clq_expansion *e, clq_shape *shape, unsigned axis, const size_t sides[2], clq_id x) {
    clq_node node = clq_expand_node(e, &clq_op_concatenate);
    clq_concatenation *p = &node.attributes.concatenation;
    const size_t size = shape->dims[axis], apart = ((const pad_config *)e->layer->config)->mode == REFLECTED;
    unsigned count = 0;
    size_t rows = 1, inner = 1;
    for (unsigned d = 0; d < shape->rank; d++) *(d < axis ? &rows : &inner) *= d == axis ? 1 : shape->dims[d];
    p->rows = rows;
    if (sides[0]) {
        p->widths[count] = sides[0] * inner;
        node.inputs[count++] = take(e, shape, axis, sides[0] - 1 + apart, -1, sides[0], x);
    }
    p->widths[count] = size * inner;
    node.inputs[count++] = x;
    if (sides[1]) {
        p->widths[count] = sides[1] * inner;
        node.inputs[count++] = take(e, shape, axis, size - 1 - apart, -1, sides[1], x);
    }
    for (unsigned i = 0; i < count; i++)
        if (!node.inputs[i]) return 0;
    shape->dims[axis] += sides[0] + sides[1];
    node.outputs[0] = clq_expand_value(e, shape, rows * shape->dims[axis] * inner);
    return clq_graph_add_node(e->graph, &node);
}

static bool is_inside(const clq_pads *pads, const clq_shape *y, size_t at) {
    for (unsigned d = y->rank; d-- > 0; at /= y->dims[d]) {
        const size_t place = at % y->dims[d];
        if (place < pads->sides[d][0] || place >= y->dims[d] - pads->sides[d][1]) return false;
    }
    return true;
}
/* Adds the number to the zeros alone, so that what is inside keeps its value whatever the number is. */
static clq_id fill(clq_expansion *e, clq_id padded) {
    const pad_config *config = e->layer->config;
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const size_t count = e->y->elements;
    clq_node node = clq_expand_node(e, &clq_op_elementwise), flat = clq_expand_node(e, &clq_op_reshape);
    clq_element_program *p = &node.attributes.program;
    float *numbers = clq_alloc(count, sizeof *numbers);
    if (!numbers || !padded) {
        if (!numbers) clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        clq_free(numbers);
        return 0;
    }
    for (size_t i = 0; i < count; i++)
        numbers[i] = is_inside(&config->pads, &e->y->shape, i) ? 0 : (float)config->number;
    const unsigned a = clq_element_take(p, clq_each_element), b = clq_element_take(p, by_channel);
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = a, .b = b});
    flat.inputs[0] = padded;
    flat.outputs[0] = clq_expand_value(e, &CLQ_SHAPE(1, count), count);
    node.inputs[0] = clq_graph_add_node(e->graph, &flat);
    node.inputs[1] = clq_graph_add_constant(e->graph, "numbers", &CLQ_SHAPE(count), count, numbers);
    node.outputs[0] = clq_expand_value(e, &CLQ_SHAPE(1, count), count);
    clq_free(numbers);
    if (!node.inputs[0] || !node.inputs[1]) return 0;
    return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), clq_graph_add_node(e->graph, &node));
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const pad_config *config = e->layer->config;
    clq_shape shape = clq_model_input_of(e->model, e->y, 0)->shape;
    clq_arrangement a = clq_arrangement_of(shape.rank, shape.dims);
    clq_id y = x[0];
    for (unsigned d = 0; d < shape.rank && config->mode == ZEROS; d++) {
        a.axes[d].first = -(long)config->pads.sides[d][0];
        a.axes[d].out = e->y->shape.dims[d];
    }
    if (config->mode == ZEROS && config->number == 0) return clq_expand_arrange(e, &a, y);
    if (config->mode == ZEROS) return fill(e, clq_expand_arrange(e, &a, y));
    for (unsigned d = 0; d < shape.rank && y; d++)
        if (config->pads.sides[d][0] + config->pads.sides[d][1] > 0) y = mirror(e, &shape, d, config->pads.sides[d], y);
    return y;
}

const clq_layer_kind clq_layer_op_pad = {.type = "Pad",
                                         .stem = "pad",
                                         .module = "keras.src.ops.numpy",
                                         .inputs = {1, 1},
                                         CLQ_LAYER_CONFIG(pad_config, attributes),
                                         .infer = infer,
                                         .expand = expand};
