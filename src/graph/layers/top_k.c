/* keras.ops.top_k: the largest numbers along the last axis, in order, and their places. One is found after the other:
 * the largest of each row, and the first place that has it, which counts as the lowest from there on. */
#include "graph/layers/layer.h"

#include <float.h>

typedef struct top_k_config {
    size_t k, part; /* part 0: values, 1: places */
} top_k_config;
static const clq_attribute attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("k", CLQ_ATTRIBUTE_SIZES, top_k_config, k), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("part", CLQ_ATTRIBUTE_SIZES, top_k_config, part)},
    {.key = "sorted", .type = CLQ_ATTRIBUTE_UNUSED},
};

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const top_k_config *config = layer->config;
    y->shape = clq_model_input_of(model, y, 0)->shape;
    size_t *width = &y->shape.dims[y->shape.rank - 1];
    if (config->k > *width) return clq_fail(CLQ_ARGUMENT, "k %zu is more than the %zu places", config->k, *width);
    if (config->k > CLQ_PARTS_STEPS)
        return clq_fail(CLQ_UNSUPPORTED, "k %zu is not supported, at most %d", config->k, CLQ_PARTS_STEPS);
    *width = config->k;
    return CLQ_OK;
}

/* The largest of each row: a window over all of it. */
static clq_id add_largest(clq_expansion *e, clq_id x, size_t rows, size_t width) {
    const clq_shape shape = CLQ_SHAPE(rows, 1);
    clq_node node = clq_expand_node(e, &clq_op_pool2d);
    node.attributes.pool2d = (clq_pool2d_problem){.in_h = rows,
                                                  .in_w = width,
                                                  .channels = 1,
                                                  .out_h = rows,
                                                  .out_w = 1,
                                                  .size_h = 1,
                                                  .size_w = width,
                                                  .stride_h = 1,
                                                  .stride_w = width};
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &shape, rows);
    return x ? clq_graph_add_node(e->graph, &node) : 0;
}

/* width - i for what is as large as the largest, else 0: the largest of these is of the first. */
static clq_id add_places(clq_expansion *e, clq_id x, clq_id largest, size_t rows, size_t width) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const clq_shape all = CLQ_SHAPE(rows, width);
    float *numbers = clq_alloc(width, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(e->graph, CLQ_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < width; i++) numbers[i] = (float)(width - i);
    const clq_id known = clq_graph_add_constant(e->graph, "places", &CLQ_SHAPE(width), width, numbers);
    clq_free(numbers);
    clq_node flat = clq_expand_node(e, &clq_op_reshape), node = clq_expand_node(e, &clq_op_elementwise);
    flat.inputs[0] = x;
    flat.outputs[0] = clq_expand_value(e, &all, rows * width);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), most = clq_element_take(p, clq_each_element);
    const unsigned place = clq_element_take(p, by_channel);
    const unsigned is_it = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_AT_LEAST, .a = number, .b = most});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = is_it, .b = place});
    node.inputs[0] = clq_graph_add_node(e->graph, &flat);
    node.inputs[1] = clq_expand_repeated(e, &CLQ_SHAPE(rows, 1), &all, largest);
    node.inputs[2] = known;
    node.outputs[0] = clq_expand_value(e, &all, rows * width);
    return node.inputs[0] && node.inputs[1] && known ? clq_graph_add_node(e->graph, &node) : 0;
}

/* x with the lowest number at the places that are `first`. */
static clq_id add_rest(clq_expansion *e, clq_id x, clq_id places, clq_id first, size_t rows, size_t width) {
    const clq_shape all = CLQ_SHAPE(rows, width);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element), place = clq_element_take(p, clq_each_element);
    const unsigned taken = clq_element_take(p, clq_each_element);
    const unsigned is_it = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_EQUAL, .a = place, .b = taken});
    const unsigned lowest = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = -FLT_MAX});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = is_it, .b = lowest, .c = number});
    node.inputs[0] = x;
    node.inputs[1] = places;
    node.inputs[2] = clq_expand_repeated(e, &CLQ_SHAPE(rows, 1), &all, first);
    node.outputs[0] = clq_expand_value(e, &all, rows * width);
    return x && places && node.inputs[2] ? clq_graph_add_node(e->graph, &node) : 0;
}

/* Of places that are counted down from `width`: counted up from 0. */
static clq_id add_counted(clq_expansion *e, clq_id x, size_t width) {
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned counted = clq_element_take(p, clq_each_element);
    const unsigned all = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = (double)width});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SUBTRACT, .a = all, .b = counted});
    return x ? clq_expand_unary(e, node, x) : 0;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const top_k_config *config = e->layer->config;
    const clq_shape *in = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t width = in->dims[in->rank - 1], rows = e->y->elements / config->k;
    clq_node of;
    const clq_parts parts = clq_expand_parts(e, &of);
    clq_joining found = {.rows = rows};
    clq_id rest = clq_part_reshape(&parts, x[0], CLQ_SHAPE(rows, width));
    for (size_t i = 0; i < config->k && rest; i++) {
        const bool last = i + 1 == config->k;
        const clq_id largest = add_largest(e, rest, rows, width);
        const clq_id places = last && config->part == 0 ? 0 : add_places(e, rest, largest, rows, width);
        const clq_id first = places ? add_largest(e, places, rows, width) : 0;
        clq_joining_add(&parts, &found, config->part == 0 ? largest : first, 1);
        if (!last) rest = add_rest(e, rest, places, first, rows, width);
    }
    const clq_id all = rest ? clq_joining_end(&parts, &found) : 0,
                 y = all ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), all) : 0;
    return config->part == 0 ? y : add_counted(e, y, width);
}

bool clq_layer_gives_places(const clq_layer *layer) {
    return layer->kind == &clq_layer_top_k && ((const top_k_config *)layer->config)->part == 1;
}

static unsigned count_parts(const clq_layer *layer) {
    (void)layer;
    return 2;
}

const clq_layer_kind clq_layer_top_k = {.type = "TopK",
                                        .stem = "top_k",
                                        .module = "keras.src.ops.math",
                                        .inputs = {1, 1},
                                        CLQ_LAYER_CONFIG(top_k_config, attributes),
                                        .output_count = count_parts,
                                        .output_member = CLQ_OUTPUT_MEMBER(top_k_config, part),
                                        .infer = infer,
                                        .expand = expand};
