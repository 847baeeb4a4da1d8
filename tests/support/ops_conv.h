/* What the tests of convolutions have in common: a case, made in a certain way, against the plain reference. */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "support/ops_product.h"

typedef struct conv_case {
    clq_conv2d_problem p;
    uint32_t capacity;
    bool bias;
} conv_case;

/* How it is to be made. */
typedef struct conv_how {
    clq_conv_variant conv;
    clq_product_variant product;
    size_t winograd_block;
} conv_how;

/* Whether the last launch is of Winograd's products. */
bool conv_is_winograd(const clq_list *list);
/* product_check of the case, forward and both gradients. With WINOGRAD, forward and data gradient must be made so; with
 * DIRECT, neither may. */
void conv_check(rig *r, const conv_case *c, const conv_how *how);

#endif
