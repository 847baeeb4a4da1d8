#include "base/base.h"

#include <stdio.h>
#include <string.h>

static _Thread_local char detail[CLQ_DETAIL_MAX];

static const char *const status_texts[] = {
#define STATUS_TEXT(name, text) [name] = text,
    CLQ_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
};

const char *clq_status_text(clq_status status) {
    return (unsigned)status < CLQ_STATUS_COUNT ? status_texts[status] : "unknown status";
}

const char *clq_error_detail(void) { return detail; }

/* A detail is always one line, even if a file name or a driver's message in it has line breaks. */
static void set_detail(const char *text) {
    size_t length = strnlen(text, CLQ_DETAIL_MAX - 1);
    memcpy(detail, text, length);
    detail[length] = '\0';
    clq_clean(detail);
}

static const char internal[] = "internal error: "; /* tells the reader that the defect is Clique's */

clq_status clq_fail(clq_status status, const char *format, ...) {
    char text[CLQ_DETAIL_MAX]; /* the arguments may point into the present detail */
    va_list arguments;
    va_start(arguments, format);
    size_t used = status == CLQ_ERROR_INTERNAL ? sizeof(internal) - 1 : 0;
    memcpy(text, internal, used);
    clq_format_list(text + used, sizeof(text) - used, format, arguments);
    va_end(arguments);
    set_detail(text);
    return status;
}

clq_status clq_fail_memory(const char *doing) {
    return clq_fail(CLQ_ERROR_MEMORY, "out of host memory while %s", doing);
}

clq_status clq_fail_lock(const char *owner, int error) {
    return clq_fail(CLQ_ERROR_SYSTEM, "cannot create the locks of %s: %s", owner, strerror(error));
}

clq_status clq_fail_within(clq_status status, const char *format, ...) {
    char text[CLQ_DETAIL_MAX + sizeof(": ") + CLQ_DETAIL_MAX];
    va_list arguments;
    va_start(arguments, format);
    clq_format_list(text, CLQ_DETAIL_MAX, format, arguments);
    va_end(arguments);
    size_t length = strlen(text);
    snprintf(text + length, sizeof(text) - length, ": %s", detail);
    set_detail(text);
    return status;
}

void clq_error_clear(void) { detail[0] = '\0'; }

clq_status clq_fail_returned(clq_status status, const char *who, ...) {
    if (status == CLQ_OK || detail[0]) return status;
    char text[CLQ_DETAIL_MAX / 2];
    va_list arguments;
    va_start(arguments, who);
    clq_format_list(text, sizeof text, who, arguments);
    va_end(arguments);
    return clq_fail(status, "%s returned \"%s\"", text, clq_status_text(status));
}

void clq_error_take(clq_status status, clq_error *out) {
    out->status = status;
    memcpy(out->detail, detail, sizeof(out->detail));
}

clq_status clq_error_raise(const clq_error *error) {
    if (error->status != CLQ_OK) memmove(detail, error->detail, sizeof(detail));
    return error->status;
}
