/* Chooses the block of a kernel for a device with work-groups and local memory. */
#include "ops/local/local.h"

#include <math.h>
#include <string.h>

enum { WAVE = 64 /* the most items that run in step: a smaller group takes as long as a group of this size */ };

/* What is known of a kind of device without measuring. Registers are as compilers reported them. */
typedef struct traits {
    const char *driver; /* of clq_device_info */
    size_t results;     /* of an item, at most */
    size_t unit_items;  /* items that keep a compute unit busy */
    size_t shared;      /* bytes of registers that the items of a sub-group share; 0: each item has 256 registers */
} traits;

static const traits known[] = {
    /* 65,536 registers per unit: two groups of 256 items with 128 each. Four schedulers with two warps each */
    {"nvidia", 64, 256, 0},
    /* at least as many registers; four SIMDs with waves of up to 64 */
    {"amd", 64, 256, 0},
    /* many small units: 4 KiB of registers for a thread of 8 or 16 items, up to 8 threads per unit */
    {"intel", 32, 64, 4096},
    /* nothing is known: few registers, small units */
    {"", 32, 128, 0},
};

static const traits *traits_of(const clq_device_info *info) {
    size_t i = 0;
    while (known[i].driver[0] && strcmp(known[i].driver, info->driver) != 0) i++;
    return &known[i];
}

size_t clq_local_results_most(const clq_device_info *info) { return traits_of(info)->results; }

/* A quarter of an item's registers. */
size_t clq_local_sub_group_results(const clq_device_info *info, size_t items) {
    size_t shared = traits_of(info)->shared;
    return (shared ? shared / sizeof(float) / items : 256) / 4;
}

double clq_local_ceil(double a, double b) {
    double whole = (double)(uint64_t)(a / b);
    return whole * b < a ? whole + 1 : whole;
}

/* Work-groups that keep a compute unit busy. */
static size_t groups_of_unit(const clq_device_info *info, size_t items) {
    return clq_ceil_div(traits_of(info)->unit_items, clq_round_up(items, WAVE));
}

double clq_local_places(const clq_device_info *info, size_t items) {
    return (double)CLQ_MAX(info->compute_units, 1u) * (double)groups_of_unit(info, items);
}

/* The work-groups run in rounds. */
double clq_local_time(const clq_device_info *info, double groups, size_t items, double work) {
    double rounds = clq_local_ceil(groups, clq_local_places(info, items));
    return rounds * (double)groups_of_unit(info, items) * work * (double)clq_round_up(items, WAVE) / (double)items;
}

size_t clq_local_choose(clq_device *device, double *times, size_t count,
                        bool (*works)(clq_device *device, size_t index, const void *context), const void *context) {
    bool trusted = clq_device_get_info(device)->type == CLQ_DEVICE_CPU;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i < count; i++)
            if (times[i] < times[best]) best = i;
        if (isinf(times[best])) return count;
        if (trusted || works(device, best, context)) return best;
        times[best] = INFINITY;
    }
}
