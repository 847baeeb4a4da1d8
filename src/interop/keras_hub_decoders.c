/* Blocks of keras_hub: decoders of texts, each with a structure of its own. */
#include "interop/keras_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- GPT-NeoX: attention beside the feed-forward layer, rotary positions in a part of each head's channels ---- */

static const char *const decoder_names[] = {"decoder_sequence", "decoder_padding_mask", NULL};
#define NEOX_KEYS                                                                                                      \
    "intermediate_dim num_heads dropout rotary_percentage rotary_max_wavelength max_sequence_length activation "       \
    "layer_norm_epsilon kernel_initializer bias_initializer decoder_sequence_shape"
static const char *const *write_neox(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1),
                 width = clq_block_divide(w, channels, heads, "num_heads");
    const double dropout = clq_block_number(w, "dropout", 0), share = clq_block_number(w, "rotary_percentage", 0.25);
    if (!(share > 0 && share <= 1)) clq_block_refuse(w, "rotary_percentage", "should be above 0, and at most 1");
    const size_t turned = share > 0 && share <= 1 ? (size_t)((double)width * share) : 0;
    if (turned < 2 || turned % 2 || turned > width)
        clq_block_refuse(w, "rotary_percentage", "%zu of %zu places are turned, which are not pairs", turned, width);
    if (dropout > 0) clq_block_refuse(w, "dropout", "only 0 is supported");
    clq_block_add_norm(w, "self_attention_layer_norm", "decoder_sequence");
    clq_block_add_heads(w, "self_attention.query_key_value", "abc,cde->abde", heads, 3 * width, "de",
                        "self_attention_layer_norm");
    clq_block_take_channels(w, "query_turns", 0, turned, "self_attention.query_key_value");
    clq_block_take_channels(w, "key_turns", width, width + turned, "self_attention.query_key_value");
    clq_block_take_channels(w, "value", 2 * width, 3 * width, "self_attention.query_key_value");
    clq_block_add_rotary(w, "query_turned", clq_block_number(w, "rotary_max_wavelength", 1e4), 1, "query_turns");
    clq_block_add_rotary(w, "key_turned", clq_block_number(w, "rotary_max_wavelength", 1e4), 1, "key_turns");
    const char *query = "query_turned", *key = "key_turned";
    if (turned < width) {
        clq_block_take_channels(w, "query_stays", turned, width, "self_attention.query_key_value");
        clq_block_take_channels(w, "key_stays", width + turned, 2 * width, "self_attention.query_key_value");
        clq_block_add_of_list(w, "Concatenate", "query", NULL, CLQ_FROM("query_turned", "query_stays"));
        clq_block_add_of_list(w, "Concatenate", "key", NULL, CLQ_FROM("key_turned", "key_stays"));
        query = "query";
        key = "key";
    }
    clq_block_add_attended(w, json_object(), clq_block_add_mask(w, "decoder_padding_mask"), query, key, "value");
    clq_block_add(w, CLQ_LAYERS, "Reshape", "joined", json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)channels),
                  NULL, CLQ_FROM("attended"));
    clq_block_add_dense(w, "self_attention.attention_output", channels, NULL, true, "joined");
    clq_block_add_norm(w, "feedforward_layer_norm", "decoder_sequence");
    clq_block_add_dense(w, "feedforward_intermediate_dense", (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        clq_block_take_activation(w, "activation", "relu"), true, "feedforward_layer_norm");
    clq_block_add_dense(w, "feedforward_output_dense", channels, NULL, true, "feedforward_intermediate_dense");
    clq_block_add_of_list(w, "Add", "sum", NULL,
                          CLQ_FROM("feedforward_output_dense", "self_attention.attention_output", "decoder_sequence"));
    return clq_block_give(w, "sum");
}

/* ---- Gemma (Gemma Team, 2024): gated by an approximate GELU, norm scales counted from 1, capped scores ---- */

typedef struct gemma_decoder {
    const char *norm; /* module of its RMSNormalization */
    bool third;       /* Gemma 3: may norm queries and keys, and has keys for the rotary positions */
} gemma_decoder;

static const char *const gemma_names[] = {"x", "padding_mask", NULL};
/* query_head_dim_normalize has no effect: Keras's layer does so in any case. */
#define GEMMA_KEYS                                                                                                     \
    "hidden_dim intermediate_dim head_dim num_query_heads num_key_value_heads layer_norm_epsilon dropout "             \
    "use_post_ffw_norm use_post_attention_norm logit_soft_cap use_sliding_window_attention sliding_window_size "       \
    "query_head_dim_normalize"
#define GEMMA3_KEYS                                                                                                    \
    GEMMA_KEYS " use_query_key_norm gate_dim_reduction rope_wavelength rope_scaling_factor "                           \
               "use_bidirectional_attention"

static void add_gemma_norm(clq_block_writer *w, const gemma_decoder *kind, const char *name, const char *from) {
    clq_block_add(w, kind->norm, "RMSNormalization", name,
                  json_pack("{s:o}", "epsilon", clq_block_value_or(w, "layer_norm_epsilon", json_real(1e-6))), NULL,
                  CLQ_FROM(from));
}
static void add_gemma_dense(clq_block_writer *w, const char *name, const char *equation, size_t units,
                            const char *activation, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "EinsumDense", name,
                  json_pack("{s:s, s:[n, I], s:s}", "equation", equation, "output_shape", (json_int_t)units,
                            "activation", activation),
                  NULL, CLQ_FROM(from));
}

static void add_gemma_attention(clq_block_writer *w, const gemma_decoder *kind, size_t channels, const char *from) {
    const size_t heads = (size_t)clq_block_whole(w, "num_query_heads", -1),
                 shared = (size_t)clq_block_whole(w, "num_key_value_heads", -1),
                 width = (size_t)clq_block_whole(w, "head_dim", -1);
    const char *query = "attention.query", *key = "attention.key";
    const bool window = clq_block_flag(w, "use_sliding_window_attention", false);
    (void)clq_block_divide(w, heads, shared, "num_key_value_heads");
    if (kind->third && clq_block_flag(w, "use_bidirectional_attention", false))
        clq_block_refuse(w, "use_bidirectional_attention", "true is not supported");
    clq_block_add_heads(w, "attention.query", "btd,ndh->btnh", heads, width, NULL, from);
    clq_block_add_heads(w, "attention.key", "bsd,kdh->bskh", shared, width, NULL, from);
    clq_block_add_heads(w, "attention.value", "bsd,kdh->bskh", shared, width, NULL, from);
    if (kind->third && clq_block_flag(w, "use_query_key_norm", false)) {
        add_gemma_norm(w, kind, "attention.query_norm", query);
        add_gemma_norm(w, kind, "attention.key_norm", key);
        query = "attention.query_norm";
        key = "attention.key_norm";
    }
    const double wavelength = kind->third ? clq_block_number(w, "rope_wavelength", 1e4) : 1e4,
                 factor = kind->third ? clq_block_number(w, "rope_scaling_factor", 1) : 1;
    clq_block_add_rotary(w, "query_turned", wavelength, factor, query);
    clq_block_add_rotary(w, "key_turned", wavelength, factor, key);
    const char *mask = clq_block_add_mask(w, "padding_mask");
    json_t *config = json_pack("{s:b, s:f, s:f}", "zeros", 1, "dropout", clq_block_number(w, "dropout", 0), "soft_cap",
                               clq_block_number(w, "logit_soft_cap", 0));
    if (window)
        (void)json_object_set_new(config, "sliding_window",
                                  json_integer((json_int_t)clq_block_take_window(w, "sliding_window_size", 4096)));
    clq_block_add_attended(w, config, mask, "query_turned", "key_turned", "attention.value");
    add_gemma_dense(w, "attention.attention_output", "btnh,nhd->btd", channels, "linear", "attended");
}

static const char *const *write_gemma_of(clq_block_writer *w, const gemma_decoder *kind) {
    const size_t channels = clq_block_channels_of(w),
                 part = kind->third ? (size_t)clq_block_whole(w, "gate_dim_reduction", 2) : 2,
                 inner = (size_t)clq_block_whole(w, "intermediate_dim", -1) / CLQ_MAX(part, (size_t)1);
    const double dropout = clq_block_number(w, "dropout", 0);
    const char *x = "attention.attention_output";
    if (part == 0 || inner == 0) clq_block_refuse(w, "intermediate_dim", "should be at least 2, and a divisor above 0");
    add_gemma_norm(w, kind, "pre_attention_norm", "x");
    add_gemma_attention(w, kind, channels, "pre_attention_norm");
    if (clq_block_flag(w, "use_post_attention_norm", false)) {
        add_gemma_norm(w, kind, "post_attention_norm", x);
        x = "post_attention_norm";
    }
    clq_block_add_dropout(w, "attention_dropout", dropout, x);
    clq_block_add_sum(w, "attention_sum", "x", "attention_dropout");
    add_gemma_norm(w, kind, "pre_ffw_norm", "attention_sum");
    add_gemma_dense(w, "ffw_gating", "btd,df->btf", inner, "gelu_approximate", "pre_ffw_norm");
    add_gemma_dense(w, "ffw_gating_2", "btd,df->btf", inner, "linear", "pre_ffw_norm");
    clq_block_add_of_list(w, "Multiply", "gated", NULL, CLQ_FROM("ffw_gating", "ffw_gating_2"));
    add_gemma_dense(w, "ffw_linear", "btf,fd->btd", channels, "linear", "gated");
    x = "ffw_linear";
    if (clq_block_flag(w, "use_post_ffw_norm", false)) {
        add_gemma_norm(w, kind, "post_ffw_norm", x);
        x = "post_ffw_norm";
    }
    clq_block_add_sum(w, "ffw_sum", x, "attention_sum");
    return clq_block_give(w, "ffw_sum");
}
static const gemma_decoder gemma = {CLQ_HUB "models.gemma.rms_normalization", false},
                           gemma3 = {CLQ_HUB "models.gemma3.gemma3_layers", true};
static const char *const *write_gemma(clq_block_writer *w) { return write_gemma_of(w, &gemma); }
static const char *const *write_gemma3(clq_block_writer *w) { return write_gemma_of(w, &gemma3); }

/* ---- Falcon (Almazrouei et al., 2023) and BLOOM (Scao et al., 2022): a score gets the head's slope times the key's
 * place added (Press et al., "Train Short, Test Long", 2022). The slope is one more channel of the query, and the place
 * one more channel of the key ---- */

/* Adds the slope to each query as a channel. p is the largest power of two that is at most the number of heads. Head i
 * of the first p heads has the slope 2^(-8 (i + 1) / p), times a factor. The heads after them have every other slope
 * of 2 p heads. */
static void add_slopes(clq_block_writer *w, const char *query, size_t heads, double factor) {
    if (w->status != CLQ_OK) return; /* after a refusal, `heads` may be any number */
    json_t *slopes = json_array();
    size_t power = 1;
    while (power * 2 <= heads) power *= 2;
    for (size_t i = 0; i < heads; i++) {
        const double step = i < power ? 2.0 * (double)(i + 1) : (double)(2 * (i - power) + 1);
        (void)json_array_append_new(slopes, json_pack("[f]", factor * exp2(-4 * step / (double)power)));
    }
    clq_block_take_channels(w, "query_first", 0, 1, query);
    clq_block_add(w, CLQ_NUMPY, "OnesLike", "query_ones", NULL, NULL, CLQ_FROM("query_first"));
    clq_block_add(w, CLQ_NUMPY, "Multiply", "slopes", NULL, NULL, CLQ_FROM("query_ones"));
    clq_block_append_argument(
        w, json_pack("{s:s, s:{s:o, s:s}}", "class_name", "__numpy__", "config", "value", slopes, "dtype", "float32"));
    clq_block_add_of_list(w, "Concatenate", "query", NULL, CLQ_FROM(query, "slopes"));
}
/* Adds the place to each key as a channel. With a mask it is, as in Keras, the token's number among the tokens that are
 * no padding. Without a mask it differs from Keras's by a number that all keys have. */
static void add_places(clq_block_writer *w, const char *key, const char *x, const char *mask) {
    clq_block_take_channels(w, "key_first", 0, 1, key);
    clq_block_add(w, CLQ_NUMPY, "OnesLike", "key_ones", NULL, NULL, CLQ_FROM("key_first"));
    if (!mask) {
        clq_block_count_tokens(w, x);
    } else {
        clq_block_add(w, CLQ_NUMPY, "Cumsum", "counts", json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM(mask));
        clq_block_add(w, CLQ_NUMPY, "Subtract", "counts_from_0", NULL, NULL, CLQ_FROM("counts"));
        clq_block_append_argument(w, json_integer(1));
        clq_block_add(w, CLQ_NUMPY, "Multiply", "places", NULL, NULL, CLQ_FROM("counts_from_0", mask));
    }
    clq_block_add_by_head(w, "places_each", "places_by_head", mask ? "places" : "counts");
    clq_block_add(w, CLQ_NUMPY, "Multiply", "places_of_heads", NULL, NULL, CLQ_FROM("key_ones", "places_each"));
    clq_block_add_of_list(w, "Concatenate", "key", NULL, CLQ_FROM(key, "places_of_heads"));
}

typedef struct sloped_decoder {
    const char *input, *attention, *norm, *feedforward_norm, *wide, *narrow, *equations[2];
    const char *heads, *attention_rate, *feedforward_rate; /* keys of the configuration */
    bool bloom; /* slopes are added to scaled scores, padding is counted as tokens are, and GELU is approximate */
} sloped_decoder;

static const char *const *write_sloped(clq_block_writer *w, const sloped_decoder *kind) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, kind->heads, -1),
                 width = clq_block_divide(w, channels, heads, kind->heads);
    const double rate = clq_block_number(w, kind->attention_rate, 0), scale = 1 / sqrt((double)width);
    enum { HEADS_MOST = 4096 };
    if (heads > HEADS_MOST) clq_block_refuse(w, kind->heads, "more than %d heads are not supported", HEADS_MOST);
    enum { QUERY, KEY, VALUE, OUT, NAMES };
    static const char *const parts[NAMES] = {"query_dense", "key_dense", "value_dense", "output_dense"};
    char names[NAMES][CLQ_LAYER_NAME_MAX];
    for (unsigned i = 0; i < NAMES; i++) (void)snprintf(names[i], sizeof names[i], "%s.%s", kind->attention, parts[i]);
    clq_block_add_norm(w, kind->norm, kind->input);
    for (unsigned i = QUERY; i <= VALUE; i++)
        clq_block_add_heads(w, names[i], kind->equations[i > QUERY], heads, width, "nh", kind->norm);
    add_slopes(w, names[QUERY], heads, kind->bloom ? 1 / scale : 1);
    add_places(w, names[KEY], kind->input, !kind->bloom && clq_block_is_given(w, 1) ? "decoder_padding_mask" : NULL);
    const char *mask = clq_block_add_mask(w, "decoder_padding_mask");
    clq_block_add_attended(w, json_pack("{s:b, s:f}", "zeros", 1, "dropout", rate), mask, "query", "key", names[VALUE]);
    clq_block_set_keyword(w, "scale", json_real(scale));
    clq_block_add(w, CLQ_LAYERS, "Reshape", "joined", json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)channels),
                  NULL, CLQ_FROM("attended"));
    clq_block_add_dense(w, names[OUT], channels, NULL, true, "joined");
    clq_block_add_dropout(w, "attention_dropout", kind->bloom ? 0 : rate, names[OUT]);
    clq_block_add_sum(w, "attention_sum", "attention_dropout", kind->input);
    clq_block_add_norm(w, kind->feedforward_norm, "attention_sum");
    clq_block_add_dense(w, kind->wide, (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        json_string(kind->bloom ? "gelu_approximate" : "gelu"), true, kind->feedforward_norm);
    clq_block_add_dense(w, kind->narrow, channels, NULL, true, kind->wide);
    clq_block_add_dropout(w, "feedforward_dropout", clq_block_number(w, kind->feedforward_rate, 0), kind->narrow);
    clq_block_add_sum(w, "feedforward_sum", "feedforward_dropout", "attention_sum");
    return clq_block_give(w, "feedforward_sum");
}

static const char *const falcon_names[] = {"inputs", "decoder_padding_mask", NULL};
#define FALCON_KEYS                                                                                                    \
    "num_attention_heads intermediate_dim layer_norm_epsilon attention_dropout_rate feedforward_dropout_rate"
#define BLOOM_KEYS "num_heads intermediate_dim dropout layer_norm_epsilon kernel_initializer bias_initializer"
static const sloped_decoder falcon = {.input = "inputs",
                                      .attention = "attention",
                                      .norm = "input_layernorm",
                                      .feedforward_norm = "post_attention_layernorm",
                                      .wide = "dense_h_to_4h",
                                      .narrow = "dense_4h_to_h",
                                      .equations = {"bqm,mnh->bqnh", "bkm,mnh->bknh"},
                                      .heads = "num_attention_heads",
                                      .attention_rate = "attention_dropout_rate",
                                      .feedforward_rate = "feedforward_dropout_rate"},
                            bloom = {.input = "decoder_sequence",
                                     .attention = "self_attention",
                                     .norm = "pre_attention_layernorm",
                                     .feedforward_norm = "post_attention_layernorm",
                                     .wide = "mlp_intermediate_dense",
                                     .narrow = "mlp_output_dense",
                                     .equations = {"btm,mnh->btnh", "bsm,mnh->bsnh"},
                                     .heads = "num_heads",
                                     .attention_rate = "dropout",
                                     .feedforward_rate = "dropout",
                                     .bloom = true};
static const char *const *write_falcon(clq_block_writer *w) { return write_sloped(w, &falcon); }
static const char *const *write_bloom(clq_block_writer *w) { return write_sloped(w, &bloom); }

/* ---- the rows ---- */

#define MODELS CLQ_HUB "models."
const clq_block_row clq_hub_decoders[] = {
    CLQ_BLOCK_ROW(MODELS "gpt_neo_x.gpt_neo_x_decoder", "GPTNeoXDecoder", decoder_names, NEOX_KEYS, write_neox),
    CLQ_BLOCK_ROW(MODELS "gemma.gemma_decoder_block", "GemmaDecoderBlock", gemma_names, GEMMA_KEYS, write_gemma),
    CLQ_BLOCK_ROW(MODELS "gemma3.gemma3_decoder_block", "Gemma3DecoderBlock", gemma_names, GEMMA3_KEYS, write_gemma3),
    CLQ_BLOCK_ROW(MODELS "falcon.falcon_transformer_decoder", "FalconTransformerDecoder", falcon_names, FALCON_KEYS,
                  write_falcon),
    CLQ_BLOCK_ROW(MODELS "bloom.bloom_decoder", "BloomDecoder", decoder_names, BLOOM_KEYS, write_bloom),
    CLQ_BLOCK_END,
};
