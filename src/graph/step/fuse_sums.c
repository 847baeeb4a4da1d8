/* Fuses the sums of a gradient over rows into the node that stores the gradient. */
#include "graph/step/step.h"

/* Whether the node has only a sum, of a gradient that another node stores. */
static bool is_sum(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    return p->output_count == 0 && p->sum_count == 1 && p->instruction_count == 1;
}

/* Has the node that makes a gradient make its sums, too. */
static void join_sums(clq_graph *graph, clq_node *node, const clq_pass_context *context) {
    (void)context;
    if (!is_sum(node)) return;
    const uint32_t maker = clq_graph_value_at(graph, node->inputs[0])->maker;
    if (!maker) return;
    clq_node *before = &graph->nodes[maker - 1];
    if (before->op->sums && !before->outputs[before->op->sums]) {
        before->outputs[before->op->sums] = node->outputs[0];
        node->op = NULL;
    } else if (before->op == &clq_op_elementwise && before->attributes.program.output_count > 0) {
        clq_element_program *p = &before->attributes.program;
        size_t place = 0;
        if (p->sum_count == CLQ_ELEMENT_SUMS || p->output_count + p->sum_count == CLQ_ELEMENT_RESULTS) return;
        while (before->outputs[place] != node->inputs[0]) place++;
        if (place >= p->output_count) return; /* a sum of sums */
        before->outputs[p->output_count + p->sum_count] = node->outputs[0];
        p->sums[p->sum_count++] = p->outputs[place].from;
        node->op = NULL;
    }
}
const clq_fusion clq_fusion_sums = {.last = &clq_op_elementwise, .join = join_sums};
