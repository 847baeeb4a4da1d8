/* Plain references, in double, of recurrent cells. Written from the definitions; slow. */
#ifndef REF_RECURRENT_H
#define REF_RECURRENT_H

#include "ops/ops.h"

/* The members are as in clq_recurrent_values. NULL: there is none. kept has the sums before the activations: other
 * numbers than the operation keeps, but no more of them. */
typedef struct ref_recurrent_values {
    const double *z, *u, *bias, *h0, *c0, *mask, *drops;
    double *y, *h, *c, *before, *kept;
} ref_recurrent_values;
void ref_recurrent(const clq_recurrent_problem *p, size_t count, const ref_recurrent_values *v);

/* As clq_recurrent_gradients, by backpropagation through time. kept: as written by ref_recurrent. */
typedef struct ref_recurrent_slopes {
    const double *dy, *dh, *dc, *u, *kept, *mask, *drops;
    double *dz, *dr, *dboth, *dh0, *dc0;
} ref_recurrent_slopes;
void ref_recurrent_gradient(const clq_recurrent_problem *p, size_t count, const ref_recurrent_slopes *g);

#endif
