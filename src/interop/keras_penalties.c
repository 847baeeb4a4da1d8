/* Penalties on weights, which files have as regularizers: `kernel_regularizer` is of the variable that
 * `kernel_initializer` is of. */
#include "interop/keras.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

typedef struct penalty {
    double l1, l2;
} penalty;

/* A class of Keras's own, whose settings are numbers: its factors. */
static bool is_keras_regularizer(json_t *value) {
    const char *module = json_string_value(json_object_get(value, "module")), *key;
    json_t *config = json_object_get(value, "config"), *number;
    if (json_is_string(value)) return true;
    if (module && strncmp(module, "keras.", 6) != 0) return false;
    if (!json_is_object(config)) return false;
    json_object_foreach(config, key, number) if ((strcmp(key, "l1") != 0 && strcmp(key, "l2") != 0) ||
                                                 !json_is_number(number)) return false;
    return true;
}

static double number_or(json_t *config, const char *key, double otherwise) {
    json_t *value = json_object_get(config, key);
    return value ? json_number_value(value) : otherwise;
}

/* L1, L2 and L1L2, as objects or by name; their factors are 0.01 by default, of L1L2 as an object 0. */
static bool read_penalty(json_t *value, penalty *out) {
    json_t *config = json_object_get(value, "config");
    const char *name = json_is_string(value) ? json_string_value(value) : clq_keras_class(value);
    const bool l1 = strcmp(name, "L1") == 0 || strcmp(name, "l1") == 0,
               l2 = strcmp(name, "L2") == 0 || strcmp(name, "l2") == 0,
               both = strcmp(name, "L1L2") == 0 || strcmp(name, "l1_l2") == 0;
    const double otherwise = both && config ? 0 : 0.01;
    *out = (penalty){l1 || both ? number_or(config, "l1", otherwise) : 0,
                     l2 || both ? number_or(config, "l2", otherwise) : 0};
    return (l1 || l2 || both) && is_keras_regularizer(value);
}

bool clq_keras_find_subject(const char *key, const char *end, char subject[CLQ_KERAS_SUBJECT_MAX]) {
    const size_t length = strlen(key), tail = strlen(end);
    if (length <= tail || length - tail >= CLQ_KERAS_SUBJECT_MAX || strcmp(key + length - tail, end) != 0) return false;
    memcpy(subject, key, length - tail);
    subject[length - tail] = '\0';
    return true;
}

const char *clq_keras_what_of(const clq_layer *layer, const clq_variable *variable) {
    return variable->name + strlen(layer->name) + 1;
}
const clq_variable *clq_keras_variable_at(const clq_model *model, const clq_layer *layer, size_t k) {
    return layer->variables[k] ? &model->variables[layer->variables[k] - 1] : NULL;
}

/* Whether a key's "kernel" or "recurrent" means the variable: by its name, by what is before "_kernel", or, of a layer
 * with parts that each have one, as an attention, by the end of its name. */
static bool is_meant(const char *subject, const char *what) {
    const size_t length = strlen(subject), all = strlen(what);
    if (strcmp(subject, what) == 0) return true;
    if (strncmp(what, subject, length) == 0 && strcmp(what + length, "_kernel") == 0) return true;
    return all > length && what[all - length - 1] == '/' && strcmp(what + all - length, subject) == 0;
}

/* Of a layer without another kernel "depthwise" is that. */
bool clq_keras_means(const clq_layer *layer, const char *subject, const char *what) {
    return is_meant(subject, what) || (strcmp(subject, "depthwise") == 0 && strcmp(what, "kernel") == 0 &&
                                       strncmp(layer->kind->type, "Depthwise", 9) == 0);
}

/* Takes all keys of regularizers but that of the output, which is refused as any key is. */
void clq_keras_take_penalties(clq_keras_attributes *a) {
    const char *key;
    json_t *value;
    char subject[CLQ_KERAS_SUBJECT_MAX];
    penalty ignored;
    json_object_foreach(a->object, key, value) {
        if (!clq_keras_find_subject(key, "_regularizer", subject) || strcmp(subject, "activity") == 0) continue;
        if (!json_is_null(value) && !read_penalty(value, &ignored)) continue; /* refused at the end */
        (void)clq_keras_attribute(a, key);
    }
}

/* A layer may do without these, as without a bias. */
bool clq_keras_is_optional(const char *subject) {
    return strcmp(subject, "bias") == 0 || strcmp(subject, "beta") == 0 || strcmp(subject, "gamma") == 0;
}

/* Of all variables that the key means. */
static void add_penalty(clq_model *model, clq_tensor x, const char *subject, const penalty *found) {
    const clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    bool known = clq_keras_is_optional(subject);
    for (size_t k = 0; k < layer->variable_places; k++) {
        const clq_variable *v = clq_keras_variable_at(model, layer, k);
        if (!v || !clq_keras_means(layer, subject, clq_keras_what_of(layer, v))) continue;
        (void)clq_regularise(model, x, clq_keras_what_of(layer, v), found->l1, found->l2);
        known = true;
    }
    if (!known) (void)clq_regularise(model, x, subject, found->l1, found->l2); /* fails: there is none */
}

void clq_keras_add_penalties(clq_model *model, clq_tensor x, json_t *config) {
    const char *key;
    json_t *value;
    char subject[CLQ_KERAS_SUBJECT_MAX];
    penalty found;
    json_object_foreach(config, key, value) {
        if (!json_is_null(value) && clq_keras_find_subject(key, "_regularizer", subject) && read_penalty(value, &found))
            add_penalty(model, x, subject, &found);
    }
}

/* ---- writing ---- */

/* What all variables that the subject means have; false: they differ. count: how many with a penalty they are. */
static bool find_penalty(const clq_model *model, const clq_layer *layer, const char *subject, penalty *out,
                         size_t *count) {
    bool first = true, same = true;
    *out = (penalty){0};
    for (size_t k = 0; k < layer->variable_places; k++) {
        const clq_variable *v = clq_keras_variable_at(model, layer, k);
        if (!v || !clq_keras_means(layer, subject, clq_keras_what_of(layer, v))) continue;
        same = same && (first || (v->properties.l1 == out->l1 && v->properties.l2 == out->l2));
        *out = (penalty){v->properties.l1, v->properties.l2};
        *count += v->properties.l1 > 0 || v->properties.l2 > 0;
        first = false;
    }
    return same;
}

clq_status clq_keras_write_penalties(const clq_model *model, const clq_layer *layer, json_t **config) {
    size_t written = 0, all = 0;
    bool fits = true;
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        char subject[CLQ_KERAS_SUBJECT_MAX], key[64];
        penalty found;
        if (layer->kind->attributes[i].type != CLQ_ATTRIBUTE_INITIALISER ||
            !clq_keras_find_subject(layer->kind->attributes[i].key, "_initializer", subject))
            continue;
        fits = find_penalty(model, layer, subject, &found, &written) && fits;
        if (!(found.l1 > 0 || found.l2 > 0)) continue;
        (void)snprintf(key, sizeof key, "%s_regularizer", subject);
        *config = clq_json_put(*config, key,
                               json_pack("{s:s, s:s, s:{s:f, s:f}, s:n}", "module", "keras.regularizers", "class_name",
                                         "L1L2", "config", "l1", found.l1, "l2", found.l2, "registered_name"));
    }
    for (size_t k = 0; k < layer->variable_places; k++) {
        const clq_variable *v = clq_keras_variable_at(model, layer, k);
        all += v && (v->properties.l1 > 0 || v->properties.l2 > 0);
    }
    if (fits && written == all) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED,
                    "layer '%s': Keras's %s has no regularizer for the variables that have a penalty, or has one for "
                    "several that have different ones",
                    layer->name, layer->kind->type);
}
