/* The launches of a step as tables, with a bar for the share of each, the largest share first. */
#include "cli/html.h"
#include "cli/results.h"

#include <stdlib.h>

/* Shares that a bar cannot show are summed up in one line below; the table of all rows has each of them. */
static const double share_least = 0.005;

enum { TABLES_MAX = 24 };

typedef struct bar {
    double share;
    size_t index;
    json_t *row;
} bar;

static double share_of(json_t *row) { return clq_typical(json_object_get(row, "share")); }

static bool is_part(json_t *row) {
    return json_is_string(json_object_get(row, "launch")) && share_of(row) > 0.0 && share_of(row) < 1.0;
}

static int by_share(const void *left, const void *right) {
    const bar *a = left, *b = right;
    if (a->share != b->share) return a->share < b->share ? 1 : -1;
    return (a->index > b->index) - (a->index < b->index);
}

static void add_value(const char *column, json_t *row, clq_text *page) {
    json_t *value = json_object_get(row, column);
    clq_text_add(page, json_is_number(value) ? "<td class=\"n\">" : "<td>");
    clq_html_value(column, value, page);
    clq_text_add(page, "</td>");
}

static void add_bar(const bar *b, clq_text *page) {
    static const char *const names[] = {"segment", "layer", "launch"};
    static const char *const values[] = {"us", "gflops", "gbps", "limit", "pct_of_limit"};
    clq_text_add(page, "<tr><td class=\"bar\" style=\"--v:%.1f%%\">%.1f %%</td>", 100 * b->share, 100 * b->share);
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) add_value(names[i], b->row, page);
    for (size_t i = 0; i < CLQ_COUNT_OF(values); i++) add_value(values[i], b->row, page);
    clq_text_add(page, "</tr>\n");
}

static void add_step(json_t *key, bar *bars, size_t count, clq_text *page) {
    size_t shown = 0;
    double rest = 0;
    qsort(bars, count, sizeof *bars, by_share);
    clq_text_add(page, "<figure><div class=\"scroll\" tabindex=\"0\"><table><caption><b>Shares of the step</b>; ");
    clq_html_key(key, page);
    clq_text_add(page, "</caption>\n<thead><tr>");
    static const char *const titles[] = {"share",   "segment", "layer", "launch",    "µs",
                                         "GFLOP/s", "GB/s",    "limit", "% of limit"};
    for (size_t i = 0; i < CLQ_COUNT_OF(titles); i++) clq_text_add(page, "<th scope=\"col\">%s</th>", titles[i]);
    clq_text_add(page, "</tr></thead>\n<tbody>\n");
    for (; shown < count && bars[shown].share >= share_least; shown++) add_bar(&bars[shown], page);
    for (size_t i = shown; i < count; i++) rest += bars[i].share;
    clq_text_add(page, "</tbody></table></div>\n");
    if (shown < count)
        clq_text_add(page, "<p class=\"note\">%zu shorter launches: %.1f %% together.</p>\n", count - shown,
                     100 * rest);
    clq_text_add(page, "</figure>\n");
}

size_t clq_html_shares(json_t *rows, clq_text *page) {
    static const char *const parts[] = {"segment", "layer", "launch", "device", NULL};
    json_t *families = clq_html_families(rows, is_part, parts, page), *family, *row;
    size_t tables = 0, i;
    const char *text;
    json_object_foreach(families, text, family) {
        json_t *members = json_object_get(family, "rows");
        if (tables == TABLES_MAX) break;
        bar *bars = clq_alloc(json_array_size(members), sizeof *bars);
        page->failed |= !bars;
        if (!bars) break;
        json_array_foreach(members, i, row) bars[i] = (bar){share_of(row), i, row};
        add_step(json_object_get(family, "key"), bars, json_array_size(members), page);
        tables++;
        clq_free(bars);
    }
    if (json_object_size(families) > tables)
        clq_text_add(page, "<p class=\"note\">%zu more steps are left out; the table has all rows.</p>\n",
                     json_object_size(families) - tables);
    json_decref(families);
    return tables;
}
