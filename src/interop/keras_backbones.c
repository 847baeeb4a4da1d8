/* Backbones of keras_hub, which keras_hub saves as a class name and hyper-parameters. Each is a row with the layers of
 * its Functional model. What is written from a row is read as any Functional model is. */
#include "interop/keras_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A layer is [name, module, class, configuration, inputs], as JSON with ' in place of ". "$key" stands for the value of
 * a key of the file's configuration; "$key:1e-6" has a default; "$sqrt key" is the value's square root. A name with '#'
 * makes num_layers layers, which have their numbers in its place. In these, "$even key" is true in every other layer,
 * from the first on, if the key is true. Among inputs, '<' is the layer before, and 'key=name' passes a layer by
 * keyword. */
enum { LAYERS_MOST = 12 };
typedef struct backbone {
    const char *module, *class_name;
    const char *inputs;  /* with spaces between them */
    const char *outputs; /* likewise, in the order of their names in Keras; '<': the last of num_layers layers */
    const char *layers[LAYERS_MOST];
} backbone;

/* ---- parts that several have ---- */

#define KERAS "'keras.layers'"
#define OF_MODELING "'" CLQ_HUB "layers.modeling."
/* The quotation mark at the beginning is closed where the macro is used. */
#define OF_MODEL "'" CLQ_HUB "models."
#define NORMAL(deviation) "{'class_name':'RandomNormal','config':{'mean':0.0,'stddev':" deviation "}}"
#define CUT_NORMAL "{'class_name':'TruncatedNormal','config':{'mean':0.0,'stddev':0.02}}"
#define TOKENS(initializer, tied)                                                                                      \
    "['token_embedding'," KERAS ",'ReversibleEmbedding',{'input_dim':'$vocabulary_size','output_dim':'$hidden_dim',"   \
    "'embeddings_initializer':" initializer ",'tie_weights':" tied "},['token_ids']]"
#define TOKENS_AND_PLACES(name, length)                                                                                \
    "['" name "'," OF_MODELING "token_and_position_embedding','TokenAndPositionEmbedding',{'vocabulary_size':"         \
    "'$vocabulary_size','sequence_length':'$max_sequence_length:" length "','embedding_dim':'$hidden_dim',"            \
    "'embeddings_initializer':" CUT_NORMAL "},['token_ids']]"
#define PLACES(initializer, length)                                                                                    \
    "['position_embedding'," OF_MODELING "position_embedding','PositionEmbedding',{'sequence_length':"                 \
    "'$max_sequence_length:" length "','initializer':" initializer "},['token_embedding']]"
#define SEGMENTS(initializer, count)                                                                                   \
    "['segment_embedding'," KERAS ",'Embedding',{'input_dim':'$num_segments:" count "','output_dim':'$hidden_dim',"    \
    "'embeddings_initializer':" initializer "},['segment_ids']]"
#define NORM(name, epsilon) "['" name "'," KERAS ",'LayerNormalization',{'epsilon':" epsilon "},['<']]"
#define DROPOUT(name, rate) "['" name "'," KERAS ",'Dropout',{'rate':'$dropout:" rate "'},['<']]"
#define ADD(names) "['embeddings_add'," KERAS ",'Add',{},[" names "]]"
#define POOLED(initializers)                                                                                           \
    "['first_token','keras.src.ops.numpy','GetItem',{},['<',[{'class_name':'__slice__','config':{'start':null,"        \
    "'stop':null,'step':null}},0]]]",                                                                                  \
        "['pooled_dense'," KERAS ",'Dense',{'units':'$hidden_dim','activation':'tanh'," initializers "},['<']]"
#define APPROXIMATE "'gelu_approximate'"
#define FNET_INITIALIZERS "'kernel_initializer':" NORMAL("0.02") ",'bias_initializer':" NORMAL("0.02")
#define BLOCK(name, place, keys, mask)                                                                                 \
    "['" name "_#'," place ",{'intermediate_dim':'$intermediate_dim'," keys "},['<'" mask "]]"
#define ENCODERS(activation, epsilon, rate)                                                                            \
    BLOCK("transformer_layer", OF_MODELING "transformer_encoder','TransformerEncoder'",                                \
          "'num_heads':'$num_heads','dropout':'$dropout:" rate "','activation':" activation                            \
          ",'layer_norm_epsilon':" epsilon ",'kernel_initializer':" CUT_NORMAL,                                        \
          ",'padding_mask=padding_mask'")
#define DECODERS(activation, initializer)                                                                              \
    BLOCK("transformer_layer", OF_MODELING "transformer_decoder','TransformerDecoder'",                                \
          "'num_heads':'$num_heads','dropout':'$dropout:0.1','activation':" activation                                 \
          ",'layer_norm_epsilon':1e-5,'normalize_first':true,'kernel_initializer':" initializer,                       \
          ",'decoder_padding_mask=padding_mask'")
/* Decoders with rotary positions. */
#define ROTARY_BLOCKS(place, keys)                                                                                     \
    BLOCK("transformer_layer", place,                                                                                  \
          "'num_query_heads':'$num_query_heads','num_key_value_heads':'$num_key_value_heads','rope_max_wavelength':"   \
          "'$rope_max_wavelength:10000','layer_norm_epsilon':'$layer_norm_epsilon:1e-6','dropout':'$dropout:0',"       \
          "'activation':'silu','kernel_initializer':" NORMAL("0.02") keys,                                             \
          ",'decoder_padding_mask=padding_mask'")
#define ROTARY_NORM(place) "['sequence_output_layernorm'," place ",{'epsilon':'$layer_norm_epsilon:1e-6'},['<']]"
#define ROTARY_SCALE ",'rope_scaling_factor':'$rope_scaling_factor:1.0'"
#define ROTARY_BACKBONE(in_module, of_class, tied, block, keys, norm)                                                  \
    {                                                                                                                  \
        CLQ_HUB "models." in_module, of_class, "token_ids padding_mask", "sequence_output_layernorm", {                \
            TOKENS(NORMAL("0.01"), tied), ROTARY_BLOCKS(block, keys), ROTARY_NORM(norm)                                \
        }                                                                                                              \
    }
#define LLAMA(in_module, of_class)                                                                                     \
    ROTARY_BACKBONE(in_module, of_class, "'$tie_word_embeddings:false'",                                               \
                    OF_MODEL "llama.llama_decoder','LlamaTransformerDecoder'",                                         \
                    ",'rope_position_scaling_factor':'$rope_position_scaling_factor:1.0'",                             \
                    OF_MODEL "llama.llama_layernorm','LlamaLayerNorm'")
#define ROBERTA(in_module, of_class)                                                                                   \
    {                                                                                                                  \
        CLQ_HUB "models." in_module, of_class, "token_ids padding_mask", "<", {                                        \
            TOKENS_AND_PLACES("embeddings", "512"), NORM("embeddings_layer_norm", "1e-5"),                             \
                DROPOUT("embeddings_dropout", "0.1"), ENCODERS("'gelu'", "1e-5", "0.1")                                \
        }                                                                                                              \
    }

/* ---- the rows ---- */

static const backbone backbones[] = {
    LLAMA("llama.llama_backbone", "LlamaBackbone"),
    LLAMA("llama3.llama3_backbone", "Llama3Backbone"),
    ROTARY_BACKBONE("mistral.mistral_backbone", "MistralBackbone", "false",
                    OF_MODEL "mistral.mistral_transformer_decoder','MistralTransformerDecoder'",
                    ROTARY_SCALE ",'sliding_window':'$sliding_window:512','head_dim':'$head_dim:null'",
                    OF_MODEL "mistral.mistral_layer_norm','MistralLayerNormalization'"),
    ROTARY_BACKBONE("qwen.qwen_backbone", "QwenBackbone", "'$tie_word_embeddings:true'",
                    OF_MODEL "qwen.qwen_decoder','QwenTransformerDecoder'",
                    ROTARY_SCALE ",'use_sliding_window_attention':'$use_sliding_window_attention:false',"
                                 "'sliding_window_size':'$sliding_window_size:32768'",
                    OF_MODEL "qwen.qwen_layernorm','QwenLayerNorm'"),
    ROTARY_BACKBONE("qwen3.qwen3_backbone", "Qwen3Backbone", "'$tie_word_embeddings:true'",
                    OF_MODEL "qwen3.qwen3_decoder','Qwen3TransformerDecoder'",
                    ROTARY_SCALE ",'head_dim':'$head_dim','sliding_window_size':'$sliding_window_size:32768'",
                    OF_MODEL "qwen3.qwen3_layernorm','Qwen3LayerNorm'"),
    ROTARY_BACKBONE("phi3.phi3_backbone", "Phi3Backbone", "false", OF_MODEL "phi3.phi3_decoder','Phi3Decoder'",
                    ",'hidden_dim':'$hidden_dim','max_sequence_length':'$max_sequence_length:4096',"
                    "'pretraining_sequence_length':'$pretraining_sequence_length:4096'",
                    OF_MODEL "phi3.phi3_layernorm','Phi3LayerNorm'"),
    {CLQ_HUB "models.gpt2.gpt2_backbone",
     "GPT2Backbone",
     "token_ids padding_mask",
     "layer_norm",
     {TOKENS(NORMAL("0.01"), "true"), PLACES(NORMAL("0.02"), "1024"), ADD("'token_embedding','position_embedding'"),
      DROPOUT("embeddings_dropout", "0.1"), DECODERS(APPROXIMATE, NORMAL("0.02")), NORM("layer_norm", "1e-5")}},
    {CLQ_HUB "models.opt.opt_backbone",
     "OPTBackbone",
     "token_ids padding_mask",
     "layer_norm",
     {TOKENS_AND_PLACES("embeddings", "2048"), DECODERS("'relu'", CUT_NORMAL), NORM("layer_norm", "1e-5")}},
    {CLQ_HUB "models.gpt_neo_x.gpt_neo_x_backbone",
     "GPTNeoXBackbone",
     "token_ids padding_mask",
     "layer_norm",
     {TOKENS(NORMAL("0.01"), "true"), DROPOUT("embeddings_dropout", "0.0"),
      BLOCK("transformer_layer", OF_MODEL "gpt_neo_x.gpt_neo_x_decoder','GPTNeoXDecoder'",
            "'num_heads':'$num_heads','dropout':'$dropout:0.0','rotary_percentage':'$rotary_percentage:0.25',"
            "'rotary_max_wavelength':'$rotary_max_wavelength:10000','max_sequence_length':'$max_sequence_length:512',"
            "'layer_norm_epsilon':'$layer_norm_epsilon:1e-5','activation':" APPROXIMATE
            ",'kernel_initializer':" NORMAL("0.02"),
            ",'decoder_padding_mask=padding_mask'"),
      NORM("layer_norm", "'$layer_norm_epsilon:1e-5'")}},
    {CLQ_HUB "models.bloom.bloom_backbone",
     "BloomBackbone",
     "token_ids padding_mask",
     "final_layernorm",
     {TOKENS(NORMAL("0.02"), "true"), NORM("embedding_layernorm", "'$layer_norm_epsilon:1e-5'"),
      BLOCK("transformer_layer", OF_MODEL "bloom.bloom_decoder','BloomDecoder'",
            "'num_heads':'$num_heads','dropout':'$dropout:0.0','layer_norm_epsilon':'$layer_norm_epsilon:1e-5'",
            ",'decoder_padding_mask=padding_mask'"),
      NORM("final_layernorm", "'$layer_norm_epsilon:1e-5'")}},
    {CLQ_HUB "models.falcon.falcon_backbone",
     "FalconBackbone",
     "token_ids padding_mask",
     "final_layernorm",
     {TOKENS("'uniform'", "true"),
      BLOCK("transformer_layer", OF_MODEL "falcon.falcon_transformer_decoder','FalconTransformerDecoder'",
            "'num_attention_heads':'$num_attention_heads','attention_dropout_rate':'$attention_dropout_rate:0',"
            "'feedforward_dropout_rate':'$feedforward_dropout_rate:0'",
            ",'decoder_padding_mask=padding_mask'"),
      NORM("final_layernorm", "'$layer_norm_epsilon:1e-5'")}},
    {CLQ_HUB "models.gemma.gemma_backbone",
     "GemmaBackbone",
     "token_ids padding_mask",
     "final_normalization",
     {"['token_embedding'," KERAS ",'ReversibleEmbedding',{'input_dim':'$vocabulary_size','output_dim':'$hidden_dim',"
      "'embeddings_initializer':{'class_name':'VarianceScaling','config':{'scale':1.0,'mode':'fan_in','distribution':"
      "'untruncated_normal'}},'logit_soft_cap':'$final_logit_soft_cap:null'},['token_ids']]",
      "['scaled','keras.src.ops.numpy','Multiply',{},['<','$sqrt hidden_dim']]",
      BLOCK(
          "decoder_block", OF_MODEL "gemma.gemma_decoder_block','GemmaDecoderBlock'",
          "'hidden_dim':'$hidden_dim','head_dim':'$head_dim','num_query_heads':'$num_query_heads',"
          "'num_key_value_heads':'$num_key_value_heads','dropout':'$dropout:0','use_post_ffw_norm':"
          "'$use_post_ffw_norm:false','use_post_attention_norm':'$use_post_attention_norm:false',"
          "'logit_soft_cap':'$attention_logit_soft_cap:null','query_head_dim_normalize':"
          "'$query_head_dim_normalize:true','use_sliding_window_attention':'$even use_sliding_window_attention:false',"
          "'sliding_window_size':'$sliding_window_size:4096'",
          ",'padding_mask=padding_mask'"),
      "['final_normalization'," OF_MODEL "gemma.rms_normalization','RMSNormalization',{'epsilon':"
      "'$layer_norm_epsilon:1e-6'},['<']]"}},
    {CLQ_HUB "models.f_net.f_net_backbone",
     "FNetBackbone",
     "token_ids segment_ids",
     "pooled_dense <",
     {TOKENS(NORMAL("0.02"), "true"), PLACES(NORMAL("0.02"), "512"), SEGMENTS(NORMAL("0.02"), "4"),
      ADD("'token_embedding','position_embedding','segment_embedding'"), NORM("embeddings_layer_norm", "1e-12"),
      "['embedding_projection'," KERAS ",'Dense',{'units':'$hidden_dim'," FNET_INITIALIZERS "},['<']]",
      DROPOUT("embeddings_dropout", "0.1"),
      BLOCK("f_net_layer", OF_MODELING "f_net_encoder','FNetEncoder'",
            "'dropout':'$dropout:0.1','activation':" APPROXIMATE ",'layer_norm_epsilon':1e-12," FNET_INITIALIZERS, ""),
      POOLED(FNET_INITIALIZERS)}},
    {CLQ_HUB "models.bert.bert_backbone",
     "BertBackbone",
     "token_ids segment_ids padding_mask",
     "pooled_dense <",
     {TOKENS(CUT_NORMAL, "true"), PLACES(CUT_NORMAL, "512"), SEGMENTS(CUT_NORMAL, "2"),
      ADD("'token_embedding','position_embedding','segment_embedding'"), NORM("embeddings_layer_norm", "1e-12"),
      DROPOUT("embeddings_dropout", "0.1"), ENCODERS(APPROXIMATE, "1e-12", "0.1"),
      POOLED("'kernel_initializer':" CUT_NORMAL)}},
    ROBERTA("roberta.roberta_backbone", "RobertaBackbone"),
    ROBERTA("xlm_roberta.xlm_roberta_backbone", "XLMRobertaBackbone"),
    {CLQ_HUB "models.distil_bert.distil_bert_backbone",
     "DistilBertBackbone",
     "token_ids padding_mask",
     "<",
     {TOKENS_AND_PLACES("token_and_position_embedding", "512"), NORM("embeddings_layer_norm", "1e-12"),
      DROPOUT("embeddings_dropout", "0.1"), ENCODERS("'gelu'", "1e-12", "0.1")}},
    {CLQ_HUB "models.deberta_v3.deberta_v3_backbone",
     "DebertaV3Backbone",
     "token_ids padding_mask",
     "<",
     {TOKENS(CUT_NORMAL, "true"), NORM("embeddings_layer_norm", "1e-7"),
      "['rel_embedding'," OF_MODEL "deberta_v3.relative_embedding','RelativeEmbedding',{'hidden_dim':'$hidden_dim',"
      "'bucket_size':'$bucket_size:256','layer_norm_epsilon':1e-7,'kernel_initializer':" CUT_NORMAL "},['<']]",
      "['embeddings_dropout'," KERAS ",'Dropout',{'rate':'$dropout:0.1'},['embeddings_layer_norm']]",
      BLOCK("disentangled_attention_encoder_layer",
            OF_MODEL "deberta_v3.disentangled_attention_encoder','DisentangledAttentionEncoder'",
            "'num_heads':'$num_heads','max_position_embeddings':'$max_sequence_length:512','bucket_size':"
            "'$bucket_size:256','dropout':'$dropout:0.1','activation':'gelu','layer_norm_epsilon':1e-7,"
            "'kernel_initializer':" CUT_NORMAL,
            ",'rel_embeddings=rel_embedding','padding_mask=padding_mask'")}},
};

/* ---- from a row to a Functional model ---- */

enum { BLOCKS_MOST = 1000 };
typedef struct building {
    json_t *config; /* the file's; borrowed */
    json_t *left;   /* its keys that nobody has taken yet; owned */
    json_t *layers;
    const char *last;   /* the name of the layer before; borrowed from `layers` */
    const char *stack;  /* the name of the last of num_layers layers */
    long number, index; /* num_layers; which of these layers is added */
    clq_status status;
} building;

static void refuse(building *b, clq_status status, const char *key, const char *what) {
    if (b->status == CLQ_OK) b->status = clq_fail(status, "config.%.60s %s", key, what);
}

/* result: what one of Jansson's functions returned; not 0: memory is out. */
static void check_memory(building *b, int result) {
    if (result != 0 && b->status == CLQ_OK) b->status = clq_fail(CLQ_ERROR_MEMORY, "config: out of memory");
}

static json_t *parse(building *b, const char *text) {
    json_t *parsed = NULL;
    if (b->status == CLQ_OK) b->status = clq_json_parse(text, strlen(text), 16, "backbone", &parsed);
    return parsed;
}

/* Takes the value of "$key" or "$key:default". text: what follows the '$'. */
static json_t *take(building *b, const char *text) {
    char key[64];
    const size_t length = strcspn(text, ":");
    (void)snprintf(key, sizeof key, "%.*s", (int)length, text);
    json_t *value = json_object_get(b->config, key);
    (void)json_object_del(b->left, key);
    if (value && !json_is_null(value)) {
        if (json_is_object(value) || json_is_array(value))
            refuse(b, CLQ_ERROR_FORMAT, key, "should be a number or a word");
        return json_incref(value);
    }
    if (text[length] == '\0') refuse(b, CLQ_ERROR_FORMAT, key, "is missing");
    if (value || text[length] == '\0') return json_null(); /* the file says null, which may mean another thing */
    (void)snprintf(key, sizeof key, "[%s]", text + length + 1);
    json_t *list = parse(b, key), *otherwise = json_incref(json_array_get(list, 0));
    json_decref(list);
    return otherwise;
}

/* What follows a word and a space at the text's beginning; NULL: the text begins otherwise. */
static const char *behind(const char *text, const char *word) {
    const size_t length = strlen(word);
    return strncmp(text, word, length) == 0 && text[length] == ' ' ? text + length + 1 : NULL;
}

/* Refuses the value of "key" or "key:default". */
static void refuse_value(building *b, const char *text, const char *what) {
    char key[64];
    (void)snprintf(key, sizeof key, "%.*s", (int)strcspn(text, ":"), text);
    refuse(b, CLQ_ERROR_FORMAT, key, what);
}

static json_t *make_root(building *b, const char *text) {
    json_t *value = take(b, text), *made = NULL;
    const double number = json_number_value(value); /* 0 if it is no number */
    if (number > 0)
        made = json_real(sqrt(number));
    else
        refuse_value(b, text, "should be a number above 0");
    json_decref(value);
    return made;
}

static json_t *make_even(building *b, const char *text) {
    json_t *value = take(b, text);
    if (value && !json_is_boolean(value) && !json_is_null(value)) refuse_value(b, text, "should be true or false");
    json_t *made = json_boolean(json_is_true(value) && b->index % 2 == 0);
    json_decref(value);
    return made;
}

/* As take; but with "sqrt" or "even" in front, gives what is made of the value. */
static json_t *take_made(building *b, const char *text) {
    const char *root = behind(text, "sqrt"), *even = behind(text, "even");
    return root ? make_root(b, root) : even ? make_even(b, even) : take(b, text);
}

static json_t *fill(building *b, json_t *from) {
    const char *key, *text = json_string_value(from);
    json_t *item, *filled;
    size_t i;
    if (text && *text == '$') return take_made(b, text + 1);
    if (json_is_array(from)) {
        filled = json_array();
        json_array_foreach(from, i, item) filled = clq_json_append(filled, fill(b, item));
        return filled;
    }
    if (!json_is_object(from)) return json_incref(from);
    filled = json_object();
    json_object_foreach(from, key, item) filled = clq_json_put(filled, key, fill(b, item));
    return filled;
}

static void add_input(building *b, json_t *input, json_t *arguments, json_t *keywords) {
    const char *text = json_string_value(input), *equal = text ? strchr(text, '=') : NULL;
    char key[64];
    if (!text) { /* it is no tensor */
        check_memory(b, json_array_append(arguments, input));
    } else if (*text == '$') {
        check_memory(b, json_array_append_new(arguments, take_made(b, text + 1)));
    } else if (equal) {
        (void)snprintf(key, sizeof key, "%.*s", (int)(equal - text), text);
        check_memory(b, json_object_set_new(keywords, key, clq_block_refer(equal + 1, 0)));
    } else {
        check_memory(b, json_array_append_new(arguments, clq_block_refer(strcmp(text, "<") == 0 ? b->last : text, 0)));
    }
}

static void add_one(building *b, json_t *layer, const char *name) {
    json_t *arguments = json_array(), *keywords = json_object(), *input;
    size_t i;
    json_array_foreach(json_array_get(layer, 4), i, input) add_input(b, input, arguments, keywords);
    json_t *config = clq_json_put(fill(b, json_array_get(layer, 3)), "name", json_string(name));
    json_t *written =
        clq_keras_write_layer(json_string_value(json_array_get(layer, 1)), json_string_value(json_array_get(layer, 2)),
                              name, config, json_pack("[{s:o, s:o}]", "args", arguments, "kwargs", keywords));
    check_memory(b, written ? json_array_append_new(b->layers, written) : -1);
    if (b->status != CLQ_OK) return;
    b->last = json_string_value(json_object_get(written, "name"));
}

static void add_layer(building *b, const char *row) {
    char *text = clq_strdup(row), name[CLQ_LAYER_NAME_MAX];
    for (char *c = text; c && *c; c++)
        if (*c == '\'') *c = '"';
    check_memory(b, text ? 0 : -1);
    json_t *layer = text ? parse(b, text) : NULL;
    clq_free(text);
    if (!layer) return;
    const char *stem = json_string_value(json_array_get(layer, 0)), *number = strchr(stem, '#');
    if (!number) add_one(b, layer, stem);
    for (long i = 0; number && i < b->number && b->status == CLQ_OK; i++) {
        (void)snprintf(name, sizeof name, "%.*s%ld", (int)(number - stem), stem, i);
        b->index = i;
        add_one(b, layer, name);
    }
    if (number) b->stack = b->last;
    json_decref(layer);
}

static void add_inputs(building *b, const char *names, json_t *starts) {
    char name[64];
    for (size_t length; *names; names += length + (names[length] == ' ')) {
        length = strcspn(names, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, names);
        check_memory(
            b, json_array_append_new(b->layers, json_pack("{s:s, s:s, s:s, s:{s:s, s:[n, n]}, s:[]}", "module",
                                                          CLQ_LAYERS, "class_name", "InputLayer", "name", name,
                                                          "config", "name", name, "batch_shape", "inbound_nodes")));
        check_memory(b, json_object_set_new(starts, name, json_pack("[s, i, i]", name, 0, 0)));
    }
}

static json_t *find_outputs(building *b, const char *names) {
    json_t *ends = json_array();
    char name[64];
    for (size_t length; *names; names += length + (names[length] == ' ')) {
        length = strcspn(names, " ");
        (void)snprintf(name, sizeof name, "%.*s", (int)length, names);
        check_memory(b, json_array_append_new(ends, json_pack("[s, i, i]", *name == '<' ? b->stack : name, 0, 0)));
    }
    return ends;
}

/* Refuses the keys that no row has taken. */
static void check_left(building *b) {
    static const char *const common[] = {"name", "trainable", "dtype"};
    const char *key;
    json_t *value;
    for (size_t i = 0; i < CLQ_COUNT_OF(common); i++) (void)json_object_del(b->left, common[i]);
    json_object_foreach(b->left, key, value) if (!json_is_null(value))
        refuse(b, CLQ_ERROR_UNSUPPORTED, key, "is not supported");
}

static const backbone *find_backbone(json_t *root) {
    const char *module = json_string_value(json_object_get(root, "module"));
    for (size_t i = 0; module && i < CLQ_COUNT_OF(backbones); i++)
        if (strcmp(backbones[i].class_name, clq_keras_class(root)) == 0 && strcmp(backbones[i].module, module) == 0)
            return &backbones[i];
    return NULL;
}

bool clq_keras_is_backbone(json_t *root) { return find_backbone(root) != NULL; }
const char *clq_keras_backbone_class(size_t i) { return i < CLQ_COUNT_OF(backbones) ? backbones[i].class_name : NULL; }

clq_status clq_keras_write_backbone(json_t *root, json_t **out) {
    const backbone *row = find_backbone(root);
    json_t *config = json_object_get(root, "config"), *layers = json_object_get(config, "num_layers");
    building b = {.config = config, .left = clq_json_copy(config), .layers = json_array(), .last = "token_ids"};
    json_t *starts = json_object();
    *out = NULL;
    check_memory(&b, b.left && b.layers && starts ? 0 : -1);
    if (b.status == CLQ_OK) b.status = clq_keras_check_common(config, NULL);
    b.number = json_is_integer(layers) ? (long)json_integer_value(layers) : 0;
    if (b.number < 1 || b.number > BLOCKS_MOST) refuse(&b, CLQ_ERROR_FORMAT, "num_layers", "should be 1 to 1000");
    (void)json_object_del(b.left, "num_layers");
    if (b.status == CLQ_OK) add_inputs(&b, row->inputs, starts);
    for (size_t i = 0; i < LAYERS_MOST && row->layers[i] && b.status == CLQ_OK; i++) add_layer(&b, row->layers[i]);
    if (b.status == CLQ_OK) check_left(&b);
    if (b.status == CLQ_OK) {
        *out = json_pack("{s:O, s:O, s:o, s:b}", "layers", b.layers, "input_layers", starts, "output_layers",
                         find_outputs(&b, row->outputs), "trainable",
                         !json_is_false(json_object_get(config, "trainable")));
        check_memory(&b, *out ? 0 : -1);
    }
    if (b.status != CLQ_OK) {
        json_decref(*out);
        *out = NULL;
    }
    json_decref(starts);
    json_decref(b.left);
    json_decref(b.layers);
    return b.status;
}
