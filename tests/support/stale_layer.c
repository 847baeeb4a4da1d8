/* An OpenCL layer (OPENCL_LAYERS names the library) of devices whose caches are not coherent with the host's: a buffer
 * over the host's memory is a copy of that memory. CLQ_TEST_STALE says what is copied when. "in": before a kernel, what
 * the host changed is copied into each buffer. "out": after a kernel, all of each buffer is copied to the host's
 * memory. "never": nothing is copied. Without the variable, the driver is as it is. Mapping, reading and writing work
 * on the copy. */
#include "support/opencl_layer.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS_MOST = 4096 };
typedef struct copied {
    cl_mem handle;
    cl_context context;
    unsigned char *host, *before; /* what the host's memory held when it was copied last */
    size_t bytes;
} copied;
static copied buffers[BUFFERS_MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool does(const char *what) {
    const char *set = getenv("CLQ_TEST_STALE");
    return set && strcmp(set, what) == 0;
}

static cl_mem CL_API_CALL copied_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host,
                                                cl_int *error) {
    if (!(flags & CL_MEM_USE_HOST_PTR) || !getenv("CLQ_TEST_STALE"))
        return driver.clCreateBuffer(context, flags, bytes, host, error);
    flags = (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
    cl_mem handle = driver.clCreateBuffer(context, flags, bytes, host, error);
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; handle && i < BUFFERS_MOST; i++)
        if (!buffers[i].handle) {
            buffers[i] = (copied){handle, context, host, malloc(bytes), bytes};
            if (buffers[i].before) memcpy(buffers[i].before, host, bytes);
            break;
        }
    (void)pthread_mutex_unlock(&lock);
    return handle;
}

/* The library holds one reference to each buffer, so a release is the last one. */
static cl_int CL_API_CALL copied_clReleaseMemObject(cl_mem handle) {
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < BUFFERS_MOST; i++)
        if (buffers[i].handle == handle) {
            free(buffers[i].before);
            buffers[i].handle = NULL;
        }
    (void)pthread_mutex_unlock(&lock);
    return driver.clReleaseMemObject(handle);
}

static void copy_changes(cl_command_queue queue, copied *b) {
    for (size_t at = 0; b->before && at < b->bytes; at++) {
        size_t end = at;
        while (end < b->bytes && b->host[end] != b->before[end]) end++;
        if (end == at) continue;
        (void)driver.clEnqueueWriteBuffer(queue, b->handle, CL_TRUE, at, end - at, b->host + at, 0, NULL, NULL);
        memcpy(b->before + at, b->host + at, end - at);
        at = end;
    }
}

static void copy_all(cl_command_queue queue, bool in) {
    cl_context context = NULL;
    (void)driver.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < BUFFERS_MOST; i++) {
        copied *b = &buffers[i];
        if (!b->handle || b->context != context) continue;
        if (in)
            copy_changes(queue, b);
        else
            (void)driver.clEnqueueReadBuffer(queue, b->handle, CL_TRUE, 0, b->bytes, b->host, 0, NULL, NULL);
    }
    (void)pthread_mutex_unlock(&lock);
}

static cl_int CL_API_CALL copied_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                                        const size_t *offset, const size_t *global, const size_t *local,
                                                        cl_uint count, const cl_event *wait, cl_event *event) {
    if (does("in")) copy_all(queue, true);
    cl_int error = driver.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, count, wait, event);
    if (error == CL_SUCCESS && does("out")) copy_all(queue, false);
    return error;
}

static void override_calls(void) {
    layer.clCreateBuffer = copied_clCreateBuffer;
    layer.clReleaseMemObject = copied_clReleaseMemObject;
    layer.clEnqueueNDRangeKernel = copied_clEnqueueNDRangeKernel;
}
