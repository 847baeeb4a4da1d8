/* A model's launches: forward along the nodes, loss, backward against them, norms and update over the flat arenas. */
#include "graph/plan.h"

#include <stdio.h>

static const clq_node *node_at(const clq_plan *plan, uint32_t id) { return &plan->model->nodes[id - 1]; }

static clq_value weight(const clq_plan *plan, uint32_t variable) {
    return variable ? plan->v_weight[variable - 1] : CLQ_NO_VALUE;
}
static clq_value weight_gradient(const clq_plan *plan, uint32_t variable) {
    return variable ? plan->v_weight_gradient[variable - 1] : CLQ_NO_VALUE;
}

static clq_value activation_value(clq_plan *plan, const char *name, size_t elements) {
    return clq_list_value(plan->list, CLQ_VALUE_ACTIVATION, name, 0, elements * sizeof(float));
}

/* The loss takes the logits behind a model's last softmax, as Keras does: that softmax is not computed. */
static bool softmax_skipped(const clq_plan *plan, uint32_t id) {
    return plan->config.loss && id == plan->model->output && node_at(plan, id)->activation == CLQ_SOFTMAX;
}

static clq_activation effective_activation(const clq_plan *plan, uint32_t id) {
    return softmax_skipped(plan, id) ? CLQ_LINEAR : plan->nodes[id].activation;
}

static size_t channels_of(const clq_node *node) {
    return node->shape.rank ? node->shape.dims[node->shape.rank - 1] : 1;
}

/* Whether a layer at or below node `id` has variables: whether its output's gradient is of use. */
static bool trains(const clq_plan *plan, uint32_t id) {
    for (; id; id = node_at(plan, id)->input)
        if (node_at(plan, id)->kernel || node_at(plan, id)->bias) return true;
    return false;
}

/* An activation layer may overwrite its input where nobody reads that again: a product without an activation of its own
 * differentiates by its input and its weights only. (Fusion gives it the first of a run, so no chain is behind it,
 * whose derivative could read its input.) */
static bool may_overwrite(const clq_plan *plan, uint32_t id) {
    const clq_node *node = node_at(plan, id);
    return (node->kind == CLQ_NODE_DENSE || node->kind == CLQ_NODE_CONV2D) &&
           effective_activation(plan, id) == CLQ_LINEAR;
}

/* The node whose computing gives an inference plan's output: the last that is no reshape, and computed by itself. */
static uint32_t output_maker(const clq_plan *plan) {
    uint32_t id = plan->model->output;
    while (node_at(plan, id)->kind == CLQ_NODE_RESHAPE || plan->nodes[id].absorbed) id = node_at(plan, id)->input;
    return id;
}

static clq_value output_value(clq_plan *plan, uint32_t id) {
    if (plan->v_output && id == output_maker(plan)) return plan->v_output;
    return activation_value(plan, node_at(plan, id)->name, node_at(plan, id)->elements);
}

static void emit_input(clq_plan *plan, uint32_t id) {
    size_t elements = node_at(plan, id)->elements;
    bool is_output = plan->v_output && id == output_maker(plan);
    clq_value y = plan->v_samples;
    if (plan->config.sample_dtype == CLQ_U8) {
        y = output_value(plan, id);
        clq_input_u8(plan->list, elements, plan->v_samples, y);
    } else if (is_output) { /* a model of reshapes alone: its output is a copy of its input */
        y = plan->v_output;
        clq_activation_forward(plan->list, CLQ_LINEAR, elements, 1, plan->v_samples, y);
    }
    plan->nodes[id].y = y;
}

/* Both layers' names, for tables and messages. */
static void scope_of_both(clq_plan *plan, uint32_t pool, uint32_t conv) {
    char both[2 * CLQ_LAYER_NAME_MAX + 4];
    (void)snprintf(both, sizeof both, "%s + %s", node_at(plan, conv)->name, node_at(plan, pool)->name);
    clq_list_scope(plan->list, both);
}

/* A pooling and the convolution that it computes. */
static void emit_conv_pool(clq_plan *plan, uint32_t id) {
    struct clq_node_values *values = &plan->nodes[id];
    const clq_node *conv = node_at(plan, values->fused);
    const clq_conv_pool_problem *p = &values->conv_pool;
    scope_of_both(plan, id, values->fused);
    values->y = output_value(plan, id);
    if (plan->config.update)
        values->winner =
            clq_list_value(plan->list, CLQ_VALUE_ACTIVATION, "winners", 0, clq_pool2d_winner_bytes(&p->pool));
    values->frames = clq_conv_pool_frames(plan->list, p, plan->nodes[conv->input].y);
    clq_conv_pool_forward(plan->list, p, values->frames, weight(plan, conv->kernel), weight(plan, conv->bias),
                          values->y, values->winner);
}

static clq_pool2d_problem pool_problem(const clq_plan *plan, uint32_t id) {
    clq_pool2d_problem p = node_at(plan, id)->pool2d;
    p.activation = plan->nodes[id].activation;
    return p;
}

static void emit_pool2d(clq_plan *plan, uint32_t id, clq_value x, clq_value y) {
    const clq_pool2d_problem p = pool_problem(plan, id);
    clq_value *winner = &plan->nodes[id].winner;
    if (plan->config.update && !p.average && trains(plan, node_at(plan, id)->input))
        *winner = clq_list_value(plan->list, CLQ_VALUE_ACTIVATION, "winners", 0, clq_pool2d_winner_bytes(&p));
    clq_pool2d_forward(plan->list, &p, x, y, *winner);
}

/* Gives where its output is: the input, if there is nothing to do. */
static clq_value emit_activation(clq_plan *plan, uint32_t id, clq_value x) {
    const clq_node *node = node_at(plan, id);
    clq_activation act = effective_activation(plan, id);
    bool output = plan->v_output && id == output_maker(plan);
    if (act == CLQ_LINEAR && !output) return x;
    clq_value y = may_overwrite(plan, node->input) && !output ? x : output_value(plan, id);
    if (act == CLQ_SOFTMAX)
        clq_activation_forward(plan->list, act, node->elements, channels_of(node), x, y);
    else
        clq_chain_forward(plan->list, &plan->nodes[id].chain, node->elements, x, y);
    return y;
}

/* As the kernels take it: softmax, which they cannot, comes behind. */
static clq_activation activation_of_product(const clq_plan *plan, uint32_t id) {
    clq_activation act = effective_activation(plan, id);
    return act == CLQ_SOFTMAX ? CLQ_LINEAR : act;
}

static void emit_dense(clq_plan *plan, uint32_t id, clq_value x, clq_value y) {
    const clq_node *node = node_at(plan, id);
    clq_dense_problem p = node->dense;
    p.activation = activation_of_product(plan, id);
    clq_dense_forward(plan->list, &p, x, weight(plan, node->kernel), weight(plan, node->bias), y);
}

static void emit_conv2d(clq_plan *plan, uint32_t id, clq_value x, clq_value y) {
    const clq_node *node = node_at(plan, id);
    clq_conv2d_problem p = node->conv2d;
    p.activation = activation_of_product(plan, id);
    clq_conv2d_forward(plan->list, &p, x, weight(plan, node->kernel), weight(plan, node->bias), y);
}

static void emit_forward(clq_plan *plan, uint32_t id) {
    if (plan->nodes[id].absorbed) {
        if (node_at(plan, id)->kind == CLQ_NODE_ACTIVATION) plan->nodes[id].y = plan->nodes[node_at(plan, id)->input].y;
        return;
    }
    if (plan->nodes[id].fused) {
        emit_conv_pool(plan, id);
        return;
    }
    const clq_node *node = node_at(plan, id);
    clq_list *list = plan->list;
    bool softmax = effective_activation(plan, id) == CLQ_SOFTMAX;
    clq_value x = node->input ? plan->nodes[node->input].y : CLQ_NO_VALUE, y = x;
    clq_list_scope(list, node->name);
    switch (node->kind) {
    case CLQ_NODE_INPUT: emit_input(plan, id); return;
    case CLQ_NODE_RESHAPE: break;
    case CLQ_NODE_DENSE:
        y = output_value(plan, id);
        emit_dense(plan, id, x, y);
        if (softmax) clq_activation_forward(list, CLQ_SOFTMAX, node->elements, channels_of(node), y, y);
        break;
    case CLQ_NODE_CONV2D:
        y = output_value(plan, id);
        emit_conv2d(plan, id, x, y);
        if (softmax) clq_activation_forward(list, CLQ_SOFTMAX, node->elements, channels_of(node), y, y);
        break;
    case CLQ_NODE_POOL2D:
        y = output_value(plan, id);
        emit_pool2d(plan, id, x, y);
        break;
    case CLQ_NODE_ACTIVATION: y = emit_activation(plan, id, x); break;
    }
    plan->nodes[id].y = y;
}

/* dz of a layer from dy, the gradient behind the chain that is behind it, if there is one; in place. And its bias
 * gradient. */
static void emit_slopes(clq_plan *plan, uint32_t id, clq_activation act, clq_value dy, clq_value db) {
    static const clq_chain none;
    const struct clq_node_values *values = &plan->nodes[id];
    const clq_chain *chain = values->chained ? &plan->nodes[values->chained].chain : &none;
    const clq_node *node = node_at(plan, id);
    bool linear = act == CLQ_LINEAR && chain->count == 0;
    if (linear && !db) return;
    clq_chain_backward(plan->list, chain, act, node->elements, channels_of(node), values->y, dy,
                       linear ? CLQ_NO_VALUE : dy, db);
}

/* dz of an activation layer from dy, in place: of one link from its output, of more from the chain's input. */
static void emit_activation_backward(clq_plan *plan, uint32_t id, clq_value dy) {
    const struct clq_node_values *values = &plan->nodes[id];
    const clq_node *node = node_at(plan, id);
    clq_activation act = effective_activation(plan, id);
    if (act == CLQ_LINEAR || values->derived) return;
    if (values->chain.count > 1)
        clq_chain_backward(plan->list, &values->chain, CLQ_LINEAR, node->elements, channels_of(node),
                           plan->nodes[node->input].y, dy, dy, CLQ_NO_VALUE);
    else
        clq_activation_backward(plan->list, act, node->elements, channels_of(node), values->y, dy, dy, CLQ_NO_VALUE);
}

static clq_value emit_conv_pool_backward(clq_plan *plan, uint32_t id, clq_value dy) {
    const struct clq_node_values *values = &plan->nodes[id];
    const clq_node *conv = node_at(plan, values->fused);
    const clq_conv_pool_problem *p = &values->conv_pool;
    clq_value dx = CLQ_NO_VALUE;
    scope_of_both(plan, id, values->fused);
    emit_slopes(plan, id, p->conv.activation, dy, weight_gradient(plan, conv->bias));
    if (trains(plan, conv->input)) dx = activation_value(plan, "gradient", node_at(plan, conv->input)->elements);
    clq_conv_pool_backward(plan->list, p, values->frames, plan->nodes[conv->input].y, weight(plan, conv->kernel), dy,
                           values->winner, dx, weight_gradient(plan, conv->kernel));
    return dx;
}

/* Takes the gradient of node `id`'s output and gives that of its input (none where nothing below trains). */
static clq_value emit_backward(clq_plan *plan, uint32_t id, clq_value dy) {
    if (plan->nodes[id].absorbed) return dy;
    if (plan->nodes[id].fused) return emit_conv_pool_backward(plan, id, dy);
    const clq_node *node = node_at(plan, id);
    clq_list *list = plan->list;
    bool wanted = trains(plan, node->input);
    clq_value x = plan->nodes[node->input].y, dx = CLQ_NO_VALUE;
    clq_list_scope(list, node->name);
    switch (node->kind) {
    case CLQ_NODE_INPUT:
    case CLQ_NODE_RESHAPE: return dy;
    case CLQ_NODE_DENSE:
    case CLQ_NODE_CONV2D:
        emit_slopes(plan, id, effective_activation(plan, id), dy, weight_gradient(plan, node->bias));
        if (wanted) dx = activation_value(plan, "gradient", node_at(plan, node->input)->elements);
        if (node->kind == CLQ_NODE_DENSE)
            clq_dense_backward(list, &node->dense, x, weight(plan, node->kernel), dy, dx,
                               weight_gradient(plan, node->kernel));
        else
            clq_conv2d_backward(list, &node->conv2d, x, weight(plan, node->kernel), dy, dx,
                                weight_gradient(plan, node->kernel));
        return dx;
    case CLQ_NODE_POOL2D: {
        const clq_pool2d_problem p = pool_problem(plan, id);
        dx = activation_value(plan, "gradient", node_at(plan, node->input)->elements);
        clq_pool2d_backward(list, &p, plan->nodes[id].y, dy, plan->nodes[id].winner, dx);
        return dx;
    }
    case CLQ_NODE_ACTIVATION: emit_activation_backward(plan, id, dy); return dy;
    }
    return CLQ_NO_VALUE;
}

static void emit_loss(clq_plan *plan, clq_value *dy) {
    uint32_t output = plan->model->output;
    clq_loss_problem loss = plan->loss;
    if (softmax_skipped(plan, output)) loss.from_logits = true;
    if (plan->config.update && trains(plan, output))
        *dy = activation_value(plan, "gradient", node_at(plan, output)->elements);
    clq_list_scope(plan->list, "loss");
    clq_cross_entropy(plan->list, &loss, plan->nodes[output].y, plan->v_labels, *dy, plan->v_metrics);
}

static void emit_norms(clq_plan *plan) {
    clq_list_scope(plan->list, "norms");
    for (uint32_t i = 0; i < plan->model->variable_count; i++)
        clq_square_sum(plan->list, plan->model->variables[i].elements, plan->v_weight_gradient[i], 0, plan->v_norms, i);
}

static void end_segment(clq_plan *plan, clq_segment segment) {
    plan->segment_end[segment] = clq_list_launch_count(plan->list);
}

/* The ids from the input to the output. Layers off that path do not matter to it. */
static clq_status find_path(const clq_plan *plan, uint32_t **out, uint32_t *length) {
    uint32_t count = 0;
    for (uint32_t id = plan->model->output; id; id = node_at(plan, id)->input) count++;
    uint32_t *path = clq_alloc(count, sizeof *path);
    if (!path) return CLQ_MEMORY;
    uint32_t place = count;
    for (uint32_t id = plan->model->output; id; id = node_at(plan, id)->input) path[--place] = id;
    *out = path;
    *length = count;
    return CLQ_OK;
}

clq_status clq_plan_emit(clq_plan *plan) {
    uint32_t *path = NULL, length = 0;
    CLQ_TRY(find_path(plan, &path, &length));
    clq_plan_fuse(plan, path, length);
    for (uint32_t i = 0; i < length; i++) emit_forward(plan, path[i]);
    end_segment(plan, CLQ_SEGMENT_FORWARD);
    clq_value dy = CLQ_NO_VALUE;
    if (plan->config.loss) emit_loss(plan, &dy);
    end_segment(plan, CLQ_SEGMENT_LOSS);
    for (uint32_t i = length; plan->config.update && dy && i-- > 0 && trains(plan, path[i]);) {
        dy = emit_backward(plan, path[i], dy);
        plan->nodes[path[i]].done = clq_list_launch_count(plan->list);
    }
    end_segment(plan, CLQ_SEGMENT_BACKWARD);
    if (plan->config.update && plan->config.gradient_norms) emit_norms(plan);
    end_segment(plan, CLQ_SEGMENT_NORM);
    if (plan->config.update) clq_plan_emit_update(plan);
    end_segment(plan, CLQ_SEGMENT_UPDATE);
    clq_free(path);
    return clq_list_status(plan->list);
}
