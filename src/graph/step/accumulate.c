/* Adds up the gradients of several batches: what writes the gradient of a variable adds it to what earlier runs of the
 * plan left there (clq_accumulate). Products of weights do so while they store. The other gradients are small, and each
 * gets a further node that adds it. */
#include "graph/step/step.h"

#include <string.h>

/* Moves the last node to place `to`. */
static void move_last(clq_graph *graph, uint32_t to) {
    const clq_node last = graph->nodes[graph->node_count - 1];
    memmove(&graph->nodes[to + 1], &graph->nodes[to], (graph->node_count - 1 - to) * sizeof last);
    graph->nodes[to] = last;
}

/* Adds the further node behind the one that makes the gradient, which becomes a value in the step's own memory. */
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

/* If other nodes read a gradient too, as in the backward of a normalisation, they need that of this run alone: then a
 * further node adds it. */
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
