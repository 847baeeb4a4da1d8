/* The public calls: one thread per rank, which does what a rank of a crew does. Calls are kept in a list; every
 * rank walks through it at its own pace, in order. */
#include "comm/crew.h"

#include <stdlib.h>
#include <string.h>

/* What one rank does in a call. */
typedef struct group_part {
    clq_buffer *in, *out; /* NULL: it has no part there */
    bool in_is_groups, out_is_groups;
    size_t in_offset, out_offset;
    clq_event *waits[2]; /* the caller's, and what was on the rank's queue; NULL: none */
    clq_event *done;     /* NULL: the caller did not ask */
} group_part;

/* One collective as it was issued. */
typedef struct group_call {
    struct group_call *next;
    clq_task task; /* without what differs between ranks */
    size_t bytes;
    unsigned size;
    unsigned running; /* ranks that are not done with it */
    group_part parts[];
} group_call;

/* Memory that clq_group_alloc made. */
typedef struct group_memory {
    struct group_memory *next;
    unsigned rank;
    clq_buffer *buffer;
} group_memory;

typedef struct group_rank {
    clq_group *group;
    unsigned index;
    clq_device *device;
    clq_queue *queue;         /* the thread's own: what the caller enqueues meanwhile is in nobody's way */
    clq_queue *callers_queue; /* NULL: none */
    group_call *next;         /* the call that it is in or comes to; NULL: it has done them all */
    clq_thread *thread;
} group_rank;

struct clq_group {
    unsigned size;
    clq_crew *crew;
    group_rank *ranks;
    pthread_mutex_t lock; /* the list and all below */
    pthread_cond_t issued, idle;
    bool lock_made, issued_made, idle_made;
    group_memory *memory; /* the caller's thread's alone */
    group_call *last;     /* of the list; each rank knows where it stands */
    size_t running;       /* calls that not all ranks are done with */
    bool closing;
};

/* ---- calls ---- */

static void destroy_call(group_call *call) {
    if (!call) return;
    for (unsigned r = 0; r < call->size; r++) {
        group_part *part = &call->parts[r];
        if (part->out != part->in && !part->out_is_groups) clq_buffer_destroy(part->out);
        if (!part->in_is_groups) clq_buffer_destroy(part->in);
        clq_event_destroy(part->waits[0]);
        clq_event_destroy(part->waits[1]);
        clq_event_destroy(part->done);
    }
    clq_free(call);
}

/* The group's own buffer of this memory object, which the host may know how to reach; else one wrapped round it. */
static clq_status take_memory(const clq_group *group, unsigned rank, cl_mem memory, clq_buffer **out, bool *is_groups) {
    for (const group_memory *own = group->memory; own; own = own->next)
        if (own->rank == rank && clq_buffer_handle(own->buffer) == memory) {
            *out = own->buffer;
            *is_groups = true;
            return CLQ_OK;
        }
    return clq_buffer_wrap(group->ranks[rank].device, memory, out);
}

static clq_status check_range(unsigned rank, const char *what, const clq_buffer *buffer, size_t offset, size_t bytes,
                              size_t element) {
    size_t has = clq_buffer_bytes(buffer);
    if (offset % element != 0)
        return clq_fail(CLQ_ARGUMENT, "rank %u: %s: offset %zu is no multiple of an element's %zu bytes", rank, what,
                        offset, element);
    if (offset > has || bytes > has - offset)
        return clq_fail(CLQ_ARGUMENT, "rank %u: %s: %zu bytes from offset %zu do not fit in a memory object of %zu",
                        rank, what, bytes, offset, has);
    return CLQ_OK;
}

/* The bytes that a rank reads, or writes. */
static size_t in_bytes_of(const group_call *call, unsigned rank) {
    return clq_collective_in_bytes(call->task.collective, call->size, rank, call->task.root, call->bytes);
}
static size_t out_bytes_of(const group_call *call, unsigned rank) {
    return clq_collective_out_bytes(call->task.collective, call->size, rank, call->task.root, call->task.to,
                                    call->bytes);
}

static clq_status take_slices(const clq_group *group, unsigned rank, const clq_slice *in, const clq_slice *out,
                              group_call *call) {
    group_part *part = &call->parts[rank];
    const size_t element = clq_dtype_bytes(call->task.dtype);
    size_t in_bytes = in_bytes_of(call, rank), out_bytes = out_bytes_of(call, rank);
    if ((in_bytes > 0 && !in->memory) || (out_bytes > 0 && !out->memory))
        return clq_fail(CLQ_ARGUMENT, "rank %u: a slice has no memory object", rank);
    if (in_bytes > 0) {
        CLQ_TRY(take_memory(group, rank, in->memory, &part->in, &part->in_is_groups));
        part->in_offset = in->offset;
        CLQ_TRY(check_range(rank, "input", part->in, in->offset, in_bytes, element));
    }
    if (out_bytes == 0) return CLQ_OK;
    if (part->in && out->memory == in->memory)
        part->out = part->in, part->out_is_groups = part->in_is_groups;
    else
        CLQ_TRY(take_memory(group, rank, out->memory, &part->out, &part->out_is_groups));
    part->out_offset = out->offset;
    return check_range(rank, "output", part->out, out->offset, out_bytes, element);
}

static bool overlap(const clq_buffer *a, size_t a_begin, size_t a_bytes, const clq_buffer *b, size_t b_begin,
                    size_t b_bytes) {
    return a && b && clq_buffer_handle(a) == clq_buffer_handle(b) && a_begin < b_begin + b_bytes &&
           b_begin < a_begin + a_bytes;
}

/* A rank's own input and output may be the same where the result takes the place of what it is made of. */
static bool is_in_place(const group_call *call, unsigned rank) {
    const group_part *part = &call->parts[rank];
    switch (call->task.collective) {
    case CLQ_REDUCE_SCATTER: return part->out_offset == part->in_offset + rank * call->bytes;
    case CLQ_ALL_GATHER: return part->in_offset == part->out_offset + rank * call->bytes;
    default: return part->in_offset == part->out_offset;
    }
}

/* What one rank writes, another may not use, and a rank's own input and output are in place or apart. */
static clq_status check_overlaps(const group_call *call) {
    for (unsigned r = 0; r < call->size; r++) {
        const group_part *mine = &call->parts[r];
        size_t out_bytes = out_bytes_of(call, r);
        for (unsigned other = 0; other < call->size; other++) {
            const group_part *its = &call->parts[other];
            bool own = r == other;
            if (overlap(its->in, its->in_offset, in_bytes_of(call, other), mine->out, mine->out_offset, out_bytes) &&
                !(own && is_in_place(call, r)))
                return clq_fail(CLQ_ARGUMENT, "the input of rank %u overlaps the output of rank %u", other, r);
            if (!own &&
                overlap(its->out, its->out_offset, out_bytes_of(call, other), mine->out, mine->out_offset, out_bytes))
                return clq_fail(CLQ_ARGUMENT, "the outputs of ranks %u and %u overlap", other, r);
        }
    }
    return CLQ_OK;
}

/* The events that a rank waits for and the one that it completes. */
static clq_status add_events(group_rank *rank, group_part *part, const cl_event *waits, bool wants_done) {
    if (waits && waits[rank->index]) CLQ_TRY(clq_event_wrap(rank->device, waits[rank->index], &part->waits[0]));
    if (rank->callers_queue) CLQ_TRY(clq_queue_mark_quietly(rank->callers_queue, &part->waits[1]));
    return wants_done ? clq_event_create(rank->device, &part->done) : CLQ_OK;
}

/* ---- a rank's thread ---- */

static clq_status wait_for_start(const clq_group *group, const group_part *part) {
    const double never = 1e18;
    for (size_t i = 0; i < CLQ_COUNT_OF(part->waits); i++)
        if (part->waits[i]) CLQ_TRY(clq_event_wait_until(part->waits[i], never, &group->crew->failed));
    return CLQ_OK;
}

static clq_task task_of(const group_rank *rank, const group_call *call) {
    const group_part *part = &call->parts[rank->index];
    clq_task task = call->task;
    task.queue = rank->queue;
    task.in = part->in;
    task.out = part->out;
    task.in_offset = part->in_offset;
    task.out_offset = part->out_offset;
    return task;
}

static clq_status run_part(group_rank *rank, const group_call *call) {
    const group_part *part = &call->parts[rank->index];
    clq_crew *crew = rank->group->crew;
    clq_status status = wait_for_start(rank->group, part);
    if (status != CLQ_OK) {
        clq_error why;
        clq_fail_on(status, rank->device, "rank %u, what the collective waits for", rank->index);
        clq_error_take(status, &why);
        clq_crew_abort(crew, &why);
        return status;
    }
    const clq_task task = task_of(rank, call);
    return clq_crew_run(crew, rank->index, &task);
}

/* The next call of this rank; NULL when the group closes. */
static group_call *await_call(group_rank *rank) {
    clq_group *group = rank->group;
    pthread_mutex_lock(&group->lock);
    while (!rank->next && !group->closing) pthread_cond_wait(&group->issued, &group->lock);
    group_call *call = rank->next;
    pthread_mutex_unlock(&group->lock);
    return call;
}

static void finish_call(group_rank *rank, group_call *call) {
    clq_group *group = rank->group;
    pthread_mutex_lock(&group->lock);
    rank->next = call->next;
    bool last_rank = --call->running == 0;
    if (last_rank && group->last == call) group->last = NULL;
    pthread_mutex_unlock(&group->lock);
    if (!last_rank) return;
    destroy_call(call); /* before the group says that it is idle: then nothing of the caller's is held any more */
    pthread_mutex_lock(&group->lock);
    group->running--;
    pthread_cond_broadcast(&group->idle);
    pthread_mutex_unlock(&group->lock);
}

static void rank_body(void *context) {
    group_rank *rank = context;
    for (group_call *call; (call = await_call(rank)) != NULL; finish_call(rank, call)) {
        clq_status status = run_part(rank, call);
        clq_event *done = call->parts[rank->index].done;
        if (done && clq_event_complete(done, status == CLQ_OK) != CLQ_OK)
            clq_log(CLQ_LOG_ERROR, "%s", clq_error_detail());
    }
}

/* ---- making and ending a group ---- */

static clq_status make_locks(clq_group *group) {
    group->lock_made = pthread_mutex_init(&group->lock, NULL) == 0;
    group->issued_made = pthread_cond_init(&group->issued, NULL) == 0;
    group->idle_made = pthread_cond_init(&group->idle, NULL) == 0;
    if (group->lock_made && group->issued_made && group->idle_made) return CLQ_OK;
    return clq_fail(CLQ_SYSTEM, "cannot create the locks of a group");
}

static clq_status open_rank(group_rank *rank, const clq_rank *given) {
    if (!given->context || !given->device) return clq_fail(CLQ_ARGUMENT, "it has no context or no device");
    CLQ_TRY(clq_device_wrap(given->context, given->device, &rank->device));
    if (given->queue) CLQ_TRY(clq_queue_wrap(rank->device, given->queue, &rank->callers_queue));
    return clq_queue_create(rank->device, 0, &rank->queue);
}

static clq_status make_group(clq_group *group, const clq_rank *ranks, const clq_group_config *config) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    CLQ_TRY(make_locks(group));
    for (unsigned r = 0; r < group->size; r++) {
        group_rank *rank = &group->ranks[r];
        rank->group = group;
        rank->index = r;
        clq_status status = open_rank(rank, &ranks[r]);
        if (status != CLQ_OK) return clq_fail_within(status, "rank %u", r);
        devices[r] = rank->device;
    }
    CLQ_TRY(clq_crew_create(devices, group->size, config, &group->crew));
    for (unsigned r = 0; r < group->size; r++)
        CLQ_TRY(clq_thread_start("clq-rank", rank_body, &group->ranks[r], &group->ranks[r].thread));
    return CLQ_OK;
}

clq_status clq_group_create(const clq_rank *ranks, unsigned count, const clq_group_config *config, clq_group **out) {
    if (!ranks || count < 1 || count > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ARGUMENT, "a group has 1 to %d ranks, not %u", CLQ_REPLICAS_MAX, ranks ? count : 0);
    clq_group *group = clq_alloc(1, sizeof *group);
    if (!group) return CLQ_MEMORY;
    group->ranks = clq_alloc(count, sizeof *group->ranks);
    clq_status status = CLQ_MEMORY;
    if (group->ranks) {
        group->size = count;
        status = make_group(group, ranks, config);
    }
    if (status == CLQ_OK)
        *out = group;
    else
        clq_group_destroy(group);
    return status;
}

void clq_group_destroy(clq_group *group) {
    if (!group) return;
    if (group->lock_made && group->issued_made) {
        pthread_mutex_lock(&group->lock);
        group->closing = true;
        pthread_cond_broadcast(&group->issued);
        pthread_mutex_unlock(&group->lock);
    }
    for (unsigned r = 0; r < group->size; r++) clq_thread_join(group->ranks[r].thread);
    clq_crew_destroy(group->crew);
    while (group->memory) {
        group_memory *own = group->memory;
        group->memory = own->next;
        clq_buffer_destroy(own->buffer);
        clq_free(own);
    }
    for (unsigned r = 0; r < group->size; r++) {
        clq_queue_destroy(group->ranks[r].queue);
        clq_queue_destroy(group->ranks[r].callers_queue);
        clq_device_close(group->ranks[r].device);
    }
    if (group->issued_made) pthread_cond_destroy(&group->issued);
    if (group->idle_made) pthread_cond_destroy(&group->idle);
    if (group->lock_made) pthread_mutex_destroy(&group->lock);
    clq_free(group->ranks);
    clq_free(group);
}

/* ---- issuing ---- */

static clq_status fill_call(const clq_group *group, const clq_slice *in, const clq_slice *out, group_call *call) {
    const clq_task *task = &call->task;
    if ((!in && task->collective != CLQ_BARRIER) || (!out && task->collective != CLQ_BARRIER))
        return clq_fail(CLQ_ARGUMENT, "there are no slices");
    bool pair = task->collective == CLQ_SEND_RECV; /* one slice each, not one per rank */
    for (unsigned r = 0; r < group->size && task->collective != CLQ_BARRIER; r++)
        CLQ_TRY(take_slices(group, r, pair ? in : &in[r], pair ? out : &out[r], call));
    return check_overlaps(call);
}

/* Up to here, over all ranks, the caller is sooner done than other threads that have to wake first: on two cores 1 MiB
 * over four ranks takes it 37 us, and 99 us when handed over. */
static const size_t alone_bytes = (size_t)4 << 20;

/* Whether the calling thread does the call itself, at once. */
static bool can_run_alone(clq_group *group, const group_call *call, const cl_event *waits) {
    if (waits || call->bytes > alone_bytes / group->size) return false;
    for (unsigned r = 0; r < group->size; r++) {
        const clq_task task = task_of(&group->ranks[r], call);
        if (!clq_crew_reaches(group->crew, r, &task)) return false;
    }
    pthread_mutex_lock(&group->lock);
    bool idle = group->running == 0;
    pthread_mutex_unlock(&group->lock);
    return idle;
}

static clq_status run_alone(clq_group *group, const group_call *call, cl_event *done) {
    clq_task tasks[CLQ_REPLICAS_MAX];
    clq_event *events[CLQ_REPLICAS_MAX] = {0};
    clq_status status = CLQ_OK;
    for (unsigned r = 0; r < group->size; r++) {
        tasks[r] = task_of(&group->ranks[r], call);
        tasks[r].queue = group->ranks[r].callers_queue;
        if (done && status == CLQ_OK) status = clq_event_create(group->ranks[r].device, &events[r]);
    }
    if (status == CLQ_OK) status = clq_crew_run_alone(group->crew, tasks);
    for (unsigned r = 0; r < group->size && status == CLQ_OK && done; r++) status = clq_event_complete(events[r], true);
    for (unsigned r = 0; r < group->size; r++) {
        if (done && status == CLQ_OK) done[r] = clq_event_give(events[r]);
        clq_event_destroy(events[r]);
    }
    return status;
}

static clq_status raise_failure(const clq_group *group) {
    clq_error error;
    return clq_crew_failure(group->crew, &error) == CLQ_OK ? CLQ_OK : clq_error_raise(&error);
}

static void enlist(clq_group *group, group_call *call) {
    pthread_mutex_lock(&group->lock);
    if (group->last) group->last->next = call;
    group->last = call;
    group->running++;
    for (unsigned r = 0; r < group->size; r++)
        if (!group->ranks[r].next) group->ranks[r].next = call;
    pthread_cond_broadcast(&group->issued);
    pthread_mutex_unlock(&group->lock);
}

/* PoCL's basic device, which runs commands in the thread that flushes them, deadlocks (3.1) when the host completes an
 * event that one of its commands waits for. So the events of a group with such a device are complete when the call
 * returns, unless the caller is yet to complete what the call waits for. */
static bool must_finish_first(const clq_group *group, const group_call *call) {
    bool runs_in_caller = false;
    for (unsigned r = 0; r < group->size; r++) {
        const clq_event *wait = call->parts[r].waits[0];
        runs_in_caller = runs_in_caller || clq_device_runs_in_caller(group->ranks[r].device);
        if (wait && clq_event_is_hosts(wait)) return false;
    }
    return runs_in_caller;
}

static void wait_until_idle(clq_group *group) {
    pthread_mutex_lock(&group->lock);
    while (group->running > 0) pthread_cond_wait(&group->idle, &group->lock);
    pthread_mutex_unlock(&group->lock);
}

static clq_status check_task(const clq_group *group, const clq_task *task, size_t *bytes) {
    size_t all;
    if ((unsigned)task->dtype >= CLQ_DTYPE_COUNT)
        return clq_fail(CLQ_ARGUMENT, "no element type has number %d", (int)task->dtype);
    if ((unsigned)task->op >= CLQ_REDOP_COUNT)
        return clq_fail(CLQ_ARGUMENT, "no operation has number %d", (int)task->op);
    if (clq_collective_reduces(task->collective) && !clq_reduce_find(task->dtype, task->op))
        return clq_fail(CLQ_UNSUPPORTED, "%s cannot be reduced", clq_dtype_name(task->dtype));
    if (task->root >= group->size || task->to >= group->size)
        return clq_fail(CLQ_ARGUMENT, "root %u of a group of %u ranks", CLQ_MAX(task->root, task->to), group->size);
    if (!clq_mul_size(task->count, clq_dtype_bytes(task->dtype), bytes) || !clq_mul_size(*bytes, group->size, &all))
        return clq_fail(CLQ_ARGUMENT, "%zu elements are more than can be addressed", task->count);
    return CLQ_OK;
}

static clq_status issue_task(clq_group *group, const clq_task *task, const clq_slice *in, const clq_slice *out,
                             const cl_event *waits, cl_event *done) {
    size_t bytes;
    CLQ_TRY(check_task(group, task, &bytes));
    CLQ_TRY(raise_failure(group));
    group_call *call = clq_alloc(1, sizeof *call + group->size * sizeof call->parts[0]);
    if (!call) return CLQ_MEMORY;
    call->task = *task;
    call->bytes = bytes;
    call->size = call->running = group->size;
    clq_status status = fill_call(group, in, out, call);
    bool alone = status == CLQ_OK && can_run_alone(group, call, waits);
    if (alone) status = run_alone(group, call, done);
    for (unsigned r = 0; r < group->size && status == CLQ_OK && !alone; r++)
        status = add_events(&group->ranks[r], &call->parts[r], waits, done != NULL);
    if (alone || status != CLQ_OK) {
        destroy_call(call);
        return status;
    }
    for (unsigned r = 0; done && r < group->size; r++) done[r] = clq_event_give(call->parts[r].done);
    bool finish = !done || must_finish_first(group, call);
    enlist(group, call);
    if (finish) wait_until_idle(group);
    return done ? CLQ_OK : raise_failure(group);
}

static clq_status issue(clq_group *group, clq_task task, const clq_slice *in, const clq_slice *out,
                        const cl_event *waits, cl_event *done) {
    clq_status status = issue_task(group, &task, in, out, waits, done);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", clq_collective_name(task.collective));
}

clq_status clq_all_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count, clq_dtype dtype,
                          clq_redop op, const cl_event *waits, cl_event *done) {
    const clq_task task = {.collective = CLQ_ALL_REDUCE, .count = count, .dtype = dtype, .op = op};
    return issue(group, task, in, out, waits, done);
}

clq_status clq_reduce_scatter(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count,
                              clq_dtype dtype, clq_redop op, const cl_event *waits, cl_event *done) {
    const clq_task task = {.collective = CLQ_REDUCE_SCATTER, .count = count, .dtype = dtype, .op = op};
    return issue(group, task, in, out, waits, done);
}

clq_status clq_all_gather(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count, clq_dtype dtype,
                          const cl_event *waits, cl_event *done) {
    const clq_task task = {.collective = CLQ_ALL_GATHER, .count = count, .dtype = dtype};
    return issue(group, task, in, out, waits, done);
}

clq_status clq_broadcast(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count, clq_dtype dtype,
                         unsigned root, const cl_event *waits, cl_event *done) {
    const clq_task task = {.collective = CLQ_BROADCAST, .count = count, .dtype = dtype, .root = root};
    return issue(group, task, in, out, waits, done);
}

clq_status clq_reduce(clq_group *group, const clq_slice *in, const clq_slice *out, size_t count, clq_dtype dtype,
                      clq_redop op, unsigned root, const cl_event *waits, cl_event *done) {
    const clq_task task = {.collective = CLQ_REDUCE, .count = count, .dtype = dtype, .op = op, .root = root};
    return issue(group, task, in, out, waits, done);
}

clq_status clq_send_recv(clq_group *group, unsigned from, const clq_slice *in, unsigned to, const clq_slice *out,
                         size_t count, clq_dtype dtype, const cl_event *waits, cl_event *done) {
    const clq_task task = {.collective = CLQ_SEND_RECV, .count = count, .dtype = dtype, .root = from, .to = to};
    return issue(group, task, in, out, waits, done);
}

clq_status clq_group_barrier(clq_group *group, const cl_event *waits, cl_event *done) {
    return issue(group, (clq_task){.collective = CLQ_BARRIER}, NULL, NULL, waits, done);
}

/* ---- memory ---- */

clq_status clq_group_alloc(clq_group *group, unsigned rank, size_t bytes, cl_mem *out) {
    if (rank >= group->size) return clq_fail(CLQ_ARGUMENT, "rank %u of a group of %u ranks", rank, group->size);
    group_memory *own = clq_alloc(1, sizeof *own);
    if (!own) return CLQ_MEMORY;
    const group_rank *of = &group->ranks[rank];
    clq_status status = clq_buffer_create(of->device, CLQ_MEMORY_DEVICE, bytes, "a caller's memory", &own->buffer);
    if (status == CLQ_OK) status = clq_queue_fill_zero(of->queue, own->buffer, 0, bytes);
    if (status == CLQ_OK) status = clq_queue_finish(of->queue);
    if (status != CLQ_OK) {
        clq_buffer_destroy(own->buffer);
        clq_free(own);
        return status;
    }
    own->rank = rank;
    own->next = group->memory;
    group->memory = own;
    *out = clq_buffer_handle(own->buffer);
    return CLQ_OK;
}

void clq_group_free(clq_group *group, cl_mem memory) {
    if (!memory) return;
    wait_until_idle(group);
    for (group_memory **at = &group->memory; *at; at = &(*at)->next) {
        group_memory *own = *at;
        if (clq_buffer_handle(own->buffer) != memory) continue;
        *at = own->next;
        clq_buffer_destroy(own->buffer);
        clq_free(own);
        return;
    }
}

clq_status clq_group_wait(clq_group *group) {
    wait_until_idle(group);
    return raise_failure(group);
}

void clq_group_abort(clq_group *group) { clq_crew_abort(group->crew, NULL); }

clq_algorithm clq_group_algorithm(const clq_group *group, clq_collective collective, size_t bytes) {
    return clq_crew_choose(group->crew, collective, bytes);
}

clq_transport clq_group_transport(const clq_group *group) {
    const clq_crew *crew = group->crew;
    if (clq_crew_is_direct(crew)) return CLQ_TRANSPORT_MAPPED;
    unsigned links[CLQ_TRANSPORT_COUNT] = {0};
    clq_transport most = CLQ_TRANSPORT_STAGED;
    for (size_t i = 0; crew->links && i < (size_t)crew->size * crew->size; i++)
        if (crew->links[i]) links[clq_link_transport(crew->links[i], crew->chunk_bytes)]++;
    for (int t = 0; t < CLQ_TRANSPORT_COUNT; t++)
        if (links[t] > links[most]) most = (clq_transport)t;
    return most;
}

clq_status clq_group_explain(const clq_group *group, char **out) {
    char *text = clq_crew_explain(group->crew);
    if (!text) return clq_fail(CLQ_MEMORY, "no memory for the explanation");
    size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes); /* the caller's free() need not be the library's */
    if (copy) memcpy(copy, text, bytes);
    clq_free(text);
    if (!copy) return clq_fail(CLQ_MEMORY, "no memory for the explanation");
    *out = copy;
    return CLQ_OK;
}
