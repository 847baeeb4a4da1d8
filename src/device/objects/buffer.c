#include "device/internal.h"

#include <string.h>

/* ---- the budget ---- */

static clq_status no_room(const clq_device *device, const char *what, size_t bytes, const char *why) {
    uint64_t used = atomic_load(&device->memory_used);
    uint64_t left = device->memory_budget > used ? device->memory_budget - used : 0;
    uint64_t fits = CLQ_MIN(left, device->info.max_alloc_bytes);
    clq_bytes_text needs, room;
    clq_bytes_apart(bytes, fits, &needs, &room);
    return clq_fail(CLQ_ERROR_DEVICE_MEMORY, "%s: %s needs %s: %s; %s would fit (%s of %s in use, at most %s a block)",
                    device->label, what, needs.text, why, room.text, clq_bytes(used).text,
                    clq_bytes(device->memory_budget).text, clq_bytes(device->info.max_alloc_bytes).text);
}

static clq_status reserve(clq_device *device, const char *what, size_t bytes) {
    if (bytes > device->info.max_alloc_bytes)
        return no_room(device, what, bytes, "more than the device gives in one block");
    uint64_t used = atomic_load(&device->memory_used);
    do {
        if (used > device->memory_budget || bytes > device->memory_budget - used)
            return no_room(device, what, bytes, "more than what is left of the budget");
    } while (!atomic_compare_exchange_weak(&device->memory_used, &used, used + bytes));
    return CLQ_OK;
}

/* ---- two ways to get memory ---- */

static clq_status created(clq_buffer *buffer, const char *what, cl_int error) {
    if (error == CL_SUCCESS) return CLQ_OK;
    if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES || error == CL_INVALID_BUFFER_SIZE)
        return no_room(buffer->device, what, buffer->bytes, clq_cl_error_name(error));
    return clq_cl_fail(buffer->device, error, "making the buffer of %s", what);
}

/* Shared memory is freed with the memory object over it, which may outlive clq_buffer_destroy while commands under way
 * hold it. */
typedef struct shared_block {
    cl_context context; /* retained */
    void *memory;
} shared_block;

static void CL_CALLBACK free_shared(cl_mem handle, void *context) {
    (void)handle;
    shared_block *block = context;
    clq_svm_free(block->context, block->memory);
    (void)clReleaseContext(block->context);
    clq_free(block);
}

/* Allocates memory that host and device share, and a cl_mem over it, so that kernels take it like any other buffer. The
 * buffer must begin where the block does: otherwise Intel's runtime (2026.2) lays views of the buffer as if it did. */
static clq_status create_shared(clq_buffer *buffer, const char *what) {
    cl_context context = buffer->device->context;
    shared_block *block = clq_alloc(1, sizeof *block);
    if (!block) return CLQ_ERROR_MEMORY;
    *block = (shared_block){context, clq_svm_alloc(context, buffer->bytes)};
    if (!block->memory) {
        clq_free(block);
        return no_room(buffer->device, what, buffer->bytes, "the driver has no shared memory left");
    }
    (void)clRetainContext(context);
    memset(block->memory, 0, buffer->bytes);
    const cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
    cl_int error;
    cl_mem handle = clCreateBuffer(context, flags, buffer->bytes, block->memory, &error);
    if (handle) error = clSetMemObjectDestructorCallback(handle, free_shared, block);
    if (error != CL_SUCCESS) {
        if (handle) (void)clReleaseMemObject(handle);
        free_shared(NULL, block);
        return handle ? clq_cl_fail(buffer->device, error, "making the buffer of %s", what)
                      : created(buffer, what, error);
    }
    buffer->handle = handle;
    buffer->host = block->memory;
    return CLQ_OK;
}

/* A queue of the device for this file's own use; hold device->lock while using it. */
static clq_status service_queue(clq_device *device, cl_command_queue *out) {
    CLQ_TRY(clq_device_alive(device)); /* the device may have been lost while this thread waited for the lock */
    cl_int error = CL_SUCCESS;
    if (!device->service) device->service = clCreateCommandQueue(device->context, device->id, 0, &error);
    if (!device->service) return clq_cl_fail(device, error, "making a queue");
    *out = device->service;
    return CLQ_OK;
}

/* Allocates memory of the driver's choice, and maps it if it is pinned. */
static clq_status create_plain(clq_buffer *buffer, bool pinned, const char *what) {
    clq_device *device = buffer->device;
    const cl_mem_flags flags = pinned ? CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR : CL_MEM_READ_WRITE;
    const cl_uchar zero = 0;
    cl_int error;
    buffer->handle = clCreateBuffer(device->context, flags, buffer->bytes, NULL, &error);
    CLQ_TRY(created(buffer, what, error));
    cl_command_queue queue;
    pthread_mutex_lock(&device->lock);
    clq_status status = service_queue(device, &queue);
    if (status == CLQ_OK) {
        if (pinned)
            buffer->host = clEnqueueMapBuffer(queue, buffer->handle, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                              buffer->bytes, 0, NULL, NULL, &error);
        else
            error = clEnqueueFillBuffer(queue, buffer->handle, &zero, 1, 0, buffer->bytes, 0, NULL, NULL);
        if (error == CL_SUCCESS && !pinned) error = clFinish(queue);
        status = created(buffer, what, error);
    }
    pthread_mutex_unlock(&device->lock);
    CLQ_TRY(status);
    buffer->mapped = pinned;
    if (pinned) memset(buffer->host, 0, buffer->bytes);
    return CLQ_OK;
}

clq_status clq_buffer_create(clq_device *device, clq_memory_kind kind, size_t bytes, const char *what,
                             clq_buffer **out) {
    CLQ_TRY(clq_device_alive(device));
    if (bytes == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "%s: a buffer for %s of 0 bytes", device->label, what);
    clq_buffer *buffer = clq_alloc(1, sizeof *buffer);
    if (!buffer) return CLQ_ERROR_MEMORY;
    buffer->device = device;
    buffer->bytes = bytes;
    clq_status status;
    /* The device's budget does not count staging memory of a device that has memory of its own: it lies in the host's
     * memory. */
    if (kind == CLQ_MEMORY_DEVICE || device->info.host_unified) {
        CLQ_TRY_OR(fail, status, reserve(device, what, bytes));
        buffer->counted = bytes;
    }
    CLQ_TRY_OR(fail, status,
               device->info.fine_grain_svm ? create_shared(buffer, what)
                                           : create_plain(buffer, kind == CLQ_MEMORY_PINNED, what));
    buffer->root = buffer->handle;
    *out = buffer;
    return CLQ_OK;
fail:
    clq_buffer_destroy(buffer);
    return status;
}

/* Makes a buffer of a memory object and takes the object over: if this fails, the object is released. */
static clq_status buffer_over(clq_device *device, cl_mem handle, size_t bytes, clq_buffer **out) {
    clq_buffer *buffer = clq_alloc(1, sizeof *buffer);
    if (!buffer) {
        (void)clReleaseMemObject(handle);
        return CLQ_ERROR_MEMORY;
    }
    *buffer = (clq_buffer){.device = device, .handle = handle, .bytes = bytes, .root = handle};
    *out = buffer;
    return CLQ_OK;
}

clq_status clq_buffer_wrap(clq_device *device, cl_mem memory, clq_buffer **out) {
    CLQ_TRY(clq_device_alive(device));
    cl_context context = NULL;
    size_t bytes = 0, begin = 0;
    cl_mem root = NULL;
    cl_mem_flags flags = 0;
    cl_mem_object_type type = 0;
    cl_int error = CL_INVALID_MEM_OBJECT;
    if (memory) error = clGetMemObjectInfo(memory, CL_MEM_TYPE, sizeof type, &type, NULL);
    if (error == CL_SUCCESS) error = clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof context, &context, NULL);
    if (error == CL_SUCCESS) error = clGetMemObjectInfo(memory, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (error == CL_SUCCESS) error = clGetMemObjectInfo(memory, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
    if (error == CL_SUCCESS)
        error = clGetMemObjectInfo(memory, CL_MEM_ASSOCIATED_MEMOBJECT, sizeof(cl_mem), (void *)&root, NULL);
    if (error == CL_SUCCESS && root) error = clGetMemObjectInfo(memory, CL_MEM_OFFSET, sizeof begin, &begin, NULL);
    if (error == CL_INVALID_MEM_OBJECT || (error == CL_SUCCESS && type != CL_MEM_OBJECT_BUFFER))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: invalid cl_mem, or not a buffer", device->label);
    if (error != CL_SUCCESS) return clq_cl_fail(device, error, "asking what a buffer is");
    if (context != device->context)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: the cl_mem belongs to another context", device->label);
    (void)clRetainMemObject(memory);
    clq_buffer *buffer;
    CLQ_TRY(buffer_over(device, memory, bytes, &buffer));
    if (root) buffer->root = root;
    buffer->begin = begin;
    buffer->host_may_not = (flags & (CL_MEM_HOST_NO_ACCESS | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_WRITE_ONLY)) != 0;
    *out = buffer;
    return CLQ_OK;
}

clq_status clq_buffer_alias(clq_device *device, clq_buffer *of, clq_buffer **out) {
    CLQ_TRY(clq_device_alive(device));
    if (!of->host || !device->info.host_unified)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s cannot be given memory of %s", device->label, of->device->label);
    cl_int error;
    cl_mem handle =
        clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, of->bytes, of->host, &error);
    if (!handle) return clq_cl_fail(device, error, "making a buffer over memory of %s", of->device->label);
    CLQ_TRY(buffer_over(device, handle, of->bytes, out));
    (*out)->host = of->host;
    (*out)->of = of;
    return CLQ_OK;
}

static void unmap(clq_buffer *buffer) {
    clq_device *device = buffer->device;
    cl_command_queue queue = NULL;
    pthread_mutex_lock(&device->lock);
    if (service_queue(device, &queue) == CLQ_OK) {
        (void)clEnqueueUnmapMemObject(queue, buffer->handle, buffer->host, 0, NULL, NULL);
        (void)clFinish(queue);
    }
    pthread_mutex_unlock(&device->lock);
}

void clq_buffer_keep(clq_buffer *buffer) { buffer->kept = true; }

void clq_buffer_destroy(clq_buffer *buffer) {
    if (!buffer) return;
    clq_device *device = buffer->device;
    if (buffer->of && clq_device_lost(device)) clq_buffer_keep(buffer->of);
    if (!clq_device_lost(device) && !buffer->kept) {
        if (buffer->mapped) unmap(buffer);
        clq_views_release(buffer->views);
        if (buffer->handle && !buffer->is_view) (void)clReleaseMemObject(buffer->handle);
    }
    clq_views_free(buffer->views);
    if (!buffer->kept) atomic_fetch_sub(&device->memory_used, buffer->counted);
    clq_free(buffer);
}

size_t clq_buffer_bytes(const clq_buffer *buffer) { return buffer->bytes; }

cl_mem clq_buffer_handle(const clq_buffer *buffer) { return buffer->handle; }
bool clq_buffer_host_may_use(const clq_buffer *buffer) { return !buffer->host_may_not; }

bool clq_buffers_overlap(const clq_buffer *a, size_t a_begin, size_t a_bytes, const clq_buffer *b, size_t b_begin,
                         size_t b_bytes) {
    if (a->root != b->root) return false;
    a_begin += a->begin;
    b_begin += b->begin;
    return a_begin < b_begin + b_bytes && b_begin < a_begin + a_bytes;
}

clq_device *clq_buffer_device(const clq_buffer *buffer) { return buffer->device; }

void *clq_buffer_host(const clq_buffer *buffer) { return buffer->host; }
