/* What the readers share. */
#ifndef CLQ_FORMATS_PRIVATE_H
#define CLQ_FORMATS_PRIVATE_H

#include "formats/formats.h"

/* The most that one file may hold, inflated: a bound for what a small hostile file can make us allocate. */
#define CLQ_FORMATS_FILE_MAX ((size_t)16 << 30)

/* count and *bytes from dtype, rank and dims; false where a product does not fit in memory. */
bool clq_array_measure(clq_array *array, size_t *bytes);
/* Sets count, and refuses a file that has `given` bytes behind its header where the array needs others. */
clq_status clq_array_expect(clq_array *array, size_t given, const char *path, const char *format);

/* Turns `count` elements of `size` bytes (1, 2, 4 or 8) around. */
void clq_swap_bytes(void *data, size_t count, size_t size);

/* ---- files between processes (between.c) ---- */

/* A folder of its own for one file, removed behind it. Start with {.lock = -1}, close in any case. */
typedef struct clq_between {
    char *folder, *file;
    int lock; /* the folder, locked while it is in use */
} clq_between;
/* Errors: WRITE, MEMORY. */
clq_status clq_between_open(clq_between *out);
void clq_between_close(clq_between *between);

#endif
