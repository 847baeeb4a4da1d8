/* What single drivers do differently from the specification, or from other drivers. Code asks this one table by
 * clq_device_has_quirk. */
#include "device/internal.h"

#include <stdio.h>
#include <string.h>

/* A driver whose version is not known has the quirks of its old versions, too. */
static const clq_quirk_row rows[] = {
    {CLQ_QUIRK_RUNS_IN_CALLER, "pocl", CLQ_QUIRK_ON_ALL, "basic", 0,
     "commands run in the thread that flushes them, or that waits for them", "PoCL 3.1"},
    {CLQ_QUIRK_RUNS_IN_CALLER, "pocl", CLQ_QUIRK_ON_ALL, "cpu-minimal", 0,
     "the same device by its name of later versions", "PoCL's sources from 4.0 on"},
    {CLQ_QUIRK_GROUPS_IN_RUNS, "pocl", CLQ_QUIRK_ON_CPUS, "", 0,
     "a thread takes 32 work-groups at a time: with fewer groups than that for each, threads have no work", "PoCL 3.1"},
    {CLQ_QUIRK_MIXES_UP_KERNELS, "pocl", CLQ_QUIRK_ON_CPUS, "", 7,
     "two devices that run one program at the same time end the process (twin.c)", "PoCL 3.1"},
    {CLQ_QUIRK_COMPILES_AT_LAUNCH, "pocl", CLQ_QUIRK_ON_CPUS, "", 0,
     "a kernel is compiled when it is launched first, and a binary asked for earlier lacks it", "PoCL 3.1"},
    {CLQ_QUIRK_BUILDS_ONE_AT_A_TIME, "pocl", CLQ_QUIRK_ON_ALL, "", 0,
     "programs are compiled under one lock of the process", "PoCL 3.1"},
    {CLQ_QUIRK_BUILDS_ONE_AT_A_TIME, "*", CLQ_QUIRK_ON_CPUS, "", 0, "several threads that build are no faster than one",
     "PoCL 3.1, Intel's CPU runtime 2026.2"},
    {CLQ_QUIRK_FORGETS_CALLBACKS, "pocl", CLQ_QUIRK_ON_ALL, "", 0,
     "an event of the host that is set to a failure calls nobody back", "PoCL 3.1"},
    {CLQ_QUIRK_UNSAFE_SHARED_CONTEXT, "nvidia", CLQ_QUIRK_ON_ALL, "", 0, "a context of several devices crashes",
     "reports of other projects"},
    {CLQ_QUIRK_COMPILES_PREFETCH, "pocl", CLQ_QUIRK_ON_ALL, "", 0,
     "__builtin_prefetch becomes the processor's instruction", "PoCL 3.1"},
    {CLQ_QUIRK_COMPILES_PREFETCH, "intel", CLQ_QUIRK_ON_ALL, "", 0,
     "__builtin_prefetch becomes the processor's instruction", "Intel's CPU runtime 2026.2"},
    {CLQ_QUIRK_COMPILES_HALF_DOTS, "amd", CLQ_QUIRK_ON_ALL, "", 0,
     "v_dot2_f32_f16 multiplies and adds two halves at a time", "clang 14 for gfx906, gfx90a and gfx1030"},
    {CLQ_QUIRK_NO_SUB_GROUPS, "pocl", CLQ_QUIRK_ON_CPUS, "", 0,
     "the first launch of a product by sub-groups compiles for more than two minutes", "PoCL 6.0"},
};

/* The major version of PoCL: 3 of "OpenCL 3.0 PoCL 3.1 …"; 0 if it is not known. */
static unsigned major_version(const char *platform_version) {
    const char *at = strstr(platform_version, "PoCL ");
    unsigned major = 0;
    return at && sscanf(at, "PoCL %u", &major) == 1 ? major : 0;
}

static bool applies(const clq_quirk_row *row, const clq_device_info *info, unsigned major) {
    if (strcmp(row->driver, "*") != 0 && strcmp(row->driver, info->driver) != 0) return false;
    if (row->on == CLQ_QUIRK_ON_CPUS && info->type != CLQ_DEVICE_CPU) return false;
    if (strncmp(info->name, row->name, strlen(row->name)) != 0) return false;
    return row->before == 0 || major < row->before;
}

uint32_t clq_quirks_of(const clq_device_info *info, const char *platform_version) {
    unsigned major = major_version(platform_version);
    uint32_t quirks = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++)
        if (applies(&rows[i], info, major)) quirks |= 1u << rows[i].quirk;
    return quirks;
}

bool clq_device_has_quirk(const clq_device *device, clq_quirk quirk) { return device->quirks >> quirk & 1; }

const clq_quirk_row *clq_quirk_rows(size_t *count) {
    *count = CLQ_COUNT_OF(rows);
    return rows;
}
