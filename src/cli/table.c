#include "cli/table.h"
#include "cli/results.h"

static void add_string(json_t *line, const clq_text *text, clq_table *table) {
    if (text->failed || json_array_append_new(line, json_string(text->data ? text->data : "")) != 0)
        table->failed = true;
}

static json_t *last_line(clq_table *table) { return json_array_get(table->lines, json_array_size(table->lines) - 1); }

void clq_key_text(json_t *key, clq_text *text) {
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

/* The names of all keys in the order of their first appearance, each with its value where all rows have that one, else
 * with null. NULL where memory is out. */
static json_t *survey(json_t *rows, const char *member) {
    json_t *names = json_object(), *row, *value;
    size_t i;
    const char *name;
    int failed = 0;
    json_array_foreach(rows, i, row) {
        json_t *key = json_object_get(row, member);
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

void clq_table_start(json_t *rows, const char *member, clq_table *out) {
    *out = (clq_table){.lines = json_array(), .columns = json_array()};
    json_t *names = survey(rows, member), *shared = json_object(), *value;
    json_t *titles = json_array();
    const char *name;
    bool alone = json_array_size(rows) < 2; /* then nothing differs, and all of it names the row */
    json_object_foreach(names, name, value) {
        if (!alone && !json_is_null(value)) {
            out->failed |= json_object_set(shared, name, value) != 0;
            continue;
        }
        clq_text title = {0};
        clq_text_add_clean(&title, name);
        add_string(titles, &title, out);
        clq_free(title.data);
        out->failed |= json_array_append_new(out->columns, json_string(name)) != 0;
    }
    clq_key_text(shared, &out->shared);
    out->failed |= !names || !shared || out->shared.failed || json_array_append_new(out->lines, titles) != 0;
    json_decref(names);
    json_decref(shared);
}

void clq_table_title(clq_table *table, const char *title) { clq_table_text(table, title); }

void clq_table_row(clq_table *table, json_t *key) {
    if (json_array_append_new(table->lines, json_array()) != 0) table->failed = true;
    size_t i;
    json_t *name;
    json_array_foreach(table->columns, i, name) clq_table_value(table, json_object_get(key, json_string_value(name)));
}

void clq_table_value(clq_table *table, json_t *value) {
    clq_text text = {0};
    clq_value_text(value, &text);
    add_string(last_line(table), &text, table);
    clq_free(text.data);
}

void clq_table_text(clq_table *table, const char *text) {
    if (json_array_append_new(last_line(table), json_string(text)) != 0) table->failed = true;
}

/* Characters, not bytes: what follows a first byte in UTF-8 is 10xxxxxx. */
static size_t width_of(const json_t *string) {
    size_t width = 0;
    for (const char *c = json_string_value(string); c && *c; c++) width += ((unsigned char)*c & 0xc0) != 0x80;
    return width;
}

static void print_lines(const clq_table *table, const size_t *widths, size_t columns, FILE *to) {
    size_t i, k;
    json_t *line, *cell;
    json_array_foreach(table->lines, i, line) {
        json_array_foreach(line, k, cell) {
            bool last = k + 1 == columns; /* words, to the left */
            fprintf(to, "%*s%s%s", last ? 0 : (int)(widths[k] - width_of(cell)), "", json_string_value(cell),
                    last ? "" : "  ");
        }
        fputc('\n', to);
    }
}

clq_status clq_table_print(clq_table *table, FILE *to) {
    size_t columns = json_array_size(json_array_get(table->lines, 0)), i, k;
    size_t *widths = table->failed ? NULL : clq_alloc(columns, sizeof *widths);
    clq_status status = widths ? CLQ_OK : clq_fail_memory("building a table");
    if (widths) {
        json_t *line, *cell;
        json_array_foreach(table->lines, i, line) {
            json_array_foreach(line, k, cell) widths[k] = CLQ_MAX(widths[k], width_of(cell));
        }
        if (table->shared.length) fprintf(to, "all rows: %s\n", table->shared.data);
        print_lines(table, widths, columns, to);
    }
    clq_free(widths);
    clq_free(table->shared.data);
    json_decref(table->lines);
    json_decref(table->columns);
    *table = (clq_table){0};
    return status;
}
