/* clique devices: what the machine has, and whether it may be used. */
#include "cli/cli.h"

#include <stdio.h>

static const char *type_name(clq_device_type type) {
    switch (type) {
    case CLQ_DEVICE_CPU: return CLQ_SPEC_CPU;
    case CLQ_DEVICE_GPU: return CLQ_SPEC_GPU;
    case CLQ_DEVICE_ACCELERATOR: return CLQ_SPEC_ACCELERATOR;
    default: return "other";
    }
}

static json_t *describe(const clq_device_info *d) {
    return json_pack("{s:i, s:s, s:o, s:o, s:o, s:o, s:s, s:i, s:I, s:I, s:o, s:b, s:s, s:b, s:o}", "index",
                     (int)d->index, "driver", d->driver, "name", clq_json_text(d->name), "vendor",
                     clq_json_text(d->vendor), "platform", clq_json_text(d->platform), "driver_version",
                     clq_json_text(d->driver_version), "type", type_name(d->type), "compute_units",
                     (int)d->compute_units, "global_mem_bytes", (json_int_t)d->global_mem_bytes, "max_alloc_bytes",
                     (json_int_t)d->max_alloc_bytes, "opencl_version", clq_json_text(d->opencl_version), "host_unified",
                     (int)d->host_unified, "pci", d->pci, "usable", (int)d->usable, "reason", clq_json_text(d->reason));
}

static clq_status print_json(const clq_system *system) {
    json_t *list = json_array();
    for (size_t i = 0; i < clq_system_device_count(system); i++)
        list = clq_json_append(list, describe(clq_system_device_info(system, i)));
    return clq_print_json(json_pack("{s:o, s:o}", "devices", list, "unlisted", clq_describe_unlisted(system)));
}

static void print_table(const clq_system *system) {
    printf("%-5s %-10s %-12s %5s %9s  %s\n", "index", "driver", "type", "units", "memory", "name");
    for (size_t i = 0; i < clq_system_device_count(system); i++) {
        const clq_device_info *d = clq_system_device_info(system, i);
        clq_fprintf(stdout, "%-5u %-10s %-12s %5u %6.1f GB  %s\n", d->index, d->driver, type_name(d->type),
                    d->compute_units, (double)d->global_mem_bytes * 1e-9, d->name);
        if (!d->usable) printf("      not used: %s\n", d->reason);
    }
    if (clq_system_device_count(system) == 0)
        puts("no OpenCL device: install a driver (for the CPU: apt install pocl-opencl-icd)");
    clq_print_unlisted(stdout, system);
}

clq_status clq_command_devices(clq_setup *s, const clq_options *o) {
    CLQ_TRY(clq_setup_system(s, o));
    CLQ_TRY(clq_system_test_devices(s->system));
    if (o->json) return print_json(s->system);
    print_table(s->system);
    return CLQ_OK;
}
