/* The arithmetic of the collectives on the host's own pointers: one function for every element type and operation. */
#ifndef CLQ_COMM_REDUCE_H
#define CLQ_COMM_REDUCE_H

#include "base/base.h"
#include <clique/comm.h>

/* For begin <= i < end: in[0][i] op in[1][i] op …, in this order, is written to every out[k][i]. in[j] and out[k] may
 * be the same; other overlaps may not be. `ranks` is what an average divides by; other operations ignore it. `stream`:
 * all that is touched is larger than the caches, which are passed by. */
typedef void clq_reduce_function(const void *const *in, unsigned ins, void *const *out, unsigned outs, size_t begin,
                                 size_t end, unsigned ranks, bool stream);

/* The one for the widest vectors that this processor has; all widths give the same bits. NULL: there is none (bool). */
clq_reduce_function *clq_reduce_find(clq_dtype dtype, clq_redop op);

/* The widths of vectors that there are functions for, and one such; NULL: this processor has not that width. */
typedef enum clq_reduce_level {
    CLQ_REDUCE_PLAIN,
    CLQ_REDUCE_AVX2,
    CLQ_REDUCE_AVX512,
    CLQ_REDUCE_LEVELS
} clq_reduce_level;
clq_reduce_function *clq_reduce_find_at(clq_reduce_level level, clq_dtype dtype, clq_redop op);

/* Floats to halves, to nearest with ties to even, and halves to floats. Memory does not overlap. */
void clq_reduce_to_halves(const float *floats, uint16_t *halves, size_t count);
void clq_reduce_from_halves(const uint16_t *halves, float *floats, size_t count);

/* reduce_plain.c, reduce_avx2.c, reduce_avx512.c: what they make. */
typedef struct clq_reduce_table {
    clq_reduce_function *by[CLQ_DTYPE_COUNT][CLQ_REDOP_COUNT];
    void (*to_halves)(const float *floats, uint16_t *halves, size_t count);
    void (*from_halves)(const uint16_t *halves, float *floats, size_t count);
} clq_reduce_table;
extern const clq_reduce_table clq_reduce_plain, clq_reduce_avx2, clq_reduce_avx512;
/* The table of a width; NULL: this processor has not that width. */
const clq_reduce_table *clq_reduce_table_at(clq_reduce_level level);

#endif
