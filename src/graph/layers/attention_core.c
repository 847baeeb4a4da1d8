/* Attention by heads, and its masks. */
#include "graph/layers/attention.h"

#include <string.h>

clq_status clq_attention_check_size(const char *what, clq_shape shape) {
    size_t elements;
    const clq_status status = clq_shape_elements(&shape, &elements);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "its %s", what);
}

/* The matrices of all heads, side by side in rows. Each has `rows` rows and `width` columns. */
static clq_batched_matrix side_by_side(const clq_attention_sizes *s, size_t rows, size_t width) {
    const size_t row = s->heads * width;
    return (clq_batched_matrix){.sample = s->outer * rows * row, .pitch = {rows * row, width}, .row = row, .column = 1};
}
/* A matrix for each head, with a number for each pair of query and other token. */
static clq_batched_matrix of_pairs(const clq_attention_sizes *s) {
    const size_t pairs = s->tokens * s->others;
    return (clq_batched_matrix){
        .sample = s->outer * s->heads * pairs, .pitch = {s->heads * pairs, pairs}, .row = s->others, .column = 1};
}

static clq_id multiply(clq_expansion *e, const clq_batched_problem *p, clq_id a, clq_id b, const clq_shape *shape) {
    clq_node node = clq_expand_node(e, &clq_op_batched);
    node.attributes.batched = *p;
    node.inputs[0] = a;
    node.inputs[1] = b;
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * shape->dims[1]);
    return clq_graph_add_node(e->graph, &node);
}

#define LOW (-3e4f) /* far below any score; 16-bit floats have it, too */

/* Whether a query may look at the other token. causal: not at later tokens. window: only at tokens less far away
 * than this; 0: at any distance. */
static bool may_look(size_t query, size_t other, bool causal, size_t window) {
    const size_t apart = query > other ? query - other : other - query;
    return !(causal && other > query) && !(window && apart >= window);
}

/* A constant with a number for each pair of tokens: `allowed` if their places let the query look, otherwise `other`. */
static clq_id add_places(clq_expansion *e, const clq_attention_core *c, float allowed, float other) {
    const size_t pairs = c->s.tokens * c->s.others;
    float *numbers = clq_alloc(pairs, sizeof *numbers);
    if (!numbers) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < pairs; i++)
        numbers[i] = may_look(i / c->s.others, i % c->s.others, c->causal, c->window) ? allowed : other;
    const clq_id id = clq_graph_add_constant(e->graph, "mask", &CLQ_SHAPE(pairs), pairs, numbers);
    clq_free(numbers);
    return id;
}

/* Adds a large negative number to the scores of pairs that their places leave out. shape: a head's pairs are the
 * channels, so that the mask has one number for each. */
static clq_id mask_places(clq_expansion *e, const clq_attention_core *c, const clq_shape *shape, clq_id scores) {
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned score = clq_element_take(p, clq_each_element), more = clq_element_take(p, by_channel);
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = score, .b = more});
    node.inputs[0] = scores;
    node.inputs[1] = add_places(e, c, 0, LOW);
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * shape->dims[1]);
    return node.inputs[1] ? clq_graph_add_node(e->graph, &node) : 0;
}

/* Repeats a sample's mask so that it has a number for each pair (queries, others). If `rows` or `columns` is false, the
 * mask has one number for all of them. */
static clq_id spread(clq_expansion *e, const clq_attention_core *c, clq_id mask, bool rows, bool columns) {
    clq_node node = clq_expand_node(e, &clq_op_repeat);
    const clq_shape pairs = CLQ_SHAPE(c->s.tokens * c->s.others);
    if (rows && columns) return mask;
    node.attributes.repeat = (clq_repeat_problem){.outer = rows ? c->s.tokens : 1,
                                                  .repeats = rows ? c->s.others : c->s.tokens,
                                                  .inner = columns ? c->s.others : 1,
                                                  .scale = 1};
    node.inputs[0] = mask;
    node.outputs[0] = clq_expand_value(e, &pairs, pairs.dims[0]);
    return clq_graph_add_node(e->graph, &node);
}

/* All masks of a sample, multiplied to one mask; 0: there are none. */
static clq_id join_masks(clq_expansion *e, const clq_attention_core *c) {
    const clq_shape pairs = CLQ_SHAPE(c->s.tokens * c->s.others);
    clq_id all = 0;
    for (unsigned i = 0; i < c->mask_count; i++) {
        const clq_id mask = spread(e, c, c->masks[i].value, c->masks[i].rows, c->masks[i].columns);
        if (!mask) return 0;
        clq_node node = clq_expand_node(e, &clq_op_elementwise);
        clq_element_program *p = &node.attributes.program;
        const unsigned a = clq_element_take(p, clq_each_element), b = clq_element_take(p, clq_each_element);
        p->outputs[p->output_count++].from =
            clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = a, .b = b});
        node.inputs[0] = all;
        node.inputs[1] = mask;
        node.outputs[0] = clq_expand_value(e, &pairs, pairs.dims[0]);
        all = all ? clq_graph_add_node(e->graph, &node) : mask;
    }
    return all;
}

/* Replaces numbers by `other` if a sample's masks, or the places, leave their pair out. For scores, `other` is one
 * large negative number: a query that may look nowhere then looks at all tokens equally, as in Keras. */
static clq_id mask_pairs(clq_expansion *e, const clq_attention_core *c, const clq_shape *shape, double other,
                         clq_id scores) {
    const struct clq_element_input each = {.kind = CLQ_EACH_SAMPLE_AND_CHANNEL, .dtype = CLQ_F32};
    const clq_id mask = join_masks(e, c);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const struct clq_element_input by_channel = {.kind = CLQ_EACH_CHANNEL, .dtype = CLQ_F32};
    const unsigned score = clq_element_take(p, clq_each_element);
    unsigned allowed = clq_element_take(p, each);
    if (c->causal || c->window) {
        const unsigned place = clq_element_take(p, by_channel);
        allowed = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_MULTIPLY, .a = allowed, .b = place});
        node.inputs[2] = add_places(e, c, 1, 0);
    }
    const unsigned low = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = other});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = allowed, .b = score, .c = low});
    node.inputs[0] = scores;
    node.inputs[1] = mask;
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * shape->dims[1]);
    const bool placed = !(c->causal || c->window) || node.inputs[2];
    return mask && scores && placed ? clq_graph_add_node(e->graph, &node) : 0;
}

static clq_id flatten(clq_expansion *e, const clq_shape *shape, clq_id x) {
    clq_node node = clq_expand_node(e, &clq_op_reshape);
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, shape, shape->dims[0] * shape->dims[1]);
    return x ? clq_graph_add_node(e->graph, &node) : 0;
}

static clq_id add_softmax(clq_expansion *e, const clq_shape *rows, clq_id scores) {
    clq_node node = clq_expand_node(e, &clq_op_softmax);
    node.inputs[0] = flatten(e, rows, scores);
    node.outputs[0] = clq_expand_value(e, rows, rows->dims[0] * rows->dims[1]);
    return clq_graph_add_node(e->graph, &node);
}

/* If c->zeros is set, shares of pairs that are left out become 0. Queries that may look nowhere then give zeros. */
static clq_id leave_zeros(clq_expansion *e, const clq_attention_core *c, const clq_shape *by_head,
                          const clq_shape *pairs, clq_id shares) {
    if (!c->zeros || c->mask_count == 0 || !shares) return shares;
    return flatten(e, pairs, mask_pairs(e, c, by_head, 0, flatten(e, by_head, shares)));
}

static clq_id drop(clq_expansion *e, const clq_attention_core *c, const clq_shape *rows, clq_id shares) {
    const uint32_t stream = e->dropouts++;
    if (e->config->mode != CLQ_MODE_TRAIN || c->dropout == 0) return shares;
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const clq_instruction drops = {
        .op = CLQ_ELEMENT_DROPOUT, .a = clq_element_take(p, clq_each_element), .number = c->dropout, .stream = stream};
    p->outputs[p->output_count++].from = clq_element_do(p, drops);
    p->seed = c->seed ? c->seed : e->config->seed;
    node.inputs[0] = shares;
    node.outputs[0] = clq_expand_value(e, rows, rows->dims[0] * rows->dims[1]);
    return clq_graph_add_node(e->graph, &node);
}

static clq_shape heads_of(const clq_attention_sizes *s) {
    return CLQ_SHAPE(s->outer * s->heads, s->tokens * s->others);
}

clq_id clq_expand_mixed(clq_expansion *e, const clq_attention_core *c, clq_id scores, clq_id v) {
    const clq_attention_sizes s = c->s;
    const clq_shape pairs = CLQ_SHAPE(s.outer * s.heads * s.tokens, s.others), by_head = heads_of(&s),
                    heads = CLQ_SHAPE(s.outer * s.tokens, s.heads * s.value);
    const clq_batched_problem mixed = {.counts = {s.outer, s.heads},
                                       .m = s.tokens,
                                       .n = s.value,
                                       .k = s.others,
                                       .a = of_pairs(&s),
                                       .b = side_by_side(&s, s.others, s.value),
                                       .c = side_by_side(&s, s.tokens, s.value),
                                       .scale = 1};
    scores = clq_expand_capped(e, &by_head, c->cap, scores);
    if (c->mask_count && scores)
        scores = mask_pairs(e, c, &by_head, LOW, scores);
    else if ((c->causal || c->window) && scores)
        scores = mask_places(e, c, &by_head, scores);
    if (!scores) return 0;
    const clq_id shares = leave_zeros(e, c, &by_head, &pairs, add_softmax(e, &pairs, scores));
    return shares ? multiply(e, &mixed, drop(e, c, &pairs, shares), v, &heads) : 0;
}

clq_id clq_expand_attended(clq_expansion *e, const clq_attention_core *c, clq_id q, clq_id k, clq_id v) {
    const clq_attention_sizes s = c->s;
    const clq_shape by_head = heads_of(&s);
    const clq_batched_problem scores = {.counts = {s.outer, s.heads},
                                        .m = s.tokens,
                                        .n = s.others,
                                        .k = s.key,
                                        .a = side_by_side(&s, s.tokens, s.key),
                                        .b = clq_batched_transposed(side_by_side(&s, s.others, s.key)),
                                        .c = of_pairs(&s),
                                        .scale = (float)c->scale};
    return clq_expand_mixed(e, c, multiply(e, &scores, q, k, &by_head), v);
}

void clq_attention_take_mask(clq_attention_core *c, const clq_id *x, size_t place, bool rows, bool columns) {
    if (!place) return;
    c->masks[c->mask_count].value = x[place - 1];
    c->masks[c->mask_count].rows = rows;
    c->masks[c->mask_count++].columns = columns;
}

clq_id clq_attention_repeat_heads(clq_expansion *e, const clq_shape *shape, size_t heads, clq_id x) {
    const clq_shape to = CLQ_SHAPE(shape->dims[0], heads, shape->dims[2]);
    clq_node node = clq_expand_node(e, &clq_op_repeat);
    if (heads == shape->dims[1]) return x;
    node.attributes.repeat = (clq_repeat_problem){.outer = shape->dims[0] * shape->dims[1],
                                                  .repeats = heads / shape->dims[1],
                                                  .inner = shape->dims[2],
                                                  .scale = 1};
    node.inputs[0] = x;
    node.outputs[0] = clq_expand_value(e, &to, to.dims[0] * to.dims[1] * to.dims[2]);
    return clq_graph_add_node(e->graph, &node);
}

/* ---- decoding: one token after another ---- */

bool clq_attention_is_used_once(const clq_model *model, const clq_model_tensor *y) {
    unsigned uses = 0;
    for (uint32_t i = 0; i < model->tensor_count; i++) uses += model->tensors[i].layer == y->layer;
    return uses == 1;
}

clq_status clq_attention_declare_caches(clq_model *model, clq_layer *layer, unsigned number, size_t key_row,
                                        size_t value_row) {
    static const clq_variable_kind kinds[] = {
        {.what = "keys", .role = CLQ_ROLE_STATE, .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}},
        {.what = "values", .role = CLQ_ROLE_STATE, .initialiser = {.kind = CLQ_INITIALISER_CONSTANT}}};
    const size_t rows[] = {key_row, value_row};
    for (unsigned i = 0; i < 2 && model->decodes; i++)
        CLQ_TRY(clq_model_declare_variable(model, layer, number + i, CLQ_SHAPE(model->decodes, rows[i]), &kinds[i]));
    return CLQ_OK;
}

clq_id clq_expand_cached(clq_expansion *e, const clq_attention_core *c, size_t shared, unsigned number, clq_id q,
                         clq_id k, clq_id v) {
    const clq_shape heads = CLQ_SHAPE(1, c->s.heads * c->s.value);
    clq_node append = clq_expand_node(e, &clq_op_cached_append), attend = clq_expand_node(e, &clq_op_cached_attend);
    append.attributes.cached = attend.attributes.cached = (clq_cached_problem){.context = e->model->decodes,
                                                                               .heads = c->s.heads,
                                                                               .shared = shared,
                                                                               .key = c->s.key,
                                                                               .value = c->s.value,
                                                                               .window = c->window,
                                                                               .scale = c->scale};
    const clq_id places = clq_expand_places(e);
    memcpy(append.inputs, CLQ_IDS(k, v, places, clq_expand_weight(e, number), clq_expand_weight(e, number + 1)),
           sizeof append.inputs);
    append.outputs[0] = clq_expand_new_state(e, number);
    append.outputs[1] = clq_expand_new_state(e, number + 1);
    memcpy(attend.inputs, CLQ_IDS(q, append.outputs[0], append.outputs[1], places), sizeof attend.inputs);
    attend.outputs[0] = clq_expand_value(e, &heads, heads.dims[1]);
    clq_graph_add_node(e->graph, &append);
    return clq_graph_add_node(e->graph, &attend);
}
