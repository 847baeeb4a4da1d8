/* Blocks of keras_hub: decoders with rotary positions (Su et al., 2021) and gated units (Shazeer, 2020): Llama,
 * Mistral, Qwen, Qwen3, Phi-3. */
#include "interop/keras_blocks.h"

#include <stdio.h>
#include <string.h>

typedef struct rotary_decoder {
    const char *attention; /* what the names of the attention's layers begin with: "self_attention" */
    const char *norm, *feedforward_norm, *attention_dropout, *feedforward_dropout;
    bool biased;            /* queries, keys and values have biases */
    bool normed;            /* queries and keys are normed, head by head, with an epsilon that no file sets */
    bool wide;              /* its files need head_dim, and Keras writes them without */
    bool scaled;            /* rope_scaling_factor stretches the positions */
    const char *window;     /* key of the sliding window; NULL: there is none */
    const char *windowed;   /* key that says whether there is a window; NULL: always */
    long window_by_default; /* the window if the file has no key for it; 0: none */
    bool zero_is_none;      /* a window of 0 in the file means none; otherwise it is refused */
    bool disputed;          /* keras_hub has the window with TensorFlow alone */
} rotary_decoder;

static size_t take_width(clq_block_writer *w, const rotary_decoder *kind, size_t channels, size_t heads) {
    const json_t *given = clq_block_value_of(w, "head_dim");
    if (given && !json_is_null(given)) return (size_t)clq_block_whole(w, "head_dim", -1);
    if (kind->wide && !given)
        clq_block_refuse(w, "head_dim", "keras_hub leaves it out of its files, and has no default: add it");
    return clq_block_divide(w, channels, heads, "num_query_heads");
}

/* The factor that stretches the positions. Llama's layer has other numbers for this, which its files do not have. */
static double take_scaling(clq_block_writer *w, const rotary_decoder *kind) {
    const char *turns = json_string_value(clq_block_value_of(w, "rope_type"));
    const double factor = clq_block_number(w, "rope_scaling_factor", 1);
    if (turns && strcmp(turns, "linear") != 0) clq_block_refuse(w, "rope_type", "only linear is supported");
    if (clq_block_number(w, "rope_position_scaling_factor", 1) != 1)
        clq_block_refuse(w, "rope_position_scaling_factor", "only 1 is supported");
    if (!kind->scaled && factor != 1) clq_block_refuse(w, "rope_scaling_factor", "only 1 is supported");
    if (!(factor >= 1e-6 && factor <= 1e6)) clq_block_refuse(w, "rope_scaling_factor", "should be 1e-6 to 1e6");
    return factor;
}

/* The size of the attention window, in tokens; 0: there is none. */
static size_t take_window(clq_block_writer *w, const rotary_decoder *kind) {
    if (!kind->window || (kind->windowed && !clq_block_flag(w, kind->windowed, false))) return 0;
    if (!clq_block_value_of(w, kind->window)) return (size_t)kind->window_by_default;
    return kind->zero_is_none ? (size_t)clq_block_whole(w, kind->window, 0) : clq_block_take_window(w, kind->window, 0);
}

static const char *const rotary_names[] = {"decoder_sequence", "decoder_padding_mask", NULL};
static const char *const *write_rotary(clq_block_writer *w, const rotary_decoder *kind) {
    const size_t channels = clq_block_channels_of(w), heads = (size_t)clq_block_whole(w, "num_query_heads", -1),
                 shared = (size_t)clq_block_whole(w, "num_key_value_heads", -1),
                 width = take_width(w, kind, channels, heads);
    const double wavelength = clq_block_number(w, "rope_max_wavelength", 1e4),
                 dropout = clq_block_number(w, "dropout", 0);
    enum { QUERY, KEY, VALUE, OUT, NAMES };
    static const char *const parts[NAMES] = {"query", "key", "value", "attention_output"};
    char names[NAMES][CLQ_LAYER_NAME_MAX];
    for (unsigned i = 0; i < NAMES; i++) (void)snprintf(names[i], sizeof names[i], "%s.%s", kind->attention, parts[i]);
    const double factor = take_scaling(w, kind);
    (void)clq_block_divide(w, heads, shared, "num_key_value_heads");
    clq_block_add_rms(w, kind->norm, "decoder_sequence");
    clq_block_add_heads(w, names[QUERY], "bqm,muh->bquh", heads, width, kind->biased ? "uh" : NULL, kind->norm);
    clq_block_add_heads(w, names[KEY], "bkm,mvh->bkvh", shared, width, kind->biased ? "vh" : NULL, kind->norm);
    clq_block_add_heads(w, names[VALUE], "bkm,mvh->bkvh", shared, width, kind->biased ? "vh" : NULL, kind->norm);
    const char *query = names[QUERY], *key = names[KEY];
    if (kind->normed) {
        clq_block_add_rms_of(w, "self_attention.query_dense_layernorm", 1e-5, query);
        clq_block_add_rms_of(w, "self_attention.key_dense_layernorm", 1e-5, key);
        query = "self_attention.query_dense_layernorm";
        key = "self_attention.key_dense_layernorm";
    }
    clq_block_add_rotary(w, "query_turned", wavelength, factor, query);
    clq_block_add_rotary(w, "key_turned", wavelength, factor, key);
    const char *mask = clq_block_add_mask(w, "decoder_padding_mask");
    json_t *config = json_object();
    size_t window = take_window(w, kind);
    if (window >= clq_block_shape_of(w, 0)->dims[0]) window = 0; /* no token is farther away */
    if (window && kind->disputed)
        clq_block_refuse(w, kind->window,
                         "with JAX and PyTorch, keras_hub looks farther than %zu tokens, and with TensorFlow it does "
                         "not: at most so many tokens are supported",
                         window);
    if (window) (void)json_object_set_new(config, "sliding_window", json_integer((json_int_t)window));
    clq_block_add_attended(w, config, mask, "query_turned", "key_turned", names[VALUE]);
    clq_block_add_dropout(w, "attended_dropout", dropout, "attended");
    json_t *out = json_pack("{s:s, s:[n, I]}", "equation", "bquh,uhm->bqm", "output_shape", (json_int_t)channels);
    clq_block_take_initializers(w, out, false);
    clq_block_add(w, CLQ_LAYERS, "EinsumDense", names[OUT], out, NULL, CLQ_FROM("attended_dropout"));
    clq_block_add_dropout(w, kind->attention_dropout, dropout, names[OUT]);
    clq_block_add_sum(w, "attention_sum", kind->attention_dropout, "decoder_sequence");
    clq_block_add_rms(w, kind->feedforward_norm, "attention_sum");
    const size_t inner = (size_t)clq_block_whole(w, "intermediate_dim", -1);
    clq_block_add_dense(w, "feedforward_gate_dense", inner, clq_block_take_activation(w, "activation", "silu"), false,
                        kind->feedforward_norm);
    clq_block_add_dense(w, "feedforward_intermediate_dense", inner, NULL, false, kind->feedforward_norm);
    clq_block_add(w, CLQ_NUMPY, "Multiply", "gated", NULL, NULL,
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

#define LLAMA_NAMES                                                                                                    \
    .attention = "self_attention", .norm = "self_attention_layernorm", .feedforward_norm = "feedforward_layernorm",    \
    .attention_dropout = "self_attention_dropout"
static const rotary_decoder
    llama = {LLAMA_NAMES},
    mistral = {LLAMA_NAMES, .window = "sliding_window", .window_by_default = 512, .scaled = true},
    qwen = {LLAMA_NAMES,
            .biased = true,
            .scaled = true,
            .window = "sliding_window_size",
            .window_by_default = 4096,
            .windowed = "use_sliding_window_attention",
            .disputed = true},
    qwen3 = {LLAMA_NAMES,          .normed = true,  .wide = true, .scaled = true, .window = "sliding_window_size",
             .zero_is_none = true, .disputed = true},
    phi = {.attention = "attention",
           .norm = "pre_attention_layernorm",
           .feedforward_norm = "post_attention_layernorm",
           .attention_dropout = "attention_dropout",
           .feedforward_dropout = "feedforward_dropout"};
#define ROTARY_KEYS                                                                                                    \
    "intermediate_dim num_query_heads num_key_value_heads rope_max_wavelength rope_scaling_factor activation "         \
    "layer_norm_epsilon kernel_initializer dropout"
#define LLAMA_KEYS ROTARY_KEYS " rope_position_scaling_factor"
#define MISTRAL_KEYS                                                                                                   \
    ROTARY_KEYS " sliding_window head_dim rope_type beta_fast beta_slow original_max_position_embeddings"
#define QWEN_KEYS ROTARY_KEYS " use_sliding_window_attention sliding_window_size"
#define QWEN3_KEYS ROTARY_KEYS " head_dim sliding_window_size"
#define PHI_KEYS ROTARY_KEYS " hidden_dim max_sequence_length pretraining_sequence_length"
static const char *const *write_llama(clq_block_writer *w) { return write_rotary(w, &llama); }
static const char *const *write_mistral(clq_block_writer *w) { return write_rotary(w, &mistral); }
static const char *const *write_qwen(clq_block_writer *w) { return write_rotary(w, &qwen); }
static const char *const *write_qwen3(clq_block_writer *w) { return write_rotary(w, &qwen3); }
static const char *const *write_phi(clq_block_writer *w) { return write_rotary(w, &phi); }

/* ---- the rows ---- */

#define MODELS CLQ_HUB "models."
const clq_block_row clq_hub_rotary[] = {
    CLQ_BLOCK_ROW(MODELS "llama.llama_decoder", "LlamaTransformerDecoder", rotary_names, LLAMA_KEYS, write_llama),
    CLQ_BLOCK_ROW(MODELS "mistral.mistral_transformer_decoder", "MistralTransformerDecoder", rotary_names, MISTRAL_KEYS,
                  write_mistral),
    CLQ_BLOCK_ROW(MODELS "qwen.qwen_decoder", "QwenTransformerDecoder", rotary_names, QWEN_KEYS, write_qwen),
    CLQ_BLOCK_ROW(MODELS "qwen3.qwen3_decoder", "Qwen3TransformerDecoder", rotary_names, QWEN3_KEYS, write_qwen3),
    CLQ_BLOCK_ROW(MODELS "phi3.phi3_decoder", "Phi3Decoder", rotary_names, PHI_KEYS, write_phi),
    CLQ_BLOCK_END,
};
