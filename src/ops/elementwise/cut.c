#include "ops/elementwise/cut.h"

enum {
    SPLIT_FROM_BYTES = 512 << 10, /* less data stays in one core's cache: sharing it costs more than it saves */
    BYTES_PER_ITEM = 8 << 10,     /* of data that is split */
    GROUPS_PER_UNIT = 16          /* work-groups on a compute unit, which hide the latency of its memory */
};

static size_t clamp_count(double wished, size_t most) {
    if (!(wished > 1)) return 1;
    return wished < (double)most ? (size_t)wished : most;
}

clq_cut clq_cut_make(const clq_list *list, double bytes, double units, size_t group) {
    const clq_device *device = clq_list_device(list);
    const clq_device_info *info = clq_device_get_info(device);
    size_t lanes = clq_list_vector(list);
    bool tile = clq_list_family(list) == CLQ_FAMILY_TILE;
    if (tile) {
        size_t most = CLQ_MAX(clq_device_min_groups(device), 1u);
        size_t groups = bytes < SPLIT_FROM_BYTES ? 1 : clamp_count(bytes / BYTES_PER_ITEM, most);
        return (clq_cut){.tile = true, .groups = groups, .group = 1, .lanes = lanes};
    }
    while (group > 1 && group > info->max_work_group) group /= 2;
    size_t most = (size_t)CLQ_MAX(info->compute_units, 1u) * GROUPS_PER_UNIT;
    double wished = (units + (double)group - 1) / (double)group;
    return (clq_cut){.groups = clamp_count(wished, most), .group = group, .lanes = lanes};
}

clq_kernel_options clq_cut_options(const clq_cut *cut, const char *format, ...) {
    clq_kernel_options options = {.length = 0};
    if (cut->tile)
        clq_options_add(&options, "-DTILE");
    else
        clq_options_add(&options, "-DGROUP=%zu", cut->group);
    va_list arguments;
    va_start(arguments, format);
    clq_options_add_list(&options, format, arguments);
    va_end(arguments);
    return options;
}

void clq_cut_work(clq_list *list, const clq_cut *cut) {
    clq_launch_work(list, 1, (size_t[]){cut->groups * cut->group}, (size_t[]){cut->group}, -1, 0, 0);
}

void clq_cut_work_one(clq_list *list, const clq_cut *cut) {
    clq_launch_work(list, 1, (size_t[]){cut->group}, (size_t[]){cut->group}, -1, 0, 0);
}

size_t clq_cut_pack(const clq_cut *cut, size_t sizes) {
    size_t width = cut->lanes;
    while (sizes % width) width /= 2;
    return width;
}
