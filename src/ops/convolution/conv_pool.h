/* What the parts of a fused convolution and max pooling share: conv_pool.c (forward), conv_pool_backward.c. */
#ifndef CLQ_OPS_CONV_POOL_H
#define CLQ_OPS_CONV_POOL_H

#include "ops/ops.h"

/* The convolution over frames: as it is, without padding. */
clq_conv2d_problem clq_conv_pool_framed(const clq_conv2d_problem *c);
/* The shapes as -D options, with a blank behind. */
clq_kernel_options clq_conv_pool_options(const clq_conv_pool_problem *p);
/* Vectors that a core holds. */
size_t clq_conv_pool_registers(const clq_list *list);

#endif
