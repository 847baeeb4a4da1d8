/* Normalisation of rows, each by its own statistics. */
#include "graph/step/parts.h"

/* Samples' values may have 16 bits; statistics and what is by channel may not. */
static bool stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value == 0 || value == CLQ_NODE_INPUTS;
}
static bool gradient_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    return value == 1 || stores(list, node, value, dtype);
}

/* inputs of the gradient: x, dy, statistics, gamma. Forward keeps the statistics then. */
static void gradient(clq_derivation *d) {
    const clq_id *in = d->node.inputs;
    const size_t rows = clq_row_norm_rows(&d->node.attributes.row_norm);
    d->node.outputs[1] = clq_graph_add_value(d->graph, &(clq_graph_value){.name = "statistics",
                                                                          .dtype = CLQ_F32,
                                                                          .per_sample = true,
                                                                          .shape = CLQ_SHAPE(rows, 2),
                                                                          .elements = 2 * rows});
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_row_norm_gradient,
                                            CLQ_IDS(in[0], d->dy[0], d->node.outputs[1], in[1]));
    for (unsigned i = 0; i < 3; i++)
        if (d->wants[i]) back.outputs[i] = d->dx[i] = clq_graph_add_gradient(d->graph, in[i]);
    clq_graph_add_node(d->graph, &back);
}
/* inputs: x, gamma, beta; outputs: y, and statistics if they are kept */
static void emit(clq_emission *e) {
    clq_row_norm_forward(e->list, &e->node->attributes.row_norm, e->in[0], e->in[1], e->in[2], e->out[0], e->out[1]);
}

/* ---- what it is short for: means over rows, and programs over elements ---- */

/* (matrix rows, channels) of a sample, whatever x's shape is. */
static clq_shape shape_of(const clq_row_norm_problem *p) {
    return CLQ_SHAPE(p->outer * p->positions, p->groups * p->width);
}

/* Means over rows, (outer, groups). back: the opposite, repeats such numbers for each element of their row. Both ways
 * take a row's axes, positions and width, one after the other. */
static clq_id over_rows(const clq_parts *parts, const clq_row_norm_problem *p, clq_id x, bool back) {
    const clq_repeat_problem axes[] = {{.outer = p->outer * p->positions * p->groups, .repeats = p->width, .inner = 1},
                                       {.outer = p->outer, .repeats = p->positions, .inner = p->groups}};
    const clq_shape narrow[] = {CLQ_SHAPE(p->outer * p->positions, p->groups), CLQ_SHAPE(p->outer, p->groups)},
                    wide[] = {shape_of(p), narrow[0]};
    for (unsigned i = 0; i < 2; i++) {
        const unsigned axis = back ? 1 - i : i;
        clq_repeat_problem problem = axes[axis];
        problem.scale = back ? 1 : (float)(1 / (double)problem.repeats);
        x = back ? clq_part_repeat(parts, x, &problem, wide[axis]) : clq_part_reduce(parts, x, &problem, narrow[axis]);
    }
    return x;
}

/* 1 / sqrt(variance + epsilon) */
static clq_id add_rate(const clq_parts *parts, const clq_row_norm_problem *row, clq_id variance) {
    clq_node node = clq_part_node(parts, &clq_op_elementwise, CLQ_IDS(variance));
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const clq_instruction epsilon = {.op = CLQ_ELEMENT_CONSTANT, .number = row->epsilon},
                          one = {.op = CLQ_ELEMENT_CONSTANT, .number = 1};
    clq_instruction sum = {.op = CLQ_ELEMENT_ADD, .a = number}, root = {.op = CLQ_ELEMENT_SQRT},
                    rate = {.op = CLQ_ELEMENT_DIVIDE};
    sum.b = clq_element_do(p, epsilon);
    root.a = clq_element_do(p, sum);
    rate.a = clq_element_do(p, one);
    rate.b = clq_element_do(p, root);
    p->outputs[p->output_count++].from = clq_element_do(p, rate);
    return clq_part_add(parts, node, CLQ_SHAPE(row->outer, row->groups));
}

/* y = x times gamma, plus beta, by channel. */
static clq_id add_scaled(const clq_parts *parts, const clq_row_norm_problem *row, clq_id x) {
    const clq_id *in = parts->of->inputs, y = clq_part_by_channel(parts, CLQ_ELEMENT_MULTIPLY, x, in[1], shape_of(row));
    return clq_part_by_channel(parts, CLQ_ELEMENT_ADD, y, in[2], shape_of(row));
}

static bool lower(clq_graph *graph, const clq_node *node) {
    const clq_row_norm_problem *p = &node->attributes.row_norm;
    const clq_parts parts = {.graph = graph, .of = node, .name = "normalised"};
    clq_id x = clq_part_reshape(&parts, node->inputs[0], shape_of(p));
    if (p->centred)
        x = clq_part_combine(&parts, CLQ_ELEMENT_SUBTRACT, x,
                             over_rows(&parts, p, over_rows(&parts, p, x, false), true));
    const clq_id variance = over_rows(&parts, p, clq_part_combine(&parts, CLQ_ELEMENT_SQUARE, x, 0), false);
    const clq_id rate = over_rows(&parts, p, add_rate(&parts, p, variance), true);
    clq_part_give(&parts, add_scaled(&parts, p, clq_part_combine(&parts, CLQ_ELEMENT_MULTIPLY, x, rate)),
                  node->outputs[0]);
    return true;
}

/* Numbers that are normed together stay together. */
static bool split(clq_split *s) {
    const clq_row_norm_problem *p = &s->node->attributes.row_norm;
    const size_t unit = p->positions * p->groups * p->width;
    clq_split_fan(s, 1);
    clq_split_fan(s, 2);
    return clq_split_in_units(s, (const size_t[CLQ_NODE_VALUES]){[0] = unit, [CLQ_NODE_INPUTS] = unit});
}
static void narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    (void)s;
    n->node.attributes.row_norm.outer = clq_part_of(part, n->node.attributes.row_norm.outer);
}
const clq_operation clq_op_row_norm = {.name = "row_norm",
                                       .traits = CLQ_OP_AGAIN,
                                       .stores = stores,
                                       .differentiate = gradient,
                                       .emit = emit,
                                       .split = split,
                                       .narrow = narrow,
                                       .lower = lower};

/* outputs: gradients of x, gamma, beta */
static void emit_gradient(clq_emission *e) {
    clq_row_norm_backward(e->list, &e->node->attributes.row_norm, e->in[0], e->in[1], e->in[2], e->in[3], e->out[0],
                          e->out[1], e->out[2]);
}
const clq_operation clq_op_row_norm_gradient = {
    .name = "row_norm_gradient", .stores = gradient_stores, .emit = emit_gradient};
