/* Ring: rank r sends to r + 1 only, and receives from r - 1. The buffer is cut into n parts by rank.
 *
 * All-reduce = reduce-scatter + all-gather: 2 (n - 1) steps, in each of which a rank sends one part and receives one:
 * 2 (n - 1) / n S bytes out of and into every device, the least there can be. In step s rank r sends part r - s and
 * receives part r - s - 1 (modulo n). In the first n - 1 steps it adds what it receives to its own; part p thus
 * starts at rank p and is summed in the order p, p + 1, …, p - 1: fixed, so the bits are. The sum is complete in one
 * place and is only copied from there on, so all ranks have the same bits.
 *
 * A part goes in chunks of at most a slot. All ranks walk through one sequence of items (step, chunk); an item is sent
 * `ahead` items before the one that is received then, so that transfers out and in overlap. Nobody waits in a circle: a
 * send waits for the receive of an item at least `slots` > `ahead` before its own, a receive for the send of its own
 * item, and both come earlier in a sequence that is common to all. What is sent in a step was received one step, that
 * is `chunks` > `ahead` items, before. */
#include "comm/crew.h"

/* The sequence of one collective as one rank sees it. */
typedef struct ring {
    clq_crew *crew;
    unsigned rank;
    clq_link *next, *previous; /* links to the next rank and from the previous one */
    size_t chunks;             /* of the largest part */
    size_t ahead;
} ring;

static clq_status ring_start(clq_crew *crew, unsigned rank, size_t part_bytes, ring *out) {
    clq_member *member = &crew->members[rank];
    unsigned n = crew->size;
    size_t chunks = clq_ceil_div(part_bytes, crew->chunk_bytes);
    if (chunks > member->ready_capacity) {
        clq_event **ready = clq_realloc(member->ready, member->ready_capacity, chunks, sizeof *ready);
        if (!ready) return CLQ_MEMORY;
        member->ready = ready;
        member->ready_capacity = chunks;
    }
    *out = (ring){
        crew, rank, &crew->links[rank], &crew->links[(rank + n - 1) % n], chunks, CLQ_MIN(crew->slots, chunks) - 1};
    return CLQ_OK;
}

/* The rank's own queues have nothing left to do; what it sent was taken. */
static clq_status ring_finish(const ring *w) {
    const clq_member *member = &w->crew->members[w->rank];
    CLQ_TRY(clq_member_drain(w->crew, w->rank, member->up));
    CLQ_TRY(clq_member_drain(w->crew, w->rank, member->down));
    return clq_member_drain(w->crew, w->rank, member->call.queue);
}

/* The range of a chunk within the message; false where the part has no such chunk. */
static bool chunk_range(const ring *w, size_t part_begin, size_t part_end, size_t chunk, size_t *offset,
                        size_t *bytes) {
    size_t begin = part_begin + chunk * w->crew->chunk_bytes;
    if (begin >= part_end) return false;
    *offset = begin;
    *bytes = CLQ_MIN(w->crew->chunk_bytes, part_end - begin);
    return true;
}

static void at_item(const ring *w, size_t item) {
    clq_member *member = &w->crew->members[w->rank];
    member->step = (unsigned)(item / w->chunks) + 1;
    member->chunk = item % w->chunks;
}

static void keep_ready(const ring *w, size_t chunk, clq_event *event) {
    clq_event **ready = &w->crew->members[w->rank].ready[chunk];
    clq_event_destroy(*ready);
    *ready = event;
}

/* The part of an all-reduce that `rank` sends in an item's step. */
static bool all_reduce_range(const ring *w, unsigned rank, size_t item, size_t *offset, size_t *bytes) {
    unsigned n = w->crew->size, step = (unsigned)(item / w->chunks);
    unsigned part = (rank + 2 * n - step) % n;
    size_t total = w->crew->members[w->rank].call.bytes;
    return chunk_range(w, clq_part_begin(part, n, total), clq_part_begin(part + 1, n, total), item % w->chunks, offset,
                       bytes);
}

static clq_status all_reduce_send(const ring *w, size_t item) {
    size_t offset, bytes, step = item / w->chunks;
    at_item(w, item);
    if (!all_reduce_range(w, w->rank, item, &offset, &bytes)) return CLQ_OK;
    clq_event *after = step == 0 ? NULL : w->crew->members[w->rank].ready[item % w->chunks];
    return clq_link_send(w->crew, w->next, step > 0, offset, bytes, step + 1 < w->crew->size, after);
}

static clq_status all_reduce_receive(const ring *w, size_t item) {
    size_t offset, bytes, step = item / w->chunks;
    unsigned n = w->crew->size;
    at_item(w, item);
    if (!all_reduce_range(w, (w->rank + n - 1) % n, item, &offset, &bytes)) return CLQ_OK;
    clq_event *done;
    CLQ_TRY(clq_link_receive(w->crew, w->previous, offset, bytes, step + 1 < n, &done));
    keep_ready(w, item % w->chunks, done);
    return CLQ_OK;
}

clq_status clq_ring_all_reduce(clq_crew *crew, unsigned rank) {
    ring w;
    CLQ_TRY(ring_start(crew, rank, clq_part_begin(1, crew->size, crew->members[rank].call.bytes), &w));
    size_t items = 2 * (size_t)(crew->size - 1) * w.chunks;
    for (size_t i = 0; i < items + w.ahead; i++) {
        if (i < items) CLQ_TRY(all_reduce_send(&w, i));
        if (i >= w.ahead) CLQ_TRY(all_reduce_receive(&w, i - w.ahead));
    }
    return ring_finish(&w);
}

/* A pipeline from the root round to the rank before it: S bytes over each of n - 1 links, n - 2 chunks of delay. */
clq_status clq_ring_broadcast(clq_crew *crew, unsigned rank) {
    const clq_call *call = &crew->members[rank].call;
    bool receives = rank != call->root, sends = (rank + 1) % crew->size != call->root;
    ring w;
    CLQ_TRY(ring_start(crew, rank, call->bytes, &w));
    for (size_t i = 0; i < w.chunks; i++) {
        size_t offset = i * crew->chunk_bytes, bytes = CLQ_MIN(crew->chunk_bytes, call->bytes - offset);
        clq_event *arrived = NULL;
        at_item(&w, i);
        if (receives) {
            CLQ_TRY(clq_link_receive(crew, w.previous, offset, bytes, false, &arrived));
            keep_ready(&w, i, arrived);
        }
        if (sends) CLQ_TRY(clq_link_send(crew, w.next, true, offset, bytes, false, arrived));
    }
    return ring_finish(&w);
}
