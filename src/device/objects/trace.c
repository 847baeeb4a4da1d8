/* What a tracing queue records: when each command ran by the device's clock, and how that clock relates to the
 * host's. */
#include "device/internal.h"

enum { PENDING_MAX = 512, SPANS_MAX = 1 << 18, MARK_TRIES = 5 };

/* One moment in the time of both clocks. */
typedef struct mark {
    cl_ulong device;
    double host, error; /* seconds (clq_now); `host` is right within `error` */
} mark;

typedef struct record {
    cl_event event; /* held until the times are read */
    const char *scope, *name;
    cl_ulong begin, end; /* the device's nanoseconds */
} record;

struct clq_trace {
    record *records;
    size_t count, capacity, read; /* the times of the first `read` were read */
    mark first;
    const char *scope, *name; /* of the next command; NULL: the kernel's own */
    bool stopped;
};

void clq_trace_destroy(clq_trace *trace, bool release_events) {
    if (!trace) return;
    for (size_t i = trace->read; release_events && i < trace->count; i++) (void)clReleaseEvent(trace->records[i].event);
    clq_free(trace->records);
    clq_free(trace);
}

/* ---- the two clocks ---- */

/* The event must be complete. */
static clq_status times_of(const clq_device *device, cl_event event, const char *name, cl_ulong *begin, cl_ulong *end) {
    cl_int error = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof *begin, begin, NULL);
    if (error == CL_SUCCESS) error = clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof *end, end, NULL);
    if (error != CL_SUCCESS) return clq_cl_fail(device, error, "asking for the time of %s", name);
    *end = CLQ_MAX(*begin, *end);
    return CLQ_OK;
}

static double seconds_between(cl_ulong from, cl_ulong to) {
    return to >= from ? (double)(to - from) * 1e-9 : -(double)(from - to) * 1e-9;
}

/* Runs a marker on the idle queue between two looks at the host's clock. */
static clq_status take_mark(clq_queue *queue, mark *out) {
    cl_event event = NULL;
    double before = clq_now();
    cl_int error = clEnqueueMarkerWithWaitList(queue->handle, 0, NULL, &event);
    if (error != CL_SUCCESS) return clq_cl_fail_running(queue->device, error, "enqueueing a marker");
    error = clWaitForEvents(1, &event);
    double after = clq_now();
    cl_ulong begin = 0, end = 0;
    clq_status status = error == CL_SUCCESS ? times_of(queue->device, event, "a marker", &begin, &end)
                                            : clq_cl_fail_running(queue->device, error, "waiting for a marker");
    if (!clq_device_lost(queue->device)) (void)clReleaseEvent(event);
    if (status == CLQ_OK && end == 0)
        status = clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: the driver does not tell when a marker ran: it cannot be traced",
                          queue->device->label);
    if (status != CLQ_OK) return status;
    double around = CLQ_MAX(after - before - seconds_between(begin, end), 0.0);
    *out = (mark){.device = end, .host = after - around / 2, .error = around / 2};
    return CLQ_OK;
}

static clq_status take_best_mark(clq_queue *queue, mark *out) {
    mark best = {0};
    for (int i = 0; i < MARK_TRIES; i++) {
        mark tried = {0};
        CLQ_TRY(take_mark(queue, &tried));
        if (i == 0 || tried.error < best.error) best = tried;
    }
    *out = best;
    return CLQ_OK;
}

clq_status clq_trace_start(clq_queue *queue) {
    queue->trace = clq_alloc(1, sizeof *queue->trace);
    return queue->trace ? take_best_mark(queue, &queue->trace->first) : CLQ_ERROR_MEMORY;
}

/* The host's time, interpolated between the marks, so that clocks which drift apart agree at both ends. */
static double host_time(const mark *first, const mark *last, cl_ulong device) {
    double whole = seconds_between(first->device, last->device), since = seconds_between(first->device, device);
    double rate = whole > 0.0 ? (last->host - first->host) / whole : 1.0;
    return first->host + since * CLQ_MAX(rate, 0.0);
}

/* ---- records ---- */

/* Reads the times of all commands before number `end`. The queue is in order: when the last of them has ended, all
 * have. */
static clq_status read_times(clq_trace *trace, clq_device *device, size_t end) {
    if (trace->read == end) return CLQ_OK;
    cl_int error = clWaitForEvents(1, &trace->records[end - 1].event);
    if (error != CL_SUCCESS) return clq_cl_fail_running(device, error, "waiting for a traced command");
    for (; trace->read < end; trace->read++) {
        record *r = &trace->records[trace->read];
        CLQ_TRY(times_of(device, r->event, r->name, &r->begin, &r->end));
        if (!clq_device_lost(device)) (void)clReleaseEvent(r->event);
    }
    return CLQ_OK;
}

bool clq_queue_traces(const clq_queue *queue) { return queue->trace && !queue->trace->stopped; }

bool clq_queue_traces_named(const clq_queue *queue) { return clq_queue_traces(queue) && queue->trace->name; }

cl_event *clq_queue_wants_event(const clq_queue *queue, cl_event *event) {
    return clq_queue_traces(queue) ? event : NULL;
}

clq_status clq_queue_record(clq_queue *queue, const char *kernel, cl_event event) {
    clq_trace *trace = queue->trace;
    if (!event) return CLQ_OK;
    const record new = {.event = event, .scope = trace->scope, .name = trace->name ? trace->name : kernel};
    trace->scope = trace->name = NULL;
    record *records = clq_grow(trace->records, trace->count, &trace->capacity, PENDING_MAX, sizeof *records);
    if (!records) {
        (void)clReleaseEvent(event);
        return CLQ_ERROR_MEMORY;
    }
    trace->records = records;
    trace->records[trace->count++] = new;
    if (trace->count >= SPANS_MAX) trace->stopped = true;
    /* Waits for half of the pending commands only, which have most likely ended. If it waited for all, the device would
     * run out of work. */
    if (trace->count - trace->read < PENDING_MAX) return CLQ_OK;
    return read_times(trace, queue->device, trace->read + PENDING_MAX / 2);
}

/* ---- for users ---- */

void clq_queue_name(clq_queue *queue, const char *scope, const char *name) {
    if (!queue->trace) return;
    queue->trace->scope = scope;
    queue->trace->name = name;
}

void clq_queue_stop_trace(clq_queue *queue) {
    if (queue->trace) queue->trace->stopped = true;
}

clq_status clq_queue_spans(clq_queue *queue, clq_span **out, size_t *count, double *error_s) {
    clq_trace *trace = queue->trace;
    mark last = {0};
    if (!trace) return clq_fail(CLQ_ERROR_INTERNAL, "%s: the queue was not created for tracing", queue->device->label);
    CLQ_TRY(clq_queue_finish(queue));
    CLQ_TRY(read_times(trace, queue->device, trace->count));
    CLQ_TRY(take_best_mark(queue, &last));
    clq_span *spans = clq_alloc(CLQ_MAX(trace->count, (size_t)1), sizeof *spans);
    if (!spans) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < trace->count; i++) {
        const record *r = &trace->records[i];
        spans[i] = (clq_span){.scope = r->scope,
                              .name = r->name,
                              .begin = host_time(&trace->first, &last, r->begin),
                              .end = host_time(&trace->first, &last, r->end)};
    }
    *out = spans;
    *count = trace->count;
    *error_s = CLQ_MAX(trace->first.error, last.error);
    return CLQ_OK;
}
