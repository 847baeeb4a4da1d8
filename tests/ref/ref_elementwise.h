/* Plain references, in double, of the operations that are no products. Written from the definitions; slow. */
#ifndef REF_ELEMENTWISE_H
#define REF_ELEMENTWISE_H

#include "ops/ops.h"

/* y = act(x); softmax over rows of `channels`. */
void ref_activation(clq_activation act, size_t rows, size_t channels, const double *x, double *y);
/* dx from dy by the derivative at x; db (channels) unless NULL. */
void ref_activation_gradient(clq_activation act, size_t rows, size_t channels, const double *x, const double *dy,
                             double *dx, double *db);

/* winner: place within the window (h * size_w + w), NULL for averages. */
void ref_pool2d(const clq_pool2d_problem *p, size_t count, const double *x, double *y, int *winner);
/* Scatters dy to where the values came from. */
void ref_pool2d_gradient(const clq_pool2d_problem *p, size_t count, const double *x, const double *dy, double *dx);

/* Cross-entropy of one row; target (classes) is a distribution before smoothing (one 1 where labels are sparse). */
double ref_cross_entropy(const clq_loss_problem *p, const double *x, const double *target);
void ref_cross_entropy_gradient(const clq_loss_problem *p, const double *x, const double *target, double *dx);
/* Any loss of one sample: x and target (rows, classes), the target of an index with a 1 at its place. dx unless NULL:
 * the derivative times the weight. */
double ref_loss(const clq_loss_problem *p, const double *x, const double *target, double *dx);
/* The sample's loss, and its metrics' totals behind it. */
void ref_totals(const clq_loss_problem *p, const double *x, const double *target, double *totals);
size_t ref_argmax(const double *x, size_t n); /* the first of equals */

void ref_sgd(size_t n, double rate, double momentum, bool nesterov, double *w, const double *g, double *v);
void ref_adam(size_t n, double rate, double beta1, double beta2, double epsilon, double *w, const double *g, double *m,
              double *v);
/* The optimizer's rule with its hyper-parameters, at a rate; states: as many arrays as it has. Fails for an optimizer
 * that has no reference. */
void ref_update(const clq_optimizer *optimizer, size_t n, double rate, double *w, const double *g,
                double *const *states);
double ref_square_sum(size_t n, const float *x);

#endif
