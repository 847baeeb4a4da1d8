/* Blocks and backbones of keras_hub in model files: what each is refused for, in words that say what to do, and what
 * calls of blocks may say. What blocks compute is held against Keras in test_single_layers.c, and what backbones do in
 * test_backbones.c. */
#include "interop/keras.h"
#include "support/check.h"
#include "support/files.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#define MODELS "keras_hub.src.models."
#define T5_KEYS                                                                                                        \
    "\"num_heads\": 2, \"key_value_dim\": 3, \"intermediate_dim\": 5, \"hidden_dim\": 4, \"layer_norm_epsilon\": "     \
    "1e-6, "
#define MBCONV_KEYS "\"input_filters\": 4, \"output_filters\": 4, \"activation\": \"swish\""

/* Tokens, in place of x and z: E has a mask of the places that are not 0. */
#define EMBEDDED(name, of, mask)                                                                                       \
    "{\"module\": \"keras.layers\", \"class_name\": \"Embedding\", \"name\": \"" name "\", \"config\": {\"name\": "    \
    "\"" name "\", \"input_dim\": 5, \"output_dim\": 4, \"mask_zero\": " mask "}, \"inbound_nodes\": [{\"args\": [" of \
    "], \"kwargs\": {}}]}, "
#define TENSOR(name) "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"" name "\", 0, 0]}}"
#define X TENSOR("x")
#define Z TENSOR("z")
#define E TENSOR("e")
#define G TENSOR("g")

typedef struct hub_case {
    const char *shape, *module, *class_name, *config, *arguments, *keywords;
    const char *says; /* NULL: it is read */
} hub_case;

/* A model of inputs x and z, of the same shape, layers in front of the block, and the block under a name. */
static clq_status read_case(const hub_case *c, const char *front, const char *name, clq_model **model) {
    char *text = clq_strprintf(
        "{\"module\": \"keras.src.models.functional\", \"class_name\": \"Functional\", \"config\": {\"name\": \"m\", "
        "\"layers\": [{\"module\": \"keras.layers\", \"class_name\": \"InputLayer\", \"name\": \"x\", \"config\": "
        "{\"name\": \"x\", \"batch_shape\": %s}, \"inbound_nodes\": []}, {\"module\": \"keras.layers\", "
        "\"class_name\": \"InputLayer\", \"name\": \"z\", \"config\": {\"name\": \"z\", \"batch_shape\": %s}, "
        "\"inbound_nodes\": []}, %s{\"module\": \"%s\", \"class_name\": \"%s\", \"name\": \"%s\", \"config\": "
        "{\"name\": \"%s\", %s}, \"inbound_nodes\": [{\"args\": [%s], \"kwargs\": {%s}}]}, {\"module\": "
        "\"keras.layers\", \"class_name\": \"Flatten\", \"name\": \"f\", \"config\": {\"name\": \"f\"}, "
        "\"inbound_nodes\": [{\"args\": [" Z "], \"kwargs\": {}}]}], \"input_layers\": [[\"x\", 0, 0], [\"z\", 0, 0]], "
        "\"output_layers\": [[\"%s\", 0, 0], [\"f\", 0, 0]]}}",
        c->shape, c->shape, front, c->module, c->class_name, name, name, c->config, c->arguments, c->keywords, name);
    assert_non_null(text);
    const clq_status status = clq_model_read_keras_json(files_put("hub.json", text, strlen(text)), model);
    clq_free(text);
    return status;
}

static void check_cases(const hub_case *cases, size_t count, const char *front, const char *name) {
    for (size_t i = 0; i < count; i++) {
        clq_model *model;
        const clq_status status = read_case(&cases[i], front, name, &model);
        if (status == CLQ_OK) clq_model_destroy(model);
        if (cases[i].says && status == CLQ_OK) fail_msg("case %zu was read", i);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if (!cases[i].says && status != CLQ_OK) fail_msg("case %zu: %s", i, clq_error_detail());
    }
}

static void blocks_say_what_is_wrong(void **state) {
    static const char t5[] = MODELS "t5.t5_transformer_layer", qwen3[] = MODELS "qwen3.qwen3_decoder",
                      siglip[] = MODELS "siglip.siglip_layers",
                      deberta[] = MODELS "deberta_v3.disentangled_attention_encoder",
                      mobile[] = MODELS "mobilenet.mobilenet_backbone", mbconv[] = MODELS "efficientnet.mbconv";
    static const hub_case cases[] = {
        {"[null, 3, 4]", qwen3, "Qwen3TransformerDecoder",
         "\"intermediate_dim\": 4, \"num_query_heads\": 2, \"num_key_value_heads\": 1", X, "",
         "config.head_dim: keras_hub leaves it out of its files, and has no default: add it"},
        {"[null, 3, 4]", qwen3, "Qwen3TransformerDecoder",
         "\"intermediate_dim\": 4, \"num_query_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 6", X, "", NULL},
        {"[null, 3, 4]", qwen3, "Qwen3TransformerDecoder",
         "\"intermediate_dim\": 4, \"num_query_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 6, "
         "\"rope_scaling_factor\": 0",
         X, "", "rope_scaling_factor: should be"},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"use_relative_attention_bias\": true", X,
         "\"use_causal_mask\": true, \"position_bias\": null", NULL},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"use_relative_attention_bias\": true", X,
         "\"use_causal_mask\": 1", "kwargs.use_causal_mask is not supported"},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"use_relative_attention_bias\": true", X,
         "\"self_attention_cache\": true", "kwargs.self_attention_cache is not supported"},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"use_relative_attention_bias\": false", X, "",
         "false is supported for calls with a position_bias alone"},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"is_decoder\": true", X, "",
         "is_decoder: true needs encoder_hidden_states"},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"use_relative_attention_bias\": true", X,
         "\"encoder_hidden_states\": " Z, "is_decoder: false takes none of these"},
        {"[null, 3, 5]", t5, "T5TransformerLayer", T5_KEYS "\"use_relative_attention_bias\": true", X, "",
         "hidden_dim: 4 should be its input's channels, 5"},
        {"[null, 3, 4]", t5, "T5TransformerLayer", T5_KEYS "\"num_buckets\": 3", X, "",
         "config.num_buckets is not supported"},
        {"[null, 4, 4]", deberta, "DisentangledAttentionEncoder",
         "\"intermediate_dim\": 4, \"num_heads\": 2, \"bucket_size\": 2, \"max_position_embeddings\": 9", X,
         "\"rel_embeddings\": " Z, NULL},
        {"[null, 4, 4]", deberta, "DisentangledAttentionEncoder",
         "\"intermediate_dim\": 4, \"num_heads\": 2, \"bucket_size\": 3, \"max_position_embeddings\": 9", X,
         "\"rel_embeddings\": " Z, "bucket_size: rel_embeddings should be (6, 4)"},
        {"[null, 4, 4]", deberta, "DisentangledAttentionEncoder",
         "\"intermediate_dim\": 4, \"num_heads\": 2, \"bucket_size\": 2, \"max_position_embeddings\": 2", X,
         "\"rel_embeddings\": " Z, "2 places for 4 rows are supported for at most 2 tokens, not 4"},
        {"[null, 4, 4]", deberta, "DisentangledAttentionEncoder",
         "\"intermediate_dim\": 4, \"num_heads\": 2, \"bucket_size\": 2", X, "", "rel_embeddings should be (4, 4)"},
        {"[null, 3, 4]", siglip, "SigLIPEncoderLayer", "\"hidden_dim\": 8, \"num_heads\": 2, \"intermediate_dim\": 4",
         X, "", "hidden_dim: 8 should be its input's channels, 4"},
        {"[null, 3, 4]", siglip, "SigLIPEncoderLayer",
         "\"hidden_dim\": 4, \"num_heads\": 2, \"intermediate_dim\": 4, \"intermediate_activation\": \"glu\"", X, "",
         "activation: 'glu' is not supported"},
        {"[null, 8, 8, 3]", siglip, "SigLIPVisionEmbedding", "\"hidden_dim\": 4, \"patch_size\": 9, \"image_size\": 8",
         X, "", "patch_size: should be 1 to image_size"},
        {"[null, 8, 8, 3]", siglip, "SigLIPVisionEmbedding", "\"hidden_dim\": 4, \"patch_size\": 4, \"image_size\": 12",
         X, "", "(4, 4) and (9, 4) do not broadcast"},
        {"[null, 3]", siglip, "SigLIPTextEmbedding",
         "\"vocabulary_size\": 4, \"sequence_length\": 3, \"embedding_dim\": 4, \"mask_zero\": true", X, "",
         "mask_zero: true is not supported"},
        {"[null, 4, 4, 4]", mobile, "ConvBnActBlock", "\"filter\": 4", X, "", "config.activation: is missing"},
        {"[null, 4, 4, 4]", mobile, "DepthwiseConvBlock",
         "\"infilters\": 4, \"filters\": 4, \"squeeze_excite_ratio\": -1", X, "",
         "squeeze_excite_ratio: should be above 0"},
        {"[null, 4, 4]", mobile, "ConvBnActBlock", "\"filter\": 4, \"activation\": \"relu\"", X, "",
         "it takes images (height, width, channels), not 2 axes"},
        {"[null, 4, 4, 4]", mbconv, "MBConvBlock", MBCONV_KEYS, X, "", NULL},
        {"[null, 4, 4, 4]", mbconv, "MBConvBlock", MBCONV_KEYS ", \"data_format\": \"channels_first\"", X, "",
         "data_format: only channels_last is supported"},
        {"[null, 4, 4, 5]", mbconv, "MBConvBlock", MBCONV_KEYS, X, "", "input_filters: should be its input's channels"},
    };
    (void)state;
    check_cases(cases, CLQ_COUNT_OF(cases), "", "y");
}

/* A mask that a block's input carries would be taken by Keras if none is given. */
static void carried_masks_are_refused(void **state) {
    static const char carried[] = "a mask that its input carries is not supported: drop mask_zero and give ";
#define FRONT EMBEDDED("e", X, "true") EMBEDDED("g", Z, "false")
#define DEBERTA                                                                                                        \
    "[null, 4]", MODELS "deberta_v3.disentangled_attention_encoder", "DisentangledAttentionEncoder",                   \
        "\"intermediate_dim\": 4, \"num_heads\": 2, \"bucket_size\": 2, \"max_position_embeddings\": 9"
#define BLOOM "[null, 4]", MODELS "bloom.bloom_decoder", "BloomDecoder", "\"intermediate_dim\": 4, \"num_heads\": 2"
    static const hub_case cases[] = {
        {DEBERTA, E, "\"rel_embeddings\": " G, carried},
        {DEBERTA, E, "\"rel_embeddings\": " G ", \"padding_mask\": " Z, NULL},
        {DEBERTA, G, "\"rel_embeddings\": " E, NULL},
        {BLOOM, E, "", carried},
        {BLOOM, E, "\"decoder_padding_mask\": " Z, carried},
        {BLOOM, G, "", NULL},
    };
    (void)state;
    check_cases(cases, CLQ_COUNT_OF(cases), FRONT, "y");
}

/* Parts that Keras has no layer or key for are of blocks alone, not of files. */
static void parts_are_not_of_files(void **state) {
#define ROWS "\"places\": 10, \"buckets\": \"behind\""
    static const hub_case cases[] = {
        {"[null, 32, 4]", "clique", "RelativeRows", ROWS, X ", " Z, "", "a RelativeRows is a part of blocks"},
        {"[null, 32, 4]", "keras.layers", "TimeDistributed",
         "\"layer\": {\"module\": \"clique\", \"class_name\": \"LearnedRows\", \"config\": {\"rows\": 2, \"channels\": "
         "4, \"name\": \"inner\"}}",
         X, "", "a LearnedRows is a part of blocks"},
        {"[null, 3, 4]", "keras.layers", "MultiHeadAttention", "\"num_heads\": 2, \"key_dim\": 2", X ", " Z, "", NULL},
        {"[null, 3, 4]", "keras.layers", "MultiHeadAttention",
         "\"num_heads\": 2, \"key_dim\": 2, \"no_key_bias\": true", X ", " Z, "", "no_key_bias: true is not supported"},
    };
    (void)state;
    check_cases(cases, CLQ_COUNT_OF(cases), "", "y");
}

/* Names within a block are told apart by all they have. */
static void long_names_are_refused(void **state) {
#define TEN "abcdefghij"
#define FORTY TEN TEN TEN TEN
#define BLOCK "[null, 4, 4]", MODELS "bloom.bloom_decoder", "BloomDecoder", "\"intermediate_dim\": 4, \"num_heads\": 2"
    static const hub_case read = {BLOCK, X, "", NULL}, refused = {BLOCK, X, "", "is longer than 127 bytes"};
    (void)state;
    check_cases(&read, 1, "", FORTY FORTY);
    check_cases(&refused, 1, "", FORTY FORTY FORTY);
}

/* null is no activation, as "linear" is, and not the block's default. */
static void no_activation_is_linear(void **state) {
#define SIGLIP "\"hidden_dim\": 4, \"num_heads\": 2, \"intermediate_dim\": 4"
#define ENCODER "\"num_heads\": 2, \"intermediate_dim\": 4"
    static const char siglip[] = MODELS "siglip.siglip_layers",
                      encoder[] = "keras_hub.src.layers.modeling.transformer_encoder";
    static const hub_case cases[][3] = {
        {{"[null, 3, 4]", siglip, "SigLIPEncoderLayer", SIGLIP ", \"intermediate_activation\": null", X, "", NULL},
         {"[null, 3, 4]", siglip, "SigLIPEncoderLayer", SIGLIP ", \"intermediate_activation\": \"linear\"", X, "",
          NULL},
         {"[null, 3, 4]", siglip, "SigLIPEncoderLayer", SIGLIP, X, "", NULL}},
        {{"[null, 3, 4]", encoder, "TransformerEncoder", ENCODER ", \"activation\": null", X, "", NULL},
         {"[null, 3, 4]", encoder, "TransformerEncoder", ENCODER ", \"activation\": \"linear\"", X, "", NULL},
         {"[null, 3, 4]", encoder, "TransformerEncoder", ENCODER, X, "", NULL}},
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_text keys[3] = {{0}};
        for (size_t k = 0; k < 3; k++) {
            clq_model *model;
            assert_ok(read_case(&cases[i][k], "", "y", &model));
            clq_model_add_key(model, &keys[k]);
            clq_model_destroy(model);
        }
        assert_string_equal(keys[0].data, keys[1].data);
        assert_string_not_equal(keys[0].data, keys[2].data);
        for (size_t k = 0; k < 3; k++) clq_free(keys[k].data);
    }
}

/* Calls of a block may say true or false; a second call has to say the same. */
static void calls_say_the_same(void **state) {
    static const char twice[] = X "], \"kwargs\": {\"use_causal_mask\": false}}, {\"args\": [" Z;
    static const char block[] = "\"intermediate_dim\": 4, \"num_heads\": 2";
    const struct {
        const char *second, *says;
    } cases[] = {{"\"use_causal_mask\": false", NULL},
                 {"", "calls with other keywords than the first"},
                 {"\"use_causal_mask\": true", "calls with other keywords than the first"}};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        const hub_case c = {
            "[null, 3, 4]", MODELS "whisper.whisper_decoder", "WhisperDecoder", block, twice, cases[i].second,
            cases[i].says};
        clq_model *model;
        const clq_status status = read_case(&c, "", "y", &model);
        if (status == CLQ_OK) clq_model_destroy(model);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if ((status == CLQ_OK) != (cases[i].says == NULL)) fail_msg("case %zu: %s", i, clq_error_detail());
    }
}

/* What a block needs for a mask is put in at its first call, or a mask is refused there: no later call has one that the
 * first had not. */
static void calls_have_no_further_masks(void **state) {
    static const char decoder[] = "keras_hub.src.layers.modeling.transformer_decoder",
                      block[] = "\"intermediate_dim\": 4, \"num_heads\": 2",
                      says[] = "calls with a mask of an input of which the first call had none are not supported";
#define BOTH(a, keywords, b) a "], \"kwargs\": {" keywords "}}, {\"args\": [" b
#define DECODER "[null, 4]", decoder, "TransformerDecoder", block
#define OF_Z "\"decoder_padding_mask\": " Z
    static const hub_case cases[] = {
        {BLOOM, BOTH(G, "", E), "", says},
        {BLOOM, BOTH(G, "", G), "", NULL},
        {"[null, 4]", "keras.layers", "Softmax", "\"axis\": [1, 2]", BOTH(G, "", E), "", says},
        {DECODER, BOTH(G, "", E), "", says},
        {DECODER, BOTH(E, "", E), "", NULL},
        {DECODER, BOTH(G, OF_Z, E), OF_Z, says},
        {DECODER, BOTH(E, OF_Z, G), OF_Z, NULL},
        {"[null, 4]", "keras.layers", "TimeDistributed",
         "\"layer\": {\"class_name\": \"Dense\", \"config\": {\"name\": \"inner\", \"units\": 2}}", BOTH(G, "", E), "",
         NULL},
    };
    (void)state;
    check_cases(cases, CLQ_COUNT_OF(cases), FRONT, "y");
}

/* Backbones by class name and hyper-parameters. */
#define GPT2 "\"vocabulary_size\": 7, \"num_layers\": 2, \"num_heads\": 2, \"hidden_dim\": 4, \"intermediate_dim\": 5"
#define MISTRAL                                                                                                        \
    "\"vocabulary_size\": 7, \"num_layers\": 1, \"num_query_heads\": 2, \"num_key_value_heads\": 1, "                  \
    "\"hidden_dim\": 4, \"intermediate_dim\": 5"
static void backbones_by_numbers(void **state) {
    const struct {
        const char *module, *class_name, *config, *says; /* NULL: it is read */
    } cases[] = {
        {"gpt2.gpt2_backbone", "GPT2Backbone", GPT2, NULL},
        {"gpt2.gpt2_backbone", "GPT2Backbone", GPT2 ", \"trainable\": false, \"max_sequence_length\": null",
         "is missing"},
        {"gpt2.gpt2_backbone", "GPT2Backbone", GPT2 ", \"num_experts\": 2", "config.num_experts is not supported"},
        {"gpt2.gpt2_backbone", "GPT2Backbone", GPT2 ", \"dropout\": [1]",
         "config.dropout should be a number or a word"},
        {"gpt2.gpt2_backbone", "GPT2Backbone", GPT2 ", \"max_sequence_length\": 2", "3 tokens are more than the 2"},
        {"gpt2.gpt2_backbone", "GPT2Backbone", "\"num_layers\": 2", "config.vocabulary_size is missing"},
        {"gpt2.gpt2_backbone", "GPT2Backbone", "\"num_layers\": 0", "config.num_layers should be 1 to 1000"},
        {"gpt2.gpt2_backbone", "GPT2Backbone", GPT2 ", \"dtype\": \"bfloat16\"",
         "hub.json: config.dtype: 'bfloat16' is not supported, only float32, mixed_float16 and mixed_bfloat16"},
        {"gpt.gpt_backbone", "GPT2Backbone", GPT2, "'GPT2Backbone' is not supported; there are Sequential, Functional"},
        {"mistral.mistral_backbone", "MistralBackbone", MISTRAL ", \"sliding_window\": null", NULL},
        {"mistral.mistral_backbone", "MistralBackbone", MISTRAL ", \"sliding_window\": 0", "should be above 0"},
        {"llama.llama_backbone", "LlamaBackbone", MISTRAL ", \"rope_low_freq_factor\": 1.0",
         "config.rope_low_freq_factor is not supported"},
        {"qwen3.qwen3_backbone", "Qwen3Backbone", MISTRAL, "config.head_dim is missing"},
        {"gemma.gemma_backbone", "GemmaBackbone", MISTRAL ", \"head_dim\": 2, \"use_sliding_window_attention\": true",
         NULL},
        {"gemma.gemma_backbone", "GemmaBackbone", MISTRAL ", \"head_dim\": 2, \"use_sliding_window_attention\": null",
         NULL},
        {"gemma.gemma_backbone", "GemmaBackbone", MISTRAL ", \"head_dim\": 2, \"use_sliding_window_attention\": 1",
         "config.use_sliding_window_attention should be true or false"},
        {"gemma.gemma_backbone", "GemmaBackbone",
         "\"vocabulary_size\": 7, \"num_layers\": 1, \"num_query_heads\": 2, \"hidden_dim\": -1",
         "config.hidden_dim should be a number above 0"},
        {"qwen.qwen_backbone", "QwenBackbone", MISTRAL ", \"sliding_window_size\": 0", NULL},
        {"qwen.qwen_backbone", "QwenBackbone",
         MISTRAL ", \"sliding_window_size\": 0, \"use_sliding_window_attention\": true", "should be above 0"},
        {"qwen.qwen_backbone", "QwenBackbone",
         MISTRAL ", \"sliding_window_size\": 2, \"use_sliding_window_attention\": true",
         "sliding_window_size: with JAX and PyTorch, keras_hub looks farther than 2 tokens"},
        {"qwen.qwen_backbone", "QwenBackbone",
         MISTRAL ", \"sliding_window_size\": 3, \"use_sliding_window_attention\": true", NULL},
        {"qwen.qwen_backbone", "QwenBackbone", MISTRAL ", \"sliding_window_size\": 2", NULL},
        {"qwen3.qwen3_backbone", "Qwen3Backbone", MISTRAL ", \"head_dim\": 2, \"sliding_window_size\": 2",
         "looks farther than 2 tokens"},
        {"qwen3.qwen3_backbone", "Qwen3Backbone", MISTRAL ", \"head_dim\": 2, \"sliding_window_size\": 0", NULL},
        {"f_net.f_net_backbone", "FNetBackbone",
         "\"vocabulary_size\": 7, \"num_layers\": 1, \"hidden_dim\": 4, \"intermediate_dim\": 5", NULL},
    };
    const clq_keras_sizes sizes = {.open = 3};
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        char *text = clq_strprintf("{\"module\": \"" MODELS "%s\", \"class_name\": \"%s\", \"config\": {%s}}",
                                   cases[i].module, cases[i].class_name, cases[i].config);
        clq_model *model;
        const clq_status status =
            clq_model_read_keras_json_sized(files_put("hub.json", text, strlen(text)), &sizes, &model);
        clq_free(text);
        if (cases[i].says && status == CLQ_OK) fail_msg("case %zu was read", i);
        if (cases[i].says) expect_text(clq_error_detail(), cases[i].says);
        if (!cases[i].says && status != CLQ_OK) fail_msg("case %zu: %s", i, clq_error_detail());
        if (status == CLQ_OK) clq_model_destroy(model);
    }
}

/* As malloc does, it says so in errno. Jansson's reader goes on with a text that it could not make longer, so that
 * buffers of sizes that it grows to are never refused. */
static void *json_alloc(size_t bytes) {
    void *block = bytes >= 32 && (bytes & (bytes - 1)) == 0 ? calloc(1, bytes) : clq_alloc(1, bytes);
    if (!block) errno = ENOMEM;
    return block;
}

/* Wherever memory runs out, that of the JSON, too, no backbone is written, and nothing is left. */
static void memory_may_run_out(void **state) {
    static const char text[] = "{\"module\": \"" MODELS "gpt2.gpt2_backbone\", \"class_name\": \"GPT2Backbone\", "
                               "\"config\": {" GPT2 "}}";
    uint64_t nth = 1, allocations = 0;
    json_t *root, *written;
    (void)state;
    json_set_alloc_funcs(json_alloc, clq_free);
    assert_ok(clq_json_parse(text, sizeof text - 1, 8, "backbone", &root));
    for (clq_status status = CLQ_ERROR_MEMORY; status != CLQ_OK; nth += 1 + nth / 64) {
        (void)clq_memory_fail_at(nth, false);
        status = clq_keras_write_backbone(root, &written);
        allocations = clq_memory_fail_at(0, false);
        if (status != (allocations < nth ? CLQ_OK : CLQ_ERROR_MEMORY))
            fail_msg("allocation %d: %s: %s", (int)nth, clq_status_text(status), clq_error_detail());
        assert_true((status == CLQ_OK) == (written != NULL));
        json_decref(written);
    }
    json_decref(root);
    json_set_alloc_funcs(malloc, free);
    assert_within(allocations, 300, 100000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_say_what_is_wrong),    cmocka_unit_test(carried_masks_are_refused),
        cmocka_unit_test(calls_have_no_further_masks), cmocka_unit_test(parts_are_not_of_files),
        cmocka_unit_test(long_names_are_refused),      cmocka_unit_test(no_activation_is_linear),
        cmocka_unit_test(calls_say_the_same),          cmocka_unit_test(backbones_by_numbers),
        cmocka_unit_test(memory_may_run_out)};
    return cmocka_run_group_tests_name("interop/keras_hub", tests, files_begin, files_end);
}
