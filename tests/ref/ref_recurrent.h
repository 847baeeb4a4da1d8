/* Plain references, in double, of recurrent cells. Written from the definitions; slow. */
#ifndef REF_RECURRENT_H
#define REF_RECURRENT_H

#include "ops/ops.h"

/* As clq_recurrent_values; what there is none of is NULL. kept has the sums before the activations: numbers of its own,
 * no more than the operation's. */
typedef struct ref_recurrent_values {
    const double *z, *u, *bias, *h0, *c0, *mask, *drops;
    double *y, *h, *c, *before, *kept;
} ref_recurrent_values;
void ref_recurrent(const clq_recurrent_problem *p, size_t count, const ref_recurrent_values *v);

/* As clq_recurrent_gradients, by backpropagation through time. kept: of ref_recurrent. */
typedef struct ref_recurrent_slopes {
    const double *dy, *dh, *dc, *u, *kept, *mask, *drops;
    double *dz, *dr, *dboth, *dh0, *dc0;
} ref_recurrent_slopes;
void ref_recurrent_gradient(const clq_recurrent_problem *p, size_t count, const ref_recurrent_slopes *g);

#endif
