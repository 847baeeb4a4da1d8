/* Cuts a step down to what a rank computes that has slices of weights (graph.h, clq_slicing). From the slices, the
 * operations' rules tell which part of each value the rank has. Nodes become narrower. A whole value that they read is
 * fanned out. Summands of a whole value are added up over ranks. If the parts of a node's output are joined right
 * behind it, each rank puts its part among zeros, and ranks sum these rows. */
#include "graph/step/step.h"

#include <string.h>

/* What becomes of a node of the uncut graph. */
typedef struct cut_node {
    bool cut;    /* some of its values are parts */
    bool joined; /* its output is whole: the ranks' parts are joined */
    clq_split split;
    clq_part part; /* of its output or, if that is whole, of its first value that is split */
    clq_narrowing narrowing;
} cut_node;

typedef struct cutter {
    clq_graph *graph;
    const clq_pass_context *context;
    clq_node *nodes; /* of the uncut graph, as are `values` */
    uint32_t count, values;
    cut_node *cuts;     /* by node */
    clq_part *parts;    /* by value: what the rank has */
    clq_id *fanned_out; /* by value: the output of its fan-out node; 0: it has none */
} cutter;

static clq_graph_value *value_of(const cutter *c, clq_id id) { return clq_graph_value_at(c->graph, id); }

/* ---- which parts a rank has ---- */

static clq_part part_of(const clq_part *of, size_t run) {
    return (clq_part){.run = run, .first = run * of->first / of->run, .count = clq_part_of(of, run)};
}

static void note_weights(const cutter *c) {
    for (clq_id id = 1; id <= c->values; id++) {
        const clq_graph_value *value = value_of(c, id);
        if (value->home != CLQ_HOME_WEIGHT) continue;
        const clq_weight_slice *slice = &c->context->slices[value->index];
        if (!clq_weight_slice_is_part(slice, &c->graph->model->variables[value->index])) continue;
        size_t inner = 1;
        for (unsigned d = slice->axis + 1; d < value->shape.rank; d++) inner *= value->shape.dims[d];
        c->parts[id] = (clq_part){.run = inner * value->shape.dims[slice->axis],
                                  .first = inner * slice->first,
                                  .count = inner * slice->count};
    }
}

static bool is_joined(const cutter *c, const clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        const clq_id id = node->inputs[i];
        if (c->parts[id].run && value_of(c, id)->home == CLQ_HOME_WEIGHT &&
            c->context->slices[value_of(c, id)->index].joined)
            return true;
    }
    return false;
}

/* Notes which values of a node are parts. False: none is. */
static bool look_at(const cutter *c, const clq_node *node, cut_node *to) {
    *to = (cut_node){.joined = is_joined(c, node), .split = {.graph = c->graph, .node = node}};
    for (unsigned i = 0; i < CLQ_NODE_VALUES; i++) {
        const clq_part *part = &c->parts[clq_node_value(node, i)];
        *clq_split_run(&to->split, i) = part->run;
        if (part->run && !to->cut) to->part = *part;
        to->cut = to->cut || part->run;
    }
    return to->cut;
}

/* Applies the operation's rule. This should not fail: slicing.c has applied the rule, too, but from other values. */
static bool follow_rule(const cutter *c, cut_node *to) {
    const clq_node *node = to->split.node;
    if (node->op->split && node->op->split(&to->split)) return true;
    clq_graph_fail(c->graph,
                   clq_fail(CLQ_ERROR_INTERNAL, "layer '%s': the operation %s takes no slices of these values",
                            node->scope, node->op->name));
    return false;
}

/* This should not happen: slicing.c has decided for all variables whether they are parts. */
static void refuse_whole(const cutter *c, const clq_node *node, clq_id id) {
    clq_graph_fail(c->graph,
                   clq_fail(CLQ_ERROR_INTERNAL, "layer '%s': of %s a part is needed, and the rank has all of it",
                            node->scope, value_of(c, id)->name));
}

/* Finds further parts among a node's values from the known ones. *grew: there were some. */
static void note_values(const cutter *c, const clq_node *node, bool *grew) {
    cut_node known;
    if (!look_at(c, node, &known) || !follow_rule(c, &known)) return;
    for (unsigned i = 0; i < (known.joined ? CLQ_NODE_INPUTS : CLQ_NODE_VALUES); i++) {
        const size_t run = *clq_split_run(&known.split, i);
        const clq_id id = clq_node_value(node, i);
        clq_part *part = &c->parts[id];
        if (run == 0 || part->run) continue;
        if (value_of(c, id)->home == CLQ_HOME_WEIGHT) {
            refuse_whole(c, node, id);
            return;
        }
        *part = part_of(&known.part, run);
        *grew = true;
    }
}

static void note_node(const cutter *c, uint32_t n) {
    cut_node *to = &c->cuts[n];
    if (!look_at(c, &c->nodes[n], to) || !follow_rule(c, to)) return;
    if (to->split.out[0]) to->part = part_of(&to->part, to->split.out[0]);
    to->narrowing.node = c->nodes[n];
    if (c->nodes[n].op->narrow) c->nodes[n].op->narrow(&to->split, &to->part, &to->narrowing);
}

static void note_all(const cutter *c) {
    bool grew;
    note_weights(c);
    do {
        grew = false;
        for (uint32_t n = 0; n < c->count && c->graph->error.status == CLQ_OK; n++) note_values(c, &c->nodes[n], &grew);
    } while (grew && c->graph->error.status == CLQ_OK);
    for (uint32_t n = 0; n < c->count && c->graph->error.status == CLQ_OK; n++) note_node(c, n);
}

/* ---- narrower values ---- */

static void narrow_value(clq_graph_value *value, const clq_part *part) {
    unsigned axis;
    size_t inner;
    (void)clq_split_axis(value, part->run, &axis, &inner); /* slicing.c has checked that it fits */
    value->shape.dims[axis] = clq_part_of(part, value->shape.dims[axis]);
    value->elements = clq_part_of(part, value->elements);
}

static void narrow_constant(clq_constant *constant, const clq_part *part) {
    const size_t runs = constant->count / part->run;
    for (size_t i = 0; i < runs; i++)
        memmove(constant->numbers + i * part->count, constant->numbers + i * part->run + part->first,
                part->count * sizeof *constant->numbers);
    constant->count = runs * part->count;
}

static void narrow_values(const cutter *c) {
    for (clq_id id = 1; id <= c->values; id++) {
        clq_graph_value *value = value_of(c, id);
        if (c->parts[id].run == 0) continue;
        if (value->home == CLQ_HOME_CONSTANT) narrow_constant(&c->graph->constants[value->index], &c->parts[id]);
        narrow_value(value, &c->parts[id]);
    }
}

/* ---- nodes ---- */

static void fan_out(const cutter *c, const cut_node *from, clq_node *node) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        const clq_id x = node->inputs[i];
        if (!(from->split.fans >> i & 1) || x == 0 || x > c->values) continue;
        if (!c->fanned_out[x]) c->fanned_out[x] = clq_add_fan_out(c->graph, node, x, &c->context->config->joins);
        node->inputs[i] = c->fanned_out[x];
    }
}

/* Makes the node write a new value, like its output 0. Gives the value that it wrote before. */
static clq_id write_apart(const cutter *c, clq_node *node) {
    const clq_id y = node->outputs[0];
    node->outputs[0] = clq_graph_add_like(c->graph, y, NULL);
    return y;
}

static void add_sum_of(const cutter *c, const clq_node *like, clq_id x, clq_id y) {
    clq_node sum = clq_graph_node_like(like, &clq_op_all_reduce, like->segment, CLQ_IDS(x));
    sum.attributes.exchange = c->context->config->joins;
    sum.outputs[0] = y;
    clq_graph_add_node(c->graph, &sum);
}

/* Adds the node, and behind it nodes that make whole rows of the ranks' parts. */
static void add_joined(const cutter *c, clq_node *node, const clq_part *part) {
    const clq_id y = write_apart(c, node);
    clq_node place = clq_graph_node_like(node, &clq_op_place, node->segment, CLQ_IDS(node->outputs[0]));
    place.outputs[0] = clq_graph_add_like(c->graph, y, NULL);
    if (c->graph->error.status != CLQ_OK) return;
    narrow_value(value_of(c, node->outputs[0]), part);
    place.attributes.concatenation =
        (clq_concatenation){.rows = value_of(c, y)->elements / part->run,
                            .widths = {part->first, part->count, part->run - part->first - part->count},
                            .part = 1};
    clq_graph_add_node(c->graph, node);
    clq_graph_add_node(c->graph, &place);
    add_sum_of(c, node, place.outputs[0], y);
}

static void add_summed(const cutter *c, const cut_node *from, clq_node *node) {
    clq_node finish = from->narrowing.finish;
    const clq_id y = write_apart(c, node), sum = finish.op ? clq_graph_add_like(c->graph, y, NULL) : y;
    clq_graph_add_node(c->graph, node);
    add_sum_of(c, node, node->outputs[0], sum);
    if (!finish.op) return;
    finish.inputs[0] = sum;
    finish.outputs[0] = y;
    clq_graph_add_node(c->graph, &finish);
}

static clq_id add_rows(const cutter *c, clq_id like, size_t row) {
    const clq_id id = clq_graph_add_like(c->graph, like, NULL);
    if (!id) return 0;
    value_of(c, id)->shape = CLQ_SHAPE(value_of(c, id)->elements / row, row);
    return id;
}

static void add_reshape(const cutter *c, const clq_node *like, clq_id from, clq_id to) {
    clq_node node = clq_graph_node_like(like, &clq_op_reshape, like->segment, CLQ_IDS(from));
    node.outputs[0] = to;
    clq_graph_add_node(c->graph, &node);
}

/* Adds the node between reshapes, so that it works on rows of one part each. */
static void add_flat(const cutter *c, const cut_node *from, clq_node *node) {
    const size_t row = from->part.count;
    clq_node flat = *node;
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) {
        if (!from->split.in[i]) continue;
        flat.inputs[i] = add_rows(c, node->inputs[i], row);
        add_reshape(c, node, node->inputs[i], flat.inputs[i]);
    }
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (from->split.out[i]) flat.outputs[i] = add_rows(c, node->outputs[i], row);
    clq_graph_add_node(c->graph, &flat);
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++)
        if (from->split.out[i]) add_reshape(c, node, flat.outputs[i], node->outputs[i]);
}

static void add_node(const cutter *c, uint32_t n) {
    const cut_node *from = &c->cuts[n];
    if (!from->cut) {
        clq_graph_add_node(c->graph, &c->nodes[n]);
        return;
    }
    clq_node node = from->narrowing.node;
    fan_out(c, from, &node);
    if (from->joined)
        add_joined(c, &node, &from->part);
    else if (from->split.summed)
        add_summed(c, from, &node);
    else if (from->narrowing.flat)
        add_flat(c, from, &node);
    else
        clq_graph_add_node(c->graph, &node);
}

/* ---- all ---- */

/* The rules look at whole values, so all nodes are looked at before any value is narrowed. */
static void cut(cutter *c) {
    note_all(c);
    if (c->graph->error.status != CLQ_OK) return;
    narrow_values(c);
    c->graph->nodes = NULL;
    c->graph->node_count = 0;
    c->graph->node_capacity = 0;
    for (uint32_t n = 0; n < c->count && c->graph->error.status == CLQ_OK; n++) add_node(c, n);
    clq_free(c->nodes);
}

void clq_graph_cut(clq_graph *graph, const clq_pass_context *context) {
    cutter c = {.graph = graph,
                .context = context,
                .nodes = graph->nodes,
                .count = graph->node_count,
                .values = graph->value_count};
    c.cuts = clq_alloc(CLQ_MAX(c.count, 1u), sizeof *c.cuts);
    c.parts = clq_alloc((size_t)c.values + 1, sizeof *c.parts);
    c.fanned_out = clq_alloc((size_t)c.values + 1, sizeof *c.fanned_out);
    if (c.cuts && c.parts && c.fanned_out)
        cut(&c);
    else
        clq_graph_fail(graph, CLQ_ERROR_MEMORY);
    clq_free(c.cuts);
    clq_free(c.parts);
    clq_free(c.fanned_out);
}
