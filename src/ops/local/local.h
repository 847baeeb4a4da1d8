/* Kernels for devices with work-groups and local memory, which come in blocks of several sizes: which is used, and
 * whether a device's compiler makes of it what it should. Shared by product_local.c and winograd_local.c. */
#ifndef CLQ_OPS_LOCAL_H
#define CLQ_OPS_LOCAL_H

#include "ops/ops.h"

/* ---- choosing (local.c) ---- */

/* Results of an item, at most: what its registers hold beside the numbers on their way. */
size_t clq_local_results_most(const clq_device_info *info);
/* The same where numbers do not go through local memory, but round sub-groups of so many. */
size_t clq_local_sub_group_results(const clq_device_info *info, size_t items);
/* Work-groups of so many items that run side by side, on a device that they keep busy. */
double clq_local_places(const clq_device_info *info, size_t items);
/* How long so many work-groups take, in units of a multiplication by one item. work: of all items of a group, in
 * multiplications and what takes as long. */
double clq_local_time(const clq_device_info *info, double groups, size_t items, double work);
/* The block that takes the least time and works; `count` where there is none. times, by block: INFINITY where it cannot
 * be used; changed. CPU devices' compilers are trusted: blocks are not tried there. */
size_t clq_local_choose(clq_device *device, double *times, size_t count,
                        bool (*works)(clq_device *device, size_t index, const void *context), const void *context);
/* Rounded up to a whole number. */
double clq_local_ceil(double a, double b);

/* ---- trying (local_trial.c) ---- */

/* An operation on two arrays of numbers whose result float32 holds exactly in any order of sums. */
typedef struct clq_local_trial {
    size_t numbers[3];    /* of the two arrays, and of the result */
    clq_dtype storage[3]; /* in memory: F32, F16 or BF16; arrays' numbers are exact there */
    float (*number)(const void *context, size_t array, size_t i);
    uint32_t examples;
    void (*add)(clq_list *list, const void *context, const clq_value values[3]);
    bool (*right)(const void *context, const float *result); /* as floats */
    const void *context;
} clq_local_trial;
/* Whether `trials` of a block went well, and gave the right answers. Each block, of that name (all that a kernel
 * depends on), is tried once: where there is a cache folder, later processes know the result. There is one warning of
 * what is not used for `what`, when it is tried. */
bool clq_local_works(clq_device *device, const char *name, const char *what, const clq_local_trial *trials,
                     size_t count);

#endif
