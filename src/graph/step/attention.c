/* Attention as one operation: a product, a softmax, a product, and what scales or masks the scores between them,
 * whichever layers these nodes are from. It has no derivative: in training, the operations stay apart. Attention over
 * caches of tokens that come one after another is no such composite (cached.c): the caches' rows are memory that
 * earlier runs wrote. */
#include "graph/step/attention_mask.h"
#include "graph/step/parts.h"

#include <string.h>

/* inputs: q, k, v, and the mask, or none */
static void emit(clq_emission *e) {
    clq_attention_forward(e->list, &e->node->attributes.attention, e->in[0], e->in[1], e->in[2], e->in[3], e->out[0]);
}
static double work(const clq_node *node) { return clq_attention_flops(&node->attributes.attention); }

/* ---- what it is short for ----
 * Scores are (matrices, tokens, others), one behind the other. */

static size_t pairs_of(const clq_attention_problem *p) { return p->tokens * p->others; }
static size_t scores_of(const clq_attention_problem *p) { return p->counts[0] * p->counts[1] * pairs_of(p); }

static clq_batched_matrix whole_scores(const clq_attention_problem *p) {
    return (clq_batched_matrix){
        .sample = scores_of(p), .pitch = {p->counts[1] * pairs_of(p), pairs_of(p)}, .row = p->others, .column = 1};
}

/* How many numbers of the mask lie one behind the other before it begins again. */
static size_t period_of(const clq_attention_problem *p) {
    return p->mask.pitch[0]   ? scores_of(p)
           : p->mask.pitch[1] ? p->counts[1] * pairs_of(p)
           : p->mask.row      ? pairs_of(p)
                              : p->others;
}

/* The mask as an input of a program over scores, in rows that are as long as the mask's period. */
static struct clq_element_input mask_input(const clq_attention_problem *p) {
    return (struct clq_element_input){.kind = p->mask.sample == 0            ? CLQ_EACH_CHANNEL
                                              : period_of(p) == scores_of(p) ? CLQ_EACH_ELEMENT
                                                                             : CLQ_EACH_SAMPLE_AND_CHANNEL,
                                      .dtype = CLQ_F32};
}

static clq_id mask_scores(const clq_parts *parts, const clq_attention_problem *p, clq_id scores) {
    const size_t period = period_of(p);
    clq_node node = clq_part_node(parts, &clq_op_elementwise, CLQ_IDS(scores, parts->of->inputs[3]));
    clq_element_program *program = &node.attributes.program;
    const unsigned score = clq_element_take(program, clq_each_element), mask = clq_element_take(program, mask_input(p));
    clq_instruction masked = {.op = CLQ_ELEMENT_ADD, .a = score, .b = mask};
    if (p->masked == CLQ_ATTENTION_SELECTS) {
        masked = (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = mask, .b = score};
        masked.c = clq_element_do(program, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = (double)p->low});
    }
    program->outputs[program->output_count++].from = clq_element_do(program, masked);
    return clq_part_add(parts, node, CLQ_SHAPE(scores_of(p) / period, period));
}

static clq_id add_scores(const clq_parts *parts, const clq_attention_problem *p) {
    clq_node node = clq_part_node(parts, &clq_op_batched, CLQ_IDS(parts->of->inputs[0], parts->of->inputs[1]));
    const size_t period = p->masked ? period_of(p) : p->others;
    node.attributes.batched = (clq_batched_problem){.counts = {p->counts[0], p->counts[1]},
                                                    .m = p->tokens,
                                                    .n = p->others,
                                                    .k = p->key,
                                                    .a = p->q,
                                                    .b = clq_batched_transposed(p->k),
                                                    .c = whole_scores(p),
                                                    .scale = p->scale};
    const clq_id scores = clq_part_add(parts, node, CLQ_SHAPE(scores_of(p) / period, period));
    return p->masked ? mask_scores(parts, p, scores) : scores;
}

static bool lower(clq_graph *graph, const clq_node *node) {
    const clq_attention_problem *p = &node->attributes.attention;
    const clq_parts parts = {.graph = graph, .of = node, .name = "scores"};
    const clq_shape rows = CLQ_SHAPE(scores_of(p) / p->others, p->others);
    const clq_id scores = clq_part_reshape(&parts, add_scores(&parts, p), rows),
                 shares = clq_part_add(&parts, clq_part_node(&parts, &clq_op_softmax, CLQ_IDS(scores)), rows);
    clq_node mixed = clq_part_node(&parts, &clq_op_batched, CLQ_IDS(shares, node->inputs[2]));
    mixed.attributes.batched = (clq_batched_problem){.counts = {p->counts[0], p->counts[1]},
                                                     .m = p->tokens,
                                                     .n = p->value,
                                                     .k = p->others,
                                                     .a = whole_scores(p),
                                                     .b = p->v,
                                                     .c = p->y,
                                                     .scale = 1};
    mixed.outputs[0] = node->outputs[0];
    clq_graph_add_node(graph, &mixed);
    return true;
}

const clq_operation clq_op_attention = {
    .name = "attention", .traits = CLQ_OP_WIDE, .emit = emit, .work = work, .lower = lower};

/* ---- the pattern ----
 * The pattern is read from its end. Scores lie one behind the other, whatever their shape is. */

enum { PARTS_MOST = 12 };

typedef struct draft {
    clq_attention_problem problem;
    clq_id inputs[4];
    clq_node *parts[PARTS_MOST]; /* nodes that are no longer needed */
    unsigned part_count;
    clq_mask_draft mask;
    /* masking: the last part that puts a mask on the scores. sharing: the softmax. Nodes that compute a mask may take
     * their places. */
    clq_node *masking, *sharing;
    bool scaled; /* a factor was found: it would multiply a mask in front of it, too, so such a mask ends the pattern */
} draft;

/* The node that makes a value which only the pattern reads; notes it as a part of the pattern. */
static clq_node *take_maker(const clq_graph *graph, draft *d, clq_id id) {
    clq_node *maker = clq_graph_sole_maker(graph, id);
    if (!maker || d->part_count == PARTS_MOST) return NULL;
    d->parts[d->part_count++] = maker;
    return maker;
}

/* Whether the matrices of scores lie one behind the other, in the order of `counts`. */
static bool lies_whole(const draft *d, const clq_batched_matrix *matrix) {
    const size_t pairs = pairs_of(&d->problem), *counts = d->problem.counts;
    return matrix->column == 1 && matrix->row == d->problem.others && matrix->sample == scores_of(&d->problem) &&
           (counts[1] == 1 || matrix->pitch[1] == pairs) && (counts[0] == 1 || matrix->pitch[0] == counts[1] * pairs);
}

/* ---- programs between the products ---- */

/* A register as a multiple of the program's only input, or as a number by itself. */
typedef struct multiple {
    bool known, of_input;
    double factor;
} multiple;

static multiple combine(const clq_instruction *instruction, const multiple *registers) {
    const multiple a = registers[instruction->a], b = registers[instruction->b];
    multiple result = {.known = a.known, .of_input = a.of_input};
    switch (instruction->op) {
    case CLQ_ELEMENT_INPUT: return (multiple){.known = true, .of_input = true, .factor = 1};
    case CLQ_ELEMENT_CONSTANT: return (multiple){.known = true, .factor = (double)(float)instruction->number};
    case CLQ_ELEMENT_SCALE: result.factor = a.factor * (double)(float)instruction->number; return result;
    case CLQ_ELEMENT_MULTIPLY:
        result.known = a.known && b.known && !(a.of_input && b.of_input);
        result.of_input = a.of_input || b.of_input;
        result.factor = a.factor * b.factor;
        return result;
    case CLQ_ELEMENT_DIVIDE:
        result.known = a.known && b.known && !b.of_input && b.factor != 0;
        result.factor = a.factor / b.factor;
        return result;
    default: return (multiple){.known = false};
    }
}

static bool is_plain(const clq_element_program *p) {
    return p->output_count == 1 && p->sum_count == 0 && p->outputs[0].dtype == CLQ_F32;
}

/* Takes a program that multiplies its input by a number. */
static bool take_factor(const clq_node *node, draft *d) {
    const clq_element_program *p = &node->attributes.program;
    multiple registers[CLQ_ELEMENT_INSTRUCTIONS] = {{.known = false}};
    if (!is_plain(p) || p->input_count != 1) return false;
    for (size_t i = 0; i < p->instruction_count; i++) registers[i] = combine(&p->instructions[i], registers);
    const multiple *y = &registers[p->outputs[0].from];
    if (!y->known || !y->of_input) return false;
    d->problem.scale = (float)((double)d->problem.scale * y->factor);
    d->scaled = true;
    return true;
}

static bool is_score(const clq_element_program *p, unsigned from, unsigned score) {
    return p->instructions[from].op == CLQ_ELEMENT_INPUT && p->instructions[from].a == score;
}

/* Takes a program that adds a mask to the scores, or that chooses by a mask between them and a number. A pattern may
 * add several masks, or choose by one. score: the input that is taken for the scores. */
static bool take_mask(const clq_graph *graph, const clq_node *node, unsigned score, draft *d) {
    const clq_element_program *p = &node->attributes.program;
    const clq_instruction *last = &p->instructions[p->outputs[0].from];
    clq_attention_problem *to = &d->problem;
    const bool adds = last->op == CLQ_ELEMENT_ADD, first = adds && is_score(p, last->a, score);
    if (!is_plain(p) || d->scaled || p->inputs[score].kind != CLQ_EACH_ELEMENT) return false;
    if (!first && !is_score(p, last->b, score)) return false;
    if (adds && to->masked != CLQ_ATTENTION_SELECTS) {
        to->masked = CLQ_ATTENTION_ADDS;
    } else if (last->op == CLQ_ELEMENT_SELECT && p->instructions[last->c].op == CLQ_ELEMENT_CONSTANT && !to->masked) {
        to->masked = CLQ_ATTENTION_SELECTS;
        to->low = (float)p->instructions[last->c].number;
    } else {
        return false;
    }
    return clq_mask_take(&d->mask, graph, node, score, first ? last->b : last->a, scores_of(to));
}

/* Says where the mask's number for each pair of tokens lies. */
static bool place_mask(draft *d) {
    const size_t pairs = pairs_of(&d->problem), all = scores_of(&d->problem), heads = d->problem.counts[1] * pairs,
                 period = clq_mask_period(&d->mask);
    clq_batched_matrix *mask = &d->problem.mask;
    if (!d->problem.masked) return true;
    if (period != all && period != heads && period != pairs && period != d->problem.others) return false;
    *mask = (clq_batched_matrix){.sample = clq_mask_is_per_sample(&d->mask) ? period : 0, .column = 1};
    if (period >= pairs) mask->row = d->problem.others;
    if (period >= heads) mask->pitch[1] = pairs;
    if (period == all) mask->pitch[0] = heads;
    d->inputs[3] = d->mask.inputs[0];
    return clq_mask_is_plain(&d->mask) || clq_mask_settle(&d->mask);
}

/* ---- from the end to the beginning ---- */

static bool take_scores(const clq_graph *graph, clq_id id, draft *d);

/* Any input may be the scores: tries one after the other. */
static bool take_elements(const clq_graph *graph, clq_node *node, draft *d) {
    const draft before = *d;
    if (take_factor(node, d)) return take_scores(graph, node->inputs[0], d);
    for (unsigned score = 0; score < node->attributes.program.input_count; score++) {
        *d = before;
        if (!d->masking) d->masking = node;
        if (take_mask(graph, node, score, d) && take_scores(graph, node->inputs[score], d)) return true;
    }
    return false;
}

static bool take_product(const clq_node *node, draft *d) {
    const clq_batched_problem *p = &node->attributes.batched;
    clq_attention_problem *to = &d->problem;
    if (p->counts[0] != to->counts[0] || p->counts[1] != to->counts[1] || p->m != to->tokens || p->n != to->others ||
        !lies_whole(d, &p->c) || p->a.column != 1)
        return false;
    to->key = p->k;
    to->q = p->a;
    to->k = clq_batched_transposed(p->b);
    to->scale *= p->scale;
    d->inputs[0] = node->inputs[0];
    d->inputs[1] = node->inputs[1];
    return true;
}

/* id: the scores at this point of the pattern. */
static bool take_scores(const clq_graph *graph, clq_id id, draft *d) {
    clq_node *maker = take_maker(graph, d, id);
    if (!maker) return false;
    if (maker->op == &clq_op_reshape) return take_scores(graph, maker->inputs[0], d);
    if (maker->op == &clq_op_elementwise) return take_elements(graph, maker, d);
    return maker->op == &clq_op_batched && take_product(maker, d);
}

static bool take_shares(const clq_graph *graph, clq_id id, draft *d) {
    clq_node *maker = take_maker(graph, d, id);
    if (!maker) return false;
    if (maker->op == &clq_op_reshape) return take_shares(graph, maker->inputs[0], d);
    d->sharing = maker;
    return maker->op == &clq_op_softmax &&
           clq_graph_value_channels(clq_graph_value_at(graph, maker->inputs[0])) == d->problem.others &&
           take_scores(graph, maker->inputs[0], d);
}

/* Looks for the pattern from its last node, the second product. */
static bool find(const clq_graph *graph, const clq_node *node, draft *d) {
    const clq_batched_problem *p = &node->attributes.batched;
    *d = (draft){.problem = {.counts = {p->counts[0], p->counts[1]},
                             .tokens = p->m,
                             .others = p->k,
                             .value = p->n,
                             .v = p->b,
                             .y = p->c,
                             .scale = 1}};
    d->inputs[2] = node->inputs[1];
    return p->scale == 1 && lies_whole(d, &p->a) && p->b.column == 1 && p->c.column == 1 &&
           take_shares(graph, node->inputs[0], d) && place_mask(d);
}

/* Whether to fuse the pattern. As operations apart, the scores of a full batch have memory of their own, through which
 * they go several times. One launch keeps the scores of only a few rows, but multiplies row by row. */
#define SCORES_MOST ((double)(256 << 20)) /* bytes */
static bool ask(const clq_pass_context *context, const draft *d) {
    static const char *const masks[] = {"", ", adds", ", selects"};
    const clq_attention_problem *p = &d->problem;
    const double bytes = (double)clq_values_bytes(CLQ_F32, scores_of(&d->problem)) * clq_list_capacity(context->list);
    clq_choice choice;
    clq_choice_start(&choice, "attention %ux%zux%zu of %zu to %zu by %zu and %zu%s%s", clq_list_capacity(context->list),
                     p->counts[0], p->counts[1], p->tokens, p->others, p->key, p->value, masks[p->masked],
                     p->k.column == 1 ? "" : ", keys apart");
    if (bytes > SCORES_MOST) clq_choice_add(&choice, true, 0, "one");
    clq_choice_add(&choice, false, 0, "apart");
    clq_choice_add(&choice, true, 0, "one");
    return clq_list_select(context->list, &choice)->values[0];
}

static void join(clq_graph *graph, clq_node *node, const clq_pass_context *context) {
    const clq_plan_config *config = context->config;
    draft d;
    if (config->update || config->activations != CLQ_F32) return;
    if (!find(graph, node, &d) || !ask(context, &d)) return;
    for (unsigned i = 0; i < d.part_count; i++) d.parts[i]->op = NULL;
    if (d.problem.masked && !clq_mask_is_plain(&d.mask))
        d.inputs[3] = clq_mask_compute(&d.mask, graph, d.masking, d.sharing);
    node->op = &clq_op_attention;
    node->attributes.attention = d.problem;
    memset(node->inputs, 0, sizeof node->inputs);
    memcpy(node->inputs, d.inputs, sizeof d.inputs);
}
const clq_fusion clq_fusion_attention = {.last = &clq_op_batched, .join = join};
