/* A convolution and the max pooling that alone reads it, as one operation. */
#include "graph/step/parts.h"
#include "graph/step/products.h"

#include <stdio.h>

enum { FRAMES = 2 }; /* the output that holds the frames */

/* inputs: frames, x, w, dz, winners. The forward pass keeps the frames, too. */
static void conv_pool_gradient(clq_derivation *d) {
    const clq_conv_pool_problem *p = &d->node.attributes.conv_pool;
    const clq_id *in = d->node.inputs;
    const clq_id winners = clq_add_winners(d, &p->pool), frames = clq_graph_add_like(d->graph, in[0], "frames");
    d->node.outputs[FRAMES] = frames;
    const clq_id dz = clq_add_slope(d, p->conv.activation);
    clq_add_product_gradients(d, &clq_op_conv_pool_gradient, CLQ_IDS(frames, in[0], in[1], dz, winners));
}
static void emit_conv_pool(clq_emission *e) {
    const clq_conv_pool_problem *p = &e->node->attributes.conv_pool;
    e->out[FRAMES] = clq_conv_pool_frames(e->list, p, e->in[0]);
    clq_conv_pool_forward(e->list, p, e->out[FRAMES], e->in[1], e->in[2], e->out[0], e->out[1]);
}
/* Adds the two operations. */
static bool lower(clq_graph *graph, const clq_node *node) {
    const clq_conv_pool_problem *p = &node->attributes.conv_pool;
    const clq_parts parts = {.graph = graph, .of = node, .name = "convolution"};
    clq_node conv = clq_part_node(&parts, &clq_op_conv2d, node->inputs), pool;
    conv.attributes.conv2d = p->conv;
    pool = clq_part_node(&parts, &clq_op_pool2d,
                         CLQ_IDS(clq_part_add(&parts, conv, CLQ_SHAPE(p->conv.out_h, p->conv.out_w, p->conv.out_c))));
    pool.attributes.pool2d = p->pool;
    pool.outputs[0] = node->outputs[0];
    clq_graph_add_node(graph, &pool);
    return true;
}
static double conv_pool_work(const clq_node *node) { return clq_conv2d_work_of(&node->attributes.conv_pool.conv); }
/* Frames without padding are the images themselves. */
static bool frames_are_x(const clq_node *node) { return !clq_conv_pool_is_padded(&node->attributes.conv_pool); }
static bool conv_pool_is_alias(const clq_node *node, unsigned output) { return output == FRAMES && frames_are_x(node); }
const clq_operation clq_op_conv_pool = {.name = "conv_pool",
                                        .traits = CLQ_OP_AGAIN,
                                        .makes = 1 << FRAMES,
                                        .types = CLQ_WINNER_TYPES,
                                        .stores = clq_product_stores,
                                        .differentiate = conv_pool_gradient,
                                        .emit = emit_conv_pool,
                                        .work = conv_pool_work,
                                        .lower = lower,
                                        .is_alias = conv_pool_is_alias,
                                        .alone = {[FRAMES] = &clq_op_frames}};

/* Makes only the frames of a convolution with its pooling. inputs: x */
static void emit_frames(clq_emission *e) {
    e->out[0] = clq_conv_pool_frames(e->list, &e->node->attributes.conv_pool, e->in[0]);
}
static bool frames_is_alias(const clq_node *node, unsigned output) { return output == 0 && frames_are_x(node); }
const clq_operation clq_op_frames = {
    .name = "frames", .makes = 1 << 0, .stores = clq_stores_all, .emit = emit_frames, .is_alias = frames_is_alias};

static void emit_conv_pool_gradient(clq_emission *e) {
    clq_conv_pool_backward(e->list, &e->node->attributes.conv_pool, e->in[0], e->in[1], e->in[2], e->in[3], e->in[4],
                           e->out[0], e->out[1]);
}
const clq_operation clq_op_conv_pool_gradient = {.name = "conv_pool_gradient",
                                                 .types = CLQ_WINNER_TYPES,
                                                 .stores = clq_product_gradient_stores,
                                                 .emit = emit_conv_pool_gradient};

/* ---- the pattern ---- */

/* Whether to make one operation of the two, if that is possible. */
static bool ask(const clq_pass_context *context, const clq_conv_pool_problem *p) {
    const clq_conv2d_problem *c = &p->conv;
    const clq_pool2d_problem *q = &p->pool;
    bool pays = clq_conv_pool_pays(context->list, p);
    clq_choice choice;
    clq_choice_start(&choice, "conv + pool %ux%zux%zux%zu by %zux%zu/%zux%zu to %zux%zux%zu by %zux%zu/%zux%zu%s%s%s",
                     clq_list_capacity(context->list), c->in_h, c->in_w, c->in_c, c->kernel_h, c->kernel_w, c->stride_h,
                     c->stride_w, c->out_h, c->out_w, c->out_c, q->size_h, q->size_w, q->stride_h, q->stride_w,
                     context->config->update ? "" : ", forward", context->config->activations ? ", " : "",
                     context->config->activations ? clq_dtype_name(context->config->activations) : "");
    if (pays) clq_choice_add(&choice, true, 0, "one");
    clq_choice_add(&choice, false, 0, "apart");
    clq_choice_add(&choice, true, 0, "one");
    return clq_list_select(context->list, &choice)->values[0];
}

static void join(clq_graph *graph, clq_node *pool, const clq_pass_context *context) {
    if (pool->attributes.pool2d.average) return;
    clq_node *conv = clq_graph_sole_maker(graph, pool->inputs[0]);
    if (!conv || conv->op != &clq_op_conv2d) return;
    const clq_conv_pool_problem p = {.conv = conv->attributes.conv2d, .pool = pool->attributes.pool2d};
    if (!clq_conv_pool_fits(context->list, &p) || !ask(context, &p)) return;
    clq_node both = *conv;
    both.op = &clq_op_conv_pool;
    both.attributes.conv_pool = p;
    both.outputs[0] = pool->outputs[0];
    (void)snprintf(both.scope, sizeof both.scope, "%.*s + %.*s", CLQ_LAYER_NAME_MAX, conv->scope, CLQ_LAYER_NAME_MAX,
                   pool->scope);
    *pool = both;
    conv->op = NULL;
}
const clq_fusion clq_fusion_conv_pool = {.last = &clq_op_pool2d, .join = join};
