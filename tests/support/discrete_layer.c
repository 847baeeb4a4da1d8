/* An OpenCL layer (OPENCL_LAYERS names the library) that makes devices look as if their memory were their own: those
 * whose names begin with CLQ_TEST_DISCRETE do not share the host's memory and have no shared virtual memory. */
#undef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static struct _cl_icd_dispatch driver, layer;

static int is_disguised(cl_device_id device) {
    const char *begin = getenv("CLQ_TEST_DISCRETE");
    char name[256] = "";
    if (!begin || driver.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL) != CL_SUCCESS) return 0;
    return strncmp(name, begin, strlen(begin)) == 0;
}

static cl_int CL_API_CALL disguised_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                                    size_t *needed) {
    cl_int error = driver.clGetDeviceInfo(device, what, bytes, out, needed);
    bool of_memory = what == CL_DEVICE_HOST_UNIFIED_MEMORY || what == CL_DEVICE_SVM_CAPABILITIES;
    if (error == CL_SUCCESS && out && of_memory && is_disguised(device)) memset(out, 0, bytes);
    return error;
}

EXPORT cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t bytes, void *out, size_t *needed) {
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what != CL_LAYER_API_VERSION || (out && bytes < sizeof version)) return CL_INVALID_VALUE;
    if (out) memcpy(out, &version, sizeof version);
    if (needed) *needed = sizeof version;
    return CL_SUCCESS;
}

EXPORT cl_int CL_API_CALL clInitLayer(cl_uint count, const struct _cl_icd_dispatch *target, cl_uint *count_out,
                                      const struct _cl_icd_dispatch **out) {
    const size_t most = sizeof driver / sizeof(void *);
    if (!target || !count_out || !out) return CL_INVALID_VALUE;
    memcpy(&driver, target, (count < most ? count : most) * sizeof(void *));
    layer = driver;
    layer.clGetDeviceInfo = disguised_clGetDeviceInfo;
    *count_out = (cl_uint)most;
    *out = &layer;
    return CL_SUCCESS;
}
