#include "device/internal.h"

/* ---- queues ---- */

clq_status clq_queue_create(clq_device *device, unsigned flags, clq_queue **out) {
    CLQ_TRY(clq_device_alive(device));
    clq_queue *queue = clq_alloc(1, sizeof *queue);
    if (!queue) return CLQ_ERROR_MEMORY;
    queue->device = device;
    clq_status status;
    cl_int error;
    queue->handle = clCreateCommandQueue(device->context, device->id, flags ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
    if (!queue->handle) {
        status = clq_cl_fail(device, error, "making a queue");
        goto fail;
    }
    if (flags & CLQ_QUEUE_TRACE) CLQ_TRY_OR(fail, status, clq_trace_start(queue));
    *out = queue;
    return CLQ_OK;
fail:
    clq_queue_destroy(queue);
    return status;
}

clq_status clq_queue_wrap(clq_device *device, cl_command_queue handle, clq_queue **out) {
    CLQ_TRY(clq_device_alive(device));
    cl_context context = NULL;
    cl_device_id id = NULL;
    cl_command_queue_properties properties = 0;
    cl_int error = CL_INVALID_COMMAND_QUEUE;
    if (handle) error = clGetCommandQueueInfo(handle, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
    if (error == CL_SUCCESS) error = clGetCommandQueueInfo(handle, CL_QUEUE_DEVICE, sizeof id, &id, NULL);
    if (error == CL_SUCCESS)
        error = clGetCommandQueueInfo(handle, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
    if (error == CL_INVALID_COMMAND_QUEUE)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: invalid cl_command_queue", device->label);
    if (error != CL_SUCCESS) return clq_cl_fail(device, error, "asking what a queue is");
    if (context != device->context || id != device->id)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: the cl_command_queue belongs to another context or device",
                        device->label);
    if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: the cl_command_queue is out-of-order: create it in-order",
                        device->label);
    clq_queue *queue = clq_alloc(1, sizeof *queue);
    if (!queue) return CLQ_ERROR_MEMORY;
    queue->device = device;
    (void)clRetainCommandQueue(handle);
    queue->handle = handle;
    queue->waits = true; /* its owner may have enqueued anything */
    *out = queue;
    return CLQ_OK;
}

void clq_queue_destroy(clq_queue *queue) {
    if (!queue) return;
    bool alive = !clq_device_lost(queue->device);
    clq_trace_destroy(queue->trace, alive);
    if (queue->last_wait && alive) (void)clReleaseEvent(queue->last_wait);
    if (queue->handle && alive) (void)clReleaseCommandQueue(queue->handle);
    clq_free(queue);
}

cl_command_queue clq_queue_handle(const clq_queue *queue) { return queue->handle; }

clq_device *clq_queue_device(const clq_queue *queue) { return queue->device; }

clq_status clq_queue_flush(clq_queue *queue) {
    CLQ_TRY(clq_device_alive(queue->device));
    cl_int error = clFlush(queue->handle);
    return error == CL_SUCCESS ? CLQ_OK : clq_cl_fail_running(queue->device, error, "handing over commands");
}

clq_status clq_event_check(clq_device *device, cl_event event, const char *what) {
    cl_int state = CL_COMPLETE;
    cl_int error = clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (error != CL_SUCCESS) return clq_cl_fail_running(device, error, "asking how %s ended", what);
    if (state < 0) return clq_cl_fail_running(device, state, "%s", what);
    return CLQ_OK;
}

/* Drivers return success from clFinish even after a command failed. If the command fails after the marker was enqueued,
 * the marker carries the failure. If it failed earlier, the marker of what the queue waited for (last_wait) carries
 * it. */
clq_status clq_queue_finish(clq_queue *queue) {
    clq_device *device = queue->device;
    CLQ_TRY(clq_device_alive(device));
    clq_status status = CLQ_OK;
    cl_event marker = NULL;
    cl_int error = clEnqueueMarkerWithWaitList(queue->handle, 0, NULL, &marker);
    if (error != CL_SUCCESS) status = clq_cl_fail_running(device, error, "enqueueing a marker");
    if (clq_device_lost(device)) return status;
    error = clFinish(queue->handle); /* after a failure, too: the caller gives memory back after this */
    if (error != CL_SUCCESS) return clq_cl_fail_lost(device, error, "waiting for the queue");
    if (marker && status == CLQ_OK) status = clq_event_check(device, marker, "a command of the queue");
    if (status == CLQ_OK && queue->last_wait)
        status = clq_event_check(device, queue->last_wait, "what the queue waited for");
    if (!clq_device_lost(device)) {
        if (marker) (void)clReleaseEvent(marker);
        if (queue->last_wait) (void)clReleaseEvent(queue->last_wait);
        queue->last_wait = NULL;
    }
    if (status == CLQ_OK) clq_programs_ran(device);
    return status;
}

void clq_queue_settle(clq_queue *queue, double until) {
    clq_event *mark;
    if (clq_queue_mark(queue, &mark) != CLQ_OK) {
        (void)clq_queue_finish(queue);
        return;
    }
    const clq_status status = clq_event_wait_until(mark, until, NULL);
    if (status == CLQ_ERROR_TIMEOUT)
        (void)clq_cl_fail_lost(queue->device, CL_DEVICE_NOT_AVAILABLE, "its commands do not end");
    else if (status != CLQ_OK) /* out of memory; or a command failed, and others may go on */
        (void)clq_queue_finish(queue);
    clq_event_destroy(mark);
}

/* ---- events ---- */

/* Takes the handle over: if this fails, the handle is released. */
static clq_status event_create(clq_device *device, cl_event handle, bool wrapped, clq_event **out) {
    clq_event *event = clq_alloc(1, sizeof *event);
    if (!event) {
        (void)clReleaseEvent(handle);
        return CLQ_ERROR_MEMORY;
    }
    *event = (clq_event){.device = device, .handle = handle, .wrapped = wrapped};
    *out = event;
    return CLQ_OK;
}

/* The same, but in the place of *event unless *event is NULL. */
static clq_status event_replace(clq_device *device, cl_event handle, clq_event **event) {
    if (!*event) return event_create(device, handle, false, event);
    (void)clReleaseEvent((*event)->handle);
    **event = (clq_event){.device = device, .handle = handle};
    return CLQ_OK;
}

clq_status clq_queue_mark(clq_queue *queue, clq_event **out) {
    clq_event *event = NULL;
    CLQ_TRY(clq_queue_mark_again(queue, &event));
    *out = event;
    return CLQ_OK;
}

clq_status clq_queue_mark_again(clq_queue *queue, clq_event **event) {
    CLQ_TRY(clq_device_alive(queue->device));
    cl_event handle = NULL;
    cl_int error = clEnqueueMarkerWithWaitList(queue->handle, 0, NULL, &handle);
    if (error != CL_SUCCESS) return clq_cl_fail_running(queue->device, error, "enqueueing a marker");
    clq_status status = clq_queue_flush(queue);
    if (status == CLQ_OK) return event_replace(queue->device, handle, event);
    if (!clq_device_lost(queue->device)) (void)clReleaseEvent(handle);
    return status;
}

clq_status clq_event_wrap(clq_device *device, cl_event handle, clq_event **out) {
    CLQ_TRY(clq_device_alive(device));
    cl_context context = NULL;
    cl_int error = CL_INVALID_EVENT;
    if (handle) error = clGetEventInfo(handle, CL_EVENT_CONTEXT, sizeof context, &context, NULL);
    if (error == CL_INVALID_EVENT) return clq_fail(CLQ_ERROR_ARGUMENT, "%s: invalid cl_event", device->label);
    if (error != CL_SUCCESS) return clq_cl_fail(device, error, "asking for an event's context");
    if (context != device->context)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: the cl_event belongs to another context", device->label);
    (void)clRetainEvent(handle);
    return event_create(device, handle, true, out);
}

clq_status clq_event_share(const clq_event *event, clq_event **out) {
    CLQ_TRY(clq_device_alive(event->device));
    (void)clRetainEvent(event->handle);
    return event_create(event->device, event->handle, event->wrapped, out);
}

clq_status clq_event_create(clq_device *device, clq_event **out) {
    CLQ_TRY(clq_device_alive(device));
    cl_int error;
    cl_event handle = clCreateUserEvent(device->context, &error);
    if (!handle) return clq_cl_fail(device, error, "making an event");
    return event_create(device, handle, false, out);
}

/* Also completes events of a lost device. This takes the host alone, and those who wait for the event must hear of the
 * loss. */
clq_status clq_event_complete(clq_event *event, bool ok) {
    cl_int error = clSetUserEventStatus(event->handle, ok ? CL_COMPLETE : CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    return error == CL_SUCCESS ? CLQ_OK : clq_cl_fail(event->device, error, "completing an event");
}

cl_event clq_event_handle(const clq_event *event) { return event->handle; }

clq_status clq_event_look(const clq_event *event, bool *complete) {
    CLQ_TRY(clq_device_alive(event->device));
    cl_int state = CL_QUEUED;
    cl_int error = clGetEventInfo(event->handle, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (error != CL_SUCCESS) return clq_cl_fail_running(event->device, error, "asking for an event's state");
    if (state < 0) return clq_cl_fail_running(event->device, state, "a command that was waited for");
    *complete = state == CL_COMPLETE;
    return CLQ_OK;
}

clq_status clq_event_wait(clq_event *event) {
    clq_device *device = event->device;
    CLQ_TRY(clq_device_alive(device));
    cl_int error = clWaitForEvents(1, &event->handle);
    /* A failed command shows as this error; its own status says more. */
    if (error != CL_SUCCESS && error != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        return clq_cl_fail_running(device, error, "waiting for an event");
    CLQ_TRY(clq_event_check(device, event->handle, "a command that was waited for"));
    if (error != CL_SUCCESS) return clq_cl_fail_running(device, error, "waiting for an event");
    clq_programs_ran(device);
    return CLQ_OK;
}

clq_status clq_queue_wait(clq_queue *queue, const clq_event *event) {
    CLQ_TRY(clq_device_alive(queue->device));
    queue->waits = true;
    /* If a queue that runs in its caller's thread has to wait for an event that is not complete, PoCL 3.1 hangs or runs
     * ahead. The queue's commands run in this thread anyway, so this thread waits. */
    if (clq_device_runs_in_caller(queue->device)) {
        cl_int error = clWaitForEvents(1, &event->handle);
        if (error == CL_SUCCESS)
            return clq_event_check(queue->device, event->handle, "a command that the queue waits for");
        return clq_cl_fail_running(queue->device, error, "waiting for an event");
    }
    cl_event marker = NULL;
    cl_int error = clEnqueueMarkerWithWaitList(queue->handle, 1, &event->handle, &marker);
    if (error != CL_SUCCESS) return clq_cl_fail_running(queue->device, error, "making the queue wait");
    /* The marker is held, since PoCL 3.1 aborts the process if a command fails whose event nobody holds. */
    if (queue->last_wait) (void)clReleaseEvent(queue->last_wait);
    queue->last_wait = marker;
    return CLQ_OK;
}

void clq_event_destroy(clq_event *event) {
    if (!event) return;
    if (!clq_device_lost(event->device)) (void)clReleaseEvent(event->handle);
    clq_free(event);
}

/* ---- single commands ---- */

void clq_enqueue_begin(clq_queue *queue, const clq_order *order, bool recorded, clq_enqueue *out) {
    *out = (clq_enqueue){.queue = queue, .order = order, .recorded = recorded};
    for (unsigned i = 0; order && i < CLQ_AFTER_MAX; i++)
        if (order->after[i]) out->after[out->wait_count++] = order->after[i]->handle;
    if (out->wait_count > 0) {
        out->waits = out->after;
        queue->waits = true;
    }
    if (recorded || (order && order->done)) out->wanted = &out->event;
}

clq_status clq_enqueue_end(clq_enqueue *enqueue, const char *name) {
    clq_queue *queue = enqueue->queue;
    const clq_order *order = enqueue->order;
    clq_status given = CLQ_OK, kept = CLQ_OK;
    if (enqueue->recorded && order && order->done) (void)clRetainEvent(enqueue->event);
    if (order && order->done) given = event_replace(queue->device, enqueue->event, order->done);
    if (enqueue->recorded) kept = clq_queue_record(queue, name, enqueue->event);
    return given == CLQ_OK ? kept : given;
}
