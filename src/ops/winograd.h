/* 3x3 convolutions by fewer products than taps (winograd.c), where the list's variant is that: by conv2d.c and
 * conv_pool.c. */
#ifndef CLQ_OPS_WINOGRAD_H
#define CLQ_OPS_WINOGRAD_H

#include "ops/product.h"

/* Whether it can: for the tile family, 3x3 taps one pixel apart, channels of input and output in whole vectors, few
 * enough for a core's cache. */
bool clq_winograd_fits(const clq_list *list, const clq_rows_product *p);
/* Whether it is known to be faster than the plain sum, by tiles per example and how many outputs of theirs are wanted.
 */
bool clq_winograd_pays(const clq_list *list, const clq_rows_product *p, size_t tiles, size_t pixels);
/* False, and nothing is added, where the plain sum is to be made. The question is which of both, for the caller to end
 * behind either. */
bool clq_winograd_rows(clq_list *list, const clq_rows_product *p, clq_question *question);
/* The same for the maxima of windows of 2x2 outputs; winner as clq_pool2d_forward's. x is not padded. */
bool clq_winograd_pool(clq_list *list, const clq_rows_product *p, const clq_pool2d_problem *pool, clq_value winner,
                       clq_question *question);

#endif
