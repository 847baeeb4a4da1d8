/* Recurrent cells over sequences. */
#include "graph/step/step.h"

enum { Z, U, BIAS, H0, C0, MASK, DROPS };              /* inputs */
enum { Y, H, C, BEFORE, KEPT };                        /* outputs; the last two are kept for backward */
enum { DY, DH, DC, OF_U, OF_KEPT, OF_MASK, OF_DROPS }; /* inputs of the gradient */
enum { DZ, DR, DBOTH, DH0, DC0 };                      /* and its outputs */

static clq_id add_rows(clq_derivation *d, const char *name, size_t rows, size_t width) {
    return clq_graph_add_value(d->graph, &(clq_graph_value){.name = name,
                                                            .dtype = CLQ_F32,
                                                            .per_sample = true,
                                                            .shape = CLQ_SHAPE(rows, width),
                                                            .elements = rows * width});
}

/* The bias's gradient: both parts of it, summed over all steps of all samples. */
static void add_sums(clq_derivation *d, clq_id both) {
    clq_node node = clq_graph_node_like(&d->node, &clq_op_elementwise, CLQ_SEGMENT_BACKWARD, CLQ_IDS(both));
    clq_element_program *p = &node.attributes.program;
    p->sums[p->sum_count++] = clq_element_take(p, clq_each_element);
    node.outputs[0] = d->dx[BIAS] = clq_graph_add_gradient(d->graph, d->node.inputs[BIAS]);
    clq_graph_add_node(d->graph, &node);
}

/* The weights' gradient: a product of all steps of all samples. */
static void add_product(clq_derivation *d, clq_id before, clq_id slopes, size_t rows) {
    const clq_recurrent_problem *p = &d->node.attributes.recurrent;
    clq_node node = clq_graph_node_like(&d->node, &clq_op_dense_gradient, CLQ_SEGMENT_BACKWARD,
                                        CLQ_IDS(before, d->node.inputs[U], slopes));
    node.attributes.dense =
        (clq_dense_problem){.in = p->units, .out = clq_cell_gates(p->cell) * p->units, .rows_per_example = rows};
    node.outputs[1] = d->dx[U] = clq_graph_add_gradient(d->graph, d->node.inputs[U]);
    clq_graph_add_node(d->graph, &node);
}

static void gradient(clq_derivation *d) {
    const clq_id *in = d->node.inputs;
    const clq_recurrent_problem p = d->node.attributes.recurrent;
    const bool drops = in[DROPS] != 0;
    const size_t width = clq_cell_gates(p.cell) * p.units, rows = clq_recurrent_copies(&p, drops) * p.steps;
    const clq_id before = add_rows(d, "before", rows, p.units),
                 kept = add_rows(d, "kept", p.steps, clq_recurrent_kept(&p));
    d->node.outputs[BEFORE] = before;
    d->node.outputs[KEPT] = kept;
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_recurrent_gradient,
                                            CLQ_IDS(d->dy[Y], d->dy[H], d->dy[C], in[U], kept, in[MASK], in[DROPS]));
    back.outputs[DZ] = d->dx[Z] = clq_graph_add_gradient(d->graph, in[Z]);
    if (clq_recurrent_apart(&p, drops)) back.outputs[DR] = add_rows(d, "gradient of products", rows, width);
    if (in[BIAS]) back.outputs[DBOTH] = add_rows(d, "gradient of biases", p.steps, 2 * width);
    if (in[H0]) back.outputs[DH0] = d->dx[H0] = clq_graph_add_gradient(d->graph, in[H0]);
    if (in[C0]) back.outputs[DC0] = d->dx[C0] = clq_graph_add_gradient(d->graph, in[C0]);
    clq_graph_add_node(d->graph, &back);
    if (d->wants[U]) add_product(d, before, back.outputs[DR] ? back.outputs[DR] : back.outputs[DZ], rows);
    if (in[BIAS] && d->wants[BIAS]) add_sums(d, back.outputs[DBOTH]);
}

static void emit(clq_emission *e) {
    const clq_recurrent_values values = {.z = e->in[Z],
                                         .u = e->in[U],
                                         .bias = e->in[BIAS],
                                         .h0 = e->in[H0],
                                         .c0 = e->in[C0],
                                         .mask = e->in[MASK],
                                         .drops = e->in[DROPS],
                                         .y = e->out[Y],
                                         .h = e->out[H],
                                         .c = e->out[C],
                                         .before = e->out[BEFORE],
                                         .kept = e->out[KEPT]};
    clq_recurrent_forward(e->list, &e->node->attributes.recurrent, &values);
}
static double work(const clq_node *node) { return clq_recurrent_flops(&node->attributes.recurrent); }
/* States of many steps gather errors: all values are f32. */
const clq_operation clq_op_recurrent = {
    .name = "recurrent", .traits = CLQ_OP_WIDE | CLQ_OP_AGAIN, .differentiate = gradient, .emit = emit, .work = work};

static void emit_gradient(clq_emission *e) {
    const clq_recurrent_gradients gradients = {.dy = e->in[DY],
                                               .dh = e->in[DH],
                                               .dc = e->in[DC],
                                               .u = e->in[OF_U],
                                               .kept = e->in[OF_KEPT],
                                               .mask = e->in[OF_MASK],
                                               .drops = e->in[OF_DROPS],
                                               .bias = e->node->outputs[DBOTH] != 0,
                                               .state = e->node->outputs[DH0] != 0,
                                               .dz = e->out[DZ],
                                               .dr = e->out[DR],
                                               .dboth = e->out[DBOTH],
                                               .dh0 = e->out[DH0],
                                               .dc0 = e->out[DC0]};
    clq_recurrent_backward(e->list, &e->node->attributes.recurrent, &gradients);
}
const clq_operation clq_op_recurrent_gradient = {
    .name = "recurrent_gradient", .traits = CLQ_OP_WIDE, .emit = emit_gradient};
