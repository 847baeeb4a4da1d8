/* Images with their places moved at random. */
#include "graph/step/step.h"

/* inputs: x, draws. There is no gradient: only samples, which need none, may be transformed in training. */
static void gradient(clq_derivation *d) {
    clq_graph_fail(d->graph,
                   clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "layer '%s': a random transform of what layers with weights give is not supported: "
                            "put it in front of them",
                            d->node.scope));
}
static void emit(clq_emission *e) { clq_warp(e->list, &e->node->attributes.warp, e->in[0], e->in[1], e->out[0]); }
static bool stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value != 1;
}
const clq_operation clq_op_warp = {
    .name = "warp", .traits = CLQ_OP_AGAIN, .stores = stores, .differentiate = gradient, .emit = emit};
