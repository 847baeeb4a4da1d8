/* A step graph's values and nodes, and what passes ask of them. */
#include "graph/model.h"
#include "graph/step/step.h"

#include <stdio.h>
#include <string.h>

void clq_graph_release(clq_graph *graph) {
    for (uint32_t i = 0; i < graph->constant_count; i++) clq_free(graph->constants[i].numbers);
    clq_free(graph->constants);
    clq_free(graph->values);
    clq_free(graph->nodes);
    *graph = (clq_graph){0};
}

void clq_graph_fail(clq_graph *graph, clq_status status) {
    if (status != CLQ_OK && graph->error.status == CLQ_OK) clq_error_take(status, &graph->error);
}

clq_id clq_graph_add_value(clq_graph *graph, const clq_graph_value *value) {
    clq_graph_fail(graph, CLQ_RESERVE(graph, values, value_count, 1, value_capacity));
    if (graph->error.status != CLQ_OK) return 0;
    graph->values[graph->value_count] = *value;
    if (value->shape.rank == 0) graph->values[graph->value_count].shape = CLQ_SHAPE(1); /* a tensor without axes */
    return ++graph->value_count;
}

clq_id clq_graph_add_constant(clq_graph *graph, const char *name, const clq_shape *shape, size_t count,
                              const float *numbers) {
    clq_graph_fail(graph, CLQ_RESERVE(graph, constants, constant_count, 1, constant_capacity));
    if (graph->error.status != CLQ_OK) return 0;
    clq_constant *constant = &graph->constants[graph->constant_count];
    *constant = (clq_constant){.numbers = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof(float)), .count = count};
    if (!constant->numbers) {
        clq_graph_fail(graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    memcpy(constant->numbers, numbers, count * sizeof *numbers);
    return clq_graph_add_value(graph, &(clq_graph_value){.name = name,
                                                         .dtype = CLQ_F32,
                                                         .shape = *shape,
                                                         .elements = count,
                                                         .home = CLQ_HOME_CONSTANT,
                                                         .index = graph->constant_count++});
}

size_t clq_graph_value_bytes(const clq_graph_value *value) { return clq_values_bytes(value->dtype, value->elements); }

clq_id clq_graph_add_like(clq_graph *graph, clq_id like, const char *name) {
    if (!like) return 0; /* it could not be added */
    clq_graph_value value = *clq_graph_value_at(graph, like);
    if (name) value.name = name;
    value.dtype = CLQ_F32;
    value.home = CLQ_HOME_STEP;
    value.index = 0;
    return clq_graph_add_value(graph, &value);
}

clq_id clq_graph_add_gradient(clq_graph *graph, clq_id of) {
    return clq_graph_add_like(graph, of, clq_graph_value_at(graph, of)->home == CLQ_HOME_WEIGHT ? NULL : "gradient");
}

clq_node clq_graph_node_like(const clq_node *like, const clq_operation *op, clq_segment segment,
                             const clq_id inputs[CLQ_NODE_INPUTS]) {
    clq_node node = {.op = op, .segment = segment};
    memcpy(node.scope, like->scope, sizeof node.scope);
    memcpy(node.inputs, inputs, sizeof node.inputs);
    return node;
}

clq_node clq_graph_backward_node(const clq_node *forward, const clq_operation *op,
                                 const clq_id inputs[CLQ_NODE_INPUTS]) {
    clq_node back = clq_graph_node_like(forward, op, CLQ_SEGMENT_BACKWARD, inputs);
    back.attributes = forward->attributes;
    return back;
}

void clq_add_gradient(clq_derivation *d, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]) {
    clq_node back = clq_graph_backward_node(&d->node, op, inputs);
    back.outputs[0] = d->dx[0] = clq_graph_add_gradient(d->graph, d->node.inputs[0]);
    clq_graph_add_node(d->graph, &back);
}

clq_id clq_graph_add_node(clq_graph *graph, const clq_node *node) {
    clq_graph_fail(graph, CLQ_RESERVE(graph, nodes, node_count, 1, node_capacity));
    if (graph->error.status != CLQ_OK) return 0;
    graph->nodes[graph->node_count++] = *node;
    return node->outputs[0];
}

void clq_graph_find_uses(clq_graph *graph) {
    for (clq_id id = 1; id <= graph->value_count; id++)
        clq_graph_value_at(graph, id)->readers = clq_graph_value_at(graph, id)->maker = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const clq_node *node = &graph->nodes[n];
        if (!node->op) continue;
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
            if (node->inputs[i]) clq_graph_value_at(graph, node->inputs[i])->readers++;
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
            if (node->outputs[i]) clq_graph_value_at(graph, node->outputs[i])->maker = n + 1;
    }
    for (uint32_t i = 0; i < graph->output_count; i++)
        if (graph->outputs[i]) clq_graph_value_at(graph, graph->outputs[i])->readers++;
    for (uint32_t i = 0; i < graph->sent_count; i++) clq_graph_value_at(graph, graph->sent[i])->readers++;
}

/* The value in whose memory `id` lies: reshapes make no memory of their own. */
static clq_id root_of(const clq_graph *graph, clq_id id) {
    for (uint32_t n = graph->node_count; n-- > 0;)
        if (graph->nodes[n].outputs[0] == id && graph->nodes[n].op->traits & CLQ_OP_ALIAS)
            id = graph->nodes[n].inputs[0];
    return id;
}

/* Moves the last node in front of the nodes of later segments. */
static void move_to_segment(clq_graph *graph) {
    uint32_t to = graph->node_count - 1;
    const clq_node last = graph->nodes[to];
    while (to > 0 && graph->nodes[to - 1].segment > last.segment) to--;
    memmove(&graph->nodes[to + 1], &graph->nodes[to], (graph->node_count - 1 - to) * sizeof last);
    graph->nodes[to] = last;
}

clq_id clq_graph_place(clq_graph *graph, clq_id id, clq_home home, uint32_t index, clq_segment segment) {
    clq_id root = root_of(graph, id);
    if (clq_graph_value_at(graph, root)->home != CLQ_HOME_STEP) {
        clq_node like = {.op = NULL};
        (void)snprintf(like.scope, sizeof like.scope, "%s", clq_graph_value_at(graph, id)->name);
        id = root = clq_add_sum(graph, &like, segment, &id, 1);
        if (graph->error.status != CLQ_OK) return 0;
        move_to_segment(graph);
    }
    clq_graph_value *value = clq_graph_value_at(graph, root);
    value->home = home;
    value->index = index;
    return id;
}
