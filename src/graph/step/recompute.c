/* Recomputation (gradient checkpointing; Chen et al., "Training deep nets with sublinear memory cost", 2016). Some
 * values that forward makes and backward reads are not kept. A second run of their node makes them again, from values
 * that are kept, in front of the first node of backward that reads them. So their memory is free between their last
 * reader in forward and that place. A second run has the inputs and attributes of the first, so it makes the same bits.
 * Each value is made again at most once, and lives until its last reader then. Nodes with side effects, such as moving
 * statistics and exchanges, run only once (CLQ_OP_AGAIN tells which operations may run twice). */
#include "graph/step/recompute.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Adds a new value, new[id], for each output of a node that runs again; new[id] is 0 for all other values. */
static void add_values(clq_graph *graph, const clq_recomputation *r, clq_id *new) {
    for (clq_id id = 1; id <= r->values; id++) {
        const uint32_t maker = r->stored[id].maker;
        bool made = false;
        for (uint32_t t = 0; t < r->entry_count && maker && !made; t++)
            made = r->entries[t].kind != CLQ_ORDER_NODE && r->entries[t].node == maker - 1;
        if (!made) continue;
        clq_graph_value value = *clq_graph_value_at(graph, id);
        value.home = CLQ_HOME_STEP;
        value.index = 0;
        new[id] = clq_graph_add_value(graph, &value);
    }
}

static clq_id renamed(const clq_recomputation *r, const clq_id *new, clq_id id) {
    return id > r->values ? new[id - r->values] : id;
}

static clq_node node_of(const clq_recomputation *r, const clq_id *new, const clq_order_entry *entry) {
    const clq_node *of = &r->graph->nodes[entry->node];
    clq_node node = *of;
    node.op = entry->op;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) node.inputs[i] = renamed(r, new, entry->inputs[i]);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) node.outputs[i] = renamed(r, new, entry->outputs[i]);
    if (entry->kind == CLQ_ORDER_NODE) return node;
    node.segment = CLQ_SEGMENT_BACKWARD;
    node.again = true;
    (void)snprintf(node.scope, sizeof node.scope, "%.*s again", (int)(sizeof node.scope - sizeof " again"), of->scope);
    return node;
}

static void apply(clq_graph *graph, clq_recomputation *r) {
    clq_recomputation_order(r);
    clq_id *new = clq_alloc((size_t)r->values + 1, sizeof *new);
    clq_node *nodes = clq_alloc(r->entry_count, sizeof *nodes);
    if (new &&nodes) {
        add_values(graph, r, new);
        for (uint32_t t = 0; t < r->entry_count; t++) nodes[t] = node_of(r, new, &r->entries[t]);
        clq_free(graph->nodes);
        graph->nodes = nodes;
        graph->node_count = r->entry_count;
        graph->node_capacity = r->entry_count;
        nodes = NULL;
    } else {
        clq_graph_fail(graph, CLQ_ERROR_MEMORY);
    }
    clq_free(new);
    clq_free(nodes);
}

static clq_status choose(clq_recomputation *r, const clq_plan_config *config) {
    if (config->recompute == CLQ_RECOMPUTE_ALL) return clq_recomputation_least(r);
    const bool fits = config->recompute == CLQ_RECOMPUTE_AUTO && config->activations_most > 0;
    return clq_recomputation_fit(r, fits ? (double)config->activations_most : (double)INFINITY);
}

void clq_graph_recompute(clq_graph *graph, const clq_pass_context *context) {
    clq_recomputation r;
    clq_status status = clq_recomputation_open(&r, graph, context->config->capacity);
    if (status == CLQ_OK) status = choose(&r, context->config);
    if (status == CLQ_OK)
        apply(graph, &r);
    else
        clq_graph_fail(graph, status);
    clq_recomputation_release(&r);
}
