/* Activations, alone and in chains, as lists compute them: elementwise programs from the table of activations. Softmax
 * has launches of its own. */
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H

#include "ops/ops.h"

/* y = act(x), with `elements` numbers per sample. Softmax takes rows of `channels`. x and y may be the same value. */
void activation_forward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value x, clq_value y);
/* dz = dy * act'(z). y is what the activation's slope is computed from: its result y, or z (clq_activation_row). Unless
 * db is none, also db (channels) = the sums of dz over rows. dz may be dy's own value, or none. With LINEAR, y may be
 * none. Not for activations that are made of several instructions. */
void activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                         clq_value dy, clq_value dz, clq_value db);

/* Activations that one program applies one after the other, links[0] first. None is softmax. In the backward pass, the
 * slopes of all links are computed from their results. */
enum { CHAIN_LINKS_MOST = 8 };
typedef struct activation_chain {
    unsigned count;
    clq_activation links[CHAIN_LINKS_MOST];
} activation_chain;
void chain_forward(clq_list *list, const activation_chain *chain, size_t elements, clq_value x, clq_value y);
/* As activation_backward, if y = act(z) then went through the chain: dy is the gradient of the chain's result. The
 * values between the links are computed again from y. */
void chain_backward(clq_list *list, const activation_chain *chain, clq_activation act, size_t elements, size_t channels,
                    clq_value y, clq_value dy, clq_value dz, clq_value db);

#endif
