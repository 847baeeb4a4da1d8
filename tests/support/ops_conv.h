/* What the tests of convolutions have in common: a case, made in a certain way, against the plain reference. */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "support/ops_product.h"

typedef struct conv_case {
    clq_conv2d_problem p;
    uint32_t capacity;
    bool bias;
} conv_case;

/* Whether the last launch is of Winograd's products. */
bool conv_is_winograd(const clq_list *list);
/* product_check of the case, forward and both gradients. Where the variant names "winograd" or one of its blocks,
 * forward and data gradient must be made so; where "direct", neither may. */
void conv_check(rig *r, const conv_case *c, const rig_variant *variant);

#endif
