/* What the parts of a fused convolution and max pooling share: conv_pool.c (forward), conv_pool_backward.c. */
#ifndef CLQ_OPS_CONV_POOL_H
#define CLQ_OPS_CONV_POOL_H

#include "ops/ops.h"

enum { CLQ_CONV_POOL_OPTIONS = 512 };

/* The convolution over frames: as it is, without padding. */
clq_conv2d_problem clq_conv_pool_framed(const clq_conv2d_problem *c);
/* The shapes as -D options, with a blank behind; `options` holds CLQ_CONV_POOL_OPTIONS. Returns the length. */
size_t clq_conv_pool_shape(const clq_conv_pool_problem *p, char *options);
void clq_conv_pool_add(char *options, size_t *used, const char *format, ...) CLQ_PRINTF(3, 4);
/* Vectors that a core holds. */
size_t clq_conv_pool_registers(const clq_list *list);

#endif
