/* Blocks of keras_hub that belong to no model in particular, and Whisper's, which are almost like them. */
#include "interop/keras_blocks.h"

#include <string.h>

/* ---- keras_hub's encoder and decoder (Vaswani et al., 2017) ---- */

/* A part f of a block gives x + f(norm(x)) if `first`, and norm(x + f(x)) otherwise. begin_part gives what f reads,
 * end_part what comes out of the part. */
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
                        clq_block_take_activation(w, "activation", "relu"), true, x);
    clq_block_add_dense(w, "feedforward_output_dense", channels, NULL, true, "feedforward_intermediate_dense");
    clq_block_add_dropout(w, "feedforward_dropout", dropout, "feedforward_output_dense");
    return end_part(w, first, "feedforward_layer_norm", "feedforward_sum", "feedforward_dropout", from);
}

/* keras_hub's attention that caches keys and values ignores the mask that its queries carry. For its keys it takes the
 * mask that the block's input carries, unless the call gives the block a mask
 * (keras_hub/src/layers/modeling/transformer_layer_utils.py). So a tensor whose mask must not count is replaced by a
 * copy without the mask. */
static const char *drop_mask(clq_block_writer *w, const char *name, const char *from) {
    clq_block_add(w, CLQ_NUMPY, "Multiply", name, NULL, NULL, CLQ_FROM(from));
    clq_block_append_argument(w, json_real(1));
    return name;
}
static void add_kept_attention(clq_block_writer *w, const char *name, size_t heads, size_t key, double dropout,
                               json_t *keywords, const char *x, bool masked, bool given) {
    const char *query = masked ? drop_mask(w, "queries", x) : x;
    clq_block_add_attention(w, name, heads, key, dropout, keywords, query, given ? query : x);
}

static const char *const encoder_names[] = {"inputs", "padding_mask", NULL};
#define ENCODER_KEYS                                                                                                   \
    "intermediate_dim num_heads dropout activation layer_norm_epsilon kernel_initializer bias_initializer "            \
    "normalize_first"
/* Whisper's keys have no biases (Radford et al., 2022). */
static const char *const *write_encoder_of(clq_block_writer *w, bool key_bias) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1);
    const double dropout = clq_block_number(w, "dropout", 0);
    const bool first = clq_block_flag(w, "normalize_first", false);
    const size_t key = clq_block_divide(w, channels, heads, "num_heads");
    if (clq_block_is_given(w, 1)) clq_block_add_pairs(w, "pairs", "padding_mask");
    const char *x = begin_part(w, first, "self_attention_layer_norm", "inputs");
    json_t *keywords = clq_block_mask_keyword(w, 1, "attention_mask", "pairs");
    add_kept_attention(w, "self_attention_layer", heads, key, dropout, keywords, x,
                       !key_bias && clq_block_has_mask(w, 0), clq_block_is_given(w, 1));
    clq_block_set(w, "no_key_bias", json_boolean(!key_bias));
    clq_block_add_dropout(w, "self_attention_dropout", dropout, "self_attention_layer");
    x = end_part(w, first, "self_attention_layer_norm", "self_attention_sum", "self_attention_dropout", "inputs");
    w->masked = "inputs";
    return clq_block_give(w, add_feedforward(w, first, channels, dropout, x));
}

static const char *const decoder_names[] = {"decoder_sequence", "encoder_sequence", "decoder_padding_mask",
                                            "encoder_padding_mask", NULL};
#define DECODER_KEYS ENCODER_KEYS " decoder_sequence_shape encoder_sequence_shape"
#define DECODER_FLAGS "use_causal_mask"
static const char *const *write_decoder_of(clq_block_writer *w, bool key_bias) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_heads", -1);
    const double dropout = clq_block_number(w, "dropout", 0);
    const bool first = clq_block_flag(w, "normalize_first", false), crosses = clq_block_is_given(w, 1);
    const size_t key = clq_block_divide(w, channels, heads, "num_heads");
    if (clq_block_is_given(w, 2)) clq_block_add_pairs(w, "pairs", "decoder_padding_mask");
    const char *x = begin_part(w, first, "self_attention_layer_norm", "decoder_sequence");
    json_t *keywords = clq_block_mask_keyword(w, 2, "attention_mask", "pairs");
    (void)json_object_set_new(keywords, "use_causal_mask",
                              json_boolean(clq_block_keyword_flag(w, "use_causal_mask", true)));
    add_kept_attention(w, "self_attention", heads, key, dropout, keywords, x, clq_block_has_mask(w, 0),
                       clq_block_is_given(w, 2));
    clq_block_set(w, "no_key_bias", json_boolean(!key_bias));
    clq_block_add_dropout(w, "self_attention_dropout", dropout, "self_attention");
    x = end_part(w, first, "self_attention_layer_norm", "self_attention_sum", "self_attention_dropout",
                 "decoder_sequence");
    if (crosses) {
        const char *from = x, *seen = "encoder_sequence";
        if (clq_block_is_given(w, 3)) clq_block_add_pairs(w, "encoder_pairs", "encoder_padding_mask");
        if (clq_block_is_given(w, 3) && clq_block_has_mask(w, 1)) seen = drop_mask(w, "seen", seen);
        x = begin_part(w, first, "cross_attention_layer_norm", from);
        clq_block_add_attention(w, "cross_attention", heads, key, dropout,
                                clq_block_mask_keyword(w, 3, "attention_mask", "encoder_pairs"), x, seen);
        clq_block_set(w, "no_key_bias", json_boolean(!key_bias));
        clq_block_add_dropout(w, "cross_attention_dropout", dropout, "cross_attention");
        x = end_part(w, first, "cross_attention_layer_norm", "cross_attention_sum", "cross_attention_dropout", from);
    }
    w->masked = "decoder_sequence";
    return clq_block_give(w, add_feedforward(w, first, channels, dropout, x));
}

static const char *const *write_encoder(clq_block_writer *w) { return write_encoder_of(w, true); }
static const char *const *write_decoder(clq_block_writer *w) { return write_decoder_of(w, true); }
static const char *const *write_whisper_encoder(clq_block_writer *w) { return write_encoder_of(w, false); }
static const char *const *write_whisper_decoder(clq_block_writer *w) { return write_decoder_of(w, false); }

/* Adds a step of zeros in front of a sequence, and one behind it. */
static const char *const padder_names[] = {"x", NULL};
static const char *const *write_padder(clq_block_writer *w) {
    clq_block_add(w, CLQ_LAYERS, "ZeroPadding1D", "padded", json_pack("{s:i}", "padding", 1), NULL, CLQ_FROM("x"));
    return clq_block_give(w, "padded");
}

static const char *const fnet_names[] = {"inputs", NULL};
#define FNET_KEYS "intermediate_dim dropout activation layer_norm_epsilon kernel_initializer bias_initializer"
static const char *const *write_fnet(clq_block_writer *w) { /* Lee-Thorp et al., 2021 */
    const size_t channels = clq_block_channels_of(w);
    clq_block_add(w, CLQ_NUMPY, "ZerosLike", "zeros", NULL, NULL, CLQ_FROM("inputs"));
    clq_block_add(w, "keras.src.ops.math", "FFT2", "mixed", NULL, NULL, CLQ_FROM("inputs", "zeros"));
    clq_block_add_sum(w, "mixing_sum", "inputs", "mixed");
    clq_block_add_norm(w, "mixing_layer_norm", "mixing_sum");
    clq_block_add_dense(w, "intermediate_dense", (size_t)clq_block_whole(w, "intermediate_dim", -1),
                        clq_block_take_activation(w, "activation", "relu"), true, "mixing_layer_norm");
    clq_block_add_dense(w, "output_dense", channels, NULL, true, "intermediate_dense");
    clq_block_add_dropout(w, "output_dropout", clq_block_number(w, "dropout", 0), "output_dense");
    clq_block_add_sum(w, "output_sum", "mixing_layer_norm", "output_dropout");
    clq_block_add_norm(w, "output_layer_norm", "output_sum");
    return clq_block_give(w, "output_layer_norm");
}

static const char *const tokens_names[] = {"inputs", NULL};
#define TOKENS_KEYS "vocabulary_size sequence_length embedding_dim tie_weights embeddings_initializer mask_zero"
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
    const bool untied = !clq_block_flag(w, "tie_weights", true); /* another matrix maps back to tokens */
    if (untied) (void)json_object_set_new(config, "tie_weights", json_false());
    clq_block_add(w, CLQ_LAYERS, untied ? "ReversibleEmbedding" : "Embedding", "token_embedding", config, NULL,
                  CLQ_FROM("inputs"));
    clq_block_add(w, CLQ_HUB "layers.modeling.position_embedding", "PositionEmbedding", "position_embedding", positions,
                  NULL, CLQ_FROM("token_embedding"));
    clq_block_add_sum(w, "sum", "token_embedding", "position_embedding");
    w->masked = "token_embedding";
    return clq_block_give(w, "sum");
}

/* ---- the rows ---- */

static bool norms_last(json_t *config) { return !json_is_true(json_object_get(config, "normalize_first")); }

#define MODELING CLQ_HUB "layers.modeling."
#define WHISPER CLQ_HUB "models.whisper."
#define DECODER_ROW(in_module, of_class, function)                                                                     \
    {                                                                                                                  \
        .module = (in_module), .class_name = (of_class), .names = decoder_names, .keys = DECODER_KEYS,                 \
        .write = (function), .flags = DECODER_FLAGS                                                                    \
    }
const clq_block_row clq_hub_blocks[] = {
    {.module = MODELING "transformer_encoder",
     .class_name = "TransformerEncoder",
     .names = encoder_names,
     .keys = ENCODER_KEYS,
     .write = write_encoder,
     .ends_mask = norms_last},
    DECODER_ROW(MODELING "transformer_decoder", "TransformerDecoder", write_decoder),
    CLQ_BLOCK_ROW(WHISPER "whisper_encoder", "WhisperEncoder", encoder_names, ENCODER_KEYS, write_whisper_encoder),
    DECODER_ROW(WHISPER "whisper_decoder", "WhisperDecoder", write_whisper_decoder),
    CLQ_BLOCK_ROW(WHISPER "whisper_backbone", "Padder", padder_names, "", write_padder),
    CLQ_BLOCK_ROW(MODELING "f_net_encoder", "FNetEncoder", fnet_names, FNET_KEYS, write_fnet),
    CLQ_BLOCK_ROW(MODELING "token_and_position_embedding", "TokenAndPositionEmbedding", tokens_names, TOKENS_KEYS,
                  write_tokens),
    CLQ_BLOCK_END,
};
