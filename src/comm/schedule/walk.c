/* Walks carry out schedules over links. A range goes in chunks of at most a slot. All ranks walk through the same
 * sequence of items (round, chunk), even if they have nothing to do in an item. A rank sends an item, then receives the
 * item that is `ahead` items earlier, so that transfers out and in overlap.
 *
 * There is no deadlock. A send waits for the receive of an item at least `slots` > `ahead` before its own; a receive
 * waits for the send of its own item. Both come earlier in the common sequence. A chunk that is forwarded was received
 * at least `ahead` + 1 items before: round by round that is `chunks` items before; chunk by chunk it is one item
 * before, and `ahead` is 0. */
#include "comm/communicator.h"
#include "comm/outer/wide.h"

#include <string.h>

typedef struct walk {
    clq_member *member;
    const clq_comm *comm;
    clq_schedule schedule;
    unsigned phase;
    size_t chunks;   /* of the phase's longest range */
    clq_event *sent; /* event of the current item's send; NULL: none */
} walk;

static void make_schedule(const clq_comm *comm, const clq_work *work, clq_schedule *out) {
    const clq_task *call = &work->task;
    clq_schedule_make(work->algorithm, call->collective, comm->size, call->root, call->to, work->bytes, &comm->islands,
                      out);
}

/* ---- before all meet ---- */

static clq_status prepare_link(clq_member *member, const clq_hop *hop) {
    clq_comm *comm = member->comm;
    _Atomic(clq_link *) *place = &comm->links[member->rank * comm->size + hop->to];
    clq_link *link = atomic_load(place);
    if (!link) {
        CLQ_TRY(clq_link_create(member, &comm->members[hop->to], &link));
        pthread_mutex_lock(&comm->family->lock); /* a rank that fails meanwhile wakes all links that there are */
        atomic_store(place, link);
        pthread_mutex_unlock(&comm->family->lock);
    }
    return hop->exchanged ? clq_link_prepare_exchange(link) : CLQ_OK;
}

static clq_status prepare_links(clq_member *member, const clq_schedule *schedule) {
    for (unsigned p = 0; p < schedule->phases; p++)
        for (unsigned round = 0; round < schedule->phase[p].rounds; round++) {
            clq_hop hop = clq_schedule_hop(schedule, p, member->rank, round);
            clq_status status = hop.sent.bytes > 0 ? prepare_link(member, &hop) : CLQ_OK;
            if (status != CLQ_OK)
                return clq_fail_within(status, "the link to rank %u", member->comm->members[hop.to].world);
        }
    return CLQ_OK;
}

/* The bytes of the longest range of all phases. */
static size_t most_bytes(const clq_schedule *schedule) {
    size_t most = 0;
    for (unsigned p = 0; p < schedule->phases; p++) most = CLQ_MAX(most, schedule->phase[p].most_bytes);
    return most;
}

static clq_status prepare_ready(clq_member *member, const clq_schedule *schedule) {
    const size_t chunks = CLQ_MAX(clq_ceil_div(most_bytes(schedule), member->comm->chunk_bytes), (size_t)1);
    if (chunks <= member->ready_capacity) return CLQ_OK;
    clq_event **ready = clq_realloc(member->ready, member->ready_capacity, chunks, sizeof *ready);
    if (!ready) return CLQ_ERROR_MEMORY;
    member->ready = ready;
    member->ready_capacity = chunks;
    return CLQ_OK;
}

/* Makes the work memory, and gets the host's pointers to all memory that is touched. */
static clq_status prepare_hosted(clq_member *member, size_t work_bytes) {
    if (work_bytes > member->aside_bytes) {
        clq_free(member->aside);
        member->aside_bytes = 0;
        member->aside = clq_alloc_aligned(CLQ_PART_ALIGN, work_bytes);
        if (!member->aside) return CLQ_ERROR_MEMORY;
        member->aside_bytes = work_bytes;
    }
    return clq_member_map(member);
}

clq_status clq_walk_build(clq_member *member, clq_dtype dtype, clq_redop op) {
    clq_kernel **kernel = &member->combine[dtype][op];
    if (member->comm->size == 1 || member->hosted || *kernel) return CLQ_OK;
    return clq_combine_create(member->device, dtype, op, kernel);
}

clq_status clq_walk_prepare_here(clq_comm *comm, const clq_task *asked) {
    clq_task task;
    CLQ_TRY(clq_comm_route(comm, asked, &comm, &task));
    const size_t bytes = task.count * clq_dtype_bytes(task.dtype);
    const clq_algorithm algorithm = clq_comm_choose(comm, task.collective, bytes);
    if (comm->size == 1 || algorithm == CLQ_ALGORITHM_DIRECT || task.collective == CLQ_BARRIER || task.count == 0)
        return CLQ_OK;
    const clq_work work = {.task = task, .algorithm = algorithm, .bytes = bytes};
    clq_schedule schedule;
    make_schedule(comm, &work, &schedule);
    for (unsigned r = 0; r < comm->size; r++) {
        clq_member *member = &comm->members[r];
        clq_status status = prepare_links(member, &schedule);
        if (status == CLQ_OK && clq_collective_reduces(task.collective))
            status = clq_walk_build(member, task.dtype, task.op);
        if (status != CLQ_OK) return clq_fail_on(status, member->device, "rank %u", member->world);
    }
    return CLQ_OK;
}

clq_status clq_walk_prepare_all(clq_comm *comm, const clq_task *task) {
    return comm->wide ? clq_wide_prepare(comm->wide, task) : clq_walk_prepare_here(comm, task);
}

static clq_status prepare_commands(clq_member *member, const clq_schedule *schedule) {
    const clq_task *task = &member->work.task;
    if (clq_collective_reduces(task->collective)) CLQ_TRY(clq_walk_build(member, task->dtype, task->op));
    if (schedule->work_bytes > 0 && (!member->passing || clq_buffer_bytes(member->passing) < schedule->work_bytes)) {
        clq_buffer_destroy(member->passing);
        member->passing = NULL;
        CLQ_TRY(clq_buffer_create(member->device, CLQ_MEMORY_DEVICE, schedule->work_bytes, "partial sums",
                                  &member->passing));
    }
    return prepare_ready(member, schedule);
}

clq_status clq_walk_prepare(clq_member *member) {
    clq_schedule schedule;
    make_schedule(member->comm, &member->work, &schedule);
    CLQ_TRY(member->hosted ? prepare_hosted(member, schedule.work_bytes) : prepare_commands(member, &schedule));
    return prepare_links(member, &schedule);
}

/* ---- items ---- */

static clq_spot spot_of(const clq_member *member, clq_place place, size_t offset) {
    const clq_work *work = &member->work;
    const clq_task *call = &work->task;
    clq_spot spot = {member->aside, {member->passing, 0}};
    if (place == CLQ_PLACE_IN) spot = (clq_spot){work->in_host, {call->in, call->in_offset}};
    if (place == CLQ_PLACE_OUT) spot = (clq_spot){work->out_host, {call->out, call->out_offset}};
    if (member->hosted)
        spot.host += offset;
    else
        spot.place.offset += offset;
    return spot;
}

/* *out: where a range's chunk is. Returns its bytes; 0: the range has no such chunk. */
static size_t chunk_of(const walk *w, clq_range range, size_t chunk, clq_spot *out) {
    const size_t skipped = chunk * w->comm->chunk_bytes;
    if (skipped >= range.bytes) return 0;
    *out = spot_of(w->member, range.place, range.begin + skipped);
    return CLQ_MIN(w->comm->chunk_bytes, range.bytes - skipped);
}

/* What the rank does in the item, and with which chunk. Notes the step for error messages. */
static clq_hop at_item(const walk *w, size_t item, size_t *chunk) {
    const clq_phase *phase = &w->schedule.phase[w->phase];
    const unsigned round = (unsigned)(phase->by_chunk ? item % phase->rounds : item / w->chunks);
    *chunk = phase->by_chunk ? item / phase->rounds : item % w->chunks;
    w->member->step = round + 1;
    w->member->chunk = *chunk;
    return clq_schedule_hop(&w->schedule, w->phase, w->member->rank, round);
}

static clq_status send_item(walk *w, size_t item) {
    size_t chunk;
    const clq_hop hop = at_item(w, item, &chunk);
    clq_departure leaves = {.exchanged = hop.exchanged};
    leaves.bytes = chunk_of(w, hop.sent, chunk, &leaves.from);
    w->sent = NULL;
    if (leaves.bytes == 0) return CLQ_OK;
    if (hop.forwarded && !w->member->hosted) leaves.after = w->member->ready[chunk];
    return clq_link_send(w->comm->links[w->member->rank * w->comm->size + hop.to], &leaves, &w->sent);
}

static clq_status receive_item(walk *w, size_t item) {
    size_t chunk;
    const clq_hop hop = at_item(w, item, &chunk);
    clq_arrival arrives = {.combined = hop.reduced, .last = hop.last, .came_first = hop.came_first};
    arrives.bytes = chunk_of(w, hop.received, chunk, &arrives.to);
    if (arrives.bytes == 0) return CLQ_OK;
    if (hop.reduced) chunk_of(w, hop.operand, chunk, &arrives.operand);
    if (hop.exchanged) arrives.after = w->sent;
    clq_event **ready = w->member->hosted ? NULL : &w->member->ready[chunk];
    return clq_link_receive(w->comm->links[hop.from * w->comm->size + w->member->rank], &arrives, ready);
}

static clq_status walk_phase(walk *w) {
    const clq_phase *phase = &w->schedule.phase[w->phase];
    w->chunks = clq_ceil_div(phase->most_bytes, w->comm->chunk_bytes);
    size_t ahead = phase->by_chunk ? 0 : CLQ_MIN(w->comm->slots, w->chunks) - 1, items = phase->rounds * w->chunks;
    for (size_t i = 0; i < items + ahead; i++) {
        if (i < items) CLQ_TRY(send_item(w, i));
        if (i >= ahead) CLQ_TRY(receive_item(w, i - ahead));
    }
    return w->member->hosted ? CLQ_OK : clq_member_drain_lanes(w->member);
}

/* Copies the rank's own part from in to out. */
static clq_status copy_own(const walk *w) {
    clq_member *member = w->member;
    const clq_task *call = &member->work.task;
    clq_range own = clq_schedule_own(&w->schedule, call->collective, member->rank);
    if (own.bytes == 0) return CLQ_OK;
    size_t to = call->out_offset + own.begin;
    if (clq_buffer_handle(call->in) == clq_buffer_handle(call->out) && call->in_offset == to) return CLQ_OK;
    if (!member->hosted) {
        const clq_order order = {.done = &member->copied};
        CLQ_TRY(clq_queue_copy_after(call->queue, call->in, call->in_offset, call->out, to, own.bytes, &order));
        return clq_member_enqueued(member, CLQ_LANE_OWN, member->copied);
    }
    memcpy(member->work.out_host + own.begin, member->work.in_host, own.bytes);
    return CLQ_OK;
}

/* Up to this size one queue is faster than three: what they save by working at the same time is less than their
 * hand-overs cost. 512 KiB take 20 us over PCIe at 25 GB/s; an event that another queue waits for takes 5 to 10 us. */
static const size_t one_queue_bytes = (size_t)512 << 10;

clq_status clq_walk(clq_member *member) {
    walk w = {.member = member, .comm = member->comm};
    make_schedule(w.comm, &member->work, &w.schedule);
    if (!member->hosted) clq_member_open_lanes(member, most_bytes(&w.schedule) <= one_queue_bytes);
    CLQ_TRY(copy_own(&w));
    for (w.phase = 0; w.phase < w.schedule.phases; w.phase++) CLQ_TRY(walk_phase(&w));
    return CLQ_OK;
}
