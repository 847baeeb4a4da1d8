/* Devices that look discrete, or like GPUs: the test's side of discrete_layer.c and gpu_layer.c. */
#ifndef CLQ_TEST_DISGUISE_H
#define CLQ_TEST_DISGUISE_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

static inline int disguise_layer(const char *layer) {
    const char *folder = clq_environment("CLQ_TEST_BINARY");
    char path[1024];
    if (!folder) return -1;
    (void)snprintf(path, sizeof path, "%s/tests/%s.so", folder, layer);
    return setenv("OPENCL_LAYERS", path, 1) == 0 ? 0 : -1;
}

/* Before the first OpenCL call of the process, which is when the loader reads OPENCL_LAYERS: devices whose names begin
 * so seem to have memory of their own. The loader ignores a layer that it cannot load: the test looks whether
 * host_unified is false. Returns 0, or -1. */
static inline int disguise_load(const char *names_begin) {
    return disguise_layer("clq_discrete_layer") == 0 && setenv("CLQ_TEST_DISCRETE", names_begin, 1) == 0 ? 0 : -1;
}

/* Likewise for GPUs, in systems that are opened once disguise_as_gpus was called: the test looks at the device's type.
 * NULL: in none. */
static inline int disguise_load_gpus(void) { return disguise_layer("clq_gpu_layer"); }
static inline int disguise_as_gpus(const char *names_begin) {
    return names_begin ? setenv("CLQ_TEST_GPU", names_begin, 1) : unsetenv("CLQ_TEST_GPU");
}

/* What they seem to be made of: compute units, items of a work-group, bytes of local memory. */
static inline int disguise_size(const char *units, const char *group, const char *local_bytes) {
    if (setenv("CLQ_TEST_GPU_UNITS", units, 1) != 0 || setenv("CLQ_TEST_GPU_GROUP", group, 1) != 0) return -1;
    return setenv("CLQ_TEST_GPU_LOCAL", local_bytes, 1);
}

/* Whose they seem to be: the name of their platform. */
static inline int disguise_platform(const char *name) { return setenv("CLQ_TEST_GPU_PLATFORM", name, 1); }

/* Extensions that they seem to have besides their own. */
static inline int disguise_extensions(const char *names) { return setenv("CLQ_TEST_EXTENSIONS", names, 1); }

#endif
