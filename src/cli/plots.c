#include "cli/cli.h"
#include "cli/html.h"
#include "cli/results.h"

#include <string.h>

/* Pictures are for looking at, so of each kind only the first plots are drawn: a run over every type and operation has
 * more. The table has all rows. */
enum { PLOTS_MAX = 24 };

/* ---- kinds of plots ---------------------------------------------------------------------------------------------- */

typedef struct plot_kind {
    const char *name, *x, *y,
        *title; /* for plots.js: "size" (log2 x), "size-time" (log y too), "replicas", "machines" (log2 x) */
    const char *x_column;
    const char *const *line_columns; /* columns of the key that name a line; the rest of the key names the plot */
    const char *const *over;         /* columns of the key that are the x axis, or follow from it */
    double (*y_of)(json_t *row);     /* 0: no point */
    const char *limit;               /* what the line of limit_of shows; NULL: there is none */
    double (*limit_of)(json_t *row);
} plot_kind;

static double typical(json_t *row, const char *column) { return clq_typical(json_object_get(row, column)); }

static double busbw_of(json_t *row) { return typical(row, "busbw_gbps"); }
static double busbw_limit_of(json_t *row) { return typical(row, "limit_gbps"); }
/* Only of rows of a collective: other rows also have times over sizes, which do not compare algorithms. */
static double time_of(json_t *row) { return json_object_get(row, "busbw_gbps") ? typical(row, "time_us") : 0.0; }
static double rate_of(json_t *row) { return typical(row, "images_per_s"); }
static double ideal_rate_of(json_t *row) {
    double efficiency = typical(row, "efficiency");
    return efficiency > 0.0 ? rate_of(row) / efficiency : 0.0;
}
static double percent_of_ideal(json_t *row) { return 100.0 * typical(row, "efficiency"); }
static double percent_by_default(json_t *row) { return 100.0 * typical(row, "default_efficiency"); }
static double all_of_it(json_t *row) {
    (void)row;
    return 100.0;
}

static const char *const collectives[] = {"file", "algo", "transport", "system", NULL};
static const char *const sizes[] = {"bytes", "count", NULL};
static const char *const runs[] = {"file", "system", "strategy", NULL}, *const models[] = {"file", "system", "model",
                                                                                           NULL};
static const char *const replicas[] = {"replicas", NULL};
static const char *const machines[] = {"machines", "total_devices", "algorithm", "bucket_bytes", NULL};
static const plot_kind kinds[] = {
    {"size", "size", "busbw, GB/s", "Bus bandwidth over size", "bytes", collectives, sizes, busbw_of,
     "the limit a line is held against", busbw_limit_of},
    {"size-time", "size", "time, µs", "Time (p50) over size", "bytes", collectives, sizes, time_of, NULL, NULL},
    {"replicas", "replicas", "images/s", "Rate of training over replicas", "replicas", runs, replicas, rate_of,
     "ideal: one replica's rate times their number", ideal_rate_of},
    {"replicas", "replicas", "efficiency, %", "Efficiency of training over replicas", "replicas", models, replicas,
     percent_of_ideal, "ideal", all_of_it},
    {"machines", "machines", "efficiency, %", "Simulated efficiency over machines", "machines", models, machines,
     percent_of_ideal, "by default", percent_by_default},
};

/* ---- rows to lines ----------------------------------------------------------------------------------------------- */

/* The part of a row's key that names its line, or the part that names its plot. */
static json_t *cut_key(const plot_kind *kind, json_t *row, bool of_line) {
    json_t *key = clq_row_key(row), *cut = key ? json_object() : NULL, *value;
    const char *name;
    json_object_foreach(key, name, value) {
        if (!clq_is_one_of(name, kind->over) && clq_is_one_of(name, kind->line_columns) == of_line)
            cut = clq_json_put(cut, name, json_incref(value));
    }
    json_decref(key);
    return cut;
}

/* "ring, staged", and with names "dtype f32, in_place no". NULL: out of memory. */
static char *label_of(json_t *key, bool names) {
    clq_text text = {0};
    const char *name, *comma = "";
    json_t *value;
    clq_text_add(&text, "%s", "");
    json_object_foreach(key, name, value) {
        clq_text_add(&text, "%s", comma);
        if (names) clq_text_add_clean(&text, name);
        if (names) clq_text_add(&text, " ");
        clq_value_text(value, &text);
        comma = ", ";
    }
    if (key && !text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}

static json_t *member(json_t *object, const char *name, json_t *fresh, clq_text *page) {
    json_t *known = json_object_get(object, name);
    if (known) {
        json_decref(fresh);
        return known;
    }
    page->failed |= json_object_set_new(object, name, fresh) != 0;
    return json_object_get(object, name);
}

static void add_point(json_t *points, double x, double y, clq_text *page) {
    page->failed |= json_array_append_new(points, json_pack("[f, f]", x, y)) != 0;
}

/* family: the label without the file, which the lines of one thing in several files have in common. */
static json_t *start_line(json_t *line_key) {
    json_t *file = json_incref(json_object_get(line_key, "file"));
    json_object_del(line_key, "file");
    char *family = label_of(line_key, false);
    json_t *line =
        family ? json_pack("{s:s, s:O?, s:[], s:[]}", "family", family, "file", file, "points", "limits") : NULL;
    clq_free(family);
    json_decref(file);
    return line;
}

/* panels: title of a plot to {label of a line: {"family", "file", "points": [[x, y], …], "limits": the same}}. */
static void add_row(const plot_kind *kind, json_t *row, json_t *panels, clq_text *page) {
    double x = typical(row, kind->x_column), y = kind->y_of(row);
    if (x == 0.0 || y == 0.0) return; /* a size of 0 has no place on a logarithmic axis */
    json_t *line_key = cut_key(kind, row, true), *panel_key = cut_key(kind, row, false);
    char *label = label_of(line_key, false), *title = label_of(panel_key, true);
    page->failed |= !label || !title;
    if (label && title) {
        json_t *panel = member(panels, title, json_object(), page);
        json_t *line = member(panel, label, start_line(line_key), page);
        double limit = kind->limit_of ? kind->limit_of(row) : 0.0;
        add_point(json_object_get(line, "points"), x, y, page);
        if (limit > 0.0) add_point(json_object_get(line, "limits"), x, limit, page);
    }
    clq_free(label);
    clq_free(title);
    json_decref(line_key);
    json_decref(panel_key);
}

/* ---- lines to figures -------------------------------------------------------------------------------------------- */

/* "the most is 4.71 at 1048576, ring, staged" */
static void add_best(json_t *panel, bool least, clq_text *page) {
    double best = 0.0, at = 0.0;
    const char *who = "", *label;
    json_t *line, *point;
    size_t i;
    json_object_foreach(panel, label, line) {
        json_array_foreach(json_object_get(line, "points"), i, point) {
            double y = json_number_value(json_array_get(point, 1));
            if (best != 0.0 && (least ? y >= best : y <= best)) continue;
            best = y;
            at = json_number_value(json_array_get(point, 0));
            who = label;
        }
    }
    clq_text_add(page, "%s is %.4g at %.0f%s", least ? "the least" : "the most", best, at, *who ? ", " : "");
    clq_html_text(who, page);
}

static void add_figure(const plot_kind *kind, const char *title, json_t *panel, json_t *plots, clq_text *page) {
    clq_text_add(page, "<figure><figcaption>%s", kind->title);
    if (*title) clq_text_add(page, "<span class=\"of\">");
    clq_html_text(title, page);
    if (*title) clq_text_add(page, "</span>");
    clq_text_add(page, "</figcaption>\n<div class=\"plot\"><canvas id=\"plot-%zu\" role=\"img\" aria-label=\"",
                 json_array_size(plots));
    clq_text_add(page, "%s, lines: %zu; ", kind->title, json_object_size(panel));
    add_best(panel, strcmp(kind->name, "size-time") == 0, page);
    clq_text_add(page, ". The table below has the values.\"></canvas></div></figure>\n");
    json_t *plot = json_pack("{s:s, s:s, s:s, s:s?, s:O}", "kind", kind->name, "x", kind->x, "y", kind->y, "limit",
                             kind->limit, "lines", panel);
    page->failed |= json_array_append_new(plots, plot) != 0;
}

static size_t add_kind(const plot_kind *kind, json_t *rows, json_t *plots, clq_text *page) {
    json_t *panels = json_object(), *row, *panel;
    const char *title;
    size_t i, count = 0;
    page->failed |= !panels;
    json_array_foreach(rows, i, row) add_row(kind, row, panels, page);
    json_object_foreach(panels, title, panel) {
        if (count == PLOTS_MAX) break;
        add_figure(kind, title, panel, plots, page);
        count++;
    }
    if (json_object_size(panels) > count)
        clq_text_add(page, "<p class=\"note\">%zu more plots of this kind are left out; the table has all rows.</p>\n",
                     json_object_size(panels) - count);
    json_decref(panels);
    return count;
}

size_t clq_plots_add(json_t *rows, json_t *plots, clq_text *page) {
    size_t count = 0;
    clq_text_add(page, "<div class=\"plots\">\n");
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds); i++) count += add_kind(&kinds[i], rows, plots, page);
    clq_text_add(page, "</div>\n");
    return count;
}
