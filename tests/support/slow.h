/* Devices that compute slower than they could: the test's side of slow_layer.c. */
#ifndef CLQ_TEST_SLOW_H
#define CLQ_TEST_SLOW_H

#include "base/base.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* device: its place in CLQ_TEST_PACE, which is its index in a system of all drivers. */
typedef struct slow {
    void (*pace)(unsigned device, double factor);
    void (*times)(unsigned device, double *busy_s, double *rest_s);
} slow;

static inline bool slow_find(void *library, const char *name, void *out) {
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

/* Call this before the process's first OpenCL call, when the loader reads OPENCL_LAYERS. The loader ignores a layer
 * that it cannot load, so a test must check that devices rest. words: the value of CLQ_TEST_PACE. Returns 0, or -1
 * without a layer. */
static inline int slow_load(slow *out, const char *words) {
    const char *folder = clq_environment("CLQ_TEST_BINARY");
    char path[1024];
    if (!folder) return -1;
    (void)snprintf(path, sizeof path, "%s/tests/clq_slow_layer.so", folder);
    if (setenv("OPENCL_LAYERS", path, 1) != 0 || setenv("CLQ_TEST_PACE", words, 1) != 0) return -1;
    void *library = dlopen(path, RTLD_NOW);
    return library && slow_find(library, "slow_pace", &out->pace) && slow_find(library, "slow_times", &out->times) ? 0
                                                                                                                   : -1;
}

#endif
