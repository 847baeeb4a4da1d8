/* Walks carry out schedules on devices. A range goes in chunks of at most a slot. All ranks walk through one sequence
 * of items (round, chunk), whatever they have to do in it; an item is sent `ahead` items before the one that is
 * received then, so that transfers out and in overlap. Nobody waits in a circle: a send waits for the receive of an
 * item at least `slots` > `ahead` before its own, a receive for the send of its own item, and both come earlier in a
 * sequence that is common to all. What is forwarded was received at least `ahead` + 1 items before: round by round that
 * is `chunks` items, chunk by chunk it is one, and `ahead` is 0. */
#include "comm/crew.h"

#include <string.h>

typedef struct walk {
    clq_crew *crew;
    clq_member *member;
    unsigned rank, phase, rounds;
    clq_schedule schedule;
    bool by_chunk;
    size_t chunks; /* of the phase's longest range */
    clq_kernel *kernel;
    clq_event *sent;             /* of the item that is being walked through */
    clq_reduce_function *reduce; /* hosted: of the last addition */
    clq_redop sum;               /* of those before it */
} walk;

static void make_schedule(const clq_crew *crew, const clq_work *work, clq_schedule *out) {
    const clq_task *call = &work->task;
    clq_schedule_make(work->algorithm, call->collective, crew->size, call->root, call->to, work->bytes, &crew->islands,
                      out);
}

/* ---- before all meet ---- */

static clq_status prepare_links(clq_crew *crew, unsigned rank, const clq_schedule *schedule) {
    for (unsigned p = 0; p < schedule->phases; p++)
        for (unsigned round = 0; round < schedule->phase[p].rounds; round++) {
            clq_hop step = clq_schedule_hop(schedule, p, rank, round);
            if (!step.sends || crew->links[rank * crew->size + step.to]) continue;
            clq_link *link;
            clq_status status = clq_link_create(crew, rank, step.to, &link);
            if (status != CLQ_OK) return clq_fail_within(status, "the link to rank %u", step.to);
            pthread_mutex_lock(&crew->lock); /* who fails meanwhile wakes all links that there are */
            crew->links[rank * crew->size + step.to] = link;
            pthread_mutex_unlock(&crew->lock);
        }
    return CLQ_OK;
}

static clq_status prepare_ready(clq_crew *crew, clq_member *member, const clq_schedule *schedule) {
    size_t chunks = 1;
    for (unsigned p = 0; p < schedule->phases; p++)
        chunks = CLQ_MAX(chunks, clq_ceil_div(schedule->phase[p].most_bytes, crew->chunk_bytes));
    if (chunks <= member->ready_capacity) return CLQ_OK;
    clq_event **ready = clq_realloc(member->ready, member->ready_capacity, chunks, sizeof *ready);
    if (!ready) return CLQ_MEMORY;
    member->ready = ready;
    member->ready_capacity = chunks;
    return CLQ_OK;
}

/* Hosted: the host's pointers to all that is touched, and a chunk to put aside. */
static clq_status prepare_hosted(clq_crew *crew, unsigned rank, const clq_schedule *schedule) {
    clq_member *member = &crew->members[rank];
    size_t bytes = clq_round_up(schedule->work_bytes, CLQ_PART_ALIGN) + crew->chunk_bytes;
    if (bytes > member->aside_bytes) {
        clq_free(member->aside);
        member->aside_bytes = 0;
        member->aside = clq_alloc_aligned(CLQ_PART_ALIGN, bytes);
        if (!member->aside) return CLQ_MEMORY;
        member->aside_bytes = bytes;
    }
    CLQ_TRY(clq_direct_acquire(crew, rank));
    return prepare_links(crew, rank, schedule);
}

clq_status clq_walk_prepare(clq_crew *crew, unsigned rank) {
    clq_member *member = &crew->members[rank];
    const clq_work *work = &member->work;
    clq_schedule schedule;
    make_schedule(crew, work, &schedule);
    clq_kernel **kernel = &member->combine[work->task.dtype][work->task.op];
    if (work->hosted) return prepare_hosted(crew, rank, &schedule);
    if (clq_collective_reduces(work->task.collective) && !*kernel)
        CLQ_TRY(clq_combine_create(member->device, work->task.dtype, work->task.op, kernel));
    if (schedule.work_bytes > 0 && (!member->passing || clq_buffer_bytes(member->passing) < schedule.work_bytes)) {
        clq_buffer_destroy(member->passing);
        member->passing = NULL;
        CLQ_TRY(clq_buffer_create(member->device, CLQ_MEMORY_DEVICE, schedule.work_bytes, "partial sums",
                                  &member->passing));
    }
    CLQ_TRY(prepare_ready(crew, member, &schedule));
    return prepare_links(crew, rank, &schedule);
}

/* ---- items ---- */

static clq_place_at place_of(const clq_member *member, clq_place place, size_t offset) {
    const clq_task *call = &member->work.task;
    switch (place) {
    case CLQ_PLACE_IN: return (clq_place_at){call->in, call->in_offset + offset};
    case CLQ_PLACE_OUT: return (clq_place_at){call->out, call->out_offset + offset};
    default: return (clq_place_at){member->passing, offset};
    }
}

/* Where an item's chunk begins within a range, and its bytes; 0: the range has no such chunk. */
static size_t chunk_of(const walk *w, clq_range range, size_t chunk, size_t *begin) {
    size_t skipped = chunk * w->crew->chunk_bytes;
    if (skipped >= range.bytes) return 0;
    *begin = range.begin + skipped;
    return CLQ_MIN(w->crew->chunk_bytes, range.bytes - skipped);
}

static void at_item(const walk *w, size_t item, unsigned *round, size_t *chunk) {
    *round = (unsigned)(w->by_chunk ? item % w->rounds : item / w->chunks);
    *chunk = w->by_chunk ? item / w->rounds : item % w->chunks;
    w->member->step = *round + 1;
    w->member->chunk = *chunk;
}

static clq_status send_item(walk *w, size_t item) {
    unsigned round;
    size_t chunk, begin = 0, lands_begin = 0;
    at_item(w, item, &round, &chunk);
    w->sent = NULL;
    clq_hop step = clq_schedule_hop(&w->schedule, w->phase, w->rank, round);
    size_t bytes = step.sends ? chunk_of(w, step.sent, chunk, &begin) : 0;
    if (bytes == 0) return CLQ_OK;
    clq_hop other = clq_schedule_hop(&w->schedule, w->phase, step.to, round);
    clq_place_at lands = {0};
    if (!other.reduced) {
        chunk_of(w, other.received, chunk, &lands_begin);
        lands = place_of(&w->crew->members[step.to], other.received.place, lands_begin);
    }
    return clq_link_send(w->crew, w->crew->links[w->rank * w->crew->size + step.to],
                         place_of(w->member, step.sent.place, begin), bytes, lands,
                         step.forwarded ? w->member->ready[chunk] : NULL, &w->sent);
}

static clq_status receive_item(walk *w, size_t item) {
    unsigned round;
    size_t chunk, begin = 0, operand_begin = 0;
    at_item(w, item, &round, &chunk);
    clq_hop step = clq_schedule_hop(&w->schedule, w->phase, w->rank, round);
    size_t bytes = step.receives ? chunk_of(w, step.received, chunk, &begin) : 0;
    if (bytes == 0) return CLQ_OK;
    clq_place_at operand = {0};
    if (step.reduced) {
        chunk_of(w, step.operand, chunk, &operand_begin);
        operand = place_of(w->member, step.operand.place, operand_begin);
    }
    bool average = step.last && w->member->work.task.op == CLQ_AVG;
    clq_event *done;
    CLQ_TRY(clq_link_receive(w->crew, w->crew->links[step.from * w->crew->size + w->rank],
                             place_of(w->member, step.received.place, begin), operand, w->kernel,
                             average ? w->crew->size : 0, bytes, step.exchanged ? w->sent : NULL, &done));
    clq_event_destroy(w->member->ready[chunk]);
    w->member->ready[chunk] = done;
    return CLQ_OK;
}

/* ---- items, hosted: the receiver reads the sender's memory ---- */

static char *host_of(const clq_member *member, clq_place place, size_t offset) {
    switch (place) {
    case CLQ_PLACE_IN: return member->work.in_host + offset;
    case CLQ_PLACE_OUT: return member->work.out_host + offset;
    default: return member->aside + offset;
    }
}

static clq_status offer_item(walk *w, size_t item) {
    unsigned round;
    size_t chunk, begin;
    at_item(w, item, &round, &chunk);
    clq_hop hop = clq_schedule_hop(&w->schedule, w->phase, w->rank, round);
    if (!hop.sends || chunk_of(w, hop.sent, chunk, &begin) == 0) return CLQ_OK;
    clq_link *link = w->crew->links[w->rank * w->crew->size + hop.to];
    clq_gate_raise(&link->filled, ++link->sent);
    return CLQ_OK;
}

static clq_status wait_for(walk *w, clq_gate *gate, size_t count, unsigned other) {
    clq_status status = clq_gate_wait(gate, count, w->member->until, &w->crew->failed);
    if (status != CLQ_TIMEOUT) return status;
    return clq_fail(CLQ_TIMEOUT, "rank %u on %s did not come to its chunk within %g s", other,
                    clq_device_label(w->crew->members[other].device), w->crew->deadline_s);
}

static clq_status fetch_item(walk *w, size_t item) {
    unsigned round, n = w->crew->size;
    size_t chunk, begin = 0, from_begin = 0, operand_begin = 0;
    at_item(w, item, &round, &chunk);
    clq_hop hop = clq_schedule_hop(&w->schedule, w->phase, w->rank, round);
    size_t bytes = hop.receives ? chunk_of(w, hop.received, chunk, &begin) : 0;
    if (bytes == 0) return CLQ_OK;
    clq_hop other = clq_schedule_hop(&w->schedule, w->phase, hop.from, round);
    clq_link *link = w->crew->links[hop.from * n + w->rank];
    CLQ_TRY(wait_for(w, &link->filled, link->received + 1, hop.from));
    chunk_of(w, other.sent, chunk, &from_begin);
    const char *from = host_of(&w->crew->members[hop.from], other.sent.place, from_begin);
    char *to = host_of(w->member, hop.received.place, begin);
    if (hop.exchanged) { /* each puts the other's aside before it writes over its own */
        char *aside = w->member->aside + w->member->aside_bytes - w->crew->chunk_bytes;
        memcpy(aside, from, bytes);
        from = aside;
        clq_gate_raise(&link->freed, ++link->received);
        clq_link *back = w->crew->links[w->rank * n + hop.from];
        CLQ_TRY(wait_for(w, &back->freed, back->sent, hop.from));
    }
    if (hop.reduced) {
        chunk_of(w, hop.operand, chunk, &operand_begin);
        const size_t count = bytes / clq_dtype_bytes(w->member->work.task.dtype);
        clq_reduce_function *reduce = hop.last ? w->reduce : clq_reduce_find(w->member->work.task.dtype, w->sum);
        reduce((const void *[]){host_of(w->member, hop.operand.place, operand_begin), from}, 2, (void *[]){to}, 1, 0,
               count, n);
    } else {
        memcpy(to, from, bytes);
    }
    if (!hop.exchanged) clq_gate_raise(&link->freed, ++link->received);
    return CLQ_OK;
}

static clq_status walk_phase_hosted(walk *w) {
    for (size_t i = 0; i < w->rounds * w->chunks; i++) {
        CLQ_TRY(offer_item(w, i));
        CLQ_TRY(fetch_item(w, i));
    }
    return CLQ_OK;
}

/* The rank's own queues have nothing left to do; what it sent was taken. */
static clq_status drain_all(const walk *w) {
    CLQ_TRY(clq_member_drain(w->crew, w->rank, w->member->up));
    CLQ_TRY(clq_member_drain(w->crew, w->rank, w->member->down));
    return clq_member_drain(w->crew, w->rank, w->member->work.task.queue);
}

static clq_status walk_phase(walk *w) {
    const clq_phase *phase = &w->schedule.phase[w->phase];
    w->by_chunk = phase->by_chunk;
    w->rounds = phase->rounds;
    w->chunks = clq_ceil_div(phase->most_bytes, w->crew->chunk_bytes);
    if (w->member->work.hosted) return walk_phase_hosted(w);
    size_t ahead = w->by_chunk ? 0 : CLQ_MIN(w->crew->slots, w->chunks) - 1, items = w->rounds * w->chunks;
    for (size_t i = 0; i < items + ahead; i++) {
        if (i < items) CLQ_TRY(send_item(w, i));
        if (i >= ahead) CLQ_TRY(receive_item(w, i - ahead));
    }
    return drain_all(w);
}

clq_status clq_walk(clq_crew *crew, unsigned rank) {
    clq_member *member = &crew->members[rank];
    const clq_task *call = &member->work.task;
    walk w = {.crew = crew, .member = member, .rank = rank, .kernel = member->combine[call->dtype][call->op]};
    w.reduce = clq_reduce_find(call->dtype, call->op);
    w.sum = call->op == CLQ_AVG ? CLQ_SUM : call->op;
    make_schedule(crew, &member->work, &w.schedule);
    clq_range own = clq_schedule_own(&w.schedule, call->collective, rank);
    clq_place_at to = place_of(member, CLQ_PLACE_OUT, own.begin);
    bool in_place =
        own.bytes > 0 && clq_buffer_handle(call->in) == clq_buffer_handle(call->out) && call->in_offset == to.offset;
    if (own.bytes > 0 && !in_place && member->work.hosted)
        memcpy(member->work.out_host + own.begin, member->work.in_host, own.bytes);
    else if (own.bytes > 0 && !in_place)
        CLQ_TRY(clq_queue_copy(call->queue, call->in, call->in_offset, call->out, to.offset, own.bytes));
    for (w.phase = 0; w.phase < w.schedule.phases; w.phase++) CLQ_TRY(walk_phase(&w));
    return CLQ_OK;
}
