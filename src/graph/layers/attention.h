/* What kinds of attention share (attention_core.c): softmax(scale Q K^T) V by heads, with masks. */
#ifndef CLQ_GRAPH_ATTENTION_H
#define CLQ_GRAPH_ATTENTION_H

#include "graph/layers/layer.h"

#define CLQ_ATTENTION_SCORES "return_attention_scores" /* clq_layer_kind.further */

/* Sizes: `outer` times a sample has `tokens` queries, which look at `others`. */
typedef struct clq_attention_sizes {
    size_t outer, tokens, others, heads, key, value, output;
} clq_attention_sizes;

/* What is computed of queries, keys and values. */
typedef struct clq_attention_core {
    clq_attention_sizes s;
    bool causal;
    size_t window; /* only tokens less far away; 0: all */
    double scale, dropout;
    double cap; /* of scores: cap tanh(score / cap); 0: none */
    uint64_t seed;
    bool zeros; /* a query that its masks let look nowhere gets zeros, as of Keras's Softmax; else it looks at all alike
                 */
    struct {
        clq_id value;
        bool rows, columns; /* it has a number for each query; for each of the others */
    } masks[4];
    unsigned mask_count;
} clq_attention_core;

/* ARGUMENT unless what is computed on the way has no more values than a tensor may have. */
clq_status clq_attention_check_size(const char *what, clq_shape shape);
/* The mask that is input `place` of x, from 1 on; place 0: there is none. */
void clq_attention_take_mask(clq_attention_core *c, const clq_id *x, size_t place, bool rows, bool columns);
/* Keys or values x (others, shared heads, width) as often as there are `heads`, which is a multiple. */
clq_id clq_attention_repeat_heads(clq_expansion *e, const clq_shape *shape, size_t heads, clq_id x);
/* q (outer, tokens, heads, key), k (outer, others, heads, key), v (outer, others, heads, value) -> (outer, tokens,
 * heads, value). */
clq_id clq_expand_attended(clq_expansion *e, const clq_attention_core *c, clq_id q, clq_id k, clq_id v);
/* A `by_token` of causal layers: keys and values are kept for one use. */
bool clq_attention_is_used_once(const clq_model *model, const clq_model_tensor *y);
/* The layer's variables `number` and the next, in a model that decodes: the keys and values of its places, a row of so
 * many numbers for each. */
clq_status clq_attention_declare_caches(clq_model *model, clq_layer *layer, unsigned number, size_t key_row,
                                        size_t value_row);
/* As clq_expand_attended of one token, whose k and v are kept there; of these there may be fewer heads, `shared`. */
clq_id clq_expand_cached(clq_expansion *e, const clq_attention_core *c, size_t shared, unsigned number, clq_id q,
                         clq_id k, clq_id v);
/* The same of scores (outer, heads, tokens, others). */
clq_id clq_expand_mixed(clq_expansion *e, const clq_attention_core *c, clq_id scores, clq_id v);

#endif
