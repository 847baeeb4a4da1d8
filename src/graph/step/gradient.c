/* Operations that change the gradient alone: their output lies in the input's memory. */
#include "graph/step/step.h"

#include <stdio.h>

const clq_operation clq_op_stop_gradient = {
    .name = "stop_gradient", .traits = CLQ_OP_ALIAS | CLQ_OP_AGAIN | CLQ_OP_STOPS, .split = clq_split_alike};

/* factor * dy */
static void scale_gradient(clq_derivation *d) {
    clq_node node = clq_graph_node_like(&d->node, &clq_op_elementwise, CLQ_SEGMENT_BACKWARD, CLQ_IDS(d->dy[0]));
    clq_element_program *p = &node.attributes.program;
    const unsigned dy = clq_element_take(p, clq_each_element);
    p->outputs[p->output_count++].from = clq_element_do(
        p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = dy, .number = (double)d->node.attributes.factor});
    node.outputs[0] = d->dx[0] = clq_graph_add_gradient(d->graph, d->node.inputs[0]);
    clq_graph_add_node(d->graph, &node);
}
const clq_operation clq_op_scale_gradient = {.name = "scale_gradient",
                                             .traits = CLQ_OP_ALIAS | CLQ_OP_AGAIN,
                                             .differentiate = scale_gradient,
                                             .split = clq_split_alike};

clq_id clq_add_zeros(clq_graph *graph, clq_id like, clq_home home) {
    clq_graph_value zeros = *clq_graph_value_at(graph, like);
    clq_node node = {.op = &clq_op_elementwise, .segment = CLQ_SEGMENT_BACKWARD};
    clq_element_program *p = &node.attributes.program;
    (void)snprintf(node.scope, sizeof node.scope, "%s", zeros.name);
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT});
    zeros.home = home;
    node.outputs[0] = clq_graph_add_value(graph, &zeros);
    return clq_graph_add_node(graph, &node);
}
