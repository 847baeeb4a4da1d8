/* Links: how a chunk gets from one rank to another. An end is hosted, where its device shares the host's memory: the
 * rank's thread reads, adds and writes by itself. Else it works by commands.
 *
 * Mapped: both ends are hosted. Nothing is sent; the receiver reads the sender's memory.
 *
 * Staged: through slots of memory that the host and the devices reach. An end by commands reads its chunk into the slot
 * by its download queue, or writes it on from there by its upload queue: 2 transfers and 2 passes through host memory
 * for every byte, if both ends are so. A hosted end copies it in, or adds it from there.
 *
 * Peer: both ends work by commands in one context. The sender's download queue copies straight into the receiver's
 * memory: 1 transfer.
 *
 * On an end by commands, what is to be combined lands in the link's scratch, where a kernel of the receiver takes it
 * from; what is not goes to its place at once. Such ends only enqueue: they tell the other "filled" or "freed" as soon
 * as the command that does it is enqueued, by handing over its event. So transfers of several slots, in both
 * directions, and additions overlap. Across contexts a host thread waits for that event, inside one the device does. */
#include "comm/crew.h"

#include <string.h>

/* ---- opening ---- */

/* Whether a pattern sent over it arrives, by the same queues and commands as real chunks: a whole scratch, and a piece
 * that begins and ends oddly. */
static clq_status test_peer_copies(clq_crew *crew, clq_link *link, bool *ok) {
    const clq_member *from = &crew->members[link->from];
    size_t bytes = crew->slots * crew->chunk_bytes, odd = sizeof(float);
    clq_buffer *source = NULL;
    unsigned char *pattern = clq_alloc(bytes, 1), *found = clq_alloc(bytes, 1);
    clq_status status = pattern && found ? CLQ_OK : CLQ_MEMORY;
    for (size_t i = 0; status == CLQ_OK && i < bytes; i++) pattern[i] = (unsigned char)(i * 2654435761u >> 11);
    if (status != CLQ_OK) goto end;
    CLQ_TRY_OR(end, status, clq_buffer_create(from->device, CLQ_MEMORY_DEVICE, bytes, "test of peer copies", &source));
    CLQ_TRY_OR(end, status, clq_queue_write(from->down, source, 0, pattern, bytes, true));
    CLQ_TRY_OR(end, status, clq_queue_copy(from->down, source, 0, link->scratch, 0, bytes));
    CLQ_TRY_OR(end, status, clq_queue_copy(from->down, source, 0, link->scratch, odd, bytes / 2 - odd));
    CLQ_TRY_OR(end, status, clq_queue_read(from->down, link->scratch, 0, found, bytes, true));
    *ok = memcmp(found, pattern, odd) == 0 && memcmp(found + odd, pattern, bytes / 2 - odd) == 0 &&
          memcmp(found + bytes / 2, pattern + bytes / 2, bytes - bytes / 2) == 0;
end:
    clq_buffer_destroy(source);
    clq_free(found);
    clq_free(pattern);
    return status;
}

/* Whether peer copies can be used, and why not. Some drivers corrupt them, so each pair is tested. */
static clq_status check_peer(clq_crew *crew, clq_link *link, bool *arrives) {
    const clq_device *from = crew->members[link->from].device, *to = crew->members[link->to].device;
    *arrives = false;
    link->reason = "the devices have no context in common";
    if (clq_device_same_context(from, to)) {
        link->reason = "peer copies failed their test";
        clq_status status = test_peer_copies(crew, link, arrives);
        /* What a driver refuses is the test's result, unless there is nothing else. What ran out is not. */
        bool matters = status == CLQ_MEMORY || status == CLQ_DEVICE_MEMORY || clq_device_lost(from);
        if (status != CLQ_OK && (matters || crew->transport == CLQ_TRANSPORT_PEER)) return status;
    }
    if (*arrives || crew->transport != CLQ_TRANSPORT_PEER) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED, "no peer copies from %s to %s: %s", clq_device_label(from), clq_device_label(to),
                    link->reason);
}

static clq_status choose_transport(clq_crew *crew, clq_link *link) {
    bool hosted[2] = {crew->members[link->from].hosted, crew->members[link->to].hosted}, arrives;
    if (hosted[0] && hosted[1]) {
        link->transport = CLQ_TRANSPORT_MAPPED;
        link->reason = crew->transport == CLQ_TRANSPORT_MAPPED ? "as asked" : "both devices share the host's memory";
        return CLQ_OK;
    }
    link->transport = CLQ_TRANSPORT_STAGED;
    link->reason = crew->transport == CLQ_TRANSPORT_STAGED ? "as asked" : "one device shares the host's memory";
    if (hosted[0] || hosted[1] || crew->transport == CLQ_TRANSPORT_STAGED) return CLQ_OK;
    CLQ_TRY(check_peer(crew, link, &arrives));
    if (!arrives) return CLQ_OK;
    link->transport = CLQ_TRANSPORT_PEER;
    link->reason = "as asked";
    if (crew->transport == CLQ_TRANSPORT_PEER) return CLQ_OK;
    link->transport = CLQ_TRANSPORT_AUTO;
    link->reason = "both were measured, and peer copies passed their test";
    return clq_link_measure(crew, link);
}

/* Of an end by commands, which transfers to and from it best; the sender's where both are. */
static clq_status make_staging(const clq_crew *crew, clq_link *link) {
    const clq_member *from = &crew->members[link->from], *to = &crew->members[link->to];
    const size_t bytes = crew->slots * crew->chunk_bytes;
    char *host;
    if (from->hosted && to->hosted) {
        host = link->plain = clq_alloc_aligned(CLQ_PART_ALIGN, bytes);
        if (!host) return CLQ_MEMORY;
    } else {
        clq_device *device = from->hosted ? to->device : from->device;
        CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_PINNED, bytes, "staging slots", &link->pinned));
        host = clq_buffer_host(link->pinned);
    }
    for (unsigned i = 0; i < crew->slots; i++) link->slots[i].host = host + i * crew->chunk_bytes;
    return CLQ_OK;
}

static clq_status open_link(clq_crew *crew, clq_link *link) {
    CLQ_TRY(clq_gate_init(&link->filled));
    clq_status status = clq_gate_init(&link->freed);
    if (status != CLQ_OK) {
        clq_gate_end(&link->filled);
        return status;
    }
    link->gates_made = true;
    const clq_member *from = &crew->members[link->from], *to = &crew->members[link->to];
    link->slots = clq_alloc(crew->slots, sizeof *link->slots);
    if (!link->slots) return CLQ_MEMORY;
    link->slot_count = crew->slots;
    if (!to->hosted)
        CLQ_TRY(clq_buffer_create(to->device, CLQ_MEMORY_DEVICE, crew->slots * crew->chunk_bytes, "received chunks",
                                  &link->scratch));
    if (!(from->hosted && to->hosted) && crew->transport != CLQ_TRANSPORT_PEER) CLQ_TRY(make_staging(crew, link));
    return choose_transport(crew, link);
}

clq_status clq_link_create(clq_crew *crew, unsigned from, unsigned to, clq_link **out) {
    clq_link *link = clq_alloc_aligned(_Alignof(clq_link), sizeof *link);
    if (!link) return CLQ_MEMORY;
    link->from = from;
    link->to = to;
    clq_status status = open_link(crew, link);
    if (status == CLQ_OK)
        *out = link;
    else
        clq_link_destroy(link);
    return status;
}

clq_status clq_link_prepare_exchange(clq_crew *crew, clq_link *link) {
    return link->transport == CLQ_TRANSPORT_MAPPED && !link->plain ? make_staging(crew, link) : CLQ_OK;
}

void clq_link_destroy(clq_link *link) {
    if (!link) return;
    for (unsigned i = 0; i < link->slot_count; i++) {
        clq_event_destroy(link->slots[i].filled);
        clq_event_destroy(link->slots[i].freed);
    }
    clq_free(link->slots);
    clq_free(link->plain);
    clq_buffer_destroy(link->pinned);
    clq_buffer_destroy(link->scratch);
    if (link->gates_made) {
        clq_gate_end(&link->filled);
        clq_gate_end(&link->freed);
    }
    clq_free(link);
}

clq_transport clq_link_transport(const clq_link *link, size_t bytes) {
    if (link->transport != CLQ_TRANSPORT_AUTO) return link->transport;
    const clq_cost *staged = &link->costs[CLQ_TRANSPORT_STAGED], *peer = &link->costs[CLQ_TRANSPORT_PEER];
    bool closer = peer->alpha_s + peer->beta_s * (double)bytes <= staged->alpha_s + staged->beta_s * (double)bytes;
    return closer ? CLQ_TRANSPORT_PEER : CLQ_TRANSPORT_STAGED;
}

/* ---- sending ---- */

/* The slot that the next chunk goes into, once the receiver has done with what it held. */
static clq_status take_slot(clq_crew *crew, clq_link *link, bool by_host, clq_slot *slot) {
    if (link->sent < link->slot_count) return CLQ_OK;
    const clq_member *sender = &crew->members[link->from];
    clq_status status = clq_gate_wait(&link->freed, link->sent - link->slot_count + 1, sender->until, &crew->failed);
    if (status == CLQ_TIMEOUT)
        return clq_fail(CLQ_TIMEOUT, "rank %u on %s took no chunk within %g s", link->to,
                        clq_device_label(crew->members[link->to].device), crew->deadline_s);
    CLQ_TRY(status);
    if (slot->freed && by_host)
        CLQ_TRY(clq_member_wait(crew, link->from, slot->freed));
    else if (slot->freed)
        CLQ_TRY(clq_member_order(crew, link->from, sender->down, slot->freed));
    clq_event_destroy(slot->filled);
    clq_event_destroy(slot->freed);
    slot->filled = slot->freed = NULL;
    return CLQ_OK;
}

/* Where the host sees it, or a copy of it. */
static void fill_by_host(const clq_link *link, const clq_departure *chunk, clq_slot *slot) {
    bool stays = link->transport == CLQ_TRANSPORT_MAPPED && !chunk->exchanged;
    slot->at = stays ? chunk->from.host : slot->host;
    if (!stays) memcpy(slot->host, chunk->from.host, chunk->bytes);
}

static clq_status fill_by_command(const clq_crew *crew, clq_link *link, const clq_departure *chunk, clq_slot *slot) {
    clq_queue *down = crew->members[link->from].down;
    const clq_place_at *from = &chunk->from.place, *lands = &chunk->lands;
    slot->at = slot->host;
    if (clq_link_transport(link, chunk->bytes) == CLQ_TRANSPORT_STAGED)
        CLQ_TRY(clq_queue_read(down, from->buffer, from->offset, slot->host, chunk->bytes, false));
    else if (lands->buffer)
        CLQ_TRY(clq_queue_copy(down, from->buffer, from->offset, lands->buffer, lands->offset, chunk->bytes));
    else
        CLQ_TRY(clq_queue_copy(down, from->buffer, from->offset, link->scratch,
                               link->sent % link->slot_count * crew->chunk_bytes, chunk->bytes));
    return clq_queue_mark(down, &slot->filled);
}

clq_status clq_link_send(clq_crew *crew, clq_link *link, const clq_departure *chunk, clq_event **sent) {
    const clq_member *sender = &crew->members[link->from];
    clq_slot *slot = &link->slots[link->sent % link->slot_count];
    bool staged = clq_link_transport(link, chunk->bytes) == CLQ_TRANSPORT_STAGED;
    CLQ_TRY(take_slot(crew, link, sender->hosted || staged, slot));
    if (sender->hosted) {
        fill_by_host(link, chunk, slot);
    } else {
        if (chunk->after) CLQ_TRY(clq_member_order(crew, link->from, sender->down, chunk->after));
        CLQ_TRY(fill_by_command(crew, link, chunk, slot));
    }
    *sent = slot->filled;
    clq_gate_raise(&link->filled, ++link->sent);
    return CLQ_OK;
}

/* ---- receiving ---- */

static clq_status take_by_host(clq_crew *crew, const clq_link *link, const clq_slot *slot, const clq_arrival *chunk) {
    const clq_task *call = &crew->members[link->to].work.task;
    if (slot->filled) CLQ_TRY(clq_member_wait(crew, link->to, slot->filled));
    if (!chunk->combined) {
        memcpy(chunk->to.host, slot->at, chunk->bytes);
        return CLQ_OK;
    }
    clq_redop op = call->op == CLQ_AVG && !chunk->last ? CLQ_SUM : call->op;
    const void *in[2] = {chunk->operand.host, slot->at};
    if (chunk->came_first) in[0] = slot->at, in[1] = chunk->operand.host;
    clq_reduce_find(call->dtype, op)(in, 2, (void *[]){chunk->to.host}, 1, 0,
                                     chunk->bytes / clq_dtype_bytes(call->dtype), crew->size);
    return CLQ_OK;
}

/* Staged: from the slot to the scratch or to its place; the rank's own queue goes on after it. */
static clq_status upload(clq_crew *crew, const clq_link *link, const clq_slot *slot, clq_place_at to, size_t bytes,
                         bool combined) {
    const clq_member *member = &crew->members[link->to];
    if (slot->filled) CLQ_TRY(clq_member_wait(crew, link->to, slot->filled));
    CLQ_TRY(clq_queue_write(member->up, to.buffer, to.offset, slot->at, bytes, false));
    if (!combined) return CLQ_OK;
    clq_event *uploaded;
    CLQ_TRY(clq_queue_mark(member->up, &uploaded));
    clq_status status = clq_member_order(crew, link->to, member->work.task.queue, uploaded);
    clq_event_destroy(uploaded);
    return status;
}

/* Brings the chunk to where it is wanted; *done follows the last command. */
static clq_status take_by_command(clq_crew *crew, const clq_link *link, const clq_slot *slot, const clq_arrival *chunk,
                                  clq_event **done) {
    clq_member *member = &crew->members[link->to];
    const clq_task *call = &member->work.task;
    const clq_place_at scratch = {link->scratch, link->received % link->slot_count * crew->chunk_bytes};
    bool staged = clq_link_transport(link, chunk->bytes) == CLQ_TRANSPORT_STAGED;
    if (staged)
        CLQ_TRY(upload(crew, link, slot, chunk->combined ? scratch : chunk->to.place, chunk->bytes, chunk->combined));
    else
        CLQ_TRY(clq_member_order(crew, link->to, call->queue, slot->filled));
    if (!chunk->combined) return clq_queue_mark(staged ? member->up : call->queue, done);
    if (chunk->after) CLQ_TRY(clq_member_order(crew, link->to, call->queue, chunk->after));
    bool average = call->op == CLQ_AVG && chunk->last;
    const clq_place_at *mine = &chunk->operand.place;
    CLQ_TRY(clq_combine_launch(call->queue, member->combine[call->dtype][call->op], call->dtype, chunk->to.place,
                               chunk->came_first ? scratch : *mine, chunk->came_first ? *mine : scratch, chunk->bytes,
                               average ? crew->size : 0));
    return clq_queue_mark(call->queue, done);
}

clq_status clq_link_receive(clq_crew *crew, clq_link *link, const clq_arrival *chunk, clq_event **done) {
    const clq_member *receiver = &crew->members[link->to];
    clq_slot *slot = &link->slots[link->received % link->slot_count];
    clq_event *event = NULL;
    clq_status status = clq_gate_wait(&link->filled, link->received + 1, receiver->until, &crew->failed);
    if (status == CLQ_TIMEOUT)
        return clq_fail(CLQ_TIMEOUT, "rank %u on %s sent no chunk within %g s", link->from,
                        clq_device_label(crew->members[link->from].device), crew->deadline_s);
    CLQ_TRY(status);
    if (receiver->hosted) {
        CLQ_TRY(take_by_host(crew, link, slot, chunk));
    } else {
        CLQ_TRY(take_by_command(crew, link, slot, chunk, &event));
        status = clq_event_wrap(receiver->device, clq_event_handle(event), &slot->freed);
        if (status != CLQ_OK) {
            clq_event_destroy(event);
            return status;
        }
    }
    clq_gate_raise(&link->freed, ++link->received);
    *done = event;
    return CLQ_OK;
}
