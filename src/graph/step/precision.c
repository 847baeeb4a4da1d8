/* Mixed precision (Micikevicius et al., "Mixed precision training", 2018): samples' values are stored in 16 bits. What
 * the loss reads and writes stays f32, and so do softmaxes, sums over replicas, statistics, and all gradients of
 * variables.
 *
 * A value has 16 bits if every kernel that reads or writes it can take 16 bits. A value that backward reads again holds
 * memory for long, so it has 16 bits even if some kernel cannot take them. Then a cast stands between the value and
 * that kernel, with an f32 value that lives only from one node to the next. */
#include "graph/step/step.h"

#include <string.h>

/* What is known of the values that share one memory. The first of them, the root, has the entry. */
typedef struct known {
    clq_id root;  /* of any value: the first that has its memory */
    bool stays;   /* it stays f32 */
    bool exact;   /* it stays f32, and so does what it is computed from */
    bool taken;   /* all kernels take 16 bits */
    bool kept;    /* made in forward, and read in backward */
    bool forward; /* made in forward */
} known;

typedef struct narrowing {
    clq_graph *graph;
    const clq_list *list;
    clq_dtype dtype;
    known *values; /* by id */
} narrowing;

/* Whether `emit` makes the value's memory from input 0, in a size that the graph does not know. */
static bool is_made(const clq_node *node, unsigned i) {
    return i >= CLQ_NODE_INPUTS && node->op->makes >> (i - CLQ_NODE_INPUTS) & 1;
}

/* Whether all nodes that read a value take it in 16 bits. */
static bool readers_take(const narrowing *t, clq_id id) {
    for (uint32_t n = 0; n < t->graph->node_count; n++)
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
            if (t->graph->nodes[n].inputs[i] == id && !clq_node_takes(t->list, &t->graph->nodes[n], i, t->dtype))
                return false;
    return true;
}

/* Whether value `i` of the node may have 16 bits. An output that `emit` makes from input 0 has the type of input 0, and
 * cannot be cast. */
static bool takes(const narrowing *t, const clq_node *node, unsigned i) {
    for (unsigned k = 0; k < CLQ_NODE_OUTPUTS && i == 0; k++)
        if (node->op->makes >> k & 1 && node->outputs[k] && !readers_take(t, node->outputs[k])) return false;
    return clq_node_takes(t->list, node, i, t->dtype);
}

static void note_use(narrowing *t, const clq_node *node, unsigned i) {
    known *of = &t->values[t->values[clq_node_value(node, i)].root];
    of->stays = of->stays || node->op->traits & (CLQ_OP_LOSS | CLQ_OP_WIDE) || is_made(node, i);
    of->taken = of->taken && takes(t, node, i);
    if (i >= CLQ_NODE_INPUTS) of->forward = node->segment == CLQ_SEGMENT_FORWARD;
    if (i < CLQ_NODE_INPUTS && node->segment == CLQ_SEGMENT_BACKWARD) of->kept = of->forward;
}

/* Goes from the last node to the first, so that readers come before the nodes that make their inputs. */
static void note_exact(narrowing *t) {
    for (uint32_t n = t->graph->node_count; n-- > 0;) {
        const clq_node *node = &t->graph->nodes[n];
        bool all = false;
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
            all = all || (node->outputs[i] && t->values[t->values[node->outputs[i]].root].exact);
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
            if (!node->inputs[i] || !(all || node->op->exact >> i & 1)) continue;
            known *of = &t->values[t->values[node->inputs[i]].root];
            of->exact = of->stays = true;
        }
    }
}

static void note_uses(narrowing *t) {
    for (clq_id id = 1; id <= t->graph->value_count; id++) t->values[id] = (known){.root = id, .taken = true};
    for (uint32_t n = 0; n < t->graph->node_count; n++) {
        const clq_node *node = &t->graph->nodes[n];
        if (node->op->traits & CLQ_OP_ALIAS) t->values[node->outputs[0]].root = t->values[node->inputs[0]].root;
        for (unsigned i = 0; i < CLQ_NODE_VALUES; i++)
            if (clq_node_value(node, i)) note_use(t, node, i);
    }
    for (clq_id id = 1; id <= t->graph->value_count; id++) {
        const clq_graph_value *value = clq_graph_value_at(t->graph, id);
        const bool own = value->home == CLQ_HOME_STEP && value->per_sample && value->dtype == CLQ_F32 && !value->wide;
        if (!own) t->values[t->values[id].root].stays = true;
    }
    note_exact(t);
}

static void set_types(const narrowing *t) {
    for (clq_id id = 1; id <= t->graph->value_count; id++) {
        const known *of = &t->values[t->values[id].root];
        if (!of->stays && (of->taken || of->kept)) clq_graph_value_at(t->graph, id)->dtype = t->dtype;
    }
    for (uint32_t n = 0; n < t->graph->node_count; n++) {
        const clq_node *node = &t->graph->nodes[n];
        for (unsigned i = CLQ_NODE_INPUTS; i < CLQ_NODE_VALUES; i++)
            if (clq_node_value(node, i) && is_made(node, i) && takes(t, node, 0))
                clq_graph_value_at(t->graph, clq_node_value(node, i))->dtype =
                    clq_graph_value_at(t->graph, node->inputs[0])->dtype;
    }
}

/* ---- casts ---- */

static bool needs_cast(const narrowing *t, const clq_node *node, unsigned i) {
    const clq_id id = clq_node_value(node, i);
    return id && clq_graph_value_at(t->graph, id)->dtype == t->dtype && !takes(t, node, i);
}

static void add_cast(const narrowing *t, const clq_node *like, clq_id from, clq_id to) {
    clq_node node = clq_graph_node_like(like, &clq_op_elementwise, like->segment, CLQ_IDS(from));
    clq_element_program *p = &node.attributes.program;
    p->outputs[p->output_count++].from = clq_element_take(p, clq_each_element);
    node.outputs[0] = to;
    clq_graph_add_node(t->graph, &node);
}

/* Adds the node with casts: it gets f32 values in place of those that it cannot take. */
static void add_with_casts(const narrowing *t, clq_node node) {
    const clq_node before = node;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        if (!needs_cast(t, &before, i)) continue;
        node.inputs[i] = clq_graph_add_like(t->graph, before.inputs[i], NULL);
        add_cast(t, &before, before.inputs[i], node.inputs[i]);
    }
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (needs_cast(t, &before, CLQ_NODE_INPUTS + i))
            node.outputs[i] = clq_graph_add_like(t->graph, before.outputs[i], NULL);
    clq_graph_add_node(t->graph, &node);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (node.outputs[i] != before.outputs[i]) add_cast(t, &before, node.outputs[i], before.outputs[i]);
}

static void add_casts(const narrowing *t) {
    const uint32_t count = t->graph->node_count;
    clq_node *nodes = clq_alloc(CLQ_MAX(count, 1u), sizeof *nodes);
    if (!nodes) {
        clq_graph_fail(t->graph, CLQ_ERROR_MEMORY);
        return;
    }
    memcpy(nodes, t->graph->nodes, count * sizeof *nodes);
    t->graph->node_count = 0;
    for (uint32_t n = 0; n < count; n++) add_with_casts(t, nodes[n]);
    clq_free(nodes);
}

void clq_graph_narrow(clq_graph *graph, const clq_pass_context *context) {
    narrowing t = {.graph = graph, .list = context->list, .dtype = context->config->activations};
    t.values = clq_alloc((size_t)graph->value_count + 1, sizeof *t.values);
    if (t.values) {
        note_uses(&t);
        set_types(&t);
        add_casts(&t);
    } else {
        clq_graph_fail(graph, CLQ_ERROR_MEMORY);
    }
    clq_free(t.values);
}
