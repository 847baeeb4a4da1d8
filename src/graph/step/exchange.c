/* Sums over ranks within a step. A sum is a call in the launch list: so it stands at its place in any part of the list
 * that is run, its value lives as long as it has to, and launches are fused in front of it and behind it, but not
 * across it. */
#include "graph/step/step.h"

typedef struct sum {
    clq_step_sum exchange;
    size_t floats, floats_of_sample; /* of a value that is one for all samples, else 0; of a sample's value, else 0 */
} sum;

static clq_status run(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    const sum *s = context;
    const size_t floats = s->floats + count * s->floats_of_sample;
    if (floats == 0) return CLQ_OK;
    return s->exchange.all_reduce(s->exchange.context, queue, buffers[0], floats);
}

/* A value that is one for all samples is added up even on a rank without samples, which then adds zeros. */
static void emit_all_reduce(clq_emission *e) {
    const clq_graph_value *x = clq_graph_value_at(e->graph, e->node->inputs[0]);
    const double bytes = 2 * (double)clq_graph_value_bytes(x);
    if (!e->node->attributes.exchange.all_reduce) return;
    sum *s = clq_alloc(1, sizeof *s);
    if (!s) {
        clq_list_latch(e->list, CLQ_ERROR_MEMORY);
        return;
    }
    *s = (sum){e->node->attributes.exchange, x->per_sample ? 0 : x->elements, x->per_sample ? x->elements : 0};
    clq_launch_value(e->list, e->in[0], CLQ_READS_WRITES);
    clq_launch_call(e->list, "all-reduce", "all_reduce", run, s);
    clq_launch_cost(e->list, 0, 0, x->per_sample ? 0 : bytes, x->per_sample ? bytes : 0);
}

/* Each rank has the whole gradient of the sum, and that is the gradient of its own summand. */
static void all_reduce_gradient(clq_derivation *d) { d->dx[0] = d->dy[0]; }
const clq_operation clq_op_all_reduce = {.name = "all_reduce",
                                         .traits = CLQ_OP_ALIAS | CLQ_OP_WIDE | CLQ_OP_EXCHANGES,
                                         .differentiate = all_reduce_gradient,
                                         .emit = emit_all_reduce};

clq_id clq_add_all_reduce(clq_graph *graph, const clq_node *like, clq_id x, const clq_step_sum *exchange) {
    if (!x || clq_step_sum_ranks(exchange) == 1) return x;
    clq_node node = clq_graph_node_like(like, &clq_op_all_reduce, like->segment, CLQ_IDS(x));
    node.attributes.exchange = *exchange;
    node.outputs[0] = clq_graph_add_like(graph, x, NULL);
    return clq_graph_add_node(graph, &node);
}

/* ---- fan out: its derivative is a sum over ranks ---- */

/* The sum overwrites dy. It may do so: a reader of x made dy for x alone, or dy is a sum of such gradients, and nobody
 * else reads it. If x is one value for all samples, its gradient may become a weight's gradient, which needs memory of
 * its own: so it is copied. */
static void fan_out_gradient(clq_derivation *d) {
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_all_reduce, CLQ_IDS(d->dy[0]));
    back.outputs[0] = d->dx[0] = clq_graph_add_gradient(d->graph, d->node.inputs[0]);
    clq_graph_add_node(d->graph, &back);
    if (!clq_graph_value_at(d->graph, d->node.inputs[0])->per_sample)
        d->dx[0] = clq_add_sum(d->graph, &back, CLQ_SEGMENT_BACKWARD, &back.outputs[0], 1);
}
const clq_operation clq_op_fan_out = {
    .name = "fan_out", .traits = CLQ_OP_ALIAS | CLQ_OP_AGAIN, .differentiate = fan_out_gradient};

clq_id clq_add_fan_out(clq_graph *graph, const clq_node *like, clq_id x, const clq_step_sum *exchange) {
    clq_node node = clq_graph_node_like(like, &clq_op_fan_out, like->segment, CLQ_IDS(x));
    node.attributes.exchange = *exchange;
    node.outputs[0] = clq_graph_add_like(graph, x, NULL);
    return clq_graph_add_node(graph, &node);
}
