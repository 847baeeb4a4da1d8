#include "comm/crew.h"

#include <sched.h>

/* After a failure, how long a rank waits for its own commands to end, and as long again for others to let go of its
 * memory. All have been woken: what they still do is a matter of a copy, unless a device hangs. */
static const double grace_s = 0.4;

static const char *const collective_name[] = {
    [CLQ_BARRIER] = "barrier", [CLQ_ALL_REDUCE] = "all-reduce", [CLQ_BROADCAST] = "broadcast"};

size_t clq_part_begin(unsigned part, unsigned parts, size_t bytes) {
    size_t size = clq_round_up(clq_ceil_div(bytes, parts), CLQ_PART_ALIGN);
    return CLQ_MIN(bytes, part * size);
}

/* ---- making and ending ---- */

clq_status clq_crew_create(clq_device *const *devices, unsigned count, const clq_group_config *config, clq_crew **out) {
    if (count < 1 || count > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ARGUMENT, "a group has 1 to %d ranks, not %u", CLQ_REPLICAS_MAX, count);
    clq_crew *crew = clq_alloc(1, sizeof *crew);
    if (!crew) return CLQ_MEMORY;
    clq_status status = CLQ_MEMORY;
    crew->size = count;
    crew->members = clq_alloc_aligned(_Alignof(clq_member), count * sizeof *crew->members);
    if (!crew->members) goto fail;
    for (unsigned r = 0; r < count; r++) crew->members[r].device = devices[r];
    if (pthread_mutex_init(&crew->lock, NULL) != 0) {
        status = clq_fail(CLQ_SYSTEM, "cannot create a lock");
        goto fail;
    }
    crew->lock_made = true;
    CLQ_TRY_OR(fail, status, clq_barrier_create(count, &crew->barrier));
    CLQ_TRY_OR(fail, status, clq_crew_plan(crew, config));
    *out = crew;
    return CLQ_OK;
fail:
    clq_crew_destroy(crew);
    return status;
}

static void end_member(clq_member *member) {
    for (size_t i = 0; i < member->ready_capacity; i++) clq_event_destroy(member->ready[i]);
    clq_free(member->ready);
    clq_kernel_destroy(member->add);
    clq_queue_destroy(member->up);
    clq_queue_destroy(member->down);
    clq_buffer_destroy(member->scratch);
}

void clq_crew_destroy(clq_crew *crew) {
    if (!crew) return;
    for (unsigned r = 0; crew->links && r < crew->size; r++) clq_link_close(&crew->links[r]);
    for (unsigned r = 0; crew->members && r < crew->size; r++) end_member(&crew->members[r]);
    clq_barrier_destroy(crew->barrier);
    if (crew->lock_made) pthread_mutex_destroy(&crew->lock);
    clq_free(crew->links);
    clq_free(crew->members);
    clq_free(crew);
}

unsigned clq_crew_size(const clq_crew *crew) { return crew->size; }

/* ---- failing ---- */

/* Whether `why` is the first failure; then all who wait are woken. */
static bool latch_failure(clq_crew *crew, const clq_error *why) {
    pthread_mutex_lock(&crew->lock);
    bool first = !atomic_load(&crew->failed);
    if (first) {
        crew->failure = *why;
        atomic_store(&crew->failed, true);
    }
    pthread_mutex_unlock(&crew->lock);
    if (!first) return false;
    clq_barrier_abort(crew->barrier);
    for (unsigned r = 0; crew->links && r < crew->size; r++) {
        clq_gate_wake(&crew->links[r].filled);
        clq_gate_wake(&crew->links[r].freed);
    }
    return true;
}

void clq_crew_abort(clq_crew *crew, const clq_error *why) {
    const clq_error unnamed = {CLQ_ABORTED, "the group was aborted by its owner"};
    latch_failure(crew, why ? why : &unnamed);
}

clq_status clq_crew_failure(const clq_crew *crew, clq_error *out) {
    if (!atomic_load(&crew->failed)) return CLQ_OK;
    if (out) *out = crew->failure;
    return crew->failure.status;
}

/* What a rank reports that did not fail itself. */
static clq_status raise_aborted(const clq_crew *crew) { return clq_fail(CLQ_ABORTED, "%s", crew->failure.detail); }

/* The calling thread's failure becomes the crew's, if it is the first; else the rank was only told to stop. */
static clq_status fail_as(clq_crew *crew, unsigned rank, clq_status status) {
    const clq_member *member = &crew->members[rank];
    if (atomic_load(&crew->failed)) return raise_aborted(crew);
    if (member->step == 0)
        clq_fail_on(status, member->device, "rank %u, %s", rank, collective_name[member->call.collective]);
    else
        clq_fail_on(status, member->device, "rank %u, %s step %u chunk %zu", rank,
                    collective_name[member->call.collective], member->step, member->chunk);
    clq_error mine;
    clq_error_take(status, &mine);
    return latch_failure(crew, &mine) ? clq_error_raise(&mine) : raise_aborted(crew);
}

bool clq_crew_is_direct(const clq_crew *crew) { return crew->algorithm == CLQ_ALGORITHM_DIRECT; }

uint64_t clq_crew_busy_ns(const clq_crew *crew) { return atomic_load(&crew->members[0].busy_ns); }

/* ---- waiting ---- */

static clq_status late(clq_crew *crew, unsigned rank, const char *what) {
    size_t mine = atomic_load(&crew->members[rank].meetings);
    for (unsigned r = 0; r < crew->size; r++) {
        if (atomic_load(&crew->members[r].meetings) >= mine) continue;
        return clq_fail(CLQ_TIMEOUT, "rank %u on %s did not reach the %s within %g s", r,
                        clq_device_label(crew->members[r].device), what, crew->deadline_s);
    }
    return clq_fail(CLQ_TIMEOUT, "the ranks did not meet at the %s within %g s", what, crew->deadline_s);
}

clq_status clq_crew_meet(clq_crew *crew, unsigned rank, const char *what) {
    clq_member *member = &crew->members[rank];
    atomic_fetch_add(&member->meetings, 1);
    double left = CLQ_MAX(member->until - clq_now(), 1e-3);
    clq_status status = clq_barrier_wait(crew->barrier, left);
    return status == CLQ_TIMEOUT ? late(crew, rank, what) : status;
}

clq_status clq_member_wait(clq_crew *crew, unsigned rank, clq_event *event) {
    clq_status status = clq_event_wait_until(event, crew->members[rank].until, &crew->failed);
    if (status == CLQ_TIMEOUT) return clq_fail(CLQ_TIMEOUT, "its commands were not done within %g s", crew->deadline_s);
    return status;
}

clq_status clq_member_order(clq_crew *crew, unsigned rank, clq_queue *queue, clq_event *event) {
    if (clq_device_runs_in_caller(clq_queue_device(queue))) return clq_member_wait(crew, rank, event);
    return clq_queue_wait(queue, event);
}

/* A mark rather than a finish: it can be given up, and its status tells of a command that failed before it. */
clq_status clq_member_drain(clq_crew *crew, unsigned rank, clq_queue *queue) {
    clq_event *mark;
    CLQ_TRY(clq_queue_mark(queue, &mark));
    clq_status status = clq_member_wait(crew, rank, mark);
    clq_event_destroy(mark);
    return status;
}

/* ---- a collective from its first meeting to its last ---- */

static clq_status check_call(const clq_call *call) {
    if (call->collective == CLQ_BARRIER) return CLQ_OK;
    if (call->collective == CLQ_ALL_REDUCE && call->dtype != CLQ_F32)
        return clq_fail(CLQ_UNSUPPORTED, "it adds f32 only, not %s", clq_dtype_name(call->dtype));
    const clq_buffer *buffers[2] = {call->in, call->out};
    const size_t offsets[2] = {call->in_offset, call->out_offset}, element = clq_dtype_bytes(call->dtype);
    for (int i = 0; i < 2; i++) {
        size_t has = clq_buffer_bytes(buffers[i]);
        if (offsets[i] % element != 0)
            return clq_fail(CLQ_ARGUMENT, "offset %zu is no multiple of an element's %zu bytes", offsets[i], element);
        if (offsets[i] > has || call->bytes > has - offsets[i])
            return clq_fail(CLQ_ARGUMENT, "%zu bytes from offset %zu do not fit in a buffer of %zu bytes", call->bytes,
                            offsets[i], has);
    }
    return CLQ_OK;
}

/* Ranks that do different things would wait for each other in vain or mix up their data. */
static clq_status check_agreement(const clq_crew *crew, unsigned rank) {
    const clq_call *mine = &crew->members[rank].call;
    for (unsigned r = 0; r < crew->size; r++) {
        const clq_call *other = &crew->members[r].call;
        if (other->collective == mine->collective && other->bytes == mine->bytes && other->dtype == mine->dtype &&
            other->root == mine->root)
            continue;
        return clq_fail(CLQ_STATE, "it came for %s of %zu bytes (root %u), rank %u for %s of %zu bytes (root %u)",
                        collective_name[mine->collective], mine->bytes, mine->root, r,
                        collective_name[other->collective], other->bytes, other->root);
    }
    return CLQ_OK;
}

clq_status clq_crew_begin(clq_crew *crew, unsigned rank, const clq_call *call) {
    clq_member *member = &crew->members[rank];
    member->call = *call;
    member->step = 0;
    member->in_is_mapped = member->out_is_mapped = false;
    member->until = clq_now() + crew->deadline_s;
    atomic_fetch_add(&crew->inside, 1);
    if (atomic_load(&crew->failed)) return CLQ_ABORTED;
    CLQ_TRY(check_call(&member->call));
    if (call->queue) CLQ_TRY(clq_member_drain(crew, rank, call->queue));
    if (crew->algorithm == CLQ_ALGORITHM_DIRECT) CLQ_TRY(clq_direct_acquire(crew, rank));
    CLQ_TRY(clq_crew_meet(crew, rank, collective_name[call->collective]));
    member->begun = clq_now();
    return check_agreement(crew, rank);
}

/* What the rank has enqueued must not outlive the call, where that can be had. */
static void settle(const clq_member *member) {
    clq_queue *queues[] = {member->up, member->down, member->call.queue};
    double until = clq_now() + grace_s;
    for (size_t i = 0; i < CLQ_COUNT_OF(queues); i++) {
        clq_event *mark;
        if (!queues[i] || clq_queue_mark(queues[i], &mark) != CLQ_OK) continue;
        clq_event_wait_until(mark, until, NULL);
        clq_event_destroy(mark);
    }
}

static void wait_until_all_left(const clq_crew *crew) {
    double until = clq_now() + grace_s;
    while (atomic_load(&crew->inside) != 0 && clq_now() < until) sched_yield();
}

/* A rank may return, and its caller free its memory, only when nobody can touch that memory any more: on success
 * because all met once more, on failure because all who were inside have left. */
clq_status clq_crew_end(clq_crew *crew, unsigned rank, clq_status status) {
    clq_member *member = &crew->members[rank];
    if (status == CLQ_OK) {
        member->step = 0;
        status = clq_crew_meet(crew, rank, "end of the collective");
    }
    if (status != CLQ_OK) {
        status = fail_as(crew, rank, status);
        clq_error mine;
        clq_error_take(status, &mine);
        settle(member);
        atomic_fetch_sub(&crew->inside, 1);
        wait_until_all_left(crew);
        clq_direct_release(crew, rank);
        return clq_error_raise(&mine);
    }
    atomic_fetch_sub(&crew->inside, 1);
    atomic_fetch_add(&member->busy_ns, (uint64_t)((clq_now() - member->begun) * 1e9));
    status = clq_direct_release(crew, rank);
    return status == CLQ_OK ? CLQ_OK : fail_as(crew, rank, status);
}

/* ---- the collectives ---- */

/* The result of one rank is its input. */
static clq_status copy_alone(clq_crew *crew, const clq_call *call) {
    if (clq_buffer_handle(call->in) == clq_buffer_handle(call->out) && call->in_offset == call->out_offset)
        return CLQ_OK;
    CLQ_TRY(clq_queue_copy(call->queue, call->in, call->in_offset, call->out, call->out_offset, call->bytes));
    return clq_member_drain(crew, 0, call->queue);
}

static clq_status check_rank(const clq_crew *crew, unsigned rank) {
    if (rank < crew->size) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "rank %u of a group of %u ranks", rank, crew->size);
}

clq_status clq_crew_all_reduce(clq_crew *crew, unsigned rank, clq_queue *queue, clq_buffer *in, size_t in_offset,
                               clq_buffer *out, size_t out_offset, size_t count, clq_dtype dtype) {
    CLQ_TRY(check_rank(crew, rank));
    clq_call call = {.collective = CLQ_ALL_REDUCE,
                     .queue = queue,
                     .in = in,
                     .in_offset = in_offset,
                     .out = out,
                     .out_offset = out_offset,
                     .dtype = dtype};
    if (!clq_mul_size(count, sizeof(float), &call.bytes)) call.bytes = SIZE_MAX; /* fits in no buffer */
    clq_status status = clq_crew_begin(crew, rank, &call);
    if (status == CLQ_OK && call.bytes > 0) {
        if (crew->size == 1)
            status = copy_alone(crew, &crew->members[0].call);
        else if (crew->algorithm == CLQ_ALGORITHM_DIRECT)
            clq_direct_all_reduce(crew, rank);
        else
            status = clq_ring_all_reduce(crew, rank);
    }
    return clq_crew_end(crew, rank, status);
}

clq_status clq_crew_broadcast(clq_crew *crew, unsigned rank, clq_queue *queue, clq_buffer *data, size_t offset,
                              size_t bytes, unsigned root) {
    CLQ_TRY(check_rank(crew, rank));
    clq_call call = {.collective = CLQ_BROADCAST,
                     .queue = queue,
                     .in = data,
                     .in_offset = offset,
                     .out = data,
                     .out_offset = offset,
                     .bytes = bytes,
                     .dtype = CLQ_U8,
                     .root = root};
    clq_status status = clq_crew_begin(crew, rank, &call);
    if (status == CLQ_OK && root >= crew->size)
        status = clq_fail(CLQ_ARGUMENT, "root %u of a group of %u ranks", root, crew->size);
    if (status == CLQ_OK && bytes > 0 && crew->size > 1) {
        if (crew->algorithm == CLQ_ALGORITHM_DIRECT)
            clq_direct_broadcast(crew, rank);
        else
            status = clq_ring_broadcast(crew, rank);
    }
    return clq_crew_end(crew, rank, status);
}

clq_status clq_crew_barrier(clq_crew *crew, unsigned rank) {
    CLQ_TRY(check_rank(crew, rank));
    return clq_crew_end(crew, rank, clq_crew_begin(crew, rank, &(clq_call){.collective = CLQ_BARRIER}));
}
