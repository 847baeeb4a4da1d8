/* The callbacks of a fit, one after the other; their states as JSON text. */
#include "train/callbacks.h"

#include <math.h>
#include <string.h>

void clq_callback_destroy(clq_callback *callback) {
    if (callback->destroy) callback->destroy(callback->context);
    *callback = (clq_callback){0};
}

clq_status clq_callbacks_begin(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                               size_t *begun) {
    for (*begun = 0; *begun < config->callback_count; ++*begun) {
        const clq_callback *one = &config->callbacks[*begun];
        if (!one->name) return clq_fail(CLQ_ERROR_ARGUMENT, "callback %zu has no name", *begun);
        CLQ_TRY(CLQ_RESERVE_CHECK(clq_callback, one));
        if (one->on_begin)
            CLQ_TRY(clq_meeting_take(
                meeting, CLQ_ASK(one->on_begin(one->context, trainer, config), "callback '%s': on_begin", one->name)));
    }
    return CLQ_OK;
}

bool clq_callbacks_want_steps(const clq_fit_config *config) {
    for (size_t i = 0; i < config->callback_count; i++)
        if (config->callbacks[i].on_step) return true;
    return false;
}

clq_status clq_callbacks_step(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                              const clq_step_info *info) {
    for (size_t i = 0; i < config->callback_count; i++) {
        const clq_callback *one = &config->callbacks[i];
        if (one->on_step)
            CLQ_TRY(clq_meeting_take(
                meeting, CLQ_ASK(one->on_step(one->context, trainer, info), "callback '%s': on_step", one->name)));
    }
    return CLQ_OK;
}

clq_status clq_callbacks_epoch(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                               const clq_epoch_info *info) {
    for (size_t i = 0; i < config->callback_count; i++) {
        const clq_callback *one = &config->callbacks[i];
        if (one->on_epoch)
            CLQ_TRY(clq_meeting_take(
                meeting, CLQ_ASK(one->on_epoch(one->context, trainer, info), "callback '%s': on_epoch", one->name)));
    }
    return CLQ_OK;
}

clq_status clq_callbacks_end(const clq_fit_config *config, clq_trainer *trainer, size_t begun, clq_status status) {
    clq_error first = {.status = CLQ_OK};
    if (status != CLQ_OK) clq_error_take(status, &first);
    for (size_t i = 0; i < begun; i++) {
        const clq_callback *one = &config->callbacks[i];
        clq_status ended = CLQ_OK;
        if (one->on_end)
            ended = CLQ_ASK(one->on_end(one->context, trainer, first.status), "callback '%s': on_end", one->name);
        if (ended != CLQ_OK && first.status == CLQ_OK) clq_error_take(ended, &first);
    }
    return first.status == CLQ_OK ? CLQ_OK : clq_error_raise(&first);
}

/* ---- states ---- */

clq_status clq_state_write(const char *what, json_t *document, char *text, size_t bytes) {
    char *dump = NULL;
    if (document && json_object_set_new(document, "callback", json_string(what)) == 0)
        dump = clq_json_dumps(document, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(document);
    if (!dump) return clq_fail_memory("writing the state of a callback");
    const size_t length = strlen(dump);
    if (length < bytes) memcpy(text, dump, length + 1);
    clq_free(dump);
    if (length < bytes) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s: the state has %zu bytes, and there is room for %zu", what, length + 1,
                    bytes);
}

clq_status clq_state_read(const char *what, const char *text, json_t **out) {
    enum { DEPTH_MOST = 4 };
    json_t *document;
    CLQ_TRY(clq_json_parse(text, strlen(text), DEPTH_MOST, what, &document));
    const char *name = json_string_value(json_object_get(document, "callback"));
    if (name && strcmp(name, what) == 0) {
        *out = document;
        return CLQ_OK;
    }
    json_decref(document);
    return clq_fail(CLQ_ERROR_FORMAT,
                    "%s: the text to restore is no state of this callback: it was saved by another kind", what);
}

clq_status clq_state_number(const char *what, const json_t *document, const char *key, double *out) {
    const json_t *value = json_object_get(document, key);
    if (!json_is_number(value) && !json_is_null(value))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: the state has no number '%s'", what, key);
    *out = json_is_null(value) ? (double)NAN : json_number_value(value);
    return CLQ_OK;
}

clq_status clq_state_count(const char *what, const json_t *document, const char *key, uint64_t *out) {
    const json_t *value = json_object_get(document, key);
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: the state has no count '%s'", what, key);
    *out = (uint64_t)json_integer_value(value);
    return CLQ_OK;
}
