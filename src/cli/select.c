/* Choosing devices, as clique and clique-bench do. */
#include "cli/cli.h"

#include <string.h>

clq_status clq_select_devices(clq_system *system, const char *spec, clq_devices *out) {
    clq_status status = clq_devices_select(system, spec, out);
    bool quiet = strcmp(spec, "auto") != 0 || (status != CLQ_OK && status != CLQ_NO_DEVICE);
    for (uint32_t i = 0; i < out->count && status == CLQ_OK; i++)
        quiet = quiet || clq_system_device_info(system, out->items[i].index)->type == CLQ_DEVICE_GPU;
    if (!quiet) clq_warn_unlisted(system);
    return status;
}
