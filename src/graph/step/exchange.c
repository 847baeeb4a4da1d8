/* What ranks add up within a step. It is a call in the launch list: so it stands at its place in any part that is run,
 * its value lives as long as it has to, and launches are fused in front of it and behind it, not across. */
#include "graph/step/step.h"

static clq_status run(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    const clq_exchange *exchange = context;
    (void)count; /* ranks without samples have zeros to add */
    return exchange->all_reduce(exchange->context, queue, buffers[0]);
}

static void emit_all_reduce(clq_emission *e) {
    clq_exchange *exchange = clq_alloc(1, sizeof *exchange);
    if (!exchange) {
        clq_list_latch(e->list, CLQ_MEMORY);
        return;
    }
    *exchange = e->node->attributes.exchange;
    clq_launch_value(e->list, e->in[0], CLQ_READS_WRITES);
    clq_launch_call(e->list, "all-reduce", "all_reduce", run, exchange);
    clq_launch_cost(e->list, 0, 0, 2 * (double)clq_graph_value_bytes(clq_graph_value_at(e->graph, e->node->inputs[0])),
                    0);
}
const clq_operation clq_op_all_reduce = {.name = "all_reduce", .traits = CLQ_OP_ALIAS, .emit = emit_all_reduce};

clq_id clq_add_all_reduce(clq_graph *graph, const clq_node *like, clq_id x, const clq_exchange *exchange) {
    if (!x || clq_exchange_ranks(exchange) == 1) return x;
    clq_node node = clq_graph_node_like(like, &clq_op_all_reduce, like->segment, CLQ_IDS(x));
    node.attributes.exchange = *exchange;
    node.outputs[0] = clq_graph_add_like(graph, x, NULL);
    return clq_graph_add_node(graph, &node);
}
