#include "cli/results.h"
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

bool clq_is_one_of(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static clq_status note_column(json_t *columns, const char *outer, const char *name) {
    char *key = clq_strprintf("%s\n%s", outer, name);
    int failed = !key || (!json_object_get(columns, key) && json_object_set_new(columns, key, json_true()) != 0);
    clq_free(key);
    return failed ? clq_fail_memory("reading rows") : CLQ_OK;
}

/* Limits the columns of a table: every object could have other members. */
static clq_status note_columns(json_t *columns, json_t *object) {
    const char *name, *inner_name;
    json_t *value, *inner;
    json_object_foreach(object, name, value) {
        CLQ_TRY(note_column(columns, "", name));
        json_object_foreach(value, inner_name, inner) CLQ_TRY(note_column(columns, name, inner_name));
        if (json_object_size(columns) > CLQ_RESULT_COLUMNS_MAX)
            return clq_fail(CLQ_ERROR_FORMAT, "more than %d different columns", CLQ_RESULT_COLUMNS_MAX);
    }
    return CLQ_OK;
}

/* Checks an array that becomes a table. what: its entries' name in messages, as "row". */
static clq_status check_table(const char *path, const char *what, json_t *array) {
    json_t *columns = json_object(), *object;
    clq_status status = columns ? CLQ_OK : clq_fail_memory("reading rows");
    size_t i;
    json_array_foreach(array, i, object) {
        if (status == CLQ_OK && !json_is_object(object)) status = clq_fail(CLQ_ERROR_FORMAT, "not an object");
        if (status == CLQ_OK) status = note_columns(columns, object);
        if (status == CLQ_OK) continue;
        clq_fail_within(status, "%s: %s %zu", path, what, i + 1);
        break;
    }
    json_decref(columns);
    return status;
}

/* Checks the members beside the rows, which become a table as well. */
static clq_status check_members(const char *path, json_t *document) {
    json_t *columns = json_object();
    clq_status status = columns ? note_columns(columns, document) : clq_fail_memory("reading rows");
    json_decref(columns);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s: the members beside its rows", path);
}

/* Turns what clique why --json printed into a result whose rows are the predictions. */
static clq_status adopt_predictions(const char *path, json_t *document) {
    json_t *rows = json_array(), *prediction, *of = json_object();
    json_t *model = json_object_get(document, "model"), *batch = json_object_get(document, "global_batch");
    size_t i;
    bool failed = !rows || !of || (model && json_object_set(of, "model", model) != 0) ||
                  (batch && json_object_set(of, "batch", batch) != 0);
    json_array_foreach(json_object_get(document, "predictions"), i, prediction) {
        json_t *row = json_is_object(prediction) ? json_copy(of) : json_incref(prediction);
        if (json_is_object(prediction)) failed = failed || json_object_update(row, prediction) != 0;
        failed = json_array_append_new(rows, row) != 0 || failed;
    }
    json_decref(of);
    static const char *const told_elsewhere[] = {"predictions", "best", "advice", "probes"};
    for (i = 0; i < CLQ_COUNT_OF(told_elsewhere); i++) (void)json_object_del(document, told_elsewhere[i]);
    failed = json_object_set_new(document, "schema", json_string("clique-bench/1")) != 0 || failed;
    failed = json_object_set_new(document, "bench", json_string("why")) != 0 || failed;
    failed = json_object_set_new(document, "rows", rows) != 0 || failed;
    return failed ? clq_fail_within(clq_fail_memory("reading its predictions"), "%s", path) : CLQ_OK;
}

static clq_status check(const char *path, json_t *document, clq_result_file *out) {
    if (!json_object_get(document, "schema") && json_is_array(json_object_get(document, "predictions")))
        CLQ_TRY(adopt_predictions(path, document));
    const char *schema = json_string_value(json_object_get(document, "schema"));
    const char *bench = json_string_value(json_object_get(document, "bench"));
    json_t *rows = json_object_get(document, "rows");
    if (!schema || strcmp(schema, "clique-bench/1") != 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: not a result of clique bench: \"schema\" is not \"clique-bench/1\"",
                        path);
    if (!bench || !*bench) return clq_fail(CLQ_ERROR_FORMAT, "%s: \"bench\" does not name a benchmark", path);
    if (!json_is_array(rows)) return clq_fail(CLQ_ERROR_FORMAT, "%s: \"rows\" is not an array", path);
    CLQ_TRY(check_members(path, document));
    CLQ_TRY(check_table(path, "device", json_object_get(document, "devices")));
    CLQ_TRY(check_table(path, "row", rows));
    *out = (clq_result_file){.path = path, .document = document, .bench = bench, .rows = rows};
    return CLQ_OK;
}

clq_status clq_result_read(const char *path, clq_result_file *out) {
    json_t *document;
    CLQ_TRY(clq_json_read(path, CLQ_RESULT_BYTES_MAX, CLQ_RESULT_DEPTH_MAX, &document));
    clq_status status = check(path, document, out);
    if (status != CLQ_OK) json_decref(document);
    return status;
}

void clq_result_release(clq_result_file *file) {
    json_decref(file->document);
    *file = (clq_result_file){0};
}

bool clq_result_is_passing(const char *name) { return strcmp(name, "others_cores") == 0 || strcmp(name, "busy") == 0; }

static bool tells_the_same(json_t *host, json_t *other) {
    const char *name;
    json_t *value;
    json_object_foreach(host, name, value) {
        if (!clq_result_is_passing(name) && !json_equal(value, json_object_get(other, name))) return false;
    }
    return true;
}

bool clq_result_same_host(const clq_result_file *a, const clq_result_file *b) {
    json_t *host = json_object_get(a->document, "host"), *other = json_object_get(b->document, "host");
    return json_is_object(host) && json_is_object(other) && tells_the_same(host, other) && tells_the_same(other, host);
}

/* ---- columns ----------------------------------------------------------------------------------------------------- */

const clq_unit *clq_unit_of(const char *name, size_t length) {
    static const clq_unit units[] = {{"_per_s", "/s", CLQ_COLUMN_RATE},       {"gbps", "GB/s", CLQ_COLUMN_RATE},
                                     {"_gbps", "GB/s", CLQ_COLUMN_RATE},      {"gflops", "GFLOP/s", CLQ_COLUMN_RATE},
                                     {"_gflops", "GFLOP/s", CLQ_COLUMN_RATE}, {"us", "µs", CLQ_COLUMN_TIME},
                                     {"_us", "µs", CLQ_COLUMN_TIME},          {"ms", "ms", CLQ_COLUMN_TIME},
                                     {"_ms", "ms", CLQ_COLUMN_TIME},          {"_s", "s", CLQ_COLUMN_TIME}};
    for (size_t i = 0; i < CLQ_COUNT_OF(units); i++) {
        size_t end = strlen(units[i].end);
        bool fits = units[i].end[0] == '_' ? end < length : end == length;
        if (fits && memcmp(name + length - end, units[i].end, end) == 0) return &units[i];
    }
    return NULL;
}

clq_column_kind clq_column_kind_of(const char *name) {
    /* What a row was compared with, and what is only a part of its time. */
    if (strncmp(name, "limit", 5) == 0 || strncmp(name, "peer_", 5) == 0 || strncmp(name, "comm_", 5) == 0)
        return CLQ_COLUMN_OTHER;
    const clq_unit *unit = clq_unit_of(name, strlen(name));
    return unit ? unit->kind : CLQ_COLUMN_OTHER;
}

/* The value as a measurement, whatever its unit; 0: it cannot be one. The bounds keep the quotient of two measurements
 * from overflowing. */
static double sane(const json_t *value) {
    double number = json_number_value(value);
    return number > 1e-30 && number < 1e30 ? number : 0.0;
}

double clq_typical(const json_t *value) { return sane(json_is_object(value) ? json_object_get(value, "p50") : value); }

bool clq_column_is_measured(const char *name, const json_t *value) {
    static const char *const outcomes[] = {
        "wrong",  "overlap", "efficiency", "of_apart", "ratio",     "pct_of_limit", "peer_version", "path",    "limit",
        "reason", "note",    "chosen",     "busy",     "zero_copy", "verdict",      "launches",     "answers", NULL};
    return json_is_real(value) || json_is_object(value) || json_is_array(value) || json_is_null(value) ||
           clq_unit_of(name, strlen(name)) || ends_with(name, "_least") || ends_with(name, "_most") ||
           clq_is_one_of(name, outcomes);
}

json_t *clq_row_key(json_t *row) {
    json_t *key = json_object(), *value;
    const char *name;
    json_object_foreach(row, name, value) {
        if (!clq_column_is_measured(name, value)) key = clq_json_put(key, name, json_incref(value));
    }
    return key;
}

/* ---- speed ------------------------------------------------------------------------------------------------------- */

/* Reads a number. It is 0 if it is missing, null, or cannot be a speed. */
static clq_status read_number(const json_t *value, const char *where, const char *name, double *out) {
    if (value && !json_is_null(value) && !json_is_number(value))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: '%s' is not a number", where, name);
    *out = sane(value);
    return CLQ_OK;
}

/* A speed is {"min", "p50", "p99"}, or a number that may have NAME_least and NAME_most beside it. */
static clq_status read_speed(json_t *row, const char *name, const json_t *value, const char *where, clq_speed *out) {
    clq_speed speed = {.column = name, .is_time = clq_column_kind_of(name) == CLQ_COLUMN_TIME};
    double low, high;
    if (json_is_object(value)) {
        CLQ_TRY(read_number(json_object_get(value, "p50"), where, name, &speed.typical));
        CLQ_TRY(read_number(json_object_get(value, "min"), where, name, &low));
        CLQ_TRY(read_number(json_object_get(value, "p99"), where, name, &high));
    } else {
        char least[96], most[96];
        snprintf(least, sizeof least, "%s_least", name);
        snprintf(most, sizeof most, "%s_most", name);
        CLQ_TRY(read_number(value, where, name, &speed.typical));
        CLQ_TRY(read_number(json_object_get(row, least), where, least, &low));
        CLQ_TRY(read_number(json_object_get(row, most), where, most, &high));
    }
    speed.has_spread = low != 0.0 && high != 0.0;
    speed.least = speed.has_spread ? CLQ_MIN(low, speed.typical) : speed.typical;
    speed.most = speed.has_spread ? CLQ_MAX(high, speed.typical) : speed.typical;
    *out = speed;
    return CLQ_OK;
}

/* The smallest rank is the best. A speed with a spread goes before all without. */
static int rank_of(const char *name, const clq_speed *speed) {
    int rank = strcmp(name, "ratio") == 0          ? 0
               : strcmp(name, "images_per_s") == 0 ? 1
               : strcmp(name, "time_us") == 0      ? 2
               : speed->is_time                    ? 4
                                                   : 3;
    return rank + (speed->has_spread ? 0 : 5);
}

clq_status clq_row_speed(json_t *row, const char *where, clq_speed *out) {
    clq_speed best = {0};
    int best_rank = 10;
    const char *name;
    json_t *value;
    json_object_foreach(row, name, value) {
        if (clq_column_kind_of(name) == CLQ_COLUMN_OTHER && strcmp(name, "ratio") != 0) continue;
        clq_speed speed;
        CLQ_TRY(read_speed(row, name, value, where, &speed));
        if (speed.typical == 0.0 || rank_of(name, &speed) >= best_rank) continue;
        best = speed;
        best_rank = rank_of(name, &speed);
    }
    *out = best;
    return CLQ_OK;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Whether all digits before the point are printed, which people prefer to an exponent, up to a width. */
static bool is_short(double value) { return fabs(value) >= 9999.5 && fabs(value) < 1e12; }

static void add_compact(const json_t *value, clq_text *text) {
    char *compact = clq_json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(4));
    text->failed |= !compact;
    if (compact) clq_text_add_clean(text, compact);
    clq_free(compact);
}

void clq_value_text(const json_t *value, clq_text *text) {
    if (json_is_string(value))
        clq_text_add_clean(text, json_string_value(value));
    else if (json_is_boolean(value))
        clq_text_add(text, "%s", json_is_true(value) ? "yes" : "no");
    else if (json_is_integer(value))
        clq_text_add(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        clq_text_add(text, is_short(json_real_value(value)) ? "%.0f" : "%.4g", json_real_value(value));
    else if (json_is_array(value) || json_is_object(value))
        add_compact(value, text);
    else
        clq_text_add(text, "-");
}
