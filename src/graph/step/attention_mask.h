/* The mask of an attention's scores, as a program: the mask is added to the scores, or chooses between them and a
 * number. Several masks become one. Private to the pattern of attention. (attention_mask.c) */
#ifndef CLQ_GRAPH_STEP_ATTENTION_MASK_H
#define CLQ_GRAPH_STEP_ATTENTION_MASK_H

#include "graph/step/step.h"

/* The scores of a sample lie one behind the other. An input of the mask has a number for each of the first `period`
 * scores, and begins again behind them. It may be one for all samples. */
typedef struct clq_mask_draft {
    clq_element_program program; /* its inputs have the kinds that they had where they were found */
    clq_id inputs[CLQ_ELEMENT_INPUTS];
    size_t periods[CLQ_ELEMENT_INPUTS];
    unsigned root;   /* the register that is the mask */
    bool is_taken;   /* there is a mask */
    size_t channels; /* the length of its rows, once it is a value of its own (clq_mask_settle) */
} clq_mask_draft;

/* Takes register `from` of the node's program, which must not depend on input `score`, as the mask of so many scores of
 * a sample. If a mask was taken before, the new mask is the sum of both. false: the register is no mask, or there is no
 * room for it; then the draft is useless. */
bool clq_mask_take(clq_mask_draft *m, const clq_graph *graph, const clq_node *node, unsigned score, unsigned from,
                   size_t scores);
/* Whether the mask is a value that the graph has already. */
bool clq_mask_is_plain(const clq_mask_draft *m);
size_t clq_mask_period(const clq_mask_draft *m); /* the longest period of its inputs */
bool clq_mask_is_per_sample(const clq_mask_draft *m);
/* Prepares a mask that is not plain to be computed as a value of each sample. false: that is not possible, as with rows
 * of different lengths. */
bool clq_mask_settle(clq_mask_draft *m);
/* Adds two nodes that compute the mask, and gives its value. They take the places of `front` and `at`, two nodes that
 * are no longer needed, and the scope of `front`. `front` stands behind all nodes that make the mask's inputs, and `at`
 * behind `front`. */
clq_id clq_mask_compute(const clq_mask_draft *m, clq_graph *graph, clq_node *front, clq_node *at);

#endif
