/* Plain references, in double, of the operations that are no products. Written from the definitions; slow. */
#ifndef REF_ELEMENTWISE_H
#define REF_ELEMENTWISE_H

#include "ops/ops.h"

/* y = act(x); softmax over rows of `channels`. */
void ref_activation(clq_activation act, size_t rows, size_t channels, const double *x, double *y);
/* dx from dy by the derivative at x; db (channels) unless NULL. */
void ref_activation_gradient(clq_activation act, size_t rows, size_t channels, const double *x, const double *dy,
                             double *dx, double *db);

/* What a program gives for `samples` samples: inputs as each has them, outputs (samples, elements), sums (channels).
 * step and first_row as the parameters of those names. */
void ref_element_program(const clq_element_program *p, size_t elements, size_t channels, size_t samples, uint32_t step,
                         uint32_t first_row, const double *const *inputs, double *const *outputs, double *const *sums);
/* What dropout multiplies an element by: 0 or 1 / (1 - rate). place: of the sample in the global batch. */
double ref_dropout(uint64_t seed, uint32_t stream, uint32_t step, uint32_t place, uint32_t element, double rate);

/* winner: place within the window (h * size_w + w), NULL for averages. */
void ref_pool2d(const clq_pool2d_problem *p, size_t count, const double *x, double *y, int *winner);
/* Scatters dy to where the values came from. */
void ref_pool2d_gradient(const clq_pool2d_problem *p, size_t count, const double *x, const double *dy, double *dx);

/* As clq_repeat and clq_reduce_axis. */
void ref_repeat(const clq_repeat_problem *p, size_t count, const double *x, double *y);
void ref_reduce_axis(const clq_repeat_problem *p, size_t count, const double *y, double *x);
void ref_batched(const clq_batched_problem *p, size_t count, const double *a, const double *b, double *c);
void ref_gather(const clq_gather_problem *p, size_t count, const double *x, const double *table, double *y);
void ref_gather_gradient(const clq_gather_problem *p, size_t count, const double *x, const double *dy, double *dtable);
/* Rows of the caches beside those of the places stay. */
/* As of clq_attention_forward; mask is not read if there is none. */
void ref_attention(const clq_attention_problem *p, size_t count, const double *q, const double *k, const double *v,
                   const double *mask, double *y);
void ref_cached_append(const clq_cached_problem *p, size_t count, const double *k, const double *v,
                       const double *places, double *keys, double *values);
void ref_cached_attend(const clq_cached_problem *p, size_t count, const double *q, const double *keys,
                       const double *values, const double *places, double *y);
void ref_arrange(const clq_arrangement *a, size_t count, size_t x_elements, const double *x, double *y);
/* y, and of each place of it how far what it is taken from is from the middle between two places, along the nearer
 * axis: there `nearest` goes by rounding errors. ties (count, out_height, out_width): NULL without. */
void ref_warp(const clq_warp_problem *p, size_t count, const double *x, const double *draws, double *y, double *ties);
/* Of so many samples together. scale: what each one's loss is taken times. */
double ref_penalty(const clq_penalty_problem *p, size_t count, const double *w);
void ref_penalty_gradient(const clq_penalty_problem *p, size_t count, double scale, const double *w, double *dw);
/* Of each channel (biased); rows 0: zeros. */
void ref_moments(size_t rows, size_t channels, const double *x, double *mean, double *variance);
/* gamma, beta: NULL without. */
void ref_normalise(size_t rows, size_t channels, double epsilon, const double *x, const double *mean,
                   const double *variance, const double *gamma, const double *beta, double *y);
/* Where mean and variance are those of x. */
void ref_normalise_gradient(size_t rows, size_t channels, double epsilon, const double *x, const double *gamma,
                            const double *dy, const double *mean, const double *variance, double *dx, double *dgamma,
                            double *dbeta);

/* gamma, beta, statistics (rows, 2): NULL without. */
void ref_row_norm(const clq_row_norm_problem *p, size_t count, const double *x, const double *gamma, const double *beta,
                  double *y, double *statistics);
void ref_row_norm_gradient(const clq_row_norm_problem *p, size_t count, const double *x, const double *gamma,
                           const double *dy, double *dx, double *dgamma, double *dbeta);

/* Cross-entropy of one row; target (classes) is a distribution before smoothing (one 1 where labels are sparse). */
double ref_cross_entropy(const clq_loss_problem *p, const double *x, const double *target);
void ref_cross_entropy_gradient(const clq_loss_problem *p, const double *x, const double *target, double *dx);
/* Any loss of one sample: x and target (rows, classes), the target of an index with a 1 at its place. dx unless NULL:
 * the derivative times the weight. */
double ref_loss(const clq_loss_problem *p, const double *x, const double *target, double *dx);
/* The same of the steps that count: mask (mask_steps) has 1 for these and 0 for others, and part of all steps in the
 * batch count. */
double ref_masked_loss(const clq_loss_problem *p, const double *x, const double *target, const double *mask,
                       double part, double *dx);
/* The sample's loss, its metrics' totals behind it, and with a mask the part of its own steps that counts. mask NULL:
 * all do, and part is 1. */
void ref_totals(const clq_loss_problem *p, const double *x, const double *target, const double *mask, double part,
                double *totals);
size_t ref_argmax(const double *x, size_t n); /* the first of equals */

void ref_sgd(size_t n, double rate, double momentum, bool nesterov, double *w, const double *g, double *v);
void ref_adam(size_t n, double rate, double beta1, double beta2, double epsilon, double *w, const double *g, double *m,
              double *v);
/* Update `t`, from 1, by the optimizer with its hyper-parameters, weight decay included, at a learning rate of lr;
 * states: CLQ_UPDATE_STATES_MAX arrays. Fails for an optimizer that has no reference. */
void ref_update(const clq_optimizer *optimizer, size_t n, double lr, unsigned t, double *w, const double *g,
                double *const *states);
double ref_square_sum(size_t n, const float *x);

/* The half next to x, ties to even, as a number; x is at most the largest half. */
double ref_half(double x);
/* halves and error as of clq_compress_halves, from numbers that are floats; error is one on return, too. */
void ref_compress_halves(size_t n, double most, const double *gradient, double *error, double *halves);
/* As clq_choose_largest: places and numbers of what is chosen. */
void ref_choose_largest(size_t n, size_t chosen, const double *gradient, double *error, uint32_t *places,
                        double *numbers);

/* The number that is stored of one: F16 and BF16 round to the nearest, of two to the even one. */
double ref_stored(double number, clq_dtype dtype);

#endif
