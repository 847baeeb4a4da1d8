/* The public calls: each rank has a thread, which carries out that rank's part in a communicator. Calls are kept in a
 * list; every rank walks through it in order, at its own pace. */
#include "comm/group/group.h"

#include "comm/outer/wide.h"

#include <string.h>

/* Packing copies a message twice. The copies must take less time than the fixed cost per message that packing saves. */
static const size_t default_bucket_bytes = (size_t)512 << 10;

/* ---- a rank's thread ---- */

static clq_status wait_for(const clq_group *group, clq_event *event) {
    const double never = 1e18;
    return event ? clq_event_wait_until(event, never, &group->comm->family->failed) : CLQ_OK;
}

static clq_status wait_for_start(const clq_group_rank *rank, const clq_call *call) {
    for (const clq_call *member = call->packed; member; member = member->next)
        CLQ_TRY(wait_for(rank->group, member->parts[rank->index].wait));
    CLQ_TRY(wait_for(rank->group, call->parts[rank->index].wait));
    return wait_for(rank->group, call->parts[rank->index].mark);
}

/* A failure outside the communicator's own work ends the communicator, too. */
static clq_status fail_comm(const clq_group_rank *rank, clq_status status, const char *what) {
    clq_error why;
    clq_fail_on(status, rank->device, "rank %u, %s", rank->group->comm->members[rank->index].world, what);
    clq_error_take(status, &why);
    clq_comm_abort(rank->group->comm, &why);
    return status;
}

static clq_status run_part(const clq_group_rank *rank, const clq_call *call) {
    clq_status status = wait_for_start(rank, call);
    if (status != CLQ_OK) return fail_comm(rank, status, "what the collective waits for");
    if (call->packed) status = clq_pack_fill(rank, call);
    if (status != CLQ_OK) return fail_comm(rank, status, "packing small messages");
    CLQ_TRY(clq_comm_run(rank->group->comm, rank->index, &call->parts[rank->index].task));
    if (call->packed) status = clq_pack_empty(rank, call);
    return status == CLQ_OK ? CLQ_OK : fail_comm(rank, status, "unpacking small messages");
}

/* Returns no status: a failure has ended the communicator, which keeps it. */
static void run_call(const clq_group_rank *rank, const clq_call *call) {
    clq_call_complete(call, rank->index, run_part(rank, call) == CLQ_OK);
}

/* Waits for this rank's next call. NULL: the group closes. */
static clq_call *await_call(clq_group_rank *rank) {
    clq_group *group = rank->group;
    pthread_mutex_lock(&group->lock);
    while (!rank->next && !group->closing) pthread_cond_wait(&group->issued, &group->lock);
    clq_call *call = rank->next;
    pthread_mutex_unlock(&group->lock);
    return call;
}

static void finish_call(clq_group_rank *rank, clq_call *call) {
    clq_group *group = rank->group;
    pthread_mutex_lock(&group->lock);
    rank->next = call->next;
    bool last_rank = --call->running == 0;
    if (last_rank) group->held -= call->held;
    if (last_rank && group->last == call) group->last = NULL;
    pthread_mutex_unlock(&group->lock);
    if (!last_rank) return;
    clq_call_destroy(call); /* before the group becomes idle: an idle group holds nothing of the caller's */
    pthread_mutex_lock(&group->lock);
    group->finished++;
    pthread_cond_broadcast(&group->idle);
    pthread_mutex_unlock(&group->lock);
}

static void rank_body(void *context) {
    clq_group_rank *rank = context;
    for (clq_call *call; (call = await_call(rank)) != NULL; finish_call(rank, call)) run_call(rank, call);
}

/* ---- making and ending a group ---- */

static clq_status make_locks(clq_group *group) {
    int lock = pthread_mutex_init(&group->lock, NULL), issued = pthread_cond_init(&group->issued, NULL),
        idle = pthread_cond_init(&group->idle, NULL);
    group->lock_made = lock == 0;
    group->issued_made = issued == 0;
    group->idle_made = idle == 0;
    if (group->lock_made && group->issued_made && group->idle_made) return CLQ_OK;
    return clq_fail_lock("a group", lock ? lock : issued ? issued : idle);
}

/* Makes a group with what clq_group_destroy needs to undo the later steps: its locks, ranks and shared state. Takes
 * over `shared` and `comm` (may be NULL), on failure too. */
static clq_status make_frame(unsigned count, clq_shared *shared, clq_comm *comm, size_t bucket_bytes, clq_group **out) {
    clq_group *group = clq_alloc(1, sizeof *group);
    if (!group) {
        clq_comm_destroy(comm);
        clq_shared_release(shared);
        return CLQ_ERROR_MEMORY;
    }
    group->shared = shared;
    group->comm = comm;
    group->noted_end = &group->noted;
    group->bucket_bytes = bucket_bytes;
    group->ranks = clq_alloc(count, sizeof *group->ranks);
    group->size = group->ranks ? count : 0;
    clq_status status = group->ranks ? make_locks(group) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK)
        *out = group;
    else
        clq_group_destroy(group);
    return status;
}

/* world: the rank's number in messages. */
static clq_status open_rank(clq_group *group, unsigned r, clq_device *device, cl_command_queue callers,
                            unsigned world) {
    clq_group_rank *rank = &group->ranks[r];
    *rank = (clq_group_rank){.group = group, .index = r, .device = device};
    group->runs_in_caller = group->runs_in_caller || clq_device_runs_in_caller(device);
    clq_status status = callers ? clq_queue_wrap(device, callers, &rank->callers_queue) : CLQ_OK;
    if (status == CLQ_OK) status = clq_queue_create(device, 0, &rank->queue);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "rank %u", world);
}

/* The last step: starts the threads if `status` says that all went well so far. On any failure, destroys the group. */
static clq_status start_threads(clq_group *group, clq_status status, clq_group **out) {
    for (unsigned r = 0; r < group->size && status == CLQ_OK; r++)
        status = clq_thread_start("clq-rank", rank_body, &group->ranks[r], &group->ranks[r].thread);
    if (status == CLQ_OK)
        *out = group;
    else
        clq_group_destroy(group);
    return status;
}

clq_status clq_group_create_within(const clq_rank *ranks, unsigned count, const clq_group_config *config,
                                   const clq_build_limit *limit, clq_group **out) {
    if (!ranks || count < 1 || count > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a group has 1 to %d ranks, not %u", CLQ_REPLICAS_MAX, ranks ? count : 0);
    const size_t bucket_bytes = config && config->bucket_bytes ? config->bucket_bytes : default_bucket_bytes;
    clq_shared *shared;
    clq_group *group;
    clq_status status = CLQ_OK;
    CLQ_TRY(clq_shared_create(ranks, count, limit, &shared));
    CLQ_TRY(make_frame(count, shared, NULL, bucket_bytes, &group));
    for (unsigned r = 0; r < count && status == CLQ_OK; r++)
        status = open_rank(group, r, shared->devices[r], ranks[r].queue, r);
    if (status == CLQ_OK) status = clq_comm_create(shared->devices, count, config, &group->comm);
    return start_threads(group, status, out);
}

clq_status clq_group_create(const clq_rank *ranks, unsigned count, const clq_group_config *config, clq_group **out) {
    return clq_group_create_within(ranks, count, config, NULL, out);
}

clq_status clq_group_make_part(const clq_group *group, const unsigned *ranks, unsigned count, clq_group **out) {
    clq_comm *comm;
    clq_group *part;
    clq_status status = CLQ_OK;
    CLQ_TRY(clq_comm_split(group->comm, ranks, count, &comm));
    atomic_fetch_add(&group->shared->groups, 1);
    CLQ_TRY(make_frame(count, group->shared, comm, group->bucket_bytes, &part));
    for (unsigned i = 0; i < count && status == CLQ_OK; i++) {
        const clq_group_rank *rank = &group->ranks[ranks[i]];
        cl_command_queue callers = rank->callers_queue ? clq_queue_handle(rank->callers_queue) : NULL;
        status = open_rank(part, i, rank->device, callers, comm->members[i].world);
    }
    return start_threads(part, status, out);
}

clq_status clq_group_span(clq_group *group, clq_world *world) { return clq_comm_span(group->comm, world); }
unsigned clq_group_first(const clq_group *group) { return clq_comm_first(group->comm); }
unsigned clq_group_total(const clq_group *group) { return clq_comm_total(group->comm); }

static clq_call *take_noted(clq_group *group) {
    clq_call *list = group->noted;
    group->noted = NULL;
    group->noted_end = &group->noted;
    return list;
}

/* Fails the events of calls that will never run. */
static void drop_calls(clq_call *list) {
    while (list) {
        clq_call *call = clq_call_take(&list);
        for (unsigned r = 0; r < call->size; r++) clq_call_complete(call, r, false);
        clq_call_destroy(call);
    }
}

void clq_group_destroy(clq_group *group) {
    if (!group) return;
    drop_calls(take_noted(group));
    if (group->lock_made && group->issued_made) {
        pthread_mutex_lock(&group->lock);
        group->closing = true;
        pthread_cond_broadcast(&group->issued);
        pthread_mutex_unlock(&group->lock);
    }
    for (unsigned r = 0; r < group->size; r++) clq_thread_join(group->ranks[r].thread);
    clq_comm_destroy(group->comm);
    clq_memory_release_all(group);
    for (unsigned r = 0; r < group->size; r++) {
        clq_buffer_destroy(group->ranks[r].bucket);
        clq_queue_destroy(group->ranks[r].queue);
        clq_queue_destroy(group->ranks[r].callers_queue);
    }
    if (group->issued_made) pthread_cond_destroy(&group->issued);
    if (group->idle_made) pthread_cond_destroy(&group->idle);
    if (group->lock_made) pthread_mutex_destroy(&group->lock);
    clq_shared_release(group->shared);
    clq_free(group->ranks);
    clq_free(group);
}

/* ---- issuing ---- */

/* Up to this many bytes over all ranks, the calling thread is done sooner than the ranks' threads, which have to wake
 * first. On two cores, 1 MiB over four ranks takes 37 us in the calling thread, and 99 us if handed over. */
static const size_t alone_bytes = (size_t)4 << 20;

static bool is_idle(clq_group *group) {
    pthread_mutex_lock(&group->lock);
    bool idle = group->finished == group->enlisted;
    pthread_mutex_unlock(&group->lock);
    return idle;
}

/* Whether the calling thread may carry out the call itself if nothing on the ranks' queues is in its way. */
static bool can_run_alone(clq_group *group, const clq_call *call) {
    if (call->bytes > alone_bytes / group->size) return false;
    for (unsigned r = 0; r < group->size; r++)
        if (call->parts[r].wait || !clq_comm_reaches(group->comm, r, &call->parts[r].task)) return false;
    return is_idle(group);
}

/* Marks the ends of the callers' queues. *over: whether the commands before the marks are done, or become done within
 * patience_s. Commands on devices that run in their caller have then run in this thread. */
static clq_status look_at_queues(const clq_group *group, clq_call *call, double patience_s, bool *over) {
    *over = true;
    for (unsigned r = 0; r < group->size; r++) {
        if (!group->ranks[r].callers_queue) continue;
        CLQ_TRY(clq_shared_mark(&group->ranks[r], &call->parts[r].mark));
        const double until = clq_now() + patience_s;
        while (!clq_event_is_over(call->parts[r].mark) && clq_now() < until) continue;
        *over = *over && clq_event_is_over(call->parts[r].mark);
    }
    return CLQ_OK;
}

static clq_status run_alone(clq_group *group, const clq_call *call) {
    clq_task tasks[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < group->size; r++) {
        tasks[r] = call->parts[r].task;
        tasks[r].queue = NULL;
        if (call->parts[r].mark) CLQ_TRY(clq_event_wait(call->parts[r].mark)); /* it is over: returns any failure */
    }
    CLQ_TRY(clq_comm_run_alone(group->comm, tasks));
    for (unsigned r = 0; r < group->size; r++) clq_call_complete(call, r, true);
    return CLQ_OK;
}

static clq_status raise_failure(const clq_group *group) {
    clq_error error;
    return clq_comm_failure(group->comm, &error) == CLQ_OK ? CLQ_OK : clq_error_raise(&error);
}

/* A mark on a device that runs in its caller is over once it was flushed, unless something holds the queue back. */
static bool is_held(const clq_group *group, const clq_call *call) {
    bool held = clq_call_is_held(call);
    for (unsigned r = 0; r < group->size && !held; r++)
        held = call->parts[r].mark && clq_device_runs_in_caller(group->ranks[r].device) &&
               !clq_event_is_over(call->parts[r].mark);
    return held;
}

static void enlist(clq_group *group, clq_call *call) {
    call->held = is_held(group, call);
    pthread_mutex_lock(&group->lock);
    if (group->last) group->last->next = call;
    group->last = call;
    group->enlisted++;
    group->held += call->held;
    for (unsigned r = 0; r < group->size; r++)
        if (!group->ranks[r].next) group->ranks[r].next = call;
    pthread_cond_broadcast(&group->issued);
    pthread_mutex_unlock(&group->lock);
}

/* PoCL's basic device runs commands in the thread that flushes them. It deadlocks (3.1) when the host completes an
 * event that one of its commands waits for. So in a group with such a device, a call's events are complete when the
 * call returns, unless the caller has yet to complete what a call waits for. */
static bool must_finish(clq_group *group) {
    pthread_mutex_lock(&group->lock);
    bool held = group->held > 0;
    pthread_mutex_unlock(&group->lock);
    return group->runs_in_caller && !held;
}

/* Waits until this many of all calls ever issued are done. */
static void wait_until_finished(clq_group *group, size_t calls) {
    pthread_mutex_lock(&group->lock);
    while (group->finished < calls) pthread_cond_wait(&group->idle, &group->lock);
    pthread_mutex_unlock(&group->lock);
}

static void wait_until_idle(clq_group *group) { wait_until_finished(group, group->enlisted); }

/* Issues a call and takes it over. *running: the ranks' threads carry it out; false: it is done already. done: gets the
 * events; may be NULL. On failure the call is still the caller's. */
static clq_status issue_call(clq_group *group, clq_call *call, cl_event *done, bool *running) {
    const double what_threads_take_to_wake_s = 20e-6;
    bool alone = !call->packed && can_run_alone(group, call), over;
    CLQ_TRY(look_at_queues(group, call, alone ? what_threads_take_to_wake_s : 0, &over));
    alone = alone && over;
    CLQ_TRY(alone ? run_alone(group, call) : clq_walk_prepare_all(group->comm, &call->task));
    for (unsigned r = 0; done && r < group->size; r++) done[r] = clq_event_give(call->parts[r].done);
    const bool here = !alone && group->size == 1 && call->blocks && is_idle(group);
    if (here) run_call(&group->ranks[0], call); /* the caller waits anyway: its thread need not wake the rank's */
    *running = !alone && !here;
    if (!*running)
        clq_call_destroy(call);
    else
        enlist(group, call);
    return CLQ_OK;
}

static void note(clq_group *group, clq_call *call, cl_event *done) {
    for (unsigned r = 0; done && r < group->size; r++) done[r] = clq_event_give(call->parts[r].done);
    *group->noted_end = call;
    group->noted_end = &call->next;
}

static clq_status issue_task(clq_group *group, const clq_task *task, const clq_slice *in, const clq_slice *out,
                             const cl_event *waits, cl_event *done) {
    clq_call *call;
    bool running;
    CLQ_TRY(raise_failure(group));
    CLQ_TRY(clq_call_create(group, task, in, out, waits, done != NULL, &call));
    if (group->started) {
        note(group, call, done);
        return CLQ_OK;
    }
    clq_status status = issue_call(group, call, done, &running);
    if (status != CLQ_OK) {
        clq_call_destroy(call);
        return status;
    }
    if (running && (!done || must_finish(group))) wait_until_idle(group);
    return done ? CLQ_OK : raise_failure(group);
}

static clq_status issue(clq_group *group, clq_task task, const clq_slice *in, const clq_slice *out,
                        const cl_event *waits, cl_event *done) {
    clq_status status = issue_task(group, &task, in, out, waits, done);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "%s", clq_collective_name(task.collective));
}

/* ---- calls that are issued together ---- */

static clq_status issue_next(clq_group *group, clq_call **list, bool *running, bool *blocking) {
    clq_call *call;
    if (can_run_alone(group, *list))
        call = clq_call_take(list);
    else
        CLQ_TRY(clq_pack_take(group, list, &call));
    *blocking = call->blocks;
    clq_status status = issue_call(group, call, NULL, running);
    if (status != CLQ_OK) drop_calls(call);
    return status;
}

static clq_status issue_noted(clq_group *group) {
    bool any_running = false;
    size_t wanted = 0; /* number of finished calls once the last call that blocks is done */
    clq_call *list = take_noted(group);
    clq_status status = CLQ_OK;
    while (list && status == CLQ_OK) {
        bool running = false, blocking = false;
        status = issue_next(group, &list, &running, &blocking);
        any_running = any_running || running;
        if (running && blocking) wanted = group->enlisted;
    }
    drop_calls(list);
    wait_until_finished(group, wanted);
    if (any_running && must_finish(group)) wait_until_idle(group);
    return status == CLQ_OK ? raise_failure(group) : status;
}

clq_status clq_group_start(clq_group *group) {
    if (group->started)
        return clq_fail(CLQ_ERROR_STATE, "clq_group_start was called already: call clq_group_end first");
    group->started = true;
    return CLQ_OK;
}

clq_status clq_group_end(clq_group *group) {
    if (!group->started) return clq_fail(CLQ_ERROR_STATE, "clq_group_end comes after clq_group_start");
    group->started = false;
    return issue_noted(group);
}

/* ---- the collectives ---- */

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

/* ---- waiting and telling ---- */

clq_status clq_group_wait(clq_group *group) {
    if (group->started)
        return clq_fail(CLQ_ERROR_STATE, "call clq_group_end first: it issues the calls since clq_group_start");
    wait_until_idle(group);
    return raise_failure(group);
}

void clq_group_abort(clq_group *group) { clq_comm_abort(group->comm, NULL); }

/* The communicator that carries out such a collective. For send/recv: a pair of ranks that has exchanged messages, if
 * there is one. */
static clq_comm *carrier_of(const clq_group *group, clq_collective collective) {
    const clq_comm *comm = group->comm;
    for (size_t i = 0; collective == CLQ_SEND_RECV && i < (size_t)comm->size * comm->size; i++) {
        clq_comm *pair = comm->pairs ? atomic_load(&comm->pairs[i]) : NULL;
        if (pair && pair->size == 2) return pair;
    }
    return group->comm;
}

clq_algorithm clq_group_algorithm(const clq_group *group, clq_collective collective, size_t bytes) {
    if (group->comm->wide) return clq_wide_algorithm(group->comm->wide, collective, bytes);
    return clq_comm_choose(carrier_of(group, collective), collective, bytes);
}

clq_transport clq_group_transport(const clq_group *group, clq_collective collective) {
    clq_comm *comm = carrier_of(group, collective);
    if (clq_comm_is_direct(comm)) return CLQ_TRANSPORT_MAPPED;
    pthread_mutex_lock(&comm->family->lock);
    unsigned links[CLQ_TRANSPORT_COUNT] = {0};
    clq_transport most = CLQ_TRANSPORT_STAGED;
    for (size_t i = 0; comm->links && i < (size_t)comm->size * comm->size; i++)
        if (comm->links[i]) links[clq_link_transport(comm->links[i], comm->chunk_bytes)]++;
    pthread_mutex_unlock(&comm->family->lock);
    for (int t = 0; t < CLQ_TRANSPORT_COUNT; t++)
        if (links[t] > links[most]) most = (clq_transport)t;
    return most;
}

clq_status clq_group_explain(const clq_group *group, char **out) {
    char *text = clq_comm_explain(group->comm);
    char *copy = text ? strdup(text) : NULL; /* the caller frees it with free(), not with clq_free */
    clq_free(text);
    if (!copy) return clq_fail_memory("explaining a group");
    *out = copy;
    return CLQ_OK;
}
