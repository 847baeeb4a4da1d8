/* Which replicas' devices share a context. Sharing lets the ring copy from device to device; where all memory is the
 * host's own the all-reduce needs no copies, and every device gets a context to itself. */
#include "strategy/replica.h"

#include <string.h>

static const clq_device_info *info_of(const clq_devices *devices, unsigned replica) {
    return clq_system_device_info(devices->system, devices->items[replica].index);
}

static bool rings(const clq_strategy *strategy, const clq_devices *devices) {
    if (strategy->config.group.algorithm == CLQ_ALGORITHM_RING) return true;
    for (unsigned r = 0; r < devices->count; r++)
        if (!info_of(devices, r)->host_unified) return true;
    return false;
}

/* A device stands in a context once: a second replica of it has its own. */
static bool listed(const clq_device_choice *choices, uint32_t count, const clq_device_choice *choice) {
    for (uint32_t i = 0; i < count; i++)
        if (choices[i].index == choice->index && choices[i].part == choice->part && choices[i].parts == choice->parts)
            return true;
    return false;
}

/* Opens `first` and the later devices of its platform together, where the driver's copies between
 * them can be trusted. */
static clq_status open_island(clq_strategy *strategy, const clq_devices *devices, unsigned first) {
    clq_device_choice choices[CLQ_REPLICAS_MAX];
    clq_device *opened[CLQ_REPLICAS_MAX];
    unsigned owners[CLQ_REPLICAS_MAX];
    uint32_t count = 0;
    for (unsigned r = first; r < devices->count; r++) {
        if (strategy->replicas[r].device ||
            strcmp(info_of(devices, r)->platform, info_of(devices, first)->platform) != 0 ||
            listed(choices, count, &devices->items[r]))
            continue;
        owners[count] = r;
        choices[count++] = devices->items[r];
    }
    if (count < 2) return CLQ_UNSUPPORTED;
    CLQ_TRY(clq_island_open(devices->system, choices, count, opened));
    for (uint32_t i = 0; i < count; i++) strategy->replicas[owners[i]].device = opened[i];
    return CLQ_OK;
}

clq_status clq_strategy_open_devices(clq_strategy *strategy, const clq_devices *devices) {
    bool together = devices->count > 1 && rings(strategy, devices);
    for (unsigned r = 0; r < devices->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        if (replica->device) continue;
        clq_status status = together ? open_island(strategy, devices, r) : CLQ_UNSUPPORTED;
        if (status == CLQ_UNSUPPORTED) status = clq_device_open(devices->system, devices->items[r], &replica->device);
        if (status != CLQ_OK) return devices->count > 1 ? clq_fail_within(status, "replica %u", r) : status;
    }
    return CLQ_OK;
}
