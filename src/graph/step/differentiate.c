/* Reverse-mode differentiation: adds, from the loss back to the samples, what computes the gradient of every variable.
 * A value that several nodes read, or a weight of a shared layer, gets a contribution from each; they are added up
 * behind the last one that is computed, which is that of its first reader. */
#include "graph/step/step.h"

/* What one reader adds to a value's gradient, and the next of the same value: its index + 1; 0: it is the last. */
typedef struct contribution {
    clq_id gradient;
    uint32_t next;
} contribution;

typedef struct tape {
    clq_graph *graph;
    uint32_t forward;       /* nodes to differentiate: the first so many */
    clq_id values;          /* the values before differentiation are 1 to this */
    bool *wanted;           /* by value: whether a variable's gradient depends on its gradient */
    uint32_t *first_reader; /* by value: the first node that reads it; UINT32_MAX: none */
    clq_id *gradient;       /* by value, once all contributions came; 0: none came */
    uint32_t *first, *last; /* by value: of its contributions, index + 1; 0: there are none */
    contribution *contributions;
    uint32_t contribution_count; /* at most CLQ_NODE_INPUTS for each node */
} tape;

/* A variable, and whatever is computed from one. */
static void find_wanted(tape *t) {
    for (clq_id id = 1; id <= t->values; id++) {
        t->wanted[id] = clq_graph_value_at(t->graph, id)->home == CLQ_HOME_WEIGHT;
        t->first_reader[id] = UINT32_MAX;
    }
    for (uint32_t n = 0; n < t->forward; n++) {
        const clq_node *node = &t->graph->nodes[n];
        bool any = false;
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
            const clq_id id = node->inputs[i];
            any = any || t->wanted[id];
            if (id && t->first_reader[id] == UINT32_MAX) t->first_reader[id] = n;
        }
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
            if (node->outputs[i]) t->wanted[node->outputs[i]] = any && node->op->differentiate;
    }
}

static void contribute(tape *t, clq_id x, clq_id gradient) {
    const uint32_t place = ++t->contribution_count;
    t->contributions[place - 1].gradient = gradient;
    if (t->last[x])
        t->contributions[t->last[x] - 1].next = place;
    else
        t->first[x] = place;
    t->last[x] = place;
}

/* All contributions to the gradient of x have come: they become one, in the order in which they came. */
static void collect(tape *t, const clq_node *reader, clq_id x) {
    clq_id terms[CLQ_NODE_INPUTS];
    unsigned count = 0;
    for (uint32_t i = t->first[x]; i; i = t->contributions[i - 1].next) {
        terms[count++] = t->contributions[i - 1].gradient;
        if (count < CLQ_NODE_INPUTS) continue;
        terms[0] = clq_add_sum(t->graph, reader, CLQ_SEGMENT_BACKWARD, terms, count);
        count = 1;
    }
    if (count == 0) return;
    const clq_id gradient = count == 1 ? terms[0] : clq_add_sum(t->graph, reader, CLQ_SEGMENT_BACKWARD, terms, count);
    const clq_graph_value *of = clq_graph_value_at(t->graph, x);
    t->gradient[x] = gradient;
    if (of->home != CLQ_HOME_WEIGHT || t->graph->error.status != CLQ_OK) return;
    clq_graph_value *value = clq_graph_value_at(t->graph, gradient);
    value->home = CLQ_HOME_GRADIENT;
    value->index = of->index;
}

static void differentiate_node(tape *t, uint32_t n) {
    clq_derivation d = {.graph = t->graph, .node = t->graph->nodes[n]};
    const clq_operation *op = d.node.op;
    bool any = false, came = op->traits & CLQ_OP_LOSS;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
        d.dy[i] = d.node.outputs[i] ? t->gradient[d.node.outputs[i]] : 0;
        came = came || d.dy[i];
    }
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        d.wants[i] = d.node.inputs[i] && t->wanted[d.node.inputs[i]];
        any = any || d.wants[i];
    }
    if (!came || !any || !op->differentiate) return;
    op->differentiate(&d);
    t->graph->nodes[n] = d.node;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (d.dx[i]) contribute(t, d.node.inputs[i], d.dx[i]);
}

static void walk_back(tape *t) {
    for (uint32_t n = t->forward; n-- > 0 && t->graph->error.status == CLQ_OK;) {
        differentiate_node(t, n);
        const clq_node node = t->graph->nodes[n]; /* adding may move it */
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
            const clq_id x = node.inputs[i];
            bool again = false; /* the node may read a value twice */
            for (unsigned k = 0; k < i; k++) again = again || node.inputs[k] == x;
            if (x && !again && t->first_reader[x] == n) collect(t, &node, x);
        }
    }
}

static clq_status open_tape(tape *t) {
    const size_t values = (size_t)t->values + 1;
    t->wanted = clq_alloc(values, sizeof *t->wanted);
    t->first_reader = clq_alloc(values, sizeof *t->first_reader);
    t->gradient = clq_alloc(values, sizeof *t->gradient);
    t->first = clq_alloc(values, sizeof *t->first);
    t->last = clq_alloc(values, sizeof *t->last);
    t->contributions = clq_alloc(CLQ_MAX(t->forward, 1u), CLQ_NODE_INPUTS * sizeof *t->contributions);
    return t->wanted && t->first_reader && t->gradient && t->first && t->last && t->contributions ? CLQ_OK : CLQ_MEMORY;
}

static void close_tape(tape *t) {
    clq_free(t->wanted);
    clq_free(t->first_reader);
    clq_free(t->gradient);
    clq_free(t->first);
    clq_free(t->last);
    clq_free(t->contributions);
}

clq_status clq_graph_differentiate(clq_graph *graph, const clq_pass_context *context) {
    (void)context;
    tape t = {.graph = graph, .forward = graph->node_count, .values = graph->value_count};
    clq_status status = open_tape(&t);
    if (status == CLQ_OK) {
        find_wanted(&t);
        walk_back(&t);
        status = clq_graph_status(graph);
    }
    close_tape(&t);
    return status;
}
