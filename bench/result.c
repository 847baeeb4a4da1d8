/* The result file: host, devices, command, rows; JSON and CSV. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static json_t *describe_host(void) {
    struct utsname name;
    if (uname(&name) != 0) return json_object();
    return json_pack("{s:s, s:s, s:s, s:i, s:I}", "system", name.sysname, "release", name.release, "machine",
                     name.machine, "cores", (int)clq_cpu_count(), "memory_bytes",
                     (json_int_t)sysconf(_SC_PHYS_PAGES) * (json_int_t)sysconf(_SC_PAGESIZE));
}

static json_t *describe_devices(const clq_devices *devices) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < devices->count; i++) {
        const clq_device_info *d = clq_system_device_info(devices->system, devices->items[i].index);
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:s, s:i, s:i}", "index", (int)d->index, "driver",
                                              d->driver, "name", d->name, "driver_version", d->driver_version, "part",
                                              (int)devices->items[i].part, "parts", (int)devices->items[i].parts));
    }
    return list;
}

clq_status clq_bench_result_start(const char *bench, int argc, char **argv, const clq_devices *devices,
                                  clq_bench_result *out) {
    clq_text command = {0};
    clq_text_add(&command, "clique-bench %s", bench);
    for (int i = 1; i < argc; i++) clq_text_add(&command, " %s", argv[i]);
    json_t *rows = json_array();
    json_t *document = command.failed ? NULL
                                      : json_pack("{s:s, s:s, s:o, s:o, s:s, s:O}", "schema", "clique-bench/1", "bench",
                                                  bench, "host", describe_host(), "devices", describe_devices(devices),
                                                  "command", command.data, "rows", rows);
    clq_free(command.data);
    if (!rows || !document) {
        json_decref(rows);
        json_decref(document);
        return clq_fail(CLQ_MEMORY, "out of memory while starting the result");
    }
    *out = (clq_bench_result){.document = document, .rows = rows};
    return CLQ_OK;
}

clq_status clq_bench_result_add(clq_bench_result *result, json_t *row) {
    if (!row || json_array_append_new(result->rows, row) != 0)
        return clq_fail(CLQ_MEMORY, "out of memory while adding a row");
    return CLQ_OK;
}

static clq_status write_text(const char *path, const char *text) {
    clq_file_writer *writer;
    CLQ_TRY(clq_file_writer_open(path, &writer));
    clq_status status = clq_file_writer_put(writer, text, strlen(text));
    if (status == CLQ_OK) return clq_file_writer_commit(writer);
    clq_file_writer_cancel(writer);
    return status;
}

static clq_status write_json(const clq_bench_result *result, const char *path) {
    char *text = json_dumps(result->document, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    if (!text) return clq_fail(CLQ_MEMORY, "out of memory while writing %s", path);
    clq_status status = write_text(path, text);
    free(text);
    return status;
}

/* Columns are the first row's keys; all rows of a benchmark have the same. */
static clq_status write_csv(const clq_bench_result *result, const char *path) {
    clq_text text = {0};
    size_t index;
    json_t *row;
    json_array_foreach(result->rows, index, row) {
        const char *key, *comma = "";
        json_t *value;
        if (index == 0) {
            json_object_foreach(row, key, value) {
                clq_text_add(&text, "%s%s", comma, key);
                comma = ",";
            }
            clq_text_add(&text, "\n");
        }
        comma = "";
        json_object_foreach(row, key, value) {
            if (json_is_string(value))
                clq_text_add(&text, "%s\"%s\"", comma, json_string_value(value));
            else if (json_is_number(value))
                clq_text_add(&text, "%s%.9g", comma, json_number_value(value));
            else
                clq_text_add(&text, "%s", comma);
            comma = ",";
        }
        clq_text_add(&text, "\n");
    }
    clq_status status = text.failed ? clq_fail(CLQ_MEMORY, "out of memory while writing %s", path)
                                    : write_text(path, text.data ? text.data : "");
    clq_free(text.data);
    return status;
}

clq_status clq_bench_result_write(const clq_bench_result *result, const char *json, const char *csv) {
    if (json) CLQ_TRY(write_json(result, json));
    if (csv) CLQ_TRY(write_csv(result, csv));
    return CLQ_OK;
}

void clq_bench_result_release(clq_bench_result *result) {
    json_decref(result->rows);
    json_decref(result->document);
    *result = (clq_bench_result){0};
}
