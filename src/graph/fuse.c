/* Which layers of a model become one: a product (dense, convolution) with the activation layer behind it; a convolution
 * with its activation, and the max pooling that is all who reads it. */
#include "graph/plan.h"

/* The pooling at path[i] with the convolution before it, and an activation layer between if there is one. */
static bool match(const clq_plan *plan, const uint32_t *path, uint32_t i, clq_conv_pool_problem *out, uint32_t *conv) {
    const clq_node *nodes = plan->model->nodes, *pool = &nodes[path[i] - 1];
    if (pool->kind != CLQ_NODE_POOL2D || pool->pool2d.average) return false;
    const clq_node *below = &nodes[pool->input - 1];
    clq_activation act = below->activation;
    uint32_t id = pool->input;
    if (below->kind == CLQ_NODE_ACTIVATION) {
        id = below->input;
        below = &nodes[id - 1];
        if (below->activation != CLQ_LINEAR) return false;
    }
    if (below->kind != CLQ_NODE_CONV2D || act == CLQ_SOFTMAX) return false;
    *out = (clq_conv_pool_problem){.conv = below->conv2d, .pool = pool->pool2d};
    out->conv.activation = act;
    *conv = id;
    return true;
}

/* Whether the two are to be one, where they can. */
static bool ask(clq_plan *plan, const clq_conv_pool_problem *p) {
    const clq_conv2d_problem *c = &p->conv;
    const clq_pool2d_problem *q = &p->pool;
    if (plan->config.fusion != CLQ_FUSION_AUTO) return plan->config.fusion == CLQ_FUSION_ON;
    bool pays = clq_conv_pool_pays(plan->list, p);
    clq_question question;
    clq_question_start(&question, "conv + pool %ux%zux%zux%zu by %zux%zu/%zux%zu to %zux%zux%zu by %zux%zu/%zux%zu%s",
                       clq_list_capacity(plan->list), c->in_h, c->in_w, c->in_c, c->kernel_h, c->kernel_w, c->stride_h,
                       c->stride_w, c->out_h, c->out_w, c->out_c, q->size_h, q->size_w, q->stride_h, q->stride_w,
                       plan->config.update ? "" : ", forward");
    if (pays) clq_question_add(&question, true, 0, "one");
    clq_question_add(&question, false, 0, "apart");
    clq_question_add(&question, true, 0, "one");
    return clq_list_ask(plan->list, &question)->values[0];
}

static void fuse_pools(clq_plan *plan, const uint32_t *path, uint32_t length) {
    for (uint32_t i = 1; i < length; i++) {
        struct clq_node_values *pool = &plan->nodes[path[i]];
        uint32_t conv;
        if (!match(plan, path, i, &pool->conv_pool, &conv)) continue;
        if (!clq_conv_pool_fits(plan->list, &pool->conv_pool) || !ask(plan, &pool->conv_pool)) continue;
        pool->fused = conv;
        for (uint32_t k = i; path[--k] != conv;) plan->nodes[path[k]].absorbed = true;
        plan->nodes[conv].absorbed = true;
    }
}

/* A product takes the activation over where it has none of its own: what it stores is passed through it before. */
static void fuse_activations(clq_plan *plan, const uint32_t *path, uint32_t length) {
    for (uint32_t i = 1; i < length; i++) {
        const clq_node *node = &plan->model->nodes[path[i] - 1], *below = &plan->model->nodes[node->input - 1];
        bool product = below->kind == CLQ_NODE_DENSE || below->kind == CLQ_NODE_CONV2D;
        if (node->kind != CLQ_NODE_ACTIVATION || !product || below->activation != CLQ_LINEAR ||
            node->activation == CLQ_SOFTMAX || plan->nodes[path[i]].absorbed)
            continue;
        plan->nodes[node->input].activation = node->activation;
        plan->nodes[path[i]].absorbed = true;
    }
}

void clq_plan_fuse(clq_plan *plan, const uint32_t *path, uint32_t length) {
    for (uint32_t i = 0; i < length; i++) plan->nodes[path[i]].activation = plan->model->nodes[path[i] - 1].activation;
    if (plan->config.fusion == CLQ_FUSION_OFF) return;
    fuse_pools(plan, path, length);
    fuse_activations(plan, path, length);
}
