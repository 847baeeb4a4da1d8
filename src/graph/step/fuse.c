/* Operations that are faster as one: a convolution and the max pooling that alone reads it; a product or a pooling and
 * the activation behind it; elementwise operations (fuse_elements.c); gradients and their sums. A value that anybody
 * else reads is never taken away. */
#include "graph/step/step.h"

#include <stdio.h>
#include <string.h>

/* The node that writes a value which nothing but one node reads; NULL where it comes from outside or others read it. */
static clq_node *sole_maker(const clq_graph *graph, clq_id id) {
    const clq_graph_value *value = clq_graph_value_at(graph, id);
    return value->readers == 1 && value->maker ? &graph->nodes[value->maker - 1] : NULL;
}

/* An activation of a reshaped value is a reshaped activation: it moves up to what it can join. */
static clq_node *move_above_reshapes(clq_graph *graph, clq_node *node) {
    for (clq_node *above; (above = sole_maker(graph, node->inputs[0])) && above->op == &clq_op_reshape; node = above) {
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
static clq_activation is_activation(const clq_node *node) {
    return node->op == &clq_op_elementwise ? clq_element_single_activation(&node->attributes.program) : CLQ_LINEAR;
}

/* What the operation in front, which is a pooling or none, stores passes through the activation first. */
static void join_activations(clq_graph *graph, bool poolings) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        clq_node *node = &graph->nodes[n];
        if (is_activation(node) == CLQ_LINEAR) continue;
        if (!poolings) node = move_above_reshapes(graph, node);
        clq_node *maker = sole_maker(graph, node->inputs[0]);
        clq_activation *activation = maker && maker->op->activation ? maker->op->activation(maker) : NULL;
        if (!activation || *activation != CLQ_LINEAR || (maker->op == &clq_op_pool2d) != poolings) continue;
        *activation = is_activation(node);
        maker->outputs[0] = node->outputs[0];
        clq_graph_value_at(graph, node->outputs[0])->maker = (uint32_t)(maker - graph->nodes) + 1;
        node->op = NULL;
    }
}

/* ---- convolutions with a pooling ---- */

/* Whether the two are to be one, where they can. */
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

static void join_pools(clq_graph *graph, const clq_pass_context *context) {
    for (uint32_t n = 0; n < graph->node_count; n++) {
        clq_node *pool = &graph->nodes[n], *conv;
        if (pool->op != &clq_op_pool2d || pool->attributes.pool2d.average) continue;
        conv = sole_maker(graph, pool->inputs[0]);
        if (!conv || conv->op != &clq_op_conv2d) continue;
        const clq_conv_pool_problem p = {.conv = conv->attributes.conv2d, .pool = pool->attributes.pool2d};
        if (!clq_conv_pool_fits(context->list, &p) || !ask(context, &p)) continue;
        clq_node both = *conv;
        both.op = &clq_op_conv_pool;
        both.attributes.conv_pool = p;
        both.outputs[0] = pool->outputs[0];
        (void)snprintf(both.scope, sizeof both.scope, "%.*s + %.*s", CLQ_LAYER_NAME_MAX, conv->scope,
                       CLQ_LAYER_NAME_MAX, pool->scope);
        *pool = both;
        conv->op = NULL;
    }
}

void clq_graph_fuse(clq_graph *graph, const clq_pass_context *context) {
    clq_graph_find_uses(graph);
    join_activations(graph, false);
    join_pools(graph, context);
    join_activations(graph, true);
    clq_graph_fuse_elements(graph);
}

/* ---- gradients ---- */

/* Sums alone, of a gradient that is stored. */
static bool is_sum(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    return node->op == &clq_op_elementwise && p->output_count == 0 && p->sum_count == 1 && p->instruction_count == 1;
}

/* The sums of a gradient are made with it. */
static void join_sums(clq_graph *graph, clq_node *node) {
    const uint32_t maker = clq_graph_value_at(graph, node->inputs[0])->maker;
    if (!maker) return;
    clq_node *before = &graph->nodes[maker - 1];
    if (before->op == &clq_op_softmax_gradient && !before->outputs[1]) {
        before->outputs[1] = node->outputs[0];
        node->op = NULL;
    } else if (before->op == &clq_op_elementwise && before->attributes.program.output_count > 0) {
        clq_element_program *p = &before->attributes.program;
        size_t place = 0;
        if (p->sum_count == CLQ_ELEMENT_SUMS || p->output_count + p->sum_count == CLQ_ELEMENT_RESULTS) return;
        while (before->outputs[place] != node->inputs[0]) place++;
        if (place >= p->output_count) return; /* a sum of sums */
        before->outputs[p->output_count + p->sum_count] = node->outputs[0];
        p->sums[p->sum_count++] = p->outputs[place].from;
        node->op = NULL;
    }
}

void clq_graph_fuse_gradients(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    clq_graph_find_uses(graph);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (is_sum(&graph->nodes[n])) join_sums(graph, &graph->nodes[n]);
    clq_graph_fuse_elements(graph);
}
