/* Plain references, in double, of the operations that are not products. Written from the definitions; slow. */
#ifndef REF_ELEMENTWISE_H
#define REF_ELEMENTWISE_H

#include "ops/ops.h"

/* y = act(x); softmax over rows of `channels`. */
void ref_activation(clq_activation act, size_t rows, size_t channels, const double *x, double *y);
/* Computes dx from dy with the derivative at x, and db (channels) unless db is NULL. */
void ref_activation_gradient(clq_activation act, size_t rows, size_t channels, const double *x, const double *dy,
                             double *dx, double *db);

/* Runs a program for `samples` samples. Each input has the layout of its kind. outputs: (samples, elements); sums:
 * (channels). step and first_row: as in clq_step_params. */
void ref_element_program(const clq_element_program *p, size_t elements, size_t channels, size_t samples, uint32_t step,
                         uint32_t first_row, const double *const *inputs, double *const *outputs, double *const *sums);
/* The factor of an element in dropout: 0 or 1 / (1 - rate). place: the sample's index in the global batch. */
double ref_dropout(uint64_t seed, uint32_t stream, uint32_t step, uint32_t place, uint32_t element, double rate);

/* winner: the index of each maximum in its window (h * size_w + w), or NULL for averages. */
void ref_pool2d(const clq_pool2d_problem *p, size_t count, const double *x, double *y, int *winner);
/* Scatters dy to the elements that the values of y came from. */
void ref_pool2d_gradient(const clq_pool2d_problem *p, size_t count, const double *x, const double *dy, double *dx);

/* As clq_repeat and clq_reduce_axis. */
void ref_repeat(const clq_repeat_problem *p, size_t count, const double *x, double *y);
void ref_reduce_axis(const clq_repeat_problem *p, size_t count, const double *y, double *x);
void ref_batched(const clq_batched_problem *p, size_t count, const double *a, const double *b, double *c);
void ref_gather(const clq_gather_problem *p, size_t count, const double *x, const double *table, double *y);
void ref_gather_gradient(const clq_gather_problem *p, size_t count, const double *x, const double *dy, double *dtable);
/* As clq_attention_forward; mask is not read if the problem has none. */
void ref_attention(const clq_attention_problem *p, size_t count, const double *q, const double *k, const double *v,
                   const double *mask, double *y);
/* Overwrites the cache rows that `places` names. All other rows stay. */
void ref_cached_append(const clq_cached_problem *p, size_t count, const double *k, const double *v,
                       const double *places, double *keys, double *values);
void ref_cached_attend(const clq_cached_problem *p, size_t count, const double *q, const double *keys,
                       const double *values, const double *places, double *y);
void ref_arrange(const clq_arrangement *a, size_t count, size_t x_elements, const double *x, double *y);
/* ties (count, out_height, out_width), or NULL: for each pixel of y, how far its source point is from the middle
 * between two pixels, along the axis where the distance is smaller. If that is almost 0, rounding errors decide which
 * pixel `nearest` takes. */
void ref_warp(const clq_warp_problem *p, size_t count, const double *x, const double *draws, double *y, double *ties);
/* The penalty of `count` samples together. scale: the factor of each sample's loss. */
double ref_penalty(const clq_penalty_problem *p, size_t count, const double *w);
void ref_penalty_gradient(const clq_penalty_problem *p, size_t count, double scale, const double *w, double *dw);
/* The mean and the biased variance of each channel. If rows is 0, both are zeros. */
void ref_moments(size_t rows, size_t channels, const double *x, double *mean, double *variance);
/* gamma, beta: NULL if there is none. */
void ref_normalise(size_t rows, size_t channels, double epsilon, const double *x, const double *mean,
                   const double *variance, const double *gamma, const double *beta, double *y);
/* mean and variance must be those of x: the gradient goes through them, too. */
void ref_normalise_gradient(size_t rows, size_t channels, double epsilon, const double *x, const double *gamma,
                            const double *dy, const double *mean, const double *variance, double *dx, double *dgamma,
                            double *dbeta);

/* gamma, beta, statistics (rows, 2): each NULL if there is none. */
void ref_row_norm(const clq_row_norm_problem *p, size_t count, const double *x, const double *gamma, const double *beta,
                  double *y, double *statistics);
void ref_row_norm_gradient(const clq_row_norm_problem *p, size_t count, const double *x, const double *gamma,
                           const double *dy, double *dx, double *dgamma, double *dbeta);

/* Cross-entropy of one row. target (classes): a distribution before smoothing, one-hot if labels are sparse. */
double ref_cross_entropy(const clq_loss_problem *p, const double *x, const double *target);
void ref_cross_entropy_gradient(const clq_loss_problem *p, const double *x, const double *target, double *dx);
/* Any loss of one sample. x and target: (rows, classes); an index is given as a one-hot target. Unless dx is NULL,
 * writes the derivative times the weight to it. */
double ref_loss(const clq_loss_problem *p, const double *x, const double *target, double *dx);
/* The same for the steps that count. mask (mask_steps): 1 for a step that counts, 0 for any other. part: the share of
 * steps that count among all steps in the batch. */
double ref_masked_loss(const clq_loss_problem *p, const double *x, const double *target, const double *mask,
                       double part, double *dx);
/* Writes the sample's loss, the totals of its metrics, and, if there is a mask, the share of the sample's steps that
 * count. mask NULL: all steps count, and part is 1. */
void ref_totals(const clq_loss_problem *p, const double *x, const double *target, const double *mask, double part,
                double *totals);
size_t ref_argmax(const double *x, size_t n); /* the first of equal numbers */

void ref_sgd(size_t n, double rate, double momentum, bool nesterov, double *w, const double *g, double *v);
void ref_adam(size_t n, double rate, double beta1, double beta2, double epsilon, double *w, const double *g, double *m,
              double *v);
/* Does update number `t`, from 1, with the optimizer and its hyper-parameters, weight decay included. lr: the learning
 * rate. states: CLQ_UPDATE_STATES_MAX arrays. Fails for an optimizer that has no reference. */
void ref_update(const clq_optimizer *optimizer, size_t n, double lr, unsigned t, double *w, const double *g,
                double *const *states);
double ref_square_sum(size_t n, const float *x);

/* The value of the float16 number nearest to x, ties to even. x must be at most the largest float16. */
double ref_half(double x);
/* Computes halves and error as clq_compress_halves does. gradient and error must have float32 values; error also does
 * on return. */
void ref_compress_halves(size_t n, double most, const double *gradient, double *error, double *halves);
/* As clq_choose_largest. places and numbers: the indices and the values of the chosen numbers. */
void ref_choose_largest(size_t n, size_t chosen, const double *gradient, double *error, uint32_t *places,
                        double *numbers);

/* The number as it is stored: F16 and BF16 round to nearest, ties to even. Other types leave it as it is. */
double ref_stored(double number, clq_dtype dtype);

#endif
