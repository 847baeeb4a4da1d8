/* Elementwise operations: a small program for each element of values of one shape, and its derivative. */
#include "graph/step/step.h"

const struct clq_element_input clq_each_element = {.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32};

/* ---- activations ---- */

/* The activation that an instruction applies; LINEAR: none. */
static clq_activation activation_of(clq_element_op op) {
    for (unsigned a = 0; op != CLQ_ELEMENT_INPUT && clq_activation_row_of((clq_activation)a); a++)
        if (clq_activation_row_of((clq_activation)a)->op == op) return (clq_activation)a;
    return CLQ_LINEAR;
}

clq_activation clq_element_single_activation(const clq_element_program *p) {
    if (p->input_count != 1 || p->instruction_count != 2 || p->output_count != 1 || p->sum_count > 0) return CLQ_LINEAR;
    const clq_activation activation = activation_of(p->instructions[1].op);
    return clq_activation_joins(activation) ? activation : CLQ_LINEAR;
}

/* ---- sums ---- */

clq_id clq_add_sum(clq_graph *graph, const clq_node *like, clq_segment segment, const clq_id *terms, unsigned count) {
    clq_node node = clq_graph_node_like(like, &clq_op_elementwise, segment, CLQ_IDS(terms[0]));
    clq_element_program *p = &node.attributes.program;
    unsigned sum = clq_element_take(p, clq_each_element);
    for (unsigned i = 1; i < count; i++) {
        const unsigned term = clq_element_take(p, clq_each_element);
        sum = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = sum, .b = term});
        node.inputs[i] = terms[i];
    }
    p->outputs[p->output_count++].from = sum;
    node.outputs[0] = clq_graph_add_like(graph, terms[0], NULL);
    return clq_graph_add_node(graph, &node);
}

/* ---- differentiation ---- */

enum { NONE = UINT32_MAX };

/* A program that computes gradients: first the forward program again, then the adjoint of each of its registers. */
typedef struct adjoints {
    const clq_element_program *forward;
    clq_element_program back;
    unsigned again[CLQ_ELEMENT_INSTRUCTIONS];   /* the register of `back` that holds what a register of `forward` did */
    unsigned adjoint[CLQ_ELEMENT_INSTRUCTIONS]; /* likewise its gradient; NONE: none came */
    clq_id inputs[CLQ_NODE_INPUTS];             /* of `back` */
    const clq_node *node;
    bool full; /* `back` has no room left */
    bool gap;  /* an instruction that a gradient came to has no derivative here */
} adjoints;

static unsigned append(adjoints *a, clq_instruction instruction) {
    if (a->back.instruction_count == CLQ_ELEMENT_INSTRUCTIONS) a->full = true;
    if (a->full) return 0;
    const unsigned made = clq_element_do(&a->back, instruction);
    if (clq_element_words(&a->back) > CLQ_ELEMENT_WORDS) a->full = true;
    return made;
}

static unsigned binary(adjoints *a, clq_element_op op, unsigned x, unsigned y) {
    return append(a, (clq_instruction){.op = op, .a = x, .b = y});
}

static unsigned take(adjoints *a, clq_id value, struct clq_element_input input) {
    for (unsigned i = 0; i < a->back.input_count; i++)
        if (a->inputs[i] == value)
            for (unsigned k = 0; k < a->back.instruction_count; k++)
                if (a->back.instructions[k].op == CLQ_ELEMENT_INPUT && a->back.instructions[k].a == i) return k;
    if (a->back.input_count == CLQ_ELEMENT_INPUTS || a->back.instruction_count == CLQ_ELEMENT_INSTRUCTIONS) {
        a->full = true;
        return 0;
    }
    a->inputs[a->back.input_count] = value;
    return clq_element_take(&a->back, input);
}

/* What forward register r held, computed again where it was not yet. */
static unsigned value_of(adjoints *a, unsigned r) {
    clq_instruction instruction = a->forward->instructions[r];
    if (a->again[r] != NONE) return a->again[r];
    if (instruction.op == CLQ_ELEMENT_INPUT) {
        a->again[r] = take(a, a->node->inputs[instruction.a], a->forward->inputs[instruction.a]);
        return a->again[r];
    }
    /* The result itself is an input of the derivative where it was stored. */
    for (unsigned i = 0; i < a->forward->output_count; i++)
        if (a->forward->outputs[i].from == r && instruction.op != CLQ_ELEMENT_CONSTANT) {
            a->again[r] = take(a, a->node->outputs[i], clq_each_element);
            return a->again[r];
        }
    const unsigned operands = clq_element_operands(instruction.op);
    if (operands > 0) instruction.a = value_of(a, instruction.a);
    if (operands > 1) instruction.b = value_of(a, instruction.b);
    a->again[r] = append(a, instruction);
    return a->again[r];
}

static void contribute(adjoints *a, unsigned r, unsigned gradient) {
    a->adjoint[r] = a->adjoint[r] == NONE ? gradient : binary(a, CLQ_ELEMENT_ADD, a->adjoint[r], gradient);
}

/* Of equals the first. */
static void differentiate_maximum(adjoints *a, const clq_instruction *i, unsigned dy) {
    const unsigned is_first = binary(a, CLQ_ELEMENT_AT_LEAST, value_of(a, i->a), value_of(a, i->b));
    const unsigned zero = append(a, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = 0});
    contribute(a, i->a, append(a, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = is_first, .b = dy, .c = zero}));
    contribute(a, i->b, append(a, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = is_first, .b = zero, .c = dy}));
}

static void differentiate_activation(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    const clq_activation activation = activation_of(i->op);
    if (activation == CLQ_LINEAR) {
        a->gap = true;
        return;
    }
    const clq_activation_row *row = clq_activation_row_of(activation);
    contribute(a, i->a, binary(a, row->slope, value_of(a, row->slope_of_input ? i->a : r), dy));
}

/* Register r of the forward program has gradient dy: what its operands get. Layers are made of these instructions and
 * of activations; others are a gap. */
static void differentiate_instruction(adjoints *a, unsigned r, unsigned dy) {
    clq_instruction i = a->forward->instructions[r];
    switch (i.op) {
    case CLQ_ELEMENT_INPUT:
    case CLQ_ELEMENT_CONSTANT: break;
    case CLQ_ELEMENT_ADD:
        contribute(a, i.a, dy);
        contribute(a, i.b, dy);
        break;
    case CLQ_ELEMENT_SUBTRACT:
        contribute(a, i.a, dy);
        contribute(a, i.b, append(a, (clq_instruction){.op = CLQ_ELEMENT_NEGATE, .a = dy}));
        break;
    case CLQ_ELEMENT_MULTIPLY:
        contribute(a, i.a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, value_of(a, i.b)));
        contribute(a, i.b, binary(a, CLQ_ELEMENT_MULTIPLY, dy, value_of(a, i.a)));
        break;
    case CLQ_ELEMENT_MAXIMUM: differentiate_maximum(a, &i, dy); break;
    case CLQ_ELEMENT_SCALE:
    case CLQ_ELEMENT_DROPOUT: {
        clq_instruction same = i; /* the same factor; the same mask */
        same.a = dy;
        contribute(a, i.a, append(a, same));
        break;
    }
    default: differentiate_activation(a, &i, r, dy); break;
    }
}

/* The value that has register r already: dy itself, or another input's gradient. 0: none. */
static clq_id gradient_of(const adjoints *a, const clq_element_program *p, const clq_node *node, unsigned r) {
    const clq_instruction *i = &a->back.instructions[r];
    if (i->op == CLQ_ELEMENT_INPUT) return a->inputs[i->a];
    for (size_t k = 0; k < p->output_count; k++)
        if (p->outputs[k].from == r) return node->outputs[k];
    return 0;
}

/* The gradient of what there is one of for each element. */
static void store_elements(clq_derivation *d, adjoints *a, clq_node *node, unsigned r, unsigned input) {
    clq_element_program *p = &node->attributes.program;
    clq_id *dx = &d->dx[input];
    *dx = gradient_of(a, p, node, a->adjoint[r]);
    if (*dx) return;
    if (p->output_count == CLQ_ELEMENT_OUTPUTS) {
        a->full = true;
        return;
    }
    *dx = node->outputs[p->output_count] = clq_graph_add_like(d->graph, node->inputs[0], "gradient");
    p->outputs[p->output_count++].from = a->adjoint[r];
}

/* Of a vector by channel, once all of those are stored: sums over rows. */
static void store_sums(clq_derivation *d, adjoints *a, clq_node *node, unsigned r, unsigned input) {
    clq_element_program *p = &node->attributes.program;
    const size_t place = p->output_count + p->sum_count;
    if (p->sum_count == CLQ_ELEMENT_SUMS || place == CLQ_NODE_OUTPUTS) {
        a->full = true;
        return;
    }
    d->dx[input] = node->outputs[place] = clq_graph_add_gradient(d->graph, d->node.inputs[input]);
    p->sums[p->sum_count++] = a->adjoint[r];
}

static void store_each(clq_derivation *d, adjoints *a, clq_node *node, bool by_channel) {
    for (unsigned r = 0; r < a->forward->instruction_count && !a->full; r++) {
        const clq_instruction *i = &a->forward->instructions[r];
        if (i->op != CLQ_ELEMENT_INPUT || !d->wants[i->a] || a->adjoint[r] == NONE) continue;
        if ((a->forward->inputs[i->a].kind == CLQ_EACH_CHANNEL) != by_channel) continue;
        if (by_channel)
            store_sums(d, a, node, r, i->a);
        else
            store_elements(d, a, node, r, i->a);
    }
}

static void store(clq_derivation *d, adjoints *a) {
    clq_node node = clq_graph_node_like(a->node, &clq_op_elementwise, CLQ_SEGMENT_BACKWARD, a->inputs);
    const clq_element_program *p = &node.attributes.program;
    node.attributes.program = a->back;
    store_each(d, a, &node, false);
    store_each(d, a, &node, true);
    if (a->gap)
        clq_graph_fail(d->graph, clq_fail(CLQ_INTERNAL, "layer '%s': an elementwise instruction has no derivative",
                                          a->node->scope));
    else if (a->full)
        clq_graph_fail(d->graph,
                       clq_fail(CLQ_UNSUPPORTED, "layer '%s': the derivative of its elementwise operation is too long",
                                a->node->scope));
    else if (p->output_count + p->sum_count > 0)
        clq_graph_add_node(d->graph, &node);
}

/* From the gradients of the outputs to the adjoints of all registers. */
static void walk_back(adjoints *a, const clq_id *dy) {
    const clq_element_program *p = a->forward;
    for (unsigned r = 0; r < CLQ_ELEMENT_INSTRUCTIONS; r++) a->again[r] = a->adjoint[r] = NONE;
    for (unsigned i = 0; i < p->output_count; i++)
        if (dy[i]) contribute(a, p->outputs[i].from, take(a, dy[i], clq_each_element));
    for (unsigned r = (unsigned)p->instruction_count; r-- > 0 && !a->full;)
        if (a->adjoint[r] != NONE) differentiate_instruction(a, r, a->adjoint[r]);
}

static void differentiate(clq_derivation *d) {
    const clq_element_program *p = &d->node.attributes.program;
    adjoints a = {.forward = p, .node = &d->node, .back = {.seed = p->seed, .slice = p->slice}};
    walk_back(&a, d->dy);
    store(d, &a);
}

bool clq_element_has_derivative(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    adjoints a = {.forward = p, .node = node};
    clq_id dy[CLQ_NODE_OUTPUTS];
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) dy[i] = UINT32_MAX - i; /* some value of its own */
    walk_back(&a, dy);
    return !a.full && !a.gap && p->input_count <= CLQ_ELEMENT_OUTPUTS;
}

/* ---- launches ---- */

/* The program with the types in which its values are stored. */
static clq_element_program typed_program(const clq_emission *e) {
    clq_element_program p = e->node->attributes.program;
    for (size_t i = 0; i < p.input_count; i++)
        if (p.inputs[i].dtype == CLQ_F32) p.inputs[i].dtype = clq_list_storage(e->list, e->in[i]);
    for (size_t i = 0; i < p.output_count; i++) p.outputs[i].dtype = clq_list_storage(e->list, e->out[i]);
    return p;
}

static void emit(clq_emission *e) {
    const clq_element_program p = typed_program(e);
    const clq_graph_value *x = clq_graph_value_at(e->graph, e->node->inputs[0]);
    clq_element_values v = {.elements = x->elements, .channels = clq_graph_value_channels(x), .whole = !x->per_sample};
    for (size_t i = 0; i < p.input_count; i++) v.inputs[i] = e->in[i];
    for (size_t i = 0; i < p.output_count; i++) v.outputs[i] = e->out[i];
    for (size_t i = 0; i < p.sum_count; i++) v.sums[i] = e->out[p.output_count + i];
    const bool backward = e->node->segment == CLQ_SEGMENT_BACKWARD && !e->node->again;
    clq_elementwise(e->list, backward ? "backward" : "forward", &p, &v);
}

/* What there is one of for each element. Sums are small, and made of many terms. */
static bool stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    const clq_element_program *p = &node->attributes.program;
    (void)list;
    (void)dtype;
    if (value >= CLQ_NODE_INPUTS) return value - CLQ_NODE_INPUTS < p->output_count;
    return p->inputs[value].kind == CLQ_EACH_ELEMENT;
}

static bool keeps_columns(const clq_graph *graph, const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    (void)graph;
    for (unsigned i = 0; i < p->input_count; i++)
        if (p->inputs[i].kind != CLQ_EACH_ELEMENT) return false;
    return true;
}
static void take_columns(clq_node *node, size_t first, size_t whole) {
    node->attributes.program.slice = (struct clq_element_slice){whole, first};
}

const clq_operation clq_op_elementwise = {.name = "elementwise",
                                          .traits = CLQ_OP_AGAIN,
                                          .overwrites = 1,
                                          .stores = stores,
                                          .differentiate = differentiate,
                                          .emit = emit,
                                          .keeps_columns = keeps_columns,
                                          .take_columns = take_columns};
