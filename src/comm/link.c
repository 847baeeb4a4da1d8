/* Links: how a chunk gets from one rank to the next.
 *
 * Staged: the sender's download queue reads the chunk into a pinned host slot, the receiver's upload queue writes it
 * on: 2 transfers and 2 passes through host memory for every byte. Peer: the sender's download queue copies straight
 * into the receiver's memory, inside their shared context: 1 transfer. What is to be added lands in the receiver's
 * scratch, where a kernel of the receiver adds it; what is not goes to its place at once.
 *
 * Both ends only enqueue. An end tells the other "filled" or "freed" as soon as the command that does it is
 * enqueued, by handing over its event: transfers of several slots, in both directions, and additions overlap. Across
 * contexts a host thread waits for that event, inside one the device does. */
#include "comm/crew.h"

#include <string.h>

clq_status clq_link_open(clq_crew *crew, clq_link *link) {
    CLQ_TRY(clq_gate_init(&link->filled));
    clq_status status = clq_gate_init(&link->freed);
    if (status != CLQ_OK) {
        clq_gate_end(&link->filled);
        return status;
    }
    link->gates_made = true;
    link->slots = clq_alloc(crew->slots, sizeof *link->slots);
    if (!link->slots) return CLQ_MEMORY;
    link->slot_count = crew->slots;
    if (link->transport != CLQ_TRANSPORT_STAGED) return CLQ_OK;
    clq_device *device = crew->members[link->from].device;
    CLQ_TRY(
        clq_buffer_create(device, CLQ_MEMORY_PINNED, crew->slots * crew->chunk_bytes, "staging slots", &link->pinned));
    for (unsigned i = 0; i < crew->slots; i++)
        link->slots[i].host = (char *)clq_buffer_host(link->pinned) + i * crew->chunk_bytes;
    return CLQ_OK;
}

void clq_link_close(clq_link *link) {
    for (unsigned i = 0; i < link->slot_count; i++) {
        clq_event_destroy(link->slots[i].filled);
        clq_event_destroy(link->slots[i].freed);
    }
    clq_free(link->slots);
    clq_buffer_destroy(link->pinned);
    if (!link->gates_made) return;
    clq_gate_end(&link->filled);
    clq_gate_end(&link->freed);
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

static clq_status push_to_peer(clq_crew *crew, const clq_link *link, const clq_buffer *from, size_t from_offset,
                               size_t offset, size_t bytes, bool added) {
    const clq_member *to = &crew->members[link->to];
    clq_queue *down = crew->members[link->from].down;
    if (added)
        return clq_queue_copy(down, from, from_offset, to->scratch, link->sent % link->slot_count * crew->chunk_bytes,
                              bytes);
    return clq_queue_copy(down, from, from_offset, to->call.out, to->call.out_offset + offset, bytes);
}

clq_status clq_link_send(clq_crew *crew, clq_link *link, bool from_out, size_t offset, size_t bytes, bool added,
                         clq_event *after) {
    const clq_member *sender = &crew->members[link->from];
    const clq_call *call = &sender->call;
    const clq_buffer *from = from_out ? call->out : call->in;
    size_t from_offset = (from_out ? call->out_offset : call->in_offset) + offset;
    clq_slot *slot = &link->slots[link->sent % link->slot_count];
    CLQ_TRY(take_slot(crew, link, slot));
    if (after) CLQ_TRY(clq_member_order(crew, link->from, sender->down, after));
    if (link->transport == CLQ_TRANSPORT_STAGED)
        CLQ_TRY(clq_queue_read(sender->down, from, from_offset, slot->host, bytes, false));
    else
        CLQ_TRY(push_to_peer(crew, link, from, from_offset, offset, bytes, added));
    CLQ_TRY(clq_queue_mark(sender->down, &slot->filled));
    clq_gate_raise(&link->filled, ++link->sent);
    return CLQ_OK;
}

/* The rank's own queue adds what lies in its scratch. */
static clq_status add_chunk(const clq_member *member, size_t scratch_offset, size_t offset, size_t bytes) {
    const clq_call *call = &member->call;
    const uint64_t at[3] = {(call->out_offset + offset) / sizeof(float), (call->in_offset + offset) / sizeof(float),
                            scratch_offset / sizeof(float)};
    const clq_buffer *buffers[3] = {call->out, call->in, member->scratch};
    const uint64_t count = bytes / sizeof(float);
    for (uint32_t i = 0; i < 3; i++) {
        CLQ_TRY(clq_kernel_set_buffer(member->add, 2 * i, buffers[i]));
        CLQ_TRY(clq_kernel_set_bytes(member->add, 2 * i + 1, &at[i], sizeof at[i]));
    }
    CLQ_TRY(clq_kernel_set_bytes(member->add, 6, &count, sizeof count));
    return clq_queue_launch(call->queue, member->add, 1, &member->add_items, NULL);
}

/* Brings the chunk to where it is wanted; *done follows the last command. */
static clq_status take_chunk(clq_crew *crew, clq_link *link, const clq_slot *slot, size_t offset, size_t bytes,
                             bool added, clq_event **done) {
    const clq_member *member = &crew->members[link->to];
    const clq_call *call = &member->call;
    size_t scratch_offset = link->received % link->slot_count * crew->chunk_bytes;
    if (link->transport == CLQ_TRANSPORT_STAGED) {
        CLQ_TRY(clq_member_wait(crew, link->to, slot->filled));
        if (added)
            CLQ_TRY(clq_queue_write(member->up, member->scratch, scratch_offset, slot->host, bytes, false));
        else
            CLQ_TRY(clq_queue_write(member->up, call->out, call->out_offset + offset, slot->host, bytes, false));
        if (!added) return clq_queue_mark(member->up, done);
        clq_event *uploaded;
        CLQ_TRY(clq_queue_mark(member->up, &uploaded));
        clq_status status = clq_member_order(crew, link->to, call->queue, uploaded);
        clq_event_destroy(uploaded);
        CLQ_TRY(status);
    } else {
        CLQ_TRY(clq_member_order(crew, link->to, call->queue, slot->filled));
    }
    if (added) CLQ_TRY(add_chunk(member, scratch_offset, offset, bytes));
    return clq_queue_mark(call->queue, done);
}

clq_status clq_link_receive(clq_crew *crew, clq_link *link, size_t offset, size_t bytes, bool added, clq_event **done) {
    clq_slot *slot = &link->slots[link->received % link->slot_count];
    clq_status status = clq_gate_wait(&link->filled, link->received + 1, crew->members[link->to].until, &crew->failed);
    if (status == CLQ_TIMEOUT)
        return clq_fail(CLQ_TIMEOUT, "rank %u on %s sent no chunk within %g s", link->from,
                        clq_device_label(crew->members[link->from].device), crew->deadline_s);
    CLQ_TRY(status);
    clq_event *event;
    CLQ_TRY(take_chunk(crew, link, slot, offset, bytes, added, &event));
    status = clq_event_wrap(crew->members[link->to].device, clq_event_handle(event), &slot->freed);
    if (status != CLQ_OK) {
        clq_event_destroy(event);
        return status;
    }
    clq_gate_raise(&link->freed, ++link->received);
    *done = event;
    return CLQ_OK;
}

/* Sent by the same queues and commands as real chunks: a whole scratch, and a piece that begins and ends oddly. */
clq_status clq_link_test(clq_crew *crew, clq_link *link, bool *ok) {
    const clq_member *from = &crew->members[link->from], *to = &crew->members[link->to];
    size_t bytes = crew->slots * crew->chunk_bytes, odd = sizeof(float);
    clq_buffer *source = NULL;
    unsigned char *pattern = clq_alloc(bytes, 1), *found = clq_alloc(bytes, 1);
    clq_status status = pattern && found ? CLQ_OK : CLQ_MEMORY;
    for (size_t i = 0; status == CLQ_OK && i < bytes; i++) pattern[i] = (unsigned char)(i * 2654435761u >> 11);
    if (status != CLQ_OK) goto end;
    CLQ_TRY_OR(end, status, clq_buffer_create(from->device, CLQ_MEMORY_DEVICE, bytes, "test of peer copies", &source));
    CLQ_TRY_OR(end, status, clq_queue_write(from->down, source, 0, pattern, bytes, true));
    CLQ_TRY_OR(end, status, clq_queue_copy(from->down, source, 0, to->scratch, 0, bytes));
    CLQ_TRY_OR(end, status, clq_queue_copy(from->down, source, 0, to->scratch, odd, bytes / 2 - odd));
    CLQ_TRY_OR(end, status, clq_queue_finish(from->down));
    CLQ_TRY_OR(end, status, clq_queue_read(to->up, to->scratch, 0, found, bytes, true));
    *ok = memcmp(found, pattern, odd) == 0 && memcmp(found + odd, pattern, bytes / 2 - odd) == 0 &&
          memcmp(found + bytes / 2, pattern + bytes / 2, bytes - bytes / 2) == 0;
end:
    clq_buffer_destroy(source);
    clq_free(found);
    clq_free(pattern);
    return status;
}
