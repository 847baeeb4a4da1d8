/* Makes HTML and script text from strings that anybody may have chosen. Everything that comes from a file goes through
 * these functions. Private to cli. */
#ifndef CLQ_CLI_HTML_H
#define CLQ_CLI_HTML_H

#include "formats/formats.h"

/* Adds text that is safe between tags and inside quoted attributes, cleaned (clq_clean). */
void clq_html_text(const char *from, clq_text *page);
/* Adds JSON that is safe inside a script element: it has no "<", ">" or "&", and only ASCII. */
void clq_html_script_json(json_t *document, clq_text *page);

/* A column's name with its unit as people write it: "time_us" as "time, µs", "images_per_s_least" as "images/s least".
 * inner: if the column is an object, the name of one of its members; otherwise NULL. */
void clq_html_column(const char *name, const char *inner, clq_text *page);
/* A member of a row as text. A size in bytes becomes "64 KiB" if that is exact. */
void clq_html_value(const char *name, const json_t *value, clq_text *page);
/* An object of scalars: "dtype f32, in_place no". */
void clq_html_key(json_t *key, clq_text *page);

/* A table of objects. Each member of any row has a column, in the order of their first appearance. A member that is an
 * object has a column for each of its own members. caption: trusted HTML. */
void clq_html_table(json_t *rows, const char *caption, clq_text *page);

/* Groups the rows for which is_member holds into families; each family becomes one figure. Rows are of one family if
 * their keys are the same without `parts` (which end with NULL). Returns an object of {"key": what they share, "rows":
 * [...]}, in the order of each family's first row. */
json_t *clq_html_families(json_t *rows, bool (*is_member)(json_t *row), const char *const *parts, clq_text *page);

/* ---- plots (plots.c) ---- */

/* Adds to `plots` what page/plots.js draws, and to the page a figure for each plot. Plots are busbw and time over size,
 * with a line for each algorithm and transport; rate and efficiency of training over replicas; and simulated efficiency
 * over machines. Rows that fit no plot are left out. Returns how many plots were added. */
size_t clq_plots_add(json_t *rows, json_t *plots, clq_text *page);

/* ---- heat maps (heat.c) ---- */

/* Adds the rows that have "from" and "to" as square tables: one for each set of their other key columns and each
 * measured rate or time. devices: an array that names the devices by their index, or NULL. Returns how many tables were
 * added. */
size_t clq_html_heat_maps(json_t *rows, json_t *devices, clq_text *page);

/* ---- shares (shares.c) ---- */

/* Adds the rows that have "launch" and a "share" below 1 of a step, as tables with bars, the largest share first: one
 * table for each set of their other key columns. Returns how many tables were added. */
size_t clq_html_shares(json_t *rows, clq_text *page);

#endif
