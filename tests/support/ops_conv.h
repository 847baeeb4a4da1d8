/* Shared by the tests of convolutions: compares a case, computed in a chosen way, with the plain reference. */
#ifndef OPS_CONV_H
#define OPS_CONV_H

#include "support/ops_product.h"

typedef struct conv_case {
    clq_conv2d_problem p;
    uint32_t capacity;
    bool bias;
} conv_case;

/* Whether the list's last launch computes products of Winograd's algorithm. */
bool conv_is_winograd(const clq_list *list);
/* Runs product_check on the case, forward and both gradients. If the variant names "winograd" or one of its blocks, the
 * forward pass and the data gradient must be computed in this way. If the variant names "direct", neither may be. */
void conv_check(rig *r, const conv_case *c, const rig_variant *variant);

#endif
