/* Which replicas' devices share a context: none, unless peer copies are asked for. In a context of several devices each
 * buffer belongs to all of them: drivers keep a copy of it on each device and move whole buffers between them, and
 * NVIDIA's is unsafe with several devices in one context. */
#include "strategy/replica.h"

clq_status clq_strategy_open_devices(clq_strategy *strategy, const clq_devices *devices) {
    const bool together = devices->count > 1 && strategy->config.group.transport == CLQ_TRANSPORT_PEER;
    clq_device *opened[CLQ_REPLICAS_MAX];
    CLQ_TRY(clq_devices_open(devices, together, opened, NULL));
    for (unsigned r = 0; r < devices->count; r++) strategy->replicas[r].worker.device = opened[r];
    return CLQ_OK;
}
