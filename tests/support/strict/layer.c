/* The table of calls. A call that the layer does not know ends the process: the driver would get handles that are not
 * its own. */
#include "support/opencl_layer.h"
#include "support/strict/layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const struct _cl_icd_dispatch *const strict_driver = &driver;
const struct _cl_icd_dispatch *const strict_calls = &layer;
pthread_mutex_t strict_lock = PTHREAD_MUTEX_INITIALIZER;

_Noreturn void strict_die(const char *what) {
    (void)fprintf(stderr, "the strict layer: %s\n", what);
    abort();
}

void *strict_alloc(size_t count, size_t bytes) {
    void *block = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!block) strict_die("no memory");
    return block;
}

cl_ulong strict_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (cl_ulong)now.tv_sec * 1000000000u + (cl_ulong)now.tv_nsec;
}

void strict_sleep_ns(cl_ulong ns) {
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&time, &time) != 0) continue;
}

cl_int strict_put(const void *value, size_t bytes, size_t room, void *out, size_t *needed) {
    if (out && room < bytes) return CL_INVALID_VALUE;
    if (out) memcpy(out, value, bytes);
    if (needed) *needed = bytes;
    return CL_SUCCESS;
}

static void unknown_call(void) {
    strict_die("a call that it does not have (of images, rectangles, or after OpenCL 1.2)");
}

/* Calls that take none of the layer's own objects. */
static void pass_on(void) {
    layer.clRetainContext = driver.clRetainContext;
    layer.clReleaseContext = driver.clReleaseContext;
    layer.clGetContextInfo = driver.clGetContextInfo;
    layer.clRetainProgram = driver.clRetainProgram;
    layer.clReleaseProgram = driver.clReleaseProgram;
    layer.clGetProgramInfo = driver.clGetProgramInfo;
    layer.clGetProgramBuildInfo = driver.clGetProgramBuildInfo;
    layer.clCreateProgramWithBinary = driver.clCreateProgramWithBinary;
    layer.clRetainDevice = driver.clRetainDevice;
    layer.clReleaseDevice = driver.clReleaseDevice;
    layer.clUnloadCompiler = driver.clUnloadCompiler;
    layer.clGetExtensionFunctionAddress = driver.clGetExtensionFunctionAddress;
}

static void override_calls(void) {
    void (*unknown)(void) = unknown_call;
    for (size_t i = 0; i < sizeof layer / sizeof unknown; i++)
        memcpy((char *)&layer + i * sizeof unknown, &unknown, sizeof unknown);
    pass_on();
    strict_config_start();
    strict_counters_start();
    strict_facts_install(&layer);
    strict_contexts_install(&layer);
    strict_events_install(&layer);
    strict_queues_install(&layer);
    strict_commands_install(&layer);
    strict_memory_install(&layer);
    strict_kernels_install(&layer);
    strict_programs_install(&layer);
}
