/* The layout of small matrices, of which a sample has many. Part of ops/ops.h. */
#ifndef CLQ_OPS_MATRIX_H
#define CLQ_OPS_MATRIX_H

#include <stddef.h>

/* Number (i, j) of matrix (p, q) of sample s lies at s * sample + p * pitch[0] + q * pitch[1] + i * row + j * column.
 * row or column is 1. sample 0: all samples share the matrices. */
typedef struct clq_batched_matrix {
    size_t sample, pitch[2], row, column;
} clq_batched_matrix;

#endif
