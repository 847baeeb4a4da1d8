/* Activations in a Keras file: by name, as a function of keras_hub, or as a layer that computes what an activation
 * does. */
#include "interop/keras_reading.h"

#include <math.h>
#include <string.h>

/* keras_hub has a function of its own for an activation that Keras has no name for. */
static const char approximate_gelu[] = "keras_hub>gelu_approximate";

static bool is_approximate_gelu(json_t *function) {
    const char *name = json_string_value(json_object_get(function, "config"));
    return strcmp(clq_keras_class(function), "function") == 0 && name && strcmp(name, approximate_gelu) == 0;
}

/* Layers that do what an activation does if their one number is this number. */
static const struct layer_row {
    const char *class_name, *key, *alias; /* alias: what Keras 2 called it, or NULL */
    double fallback, number;              /* fallback: without the key; INFINITY: no limit, also if the key is null */
    clq_activation activation;
} layers[] = {
    {"ReLU", "max_value", NULL, INFINITY, INFINITY, CLQ_ACTIVATION_RELU},
    {"ReLU", "max_value", NULL, INFINITY, 6, CLQ_ACTIVATION_RELU6},
    {"LeakyReLU", "negative_slope", "alpha", 0.3, 0.2, CLQ_ACTIVATION_LEAKY_RELU},
    {"ELU", "alpha", NULL, 1, 1, CLQ_ACTIVATION_ELU},
    {"Softmax", "axis", NULL, -1, -1, CLQ_ACTIVATION_SOFTMAX},
};

/* Whether the configuration has no keys but the row's, those of every layer, and others that are null or 0, as ReLU's
 * are. */
static bool is_plain(json_t *config, const struct layer_row *row) {
    static const char *const common[] = {"name", "trainable", "dtype"};
    const char *key;
    json_t *value;
    json_object_foreach(config, key, value) {
        bool known = strcmp(key, row->key) == 0 || (row->alias && strcmp(key, row->alias) == 0);
        for (size_t i = 0; i < CLQ_COUNT_OF(common); i++) known = known || strcmp(key, common[i]) == 0;
        if (!known && !json_is_null(value) && !(json_is_number(value) && json_number_value(value) == 0)) return false;
    }
    return true;
}

/* Whether the number is the row's. Keras 2 wrote numbers of float32, so they are compared as such. */
static bool has_number(json_t *config, const struct layer_row *row) {
    json_t *value = json_object_get(config, row->key);
    if (!value && row->alias) value = json_object_get(config, row->alias);
    if (json_is_null(value) && isinf(row->fallback)) value = NULL;
    if (value && !json_is_number(value)) return false;
    return (float)(value ? json_number_value(value) : row->fallback) == (float)row->number;
}

static bool find_layer(json_t *object, clq_activation *out) {
    const char *module = json_string_value(json_object_get(object, "module"));
    json_t *config = json_object_get(object, "config");
    if (module && strcmp(module, "keras.layers") != 0) return false;
    if (strcmp(clq_keras_class(object), "Activation") == 0) {
        const char *name = json_string_value(json_object_get(config, "activation"));
        return name && clq_activation_named(name, out);
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(layers); i++) {
        const struct layer_row *row = &layers[i];
        *out = row->activation;
        if (strcmp(clq_keras_class(object), row->class_name) == 0 && has_number(config, row) && is_plain(config, row))
            return true;
    }
    return false;
}

static void read_object(const clq_keras_reading *r, json_t *object, clq_activation *out) {
    (void)clq_keras_attribute(r->a, r->row->key);
    if (is_approximate_gelu(object)) {
        *out = CLQ_ACTIVATION_GELU_APPROXIMATE;
    } else if (!find_layer(object, out)) {
        *out = CLQ_ACTIVATION_LINEAR;
        clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key,
                         "this %.60s as an object is not supported: let it be the layer behind",
                         clq_keras_class(object));
    }
}

void clq_keras_read_activation(const clq_keras_reading *r, void *member) {
    const clq_activation otherwise = (clq_activation)r->row->fallback;
    json_t *given = json_object_get(r->a->object, r->row->key);
    clq_activation *out = member;
    if (json_is_object(given) && *clq_keras_class(given)) {
        read_object(r, given, out);
        return;
    }
    const char *name = clq_keras_text(r->a, r->row->key, clq_activation_row_of(otherwise)->name);
    *out = CLQ_ACTIVATION_LINEAR;
    if (clq_activation_named(name, out)) return;
    clq_text known = {0};
    for (unsigned i = 0; clq_activation_row_of((clq_activation)i); i++)
        clq_text_add(&known, "%s%s", i ? ", " : "", clq_activation_row_of((clq_activation)i)->name);
    clq_keras_refuse(r->a, CLQ_ERROR_UNSUPPORTED, r->row->key, "'%.60s' is not supported; expected %s", name,
                     known.data ? known.data : "others");
    clq_free(known.data);
}

json_t *clq_keras_write_activation(const clq_keras_writing *w, const void *member) {
    const clq_activation activation = *(const clq_activation *)member;
    (void)w;
    if (activation != CLQ_ACTIVATION_GELU_APPROXIMATE) return json_string(clq_activation_row_of(activation)->name);
    return json_pack("{s:s, s:s, s:s, s:s}", "module", "builtins", "class_name", "function", "config", approximate_gelu,
                     "registered_name", "function");
}
