/* What the kinds of attention share: softmax(scale Q K^T) V for each head, with masks. (attention_core.c) */
#ifndef CLQ_GRAPH_ATTENTION_H
#define CLQ_GRAPH_ATTENTION_H

#include "graph/layers/layer.h"

#define CLQ_ATTENTION_SCORES "return_attention_scores" /* clq_layer_kind.further */

/* A sample has `outer` sets of `tokens` queries each. The queries of a set look at `others` keys and values. */
typedef struct clq_attention_sizes {
    size_t outer, tokens, others, heads, key, value, output;
} clq_attention_sizes;

/* What attention computes from queries, keys and values. */
typedef struct clq_attention_core {
    clq_attention_sizes s;
    bool causal;
    size_t window; /* queries look only at tokens less far away; 0: at all */
    double scale, dropout;
    double cap; /* soft cap of the scores: cap tanh(score / cap); 0: none */
    uint64_t seed;
    /* A query that its masks let look nowhere gets zeros, as with Keras's Softmax. If false, it looks at all tokens
     * equally. */
    bool zeros;
    struct {
        clq_id value;
        bool rows, columns; /* it has a number for each query; for each key */
    } masks[4];
    unsigned mask_count;
} clq_attention_core;

/* Errors: ARGUMENT if an intermediate value of this shape would have more numbers than a tensor may have. */
clq_status clq_attention_check_size(const char *what, clq_shape shape);
/* Adds input `place` of x, counted from 1, as a mask. place 0: there is no mask, and nothing is added. */
void clq_attention_take_mask(clq_attention_core *c, const clq_id *x, size_t place, bool rows, bool columns);
/* Repeats keys or values x (others, shared heads, width) to `heads` heads, which are a multiple of the shared ones. */
clq_id clq_attention_repeat_heads(clq_expansion *e, const clq_shape *shape, size_t heads, clq_id x);
/* q (outer, tokens, heads, key), k (outer, others, heads, key), v (outer, others, heads, value) -> (outer, tokens,
 * heads, value). */
clq_id clq_expand_attended(clq_expansion *e, const clq_attention_core *c, clq_id q, clq_id k, clq_id v);
/* For `by_token` of causal layers: whether the layer is used once. Its keys and values are kept for a single use. */
bool clq_attention_is_used_once(const clq_model *model, const clq_model_tensor *y);
/* In a model that decodes, declares the layer's variables `number` and `number` + 1: the caches of keys and values,
 * with a row of key_row or value_row numbers for each place. */
clq_status clq_attention_declare_caches(clq_model *model, clq_layer *layer, unsigned number, size_t key_row,
                                        size_t value_row);
/* The same as clq_expand_attended for one token. Appends k and v to the caches, which are the layer's variables
 * `number` and `number` + 1, and looks at the cached tokens: at all, or at those within c->window. Keys and values have
 * `shared` heads, which may be fewer than the queries'. */
clq_id clq_expand_cached(clq_expansion *e, const clq_attention_core *c, size_t shared, unsigned number, clq_id q,
                         clq_id k, clq_id v);
/* The same as clq_expand_attended from scores (outer, heads, tokens, others) that are known. */
clq_id clq_expand_mixed(clq_expansion *e, const clq_attention_core *c, clq_id scores, clq_id v);

#endif
