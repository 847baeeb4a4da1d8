/* Which layers of a model become one: a convolution with its activation, and the max pooling that is all who reads it.
 */
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

void clq_plan_fuse(clq_plan *plan, const uint32_t *path, uint32_t length) {
    if (plan->config.fusion == CLQ_FUSION_OFF) return;
    for (uint32_t i = 1; i < length; i++) {
        struct clq_node_values *pool = &plan->nodes[path[i]];
        uint32_t conv;
        if (!match(plan, path, i, &pool->conv_pool, &conv)) continue;
        bool pays = plan->config.fusion == CLQ_FUSION_ON || clq_conv_pool_pays(plan->list, &pool->conv_pool);
        if (!clq_conv_pool_fits(plan->list, &pool->conv_pool) || !pays) continue;
        pool->fused = conv;
        for (uint32_t k = i; path[--k] != conv;) plan->nodes[path[k]].absorbed = true;
        plan->nodes[conv].absorbed = true;
    }
}
