#include "device/internal.h"

#include <stdio.h>

clq_status clq_kernel_create(clq_device *device, const char *file, const char *options, const char *function,
                             clq_kernel **out) {
    const clq_program_wish all = {.file = file, .options = options, .kernels = ""};
    return clq_kernel_create_among(device, &all, function, out);
}

clq_status clq_kernel_create_among(clq_device *device, const clq_program_wish *wish, const char *function,
                                   clq_kernel **out) {
    clq_program *program;
    CLQ_TRY(clq_program_get(device, wish, &program));
    clq_kernel *kernel = clq_alloc(1, sizeof *kernel);
    if (!kernel) return CLQ_ERROR_MEMORY;
    cl_int error;
    kernel->device = device;
    kernel->program = program;
    kernel->handle = clCreateKernel(program->program, function, &error);
    if (!kernel->handle) {
        clq_free(kernel);
        if (error == CL_INVALID_KERNEL_NAME)
            return clq_fail(CLQ_ERROR_BUILD, "%s.cl has no kernel %s on %s with the options '%s'", wish->file, function,
                            device->label, wish->options);
        return clq_cl_fail(device, error, "making the kernel %s of %s.cl", function, wish->file);
    }
    (void)snprintf(kernel->name, sizeof kernel->name, "%s", function);
    atomic_fetch_add(&program->objects, 1);
    clq_program_claim_again(device, program);
    *out = kernel;
    return CLQ_OK;
}

void clq_kernel_destroy(clq_kernel *kernel) {
    if (!kernel) return;
    if (!clq_device_lost(kernel->device)) (void)clReleaseKernel(kernel->handle);
    clq_free(kernel);
}

bool clq_kernel_is_new(const clq_kernel *kernel) {
    return kernel->program->from_source && clq_device_has_quirk(kernel->device, CLQ_QUIRK_COMPILES_AT_LAUNCH);
}

clq_status clq_kernel_set_bytes(clq_kernel *kernel, uint32_t index, const void *value, size_t bytes) {
    CLQ_TRY(clq_device_alive(kernel->device));
    cl_int error = clSetKernelArg(kernel->handle, index, bytes, value);
    return error == CL_SUCCESS ? CLQ_OK
                               : clq_cl_fail(kernel->device, error, "argument %u of %s", (unsigned)index, kernel->name);
}

clq_status clq_kernel_set_buffer(clq_kernel *kernel, uint32_t index, const clq_buffer *buffer) {
    cl_mem handle = buffer ? buffer->handle : NULL;
    return clq_kernel_set_bytes(kernel, index, &handle, sizeof handle);
}

clq_status clq_kernel_set_local(clq_kernel *kernel, uint32_t index, size_t bytes) {
    return clq_kernel_set_bytes(kernel, index, NULL, bytes);
}

clq_status clq_kernel_max_group(const clq_kernel *kernel, size_t *out) {
    CLQ_TRY(clq_device_alive(kernel->device));
    size_t most = 0;
    cl_int error = clGetKernelWorkGroupInfo(kernel->handle, kernel->device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof most,
                                            &most, NULL);
    if (error != CL_SUCCESS)
        return clq_cl_fail(kernel->device, error, "asking for the largest work-group of %s", kernel->name);
    *out = most;
    return CLQ_OK;
}

clq_status clq_queue_launch_after(clq_queue *queue, clq_kernel *kernel, uint32_t dims, const size_t *global,
                                  const size_t *local, const clq_order *order) {
    clq_device *device = queue->device;
    CLQ_TRY(clq_device_alive(device));
    for (uint32_t i = 0; i < dims; i++)
        if (global[i] == 0) return CLQ_OK;
    if (!kernel->launched) CLQ_TRY(clq_program_begin(device, kernel->program));
    clq_enqueue enqueue;
    clq_enqueue_begin(queue, order, clq_queue_traces(queue), &enqueue);
    if (clq_launch_compiles(queue, kernel)) {
        CLQ_TRY(clq_launch_compiling(queue, kernel, dims, global, local, enqueue.wanted));
    } else {
        cl_int error = clEnqueueNDRangeKernel(queue->handle, kernel->handle, dims, NULL, global, local,
                                              enqueue.wait_count, enqueue.waits, enqueue.wanted);
        if (error != CL_SUCCESS) return clq_cl_fail(device, error, "launching %s", kernel->name);
    }
    if (!kernel->launched) {
        kernel->launched = true;
        atomic_fetch_add(&kernel->program->launched, 1);
        atomic_store(&device->ran_new, true);
    }
    return clq_enqueue_end(&enqueue, kernel->name);
}

clq_status clq_queue_launch(clq_queue *queue, clq_kernel *kernel, uint32_t dims, const size_t *global,
                            const size_t *local) {
    return clq_queue_launch_after(queue, kernel, dims, global, local, NULL);
}
