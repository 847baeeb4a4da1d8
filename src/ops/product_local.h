/* The blocks of products on devices with local memory: shared by product_local.c (choosing, launching) and
 * product_trial.c (whether a device's compiler makes of one what it should). */
#ifndef CLQ_OPS_PRODUCT_LOCAL_H
#define CLQ_OPS_PRODUCT_LOCAL_H

#include "ops/product.h"

/* A work-group of group_rows x group_columns items makes rows x columns of a result, `depth` of the sum at a time. */
typedef struct clq_local_block {
    size_t rows, columns, depth, group_rows, group_columns;
} clq_local_block;

const clq_local_block *clq_local_block_get(size_t index); /* below CLQ_LOCAL_BLOCKS */
/* Whether a device's work-groups and local memory are large enough. */
bool clq_local_block_fits(const clq_device *device, const clq_local_block *block);
/* Builds products with the block on the device, runs them and knows the answers. A failure is only logged: there are
 * smaller blocks. Not cheap the first time: kernels are built, but kept as all are. */
bool clq_local_block_works(clq_device *device, size_t index);

#endif
