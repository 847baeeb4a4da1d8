/* An OpenCL layer (OPENCL_LAYERS names the library) that makes devices look as if their memory were their own: those
 * whose names begin with CLQ_TEST_DISCRETE do not share the host's memory and have no shared virtual memory. With
 * CLQ_TEST_GPU they look like GPUs that have, too, the extensions which that names. */
#include "support/opencl_layer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int is_disguised(cl_device_id device) {
    const char *begin = getenv("CLQ_TEST_DISCRETE");
    char name[256] = "";
    if (!begin || driver.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL) != CL_SUCCESS) return 0;
    return strncmp(name, begin, strlen(begin)) == 0;
}

/* The driver's extensions and, behind them, those of CLQ_TEST_GPU. */
static cl_int tell_extensions(cl_device_id device, const char *more, size_t bytes, char *out, size_t *needed) {
    size_t own = 0, all = strlen(more) + 1;
    cl_int error = driver.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &own);
    if (error != CL_SUCCESS) return error;
    if (needed) *needed = own + all;
    if (!out) return CL_SUCCESS;
    if (bytes < own + all) return CL_INVALID_VALUE;
    error = driver.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, own, out, NULL);
    size_t length = strlen(out);
    out[length] = ' ';
    memcpy(out + length + 1, more, all);
    return error;
}

static cl_int CL_API_CALL disguised_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                                    size_t *needed) {
    const char *gpu = getenv("CLQ_TEST_GPU");
    if (gpu && what == CL_DEVICE_EXTENSIONS && is_disguised(device))
        return tell_extensions(device, gpu, bytes, out, needed);
    cl_int error = driver.clGetDeviceInfo(device, what, bytes, out, needed);
    bool of_memory = what == CL_DEVICE_HOST_UNIFIED_MEMORY || what == CL_DEVICE_SVM_CAPABILITIES;
    if (error != CL_SUCCESS || !out || !is_disguised(device)) return error;
    if (of_memory) memset(out, 0, bytes);
    if (gpu && what == CL_DEVICE_TYPE) *(cl_device_type *)out = CL_DEVICE_TYPE_GPU;
    return error;
}

static void override_calls(void) { layer.clGetDeviceInfo = disguised_clGetDeviceInfo; }
