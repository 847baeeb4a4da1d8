/* Products of small matrices, and rows of tables: what attention and embeddings are made of. */
#include "graph/step/step.h"

/* ---- products of small matrices ---- */

/* One product of `what`, whose memory `to` describes: as it lies, or transposed, so that its columns are side by side.
 */
static void add_product(clq_derivation *d, unsigned input, clq_id left, clq_id right, const clq_batched_problem *p,
                        bool turns) {
    clq_node back =
        clq_graph_backward_node(&d->node, &clq_op_batched, CLQ_IDS(turns ? right : left, turns ? left : right));
    clq_batched_problem *q = &back.attributes.batched;
    *q = *p;
    if (turns) {
        *q = (clq_batched_problem){.counts = {p->counts[0], p->counts[1]},
                                   .m = p->n,
                                   .n = p->m,
                                   .k = p->k,
                                   .a = clq_batched_transposed(p->b),
                                   .b = clq_batched_transposed(p->a),
                                   .c = clq_batched_transposed(p->c),
                                   .scale = p->scale};
    }
    back.outputs[0] = d->dx[input] = clq_graph_add_gradient(d->graph, d->node.inputs[input]);
    clq_graph_add_node(d->graph, &back);
}

/* dA = dC B^T, dB = A^T dC. */
static void batched_gradient(clq_derivation *d) {
    const clq_batched_problem *p = &d->node.attributes.batched;
    clq_batched_problem of_a = {.counts = {p->counts[0], p->counts[1]},
                                .m = p->m,
                                .n = p->k,
                                .k = p->n,
                                .a = p->c,
                                .b = clq_batched_transposed(p->b),
                                .c = p->a,
                                .scale = p->scale},
                        of_b = {.counts = {p->counts[0], p->counts[1]},
                                .m = p->k,
                                .n = p->n,
                                .k = p->m,
                                .a = clq_batched_transposed(p->a),
                                .b = p->c,
                                .c = p->b,
                                .scale = p->scale};
    if (d->wants[0]) add_product(d, 0, d->dy[0], d->node.inputs[1], &of_a, of_a.c.column != 1);
    if (d->wants[1]) add_product(d, 1, d->node.inputs[0], d->dy[0], &of_b, of_b.c.column != 1);
}
static void emit_batched(clq_emission *e) {
    clq_batched(e->list, &e->node->attributes.batched, e->in[0], e->in[1], e->out[0]);
}
static double batched_work(const clq_node *node) { return clq_batched_flops(&node->attributes.batched); }
/* Values of samples; a constant has 32 bits. */
static bool batched_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)dtype;
    const clq_batched_problem *p = &node->attributes.batched;
    return value >= CLQ_NODE_INPUTS || (value == 0 ? p->a.sample : p->b.sample) > 0;
}
const clq_operation clq_op_batched = {.name = "batched",
                                      .traits = CLQ_OP_AGAIN,
                                      .stores = batched_stores,
                                      .differentiate = batched_gradient,
                                      .emit = emit_batched,
                                      .work = batched_work};

/* ---- rows of a table ---- */

/* inputs: numbers of rows, the table. The numbers have no gradient. */
static void gather_gradient(clq_derivation *d) {
    if (!d->wants[1]) return;
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_gather_gradient, CLQ_IDS(d->node.inputs[0], d->dy[0]));
    back.outputs[0] = d->dx[1] = clq_graph_add_gradient(d->graph, d->node.inputs[1]);
    clq_graph_add_node(d->graph, &back);
}
static void emit_gather(clq_emission *e) {
    clq_gather(e->list, &e->node->attributes.gather, e->in[0], e->in[1], e->out[0]);
}
/* Numbers of rows are whole, and may be larger than 16 bits tell apart. */
static bool gather_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value == CLQ_NODE_INPUTS;
}
const clq_operation clq_op_gather = {.name = "gather",
                                     .traits = CLQ_OP_AGAIN,
                                     .exact = 1,
                                     .stores = gather_stores,
                                     .differentiate = gather_gradient,
                                     .emit = emit_gather};

static void emit_gather_gradient(clq_emission *e) {
    clq_gather_gradient(e->list, &e->node->attributes.gather, e->in[0], e->in[1], e->out[0]);
}
static bool gather_gradient_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value == 1;
}
const clq_operation clq_op_gather_gradient = {
    .name = "gather_gradient", .exact = 1, .stores = gather_gradient_stores, .emit = emit_gather_gradient};
