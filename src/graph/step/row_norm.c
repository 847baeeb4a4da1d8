/* Normalisation of rows by themselves. */
#include "graph/step/step.h"

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
/* inputs: x, gamma, beta; outputs: y, and statistics where they are kept */
static void emit(clq_emission *e) {
    clq_row_norm_forward(e->list, &e->node->attributes.row_norm, e->in[0], e->in[1], e->in[2], e->out[0], e->out[1]);
}

/* ---- what it is short for: means over rows, and programs over elements ---- */

/* (matrix rows, channels) of a sample, whatever x's shape is. */
static clq_shape shape_of(const clq_row_norm_problem *p) {
    return CLQ_SHAPE(p->outer * p->positions, p->groups * p->width);
}

/* A node's output, of a shape of the sample; the node comes behind all others. */
static clq_id add(clq_graph *graph, clq_node node, clq_shape shape) {
    node.outputs[0] = clq_graph_add_value(graph, &(clq_graph_value){.name = "normalised",
                                                                    .dtype = CLQ_F32,
                                                                    .per_sample = true,
                                                                    .shape = shape,
                                                                    .elements = shape.dims[0] * shape.dims[1]});
    return node.outputs[0] ? clq_graph_add_node(graph, &node) : 0;
}

/* Means over rows, (outer, groups); or back: one for each element of its row. The two ways take a row's axes, positions
 * and width, in turn. */
static clq_id over_rows(clq_graph *graph, const clq_node *like, clq_id x, bool back) {
    const clq_row_norm_problem *p = &like->attributes.row_norm;
    const clq_repeat_problem axes[] = {{.outer = p->outer * p->positions * p->groups, .repeats = p->width, .inner = 1},
                                       {.outer = p->outer, .repeats = p->positions, .inner = p->groups}};
    const clq_shape narrow[] = {CLQ_SHAPE(p->outer * p->positions, p->groups), CLQ_SHAPE(p->outer, p->groups)},
                    wide[] = {shape_of(p), narrow[0]};
    for (unsigned i = 0; i < 2 && x; i++) {
        const unsigned axis = back ? 1 - i : i;
        clq_node node = clq_graph_node_like(like, back ? &clq_op_repeat : &clq_op_reduce, like->segment, CLQ_IDS(x));
        node.attributes.repeat = axes[axis];
        node.attributes.repeat.scale = back ? 1 : (float)(1 / (double)axes[axis].repeats);
        x = add(graph, node, back ? wide[axis] : narrow[axis]);
    }
    return x;
}

static clq_id reshape(clq_graph *graph, const clq_node *like, clq_id x) {
    return add(graph, clq_graph_node_like(like, &clq_op_reshape, like->segment, CLQ_IDS(x)),
               shape_of(&like->attributes.row_norm));
}

/* A program of one instruction, of one or two values for each element. */
static clq_id combine(clq_graph *graph, const clq_node *like, clq_element_op op, clq_id a, clq_id b) {
    clq_node node = clq_graph_node_like(like, &clq_op_elementwise, like->segment, CLQ_IDS(a, b));
    clq_element_program *p = &node.attributes.program;
    clq_instruction instruction = {.op = op, .a = clq_element_take(p, clq_each_element)};
    if (b) instruction.b = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(p, instruction);
    return a ? add(graph, node, clq_graph_value_at(graph, a)->shape) : 0;
}

/* 1 / sqrt(variance + epsilon) */
static clq_id add_rate(clq_graph *graph, const clq_node *like, clq_id variance) {
    clq_node node = clq_graph_node_like(like, &clq_op_elementwise, like->segment, CLQ_IDS(variance));
    clq_element_program *p = &node.attributes.program;
    const unsigned number = clq_element_take(p, clq_each_element);
    const clq_instruction epsilon = {.op = CLQ_ELEMENT_CONSTANT, .number = like->attributes.row_norm.epsilon},
                          one = {.op = CLQ_ELEMENT_CONSTANT, .number = 1};
    clq_instruction sum = {.op = CLQ_ELEMENT_ADD, .a = number}, root = {.op = CLQ_ELEMENT_SQRT},
                    rate = {.op = CLQ_ELEMENT_DIVIDE};
    sum.b = clq_element_do(p, epsilon);
    root.a = clq_element_do(p, sum);
    rate.a = clq_element_do(p, one);
    rate.b = clq_element_do(p, root);
    p->outputs[p->output_count++].from = clq_element_do(p, rate);
    return add(graph, node, clq_graph_value_at(graph, variance)->shape);
}

/* y = x times gamma, plus beta, by channel. */
static void add_scaled(clq_graph *graph, const clq_node *like, clq_id x) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    clq_node node = clq_graph_node_like(like, &clq_op_elementwise, like->segment, CLQ_IDS(x)),
             shaped = clq_graph_node_like(like, &clq_op_reshape, like->segment, CLQ_IDS(x));
    clq_element_program *p = &node.attributes.program;
    unsigned y = clq_element_take(p, clq_each_element);
    for (unsigned i = 1; i < 3; i++) {
        if (!like->inputs[i]) continue;
        node.inputs[p->input_count] = like->inputs[i];
        const unsigned weight = clq_element_take(p, by_channel);
        y = clq_element_do(
            p, (clq_instruction){.op = i == 1 ? CLQ_ELEMENT_MULTIPLY : CLQ_ELEMENT_ADD, .a = y, .b = weight});
    }
    p->outputs[p->output_count++].from = y;
    if (p->input_count > 1) shaped.inputs[0] = add(graph, node, shape_of(&like->attributes.row_norm));
    shaped.outputs[0] = like->outputs[0];
    if (shaped.inputs[0]) clq_graph_add_node(graph, &shaped);
}

static void lower(clq_graph *graph, const clq_node *node) {
    clq_id x = reshape(graph, node, node->inputs[0]);
    if (x && node->attributes.row_norm.centred)
        x = combine(graph, node, CLQ_ELEMENT_SUBTRACT, x,
                    over_rows(graph, node, over_rows(graph, node, x, false), true));
    const clq_id variance = x ? over_rows(graph, node, combine(graph, node, CLQ_ELEMENT_SQUARE, x, 0), false) : 0;
    const clq_id rate = variance ? over_rows(graph, node, add_rate(graph, node, variance), true) : 0;
    if (rate) add_scaled(graph, node, combine(graph, node, CLQ_ELEMENT_MULTIPLY, x, rate));
}

const clq_operation clq_op_row_norm = {.name = "row_norm",
                                       .traits = CLQ_OP_AGAIN,
                                       .stores = stores,
                                       .differentiate = gradient,
                                       .emit = emit,
                                       .lower = lower};

/* outputs: gradients of x, gamma, beta */
static void emit_gradient(clq_emission *e) {
    clq_row_norm_backward(e->list, &e->node->attributes.row_norm, e->in[0], e->in[1], e->in[2], e->in[3], e->out[0],
                          e->out[1], e->out[2]);
}
const clq_operation clq_op_row_norm_gradient = {
    .name = "row_norm_gradient", .stores = gradient_stores, .emit = emit_gradient};
