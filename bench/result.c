/* The result file: host, devices, command, rows; JSON and CSV. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

clq_status clq_bench_fail_also(const clq_error *first, clq_status second) {
    if (first->status == CLQ_OK) return second;
    return clq_fail(first->status, "%s; %s", first->detail, clq_error_detail());
}

static json_t *describe_host(const clq_bench_run *run, double others) {
    struct utsname name;
    if (uname(&name) != 0) return json_object();
    bool busy = clq_bench_is_busy(others, clq_now() - run->started);
    return json_pack("{s:o, s:o, s:o, s:i, s:I, s:o, s:b}", "system", clq_json_text(name.sysname), "release",
                     clq_json_text(name.release), "machine", clq_json_text(name.machine), "cores", (int)clq_cpu_count(),
                     "memory_bytes", (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE),
                     "others_cores", clq_json_number(others), "busy", (int)busy);
}

clq_status clq_bench_describe_devices(const clq_bench_run *run, json_t **out) {
    const clq_devices *devices = &run->devices;
    json_t *list = json_array();
    bool whole = list != NULL;
    for (uint32_t i = 0; i < devices->count; i++) {
        const clq_device_info *d = clq_system_device_info(devices->system, devices->items[i].index);
        json_t *device = json_pack(
            "{s:i, s:s, s:s, s:o, s:o, s:i, s:i, s:i}", "index", (int)d->index, "label", run->labels[i], "driver",
            d->driver, "name", clq_json_text(d->name), "driver_version", clq_json_text(d->driver_version), "part",
            (int)devices->items[i].part, "parts", (int)devices->items[i].parts, "compute_units", (int)d->compute_units);
        if (json_array_append_new(list, device) != 0) whole = false;
    }
    if (whole) {
        *out = list;
        return CLQ_OK;
    }
    json_decref(list);
    return clq_fail_memory("describing the devices");
}

static clq_status write_text(const char *path, const char *text) {
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(path, &writer));
    clq_status status = clq_file_writer_put(writer, text, strlen(text));
    if (status == CLQ_OK) return clq_file_writer_commit(writer);
    clq_file_writer_cancel(writer);
    return status;
}

static clq_status write_json(const clq_bench_run *run, int argc, char **argv, double others, bool complete) {
    clq_text command = {0};
    clq_text_add(&command, "clique-bench %s", run->spec->name);
    for (int i = 1; i < argc; i++) clq_text_add(&command, " %s", argv[i]);
    json_t *document = command.failed ? NULL
                                      : json_pack("{s:s, s:s, s:o, s:O, s:o, s:b, s:O}", "schema", "clique-bench/1",
                                                  "bench", run->spec->name, "host", describe_host(run, others),
                                                  "devices", run->described, "command", clq_json_text(command.data),
                                                  "complete", (int)complete, "rows", run->rows);
    clq_free(command.data);
    char *text = document ? clq_json_dumps(document, JSON_INDENT(1) | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(document);
    if (!text) return clq_fail_within(clq_fail_memory("writing the result"), "%s", run->json_path);
    clq_status status = write_text(run->json_path, text);
    free(text);
    return status;
}

/* ---- CSV ---- */

static void add_text_cell(clq_text *text, const char *value) {
    clq_text_add(text, "\"");
    for (; *value; value++) {
        if (*value == '"') clq_text_add(text, "\"");
        clq_text_add_bytes(text, value, 1);
    }
    clq_text_add(text, "\"");
}

/* An object within a row becomes several columns: "time_us" with "p50" becomes time_us_p50. */
static void add_cells(clq_text *text, const char *prefix, json_t *object, bool header, bool *first) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s%s", prefix, key);
        if (json_is_object(value)) {
            char inner[97];
            (void)snprintf(inner, sizeof inner, "%s_", name);
            add_cells(text, inner, value, header, first);
            continue;
        }
        if (!*first) clq_text_add(text, ",");
        *first = false;
        if (header)
            clq_text_add(text, "%s", name);
        else if (json_is_string(value))
            add_text_cell(text, json_string_value(value));
        else if (json_is_integer(value))
            clq_text_add(text, "%lld", (long long)json_integer_value(value));
        else if (json_is_real(value))
            clq_text_add(text, "%.9g", json_real_value(value));
        else if (json_is_boolean(value))
            clq_text_add(text, json_is_true(value) ? "true" : "false");
    }
}

static void add_line(clq_text *text, json_t *row, bool header) {
    bool first = true;
    add_cells(text, "", row, header, &first);
    clq_text_add(text, "\n");
}

/* The columns are the first row's keys; all rows of a benchmark have the same keys. Null becomes an empty cell. */
static clq_status write_csv(const clq_bench_run *run) {
    clq_text text = {0};
    size_t index;
    json_t *row;
    json_array_foreach(run->rows, index, row) {
        if (index == 0) add_line(&text, row, true);
        add_line(&text, row, false);
    }
    clq_status status = text.failed ? clq_fail_within(clq_fail_memory("writing the rows"), "%s", run->csv_path)
                                    : write_text(run->csv_path, text.data ? text.data : "");
    clq_free(text.data);
    return status;
}

/* If one file cannot be written, the other one is still written. */
clq_status clq_bench_result_write(const clq_bench_run *run, int argc, char **argv, double others, bool complete) {
    clq_status status = run->json_path ? write_json(run, argc, argv, others, complete) : CLQ_OK;
    clq_error first;
    clq_error_take(status, &first);
    clq_status csv_status = run->csv_path ? write_csv(run) : CLQ_OK;
    return csv_status == CLQ_OK ? clq_error_raise(&first) : clq_bench_fail_also(&first, csv_status);
}
