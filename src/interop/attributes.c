#include "interop/attributes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void clq_attributes_open(json_t *object, const char *path, clq_attributes *out) {
    *out = (clq_attributes){.object = object};
    snprintf(out->path, sizeof out->path, "%s", path);
    if (!json_is_object(object)) {
        out->status = clq_fail(CLQ_FORMAT, "%s is not an object", path);
        return;
    }
    out->left = json_copy(object);
    if (!out->left) out->status = clq_fail(CLQ_MEMORY, "out of memory at %s", path);
}

void clq_attribute_refuse(clq_attributes *a, clq_status status, const char *key, const char *format, ...) {
    if (a->status != CLQ_OK) return;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    a->status = clq_fail(status, "%s.%.80s: %s", a->path, key, text);
}

/* A value as the file has it, cut short, for messages. */
static void quote(const json_t *value, char text[80]) {
    char *dumped = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, 80, "%.70s", dumped ? dumped : "its value");
    free(dumped);
}

static void refuse_value(clq_attributes *a, const char *key, const json_t *value, const char *wanted) {
    char text[80];
    quote(value, text);
    clq_attribute_refuse(a, CLQ_FORMAT, key, "%s should be %s", text, wanted);
}

clq_status clq_attributes_close(clq_attributes *a) {
    const char *key;
    json_t *value;
    if (a->status == CLQ_OK) {
        json_object_foreach(a->left, key, value) {
            char text[80];
            if (json_is_null(value)) continue;
            const char *class_name = json_string_value(json_object_get(value, "class_name"));
            if (class_name)
                snprintf(text, sizeof text, "%.70s", class_name);
            else
                quote(value, text);
            clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "%s is not supported", text);
        }
    }
    json_decref(a->left);
    a->left = NULL;
    return a->status;
}

json_t *clq_attribute(clq_attributes *a, const char *key) {
    if (a->status != CLQ_OK) return NULL;
    json_t *value = json_object_get(a->object, key);
    if (value) json_object_del(a->left, key);
    return value && !json_is_null(value) ? value : NULL;
}

const char *clq_attribute_text(clq_attributes *a, const char *key, const char *fallback) {
    json_t *value = clq_attribute(a, key);
    if (!value) {
        if (!fallback) clq_attribute_refuse(a, CLQ_FORMAT, key, "is missing");
        return fallback ? fallback : "";
    }
    if (json_is_string(value)) return json_string_value(value);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name)
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "%.70s as an object is not supported, only names", class_name);
    refuse_value(a, key, value, "a text");
    return "";
}

static bool is_size(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

size_t clq_attribute_size(clq_attributes *a, const char *key, size_t fallback) {
    json_t *value = clq_attribute(a, key);
    size_t size = fallback;
    if (!value && fallback == 0) clq_attribute_refuse(a, CLQ_FORMAT, key, "is missing");
    if (value && !is_size(value, &size)) refuse_value(a, key, value, "a whole number of at least 1");
    return size;
}

void clq_attribute_pair(clq_attributes *a, const char *key, size_t fallback, size_t out[2]) {
    json_t *value = clq_attribute(a, key);
    out[0] = out[1] = fallback;
    if (!value) {
        if (fallback == 0) clq_attribute_refuse(a, CLQ_FORMAT, key, "is missing");
    } else if (json_is_array(value)) {
        if (json_array_size(value) != 2 || !is_size(json_array_get(value, 0), &out[0]) ||
            !is_size(json_array_get(value, 1), &out[1]))
            refuse_value(a, key, value, "two whole numbers of at least 1");
    } else if (is_size(value, &out[0])) {
        out[1] = out[0];
    } else {
        refuse_value(a, key, value, "a whole number of at least 1, or two");
    }
}

bool clq_attribute_flag(clq_attributes *a, const char *key, bool fallback) {
    json_t *value = clq_attribute(a, key);
    if (!value) return fallback;
    if (!json_is_boolean(value)) refuse_value(a, key, value, "true or false");
    return json_is_true(value);
}

void clq_attribute_only(clq_attributes *a, const char *key, const char *only) {
    const char *text = clq_attribute_text(a, key, only);
    if (strcmp(text, only) != 0)
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "'%.60s' is not supported, only '%s'", text, only);
}

void clq_attribute_only_size(clq_attributes *a, const char *key, size_t only) {
    size_t size = clq_attribute_size(a, key, only);
    if (size != only) clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "%zu is not supported, only %zu", size, only);
}

void clq_attribute_ignore(clq_attributes *a, const char *key) { clq_attribute(a, key); }
