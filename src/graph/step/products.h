/* Helpers of operations that multiply by weights, or that pool. (operations.c) */
#ifndef CLQ_GRAPH_STEP_PRODUCTS_H
#define CLQ_GRAPH_STEP_PRODUCTS_H

#include "graph/step/step.h"

/* Adds a node that computes dz, the gradient in front of an activation, from dy, the gradient behind it. If the
 * gradient of the bias, input 2, is wanted, the node also sums dz over rows. Gives dz, which is dy if the activation is
 * linear. */
clq_id clq_add_slope(clq_derivation *d, clq_activation activation);
/* Adds a node for dx and dw. Its inputs include dz, the gradient in front of the activation. */
void clq_add_product_gradients(clq_derivation *d, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]);
/* `stores` of products and of their gradients: all values but biases and weights' gradients may have 16 bits. */
bool clq_product_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
bool clq_product_gradient_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
double clq_conv2d_work_of(const clq_conv2d_problem *p);

/* Has forward make output 1, which only backward reads: which element of its window each maximum was. */
clq_id clq_add_winners(clq_derivation *d, const clq_pool2d_problem *p);
enum { CLQ_WINNER_TYPES = CLQ_OP_TYPE(CLQ_U8) | CLQ_OP_TYPE(CLQ_I32) };

#endif
