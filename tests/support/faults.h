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
    unsigned (*firsts)(unsigned *out, unsigned most);
} faults;

/* Which of a run's calls fail in turn: the first of each function, and every stride-th from `from` on. */
typedef struct fault_walk {
    unsigned from, stride, count;
    unsigned firsts[64];
} fault_walk;

/* Call this after the faults->arm that ended a run in which nothing failed. */
static inline fault_walk faults_walk(const faults *layer, unsigned from, unsigned stride) {
    fault_walk walk = {.from = from, .stride = stride};
    walk.count = layer->firsts(walk.firsts, sizeof walk.firsts / sizeof walk.firsts[0]);
    return walk;
}

/* Whether the n-th call, counted from 1, shall fail. */
static inline bool faults_wants(const fault_walk *walk, unsigned n) {
    for (unsigned i = 0; i < walk->count; i++)
        if (walk->firsts[i] == n) return true;
    return n >= walk->from && (n - walk->from) % walk->stride == 0;
}

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
    void *contexts = dlsym(library, "fault_contexts"), *firsts = dlsym(library, "fault_firsts");
    memcpy(&out->arm, &arm, sizeof arm);
    memcpy(&out->only, &only, sizeof only);
    memcpy(&out->slow, &slow, sizeof slow);
    memcpy(&out->contexts, &contexts, sizeof contexts);
    memcpy(&out->firsts, &firsts, sizeof firsts);
    return out->arm && out->only && out->slow && out->contexts && out->firsts ? 0 : -1;
}

#endif
