#include "comm/communicator.h"
#include "comm/outer/wide.h"

#include <time.h>

/* How long after a failure a rank waits for its own commands to end, and then as long again for other ranks to let go
 * of its memory. However late a rank comes, it may wait for late_grace_s each time. All ranks were woken, so what they
 * still do takes as long as a copy, unless a device hangs. */
static const double grace_s = 0.4, late_grace_s = 0.05;

/* ---- making and ending ---- */

static clq_status make_members(clq_comm *comm, clq_device *const *devices, const unsigned *worlds) {
    comm->members = clq_alloc_aligned(_Alignof(clq_member), comm->size * sizeof *comm->members);
    if (!comm->members) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < comm->size; r++) {
        clq_member *member = &comm->members[r];
        member->comm = comm;
        member->rank = r;
        member->world = worlds ? worlds[r] : r;
        member->device = devices[r];
    }
    return CLQ_OK;
}

static clq_status make_room_for_pairs(clq_comm *comm) {
    int error = pthread_mutex_init(&comm->pairs_lock, NULL);
    if (error) return clq_fail_lock("a group", error);
    comm->pairs_lock_made = true;
    comm->pairs = clq_alloc((size_t)comm->size * comm->size, sizeof *comm->pairs);
    return comm->pairs ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Makes the ring's links if an algorithm over links may use them: clq_group_explain then tells what they can do. */
static clq_status open_ring(clq_comm *comm) {
    const unsigned n = comm->size;
    const bool rings = comm->algorithm == CLQ_ALGORITHM_AUTO || comm->algorithm == CLQ_ALGORITHM_RING;
    for (unsigned r = 0; rings && n > 1 && r < n; r++) {
        const unsigned next = (r + 1) % n;
        clq_link *link;
        CLQ_TRY(clq_link_create(&comm->members[r], &comm->members[next], &link));
        atomic_store(&comm->links[r * n + next], link);
    }
    return CLQ_OK;
}

static clq_status complete(clq_comm *comm) {
    CLQ_TRY(make_room_for_pairs(comm));
    CLQ_TRY(open_ring(comm));
    for (unsigned r = 0; r < comm->size; r++) CLQ_TRY(clq_walk_build(&comm->members[r], CLQ_F32, CLQ_REDOP_SUM));
    return comm->algorithm == CLQ_ALGORITHM_AUTO && comm->size > 1 ? clq_comm_measure(comm) : CLQ_OK;
}

clq_status clq_comm_make(clq_device *const *devices, const unsigned *worlds, unsigned count,
                         const clq_group_config *config, bool is_pair, clq_comm **out) {
    clq_comm *comm = clq_alloc(1, sizeof *comm);
    if (!comm) return CLQ_ERROR_MEMORY;
    clq_status status;
    comm->size = count;
    if (config) comm->config = *config;
    CLQ_TRY_OR(fail, status, clq_family_create(comm));
    CLQ_TRY_OR(fail, status, make_members(comm, devices, worlds));
    CLQ_TRY_OR(fail, status, clq_barrier_create(count, &comm->barrier));
    CLQ_TRY_OR(fail, status, clq_comm_plan(comm));
    if (!is_pair) CLQ_TRY_OR(fail, status, complete(comm));
    *out = comm;
    return CLQ_OK;
fail:
    clq_comm_destroy(comm);
    return status;
}

clq_status clq_comm_span(clq_comm *comm, clq_world *world) {
    if (comm->wide) return clq_fail(CLQ_ERROR_STATE, "the group spans a world already");
    if (clq_world_size(world) == 1) return CLQ_OK;
    CLQ_TRY(clq_wide_create(comm, world, comm->config.algorithm, &comm->wide));
    /* The ranks wait longer for their leader than the leader for another process, since it knows which one is late. */
    comm->deadline_s += 1 + 0.05 * comm->deadline_s;
    comm->config.deadline_s = comm->deadline_s; /* for pairs, which are made later */
    for (unsigned r = 0; r < comm->size; r++) comm->members[r].world = clq_wide_first(comm->wide) + r;
    return CLQ_OK;
}

clq_status clq_comm_check_spread(const clq_comm *comm, clq_collective collective) {
    return comm->wide ? clq_wide_check_spread(comm->wide, collective) : CLQ_OK;
}

unsigned clq_comm_first(const clq_comm *comm) { return comm->wide ? clq_wide_first(comm->wide) : 0; }
unsigned clq_comm_total(const clq_comm *comm) { return comm->wide ? clq_wide_total(comm->wide) : comm->size; }

clq_status clq_comm_create(clq_device *const *devices, unsigned count, const clq_group_config *config, clq_comm **out) {
    if (count < 1 || count > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a group has 1 to %d ranks, not %u", CLQ_REPLICAS_MAX, count);
    return clq_comm_make(devices, NULL, count, config, false, out);
}

static void end_member(clq_member *member) {
    for (size_t i = 0; i < member->ready_capacity; i++) clq_event_destroy(member->ready[i]);
    clq_event_destroy(member->drained);
    clq_event_destroy(member->copied);
    clq_free(member->ready);
    clq_free(member->aside);
    for (size_t dtype = 0; dtype < CLQ_DTYPE_COUNT; dtype++)
        for (size_t op = 0; op < CLQ_REDOP_COUNT; op++) clq_kernel_destroy(member->combine[dtype][op]);
    clq_queue_destroy(member->up);
    clq_queue_destroy(member->down);
    clq_buffer_destroy(member->passing);
}

void clq_comm_destroy(clq_comm *comm) {
    if (!comm) return;
    clq_wide_destroy(comm->wide);
    for (size_t i = 0; comm->pairs && i < (size_t)comm->size * comm->size; i++) clq_comm_destroy(comm->pairs[i]);
    if (comm->family) clq_family_leave(comm);
    for (size_t i = 0; comm->links && i < (size_t)comm->size * comm->size; i++) clq_link_destroy(comm->links[i]);
    for (unsigned r = 0; comm->members && r < comm->size; r++) end_member(&comm->members[r]);
    clq_barrier_destroy(comm->barrier);
    if (comm->pairs_lock_made) pthread_mutex_destroy(&comm->pairs_lock);
    clq_free(comm->pairs);
    clq_free(comm->links);
    clq_free(comm->members);
    clq_free(comm);
}

/* ---- failing ---- */

/* If the calling thread's failure is the first, it becomes the family's. Otherwise the rank was only told to stop. */
static clq_status fail_as(const clq_member *member, clq_status status) {
    clq_family *family = member->comm->family;
    if (atomic_load(&family->failed)) return clq_family_raise(family);
    if (member->step == 0)
        clq_fail_on(status, member->device, "rank %u, %s", member->world,
                    clq_collective_name(member->work.task.collective));
    else
        clq_fail_on(status, member->device, "rank %u, %s step %u chunk %zu", member->world,
                    clq_collective_name(member->work.task.collective), member->step, member->chunk);
    clq_error mine;
    clq_error_take(status, &mine);
    return clq_family_fail(family, &mine) ? clq_error_raise(&mine) : clq_family_raise(family);
}

bool clq_comm_is_direct(const clq_comm *comm) { return comm->algorithm == CLQ_ALGORITHM_DIRECT && !comm->wide; }

uint64_t clq_comm_busy_ns(const clq_comm *comm) {
    return atomic_load(&comm->members[0].busy_ns) + (comm->wide ? clq_wide_busy_ns(comm->wide) : 0);
}
uint64_t clq_comm_waited_ns(const clq_comm *comm, unsigned rank) { return atomic_load(&comm->members[rank].waited_ns); }

/* ---- waiting ---- */

static clq_status late(const clq_member *member, const char *what) {
    const clq_comm *comm = member->comm;
    size_t mine = atomic_load(&member->meetings);
    for (unsigned r = 0; r < comm->size; r++) {
        if (atomic_load(&comm->members[r].meetings) >= mine) continue;
        return clq_fail(CLQ_ERROR_TIMEOUT, "rank %u on %s did not reach the %s" CLQ_LATE, comm->members[r].world,
                        clq_device_label(comm->members[r].device), what, comm->deadline_s);
    }
    return clq_fail(CLQ_ERROR_TIMEOUT, "the ranks did not meet at the %s" CLQ_LATE, what, comm->deadline_s);
}

/* All ranks meet. what: for the message about a late rank, what that rank did not reach. */
static clq_status meet(clq_member *member, const char *what) {
    atomic_fetch_add(&member->meetings, 1);
    double left = CLQ_MAX(member->until - clq_now_running(), 1e-3);
    clq_status status = clq_barrier_wait(member->comm->barrier, left);
    return status == CLQ_ERROR_TIMEOUT ? late(member, what) : status;
}

void clq_comm_set_patience(clq_comm *comm, double seconds) { clq_barrier_set_patience(comm->barrier, seconds); }

clq_status clq_member_wait(const clq_member *member, clq_event *event) {
    const clq_comm *comm = member->comm;
    clq_status status = clq_event_wait_until(event, member->until, &comm->family->failed);
    if (status != CLQ_ERROR_TIMEOUT) return status;
    return clq_fail(status, "its commands were not done" CLQ_LATE, comm->deadline_s);
}

/* A mark instead of clFinish: a wait for it can be given up, and its status tells if a command failed before it. */
clq_status clq_member_drain(clq_member *member, clq_queue *queue) {
    CLQ_TRY(clq_queue_mark_again(queue, &member->drained));
    return clq_member_wait(member, member->drained);
}

/* ---- a collective from its first meeting to its last ---- */

clq_status clq_task_check(const clq_task *task, unsigned ranks, clq_status fault, size_t *bytes) {
    size_t all;
    if ((unsigned)task->dtype >= CLQ_DTYPE_COUNT)
        return clq_fail(fault, "dtype %d is none of clq_dtype", (int)task->dtype);
    if ((unsigned)task->op >= CLQ_REDOP_COUNT) return clq_fail(fault, "op %d is none of clq_redop", (int)task->op);
    if (clq_collective_reduces(task->collective) && !clq_reduce_find(task->dtype, task->op))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s cannot be reduced", clq_dtype_name(task->dtype));
    if (task->root >= ranks || task->to >= ranks)
        return clq_fail(fault, "rank %u is out of range: the group has %u ranks", CLQ_MAX(task->root, task->to), ranks);
    if (!clq_mul_size(task->count, clq_dtype_bytes(task->dtype), bytes) || !clq_mul_size(*bytes, ranks, &all))
        return clq_fail(fault, "%zu elements are more than can be addressed", task->count);
    return CLQ_OK;
}

static clq_status check_range(const clq_task *task, clq_status fault, const char *what, const clq_buffer *buffer,
                              size_t offset, size_t bytes) {
    if (bytes == 0) return CLQ_OK;
    if (!buffer) return clq_fail(fault, "its %s is NULL", what);
    const size_t element = clq_dtype_bytes(task->dtype), has = clq_buffer_bytes(buffer);
    if (offset % element != 0)
        return clq_fail(fault, "%s: offset %zu is no multiple of an element's %zu bytes", what, offset, element);
    if (offset > has || bytes > has - offset)
        return clq_fail(fault, "%s: %zu bytes from offset %zu do not fit in a memory object of %zu", what, bytes,
                        offset, has);
    return CLQ_OK;
}

clq_status clq_task_check_ranges(const clq_task *task, clq_status fault, size_t in_bytes, size_t out_bytes) {
    CLQ_TRY(check_range(task, fault, "input", task->in, task->in_offset, in_bytes));
    return check_range(task, fault, "output", task->out, task->out_offset, out_bytes);
}

/* Fills in what follows from the task for this rank. */
static clq_status take_work(const clq_member *member, clq_work *work) {
    const unsigned ranks = member->comm->size, rank = member->rank;
    const clq_task *call = &work->task;
    if (call->collective == CLQ_BARRIER) return CLQ_OK;
    CLQ_TRY(clq_task_check(call, ranks, CLQ_ERROR_INTERNAL, &work->bytes));
    work->in_bytes = clq_collective_in_bytes(call->collective, ranks, rank, call->root, work->bytes);
    work->out_bytes = clq_collective_out_bytes(call->collective, ranks, rank, call->root, call->to, work->bytes);
    work->algorithm = clq_comm_choose(member->comm, call->collective, work->bytes);
    return clq_task_check_ranges(call, CLQ_ERROR_INTERNAL, work->in_bytes, work->out_bytes);
}

/* The number of a rank in messages. A number that is no rank stays as it is. */
static unsigned world_of(const clq_comm *comm, unsigned rank) {
    return rank < comm->size ? comm->members[rank].world : rank;
}

/* Ranks that do different things would wait for each other in vain or mix up their data. */
static clq_status check_agreement(const clq_member *member) {
    const clq_comm *comm = member->comm;
    const clq_task *mine = &member->work.task;
    for (unsigned r = 0; r < comm->size; r++) {
        const clq_task *other = &comm->members[r].work.task;
        if (other->collective == mine->collective && other->count == mine->count && other->dtype == mine->dtype &&
            other->op == mine->op && other->root == mine->root && other->to == mine->to)
            continue;
        return clq_fail(CLQ_ERROR_INTERNAL,
                        "collective mismatch: rank %u called %s of %zu %s (op %s, root %u, to %u), rank %u called %s "
                        "of %zu %s (op %s, root %u, to %u)",
                        member->world, clq_collective_name(mine->collective), mine->count, clq_dtype_name(mine->dtype),
                        clq_redop_name(mine->op), world_of(comm, mine->root), world_of(comm, mine->to),
                        comm->members[r].world, clq_collective_name(other->collective), other->count,
                        clq_dtype_name(other->dtype), clq_redop_name(other->op), world_of(comm, other->root),
                        world_of(comm, other->to));
    }
    return CLQ_OK;
}

/* Takes a task up to the point at which the rank's memory may be touched, as far as no other rank is needed. */
static clq_status take_task(clq_member *member, const clq_task *task) {
    member->work = (clq_work){.task = *task};
    member->step = 0;
    atomic_store_explicit(&member->taken, 0, memory_order_relaxed); /* other ranks use it only inside a collective */
    member->until = clq_now_running() + member->comm->deadline_s;
    CLQ_TRY(take_work(member, &member->work));
    return task->queue ? clq_member_drain(member, task->queue) : CLQ_OK;
}

static clq_status begin(clq_member *member, const clq_task *call) {
    CLQ_TRY(take_task(member, call));
    if (member->comm->size > 1 && member->work.bytes > 0)
        CLQ_TRY(member->work.algorithm == CLQ_ALGORITHM_DIRECT ? clq_member_map(member) : clq_walk_prepare(member));
    const double arrived = clq_now();
    CLQ_TRY(meet(member, clq_collective_name(call->collective)));
    member->begun = clq_now();
    atomic_fetch_add(&member->waited_ns, (uint64_t)((member->begun - arrived) * 1e9));
    return check_agreement(member);
}

/* Waits for what the rank has enqueued, which should not outlive the call, but only for the grace time. */
static void settle(const clq_member *member) {
    clq_queue *queues[] = {member->up, member->down, member->work.task.queue};
    double until = CLQ_MAX(member->comm->family->failed_at + grace_s, clq_now_running() + late_grace_s);
    for (size_t i = 0; i < CLQ_COUNT_OF(queues); i++) {
        clq_event *mark;
        if (!queues[i] || clq_queue_mark(queues[i], &mark) != CLQ_OK) continue;
        clq_event_wait_until(mark, until, NULL);
        clq_event_destroy(mark);
    }
}

/* Naps instead of yielding: on a crowded machine a yield lasts until all other threads have had their turns, and nobody
 * looks at `inside` meanwhile. */
static void wait_until_all_left(const clq_comm *comm) {
    const struct timespec nap = {.tv_nsec = 200000};
    double until = CLQ_MAX(comm->family->failed_at + 2 * grace_s, clq_now_running() + late_grace_s);
    while (atomic_load(&comm->inside) != 0 && clq_now_running() < until) nanosleep(&nap, NULL);
}

/* A rank may return, and its caller free its memory, only when no other rank can touch that memory any more: on success
 * after all have met once more, on failure after all who were inside have left. */
static clq_status end(clq_member *member, clq_status status) {
    clq_comm *comm = member->comm;
    if (status == CLQ_OK) {
        member->step = 0;
        status = meet(member, "end of the collective");
    }
    if (status != CLQ_OK) {
        status = fail_as(member, status);
        clq_error mine;
        clq_error_take(status, &mine);
        settle(member);
        atomic_fetch_sub(&comm->inside, 1);
        wait_until_all_left(comm);
        clq_member_unmap(member);
        return clq_error_raise(&mine);
    }
    atomic_fetch_sub(&comm->inside, 1);
    atomic_fetch_add(&member->busy_ns, (uint64_t)((clq_now() - member->begun) * 1e9));
    status = clq_member_unmap(member);
    return status == CLQ_OK ? CLQ_OK : fail_as(member, status);
}

/* ---- the collectives ---- */

/* A communicator with one rank: the result is a copy of the input. */
static clq_status copy_alone(clq_member *member) {
    const clq_task *call = &member->work.task;
    if (clq_buffer_handle(call->in) == clq_buffer_handle(call->out) && call->in_offset == call->out_offset)
        return CLQ_OK;
    CLQ_TRY(clq_queue_copy(call->queue, call->in, call->in_offset, call->out, call->out_offset, member->work.bytes));
    return clq_member_drain(member, call->queue);
}

/* Does the rank's part, between the two meetings. */
static clq_status do_part(clq_member *member) {
    const clq_task *call = &member->work.task;
    if (call->between) {
        CLQ_TRY(call->between(call->context));
        return call->queue ? clq_member_drain(member, call->queue) : CLQ_OK;
    }
    if (member->work.bytes == 0) return CLQ_OK;
    if (member->comm->size == 1) return copy_alone(member);
    if (member->work.algorithm == CLQ_ALGORITHM_DIRECT) return clq_direct_run(member->comm, member->rank);
    return clq_walk(member);
}

/* A collective of all ranks of the communicator. */
static clq_status run_together(clq_comm *comm, unsigned rank, const clq_task *call) {
    clq_member *member = &comm->members[rank];
    atomic_fetch_add(&comm->inside, 1);
    if (atomic_load(&comm->family->failed)) { /* this rank has begun nothing, so it waits for nothing */
        atomic_fetch_sub(&comm->inside, 1);
        return clq_family_raise(comm->family);
    }
    clq_status status = begin(member, call);
    if (status == CLQ_OK) status = do_part(member);
    return end(member, status);
}

/* The sender and the receiver meet in a communicator of their own; no other rank has a part in it. */
static clq_status run_pair(clq_comm *comm, unsigned rank, const clq_task *call) {
    clq_member *member = &comm->members[rank];
    clq_comm *pair;
    clq_task there;
    if (atomic_load(&comm->family->failed)) return clq_family_raise(comm->family);
    if (rank != call->root && rank != call->to) return CLQ_OK;
    clq_status status = clq_comm_route(comm, call, &pair, &there);
    if (status == CLQ_OK) return run_together(pair, rank == call->root ? there.root : there.to, &there);
    member->work = (clq_work){.task = *call};
    member->step = 0;
    return fail_as(member, status);
}

clq_status clq_comm_run(clq_comm *comm, unsigned rank, const clq_task *call) {
    return comm->wide ? clq_wide_run(comm->wide, rank, call) : clq_comm_run_here(comm, rank, call);
}

clq_status clq_comm_run_here(clq_comm *comm, unsigned rank, const clq_task *call) {
    if (rank >= comm->size)
        return clq_fail(CLQ_ERROR_INTERNAL, "rank %u is out of range: the group has %u ranks", rank, comm->size);
    return call->collective == CLQ_SEND_RECV ? run_pair(comm, rank, call) : run_together(comm, rank, call);
}

bool clq_comm_reaches(const clq_comm *comm, unsigned rank, const clq_task *task) {
    clq_work work = {.task = *task};
    if (!clq_comm_is_direct(comm) || task->collective == CLQ_BARRIER) return false;
    if (take_work(&comm->members[rank], &work) != CLQ_OK) return false;
    return (work.in_bytes == 0 || clq_buffer_host(task->in)) && (work.out_bytes == 0 || clq_buffer_host(task->out));
}

clq_status clq_comm_run_alone(clq_comm *comm, const clq_task *tasks) {
    if (atomic_load(&comm->family->failed)) return clq_family_raise(comm->family);
    for (unsigned r = 0; r < comm->size; r++) {
        clq_status status = take_task(&comm->members[r], &tasks[r]);
        if (status == CLQ_OK) status = clq_member_map(&comm->members[r]);
        if (status != CLQ_OK) return fail_as(&comm->members[r], status);
    }
    for (unsigned r = 0; r < comm->size && comm->members[r].work.bytes > 0; r++)
        if (clq_direct_run(comm, r) != CLQ_OK) return clq_family_raise(comm->family);
    return CLQ_OK;
}

clq_status clq_comm_all_reduce(clq_comm *comm, unsigned rank, clq_queue *queue, clq_buffer *in, size_t in_offset,
                               clq_buffer *out, size_t out_offset, size_t count, clq_dtype dtype) {
    const clq_task call = {.collective = CLQ_ALL_REDUCE,
                           .queue = queue,
                           .in = in,
                           .out = out,
                           .in_offset = in_offset,
                           .out_offset = out_offset,
                           .count = count,
                           .dtype = dtype};
    return clq_comm_run(comm, rank, &call);
}

clq_status clq_comm_broadcast(clq_comm *comm, unsigned rank, clq_queue *queue, clq_buffer *data, size_t offset,
                              size_t bytes, unsigned root) {
    const clq_task call = {.collective = CLQ_BROADCAST,
                           .queue = queue,
                           .in = data,
                           .out = data,
                           .in_offset = offset,
                           .out_offset = offset,
                           .count = bytes,
                           .dtype = CLQ_U8,
                           .root = root};
    return clq_comm_run(comm, rank, &call);
}
