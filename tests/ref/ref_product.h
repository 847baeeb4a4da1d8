/* Plain references, in double, of dense layers, convolutions and matrix products. From the definitions; slow. */
#ifndef REF_PRODUCT_H
#define REF_PRODUCT_H

#include "ops/ops.h"

/* z = x w + b without the activation; b may be NULL. */
void ref_dense(const clq_dense_problem *p, size_t count, const double *x, const double *w, const double *b, double *z);
void ref_dense_gradients(const clq_dense_problem *p, size_t count, const double *x, const double *w, const double *dz,
                         double *dx, double *dw);

void ref_conv2d(const clq_conv2d_problem *p, size_t count, const double *x, const double *w, const double *b,
                double *z);
void ref_conv2d_gradients(const clq_conv2d_problem *p, size_t count, const double *x, const double *w, const double *dz,
                          double *dx, double *dw);

/* Convolutions with channels in groups. */
void ref_grouped(const clq_grouped_problem *p, size_t count, const double *x, const double *w, const double *b,
                 double *z);
void ref_grouped_gradients(const clq_grouped_problem *p, size_t count, const double *x, const double *w,
                           const double *dz, double *dx, double *dw);

/* c (m, n) = op(a) op(b) */
void ref_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const double *a, const double *b,
              double *c);

#endif
