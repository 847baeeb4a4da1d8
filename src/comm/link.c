/* Links: how a chunk gets from one rank to another.
 *
 * Staged: the sender's download queue reads the chunk into a pinned host slot, the receiver's upload queue writes it
 * on: 2 transfers and 2 passes through host memory for every byte. Peer: the sender's download queue copies straight
 * into the receiver's memory, inside their shared context: 1 transfer. What is to be combined lands in the link's
 * scratch, where a kernel of the receiver takes it from; what is not goes to its place at once. Mapped: nothing is
 * sent; the receiver reads the sender's memory by the host's pointer (walk.c), and the link only counts.
 *
 * Both ends only enqueue. An end tells the other "filled" or "freed" as soon as the command that does it is
 * enqueued, by handing over its event: transfers of several slots, in both directions, and additions overlap. Across
 * contexts a host thread waits for that event, inside one the device does. */
#include "comm/crew.h"

#include <string.h>

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

/* Peer copies inside a shared context save one of two transfers, but some drivers corrupt them, so each pair is
 * tested. */
static clq_status choose_transport(clq_crew *crew, clq_link *link) {
    const clq_device *from = crew->members[link->from].device, *to = crew->members[link->to].device;
    clq_transport wanted = crew->transport;
    bool shared = clq_device_same_context(from, to), arrives = false;
    link->transport = CLQ_TRANSPORT_STAGED;
    link->reason = wanted == CLQ_TRANSPORT_STAGED ? "as asked" : "the devices have no context in common";
    if (wanted == CLQ_TRANSPORT_STAGED) return CLQ_OK;
    if (shared) {
        link->reason = "peer copies failed their test";
        clq_status status = test_peer_copies(crew, link, &arrives);
        if (status == CLQ_MEMORY || status == CLQ_DEVICE_MEMORY) return status;
    }
    if (arrives) {
        link->transport = CLQ_TRANSPORT_PEER;
        link->reason = wanted == CLQ_TRANSPORT_PEER ? "as asked"
                                                    : "the devices share a context, and peer copies passed their test";
    } else if (wanted == CLQ_TRANSPORT_PEER) {
        return clq_fail(CLQ_UNSUPPORTED, "no peer copies from %s to %s: %s", clq_device_label(from),
                        clq_device_label(to), link->reason);
    }
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
    if (crew->transport == CLQ_TRANSPORT_MAPPED) {
        link->transport = CLQ_TRANSPORT_MAPPED;
        link->reason = "as asked";
        return CLQ_OK;
    }
    const size_t bytes = crew->slots * crew->chunk_bytes;
    CLQ_TRY(
        clq_buffer_create(crew->members[link->to].device, CLQ_MEMORY_DEVICE, bytes, "received chunks", &link->scratch));
    CLQ_TRY(choose_transport(crew, link));
    link->slots = clq_alloc(crew->slots, sizeof *link->slots);
    if (!link->slots) return CLQ_MEMORY;
    link->slot_count = crew->slots;
    if (link->transport != CLQ_TRANSPORT_STAGED) return CLQ_OK;
    CLQ_TRY(
        clq_buffer_create(crew->members[link->from].device, CLQ_MEMORY_PINNED, bytes, "staging slots", &link->pinned));
    for (unsigned i = 0; i < crew->slots; i++)
        link->slots[i].host = (char *)clq_buffer_host(link->pinned) + i * crew->chunk_bytes;
    return CLQ_OK;
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

void clq_link_destroy(clq_link *link) {
    if (!link) return;
    for (unsigned i = 0; i < link->slot_count; i++) {
        clq_event_destroy(link->slots[i].filled);
        clq_event_destroy(link->slots[i].freed);
    }
    clq_free(link->slots);
    clq_buffer_destroy(link->pinned);
    clq_buffer_destroy(link->scratch);
    if (link->gates_made) {
        clq_gate_end(&link->filled);
        clq_gate_end(&link->freed);
    }
    clq_free(link);
}

/* The slot that the next chunk goes into, once the receiver has done with what it held. */
static clq_status take_slot(clq_crew *crew, clq_link *link, clq_slot *slot) {
    if (link->sent < link->slot_count) return CLQ_OK;
    const clq_member *sender = &crew->members[link->from];
    clq_status status = clq_gate_wait(&link->freed, link->sent - link->slot_count + 1, sender->until, &crew->failed);
    if (status == CLQ_TIMEOUT)
        return clq_fail(CLQ_TIMEOUT, "rank %u on %s took no chunk within %g s", link->to,
                        clq_device_label(crew->members[link->to].device), crew->deadline_s);
    CLQ_TRY(status);
    if (link->transport == CLQ_TRANSPORT_STAGED)
        CLQ_TRY(clq_member_wait(crew, link->from, slot->freed));
    else
        CLQ_TRY(clq_member_order(crew, link->from, sender->down, slot->freed));
    clq_event_destroy(slot->filled);
    clq_event_destroy(slot->freed);
    slot->filled = slot->freed = NULL;
    return CLQ_OK;
}

clq_status clq_link_send(clq_crew *crew, clq_link *link, clq_place_at from, size_t bytes, clq_place_at lands,
                         clq_event *after, clq_event **sent) {
    clq_queue *down = crew->members[link->from].down;
    clq_slot *slot = &link->slots[link->sent % link->slot_count];
    CLQ_TRY(take_slot(crew, link, slot));
    if (after) CLQ_TRY(clq_member_order(crew, link->from, down, after));
    if (link->transport == CLQ_TRANSPORT_STAGED)
        CLQ_TRY(clq_queue_read(down, from.buffer, from.offset, slot->host, bytes, false));
    else if (lands.buffer)
        CLQ_TRY(clq_queue_copy(down, from.buffer, from.offset, lands.buffer, lands.offset, bytes));
    else
        CLQ_TRY(clq_queue_copy(down, from.buffer, from.offset, link->scratch,
                               link->sent % link->slot_count * crew->chunk_bytes, bytes));
    CLQ_TRY(clq_queue_mark(down, &slot->filled));
    if (sent) *sent = slot->filled;
    clq_gate_raise(&link->filled, ++link->sent);
    return CLQ_OK;
}

/* Staged: from the slot to the scratch or to its place; the rank's own queue goes on after it. */
static clq_status upload(clq_crew *crew, const clq_link *link, const clq_slot *slot, clq_place_at to, size_t bytes,
                         bool combined) {
    const clq_member *member = &crew->members[link->to];
    CLQ_TRY(clq_member_wait(crew, link->to, slot->filled));
    CLQ_TRY(clq_queue_write(member->up, to.buffer, to.offset, slot->host, bytes, false));
    if (!combined) return CLQ_OK;
    clq_event *uploaded;
    CLQ_TRY(clq_queue_mark(member->up, &uploaded));
    clq_status status = clq_member_order(crew, link->to, member->work.task.queue, uploaded);
    clq_event_destroy(uploaded);
    return status;
}

/* Brings the chunk to where it is wanted; *done follows the last command. */
static clq_status take_chunk(clq_crew *crew, clq_link *link, const clq_slot *slot, clq_place_at to,
                             clq_place_at operand, clq_kernel *kernel, unsigned ranks, size_t bytes, clq_event *after,
                             clq_event **done) {
    const clq_member *member = &crew->members[link->to];
    const clq_task *call = &member->work.task;
    const clq_place_at scratch = {link->scratch, link->received % link->slot_count * crew->chunk_bytes};
    bool combined = operand.buffer != NULL, staged = link->transport == CLQ_TRANSPORT_STAGED;
    if (staged)
        CLQ_TRY(upload(crew, link, slot, combined ? scratch : to, bytes, combined));
    else
        CLQ_TRY(clq_member_order(crew, link->to, call->queue, slot->filled));
    if (!combined) return clq_queue_mark(staged ? member->up : call->queue, done);
    if (after) CLQ_TRY(clq_member_order(crew, link->to, call->queue, after));
    CLQ_TRY(clq_combine_launch(call->queue, kernel, call->dtype, to, operand, scratch, bytes, ranks));
    return clq_queue_mark(call->queue, done);
}

clq_status clq_link_receive(clq_crew *crew, clq_link *link, clq_place_at to, clq_place_at operand, clq_kernel *kernel,
                            unsigned ranks, size_t bytes, clq_event *after, clq_event **done) {
    clq_slot *slot = &link->slots[link->received % link->slot_count];
    clq_status status = clq_gate_wait(&link->filled, link->received + 1, crew->members[link->to].until, &crew->failed);
    if (status == CLQ_TIMEOUT)
        return clq_fail(CLQ_TIMEOUT, "rank %u on %s sent no chunk within %g s", link->from,
                        clq_device_label(crew->members[link->from].device), crew->deadline_s);
    CLQ_TRY(status);
    clq_event *event;
    CLQ_TRY(take_chunk(crew, link, slot, to, operand, kernel, ranks, bytes, after, &event));
    status = clq_event_wrap(crew->members[link->to].device, clq_event_handle(event), &slot->freed);
    if (status != CLQ_OK) {
        clq_event_destroy(event);
        return status;
    }
    clq_gate_raise(&link->freed, ++link->received);
    *done = event;
    return CLQ_OK;
}
