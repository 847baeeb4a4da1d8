/* The blocks of products on devices with work-groups: shared by product_local.c (choosing, launching), product.c (what
 * can be measured) and product_trial.c (whether a device's compiler makes of one what it should). */
#ifndef CLQ_OPS_PRODUCT_LOCAL_H
#define CLQ_OPS_PRODUCT_LOCAL_H

#include "ops/product/product.h"

/* How items come to the numbers that they share. */
typedef enum clq_local_way {
    CLQ_LOCAL_ITEMS,      /* through local memory */
    CLQ_LOCAL_SUB_GROUPS, /* from each other's registers: sub-groups of group_columns items */
    CLQ_LOCAL_DOTS,       /* through local memory, two halves at a time (AMD's v_dot2_f32_f16) */
    CLQ_LOCAL_MMA,        /* by matrix units, sub-groups of group_columns items: CLQ_UNIT_MMA, */
    CLQ_LOCAL_DPAS        /* CLQ_UNIT_DPAS8 or 16 */
} clq_local_way;

/* A work-group of group_rows x group_columns items makes rows x columns of a result, `depth` of the sum at a time; by
 * matrix units a sub-group makes unit_rows x unit_columns of it. */
typedef struct clq_local_block {
    size_t rows, columns, depth, group_rows, group_columns;
    clq_local_way way;
    size_t unit_rows, unit_columns;
} clq_local_block;

/* What a product asks of the block that makes it. */
typedef struct clq_local_terms {
    clq_dtype storage[3]; /* of A, B and C: F32, F16 or BF16 */
    clq_matmul_precision precision;
} clq_local_terms;
/* What units may round factors to whatever the precision: the 16 bits that one of them has in memory. The other,
 * weights in mixed precision, is rounded on its way to local memory. F32: nothing. */
clq_dtype clq_local_factors(const clq_local_terms *terms);

enum { CLQ_LOCAL_BLOCKS = 26, CLQ_LOCAL_BLOCK_BY_RULE = 0xFF };
/* Blocks as candidates, values `value` and the index; the rule's is the first of them. */
void clq_product_add_local(const clq_list *list, clq_choice *choice, uint32_t value, const clq_product *p);
/* All that the device has room for, for the list's own selections to name. */
void clq_product_add_named_blocks(const clq_list *list, clq_choice *choice, uint32_t value);
/* That block; the rule's in place of BY_RULE and of one that does not work on the device. */
size_t clq_local_block_that_works(const clq_list *list, size_t index, const clq_product *p);

const clq_local_block *clq_local_block_get(size_t index);                /* below CLQ_LOCAL_BLOCKS */
void clq_local_block_name(size_t index, char name[CLQ_CANDIDATE_BYTES]); /* "local 128x64", "sub-groups/8 32x32" */
/* Whether a device's work-groups and local memory are large enough, and it has such sub-groups, if it needs them: units
 * and dot products may be imitated, by tests. */
bool clq_local_block_fits(const clq_device *device, const clq_local_block *block);
/* Builds products with the block on the device, runs them and knows the answers. A failure is only logged: there are
 * others. Not cheap the first time. terms: a clq_local_terms. */
bool clq_local_block_works(clq_device *device, size_t index, const void *terms);

/* How long rows are reckoned to take in the best block (clq_local_time); 0 where units make it that are
 * several times as fast as whatever multiplies floats, as precision or halves let them. */
double clq_product_local_time(const clq_list *list, const clq_product *p);

#endif
