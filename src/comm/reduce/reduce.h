/* The arithmetic of the collectives on the host's own pointers: one function for every element type and operation. */
#ifndef CLQ_COMM_REDUCE_H
#define CLQ_COMM_REDUCE_H

#include "base/base.h"
#include <clique/comm.h>

/* For begin <= i < end: writes in[0][i] op in[1][i] op …, in this order, to every out[k][i]. in[j] and out[k] may be
 * the same memory, but must not overlap otherwise. `ranks` is what an average divides by; other operations ignore it.
 * `stream`: the inputs and outputs are larger than the caches, and bypass them. */
typedef void clq_reduce_function(const void *const *in, unsigned ins, void *const *out, unsigned outs, size_t begin,
                                 size_t end, unsigned ranks, bool stream);

/* The function for the widest vectors that this processor has; all widths give the same bits. NULL: the type cannot be
 * reduced (bool). */
clq_reduce_function *clq_reduce_find(clq_dtype dtype, clq_redop op);

/* The vector widths that there are functions for, and the function for one width; NULL: this processor does not have
 * that width, or the type cannot be reduced. */
typedef enum clq_reduce_level {
    CLQ_REDUCE_PLAIN,
    CLQ_REDUCE_AVX2,
    CLQ_REDUCE_AVX512,
    CLQ_REDUCE_LEVELS
} clq_reduce_level;
clq_reduce_function *clq_reduce_find_at(clq_reduce_level level, clq_dtype dtype, clq_redop op);

/* Convert floats to halves (to nearest, ties to even), and halves to floats. The two ranges do not overlap. */
void clq_reduce_to_halves(const float *floats, uint16_t *halves, size_t count);
void clq_reduce_from_halves(const uint16_t *halves, float *floats, size_t count);

/* The functions for one vector width. reduce_plain.c, reduce_avx2.c and reduce_avx512.c make one table each. */
typedef struct clq_reduce_table {
    clq_reduce_function *by[CLQ_DTYPE_COUNT][CLQ_REDOP_COUNT];
    void (*to_halves)(const float *floats, uint16_t *halves, size_t count);
    void (*from_halves)(const uint16_t *halves, float *floats, size_t count);
} clq_reduce_table;
extern const clq_reduce_table clq_reduce_plain, clq_reduce_avx2, clq_reduce_avx512;
/* The table for a width; NULL: this processor does not have that width. */
const clq_reduce_table *clq_reduce_table_at(clq_reduce_level level);

#endif
