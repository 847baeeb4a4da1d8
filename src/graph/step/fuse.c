/* Fuses operations that are faster as one. A pattern is a row (clq_fusion), in the file of what it becomes. Its
 * function looks at a node and the nodes in front of it. A value that any other node reads is never taken away. */
#include "graph/step/step.h"

clq_node *clq_graph_sole_maker(const clq_graph *graph, clq_id id) {
    const clq_graph_value *value = clq_graph_value_at(graph, id);
    return value->readers == 1 && value->maker ? &graph->nodes[value->maker - 1] : NULL;
}

static void join_all(clq_graph *graph, const clq_pass_context *context, const clq_fusion *const *rows, size_t count) {
    clq_graph_find_uses(graph);
    for (size_t i = 0; i < count; i++)
        for (uint32_t n = 0; n < graph->node_count; n++)
            if (graph->nodes[n].op == rows[i]->last) rows[i]->join(graph, &graph->nodes[n], context);
    clq_graph_fuse_elements(graph);
}

/* The order matters: a row sees what earlier rows made. */
void clq_graph_fuse(clq_graph *graph, const clq_pass_context *context) {
    static const clq_fusion *const rows[] = {&clq_fusion_activation, &clq_fusion_conv_pool, &clq_fusion_attention,
                                             &clq_fusion_last_activation};
    join_all(graph, context, rows, CLQ_COUNT_OF(rows));
}

void clq_graph_fuse_gradients(clq_graph *graph, const clq_pass_context *context) {
    static const clq_fusion *const rows[] = {&clq_fusion_sums};
    join_all(graph, context, rows, CLQ_COUNT_OF(rows));
}
