/* A plan's step graph after each pass, for `clique plan --graph`. */
#include "graph/model.h"
#include "graph/plan.h"

#include <stdio.h>

enum { VALUE_TEXT = CLQ_SHAPE_TEXT_MAX + sizeof(clq_variable) };

typedef struct description {
    clq_node_visitor visit;
    void *context;
} description;

/* Names a value: "%3", or by its home: "weight dense/kernel". */
static size_t name_value(const clq_graph *graph, clq_id id, char *text) {
    static const char *const homes[] = {[CLQ_HOME_SAMPLES] = "samples",
                                        [CLQ_HOME_LABELS] = "labels",
                                        [CLQ_HOME_OUTPUT] = "output",
                                        [CLQ_HOME_METRICS] = "metrics",
                                        [CLQ_HOME_NORMS] = "all norms",
                                        [CLQ_HOME_TABLE] = "table of blocks",
                                        [CLQ_HOME_DECAYS] = "blocks that decay",
                                        [CLQ_HOME_SCALING] = "loss scale",
                                        [CLQ_HOME_WEIGHT] = "weight",
                                        [CLQ_HOME_STATE] = "state",
                                        [CLQ_HOME_GRADIENT] = "gradient",
                                        [CLQ_HOME_PARAMETERS] = "all weights",
                                        [CLQ_HOME_GRADIENTS] = "all gradients",
                                        [CLQ_HOME_OPTIMIZER] = "optimizer state",
                                        [CLQ_HOME_RECEIVED] = "received",
                                        [CLQ_HOME_SENT] = "sent",
                                        [CLQ_HOME_RECEIVED_GRADIENT] = "received gradient",
                                        [CLQ_HOME_SENT_GRADIENT] = "sent gradient"};
    const clq_graph_value *value = clq_graph_value_at(graph, id);
    const char *home = homes[value->home], *of = NULL;
    switch (value->home) {
    case CLQ_HOME_STEP: return (size_t)snprintf(text, VALUE_TEXT, "%%%u", id);
    case CLQ_HOME_RECEIVED:
    case CLQ_HOME_SENT:
    case CLQ_HOME_RECEIVED_GRADIENT:
    case CLQ_HOME_SENT_GRADIENT:
    case CLQ_HOME_OPTIMIZER: return (size_t)snprintf(text, VALUE_TEXT, "%s %u", home, value->index);
    case CLQ_HOME_WEIGHT:
    case CLQ_HOME_STATE:
    case CLQ_HOME_GRADIENT: of = graph->model->variables[value->index].name; break;
    case CLQ_HOME_LABELS:
        if (graph->model->output_count == 1) break;
        home = "labels of";
        of = clq_model_output_name(graph->model, value->index);
        break;
    case CLQ_HOME_OUTPUT: of = clq_model_output_name(graph->model, value->index); break;
    default: break;
    }
    return (size_t)snprintf(text, VALUE_TEXT, "%s%s%s", home, of ? " " : "", of ? of : "");
}

static void describe_node(const description *d, const char *pass, const clq_graph *graph, const clq_node *node) {
    char texts[CLQ_NODE_INPUTS + CLQ_NODE_OUTPUTS][VALUE_TEXT], shape[CLQ_SHAPE_TEXT_MAX];
    clq_node_info info = {.pass = pass, .operation = node->op->name, .layer = node->scope, .segment = node->segment};
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
        char *text = texts[info.output_count];
        if (!node->outputs[i]) continue;
        const clq_graph_value *value = clq_graph_value_at(graph, node->outputs[i]);
        size_t used = name_value(graph, node->outputs[i], text);
        (void)snprintf(text + used, VALUE_TEXT - used, ": %s%s", clq_dtype_name(value->dtype),
                       clq_shape_describe(&value->shape, shape));
        info.outputs[info.output_count++] = text;
    }
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        char *text = texts[CLQ_NODE_OUTPUTS + info.input_count];
        if (!node->inputs[i]) continue;
        (void)name_value(graph, node->inputs[i], text);
        info.inputs[info.input_count++] = text;
    }
    d->visit(d->context, &info);
}

static void describe_graph(void *context, const char *pass, const clq_graph *graph) {
    for (uint32_t n = 0; n < graph->node_count; n++) describe_node(context, pass, graph, &graph->nodes[n]);
}

/* Builds the graph anew, with a list of its own: a plan does not keep the graph that it was made from. */
clq_status clq_plan_visit_graph(const clq_plan *plan, clq_node_visitor visit, void *context) {
    description d = {.visit = visit, .context = context};
    clq_graph graph = {0};
    clq_list *list;
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &list));
    clq_status status = clq_plan_build_graph(plan, list, &graph, describe_graph, &d);
    clq_graph_release(&graph);
    clq_list_destroy(list);
    return status;
}
