/* Packs: small all-reduces that follow one another between clq_group_start and clq_group_end travel as one message, so
 * that the fixed cost of a collective is paid once. On each rank, their inputs are copied into a bucket, the bucket is
 * reduced in place, and their outputs are copied out of it. That takes 2 S bytes more through each device's memory. */
#include "comm/group/group.h"

#include <string.h>

static size_t room_of(const clq_call *call) { return clq_round_up(call->bytes, CLQ_PART_ALIGN); }

static bool may_travel(const clq_group *group, const clq_call *call) {
    /* All processes would have to pack the same calls, but what holds a call back may differ between them. */
    const bool spans = clq_comm_total(group->comm) > group->size;
    return group->size > 1 && !spans && call->task.collective == CLQ_ALL_REDUCE && call->bytes > 0 &&
           room_of(call) <= group->bucket_bytes;
}

/* A limit, since every call that may join a pack is compared with each of its members. */
enum { MEMBERS_MOST = 256 };

static bool uses(const clq_buffer *a, size_t a_begin, size_t a_bytes, const clq_task *b, size_t b_bytes, bool written) {
    return clq_buffers_overlap(a, a_begin, a_bytes, b->out, b->out_offset, b_bytes) ||
           (written && clq_buffers_overlap(a, a_begin, a_bytes, b->in, b->in_offset, b_bytes));
}

static bool waits_for(const clq_part *part, const clq_call *earlier) {
    for (unsigned r = 0; part->wait && r < earlier->size; r++) {
        const clq_event *done = earlier->parts[r].done;
        if (done && clq_event_handle(done) == clq_event_handle(part->wait)) return true;
    }
    return false;
}

/* Whether `later` needs the result of `earlier`, or overwrites what `earlier` uses: the two cannot travel together.
 * Ranks may share memory, so all ranks are compared. */
static bool depends(const clq_call *later, const clq_call *earlier) {
    for (unsigned r = 0; r < later->size; r++) {
        const clq_task *mine = &later->parts[r].task;
        if (waits_for(&later->parts[r], earlier)) return true;
        for (unsigned other = 0; other < earlier->size; other++) {
            const clq_task *its = &earlier->parts[other].task;
            if (uses(mine->in, mine->in_offset, later->bytes, its, earlier->bytes, false) ||
                uses(mine->out, mine->out_offset, later->bytes, its, earlier->bytes, true))
                return true;
        }
    }
    return false;
}

/* How many of the list's first calls travel together, and in how many bytes. A call that the caller holds back may
 * begin a pack. It may not join one, where it would hold back the others. */
static size_t count_members(const clq_group *group, const clq_call *list, size_t *bytes) {
    size_t count = 0;
    *bytes = 0;
    for (const clq_call *call = list; call && count < MEMBERS_MOST; call = call->next, count++) {
        bool alike = call->task.dtype == list->task.dtype && call->task.op == list->task.op;
        if (!alike || !may_travel(group, call) || room_of(call) > group->bucket_bytes - *bytes) break;
        if (count > 0 && clq_call_is_held(call)) break;
        for (const clq_call *before = list; before != call; before = before->next)
            if (depends(call, before)) return count;
        *bytes += room_of(call);
    }
    return count;
}

static clq_status make_buckets(clq_group *group) {
    for (unsigned r = 0; r < group->size; r++)
        if (!group->ranks[r].bucket)
            CLQ_TRY(clq_buffer_create(group->ranks[r].device, CLQ_MEMORY_DEVICE, group->bucket_bytes,
                                      "a bucket of small messages", &group->ranks[r].bucket));
    return CLQ_OK;
}

clq_status clq_pack_take(clq_group *group, clq_call **list, clq_call **out) {
    size_t bytes, count = count_members(group, *list, &bytes);
    if (count < 2) {
        *out = clq_call_take(list);
        return CLQ_OK;
    }
    CLQ_TRY(make_buckets(group));
    clq_call *pack = clq_alloc(1, sizeof *pack + group->size * sizeof pack->parts[0]);
    if (!pack) return CLQ_ERROR_MEMORY;
    pack->task = (*list)->task;
    pack->task.count = bytes / clq_dtype_bytes(pack->task.dtype);
    pack->bytes = bytes;
    pack->size = pack->running = group->size;
    pack->total = group->size;
    for (unsigned r = 0; r < group->size; r++) {
        clq_task *task = &pack->parts[r].task;
        *task = pack->task;
        task->queue = group->ranks[r].queue;
        task->in = task->out = group->ranks[r].bucket;
    }
    clq_call **end = &pack->packed;
    for (size_t at = 0; count > 0; count--) {
        clq_call *member = clq_call_take(list);
        member->at = at;
        pack->blocks = pack->blocks || member->blocks;
        at += room_of(member);
        *end = member;
        end = &member->next;
    }
    *out = pack;
    return CLQ_OK;
}

/* Whether the rank copies by itself: it is hosted, and the host can reach the buffer and the bucket. */
static bool sees(const clq_group_rank *rank, const clq_buffer *buffer) {
    return rank->group->comm->members[rank->index].hosted && clq_buffer_host(buffer) && clq_buffer_host(rank->bucket);
}

clq_status clq_pack_fill(const clq_group_rank *rank, const clq_call *pack) {
    for (const clq_call *member = pack->packed; member; member = member->next) {
        const clq_task *task = &member->parts[rank->index].task;
        if (sees(rank, task->in))
            memcpy((char *)clq_buffer_host(rank->bucket) + member->at,
                   (const char *)clq_buffer_host(task->in) + task->in_offset, member->bytes);
        else
            CLQ_TRY(clq_queue_copy(rank->queue, task->in, task->in_offset, rank->bucket, member->at, member->bytes));
    }
    return CLQ_OK;
}

clq_status clq_pack_empty(const clq_group_rank *rank, const clq_call *pack) {
    bool enqueued = false;
    for (const clq_call *member = pack->packed; member; member = member->next) {
        const clq_task *task = &member->parts[rank->index].task;
        if (sees(rank, task->out)) {
            memcpy((char *)clq_buffer_host(task->out) + task->out_offset,
                   (const char *)clq_buffer_host(rank->bucket) + member->at, member->bytes);
        } else {
            CLQ_TRY(clq_queue_copy(rank->queue, rank->bucket, member->at, task->out, task->out_offset, member->bytes));
            enqueued = true;
        }
    }
    return enqueued ? clq_member_drain(&rank->group->comm->members[rank->index], rank->queue) : CLQ_OK;
}
