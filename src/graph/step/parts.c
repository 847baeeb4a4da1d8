/* Helpers that add the nodes of expansions, one after the other. */
#include "graph/step/parts.h"

#include "graph/model.h"

/* A value is per sample if input 0 is, or if there are no inputs. */
static clq_graph_value value_of(const clq_parts *p, const clq_node *node, const clq_shape *shape) {
    return (clq_graph_value){.name = p->name,
                             .dtype = CLQ_F32,
                             .per_sample =
                                 !node->inputs[0] || clq_graph_value_at(p->graph, node->inputs[0])->per_sample,
                             .wide = p->of->op && p->of->op->traits & CLQ_OP_WIDE,
                             .shape = *shape};
}

clq_id clq_part_add(const clq_parts *p, clq_node node, clq_shape shape) {
    char text[CLQ_SHAPE_TEXT_MAX];
    if (p->graph->error.status != CLQ_OK) return 0;
    clq_graph_value value = value_of(p, &node, &shape);
    if (clq_shape_elements(&shape, &value.elements) != CLQ_OK)
        clq_graph_fail(p->graph, clq_fail(CLQ_ERROR_UNSUPPORTED, "layer '%s': %s values of a sample are too many",
                                          p->of->scope, clq_shape_describe(&shape, text)));
    node.outputs[0] = clq_graph_add_value(p->graph, &value);
    return clq_graph_add_node(p->graph, &node);
}

clq_node clq_part_node(const clq_parts *p, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]) {
    return clq_graph_node_like(p->of, op, p->of->segment, inputs);
}

clq_id clq_part_reshape(const clq_parts *p, clq_id x, clq_shape shape) {
    return clq_part_add(p, clq_part_node(p, &clq_op_reshape, CLQ_IDS(x)), shape);
}

clq_id clq_part_zeros(const clq_parts *p, clq_shape shape) {
    clq_node node = clq_part_node(p, &clq_op_elementwise, CLQ_IDS(0));
    clq_element_program *program = &node.attributes.program;
    program->outputs[program->output_count++].from =
        clq_element_do(program, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 0});
    return clq_part_add(p, node, shape);
}

/* A node whose program has x as register 0, and y as register 1 if y is not 0. The caller completes the program. */
static clq_node elements_of(const clq_parts *p, clq_id x, clq_id y) {
    clq_node node = clq_part_node(p, &clq_op_elementwise, CLQ_IDS(x, y));
    (void)clq_element_take(&node.attributes.program, clq_each_element);
    if (y) (void)clq_element_take(&node.attributes.program, clq_each_element);
    return node;
}

/* Adds the node, whose program stores register `from`. */
static clq_id add_elements(const clq_parts *p, clq_node *node, unsigned from) {
    clq_element_program *program = &node->attributes.program;
    program->outputs[program->output_count++].from = from;
    if (p->graph->error.status != CLQ_OK) return 0;
    return clq_part_add(p, *node, clq_graph_value_at(p->graph, node->inputs[0])->shape);
}

clq_id clq_part_combine(const clq_parts *p, clq_element_op op, clq_id x, clq_id y) {
    clq_node node = elements_of(p, x, y);
    return add_elements(p, &node,
                        clq_element_do(&node.attributes.program, (clq_instruction){.op = op, .b = y ? 1 : 0}));
}

clq_id clq_part_by_channel(const clq_parts *p, clq_element_op op, clq_id x, clq_id vector, clq_shape shape) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    clq_node node = elements_of(p, x, 0);
    clq_element_program *program = &node.attributes.program;
    clq_instruction instruction = {.op = op};
    if (!vector) return x;
    node.inputs[1] = vector;
    instruction.b = clq_element_take(program, by_channel);
    program->outputs[program->output_count++].from = clq_element_do(program, instruction);
    return clq_part_add(p, node, shape);
}

clq_id clq_part_activate(const clq_parts *p, clq_activation activation, clq_id x, clq_id y) {
    clq_node node = elements_of(p, x, y);
    clq_element_program *program = &node.attributes.program;
    if (!y && activation == CLQ_ACTIVATION_LINEAR) return x;
    const unsigned sum = y ? clq_element_do(program, (clq_instruction){.op = CLQ_ELEMENT_ADD, .b = 1}) : 0;
    return add_elements(p, &node, clq_activation_do(program, activation, sum));
}

clq_arrangement clq_arrangement_run(size_t all, size_t first, size_t count) {
    clq_arrangement a = clq_arrangement_of(1, &all);
    a.axes[0].out = count;
    a.axes[0].first = (long)first;
    return a;
}

clq_id clq_part_run(const clq_parts *p, clq_id x, size_t first, clq_shape shape) {
    clq_node node = clq_part_node(p, &clq_op_arrange, CLQ_IDS(x));
    size_t count = 1;
    for (unsigned d = 0; d < shape.rank; d++) count *= shape.dims[d];
    if (p->graph->error.status != CLQ_OK) return 0;
    node.attributes.arrangement = clq_arrangement_run(clq_graph_value_at(p->graph, x)->elements, first, count);
    return clq_part_add(p, node, shape);
}

clq_id clq_part_slice(const clq_parts *p, clq_id x, const size_t sizes[3], size_t index, clq_shape shape) {
    clq_node node = clq_part_node(p, &clq_op_arrange, CLQ_IDS(x));
    clq_arrangement *a = &node.attributes.arrangement;
    *a = clq_arrangement_of(3, sizes);
    a->axes[1].first = (long)index;
    a->axes[1].out = 1;
    return clq_part_add(p, node, shape);
}

static clq_id over_axis(const clq_parts *p, const clq_operation *op, clq_id x, const clq_repeat_problem *problem,
                        const clq_shape *shape) {
    clq_node node = clq_part_node(p, op, CLQ_IDS(x));
    node.attributes.repeat = *problem;
    return clq_part_add(p, node, *shape);
}
clq_id clq_part_repeat(const clq_parts *p, clq_id x, const clq_repeat_problem *problem, clq_shape shape) {
    return over_axis(p, &clq_op_repeat, x, problem, &shape);
}
clq_id clq_part_reduce(const clq_parts *p, clq_id x, const clq_repeat_problem *problem, clq_shape shape) {
    return over_axis(p, &clq_op_reduce, x, problem, &shape);
}

void clq_part_give(const clq_parts *p, clq_id x, clq_id output) {
    clq_node node = clq_part_node(p, &clq_op_reshape, CLQ_IDS(x));
    node.outputs[0] = output;
    if (output) clq_graph_add_node(p->graph, &node);
}

/* ---- side by side ---- */

clq_id clq_part_side_by_side(const clq_parts *p, const clq_id *terms, const size_t *widths, unsigned count,
                             size_t rows) {
    clq_node node = clq_part_node(p, &clq_op_concatenate, CLQ_IDS(0));
    size_t width = 0;
    node.attributes.concatenation = (clq_concatenation){.rows = rows};
    for (unsigned i = 0; i < count; i++) {
        node.inputs[i] = terms[i];
        node.attributes.concatenation.widths[i] = widths[i];
        width += widths[i];
    }
    return clq_part_add(p, node, CLQ_SHAPE(rows, width));
}

void clq_joining_add(const clq_parts *p, clq_joining *j, clq_id term, size_t width) {
    if (j->count == CLQ_NODE_INPUTS) {
        j->terms[0] = clq_joining_end(p, j);
        for (unsigned i = 1; i < j->count; i++) j->widths[0] += j->widths[i];
        j->count = 1;
    }
    j->terms[j->count] = term;
    j->widths[j->count++] = width;
}

clq_id clq_joining_end(const clq_parts *p, const clq_joining *j) {
    return j->count == 1 ? j->terms[0] : clq_part_side_by_side(p, j->terms, j->widths, j->count, j->rows);
}
