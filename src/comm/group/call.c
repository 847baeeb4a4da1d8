/* A group's call: how it is checked when it is issued, and what it holds. */
#include "comm/group/group.h"

/* ---- slices ---- */

/* If clq_group_alloc made this memory object, takes its buffer, which the host may be able to reach without mapping.
 * Otherwise wraps the memory object in a new buffer. */
static clq_status take_memory(const clq_group *group, unsigned rank, cl_mem memory, clq_buffer **out,
                              clq_group_memory **is) {
    clq_group_memory *own = clq_memory_find(group, rank, memory);
    if (own) {
        *out = own->buffer;
        *is = own;
        return CLQ_OK;
    }
    CLQ_TRY(clq_buffer_wrap(group->ranks[rank].device, memory, out));
    if (clq_buffer_host_may_use(*out) || group->comm->transport == CLQ_TRANSPORT_PEER) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "rank %u: a memory object was made with a CL_MEM_HOST_ flag: the host has to read and write it",
                    rank);
}

static size_t in_bytes_of(const clq_call *call, unsigned rank) {
    return clq_collective_in_bytes(call->task.collective, call->total, call->first + rank, call->task.root,
                                   call->bytes);
}
static size_t out_bytes_of(const clq_call *call, unsigned rank) {
    return clq_collective_out_bytes(call->task.collective, call->total, call->first + rank, call->task.root,
                                    call->task.to, call->bytes);
}

static clq_status take_slices(const clq_group *group, unsigned rank, const clq_slice *in, const clq_slice *out,
                              clq_call *call) {
    clq_part *part = &call->parts[rank];
    clq_task *task = &part->task;
    size_t in_bytes = in_bytes_of(call, rank), out_bytes = out_bytes_of(call, rank);
    if ((in_bytes > 0 && !in->memory) || (out_bytes > 0 && !out->memory))
        return clq_fail(CLQ_ERROR_ARGUMENT, "rank %u: a slice has no memory object", rank);
    if (in_bytes > 0) {
        CLQ_TRY(take_memory(group, rank, in->memory, &task->in, &part->in_is));
        task->in_offset = in->offset;
    }
    if (out_bytes > 0) {
        if (task->in && out->memory == in->memory)
            task->out = task->in, part->out_is = part->in_is;
        else
            CLQ_TRY(take_memory(group, rank, out->memory, &task->out, &part->out_is));
        task->out_offset = out->offset;
    }
    clq_status status = clq_task_check_ranges(task, CLQ_ERROR_ARGUMENT, in_bytes, out_bytes);
    return status == CLQ_OK ? CLQ_OK : clq_fail_within(status, "rank %u", rank);
}

static bool overlap(const clq_buffer *a, size_t a_begin, size_t a_bytes, const clq_buffer *b, size_t b_begin,
                    size_t b_bytes) {
    return a && b && clq_buffers_overlap(a, a_begin, a_bytes, b, b_begin, b_bytes);
}

/* Whether the call is in place for this rank: input and output are in one memory object, and the result is written over
 * the data that it is made of. */
static bool is_in_place(const clq_call *call, unsigned rank) {
    const clq_task *task = &call->parts[rank].task;
    if (clq_buffer_handle(task->in) != clq_buffer_handle(task->out)) return false;
    switch (task->collective) {
    case CLQ_REDUCE_SCATTER: return task->out_offset == task->in_offset + (call->first + rank) * call->bytes;
    case CLQ_ALL_GATHER: return task->in_offset == task->out_offset + (call->first + rank) * call->bytes;
    default: return task->in_offset == task->out_offset;
    }
}

/* No rank may use what another rank writes. A rank's own input and output must be in place or apart. */
static clq_status check_overlaps(const clq_call *call) {
    for (unsigned r = 0; r < call->size; r++) {
        const clq_task *mine = &call->parts[r].task;
        size_t out_bytes = out_bytes_of(call, r);
        for (unsigned other = 0; other < call->size; other++) {
            const clq_task *its = &call->parts[other].task;
            bool own = r == other;
            if (overlap(its->in, its->in_offset, in_bytes_of(call, other), mine->out, mine->out_offset, out_bytes) &&
                !(own && is_in_place(call, r)))
                return clq_fail(CLQ_ERROR_ARGUMENT, "the input of rank %u overlaps the output of rank %u", other, r);
            if (!own &&
                overlap(its->out, its->out_offset, out_bytes_of(call, other), mine->out, mine->out_offset, out_bytes))
                return clq_fail(CLQ_ERROR_ARGUMENT, "the outputs of ranks %u and %u overlap", other, r);
        }
    }
    return CLQ_OK;
}

/* ---- making and ending ---- */

static clq_status fill_call(const clq_group *group, const clq_slice *in, const clq_slice *out, clq_call *call) {
    if (call->task.collective == CLQ_BARRIER) return CLQ_OK;
    if (!in || !out) return clq_fail(CLQ_ERROR_ARGUMENT, "the arrays of slices are NULL");
    bool pair = call->task.collective == CLQ_SEND_RECV; /* `in` and `out` are one slice each, not one per rank */
    for (unsigned r = 0; r < group->size; r++)
        CLQ_TRY(take_slices(group, r, pair ? in : &in[r], pair ? out : &out[r], call));
    return check_overlaps(call);
}

/* Adds the event that the rank waits for, and the event that it completes. */
static clq_status add_events(const clq_group_rank *rank, clq_part *part, const cl_event *waits, bool wants_done) {
    if (waits && waits[rank->index]) CLQ_TRY(clq_event_wrap(rank->device, waits[rank->index], &part->wait));
    return wants_done ? clq_event_create(rank->device, &part->done) : CLQ_OK;
}

clq_status clq_call_create(const clq_group *group, const clq_task *task, const clq_slice *in, const clq_slice *out,
                           const cl_event *waits, bool wants_done, clq_call **result) {
    size_t bytes;
    CLQ_TRY(clq_task_check(task, clq_comm_total(group->comm), CLQ_ERROR_ARGUMENT, &bytes));
    CLQ_TRY(clq_comm_check_spread(group->comm, task->collective));
    clq_call *call = clq_alloc(1, sizeof *call + group->size * sizeof call->parts[0]);
    if (!call) return CLQ_ERROR_MEMORY;
    call->task = *task;
    call->bytes = bytes;
    call->size = call->running = group->size;
    call->first = clq_comm_first(group->comm);
    call->total = clq_comm_total(group->comm);
    call->blocks = !wants_done;
    for (unsigned r = 0; r < group->size; r++) {
        call->parts[r].task = *task;
        call->parts[r].task.queue = group->ranks[r].queue;
    }
    clq_status status = fill_call(group, in, out, call);
    for (unsigned r = 0; r < group->size && status == CLQ_OK; r++)
        status = add_events(&group->ranks[r], &call->parts[r], waits, wants_done);
    if (status == CLQ_OK)
        *result = call;
    else
        clq_call_destroy(call);
    return status;
}

void clq_call_complete(const clq_call *call, unsigned rank, bool ok) {
    for (const clq_call *member = call->packed; member; member = member->next) clq_call_complete(member, rank, ok);
    clq_event *done = call->parts[rank].done;
    if (done && clq_event_complete(done, ok) != CLQ_OK) clq_log(CLQ_LOG_ERROR, "%s", clq_error_detail());
}

void clq_call_destroy(clq_call *call) {
    if (!call) return;
    const bool in_bucket = call->packed != NULL;
    while (call->packed) clq_call_destroy(clq_call_take(&call->packed));
    for (unsigned r = 0; r < call->size; r++) {
        clq_part *part = &call->parts[r];
        if (!in_bucket && part->task.out != part->task.in && !part->out_is) clq_buffer_destroy(part->task.out);
        if (!in_bucket && !part->in_is) clq_buffer_destroy(part->task.in);
        if (part->out_is != part->in_is) clq_memory_release(part->out_is);
        clq_memory_release(part->in_is);
        clq_event_destroy(part->wait);
        clq_event_destroy(part->mark);
        clq_event_destroy(part->done);
    }
    clq_free(call);
}

bool clq_call_is_held(const clq_call *call) {
    for (const clq_call *member = call->packed; member; member = member->next)
        if (clq_call_is_held(member)) return true;
    for (unsigned r = 0; r < call->size; r++) {
        const clq_event *wait = call->parts[r].wait;
        if (wait && clq_event_is_hosts(wait) && !clq_event_is_over(wait)) return true;
    }
    return false;
}
