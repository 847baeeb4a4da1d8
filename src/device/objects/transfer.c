#include "device/internal.h"

#include <string.h>

static clq_status check_range(const clq_queue *queue, const clq_buffer *buffer, size_t offset, size_t bytes,
                              const char *what) {
    CLQ_TRY(clq_device_alive(queue->device));
    if (offset <= buffer->bytes && bytes <= buffer->bytes - offset) return CLQ_OK;
    return clq_fail(CLQ_ERROR_INTERNAL, "%s: %s %zu bytes at %zu of a buffer of %zu", queue->device->label, what, bytes,
                    offset, buffer->bytes);
}

/* A blocking call may also report the failure of a command before it. */
static clq_status ended(clq_queue *queue, cl_int error, bool blocking, const char *what, size_t bytes) {
    if (error == CL_SUCCESS) return CLQ_OK;
    if (blocking) return clq_cl_fail_running(queue->device, error, "%s %zu bytes", what, bytes);
    return clq_cl_fail(queue->device, error, "%s %zu bytes", what, bytes);
}

static clq_status write_to(clq_queue *queue, clq_buffer *to, size_t offset, const void *from, size_t bytes,
                           bool blocking, const clq_order *order) {
    CLQ_TRY(check_range(queue, to, offset, bytes, "writing"));
    if (bytes == 0) return blocking ? clq_queue_finish(queue) : CLQ_OK;
    clq_enqueue enqueue;
    clq_enqueue_begin(queue, order, clq_queue_traces_named(queue), &enqueue);
    cl_int error = clEnqueueWriteBuffer(queue->handle, to->handle, blocking ? CL_TRUE : CL_FALSE, offset, bytes, from,
                                        enqueue.wait_count, enqueue.waits, enqueue.wanted);
    CLQ_TRY(ended(queue, error, blocking, "writing", bytes));
    CLQ_TRY(clq_enqueue_end(&enqueue, NULL));
    /* By the standard, a blocking write returns once the host's memory may be used again. Intel's CPU runtime copies
     * that memory first, and may do the write itself later: until then another queue would not find what was written.
     * So the queue is finished. */
    return blocking ? clq_queue_finish(queue) : CLQ_OK;
}

clq_status clq_queue_write(clq_queue *queue, clq_buffer *to, size_t offset, const void *from, size_t bytes,
                           bool blocking) {
    return write_to(queue, to, offset, from, bytes, blocking, NULL);
}

clq_status clq_queue_write_after(clq_queue *queue, clq_buffer *to, size_t offset, const void *from, size_t bytes,
                                 const clq_order *order) {
    return write_to(queue, to, offset, from, bytes, false, order);
}

clq_status clq_queue_read_after(clq_queue *queue, const clq_buffer *from, size_t offset, void *to, size_t bytes,
                                const clq_order *order) {
    CLQ_TRY(check_range(queue, from, offset, bytes, "reading"));
    if (bytes == 0) return CLQ_OK;
    clq_enqueue enqueue;
    clq_enqueue_begin(queue, order, clq_queue_traces_named(queue), &enqueue);
    cl_int error = clEnqueueReadBuffer(queue->handle, from->handle, CL_FALSE, offset, bytes, to, enqueue.wait_count,
                                       enqueue.waits, enqueue.wanted);
    CLQ_TRY(ended(queue, error, false, "reading", bytes));
    return clq_enqueue_end(&enqueue, NULL);
}

clq_status clq_queue_read(clq_queue *queue, const clq_buffer *from, size_t offset, void *to, size_t bytes,
                          bool blocking) {
    if (!blocking) return clq_queue_read_after(queue, from, offset, to, bytes, NULL);
    CLQ_TRY(check_range(queue, from, offset, bytes, "reading"));
    if (bytes == 0) return clq_queue_finish(queue);
    /* After a command failed, a read may return success and old data. Its event tells of the failure. */
    cl_event event = NULL;
    cl_int error = clEnqueueReadBuffer(queue->handle, from->handle, CL_TRUE, offset, bytes, to, 0, NULL, &event);
    if (error != CL_SUCCESS) return ended(queue, error, true, "reading", bytes);
    clq_status status = clq_event_check(queue->device, event, "a read, or a command before it");
    if (!clq_device_lost(queue->device)) (void)clReleaseEvent(event);
    if (status == CLQ_OK) clq_programs_ran(queue->device);
    return status;
}

clq_status clq_queue_copy_after(clq_queue *queue, const clq_buffer *from, size_t from_offset, clq_buffer *to,
                                size_t to_offset, size_t bytes, const clq_order *order) {
    CLQ_TRY(check_range(queue, from, from_offset, bytes, "copying from"));
    CLQ_TRY(check_range(queue, to, to_offset, bytes, "copying to"));
    if (bytes == 0) return CLQ_OK;
    clq_enqueue enqueue;
    clq_enqueue_begin(queue, order, false, &enqueue);
    cl_int error = clEnqueueCopyBuffer(queue->handle, from->handle, to->handle, from_offset, to_offset, bytes,
                                       enqueue.wait_count, enqueue.waits, enqueue.wanted);
    CLQ_TRY(ended(queue, error, false, "copying", bytes));
    return clq_enqueue_end(&enqueue, NULL);
}

clq_status clq_queue_copy(clq_queue *queue, const clq_buffer *from, size_t from_offset, clq_buffer *to,
                          size_t to_offset, size_t bytes) {
    return clq_queue_copy_after(queue, from, from_offset, to, to_offset, bytes, NULL);
}

clq_status clq_queue_fill_zero(clq_queue *queue, clq_buffer *to, size_t offset, size_t bytes) {
    CLQ_TRY(check_range(queue, to, offset, bytes, "clearing"));
    if (bytes == 0) return CLQ_OK;
    static const cl_uchar zeros[16] = {0};
    size_t pattern = sizeof zeros; /* the longest that divides offset and size: drivers write pattern by pattern */
    while (offset % pattern != 0 || bytes % pattern != 0) pattern /= 2;
    clq_enqueue enqueue;
    clq_enqueue_begin(queue, NULL, clq_queue_traces_named(queue), &enqueue);
    cl_int error =
        clEnqueueFillBuffer(queue->handle, to->handle, zeros, pattern, offset, bytes, 0, NULL, enqueue.wanted);
    CLQ_TRY(ended(queue, error, false, "clearing", bytes));
    return clq_enqueue_end(&enqueue, NULL);
}

static clq_status map(clq_queue *queue, clq_buffer *buffer, size_t offset, size_t bytes, cl_map_flags flags,
                      void **out) {
    CLQ_TRY(check_range(queue, buffer, offset, bytes, "mapping"));
    if (bytes == 0) return clq_fail(CLQ_ERROR_INTERNAL, "%s: mapping 0 bytes", queue->device->label);
    cl_int error;
    void *pointer =
        clEnqueueMapBuffer(queue->handle, buffer->handle, CL_TRUE, flags, offset, bytes, 0, NULL, NULL, &error);
    if (!pointer) return ended(queue, error, true, "mapping", bytes);
    *out = pointer;
    return CLQ_OK;
}

clq_status clq_queue_map(clq_queue *queue, clq_buffer *buffer, size_t offset, size_t bytes, bool write, void **out) {
    return map(queue, buffer, offset, bytes, write ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ, out);
}

clq_status clq_queue_map_new(clq_queue *queue, clq_buffer *buffer, size_t offset, size_t bytes, void **out) {
    return map(queue, buffer, offset, bytes, CL_MAP_WRITE_INVALIDATE_REGION, out);
}

clq_status clq_queue_unmap(clq_queue *queue, clq_buffer *buffer, void *pointer) {
    CLQ_TRY(clq_device_alive(queue->device));
    cl_int error = clEnqueueUnmapMemObject(queue->handle, buffer->handle, pointer, 0, NULL, NULL);
    return ended(queue, error, false, "unmapping", buffer->bytes);
}

clq_status clq_buffer_set(clq_device *device, clq_buffer *buffer, const void *from, size_t bytes) {
    void *host = clq_buffer_host(buffer);
    if (host) {
        memcpy(host, from, bytes);
        return CLQ_OK;
    }
    clq_queue *queue;
    CLQ_TRY(clq_queue_create(device, 0, &queue));
    clq_status status = clq_queue_write(queue, buffer, 0, from, bytes, true);
    clq_queue_destroy(queue);
    return status;
}
