/* How ranks split a model's variables. This is decided on the graph of a training step without loss, so that all plans
 * of a model agree. A chain begins at a node that can begin one: its output is split into runs. By the rules of the
 * operations, the split is followed through all nodes that read or make a split value, up to nodes whose output is a
 * sum of the ranks' summands. If a rule refuses, all values of this chain stay whole. Then some of the nodes that are
 * left are split alone, and the parts of their outputs are joined. */
#include "graph/step/step.h"

#include <stdlib.h>
#include <string.h>

typedef struct way {
    unsigned axis;
    size_t groups;     /* 0: the variable is whole */
    bool joined, rows; /* as of clq_weight_slice */
} way;

struct clq_slicing {
    const clq_model *model; /* outlives it */
    unsigned ranks;
    way *slices; /* by variable */
};

/* A range of the graph's nodes. */
typedef struct span {
    uint32_t begin, end;
} span;

/* Values that are split together. runs: by value, the length of its runs; 0: the value is whole. */
typedef struct attempt {
    size_t *runs;
    size_t groups;  /* as of clq_split */
    span nodes;     /* all nodes that make or read a split value are in this range */
    bool grew, bad; /* a value was added; the values cannot be split */
} attempt;

typedef struct finder {
    const clq_graph *graph;
    unsigned ranks;
    attempt now;
    span *uses;  /* by value: all nodes that make or read it are in this range */
    bool *found; /* by value: it is split by an attempt that succeeded */
    bool *units; /* by value that is the same for all samples: its parts make more than summands */
    way *slices;
    bool any;
} finder;

static const clq_graph_value *value_of(const finder *f, clq_id id) { return clq_graph_value_at(f->graph, id); }

static void widen(span *s, uint32_t begin, uint32_t end) {
    const bool none = s->begin == s->end;
    s->begin = none ? begin : CLQ_MIN(s->begin, begin);
    s->end = none ? end : CLQ_MAX(s->end, end);
}

static void find_uses(finder *f) {
    for (uint32_t n = 0; n < f->graph->node_count; n++)
        for (unsigned i = 0; i < CLQ_NODE_VALUES; i++)
            widen(&f->uses[clq_node_value(&f->graph->nodes[n], i)], n, n + 1);
}

/* ---- what may be split ---- */

/* A constraint needs the whole variable. */
static bool is_constrained(const finder *f, const clq_graph_value *weight) {
    return clq_variable_follows(&f->graph->model->variables[weight->index]);
}

/* Samples and states stay whole. A run of a variable has all places along the axis of the split, and along the axes
 * behind. */
static bool may_split(const finder *f, clq_id id, size_t run, clq_split *s) {
    const clq_graph_value *value = value_of(f, id);
    unsigned axis;
    size_t inner;
    if (!clq_split_axis(value, run, &axis, &inner)) return false;
    clq_split_group(s, run / inner);
    if (value->home == CLQ_HOME_WEIGHT) return inner * value->shape.dims[axis] == run && !is_constrained(f, value);
    return value->maker || value->home == CLQ_HOME_CONSTANT;
}

/* ---- growing from one node to all that have to be split with it ---- */

/* Whether the attempt splits some value of the node. */
static bool has_run(const finder *f, const clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++)
        if (f->now.runs[clq_node_value(node, i)] > 0) return true;
    return false;
}
/* Whether an earlier attempt that succeeded splits some value of the node. */
static bool was_found(const finder *f, const clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++)
        if (f->found[clq_node_value(node, i)]) return true;
    return false;
}

static void take_runs(finder *f, const clq_node *node, clq_split *s) {
    attempt *a = &f->now;
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++) {
        const clq_id id = clq_node_value(node, i);
        const size_t run = *clq_split_run(s, i);
        if (run == 0 || a->runs[id] == run) continue;
        a->bad = a->bad || !id || a->runs[id] || !may_split(f, id, run, s);
        a->runs[id] = run;
        a->grew = true;
        widen(&a->nodes, f->uses[id].begin, f->uses[id].end);
    }
    a->groups = s->groups;
    a->bad = a->bad || a->groups < f->ranks; /* groups never become more */
}

static clq_split split_of(const finder *f, const clq_node *node) {
    clq_split s = {.graph = f->graph, .node = node, .groups = f->now.groups};
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++) *clq_split_run(&s, i) = f->now.runs[clq_node_value(node, i)];
    return s;
}

static void grow_node(finder *f, const clq_node *node) {
    attempt *a = &f->now;
    if (!has_run(f, node)) return;
    clq_split s = split_of(f, node);
    a->bad = a->bad || was_found(f, node) || !node->op->split || !node->op->split(&s);
    if (!a->bad) take_runs(f, node, &s);
}

static void grow(finder *f) {
    attempt *a = &f->now;
    do {
        a->grew = false;
        for (uint32_t n = a->nodes.begin; n < a->nodes.end && !a->bad; n++) grow_node(f, &f->graph->nodes[n]);
        for (uint32_t i = 0; i < f->graph->output_count; i++) a->bad = a->bad || a->runs[f->graph->outputs[i]] > 0;
    } while (a->grew && !a->bad);
}

/* ---- what was found ---- */

static void note_weight(finder *f, const clq_graph_value *weight, size_t run, way how) {
    way *to = &f->slices[weight->index];
    size_t inner;
    *to = how;
    to->groups = f->now.groups;
    (void)clq_split_axis(weight, run, &to->axis, &inner);
    f->any = true;
}

static void begin(finder *f) {
    memset(f->now.runs, 0, ((size_t)f->graph->value_count + 1) * sizeof *f->now.runs);
    f->now.groups = 0;
    f->now.nodes = (span){0, 0};
    f->now.grew = f->now.bad = false;
}

/* Goes from the last node to the first. So a value that is made of weights alone, as a transposed kernel, is seen where
 * it is read before it is seen where it is made. */
static void find_units(finder *f) {
    memset(f->units, 0, ((size_t)f->graph->value_count + 1) * sizeof *f->units);
    for (uint32_t n = f->now.nodes.end; n-- > f->now.nodes.begin;) {
        const clq_node *node = &f->graph->nodes[n];
        if (!has_run(f, node)) continue;
        clq_split s = split_of(f, node);
        (void)node->op->split(&s); /* as it was asked before */
        const clq_id y = node->outputs[0];
        const bool units = value_of(f, y)->per_sample ? !s.summed : f->units[y];
        for (unsigned i = 0; i < CLQ_NODE_INPUTS && units; i++) f->units[node->inputs[i]] = true;
    }
}

/* How many nodes are split with the first; 0: the split is not worth it. If `first` exchanges nothing in backward,
 * because its inputs have no gradient, it may also be split alone, and then exchanges its output. So the chain must not
 * exchange more than this output. */
static uint32_t weigh(const finder *f, const clq_node *first) {
    const span *among = &f->now.nodes;
    uint32_t nodes = 0;
    size_t sums = 0;
    bool fans = false;
    for (uint32_t n = among->begin; n < among->end; n++) {
        const clq_node *node = &f->graph->nodes[n];
        if (!has_run(f, node)) continue;
        clq_split s = split_of(f, node);
        (void)node->op->split(&s); /* as it was asked before */
        if (s.summed) sums += value_of(f, node->outputs[0])->elements;
        if (node == first) fans = s.fans;
        nodes++;
    }
    return fans || sums <= value_of(f, first->outputs[0])->elements ? nodes : 0;
}

/* Follows what has to be split if a node's output is. Gives the number of nodes; 0: the split is not possible, or not
 * worth it. */
static uint32_t grow_from(finder *f, const clq_node *node) {
    if (!node->op->begins || was_found(f, node)) return 0;
    begin(f);
    clq_split s = {.graph = f->graph, .node = node};
    s.out[0] = node->op->begins(node);
    take_runs(f, node, &s);
    grow(f);
    return f->now.bad ? 0 : weigh(f, node);
}

static void take_chain(finder *f, const clq_node *node) {
    if (grow_from(f, node) == 0) return;
    find_units(f);
    for (clq_id id = 1; id <= f->graph->value_count; id++) {
        const size_t run = f->now.runs[id];
        if (run == 0) continue;
        f->found[id] = true;
        if (value_of(f, id)->home == CLQ_HOME_WEIGHT)
            note_weight(f, value_of(f, id), run, (way){.rows = !f->units[id]});
    }
}

typedef struct chain {
    uint32_t first, nodes; /* the node that it begins with; how many there are */
} chain;

static int by_length(const void *a, const void *b) {
    const chain *x = a, *y = b;
    if (x->nodes != y->nodes) return x->nodes < y->nodes ? 1 : -1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Chains that have a node in common exclude each other. The longest ones are taken, so attention is split by heads, and
 * not together with what is in front of it. */
static clq_status take_chains(finder *f) {
    const clq_graph *graph = f->graph;
    chain *chains = clq_alloc(CLQ_MAX(graph->node_count, 1u), sizeof *chains);
    uint32_t count = 0;
    if (!chains) return CLQ_ERROR_MEMORY;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const uint32_t nodes = grow_from(f, &graph->nodes[n]);
        if (nodes > 0) chains[count++] = (chain){.first = n, .nodes = nodes};
    }
    qsort(chains, count, sizeof *chains, by_length);
    for (uint32_t i = 0; i < count; i++) take_chain(f, &graph->nodes[chains[i].first]);
    clq_free(chains);
    return CLQ_OK;
}

/* ---- nodes that are split alone ---- */

/* Whether all nodes that read a value are of this operation. */
static bool is_read_alike(const finder *f, clq_id id, const clq_operation *op) {
    for (uint32_t n = f->uses[id].begin; n < f->uses[id].end; n++)
        for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
            if (f->graph->nodes[n].inputs[i] == id && f->graph->nodes[n].op != op) return false;
    return true;
}

/* Whether a node can be split alone. Of its inputs, only weights may be split, and nodes of other operations must not
 * read these. The runs of its output must be the output's rows. */
static bool is_lone(finder *f, const clq_node *node, clq_split *s) {
    begin(f);
    *s = (clq_split){.graph = f->graph, .node = node};
    s->out[0] = node->op->begins(node);
    if (!node->op->split(s)) return false;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (s->in[i] &&
            (value_of(f, node->inputs[i])->home != CLQ_HOME_WEIGHT || !is_read_alike(f, node->inputs[i], node->op)))
            return false;
    take_runs(f, node, s);
    return !f->now.bad && s->out[0] == clq_graph_value_channels(value_of(f, node->outputs[0]));
}

/* Splits a node alone, if it can be; ranks join the parts of its output right behind it. fans: nodes whose inputs have
 * gradients; otherwise nodes whose inputs have none. The latter exchange nothing but their output, which is worth it if
 * the node's weights have more elements than its output has for a sample. */
static void join(finder *f, const clq_node *node, bool fans) {
    clq_split s;
    size_t weights = 0;
    if (!node->op->begins || was_found(f, node) || !is_lone(f, node, &s)) return;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (s.in[i]) weights += value_of(f, node->inputs[i])->elements;
    if (fans ? !s.fans : s.fans || weights <= value_of(f, node->outputs[0])->elements) return;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (s.in[i]) note_weight(f, value_of(f, node->inputs[i]), s.in[i], (way){.joined = true});
}

static clq_status find(finder *f) {
    const clq_graph *graph = f->graph;
    const size_t values = (size_t)graph->value_count + 1;
    f->now.runs = clq_alloc(values, sizeof *f->now.runs);
    f->uses = clq_alloc(values, sizeof *f->uses);
    f->found = clq_alloc(values, sizeof *f->found);
    f->units = clq_alloc(values, sizeof *f->units);
    if (!f->now.runs || !f->uses || !f->found || !f->units) return CLQ_ERROR_MEMORY;
    find_uses(f);
    CLQ_TRY(take_chains(f));
    const bool chains = f->any;
    for (uint32_t n = 0; n < graph->node_count; n++) join(f, &graph->nodes[n], false);
    for (uint32_t n = 0; n < graph->node_count && !chains; n++) join(f, &graph->nodes[n], true);
    if (f->any) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_ARGUMENT,
        "model %s has nothing%s that %u devices could split: no Dense layer of at least %u units that can be "
        "split, no attention of as many heads, no Embedding as wide that a Dense layer follows, or that has more rows "
        "than a sample has numbers; use the strategy mirrored%s",
        graph->model->name, clq_model_follows(graph->model) ? " without a constraint" : "", f->ranks, f->ranks,
        f->ranks > 2 ? ", or fewer devices" : "");
}

static clq_status find_slices(clq_slicing *slicing) {
    const clq_plan_config config = {.mode = CLQ_MODE_TRAIN, .capacity = 1};
    const clq_pass_context context = {.config = &config};
    clq_graph graph = {.model = slicing->model};
    finder f = {.graph = &graph, .ranks = slicing->ranks, .slices = slicing->slices};
    clq_graph_expand(&graph, &context);
    clq_status status = clq_error_raise(&graph.error);
    if (status == CLQ_OK) {
        clq_graph_find_uses(&graph);
        status = find(&f);
    }
    clq_free(f.now.runs);
    clq_free(f.uses);
    clq_free(f.found);
    clq_free(f.units);
    clq_graph_release(&graph);
    return status;
}

clq_status clq_slicing_create(const clq_model *model, unsigned ranks, clq_slicing **out) {
    clq_slicing *slicing = clq_alloc(1, sizeof *slicing);
    if (!slicing) return CLQ_ERROR_MEMORY;
    *slicing = (clq_slicing){.model = model, .ranks = ranks};
    slicing->slices = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *slicing->slices);
    clq_status status = slicing->slices ? find_slices(slicing) : CLQ_ERROR_MEMORY;
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
    const way *s = &slicing->slices[variable];
    const size_t *dims = slicing->model->variables[variable].shape.dims;
    if (s->groups == 0) return (clq_weight_slice){.count = dims[0]};
    const size_t group = dims[s->axis] / s->groups, first = s->groups * rank / slicing->ranks,
                 end = s->groups * (rank + 1) / slicing->ranks;
    return (clq_weight_slice){
        .axis = s->axis, .first = group * first, .count = group * (end - first), .joined = s->joined, .rows = s->rows};
}

bool clq_weight_slice_is_part(const clq_weight_slice *slice, const clq_variable *variable) {
    return slice->count < variable->shape.dims[slice->axis];
}

size_t clq_weight_slice_elements(const clq_weight_slice *slice, const clq_variable *variable) {
    return variable->elements / variable->shape.dims[slice->axis] * slice->count;
}

/* How many contiguous runs of values a slice has: one for each index along the axes in front of its own axis. *values:
 * how many values lie at one index along its own axis. */
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
