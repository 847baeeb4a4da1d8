/* Reverse-mode differentiation: adds, from the loss back to the samples, what computes the gradient of every variable.
 */
#include "graph/step/step.h"

typedef struct tape {
    clq_graph *graph;
    uint32_t forward; /* nodes to differentiate: the first so many */
    bool *wanted;     /* by value: whether a variable's gradient depends on its gradient */
    clq_id *gradient; /* by value; 0: none came */
} tape;

/* A variable, and whatever is computed from one. */
static void find_wanted(tape *t) {
    for (clq_id id = 1; id <= t->graph->value_count; id++)
        t->wanted[id] = clq_graph_value_at(t->graph, id)->home == CLQ_HOME_WEIGHT;
    for (uint32_t n = 0; n < t->forward; n++) {
        const clq_node *node = &t->graph->nodes[n];
        bool any = false;
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) any = any || t->wanted[node->inputs[i]];
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
            if (node->outputs[i]) t->wanted[node->outputs[i]] = any && node->op->differentiate;
    }
}

static void differentiate_node(tape *t, uint32_t n) {
    const clq_node node = t->graph->nodes[n]; /* adding may move it */
    clq_id dy[CLQ_NODE_OUTPUTS], dx[CLQ_NODE_INPUTS] = {0};
    bool wants[CLQ_NODE_INPUTS], any = false, came = node.op == &clq_op_loss;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
        dy[i] = t->gradient[node.outputs[i]];
        came = came || dy[i];
    }
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        wants[i] = node.inputs[i] && t->wanted[node.inputs[i]];
        any = any || wants[i];
    }
    if (!came || !any || !node.op->differentiate) return;
    node.op->differentiate(t->graph, n, dy, wants, dx);
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        if (!dx[i]) continue;
        const clq_graph_value *x = clq_graph_value_at(t->graph, node.inputs[i]);
        clq_graph_value *gradient = clq_graph_value_at(t->graph, dx[i]);
        t->gradient[node.inputs[i]] = dx[i];
        if (x->home != CLQ_HOME_WEIGHT) continue;
        gradient->home = CLQ_HOME_GRADIENT;
        gradient->index = x->index;
    }
}

clq_status clq_graph_differentiate(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    tape t = {.graph = graph, .forward = graph->node_count};
    size_t values = (size_t)graph->value_count + 1; /* those before differentiation */
    t.wanted = clq_alloc(values, sizeof *t.wanted);
    t.gradient = clq_alloc(values, sizeof *t.gradient);
    clq_status status = t.wanted && t.gradient ? CLQ_OK : CLQ_MEMORY;
    if (status == CLQ_OK) {
        find_wanted(&t);
        for (uint32_t n = t.forward; n-- > 0 && graph->error.status == CLQ_OK;) differentiate_node(&t, n);
        status = clq_graph_status(graph);
    }
    clq_free(t.wanted);
    clq_free(t.gradient);
    return status;
}
