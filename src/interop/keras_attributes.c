/* Attributes of a layer in a Keras file, by the rows of its kind. */
#include "interop/keras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a configuration ---- */

void clq_keras_open(json_t *layer, size_t index, clq_keras_attributes *out) {
    char where[160];
    clq_keras_describe_place(layer, index, where);
    *out = (clq_keras_attributes){.object = json_object_get(layer, "config")};
    snprintf(out->path, sizeof out->path, "%s.config", where);
    if (!json_is_object(out->object)) {
        out->status = clq_fail(CLQ_FORMAT, "%s is not an object", out->path);
        return;
    }
    out->left = json_copy(out->object);
    if (!out->left) out->status = clq_fail(CLQ_MEMORY, "out of memory at %s", out->path);
}

void clq_keras_refuse(clq_keras_attributes *a, clq_status status, const char *key, const char *format, ...) {
    if (a->status != CLQ_OK) return;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    clq_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    a->status = clq_fail(status, "%s.%.80s: %s", a->path, key, text);
}

/* A value as the file has it, cut short, for messages. */
static const char *quote(const json_t *value, char text[80]) {
    char *dumped = clq_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, 80, "%.70s", dumped ? dumped : "its value");
    free(dumped);
    return text;
}

static void refuse_value(clq_keras_attributes *a, const char *key, const json_t *value, const char *wanted) {
    char text[80];
    clq_keras_refuse(a, CLQ_FORMAT, key, "%s should be %s", quote(value, text), wanted);
}

clq_status clq_keras_close(clq_keras_attributes *a) {
    const char *key;
    json_t *value;
    json_object_foreach(a->left, key, value) {
        char text[80];
        if (json_is_null(value)) continue;
        const char *class_name = json_string_value(json_object_get(value, "class_name"));
        clq_keras_refuse(a, CLQ_UNSUPPORTED, key, "%.70s is not supported",
                         class_name ? class_name : quote(value, text));
    }
    json_decref(a->left);
    return a->status;
}

json_t *clq_keras_attribute(clq_keras_attributes *a, const char *key) {
    if (a->status != CLQ_OK) return NULL;
    json_t *value = json_object_get(a->object, key);
    if (value) json_object_del(a->left, key);
    return value && !json_is_null(value) ? value : NULL;
}

const char *clq_keras_text(clq_keras_attributes *a, const char *key, const char *fallback) {
    json_t *value = clq_keras_attribute(a, key);
    if (!value) {
        if (!fallback) clq_keras_refuse(a, CLQ_FORMAT, key, "is missing");
        return fallback ? fallback : "";
    }
    if (json_is_string(value)) return json_string_value(value);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name)
        clq_keras_refuse(a, CLQ_UNSUPPORTED, key, "%.70s as an object is not supported, only names", class_name);
    refuse_value(a, key, value, "a text");
    return "";
}

bool clq_keras_flag(clq_keras_attributes *a, const char *key, bool fallback) {
    json_t *value = clq_keras_attribute(a, key);
    if (!value) return fallback;
    if (!json_is_boolean(value)) refuse_value(a, key, value, "true or false");
    return json_is_true(value);
}

bool clq_keras_is_size(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* ---- values by type ---- */

/* The value of a row; NULL if the file has none, and then what the row says of that is done. */
static json_t *value_of(clq_keras_attributes *a, const clq_attribute *row) {
    json_t *value = clq_keras_attribute(a, row->key);
    if (!value && row->needed) clq_keras_refuse(a, CLQ_FORMAT, row->key, "is missing");
    return value;
}

static void read_size(clq_keras_attributes *a, const clq_attribute *row, size_t *out) {
    json_t *value = value_of(a, row);
    *out = (size_t)row->fallback;
    if (value && !clq_keras_is_size(value, out)) refuse_value(a, row->key, value, "a whole number of at least 1");
}

/* n or [n, m]. */
static void read_pair(clq_keras_attributes *a, const clq_attribute *row, size_t out[2]) {
    json_t *value = value_of(a, row);
    out[0] = out[1] = (size_t)row->fallback;
    if (json_is_array(value)) {
        if (json_array_size(value) != 2 || !clq_keras_is_size(json_array_get(value, 0), &out[0]) ||
            !clq_keras_is_size(json_array_get(value, 1), &out[1]))
            refuse_value(a, row->key, value, "two whole numbers of at least 1");
    } else if (value && clq_keras_is_size(value, &out[0])) {
        out[1] = out[0];
    } else if (value) {
        refuse_value(a, row->key, value, "a whole number of at least 1, or two");
    }
}

static void read_number(clq_keras_attributes *a, const clq_attribute *row, double *out) {
    json_t *value = value_of(a, row);
    *out = value ? json_number_value(value) : row->fallback;
    if (value && !json_is_number(value)) clq_keras_refuse(a, CLQ_FORMAT, row->key, "should be a number");
}

static void read_seed(clq_keras_attributes *a, const clq_attribute *row, uint64_t *out) {
    json_t *value = value_of(a, row);
    if (value && !json_is_integer(value)) clq_keras_refuse(a, CLQ_FORMAT, row->key, "should be a whole number");
    *out = (uint64_t)json_integer_value(value);
}

static void read_activation(clq_keras_attributes *a, const clq_attribute *row, clq_activation *out) {
    const char *name = clq_keras_text(a, row->key, "linear");
    *out = CLQ_LINEAR;
    if (clq_activation_named(name, out)) return;
    clq_text known = {0};
    for (unsigned i = 0; clq_activation_row_of((clq_activation)i); i++)
        clq_text_add(&known, "%s%s", i ? ", " : "", clq_activation_row_of((clq_activation)i)->name);
    clq_keras_refuse(a, CLQ_UNSUPPORTED, row->key, "'%.60s' is not supported; expected %s", name,
                     known.data ? known.data : "others");
    clq_free(known.data);
}

static void read_padding(clq_keras_attributes *a, const clq_attribute *row, clq_padding *out) {
    const char *name = clq_keras_text(a, row->key, "valid");
    *out = strcmp(name, "same") == 0 ? CLQ_SAME : CLQ_VALID;
    if (*out == CLQ_VALID && strcmp(name, "valid") != 0)
        clq_keras_refuse(a, CLQ_UNSUPPORTED, row->key, "'%.60s' is not supported; there are valid and same", name);
}

/* Keras counts the batch as axis 0: an axis behind it, as the builder counts. Keras 2's normalisations have a list. */
static int take_axis(clq_keras_attributes *a, const clq_attribute *row, const clq_shape *shape) {
    json_t *value = value_of(a, row);
    if (json_array_size(value) == 1) value = json_array_get(value, 0);
    const json_int_t axis = value ? json_integer_value(value) : -1, rank = shape->rank;
    if (value && !json_is_integer(value))
        clq_keras_refuse(a, CLQ_FORMAT, row->key, "should be a whole number");
    else if (axis == 0 || axis > rank || axis < -rank)
        clq_keras_refuse(a, CLQ_FORMAT, row->key, "%lld should be from 1 to %u, or from -%u to -1", (long long)axis,
                         shape->rank, shape->rank);
    return a->status == CLQ_OK ? (int)(axis > 0 ? axis - 1 : axis) : -1;
}

/* One dimension may be -1: what the others leave. */
static bool resolve_shape(const json_t *target, size_t elements, clq_shape *out) {
    size_t known = 1, open = SIZE_MAX;
    if (!json_is_array(target) || json_array_size(target) == 0 || json_array_size(target) > CLQ_SHAPE_MAX) return false;
    *out = (clq_shape){.rank = (unsigned)json_array_size(target)};
    for (size_t d = 0; d < out->rank; d++) {
        json_t *dim = json_array_get(target, d);
        json_int_t value = json_is_integer(dim) ? json_integer_value(dim) : 0;
        if (value == -1 && open == SIZE_MAX)
            open = d;
        else if (value < 1 || value > INT32_MAX || !clq_mul_size(known, (size_t)value, &known))
            return false;
        else
            out->dims[d] = (size_t)value;
    }
    if (open != SIZE_MAX) out->dims[open] = elements / known;
    return true;
}

static void read_shape(clq_keras_attributes *a, const clq_attribute *row, const clq_model_tensor *x, clq_shape *out) {
    if (!resolve_shape(value_of(a, row), x->elements, out))
        clq_keras_refuse(a, CLQ_FORMAT, row->key, "should be 1 to %d whole numbers, one of them perhaps -1",
                         CLQ_SHAPE_MAX);
}

/* ---- values of which one is taken ---- */

static void check_word(clq_keras_attributes *a, const clq_attribute *row) {
    const char *text = clq_keras_text(a, row->key, row->word);
    if (strcmp(text, row->word) != 0)
        clq_keras_refuse(a, CLQ_UNSUPPORTED, row->key, "'%.60s' is not supported, only '%s'", text, row->word);
}

static void check_number(clq_keras_attributes *a, const clq_attribute *row) {
    json_t *value = value_of(a, row);
    char text[80];
    if (value && (!json_is_number(value) || json_number_value(value) != row->fallback))
        clq_keras_refuse(a, CLQ_UNSUPPORTED, row->key, "%s is not supported, only %g", quote(value, text),
                         row->fallback);
}

static void check_last_axis(clq_keras_attributes *a, const clq_attribute *row, const clq_shape *shape) {
    const int axis = take_axis(a, row, shape);
    if (axis != -1 && axis + 1 != (int)shape->rank)
        clq_keras_refuse(a, CLQ_UNSUPPORTED, row->key, "%d is not supported, only the last: -1 or %u",
                         axis < 0 ? axis : axis + 1, shape->rank);
}

/* ---- all ---- */

static void read_row(clq_keras_attributes *a, const clq_attribute *row, const clq_model_tensor *x, void *member) {
    switch (row->type) {
    case CLQ_ATTRIBUTE_SIZE: read_size(a, row, member); break;
    case CLQ_ATTRIBUTE_PAIR: read_pair(a, row, member); break;
    case CLQ_ATTRIBUTE_FLAG: *(bool *)member = clq_keras_flag(a, row->key, row->fallback != 0); break;
    case CLQ_ATTRIBUTE_OPPOSITE: *(bool *)member = !clq_keras_flag(a, row->key, true); break;
    case CLQ_ATTRIBUTE_NUMBER: read_number(a, row, member); break;
    case CLQ_ATTRIBUTE_SEED: read_seed(a, row, member); break;
    case CLQ_ATTRIBUTE_ACTIVATION: read_activation(a, row, member); break;
    case CLQ_ATTRIBUTE_PADDING: read_padding(a, row, member); break;
    case CLQ_ATTRIBUTE_AXIS: *(int *)member = take_axis(a, row, &x->shape); break;
    case CLQ_ATTRIBUTE_SHAPE: read_shape(a, row, x, member); break;
    case CLQ_ATTRIBUTE_INITIALISER: clq_keras_read_initialiser(a, row->key, member); break;
    case CLQ_ATTRIBUTE_ONLY_WORD: check_word(a, row); break;
    case CLQ_ATTRIBUTE_ONLY_NUMBER: check_number(a, row); break;
    case CLQ_ATTRIBUTE_ONLY_FALSE:
        if (clq_keras_flag(a, row->key, false)) clq_keras_refuse(a, CLQ_UNSUPPORTED, row->key, "true is not supported");
        break;
    case CLQ_ATTRIBUTE_ONLY_LAST_AXIS: check_last_axis(a, row, &x->shape); break;
    case CLQ_ATTRIBUTE_UNUSED: (void)clq_keras_attribute(a, row->key); break;
    }
}

void clq_keras_read_rows(clq_keras_attributes *a, const clq_layer_kind *kind, const clq_model_tensor *x, void *config) {
    for (size_t i = 0; i < kind->attribute_count && a->status == CLQ_OK; i++)
        read_row(a, &kind->attributes[i], x, (char *)config + kind->attributes[i].at);
}
