/* How ranks split a model's variables: which Dense layers are split by columns, which by rows. Decided on the graph of
 * a training step without loss, so that all plans of a model agree. */
#include "graph/step/step.h"

#include <string.h>

struct clq_slicing {
    const clq_model *model; /* outlives it */
    unsigned ranks;
    clq_weight_slice *slices; /* by variable: the axis, and whether it is joined; count 0: it is whole */
};

/* How a node is split. */
typedef enum role {
    ROLE_OPEN,
    ROLE_COLUMNS, /* a Dense layer, whose kernel has slices of columns */
    ROLE_ROWS,    /* a Dense layer, whose kernel has slices of rows */
    ROLE_INSIDE   /* between the two */
} role;

/* What was decided (found), or would be if the attempt succeeds. */
typedef struct roles {
    role *nodes;
    role *kernels;  /* by variable: the role of all nodes that read it */
    bool *sliced;   /* by value: of each row, a rank has some of the columns */
    bool grew, bad; /* something was added, or cannot be */
} roles;

typedef struct finder {
    const clq_graph *graph;
    unsigned ranks;
    roles found, attempt;
} finder;

static const clq_graph_value *value_of(const finder *f, clq_id id) { return clq_graph_value_at(f->graph, id); }
static uint32_t kernel_of(const finder *f, const clq_node *node) { return value_of(f, node->inputs[1])->index; }
/* Constraints are about whole variables. */
static bool is_constrained(const finder *f, clq_id id) {
    const clq_graph_value *weight = value_of(f, id);
    return id && weight->home == CLQ_HOME_WEIGHT && clq_variable_follows(&f->graph->model->variables[weight->index]);
}
/* A Dense layer whose kernel is a matrix that may be cut. */
static bool is_dense(const finder *f, const clq_node *node) {
    return node->op == &clq_op_dense && value_of(f, node->inputs[1])->home == CLQ_HOME_WEIGHT &&
           value_of(f, node->inputs[1])->shape.rank == 2 && !is_constrained(f, node->inputs[1]) &&
           !is_constrained(f, node->inputs[2]);
}

/* ---- growing from one layer to all that have to be split with it ---- */

static void take_role(finder *f, uint32_t n, role as) {
    roles *a = &f->attempt;
    if (a->nodes[n] == as) return;
    a->bad = a->bad || a->nodes[n] != ROLE_OPEN;
    a->nodes[n] = as;
    a->grew = true;
}

/* Values from outside the graph, which are samples and weights, are whole. */
static void take_slices(finder *f, clq_id id) {
    roles *a = &f->attempt;
    if (!id || a->sliced[id]) return;
    a->bad = a->bad || !value_of(f, id)->maker;
    a->sliced[id] = a->grew = true;
}

/* A shared layer has one kernel, and is split in one way. */
static void grow_dense(finder *f, uint32_t n) {
    const clq_node *node = &f->graph->nodes[n];
    roles *a = &f->attempt;
    role *kernel = &a->kernels[kernel_of(f, node)];
    if (a->sliced[node->outputs[0]]) take_role(f, n, ROLE_COLUMNS);
    if (a->sliced[node->inputs[0]]) take_role(f, n, ROLE_ROWS);
    if (*kernel != ROLE_OPEN) take_role(f, n, *kernel);
    *kernel = a->nodes[n];
    if (a->nodes[n] == ROLE_COLUMNS) take_slices(f, node->outputs[0]);
    if (a->nodes[n] == ROLE_ROWS) take_slices(f, node->inputs[0]);
    a->bad = a->bad || (a->nodes[n] == ROLE_COLUMNS && node->attributes.dense.out < f->ranks);
}

static bool touches_slices(const finder *f, const clq_node *node) {
    bool any = false;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) any = any || f->attempt.sliced[node->inputs[i]];
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) any = any || f->attempt.sliced[node->outputs[i]];
    return any;
}

static void grow_inside(finder *f, uint32_t n) {
    const clq_node *node = &f->graph->nodes[n];
    take_role(f, n, ROLE_INSIDE);
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) take_slices(f, node->inputs[i]);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) take_slices(f, node->outputs[i]);
}

static void grow_node(finder *f, uint32_t n) {
    const clq_node *node = &f->graph->nodes[n];
    if (is_dense(f, node)) {
        grow_dense(f, n);
    } else if (touches_slices(f, node)) {
        f->attempt.bad = f->attempt.bad || !node->op->keeps_columns || !node->op->keeps_columns(f->graph, node);
        grow_inside(f, n);
    }
}

static void copy_roles(const finder *f, const roles *from, roles *to) {
    memcpy(to->nodes, from->nodes, f->graph->node_count * sizeof *to->nodes);
    memcpy(to->kernels, from->kernels, f->graph->model->variable_count * sizeof *to->kernels);
    memcpy(to->sliced, from->sliced, ((size_t)f->graph->value_count + 1) * sizeof *to->sliced);
}

/* Splits layer n by columns and all that has to be split with it; or changes nothing, where something cannot be. */
static void try_columns(finder *f, uint32_t n) {
    roles *a = &f->attempt;
    copy_roles(f, &f->found, a);
    a->bad = false;
    take_role(f, n, ROLE_COLUMNS);
    do {
        a->grew = false;
        for (uint32_t k = 0; k < f->graph->node_count && !a->bad; k++) grow_node(f, k);
        for (uint32_t i = 0; i < f->graph->output_count; i++) a->bad = a->bad || a->sliced[f->graph->outputs[i]];
    } while (a->grew && !a->bad);
    if (!a->bad) copy_roles(f, a, &f->found);
}

/* ---- layers that are split alone ---- */

/* Every Dense layer with enough units is split by columns, and its units are gathered right behind it. */
static void join_all(const finder *f, clq_slicing *slicing) {
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        const clq_node *node = &f->graph->nodes[n];
        if (!is_dense(f, node) || node->attributes.dense.out < f->ranks) continue;
        f->found.kernels[kernel_of(f, node)] = ROLE_COLUMNS;
        slicing->slices[kernel_of(f, node)].joined = true;
    }
}

/* ---- all ---- */

/* Notes how the variables of split layers are sliced. The bias of a layer split by rows stays whole: it is added behind
 * the sum. False: no layer is split. */
static bool note_slices(const finder *f, clq_slicing *slicing) {
    bool any = false;
    for (uint32_t n = 0; n < f->graph->node_count; n++) {
        const clq_node *node = &f->graph->nodes[n];
        if (!is_dense(f, node) || f->found.kernels[kernel_of(f, node)] == ROLE_OPEN) continue;
        clq_weight_slice *kernel = &slicing->slices[kernel_of(f, node)];
        kernel->axis = f->found.kernels[kernel_of(f, node)] == ROLE_COLUMNS ? 1 : 0;
        kernel->count = value_of(f, node->inputs[1])->shape.dims[kernel->axis];
        if (kernel->axis == 1 && node->inputs[2])
            slicing->slices[value_of(f, node->inputs[2])->index] = (clq_weight_slice){.count = kernel->count};
        any = true;
    }
    return any;
}

static clq_status allocate_roles(const finder *f, roles *r) {
    r->nodes = clq_alloc(f->graph->node_count, sizeof *r->nodes);
    r->kernels = clq_alloc(CLQ_MAX(f->graph->model->variable_count, 1u), sizeof *r->kernels);
    r->sliced = clq_alloc((size_t)f->graph->value_count + 1, sizeof *r->sliced);
    return r->nodes && r->kernels && r->sliced ? CLQ_OK : CLQ_MEMORY;
}

static void free_roles(roles *r) {
    clq_free(r->nodes);
    clq_free(r->kernels);
    clq_free(r->sliced);
}

static clq_status find(finder *f, clq_slicing *slicing) {
    CLQ_TRY(allocate_roles(f, &f->found));
    CLQ_TRY(allocate_roles(f, &f->attempt));
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        if (is_dense(f, &f->graph->nodes[n]) && f->found.nodes[n] == ROLE_OPEN) try_columns(f, n);
    if (note_slices(f, slicing)) return CLQ_OK;
    join_all(f, slicing);
    if (note_slices(f, slicing)) return CLQ_OK;
    return clq_fail(
        CLQ_ARGUMENT,
        "model %s has no Dense layer of at least %u units%s, which %u devices could split: use the strategy "
        "mirrored%s",
        slicing->model->name, slicing->ranks, clq_model_follows(slicing->model) ? " without a constraint" : "",
        slicing->ranks, slicing->ranks > 2 ? ", or fewer devices" : "");
}

static clq_status find_slices(clq_slicing *slicing) {
    const clq_plan_config config = {.mode = CLQ_MODE_TRAIN, .capacity = 1};
    const clq_pass_context context = {.config = &config};
    clq_graph graph = {.model = slicing->model};
    finder f = {.graph = &graph, .ranks = slicing->ranks};
    clq_graph_expand(&graph, &context);
    clq_status status = clq_error_raise(&graph.error);
    if (status == CLQ_OK) {
        clq_graph_find_uses(&graph);
        status = find(&f, slicing);
    }
    free_roles(&f.found);
    free_roles(&f.attempt);
    clq_graph_release(&graph);
    return status;
}

clq_status clq_slicing_create(const clq_model *model, unsigned ranks, clq_slicing **out) {
    clq_slicing *slicing = clq_alloc(1, sizeof *slicing);
    if (!slicing) return CLQ_MEMORY;
    *slicing = (clq_slicing){.model = model, .ranks = ranks};
    slicing->slices = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *slicing->slices);
    clq_status status = slicing->slices ? find_slices(slicing) : CLQ_MEMORY;
    if (status == CLQ_OK)
        *out = slicing;
    else
        clq_slicing_destroy(slicing);
    return status;
}

void clq_slicing_destroy(clq_slicing *slicing) {
    if (!slicing) return;
    clq_free(slicing->slices);
    clq_free(slicing);
}

/* ---- slices ---- */

clq_weight_slice clq_slicing_of(const clq_slicing *slicing, unsigned rank, size_t variable) {
    clq_weight_slice slice = slicing->slices[variable];
    if (slice.count == 0) return (clq_weight_slice){.count = slicing->model->variables[variable].shape.dims[0]};
    const size_t units = slice.count;
    slice.first = units * rank / slicing->ranks;
    slice.count = units * (rank + 1) / slicing->ranks - slice.first;
    return slice;
}

bool clq_weight_slice_is_part(const clq_weight_slice *slice, const clq_variable *variable) {
    return slice->count < variable->shape.dims[slice->axis];
}

size_t clq_weight_slice_elements(const clq_weight_slice *slice, const clq_variable *variable) {
    return variable->elements / variable->shape.dims[slice->axis] * slice->count;
}

/* How many contiguous runs of values a slice is: one for each index along the axes in front of its own. *values: how
 * many values one index along its own axis has. */
static size_t runs_of(const clq_weight_slice *slice, const clq_variable *variable, size_t *values) {
    size_t runs = 1;
    for (unsigned d = 0; d < slice->axis; d++) runs *= variable->shape.dims[d];
    *values = variable->elements / runs / variable->shape.dims[slice->axis];
    return runs;
}

void clq_weight_slice_cut(const clq_weight_slice *slice, const clq_variable *variable, const float *values,
                          float *out) {
    size_t each, runs = runs_of(slice, variable, &each), pitch = variable->shape.dims[slice->axis] * each;
    const size_t run = slice->count * each;
    for (size_t i = 0; i < runs; i++)
        memcpy(out + i * run, values + i * pitch + slice->first * each, run * sizeof *out);
}

void clq_weight_slice_paste(const clq_weight_slice *slice, const clq_variable *variable, const float *values,
                            float *out) {
    size_t each, runs = runs_of(slice, variable, &each), pitch = variable->shape.dims[slice->axis] * each;
    const size_t run = slice->count * each;
    for (size_t i = 0; i < runs; i++)
        memcpy(out + i * pitch + slice->first * each, values + i * run, run * sizeof *out);
}
