/* Reverse-mode differentiation: adds, from the loss back to the samples, the nodes that compute the gradient of every
 * variable. In a stage, it begins with the losses and with the gradients of what the stage sends, and ends with the
 * gradients of what the stage received. If several nodes read a value, for example the weight of a shared layer, each
 * contributes to its gradient. The contributions are added up behind the last one that is computed, which is that of
 * the value's first reader. */
#include "graph/step/step.h"

#include <string.h>

/* What is known of a value of the graph before differentiation. */
typedef struct known {
    bool wanted;                        /* whether a variable's gradient depends on its gradient */
    uint32_t first_reader, last_reader; /* nodes: index + 1; 0: none reads it */
    clq_id gradient;                    /* once all contributions came; 0: none came */
    clq_id received;                    /* what later stages contribute; 0: nothing */
} known;

typedef struct tape {
    clq_graph *graph;
    uint32_t forward;              /* how many nodes to differentiate, from the first on */
    known *values;                 /* by id */
    clq_id (*dx)[CLQ_NODE_INPUTS]; /* by node: what it contributes to its inputs' gradients */
} tape;

/* Gradients are wanted of variables, and of whatever is computed from one. */
static void find_wanted(tape *t) {
    for (clq_id id = 1; id <= t->graph->value_count; id++) {
        const clq_graph_value *value = clq_graph_value_at(t->graph, id);
        t->values[id].wanted = value->home == CLQ_HOME_WEIGHT ||
                               (value->home == CLQ_HOME_RECEIVED && t->graph->stage->before.trained[value->index]);
    }
    for (uint32_t n = 0; n < t->forward; n++) {
        const clq_node *node = &t->graph->nodes[n];
        bool any = false;
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
            known *x = &t->values[node->inputs[i]];
            any = any || (x->wanted && !(node->op->traits & CLQ_OP_STOPS));
            if (!x->first_reader) x->first_reader = n + 1;
            x->last_reader = n + 1;
        }
        for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
            if (node->outputs[i]) t->values[node->outputs[i]].wanted = any;
    }
}

/* Makes one gradient of all contributions to the gradient of x, in the order in which they came. The last one came from
 * this reader. */
static void collect(tape *t, const clq_node *reader, clq_id x) {
    known *of = &t->values[x];
    clq_id terms[CLQ_ELEMENT_INPUTS] = {of->received};
    unsigned count = of->received ? 1 : 0;
    for (uint32_t n = of->last_reader; n >= of->first_reader; n--)
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
            const clq_id term = t->dx[n - 1][i];
            if (t->graph->nodes[n - 1].inputs[i] != x || !term) continue;
            if (count == CLQ_ELEMENT_INPUTS) {
                terms[0] = clq_add_sum(t->graph, reader, CLQ_SEGMENT_BACKWARD, terms, count);
                count = 1;
            }
            terms[count++] = term;
        }
    if (count == 0) return;
    of->gradient = count == 1 ? terms[0] : clq_add_sum(t->graph, reader, CLQ_SEGMENT_BACKWARD, terms, count);
    const clq_graph_value *value = clq_graph_value_at(t->graph, x);
    if (value->home != CLQ_HOME_WEIGHT || t->graph->error.status != CLQ_OK) return;
    clq_graph_value *gradient = clq_graph_value_at(t->graph, of->gradient);
    gradient->home = CLQ_HOME_GRADIENT;
    gradient->index = value->index;
}

static void differentiate_node(tape *t, uint32_t n) {
    clq_derivation d = {.graph = t->graph, .node = t->graph->nodes[n]};
    const clq_operation *op = d.node.op;
    bool any = false, came = op->traits & CLQ_OP_LOSS;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) {
        d.dy[i] = t->values[d.node.outputs[i]].gradient;
        came = came || d.dy[i];
    }
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        d.wants[i] = t->values[d.node.inputs[i]].wanted;
        any = any || d.wants[i];
    }
    if (!came || !any || (op->traits & CLQ_OP_STOPS)) return;
    if (!op->differentiate) {
        clq_graph_fail(t->graph, clq_fail(CLQ_ERROR_INTERNAL, "layer '%s': the operation %s has no derivative",
                                          d.node.scope, op->name));
        return;
    }
    op->differentiate(&d);
    t->graph->nodes[n] = d.node;
    memcpy(t->dx[n], d.dx, sizeof d.dx);
}

static void walk_back(tape *t) {
    for (uint32_t n = t->forward; n-- > 0 && t->graph->error.status == CLQ_OK;) {
        differentiate_node(t, n);
        const clq_node node = t->graph->nodes[n]; /* adding may move it */
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
            const clq_id x = node.inputs[i]; /* maybe a second time: then it has its gradient already */
            if (x && t->values[x].first_reader == n + 1 && !t->values[x].gradient) collect(t, &node, x);
        }
    }
}

/* Later stages make the gradients of what is sent. */
static void add_received_gradients(tape *t) {
    for (uint32_t i = 0; t->graph->stage && i < t->graph->sent_count; i++) {
        known *of = &t->values[t->graph->sent[i]];
        if (!t->graph->stage->after.trained[i]) continue;
        clq_graph_value gradient = *clq_graph_value_at(t->graph, t->graph->sent[i]);
        gradient.name = "gradient";
        gradient.home = CLQ_HOME_RECEIVED_GRADIENT;
        gradient.index = i;
        of->received = clq_graph_add_value(t->graph, &gradient);
        if (!of->first_reader) of->gradient = of->received;
    }
}

static void place_sent_gradients(tape *t, uint32_t values) {
    for (clq_id id = 1; t->graph->stage && id <= values && t->graph->error.status == CLQ_OK; id++) {
        const clq_graph_value *value = clq_graph_value_at(t->graph, id);
        if (value->home == CLQ_HOME_RECEIVED && t->values[id].wanted && t->values[id].gradient)
            (void)clq_graph_place(t->graph, t->values[id].gradient, CLQ_HOME_SENT_GRADIENT, value->index,
                                  CLQ_SEGMENT_BACKWARD);
    }
}

/* If no gradient came to a value, for example because it was stopped, its gradient is 0: updates and other stages read
 * it all the same. */
static void add_missing(tape *t, uint32_t values) {
    for (clq_id id = 1; id <= values && t->graph->error.status == CLQ_OK; id++) {
        const clq_home home = clq_graph_value_at(t->graph, id)->home;
        if (!t->values[id].wanted || t->values[id].gradient) continue;
        if (home == CLQ_HOME_WEIGHT) (void)clq_add_zeros(t->graph, id, CLQ_HOME_GRADIENT);
        if (home == CLQ_HOME_RECEIVED) (void)clq_add_zeros(t->graph, id, CLQ_HOME_SENT_GRADIENT);
    }
}

void clq_graph_differentiate(clq_graph *graph, const clq_pass_context *context) {
    const uint32_t values = graph->value_count;
    (void)context;
    tape t = {.graph = graph, .forward = graph->node_count};
    t.values = clq_alloc((size_t)values + 1, sizeof *t.values);
    t.dx = clq_alloc(t.forward, sizeof *t.dx);
    if (t.values && t.dx) {
        find_wanted(&t);
        add_received_gradients(&t);
        walk_back(&t);
        place_sent_gradients(&t, values);
        add_missing(&t, values);
    } else {
        clq_graph_fail(graph, CLQ_ERROR_MEMORY);
    }
    clq_free(t.values);
    clq_free(t.dx);
}
