/* Kernels for devices with work-groups and local memory come in blocks of several sizes. This file chooses a block, and
 * tells whether a device's compiler compiles it correctly. Shared by product_local.c and winograd_local.c. */
#ifndef CLQ_OPS_LOCAL_H
#define CLQ_OPS_LOCAL_H

#include "ops/ops.h"

/* ---- choosing (local.c) ---- */

/* The most results of an item: those that its registers hold beside the numbers in transit. */
size_t clq_local_results_most(const clq_device_info *info);
/* The same if numbers do not go through local memory, but through the registers of sub-groups of `items` items. */
size_t clq_local_sub_group_results(const clq_device_info *info, size_t items);
/* How many work-groups of `items` items run side by side on a busy device. */
double clq_local_places(const clq_device_info *info, size_t items);
/* The estimated time of `groups` work-groups, in units of a multiplication by one item. work: the multiplications of
 * all items of a group, and other operations counted as multiplications. */
double clq_local_time(const clq_device_info *info, double groups, size_t items, double work);
/* The block with the least time that works, or `count` if none does. times: one per block, INFINITY if the block cannot
 * be used; the function changes them. Compilers for CPU devices are trusted: there, blocks are not tried. */
size_t clq_local_choose(clq_device *device, double *times, size_t count,
                        bool (*works)(clq_device *device, size_t index, const void *context), const void *context);
/* a / b, rounded up to a whole number. */
double clq_local_ceil(double a, double b);

/* ---- trying (local_trial.c) ---- */

/* A trial: an operation on two arrays of numbers whose result float32 holds exactly, in any order of the sums. */
typedef struct clq_local_trial {
    size_t numbers[3];    /* how many numbers the two arrays and the result have */
    clq_dtype storage[3]; /* F32, F16 or BF16; must hold the arrays' numbers exactly */
    float (*number)(const void *context, size_t array, size_t i);
    uint32_t examples;
    void (*add)(clq_list *list, const void *context, const clq_value values[3]);
    bool (*right)(const void *context, const float *result); /* result: as floats */
    const void *context;
} clq_local_trial;
/* Whether the trials of a block ran, and gave the right results. `name` names the block with all that its kernel
 * depends on. Each name is tried once. If there is a cache folder, later processes know the result. If the block is not
 * used for `what`, there is one warning, at the trial. */
bool clq_local_works(clq_device *device, const char *name, const char *what, const clq_local_trial *trials,
                     size_t count);

#endif
