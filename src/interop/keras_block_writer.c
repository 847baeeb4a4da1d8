/* Writes down the layers of a block, and parts that several blocks have. */
#include "interop/keras_blocks.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- writing layers down ---- */

void clq_block_refuse(clq_block_writer *w, const char *key, const char *format, ...) {
    char text[200];
    va_list arguments;
    if (w->status != CLQ_OK) return;
    va_start(arguments, format);
    clq_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    w->status = clq_fail(CLQ_ERROR_UNSUPPORTED, "%s.config.%s: %s", w->path, key, text);
}

json_t *clq_block_refer(const char *layer, int output) { return clq_keras_refer(layer, 0, (uint32_t)output, NULL); }

/* Adds a layer with one call. Takes config and keywords; NULL: none. inputs: names of the layers that the call reads;
 * NULL after the last. */
void clq_block_add(clq_block_writer *w, const char *module, const char *class_name, const char *name, json_t *config,
                   json_t *keywords, const char *const *inputs) {
    json_t *arguments = json_array();
    if (!config) config = json_object();
    if (!keywords) keywords = json_object();
    for (size_t i = 0; inputs[i]; i++) (void)json_array_append_new(arguments, clq_block_refer(inputs[i], 0));
    (void)json_object_set_new(config, "name", json_string(name));
    json_t *layer = clq_keras_write_layer(module, class_name, name, config,
                                          json_pack("[{s:o, s:o}]", "args", arguments, "kwargs", keywords));
    if (!layer || json_array_append_new(w->layers, layer) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}

/* Adds a layer of Keras that takes a list of tensors, such as Add. They are written as several arguments, which the
 * reader takes for the list. */
void clq_block_add_of_list(clq_block_writer *w, const char *class_name, const char *name, json_t *config,
                           const char *const *inputs) {
    clq_block_add(w, CLQ_LAYERS, class_name, name, config, NULL, inputs);
}

/* The layer of this name; the last layer if name is NULL; borrowed. */
static json_t *find_layer(const clq_block_writer *w, const char *name) {
    size_t i;
    json_t *layer, *found = json_array_get(w->layers, json_array_size(w->layers) - 1);
    json_array_foreach(w->layers, i, layer) {
        const char *other = json_string_value(json_object_get(layer, "name"));
        if (name && other && strcmp(other, name) == 0) found = layer;
    }
    return found;
}
static json_t *last_call(const clq_block_writer *w) {
    return json_array_get(json_object_get(find_layer(w, NULL), "inbound_nodes"), 0);
}

void clq_block_use_again(clq_block_writer *w, const char *name, const char *input) {
    json_t *node = json_pack("{s:[o], s:{}}", "args", clq_block_refer(input, 0), "kwargs");
    if (json_array_append_new(json_object_get(find_layer(w, name), "inbound_nodes"), node) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}
void clq_block_read_again(clq_block_writer *w) {
    json_t *tensor = json_array_get(json_object_get(last_call(w), "args"), 0);
    json_t *history = json_object_get(json_object_get(tensor, "config"), "keras_history");
    if (json_array_set_new(history, 1, json_integer(1)) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}
void clq_block_append_argument(clq_block_writer *w, json_t *argument) {
    if (json_array_append_new(json_object_get(last_call(w), "args"), argument) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}
void clq_block_set_keyword(clq_block_writer *w, const char *key, json_t *value) {
    if (json_object_set_new(json_object_get(last_call(w), "kwargs"), key, value) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}
void clq_block_set(clq_block_writer *w, const char *key, json_t *value) {
    if (json_object_set_new(json_object_get(find_layer(w, NULL), "config"), key, value) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}
void clq_block_note_store(clq_block_writer *w, const char *store) {
    if (json_object_set_new(find_layer(w, NULL), "store", json_string(store)) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}

void clq_block_note_itself(clq_block_writer *w) {
    clq_block_note_store(w, "");
    if (json_object_set_new(find_layer(w, NULL), "itself", json_true()) != 0)
        w->status = clq_fail(CLQ_ERROR_MEMORY, "%s: out of memory", w->path);
}

const char *const clq_block_inputs_names[] = {"inputs", NULL};

json_t *clq_block_value_of(const clq_block_writer *w, const char *key) { return json_object_get(w->config, key); }
json_t *clq_block_value_or(const clq_block_writer *w, const char *key, json_t *otherwise) {
    json_t *value = clq_block_value_of(w, key);
    if (!value || json_is_null(value)) return otherwise;
    json_decref(otherwise);
    return json_incref(value);
}
json_t *clq_block_take_activation(const clq_block_writer *w, const char *key, const char *otherwise) {
    const json_t *value = clq_block_value_of(w, key);
    return clq_block_value_or(w, key, json_string(value ? "linear" : otherwise));
}
long clq_block_whole(clq_block_writer *w, const char *key, long otherwise) {
    json_t *value = clq_block_value_of(w, key);
    if (!value || json_is_null(value)) {
        if (otherwise < 0) clq_block_refuse(w, key, "is missing");
        return otherwise < 0 ? 1 : otherwise;
    }
    if (json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) <= INT32_MAX)
        return (long)json_integer_value(value);
    clq_block_refuse(w, key, "should be a whole number");
    return 1; /* so that no loop or block of memory depends on what was refused */
}
double clq_block_number(clq_block_writer *w, const char *key, double otherwise) {
    json_t *value = clq_block_value_of(w, key);
    if (!value || json_is_null(value)) return otherwise;
    if (!json_is_number(value)) clq_block_refuse(w, key, "should be a number");
    return json_number_value(value);
}
bool clq_block_flag(clq_block_writer *w, const char *key, bool otherwise) {
    json_t *value = clq_block_value_of(w, key);
    if (!value || json_is_null(value)) return otherwise;
    if (!json_is_boolean(value)) clq_block_refuse(w, key, "should be true or false");
    return json_is_true(value);
}

const clq_shape *clq_block_shape_of(const clq_block_writer *w, unsigned input) {
    return &w->use->model->tensors[w->use->inputs[input].id - 1].shape;
}

/* The channels of the first input, which must have the shape (tokens, channels). 1 after a refusal. */
size_t clq_block_channels_of(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    if (x->rank == 2) return x->dims[1];
    if (w->status == CLQ_OK)
        w->status = clq_fail(CLQ_ERROR_ARGUMENT, "%s: it takes (tokens, channels), not %u axes", w->path, x->rank);
    return 1;
}
size_t clq_block_same_channels(clq_block_writer *w, const char *key) {
    const size_t channels = clq_block_channels_of(w), repeated = (size_t)clq_block_whole(w, key, (long)channels);
    if (repeated != channels) clq_block_refuse(w, key, "%zu should be its input's channels, %zu", repeated, channels);
    return channels;
}
/* all / parts, without a remainder; 1 after a refusal. */
size_t clq_block_divide(clq_block_writer *w, size_t all, size_t parts, const char *key) {
    if (parts > 0 && all % parts == 0) return all / parts;
    clq_block_refuse(w, key, "%zu does not divide %zu", parts, all);
    return 1;
}

/* ---- parts that several blocks have ---- */

/* Makes the output of layer `name` the block's only output. */
const char *const *clq_block_give(clq_block_writer *w, const char *name) {
    (void)snprintf(w->given, sizeof w->given, "%s", name);
    w->output[0] = w->given;
    return w->output;
}

/* epsilon: if the block has no layer_norm_epsilon. */
void clq_block_add_norm_of(clq_block_writer *w, const char *name, double epsilon, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "LayerNormalization", name,
                  json_pack("{s:o}", "epsilon", clq_block_value_or(w, "layer_norm_epsilon", json_real(epsilon))), NULL,
                  CLQ_FROM(from));
}
void clq_block_add_norm(clq_block_writer *w, const char *name, const char *from) {
    clq_block_add_norm_of(w, name, 1e-5, from);
}
void clq_block_add_rms(clq_block_writer *w, const char *name, const char *from) {
    const double epsilon = clq_block_number(w, "layer_norm_epsilon", 1e-5);
    clq_block_add_rms_of(w, name, epsilon, from);
}
void clq_block_add_rms_of(clq_block_writer *w, const char *name, double epsilon, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "RMSNormalization", name, json_pack("{s:f}", "epsilon", epsilon), NULL,
                  CLQ_FROM(from));
}
void clq_block_add_dropout(clq_block_writer *w, const char *name, double rate, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "Dropout", name, json_pack("{s:f}", "rate", rate), NULL, CLQ_FROM(from));
}
void clq_block_add_activation(clq_block_writer *w, const char *name, json_t *activation, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "Activation", name, json_pack("{s:o}", "activation", activation), NULL,
                  CLQ_FROM(from));
}
void clq_block_add_sum(clq_block_writer *w, const char *name, const char *a, const char *b) {
    clq_block_add_of_list(w, "Add", name, NULL, CLQ_FROM(a, b));
}
/* Copies the block's initializers of kernels and, if asked, of biases into config. */
void clq_block_take_initializers(const clq_block_writer *w, json_t *config, bool bias) {
    static const char *const keys[] = {"kernel_initializer", "bias_initializer"};
    for (unsigned i = 0; i < (bias ? 2u : 1u); i++)
        if (clq_block_value_of(w, keys[i])) (void)json_object_set(config, keys[i], clq_block_value_of(w, keys[i]));
}
json_t *clq_block_dense_config(const clq_block_writer *w, size_t units, json_t *activation, bool bias) {
    json_t *config = json_pack("{s:I, s:b, s:o}", "units", (json_int_t)units, "use_bias", bias, "activation",
                               activation ? activation : json_string("linear"));
    clq_block_take_initializers(w, config, bias);
    return config;
}
void clq_block_add_dense(clq_block_writer *w, const char *name, size_t units, json_t *activation, bool bias,
                         const char *from) {
    clq_block_add(w, CLQ_LAYERS, "Dense", name, clq_block_dense_config(w, units, activation, bias), NULL,
                  CLQ_FROM(from));
}
void clq_block_add_attention(clq_block_writer *w, const char *name, size_t heads, size_t key, double dropout,
                             json_t *keywords, const char *query, const char *value) {
    json_t *config =
        json_pack("{s:I, s:I, s:f}", "num_heads", (json_int_t)heads, "key_dim", (json_int_t)key, "dropout", dropout);
    clq_block_take_initializers(w, config, true);
    clq_block_add(w, CLQ_LAYERS, "MultiHeadAttention", name, config, keywords, CLQ_FROM(query, value));
}
void clq_block_add_learned(clq_block_writer *w, const char *name, size_t rows, size_t channels, bool behind_one,
                           json_t *initializer, const char *from) {
    clq_block_add(w, "clique", "LearnedRows", name,
                  json_pack("{s:I, s:I, s:b, s:o}", "rows", (json_int_t)rows, "channels", (json_int_t)channels,
                            "behind_one", behind_one, "initializer", initializer),
                  NULL, CLQ_FROM(from));
}
json_t *clq_block_normal(double deviation) {
    return json_pack("{s:s, s:{s:f, s:f}}", "class_name", "RandomNormal", "config", "mean", 0.0, "stddev", deviation);
}
/* Turns a padding mask (tokens) into a mask of pairs (1, tokens), and that into a mask for all heads (1, 1, tokens). */
void clq_block_add_pairs(clq_block_writer *w, const char *name, const char *mask) {
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", name, json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM(mask));
}
bool clq_block_is_given(const clq_block_writer *w, unsigned input) { return w->use->given & 1u << input; }
json_t *clq_block_mask_keyword(const clq_block_writer *w, unsigned input, const char *key, const char *mask) {
    return clq_block_is_given(w, input) ? json_pack("{s:o}", key, clq_block_refer(mask, 0)) : json_object();
}
bool clq_block_keyword_flag(const clq_block_writer *w, const char *key, bool otherwise) {
    json_t *value = json_object_get(w->use->keywords, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* ---- parts of attention by heads ---- */

void clq_block_add_heads(clq_block_writer *w, const char *name, const char *equation, size_t heads, size_t width,
                         const char *bias, const char *from) {
    json_t *config =
        json_pack("{s:s, s:[n, I, I]}", "equation", equation, "output_shape", (json_int_t)heads, (json_int_t)width);
    if (bias) (void)json_object_set_new(config, "bias_axes", json_string(bias));
    clq_block_take_initializers(w, config, bias != NULL);
    clq_block_add(w, CLQ_LAYERS, "EinsumDense", name, config, NULL, CLQ_FROM(from));
}

void clq_block_add_rotary(clq_block_writer *w, const char *name, double wavelength, double factor, const char *from) {
    clq_block_add(w, CLQ_HUB "layers.modeling.rotary_embedding", "RotaryEmbedding", name,
                  json_pack("{s:f, s:f}", "max_wavelength", wavelength, "scaling_factor", factor), NULL,
                  CLQ_FROM(from));
}

bool clq_block_has_mask(const clq_block_writer *w, unsigned input) {
    *w->use->heeded |= 1u << input;
    return w->use->model->tensors[w->use->inputs[input].id - 1].mask;
}

size_t clq_block_take_window(clq_block_writer *w, const char *key, long otherwise) {
    const json_t *value = clq_block_value_of(w, key);
    if (json_is_integer(value) && json_integer_value(value) == 0) clq_block_refuse(w, key, "should be above 0");
    return (size_t)clq_block_whole(w, key, otherwise);
}

void clq_block_refuse_carried(clq_block_writer *w, const char *mask) {
    if (w->status == CLQ_OK && clq_block_has_mask(w, 0))
        w->status =
            clq_fail(CLQ_ERROR_UNSUPPORTED,
                     "%s: a mask that its input carries is not supported: drop mask_zero and give %s", w->path, mask);
}
const char *clq_block_add_mask(clq_block_writer *w, const char *mask) {
    clq_block_refuse_carried(w, mask); /* most blocks pass it on */
    if (!clq_block_is_given(w, 1)) return NULL;
    clq_block_add_pairs(w, "pairs", mask);
    clq_block_add_pairs(w, "pairs_of_heads", "pairs");
    return "pairs_of_heads";
}

void clq_block_add_attended(clq_block_writer *w, json_t *config, const char *mask, const char *query, const char *key,
                            const char *value) {
    (void)json_object_set_new(config, "is_causal", json_true());
    clq_block_add(w, CLQ_NN, "DotProductAttention", "attended", config,
                  mask ? json_pack("{s:o}", "mask", clq_block_refer(mask, 0)) : NULL, CLQ_FROM(query, key, value));
}

void clq_block_take_channels(clq_block_writer *w, const char *name, size_t first, size_t end, const char *from) {
    json_t *all = json_pack("{s:s, s:{s:n, s:n, s:n}}", "class_name", "__slice__", "config", "start", "stop", "step");
    clq_block_add(w, CLQ_NUMPY, "GetItem", name, NULL, NULL, CLQ_FROM(from));
    clq_block_append_argument(w,
                              json_pack("[O, O, o, {s:s, s:{s:I, s:I, s:n}}]", all, all, all, "class_name", "__slice__",
                                        "config", "start", (json_int_t)first, "stop", (json_int_t)end, "step"));
}

void clq_block_add_by_head(clq_block_writer *w, const char *name, const char *between, const char *from) {
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", between, json_pack("{s:i}", "axis", -1), NULL, CLQ_FROM(from));
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", name, json_pack("{s:i}", "axis", -1), NULL, CLQ_FROM(between));
}

void clq_block_count_tokens(clq_block_writer *w, const char *x) {
    clq_block_add(w, CLQ_NUMPY, "Max", "largest", json_pack("{s:i}", "axis", -1), NULL, CLQ_FROM(x));
    clq_block_add(w, CLQ_NUMPY, "OnesLike", "tokens", NULL, NULL, CLQ_FROM("largest"));
    clq_block_add(w, CLQ_NUMPY, "Cumsum", "counts", json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM("tokens"));
}
