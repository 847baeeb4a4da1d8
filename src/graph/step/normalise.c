/* Batch normalisation: the statistics of a batch, or those that training kept, and what is made of them. */
#include "graph/step/step.h"

/* inputs: x; outputs: the moments of its channels */
static void emit_moments(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                         clq_value *out) {
    (void)graph;
    clq_normalise_moments(list, &node->attributes.normalise, in[0], 0, 1, out[0]);
}
const clq_operation clq_op_moments = {.name = "moments", .emit = emit_moments};

/* inputs: moments, gamma, moving mean, moving variance; outputs: statistics, and the moving ones, where they were */
static void emit_statistics(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                            clq_value *out) {
    (void)graph;
    clq_normalise_statistics(list, &node->attributes.normalise, in[0], 1, in[1], in[2], in[3], out[0]);
}
const clq_operation clq_op_statistics = {.name = "statistics", .emit = emit_statistics};

/* inputs: gamma, moving mean, moving variance; outputs: statistics */
static void emit_moving_statistics(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                   clq_value *out) {
    (void)graph;
    clq_normalise_moving(list, &node->attributes.normalise, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_moving_statistics = {.name = "moving_statistics", .emit = emit_moving_statistics};

/* A gradient of one number for each channel. */
static clq_id add_channels(clq_graph *graph, const clq_node *node, const char *name) {
    const size_t channels = node->attributes.normalise.channels;
    return clq_graph_add_value(
        graph, &(clq_graph_value){.name = name, .dtype = CLQ_F32, .shape = CLQ_SHAPE(channels), .elements = channels});
}

/* inputs: x, statistics, beta, and gamma, which the statistics hold already: its gradient belongs here */
static void normalise_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    clq_node sums = clq_graph_backward_node(&node, &clq_op_normalise_sums),
             back = clq_graph_backward_node(&node, &clq_op_normalise_gradient);
    sums.inputs[0] = back.inputs[0] = node.inputs[0];
    sums.inputs[1] = back.inputs[1] = dy[0];
    sums.inputs[2] = back.inputs[2] = node.inputs[1];
    sums.outputs[0] = back.inputs[3] = add_channels(graph, &node, "gamma gradient");
    sums.outputs[1] = back.inputs[4] = add_channels(graph, &node, "beta gradient");
    if (node.inputs[2]) dx[2] = sums.outputs[1];
    if (node.inputs[3]) dx[3] = sums.outputs[0];
    clq_graph_add_node(graph, &sums);
    if (!wants[0]) return;
    back.outputs[0] = dx[0] = clq_graph_add_like(graph, node.inputs[0], "gradient");
    clq_graph_add_node(graph, &back);
}
static void emit_normalise(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                           clq_value *out) {
    (void)graph;
    clq_normalise_forward(list, &node->attributes.normalise, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_normalise = {
    .name = "normalise", .overwrites = 1, .differentiate = normalise_gradient, .emit = emit_normalise};

/* inputs: x, dy, statistics; outputs: the gradients of gamma and beta */
static void emit_normalise_sums(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                clq_value *out) {
    (void)graph;
    clq_normalise_gradients(list, &node->attributes.normalise, in[0], in[1], in[2], out[0], out[1]);
}
const clq_operation clq_op_normalise_sums = {.name = "normalise_sums", .emit = emit_normalise_sums};

/* inputs: x, dy, statistics, the gradients of gamma and beta */
static void emit_normalise_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                    clq_value *out) {
    (void)graph;
    clq_normalise_backward(list, &node->attributes.normalise, in[0], in[1], in[2], in[3], in[4], out[0]);
}
const clq_operation clq_op_normalise_gradient = {
    .name = "normalise_gradient", .overwrites = 2, .emit = emit_normalise_gradient};
