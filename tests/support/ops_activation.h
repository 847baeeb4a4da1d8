/* Activations, and rows of them, as lists compute them: elementwise programs from the table of activations; softmax by
 * its own launches. */
#ifndef OPS_ACTIVATION_H
#define OPS_ACTIVATION_H

#include "ops/ops.h"

/* y = act(x), `elements` per sample; softmax over rows of `channels`. x and y may be one value. */
void activation_forward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value x, clq_value y);
/* dz = dy * act'(z) from what the activation's slope takes, its result y or z (clq_activation_row), and, unless none,
 * db (channels) = the sums of dz over rows. dz may be dy's own value, or none. With LINEAR y may be none. Not for
 * activations that are made of several instructions. */
void activation_backward(clq_list *list, clq_activation act, size_t elements, size_t channels, clq_value y,
                         clq_value dy, clq_value dz, clq_value db);

/* Activations one behind the other in one program: links[0] is applied first. None is softmax. Backward, the slopes of
 * all are known from results. */
enum { CHAIN_LINKS_MOST = 8 };
typedef struct activation_chain {
    unsigned count;
    clq_activation links[CHAIN_LINKS_MOST];
} activation_chain;
void chain_forward(clq_list *list, const activation_chain *chain, size_t elements, clq_value x, clq_value y);
/* As activation_backward, where y = act(z) went through the chain as well, and dy is the gradient behind the chain.
 * What is between the links is computed again from y. */
void chain_backward(clq_list *list, const activation_chain *chain, clq_activation act, size_t elements, size_t channels,
                    clq_value y, clq_value dy, clq_value dz, clq_value db);

#endif
