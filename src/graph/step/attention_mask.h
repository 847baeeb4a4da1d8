/* What is put on the scores of an attention, as a program: what is added to them, or chooses between them and a number.
 * Several masks become one. Private to the pattern of attention. (attention_mask.c) */
#ifndef CLQ_GRAPH_STEP_ATTENTION_MASK_H
#define CLQ_GRAPH_STEP_ATTENTION_MASK_H

#include "graph/step/step.h"

/* Scores of a sample lie one behind the other. A value that has fewer numbers, `period` of them, begins again behind
 * these; it may be one for all samples. */
typedef struct clq_mask_draft {
    clq_element_program program; /* of the kinds that the values had where they were found */
    clq_id inputs[CLQ_ELEMENT_INPUTS];
    size_t periods[CLQ_ELEMENT_INPUTS];
    unsigned root;   /* the register that is the mask */
    bool is_taken;   /* there is a mask */
    size_t channels; /* rows of the mask as a value of its own (clq_mask_settle) */
} clq_mask_draft;

/* Register `from` of a program that node has, of inputs other than `score`, is a mask of so many scores of a sample;
 * with one that was taken before it is their sum. false: that is no mask, or too much of one; the draft is spoilt. */
bool clq_mask_take(clq_mask_draft *m, const clq_graph *graph, const clq_node *node, unsigned score, unsigned from,
                   size_t scores);
/* Whether the mask is a value that the graph has already. */
bool clq_mask_is_plain(const clq_mask_draft *m);
size_t clq_mask_period(const clq_mask_draft *m); /* the longest one */
bool clq_mask_is_per_sample(const clq_mask_draft *m);
/* Prepares one that is not plain to be computed as a value of a sample. false: its values do not fit together. */
bool clq_mask_settle(clq_mask_draft *m);
/* The value, which two nodes compute then, in the places of `front` and of `at`, and in the scope of `front`: both
 * stand behind all that made the inputs, one behind the other. */
clq_id clq_mask_compute(const clq_mask_draft *m, clq_graph *graph, clq_node *front, clq_node *at);

#endif
