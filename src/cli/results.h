/* Result files of the bench suite ("clique-bench/1", docs/bench.md): reads them, tells which columns name a row and
 * which were measured, and finds a row's speed. Private to cli. Files come from anywhere, so nothing in them is
 * trusted. */
#ifndef CLQ_CLI_RESULTS_H
#define CLQ_CLI_RESULTS_H

#include "formats/formats.h"

/* The most that a file may hold. A row has some 300 bytes, and a run of every size, type and algorithm some thousand
 * rows. */
#define CLQ_RESULT_BYTES_MAX ((size_t)64 << 20)
enum {
    CLQ_RESULT_DEPTH_MAX = 8,
    /* The most different members that all rows together may have; likewise all devices, and the document itself.
     * Members of objects in them count, too. */
    CLQ_RESULT_COLUMNS_MAX = 100
};

typedef struct clq_result_file {
    const char *path;  /* the caller's */
    json_t *document;  /* owns what the members below point to */
    const char *bench; /* "all_reduce", … */
    json_t *rows;      /* an array of objects */
} clq_result_file;
clq_status clq_result_read(const char *path, clq_result_file *out);
void clq_result_release(clq_result_file *file); /* takes {0} */
/* Whether a member of "host" tells what the host did during the run, not what it is. */
bool clq_result_is_passing(const char *name);
/* Whether two files describe the same host, whatever else it did during the runs. */
bool clq_result_same_host(const clq_result_file *a, const clq_result_file *b);

bool clq_is_one_of(const char *name, const char *const *list); /* list: ends with NULL */

/* Whether a column was measured, by its name and value. Measured are real numbers, objects, arrays, nulls, names that
 * end in a unit, and names that tell how a measurement came out. All other columns are the row's key. */
bool clq_column_is_measured(const char *name, const json_t *value);
/* The key columns of a row, in the row's order; NULL: out of memory. Caller: json_decref. */
json_t *clq_row_key(json_t *row);

/* What a column of that name tells, if it holds numbers: a rate, a time, or neither (what a row was compared with, a
 * part of a step). */
typedef enum clq_column_kind { CLQ_COLUMN_OTHER, CLQ_COLUMN_RATE, CLQ_COLUMN_TIME } clq_column_kind;
clq_column_kind clq_column_kind_of(const char *name);
/* The unit that the first `length` bytes of a column's name end with. NULL: they name no unit, for example if they are
 * only "_us". */
typedef struct clq_unit {
    const char *end, *text; /* "_us", and "µs" for people */
    clq_column_kind kind;
} clq_unit;
const clq_unit *clq_unit_of(const char *name, size_t length);
/* A number, or the p50 of a spread. 0: the value is neither, or no possible measurement (1e-30 to 1e30). */
double clq_typical(const json_t *value);

/* How fast a row is, by the column that says it best: ratio, then images_per_s, time_us, another rate, another time. A
 * column with a spread goes before all columns without. */
typedef struct clq_speed {
    const char *column;          /* NULL: the row has no measured speed */
    double typical, least, most; /* in the column's unit; least = most = typical without a spread */
    bool is_time, has_spread;    /* a time is better when it is smaller */
} clq_speed;
/* where: names the row in messages, as "a.json: row 3". Errors: FORMAT (a column of a speed holds something else). */
clq_status clq_row_speed(json_t *row, const char *where, clq_speed *out);

/* Adds a value as people read it, cleaned; null and absent (NULL) as "-". */
void clq_value_text(const json_t *value, clq_text *text);

#endif
