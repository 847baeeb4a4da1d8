/* The parts of blocks with attention by relative places: rows of a table by the distance of two tokens, in buckets that
 * grow with the distance; scores by distance as scores of pairs; and attention from scores. */
#include "graph/layers/attention.h"

#include <math.h>

/* ---- rows: (rows, …) and tokens (tokens, …) to (2 tokens - 1, …). There is a row for each difference of the
 * key's place and the query's, from 1 - tokens to tokens - 1; or, turned, from tokens - 1 down ---- */

typedef struct relative_config {
    size_t places; /* tokens that are so far apart, or farther, are in the last bucket of their direction */
    int buckets;
    bool turned;
} relative_config;
/* LOGARITHMIC: He et al., "DeBERTaV3" (2021). The others: Raffel et al., "T5" (2020). BOTH_WAYS tells apart keys in
 * front of the query and behind it; BEHIND tells apart only keys in front of it. */
enum { LOGARITHMIC, BOTH_WAYS, BEHIND };
static const char *const ways[] = {"logarithmic", "both_ways", "behind", NULL};
static const clq_attribute row_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("places", CLQ_ATTRIBUTE_SIZES, relative_config, places), .needed = true},
    {CLQ_LAYER_ATTRIBUTE("buckets", CLQ_ATTRIBUTE_CHOICE, relative_config, buckets), .words = ways},
    {CLQ_LAYER_ATTRIBUTE("turned", CLQ_ATTRIBUTE_FLAG, relative_config, turned)},
};

/* The whole part of x if x is from 0 to `most`. Otherwise, also if x is NaN, `most`, which is beyond any bucket. */
static long whole_of(float x, long most) { return x >= 0 && x <= (float)most ? (long)x : most; }

/* Distances up to a quarter of the rows have rows of their own. Larger distances share rows by their logarithm, which
 * is computed in float32, as Keras does. With some sizes of tables, tokens that are exactly places - 1 apart lie on the
 * edge of a bucket. Keras's own results then depend on whether JAX compiles the function. Tables of 512 rows for 512
 * places have no such edge. */
static long find_logarithmic(size_t rows, size_t places, long key_less_query) {
    const long span = (long)rows / 2, middle = span / 2, apart = labs(key_less_query);
    long bucket = apart;
    if (apart > middle)
        bucket = middle + whole_of(ceilf(logf((float)apart / (float)middle) * (float)(middle - 1) /
                                         logf((float)(places - 1) / (float)middle)),
                                   span);
    return CLQ_MIN(CLQ_MAX(span + (key_less_query > 0 ? -bucket : bucket), 0), 2 * span - 1);
}

/* For T5, how many distances have rows of their own: the smallest ones, from 0 on. */
static size_t count_exact(size_t rows, bool both) { return rows / (both ? 4 : 2); }

static long find_t5(size_t rows, size_t places, bool both, long key_less_query) {
    const long half = (long)rows / (both ? 2 : 1), exact = (long)count_exact(rows, both),
               apart = both ? labs(key_less_query) : -CLQ_MIN(key_less_query, 0);
    long bucket = apart;
    if (apart >= exact)
        bucket = exact + whole_of(logf((float)apart / (float)exact) / (float)log((double)places / (double)exact) *
                                      (float)(half - exact),
                                  half);
    return CLQ_MIN(bucket, half - 1) + (both && key_less_query > 0 ? half : 0);
}

static size_t row_of(const relative_config *config, size_t rows, size_t tokens, size_t place) {
    const long apart = config->turned ? (long)tokens - 1 - (long)place : (long)place - (long)tokens + 1;
    return (size_t)(config->buckets == LOGARITHMIC
                        ? find_logarithmic(rows, config->places, apart)
                        : find_t5(rows, config->places, config->buckets == BOTH_WAYS, apart));
}

static clq_status infer_rows(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const relative_config *config = layer->config;
    const clq_shape *table = &clq_model_input_of(model, y, 0)->shape, *x = &clq_model_input_of(model, y, 1)->shape;
    char text[CLQ_SHAPE_TEXT_MAX];
    if (table->rank != 2 || x->rank != 2 || table->dims[0] % 2 || table->dims[0] < 4)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "a table %s is not supported: it should have an even number of rows, at least 4",
                        clq_shape_describe(table, text));
    /* The logarithms of larger distances are divided by one of `places`, which has to be above 0. */
    const size_t near = config->buckets == LOGARITHMIC ? table->dims[0] / 4 + 1
                                                       : count_exact(table->dims[0], config->buckets == BOTH_WAYS);
    if (x->dims[0] > near && config->places <= near)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%zu places for %zu rows are supported for at most %zu tokens, not %zu",
                        config->places, table->dims[0], near, x->dims[0]);
    if (x->dims[0] > INT32_MAX / 2) return clq_fail(CLQ_ERROR_UNSUPPORTED, "so many tokens are not supported");
    y->shape = CLQ_SHAPE(2 * x->dims[0] - 1, table->dims[1]);
    return CLQ_OK;
}

/* The rows are the table's product with a constant matrix that has a single one in each row. */
static clq_id expand_rows(clq_expansion *e, const clq_id *x) {
    const relative_config *config = e->layer->config;
    const size_t tokens = clq_model_input_of(e->model, e->y, 1)->shape.dims[0], rows = e->y->shape.dims[0],
                 columns = clq_model_input_of(e->model, e->y, 0)->shape.dims[0], width = e->y->shape.dims[1];
    float *ones = clq_alloc(rows * columns, sizeof *ones);
    if (!ones) {
        clq_graph_fail(e->graph, CLQ_ERROR_MEMORY);
        return 0;
    }
    for (size_t i = 0; i < rows; i++) ones[i * columns + row_of(config, columns, tokens, i)] = 1;
    clq_node node = clq_expand_node(e, &clq_op_batched);
    node.attributes.batched = (clq_batched_problem){.counts = {1, 1},
                                                    .m = rows,
                                                    .n = width,
                                                    .k = columns,
                                                    .a = {.row = columns, .column = 1},
                                                    .b = {.sample = columns * width, .row = width, .column = 1},
                                                    .c = {.sample = rows * width, .row = width, .column = 1},
                                                    .scale = 1};
    node.inputs[0] = clq_graph_add_constant(e->graph, "buckets", &CLQ_SHAPE(rows, columns), rows * columns, ones);
    node.inputs[1] = x[0];
    clq_free(ones);
    node.outputs[0] = clq_expand_value(e, &e->y->shape, e->y->elements);
    return node.inputs[0] ? clq_graph_add_node(e->graph, &node) : 0;
}
const clq_layer_kind clq_layer_relative_rows = {.type = "RelativeRows",
                                                .stem = "relative_rows",
                                                .module = "clique",
                                                .inputs = {2, 2},
                                                CLQ_LAYER_CONFIG(relative_config, row_attributes),
                                                .infer = infer_rows,
                                                .expand = expand_rows};

/* ---- scores: (heads, tokens or 1, 2 tokens - 1) to (heads, tokens, tokens). The score of query i and key j is number
 * tokens - 1 - i + j of row i ---- */

static clq_status infer_scores(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const clq_shape *x = &clq_model_input_of(model, y, 0)->shape;
    const size_t tokens = x->rank == 3 ? (x->dims[2] + 1) / 2 : 0;
    char text[CLQ_SHAPE_TEXT_MAX];
    (void)layer;
    if (x->rank != 3 || x->dims[2] % 2 == 0 || (x->dims[1] != tokens && x->dims[1] != 1))
        return clq_fail(CLQ_ERROR_ARGUMENT, "it takes (heads, tokens, 2 tokens - 1), not %s",
                        clq_shape_describe(x, text));
    y->shape = CLQ_SHAPE(x->dims[0], tokens, tokens);
    return clq_attention_check_size("distances of tokens", CLQ_SHAPE(x->dims[0], tokens, x->dims[2]));
}
/* Leaves out the first tokens - 1 numbers and the last one, and reads the rest as rows of 2 tokens - 2. Each of these
 * rows then begins one number earlier in its row of x than the row before, and its first `tokens` numbers are the
 * scores. With one token there is one score. */
static clq_id expand_scores(clq_expansion *e, const clq_id *x) {
    const size_t heads = e->y->shape.dims[0], tokens = e->y->shape.dims[1], row = 2 * tokens - 1, row_less = row - 1;
    const clq_shape whole = CLQ_SHAPE(heads, tokens, row), kept = CLQ_SHAPE(heads, tokens, row_less);
    if (tokens == 1) return clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), x[0]);
    const clq_id all = clq_expand_repeated(e, &clq_model_input_of(e->model, e->y, 0)->shape, &whole, x[0]);
    const size_t flat[] = {heads, tokens * row}, rows[] = {heads, tokens, row_less};
    clq_node cut = clq_expand_node(e, &clq_op_arrange);
    cut.attributes.arrangement = clq_arrangement_of(2, flat);
    cut.attributes.arrangement.axes[1].first = (long)tokens - 1;
    cut.attributes.arrangement.axes[1].out = tokens * row_less;
    cut.inputs[0] = all;
    cut.outputs[0] = clq_expand_value(e, &kept, heads * tokens * row_less);
    clq_arrangement begins = clq_arrangement_of(3, rows);
    begins.axes[2].out = tokens;
    const clq_id cut_off = all ? clq_graph_add_node(e->graph, &cut) : 0;
    return cut_off ? clq_expand_arrange(e, &begins, cut_off) : 0;
}
const clq_layer_kind clq_layer_relative_scores = {.type = "RelativeScores",
                                                  .stem = "relative_scores",
                                                  .module = "clique",
                                                  .inputs = {1, 1},
                                                  .infer = infer_scores,
                                                  .expand = expand_scores};

/* ---- attention: scores (heads, tokens, others) and values (others, heads, width) to (tokens, heads, width). A mask (1
 * or tokens, others) leaves pairs out. A query that may look nowhere gets zeros ---- */

typedef struct scored_config {
    double dropout;
    size_t mask;
} scored_config;
static const clq_attribute scored_attributes[] = {
    {CLQ_LAYER_ATTRIBUTE("dropout", CLQ_ATTRIBUTE_NUMBER, scored_config, dropout), .most = 1, .below = true},
    {CLQ_LAYER_ATTRIBUTE("mask", CLQ_ATTRIBUTE_TENSOR, scored_config, mask)},
};

static clq_status infer_scored(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    const scored_config *config = layer->config;
    const clq_shape *scores = &clq_model_input_of(model, y, 0)->shape, *v = &clq_model_input_of(model, y, 1)->shape;
    char a[CLQ_SHAPE_TEXT_MAX], b[CLQ_SHAPE_TEXT_MAX];
    if (scores->rank != 3 || v->rank != 3 || scores->dims[0] != v->dims[1] || scores->dims[2] != v->dims[0])
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "scores %s and values %s should be (heads, tokens, others), (others, heads, width)",
                        clq_shape_describe(scores, a), clq_shape_describe(v, b));
    if (config->mask) {
        const clq_shape *mask = &clq_model_input_of(model, y, config->mask - 1)->shape;
        if (mask->rank != 2 || (mask->dims[0] != 1 && mask->dims[0] != scores->dims[1]) ||
            mask->dims[1] != scores->dims[2])
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "its mask %s should be (%zu, %zu)", clq_shape_describe(mask, a),
                            scores->dims[1], scores->dims[2]);
    }
    y->shape = CLQ_SHAPE(scores->dims[1], scores->dims[0], v->dims[2]);
    return CLQ_OK;
}

static clq_id expand_scored(clq_expansion *e, const clq_id *x) {
    const scored_config *config = e->layer->config;
    const clq_shape *scores = &clq_model_input_of(e->model, e->y, 0)->shape;
    const size_t width = e->y->shape.dims[2];
    clq_attention_core c = {.s = {.outer = 1,
                                  .tokens = scores->dims[1],
                                  .others = scores->dims[2],
                                  .heads = scores->dims[0],
                                  .key = width,
                                  .value = width},
                            .dropout = config->dropout,
                            .scale = 1,
                            .zeros = true};
    if (config->mask)
        clq_attention_take_mask(&c, x, config->mask,
                                clq_model_input_of(e->model, e->y, config->mask - 1)->shape.dims[0] > 1, true);
    const clq_shape by_head = CLQ_SHAPE(scores->dims[0], scores->dims[1] * scores->dims[2]);
    clq_node flat = clq_expand_node(e, &clq_op_reshape);
    flat.inputs[0] = x[0];
    flat.outputs[0] = clq_expand_value(e, &by_head, by_head.dims[0] * by_head.dims[1]);
    const clq_id pairs = clq_graph_add_node(e->graph, &flat), z = pairs ? clq_expand_mixed(e, &c, pairs, x[1]) : 0;
    return z ? clq_expand_unary(e, clq_expand_node(e, &clq_op_reshape), z) : 0;
}
static const char *const scored_names[] = {"scores", "value", NULL};
const clq_layer_kind clq_layer_scored_attention = {.type = "ScoredAttention",
                                                   .stem = "scored_attention",
                                                   .module = "clique",
                                                   .input_names = scored_names,
                                                   .inputs = {2, 3},
                                                   CLQ_LAYER_CONFIG(scored_config, scored_attributes),
                                                   .draws = true,
                                                   .infer = infer_scored,
                                                   .expand = expand_scored};
