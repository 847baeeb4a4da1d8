/* Blocks of keras_hub: encoders of images and texts that are trained in pairs, CLIP (Radford et al., 2021) and SigLIP
 * (Zhai et al., 2023). CLIP's embedding of images is not supported: its positions are weights of a whole-number type,
 * and only files of weights tell whether these are 0, 1, 2, … or all 0. */
#include "interop/keras_blocks.h"

#include <math.h>
#include <string.h>

static const char quick_gelu[] = "quick_gelu";
/* Adds x * sigmoid(1.702 x) as the layer "activation". It is made of functions, since a layer would look at masks. */
static void add_quick_gelu(clq_block_writer *w, const char *from) {
    clq_block_add(w, CLQ_NUMPY, "Multiply", "gate_scaled", NULL, NULL, CLQ_FROM(from));
    clq_block_append_argument(w, json_real(1.702));
    clq_block_add(w, CLQ_NN, "Sigmoid", "gate", NULL, NULL, CLQ_FROM("gate_scaled"));
    clq_block_add(w, CLQ_NUMPY, "Multiply", "activation", NULL, NULL, CLQ_FROM(from, "gate"));
}

typedef struct paired_encoder {
    const char *attention, *norms[2], *dense[2], *activation;
    double epsilon;        /* if the file has no layer_norm_epsilon */
    double bias_deviation; /* of the dense layers' initial biases; 0: they are 0 */
    bool causal;           /* if the file has no use_causal_mask */
} paired_encoder;

/* Applies the activation that a key names to `from`, as the layer "activation". CLIP alone has a quick_gelu of its
 * own. */
static void add_keyed(clq_block_writer *w, const paired_encoder *kind, const char *key, const char *from) {
    json_t *value = clq_block_take_activation(w, key, kind->activation);
    const bool quick = json_is_string(value) && strcmp(json_string_value(value), quick_gelu) == 0;
    if (!quick || strcmp(kind->activation, quick_gelu) != 0) {
        clq_block_add_activation(w, "activation", value, from);
        return;
    }
    json_decref(value);
    add_quick_gelu(w, from);
}
static void add_wide(clq_block_writer *w, const paired_encoder *kind, const char *name, size_t units,
                     const char *from) {
    clq_block_add_dense(w, name, units, NULL, true, from);
    if (kind->bias_deviation > 0) clq_block_set(w, "bias_initializer", clq_block_normal(kind->bias_deviation));
}
static void add_feedforward(clq_block_writer *w, const paired_encoder *kind, const char *key, size_t channels,
                            const char *from) {
    add_wide(w, kind, kind->dense[0], (size_t)clq_block_whole(w, "intermediate_dim", -1), from);
    add_keyed(w, kind, key, kind->dense[0]);
    add_wide(w, kind, kind->dense[1], channels, "activation");
}

static const char *const *write_paired(clq_block_writer *w, const paired_encoder *kind) {
    const size_t channels = clq_block_same_channels(w, "hidden_dim"),
                 heads = (size_t)clq_block_whole(w, "num_heads", -1),
                 width = clq_block_divide(w, channels, heads, "num_heads");
    const char *x = kind->norms[0];
    clq_block_add_norm_of(w, x, kind->epsilon, "x");
    clq_block_add_attention(w, kind->attention, heads, width, 0,
                            json_pack("{s:b}", "use_causal_mask", clq_block_flag(w, "use_causal_mask", kind->causal)),
                            x, x);
    clq_block_add_sum(w, "attention_sum", "x", kind->attention);
    clq_block_add_norm_of(w, kind->norms[1], kind->epsilon, "attention_sum");
    add_feedforward(w, kind, "intermediate_activation", channels, kind->norms[1]);
    clq_block_add_sum(w, "sum", "attention_sum", kind->dense[1]);
    return clq_block_give(w, "sum");
}

static const paired_encoder clip = {.attention = "attention",
                                    .norms = {"layer_norm_1", "layer_norm_2"},
                                    .dense = {"dense_1", "dense_2"},
                                    .activation = quick_gelu,
                                    .epsilon = 1e-5,
                                    .causal = true},
                            siglip = {.attention = "self_attn",
                                      .norms = {"layer_norm1", "layer_norm2"},
                                      .dense = {"mlp.fc1", "mlp.fc2"},
                                      .activation = "gelu_approximate",
                                      .epsilon = 1e-6,
                                      .bias_deviation = 1e-6};
static const char *const names[] = {"x", NULL};
#define PAIRED_KEYS "hidden_dim num_heads intermediate_dim intermediate_activation use_causal_mask"
static const char *const *write_clip(clq_block_writer *w) { return write_paired(w, &clip); }
static const char *const *write_siglip(clq_block_writer *w) { return write_paired(w, &siglip); }

/* ---- SigLIP's embeddings, and its pooling, which makes one row of many ---- */

static const char *const *write_siglip_patches(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "hidden_dim", -1),
                 patch = (size_t)clq_block_whole(w, "patch_size", -1),
                 size = (size_t)clq_block_whole(w, "image_size", -1);
    if (patch == 0 || patch > size) clq_block_refuse(w, "patch_size", "should be 1 to image_size");
    if (w->status != CLQ_OK) return NULL;
    clq_block_add(w, CLQ_LAYERS, "Conv2D", "patch_embedding",
                  json_pack("{s:I, s:I, s:I, s:s}", "filters", (json_int_t)channels, "kernel_size", (json_int_t)patch,
                            "strides", (json_int_t)patch, "kernel_initializer", "lecun_normal"),
                  NULL, CLQ_FROM("x"));
    clq_block_add(w, CLQ_LAYERS, "Reshape", "patches",
                  json_pack("{s:[i, I]}", "target_shape", -1, (json_int_t)channels), NULL, CLQ_FROM("patch_embedding"));
    clq_block_add_learned(w, "position_embedding", (size / patch) * (size / patch), channels, false,
                          clq_block_normal(1 / sqrt((double)channels)), "patches");
    clq_block_add_sum(w, "sum", "patches", "position_embedding");
    return clq_block_give(w, "sum");
}

static const char *const *write_siglip_tokens(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "embedding_dim", -1);
    json_t *initializer = clq_block_value_or(w, "embeddings_initializer", json_string("normal"));
    if (!clq_block_flag(w, "tie_weights", true)) clq_block_refuse(w, "tie_weights", "false is not supported");
    if (clq_block_flag(w, "mask_zero", false)) clq_block_refuse(w, "mask_zero", "true is not supported");
    clq_block_add(w, CLQ_LAYERS, "Embedding", "token_embedding",
                  json_pack("{s:I, s:I, s:O}", "input_dim", (json_int_t)clq_block_whole(w, "vocabulary_size", -1),
                            "output_dim", (json_int_t)channels, "embeddings_initializer", initializer),
                  NULL, CLQ_FROM("x"));
    clq_block_add_learned(w, "position_embedding", (size_t)clq_block_whole(w, "sequence_length", -1), channels, false,
                          initializer, "token_embedding");
    clq_block_add_sum(w, "sum", "token_embedding", "position_embedding");
    return clq_block_give(w, "sum");
}

static const char *const *write_siglip_pooling(clq_block_writer *w) {
    const size_t channels = clq_block_same_channels(w, "hidden_dim"),
                 heads = (size_t)clq_block_whole(w, "num_heads", -1),
                 width = clq_block_divide(w, channels, heads, "num_heads");
    clq_block_add_learned(w, "probe", 1, channels, true, json_string("glorot_uniform"), "x");
    clq_block_note_store(w, "vars/0");
    clq_block_add_attention(w, "attention", heads, width, 0, NULL, "probe", "x");
    clq_block_add_norm_of(w, "layernorm", siglip.epsilon, "attention");
    add_feedforward(w, &siglip, "activation", channels, "layernorm");
    clq_block_add_sum(w, "sum", "attention", "mlp.fc2");
    clq_block_add(w, CLQ_LAYERS, "Reshape", "pooled", json_pack("{s:[I]}", "target_shape", (json_int_t)channels), NULL,
                  CLQ_FROM("sum"));
    return clq_block_give(w, "pooled");
}

static bool ends_mask(json_t *config) {
    (void)config;
    return true;
}

/* ---- the rows ---- */

#define CLIP CLQ_HUB "models.clip.clip_layers"
#define SIGLIP CLQ_HUB "models.siglip.siglip_layers"
const clq_block_row clq_hub_pairs[] = {
    CLQ_BLOCK_ROW(CLIP, "CLIPEncoderLayer", names, PAIRED_KEYS, write_clip),
    CLQ_BLOCK_ROW(SIGLIP, "SigLIPEncoderLayer", names, PAIRED_KEYS " layer_norm_epsilon", write_siglip),
    CLQ_BLOCK_ROW(SIGLIP, "SigLIPVisionEmbedding", names, "hidden_dim patch_size image_size", write_siglip_patches),
    CLQ_BLOCK_ROW(SIGLIP, "SigLIPTextEmbedding", names,
                  "vocabulary_size sequence_length embedding_dim tie_weights embeddings_initializer mask_zero",
                  write_siglip_tokens),
    {.module = SIGLIP,
     .class_name = "SigLIPMultiHeadAttentionPooling",
     .names = names,
     .keys = "hidden_dim intermediate_dim num_heads activation layer_norm_epsilon",
     .write = write_siglip_pooling,
     .ends_mask = ends_mask},
    CLQ_BLOCK_END,
};
