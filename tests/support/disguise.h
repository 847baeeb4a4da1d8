/* Devices that look discrete: the test's side of discrete_layer.c. */
#ifndef CLQ_TEST_DISGUISE_H
#define CLQ_TEST_DISGUISE_H

#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>

/* Before the first OpenCL call of the process, which is when the loader reads OPENCL_LAYERS: devices whose names begin
 * so seem to have memory of their own. The loader ignores a layer that it cannot load: the test looks whether
 * host_unified is false. Returns 0, or -1. */
static inline int disguise_load(const char *names_begin) {
    const char *folder = clq_environment("CLQ_TEST_BINARY");
    char path[1024];
    if (!folder) return -1;
    (void)snprintf(path, sizeof path, "%s/tests/clq_discrete_layer.so", folder);
    return setenv("OPENCL_LAYERS", path, 1) == 0 && setenv("CLQ_TEST_DISCRETE", names_begin, 1) == 0 ? 0 : -1;
}

/* The same, and they seem to be GPUs with these extensions ("" for no more than they have). */
static inline int disguise_as_gpus(const char *names_begin, const char *extensions) {
    return disguise_load(names_begin) == 0 ? setenv("CLQ_TEST_GPU", extensions, 1) : -1;
}

#endif
