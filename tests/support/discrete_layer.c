/* An OpenCL layer (OPENCL_LAYERS names the library) that makes devices look as if they had memory of their own. Devices
 * whose names begin with CLQ_TEST_DISCRETE (pocl_names.h) do not share the host's memory and have no shared virtual
 * memory. */
#include "support/opencl_layer.h"
#include "support/pocl_names.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static int is_disguised(cl_device_id device) {
    const char *begin = getenv("CLQ_TEST_DISCRETE");
    char name[256] = "";
    if (!begin || driver.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL) != CL_SUCCESS) return 0;
    return pocl_name_is(name, begin);
}

static cl_int CL_API_CALL disguised_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                                    size_t *needed) {
    cl_int error = driver.clGetDeviceInfo(device, what, bytes, out, needed);
    bool of_memory = what == CL_DEVICE_HOST_UNIFIED_MEMORY || what == CL_DEVICE_SVM_CAPABILITIES;
    if (error == CL_SUCCESS && out && of_memory && is_disguised(device)) memset(out, 0, bytes);
    return error;
}

static void override_calls(void) { layer.clGetDeviceInfo = disguised_clGetDeviceInfo; }
