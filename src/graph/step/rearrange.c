/* Operations that repeat, sum, join and cut values: what broadcasting, global pooling and Concatenate are made of. */
#include "graph/step/step.h"

/* ---- repeat and reduce: each is the other's derivative ---- */

static void repeat_gradient(clq_derivation *d) { clq_add_gradient(d, &clq_op_reduce, CLQ_IDS(d->dy[0])); }
static void emit_repeat(clq_emission *e) { clq_repeat(e->list, &e->node->attributes.repeat, e->in[0], e->out[0]); }
/* Whether a run is a part of the `inner` numbers that are repeated as a whole. Otherwise, a run is several times these
 * numbers. narrow, wide: the runs of the value without and with repetitions; 0: not known. */
static bool is_inside(const clq_repeat_problem *p, size_t narrow, size_t wide) {
    return (narrow && p->inner % narrow == 0) || (wide && p->inner % wide == 0);
}
/* at_narrow, at_wide: where the two are among the node's values. */
static bool split_repeated(clq_split *s, size_t narrow, size_t wide, unsigned at_narrow, unsigned at_wide) {
    const clq_repeat_problem *p = &s->node->attributes.repeat;
    const bool inside = is_inside(p, narrow, wide);
    size_t units[CLQ_NODE_VALUES] = {0};
    units[at_narrow] = inside ? 1 : p->inner;
    units[at_wide] = inside ? 1 : p->repeats * p->inner;
    return clq_split_in_units(s, units);
}
/* Ranks may also have some of the repetitions each of a value that is whole, such as a key that several heads share. */
static bool is_shared(const clq_split *s) {
    const clq_repeat_problem *p = &s->node->attributes.repeat;
    return !s->in[0] && p->repeats > 1 && s->out[0] == p->repeats * p->inner;
}
static bool repeat_split(clq_split *s) {
    if (!is_shared(s)) return split_repeated(s, s->in[0], s->out[0], 0, CLQ_NODE_INPUTS);
    clq_split_fan(s, 0);
    clq_split_group(s, s->node->attributes.repeat.repeats);
    return true;
}
static bool reduce_split(clq_split *s) { return split_repeated(s, s->out[0], s->in[0], CLQ_NODE_INPUTS, 0); }
static void reduce_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    clq_repeat_problem *p = &n->node.attributes.repeat;
    size_t *size = is_inside(p, s->out[0], s->in[0]) ? &p->inner : &p->outer;
    *size = clq_part_of(part, *size);
}
static void repeat_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    clq_repeat_problem *p = &n->node.attributes.repeat;
    size_t *size = is_shared(s) ? &p->repeats : is_inside(p, s->in[0], s->out[0]) ? &p->inner : &p->outer;
    *size = clq_part_of(part, *size);
}
const clq_operation clq_op_repeat = {.name = "repeat",
                                     .traits = CLQ_OP_AGAIN,
                                     .stores = clq_stores_all,
                                     .differentiate = repeat_gradient,
                                     .emit = emit_repeat,
                                     .split = repeat_split,
                                     .narrow = repeat_narrow};

static void reduce_gradient(clq_derivation *d) { clq_add_gradient(d, &clq_op_repeat, CLQ_IDS(d->dy[0])); }
static void emit_reduce(clq_emission *e) { clq_reduce_axis(e->list, &e->node->attributes.repeat, e->in[0], e->out[0]); }
const clq_operation clq_op_reduce = {.name = "reduce",
                                     .traits = CLQ_OP_AGAIN,
                                     .stores = clq_stores_all,
                                     .differentiate = reduce_gradient,
                                     .emit = emit_reduce,
                                     .split = reduce_split,
                                     .narrow = reduce_narrow};

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

/* How many numbers of y lie between two places along its axis d. */
static size_t pitch_of(const clq_arrangement *a, unsigned d) {
    size_t pitch = 1;
    for (unsigned k = d + 1; k < a->rank; k++) pitch *= a->axes[k].out;
    return pitch;
}
/* How many places along an axis a run has, if one place has `pitch` numbers, and the axis `all` places. 0: the run is
 * not made of whole places, or the axis not of whole runs. */
static size_t places_of(size_t run, size_t pitch, size_t all) {
    return run % pitch == 0 && all % (run / pitch) == 0 ? run / pitch : 0;
}
/* Whether the values are split along axis d. This axis must be taken as it is; the others need not be. */
static bool is_split_along(const clq_split *s, unsigned d) {
    const clq_arrangement *a = &s->node->attributes.arrangement;
    const clq_arranged_axis *axis = &a->axes[d];
    if (axis->first != 0 || axis->step != 1 || axis->spread != 1 || axis->in != axis->out) return false;
    return (!s->in[0] || places_of(s->in[0], axis->pitch, axis->in) > 1) &&
           (!s->out[0] || places_of(s->out[0], pitch_of(a, d), axis->out) > 1);
}
static unsigned split_axis_of(const clq_split *s) {
    unsigned d = 0;
    while (d < s->node->attributes.arrangement.rank && !is_split_along(s, d)) d++;
    return d;
}
static bool arrange_split(clq_split *s) {
    const clq_arrangement *a = &s->node->attributes.arrangement;
    const unsigned d = split_axis_of(s);
    return d < a->rank && clq_split_in_units(s, (const size_t[CLQ_NODE_VALUES]){
                                                    [0] = a->axes[d].pitch, [CLQ_NODE_INPUTS] = pitch_of(a, d)});
}
static void arrange_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    clq_arrangement *a = &n->node.attributes.arrangement;
    const unsigned along = split_axis_of(s);
    for (unsigned d = 0; d < a->rank; d++)
        if (a->axes[d].pitch >= s->in[0]) a->axes[d].pitch = clq_part_of(part, a->axes[d].pitch);
    a->axes[along].in = clq_part_of(part, a->axes[along].in);
    a->axes[along].out = clq_part_of(part, a->axes[along].out);
}
const clq_operation clq_op_arrange = {.name = "arrange",
                                      .traits = CLQ_OP_AGAIN,
                                      .stores = clq_stores_all,
                                      .differentiate = arrange_gradient,
                                      .emit = emit_arrange,
                                      .split = arrange_split,
                                      .narrow = arrange_narrow};

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
/* Rows stay whole. */
static bool concatenate_split(clq_split *s) {
    const clq_concatenation *p = &s->node->attributes.concatenation;
    size_t units[CLQ_NODE_VALUES] = {[CLQ_NODE_INPUTS] = width_of(p, CLQ_NODE_INPUTS)};
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++) units[i] = p->widths[i];
    return clq_split_in_units(s, units);
}
static void concatenate_narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    (void)s;
    n->node.attributes.concatenation.rows = clq_part_of(part, n->node.attributes.concatenation.rows);
}
const clq_operation clq_op_concatenate = {.name = "concatenate",
                                          .traits = CLQ_OP_AGAIN,
                                          .stores = clq_stores_all,
                                          .differentiate = concatenate_gradient,
                                          .emit = emit_concatenate,
                                          .split = concatenate_split,
                                          .narrow = concatenate_narrow};

static void emit_slice(clq_emission *e) {
    const clq_concatenation *p = &e->node->attributes.concatenation;
    const size_t width = p->widths[p->part];
    clq_copy_channels(e->list, p->rows, width, slice_of(p, p->part), (clq_slice_of_channels){width, 0}, e->in[0],
                      e->out[0]);
}
/* It is used only as a gradient, so it has no gradient of its own. */
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
