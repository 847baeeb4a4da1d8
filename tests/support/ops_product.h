/* Shared by the tests of dense layers and convolutions: runs a layer forward and backward, and compares it with its
 * reference. */
#ifndef OPS_PRODUCT_H
#define OPS_PRODUCT_H

#include "support/ops_rig.h"

typedef struct product_layer {
    size_t in, out, weights, biases; /* in, out: floats per example. biases 0: none */
    size_t rows;                     /* rows of the output per example, over which a weight's gradient sums */
    size_t growth;                   /* factor of the rounding errors of y and dx over those of plain sums; 0: 1 */
    /* How many terms a plain sum has whose rounding errors bound those of a weight's gradient. NULL: count * rows. */
    size_t (*gradient_terms)(const void *problem, size_t count);
    double relative; /* allowed error of all numbers together (L2); 0: PRODUCT_RELATIVE */
    clq_activation activation;
    bool adds; /* the layer adds up the weights' gradients of several runs */
    const void *problem;
    void (*forward)(clq_list *list, const void *problem, clq_value x, clq_value w, clq_value b, clq_value y);
    void (*backward)(clq_list *list, const void *problem, clq_value x, clq_value w, clq_value dz, clq_value dx,
                     clq_value dw);
    void (*ref)(const void *problem, size_t count, const double *x, const double *w, const double *b, double *z);
    void (*ref_gradients)(const void *problem, size_t count, const double *x, const double *w, const double *dz,
                          double *dx, double *dw);
} product_layer;

/* Runs the layer made for `capacity` with counts of capacity, 1, 0 and capacity - 1, twice each. A simulator runs only
 * the first two, once. Checks that every number is within the largest error that float32 sums of its terms can have,
 * that all numbers together are within a relative error (L2), that both runs give equal bits, and that nothing is
 * written beyond the count. */
void product_check(rig *r, const product_layer *layer, uint32_t capacity, const rig_variant *variant);
/* Has CLBlast build its kernels, which are for GPUs, without optimizing, as the local family's kernels are built
 * (support/unoptimized.h). CLBlast keeps these kernels for all lists of the device. */
void product_build_clblast(rig *r);

/* Checks all cases on a device that runs kernels in the calling thread (PoCL's basic one) and, as far as it affords
 * them, on the simulator. Other devices, which build as the first does, check only the first `everywhere` cases. */
void product_check_cases(rig *r, size_t cases, size_t everywhere, void (*check)(rig *r, size_t index));
/* The same for cases that both families have kernels for: rig_takes gives each case to one family on this device, and
 * to the other family on the other devices. */
void product_share_cases(rig *r, size_t cases, size_t everywhere, void (*check)(rig *r, size_t index));

/* Check one result. got: the numbers as memory of that type stores them. sizes: the same sums, of absolute values.
 * terms: how many terms each sum has. */
#define PRODUCT_RELATIVE 1e-6
void product_check_numbers(const rig *r, const char *what, clq_dtype dtype, const void *got, const double *want,
                           const double *sizes, size_t n, size_t terms);
void product_check_numbers_to(const rig *r, const char *what, clq_dtype dtype, const void *got, const double *want,
                              const double *sizes, size_t n, size_t terms, double relative);

#endif
