#include "base/base.h"

#include <stdio.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static clq_log_sink sink;
static void *sink_context;
static atomic_int enabled_below;  /* the sink's level + 1; 0: no sink. Read without the lock */
static _Thread_local bool inside; /* this thread is in the sink: lines that the sink itself causes are dropped */

void clq_log_set_sink(clq_log_sink new_sink, void *context, clq_log_level level) {
    pthread_mutex_lock(&lock);
    sink = new_sink;
    sink_context = context;
    atomic_store(&enabled_below, new_sink ? (int)level + 1 : 0);
    pthread_mutex_unlock(&lock);
}

bool clq_log_enabled(clq_log_level level) {
    return (int)level < atomic_load_explicit(&enabled_below, memory_order_relaxed) && !inside;
}

/* Gives the sink one line at a time, because a driver's build log comes as one text with many lines. */
static void deliver(clq_log_level level, char *text) {
    inside = true;
    pthread_mutex_lock(&lock);
    for (char *line = text; line && sink;) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        clq_clean(line);
        if (*line || !end) sink(sink_context, level, line);
        line = end && end[1] ? end + 1 : NULL;
    }
    pthread_mutex_unlock(&lock);
    inside = false;
}

void clq_log(clq_log_level level, const char *format, ...) {
    if (!clq_log_enabled(level)) return;
    char line[LINE_MAX_BYTES];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = clq_format_list(line, sizeof(line), format, arguments);
    char *text = line;
    if (length >= (int)sizeof(line)) {
        char *longer = clq_raw_alloc((size_t)length + 1); /* not clq_alloc: logging must not set an error's detail */
        if (longer) {
            clq_format_list(longer, (size_t)length + 1, format, again);
            text = longer;
        }
    }
    va_end(again);
    va_end(arguments);
    if (length >= 0) deliver(level, text);
    if (text != line) clq_raw_free(text);
}
