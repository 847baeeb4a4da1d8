/* Operations that are faster as one: a convolution and the max pooling that alone reads it; a product or a pooling and
 * the activation behind it; elementwise operations (fuse_elements.c); gradients and their sums. A value that anybody
 * else reads is never taken away. */
#include "graph/step/step.h"

#include <stdio.h>
#include <string.h>

typedef struct fusion {
    clq_graph *graph;
    const clq_plan_config *config;
    clq_list *list;
    uint32_t *readers, *makers;
} fusion;

/* The node that writes a value which nothing but one node reads; NULL where it comes from outside or others read it. */
static clq_node *sole_maker(const fusion *f, clq_id id) {
    return f->readers[id] == 1 && f->makers[id] ? &f->graph->nodes[f->makers[id] - 1] : NULL;
}

/* The other node, which wrote what `node` reads, now writes what `node` wrote. */
static void absorb(fusion *f, clq_node *node, clq_node *other) {
    other->outputs[0] = node->outputs[0];
    f->makers[other->outputs[0]] = (uint32_t)(other - f->graph->nodes) + 1;
    node->op = NULL;
}

/* An activation of a reshaped value is a reshaped activation: it moves up to what it can join. */
static clq_node *move_above_reshapes(fusion *f, clq_node *node) {
    for (clq_node *above; (above = sole_maker(f, node->inputs[0])) && above->op == &clq_op_reshape; node = above) {
        clq_graph_value *between = clq_graph_value_at(f->graph, above->outputs[0]);
        const clq_graph_value *from = clq_graph_value_at(f->graph, above->inputs[0]);
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

static clq_activation *activation_of(clq_node *node) {
    if (node->op == &clq_op_dense) return &node->attributes.dense.activation;
    if (node->op == &clq_op_conv2d) return &node->attributes.conv2d.activation;
    return node->op == &clq_op_pool2d ? &node->attributes.pool2d.activation : NULL;
}

/* The activation that the node is; LINEAR: it is none. */
static clq_activation is_activation(const clq_node *node) {
    return node->op == &clq_op_elementwise ? clq_element_single_activation(&node->attributes.program) : CLQ_LINEAR;
}

/* What the operation in front stores passes through the activation first. */
static bool join_maker(fusion *f, clq_node *node, bool pooling) {
    clq_node *maker = sole_maker(f, node->inputs[0]);
    clq_activation *activation = maker ? activation_of(maker) : NULL;
    if (!activation || *activation != CLQ_LINEAR || (maker->op == &clq_op_pool2d) != pooling) return false;
    *activation = is_activation(node);
    absorb(f, node, maker);
    return true;
}

static void join_products(fusion *f) {
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        if (is_activation(&f->graph->nodes[n])) (void)join_maker(f, move_above_reshapes(f, &f->graph->nodes[n]), false);
}

static void join_poolings(fusion *f) {
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        if (is_activation(&f->graph->nodes[n])) (void)join_maker(f, &f->graph->nodes[n], true);
}

/* ---- convolutions with a pooling ---- */

/* Whether the two are to be one, where they can. */
static bool ask(const fusion *f, const clq_conv_pool_problem *p) {
    const clq_conv2d_problem *c = &p->conv;
    const clq_pool2d_problem *q = &p->pool;
    bool pays = clq_conv_pool_pays(f->list, p);
    clq_choice choice;
    clq_choice_start(&choice, "conv + pool %ux%zux%zux%zu by %zux%zu/%zux%zu to %zux%zux%zu by %zux%zu/%zux%zu%s",
                     clq_list_capacity(f->list), c->in_h, c->in_w, c->in_c, c->kernel_h, c->kernel_w, c->stride_h,
                     c->stride_w, c->out_h, c->out_w, c->out_c, q->size_h, q->size_w, q->stride_h, q->stride_w,
                     f->config->update ? "" : ", forward");
    if (pays) clq_choice_add(&choice, true, 0, "one");
    clq_choice_add(&choice, false, 0, "apart");
    clq_choice_add(&choice, true, 0, "one");
    return clq_list_select(f->list, &choice)->values[0];
}

static void join_pools(fusion *f) {
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        clq_node *pool = &f->graph->nodes[n], *conv;
        if (pool->op != &clq_op_pool2d || pool->attributes.pool2d.average) continue;
        conv = sole_maker(f, pool->inputs[0]);
        if (!conv || conv->op != &clq_op_conv2d) continue;
        const clq_conv_pool_problem p = {.conv = conv->attributes.conv2d, .pool = pool->attributes.pool2d};
        if (!clq_conv_pool_fits(f->list, &p) || !ask(f, &p)) continue;
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

static clq_status open_fusion(fusion *f) {
    CLQ_TRY(clq_graph_count_readers(f->graph, &f->readers));
    return clq_graph_find_makers(f->graph, &f->makers);
}

static void close_fusion(fusion *f) {
    clq_free(f->readers);
    clq_free(f->makers);
    clq_graph_sweep(f->graph);
}

clq_status clq_graph_fuse(clq_graph *graph, const clq_pass_context *context) {
    fusion f = {.graph = graph, .config = context->config, .list = context->list};
    clq_status status = open_fusion(&f);
    if (status == CLQ_OK) {
        join_products(&f);
        join_pools(&f);
        join_poolings(&f);
    }
    close_fusion(&f);
    return status == CLQ_OK ? clq_graph_fuse_elements(graph) : status;
}

/* ---- gradients ---- */

/* Sums alone, of a gradient that is stored. */
static bool is_sum(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    return node->op == &clq_op_elementwise && p->output_count == 0 && p->sum_count == 1 && p->instruction_count == 1;
}

/* The sums of a gradient are made with it. */
static void join_sums(fusion *f, clq_node *node) {
    const uint32_t maker = f->makers[node->inputs[0]];
    clq_node *before = maker ? &f->graph->nodes[maker - 1] : NULL;
    if (!before) return;
    if (before->op == &clq_op_softmax_gradient && !before->outputs[1]) {
        before->outputs[1] = node->outputs[0];
        node->op = NULL;
    } else if (before->op == &clq_op_elementwise && before->attributes.program.output_count > 0) {
        clq_element_program *p = &before->attributes.program;
        size_t place = 0;
        if (p->sum_count == CLQ_ELEMENT_SUMS || p->output_count + p->sum_count == CLQ_NODE_OUTPUTS) return;
        while (before->outputs[place] != node->inputs[0]) place++;
        if (place >= p->output_count) return; /* a sum of sums */
        before->outputs[p->output_count + p->sum_count] = node->outputs[0];
        p->sums[p->sum_count++] = p->outputs[place].from;
        node->op = NULL;
    }
}

clq_status clq_graph_fuse_gradients(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    fusion f = {.graph = graph};
    clq_status status = open_fusion(&f);
    for (uint32_t n = 0; n < graph->node_count && status == CLQ_OK; n++)
        if (is_sum(&graph->nodes[n])) join_sums(&f, &graph->nodes[n]);
    close_fusion(&f);
    return status == CLQ_OK ? clq_graph_fuse_elements(graph) : status;
}
