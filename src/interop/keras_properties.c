/* Properties that the layers of a file give their variables, by keys that have one ending for each property:
 * `kernel_regularizer` is about the variable that `kernel_initializer` is about. Each property has a row, by which it
 * is read and written. */
#include "interop/keras.h"

#include <stdio.h>
#include <string.h>

static const clq_keras_property *const rows[] = {&clq_keras_penalty, &clq_keras_constraint};

/* ---- which variables a key means ---- */

enum { SUBJECT_MAX = 40 };

/* "kernel_regularizer" has the subject "kernel" by the end "_regularizer"; false: the key has another end. */
static bool find_subject(const char *key, const char *end, char subject[SUBJECT_MAX]) {
    const size_t length = strlen(key), tail = strlen(end);
    if (length <= tail || length - tail >= SUBJECT_MAX || strcmp(key + length - tail, end) != 0) return false;
    memcpy(subject, key, length - tail);
    subject[length - tail] = '\0';
    return true;
}

/* The subject of a key that has the row's ending. False: the key has another ending, or is about no variable. */
static bool is_of(const clq_keras_property *row, const char *key, char subject[SUBJECT_MAX]) {
    return find_subject(key, row->end, subject) && !(row->besides && strcmp(subject, row->besides) == 0);
}

/* The variable's name within its layer: "kernel". */
static const char *what_of(const clq_layer *layer, const clq_variable *variable) {
    return variable->name + strlen(layer->name) + 1;
}

/* Whether a key's subject, as "kernel" or "recurrent", means the variable of this name. The subject is the name, or the
 * name without its "_kernel". In a layer with parts that each have such a variable, as an attention, it is the end of
 * the name, after a '/'. */
static bool is_meant(const char *subject, const char *what) {
    const size_t length = strlen(subject), all = strlen(what);
    if (strcmp(subject, what) == 0) return true;
    if (strncmp(what, subject, length) == 0 && strcmp(what + length, "_kernel") == 0) return true;
    return all > length && what[all - length - 1] == '/' && strcmp(what + all - length, subject) == 0;
}

/* The same. In a depthwise layer, which has no other kernel, "depthwise" means the kernel. */
static bool means(const clq_layer *layer, const char *subject, const char *what) {
    return is_meant(subject, what) || (strcmp(subject, "depthwise") == 0 && strcmp(what, "kernel") == 0 &&
                                       strncmp(layer->kind->type, "Depthwise", 9) == 0);
}

/* Whether a layer may do without this variable. */
static bool is_optional(const char *subject) {
    return strcmp(subject, "bias") == 0 || strcmp(subject, "beta") == 0 || strcmp(subject, "gamma") == 0;
}

/* The layer's next variable, from place *k on, that the subject means; a NULL subject means all. NULL: there are no
 * more. */
static const clq_variable *next(const clq_model *model, const clq_layer *layer, const char *subject, size_t *k) {
    while (*k < layer->variable_places) {
        const uint32_t number = layer->variables[(*k)++];
        const clq_variable *v = number ? &model->variables[number - 1] : NULL;
        if (v && (!subject || means(layer, subject, what_of(layer, v)))) return v;
    }
    return NULL;
}

/* ---- reading ---- */

bool clq_keras_is_own(json_t *object) {
    const char *module = json_string_value(json_object_get(object, "module"));
    return !module || strncmp(module, "keras.", 6) == 0;
}

static void take(const clq_keras_property *row, clq_keras_attributes *a) {
    const char *key;
    json_t *value;
    char subject[SUBJECT_MAX];
    clq_properties ignored;
    json_object_foreach(a->object, key, value) {
        if (!is_of(row, key, subject)) continue;
        if (!json_is_null(value) && !row->read(value, &ignored)) continue; /* refused at the end */
        (void)clq_keras_attribute(a, key);
    }
}

void clq_keras_take_properties(clq_keras_attributes *a) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) take(rows[i], a);
}

/* Gives the property to all variables that the subject means. */
static void give(const clq_keras_property *row, clq_model *model, clq_tensor x, const char *subject,
                 const clq_properties *found) {
    const clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    bool known = is_optional(subject);
    const clq_variable *v;
    for (size_t k = 0; (v = next(model, layer, subject, &k));) {
        row->give(model, x, what_of(layer, v), found);
        known = true;
    }
    if (!known) row->give(model, x, subject, found); /* fails: there is no such variable */
}

void clq_keras_give_properties(clq_model *model, clq_tensor x, json_t *config) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) {
        const char *key;
        json_t *value;
        char subject[SUBJECT_MAX];
        clq_properties found;
        json_object_foreach(config, key, value) {
            if (!json_is_null(value) && is_of(rows[i], key, subject) && rows[i]->read(value, &found))
                give(rows[i], model, x, subject, &found);
        }
    }
}

/* ---- writing ---- */

/* The properties of the variables that the subject means; NULL: there are none. *same becomes false if they differ in
 * the row's property. *count is increased by the number of variables that have it. */
static const clq_properties *find(const clq_keras_property *row, const clq_model *model, const clq_layer *layer,
                                  const char *subject, bool *same, size_t *count) {
    const clq_properties *found = NULL;
    const clq_variable *v;
    for (size_t k = 0; (v = next(model, layer, subject, &k)); found = &v->properties) {
        *same = *same && (!found || row->is_same(found, &v->properties));
        *count += row->is_on(&v->properties);
    }
    return found;
}

static clq_status write_all(const clq_keras_property *row, const clq_model *model, const clq_layer *layer,
                            json_t **config) {
    size_t written = 0, all = 0;
    bool fits = true;
    for (size_t i = 0; i < layer->kind->attribute_count; i++) {
        char subject[SUBJECT_MAX], key[SUBJECT_MAX + 24];
        if (layer->kind->attributes[i].type != CLQ_ATTRIBUTE_INITIALISER ||
            !find_subject(layer->kind->attributes[i].key, "_initializer", subject))
            continue;
        const clq_properties *found = find(row, model, layer, subject, &fits, &written);
        if (!found || !row->is_on(found)) continue;
        (void)snprintf(key, sizeof key, "%s%s", subject, row->end);
        *config = clq_json_put(*config, key, row->write(found));
    }
    bool any = true;
    (void)find(row, model, layer, NULL, &any, &all);
    if (fits && written == all) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "layer '%s': Keras's %s has no %s for the variables that have %s, or has one for several that have "
                    "different ones",
                    layer->name, layer->kind->type, row->end + 1, row->one);
}

clq_status clq_keras_write_properties(const clq_model *model, const clq_layer *layer, json_t **config) {
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++) CLQ_TRY(write_all(rows[i], model, layer, config));
    return CLQ_OK;
}
