/* Result files of the bench suite ("clique-bench/1", docs/bench.md): reading them, telling which of a row's columns
 * name the row and which were measured, and its speed. Private to cli; files come from anywhere, so nothing in them is
 * trusted. */
#ifndef CLQ_CLI_RESULTS_H
#define CLQ_CLI_RESULTS_H

#include "formats/formats.h"

/* What a file may hold: a row is some 300 bytes, and a run of every size, type and algorithm some thousand rows. */
#define CLQ_RESULT_BYTES_MAX ((size_t)64 << 20)
enum {
    CLQ_RESULT_DEPTH_MAX = 8,
    /* Different members of all rows together, of all devices, and of the document itself; those of objects in them are
     * counted too. */
    CLQ_RESULT_COLUMNS_MAX = 100
};

typedef struct clq_result_file {
    const char *path;  /* the caller's */
    json_t *document;  /* what follows is inside */
    const char *bench; /* "all_reduce", … */
    json_t *rows;      /* objects, all of them */
} clq_result_file;
clq_status clq_result_read(const char *path, clq_result_file *out);
void clq_result_release(clq_result_file *file); /* takes {0} */
/* Whether a member of "host" tells what the host did meanwhile, not what it is. */
bool clq_result_is_passing(const char *name);
/* Whether two files tell of one host, whatever else it did meanwhile. */
bool clq_result_same_host(const clq_result_file *a, const clq_result_file *b);

bool clq_is_one_of(const char *name, const char *const *list); /* which ends with NULL */

/* Whether a column was measured, by its name and what it holds: numbers with a point, objects, nulls, names that end in
 * a unit, and those that tell how a measurement came out. All others are the row's key. */
bool clq_column_is_measured(const char *name, const json_t *value);
/* The key columns of a row, in its order; NULL where memory is out. Caller: json_decref. */
json_t *clq_row_key(json_t *row);

/* What a column of that name tells, if it holds numbers: a speed, or neither (what a row was held against, a part of a
 * step). */
typedef enum clq_column_kind { CLQ_COLUMN_OTHER, CLQ_COLUMN_RATE, CLQ_COLUMN_TIME } clq_column_kind;
clq_column_kind clq_column_kind_of(const char *name);
/* What a column's name, or its first `length` bytes, ends with where it tells a unit; NULL where it does not, as where
 * the name is nothing but "_us". */
typedef struct clq_unit {
    const char *end, *text; /* "_us", and "µs" for people */
    clq_column_kind kind;
} clq_unit;
const clq_unit *clq_unit_of(const char *name, size_t length);
/* A number, or the p50 of a spread; 0 where it is neither or nothing that can be measured (1e-30 to 1e30). */
double clq_typical(const json_t *value);

/* How fast a row is: of its columns the one that says it best (ratio, images_per_s, time_us, another rate, another
 * time; one with a spread before one without). */
typedef struct clq_speed {
    const char *column;          /* NULL: the row has no measured speed */
    double typical, least, most; /* in the column's unit; least = most = typical without a spread */
    bool is_time, has_spread;    /* a time is better when it is smaller */
} clq_speed;
/* Fails (FORMAT) where a column of a speed holds something else; where: "a.json: row 3". */
clq_status clq_row_speed(json_t *row, const char *where, clq_speed *out);

/* Adds a value as people read it, cleaned; null and absent (NULL) as "-". */
void clq_value_text(const json_t *value, clq_text *text);

#endif
