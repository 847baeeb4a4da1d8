/* Where the numbers of small matrices lie, many for each sample. Part of ops/ops.h. */
#ifndef CLQ_OPS_MATRIX_H
#define CLQ_OPS_MATRIX_H

#include <stddef.h>

/* Number (i, j) of matrix (p, q) of a sample lies at sample * its number + p * pitch[0] + q * pitch[1] + i * row + j *
 * column. Row or column is 1. sample 0: all samples have the same. */
typedef struct clq_batched_matrix {
    size_t sample, pitch[2], row, column;
} clq_batched_matrix;

#endif
