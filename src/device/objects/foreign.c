/* Events that are handed from one rank of comm to another, or between the library and its callers. */
#include "device/internal.h"

cl_event clq_event_give(const clq_event *event) {
    (void)clRetainEvent(event->handle);
    return event->handle;
}

bool clq_event_is_hosts(const clq_event *event) {
    cl_command_type type = 0;
    (void)clGetEventInfo(event->handle, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    return type == CL_COMMAND_USER;
}

bool clq_event_is_over(const clq_event *event) {
    cl_int state = CL_QUEUED;
    (void)clGetEventInfo(event->handle, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    return state <= CL_COMPLETE;
}

/* ---- waiting with a limit ---- */

/* How long a wait looks at the event again and again before it sleeps. A sleep costs a callback, and 50 us or more
 * until the thread runs again. So events of GPUs are polled for about as long as an exchange takes. A CPU device needs
 * the core for the command itself, so its events are polled only for about as long as a short command takes. */
static const double look_s = 200e-6, look_at_cpu_s = 20e-6;
/* The pause between two looks is this part of the time waited so far. So a wait of 200 us takes some 40 looks, and ends
 * later than the command by at most an eighth of the wait. */
static const double pause_part = 0.125, least_pause_s = 0.5e-6;
/* A wait that sleeps looks at the deadline and at *cancel this often (and at least every CLQ_RUNNING_LOOK_S). */
static const double nap_s = 20e-3;
/* The same for an event for which the driver does not call back. */
static const double short_nap_s = 1e-3;

/* Whether the driver calls back for the event. PoCL 3.1 forgets the callbacks of a host's event that is set to a
 * failure: what they hold would never be released. */
static bool calls_back(const clq_event *event) {
    return !clq_device_has_quirk(event->device, CLQ_QUIRK_FORGETS_CALLBACKS) || !clq_event_is_hosts(event);
}

/* Shared by the waiting thread and the driver's callback, which may come long after the wait was given up. */
typedef struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool fired;
    atomic_uint holders;
} waiter;

static void waiter_drop(waiter *w) {
    if (atomic_fetch_sub(&w->holders, 1) != 1) return;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    clq_free(w);
}

static clq_status waiter_create(waiter **out) {
    waiter *w = clq_alloc(1, sizeof *w);
    if (!w) return CLQ_ERROR_MEMORY;
    atomic_init(&w->holders, 1);
    const clq_status status = clq_lock_create("an event", &w->lock, &w->changed);
    if (status == CLQ_OK)
        *out = w;
    else
        clq_free(w);
    return status;
}

static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *context) {
    (void)event;
    (void)status; /* the waiting thread asks for it */
    waiter *w = context;
    pthread_mutex_lock(&w->lock);
    w->fired = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    waiter_drop(w);
}

static void waiter_nap(waiter *w, double until, double longest_s) {
    pthread_mutex_lock(&w->lock);
    if (!w->fired) clq_lock_wait(&w->lock, &w->changed, CLQ_MIN(until - clq_now_running(), longest_s));
    w->fired = false; /* the event's own status decides; a driver that calls early costs one more look */
    pthread_mutex_unlock(&w->lock);
}

/* Whether the wait is over; *status tells how it ended. */
static bool look(const clq_event *event, double until, const atomic_bool *cancel, clq_status *status) {
    cl_int state = CL_SUBMITTED;
    cl_int error = clGetEventInfo(event->handle, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (error != CL_SUCCESS) /* a failure, so that nobody waits for the event without a limit */
        *status = clq_cl_fail_running(event->device, error, "asking for an event's state");
    else if (state <= CL_COMPLETE)
        *status = CLQ_OK;
    else if (cancel && atomic_load(cancel))
        *status = CLQ_ERROR_ABORTED;
    else if (clq_now_running() >= until)
        *status = CLQ_ERROR_TIMEOUT;
    else
        return false;
    return true;
}

/* Makes the driver hand over the commands up to the event, if its queue may hold them back. */
static void flush_queue_of(const clq_event *event) {
    cl_command_queue queue = NULL; /* of a user event: none */
    clGetEventInfo(event->handle, CL_EVENT_COMMAND_QUEUE, sizeof queue, &queue, NULL);
    if (queue) clFlush(queue);
}

static void pass_time(double until) {
    while (clq_now() < until) {
#if defined(__x86_64__) || defined(__i386__)
        for (int i = 0; i < 8; i++) __builtin_ia32_pause();
#endif
    }
}

/* Looks at the event until it is time to sleep. Returns whether the wait is over. */
static bool look_often(const clq_event *event, double until, const atomic_bool *cancel, clq_status *status) {
    const bool cpu = event->device->info.type == CLQ_DEVICE_CPU;
    const double begun = clq_now(), sleep_at = begun + (cpu ? look_at_cpu_s : look_s);
    for (double now = begun; now < sleep_at; now = clq_now()) {
        if (look(event, until, cancel, status)) return true;
        pass_time(now + CLQ_MAX((now - begun) * pause_part, least_pause_s));
    }
    return look(event, until, cancel, status);
}

/* CLQ_OK: the event is complete or has failed. */
static clq_status wait_with_limits(const clq_event *event, bool called, double until, const atomic_bool *cancel) {
    clq_status status;
    if (look(event, until, cancel, &status)) return status;
    if (event->wrapped) flush_queue_of(event);
    if (look_often(event, until, cancel, &status)) return status;

    waiter *w;
    CLQ_TRY(waiter_create(&w));
    if (called) {
        atomic_fetch_add(&w->holders, 1);
        called = clSetEventCallback(event->handle, CL_COMPLETE, on_complete, w) == CL_SUCCESS;
        if (!called) waiter_drop(w);
    }
    while (!look(event, until, cancel, &status)) waiter_nap(w, until, called ? nap_s : short_nap_s);
    waiter_drop(w);
    return status;
}

clq_status clq_event_wait_until(clq_event *event, double until, const atomic_bool *cancel) {
    CLQ_TRY(clq_device_alive(event->device));
    CLQ_TRY(wait_with_limits(event, calls_back(event), until, cancel));
    return clq_event_wait(event); /* returns at once, and tells of a failure */
}
