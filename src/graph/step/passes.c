/* The passes, in their order. */
#include "graph/step/step.h"

/* Drops nodes without an operation, which passes leave behind. */
static void sweep(clq_graph *graph) {
    uint32_t kept = 0;
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op) graph->nodes[kept++] = graph->nodes[n];
    graph->node_count = kept;
}

clq_status clq_graph_build(clq_graph *graph, const clq_model *model, const clq_pass_context *context,
                           clq_pass_observer after, void *observer) {
    const bool recomputes = context->config->recompute != CLQ_RECOMPUTE_OFF || model->recomputes;
    const bool fuses = !context->config->unfused_graph, trains = context->config->update != NULL;
    const struct {
        const char *name;
        void (*run)(clq_graph *graph, const clq_pass_context *context);
        bool applies;
    } passes[] = {
        {"expand", clq_graph_expand, true},
        {"cut", clq_graph_cut, context->slices != NULL},
        {"lower", clq_graph_lower, true},
        {"fuse", clq_graph_fuse, fuses},
        {"lower patterns", clq_graph_lower, fuses && context->config->lowered_graph},
        {"place output", clq_graph_place_output, true},
        {"differentiate", clq_graph_differentiate, trains},
        {"fuse gradients", clq_graph_fuse_gradients, fuses && trains},
        {"precision", clq_graph_narrow, context->config->activations != CLQ_F32},
        {"recompute", clq_graph_recompute, trains && recomputes},
        {"accumulate", clq_graph_accumulate, trains && context->config->accumulates},
        {"update", clq_graph_add_update, trains && !context->config->updated_elsewhere},
    };
    graph->model = model;
    graph->stage = context->config->stage;
    for (size_t i = 0; i < CLQ_COUNT_OF(passes); i++) {
        if (!passes[i].applies) continue;
        passes[i].run(graph, context);
        CLQ_TRY(clq_error_raise(&graph->error));
        sweep(graph);
        if (after) after(observer, passes[i].name, graph);
    }
    return CLQ_OK;
}
