/* Fuses an elementwise node with the elementwise nodes in front of it: what passes between them stays in registers. */
#include "graph/step/step.h"

#include <stdio.h>
#include <string.h>

typedef struct pair {
    const clq_node *first, *second; /* second reads what first stores */
    clq_node both;
} pair;

/* The register of `first` that it stores as this value; -1: none. */
static int register_of(const clq_node *first, clq_id value) {
    const clq_element_program *p = &first->attributes.program;
    for (unsigned i = 0; i < p->output_count; i++)
        if (first->outputs[i] == value) return (int)p->outputs[i].from;
    return -1;
}

/* The register of `both` that has input `i` of a node: one that has the same value already, or else a new one; -1:
 * there is no room. */
static int take_input(pair *t, const clq_node *node, unsigned i) {
    clq_element_program *p = &t->both.attributes.program;
    const struct clq_element_input input = node->attributes.program.inputs[i];
    for (unsigned k = 0; k < p->instruction_count; k++) {
        const unsigned known = p->instructions[k].a;
        if (p->instructions[k].op == CLQ_ELEMENT_INPUT && t->both.inputs[known] == node->inputs[i] &&
            p->inputs[known].kind == input.kind && p->inputs[known].row == input.row)
            return (int)k;
    }
    if (p->input_count == CLQ_ELEMENT_INPUTS || p->instruction_count == CLQ_ELEMENT_INSTRUCTIONS) return -1;
    t->both.inputs[p->input_count] = node->inputs[i];
    return (int)clq_element_take(p, input);
}

/* Appends the instructions of one of the two nodes. at[i]: the register of `both` that its register i becomes.
 * first_at: `at` of the first node; NULL when the first node itself is appended. False: there is no room. */
static bool append(pair *t, const clq_node *node, const unsigned *first_at, unsigned *at) {
    const clq_element_program *from = &node->attributes.program;
    clq_element_program *p = &t->both.attributes.program;
    for (unsigned i = 0; i < from->instruction_count; i++) {
        clq_instruction instruction = from->instructions[i];
        if (instruction.op == CLQ_ELEMENT_INPUT) {
            const int known = first_at ? register_of(t->first, node->inputs[instruction.a]) : -1;
            const int taken = known >= 0 ? (int)first_at[known] : take_input(t, node, instruction.a);
            if (taken < 0) return false;
            at[i] = (unsigned)taken;
            continue;
        }
        if (p->instruction_count == CLQ_ELEMENT_INSTRUCTIONS) return false;
        instruction.a = at[instruction.a]; /* operands that the operation does not have are 0 */
        instruction.b = at[instruction.b];
        instruction.c = at[instruction.c];
        at[i] = clq_element_do(p, instruction);
    }
    return true;
}

/* Adds what `second` stores, and the sums of `first` and then those of `second`. False: there is no room. */
static bool add_results(pair *t, const unsigned first_at[], const unsigned second_at[]) {
    const clq_element_program *a = &t->first->attributes.program, *b = &t->second->attributes.program;
    clq_element_program *p = &t->both.attributes.program;
    size_t outputs = 0;
    if (a->sum_count + b->sum_count > CLQ_ELEMENT_SUMS ||
        b->output_count + a->sum_count + b->sum_count > CLQ_ELEMENT_RESULTS)
        return false;
    for (unsigned i = 0; i < b->output_count; i++) {
        p->outputs[p->output_count] = b->outputs[i];
        p->outputs[p->output_count++].from = second_at[b->outputs[i].from];
        t->both.outputs[outputs++] = t->second->outputs[i];
    }
    for (unsigned i = 0; i < a->sum_count; i++) {
        p->sums[p->sum_count++] = first_at[a->sums[i]];
        t->both.outputs[outputs++] = t->first->outputs[a->output_count + i];
    }
    for (unsigned i = 0; i < b->sum_count; i++) {
        p->sums[p->sum_count++] = second_at[b->sums[i]];
        t->both.outputs[outputs++] = t->second->outputs[b->output_count + i];
    }
    return true;
}

static void name_both(pair *t) {
    if (strcmp(t->first->scope, t->second->scope) == 0) return;
    int used = snprintf(t->both.scope, sizeof t->both.scope, "%s + %s", t->first->scope, t->second->scope);
    if (used >= (int)sizeof t->both.scope) memcpy(t->both.scope, t->second->scope, sizeof t->both.scope);
}

static bool draws(const clq_node *node) { return clq_element_program_is_random(&node->attributes.program); }

static bool make_both(pair *t) {
    unsigned first_at[CLQ_ELEMENT_INSTRUCTIONS] = {0}, at[CLQ_ELEMENT_INSTRUCTIONS] = {0};
    t->both = clq_graph_node_like(t->second, &clq_op_elementwise, t->second->segment, CLQ_IDS(0));
    const clq_element_program *dropout = &(draws(t->first) ? t->first : t->second)->attributes.program;
    t->both.attributes.program.seed = dropout->seed;
    t->both.attributes.program.slice = dropout->slice;
    if (!append(t, t->first, NULL, first_at) || !append(t, t->second, first_at, at)) return false;
    if (!add_results(t, first_at, at) || !clq_element_program_fits(&t->both.attributes.program)) return false;
    name_both(t);
    return t->second->segment != CLQ_SEGMENT_FORWARD || clq_element_has_derivative(&t->both);
}

static bool same_place(const clq_graph *graph, const clq_node *a, const clq_node *b) {
    const clq_graph_value *x = clq_graph_value_at(graph, clq_element_place(a)),
                          *y = clq_graph_value_at(graph, clq_element_place(b));
    return a->segment == b->segment && x->per_sample == y->per_sample && x->elements == y->elements &&
           clq_graph_value_channels(x) == clq_graph_value_channels(y) &&
           (!draws(a) || !draws(b) || a->attributes.program.seed == b->attributes.program.seed);
}

/* Whether node `end` alone (any number of times) reads what node n stores, and neither `end` nor a node in front of it
 * reads node n's sums. */
static bool is_read_by_alone(const clq_graph *graph, uint32_t n, uint32_t end) {
    const clq_node *node = &graph->nodes[n];
    const size_t outputs = node->attributes.program.output_count;
    for (unsigned i = 0; i < CLQ_NODE_OUTPUTS && node->outputs[i]; i++) {
        const clq_graph_value *output = clq_graph_value_at(graph, node->outputs[i]);
        uint32_t here = 0;
        for (unsigned k = 0; k < CLQ_NODE_INPUTS; k++) here += graph->nodes[end].inputs[k] == node->outputs[i];
        if (i < outputs && (here != output->readers || output->home != CLQ_HOME_STEP)) return false;
        if (i >= outputs && here > 0) return false;
        for (uint32_t between = n + 1; i >= outputs && between < end; between++)
            for (unsigned k = 0; k < CLQ_NODE_INPUTS; k++)
                if (graph->nodes[between].op && graph->nodes[between].inputs[k] == node->outputs[i]) return false;
    }
    return true;
}

static void count_inputs(const clq_graph *graph, const clq_node *node, uint32_t each) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS; i++)
        if (node->inputs[i]) clq_graph_value_at(graph, node->inputs[i])->readers += each;
}

/* Fuses the makers of node n's inputs into node n, until none is left that can be fused. A value that several of these
 * nodes read then has one reader. */
static void fuse_into(clq_graph *graph, uint32_t n) {
    for (unsigned i = 0; i < CLQ_NODE_INPUTS;) {
        const clq_id input = graph->nodes[n].inputs[i++];
        const uint32_t maker = input ? clq_graph_value_at(graph, input)->maker : 0;
        if (!maker || graph->nodes[maker - 1].op != &clq_op_elementwise) continue;
        pair t = {.first = &graph->nodes[maker - 1], .second = &graph->nodes[n]};
        if (t.first->attributes.program.output_count == 0 || !same_place(graph, t.first, t.second) ||
            !is_read_by_alone(graph, maker - 1, n) || !make_both(&t))
            continue;
        count_inputs(graph, t.first, UINT32_MAX); /* one less */
        count_inputs(graph, t.second, UINT32_MAX);
        count_inputs(graph, &t.both, 1);
        graph->nodes[n] = t.both;
        graph->nodes[maker - 1].op = NULL;
        i = 0;
    }
}

void clq_graph_fuse_elements(clq_graph *graph) {
    clq_graph_find_uses(graph);
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].op == &clq_op_elementwise) fuse_into(graph, n);
}
