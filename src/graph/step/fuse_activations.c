/* Fuses activations into the operations in front of them, which then apply the activations themselves. */
#include "graph/step/step.h"

#include <string.h>

/* An activation may as well stand in front of a reshape as behind it: moves it up in front of all reshapes, so that it
 * can join the operation there. */
static clq_node *move_above_reshapes(clq_graph *graph, clq_node *node) {
    for (clq_node *above; (above = clq_graph_sole_maker(graph, node->inputs[0])) && above->op == &clq_op_reshape;
         node = above) {
        clq_graph_value *between = clq_graph_value_at(graph, above->outputs[0]);
        const clq_graph_value *from = clq_graph_value_at(graph, above->inputs[0]);
        const clq_node reshape = *above;
        above->op = node->op;
        above->attributes = node->attributes;
        memcpy(above->scope, node->scope, sizeof above->scope);
        between->shape = from->shape;
        node->op = reshape.op;
        node->attributes = reshape.attributes;
        memcpy(node->scope, reshape.scope, sizeof node->scope);
    }
    return node;
}

/* The activation that the node is; LINEAR: it is none. */
static clq_activation activation_of(const clq_node *node) {
    return clq_element_single_activation(&node->attributes.program);
}

/* Fuses an activation into the operation in front of it, if that applies none yet. last: into operations with
 * CLQ_OP_JOINS_LAST; otherwise only into operations without. */
static void join_to(clq_graph *graph, clq_node *node, bool last) {
    if (activation_of(node) == CLQ_ACTIVATION_LINEAR) return;
    if (!last) node = move_above_reshapes(graph, node);
    clq_node *maker = clq_graph_sole_maker(graph, node->inputs[0]);
    clq_activation *activation = maker && maker->op->activation ? maker->op->activation(maker) : NULL;
    if (!activation || *activation != CLQ_ACTIVATION_LINEAR || ((maker->op->traits & CLQ_OP_JOINS_LAST) != 0) != last)
        return;
    *activation = activation_of(node);
    maker->outputs[0] = node->outputs[0];
    clq_graph_value_at(graph, node->outputs[0])->maker = (uint32_t)(maker - graph->nodes) + 1;
    node->op = NULL;
}
static void join_first(clq_graph *graph, clq_node *node, const clq_pass_context *context) {
    (void)context;
    join_to(graph, node, false);
}
static void join_last(clq_graph *graph, clq_node *node, const clq_pass_context *context) {
    (void)context;
    join_to(graph, node, true);
}
const clq_fusion clq_fusion_activation = {.last = &clq_op_elementwise, .join = join_first},
                 clq_fusion_last_activation = {.last = &clq_op_elementwise, .join = join_last};
