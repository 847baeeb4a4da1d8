/* Elementwise operations: a small program for each element of values of one shape, and its derivative. */
#include "graph/step/step.h"

const struct clq_element_input clq_each_element = {.kind = CLQ_EACH_ELEMENT, .dtype = CLQ_F32};

/* ---- activations ---- */

/* The activation that an instruction applies; LINEAR: none. */
static clq_activation activation_of(clq_element_op op) {
    for (unsigned a = 0; op != CLQ_ELEMENT_INPUT && clq_activation_row_of((clq_activation)a); a++)
        if (clq_activation_row_of((clq_activation)a)->op == op) return (clq_activation)a;
    return CLQ_ACTIVATION_LINEAR;
}

clq_activation clq_element_single_activation(const clq_element_program *p) {
    if (p->input_count != 1 || p->instruction_count != 2 || p->output_count != 1 || p->sum_count > 0)
        return CLQ_ACTIVATION_LINEAR;
    const clq_activation activation = activation_of(p->instructions[1].op);
    return clq_activation_joins(activation) ? activation : CLQ_ACTIVATION_LINEAR;
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
    unsigned again[CLQ_ELEMENT_INSTRUCTIONS];   /* the register of `back` that holds each of `forward`'s; NONE: none */
    unsigned adjoint[CLQ_ELEMENT_INSTRUCTIONS]; /* likewise the register of its gradient; NONE: none came */
    bool live[CLQ_ELEMENT_INSTRUCTIONS]; /* by register of `forward`: it depends on an input whose gradient is wanted */
    clq_id inputs[CLQ_NODE_INPUTS];      /* of `back` */
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

/* The register of `back` that holds what forward register r held. Appends what computes it, if there is none yet. */
static unsigned value_of(adjoints *a, unsigned r) {
    clq_instruction instruction = a->forward->instructions[r];
    if (a->again[r] != NONE) return a->again[r];
    if (instruction.op == CLQ_ELEMENT_INPUT) {
        a->again[r] = take(a, a->node->inputs[instruction.a], a->forward->inputs[instruction.a]);
        return a->again[r];
    }
    /* If forward stored the result, the derivative takes it as an input. */
    for (unsigned i = 0; i < a->forward->output_count; i++)
        if (a->forward->outputs[i].from == r && instruction.op != CLQ_ELEMENT_CONSTANT) {
            a->again[r] = take(a, a->node->outputs[i], clq_each_element);
            return a->again[r];
        }
    const unsigned operands = clq_element_operands(instruction.op);
    if (operands > 0) instruction.a = value_of(a, instruction.a);
    if (operands > 1) instruction.b = value_of(a, instruction.b);
    if (operands > 2) instruction.c = value_of(a, instruction.c);
    a->again[r] = append(a, instruction);
    return a->again[r];
}

static void contribute(adjoints *a, unsigned r, unsigned gradient) {
    a->adjoint[r] = a->adjoint[r] == NONE ? gradient : binary(a, CLQ_ELEMENT_ADD, a->adjoint[r], gradient);
}

/* ---- rules: register r, made by instruction i, has gradient dy; a rule gives i's operands their gradients ---- */

static unsigned unary(adjoints *a, clq_element_op op, unsigned x) {
    return append(a, (clq_instruction){.op = op, .a = x});
}
static unsigned numbered(adjoints *a, clq_element_op op, unsigned x, double number) {
    return append(a, (clq_instruction){.op = op, .a = x, .number = number});
}

/* No gradient goes through. */
static void stop(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)a, (void)i, (void)r, (void)dy;
}

static void of_add(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    contribute(a, i->a, dy);
    contribute(a, i->b, dy);
}
static void of_subtract(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    contribute(a, i->a, dy);
    if (a->live[i->b]) contribute(a, i->b, unary(a, CLQ_ELEMENT_NEGATE, dy));
}
static void of_multiply(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    if (a->live[i->a]) contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, value_of(a, i->b)));
    if (a->live[i->b]) contribute(a, i->b, binary(a, CLQ_ELEMENT_MULTIPLY, dy, value_of(a, i->a)));
}
static void of_divide(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    const unsigned share = binary(a, CLQ_ELEMENT_DIVIDE, dy, value_of(a, i->b));
    contribute(a, i->a, share);
    if (!a->live[i->b]) return;
    contribute(a, i->b, unary(a, CLQ_ELEMENT_NEGATE, binary(a, CLQ_ELEMENT_MULTIPLY, share, value_of(a, r))));
}

/* Gives dy to b if `first` is not 0, otherwise to c. */
static void hand_to_one(adjoints *a, unsigned first, unsigned b, unsigned c, unsigned dy) {
    const unsigned zero = numbered(a, CLQ_ELEMENT_CONSTANT, 0, 0);
    const clq_instruction to_b = {.op = CLQ_ELEMENT_SELECT, .a = first, .b = dy, .c = zero},
                          to_c = {.op = CLQ_ELEMENT_SELECT, .a = first, .b = zero, .c = dy};
    if (a->live[b]) contribute(a, b, append(a, to_b));
    if (a->live[c]) contribute(a, c, append(a, to_c));
}
/* If both operands are equal, the first one gets the gradient. */
static void of_maximum(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    hand_to_one(a, binary(a, CLQ_ELEMENT_AT_LEAST, value_of(a, i->a), value_of(a, i->b)), i->a, i->b, dy);
}
static void of_minimum(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    hand_to_one(a, binary(a, CLQ_ELEMENT_AT_LEAST, value_of(a, i->b), value_of(a, i->a)), i->a, i->b, dy);
}
static void of_select(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    hand_to_one(a, value_of(a, i->a), i->b, i->c, dy);
}

/* For SCALE, DROPOUT and NEGATE: the gradient goes through the same factor, mask or sign. */
static void of_same(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    clq_instruction same = *i;
    (void)r;
    same.a = dy;
    contribute(a, i->a, append(a, same));
}

static void of_square(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    const unsigned slope = numbered(a, CLQ_ELEMENT_SCALE, value_of(a, i->a), 2);
    contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, slope));
}
static void of_exp(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, value_of(a, r)));
}
static void of_expm1(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    const unsigned bend = binary(a, CLQ_ELEMENT_MULTIPLY, dy, value_of(a, r));
    contribute(a, i->a, binary(a, CLQ_ELEMENT_ADD, dy, bend));
}
static void of_log(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    contribute(a, i->a, binary(a, CLQ_ELEMENT_DIVIDE, dy, value_of(a, i->a)));
}
static void of_log1p(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    const unsigned one = numbered(a, CLQ_ELEMENT_CONSTANT, 0, 1);
    const unsigned sum = binary(a, CLQ_ELEMENT_ADD, one, value_of(a, i->a));
    contribute(a, i->a, binary(a, CLQ_ELEMENT_DIVIDE, dy, sum));
}
static void of_sqrt(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    const unsigned half = numbered(a, CLQ_ELEMENT_SCALE, dy, 0.5);
    contribute(a, i->a, binary(a, CLQ_ELEMENT_DIVIDE, half, value_of(a, r)));
}
static void of_abs(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    const unsigned sign = unary(a, CLQ_ELEMENT_SIGN, value_of(a, i->a));
    contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, sign));
}
/* 2 / sqrt(pi) exp(-x^2) */
static void of_erf(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    const unsigned square = unary(a, CLQ_ELEMENT_SQUARE, value_of(a, i->a));
    const unsigned bell = unary(a, CLQ_ELEMENT_EXP, unary(a, CLQ_ELEMENT_NEGATE, square));
    const unsigned slope = numbered(a, CLQ_ELEMENT_SCALE, bell, 1.1283791670955126);
    contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, slope));
}
static void of_sin(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    const unsigned cosine = unary(a, CLQ_ELEMENT_COS, value_of(a, i->a));
    contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, cosine));
}
static void of_cos(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    const unsigned sine = unary(a, CLQ_ELEMENT_SIN, value_of(a, i->a));
    contribute(a, i->a, unary(a, CLQ_ELEMENT_NEGATE, binary(a, CLQ_ELEMENT_MULTIPLY, dy, sine)));
}
static void of_power(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    (void)r;
    if (i->number == 0) return; /* the result is 1 everywhere, and 0 times 0^-1 would be NaN */
    const unsigned power = numbered(a, CLQ_ELEMENT_POWER, value_of(a, i->a), i->number - 1);
    const unsigned slope = numbered(a, CLQ_ELEMENT_SCALE, power, i->number);
    contribute(a, i->a, binary(a, CLQ_ELEMENT_MULTIPLY, dy, slope));
}

/* The activation has an instruction of its own for its slope. */
static void of_activation(adjoints *a, const clq_instruction *i, unsigned r, unsigned dy) {
    const clq_activation_row *row = clq_activation_row_of(activation_of(i->op));
    contribute(a, i->a, binary(a, row->slope, value_of(a, row->slope_of_input ? i->a : r), dy));
}

/* NULL: no layer is made of the instruction, and it has no derivative here. */
static void (*const rules[CLQ_ELEMENT_OPS])(adjoints *, const clq_instruction *, unsigned, unsigned) = {
    [CLQ_ELEMENT_INPUT] = stop,           [CLQ_ELEMENT_CONSTANT] = stop,      [CLQ_ELEMENT_GREATER] = stop,
    [CLQ_ELEMENT_AT_LEAST] = stop,        [CLQ_ELEMENT_EQUAL] = stop,         [CLQ_ELEMENT_SIGN] = stop,
    [CLQ_ELEMENT_NORMAL] = stop,          [CLQ_ELEMENT_ADD] = of_add,         [CLQ_ELEMENT_SUBTRACT] = of_subtract,
    [CLQ_ELEMENT_MULTIPLY] = of_multiply, [CLQ_ELEMENT_DIVIDE] = of_divide,   [CLQ_ELEMENT_MAXIMUM] = of_maximum,
    [CLQ_ELEMENT_MINIMUM] = of_minimum,   [CLQ_ELEMENT_SELECT] = of_select,   [CLQ_ELEMENT_SCALE] = of_same,
    [CLQ_ELEMENT_DROPOUT] = of_same,      [CLQ_ELEMENT_NEGATE] = of_same,     [CLQ_ELEMENT_SQUARE] = of_square,
    [CLQ_ELEMENT_EXP] = of_exp,           [CLQ_ELEMENT_EXPM1] = of_expm1,     [CLQ_ELEMENT_LOG] = of_log,
    [CLQ_ELEMENT_LOG1P] = of_log1p,       [CLQ_ELEMENT_SQRT] = of_sqrt,       [CLQ_ELEMENT_ABS] = of_abs,
    [CLQ_ELEMENT_ERF] = of_erf,           [CLQ_ELEMENT_SIN] = of_sin,         [CLQ_ELEMENT_COS] = of_cos,
    [CLQ_ELEMENT_POWER] = of_power,       [CLQ_ELEMENT_RELU] = of_activation, [CLQ_ELEMENT_SIGMOID] = of_activation,
    [CLQ_ELEMENT_TANH] = of_activation,   [CLQ_ELEMENT_MISH] = of_activation, [CLQ_ELEMENT_SOFTPLUS] = of_activation,
};

static void differentiate_instruction(adjoints *a, unsigned r, unsigned dy) {
    const clq_instruction *i = &a->forward->instructions[r];
    if (rules[i->op])
        rules[i->op](a, i, r, dy);
    else
        a->gap = true;
}

/* The value that holds register r already: dy itself, or another input's gradient. 0: there is none. */
static clq_id gradient_of(const adjoints *a, const clq_element_program *p, const clq_node *node, unsigned r) {
    const clq_instruction *i = &a->back.instructions[r];
    if (i->op == CLQ_ELEMENT_INPUT) return a->inputs[i->a];
    for (size_t k = 0; k < p->output_count; k++)
        if (p->outputs[k].from == r) return node->outputs[k];
    return 0;
}

/* Stores the gradient of an input that has a number for each element. */
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

static bool is_each(const adjoints *a, unsigned input) {
    const clq_element_kind kind = a->forward->inputs[input].kind;
    return kind != CLQ_EACH_CHANNEL && kind != CLQ_ONE_FOR_ALL;
}

/* Stores the gradient of a vector by channel, once all gradients by element are stored: sums over rows. If the input is
 * one number for all, the sums are by channel, too, and add_up adds them up later. */
static void store_sums(clq_derivation *d, adjoints *a, clq_node *node, unsigned r, unsigned input) {
    clq_element_program *p = &node->attributes.program;
    const size_t place = p->output_count + p->sum_count;
    if (p->sum_count == CLQ_ELEMENT_SUMS || place == CLQ_ELEMENT_RESULTS) {
        a->full = true;
        return;
    }
    clq_id sums = clq_graph_add_gradient(d->graph, d->node.inputs[input]);
    if (sums && a->forward->inputs[input].kind == CLQ_ONE_FOR_ALL) {
        clq_graph_value *value = clq_graph_value_at(d->graph, sums);
        value->elements = clq_graph_value_channels(clq_graph_value_at(d->graph, clq_element_place(a->node)));
        value->shape = CLQ_SHAPE(value->elements, 1); /* rows of one channel, which add_up sums */
    }
    d->dx[input] = node->outputs[place] = sums;
    p->sums[p->sum_count++] = a->adjoint[r];
}

/* Adds up sums by channel to one number. */
static void add_up(clq_derivation *d, unsigned input) {
    clq_node node = clq_graph_node_like(&d->node, &clq_op_elementwise, CLQ_SEGMENT_BACKWARD, CLQ_IDS(d->dx[input]));
    clq_element_program *p = &node.attributes.program;
    p->sums[p->sum_count++] = clq_element_take(p, clq_each_element);
    d->dx[input] = node.outputs[0] = clq_graph_add_gradient(d->graph, d->node.inputs[input]);
    clq_graph_add_node(d->graph, &node);
}

static void store_each(clq_derivation *d, adjoints *a, clq_node *node, bool by_channel) {
    for (unsigned r = 0; r < a->forward->instruction_count && !a->full; r++) {
        const clq_instruction *i = &a->forward->instructions[r];
        if (i->op != CLQ_ELEMENT_INPUT || !d->wants[i->a] || a->adjoint[r] == NONE) continue;
        if (is_each(a, i->a) == by_channel) continue;
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
        clq_graph_fail(d->graph, clq_fail(CLQ_ERROR_INTERNAL,
                                          "layer '%s': an elementwise instruction has no derivative", a->node->scope));
    else if (a->full)
        clq_graph_fail(d->graph,
                       clq_fail(CLQ_ERROR_UNSUPPORTED,
                                "layer '%s': the derivative of its elementwise operation is too long", a->node->scope));
    else if (p->output_count + p->sum_count > 0)
        clq_graph_add_node(d->graph, &node);
    for (unsigned i = 0; i < a->forward->input_count && d->graph->error.status == CLQ_OK; i++)
        if (d->dx[i] && a->forward->inputs[i].kind == CLQ_ONE_FOR_ALL) add_up(d, i);
}

static void find_live(adjoints *a, const bool *wants) {
    for (unsigned r = 0; r < a->forward->instruction_count; r++) {
        const clq_instruction *i = &a->forward->instructions[r];
        const unsigned operands = clq_element_operands(i->op);
        a->live[r] = (i->op == CLQ_ELEMENT_INPUT && (!wants || wants[i->a])) || (operands > 0 && a->live[i->a]) ||
                     (operands > 1 && a->live[i->b]) || (operands > 2 && a->live[i->c]);
    }
}

/* Goes from the gradients of the outputs to the adjoints of all registers. wants: whether an input's gradient is
 * wanted; NULL: all are. */
static void walk_back(adjoints *a, const clq_id *dy, const bool *wants) {
    const clq_element_program *p = a->forward;
    find_live(a, wants);
    for (unsigned r = 0; r < CLQ_ELEMENT_INSTRUCTIONS; r++) a->again[r] = a->adjoint[r] = NONE;
    for (unsigned i = 0; i < p->output_count; i++)
        if (dy[i]) contribute(a, p->outputs[i].from, take(a, dy[i], clq_each_element));
    for (unsigned r = (unsigned)p->instruction_count; r-- > 0 && !a->full;)
        if (a->adjoint[r] != NONE && a->live[r]) differentiate_instruction(a, r, a->adjoint[r]);
}

static void differentiate(clq_derivation *d) {
    const clq_element_program *p = &d->node.attributes.program;
    adjoints a = {.forward = p, .node = &d->node, .back = {.seed = p->seed, .slice = p->slice}};
    walk_back(&a, d->dy, d->wants);
    store(d, &a);
}

bool clq_element_has_derivative(const clq_node *node) {
    const clq_element_program *p = &node->attributes.program;
    adjoints a = {.forward = p, .node = node};
    clq_id dy[CLQ_NODE_OUTPUTS];
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS; i++) dy[i] = UINT32_MAX - i; /* an id that no value has */
    walk_back(&a, dy, NULL);
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
    const clq_graph_value *x = clq_graph_value_at(e->graph, clq_element_place(e->node));
    clq_element_values v = {.elements = x->elements, .channels = clq_graph_value_channels(x), .whole = !x->per_sample};
    for (size_t i = 0; i < p.input_count; i++) v.inputs[i] = e->in[i];
    for (size_t i = 0; i < p.output_count; i++) v.outputs[i] = e->out[i];
    for (size_t i = 0; i < p.sum_count; i++) v.sums[i] = e->out[p.output_count + i];
    const bool backward = e->node->segment == CLQ_SEGMENT_BACKWARD && !e->node->again;
    clq_elementwise(e->list, backward ? "backward" : "forward", &p, &v);
}

/* Only values with a number for each element may have 16 bits. Sums may not: they are small, and made of many terms. */
static bool stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype) {
    const clq_element_program *p = &node->attributes.program;
    (void)list;
    (void)dtype;
    if (value >= CLQ_NODE_INPUTS) return value - CLQ_NODE_INPUTS < p->output_count;
    return p->inputs[value].kind == CLQ_EACH_ELEMENT;
}

/* An input by channel is split as the channels of a row are. If ranks have whole rows, it is whole, too. */
static bool is_by_channel(clq_element_kind kind) {
    return kind == CLQ_EACH_CHANNEL || kind == CLQ_EACH_SAMPLE_AND_CHANNEL;
}
static bool takes_channels(const clq_element_program *p) {
    for (unsigned i = 0; i < p->input_count; i++)
        if (is_by_channel(p->inputs[i].kind)) return true;
    return false;
}
static size_t known_run(const clq_split *s, const clq_element_program *p) {
    size_t run = 0;
    for (unsigned i = 0; i < p->input_count && run == 0; i++)
        if (!is_by_channel(p->inputs[i].kind)) run = s->in[i];
    for (unsigned i = 0; i < p->output_count && run == 0; i++) run = s->out[i];
    for (unsigned i = 0; i < p->input_count && run == 0; i++) run = s->in[i];
    return run;
}
static bool split(clq_split *s) {
    const clq_element_program *p = &s->node->attributes.program;
    const size_t run = known_run(s, p),
                 channels = clq_graph_value_channels(clq_graph_value_at(s->graph, clq_element_place(s->node)));
    const bool by_channel = takes_channels(p), rows = by_channel && run > channels;
    size_t units[CLQ_NODE_VALUES] = {0};
    if (p->sum_count > 0 || (by_channel && !rows && channels % run)) return false;
    if (by_channel && run != channels && clq_element_program_is_random(p)) return false;
    for (unsigned i = 0; i < p->input_count; i++) {
        const clq_element_kind kind = p->inputs[i].kind;
        if (kind == CLQ_EACH_ELEMENT || (is_by_channel(kind) && !rows)) units[i] = rows ? channels : 1;
        if (kind == CLQ_ONE_FOR_ALL || (kind == CLQ_EACH_CHANNEL && rows)) clq_split_fan(s, i);
    }
    for (unsigned i = 0; i < p->output_count; i++) units[CLQ_NODE_INPUTS + i] = rows ? channels : 1;
    return clq_split_in_units(s, units);
}
/* An element has the random number of its place in the whole run. For this, the program runs over rows that are one
 * part of a run each. */
static void narrow(const clq_split *s, const clq_part *part, clq_narrowing *n) {
    clq_element_program *p = &n->node.attributes.program;
    const size_t run = s->out[0];
    if (!clq_element_program_is_random(p)) return;
    p->slice = (struct clq_element_slice){.whole = run, .first = run * part->first / part->run};
    n->flat = run != clq_graph_value_channels(clq_graph_value_at(s->graph, clq_element_place(s->node)));
}

const clq_operation clq_op_elementwise = {.name = "elementwise",
                                          .traits = CLQ_OP_AGAIN,
                                          .overwrites = 1,
                                          .stores = stores,
                                          .differentiate = differentiate,
                                          .emit = emit,
                                          .split = split,
                                          .narrow = narrow};
