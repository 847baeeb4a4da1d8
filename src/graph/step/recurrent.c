/* Recurrent cells over sequences. */
#include "graph/step/parts.h"

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

/* The weights' gradient: one product over all steps of all samples. */
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

static bool fits(const clq_node *node) {
    const clq_recurrent_problem *p = &node->attributes.recurrent;
    return clq_recurrent_knows(p->activation) && clq_recurrent_knows(p->gate_activation);
}

/* ---- what it is short for: its steps, one behind the other ---- */

enum { GATES_MOST = 4 };
enum { UPDATE, RESET, CANDIDATE };   /* GRU's gates */
enum { INPUT, FORGET, CELL, SHOWN }; /* LSTM's */

typedef struct steps {
    clq_parts parts;
    const clq_recurrent_problem *p;
    size_t gates;
    clq_id u[GATES_MOST], bias[2][GATES_MOST]; /* of each gate; 0: no bias */
    clq_id drops[GATES_MOST];                  /* of each gate: factors of the state; 0: none */
    clq_id z[GATES_MOST];                      /* what the step's input gives each gate */
    clq_id h, c;
} steps;

static clq_shape units_of(const steps *s) { return CLQ_SHAPE(s->p->units); }

/* Takes apart what each gate has of its own, and sets the first state. */
static steps begin(clq_graph *graph, const clq_node *node) {
    const clq_recurrent_problem *p = &node->attributes.recurrent;
    const clq_id *in = node->inputs;
    steps s = {.parts = {.graph = graph, .of = node, .name = "step"}, .p = p, .gates = clq_cell_gates(p->cell)};
    const size_t units = p->units, sizes[] = {units, s.gates, units};
    for (unsigned g = 0; g < s.gates; g++) {
        s.u[g] = clq_part_slice(&s.parts, in[U], sizes, g, CLQ_SHAPE(units, units));
        for (unsigned i = 0; i < 2 && in[BIAS]; i++)
            s.bias[i][g] = clq_part_run(&s.parts, in[BIAS], (i * s.gates + g) * units, units_of(&s));
        if (in[DROPS]) s.drops[g] = clq_part_run(&s.parts, in[DROPS], g * units, units_of(&s));
    }
    s.h = in[H0] ? in[H0] : clq_part_zeros(&s.parts, units_of(&s));
    if (p->cell == CLQ_CELL_LSTM) s.c = in[C0] ? in[C0] : clq_part_zeros(&s.parts, units_of(&s));
    return s;
}

static clq_id two(const steps *s, clq_element_op op, clq_id a, clq_id b) {
    return clq_part_combine(&s->parts, op, a, b);
}

/* Sets what step t's input gives each gate. */
static void take_step(steps *s, size_t t) {
    const size_t units = s->p->units, width = s->gates * units;
    const clq_id all = clq_part_run(&s->parts, s->parts.of->inputs[Z], t * width, CLQ_SHAPE(s->gates, units));
    for (unsigned g = 0; g < s->gates; g++) {
        const clq_id z = clq_part_run(&s->parts, all, g * units, units_of(s));
        s->z[g] = clq_part_by_channel(&s->parts, CLQ_ELEMENT_ADD, z, s->bias[0][g], units_of(s));
    }
}

/* What the state gives gate g. reset: the factors by which the state is reset first; 0: none. */
static clq_id multiply(const steps *s, unsigned g, clq_id reset) {
    clq_id x = s->h;
    if (s->drops[g]) x = two(s, CLQ_ELEMENT_MULTIPLY, x, s->drops[g]);
    if (reset) x = two(s, CLQ_ELEMENT_MULTIPLY, reset, x);
    clq_node node = clq_part_node(&s->parts, &clq_op_dense, CLQ_IDS(x, s->u[g], s->bias[1][g]));
    node.attributes.dense = (clq_dense_problem){.in = s->p->units, .out = s->p->units, .rows_per_example = 1};
    return clq_part_add(&s->parts, node, units_of(s));
}

static clq_id activated(const steps *s, clq_activation activation, unsigned g, clq_id product) {
    return clq_part_activate(&s->parts, activation, s->z[g], product);
}
static clq_id gate(const steps *s, unsigned g) { return activated(s, s->p->gate_activation, g, multiply(s, g, 0)); }

static void step_lstm(steps *s) {
    const clq_id kept = two(s, CLQ_ELEMENT_MULTIPLY, gate(s, FORGET), s->c),
                 cell = activated(s, s->p->activation, CELL, multiply(s, CELL, 0)),
                 added = two(s, CLQ_ELEMENT_MULTIPLY, gate(s, INPUT), cell), shown = gate(s, SHOWN);
    s->c = two(s, CLQ_ELEMENT_ADD, kept, added);
    s->h = two(s, CLQ_ELEMENT_MULTIPLY, shown, clq_part_activate(&s->parts, s->p->activation, s->c, 0));
}

/* u h + (1 - u) g = g + u (h - g) */
static void step_gru(steps *s) {
    const clq_id update = gate(s, UPDATE), reset = gate(s, RESET);
    clq_id product = multiply(s, CANDIDATE, s->p->resets_first ? reset : 0);
    if (!s->p->resets_first) product = two(s, CLQ_ELEMENT_MULTIPLY, reset, product);
    const clq_id candidate = activated(s, s->p->activation, CANDIDATE, product);
    s->h = two(s, CLQ_ELEMENT_ADD, candidate,
               two(s, CLQ_ELEMENT_MULTIPLY, update, two(s, CLQ_ELEMENT_SUBTRACT, s->h, candidate)));
}

static void step_cell(steps *s) {
    switch (s->p->cell) {
    case CLQ_CELL_SIMPLE: s->h = activated(s, s->p->activation, 0, multiply(s, 0, 0)); return;
    case CLQ_CELL_LSTM: step_lstm(s); return;
    case CLQ_CELL_GRU: step_gru(s); return;
    }
}

/* `now` if the step counts, otherwise `before`; before 0: zeros. */
static clq_id choose(const steps *s, clq_id counts, clq_id now, clq_id before) {
    clq_node node = clq_part_node(&s->parts, &clq_op_elementwise, CLQ_IDS(counts, now, before));
    clq_element_program *p = &node.attributes.program;
    clq_instruction select = {.op = CLQ_ELEMENT_SELECT};
    select.a = clq_element_take(p, clq_each_element);
    select.b = clq_element_take(p, clq_each_element);
    select.c = before ? clq_element_take(p, clq_each_element)
                      : clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 0});
    p->outputs[p->output_count++].from = clq_element_do(p, select);
    return clq_part_add(&s->parts, node, units_of(s));
}

/* Computes step t, and gives what it shows in the sequence. */
static clq_id go_on(steps *s, size_t t) {
    const clq_id h = s->h, c = s->c, mask = s->parts.of->inputs[MASK];
    take_step(s, t);
    step_cell(s);
    if (!mask) return s->h;
    const clq_repeat_problem each = {.outer = 1, .repeats = s->p->units, .inner = 1, .scale = 1};
    const clq_id counts =
        clq_part_repeat(&s->parts, clq_part_run(&s->parts, mask, t, CLQ_SHAPE(1)), &each, units_of(s));
    const clq_id shown = s->p->zeroes ? choose(s, counts, s->h, 0) : 0;
    s->h = choose(s, counts, s->h, h);
    if (c) s->c = choose(s, counts, s->c, c);
    return shown ? shown : s->h;
}

static bool lower(clq_graph *graph, const clq_node *node) {
    const clq_recurrent_problem *p = &node->attributes.recurrent;
    clq_joining sequence = {.rows = 1};
    if (p->steps > CLQ_PARTS_STEPS) return false;
    steps s = begin(graph, node);
    for (size_t i = 0; i < p->steps; i++) {
        const clq_id shown = go_on(&s, p->backwards ? p->steps - 1 - i : i);
        if (node->outputs[Y]) clq_joining_add(&s.parts, &sequence, shown, p->units);
    }
    if (node->outputs[Y]) clq_part_give(&s.parts, clq_joining_end(&s.parts, &sequence), node->outputs[Y]);
    clq_part_give(&s.parts, s.h, node->outputs[H]);
    clq_part_give(&s.parts, s.c, node->outputs[C]);
    return true;
}

/* Errors add up in a state over many steps, so all values are f32. */
const clq_operation clq_op_recurrent = {.name = "recurrent",
                                        .traits = CLQ_OP_WIDE | CLQ_OP_AGAIN,
                                        .differentiate = gradient,
                                        .emit = emit,
                                        .work = work,
                                        .lower = lower,
                                        .fits = fits};

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
