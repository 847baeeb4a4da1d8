/* Blocks of keras_hub. */
#include "interop/keras_blocks.h"

#include <stdio.h>
#include <string.h>

/* ---- keras_hub's encoder and decoder (Vaswani et al., 2017) ---- */

/* x + f(norm(x)), or norm(x + f(x)). before: what the part reads; after: what comes out. */
static const char *begin_part(clq_block_writer *w, bool first, const char *norm, const char *from) {
    if (!first) return from;
    clq_block_add_norm(w, norm, from);
    return norm;
}
static const char *end_part(clq_block_writer *w, bool first, const char *norm, const char *sum, const char *part,
                            const char *from) {
    clq_block_add_sum(w, sum, part, from);
    if (first) return sum;
    clq_block_add_norm(w, norm, sum);
    return norm;
}

static const char *add_feedforward(clq_block_writer *w, bool first, size_t channels, double dropout, const char *from) {
    const char *x = begin_part(w, first, "feedforward_layer_norm", from);
    clq_block_add_dense(w, "feedforward_intermediate_dense", (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        clq_block_value_or(w, "activation", json_string("relu")), true, x);
    clq_block_add_dense(w, "feedforward_output_dense", channels, NULL, true, "feedforward_intermediate_dense");
    clq_block_add_dropout(w, "feedforward_dropout", dropout, "feedforward_output_dense");
    return end_part(w, first, "feedforward_layer_norm", "feedforward_sum", "feedforward_dropout", from);
}

static const char *const encoder_names[] = {"inputs", "padding_mask", NULL};
static const char *const encoder_keys[] = {"intermediate_dim", "num_heads",          "dropout",
                                           "activation",       "layer_norm_epsilon", "kernel_initializer",
                                           "bias_initializer", "normalize_first",    NULL};
static const char *const *write_encoder(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1);
    const double dropout = clq_block_number(w, "dropout", 0);
    const bool first = clq_block_flag(w, "normalize_first", false);
    const size_t key = clq_block_divide(w, channels, heads, "num_heads");
    if (clq_block_is_given(w, 1)) clq_block_add_pairs(w, "pairs", "padding_mask");
    const char *x = begin_part(w, first, "self_attention_layer_norm", "inputs");
    clq_block_add_attention(w, "self_attention_layer", heads, key, dropout,
                            clq_block_mask_keyword(w, 1, "attention_mask", "pairs"), x, x);
    clq_block_add_dropout(w, "self_attention_dropout", dropout, "self_attention_layer");
    x = end_part(w, first, "self_attention_layer_norm", "self_attention_sum", "self_attention_dropout", "inputs");
    w->masked = "inputs";
    return clq_block_give(w, add_feedforward(w, first, channels, dropout, x));
}

static const char *const decoder_names[] = {"decoder_sequence", "encoder_sequence", "decoder_padding_mask",
                                            "encoder_padding_mask", NULL};
static const char *const decoder_keys[] = {"intermediate_dim",
                                           "num_heads",
                                           "dropout",
                                           "activation",
                                           "layer_norm_epsilon",
                                           "kernel_initializer",
                                           "bias_initializer",
                                           "normalize_first",
                                           "decoder_sequence_shape",
                                           "encoder_sequence_shape",
                                           NULL};
static const char *const *write_decoder(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1);
    const double dropout = clq_block_number(w, "dropout", 0);
    const bool first = clq_block_flag(w, "normalize_first", false), crosses = clq_block_is_given(w, 1);
    const size_t key = clq_block_divide(w, channels, heads, "num_heads");
    if (clq_block_is_given(w, 2)) clq_block_add_pairs(w, "pairs", "decoder_padding_mask");
    const char *x = begin_part(w, first, "self_attention_layer_norm", "decoder_sequence");
    json_t *keywords = clq_block_mask_keyword(w, 2, "attention_mask", "pairs");
    (void)json_object_set_new(keywords, "use_causal_mask", json_true());
    clq_block_add_attention(w, "self_attention", heads, key, dropout, keywords, x, x);
    clq_block_add_dropout(w, "self_attention_dropout", dropout, "self_attention");
    x = end_part(w, first, "self_attention_layer_norm", "self_attention_sum", "self_attention_dropout",
                 "decoder_sequence");
    if (crosses) {
        const char *from = x;
        if (clq_block_is_given(w, 3)) clq_block_add_pairs(w, "encoder_pairs", "encoder_padding_mask");
        x = begin_part(w, first, "cross_attention_layer_norm", from);
        clq_block_add_attention(w, "cross_attention", heads, key, dropout,
                                clq_block_mask_keyword(w, 3, "attention_mask", "encoder_pairs"), x, "encoder_sequence");
        clq_block_add_dropout(w, "cross_attention_dropout", dropout, "cross_attention");
        x = end_part(w, first, "cross_attention_layer_norm", "cross_attention_sum", "cross_attention_dropout", from);
    }
    w->masked = "decoder_sequence";
    return clq_block_give(w, add_feedforward(w, first, channels, dropout, x));
}

static const char *const fnet_names[] = {"inputs", NULL};
static const char *const fnet_keys[] = {"intermediate_dim",   "dropout",          "activation", "layer_norm_epsilon",
                                        "kernel_initializer", "bias_initializer", NULL};
static const char *const *write_fnet(clq_block_writer *w) { /* Lee-Thorp et al., 2021 */
    const size_t channels = clq_block_channels_of(w);
    clq_block_add(w, CLQ_NUMPY, "ZerosLike", "zeros", NULL, NULL, CLQ_FROM("inputs"));
    clq_block_add(w, "keras.src.ops.math", "FFT2", "mixed", NULL, NULL, CLQ_FROM("inputs", "zeros"));
    clq_block_add_sum(w, "mixing_sum", "inputs", "mixed");
    clq_block_add_norm(w, "mixing_layer_norm", "mixing_sum");
    clq_block_add_dense(w, "intermediate_dense", (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        clq_block_value_or(w, "activation", json_string("relu")), true, "mixing_layer_norm");
    clq_block_add_dense(w, "output_dense", channels, NULL, true, "intermediate_dense");
    clq_block_add_dropout(w, "output_dropout", clq_block_number(w, "dropout", 0), "output_dense");
    clq_block_add_sum(w, "output_sum", "mixing_layer_norm", "output_dropout");
    clq_block_add_norm(w, "output_layer_norm", "output_sum");
    return clq_block_give(w, "output_layer_norm");
}

static const char *const tokens_names[] = {"inputs", NULL};
static const char *const tokens_keys[] = {
    "vocabulary_size", "sequence_length", "embedding_dim", "tie_weights", "embeddings_initializer", "mask_zero", NULL};
static const char *const *write_tokens(clq_block_writer *w) {
    json_t *config = json_pack("{s:I, s:I, s:b}", "input_dim", (json_int_t)clq_block_whole(w, "vocabulary_size", -1),
                               "output_dim", (json_int_t)clq_block_whole(w, "embedding_dim", -1), "mask_zero",
                               clq_block_flag(w, "mask_zero", false));
    json_t *positions = json_pack("{s:I}", "sequence_length", (json_int_t)clq_block_whole(w, "sequence_length", -1));
    json_t *initializer = clq_block_value_of(w, "embeddings_initializer");
    if (initializer) {
        (void)json_object_set(config, "embeddings_initializer", initializer);
        (void)json_object_set(positions, "initializer", initializer);
    }
    clq_block_add(w, CLQ_LAYERS, "Embedding", "token_embedding", config, NULL, CLQ_FROM("inputs"));
    clq_block_add(w, CLQ_HUB "layers.modeling.position_embedding", "PositionEmbedding", "position_embedding", positions,
                  NULL, CLQ_FROM("token_embedding"));
    clq_block_add_sum(w, "sum", "token_embedding", "position_embedding");
    w->masked = "token_embedding";
    return clq_block_give(w, "sum");
}

/* ---- decoders with rotary positions (Su et al., 2021) and gated units (Shazeer, 2020): Llama, Mistral, Qwen, Phi-3
 * ---- */

/* (tokens, channels) to (tokens, heads, width). */
static void add_heads(clq_block_writer *w, const char *name, const char *equation, size_t heads, size_t width,
                      const char *bias, const char *from) {
    json_t *config =
        json_pack("{s:s, s:[n, I, I]}", "equation", equation, "output_shape", (json_int_t)heads, (json_int_t)width);
    if (bias) (void)json_object_set_new(config, "bias_axes", json_string(bias));
    if (clq_block_value_of(w, "kernel_initializer"))
        (void)json_object_set(config, "kernel_initializer", clq_block_value_of(w, "kernel_initializer"));
    clq_block_add(w, CLQ_LAYERS, "EinsumDense", name, config, NULL, CLQ_FROM(from));
}
static void add_rotary(clq_block_writer *w, const char *name, double wavelength, const char *from) {
    clq_block_add(w, CLQ_HUB "layers.modeling.rotary_embedding", "RotaryEmbedding", name,
                  json_pack("{s:f}", "max_wavelength", wavelength), NULL, CLQ_FROM(from));
}

typedef struct rotary_decoder {
    const char *attention; /* what stands in front of the attention's variables: "self_attention" */
    const char *norm, *feedforward_norm, *attention_dropout, *feedforward_dropout;
    bool biased; /* queries, keys and values have biases */
} rotary_decoder;

static const char *const rotary_names[] = {"decoder_sequence", "decoder_padding_mask", NULL};
static const char *const *write_rotary(clq_block_writer *w, const rotary_decoder *kind) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_query_heads", -1),
                 shared = (size_t)clq_block_whole(w, "num_key_value_heads", -1),
                 width = clq_block_value_of(w, "head_dim") && !json_is_null(clq_block_value_of(w, "head_dim"))
                             ? (size_t)clq_block_whole(w, "head_dim", -1)
                             : clq_block_divide(w, channels, heads, "num_query_heads"),
                 window = (size_t)clq_block_whole(w, "sliding_window", 0);
    const double wavelength = clq_block_number(w, "rope_max_wavelength", 1e4),
                 dropout = clq_block_number(w, "dropout", 0);
    char names[8][CLQ_LAYER_NAME_MAX];
    static const char *const parts[] = {"query", "key", "value", "attention_output"};
    for (unsigned i = 0; i < 4; i++) (void)snprintf(names[i], sizeof names[i], "%s.%s", kind->attention, parts[i]);
    const char *turns = json_string_value(clq_block_value_of(w, "rope_type"));
    if (turns && strcmp(turns, "linear") != 0) clq_block_refuse(w, "rope_type", "only linear is supported");
    if (clq_block_number(w, "rope_scaling_factor", 1) != 1)
        clq_block_refuse(w, "rope_scaling_factor", "only 1 is supported");
    if (clq_block_number(w, "rope_position_scaling_factor", 1) != 1)
        clq_block_refuse(w, "rope_position_scaling_factor", "only 1 is supported");
    (void)clq_block_divide(w, heads, shared, "num_key_value_heads");
    clq_block_add_rms(w, kind->norm, "decoder_sequence");
    add_heads(w, names[0], "bqm,muh->bquh", heads, width, kind->biased ? "uh" : NULL, kind->norm);
    add_heads(w, names[1], "bkm,mvh->bkvh", shared, width, kind->biased ? "vh" : NULL, kind->norm);
    add_heads(w, names[2], "bkm,mvh->bkvh", shared, width, kind->biased ? "vh" : NULL, kind->norm);
    add_rotary(w, "query_turned", wavelength, names[0]);
    add_rotary(w, "key_turned", wavelength, names[1]);
    if (clq_block_is_given(w, 1)) {
        clq_block_add_pairs(w, "pairs", "decoder_padding_mask");
        clq_block_add_pairs(w, "pairs_of_heads", "pairs");
    }
    json_t *config = json_pack("{s:b}", "is_causal", 1);
    if (window) (void)json_object_set_new(config, "sliding_window", json_integer((json_int_t)window));
    clq_block_add(w, CLQ_NN, "DotProductAttention", "attended", config,
                  clq_block_mask_keyword(w, 1, "mask", "pairs_of_heads"),
                  CLQ_FROM("query_turned", "key_turned", names[2]));
    clq_block_add_dropout(w, "attended_dropout", dropout, "attended");
    json_t *out = json_pack("{s:s, s:[n, I]}", "equation", "bquh,uhm->bqm", "output_shape", (json_int_t)channels);
    if (clq_block_value_of(w, "kernel_initializer"))
        (void)json_object_set(out, "kernel_initializer", clq_block_value_of(w, "kernel_initializer"));
    clq_block_add(w, CLQ_LAYERS, "EinsumDense", names[3], out, NULL, CLQ_FROM("attended_dropout"));
    clq_block_add_dropout(w, kind->attention_dropout, dropout, names[3]);
    clq_block_add_sum(w, "attention_sum", kind->attention_dropout, "decoder_sequence");
    clq_block_add_rms(w, kind->feedforward_norm, "attention_sum");
    const size_t inner = (size_t)clq_block_whole(w, "intermediate_dim", -1);
    clq_block_add_dense(w, "feedforward_gate_dense", inner, clq_block_value_or(w, "activation", json_string("silu")),
                        false, kind->feedforward_norm);
    clq_block_add_dense(w, "feedforward_intermediate_dense", inner, NULL, false, kind->feedforward_norm);
    clq_block_add_of_list(w, "Multiply", "gated", NULL,
                          CLQ_FROM("feedforward_intermediate_dense", "feedforward_gate_dense"));
    clq_block_add_dense(w, "feedforward_output_dense", channels, NULL, false, "gated");
    const char *last = "feedforward_output_dense";
    if (kind->feedforward_dropout) {
        clq_block_add_dropout(w, kind->feedforward_dropout, dropout, last);
        last = kind->feedforward_dropout;
    }
    clq_block_add_sum(w, "feedforward_sum", last, "attention_sum");
    return clq_block_give(w, "feedforward_sum");
}

static const rotary_decoder llama = {"self_attention",
                                     "self_attention_layernorm",
                                     "feedforward_layernorm",
                                     "self_attention_dropout",
                                     NULL,
                                     false},
                            qwen = {"self_attention",
                                    "self_attention_layernorm",
                                    "feedforward_layernorm",
                                    "self_attention_dropout",
                                    NULL,
                                    true},
                            phi = {"attention",         "pre_attention_layernorm", "post_attention_layernorm",
                                   "attention_dropout", "feedforward_dropout",     false};
static const char *const rotary_keys[] = {"intermediate_dim",
                                          "num_query_heads",
                                          "num_key_value_heads",
                                          "rope_max_wavelength",
                                          "rope_scaling_factor",
                                          "rope_position_scaling_factor",
                                          "activation",
                                          "layer_norm_epsilon",
                                          "kernel_initializer",
                                          "dropout",
                                          NULL};
static const char *const mistral_keys[] = {"intermediate_dim",
                                           "num_query_heads",
                                           "num_key_value_heads",
                                           "rope_max_wavelength",
                                           "rope_scaling_factor",
                                           "activation",
                                           "layer_norm_epsilon",
                                           "kernel_initializer",
                                           "dropout",
                                           "sliding_window",
                                           "head_dim",
                                           "rope_type",
                                           "beta_fast",
                                           "beta_slow",
                                           "original_max_position_embeddings",
                                           NULL};
static const char *const phi_keys[] = {"hidden_dim",
                                       "intermediate_dim",
                                       "num_query_heads",
                                       "num_key_value_heads",
                                       "rope_max_wavelength",
                                       "activation",
                                       "layer_norm_epsilon",
                                       "kernel_initializer",
                                       "dropout",
                                       "max_sequence_length",
                                       "pretraining_sequence_length",
                                       NULL};
static const char *const *write_llama(clq_block_writer *w) { return write_rotary(w, &llama); }
static const char *const *write_qwen(clq_block_writer *w) { return write_rotary(w, &qwen); }
static const char *const *write_phi(clq_block_writer *w) { return write_rotary(w, &phi); }

/* ---- GPT-NeoX: attention and feed-forward layer side by side, positions in a part of each head ---- */

static const char *const neox_keys[] = {"intermediate_dim",
                                        "num_heads",
                                        "dropout",
                                        "rotary_percentage",
                                        "rotary_max_wavelength",
                                        "max_sequence_length",
                                        "activation",
                                        "layer_norm_epsilon",
                                        "kernel_initializer",
                                        "bias_initializer",
                                        "decoder_sequence_shape",
                                        NULL};
static void take_channels(clq_block_writer *w, const char *name, size_t first, size_t end, const char *from) {
    clq_block_add(w, CLQ_NUMPY, "GetItem", name, NULL, NULL, CLQ_FROM(from));
    json_t *node =
        json_array_get(json_object_get(json_array_get(w->layers, json_array_size(w->layers) - 1), "inbound_nodes"), 0);
    json_t *all = json_pack("{s:s, s:{s:n, s:n, s:n}}", "class_name", "__slice__", "config", "start", "stop", "step");
    (void)json_array_append_new(json_object_get(node, "args"),
                                json_pack("[O, O, o, {s:s, s:{s:I, s:I, s:n}}]", all, all, all, "class_name",
                                          "__slice__", "config", "start", (json_int_t)first, "stop", (json_int_t)end,
                                          "step"));
}
static const char *const *write_neox(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1),
                 width = clq_block_divide(w, channels, heads, "num_heads");
    const double dropout = clq_block_number(w, "dropout", 0), share = clq_block_number(w, "rotary_percentage", 0.25);
    const size_t turned = (size_t)((double)width * share);
    if (turned < 2 || turned % 2 || turned > width)
        clq_block_refuse(w, "rotary_percentage", "%zu of %zu places are turned, which are not pairs", turned, width);
    if (dropout > 0) clq_block_refuse(w, "dropout", "only 0 is supported");
    clq_block_add_norm(w, "self_attention_layer_norm", "decoder_sequence");
    add_heads(w, "self_attention.query_key_value", "abc,cde->abde", heads, 3 * width, "de",
              "self_attention_layer_norm");
    take_channels(w, "query_turns", 0, turned, "self_attention.query_key_value");
    take_channels(w, "key_turns", width, width + turned, "self_attention.query_key_value");
    take_channels(w, "value", 2 * width, 3 * width, "self_attention.query_key_value");
    add_rotary(w, "query_turned", clq_block_number(w, "rotary_max_wavelength", 1e4), "query_turns");
    add_rotary(w, "key_turned", clq_block_number(w, "rotary_max_wavelength", 1e4), "key_turns");
    const char *query = "query_turned", *key = "key_turned";
    if (turned < width) {
        take_channels(w, "query_stays", turned, width, "self_attention.query_key_value");
        take_channels(w, "key_stays", width + turned, 2 * width, "self_attention.query_key_value");
        clq_block_add_of_list(w, "Concatenate", "query", NULL, CLQ_FROM("query_turned", "query_stays"));
        clq_block_add_of_list(w, "Concatenate", "key", NULL, CLQ_FROM("key_turned", "key_stays"));
        query = "query";
        key = "key";
    }
    if (clq_block_is_given(w, 1)) {
        clq_block_add_pairs(w, "pairs", "decoder_padding_mask");
        clq_block_add_pairs(w, "pairs_of_heads", "pairs");
    }
    clq_block_add(w, CLQ_NN, "DotProductAttention", "attended", json_pack("{s:b}", "is_causal", 1),
                  clq_block_mask_keyword(w, 1, "mask", "pairs_of_heads"), CLQ_FROM(query, key, "value"));
    clq_block_add(w, CLQ_LAYERS, "Reshape", "joined", json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)channels),
                  NULL, CLQ_FROM("attended"));
    clq_block_add_dense(w, "self_attention.attention_output", channels, NULL, true, "joined");
    clq_block_add_norm(w, "feedforward_layer_norm", "decoder_sequence");
    clq_block_add_dense(w, "feedforward_intermediate_dense", (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        clq_block_value_or(w, "activation", json_string("relu")), true, "feedforward_layer_norm");
    clq_block_add_dense(w, "feedforward_output_dense", channels, NULL, true, "feedforward_intermediate_dense");
    clq_block_add_of_list(w, "Add", "sum", NULL,
                          CLQ_FROM("feedforward_output_dense", "self_attention.attention_output", "decoder_sequence"));
    return clq_block_give(w, "sum");
}

/* ---- vision transformers (Dosovitskiy et al., 2020; Touvron et al., 2020) ---- */

/* Rows that are learned, as many for each sample: of `name`, with what that has of `rows` of `channels`. */
static void add_learned(clq_block_writer *w, const char *name, size_t rows, size_t channels, json_t *initializer,
                        const char *from) {
    clq_block_add(w, "clique", "LearnedRows", name,
                  json_pack("{s:I, s:I, s:o}", "rows", (json_int_t)rows, "channels", (json_int_t)channels,
                            "initializer", initializer),
                  NULL, CLQ_FROM(from));
}
static json_t *normal(double deviation) {
    return json_pack("{s:s, s:{s:f, s:f}}", "class_name", "RandomNormal", "config", "mean", 0.0, "stddev", deviation);
}
static void add_patches(clq_block_writer *w, size_t channels, bool bias) {
    clq_block_add(w, CLQ_LAYERS, "Conv2D", "patch_embedding",
                  json_pack("{s:I, s:o, s:o, s:b}", "filters", (json_int_t)channels, "kernel_size",
                            clq_block_value_or(w, "patch_size", json_integer(16)), "strides",
                            clq_block_value_or(w, "patch_size", json_integer(16)), "use_bias", bias),
                  NULL, CLQ_FROM("inputs"));
    clq_block_add(w, CLQ_LAYERS, "Reshape", "patches",
                  json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)channels), NULL, CLQ_FROM("patch_embedding"));
}

static const char *const image_names[] = {"inputs", NULL};
static const char *const patching_keys[] = {"image_size",      "patch_size",     "hidden_dim",
                                            "num_channels",    "num_patches",    "num_positions",
                                            "use_class_token", "use_patch_bias", NULL};
static const char *const *write_patching(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "hidden_dim", -1),
                 positions = (size_t)clq_block_whole(w, "num_positions", -1);
    const char *x = "patches";
    add_patches(w, channels, clq_block_flag(w, "use_patch_bias", true));
    if (clq_block_flag(w, "use_class_token", true)) {
        add_learned(w, "class_token", 1, channels, normal(0.05), "patches");
        clq_block_add_of_list(w, "Concatenate", "tokens", json_pack("{s:i}", "axis", 1),
                              CLQ_FROM("class_token", "patches"));
        x = "tokens";
    }
    add_learned(w, "position_embedding", positions, channels, normal(0.02), x);
    clq_block_add_sum(w, "sum", x, "position_embedding");
    return clq_block_give(w, "sum");
}

static const char *const deit_patching_keys[] = {"image_size",     "patch_size",   "hidden_dim",
                                                 "num_channels",   "num_patches",  "num_positions",
                                                 "use_mask_token", "dropout_rate", NULL};
static const char *const *write_deit_patching(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "hidden_dim", -1),
                 positions = (size_t)clq_block_whole(w, "num_positions", -1);
    if (clq_block_flag(w, "use_mask_token", false)) clq_block_refuse(w, "use_mask_token", "true is not supported");
    add_patches(w, channels, true);
    add_learned(w, "class_token", 1, channels, json_string("zeros"), "patches");
    add_learned(w, "distillation_token", 1, channels, json_string("zeros"), "patches");
    clq_block_add_of_list(w, "Concatenate", "tokens", json_pack("{s:i}", "axis", 1),
                          CLQ_FROM("class_token", "distillation_token", "patches"));
    add_learned(w, "position_embedding", positions, channels, normal(0.02), "tokens");
    clq_block_add_sum(w, "sum", "tokens", "position_embedding");
    clq_block_add_dropout(w, "dropout", clq_block_number(w, "dropout_rate", 0), "sum");
    return clq_block_give(w, "dropout");
}

static const char *const vit_keys[] = {"num_layers",         "num_heads",    "hidden_dim",       "mlp_dim",
                                       "use_mha_bias",       "use_mlp_bias", "dropout_rate",     "attention_dropout",
                                       "layer_norm_epsilon", "key_dim",      "intermediate_dim", NULL};

/* A block of an encoder, with names of its own: `name`.ln_1 and so on. */
typedef struct vision_block {
    const char *mlp, *first, *second; /* names of the dense layers */
    bool twice;                       /* dropout behind the attention and the first dense layer, too */
} vision_block;

static void add_vision_block(clq_block_writer *w, const vision_block *kind, size_t number_of, const char *from,
                             char out[64]) {
    enum { LN_1, MHA, SUM_1, LN_2, DENSE_1, DENSE_2, DROP_1, DROP_2, DROP_3, NAMES };
    static const char *const parts[NAMES] = {"ln_1", "mha", "sum_1", "ln_2", "", "", "drop_1", "drop_2", "drop_3"};
    char n[NAMES][64];
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1),
                 inner =
                     (size_t)clq_block_whole(w, clq_block_value_of(w, "mlp_dim") ? "mlp_dim" : "intermediate_dim", -1);
    const double rate = clq_block_number(w, "dropout_rate", 0);
    const bool mha_bias = clq_block_flag(w, "use_mha_bias", true), bias = clq_block_flag(w, "use_mlp_bias", true);
    for (unsigned i = 0; i < NAMES; i++)
        (void)snprintf(n[i], sizeof n[i], "transformer_block_%zu.%s", number_of,
                       i == DENSE_1   ? kind->first
                       : i == DENSE_2 ? kind->second
                                      : parts[i]);
    clq_block_add_norm(w, n[LN_1], from);
    clq_block_add(w, CLQ_LAYERS, "MultiHeadAttention", n[MHA],
                  json_pack("{s:I, s:I, s:f, s:b}", "num_heads", (json_int_t)heads, "key_dim",
                            (json_int_t)clq_block_divide(w, channels, heads, "num_heads"), "dropout",
                            clq_block_number(w, "attention_dropout", 0), "use_bias", mha_bias),
                  NULL, CLQ_FROM(n[LN_1], n[LN_1]));
    if (kind->twice) clq_block_add_dropout(w, n[DROP_1], rate, n[MHA]);
    clq_block_add_sum(w, n[SUM_1], kind->twice ? n[DROP_1] : n[MHA], from);
    clq_block_add_norm(w, n[LN_2], n[SUM_1]);
    clq_block_add_dense(w, n[DENSE_1], inner, json_string("gelu"), bias, n[LN_2]);
    if (kind->twice) clq_block_add_dropout(w, n[DROP_2], rate, n[DENSE_1]);
    clq_block_add_dense(w, n[DENSE_2], channels, NULL, bias, kind->twice ? n[DROP_2] : n[DENSE_1]);
    clq_block_add_dropout(w, n[DROP_3], rate, n[DENSE_2]);
    (void)snprintf(out, 64, "transformer_block_%zu", number_of);
    clq_block_add_sum(w, out, n[DROP_3], n[SUM_1]);
}

static const char *const *write_vision(clq_block_writer *w, const vision_block *kind, bool dropout) {
    const size_t blocks = (size_t)clq_block_whole(w, "num_layers", -1);
    char from[64] = "inputs", out[64];
    if (blocks > 1000) clq_block_refuse(w, "num_layers", "more than 1000 are not supported");
    if (dropout) {
        clq_block_add_dropout(w, "dropout", clq_block_number(w, "dropout_rate", 0), "inputs");
        (void)snprintf(from, sizeof from, "dropout");
    }
    for (size_t i = 1; i <= blocks && w->status == CLQ_OK; i++) {
        add_vision_block(w, kind, i, from, out);
        memcpy(from, out, sizeof from);
    }
    clq_block_add_norm(w, "ln", from);
    return clq_block_give(w, "ln");
}
static const vision_block of_vit = {"mlp", "mlp.dense_1", "mlp.dense_2", true},
                          of_deit = {"mlp", "mlp.dense", "output_layer.output", false};
static const char *const *write_vit(clq_block_writer *w) { return write_vision(w, &of_vit, true); }
static const char *const *write_deit(clq_block_writer *w) { return write_vision(w, &of_deit, false); }

/* ---- the rows ---- */

#define MODELING CLQ_HUB "layers.modeling."
const clq_block_row clq_hub_blocks[] = {
    {MODELING "transformer_encoder", "TransformerEncoder", encoder_names, encoder_keys, write_encoder},
    {MODELING "transformer_decoder", "TransformerDecoder", decoder_names, decoder_keys, write_decoder},
    {MODELING "f_net_encoder", "FNetEncoder", fnet_names, fnet_keys, write_fnet},
    {MODELING "token_and_position_embedding", "TokenAndPositionEmbedding", tokens_names, tokens_keys, write_tokens},
    {CLQ_HUB "models.llama.llama_decoder", "LlamaTransformerDecoder", rotary_names, rotary_keys, write_llama},
    {CLQ_HUB "models.mistral.mistral_transformer_decoder", "MistralTransformerDecoder", rotary_names, mistral_keys,
     write_llama},
    {CLQ_HUB "models.qwen.qwen_decoder", "QwenTransformerDecoder", rotary_names, rotary_keys, write_qwen},
    {CLQ_HUB "models.phi3.phi3_decoder", "Phi3Decoder", rotary_names, phi_keys, write_phi},
    {CLQ_HUB "models.gpt_neo_x.gpt_neo_x_decoder", "GPTNeoXDecoder", rotary_names, neox_keys, write_neox},
    {CLQ_HUB "models.vit.vit_layers", "ViTPatchingAndEmbedding", image_names, patching_keys, write_patching},
    {CLQ_HUB "models.vit.vit_layers", "ViTEncoder", image_names, vit_keys, write_vit},
    {CLQ_HUB "models.deit.deit_layers", "DeiTEmbeddings", image_names, deit_patching_keys, write_deit_patching},
    {CLQ_HUB "models.deit.deit_layers", "DeiTEncoder", image_names, vit_keys, write_deit},
};
const size_t clq_hub_block_count = CLQ_COUNT_OF(clq_hub_blocks);
