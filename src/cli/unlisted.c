/* GPUs that the machine has and no OpenCL driver lists: tells what is missing. Also chooses devices, and then warns of
 * these GPUs. */
#include "cli/cli.h"

#include <string.h>

enum { UNLISTED_MAX = 64, LINE_BYTES = sizeof(clq_unlisted) + 64 };

static size_t find(const clq_system *system, clq_unlisted out[UNLISTED_MAX]) {
    const char *root = clq_environment("CLIQUE_MACHINE_ROOT");
    return clq_system_unlisted(system, root ? root : "", out, UNLISTED_MAX);
}

void clq_print_unlisted(FILE *to, const clq_system *system) {
    clq_unlisted rows[UNLISTED_MAX];
    size_t count = find(system, rows);
    for (size_t i = 0; i < count; i++) {
        const clq_unlisted *gpu = &rows[i];
        char line[LINE_BYTES];
        (void)snprintf(line, sizeof line, "the %s GPU%s%s is not used: %s; %s", gpu->vendor, gpu->pci[0] ? " " : "",
                       gpu->pci, gpu->reason, gpu->remedy);
        if (to)
            fprintf(to, "%s\n", line);
        else
            clq_log(CLQ_LOG_WARNING, "%s", line);
    }
}

json_t *clq_describe_unlisted(const clq_system *system) {
    clq_unlisted rows[UNLISTED_MAX];
    size_t count = find(system, rows);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = clq_json_append(list, json_pack("{s:s, s:s, s:s, s:s}", "vendor", rows[i].vendor, "pci", rows[i].pci,
                                               "reason", rows[i].reason, "remedy", rows[i].remedy));
    return list;
}

void clq_warn_unlisted(const clq_system *system, const clq_devices *devices) {
    for (uint32_t i = 0; i < devices->count; i++)
        if (clq_system_device_info(system, devices->items[i].index)->type == CLQ_DEVICE_GPU) return;
    clq_print_unlisted(NULL, system);
}

clq_status clq_select_devices(clq_system *system, const char *spec, clq_devices *out) {
    static const clq_devices none = {.count = 0};
    clq_status status = clq_devices_select(system, spec, out);
    if (strcmp(spec, "auto") == 0 && (status == CLQ_OK || status == CLQ_ERROR_NO_DEVICE))
        clq_warn_unlisted(system, status == CLQ_OK ? out : &none);
    return status;
}
