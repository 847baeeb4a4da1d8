/* What the tests of dense layers and convolutions have in common: a layer runs forward and backward and is held
 * against its reference. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include "support/ops_rig.h"

typedef struct product_layer {
    size_t in, out, weights, biases; /* in, out: floats of one example. biases 0: none */
    size_t rows;                     /* of the output, per example: the terms of a weight's gradient */
    size_t growth;                   /* of y's and dx's rounding errors, against those of plain sums; 0: none */
    /* The terms of plain sums whose rounding errors bound those of a weight's gradient; NULL: count * rows. */
    size_t (*gradient_terms)(const void *problem, size_t count);
    double relative; /* error of all numbers together (L2); 0: PRODUCT_RELATIVE */
    clq_activation activation;
    bool adds; /* the weights' gradients of several runs are added up */
    const void *problem;
    void (*forward)(clq_list *list, const void *problem, clq_value x, clq_value w, clq_value b, clq_value y);
    void (*backward)(clq_list *list, const void *problem, clq_value x, clq_value w, clq_value dz, clq_value dx,
                     clq_value dw);
    void (*ref)(const void *problem, size_t count, const double *x, const double *w, const double *b, double *z);
    void (*ref_gradients)(const void *problem, size_t count, const double *x, const double *w, const double *dz,
                          double *dx, double *dw);
} product_layer;

/* Runs the layer made for `capacity` with counts of capacity, 1, 0 and capacity - 1, twice each (a simulator: the first
 * two, once), and checks: every number against the largest error that float32 sums of its terms can have, all together
 * against a relative error (L2); equal bits in both runs; nothing written beyond the count. */
void product_check(rig *r, const product_layer *layer, uint32_t capacity, const rig_variant *variant);
/* Has CLBlast build its kernels, which are for GPUs, as the local family's are built (support/unoptimized.h): it keeps
 * them for all lists of the device. */
void product_build_clblast(rig *r);

/* Checks all cases on a device that builds kernels in its caller (PoCL's basic one) and, as far as it affords them, on
 * the simulator; the first `everywhere` of them on the others, which build as the first does. */
void product_check_cases(rig *r, size_t cases, size_t everywhere, void (*check)(rig *r, size_t index));
/* The same for cases that both families have kernels for: each in one of them, and on the others in the other
 * (rig_takes). */
void product_share_cases(rig *r, size_t cases, size_t everywhere, void (*check)(rig *r, size_t index));

/* The checks of one result, as memory of that type has it. sizes: the same sum of absolute values; terms: how many. */
#define PRODUCT_RELATIVE 1e-6
void product_check_numbers(const rig *r, const char *what, clq_dtype dtype, const void *got, const double *want,
                           const double *sizes, size_t n, size_t terms);
void product_check_numbers_to(const rig *r, const char *what, clq_dtype dtype, const void *got, const double *want,
                              const double *sizes, size_t n, size_t terms, double relative);

#endif
