/* Dense layers whose kernels are split over ranks (graph.h, clq_slicing). From a slice of a kernel's columns a rank
 * computes the same columns of each output row; elementwise operations keep these columns. With a slice of a kernel's
 * rows a rank then computes a summand of whole output rows: ranks sum these, and bias and activation follow. Where
 * units are joined right behind a layer, each rank puts its columns into rows of zeros, and ranks sum these. */
#include "graph/step/step.h"

#include <string.h>

typedef struct cutter {
    clq_graph *graph;
    const clq_pass_context *context;
    uint32_t values;           /* of the graph as it was */
    clq_weight_slice *columns; /* by value: the columns of each row that the rank has; count 0: all */
    size_t *whole;             /* by value: how many columns a whole row has, where the rank has not all */
    clq_id *fanned_out;        /* by value: the output of its fan-out node; 0: it has none */
} cutter;

static const clq_weight_slice *slice_of(const cutter *c, clq_id weight) {
    return &c->context->slices[clq_graph_value_at(c->graph, weight)->index];
}
static const clq_variable *variable_of(const cutter *c, clq_id weight) {
    return &c->graph->model->variables[clq_graph_value_at(c->graph, weight)->index];
}

static void narrow(clq_graph_value *value, unsigned axis, size_t count) {
    value->elements = value->elements / value->shape.dims[axis] * count;
    value->shape.dims[axis] = count;
}

static void narrow_columns(cutter *c, clq_id id, const clq_weight_slice *slice) {
    clq_graph_value *value = clq_graph_value_at(c->graph, id);
    c->columns[id] = *slice;
    c->whole[id] = clq_graph_value_channels(value);
    narrow(value, value->shape.rank - 1, slice->count);
}

static void narrow_weights(cutter *c) {
    for (clq_id id = 1; id <= c->values; id++) {
        clq_graph_value *value = clq_graph_value_at(c->graph, id);
        if (value->home == CLQ_HOME_WEIGHT) narrow(value, slice_of(c, id)->axis, slice_of(c, id)->count);
    }
}

/* ---- columns ---- */

/* Where a rank's columns lie within whole rows. */
static clq_concatenation place_of(const clq_weight_slice *slice, size_t whole, size_t rows) {
    return (clq_concatenation){
        .rows = rows, .widths = {slice->first, slice->count, whole - slice->first - slice->count}, .part = 1};
}

/* Adds the node, and nodes that make whole rows of its columns, as the value that was its output. */
static void join_columns(cutter *c, clq_node *node, const clq_weight_slice *slice) {
    const clq_id y = node->outputs[0];
    const clq_graph_value *rows = clq_graph_value_at(c->graph, y);
    const size_t whole = clq_graph_value_channels(rows), count = rows->elements / whole;
    clq_node place = clq_graph_node_like(node, &clq_op_place, node->segment, CLQ_IDS(0));
    clq_node sum = clq_graph_node_like(node, &clq_op_all_reduce, node->segment, CLQ_IDS(0));
    place.inputs[0] = node->outputs[0] = clq_graph_add_like(c->graph, y, NULL);
    sum.inputs[0] = place.outputs[0] = clq_graph_add_like(c->graph, y, NULL);
    sum.outputs[0] = y;
    if (c->graph->error.status != CLQ_OK) return;
    clq_graph_value *own = clq_graph_value_at(c->graph, node->outputs[0]);
    narrow(own, own->shape.rank - 1, slice->count);
    place.attributes.concatenation = place_of(slice, whole, count);
    sum.attributes.exchange = c->context->config->joins;
    clq_graph_add_node(c->graph, node);
    clq_graph_add_node(c->graph, &place);
    clq_graph_add_node(c->graph, &sum);
}

static void cut_columns(cutter *c, clq_node node) {
    const clq_weight_slice *slice = slice_of(c, node.inputs[1]);
    clq_id *x = &c->fanned_out[node.inputs[0]];
    if (!*x) *x = clq_add_fan_out(c->graph, &node, node.inputs[0], &c->context->config->joins);
    node.inputs[0] = *x;
    node.attributes.dense.out = slice->count;
    if (slice->joined) {
        join_columns(c, &node, slice);
        return;
    }
    narrow_columns(c, node.outputs[0], slice);
    clq_graph_add_node(c->graph, &node);
}

/* ---- rows ---- */

/* A product's bias and activation as an elementwise node. */
static clq_node finish_of(const clq_node *product, clq_id z) {
    clq_node node = clq_graph_node_like(product, &clq_op_elementwise, product->segment, CLQ_IDS(z));
    clq_element_program *p = &node.attributes.program;
    unsigned y = clq_element_take(p, clq_each_element);
    if (product->inputs[2]) {
        const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
        const unsigned bias = clq_element_take(p, by_channel);
        node.inputs[1] = product->inputs[2];
        y = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = y, .b = bias});
    }
    p->outputs[p->output_count++].from = clq_activation_do(p, product->attributes.dense.activation, y);
    node.outputs[0] = product->outputs[0];
    return node;
}

static void cut_rows(cutter *c, clq_node node) {
    const clq_id y = node.outputs[0];
    const bool finishes = node.inputs[2] || node.attributes.dense.activation != CLQ_LINEAR;
    const clq_id sum = finishes ? clq_graph_add_like(c->graph, y, NULL) : y;
    const clq_node finish = finish_of(&node, sum);
    node.attributes.dense.in = slice_of(c, node.inputs[1])->count;
    node.attributes.dense.activation = CLQ_LINEAR;
    node.inputs[2] = 0;
    node.outputs[0] = clq_graph_add_like(c->graph, y, NULL);
    clq_node all = clq_graph_node_like(&node, &clq_op_all_reduce, node.segment, CLQ_IDS(node.outputs[0]));
    all.attributes.exchange = c->context->config->joins;
    all.outputs[0] = sum;
    clq_graph_add_node(c->graph, &node);
    clq_graph_add_node(c->graph, &all);
    if (finishes) clq_graph_add_node(c->graph, &finish);
}

/* ---- all ---- */

static bool is_sliced(const cutter *c, clq_id weight) {
    return clq_weight_slice_is_part(slice_of(c, weight), variable_of(c, weight));
}

static bool takes_slices(const cutter *c, const clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (c->columns[node->inputs[i]].count) return true;
    return false;
}

static void cut_inside(cutter *c, clq_node node) {
    const clq_id x = node.inputs[0];
    if (node.op->take_columns) node.op->take_columns(&node, c->columns[x].first, c->whole[x]);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (node.outputs[i]) narrow_columns(c, node.outputs[i], &c->columns[x]);
    clq_graph_add_node(c->graph, &node);
}

static void cut_node(cutter *c, const clq_node *node) {
    const bool dense = node->op == &clq_op_dense && is_sliced(c, node->inputs[1]);
    if (dense && slice_of(c, node->inputs[1])->axis == 1)
        cut_columns(c, *node);
    else if (dense)
        cut_rows(c, *node);
    else if (!takes_slices(c, node))
        clq_graph_add_node(c->graph, node);
    else if (node->op->keeps_columns) /* of these values: slicing.c has asked */
        cut_inside(c, *node);
    else
        clq_graph_fail(c->graph, clq_fail(CLQ_INTERNAL, "layer '%s': the operation %s takes no slices of rows",
                                          node->scope, node->op->name));
}

/* Builds the list of nodes anew, with the split nodes and what they need in place of Dense layers. */
static void cut_nodes(cutter *c) {
    clq_node *nodes = c->graph->nodes;
    const uint32_t count = c->graph->node_count;
    c->graph->nodes = NULL;
    c->graph->node_count = 0;
    c->graph->node_capacity = 0;
    for (uint32_t n = 0; n < count && c->graph->error.status == CLQ_OK; n++) cut_node(c, &nodes[n]);
    clq_free(nodes);
}

void clq_graph_cut(clq_graph *graph, const clq_pass_context *context) {
    cutter c = {.graph = graph, .context = context, .values = graph->value_count};
    c.columns = clq_alloc((size_t)c.values + 1, sizeof *c.columns);
    c.whole = clq_alloc((size_t)c.values + 1, sizeof *c.whole);
    c.fanned_out = clq_alloc((size_t)c.values + 1, sizeof *c.fanned_out);
    if (c.columns && c.whole && c.fanned_out) {
        narrow_weights(&c);
        cut_nodes(&c);
    } else {
        clq_graph_fail(graph, CLQ_MEMORY);
    }
    clq_free(c.columns);
    clq_free(c.whole);
    clq_free(c.fanned_out);
}
