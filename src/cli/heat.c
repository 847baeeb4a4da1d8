/* Matrices of device x device as tables whose cells are shaded by their value. */
#include "cli/html.h"
#include "cli/results.h"

/* More devices than this make no picture, and nobody looks at more pictures than this. Rows that are left out stay in
 * the table of all rows. */
enum { DEVICES_MAX = 64, MAPS_MAX = 64 };

typedef struct heat_map {
    double value[DEVICES_MAX][DEVICES_MAX]; /* 0: not measured */
    json_t *row[DEVICES_MAX][DEVICES_MAX];  /* NULL: no such row */
    size_t devices;
    double least, most;
} heat_map;

static bool is_index(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 && json_integer_value(value) < DEVICES_MAX;
}

static bool is_cell(json_t *row) {
    return is_index(json_object_get(row, "from")) && is_index(json_object_get(row, "to"));
}

/* Fills the map with one column of a family's rows. False: no row has a value in that column. */
static bool fill(heat_map *map, json_t *rows, const char *column) {
    *map = (heat_map){0};
    size_t i;
    json_t *row;
    bool any = false;
    json_array_foreach(rows, i, row) {
        const size_t from = (size_t)json_integer_value(json_object_get(row, "from"));
        const size_t to = (size_t)json_integer_value(json_object_get(row, "to"));
        double value = clq_typical(json_object_get(row, column));
        map->devices = CLQ_MAX(map->devices, CLQ_MAX(from, to) + 1);
        map->row[from][to] = row;
        map->value[from][to] = value;
        if (value == 0.0) continue;
        map->least = any ? CLQ_MIN(map->least, value) : value;
        map->most = any ? CLQ_MAX(map->most, value) : value;
        any = true;
    }
    return any;
}

/* ---- HTML -------------------------------------------------------------------------------------------------------- */

static void add_device(size_t index, json_t *devices, clq_text *page) {
    json_t *device = json_array_get(devices, index);
    const char *label = json_string_value(json_object_get(device, "label"));
    if (!label) label = json_string_value(json_object_get(device, "driver"));
    clq_text_add(page, "%zu", index);
    if (label) clq_text_add(page, " ");
    if (label) clq_html_text(label, page);
}

static void add_cell(const heat_map *map, size_t from, size_t to, clq_text *page) {
    double value = map->value[from][to], range = map->most - map->least;
    if (value > 0.0) {
        const char *mark = json_is_true(json_object_get(map->row[from][to], "zero_copy")) ? " zero-copy" : "";
        clq_text_add(page, "<td style=\"--v:%.3f\">%.*f%s</td>", range > 0.0 ? (value - map->least) / range : 0.5,
                     value < 10.0 ? 2 : value < 100.0, value, mark);
        return;
    }
    clq_text_add(page, "<td class=\"none\">%s</td>", map->row[from][to] ? "not measured" : "–");
}

static void add_reasons(const heat_map *map, clq_text *page) {
    for (size_t from = 0; from < map->devices; from++)
        for (size_t to = 0; to < map->devices; to++) {
            const char *reason = json_string_value(json_object_get(map->row[from][to], "reason"));
            if (map->value[from][to] > 0.0 || !reason) continue;
            clq_text_add(page, "<p class=\"note\">Not measured, %zu to %zu: ", from, to);
            clq_html_text(reason, page);
            clq_text_add(page, "</p>\n");
        }
}

static void add_map(const heat_map *map, json_t *key, const char *column, json_t *devices, clq_text *page) {
    bool time = clq_column_kind_of(column) == CLQ_COLUMN_TIME;
    clq_text_add(page, "<figure><div class=\"scroll\" tabindex=\"0\"><table class=\"heat\"><caption><b>");
    clq_html_column(column, NULL, page);
    clq_text_add(page, "</b> from the device of the row to that of the column; ");
    clq_html_key(key, page);
    clq_text_add(page, "%sdarker is %s</caption>\n<thead><tr><td></td>", json_object_size(key) ? "; " : "",
                 time ? "slower" : "faster");
    for (size_t to = 0; to < map->devices; to++) {
        clq_text_add(page, "<th scope=\"col\">to ");
        add_device(to, devices, page);
        clq_text_add(page, "</th>");
    }
    clq_text_add(page, "</tr></thead>\n<tbody>\n");
    for (size_t from = 0; from < map->devices; from++) {
        clq_text_add(page, "<tr><th scope=\"row\">from ");
        add_device(from, devices, page);
        clq_text_add(page, "</th>");
        for (size_t to = 0; to < map->devices; to++) add_cell(map, from, to, page);
        clq_text_add(page, "</tr>\n");
    }
    clq_text_add(page, "</tbody></table></div>\n");
    add_reasons(map, page);
    clq_text_add(page, "</figure>\n");
}

/* The columns that hold a speed in some row of the family. If there is a rate, time_us is left out: the time of a copy
 * says what its rate says. */
static json_t *speed_columns(json_t *rows, clq_text *page) {
    json_t *columns = json_object(), *row, *value;
    const char *name;
    size_t i, rates = 0;
    json_array_foreach(rows, i, row) {
        json_object_foreach(row, name, value) {
            if (clq_column_kind_of(name) == CLQ_COLUMN_OTHER || clq_typical(value) == 0.0) continue;
            page->failed |= json_object_set_new(columns, name, json_true()) != 0;
        }
    }
    json_object_foreach(columns, name, value) rates += clq_column_kind_of(name) == CLQ_COLUMN_RATE;
    if (rates) json_object_del(columns, "time_us");
    return columns;
}

size_t clq_html_heat_maps(json_t *rows, json_t *devices, clq_text *page) {
    static const char *const pair[] = {"from", "to", NULL};
    json_t *families = clq_html_families(rows, is_cell, pair, page), *family, *unused;
    heat_map *map = clq_alloc(1, sizeof *map);
    size_t count = 0, left_out = 0;
    const char *text, *column;
    page->failed |= !map;
    clq_text_add(page, "<div class=\"maps\">\n");
    json_object_foreach(families, text, family) {
        json_t *members = json_object_get(family, "rows"), *columns = speed_columns(members, page);
        page->failed |= !columns;
        json_object_foreach(columns, column, unused) {
            if (!map || !fill(map, members, column)) continue;
            if (count == MAPS_MAX) {
                left_out++;
                continue;
            }
            add_map(map, json_object_get(family, "key"), column, devices, page);
            count++;
        }
        json_decref(columns);
    }
    clq_text_add(page, "</div>\n");
    if (left_out > 0)
        clq_text_add(page, "<p class=\"note\">%zu more tables of this kind are left out; the table has all rows.</p>\n",
                     left_out);
    clq_free(map);
    json_decref(families);
    return count;
}
