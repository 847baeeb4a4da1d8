#include "formats/private.h"

#include <errno.h>
#include <math.h>

bool clq_is_utf8(const char *text) {
    size_t length = 1;
    for (; *text && length > 0; text += length) length = clq_utf8_length(text);
    return length > 0;
}

json_t *clq_json_text(const char *text) {
    if (clq_is_utf8(text)) return json_string(text);
    char *copy = clq_strdup(text);
    for (char *c = copy; c && *c;) {
        size_t length = clq_utf8_length(c);
        if (length == 0) *c = '?';
        c += length ? length : 1;
    }
    json_t *json = copy ? json_string(copy) : NULL;
    clq_free(copy);
    return json;
}

json_t *clq_json_number(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *clq_json_append(json_t *list, json_t *entry) {
    if (json_array_append_new(list, entry) == 0) return list;
    json_decref(list);
    return NULL;
}

json_t *clq_json_copy(json_t *value) {
    json_t *copy = json_copy(value);
    if (json_object_size(copy) == json_object_size(value) && json_array_size(copy) == json_array_size(value))
        return copy;
    json_decref(copy);
    return NULL;
}

json_t *clq_json_put(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0) return object;
    json_decref(object);
    return NULL;
}

/* Refuses text that is nested too deeply: Jansson recurses once per nested container, so the caller has to bound the
 * stack that it uses. */
static clq_status check_depth(const char *text, size_t bytes, size_t max_depth, const char *where) {
    size_t depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > max_depth)
                return clq_fail(CLQ_ERROR_FORMAT, "%s: more than %zu nested objects and arrays, at offset %zu", where,
                                max_depth, i);
        } else if ((c == '}' || c == ']') && depth) {
            depth--;
        }
    }
    return CLQ_OK;
}

clq_status clq_json_parse(const char *text, size_t bytes, size_t max_depth, const char *where, json_t **out) {
    CLQ_TRY(check_depth(text, bytes, max_depth, where));
    json_error_t error;
    errno = 0;
    const clq_locale entered = clq_locale_enter();
    json_t *parsed = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    clq_locale_leave(entered);
    /* If an allocation fails, Jansson mostly gives no error text, or calls the token invalid, or cuts the token off. */
    if (errno == ENOMEM || (!parsed && (!error.text[0] || json_error_code(&error) == json_error_out_of_memory))) {
        json_decref(parsed);
        return clq_fail(CLQ_ERROR_MEMORY, "%s: out of host memory for %zu bytes of JSON", where, bytes);
    }
    if (!parsed)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: line %d, column %d: %s", where, error.line, error.column, error.text);
    *out = parsed;
    return CLQ_OK;
}

clq_status clq_json_read(const char *path, size_t max_bytes, size_t max_depth, json_t **out) {
    void *text;
    size_t bytes;
    CLQ_TRY(clq_file_read(path, max_bytes, &text, &bytes));
    clq_status status = clq_json_parse(text, bytes, max_depth, path, out);
    clq_free(text);
    return status;
}

static int add_piece(const char *bytes, size_t length, void *text) {
    clq_text_add_bytes(text, bytes, length);
    return 0;
}

void clq_json_dump(const json_t *document, size_t flags, clq_text *text) {
    const clq_locale entered = clq_locale_enter();
    if (json_dump_callback(document, add_piece, text, flags) != 0) text->failed = true;
    clq_locale_leave(entered);
}

char *clq_json_dumps(const json_t *value, size_t flags) {
    clq_text text = {0};
    clq_json_dump(value, flags, &text);
    if (!text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}
