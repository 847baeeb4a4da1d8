/* Does what oclgrind must find, so that a run without findings means something: two work-items write one place, one
 * reads behind a buffer, and a call gets a size that the buffer does not have. */
#include <stdio.h>

#include <CL/cl.h>

static const char source[] =
    "kernel void race(global int *to) { to[0] = (int)get_global_id(0); }\n"
    "kernel void beyond(global int *to) { to[get_global_id(0)] = to[get_global_id(0) + 16]; }\n";

enum { ITEMS = 16 };

static cl_int run(cl_context context, cl_device_id device, cl_program program, const char *name) {
    cl_int error;
    size_t items = ITEMS;
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    if (error != CL_SUCCESS) return error;
    int zeros[ITEMS] = {0};
    cl_mem memory = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros, &error);
    if (error != CL_SUCCESS) return error;
    cl_kernel kernel = clCreateKernel(program, name, &error);
    if (error != CL_SUCCESS) return error;
    error = clSetKernelArg(kernel, 0, sizeof memory, &memory);
    if (error == CL_SUCCESS) error = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
    if (error == CL_SUCCESS) error = clFinish(queue);
    if (clEnqueueReadBuffer(queue, memory, CL_TRUE, 1, sizeof zeros, zeros, 0, NULL, NULL) == CL_SUCCESS)
        return CL_INVALID_VALUE;
    clReleaseKernel(kernel);
    clReleaseMemObject(memory);
    clReleaseCommandQueue(queue);
    return error;
}

int main(void) {
    cl_platform_id platform;
    cl_device_id device;
    cl_int error = clGetPlatformIDs(1, &platform, NULL);
    if (error == CL_SUCCESS) error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (error != CL_SUCCESS) {
        fprintf(stderr, "no simulated device: %d\n", error);
        return 1;
    }
    const char *text = source;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    if (error == CL_SUCCESS) error = clBuildProgram(program, 1, &device, "", NULL, NULL);
    if (error == CL_SUCCESS) error = run(context, device, program, "race");
    if (error == CL_SUCCESS) error = run(context, device, program, "beyond");
    clReleaseProgram(program);
    clReleaseContext(context);
    if (error != CL_SUCCESS) fprintf(stderr, "OpenCL error %d\n", error);
    return error != CL_SUCCESS;
}
