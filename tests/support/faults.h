/* Makes OpenCL calls fail on order: the test's side of fault_layer.c. */
#ifndef CLQ_TEST_FAULTS_H
#define CLQ_TEST_FAULTS_H

#include "base/base.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct faults {
    unsigned (*arm)(unsigned n, cl_int error, bool sticky);
    void (*only)(const char *thread);
    void (*slow)(unsigned ms);
    unsigned (*contexts)(void);
} faults;

/* Call this before the process's first OpenCL call, when the loader reads OPENCL_LAYERS. The loader ignores a layer
 * that it cannot load, so a test must check that calls are counted. Returns 0, or -1 without a layer. */
static inline int faults_load(faults *out) {
    const char *folder = clq_environment("CLQ_TEST_BINARY");
    char path[1024];
    if (!folder) return -1;
    (void)snprintf(path, sizeof path, "%s/tests/clq_fault_layer.so", folder);
    if (setenv("OPENCL_LAYERS", path, 1) != 0) return -1;
    void *library = dlopen(path, RTLD_NOW);
    if (!library) return -1;
    void *arm = dlsym(library, "fault_arm"), *only = dlsym(library, "fault_only"), *slow = dlsym(library, "fault_slow");
    void *contexts = dlsym(library, "fault_contexts");
    memcpy(&out->arm, &arm, sizeof arm);
    memcpy(&out->only, &only, sizeof only);
    memcpy(&out->slow, &slow, sizeof slow);
    memcpy(&out->contexts, &contexts, sizeof contexts);
    return out->arm && out->only && out->slow && out->contexts ? 0 : -1;
}

#endif
