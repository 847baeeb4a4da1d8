/* Devices disguised as discrete ones or as GPUs: the test's side of discrete_layer.c and gpu_layer.c. */
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

/* Call this before the process's first OpenCL call, when the loader reads OPENCL_LAYERS. Devices whose names begin with
 * names_begin then seem to have memory of their own. The loader ignores a layer that it cannot load, so the test must
 * check that host_unified is false. Returns 0, or -1. */
static inline int disguise_load(const char *names_begin) {
    return disguise_layer("clq_discrete_layer") == 0 && setenv("CLQ_TEST_DISCRETE", names_begin, 1) == 0 ? 0 : -1;
}

/* The same for GPUs. The disguise applies to systems that are opened after disguise_as_gpus; the test must check the
 * device's type. names_begin NULL: no device is disguised. */
static inline int disguise_load_gpus(void) { return disguise_layer("clq_gpu_layer"); }
static inline int disguise_as_gpus(const char *names_begin) {
    return names_begin ? setenv("CLQ_TEST_GPU", names_begin, 1) : unsetenv("CLQ_TEST_GPU");
}

/* Sets what the GPUs seem to have: compute units, work-items of a work-group, bytes of local memory. */
static inline int disguise_size(const char *units, const char *group, const char *local_bytes) {
    if (setenv("CLQ_TEST_GPU_UNITS", units, 1) != 0 || setenv("CLQ_TEST_GPU_GROUP", group, 1) != 0) return -1;
    return setenv("CLQ_TEST_GPU_LOCAL", local_bytes, 1);
}

/* Sets the name of the platform, which tells whose GPUs they seem to be. */
static inline int disguise_platform(const char *name) { return setenv("CLQ_TEST_GPU_PLATFORM", name, 1); }

/* Sets the extensions that the GPUs seem to have besides the device's own. */
static inline int disguise_extensions(const char *names) { return setenv("CLQ_TEST_EXTENSIONS", names, 1); }

#endif
