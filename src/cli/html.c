#include "cli/html.h"
#include "cli/results.h"

#include <math.h>
#include <string.h>

/* ---- escaping ---------------------------------------------------------------------------------------------------- */

static const char *escape_of(char c) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void clq_html_text(const char *from, clq_text *page) {
    clq_text clean = {0};
    clq_text_add_clean(&clean, from);
    for (const char *c = clean.data; c && *c; c++) {
        const char *escape = escape_of(*c);
        if (escape)
            clq_text_add(page, "%s", escape);
        else
            clq_text_add_bytes(page, c, 1);
    }
    page->failed |= clean.failed;
    clq_free(clean.data);
}

/* Adds bytes as "64 KiB" if that is exact, as "23.4 GiB" if they are many, otherwise as digits. */
static void add_bytes(double bytes, clq_text *page) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    const double gib = (double)(1 << 30);
    double value = bytes;
    size_t unit = 0;
    while (value >= 1024.0 && fmod(value, 1024.0) == 0.0 && unit + 1 < CLQ_COUNT_OF(units)) {
        value /= 1024.0;
        unit++;
    }
    if (bytes >= gib && value >= 1024.0)
        clq_text_add(page, "%.1f GiB", bytes / gib);
    else if (unit > 0)
        clq_text_add(page, "%.0f %s", value, units[unit]);
    else
        clq_text_add(page, "%.0f", bytes);
}

static bool is_size(const char *name) {
    size_t length = strlen(name);
    return strcmp(name, "bytes") == 0 || (length > 6 && strcmp(name + length - 6, "_bytes") == 0);
}

static size_t length_without(const char *name, const char *end) {
    size_t length = strlen(name), end_length = strlen(end);
    return length > end_length && strcmp(name + length - end_length, end) == 0 ? length - end_length : length;
}

void clq_html_column(const char *name, const char *inner, clq_text *page) {
    const size_t length = CLQ_MIN(length_without(name, "_least"), length_without(name, "_most"));
    const clq_unit *unit = clq_unit_of(name, length);
    const size_t stem = unit ? length - strlen(unit->end) : length;
    const char *tail = name[length] ? name + length + 1 : inner;
    const char *per = unit && unit->text[0] == '/' ? unit->text : "", *last = unit && !*per ? unit->text : "";
    char *words = clq_strprintf("%.*s%s%s%s%s%s", (int)stem, name, per, stem && tail ? " " : "", tail ? tail : "",
                                *last && (stem || tail) ? ", " : "", last);
    page->failed |= !words;
    if (words) clq_html_text(words, page);
    clq_free(words);
}

void clq_html_value(const char *name, const json_t *value, clq_text *page) {
    if (json_is_number(value) && is_size(name)) {
        add_bytes(json_number_value(value), page);
        return;
    }
    clq_text text = {0};
    clq_value_text(value, &text);
    if (text.data) clq_html_text(text.data, page);
    page->failed |= text.failed;
    clq_free(text.data);
}

void clq_html_key(json_t *key, clq_text *page) {
    const char *name, *comma = "";
    json_t *value;
    json_object_foreach(key, name, value) {
        clq_text_add(page, "%s", comma);
        clq_html_text(name, page);
        clq_text_add(page, " ");
        clq_html_value(name, value, page);
        comma = ", ";
    }
}

/* In JSON these characters only occur in strings, where an escape means the same. */
void clq_html_script_json(json_t *document, clq_text *page) {
    char *text = clq_json_dumps(document, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    if (!text) page->failed = true;
    for (const char *c = text; c && *c; c++) {
        if (strchr("<>&", *c))
            clq_text_add(page, "\\u%04x", (unsigned)*c);
        else
            clq_text_add_bytes(page, c, 1);
    }
    clq_free(text);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

/* Notes a column: the member `name` of the member `outer`, or of the row if `outer` is NULL. The length of `outer` in
 * the key keeps apart names that would otherwise form the same text. */
static void note_column(json_t *columns, const char *outer, const char *name, clq_text *page) {
    char *key = outer ? clq_strprintf("%zu %s %s", strlen(outer), outer, name) : clq_strprintf("- %s", name);
    page->failed |= !key;
    if (key && !json_object_get(columns, key))
        page->failed |= json_object_set_new(columns, key, json_pack("[s?, s]", outer, name)) != 0;
    clq_free(key);
}

/* The columns by the keys that note_column makes, in the order of their first appearance. Each is [outer or null,
 * name]. */
static json_t *survey(json_t *rows, clq_text *page) {
    json_t *columns = json_object(), *row, *value, *inner;
    const char *name, *inner_name;
    size_t i;
    json_array_foreach(rows, i, row) {
        json_object_foreach(row, name, value) {
            if (json_is_object(value)) {
                json_object_foreach(value, inner_name, inner) note_column(columns, name, inner_name, page);
            } else {
                note_column(columns, NULL, name, page);
            }
        }
    }
    return columns;
}

/* Longer text is broken into lines. */
enum { LONG_TEXT = 60 };

static void add_cell(const char *name, json_t *value, clq_text *page) {
    bool number = json_is_number(value), wrong = strcmp(name, "wrong") == 0 && json_number_value(value) != 0.0;
    bool is_long = json_is_string(value) && json_string_length(value) > LONG_TEXT;
    clq_text_add(page, "<td%s",
                 wrong     ? " class=\"n bad\""
                 : number  ? " class=\"n\""
                 : is_long ? " class=\"long\""
                           : "");
    if (number && is_size(name)) clq_text_add(page, " title=\"%.0f\"", json_number_value(value));
    clq_text_add(page, ">");
    clq_html_value(name, value, page);
    clq_text_add(page, "</td>");
}

static void add_titles(json_t *columns, clq_text *page) {
    const char *key;
    json_t *column;
    clq_text_add(page, "<thead><tr>");
    json_object_foreach(columns, key, column) {
        const char *outer = json_string_value(json_array_get(column, 0)),
                   *name = json_string_value(json_array_get(column, 1));
        clq_text_add(page, "<th scope=\"col\">");
        clq_html_column(outer ? outer : name, outer ? name : NULL, page);
        clq_text_add(page, "</th>");
    }
    clq_text_add(page, "</tr></thead>\n");
}

void clq_html_table(json_t *rows, const char *caption, clq_text *page) {
    json_t *columns = survey(rows, page), *row, *column;
    const char *key;
    size_t i;
    clq_text_add(page, "<div class=\"scroll\" tabindex=\"0\"><table><caption>%s</caption>", caption);
    add_titles(columns, page);
    clq_text_add(page, "<tbody>\n");
    json_array_foreach(rows, i, row) {
        clq_text_add(page, "<tr>");
        json_object_foreach(columns, key, column) {
            const char *outer = json_string_value(json_array_get(column, 0)),
                       *name = json_string_value(json_array_get(column, 1));
            json_t *value = json_object_get(outer ? json_object_get(row, outer) : row, name);
            add_cell(name, value, page);
        }
        clq_text_add(page, "</tr>\n");
    }
    clq_text_add(page, "</tbody></table></div>\n");
    json_decref(columns);
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

json_t *clq_html_families(json_t *rows, bool (*is_member)(json_t *row), const char *const *parts, clq_text *page) {
    json_t *families = json_object(), *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        if (!is_member(row)) continue;
        json_t *key = clq_row_key(row);
        for (const char *const *part = parts; *part; part++) json_object_del(key, *part);
        char *text = clq_json_dumps(key, JSON_SORT_KEYS | JSON_COMPACT);
        if (text && !json_object_get(families, text))
            page->failed |= json_object_set_new(families, text, json_pack("{s:O, s:[]}", "key", key, "rows")) != 0;
        page->failed |= json_array_append(json_object_get(json_object_get(families, text), "rows"), row) != 0;
        clq_free(text);
        json_decref(key);
    }
    page->failed |= !families;
    return families;
}
