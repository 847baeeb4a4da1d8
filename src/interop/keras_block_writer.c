/* Writing the layers of a block down, and parts that several blocks have. */
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
    w->status = clq_fail(CLQ_UNSUPPORTED, "%s.config.%s: %s", w->path, key, text);
}

json_t *clq_block_refer(const char *layer, int output) { return clq_keras_refer(layer, 0, (uint32_t)output, NULL); }

/* A layer with one use; config and keywords are taken, NULL: none. inputs: names of layers, NULL behind the last. */
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
        w->status = clq_fail(CLQ_MEMORY, "%s: out of memory", w->path);
}

/* Several tensors as one argument, as of Add. */
void clq_block_add_of_list(clq_block_writer *w, const char *class_name, const char *name, json_t *config,
                           const char *const *inputs) {
    clq_block_add(w, CLQ_LAYERS, class_name, name, config, NULL, inputs);
}

json_t *clq_block_value_of(const clq_block_writer *w, const char *key) { return json_object_get(w->config, key); }
json_t *clq_block_value_or(const clq_block_writer *w, const char *key, json_t *otherwise) {
    json_t *value = clq_block_value_of(w, key);
    if (!value || json_is_null(value)) return otherwise;
    json_decref(otherwise);
    return json_incref(value);
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
/* (tokens, channels) of the first input. */
size_t clq_block_channels_of(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    if (x->rank == 2) return x->dims[1];
    if (w->status == CLQ_OK)
        w->status = clq_fail(CLQ_ARGUMENT, "%s: it takes (tokens, channels), not %u axes", w->path, x->rank);
    return 1;
}
/* What divides what; 1 after a refusal. */
size_t clq_block_divide(clq_block_writer *w, size_t all, size_t parts, const char *key) {
    if (parts > 0 && all % parts == 0) return all / parts;
    clq_block_refuse(w, key, "%zu does not divide %zu", parts, all);
    return 1;
}

/* ---- parts that several blocks have ---- */

/* The block gives one tensor. */
const char *const *clq_block_give(clq_block_writer *w, const char *name) {
    w->output[0] = name;
    return w->output;
}

void clq_block_add_norm(clq_block_writer *w, const char *name, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "LayerNormalization", name,
                  json_pack("{s:o}", "epsilon", clq_block_value_or(w, "layer_norm_epsilon", json_real(1e-5))), NULL,
                  CLQ_FROM(from));
}
void clq_block_add_rms(clq_block_writer *w, const char *name, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "RMSNormalization", name,
                  json_pack("{s:o}", "epsilon", clq_block_value_or(w, "layer_norm_epsilon", json_real(1e-5))), NULL,
                  CLQ_FROM(from));
}
void clq_block_add_dropout(clq_block_writer *w, const char *name, double rate, const char *from) {
    clq_block_add(w, CLQ_LAYERS, "Dropout", name, json_pack("{s:f}", "rate", rate), NULL, CLQ_FROM(from));
}
void clq_block_add_sum(clq_block_writer *w, const char *name, const char *a, const char *b) {
    clq_block_add_of_list(w, "Add", name, NULL, CLQ_FROM(a, b));
}
/* Those of the block's kernels and biases. */
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
/* A padding mask (tokens) as one of pairs (1, tokens); of heads (1, 1, tokens). */
void clq_block_add_pairs(clq_block_writer *w, const char *name, const char *mask) {
    clq_block_add(w, CLQ_NUMPY, "ExpandDims", name, json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM(mask));
}
bool clq_block_is_given(const clq_block_writer *w, unsigned input) { return w->use->given & 1u << input; }
json_t *clq_block_mask_keyword(const clq_block_writer *w, unsigned input, const char *key, const char *mask) {
    return clq_block_is_given(w, input) ? json_pack("{s:o}", key, clq_block_refer(mask, 0)) : json_object();
}
