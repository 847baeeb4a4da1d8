/* Masks of scores: from the programs in which they are found to one value. */
#include "graph/step/attention_mask.h"

static bool has_room(const clq_mask_draft *m) { return m->program.instruction_count < CLQ_ELEMENT_INSTRUCTIONS; }

/* ---- values ---- */

/* How many numbers of an input lie one behind the other before it begins again; 0: no mask is made of such an input. */
static size_t period_of(const clq_graph *graph, const clq_node *node, unsigned input, size_t scores) {
    const struct clq_element_input *kind = &node->attributes.program.inputs[input];
    const clq_graph_value *value = clq_graph_value_at(graph, node->inputs[input]);
    if (kind->dtype != CLQ_F32 || value->dtype != CLQ_F32 || kind->row != 0) return 0;
    switch (kind->kind) {
    case CLQ_EACH_ELEMENT: return value->per_sample ? scores : 0;
    case CLQ_EACH_CHANNEL:
    case CLQ_EACH_SAMPLE_AND_CHANNEL:
        return clq_graph_value_channels(clq_graph_value_at(graph, clq_element_place(node)));
    default: return 0;
    }
}

/* Adds an input to the draft, and gives its register; -1: it cannot be taken. */
static int take_input(clq_mask_draft *m, const clq_graph *graph, const clq_node *node, unsigned input, size_t scores) {
    const struct clq_element_input kind = node->attributes.program.inputs[input];
    const size_t period = period_of(graph, node, input, scores);
    clq_element_program *p = &m->program;
    for (unsigned r = 0; r < p->instruction_count; r++) {
        const unsigned known = p->instructions[r].a;
        if (p->instructions[r].op == CLQ_ELEMENT_INPUT && m->inputs[known] == node->inputs[input] &&
            p->inputs[known].kind == kind.kind && m->periods[known] == period)
            return (int)r;
    }
    if (period == 0 || p->input_count == CLQ_ELEMENT_INPUTS || !has_room(m)) return -1;
    m->inputs[p->input_count] = node->inputs[input];
    m->periods[p->input_count] = period;
    return (int)clq_element_take(p, kind);
}

/* The same for a register, with all registers that it is made of. */
static int take_register(clq_mask_draft *m, const clq_graph *graph, const clq_node *node, unsigned score, unsigned from,
                         size_t scores) {
    clq_instruction instruction = node->attributes.program.instructions[from];
    unsigned *const operands[] = {&instruction.a, &instruction.b, &instruction.c};
    if (instruction.op == CLQ_ELEMENT_INPUT)
        return instruction.a == score ? -1 : take_input(m, graph, node, instruction.a, scores);
    if (clq_element_is_random(instruction.op)) return -1;
    for (unsigned i = 0; i < clq_element_operands(instruction.op); i++) {
        const int taken = take_register(m, graph, node, score, *operands[i], scores);
        if (taken < 0) return -1;
        *operands[i] = (unsigned)taken;
    }
    return has_room(m) ? (int)clq_element_do(&m->program, instruction) : -1;
}

bool clq_mask_take(clq_mask_draft *m, const clq_graph *graph, const clq_node *node, unsigned score, unsigned from,
                   size_t scores) {
    const int taken = take_register(m, graph, node, score, from, scores);
    if (taken < 0 || (m->is_taken && !has_room(m))) return false;
    m->root = m->is_taken ? clq_element_do(&m->program,
                                           (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = m->root, .b = (unsigned)taken})
                          : (unsigned)taken;
    m->is_taken = true;
    return true;
}

bool clq_mask_is_plain(const clq_mask_draft *m) { return m->program.instruction_count == 1; }

size_t clq_mask_period(const clq_mask_draft *m) {
    size_t most = 0;
    for (size_t i = 0; i < m->program.input_count; i++) most = CLQ_MAX(most, m->periods[i]);
    return most;
}

static bool is_per_sample(const clq_mask_draft *m, size_t input) {
    return m->program.inputs[input].kind != CLQ_EACH_CHANNEL;
}
bool clq_mask_is_per_sample(const clq_mask_draft *m) {
    for (size_t i = 0; i < m->program.input_count; i++)
        if (is_per_sample(m, i)) return true;
    return false;
}

/* ---- one value ---- */

/* Makes an input the first one: input 0 of a program has a number for each element. */
static void move_to_front(clq_mask_draft *m, unsigned input) {
    clq_element_program *p = &m->program;
    const clq_id id = m->inputs[input];
    const size_t period = m->periods[input];
    const struct clq_element_input kind = p->inputs[input];
    m->inputs[input] = m->inputs[0];
    m->periods[input] = m->periods[0];
    p->inputs[input] = p->inputs[0];
    m->inputs[0] = id;
    m->periods[0] = period;
    p->inputs[0] = kind;
    for (size_t r = 0; r < p->instruction_count; r++) {
        clq_instruction *instruction = &p->instructions[r];
        if (instruction->op != CLQ_ELEMENT_INPUT) continue;
        if (instruction->a == 0 || instruction->a == input) instruction->a = instruction->a == 0 ? input : 0;
    }
}

/* An input that has, in each sample, as many numbers as the mask is an input by element. The others repeat rows, which
 * must all have the same length. */
bool clq_mask_settle(clq_mask_draft *m) {
    const size_t period = clq_mask_period(m);
    int whole = -1;
    m->channels = 0;
    for (unsigned i = 0; i < m->program.input_count; i++) {
        struct clq_element_input *kind = &m->program.inputs[i];
        if (is_per_sample(m, i) && m->periods[i] == period) {
            kind->kind = CLQ_EACH_ELEMENT;
            whole = (int)i;
            continue;
        }
        if (m->channels && m->channels != m->periods[i]) return false;
        if (is_per_sample(m, i)) kind->kind = CLQ_EACH_SAMPLE_AND_CHANNEL;
        m->channels = m->periods[i];
    }
    if (whole < 0) return false;
    if (!m->channels) m->channels = period;
    move_to_front(m, (unsigned)whole);
    m->program.output_count = 1;
    m->program.outputs[0] = (struct clq_element_output){.from = m->root};
    return clq_element_program_fits(&m->program);
}

/* Puts a node in the place `at`. Its output is new, and one other node reads it. */
static void put(const clq_mask_draft *m, clq_graph *graph, clq_node *at, clq_node node) {
    const size_t period = clq_mask_period(m);
    node.outputs[0] =
        clq_graph_add_value(graph, &(clq_graph_value){.name = "mask",
                                                      .dtype = CLQ_F32,
                                                      .per_sample = true,
                                                      .shape = CLQ_SHAPE(period / m->channels, m->channels),
                                                      .elements = period,
                                                      .readers = 1,
                                                      .maker = (uint32_t)(at - graph->nodes) + 1});
    *at = node;
}

/* A program has the rows of its input 0, so that input is reshaped first. */
clq_id clq_mask_compute(const clq_mask_draft *m, clq_graph *graph, clq_node *front, clq_node *at) {
    put(m, graph, front, clq_graph_node_like(front, &clq_op_reshape, front->segment, CLQ_IDS(m->inputs[0])));
    clq_node node = clq_graph_node_like(front, &clq_op_elementwise, front->segment, CLQ_IDS(front->outputs[0]));
    node.attributes.program = m->program;
    for (size_t i = 1; i < m->program.input_count; i++) node.inputs[i] = m->inputs[i];
    put(m, graph, at, node);
    return at->outputs[0];
}
