/* The passes, in their order. */
#include "graph/step/step.h"

typedef struct pass {
    const char *name;
    clq_status (*run)(clq_graph *graph, const clq_pass_context *context);
    bool (*applies)(const clq_plan_config *config);
} pass;

static bool always(const clq_plan_config *config) { return config != NULL; }
static bool fuses(const clq_plan_config *config) { return !config->unfused_graph; }
static bool trains(const clq_plan_config *config) { return config->update != NULL; }
static bool fuses_gradients(const clq_plan_config *config) { return fuses(config) && trains(config); }

static const pass passes[] = {
    {"fuse", clq_graph_fuse, fuses},
    {"place output", clq_graph_place_output, always},
    {"differentiate", clq_graph_differentiate, trains},
    {"fuse gradients", clq_graph_fuse_gradients, fuses_gradients},
    {"update", clq_graph_add_update, trains},
};

clq_status clq_graph_build(clq_graph *graph, const clq_model *model, const clq_pass_context *context,
                           clq_pass_observer after, void *observer) {
    CLQ_TRY(clq_graph_expand(graph, model, context->config));
    if (after) after(observer, "expand", graph);
    for (size_t i = 0; i < CLQ_COUNT_OF(passes); i++) {
        if (!passes[i].applies(context->config)) continue;
        CLQ_TRY(passes[i].run(graph, context));
        if (after) after(observer, passes[i].name, graph);
    }
    return CLQ_OK;
}
