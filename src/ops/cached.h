/* Attention of tokens that come one after another (product/cached.c). Part of ops/ops.h. */
#ifndef CLQ_OPS_CACHED_H
#define CLQ_OPS_CACHED_H

#include "launch/launch.h"

/* A sample is one token, of which q is (heads, key), k (shared, key), v (shared, value), and `places` has its place, a
 * whole number below `context`; others are taken for the nearest. Caches have a row for each place: keys (context,
 * shared, key), values (context, shared, value). heads / shared queries look at each head of the caches. All values
 * are float32. */
typedef struct clq_cached_problem {
    size_t context, heads, shared, key, value;
    size_t window; /* only so many last places are looked at, the token's own among them; 0: all */
    double scale;
} clq_cached_problem;
double clq_cached_flops(const clq_cached_problem *p); /* of a sample at the last place */

/* The caches' rows of the samples' places become k and v: no two samples of a run have one place. */
void clq_cached_append(clq_list *list, const clq_cached_problem *p, clq_value k, clq_value v, clq_value places,
                       clq_value keys, clq_value values);
/* y (heads, value) = softmax(scale * q K^T) V over the rows up to the sample's place (Vaswani et al., 2017; with fewer
 * heads of keys than of queries: Ainslie et al., 2023). Rows behind it are not read. */
void clq_cached_attend(clq_list *list, const clq_cached_problem *p, clq_value q, clq_value keys, clq_value values,
                       clq_value places, clq_value y);

#endif
