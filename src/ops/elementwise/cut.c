#include "ops/elementwise/cut.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    SPLIT_FROM_BYTES = 512 << 10, /* less stays in one core's cache: handing it around costs more than it saves */
    BYTES_PER_ITEM = 8 << 10,     /* of what is split */
    GROUPS_PER_UNIT = 16          /* work-groups in flight on a compute unit that hide its memory's latency */
};

static size_t clamp_count(double wished, size_t most) {
    if (!(wished > 1)) return 1;
    return wished < (double)most ? (size_t)wished : most;
}

clq_cut clq_cut_make(const clq_list *list, double bytes, double units, size_t group) {
    const clq_device *device = clq_list_device(list);
    const clq_device_info *info = clq_device_get_info(device);
    size_t lanes = clq_device_vector(device);
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

void clq_cut_options(const clq_cut *cut, char options[CLQ_CUT_OPTIONS], const char *format, ...) {
    int used = cut->tile ? snprintf(options, CLQ_CUT_OPTIONS, "-DTILE")
                         : snprintf(options, CLQ_CUT_OPTIONS, "-DGROUP=%zu", cut->group);
    assert(used > 0 && used < CLQ_CUT_OPTIONS);
    va_list arguments;
    va_start(arguments, format);
    int more = vsnprintf(options + used, (size_t)(CLQ_CUT_OPTIONS - used), format, arguments);
    va_end(arguments);
    assert(more >= 0 && more < CLQ_CUT_OPTIONS - used);
    (void)more;
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
