/* Blocks of keras_hub: vision transformers. */
#include "interop/keras_blocks.h"

#include <stdio.h>
#include <string.h>

/* ---- vision transformers (Dosovitskiy et al., 2020; Touvron et al., 2020) ---- */

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
#define PATCHING_KEYS "image_size patch_size hidden_dim num_channels num_patches num_positions"
static const char *const *write_patching(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "hidden_dim", -1),
                 positions = (size_t)clq_block_whole(w, "num_positions", -1);
    const char *x = "patches";
    add_patches(w, channels, clq_block_flag(w, "use_patch_bias", true));
    if (clq_block_flag(w, "use_class_token", true)) {
        clq_block_add_learned(w, "class_token", 1, channels, true, clq_block_normal(0.05), "patches");
        clq_block_note_store(w, "vars/0");
        clq_block_add_of_list(w, "Concatenate", "tokens", json_pack("{s:i}", "axis", 1),
                              CLQ_FROM("class_token", "patches"));
        x = "tokens";
    }
    clq_block_add_learned(w, "position_embedding", positions, channels, false, clq_block_normal(0.02), x);
    clq_block_add_sum(w, "sum", x, "position_embedding");
    return clq_block_give(w, "sum");
}

static const char *const *write_deit_patching(clq_block_writer *w) {
    const size_t channels = (size_t)clq_block_whole(w, "hidden_dim", -1),
                 positions = (size_t)clq_block_whole(w, "num_positions", -1);
    if (clq_block_flag(w, "use_mask_token", false)) clq_block_refuse(w, "use_mask_token", "true is not supported");
    add_patches(w, channels, true);
    clq_block_add_learned(w, "class_token", 1, channels, true, json_string("zeros"), "patches");
    clq_block_note_store(w, "vars/0");
    clq_block_add_learned(w, "distillation_token", 1, channels, true, json_string("zeros"), "patches");
    clq_block_note_store(w, "vars/1");
    clq_block_add_of_list(w, "Concatenate", "tokens", json_pack("{s:i}", "axis", 1),
                          CLQ_FROM("class_token", "distillation_token", "patches"));
    clq_block_add_learned(w, "position_embedding", positions, channels, true, clq_block_normal(0.02), "tokens");
    clq_block_note_store(w, "vars/2");
    clq_block_add_sum(w, "sum", "tokens", "position_embedding");
    clq_block_add_dropout(w, "dropout", clq_block_number(w, "dropout_rate", 0), "sum");
    return clq_block_give(w, "dropout");
}

#define VISION_KEYS "num_layers num_heads hidden_dim use_mha_bias dropout_rate attention_dropout layer_norm_epsilon"
#define VISION_EPSILON 1e-6 /* if the file has no layer_norm_epsilon */

/* A block of an encoder. Its layers have the names "transformer_block_1.ln_1" and so on. */
typedef struct vision_block {
    const char *mlp, *first, *second; /* names of the dense layers */
    bool twice;                       /* dropout after the attention and the first dense layer, too */
} vision_block;

static void add_vision_block(clq_block_writer *w, const vision_block *kind, size_t number_of, const char *from,
                             char out[CLQ_LAYER_NAME_MAX]) {
    enum { LN_1, MHA, SUM_1, LN_2, DENSE_1, DENSE_2, DROP_1, DROP_2, DROP_3, NAMES };
    static const char *const parts[NAMES] = {"ln_1", "mha", "sum_1", "ln_2", "", "", "drop_1", "drop_2", "drop_3"};
    char n[NAMES][CLQ_LAYER_NAME_MAX];
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
    clq_block_add_norm_of(w, n[LN_1], VISION_EPSILON, from);
    clq_block_add(w, CLQ_LAYERS, "MultiHeadAttention", n[MHA],
                  json_pack("{s:I, s:I, s:f, s:b}", "num_heads", (json_int_t)heads, "key_dim",
                            (json_int_t)clq_block_divide(w, channels, heads, "num_heads"), "dropout",
                            clq_block_number(w, "attention_dropout", 0), "use_bias", mha_bias),
                  NULL, CLQ_FROM(n[LN_1], n[LN_1]));
    if (kind->twice) clq_block_add_dropout(w, n[DROP_1], rate, n[MHA]);
    clq_block_add_sum(w, n[SUM_1], kind->twice ? n[DROP_1] : n[MHA], from);
    clq_block_add_norm_of(w, n[LN_2], VISION_EPSILON, n[SUM_1]);
    clq_block_add_dense(w, n[DENSE_1], inner, json_string("gelu"), bias, n[LN_2]);
    if (kind->twice) clq_block_add_dropout(w, n[DROP_2], rate, n[DENSE_1]);
    clq_block_add_dense(w, n[DENSE_2], channels, NULL, bias, kind->twice ? n[DROP_2] : n[DENSE_1]);
    clq_block_add_dropout(w, n[DROP_3], rate, n[DENSE_2]);
    (void)snprintf(out, CLQ_LAYER_NAME_MAX, "transformer_block_%zu", number_of);
    clq_block_add_sum(w, out, n[DROP_3], n[SUM_1]);
}

static const char *const *write_vision(clq_block_writer *w, const vision_block *kind, bool dropout) {
    const size_t blocks = (size_t)clq_block_whole(w, "num_layers", -1);
    char from[CLQ_LAYER_NAME_MAX] = "inputs", out[CLQ_LAYER_NAME_MAX];
    if (blocks > 1000) clq_block_refuse(w, "num_layers", "more than 1000 are not supported");
    if (dropout) {
        clq_block_add_dropout(w, "dropout", clq_block_number(w, "dropout_rate", 0), "inputs");
        (void)snprintf(from, sizeof from, "dropout");
    }
    for (size_t i = 1; i <= blocks && w->status == CLQ_OK; i++) {
        add_vision_block(w, kind, i, from, out);
        memcpy(from, out, sizeof from);
    }
    clq_block_add_norm_of(w, "ln", VISION_EPSILON, from);
    return clq_block_give(w, "ln");
}
static const vision_block of_vit = {"mlp", "mlp.dense_1", "mlp.dense_2", true},
                          of_deit = {"mlp", "mlp.dense", "output_layer.output", false};
static const char *const *write_vit(clq_block_writer *w) { return write_vision(w, &of_vit, true); }
static const char *const *write_deit(clq_block_writer *w) { return write_vision(w, &of_deit, false); }

/* ---- the rows ---- */

#define VIT CLQ_HUB "models.vit.vit_layers"
#define DEIT CLQ_HUB "models.deit.deit_layers"
const clq_block_row clq_hub_vision[] = {
    CLQ_BLOCK_ROW(VIT, "ViTPatchingAndEmbedding", image_names, PATCHING_KEYS " use_class_token use_patch_bias",
                  write_patching),
    CLQ_BLOCK_ROW(VIT, "ViTEncoder", image_names, VISION_KEYS " mlp_dim use_mlp_bias", write_vit),
    CLQ_BLOCK_ROW(DEIT, "DeiTEmbeddings", image_names, PATCHING_KEYS " use_mask_token dropout_rate",
                  write_deit_patching),
    CLQ_BLOCK_ROW(DEIT, "DeiTEncoder", image_names, VISION_KEYS " intermediate_dim key_dim", write_deit),
    CLQ_BLOCK_END,
};
