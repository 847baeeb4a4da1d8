#include "ref/ref_product.h"

#include <stdlib.h>
#include <string.h>

void ref_dense(const clq_dense_problem *p, size_t count, const double *x, const double *w, const double *b, double *z) {
    for (size_t row = 0; row < count * p->rows_per_example; row++)
        for (size_t o = 0; o < p->out; o++) {
            double sum = b ? b[o] : 0;
            for (size_t i = 0; i < p->in; i++) sum += x[row * p->in + i] * w[i * p->out + o];
            z[row * p->out + o] = sum;
        }
}

void ref_dense_gradients(const clq_dense_problem *p, size_t count, const double *x, const double *w, const double *dz,
                         double *dx, double *dw) {
    size_t rows = count * p->rows_per_example;
    memset(dx, 0, rows * p->in * sizeof *dx);
    memset(dw, 0, p->in * p->out * sizeof *dw);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < p->in; i++)
            for (size_t o = 0; o < p->out; o++) {
                dx[row * p->in + i] += dz[row * p->out + o] * w[i * p->out + o];
                dw[i * p->out + o] += dz[row * p->out + o] * x[row * p->in + i];
            }
}

/* The transpose (k, n) of b (n, k). The caller frees it. */
static double *turned(size_t n, size_t k, const double *b) {
    double *rows = malloc((n * k + 1) * sizeof *rows);
    if (!rows) abort();
    for (size_t j = 0; j < n; j++)
        for (size_t l = 0; l < k; l++) rows[l * n + j] = b[j * k + l];
    return rows;
}

/* Each sum is in the order of l. The inner loop goes along a row of b, for speed: tests have large matrices. */
void ref_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const double *a, const double *b,
              double *c) {
    double *own = transpose_b ? turned(n, k, b) : NULL;
    const double *rows = own ? own : b;
    for (size_t i = 0; i < m; i++) {
        double *restrict row = c + i * n;
        for (size_t j = 0; j < n; j++) row[j] = 0;
        for (size_t l = 0; l < k; l++) {
            const double factor = transpose_a ? a[l * m + i] : a[i * k + l], *from = rows + l * n;
            for (size_t j = 0; j < n; j++) row[j] += factor * from[j];
        }
    }
    free(own);
}
