#include "device/internal.h"

#include <stdio.h>
#include <string.h>

static const clq_device_info *info_of(const clq_devices *devices, uint32_t i) {
    return clq_system_device_info(devices->system, devices->items[i].index);
}

static bool same_choice(const clq_device_choice *a, const clq_device_choice *b) {
    return a->index == b->index && a->part == b->part && a->parts == b->parts;
}

/* Opens `first` and the later devices of its platform in one context, if they are two at least and the driver's copies
 * between them can be trusted. A device stands in a context once: a second replica of it has its own. */
static clq_status open_island(const clq_devices *devices, uint32_t first, clq_device **out,
                              char (*reasons)[CLQ_REASON_MAX]) {
    clq_device_choice choices[CLQ_REPLICAS_MAX];
    clq_device *opened[CLQ_REPLICAS_MAX];
    uint32_t owners[CLQ_REPLICAS_MAX], count = 0;
    for (uint32_t i = first; i < devices->count; i++) {
        bool skipped = out[i] || strcmp(info_of(devices, i)->platform, info_of(devices, first)->platform) != 0;
        for (uint32_t k = 0; k < count && !skipped; k++) skipped = same_choice(&choices[k], &devices->items[i]);
        if (skipped) continue;
        owners[count] = i;
        choices[count++] = devices->items[i];
    }
    if (count < 2) return CLQ_OK;
    clq_status status = clq_island_open(devices->system, choices, count, opened);
    if (status != CLQ_OK && status != CLQ_UNSUPPORTED) return status;
    for (uint32_t i = 0; i < count; i++) {
        if (status == CLQ_OK)
            out[owners[i]] = opened[i];
        else if (reasons)
            (void)snprintf(reasons[owners[i]], CLQ_REASON_MAX, "%s", clq_error_detail());
    }
    return CLQ_OK;
}

clq_status clq_devices_open(const clq_devices *devices, bool together, clq_device **out,
                            char (*reasons)[CLQ_REASON_MAX]) {
    clq_status status = CLQ_OK;
    memset(out, 0, devices->count * sizeof *out);
    if (reasons) memset(reasons, 0, devices->count * sizeof *reasons);
    for (uint32_t i = 0; i < devices->count && status == CLQ_OK; i++) {
        if (together && !out[i]) status = open_island(devices, i, out, reasons);
        if (status == CLQ_OK && !out[i]) status = clq_device_open(devices->system, devices->items[i], &out[i]);
        if (status != CLQ_OK && devices->count > 1) status = clq_fail_within(status, "replica %u", i);
    }
    if (status == CLQ_OK) return CLQ_OK;
    clq_error error;
    clq_error_take(status, &error);
    for (uint32_t i = 0; i < devices->count; i++) {
        clq_device_close(out[i]);
        out[i] = NULL;
    }
    return clq_error_raise(&error);
}
