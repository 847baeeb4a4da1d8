/* The operations: how each is differentiated, and how it becomes launches. */
#include "graph/step/step.h"

#include <string.h>

/* ---- helpers of derivatives ---- */

static clq_id gradient_like(clq_graph *graph, clq_id like) {
    return clq_graph_add_like(graph, like,
                              clq_graph_value_at(graph, like)->home == CLQ_HOME_WEIGHT ? NULL : "gradient");
}

/* ---- input and reshapes ---- */

static size_t elements_of(const clq_graph *graph, clq_id id) { return clq_graph_value_at(graph, id)->elements; }
static size_t channels_of(const clq_graph *graph, clq_id id) {
    const clq_shape *shape = &clq_graph_value_at(graph, id)->shape;
    return shape->dims[shape->rank - 1];
}

static void emit_scale_bytes(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                             clq_value *out) {
    clq_input_u8(list, elements_of(graph, node->inputs[0]), in[0], out[0]);
}
const clq_operation clq_op_scale_bytes = {
    .name = "scale_bytes", .types = CLQ_OP_TYPE(CLQ_U8), .emit = emit_scale_bytes};

static void reshape_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    clq_node back = clq_graph_backward_node(&node, &clq_op_reshape);
    (void)wants;
    back.inputs[0] = dy[0];
    back.outputs[0] = dx[0] = gradient_like(graph, node.inputs[0]);
    clq_graph_add_node(graph, &back);
}
const clq_operation clq_op_reshape = {.name = "reshape", .traits = CLQ_OP_ALIAS, .differentiate = reshape_gradient};

/* ---- products ---- */

/* From dz, the gradient before the activation: dx and dw. inputs: x, w, dz. */
static void product_gradient(clq_graph *graph, const clq_node *node, const clq_operation *op, clq_activation activation,
                             clq_id dy, const bool *wants, clq_id *dx) {
    clq_id dz = clq_add_slope(graph, node, activation, node->outputs[0], dy, node->inputs[2], &dx[2]);
    clq_node back = clq_graph_backward_node(node, op);
    back.inputs[0] = node->inputs[0];
    back.inputs[1] = node->inputs[1];
    back.inputs[2] = dz;
    if (wants[0]) back.outputs[0] = dx[0] = gradient_like(graph, node->inputs[0]);
    back.outputs[1] = dx[1] = gradient_like(graph, node->inputs[1]);
    clq_graph_add_node(graph, &back);
}

static void dense_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    product_gradient(graph, &node, &clq_op_dense_gradient, node.attributes.dense.activation, dy[0], wants, dx);
}
static void emit_dense(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                       clq_value *out) {
    (void)graph;
    clq_dense_forward(list, &node->attributes.dense, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_dense = {.name = "dense", .differentiate = dense_gradient, .emit = emit_dense};

static void emit_dense_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                clq_value *out) {
    (void)graph;
    clq_dense_problem p = node->attributes.dense;
    p.activation = CLQ_LINEAR;
    clq_dense_backward(list, &p, in[0], in[1], in[2], out[0], out[1]);
}
const clq_operation clq_op_dense_gradient = {.name = "dense_gradient", .emit = emit_dense_gradient};

static void conv2d_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    product_gradient(graph, &node, &clq_op_conv2d_gradient, node.attributes.conv2d.activation, dy[0], wants, dx);
}
static void emit_conv2d(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                        clq_value *out) {
    (void)graph;
    clq_conv2d_forward(list, &node->attributes.conv2d, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_conv2d = {.name = "conv2d", .differentiate = conv2d_gradient, .emit = emit_conv2d};

static void emit_conv2d_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                 clq_value *out) {
    (void)graph;
    clq_conv2d_problem p = node->attributes.conv2d;
    p.activation = CLQ_LINEAR;
    clq_conv2d_backward(list, &p, in[0], in[1], in[2], out[0], out[1]);
}
const clq_operation clq_op_conv2d_gradient = {.name = "conv2d_gradient", .emit = emit_conv2d_gradient};

/* ---- pooling ---- */

/* Which element of its window each maximum was: noted by the forward pass for the backward pass alone. */
static clq_id add_winners(clq_graph *graph, uint32_t n, const clq_pool2d_problem *p) {
    clq_graph_value winners = *clq_graph_value_at(graph, graph->nodes[n].outputs[0]);
    winners.name = "winners";
    winners.dtype = p->size_h * p->size_w <= 256 ? CLQ_U8 : CLQ_I32;
    winners.home = CLQ_HOME_STEP;
    clq_id id = clq_graph_add_value(graph, &winners);
    graph->nodes[n].outputs[1] = id;
    return id;
}

/* inputs: y, dy, winners */
static void pool2d_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    const clq_pool2d_problem *p = &node.attributes.pool2d;
    clq_node back = clq_graph_backward_node(&node, &clq_op_pool2d_gradient);
    (void)wants;
    back.inputs[0] = p->activation == CLQ_LINEAR ? 0 : node.outputs[0];
    back.inputs[1] = dy[0];
    back.inputs[2] = p->average ? 0 : add_winners(graph, n, p);
    back.outputs[0] = dx[0] = gradient_like(graph, node.inputs[0]);
    clq_graph_add_node(graph, &back);
}
static void emit_pool2d(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                        clq_value *out) {
    (void)graph;
    clq_pool2d_forward(list, &node->attributes.pool2d, in[0], out[0], out[1]);
}
enum { WINNER_TYPES = CLQ_OP_TYPE(CLQ_U8) | CLQ_OP_TYPE(CLQ_I32) };
const clq_operation clq_op_pool2d = {
    .name = "pool2d", .types = WINNER_TYPES, .differentiate = pool2d_gradient, .emit = emit_pool2d};

static void emit_pool2d_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                 clq_value *out) {
    (void)graph;
    clq_pool2d_backward(list, &node->attributes.pool2d, in[0], in[1], in[2], out[0]);
}
const clq_operation clq_op_pool2d_gradient = {
    .name = "pool2d_gradient", .types = WINNER_TYPES, .emit = emit_pool2d_gradient};

/* ---- a convolution with its pooling ---- */

/* inputs: frames, x, w, dz, winners. The forward pass keeps the frames, too. */
static void conv_pool_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_conv_pool_problem p = graph->nodes[n].attributes.conv_pool;
    const clq_id winners = add_winners(graph, n, &p.pool);
    const clq_id frames = clq_graph_add_like(graph, graph->nodes[n].inputs[0], "frames");
    graph->nodes[n].outputs[2] = frames;
    const clq_node node = graph->nodes[n];
    clq_id dz = clq_add_slope(graph, &node, p.conv.activation, node.outputs[0], dy[0], node.inputs[2], &dx[2]);
    clq_node back = clq_graph_backward_node(&node, &clq_op_conv_pool_gradient);
    const clq_id inputs[] = {frames, node.inputs[0], node.inputs[1], dz, winners};
    memcpy(back.inputs, inputs, sizeof inputs);
    if (wants[0]) back.outputs[0] = dx[0] = gradient_like(graph, node.inputs[0]);
    back.outputs[1] = dx[1] = gradient_like(graph, node.inputs[1]);
    clq_graph_add_node(graph, &back);
}
static void emit_conv_pool(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                           clq_value *out) {
    (void)graph;
    const clq_conv_pool_problem *p = &node->attributes.conv_pool;
    out[2] = clq_conv_pool_frames(list, p, in[0]);
    clq_conv_pool_forward(list, p, out[2], in[1], in[2], out[0], out[1]);
}
const clq_operation clq_op_conv_pool = {.name = "conv_pool",
                                        .makes = 1 << 2,
                                        .types = WINNER_TYPES,
                                        .differentiate = conv_pool_gradient,
                                        .emit = emit_conv_pool};

static void emit_conv_pool_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                    clq_value *out) {
    (void)graph;
    clq_conv_pool_backward(list, &node->attributes.conv_pool, in[0], in[1], in[2], in[3], in[4], out[0], out[1]);
}
const clq_operation clq_op_conv_pool_gradient = {
    .name = "conv_pool_gradient", .types = WINNER_TYPES, .emit = emit_conv_pool_gradient};

/* ---- softmax ---- */

/* inputs: y, dy; outputs: dz, and db where the sums over rows are wanted */
static void softmax_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    clq_node back = clq_graph_backward_node(&node, &clq_op_softmax_gradient);
    (void)wants;
    back.inputs[0] = node.outputs[0];
    back.inputs[1] = dy[0];
    back.outputs[0] = dx[0] = gradient_like(graph, node.inputs[0]);
    clq_graph_add_node(graph, &back);
}
static void emit_softmax(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                         clq_value *out) {
    const clq_id x = node->inputs[0];
    clq_softmax_forward(list, elements_of(graph, x), channels_of(graph, x), in[0], out[0]);
}
const clq_operation clq_op_softmax = {
    .name = "softmax", .overwrites = 1, .differentiate = softmax_gradient, .emit = emit_softmax};

static void emit_softmax_gradient(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                                  clq_value *out) {
    const clq_id dy = node->inputs[1];
    clq_softmax_backward(list, elements_of(graph, dy), channels_of(graph, dy), in[0], in[1], out[0], out[1]);
}
const clq_operation clq_op_softmax_gradient = {
    .name = "softmax_gradient", .overwrites = 2, .emit = emit_softmax_gradient};

/* ---- loss, norms and update ---- */

static void loss_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    (void)dy;
    (void)wants;
    dx[0] = gradient_like(graph, graph->nodes[n].inputs[0]);
    graph->nodes[n].outputs[1] = dx[0]; /* the kernel makes it with the loss */
}
static void emit_loss(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                      clq_value *out) {
    (void)graph;
    clq_loss_and_metrics(list, &node->attributes.loss, in[0], in[1], out[1], out[0]);
}
const clq_operation clq_op_loss = {.name = "loss",
                                   .traits = CLQ_OP_LOSS,
                                   .types = CLQ_OP_TYPE(CLQ_I32),
                                   .differentiate = loss_gradient,
                                   .emit = emit_loss};

static void emit_square_sum(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                            clq_value *out) {
    clq_square_sum(list, elements_of(graph, node->inputs[0]), in[0], 0, out[0],
                   clq_graph_value_at(graph, node->outputs[0])->index);
}
const clq_operation clq_op_square_sum = {.name = "square_sum", .emit = emit_square_sum};

/* inputs: parameters, gradients, optimizer slots. Parameters and slots are written where they are. */
static void emit_update(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                        clq_value *out) {
    (void)out;
    clq_update_arenas arenas = {.w = in[0], .g = in[1], .floats = elements_of(graph, node->inputs[0])};
    for (unsigned i = 0; i < CLQ_UPDATE_STATES_MAX && 2 + i < CLQ_NODE_INPUTS; i++) arenas.states[i] = in[2 + i];
    clq_update(list, &node->attributes.update, &arenas);
}
const clq_operation clq_op_update = {.name = "update", .emit = emit_update};
