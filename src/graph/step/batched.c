/* Products of small matrices, and rows of tables: what attention and embeddings are made of. */
#include "graph/step/step.h"

/* ---- products of small matrices ---- */

/* Adds a product that is the gradient of `input`. turns: it computes the transposed product, so that the columns of its
 * result lie side by side. */
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
/* Values of samples may have 16 bits; a constant has 32. */
static bool batched_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)dtype;
    const clq_batched_problem *p = &node->attributes.batched;
    return value >= CLQ_NODE_INPUTS || (value == 0 ? p->a.sample : p->b.sample) > 0;
}

/* ---- splits: ranks have some of the products each, along an axis of counts such as attention's heads ---- */

typedef struct counted {
    size_t *run;
    const clq_batched_matrix *matrix;
    clq_id value;
    size_t rows, columns;
} counted;

static void list_matrices(clq_split *s, counted out[3]) {
    const clq_batched_problem *p = &s->node->attributes.batched;
    out[0] = (counted){&s->in[0], &p->a, s->node->inputs[0], p->m, p->k};
    out[1] = (counted){&s->in[1], &p->b, s->node->inputs[1], p->k, p->n};
    out[2] = (counted){&s->out[0], &p->c, s->node->outputs[0], p->m, p->n};
}

/* Whether the places along an axis all lie in one unit, or are whole runs apart. */
static bool keeps_to(size_t count, size_t pitch, size_t unit, size_t run) {
    return count == 1 || pitch % run == 0 || count * pitch <= unit;
}

/* Whether a run of the value is made of all matrices along `axis`, one behind the other. */
static bool has_runs(const clq_batched_problem *p, const counted *m, unsigned axis) {
    const size_t unit = m->matrix->pitch[axis], run = p->counts[axis] * unit;
    return keeps_to(p->counts[1 - axis], m->matrix->pitch[1 - axis], unit, run) &&
           keeps_to(m->rows, m->matrix->row, unit, run) && keeps_to(m->columns, m->matrix->column, unit, run) &&
           m->matrix->sample % run == 0;
}

/* Splits along `axis`, and sets all runs. False: a known run is not one along this axis. A matrix that is the same for
 * the whole axis must be a constant. */
static bool split_along(clq_split *s, unsigned axis) {
    const clq_batched_problem *p = &s->node->attributes.batched;
    counted all[3];
    list_matrices(s, all);
    for (unsigned i = 0; i < 3; i++) {
        const size_t run = p->counts[axis] * all[i].matrix->pitch[axis];
        if (*all[i].run ? *all[i].run != run
                        : run == 0 && clq_graph_value_at(s->graph, all[i].value)->home != CLQ_HOME_CONSTANT)
            return false;
        if (run > 0 && !has_runs(p, &all[i], axis)) return false;
    }
    for (unsigned i = 0; i < 3; i++) *all[i].run = p->counts[axis] * all[i].matrix->pitch[axis];
    clq_split_group(s, p->counts[axis]);
    return true;
}
static bool batched_split(clq_split *s) {
    const size_t *counts = s->node->attributes.batched.counts;
    return (counts[0] > 1 && split_along(s, 0)) || (counts[1] > 1 && split_along(s, 1));
}

static void narrow_matrix(clq_batched_matrix *matrix, size_t run, const clq_part *part) {
    size_t *const pitches[] = {&matrix->sample, &matrix->pitch[0], &matrix->pitch[1], &matrix->row, &matrix->column};
    for (unsigned i = 0; i < CLQ_COUNT_OF(pitches) && run > 0; i++)
        if (*pitches[i] >= run) *pitches[i] = clq_part_of(part, *pitches[i]);
}
static void batched_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    clq_batched_problem *p = &n->node.attributes.batched;
    const unsigned axis = p->counts[0] > 1 && s->out[0] == p->counts[0] * p->c.pitch[0] ? 0 : 1;
    p->counts[axis] = clq_part_of(part, p->counts[axis]);
    narrow_matrix(&p->a, s->in[0], part);
    narrow_matrix(&p->b, s->in[1], part);
    narrow_matrix(&p->c, s->out[0], part);
}

const clq_operation clq_op_batched = {.name = "batched",
                                      .traits = CLQ_OP_AGAIN,
                                      .stores = batched_stores,
                                      .differentiate = batched_gradient,
                                      .emit = emit_batched,
                                      .work = batched_work,
                                      .split = batched_split,
                                      .narrow = batched_narrow};

/* ---- rows of a table ---- */

/* inputs: row numbers, the table. Row numbers have no gradient. */
static void gather_gradient(clq_derivation *d) {
    if (!d->wants[1]) return;
    clq_node back = clq_graph_backward_node(&d->node, &clq_op_gather_gradient, CLQ_IDS(d->node.inputs[0], d->dy[0]));
    back.outputs[0] = d->dx[1] = clq_graph_add_gradient(d->graph, d->node.inputs[1]);
    clq_graph_add_node(d->graph, &back);
}
static void emit_gather(clq_emission *e) {
    clq_gather(e->list, &e->node->attributes.gather, e->in[0], e->in[1], e->out[0]);
}
/* Row numbers are whole, and may be larger than 16 bits can tell apart. */
static bool gather_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value == CLQ_NODE_INPUTS;
}
/* Parts of the table's columns make the same columns of each row. */
static bool gather_split(clq_split *s) {
    const size_t width = s->node->attributes.gather.width;
    clq_split_group(s, width);
    return !s->in[0] && clq_split_set(&s->in[1], width) && clq_split_set(&s->out[0], width);
}
static size_t gather_begins(const clq_node *node) { return node->attributes.gather.width; }
static void gather_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    (void)s;
    n->node.attributes.gather.width = clq_part_of(part, n->node.attributes.gather.width);
}
const clq_operation clq_op_gather = {.name = "gather",
                                     .traits = CLQ_OP_AGAIN,
                                     .exact = 1,
                                     .stores = gather_stores,
                                     .differentiate = gather_gradient,
                                     .emit = emit_gather,
                                     .split = gather_split,
                                     .begins = gather_begins,
                                     .narrow = gather_narrow};

static void emit_gather_gradient(clq_emission *e) {
    clq_gather_gradient(e->list, &e->node->attributes.gather, e->in[0], e->in[1], e->out[0]);
}
static bool gather_gradient_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    (void)list, (void)node, (void)dtype;
    return value == 1;
}
const clq_operation clq_op_gather_gradient = {
    .name = "gather_gradient", .exact = 1, .stores = gather_gradient_stores, .emit = emit_gather_gradient};
