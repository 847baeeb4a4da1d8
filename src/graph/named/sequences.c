/* Models of sequences: gpt, bert-tiny, bilstm; and vit-tiny, which takes an image as a sequence of patches. */
#include "graph/named/named.h"

#include <math.h>

/* How a block of attention and dense layers is made (Vaswani et al., "Attention is all you need", 2017). */
typedef struct blocks {
    size_t layers, width, heads;
    bool causal;
    bool norm_behind;  /* the sum of a half and its input is normalised; false: the half's input is */
    clq_tensor tokens; /* their mask says which tokens nobody looks at; id 0: all may be looked at */
    clq_initialiser initialiser, output_initialiser; /* of kernels; of each feed-forward half's last kernel */
} blocks;

static clq_tensor attend(clq_model *m, clq_tensor x, const blocks *b) {
    const clq_attention_config config = {
        .heads = b->heads, .key = b->width / b->heads, .causal = b->causal, .kernel_initialiser = b->initialiser};
    if (!b->tokens.id) return clq_attention(m, &x, 1, &config);
    /* A tensor of its own, as in Keras: the tokens that are looked at have the mask, and those that look have none. */
    const clq_tensor seen = clq_keep_mask(m, clq_activate(m, x, CLQ_ACTIVATION_LINEAR, NULL), b->tokens);
    return clq_attention(m, CLQ_TENSORS(x, seen), &config);
}

static clq_tensor feed_forward(clq_model *m, clq_tensor x, const blocks *b) {
    x = clq_dense(m, x,
                  &(clq_dense_config){
                      .units = 4 * b->width, .activation = CLQ_ACTIVATION_GELU, .kernel_initialiser = b->initialiser});
    return clq_dense(m, x, &(clq_dense_config){.units = b->width, .kernel_initialiser = b->output_initialiser});
}

static clq_tensor add_half(clq_model *m, clq_tensor x, const blocks *b,
                           clq_tensor (*half)(clq_model *, clq_tensor, const blocks *)) {
    const clq_row_norm_config norm = {.epsilon = 1e-5};
    const clq_tensor y = half(m, b->norm_behind ? x : clq_layer_norm(m, x, &norm), b);
    x = clq_add(m, CLQ_TENSORS(x, y), NULL);
    return b->norm_behind ? clq_layer_norm(m, x, &norm) : x;
}

static clq_tensor add_blocks(clq_model *m, clq_tensor x, const blocks *b) {
    for (size_t i = 0; i < b->layers; i++) x = add_half(m, add_half(m, x, b, attend), b, feed_forward);
    return b->norm_behind ? x : clq_layer_norm(m, x, &(clq_row_norm_config){.epsilon = 1e-5});
}

static clq_initialiser normal(double deviation) {
    return (clq_initialiser){.kind = CLQ_INITIALISER_NORMAL, .deviation = deviation};
}

/* The first options of all models of tokens, and of vit-tiny. */
enum { LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY };

static clq_status check_heads(const clq_named_settings *s) {
    if (s->options[WIDTH] % s->options[HEADS] == 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "a width of %zu cannot be shared by %zu heads: it should be a multiple of them",
                    s->options[WIDTH], s->options[HEADS]);
}

/* Radford et al., "Language models are unsupervised multitask learners", 2019: normalisation is in front of each half
 * and at the end. Kernels begin with a deviation of 0.02, which is divided by the root of the number of halves for each
 * feed-forward half's last kernel. */
static clq_tensor build_gpt(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const clq_initialiser init = normal(0.02);
    const blocks b = {.layers = s->options[LAYERS],
                      .width = s->options[WIDTH],
                      .heads = s->options[HEADS],
                      .causal = true,
                      .initialiser = init,
                      .output_initialiser = normal(0.02 / sqrt(2.0 * (double)s->options[LAYERS]))};
    x = clq_embedding(m, x,
                      &(clq_embedding_config){.rows = s->options[VOCABULARY], .width = b.width, .initialiser = init});
    x = clq_add(m, CLQ_TENSORS(x, clq_position_embedding(m, x, s->options[CONTEXT], &init, NULL)), NULL);
    x = add_blocks(m, x, &b);
    return clq_dense(m, x,
                     &(clq_dense_config){.units = s->options[VOCABULARY],
                                         .activation = CLQ_ACTIVATION_SOFTMAX,
                                         .no_bias = true,
                                         .kernel_initialiser = init});
}
const clq_named_model clq_named_gpt = {.name = "gpt",
                                       .input = CLQ_NAMED_TOKENS,
                                       .no_classes = true,
                                       .options = {[LAYERS] = {"layers", 4, 1, 256},
                                                   [WIDTH] = {"width", 128, 1, 1 << 16},
                                                   [HEADS] = {"heads", 4, 1, 1024},
                                                   [CONTEXT] = {"context", 128, 1, 1 << 20},
                                                   [VOCABULARY] = {"vocabulary", 256, 2, (1 << 24) - 1}},
                                       .check = check_heads,
                                       .build = build_gpt};

/* Devlin et al., "BERT: Pre-training of deep bidirectional transformers for language understanding", 2019, in the size
 * of Turc et al., "Well-read students learn better", 2019; without segments. A class for each sequence, from its first
 * token. Token 0 is padding. */
static clq_tensor build_bert(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    clq_initialiser init = normal(0.02);
    init.kind = CLQ_INITIALISER_TRUNCATED_NORMAL;
    blocks b = {.layers = s->options[LAYERS],
                .width = s->options[WIDTH],
                .heads = s->options[HEADS],
                .norm_behind = true,
                .initialiser = init,
                .output_initialiser = init};
    const clq_tensor tokens =
        clq_embedding(m, x,
                      &(clq_embedding_config){
                          .rows = s->options[VOCABULARY], .width = b.width, .mask_zero = true, .initialiser = init});
    const clq_tensor places = clq_position_embedding(m, tokens, s->options[CONTEXT], &init, NULL);
    x = clq_add(m, CLQ_TENSORS(tokens, places), NULL);
    b.tokens = tokens;
    x = add_blocks(m, clq_layer_norm(m, x, &(clq_row_norm_config){.epsilon = 1e-5}), &b);
    const size_t behind[1][2] = {{0, s->options[CONTEXT] - 1}};
    x = clq_flatten(m, s->options[CONTEXT] > 1 ? clq_cropping(m, x, behind, NULL) : x, NULL);
    x = clq_dense(m, x,
                  &(clq_dense_config){.units = b.width, .activation = CLQ_ACTIVATION_TANH, .kernel_initialiser = init});
    return clq_named_classify(m, x, s);
}
const clq_named_model clq_named_bert_tiny = {.name = "bert-tiny",
                                             .input = CLQ_NAMED_TOKENS,
                                             .options = {[LAYERS] = {"layers", 2, 1, 256},
                                                         [WIDTH] = {"width", 128, 1, 1 << 16},
                                                         [HEADS] = {"heads", 2, 1, 1024},
                                                         [CONTEXT] = {"context", 128, 1, 1 << 20},
                                                         [VOCABULARY] = {"vocabulary", 30522, 2, (1 << 24) - 1}},
                                             .check = check_heads,
                                             .build = build_bert};

/* Two bidirectional LSTMs, as in Keras's example "Bidirectional LSTM on IMDB". Token 0 is padding. */
static clq_tensor build_bilstm(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const size_t layers = s->options[LAYERS];
    x = clq_embedding(
        m, x, &(clq_embedding_config){.rows = s->options[VOCABULARY], .width = s->options[WIDTH], .mask_zero = true});
    for (size_t i = 0; i < layers; i++) {
        clq_recurrent_config config = clq_recurrent_config_default(s->options[HEADS]);
        config.return_sequences = i + 1 < layers;
        x = clq_bidirectional(m, x, CLQ_CELL_LSTM, &config);
    }
    return clq_named_classify(m, x, s);
}
const clq_named_model clq_named_bilstm = {.name = "bilstm",
                                          .input = CLQ_NAMED_TOKENS,
                                          .options = {[LAYERS] = {"layers", 2, 1, 64},
                                                      [WIDTH] = {"width", 128, 1, 1 << 16},
                                                      [HEADS] = {"units", 64, 1, 1 << 16},
                                                      [CONTEXT] = {"context", 200, 1, 1 << 20},
                                                      [VOCABULARY] = {"vocabulary", 20000, 2, (1 << 24) - 1}},
                                          .build = build_bilstm};

/* Dosovitskiy et al., "An image is worth 16x16 words", 2021, in the size of Touvron et al., "Training data-efficient
 * image transformers", 2021; with the mean over all patches in place of a token for the class (Beyer, Zhai and
 * Kolesnikov, "Better plain ViT baselines for ImageNet-1k", 2022). */
enum { PATCH = CONTEXT };
static size_t patch_of(const clq_named_settings *s) {
    return s->options[PATCH] ? s->options[PATCH] : clq_named_is_small(s) ? 4 : 16;
}

static clq_status check_vit(const clq_named_settings *s) {
    const size_t patch = patch_of(s), *sides = s->input.dims;
    if (sides[0] % patch || sides[1] % patch)
        return clq_fail(CLQ_ERROR_ARGUMENT, "images of %zu x %zu are no whole patches of %zu x %zu", sides[0], sides[1],
                        patch, patch);
    return check_heads(s);
}

static clq_tensor build_vit(clq_model *m, clq_tensor x, const clq_named_settings *s) {
    const size_t patch = patch_of(s);
    const size_t high = s->input.dims[0] / patch, wide = s->input.dims[1] / patch, width = s->options[WIDTH];
    const blocks b = {.layers = s->options[LAYERS], .width = width, .heads = s->options[HEADS]};
    const clq_initialiser init = normal(0.02);
    x = clq_conv2d(m, x, &(clq_conv2d_config){.filters = width, .kernel = {patch, patch}, .strides = {patch, patch}});
    x = clq_reshape(m, x, CLQ_SHAPE(high * wide, width), NULL);
    x = clq_add(m, CLQ_TENSORS(x, clq_position_embedding(m, x, high * wide, &init, NULL)), NULL);
    return clq_named_classify(m, clq_named_average(m, add_blocks(m, x, &b)), s);
}
const clq_named_model clq_named_vit_tiny = {.name = "vit-tiny",
                                            .input = CLQ_NAMED_IMAGE,
                                            .options = {[LAYERS] = {"layers", 12, 1, 256},
                                                        [WIDTH] = {"width", 192, 1, 1 << 16},
                                                        [HEADS] = {"heads", 3, 1, 1024},
                                                        [PATCH] = {"patch", 0, 1, 1024}},
                                            .check = check_vit,
                                            .build = build_vit};
