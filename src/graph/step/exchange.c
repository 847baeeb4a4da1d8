/* What ranks add up within a step. It is a call in the launch list: so it stands at its place in any part that is run,
 * its value lives as long as it has to, and launches are fused in front of it and behind it, not across. */
#include "graph/step/step.h"

static clq_status run(void *context, clq_queue *queue, uint32_t count, clq_buffer *const *buffers) {
    const clq_exchange *exchange = context;
    (void)count; /* ranks without samples have zeros to add */
    return exchange->all_reduce(exchange->context, queue, buffers[0]);
}

static void emit_all_reduce(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                            clq_value *out) {
    clq_exchange *exchange = clq_alloc(1, sizeof *exchange);
    (void)out;
    if (!exchange) {
        clq_list_latch(list, CLQ_MEMORY);
        return;
    }
    *exchange = node->attributes.exchange;
    clq_launch_value(list, in[0], CLQ_READS_WRITES);
    clq_launch_call(list, "all-reduce", "all_reduce", run, exchange);
    clq_launch_cost(list, 0, 0, 2 * (double)clq_graph_value_bytes(clq_graph_value_at(graph, node->inputs[0])), 0);
}
const clq_operation clq_op_all_reduce = {.name = "all_reduce", .traits = CLQ_OP_ALIAS, .emit = emit_all_reduce};

clq_id clq_add_all_reduce(clq_graph *graph, const clq_node *like, clq_id x, const clq_exchange *exchange) {
    if (!x || clq_exchange_ranks(exchange) == 1) return x;
    clq_node node = *like;
    node.op = &clq_op_all_reduce;
    node.attributes = (clq_attributes){.exchange = *exchange};
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) node.inputs[i] = i == 0 ? x : 0;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) node.outputs[i] = 0;
    node.outputs[0] = clq_graph_add_like(graph, x, NULL);
    clq_graph_add_node(graph, &node);
    return node.outputs[0];
}
