/* The calls that enqueue transfers, fills and markers. */
#include "support/strict/layer.h"

#include <string.h>

/* ---- execution ---- */

static cl_int finish(const strict_command *command, cl_int error) {
    cl_int ended = strict_driver->clFinish(command->queue->real);
    strict_above(command->queue->device);
    return error != CL_SUCCESS ? error : ended;
}

/* Submits the command: brings its memory objects to the device. On success, the driver is entered (strict_below). */
static cl_int submit(const strict_command *command) {
    cl_int error = command->from ? strict_migrate(command->from, command->queue, false) : CL_SUCCESS;
    if (error == CL_SUCCESS && command->to) error = strict_migrate(command->to, command->queue, true);
    strict_dawdle(command);
    if (error == CL_SUCCESS) strict_below(command->queue->device);
    return error;
}

static cl_int run_read(strict_command *c) {
    cl_int error = submit(c);
    if (error != CL_SUCCESS) return error;
    cl_mem real = strict_memory_copy(c->from, c->queue->device);
    return finish(c, strict_driver->clEnqueueReadBuffer(c->queue->real, real, CL_FALSE, c->from_offset, c->bytes,
                                                        c->target, 0, NULL, NULL));
}

static cl_int run_write(strict_command *c) {
    cl_int error = submit(c);
    if (error != CL_SUCCESS) return error;
    cl_mem real = strict_memory_copy(c->to, c->queue->device);
    return finish(c, strict_driver->clEnqueueWriteBuffer(c->queue->real, real, CL_FALSE, c->to_offset, c->bytes,
                                                         c->source, 0, NULL, NULL));
}

static cl_int run_copy(strict_command *c) {
    cl_int error = submit(c);
    if (error != CL_SUCCESS) return error;
    cl_mem from = strict_memory_copy(c->from, c->queue->device), to = strict_memory_copy(c->to, c->queue->device);
    return finish(c, strict_driver->clEnqueueCopyBuffer(c->queue->real, from, to, c->from_offset, c->to_offset,
                                                        c->bytes, 0, NULL, NULL));
}

static cl_int run_fill(strict_command *c) {
    cl_int error = submit(c);
    if (error != CL_SUCCESS) return error;
    cl_mem real = strict_memory_copy(c->to, c->queue->device);
    return finish(c, strict_driver->clEnqueueFillBuffer(c->queue->real, real, c->pattern, c->pattern_bytes,
                                                        c->to_offset, c->bytes, 0, NULL, NULL));
}

/* ---- calls ---- */

static cl_int check(cl_command_queue queue, cl_mem memory, size_t offset, size_t bytes) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    if (!strict_is_memory(memory)) return CL_INVALID_MEM_OBJECT;
    if (memory->in->handle != queue->context) return CL_INVALID_CONTEXT;
    return bytes == 0 || offset > memory->bytes || bytes > memory->bytes - offset ? CL_INVALID_VALUE : CL_SUCCESS;
}

static void count_transfer(cl_command_queue queue, const void *host, bool blocking, strict_count kind) {
    strict_pinning pinning = strict_pinning_of(host, queue->context);
    if (blocking)
        strict_counted(queue->device, kind);
    else if (pinning == STRICT_IS_PAGEABLE)
        strict_counted(queue->device, STRICT_PAGEABLE);
    else if (pinning == STRICT_IS_PINNED_ELSEWHERE)
        strict_counted(queue->device, STRICT_FOREIGN_PINNED);
}

static cl_int CL_API_CALL enqueue_read(cl_command_queue queue, cl_mem from, cl_bool blocking, size_t offset,
                                       size_t bytes, void *to, cl_uint count, const cl_event *waits, cl_event *event) {
    cl_int error = check(queue, from, offset, bytes);
    if (error != CL_SUCCESS || !to) return error != CL_SUCCESS ? error : CL_INVALID_VALUE;
    count_transfer(queue, to, blocking, STRICT_BLOCKING_READS);
    strict_command *command = strict_command_create(queue, CL_COMMAND_READ_BUFFER, run_read);
    strict_memory_retain(from);
    command->from = from;
    command->from_offset = offset;
    command->bytes = bytes;
    command->target = to;
    return strict_enqueue(command, blocking, count, waits, event);
}

static cl_int CL_API_CALL enqueue_write(cl_command_queue queue, cl_mem to, cl_bool blocking, size_t offset,
                                        size_t bytes, const void *from, cl_uint count, const cl_event *waits,
                                        cl_event *event) {
    cl_int error = check(queue, to, offset, bytes);
    if (error != CL_SUCCESS || !from) return error != CL_SUCCESS ? error : CL_INVALID_VALUE;
    count_transfer(queue, from, blocking, STRICT_BLOCKING_WRITES);
    strict_command *command = strict_command_create(queue, CL_COMMAND_WRITE_BUFFER, run_write);
    strict_memory_retain(to);
    command->to = to;
    command->to_offset = offset;
    command->bytes = bytes;
    command->source = from;
    return strict_enqueue(command, blocking, count, waits, event);
}

static cl_int CL_API_CALL enqueue_copy(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset,
                                       size_t to_offset, size_t bytes, cl_uint count, const cl_event *waits,
                                       cl_event *event) {
    cl_int error = check(queue, from, from_offset, bytes);
    if (error == CL_SUCCESS) error = check(queue, to, to_offset, bytes);
    if (error != CL_SUCCESS) return error;
    strict_command *command = strict_command_create(queue, CL_COMMAND_COPY_BUFFER, run_copy);
    strict_memory_retain(from);
    strict_memory_retain(to);
    command->from = from;
    command->to = to;
    command->from_offset = from_offset;
    command->to_offset = to_offset;
    command->bytes = bytes;
    return strict_enqueue(command, false, count, waits, event);
}

static cl_int CL_API_CALL enqueue_fill(cl_command_queue queue, cl_mem to, const void *pattern, size_t pattern_bytes,
                                       size_t offset, size_t bytes, cl_uint count, const cl_event *waits,
                                       cl_event *event) {
    cl_int error = check(queue, to, offset, bytes);
    if (error != CL_SUCCESS) return error;
    if (!pattern || pattern_bytes == 0 || pattern_bytes > 128 || (pattern_bytes & (pattern_bytes - 1)) != 0 ||
        offset % pattern_bytes != 0 || bytes % pattern_bytes != 0)
        return CL_INVALID_VALUE;
    strict_command *command = strict_command_create(queue, CL_COMMAND_FILL_BUFFER, run_fill);
    strict_memory_retain(to);
    memcpy(command->pattern, pattern, pattern_bytes);
    command->pattern_bytes = pattern_bytes;
    command->to = to;
    command->to_offset = offset;
    command->bytes = bytes;
    return strict_enqueue(command, false, count, waits, event);
}

static cl_int CL_API_CALL enqueue_marker(cl_command_queue queue, cl_uint count, const cl_event *waits,
                                         cl_event *event) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    strict_counted(queue->device, STRICT_MARKERS);
    return strict_enqueue(strict_command_create(queue, CL_COMMAND_MARKER, NULL), false, count, waits, event);
}

static cl_int CL_API_CALL enqueue_barrier(cl_command_queue queue, cl_uint count, const cl_event *waits,
                                          cl_event *event) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    return strict_enqueue(strict_command_create(queue, CL_COMMAND_BARRIER, NULL), false, count, waits, event);
}

void strict_commands_install(struct _cl_icd_dispatch *calls) {
    calls->clEnqueueReadBuffer = enqueue_read;
    calls->clEnqueueWriteBuffer = enqueue_write;
    calls->clEnqueueCopyBuffer = enqueue_copy;
    calls->clEnqueueFillBuffer = enqueue_fill;
    calls->clEnqueueMarkerWithWaitList = enqueue_marker;
    calls->clEnqueueBarrierWithWaitList = enqueue_barrier;
}
