/* Rows: built key by key, then appended and shown as a line of the table. */
#include "bench.h"

#include "cli/interrupt.h"
#include "cli/print.h"

#include <math.h>
#include <string.h>

clq_bench_row clq_bench_row_start(void) {
    json_t *object = json_object();
    return (clq_bench_row){.object = object, .failed = !object};
}

clq_bench_row clq_bench_row_of(const clq_bench_run *run, uint32_t device) {
    clq_bench_row row = clq_bench_row_start();
    clq_bench_put_count(&row, "device", device);
    clq_bench_put_text(&row, "label", run->labels[device]);
    return row;
}

void clq_bench_put(clq_bench_row *row, const char *key, json_t *value) {
    if (json_object_set_new(row->object, key, value) != 0) row->failed = true;
}

void clq_bench_put_text(clq_bench_row *row, const char *key, const char *value) {
    clq_bench_put(row, key, clq_json_text(value));
}

void clq_bench_put_count(clq_bench_row *row, const char *key, uint64_t value) {
    clq_bench_put(row, key, json_integer((json_int_t)value));
}

void clq_bench_put_number(clq_bench_row *row, const char *key, double value) {
    clq_bench_put(row, key, clq_json_number(value));
}

void clq_bench_put_limit(clq_bench_row *row, const char *unit, double rate, double limit) {
    char key[32];
    (void)snprintf(key, sizeof key, "limit_%s", unit);
    clq_bench_put_number(row, key, limit);
    clq_bench_put_number(row, "pct_of_limit", 100 * rate / limit);
}

void clq_bench_put_times(clq_bench_row *row, const char *key, const clq_bench_times *times) {
    const struct {
        const char *name;
        double us;
    } parts[] = {{"min", times->min_us}, {"p50", times->p50_us}, {"p99", times->p99_us}};
    clq_bench_row spread = clq_bench_row_start();
    for (size_t i = 0; i < CLQ_COUNT_OF(parts); i++) clq_bench_put_number(&spread, parts[i].name, parts[i].us);
    clq_bench_put(row, key, spread.object);
    row->failed |= spread.failed;
}

void clq_bench_put_reason(clq_bench_row *row, const char *reason) {
    clq_bench_put(row, "reason", reason ? clq_json_text(reason) : json_null());
}

void clq_bench_put_wrong(clq_bench_row *row, const clq_bench_times *times, uint64_t wrong) {
    if (isnan(times->p50_us))
        clq_bench_put(row, "wrong", json_null());
    else
        clq_bench_put_count(row, "wrong", wrong);
}

bool clq_bench_is_local(clq_status status) {
    return status == CLQ_ERROR_DEVICE || status == CLQ_ERROR_DEVICE_MEMORY || status == CLQ_ERROR_BUILD ||
           status == CLQ_ERROR_UNSUPPORTED;
}

/* ---- the table ---- */

static void clear_line(clq_bench_run *run) {
    if (run->line_length) fprintf(stderr, "\r%*s\r", (int)run->line_length, "");
    run->line_length = 0;
    fflush(stderr);
}

void clq_bench_print(clq_bench_run *run, const char *format, ...) {
    clear_line(run);
    va_list arguments;
    va_start(arguments, format);
    if (clq_print_list(run->talk, format, arguments) != CLQ_OK) clq_log(CLQ_LOG_WARNING, "%s", clq_error_detail());
    va_end(arguments);
    fflush(run->talk);
}

static void add_cell(clq_text *line, const clq_bench_column *column, const json_t *value) {
    const char *gap = line->length ? "  " : "";
    if (json_is_integer(value))
        clq_text_add(line, "%s%*lld", gap, column->width, (long long)json_integer_value(value));
    else if (json_is_real(value))
        clq_text_add(line, "%s%*.*f", gap, column->width, column->decimals, json_real_value(value));
    else if (json_is_string(value))
        clq_text_add(line, "%s%*s", gap, column->width, json_string_value(value));
    else if (json_is_boolean(value))
        clq_text_add(line, "%s%*s", gap, column->width, json_is_true(value) ? "yes" : "");
    else
        clq_text_add(line, "%s%*s", gap, column->width, column->width < 0 ? "" : "-");
}

static const json_t *value_of(const json_t *row, const char *key) {
    char outer[64];
    const char *point = strchr(key, '.');
    if (!point) return json_object_get(row, key);
    (void)snprintf(outer, sizeof outer, "%.*s", (int)(point - key), key);
    return json_object_get(json_object_get(row, outer), point + 1);
}

static clq_status show(clq_bench_run *run, const json_t *row) {
    clq_text line = {0};
    for (const clq_bench_column *column = run->spec->columns; column->key; column++)
        add_cell(&line, column, value_of(row, column->key));
    if (line.failed) {
        clq_free(line.data);
        return clq_fail_memory("showing a row");
    }
    while (line.length && line.data[line.length - 1] == ' ') line.data[--line.length] = '\0';
    clq_bench_print(run, "%s\n", line.data);
    clq_free(line.data);
    return CLQ_OK;
}

/* ---- progress ---- */

/* Runs shorter than this need no progress line. */
static const double patience_s = 2;

static void show_progress(clq_bench_run *run) {
    double spent = clq_now() - run->started;
    size_t done = json_array_size(run->rows);
    if (!run->terminal || spent < patience_s || done >= run->expected) return;
    clear_line(run);
    int length = clq_fprintf(stderr, "%s: %zu of %zu rows, about %.0f s left", run->spec->name, done, run->expected,
                             spent / (double)done * (double)(run->expected - done));
    run->line_length = length > 0 ? (size_t)length : 0;
    fflush(stderr);
}

clq_status clq_bench_keep(clq_bench_run *run, clq_bench_row *row) {
    (void)clq_interrupted(); /* from here on Ctrl-C ends the run in order, as there is a row to keep */
    json_t *object = row->object;
    const json_t *wrong = json_object_get(object, "wrong");
    if (json_is_integer(wrong) && json_integer_value(wrong) > 0) run->wrong_rows++;
    row->object = NULL;
    if (row->failed) {
        json_decref(object);
        object = NULL;
    }
    if (!object || json_array_append_new(run->rows, object) != 0) return clq_fail_memory("adding a row");
    return run->spec->columns ? show(run, object) : CLQ_OK;
}

clq_status clq_bench_add(clq_bench_run *run, clq_bench_row *row) {
    CLQ_TRY(clq_bench_keep(run, row));
    size_t done = json_array_size(run->rows);
    uint64_t interrupted = clq_interrupted();
    CLQ_TRY(clq_bench_add_up(run, &interrupted));
    if (interrupted > 0 && done != run->expected)
        return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted after %zu row%s", done, done == 1 ? "" : "s");
    show_progress(run);
    return CLQ_OK;
}
