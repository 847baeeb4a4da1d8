/* Operations that repeat, sum, join and cut values: what broadcasting, global pooling and Concatenate are made of. */
#include "graph/step/step.h"

/* ---- repeat and reduce: each is the other's derivative ---- */

static void repeat_gradient(clq_derivation *d) { clq_add_gradient(d, &clq_op_reduce, CLQ_IDS(d->dy[0])); }
static void emit_repeat(clq_emission *e) { clq_repeat(e->list, &e->node->attributes.repeat, e->in[0], e->out[0]); }
const clq_operation clq_op_repeat = {.name = "repeat",
                                     .traits = CLQ_OP_AGAIN,
                                     .stores = clq_stores_all,
                                     .differentiate = repeat_gradient,
                                     .emit = emit_repeat};

static void reduce_gradient(clq_derivation *d) { clq_add_gradient(d, &clq_op_repeat, CLQ_IDS(d->dy[0])); }
static void emit_reduce(clq_emission *e) { clq_reduce_axis(e->list, &e->node->attributes.repeat, e->in[0], e->out[0]); }
const clq_operation clq_op_reduce = {.name = "reduce",
                                     .traits = CLQ_OP_AGAIN,
                                     .stores = clq_stores_all,
                                     .differentiate = reduce_gradient,
                                     .emit = emit_reduce};

/* ---- arrange: the derivative puts numbers back to where they were taken ---- */

static void arrange_gradient(clq_derivation *d) {
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_arrange, CLQ_IDS(d->dy[0]));
    back.attributes.arrangement = clq_arrangement_back(&d->node.attributes.arrangement);
    back.outputs[0] = d->dx[0] = clq_graph_add_gradient(d->graph, d->node.inputs[0]);
    clq_graph_add_node(d->graph, &back);
}
static void emit_arrange(clq_emission *e) {
    const clq_graph_value *x = clq_graph_value_at(e->graph, e->node->inputs[0]);
    clq_arrange(e->list, &e->node->attributes.arrangement, x->elements, !x->per_sample, e->in[0], e->out[0]);
}
const clq_operation clq_op_arrange = {.name = "arrange",
                                      .traits = CLQ_OP_AGAIN,
                                      .stores = clq_stores_all,
                                      .differentiate = arrange_gradient,
                                      .emit = emit_arrange};

/* ---- concatenate and slice ---- */

/* The widths of the first `count` inputs together. */
static size_t width_of(const clq_concatenation *p, unsigned count) {
    size_t width = 0;
    for (unsigned i = 0; i < count; i++) width += p->widths[i];
    return width;
}

/* Where input `i` is in the whole. */
static clq_slice_of_channels slice_of(const clq_concatenation *p, unsigned i) {
    return (clq_slice_of_channels){width_of(p, CLQ_NODE_INPUTS), width_of(p, i)};
}

static void concatenate_gradient(clq_derivation *d) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        if (!d->wants[i]) continue;
        clq_node back = clq_graph_backward_node(&d->node, &clq_op_slice, CLQ_IDS(d->dy[0]));
        back.attributes.concatenation.part = i;
        back.outputs[0] = d->dx[i] = clq_graph_add_gradient(d->graph, d->node.inputs[i]);
        clq_graph_add_node(d->graph, &back);
    }
}
static void emit_concatenate(clq_emission *e) {
    const clq_concatenation *p = &e->node->attributes.concatenation;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS && p->widths[i]; i++)
        clq_copy_channels(e->list, p->rows, p->widths[i], (clq_slice_of_channels){p->widths[i], 0}, slice_of(p, i),
                          e->in[i], e->out[0]);
}
const clq_operation clq_op_concatenate = {.name = "concatenate",
                                          .traits = CLQ_OP_AGAIN,
                                          .stores = clq_stores_all,
                                          .differentiate = concatenate_gradient,
                                          .emit = emit_concatenate};

static void emit_slice(clq_emission *e) {
    const clq_concatenation *p = &e->node->attributes.concatenation;
    const size_t width = p->widths[p->part];
    clq_copy_channels(e->list, p->rows, width, slice_of(p, p->part), (clq_slice_of_channels){width, 0}, e->in[0],
                      e->out[0]);
}
/* Only as a gradient: it has none of its own. */
const clq_operation clq_op_slice = {.name = "slice", .stores = clq_stores_all, .emit = emit_slice};

/* ---- place: a slice becomes whole rows, with zeros where the others are ---- */

static void place_gradient(clq_derivation *d) { clq_add_gradient(d, &clq_op_slice, CLQ_IDS(d->dy[0])); }
static void emit_place(clq_emission *e) {
    const clq_concatenation *p = &e->node->attributes.concatenation;
    const clq_graph_value *y = clq_graph_value_at(e->graph, e->node->outputs[0]);
    const size_t width = p->widths[p->part];
    clq_element_program zeros = {.output_count = 1};
    zeros.outputs[0].from = clq_element_do(&zeros, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 0});
    clq_elementwise(e->list, "zeros", &zeros,
                    &(clq_element_values){
                        .elements = y->elements, .channels = clq_graph_value_channels(y), .outputs = {e->out[0]}});
    clq_copy_channels(e->list, p->rows, width, (clq_slice_of_channels){width, 0}, slice_of(p, p->part), e->in[0],
                      e->out[0]);
}
const clq_operation clq_op_place = {
    .name = "place", .traits = CLQ_OP_AGAIN, .differentiate = place_gradient, .emit = emit_place};
