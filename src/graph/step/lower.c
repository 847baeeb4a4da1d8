/* Replaces composites by the operations that they are short for: if they have no kernels, and for comparison. */
#include "graph/step/step.h"

static bool has_kernels(const clq_node *node) { return node->op->emit && (!node->op->fits || node->op->fits(node)); }

/* Whether all composites are replaced, for comparison. Values of 16 bits would be rounded at other places then. */
static bool is_compared(const clq_plan_config *config) {
    return (config->unfused_graph || config->lowered_graph) && config->activations == CLQ_F32;
}

/* If the kernels of an operation keep values in float32, the operations that it is short for do so, too. */
static void keep_wide(clq_graph *graph, const clq_node *node) {
    if (!(node->op->traits & CLQ_OP_WIDE)) return;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (node->inputs[i]) clq_graph_value_at(graph, node->inputs[i])->wide = true;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (node->outputs[i]) clq_graph_value_at(graph, node->outputs[i])->wide = true;
}

/* If a composite's output is marked to be computed again, so are all values inside its expansion. This is as with
 * kernels, whose second run makes all outputs of the composite. */
static void keep_marks(clq_graph *graph, const clq_node *node, uint32_t values) {
    bool marked = false;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        marked = marked || (node->outputs[i] && clq_graph_value_at(graph, node->outputs[i])->recompute);
    for (clq_id id = values + 1; id <= graph->value_count && marked; id++)
        clq_graph_value_at(graph, id)->recompute = true;
}

/* Replaces the node if it has to be replaced. Gives whether it was. */
static bool lower_node(clq_graph *graph, const clq_node *node, bool compares) {
    const bool runs = has_kernels(node);
    const uint32_t values = graph->value_count;
    if (!node->op->lower || (runs && !compares)) return false;
    if (node->op->lower(graph, node)) {
        keep_wide(graph, node);
        keep_marks(graph, node, values);
        return true;
    }
    if (!runs)
        clq_graph_fail(graph,
                       clq_fail(CLQ_ERROR_INTERNAL, "layer '%s': the operation %s has no kernels, and is too long",
                                node->scope, node->op->name));
    return false;
}

void clq_graph_lower(clq_graph *graph, const clq_pass_context *context) {
    const bool compares = is_compared(context->config);
    clq_node *nodes = graph->nodes;
    const uint32_t count = graph->node_count;
    graph->nodes = NULL;
    graph->node_count = 0;
    graph->node_capacity = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (!lower_node(graph, &nodes[n], compares)) clq_graph_add_node(graph, &nodes[n]);
    }
    clq_free(nodes);
}
