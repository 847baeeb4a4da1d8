/* Attention: of whole texts, and of tokens that come one after another (product/attention.c). Part of ops/ops.h. */
#ifndef CLQ_OPS_ATTENTION_H
#define CLQ_OPS_ATTENTION_H

#include "launch/launch.h"
#include "ops/matrix.h"

/* ---- of whole texts ---- */

typedef enum clq_attention_mask {
    CLQ_ATTENTION_ALL,    /* every query looks at all others */
    CLQ_ATTENTION_ADDS,   /* the mask's number is added to the score */
    CLQ_ATTENTION_SELECTS /* a score whose number is 0 becomes `low` */
} clq_attention_mask;
/* Of each matrix that `counts` count: q (tokens, key), k (others, key), v (others, value), y (tokens, value), mask
 * (tokens, others). The columns of q, v and y lie side by side, and k's columns or rows. All values are float32. */
typedef struct clq_attention_problem {
    size_t counts[2], tokens, others, key, value;
    clq_batched_matrix q, k, v, y, mask;
    clq_attention_mask masked;
    float scale, low;
} clq_attention_problem;
double clq_attention_flops(const clq_attention_problem *p); /* of a sample */
/* y = softmax(scale * q k^T, with the mask) v (Vaswani et al., 2017), in one launch, which keeps no scores but those of
 * the rows that are under way. mask may be none. */
void clq_attention_forward(clq_list *list, const clq_attention_problem *p, clq_value q, clq_value k, clq_value v,
                           clq_value mask, clq_value y);

/* ---- of tokens that come one after another ---- */

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
