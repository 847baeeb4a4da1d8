/* HTML and script text from strings that anybody may have chosen. All that comes from a file goes through here. Private
 * to cli. */
#ifndef CLQ_CLI_HTML_H
#define CLQ_CLI_HTML_H

#include "formats/formats.h"

/* Text that may stand between tags and inside quoted attributes, cleaned (clq_clean). */
void clq_html_text(const char *from, clq_text *page);
/* JSON that may stand inside a script element: no "<", ">", "&" and nothing beyond ASCII is left in it. */
void clq_html_script_json(json_t *document, clq_text *page);

/* A column's name with its unit as people write it: "time_us" as "time, µs", "images_per_s_least" as "images/s least".
 * inner: the member's name where the column is an object, or NULL. */
void clq_html_column(const char *name, const char *inner, clq_text *page);
/* A member of a row as text; sizes in bytes as "64 KiB" where that is exact. */
void clq_html_value(const char *name, const json_t *value, clq_text *page);
/* An object of scalars: "dtype f32, in_place no". */
void clq_html_key(json_t *key, clq_text *page);

/* A table of objects: a column for each member of any row, in the order of their first appearance; members that are
 * objects become a column for each of theirs. caption: trusted HTML. */
void clq_html_table(json_t *rows, const char *caption, clq_text *page);

/* Rows that become one figure: those that are members, by their key without its `parts` (which end with NULL). An
 * object of {"key": what they share, "rows": [...]}, in the order of the first of each. */
json_t *clq_html_families(json_t *rows, bool (*is_member)(json_t *row), const char *const *parts, clq_text *page);

/* ---- plots (plots.c) ---- */

/* Adds to `plots` what page/plots.js draws, and to the page a figure for each: busbw and time over size, a line for
 * each algorithm and transport; rate and efficiency of training over replicas; simulated efficiency over machines. Rows that make no line make
 * none. Returns how many plots. */
size_t clq_plots_add(json_t *rows, json_t *plots, clq_text *page);

/* ---- heat maps (heat.c) ---- */

/* Rows that have "from" and "to" as square tables, one for each set of their other key columns and each measured rate
 * or time; names: of the devices by their index, or NULL. Returns how many tables. */
size_t clq_html_heat_maps(json_t *rows, json_t *devices, clq_text *page);

/* ---- shares (shares.c) ---- */

/* Rows that have "launch" and a "share" below 1 of a step, as tables with bars, the longest first: one for each set of
 * their other key columns. Returns how many tables. */
size_t clq_html_shares(json_t *rows, clq_text *page);

#endif
