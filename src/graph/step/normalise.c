/* Batch normalisation: the statistics of a batch, or those that training kept, and what is made of them. */
#include "graph/step/step.h"

/* inputs: x; outputs: the moments of its channels */
static void emit_moments(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                         clq_value *out) {
    (void)graph;
    const clq_normalisation *n = &node->attributes.normalise;
    clq_normalise_moments(list, &n->problem, in[0], n->exchange.rank, clq_exchange_ranks(&n->exchange), out[0]);
}
const clq_operation clq_op_moments = {.name = "moments", .emit = emit_moments};

/* inputs: moments, gamma, moving mean, moving variance; outputs: statistics, and the moving ones, where they were */
static void emit_statistics(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                            clq_value *out) {
    (void)graph;
    const clq_normalisation *n = &node->attributes.normalise;
    clq_normalise_statistics(list, &n->problem, in[0], clq_exchange_ranks(&n->exchange), in[1], in[2], in[3], out[0]);
}
const clq_operation clq_op_statistics = {.name = "statistics", .emit = emit_statistics};

/* inputs: gamma, moving mean, moving variance; outputs: statistics */
static void emit_moving_statistics(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                   clq_value *out) {
    (void)graph;
    clq_normalise_moving(list, &node->attributes.normalise.problem, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_moving_statistics = {.name = "moving_statistics", .emit = emit_moving_statistics};

static clq_id add_rows(clq_graph *graph, const clq_node *node, size_t rows, const char *name) {
    const size_t channels = node->attributes.normalise.problem.channels;
    const clq_shape shape = rows > 1 ? CLQ_SHAPE(rows, channels) : CLQ_SHAPE(channels);
    return clq_graph_add_value(
        graph, &(clq_graph_value){.name = name, .dtype = CLQ_F32, .shape = shape, .elements = rows * channels});
}

/* Of the global batch: what ranks have added up. */
static clq_id add_corrections(clq_graph *graph, const clq_node *sums) {
    const clq_normalisation *n = &sums->attributes.normalise;
    clq_node node = clq_graph_backward_node(sums, &clq_op_normalise_corrections);
    node.inputs[0] = sums->inputs[2];
    node.inputs[1] = sums->outputs[0];
    node.inputs[2] = sums->outputs[1];
    node.outputs[0] = add_rows(graph, sums, CLQ_CORRECTIONS_ROWS, "corrections");
    clq_graph_add_node(graph, &node);
    return clq_add_all_reduce(graph, sums, node.outputs[0], &n->exchange);
}

/* inputs: x, statistics, beta, and gamma, which the statistics hold already: its gradient belongs here */
static void normalise_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    clq_node sums = clq_graph_backward_node(&node, &clq_op_normalise_sums),
             back = clq_graph_backward_node(&node, &clq_op_normalise_gradient);
    sums.inputs[0] = back.inputs[0] = node.inputs[0];
    sums.inputs[1] = back.inputs[1] = dy[0];
    sums.inputs[2] = back.inputs[2] = node.inputs[1];
    sums.outputs[0] = add_rows(graph, &node, 1, "gamma gradient");
    sums.outputs[1] = add_rows(graph, &node, 1, "beta gradient");
    if (node.inputs[2]) dx[2] = sums.outputs[1];
    if (node.inputs[3]) dx[3] = sums.outputs[0];
    clq_graph_add_node(graph, &sums);
    if (!wants[0]) return;
    back.inputs[3] = add_corrections(graph, &sums);
    back.outputs[0] = dx[0] = clq_graph_add_like(graph, node.inputs[0], "gradient");
    clq_graph_add_node(graph, &back);
}
static void emit_normalise(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                           clq_value *out) {
    (void)graph;
    clq_normalise_forward(list, &node->attributes.normalise.problem, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_normalise = {
    .name = "normalise", .overwrites = 1, .differentiate = normalise_gradient, .emit = emit_normalise};

/* inputs: x, dy, statistics; outputs: the gradients of gamma and beta */
static void emit_normalise_sums(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                clq_value *out) {
    (void)graph;
    clq_normalise_gradients(list, &node->attributes.normalise.problem, in[0], in[1], in[2], out[0], out[1]);
}
const clq_operation clq_op_normalise_sums = {.name = "normalise_sums", .emit = emit_normalise_sums};

/* inputs: statistics, the gradients of gamma and beta; outputs: what the gradients of mean and variance take from dx */
static void emit_normalise_corrections(clq_list *list, const clq_graph *graph, const clq_node *node,
                                       const clq_value *in, clq_value *out) {
    (void)graph;
    clq_normalise_corrections(list, &node->attributes.normalise.problem, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_normalise_corrections = {.name = "normalise_corrections",
                                                    .emit = emit_normalise_corrections};

/* inputs: x, dy, statistics, corrections */
static void emit_normalise_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                    clq_value *out) {
    (void)graph;
    clq_normalise_backward(list, &node->attributes.normalise.problem, in[0], in[1], in[2], in[3], out[0]);
}
const clq_operation clq_op_normalise_gradient = {
    .name = "normalise_gradient", .overwrites = 2, .emit = emit_normalise_gradient};
