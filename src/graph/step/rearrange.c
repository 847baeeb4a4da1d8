/* Operations that repeat, sum, join and cut values: what broadcasting, global pooling and Concatenate are made of. */
#include "graph/step/step.h"

/* ---- repeat and reduce: each is the other's derivative ---- */

static void add_inverse(clq_graph *graph, uint32_t n, const clq_operation *op, clq_id dy, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    clq_node back = clq_graph_backward_node(&node, op);
    back.inputs[0] = dy;
    back.outputs[0] = *dx = clq_graph_add_like(graph, node.inputs[0], "gradient");
    clq_graph_add_node(graph, &back);
}

static void repeat_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    (void)wants;
    add_inverse(graph, n, &clq_op_reduce, dy[0], dx);
}
static void emit_repeat(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                        clq_value *out) {
    (void)graph;
    clq_repeat(list, &node->attributes.repeat, in[0], out[0]);
}
const clq_operation clq_op_repeat = {.name = "repeat", .differentiate = repeat_gradient, .emit = emit_repeat};

static void reduce_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    (void)wants;
    add_inverse(graph, n, &clq_op_repeat, dy[0], dx);
}
static void emit_reduce(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                        clq_value *out) {
    (void)graph;
    clq_reduce_axis(list, &node->attributes.repeat, in[0], out[0]);
}
const clq_operation clq_op_reduce = {.name = "reduce", .differentiate = reduce_gradient, .emit = emit_reduce};

/* ---- concatenate and slice ---- */

static size_t whole_width(const clq_concatenation *p) {
    size_t width = 0;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) width += p->widths[i];
    return width;
}

static void concatenate_gradient(clq_graph *graph, uint32_t n, const clq_id *dy, const bool *wants, clq_id *dx) {
    const clq_node node = graph->nodes[n];
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        if (!wants[i]) continue;
        clq_node back = clq_graph_backward_node(&node, &clq_op_slice);
        back.attributes.concatenation.part = i;
        back.inputs[0] = dy[0];
        back.outputs[0] = dx[i] = clq_graph_add_like(graph, node.inputs[i], "gradient");
        clq_graph_add_node(graph, &back);
    }
}
static void emit_concatenate(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                             clq_value *out) {
    const clq_concatenation *p = &node->attributes.concatenation;
    size_t offset = 0;
    (void)graph;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS && p->widths[i]; i++) {
        clq_copy_channels(list, p->rows, p->widths[i], (clq_slice_of_channels){p->widths[i], 0},
                          (clq_slice_of_channels){whole_width(p), offset}, in[i], out[0]);
        offset += p->widths[i];
    }
}
const clq_operation clq_op_concatenate = {
    .name = "concatenate", .differentiate = concatenate_gradient, .emit = emit_concatenate};

static void emit_slice(clq_list *list, const clq_graph *graph, const clq_node *node, const clq_value *in,
                       clq_value *out) {
    const clq_concatenation *p = &node->attributes.concatenation;
    size_t offset = 0;
    (void)graph;
    for (unsigned i = 0; i < p->part; i++) offset += p->widths[i];
    clq_copy_channels(list, p->rows, p->widths[p->part], (clq_slice_of_channels){whole_width(p), offset},
                      (clq_slice_of_channels){p->widths[p->part], 0}, in[0], out[0]);
}
/* Only as a gradient: it has none of its own. */
const clq_operation clq_op_slice = {.name = "slice", .emit = emit_slice};
