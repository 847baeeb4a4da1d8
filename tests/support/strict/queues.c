/* Queues. All queues work in order, also those that were created out of order. Each queue has a thread, which takes the
 * queue's flushed commands in order, waits for the events in their wait lists, and has the driver execute the commands
 * one at a time. A command that fails dooms the commands that are already behind it. */
#include "support/strict/layer.h"

#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static const uint64_t magic = 0x5354524943545155; /* "STRICTQU" */
static unsigned queues_made;

bool strict_is_queue(cl_command_queue queue) { return queue && queue->magic == magic; }

void strict_queue_hold(cl_command_queue queue) { queue->holders++; }

void strict_queue_drop(cl_command_queue queue) {
    if (--queue->holders > 0) return;
    (void)pthread_cond_destroy(&queue->work);
    free(queue);
}

/* ---- the thread ---- */

static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static unsigned to_meet, meeting; /* under the lock */
static uint64_t meetings;

EXPORT void strict_meet(unsigned commands);
/* The next `commands` launches and transfers wait after their submission until all of them are submitted, so they
 * overlap for certain. */
void strict_meet(unsigned commands) {
    pthread_mutex_lock(&strict_lock);
    to_meet = commands;
    pthread_mutex_unlock(&strict_lock);
}

static void meet_others(void) {
    pthread_mutex_lock(&strict_lock);
    uint64_t mine = meetings;
    if (to_meet > 0 && ++meeting == to_meet) {
        to_meet = meeting = 0;
        meetings++;
        pthread_cond_broadcast(&met);
    } else if (to_meet > 0) {
        while (meetings == mine) pthread_cond_wait(&met, &strict_lock);
    }
    pthread_mutex_unlock(&strict_lock);
}

void strict_dawdle(const strict_command *command) {
    const cl_command_queue queue = command->queue;
    meet_others();
    strict_sleep_ns(1000 * strict_random(queue->number, queue->commands, strict_options.delay_us));
}

static cl_int wait_for_list(const strict_command *command) {
    cl_int error = CL_SUCCESS;
    for (cl_uint i = 0; i < command->wait_count; i++) {
        strict_event_await(command->waits[i]);
        if (command->waits[i]->status < 0) error = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
    }
    return error;
}

/* On the slow device, a command takes slow_times times as long. */
static cl_int execute(strict_command *command) {
    const strict_device *device = command->queue->device;
    if (device->broken) return STRICT_ILLEGAL_ACCESS;
    cl_ulong begun = strict_now_ns();
    cl_int error = command->run ? command->run(command) : CL_SUCCESS;
    if (strict_options.slow_times > 1 && device->index == strict_options.slow_device)
        strict_sleep_ns((strict_now_ns() - begun) * (strict_options.slow_times - 1));
    return device->broken ? STRICT_ILLEGAL_ACCESS : error;
}

/* strict_lock is not held, because the release of memory may call the program's callbacks. */
static void let_go(strict_command *command) {
    if (command->drop) command->drop(command);
    if (command->from) strict_memory_release(command->from);
    if (command->to) strict_memory_release(command->to);
}

/* The lock is held. */
static void command_free(strict_command *command) {
    for (cl_uint i = 0; i < command->wait_count; i++) strict_event_release(command->waits[i]);
    strict_event_release(command->event);
    free(command->waits);
    free(command);
}

static void run_first(cl_command_queue queue) {
    strict_command *command = queue->first;
    cl_int error = wait_for_list(command);
    if (error == CL_SUCCESS) error = command->doomed;
    if (error == CL_SUCCESS) {
        strict_event_become(command->event, CL_RUNNING);
        pthread_mutex_unlock(&strict_lock);
        error = execute(command);
        pthread_mutex_lock(&strict_lock);
    }
    pthread_mutex_unlock(&strict_lock);
    let_go(command); /* before the event tells that the command ended */
    pthread_mutex_lock(&strict_lock);
    queue->commands++;
    queue->first = command->next;
    if (!queue->first) queue->last = NULL;
    if (error != CL_SUCCESS)
        for (strict_command *behind = queue->first; behind; behind = behind->next) behind->doomed = error;
    strict_event_become(command->event, error);
    command_free(command);
}

static void *serve(void *of) {
    cl_command_queue queue = of;
    pthread_mutex_lock(&strict_lock);
    for (;;) {
        while (!(queue->first ? queue->first->event->flushed : queue->closing))
            pthread_cond_wait(&queue->work, &strict_lock);
        if (!queue->first) break;
        run_first(queue);
    }
    cl_command_queue real = queue->real;
    strict_queue_drop(queue);
    pthread_mutex_unlock(&strict_lock);
    (void)strict_driver->clReleaseCommandQueue(real);
    return NULL;
}

static void start_thread(cl_command_queue queue) {
    pthread_t thread;
    if (queue->has_thread) return;
    queue->has_thread = true;
    strict_queue_hold(queue);
    if (pthread_create(&thread, NULL, serve, queue) != 0) strict_die("no thread");
    (void)pthread_detach(thread);
}

/* ---- enqueueing ---- */

strict_command *strict_command_create(cl_command_queue queue, cl_command_type type,
                                      cl_int (*run)(strict_command *command)) {
    strict_command *command = strict_alloc(1, sizeof *command);
    command->queue = queue;
    command->run = run;
    pthread_mutex_lock(&strict_lock);
    command->event = strict_event_create(queue->context, queue, type);
    pthread_mutex_unlock(&strict_lock);
    return command;
}

void strict_queue_flush(cl_command_queue queue) {
    for (strict_command *command = queue->first; command; command = command->next) {
        if (command->event->flushed) continue;
        command->event->flushed = true;
        strict_event_become(command->event, CL_SUBMITTED);
    }
    pthread_cond_signal(&queue->work);
}

static cl_int check_waits(const strict_command *command, cl_uint count, const cl_event *waits) {
    if ((count == 0) != (waits == NULL)) return CL_INVALID_EVENT_WAIT_LIST;
    for (cl_uint i = 0; i < count; i++) {
        if (!strict_is_event(waits[i])) return CL_INVALID_EVENT_WAIT_LIST;
        if (waits[i]->context != command->queue->context) return CL_INVALID_CONTEXT;
    }
    return CL_SUCCESS;
}

/* OpenCL requires that another queue was flushed before a command waits for its event. A queue's own commands come in
 * order anyway. */
static void take_waits(strict_command *command, cl_uint count, const cl_event *waits) {
    command->waits = strict_alloc(count, sizeof(cl_event));
    for (cl_uint i = 0; i < count; i++) {
        strict_event_retain(waits[i]);
        command->waits[command->wait_count++] = waits[i];
        if (waits[i]->queue && waits[i]->queue != command->queue && !waits[i]->flushed)
            strict_counted(command->queue->device, STRICT_UNFLUSHED);
    }
}

cl_int strict_enqueue(strict_command *command, bool blocking, cl_uint count, const cl_event *waits, cl_event *out) {
    cl_command_queue queue = command->queue;
    cl_int error = check_waits(command, count, waits);
    if (error == CL_SUCCESS) error = strict_device_called(queue->device);
    if (error != CL_SUCCESS) {
        let_go(command);
        pthread_mutex_lock(&strict_lock);
        command_free(command);
        pthread_mutex_unlock(&strict_lock);
        return error;
    }
    strict_counted(queue->device, STRICT_COMMANDS);
    cl_event event = command->event;
    pthread_mutex_lock(&strict_lock);
    take_waits(command, count, waits);
    if (out) strict_event_retain(event);
    if (blocking) strict_event_retain(event);
    start_thread(queue);
    if (queue->last)
        queue->last->next = command;
    else
        queue->first = command;
    queue->last = command;
    if (blocking || !strict_options.hold) strict_queue_flush(queue);
    if (blocking) {
        strict_event_await(event);
        if (event->status < 0 && event->status == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST && count > 0)
            error = event->status;
        if (queue->device->broken) error = STRICT_ILLEGAL_ACCESS;
        strict_event_release(event);
    }
    pthread_mutex_unlock(&strict_lock);
    if (out) *out = event;
    return error;
}

/* ---- calls ---- */

static cl_command_queue CL_API_CALL create(cl_context context, cl_device_id id, cl_command_queue_properties properties,
                                           cl_int *error) {
    const strict_context *in = strict_context_of(context);
    cl_int failed = in ? strict_context_called(in) : CL_INVALID_CONTEXT;
    cl_command_queue real = NULL;
    if (failed == CL_SUCCESS) real = strict_driver->clCreateCommandQueue(context, id, 0, &failed);
    if (error) *error = failed;
    if (!real) return NULL;
    cl_command_queue queue = strict_alloc(1, sizeof *queue);
    *queue = (struct _cl_command_queue){.dispatch = strict_calls,
                                        .magic = magic,
                                        .references = 1,
                                        .holders = 1,
                                        .context = context,
                                        .device = strict_device_of(id),
                                        .properties = properties,
                                        .real = real};
    if (pthread_cond_init(&queue->work, NULL) != 0) strict_die("no condition variable");
    pthread_mutex_lock(&strict_lock);
    queue->number = queues_made++;
    pthread_mutex_unlock(&strict_lock);
    return queue;
}

static cl_int CL_API_CALL retain(cl_command_queue queue) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    pthread_mutex_lock(&strict_lock);
    queue->references++;
    pthread_mutex_unlock(&strict_lock);
    return CL_SUCCESS;
}

/* The last release flushes the queue. The queue is freed once its commands have ended. */
static cl_int CL_API_CALL release(cl_command_queue queue) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    cl_command_queue real = NULL;
    pthread_mutex_lock(&strict_lock);
    if (--queue->references == 0) {
        queue->magic = 0;
        queue->closing = true;
        strict_queue_flush(queue);
        if (!queue->has_thread) real = queue->real;
        strict_queue_drop(queue);
    }
    pthread_mutex_unlock(&strict_lock);
    if (real) (void)strict_driver->clReleaseCommandQueue(real);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_info(cl_command_queue queue, cl_command_queue_info what, size_t room, void *out,
                                   size_t *needed) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    switch (what) {
    case CL_QUEUE_CONTEXT: return strict_put(&queue->context, sizeof queue->context, room, out, needed);
    case CL_QUEUE_DEVICE: return strict_put(&queue->device->id, sizeof queue->device->id, room, out, needed);
    case CL_QUEUE_PROPERTIES: return strict_put(&queue->properties, sizeof queue->properties, room, out, needed);
    case CL_QUEUE_REFERENCE_COUNT: return strict_put(&(cl_uint){queue->references}, sizeof(cl_uint), room, out, needed);
    default: return CL_INVALID_VALUE;
    }
}

static cl_int CL_API_CALL flush(cl_command_queue queue) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    strict_counted(queue->device, STRICT_FLUSHES);
    cl_int error = strict_device_called(queue->device);
    pthread_mutex_lock(&strict_lock);
    strict_queue_flush(queue);
    pthread_mutex_unlock(&strict_lock);
    return error;
}

static cl_int CL_API_CALL finish(cl_command_queue queue) {
    if (!strict_is_queue(queue)) return CL_INVALID_COMMAND_QUEUE;
    strict_counted(queue->device, STRICT_FINISHES);
    cl_int error = strict_device_called(queue->device);
    pthread_mutex_lock(&strict_lock);
    strict_queue_flush(queue);
    if (queue->last) {
        cl_event last = queue->last->event;
        strict_event_retain(last);
        strict_event_await(last);
        strict_event_release(last);
    }
    if (queue->device->broken) error = STRICT_ILLEGAL_ACCESS;
    pthread_mutex_unlock(&strict_lock);
    return error;
}

void strict_queues_install(struct _cl_icd_dispatch *calls) {
    calls->clCreateCommandQueue = create;
    calls->clRetainCommandQueue = retain;
    calls->clReleaseCommandQueue = release;
    calls->clGetCommandQueueInfo = get_info;
    calls->clFlush = flush;
    calls->clFinish = finish;
}
