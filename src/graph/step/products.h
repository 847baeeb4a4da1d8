/* What operations share that multiply by weights, or that pool. (operations.c) */
#ifndef CLQ_GRAPH_STEP_PRODUCTS_H
#define CLQ_GRAPH_STEP_PRODUCTS_H

#include "graph/step/step.h"

/* Adds what computes dz from dy, the gradient behind an activation, and the sums of dz over rows, which are the
 * gradient of the bias, input 2. Gives dz; dy itself if the activation is linear. */
clq_id clq_add_slope(clq_derivation *d, clq_activation activation);
/* dx and dw, from the gradient before the activation, which is among the inputs. */
void clq_add_product_gradients(clq_derivation *d, const clq_operation *op, const clq_id inputs[CLQ_NODE_INPUTS]);
/* Values of 16 bits: biases and weights' gradients are f32. */
bool clq_product_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
bool clq_product_gradient_stores(const clq_list *list, const clq_node *node, unsigned value, clq_dtype dtype);
double clq_conv2d_work_of(const clq_conv2d_problem *p);

/* Which element of its window each maximum was: output 1, which forward makes for backward alone. */
clq_id clq_add_winners(clq_derivation *d, const clq_pool2d_problem *p);
enum { CLQ_WINNER_TYPES = CLQ_OP_TYPE(CLQ_U8) | CLQ_OP_TYPE(CLQ_I32) };

#endif
