/* Batch normalisation: the statistics of a batch, or those that training kept, and what is made of them. */
#include "graph/step/step.h"

/* ---- which values may have 16 bits: samples, not what is by channel ---- */

static bool x_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list;
    (void)node;
    (void)dtype;
    return value == 0 || value == CLQ_NODE_INPUTS;
}

static bool x_and_dy_store(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    return x_stores(list, node, value, dtype) || value == 1;
}

/* inputs: x; outputs: the moments of its channels */
static void emit_moments(clq_emission *e) {
    const clq_normalisation *n = &e->node->attributes.normalise;
    clq_normalise_moments(e->list, &n->problem, e->in[0], n->exchange.rank, clq_step_sum_ranks(&n->exchange),
                          e->out[0]);
}
static bool moments_store(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    return value == 0 && x_stores(list, node, value, dtype);
}
const clq_operation clq_op_moments = {.name = "moments", .stores = moments_store, .emit = emit_moments};

/* inputs: moments, gamma, moving mean, moving variance; outputs: statistics, and the new moving ones, in place */
static void emit_statistics(clq_emission *e) {
    const clq_normalisation *n = &e->node->attributes.normalise;
    clq_normalise_statistics(e->list, &n->problem, e->in[0], clq_step_sum_ranks(&n->exchange), e->in[1], e->in[2],
                             e->in[3], e->out[0]);
}
const clq_operation clq_op_statistics = {.name = "statistics", .emit = emit_statistics};

/* inputs: gamma, moving mean, moving variance; outputs: statistics */
static void emit_moving_statistics(clq_emission *e) {
    clq_normalise_moving(e->list, &e->node->attributes.normalise.problem, e->in[0], e->in[1], e->in[2], e->out[0]);
}
const clq_operation clq_op_moving_statistics = {.name = "moving_statistics", .emit = emit_moving_statistics};

clq_id clq_add_channel_rows(clq_graph *graph, const clq_node *node, size_t rows, const char *name) {
    const size_t channels = node->attributes.normalise.problem.channels;
    const clq_shape shape = rows > 1 ? CLQ_SHAPE(rows, channels) : CLQ_SHAPE(channels);
    return clq_graph_add_value(
        graph, &(clq_graph_value){.name = name, .dtype = CLQ_F32, .shape = shape, .elements = rows * channels});
}

/* The corrections of the global batch: the sum of all ranks' corrections. */
static clq_id add_corrections(clq_graph *graph, const clq_node *sums) {
    clq_node node = clq_graph_backward_node(sums, &clq_op_normalise_corrections,
                                            CLQ_IDS(sums->inputs[2], sums->outputs[0], sums->outputs[1]));
    node.outputs[0] = clq_add_channel_rows(graph, sums, CLQ_CORRECTIONS_ROWS, "corrections");
    return clq_add_all_reduce(graph, sums, clq_graph_add_node(graph, &node), &sums->attributes.normalise.exchange);
}

/* inputs: x, statistics, beta, gamma. The statistics hold gamma already: it is an input to get its gradient here. */
static void normalise_gradient(clq_derivation *d) {
    const clq_id *in = d->node.inputs;
    clq_node sums = clq_graph_backward_node(&d->node, &clq_op_normalise_sums, CLQ_IDS(in[0], d->dy[0], in[1]));
    sums.outputs[0] = clq_add_channel_rows(d->graph, &sums, 1, "gamma gradient");
    sums.outputs[1] = clq_add_channel_rows(d->graph, &sums, 1, "beta gradient");
    if (in[2]) d->dx[2] = sums.outputs[1];
    if (in[3]) d->dx[3] = sums.outputs[0];
    clq_graph_add_node(d->graph, &sums);
    if (!d->wants[0]) return;
    const clq_id corrections = add_corrections(d->graph, &sums);
    clq_add_gradient(d, &clq_op_normalise_gradient, CLQ_IDS(in[0], d->dy[0], in[1], corrections));
}
static void emit_normalise(clq_emission *e) {
    clq_normalise_forward(e->list, &e->node->attributes.normalise.problem, e->in[0], e->in[1], e->in[2], e->out[0]);
}
const clq_operation clq_op_normalise = {.name = "normalise",
                                        .traits = CLQ_OP_AGAIN,
                                        .overwrites = 1,
                                        .stores = x_stores,
                                        .differentiate = normalise_gradient,
                                        .emit = emit_normalise};

/* inputs: x, dy, statistics; outputs: the gradients of gamma and beta */
static void emit_normalise_sums(clq_emission *e) {
    clq_normalise_gradients(e->list, &e->node->attributes.normalise.problem, e->in[0], e->in[1], e->in[2], e->out[0],
                            e->out[1]);
}
static bool sums_store(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    return value < CLQ_NODE_INPUTS && x_and_dy_store(list, node, value, dtype);
}
const clq_operation clq_op_normalise_sums = {
    .name = "normalise_sums", .stores = sums_store, .emit = emit_normalise_sums};

/* inputs: statistics, the gradients of gamma and beta; outputs: what the gradients of mean and variance take from dx */
static void emit_normalise_corrections(clq_emission *e) {
    clq_normalise_corrections(e->list, &e->node->attributes.normalise.problem, e->in[0], e->in[1], e->in[2], e->out[0]);
}
const clq_operation clq_op_normalise_corrections = {.name = "normalise_corrections",
                                                    .emit = emit_normalise_corrections};

/* inputs: x, dy, statistics, corrections */
static void emit_normalise_gradient(clq_emission *e) {
    clq_normalise_backward(e->list, &e->node->attributes.normalise.problem, e->in[0], e->in[1], e->in[2], e->in[3],
                           e->out[0]);
}
const clq_operation clq_op_normalise_gradient = {
    .name = "normalise_gradient", .overwrites = 2, .stores = x_and_dy_store, .emit = emit_normalise_gradient};
