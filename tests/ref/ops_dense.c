#include "ref/ref_product.h"

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

/* Each sum in the order of l. With rows of B in memory, the inner loop goes along one of them: tests have large ones.
 */
void ref_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const double *a, const double *b,
              double *c) {
    for (size_t i = 0; i < m; i++) {
        double *restrict row = c + i * n;
        for (size_t j = 0; j < n; j++) row[j] = 0;
        for (size_t l = 0; l < k; l++) {
            const double factor = transpose_a ? a[l * m + i] : a[i * k + l];
            const double *from = transpose_b ? b + l : b + l * n;
            const size_t step = transpose_b ? k : 1;
            if (step == 1)
                for (size_t j = 0; j < n; j++) row[j] += factor * from[j];
            else
                for (size_t j = 0; j < n; j++) row[j] += factor * from[j * step];
        }
    }
}
