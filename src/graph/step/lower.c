/* Composites become the operations that they are short for: where they have no kernels, and for comparison. */
#include "graph/step/step.h"

/* For comparison, a graph that is not fused has no composites. Values of 16 bits would be rounded at other places. */
static bool is_lowered(const clq_node *node, const clq_plan_config *config) {
    return node->op->lower && (!node->op->emit || (config->unfused_graph && config->activations == CLQ_F32));
}

void clq_graph_lower(clq_graph *graph, const clq_pass_context *context) {
    clq_node *nodes = graph->nodes;
    const uint32_t count = graph->node_count;
    graph->nodes = NULL;
    graph->node_count = 0;
    graph->node_capacity = 0;
    for (uint32_t n = 0; n < count; n++) {
        if (is_lowered(&nodes[n], context->config))
            nodes[n].op->lower(graph, &nodes[n]);
        else
            clq_graph_add_node(graph, &nodes[n]);
    }
    clq_free(nodes);
}
