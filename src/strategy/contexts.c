/* Which replicas' devices share a context. Sharing lets links copy from device to device; where all memory is the
 * host's own the all-reduce needs no copies, and every device gets a context to itself. */
#include "strategy/replica.h"

static const clq_device_info *info_of(const clq_devices *devices, unsigned replica) {
    return clq_system_device_info(devices->system, devices->items[replica].index);
}

static bool uses_links(const clq_strategy *strategy, const clq_devices *devices) {
    clq_algorithm algorithm = strategy->config.group.algorithm;
    if (algorithm != CLQ_ALGORITHM_AUTO) return algorithm != CLQ_ALGORITHM_DIRECT;
    for (unsigned r = 0; r < devices->count; r++)
        if (!info_of(devices, r)->host_unified) return true;
    return false;
}

clq_status clq_strategy_open_devices(clq_strategy *strategy, const clq_devices *devices) {
    clq_device *opened[CLQ_REPLICAS_MAX];
    CLQ_TRY(clq_devices_open(devices, devices->count > 1 && uses_links(strategy, devices), opened, NULL));
    for (unsigned r = 0; r < devices->count; r++) strategy->replicas[r].device = opened[r];
    return CLQ_OK;
}
