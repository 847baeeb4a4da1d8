/* clique compare A.json B.json: what changed between two runs of a benchmark, row by row.
 *
 * Rows are matched by their key. A ratio is the speed of B over the speed of A. Its range goes from B's slowest over
 * A's fastest to B's fastest over A's slowest, by each row's own spread (min and p99, or least and most). If that range
 * leaves out 1, every measurement of one run was better than all of the other, and the change is called beyond the
 * noise. */
#include "cli/cli.h"
#include "cli/results.h"

#include <string.h>

enum { KEY_FAIL_BELOW = 256, KEY_FILE, KEY_COMPARE_JSON };

typedef struct options {
    const char *files[2];
    unsigned count;
    double fail_below; /* 0: not asked for */
    bool json;
} options;

typedef struct comparison {
    clq_result_file a, b;
    json_t *document;                            /* what --json prints, and what the table is made of */
    json_t *rows, *only_a, *only_b, *unmeasured; /* inside the document */
    json_t *slowest;                             /* the slowest row below the limit, inside the document */
    size_t below, beyond;
} comparison;

static clq_status out_of_memory(void) { return clq_fail_memory("comparing"); }

/* ---- matching ---------------------------------------------------------------------------------------------------- */

static clq_status name_row(json_t *list, json_t *row, const char *reason) {
    json_t *entry = reason ? json_pack("{s:o, s:s}", "key", clq_row_key(row), "reason", reason) : clq_row_key(row);
    return json_array_append_new(list, entry) == 0 ? CLQ_OK : out_of_memory();
}

/* The row's key as text, whatever the order of its columns. */
static char *key_text(json_t *row) {
    json_t *key = clq_row_key(row);
    char *text = clq_json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(key);
    return text;
}

/* The rows of a file by their key text. Rows of one key form a chain, in their order. */
typedef struct row_index {
    json_t *heads; /* from a key text to the number of its first row that is not taken yet */
    json_int_t *next;
    bool *taken;
} row_index;
enum { NO_ROW = -1 };

static void release_index(row_index *x) {
    json_decref(x->heads);
    clq_free(x->next);
    clq_free(x->taken);
}

static clq_status index_rows(const clq_result_file *file, row_index *out) {
    size_t count = json_array_size(file->rows);
    row_index x = {
        .heads = json_object(), .next = clq_alloc(count, sizeof *x.next), .taken = clq_alloc(count, sizeof *x.taken)};
    bool failed = !x.heads || !x.next || !x.taken;
    for (size_t i = count; i-- > 0 && !failed;) {
        char *text = key_text(json_array_get(file->rows, i));
        json_t *head = text ? json_object_get(x.heads, text) : NULL;
        x.next[i] = head ? json_integer_value(head) : NO_ROW;
        failed = !text || json_object_set_new(x.heads, text, json_integer((json_int_t)i)) != 0;
        clq_free(text);
    }
    if (!failed) {
        *out = x;
        return CLQ_OK;
    }
    release_index(&x);
    return out_of_memory();
}

/* Takes the next row of that key; NULL: there is none. */
static json_t *take_row(const clq_result_file *file, row_index *x, const char *text) {
    json_t *head = json_object_get(x->heads, text);
    json_int_t at = head ? json_integer_value(head) : NO_ROW;
    if (at == NO_ROW) return NULL;
    x->taken[at] = true;
    json_integer_set(head, x->next[at]);
    return json_array_get(file->rows, (size_t)at);
}

static clq_status compare_rows(comparison *c, const options *o, json_t *row, const clq_speed *a, const clq_speed *b) {
    bool time = a->is_time;
    double ratio = time ? a->typical / b->typical : b->typical / a->typical;
    double least = time ? a->least / b->most : b->least / a->most,
           most = time ? a->most / b->least : b->most / a->least;
    bool known = a->has_spread && b->has_spread, beyond = least > 1.0 || most < 1.0;
    json_t *entry = json_pack(
        "{s:o, s:s, s:f, s:f, s:f, s:o, s:o, s:o}", "key", clq_row_key(row), "measure", a->column, "a", a->typical, "b",
        b->typical, "ratio", ratio, "ratio_least", known ? json_real(least) : json_null(), "ratio_most",
        known ? json_real(most) : json_null(), "beyond_noise", known ? json_boolean(beyond) : json_null());
    if (json_array_append_new(c->rows, entry) != 0) return out_of_memory();
    c->beyond += known && beyond;
    if (ratio < o->fail_below) {
        c->below++;
        if (!c->slowest || ratio < json_real_value(json_object_get(c->slowest, "ratio"))) c->slowest = entry;
    }
    return CLQ_OK;
}

static clq_status match_row(comparison *c, const options *o, json_t *row, size_t number, row_index *x) {
    char *text = key_text(row), where[512];
    if (!text) return out_of_memory();
    json_t *other = take_row(&c->b, x, text);
    clq_free(text);
    if (!other) return name_row(c->only_a, row, NULL);
    clq_speed a, b;
    snprintf(where, sizeof where, "%.400s: row %zu", c->a.path, number);
    CLQ_TRY(clq_row_speed(row, where, &a));
    snprintf(where, sizeof where, "%.250s: the row like row %zu of %.200s", c->b.path, number, c->a.path);
    CLQ_TRY(clq_row_speed(other, where, &b));
    if (!a.column || !b.column)
        return name_row(c->unmeasured, row,
                        a.column   ? "not measured in B"
                        : b.column ? "not measured in A"
                                   : "measured in neither");
    if (strcmp(a.column, b.column) != 0) return name_row(c->unmeasured, row, "measured in other ways");
    return compare_rows(c, o, row, &a, &b);
}

static clq_status match_all(comparison *c, const options *o, row_index *x) {
    json_t *row;
    size_t i;
    json_array_foreach(c->a.rows, i, row) CLQ_TRY(match_row(c, o, row, i + 1, x));
    json_array_foreach(c->b.rows, i, row) {
        if (!x->taken[i]) CLQ_TRY(name_row(c->only_b, row, NULL));
    }
    return CLQ_OK;
}

static clq_status match(comparison *c, const options *o) {
    row_index x;
    CLQ_TRY(index_rows(&c->b, &x));
    clq_status status = match_all(c, o, &x);
    release_index(&x);
    return status;
}

/* ---- a table of the rows ----------------------------------------------------------------------------------------- */

/* A table of rows. Each part of the rows' keys that differs has a column. The parts that all rows share stand in a line
 * above the table. */
typedef struct text_table {
    json_t *lines;   /* arrays of strings; the first holds the titles */
    json_t *columns; /* of the keys: the names that differ */
    clq_text shared;
    bool failed; /* memory was out: print_table reports it */
} text_table;

/* "bytes=4096 dtype=f32 algo=ring" */
static void add_key(json_t *key, clq_text *text) {
    const char *name, *space = "";
    json_t *value;
    json_object_foreach(key, name, value) {
        clq_text_add(text, "%s", space);
        clq_text_add_clean(text, name);
        clq_text_add(text, "=");
        clq_value_text(value, text);
        space = " ";
    }
}

static void begin_line(text_table *t) { t->failed |= json_array_append_new(t->lines, json_array()) != 0; }

static void add_text(text_table *t, const char *text) {
    json_t *line = json_array_get(t->lines, json_array_size(t->lines) - 1);
    t->failed |= json_array_append_new(line, json_string(text)) != 0;
}

static void add_value(text_table *t, const json_t *value) {
    clq_text text = {0};
    clq_value_text(value, &text);
    t->failed |= text.failed;
    add_text(t, text.data ? text.data : "");
    clq_free(text.data);
}

/* The names in all keys, in the order of their first appearance. A name has its value if all rows have the same one,
 * otherwise null. NULL: out of memory. */
static json_t *survey(json_t *rows) {
    json_t *names = json_object(), *row, *value;
    size_t i;
    const char *name;
    int failed = 0;
    json_array_foreach(rows, i, row) {
        json_t *key = json_object_get(row, "key");
        json_object_foreach(key, name, value) {
            json_t *known = json_object_get(names, name);
            if (!known)
                failed |= json_object_set_new(names, name, i == 0 ? json_incref(value) : json_null());
            else if (!json_equal(known, value))
                failed |= json_object_set_new(names, name, json_null());
        }
        json_object_foreach(names, name, value) {
            if (!json_object_get(key, name)) failed |= json_object_set_new(names, name, json_null());
        }
    }
    if (!failed) return names;
    json_decref(names);
    return NULL;
}

/* Starts a table with the titles of the keys' columns. */
static void start_table(json_t *rows, text_table *out) {
    *out = (text_table){.lines = json_array(), .columns = json_array()};
    json_t *names = survey(rows), *shared = json_object(), *value;
    const char *name;
    bool alone = json_array_size(rows) < 2; /* then nothing differs, and the whole key names the row */
    begin_line(out);
    json_object_foreach(names, name, value) {
        if (!alone && !json_is_null(value)) {
            out->failed |= json_object_set(shared, name, value) != 0;
            continue;
        }
        json_t *column = json_string(name);
        add_value(out, column);
        out->failed |= json_array_append_new(out->columns, column) != 0;
    }
    add_key(shared, &out->shared);
    out->failed |= !names || !shared || out->shared.failed;
    json_decref(names);
    json_decref(shared);
}

/* Begins the line of a row. */
static void add_row(text_table *t, json_t *key) {
    size_t i;
    json_t *name;
    begin_line(t);
    json_array_foreach(t->columns, i, name) add_value(t, json_object_get(key, json_string_value(name)));
}

/* Counts characters, not bytes: in UTF-8, all bytes of a character after the first are 10xxxxxx. */
static size_t width_of(const json_t *string) {
    size_t width = 0;
    for (const char *c = json_string_value(string); c && *c; c++) width += ((unsigned char)*c & 0xc0) != 0x80;
    return width;
}

static void print_lines(const text_table *t, const size_t *widths) {
    size_t i, k;
    json_t *line, *cell;
    json_array_foreach(t->lines, i, line) {
        json_array_foreach(line, k, cell) {
            bool last = k + 1 == json_array_size(line); /* it has words, which begin at the left */
            printf("%*s%s%s", last ? 0 : (int)(widths[k] - width_of(cell)), "", json_string_value(cell),
                   last ? "" : "  ");
        }
        putchar('\n');
    }
}

/* Prints and releases the table. */
static clq_status print_table(text_table *t) {
    size_t *widths = t->failed ? NULL : clq_alloc(json_array_size(json_array_get(t->lines, 0)), sizeof *widths);
    clq_status status = widths ? CLQ_OK : clq_fail_memory("building a table");
    if (widths) {
        size_t i, k;
        json_t *line, *cell;
        json_array_foreach(t->lines, i, line) {
            json_array_foreach(line, k, cell) widths[k] = CLQ_MAX(widths[k], width_of(cell));
        }
        if (t->shared.length) printf("all rows: %s\n", t->shared.data);
        print_lines(t, widths);
    }
    clq_free(widths);
    clq_free(t->shared.data);
    json_decref(t->lines);
    json_decref(t->columns);
    return status;
}

/* ---- what comes out ---------------------------------------------------------------------------------------------- */

static const char *verdict_of(json_t *row) {
    json_t *beyond = json_object_get(row, "beyond_noise");
    if (!json_is_boolean(beyond)) return "no spread to judge by";
    if (!json_is_true(beyond)) return "within the noise";
    return json_real_value(json_object_get(row, "ratio")) > 1.0 ? "faster" : "SLOWER";
}

static clq_status print_rows(const comparison *c) {
    static const char *const columns[] = {"measure", "a", "b", "ratio", "ratio_least", "ratio_most"};
    static const char *const titles[] = {"measure", "A", "B", "ratio", "from", "to", ""};
    text_table t;
    start_table(c->rows, &t);
    for (size_t k = 0; k < CLQ_COUNT_OF(titles); k++) add_text(&t, titles[k]);
    size_t i;
    json_t *row;
    json_array_foreach(c->rows, i, row) {
        add_row(&t, json_object_get(row, "key"));
        for (size_t k = 0; k < CLQ_COUNT_OF(columns); k++) add_value(&t, json_object_get(row, columns[k]));
        add_text(&t, verdict_of(row));
    }
    return print_table(&t);
}

static clq_status print_list(json_t *list, const char *title) {
    size_t i;
    json_t *entry;
    json_array_foreach(list, i, entry) {
        clq_text text = {0};
        json_t *key = json_object_get(entry, "reason") ? json_object_get(entry, "key") : entry;
        const char *reason = json_string_value(json_object_get(entry, "reason"));
        add_key(key, &text);
        if (!text.failed) printf("%s: %s\n", reason ? reason : title, text.data ? text.data : "");
        clq_free(text.data);
        if (text.failed) return out_of_memory();
    }
    return CLQ_OK;
}

static clq_status print_text(const comparison *c) {
    CLQ_TRY(clq_print(stdout, "%s: A = %s, B = %s\n", c->a.bench, c->a.path, c->b.path));
    if (!json_is_true(json_object_get(c->document, "same_machine")))
        puts("note: the two files tell of different hosts or devices");
    if (json_array_size(c->rows)) CLQ_TRY(print_rows(c));
    CLQ_TRY(print_list(c->only_a, "only in A"));
    CLQ_TRY(print_list(c->only_b, "only in B"));
    CLQ_TRY(print_list(c->unmeasured, ""));
    printf("%zu rows compared, %zu beyond the noise. Ratio: speed of B over speed of A, above 1 where B is faster; "
           "from and to: the same\n"
           "with one run's slowest over the other's fastest (min and p99, least and most); beyond the noise: where "
           "these leave out 1.\n",
           json_array_size(c->rows), c->beyond);
    return CLQ_OK;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static clq_status start(comparison *c) {
    if (strcmp(c->a.bench, c->b.bench) != 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s and %s hold results of different benchmarks", c->a.path, c->b.path);
    c->rows = json_array();
    c->only_a = json_array();
    c->only_b = json_array();
    c->unmeasured = json_array();
    bool same = clq_result_same_host(&c->a, &c->b) &&
                json_equal(json_object_get(c->a.document, "devices"), json_object_get(c->b.document, "devices"));
    c->document = json_pack("{s:s, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "bench", c->a.bench, "a",
                            clq_json_text(c->a.path), "b", clq_json_text(c->b.path), "same_machine", (int)same, "rows",
                            c->rows, "only_a", c->only_a, "only_b", c->only_b, "unmeasured", c->unmeasured);
    return c->document ? CLQ_OK : out_of_memory();
}

static clq_status judge(const comparison *c, const options *o) {
    if (!json_array_size(c->rows))
        return clq_fail(CLQ_ERROR_FORMAT, "%s and %s have no measured row in common", c->a.path, c->b.path);
    if (!c->below) return CLQ_OK;
    clq_text text = {0};
    add_key(json_object_get(c->slowest, "key"), &text);
    clq_status status =
        text.failed ? out_of_memory()
                    : clq_fail(CLQ_ERROR_STATE, "%zu of %zu rows are below %g; the slowest has %.3g: %s", c->below,
                               json_array_size(c->rows), o->fail_below,
                               json_real_value(json_object_get(c->slowest, "ratio")), text.data ? text.data : "");
    clq_free(text.data);
    return status;
}

static clq_status compare(comparison *c, const options *o) {
    CLQ_TRY(clq_result_read(o->files[0], &c->a));
    CLQ_TRY(clq_result_read(o->files[1], &c->b));
    CLQ_TRY(start(c));
    CLQ_TRY(match(c, o));
    if (o->json)
        CLQ_TRY(clq_print_json(json_incref(c->document)));
    else
        CLQ_TRY(print_text(c));
    return judge(c, o);
}

static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    options *o = context;
    switch (option->key) {
    case KEY_FAIL_BELOW:
        if (clq_parse_double(text, 1e-9, 1e9, &o->fail_below)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "--fail-below '%s': expected a ratio above 0, such as 0.9", text);
    case KEY_COMPARE_JSON: o->json = true; return CLQ_OK;
    default:
        if (o->count == 2)
            return clq_fail(CLQ_ERROR_ARGUMENT, "unexpected argument '%s': two files are compared", text);
        o->files[o->count++] = text;
        return CLQ_OK;
    }
}

const clq_argument clq_compare_options[] = {
    {"A.json B.json", KEY_FILE, NULL, .help = "two results of one benchmark of clique bench, the older first",
     .plain = true},
    {"fail-below", KEY_FAIL_BELOW, "R", .help = "exit with 1 if a row's speed in B is below R times that in A"},
    {"json", KEY_COMPARE_JSON, NULL, .help = "one JSON document on stdout"},
    {0}};

clq_status clq_command_compare(int argc, char **argv) {
    options o = {0};
    CLQ_TRY(clq_subcommand_parse("compare", argc, argv, set_option, &o));
    if (o.count != 2) return clq_fail(CLQ_ERROR_ARGUMENT, "two files are needed: clique compare A.json B.json");
    comparison c = {0};
    clq_status status = compare(&c, &o);
    json_decref(c.document);
    clq_result_release(&c.a);
    clq_result_release(&c.b);
    return status;
}
