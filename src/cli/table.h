/* A table of text over rows that have keys: a column for each part of the key that differs, what all rows share in a
 * line above. Latches its first failure, which printing tells. Private to cli. */
#ifndef CLQ_CLI_TABLE_H
#define CLQ_CLI_TABLE_H

#include "formats/formats.h"

#include <stdio.h>

typedef struct clq_table {
    json_t *lines;   /* arrays of strings; the first holds the titles */
    json_t *columns; /* of the keys: the names that differ */
    clq_text shared;
    bool failed;
} clq_table;
/* rows: objects whose member `member` is a key, an object of scalars. */
void clq_table_start(json_t *rows, const char *member, clq_table *out);
void clq_table_title(clq_table *table, const char *title); /* of a column behind the key's */
void clq_table_row(clq_table *table, json_t *key);         /* begins a line */
void clq_table_value(clq_table *table, json_t *value);     /* the line's next column */
void clq_table_text(clq_table *table, const char *text);
clq_status clq_table_print(clq_table *table, FILE *to); /* and releases it */

/* "bytes=4096 dtype=f32 algo=ring" */
void clq_key_text(json_t *key, clq_text *text);

#endif
