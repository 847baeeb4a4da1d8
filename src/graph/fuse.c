/* Which layers of a model become one: a convolution with its activation, and the max pooling that is all who reads it;
 * a product (dense, convolution) or a pooling with the activation layer behind it; and activation layers with those
 * behind them. */
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

/* ---- runs of activation layers, reshapes between them or not ---- */

static bool is_product(const clq_node *node) { return node->kind == CLQ_NODE_DENSE || node->kind == CLQ_NODE_CONV2D; }

/* Whether the layer can pass what it stores through an activation, and has none of its own. */
static bool takes_over(const clq_plan *plan, uint32_t id) {
    const clq_node *node = &plan->model->nodes[id - 1];
    const struct clq_node_values *values = &plan->nodes[id];
    return (is_product(node) || node->kind == CLQ_NODE_POOL2D) && !values->fused && values->activation == CLQ_LINEAR;
}

/* Whether its backward pass begins with a launch for its activation and its bias, from what it stored: that can take a
 * chain's derivative in. A pooling's cannot: where windows overlap it would compute the chain several times. */
static bool takes_slopes(const clq_plan *plan, uint32_t id) {
    const struct clq_node_values *values = &plan->nodes[id];
    return values->fused || (is_product(&plan->model->nodes[id - 1]) && values->activation != CLQ_SOFTMAX);
}

/* The activation layer goes on with the chain of `last`, or begins one behind `maker`. */
static void chain_up(clq_plan *plan, uint32_t id, uint32_t last, uint32_t maker) {
    struct clq_node_values *values = &plan->nodes[id];
    if (last) {
        clq_chain chain = plan->nodes[last].chain;
        chain.links[chain.count++] = values->activation;
        values->chain = chain;
        plan->nodes[last].absorbed = true;
    }
    if (!takes_slopes(plan, maker)) return;
    plan->nodes[maker].chained = id;
    values->derived = true;
}

/* The first of a run goes to the layer in front, where that takes it over: what it stores is passed through it before.
 * The others are chains, each one launch forward; linear ones are nothing. */
static void fuse_activations(clq_plan *plan, const uint32_t *path, uint32_t length) {
    uint32_t maker = path[0], last = 0; /* what the run is behind, and the end of its chain so far */
    for (uint32_t i = 1; i < length; i++) {
        const clq_node *node = &plan->model->nodes[path[i] - 1];
        struct clq_node_values *values = &plan->nodes[path[i]];
        if (node->kind == CLQ_NODE_RESHAPE || values->absorbed) continue;
        if (node->kind != CLQ_NODE_ACTIVATION || node->activation == CLQ_SOFTMAX) {
            maker = path[i];
            last = 0;
        } else if (node->activation == CLQ_LINEAR) {
            values->absorbed = true;
        } else if (!last && takes_over(plan, maker)) {
            plan->nodes[maker].activation = node->activation;
            values->absorbed = true;
        } else {
            if (last && plan->nodes[last].chain.count == CLQ_CHAIN_LINKS_MOST) {
                maker = last;
                last = 0;
            }
            chain_up(plan, path[i], last, maker);
            last = path[i];
        }
    }
}

static void start(struct clq_node_values *values, const clq_node *node) {
    values->activation = node->activation;
    if (node->kind == CLQ_NODE_ACTIVATION && node->activation != CLQ_SOFTMAX)
        values->chain = (clq_chain){.count = node->activation != CLQ_LINEAR, .links = {node->activation}};
}

void clq_plan_fuse(clq_plan *plan, const uint32_t *path, uint32_t length) {
    for (uint32_t i = 0; i < length; i++) start(&plan->nodes[path[i]], &plan->model->nodes[path[i] - 1]);
    if (plan->config.fusion == CLQ_FUSION_OFF) return;
    fuse_pools(plan, path, length);
    fuse_activations(plan, path, length);
}
