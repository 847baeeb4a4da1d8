/* Views: ranges of a buffer as buffers of their own.
 *
 * The driver's sub-buffers stay as long as the buffer, and the newest one is released first. The order matters: if two
 * sub-buffers overlap and kernels have used both, NVIDIA's driver (580) ends the process when the older one is released
 * first. The lists that views are made for end in any order, so a view does not release its sub-buffer. Views of one
 * range share a sub-buffer, so a buffer has no more of them than there are ranges. */
#include "device/internal.h"

struct clq_view {
    clq_view *older;
    cl_mem handle;
    size_t offset, bytes;
};

/* The sub-buffer of the range, made if there is none. Hold device->lock. */
static clq_status view_of(clq_buffer *parent, size_t offset, size_t bytes, cl_mem *out) {
    for (clq_view *at = parent->views; at; at = at->older)
        if (at->offset == offset && at->bytes == bytes) {
            *out = at->handle;
            return CLQ_OK;
        }
    cl_int error;
    const cl_buffer_region region = {offset, bytes};
    clq_view *view = clq_alloc(1, sizeof *view);
    if (!view) return CLQ_ERROR_MEMORY;
    cl_mem handle = clCreateSubBuffer(parent->handle, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    if (!handle) {
        clq_free(view);
        return clq_cl_fail(parent->device, error, "making a view of %zu bytes at %zu", bytes, offset);
    }
    *view = (clq_view){parent->views, handle, offset, bytes};
    parent->views = view;
    *out = handle;
    return CLQ_OK;
}

clq_status clq_buffer_view(clq_buffer *parent, size_t offset, size_t bytes, clq_buffer **out) {
    clq_device *device = parent->device;
    CLQ_TRY(clq_device_alive(device));
    if (bytes == 0 || offset > parent->bytes || bytes > parent->bytes - offset || offset % device->view_align != 0)
        return clq_fail(CLQ_ERROR_INTERNAL,
                        "%s: a view of %zu bytes at %zu of a buffer of %zu; offsets are multiples of %zu",
                        device->label, bytes, offset, parent->bytes, device->view_align);
    clq_buffer *view = clq_alloc(1, sizeof *view);
    if (!view) return CLQ_ERROR_MEMORY;
    *view = (clq_buffer){.device = device,
                         .bytes = bytes,
                         .root = parent->root,
                         .begin = parent->begin + offset,
                         .host_may_not = parent->host_may_not,
                         .host = parent->host ? parent->host + offset : NULL,
                         .is_view = true};
    pthread_mutex_lock(&device->lock);
    clq_status status = view_of(parent, offset, bytes, &view->handle);
    pthread_mutex_unlock(&device->lock);
    if (status == CLQ_OK)
        *out = view;
    else
        clq_free(view);
    return status;
}

void clq_views_release(clq_view *newest) {
    for (clq_view *at = newest; at; at = at->older) (void)clReleaseMemObject(at->handle);
}

void clq_views_free(clq_view *newest) {
    while (newest) {
        clq_view *older = newest->older;
        clq_free(newest);
        newest = older;
    }
}
