/* Penalties on variables, which files have as regularizers. */
#include "interop/keras.h"

#include <string.h>

/* Whether a regularizer is one of Keras's own, whose only settings are its factors, l1 and l2. */
static bool is_keras_regularizer(json_t *value) {
    const char *key;
    json_t *config = json_object_get(value, "config"), *number;
    if (json_is_string(value)) return true;
    if (!clq_keras_is_own(value) || !json_is_object(config)) return false;
    json_object_foreach(config, key, number) if ((strcmp(key, "l1") != 0 && strcmp(key, "l2") != 0) ||
                                                 !json_is_number(number)) return false;
    return true;
}

static double number_or(json_t *config, const char *key, double otherwise) {
    json_t *value = json_object_get(config, key);
    return value ? json_number_value(value) : otherwise;
}

/* Reads L1, L2 and L1L2, as objects or by name. Their factors are 0.01 by default, but 0 for an L1L2 as an object. */
static bool read_penalty(json_t *value, clq_properties *out) {
    json_t *config = json_object_get(value, "config");
    const char *name = json_is_string(value) ? json_string_value(value) : clq_keras_class(value);
    const bool l1 = strcmp(name, "L1") == 0 || strcmp(name, "l1") == 0,
               l2 = strcmp(name, "L2") == 0 || strcmp(name, "l2") == 0,
               both = strcmp(name, "L1L2") == 0 || strcmp(name, "l1_l2") == 0;
    const double otherwise = both && config ? 0 : 0.01;
    out->l1 = l1 || both ? number_or(config, "l1", otherwise) : 0;
    out->l2 = l2 || both ? number_or(config, "l2", otherwise) : 0;
    return (l1 || l2 || both) && is_keras_regularizer(value);
}

static void give(clq_model *model, clq_tensor x, const char *variable, const clq_properties *found) {
    (void)clq_regularise(model, x, variable, found->l1, found->l2);
}

static bool is_same(const clq_properties *a, const clq_properties *b) { return a->l1 == b->l1 && a->l2 == b->l2; }
static bool is_on(const clq_properties *found) { return found->l1 > 0 || found->l2 > 0; }

static json_t *write_penalty(const clq_properties *found) {
    return json_pack("{s:s, s:s, s:{s:f, s:f}, s:n}", "module", "keras.regularizers", "class_name", "L1L2", "config",
                     "l1", found->l1, "l2", found->l2, "registered_name");
}

/* "activity_regularizer" is about a layer's output; keras_layers.c refuses it. */
const clq_keras_property clq_keras_penalty = {.end = "_regularizer",
                                              .one = "a penalty",
                                              .besides = "activity",
                                              .read = read_penalty,
                                              .give = give,
                                              .is_same = is_same,
                                              .is_on = is_on,
                                              .write = write_penalty};
