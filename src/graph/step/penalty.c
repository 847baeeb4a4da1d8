/* Penalties on weights: a part of the loss that each sample has, so that a mean over any split of a batch has it once.
 */
#include "graph/step/step.h"

enum { W, SCALING };

/* The loss's gradient is that of the weights alone. */
static void gradient(clq_derivation *d) {
    if (!d->wants[W]) return;
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_penalty_gradient,
                                            CLQ_IDS(d->node.inputs[W], d->node.inputs[SCALING]));
    back.outputs[0] = d->dx[W] = clq_graph_add_gradient(d->graph, d->node.inputs[W]);
    clq_graph_add_node(d->graph, &back);
}
/* The output, a row of the metrics, has the loss already; what is told is that times its weight. */
static void emit(clq_emission *e) {
    const struct clq_penalty_attributes *a = &e->node->attributes.penalty;
    clq_penalty_problem p = a->problem;
    p.l1 /= (double)a->weight;
    p.l2 /= (double)a->weight;
    clq_penalty_loss(e->list, &p, e->in[W], e->out[0]);
}
const clq_operation clq_op_penalty = {
    .name = "penalty", .traits = CLQ_OP_LOSS, .types = CLQ_OP_TYPE(CLQ_I32), .differentiate = gradient, .emit = emit};

static void emit_gradient(clq_emission *e) {
    const struct clq_penalty_attributes *a = &e->node->attributes.penalty;
    clq_penalty_gradient(e->list, &a->problem, a->scale, e->in[SCALING], e->in[W], e->out[0]);
}
const clq_operation clq_op_penalty_gradient = {
    .name = "penalty_gradient", .types = CLQ_OP_TYPE(CLQ_I32), .emit = emit_gradient};
