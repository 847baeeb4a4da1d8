/* Functions that the readers and writers share. */
#ifndef CLQ_FORMATS_PRIVATE_H
#define CLQ_FORMATS_PRIVATE_H

#include "formats/formats.h"

/* The most bytes that one file may hold, inflated. The limit bounds the memory that a small hostile file can make us
 * allocate. */
#define CLQ_FORMATS_FILE_MAX ((size_t)16 << 30)

/* Computes count and *bytes from dtype, rank and dims. False if a product does not fit in memory. */
bool clq_array_measure(clq_array *array, size_t *bytes);
/* Sets count. given: bytes that the file has after its header. Refuses the file if the array needs more or fewer
 * bytes. */
clq_status clq_array_expect(clq_array *array, size_t given, const char *path, const char *format);

/* Reverses the bytes of each of `count` elements of `size` bytes (1, 2, 4 or 8). */
void clq_swap_bytes(void *data, size_t count, size_t size);

/* ---- files between processes (between.c) ---- */

/* A temporary folder for one file, removed with the file. Start with {.lock = -1}, and close in any case. */
typedef struct clq_between {
    char *folder, *file;
    int lock; /* the opened folder, locked while it is in use */
} clq_between;
/* Errors: WRITE, MEMORY. */
clq_status clq_between_open(clq_between *out);
void clq_between_close(clq_between *between);

#endif
