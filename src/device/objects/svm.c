/* The two calls beyond OpenCL 1.2. The loader always exports them, but the driver behind it may not have them. So they
 * are called only if clq_svm_probe returned true. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include "device/internal.h"

#include <stdio.h>

static bool at_least_two(const char *version) {
    int major = 0;
    return sscanf(version, "OpenCL %d.", &major) == 1 && major >= 2;
}

bool clq_svm_probe(cl_platform_id platform, cl_device_id id) {
    char version[CLQ_NAME_MAX];
    clq_cl_platform_text(platform, CL_PLATFORM_VERSION, version, sizeof version);
    if (!at_least_two(version)) return false;
    clq_cl_device_text(id, CL_DEVICE_VERSION, version, sizeof version);
    if (!at_least_two(version)) return false;
    cl_device_svm_capabilities can = 0;
    if (!clq_cl_device_value(id, CL_DEVICE_SVM_CAPABILITIES, &can, sizeof can)) return false;
    return (can & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
}

void *clq_svm_alloc(cl_context context, size_t bytes) {
    return clSVMAlloc(context, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER, bytes, CLQ_BUFFER_ALIGN);
}

void clq_svm_free(cl_context context, void *block) { clSVMFree(context, block); }
