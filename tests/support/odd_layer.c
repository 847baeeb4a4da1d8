/* An OpenCL layer (OPENCL_LAYERS names the library) that imitates drivers with odd answers. CLQ_TEST_ODD_NAME: the
 * text, any bytes, that every device tells as its name and as its driver's version. CLQ_TEST_WRONG_READ: a size in
 * bytes; blocking reads of that size give a wrong first byte. */
#include "support/opencl_layer.h"

#include <stdlib.h>
#include <string.h>

static cl_int CL_API_CALL odd_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                              size_t *needed) {
    const char *name = getenv("CLQ_TEST_ODD_NAME");
    if (!name || (what != CL_DEVICE_NAME && what != CL_DRIVER_VERSION))
        return driver.clGetDeviceInfo(device, what, bytes, out, needed);
    if (needed) *needed = strlen(name) + 1;
    if (out && bytes < strlen(name) + 1) return CL_INVALID_VALUE;
    if (out) memcpy(out, name, strlen(name) + 1);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL odd_clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking,
                                                  size_t offset, size_t bytes, void *to, cl_uint waits,
                                                  const cl_event *wait_for, cl_event *event) {
    const char *wrong = getenv("CLQ_TEST_WRONG_READ");
    cl_int error = driver.clEnqueueReadBuffer(queue, memory, blocking, offset, bytes, to, waits, wait_for, event);
    if (error == CL_SUCCESS && blocking && wrong && bytes == strtoul(wrong, NULL, 10)) *(unsigned char *)to ^= 1;
    return error;
}

static void override_calls(void) {
    layer.clGetDeviceInfo = odd_clGetDeviceInfo;
    layer.clEnqueueReadBuffer = odd_clEnqueueReadBuffer;
}
