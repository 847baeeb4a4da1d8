/* Devices that behave like strict discrete GPUs: the test's side of the layer in strict/ (layer.h says what it does,
 * config.c what it can be told, counts.h what it counts). */
#ifndef CLQ_TEST_STRICT_H
#define CLQ_TEST_STRICT_H

#include "base/base.h"
#include "support/strict/counts.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct strict {
    /* Returns 0, or -1 if a word is unknown. Call it while no context is open. Disguises hold for systems opened
     * later. */
    int (*configure)(const char *words);
    unsigned long (*count)(int device, int what); /* device: its number among PoCL's; -1: all */
    void (*reset)(void);                          /* sets all counts to 0 */
    void (*lose)(unsigned device,
                 unsigned long calls); /* all calls of the device fail after `calls` more; ULONG_MAX: none fails */
    void (*meet)(unsigned commands);   /* the next `commands` launches and transfers overlap */
} strict;

static inline bool strict_find(void *library, const char *name, void *out) {
    void *address = dlsym(library, name);
    memcpy(out, &address, sizeof address);
    return address != NULL;
}

/* Call this before the process's first OpenCL call, when the loader reads OPENCL_LAYERS. The loader ignores a layer
 * that it cannot load, so a test must check that the devices are disguised. Returns 0, or -1 without a layer. */
static inline int strict_load(strict *out, const char *words) {
    const char *folder = clq_environment("CLQ_TEST_BINARY");
    char path[1024];
    if (!folder) return -1;
    (void)snprintf(path, sizeof path, "%s/tests/clq_strict_layer.so", folder);
    if (setenv("OPENCL_LAYERS", path, 1) != 0 || setenv("CLQ_TEST_STRICT", words, 1) != 0) return -1;
    void *library = dlopen(path, RTLD_NOW);
    bool ok = library && strict_find(library, "strict_configure", &out->configure) &&
              strict_find(library, "strict_count_of", &out->count) &&
              strict_find(library, "strict_count_reset", &out->reset) &&
              strict_find(library, "strict_lose", &out->lose) && strict_find(library, "strict_meet", &out->meet);
    return ok ? 0 : -1;
}

#endif
