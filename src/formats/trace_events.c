/* Chrome's trace event format (the Chromium project's document "Trace Event Format"). The file is an object whose
 * traceEvents are complete events ("X": begin and duration in microseconds) and the names of processes and threads
 * ("M"). */
#include "formats/private.h"

struct clq_trace_writer {
    clq_file_writer *file;
    bool any; /* there were events: the next one needs a comma before it */
};

clq_status clq_trace_writer_open(const char *path, clq_trace_writer **out) {
    static const char start[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
    clq_trace_writer *writer = clq_alloc(1, sizeof *writer);
    if (!writer) return CLQ_ERROR_MEMORY;
    clq_status status = clq_file_writer_open(path, &writer->file);
    if (status == CLQ_OK) status = clq_file_writer_put(writer->file, start, sizeof start - 1);
    if (status != CLQ_OK) {
        clq_trace_writer_cancel(writer);
        return status;
    }
    *out = writer;
    return CLQ_OK;
}

/* Writes the event and takes it over. NULL: there was no memory for the event. */
static clq_status put(clq_trace_writer *writer, json_t *event) {
    clq_text text = {0};
    clq_text_add(&text, "%s\n", writer->any ? "," : "");
    clq_json_dump(event, JSON_COMPACT | JSON_REAL_PRECISION(15), &text);
    json_decref(event);
    clq_status status = text.failed ? clq_fail_memory("writing an event of a trace")
                                    : clq_file_writer_put(writer->file, text.data, text.length);
    clq_free(text.data);
    writer->any = true;
    return status;
}

static clq_status put_name(clq_trace_writer *writer, const char *what, unsigned process, unsigned thread,
                           const char *key, const char *name) {
    return put(writer, json_pack("{s:s, s:s, s:I, s:I, s:{s:o}}", "name", what, "ph", "M", "pid", (json_int_t)process,
                                 "tid", (json_int_t)thread, "args", key, clq_json_text(name)));
}

clq_status clq_trace_writer_process(clq_trace_writer *writer, unsigned process, const char *name, const char *label) {
    CLQ_TRY(put_name(writer, "process_name", process, 0, "name", name));
    return label ? put_name(writer, "process_labels", process, 0, "labels", label) : CLQ_OK;
}

clq_status clq_trace_writer_thread(clq_trace_writer *writer, unsigned process, unsigned thread, const char *name) {
    return put_name(writer, "thread_name", process, thread, "name", name);
}

clq_status clq_trace_writer_put(clq_trace_writer *writer, const clq_trace_event *event) {
    char *scoped = event->scope ? clq_strprintf("%s/%s", event->scope, event->name) : NULL;
    if (event->scope && !scoped) return CLQ_ERROR_MEMORY;
    json_t *json = json_pack("{s:o, s:s, s:I, s:I, s:f, s:f}", "name", clq_json_text(scoped ? scoped : event->name),
                             "ph", "X", "pid", (json_int_t)event->process, "tid", (json_int_t)event->thread, "ts",
                             event->begin_s * 1e6, "dur", (event->end_s - event->begin_s) * 1e6);
    clq_free(scoped);
    if (json && event->key) {
        json_t *arguments = json_pack("{s:I}", event->key, (json_int_t)event->value);
        if (json_object_set_new(json, "args", arguments) != 0) {
            json_decref(json);
            json = NULL;
        }
    }
    return put(writer, json);
}

clq_status clq_trace_writer_commit(clq_trace_writer *writer) {
    static const char end[] = "\n]}\n";
    clq_file_writer_put(writer->file, end, sizeof end - 1);
    clq_status status = clq_file_writer_commit(writer->file); /* fails if a put failed */
    clq_free(writer);
    return status;
}

void clq_trace_writer_cancel(clq_trace_writer *writer) {
    if (!writer) return;
    clq_file_writer_cancel(writer->file);
    clq_free(writer);
}
