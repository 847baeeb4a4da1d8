/* Events and callbacks. A thread of the layer's own makes the callbacks, late. */
#include "support/strict/layer.h"

#include <stdlib.h>

static const uint64_t magic = 0x5354524943544556; /* "STRICTEV" */

struct strict_callback {
    strict_callback *next;
    void(CL_CALLBACK *call)(cl_event, cl_int, void *);
    void *user;
    cl_event event;
    cl_int status;
    cl_ulong due_ns;
};

/* ---- objects ---- */

cl_event strict_event_create(cl_context context, cl_command_queue queue, cl_command_type type) {
    cl_event event = strict_alloc(1, sizeof *event);
    *event = (struct _cl_event){.dispatch = strict_calls,
                                .magic = magic,
                                .references = 1,
                                .context = context,
                                .queue = queue,
                                .type = type,
                                .status = queue ? CL_QUEUED : CL_SUBMITTED};
    if (pthread_cond_init(&event->changed, NULL) != 0) strict_die("no condition variable");
    event->times[STRICT_QUEUED] = strict_now_ns();
    (void)strict_driver->clRetainContext(context);
    if (queue) strict_queue_hold(queue);
    return event;
}

bool strict_is_event(cl_event event) { return event && event->magic == magic; }

void strict_event_retain(cl_event event) { event->references++; }

void strict_event_release(cl_event event) {
    if (--event->references > 0) return;
    event->magic = 0;
    if (event->queue) strict_queue_drop(event->queue);
    (void)strict_driver->clReleaseContext(event->context);
    (void)pthread_cond_destroy(&event->changed);
    while (event->callbacks) { /* of a user event that nobody set */
        strict_callback *first = event->callbacks;
        event->callbacks = first->next;
        free(first);
    }
    free(event);
}

void strict_event_await(cl_event event) {
    while (event->status > CL_COMPLETE) pthread_cond_wait(&event->changed, &strict_lock);
}

/* ---- callbacks ---- */

static strict_callback *due; /* sorted by time */
static pthread_cond_t due_changed = PTHREAD_COND_INITIALIZER;
static bool has_thread;
static uint64_t callbacks_made;

/* This thread is detached, because it still waits for work when the process ends. */
static void *call_back(void *unused) {
    (void)unused;
    pthread_mutex_lock(&strict_lock);
    for (;;) {
        while (!due) pthread_cond_wait(&due_changed, &strict_lock);
        strict_callback *next = due;
        cl_ulong now = strict_now_ns();
        if (next->due_ns > now) {
            pthread_mutex_unlock(&strict_lock);
            strict_sleep_ns(next->due_ns - now < 50000 ? next->due_ns - now : 50000);
            pthread_mutex_lock(&strict_lock);
            continue;
        }
        due = next->next;
        pthread_mutex_unlock(&strict_lock);
        next->call(next->event, next->status, next->user);
        pthread_mutex_lock(&strict_lock);
        strict_event_release(next->event);
        free(next);
    }
    return NULL;
}

static void call_later(cl_event event, strict_callback *callback) {
    pthread_t thread;
    strict_event_retain(event);
    callback->event = event;
    callback->status = event->status;
    callback->due_ns = strict_now_ns() + 1000 * strict_random(0xCA11, callbacks_made++, strict_options.callback_us);
    strict_callback **at = &due;
    while (*at && (*at)->due_ns <= callback->due_ns) at = &(*at)->next;
    callback->next = *at;
    *at = callback;
    if (!has_thread) {
        has_thread = true;
        if (pthread_create(&thread, NULL, call_back, NULL) != 0) strict_die("no thread");
        (void)pthread_detach(thread);
    }
    pthread_cond_signal(&due_changed);
}

void strict_event_become(cl_event event, cl_int status) {
    event->status = status;
    if (status == CL_SUBMITTED) event->times[STRICT_SUBMITTED] = strict_now_ns();
    if (status == CL_RUNNING) event->times[STRICT_STARTED] = strict_now_ns();
    if (status > CL_COMPLETE) return;
    event->times[STRICT_ENDED] = strict_now_ns();
    strict_callback *callbacks = event->callbacks;
    event->callbacks = NULL;
    while (callbacks) {
        strict_callback *first = callbacks;
        callbacks = first->next;
        call_later(event, first);
    }
    pthread_cond_broadcast(&event->changed);
}

static cl_int CL_API_CALL set_callback(cl_event event, cl_int state, void(CL_CALLBACK *call)(cl_event, cl_int, void *),
                                       void *user) {
    if (!strict_is_event(event)) return CL_INVALID_EVENT;
    if (!call || state < CL_COMPLETE || state > CL_SUBMITTED) return CL_INVALID_VALUE;
    if (state != CL_COMPLETE) strict_die("callbacks are for CL_COMPLETE only");
    strict_callback *callback = strict_alloc(1, sizeof *callback);
    callback->call = call;
    callback->user = user;
    pthread_mutex_lock(&strict_lock);
    if (event->queue) strict_counted(event->queue->device, STRICT_CALLBACKS);
    if (event->queue && !event->flushed) strict_counted(event->queue->device, STRICT_UNFLUSHED);
    if (event->status <= CL_COMPLETE) {
        call_later(event, callback);
    } else {
        callback->next = event->callbacks;
        event->callbacks = callback;
    }
    pthread_mutex_unlock(&strict_lock);
    return CL_SUCCESS;
}

/* ---- calls ---- */

static cl_int CL_API_CALL retain(cl_event event) {
    if (!strict_is_event(event)) return CL_INVALID_EVENT;
    pthread_mutex_lock(&strict_lock);
    strict_event_retain(event);
    pthread_mutex_unlock(&strict_lock);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release(cl_event event) {
    if (!strict_is_event(event)) return CL_INVALID_EVENT;
    pthread_mutex_lock(&strict_lock);
    strict_event_release(event);
    pthread_mutex_unlock(&strict_lock);
    return CL_SUCCESS;
}

static cl_event CL_API_CALL create_user(cl_context context, cl_int *error) {
    const strict_context *in = strict_context_of(context);
    if (error) *error = in ? CL_SUCCESS : CL_INVALID_CONTEXT;
    if (!in) return NULL;
    pthread_mutex_lock(&strict_lock);
    cl_event event = strict_event_create(context, NULL, CL_COMMAND_USER);
    event->flushed = true;
    pthread_mutex_unlock(&strict_lock);
    return event;
}

static cl_int CL_API_CALL set_user(cl_event event, cl_int status) {
    if (!strict_is_event(event)) return CL_INVALID_EVENT;
    if (status > CL_COMPLETE) return CL_INVALID_VALUE;
    pthread_mutex_lock(&strict_lock);
    cl_int error = event->queue ? CL_INVALID_EVENT : event->status <= CL_COMPLETE ? CL_INVALID_OPERATION : CL_SUCCESS;
    if (error == CL_SUCCESS) strict_event_become(event, status);
    pthread_mutex_unlock(&strict_lock);
    return error;
}

static cl_int info_of(cl_event event, cl_event_info what, size_t room, void *out, size_t *needed) {
    switch (what) {
    case CL_EVENT_COMMAND_QUEUE: return strict_put(&event->queue, sizeof event->queue, room, out, needed);
    case CL_EVENT_CONTEXT: return strict_put(&event->context, sizeof event->context, room, out, needed);
    case CL_EVENT_COMMAND_TYPE: return strict_put(&event->type, sizeof event->type, room, out, needed);
    case CL_EVENT_REFERENCE_COUNT: return strict_put(&(cl_uint){event->references}, sizeof(cl_uint), room, out, needed);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        if (event->queue) strict_counted(event->queue->device, STRICT_POLLS);
        return strict_put(&event->status, sizeof event->status, room, out, needed);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL get_info(cl_event event, cl_event_info what, size_t room, void *out, size_t *needed) {
    if (!strict_is_event(event)) return CL_INVALID_EVENT;
    pthread_mutex_lock(&strict_lock);
    cl_int error = info_of(event, what, room, out, needed);
    pthread_mutex_unlock(&strict_lock);
    return error;
}

static cl_int CL_API_CALL get_time(cl_event event, cl_profiling_info what, size_t room, void *out, size_t *needed) {
    if (!strict_is_event(event)) return CL_INVALID_EVENT;
    if (what < CL_PROFILING_COMMAND_QUEUED || what > CL_PROFILING_COMMAND_END) return CL_INVALID_VALUE;
    pthread_mutex_lock(&strict_lock);
    bool known = event->queue && (event->queue->properties & CL_QUEUE_PROFILING_ENABLE) && event->status == CL_COMPLETE;
    cl_ulong time = event->times[what - CL_PROFILING_COMMAND_QUEUED];
    pthread_mutex_unlock(&strict_lock);
    return known ? strict_put(&time, sizeof time, room, out, needed) : CL_PROFILING_INFO_NOT_AVAILABLE;
}

/* clWaitForEvents flushes the events' queues. */
static cl_int CL_API_CALL wait_for(cl_uint count, const cl_event *events) {
    if (count == 0 || !events) return CL_INVALID_VALUE;
    for (cl_uint i = 0; i < count; i++)
        if (!strict_is_event(events[i])) return CL_INVALID_EVENT;
    cl_int error = CL_SUCCESS;
    if (events[0]->queue) {
        strict_counted(events[0]->queue->device, STRICT_WAITS);
        error = strict_device_called(events[0]->queue->device);
    }
    if (error != CL_SUCCESS) return error;
    pthread_mutex_lock(&strict_lock);
    for (cl_uint i = 0; i < count; i++) strict_event_retain(events[i]);
    for (cl_uint i = 0; i < count; i++)
        if (events[i]->queue) strict_queue_flush(events[i]->queue);
    for (cl_uint i = 0; i < count; i++) {
        strict_event_await(events[i]);
        if (events[i]->status < 0) error = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    for (cl_uint i = 0; i < count; i++) strict_event_release(events[i]);
    pthread_mutex_unlock(&strict_lock);
    return error;
}

void strict_events_install(struct _cl_icd_dispatch *calls) {
    calls->clRetainEvent = retain;
    calls->clReleaseEvent = release;
    calls->clCreateUserEvent = create_user;
    calls->clSetUserEventStatus = set_user;
    calls->clSetEventCallback = set_callback;
    calls->clGetEventInfo = get_info;
    calls->clGetEventProfilingInfo = get_time;
    calls->clWaitForEvents = wait_for;
}
