/* Attention over whole texts, and for tokens that come one after another (product/attention.c). Part of ops/ops.h. */
#ifndef CLQ_OPS_ATTENTION_H
#define CLQ_OPS_ATTENTION_H

#include "launch/launch.h"
#include "ops/matrix.h"

/* ---- over whole texts ---- */

typedef enum clq_attention_mask {
    CLQ_ATTENTION_ALL,    /* no mask: every query attends to all keys */
    CLQ_ATTENTION_ADDS,   /* the mask's number is added to the score */
    CLQ_ATTENTION_SELECTS /* a score whose number is 0 becomes `low` */
} clq_attention_mask;
/* There are counts[0] * counts[1] matrices of each kind per sample: q (tokens, key), k (others, key), v (others,
 * value), y (tokens, value) and mask (tokens, others). The columns of q, v and y must be adjacent, and k's columns or
 * its rows. All values are float32. */
typedef struct clq_attention_problem {
    size_t counts[2], tokens, others, key, value;
    clq_batched_matrix q, k, v, y, mask;
    clq_attention_mask masked;
    float scale, low;
} clq_attention_problem;
double clq_attention_flops(const clq_attention_problem *p); /* per sample */
/* y = softmax(scale * q k^T, with the mask) v (Vaswani et al., 2017), in one launch. It stores only the scores of the
 * rows that are being computed. mask may be none. */
void clq_attention_forward(clq_list *list, const clq_attention_problem *p, clq_value q, clq_value k, clq_value v,
                           clq_value mask, clq_value y);

/* ---- for tokens that come one after another ---- */

/* A sample is one token: q (heads, key), k (shared, key), v (shared, value), and its position in `places`, a whole
 * number below `context`. Other numbers are clamped. The caches have a row for each position: keys (context, shared,
 * key), values (context, shared, value). heads / shared queries attend to each head of the caches. All values are
 * float32. */
typedef struct clq_cached_problem {
    size_t context, heads, shared, key, value;
    size_t window; /* attends only to the last `window` positions, the token's own included; 0: to all */
    double scale;
} clq_cached_problem;
double clq_cached_flops(const clq_cached_problem *p); /* per sample, at the last position */

/* Writes k and v to the caches' rows of the samples' positions. Samples of one run must have different positions. */
void clq_cached_append(clq_list *list, const clq_cached_problem *p, clq_value k, clq_value v, clq_value places,
                       clq_value keys, clq_value values);
/* y (heads, value) = softmax(scale * q K^T) V over the rows up to the sample's position (Vaswani et al., 2017; with
 * fewer heads of keys than of queries: Ainslie et al., 2023). Later rows are not read. */
void clq_cached_attend(clq_list *list, const clq_cached_problem *p, clq_value q, clq_value keys, clq_value values,
                       clq_value places, clq_value y);

#endif
