/* Blocks of keras_hub: attention with relative positions, of T5 and DeBERTa-v3. */
#include "interop/keras_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MODELS CLQ_HUB "models."

static void add_einsum(clq_block_writer *w, const char *name, const char *subscripts, const char *a, const char *b) {
    clq_block_add(w, CLQ_NUMPY, "Einsum", name, json_pack("{s:s}", "subscripts", subscripts), NULL, CLQ_FROM(a, b));
}
static void add_scored(clq_block_writer *w, const char *name, double dropout, json_t *keywords, const char *scores,
                       const char *value) {
    clq_block_add(w, "clique", "ScoredAttention", name, json_pack("{s:f}", "dropout", dropout), keywords,
                  CLQ_FROM(scores, value));
}
/* Adds the rows of a table by the distance between tokens. */
static void add_rows(clq_block_writer *w, const char *name, size_t places, const char *buckets, bool turned,
                     const char *table, const char *tokens) {
    clq_block_add(w, "clique", "RelativeRows", name,
                  json_pack("{s:I, s:s, s:b}", "places", (json_int_t)places, "buckets", buckets, "turned", turned),
                  NULL, CLQ_FROM(table, tokens));
}
static void add_relative(clq_block_writer *w, const char *name, const char *from) {
    clq_block_add(w, "clique", "RelativeScores", name, NULL, NULL, CLQ_FROM(from));
}
/* ---- T5 (Raffel et al., 2020): the scores, which are not scaled, get a bias for each head and bucket of distances.
 * The first layer of a stack gives this bias, with the mask in it, to the others ---- */

enum { T5_ROWS = 32, T5_PLACES = 128 };

typedef struct t5_sizes {
    size_t channels, heads, width;
    double dropout;
} t5_sizes;

static void add_t5_norm(clq_block_writer *w, const char *name, const char *from) {
    clq_block_add(w, MODELS "t5.t5_layer_norm", "T5LayerNorm", name,
                  json_pack("{s:f}", "epsilon", clq_block_number(w, "layer_norm_epsilon", 1e-6)), NULL, CLQ_FROM(from));
    clq_block_note_store(w, name); /* Keras leaves it without a name */
}
static void add_t5_dense(clq_block_writer *w, const char *name, size_t units, double deviation, json_t *activation,
                         const char *from) {
    clq_block_add(w, CLQ_LAYERS, "Dense", name,
                  json_pack("{s:I, s:b, s:o, s:o}", "units", (json_int_t)units, "use_bias", 0, "activation",
                            activation ? activation : json_string("linear"), "kernel_initializer",
                            clq_block_normal(deviation)),
                  NULL, CLQ_FROM(from));
}

/* Turns a mask into numbers that are added to scores: 0 where the mask is 1, -1e9 where it is 0. mask: (1 or tokens,
 * others). */
static void add_low(clq_block_writer *w, const char *name, const char *mask) {
    char large[CLQ_LAYER_NAME_MAX], flat[CLQ_LAYER_NAME_MAX];
    (void)snprintf(large, sizeof large, "%s_large", name);
    (void)snprintf(flat, sizeof flat, "%s_flat", name);
    clq_block_add(w, CLQ_NUMPY, "Multiply", large, NULL, NULL, CLQ_FROM(mask));
    clq_block_append_argument(w, json_real(1e9));
    clq_block_add(w, CLQ_NUMPY, "Subtract", flat, NULL, NULL, CLQ_FROM(large));
    clq_block_append_argument(w, json_real(1e9));
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", name, json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM(flat));
}

/* Adds a causal mask: each token may see itself and the tokens in front of it. */
static void add_causal(clq_block_writer *w, const char *name, const char *x) {
    clq_block_count_tokens(w, x);
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", "count_of_query", json_pack("{s:i}", "axis", 2), NULL,
                  CLQ_FROM("counts"));
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", "count_of_key", json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM("counts"));
    clq_block_add(w, CLQ_NUMPY, "GreaterEqual", name, NULL, NULL, CLQ_FROM("count_of_query", "count_of_key"));
}

static const char *add_t5_bias(clq_block_writer *w, const t5_sizes *s, bool decoder) {
    const bool causal = clq_block_keyword_flag(w, "use_causal_mask", false);
    const char *mask = clq_block_is_given(w, 1) ? "attention_mask" : NULL;
    if (!clq_block_flag(w, "use_relative_attention_bias", false))
        clq_block_refuse(w, "use_relative_attention_bias", "false is supported for calls with a position_bias alone");
    clq_block_add_learned(w, "self_attention", T5_ROWS, s->heads, false,
                          clq_block_normal(1 / sqrt((double)(s->heads * s->width))), "hidden_states");
    clq_block_note_store(w, "self_attention/vars/0");
    add_rows(w, "bias_rows", T5_PLACES, decoder ? "behind" : "both_ways", false, "self_attention", "hidden_states");
    clq_block_add(w, CLQ_NUMPY, "Transpose", "bias_by_head", json_pack("{s:[i, i, i]}", "axes", 0, 2, 1), NULL,
                  CLQ_FROM("bias_rows"));
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", "bias_of_queries", json_pack("{s:i}", "axis", 2), NULL,
                  CLQ_FROM("bias_by_head"));
    add_relative(w, "bias", "bias_of_queries");
    if (causal) {
        add_causal(w, mask ? "causal" : "allowed", "hidden_states");
        if (mask) clq_block_add(w, CLQ_NUMPY, "LogicalAnd", "allowed", NULL, NULL, CLQ_FROM("causal", mask));
        mask = "allowed";
    }
    if (!mask) return "bias";
    add_low(w, "low", mask);
    clq_block_add(w, CLQ_NUMPY, "Add", "masked_bias", NULL, NULL, CLQ_FROM("bias", "low"));
    return "masked_bias";
}

/* bias: what is added to the scores; NULL: nothing. */
static void add_t5_attention(clq_block_writer *w, const t5_sizes *s, const char *prefix, const char *bias,
                             const char *query, const char *others, char out[CLQ_LAYER_NAME_MAX]) {
    static const char *const parts[] = {"query_projector", "key_projector", "value_projector"};
    const size_t inner = s->heads * s->width;
    char names[3][CLQ_LAYER_NAME_MAX], heads[3][CLQ_LAYER_NAME_MAX], scores[CLQ_LAYER_NAME_MAX],
        biased[CLQ_LAYER_NAME_MAX], mixed[CLQ_LAYER_NAME_MAX], joined[CLQ_LAYER_NAME_MAX];
    for (unsigned i = 0; i < 3; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s.%s", prefix, parts[i]);
        (void)snprintf(heads[i], sizeof heads[i], "%s.heads_%u", prefix, i);
        add_t5_dense(w, names[i], inner, 1 / sqrt((double)(i ? inner : inner * s->width)), NULL, i ? others : query);
        clq_block_add(w, CLQ_LAYERS, "Reshape", heads[i],
                      json_pack("{s:[i, I, I]}", "target_shape", -1, (json_int_t)s->heads, (json_int_t)s->width), NULL,
                      CLQ_FROM(names[i]));
    }
    (void)snprintf(scores, sizeof scores, "%s.scores", prefix);
    (void)snprintf(biased, sizeof biased, "%s.biased", prefix);
    (void)snprintf(mixed, sizeof mixed, "%s.mixed", prefix);
    (void)snprintf(joined, sizeof joined, "%s.joined", prefix);
    (void)snprintf(out, CLQ_LAYER_NAME_MAX, "%s.output_projector", prefix);
    add_einsum(w, scores, "bqnd,bknd->bnqk", heads[0], heads[1]);
    if (bias) clq_block_add(w, CLQ_NUMPY, "Add", biased, NULL, NULL, CLQ_FROM(scores, bias));
    add_scored(w, mixed, s->dropout, NULL, bias ? biased : scores, heads[2]);
    clq_block_add(w, CLQ_LAYERS, "Reshape", joined, json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)inner),
                  NULL, CLQ_FROM(mixed));
    add_t5_dense(w, out, s->channels, 1 / sqrt((double)inner), NULL, joined);
}

static const char *const t5_names[] = {"hidden_states",         "attention_mask",         "position_bias",
                                       "encoder_hidden_states", "encoder_attention_mask", NULL};
#define T5_KEYS                                                                                                        \
    "is_decoder hidden_dim intermediate_dim key_value_dim dropout activation layer_norm_epsilon num_heads "            \
    "use_gated_activation use_relative_attention_bias"
static const char *const *write_t5(clq_block_writer *w) {
    const t5_sizes s = {.channels = clq_block_same_channels(w, "hidden_dim"),
                        .heads = (size_t)clq_block_whole(w, "num_heads", -1),
                        .width = (size_t)clq_block_whole(w, "key_value_dim", -1),
                        .dropout = clq_block_number(w, "dropout", 0)};
    const bool decoder = clq_block_flag(w, "is_decoder", false);
    const size_t inner = (size_t)clq_block_whole(w, "intermediate_dim", -1);
    const double deviation = 1 / sqrt((double)s.channels);
    char attended[CLQ_LAYER_NAME_MAX], crossed[CLQ_LAYER_NAME_MAX];
    if (s.heads == 0 || s.width == 0) clq_block_refuse(w, "num_heads", "it and key_value_dim should be above 0");
    if (decoder != clq_block_is_given(w, 3))
        clq_block_refuse(w, "is_decoder", decoder ? "true needs encoder_hidden_states" : "false takes none of these");
    if (w->status != CLQ_OK) return NULL;
    add_t5_norm(w, "self_attention_layer_norm", "hidden_states");
    const char *bias = clq_block_is_given(w, 2) ? "position_bias" : add_t5_bias(w, &s, decoder);
    add_t5_attention(w, &s, "self_attention", bias, "self_attention_layer_norm", "self_attention_layer_norm", attended);
    clq_block_add_dropout(w, "self_attention_dropout", s.dropout, attended);
    clq_block_add_sum(w, "self_attention_sum", "self_attention_dropout", "hidden_states");
    const char *x = "self_attention_sum";
    if (decoder) {
        const char *low = clq_block_is_given(w, 4) ? "encoder_low" : NULL;
        if (low) add_low(w, low, "encoder_attention_mask");
        add_t5_norm(w, "cross_attention_layer_norm", x);
        add_t5_attention(w, &s, "cross_attention", low, "cross_attention_layer_norm", "encoder_hidden_states", crossed);
        clq_block_add_dropout(w, "cross_attention_dropout", s.dropout, crossed);
        clq_block_add_sum(w, "cross_attention_sum", "cross_attention_dropout", x);
        x = "cross_attention_sum";
    }
    add_t5_norm(w, "layer_norm", x);
    add_t5_dense(w, "input_projector", inner, deviation, clq_block_take_activation(w, "activation", "linear"),
                 "layer_norm");
    const char *wide = "input_projector";
    if (clq_block_flag(w, "use_gated_activation", false)) {
        add_t5_dense(w, "gate_projector", inner, deviation, NULL, "layer_norm");
        clq_block_add(w, CLQ_NUMPY, "Multiply", "gated", NULL, NULL, CLQ_FROM(wide, "gate_projector"));
        wide = "gated";
    }
    clq_block_add_dropout(w, "wide_dropout", s.dropout, wide);
    add_t5_dense(w, "output_projector", s.channels, 1 / sqrt((double)CLQ_MAX(inner, (size_t)1)), NULL, "wide_dropout");
    clq_block_add_dropout(w, "output_dropout", s.dropout, "output_projector");
    clq_block_add_sum(w, "sum", "output_dropout", x);
    w->output[1] = bias;
    return clq_block_give(w, "sum");
}

/* ---- DeBERTa-v3 (He et al., 2021): adds the scores of queries with keys, of queries with the keys of distances, and
 * of keys with the queries of distances ---- */

static const char *const table_names[] = {"inputs", NULL};
static const char *const *write_relative_table(clq_block_writer *w) {
    const size_t rows = 2 * (size_t)clq_block_whole(w, "bucket_size", -1),
                 channels = (size_t)clq_block_whole(w, "hidden_dim", -1);
    clq_block_add_learned(w, "rel_embedding", rows, channels, false,
                          clq_block_value_or(w, "kernel_initializer", json_string("glorot_uniform")), "inputs");
    clq_block_note_store(w, "vars/0");
    clq_block_add_norm(w, "rel_embeddings_layer_norm", "rel_embedding");
    return clq_block_give(w, "rel_embeddings_layer_norm");
}

/* Adds the scores of each token with the rows of distances, which the second call of the layer `rows` gives. */
static void add_distances(clq_block_writer *w, const char *name, const char *between, const char *tokens,
                          const char *rows) {
    add_einsum(w, between, "bpnd,bqnd->bnqp", rows, tokens);
    clq_block_read_again(w);
    add_relative(w, name, between);
}

static const char *const disentangled_names[] = {"inputs", "rel_embeddings", "padding_mask", NULL};
#define DISENTANGLED_KEYS                                                                                              \
    "intermediate_dim num_heads max_position_embeddings bucket_size dropout activation layer_norm_epsilon "            \
    "kernel_initializer bias_initializer"
static const char *const *write_disentangled(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1),
                 width = clq_block_divide(w, channels, heads, "num_heads"),
                 places = (size_t)clq_block_whole(w, "max_position_embeddings", 512),
                 span = (size_t)clq_block_whole(w, "bucket_size", 256);
    const double dropout = clq_block_number(w, "dropout", 0);
    enum { QUERY, KEY, VALUE, PARTS };
    static const char *const names[PARTS] = {"self_attention_layer.query", "self_attention_layer.key",
                                             "self_attention_layer.value"};
    const clq_shape *table = clq_block_is_given(w, 1) ? clq_block_shape_of(w, 1) : NULL;
    if (!table || table->rank != 2 || table->dims[0] != 2 * span || table->dims[1] != channels)
        clq_block_refuse(w, "bucket_size", "rel_embeddings should be (%zu, %zu)", 2 * span, channels);
    clq_block_add_dropout(w, "position_dropout", dropout, "rel_embeddings");
    add_rows(w, "rows", places, "logarithmic", false, "position_dropout", "inputs");
    add_rows(w, "rows_turned", places, "logarithmic", true, "position_dropout", "inputs");
    for (unsigned i = 0; i < PARTS; i++)
        clq_block_add_heads(w, names[i], "abc,cde->abde", heads, width, "de", "inputs");
    clq_block_use_again(w, names[KEY], "rows");
    clq_block_use_again(w, names[QUERY], "rows_turned");
    add_einsum(w, "of_content", "bqnd,bknd->bnqk", names[QUERY], names[KEY]);
    add_distances(w, "of_keys", "keys_by_distance", names[QUERY], names[KEY]);
    add_distances(w, "of_queries", "queries_by_distance", names[KEY], names[QUERY]);
    clq_block_add(w, CLQ_NUMPY, "Transpose", "of_queries_turned", json_pack("{s:[i, i, i, i]}", "axes", 0, 1, 3, 2),
                  NULL, CLQ_FROM("of_queries"));
    clq_block_add_of_list(w, "Add", "scores", NULL, CLQ_FROM("of_content", "of_keys", "of_queries_turned"));
    clq_block_add(w, CLQ_NUMPY, "Multiply", "scaled", NULL, NULL, CLQ_FROM("scores"));
    clq_block_append_argument(w, json_real(1 / sqrt(3 * (double)width)));
    if (clq_block_is_given(w, 2))
        clq_block_add_pairs(w, "pairs", "padding_mask");
    else
        clq_block_refuse_carried(w, "padding_mask");
    add_scored(w, "attended", dropout, clq_block_mask_keyword(w, 2, "mask", "pairs"), "scaled", names[VALUE]);
    clq_block_add(w, CLQ_LAYERS, "Reshape", "joined", json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)channels),
                  NULL, CLQ_FROM("attended"));
    clq_block_add_dense(w, "self_attention_layer.attention_output", channels, NULL, true, "joined");
    clq_block_add_dropout(w, "self_attention_dropout", dropout, "self_attention_layer.attention_output");
    clq_block_add_sum(w, "self_attention_sum", "self_attention_dropout", "inputs");
    clq_block_add_norm(w, "self_attention_layer_norm", "self_attention_sum");
    clq_block_add_dense(w, "feedforward_intermediate_dense", (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        clq_block_take_activation(w, "activation", "relu"), true, "self_attention_layer_norm");
    clq_block_add_dense(w, "feedforward_output_dense", channels, NULL, true, "feedforward_intermediate_dense");
    clq_block_add_dropout(w, "feedforward_dropout", dropout, "feedforward_output_dense");
    clq_block_add_sum(w, "feedforward_sum", "feedforward_dropout", "self_attention_layer_norm");
    clq_block_add_norm(w, "feedforward_layer_norm", "feedforward_sum");
    w->masked = "inputs";
    return clq_block_give(w, "feedforward_layer_norm");
}

/* ---- the rows ---- */

const clq_block_row clq_hub_relative[] = {
    {.module = MODELS "t5.t5_transformer_layer",
     .class_name = "T5TransformerLayer",
     .names = t5_names,
     .keys = T5_KEYS,
     .write = write_t5,
     .flags = "use_causal_mask"},
    CLQ_BLOCK_ROW(MODELS "deberta_v3.relative_embedding", "RelativeEmbedding", table_names,
                  "hidden_dim bucket_size layer_norm_epsilon kernel_initializer", write_relative_table),
    CLQ_BLOCK_ROW(MODELS "deberta_v3.disentangled_attention_encoder", "DisentangledAttentionEncoder",
                  disentangled_names, DISENTANGLED_KEYS, write_disentangled),
    CLQ_BLOCK_END,
};
