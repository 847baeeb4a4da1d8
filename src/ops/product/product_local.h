/* The blocks of products on devices with work-groups: shared by product_local.c (chooses and launches), product.c (what
 * can be measured) and product_trial.c (whether a device's compiler compiles a block correctly). */
#ifndef CLQ_OPS_PRODUCT_LOCAL_H
#define CLQ_OPS_PRODUCT_LOCAL_H

#include "ops/product/product.h"

/* How the items of a work-group get the numbers that they share. */
typedef enum clq_local_way {
    CLQ_LOCAL_ITEMS,      /* through local memory */
    CLQ_LOCAL_SUB_GROUPS, /* from each other's registers: sub-groups of group_columns items */
    CLQ_LOCAL_DOTS,       /* through local memory, two halves at a time (AMD's v_dot2_f32_f16) */
    CLQ_LOCAL_MMA,        /* by the matrix unit CLQ_UNIT_MMA, in sub-groups of group_columns items */
    CLQ_LOCAL_DPAS        /* the same by the matrix unit CLQ_UNIT_DPAS8 or CLQ_UNIT_DPAS16 */
} clq_local_way;

/* A work-group of group_rows x group_columns items computes rows x columns of a result, over `depth` terms of the sum
 * at a time. With matrix units, each sub-group computes unit_rows x unit_columns of these. */
typedef struct clq_local_block {
    size_t rows, columns, depth, group_rows, group_columns;
    clq_local_way way;
    size_t unit_rows, unit_columns;
} clq_local_block;

/* The properties of a product that its block has to suit. */
typedef struct clq_local_terms {
    clq_dtype storage[3]; /* of A, B and C: F32, F16 or BF16 */
    clq_matmul_precision precision;
} clq_local_terms;
/* The 16-bit type that units may round factors to, whatever the precision is: the type in which A or B is stored. If
 * only one is stored in 16 bits, the other (weights, in mixed precision) is rounded on its way to local memory. F32: no
 * rounding. */
clq_dtype clq_local_factors(const clq_local_terms *terms);

enum { CLQ_LOCAL_BLOCKS = 26, CLQ_LOCAL_BLOCK_BY_RULE = 0xFF };
/* Adds blocks as candidates with the values `value` and the block's index. The first candidate is the rule's. */
void clq_product_add_local(const clq_list *list, clq_choice *choice, uint32_t value, const clq_product *p);
/* Adds all blocks that the device has room for, so that the list's own selections can name them. */
void clq_product_add_named_blocks(const clq_list *list, clq_choice *choice, uint32_t value);
/* Returns `index`, or the rule's block if `index` is BY_RULE or does not work on the device. */
size_t clq_local_block_that_works(const clq_list *list, size_t index, const clq_product *p);

const clq_local_block *clq_local_block_get(size_t index);                /* below CLQ_LOCAL_BLOCKS */
void clq_local_block_name(size_t index, char name[CLQ_CANDIDATE_BYTES]); /* "local 128x64", "sub-groups/8 32x32" */
/* Whether a device's work-groups and local memory are large enough for a block, and whether it has the sub-groups that
 * the block needs. Matrix units and dot products need not be there: tests imitate them. */
bool clq_local_block_fits(const clq_device *device, const clq_local_block *block);
/* Builds products with the block on the device, runs them, and checks the results. A failure is only logged, because
 * there are other blocks. The first call takes long. terms: a clq_local_terms. */
bool clq_local_block_works(clq_device *device, size_t index, const void *terms);

/* The estimated time of a rows product in the best block (clq_local_time). 0 if precision or 16-bit storage lets matrix
 * units compute it, which are several times as fast as float multiplications. */
double clq_product_local_time(const clq_list *list, const clq_product *p);

#endif
