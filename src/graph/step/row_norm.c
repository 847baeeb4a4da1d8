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
const clq_operation clq_op_row_norm = {
    .name = "row_norm", .traits = CLQ_OP_AGAIN, .stores = stores, .differentiate = gradient, .emit = emit};

/* outputs: gradients of x, gamma, beta */
static void emit_gradient(clq_emission *e) {
    clq_row_norm_backward(e->list, &e->node->attributes.row_norm, e->in[0], e->in[1], e->in[2], e->in[3], e->out[0],
                          e->out[1], e->out[2]);
}
const clq_operation clq_op_row_norm_gradient = {
    .name = "row_norm_gradient", .stores = gradient_stores, .emit = emit_gradient};
