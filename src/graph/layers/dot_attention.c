/* keras.ops.dot_product_attention, Attention and AdditiveAttention. */
#include "graph/layers/attention.h"

#include <math.h>

/* ---- keras.ops.dot_product_attention: queries (tokens, heads, width), keys and values (others, heads, width). Keys
 * and values may have fewer heads: several heads of queries then share one ---- */

typedef struct product_config {
    bool causal;
    double scale; /* 0: 1 / sqrt(width) */
    size_t window, mask;
    double dropout, cap; /* as of clq_attention_core */
    bool zeros;
} product_config;
static const clq_attribute product_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("is_causal", CLQ_ATTRIBUTE_FLAG, product_config, causal)},
    {CLQ_LAYER_ATTRIBUTE("sliding_window", CLQ_ATTRIBUTE_SIZES, product_config, window), .own = true},
    {CLQ_LAYER_ATTRIBUTE("dropout", CLQ_ATTRIBUTE_NUMBER, product_config, dropout), .most = 1, .below = true,
     .own = true},
    {CLQ_LAYER_ATTRIBUTE("zeros", CLQ_ATTRIBUTE_FLAG, product_config, zeros), .own = true},
    {CLQ_LAYER_ATTRIBUTE("soft_cap", CLQ_ATTRIBUTE_NUMBER, product_config, cap), .most = 1e6, .own = true},
    {CLQ_LAYER_ATTRIBUTE("scale", CLQ_ATTRIBUTE_KEYWORD_NUMBER, product_config, scale)},
    {CLQ_LAYER_ATTRIBUTE("mask", CLQ_ATTRIBUTE_TENSOR, product_config, mask)},
    {.key = "flash_attention", .type = CLQ_ATTRIBUTE_UNUSED},
    {.key = "attn_logits_soft_cap", .type = CLQ_ATTRIBUTE_ONLY_NULL},
};

static clq_status infer_product(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const product_config *config = layer->config;
    const clq_shape *q = &clq_model_input_of(model, y, 0)->shape, *k = &clq_model_input_of(model, y, 1)->shape,
                    *v = &clq_model_input_of(model, y, 2)->shape;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX], c[CLQ_SHAPE_TEXT_MAX];
    if (q->rank != 3 || k->rank != 3 || v->rank != 3 || k->dims[0] != v->dims[0] || k->dims[1] != v->dims[1] ||
        q->dims[2] != k->dims[2] || q->dims[1] % k->dims[1])
        return clq_fail(CLQ_ERROR_ARGUMENT, "queries %s, keys %s and values %s should be (tokens, heads, width)",
                        clq_shape_describe(q, a), clq_shape_describe(k, b), clq_shape_describe(v, c));
    if (y->input_count != 3u + (config->mask > 0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes a query, a key and a value, not %u tensors", y->input_count);
    if (config->mask) {
        const clq_shape *mask = &clq_model_input_of(model, y, config->mask - 1)->shape;
        if (mask->rank != 3 || mask->dims[0] != 1 || (mask->dims[1] != 1 && mask->dims[1] != q->dims[0]) ||
            mask->dims[2] != k->dims[0])
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "its mask %s should be (1, %zu, %zu)", clq_shape_describe(mask, a),
                            q->dims[0], k->dims[0]);
    }
    CLQ_TRY(clq_attention_check_size("pairs of tokens", CLQ_SHAPE(q->dims[1], q->dims[0], k->dims[0])));
    y->shape = CLQ_SHAPE(q->dims[0], q->dims[1], v->dims[2]);
    return CLQ_OK;
}

static clq_id expand_product(clq_expansion *e, const clq_id *x) {
    const product_config *config = e->layer->config;
    const clq_shape *q = &clq_model_input_of(e->model, e->y, 0)->shape,
                    *k = &clq_model_input_of(e->model, e->y, 1)->shape,
                    *v = &clq_model_input_of(e->model, e->y, 2)->shape;
    clq_attention_core c = {.s = {.outer = 1,
                                  .tokens = q->dims[0],
                                  .others = k->dims[0],
                                  .heads = q->dims[1],
                                  .key = q->dims[2],
                                  .value = v->dims[2]},
                            .causal = config->causal,
                            .window = config->window,
                            .dropout = config->dropout,
                            .cap = config->cap,
                            .zeros = config->zeros,
                            .scale = config->scale != 0 ? config->scale : 1 / sqrt((double)q->dims[2])};
    if (config->mask)
        clq_attention_take_mask(&c, x, config->mask,
                                clq_model_input_of(e->model, e->y, config->mask - 1)->shape.dims[1] > 1, true);
    clq_id z = 0;
    if (e->model->decodes) {
        z = clq_expand_cached(e, &c, k->dims[1], 0, x[0], x[1], x[2]);
    } else {
        const clq_id keys = clq_attention_repeat_heads(e, k, q->dims[1], x[1]),
                     values = clq_attention_repeat_heads(e, v, q->dims[1], x[2]);
        z = keys && values ? clq_expand_attended(e, &c, x[0], keys, values) : 0;
    }
    return z ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), z) : 0;
}

static clq_status declare_product(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    const clq_shape *k = &clq_model_input_of(model, y, 1)->shape, *v = &clq_model_input_of(model, y, 2)->shape;
    return clq_attention_declare_caches(model, layer, 0, k->dims[1] * k->dims[2], v->dims[1] * v->dims[2]);
}

static bool product_is_by_token(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y) {
    const product_config *config = layer->config;
    return config->causal && !config->mask && config->cap == 0 && clq_attention_is_used_once(model, y);
}

static const char *const product_names[] = {"query", "key", "value", NULL};
const clq_layer_kind clq_layer_op_attention = {.type = "DotProductAttention",
                                               .stem = "dot_product_attention",
                                               .module = "keras.src.ops.nn",
                                               .input_names = product_names,
                                               .inputs = {3, 4},
                                               CLQ_LAYER_CONFIG(product_config, product_attributes),
                                               .draws = true,
                                               .by_token = product_is_by_token,
                                               .infer = infer_product,
                                               .declare = declare_product,
                                               .expand = expand_product};

/* ---- Attention (Luong et al., 2015) and AdditiveAttention (Bahdanau et al., 2014): a query (tokens, width), a value
 * (others, …), and a key; without a third tensor, the value is the key, too ---- */

typedef struct score_config {
    bool no_scale, causal;
    double dropout;
    uint64_t seed;
    size_t query_mask, value_mask;
} score_config;
#define SCORED                                                                                                         \
    {CLQ_LAYER_ATTRIBUTE("dropout", CLQ_ATTRIBUTE_NUMBER, score_config, dropout), .most = 1, .below = true},           \
        {CLQ_LAYER_ATTRIBUTE("seed", CLQ_ATTRIBUTE_SEED, score_config, seed)},                                         \
        {CLQ_LAYER_ATTRIBUTE("use_causal_mask", CLQ_ATTRIBUTE_KEYWORD_FLAG, score_config, causal)},                    \
        {CLQ_LAYER_ATTRIBUTE("query_mask", CLQ_ATTRIBUTE_TENSOR, score_config, query_mask), .implicit = 1,             \
         .unnamed = true},                                                                                             \
    {                                                                                                                  \
        CLQ_LAYER_ATTRIBUTE("value_mask", CLQ_ATTRIBUTE_TENSOR, score_config, value_mask), .implicit = 2,              \
                                                                                           .unnamed = true             \
    }
static const clq_attribute score_attributes[] = {SCORED,
                                                 {.key = "use_scale", .type = CLQ_ATTRIBUTE_ONLY_FALSE},
                                                 {.key = "score_mode", .type = CLQ_ATTRIBUTE_ONLY_WORD, .word = "dot"}};
static const clq_attribute additive_attributes[] = {
    SCORED, {CLQ_LAYER_ATTRIBUTE("use_scale", CLQ_ATTRIBUTE_OPPOSITE, score_config, no_scale)}};

static const score_config *scores_of(const clq_layer *layer) { return layer->config; }

/* Which input is number i of query, value and key. Without a key, it is the value. */
static uint32_t place_of(const clq_layer *layer, const clq_model_tensor *y, uint32_t i) {
    const score_config *config = scores_of(layer);
    return CLQ_MIN(i, y->input_count - (config->query_mask > 0) - (config->value_mask > 0) - 1);
}

static clq_status infer_score(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const score_config *config = scores_of(layer);
    const clq_shape *q = &clq_model_input_of(model, y, 0)->shape,
                    *v = &clq_model_input_of(model, y, place_of(layer, y, 1))->shape,
                    *k = &clq_model_input_of(model, y, place_of(layer, y, 2))->shape;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    const size_t masks[] = {config->query_mask, config->value_mask}, tokens[] = {q->dims[0], v->dims[0]};
    if (place_of(layer, y, 1) == 0 || q->rank != 2 || v->rank != 2 || k->rank != 2 || q->dims[1] != k->dims[1] ||
        k->dims[0] != v->dims[0])
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes a query (tokens, width) and a value (others, …), not %s and %s",
                        clq_shape_describe(q, a), clq_shape_describe(v, b));
    for (unsigned i = 0; i < 2; i++) {
        const clq_shape *mask = masks[i] ? &clq_model_input_of(model, y, masks[i] - 1)->shape : NULL;
        if (mask && (mask->rank != 1 || mask->dims[0] != tokens[i]))
            return clq_fail(CLQ_ERROR_ARGUMENT, "its mask %s should be (%zu)", clq_shape_describe(mask, a), tokens[i]);
    }
    const clq_shape sums =
        CLQ_SHAPE(q->dims[0], k->dims[0], layer->kind == &clq_layer_additive_attention ? q->dims[1] : 1);
    CLQ_TRY(clq_attention_check_size("pairs of tokens", sums));
    y->shape = CLQ_SHAPE(q->dims[0], v->dims[1]);
    return CLQ_OK;
}

static clq_status declare_additive(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    clq_variable_kind scale = clq_variable_kernel;
    scale.what = "scale";
    if (scores_of(layer)->no_scale) return CLQ_OK;
    return clq_model_declare_variable(model, layer, CLQ_KERNEL,
                                      CLQ_SHAPE(clq_model_channels(clq_model_input_of(model, y, 0))), &scale);
}

static clq_attention_core score_core(const clq_expansion *e, const clq_id *x) {
    const score_config *config = scores_of(e->layer);
    const clq_shape *q = &clq_model_input_of(e->model, e->y, 0)->shape,
                    *v = &clq_model_input_of(e->model, e->y, place_of(e->layer, e->y, 1))->shape;
    clq_attention_core c = {.s = {.outer = 1,
                                  .tokens = q->dims[0],
                                  .others = v->dims[0],
                                  .heads = 1,
                                  .key = q->dims[1],
                                  .value = v->dims[1]},
                            .causal = config->causal,
                            .scale = 1,
                            .dropout = config->dropout,
                            .seed = config->seed};
    clq_attention_take_mask(&c, x, config->value_mask, false, true);
    return c;
}

/* Outputs of queries that the query's mask leaves out become zeros. */
static clq_id leave_out(clq_expansion *e, const clq_id *x, clq_id z) {
    const size_t mask = scores_of(e->layer)->query_mask;
    const clq_shape *shape = &e->y->shape;
    if (!mask || !z) return z;
    const clq_id each = clq_expand_repeated(e, &CLQ_SHAPE(shape->dims[0], 1), shape, x[mask - 1]);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned counts = clq_element_take(p, clq_each_element), number = clq_element_take(p, clq_each_element);
    const unsigned zero = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT});
    p->outputs[p->output_count++].from =
        clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = counts, .b = number, .c = zero});
    node.inputs[1] = z;
    return each ? clq_expand_unary(e, node, each) : 0;
}

static clq_id expand_score(clq_expansion *e, const clq_id *x) {
    const clq_attention_core c = score_core(e, x);
    return leave_out(e, x,
                     clq_expand_attended(e, &c, x[0], x[place_of(e->layer, e->y, 2)], x[place_of(e->layer, e->y, 1)]));
}

/* Repeats x to (tokens, others, width). x is (tokens, 1, width) if it has queries, otherwise (1, others, width). */
static clq_id repeat_pairs(clq_expansion *e, const clq_attention_core *c, bool queries, clq_id x) {
    const size_t width = c->s.key;
    const clq_shape all = CLQ_SHAPE(c->s.tokens, c->s.others, width),
                    from = queries ? CLQ_SHAPE(c->s.tokens, 1, width) : CLQ_SHAPE(1, c->s.others, width);
    return clq_expand_repeated(e, &from, &all, x);
}

/* The score of a pair is the sum of scale * tanh(q + k) over the width. */
static clq_id expand_additive(clq_expansion *e, const clq_id *x) {
    const clq_attention_core c = score_core(e, x);
    const size_t rows = c.s.tokens * c.s.others;
    const clq_shape all = CLQ_SHAPE(rows, c.s.key), scores = CLQ_SHAPE(rows, 1);
    clq_node node = clq_expand_node(e, &clq_op_elementwise);
    clq_element_program *p = &node.attributes.program;
    const unsigned q = clq_element_take(p, clq_each_element), k = clq_element_take(p, clq_each_element);
    const unsigned sum = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_ADD, .a = q, .b = k});
    p->outputs[p->output_count++].from = clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_TANH, .a = sum});
    node.inputs[0] = repeat_pairs(e, &c, true, x[0]);
    node.inputs[1] = repeat_pairs(e, &c, false, x[place_of(e->layer, e->y, 2)]);
    node.outputs[0] = clq_expand_value(e, &all, rows * c.s.key);
    if (!node.inputs[0] || !node.inputs[1]) return 0;
    const clq_id bent = clq_graph_add_node(e->graph, &node), scale = clq_expand_weight(e, CLQ_KERNEL);
    clq_node total = clq_expand_node(e, scale ? &clq_op_dense : &clq_op_reduce);
    if (scale)
        total.attributes.dense = (clq_dense_problem){.in = c.s.key, .out = 1, .rows_per_example = rows};
    else
        total.attributes.repeat = (clq_repeat_problem){.outer = rows, .repeats = c.s.key, .inner = 1, .scale = 1};
    total.inputs[0] = bent;
    total.inputs[1] = scale;
    total.outputs[0] = clq_expand_value(e, &scores, rows);
    const clq_shape pairs = CLQ_SHAPE(1, rows);
    clq_node flat = clq_expand_node(e, &clq_op_reshape);
    flat.inputs[0] = bent ? clq_graph_add_node(e->graph, &total) : 0;
    flat.outputs[0] = clq_expand_value(e, &pairs, rows);
    if (!flat.inputs[0]) return 0;
    return leave_out(e, x,
                     clq_expand_mixed(e, &c, clq_graph_add_node(e->graph, &flat), x[place_of(e->layer, e->y, 1)]));
}

#define SCORE_KIND(kind, class_name, name_stem, rows, variables, expansion)                                            \
    const clq_layer_kind kind = {.type = (class_name),                                                                 \
                                 .stem = (name_stem),                                                                  \
                                 .inputs = {2, 5},                                                                     \
                                 .takes_list = true,                                                                   \
                                 .further = CLQ_ATTENTION_SCORES,                                                      \
                                 CLQ_LAYER_CONFIG(score_config, rows),                                                 \
                                 .draws = true,                                                                        \
                                 .mask = clq_layer_keep_mask,                                                          \
                                 .infer = infer_score,                                                                 \
                                 .declare = (variables),                                                               \
                                 .expand = (expansion)}
SCORE_KIND(clq_layer_score_attention, "Attention", "attention", score_attributes, NULL, expand_score);
SCORE_KIND(clq_layer_additive_attention, "AdditiveAttention", "additive_attention", additive_attributes,
           declare_additive, expand_additive);
