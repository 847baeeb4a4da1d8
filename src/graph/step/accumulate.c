/* Gradients of several batches as one: what writes the gradient of a variable adds it to what earlier runs of the plan
 * have left there (clq_accumulate). Products of weights do so while they store; for the others, which are small, there
 * is a node more. */
#include "graph/step/step.h"

#include <string.h>

/* Moves the last node to place `to`. */
static void move_last(clq_graph *graph, uint32_t to) {
    const clq_node last = graph->nodes[graph->node_count - 1];
    memmove(&graph->nodes[to + 1], &graph->nodes[to], (graph->node_count - 1 - to) * sizeof last);
    graph->nodes[to] = last;
}

/* Behind the node that makes a gradient, which becomes a value of the step's own. */
static void add_apart(clq_graph *graph, clq_id gradient, uint32_t maker) {
    const clq_graph_value sum = *clq_graph_value_at(graph, gradient);
    clq_node node =
        clq_graph_node_like(&graph->nodes[maker], &clq_op_accumulate, CLQ_SEGMENT_BACKWARD, CLQ_IDS(gradient));
    node.outputs[0] = clq_graph_add_value(graph, &sum);
    if (!clq_graph_add_node(graph, &node)) return;
    move_last(graph, maker + 1);
    clq_graph_value_at(graph, gradient)->home = CLQ_HOME_STEP;
    clq_graph_find_uses(graph);
}

/* What else reads a gradient, as the rest of a normalisation's backward does, wants that of this run alone. */
void clq_graph_accumulate(clq_graph *graph, const clq_pass_context *context) {
    const uint32_t values = graph->value_count;
    (void)context;
    clq_graph_find_uses(graph);
    for (clq_id id = 1; id <= values && graph->error.status == CLQ_OK; id++) {
        const clq_graph_value *value = clq_graph_value_at(graph, id);
        if (value->home != CLQ_HOME_GRADIENT) continue;
        clq_node *maker = &graph->nodes[value->maker - 1];
        if (value->readers == 0 && maker->op->adds)
            *maker->op->adds(maker) = true;
        else
            add_apart(graph, id, value->maker - 1);
    }
}
