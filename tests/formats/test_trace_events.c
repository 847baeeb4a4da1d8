/* Trace events, read back by a JSON parser. */
#include "formats/formats.h"
#include "support/files.h"

static json_t *read_events(const char *path) {
    json_t *trace;
    assert_ok(clq_json_read(path, 1 << 20, 8, &trace));
    json_t *events = json_incref(json_object_get(trace, "traceEvents"));
    json_decref(trace);
    assert_true(json_is_array(events));
    return events;
}

static const char *text_at(const json_t *event, const char *key) {
    return json_string_value(json_object_get(event, key));
}
static double number_at(const json_t *event, const char *key) { return json_number_value(json_object_get(event, key)); }

static void writes(void **state) {
    (void)state;
    const char *path = files_path("trace.json");
    clq_trace_writer *writer;
    assert_ok(clq_trace_writer_open(path, &writer));
    assert_int_not_equal(access(path, F_OK), 0); /* there is no file before it is complete */
    assert_ok(clq_trace_writer_process(writer, 3, "a \"b\"\\\n\x01 \xc3\xa9", "within 2 us"));
    assert_ok(clq_trace_writer_thread(writer, 3, 7, "queue"));
    assert_ok(clq_trace_writer_put(
        writer, &(clq_trace_event){
                    .process = 3, .thread = 7, .scope = "conv2d", .name = "forward", .begin_s = 12.25, .end_s = 12.5}));
    assert_ok(clq_trace_writer_put(writer, &(clq_trace_event){.process = 3,
                                                              .name = "half \xc3 \xff",
                                                              .begin_s = 1e4 + 1e-6,
                                                              .end_s = 1e4 + 1e-6,
                                                              .key = "bytes",
                                                              .value = (uint64_t)1 << 40}));
    assert_ok(clq_trace_writer_commit(writer));
    json_t *events = read_events(path);
    assert_int_equal(json_array_size(events), 5);
    const json_t *process = json_array_get(events, 0), *label = json_array_get(events, 1),
                 *thread = json_array_get(events, 2), *full = json_array_get(events, 3),
                 *empty = json_array_get(events, 4);
    assert_string_equal(text_at(process, "ph"), "M");
    assert_string_equal(text_at(process, "name"), "process_name");
    assert_string_equal(text_at(json_object_get(process, "args"), "name"), "a \"b\"\\\n\x01 \xc3\xa9");
    assert_string_equal(text_at(json_object_get(label, "args"), "labels"), "within 2 us");
    assert_string_equal(text_at(thread, "name"), "thread_name");
    assert_true(number_at(thread, "pid") == 3.0 && number_at(thread, "tid") == 7.0);
    assert_string_equal(text_at(json_object_get(thread, "args"), "name"), "queue");
    assert_string_equal(text_at(full, "ph"), "X");
    assert_string_equal(text_at(full, "name"), "conv2d/forward");
    assert_true(number_at(full, "pid") == 3.0 && number_at(full, "tid") == 7.0);
    assert_true(number_at(full, "ts") == 12250000.0 && number_at(full, "dur") == 250000.0);
    assert_null(json_object_get(full, "args"));
    assert_string_equal(text_at(empty, "name"), "half ? ?");
    double ts = number_at(empty, "ts");
    assert_true(ts > 1e10 + 0.99 && ts < 1e10 + 1.01 && number_at(empty, "dur") == 0.0);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(empty, "args"), "bytes")), (json_int_t)1 << 40);
    json_decref(events);
}

static void writes_nothing(void **state) {
    (void)state;
    const char *path = files_path("empty.json");
    clq_trace_writer *writer = NULL;
    assert_ok(clq_trace_writer_open(path, &writer));
    assert_ok(clq_trace_writer_commit(writer));
    json_t *events = read_events(path);
    assert_int_equal(json_array_size(events), 0);
    json_decref(events);
    int entries = files_count(files_folder);
    assert_ok(clq_trace_writer_open(files_path("given-up.json"), &writer));
    clq_trace_writer_cancel(writer);
    clq_trace_writer_cancel(NULL);
    assert_int_equal(files_count(files_folder), entries);
    writer = NULL;
    assert_fails(CLQ_ERROR_WRITE, "trace.json", clq_trace_writer_open(files_path("none/trace.json"), &writer));
    assert_null(writer);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(writes), cmocka_unit_test(writes_nothing)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
