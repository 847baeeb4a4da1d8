/* An OpenCL layer (OPENCL_LAYERS names the library) that makes devices whose names begin with CLQ_TEST_GPU look like
 * small GPUs, with work-groups of up to 64 items and, besides their own, the extensions of CLQ_TEST_EXTENSIONS. Their
 * compilers leave CLQ_TEST_FLAW, a piece of text, out of every program, where it is set; it is looked up for each
 * program. */
#include "support/opencl_layer.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 8, GROUP_MOST = 64 };

static bool is_disguised(cl_device_id device) {
    const char *begin = getenv("CLQ_TEST_GPU");
    char name[256] = "";
    if (!begin || driver.clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL) != CL_SUCCESS) return false;
    return strncmp(name, begin, strlen(begin)) == 0;
}

/* The driver's extensions and, behind them, others. */
static cl_int tell_extensions(cl_device_id device, const char *more, size_t bytes, char *out, size_t *needed) {
    size_t own = 0, all = strlen(more) + 1;
    cl_int error = driver.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &own);
    if (error != CL_SUCCESS) return error;
    if (needed) *needed = own + all;
    if (!out) return CL_SUCCESS;
    if (bytes < own + all) return CL_INVALID_VALUE;
    error = driver.clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, own, out, NULL);
    if (error != CL_SUCCESS) return error;
    size_t length = strlen(out);
    out[length] = ' ';
    memcpy(out + length + 1, more, all);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL disguised_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out,
                                                    size_t *needed) {
    const char *more = getenv("CLQ_TEST_EXTENSIONS");
    if (what == CL_DEVICE_EXTENSIONS && more && is_disguised(device))
        return tell_extensions(device, more, bytes, out, needed);
    cl_int error = driver.clGetDeviceInfo(device, what, bytes, out, needed);
    if (error != CL_SUCCESS || !out || !is_disguised(device)) return error;
    if (what == CL_DEVICE_TYPE) memcpy(out, &(cl_device_type){CL_DEVICE_TYPE_GPU}, sizeof(cl_device_type));
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE) memcpy(out, &(size_t){GROUP_MOST}, sizeof(size_t));
    return error;
}

/* Blanks stand where the text was. */
static void leave_out(char *program, const char *text) {
    for (char *at; (at = strstr(program, text));) memset(at, ' ', strlen(text));
}

static cl_program CL_API_CALL flawed_clCreateProgramWithSource(cl_context context, cl_uint count, const char **parts,
                                                               const size_t *lengths, cl_int *error) {
    const char *flaw = getenv("CLQ_TEST_FLAW"), *copies[PARTS_MOST] = {0};
    if (!flaw || lengths || count > PARTS_MOST)
        return driver.clCreateProgramWithSource(context, count, parts, lengths, error);
    cl_program program = NULL;
    bool all = true;
    for (cl_uint i = 0; i < count; i++) {
        char *copy = strdup(parts[i]);
        if (copy) leave_out(copy, flaw);
        all = all && copy;
        copies[i] = copy;
    }
    if (all)
        program = driver.clCreateProgramWithSource(context, count, copies, NULL, error);
    else if (error)
        *error = CL_OUT_OF_HOST_MEMORY;
    for (cl_uint i = 0; i < count; i++) free((void *)copies[i]);
    return program;
}

static void override_calls(void) {
    layer.clGetDeviceInfo = disguised_clGetDeviceInfo;
    layer.clCreateProgramWithSource = flawed_clCreateProgramWithSource;
}
