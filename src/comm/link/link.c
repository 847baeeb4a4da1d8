/* Links: how a chunk gets from one rank to another. An end of a link is hosted if its device shares the host's memory,
 * unless links by commands were asked for: the rank's thread reads, adds and writes by itself. Otherwise the end works
 * by commands.
 *
 * Mapped: both ends are hosted. Nothing is sent; the receiver reads the sender's memory.
 *
 * Staged: chunks go through slots in the host's memory. A sender by commands reads its chunk into a slot of memory that
 * is pinned for its own device. The receiver's thread takes the chunk from there, or from a hosted sender's memory. A
 * hosted receiver adds or copies it to its place. A receiver by commands copies it to a slot of memory that is pinned
 * for the receiver's device, and a command writes it on from there. So between two ends by commands, a byte takes 2
 * transfers and a copy on the host. The copy is there because memory that is pinned in one context is ordinary memory
 * in another. A driver copies ordinary memory itself to transfer it, and blocks the caller meanwhile; the copy by the
 * receiver's thread goes on while other slots are read and written. The slot is the sender's again when the receiver's
 * thread has taken the chunk: no event goes back.
 *
 * Peer: both ends work by commands in one context. The sender copies its chunk into the slot's landing, memory on the
 * receiver's device that these two ranks use in turn. A command of the receiver takes the chunk from there: 1 transfer.
 * The sender never writes the receiver's own buffers, which the receiver may be writing at the same time. Some drivers
 * keep a copy of a buffer on each device and move whole buffers from the device that wrote last: they would lose what
 * the other device wrote.
 *
 * An end by commands only enqueues. When its commands are flushed, it tells the other rank "filled" or "freed" and
 * hands over their event. So transfers of several slots, in both directions, and additions overlap. Across contexts a
 * host thread waits for the event; within a context the device does. */
#include "comm/communicator.h"

#include <string.h>

/* ---- opening ---- */

/* Whether peer copies can be used; link->reason: why not. */
static clq_status check_peer(clq_link *link, bool *works) {
    const clq_device *from = link->from->device, *to = link->to->device;
    const bool asked = link->from->comm->transport == CLQ_TRANSPORT_PEER;
    *works = false;
    link->reason = "the devices have no context in common";
    if (clq_device_same_context(from, to)) {
        link->reason = "peer copies failed their test";
        clq_status status = clq_link_test_peer(link, works);
        /* If a driver refuses, the test has failed, which is an error only if PEER was asked for. It is always an error
         * if memory ran out or a device was lost. */
        bool matters = status == CLQ_ERROR_MEMORY || status == CLQ_ERROR_DEVICE_MEMORY || clq_device_lost(from) ||
                       clq_device_lost(to);
        if (status != CLQ_OK && (matters || asked)) return status;
        if (status != CLQ_OK) *works = false;
    }
    if (*works || !asked) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "no peer copies from %s to %s: %s", clq_device_label(from),
                    clq_device_label(to), link->reason);
}

/* AUTO tries peer copies only if the caller put both devices into one context. */
static clq_status choose_transport(clq_link *link) {
    const clq_transport asked = link->from->comm->transport;
    const clq_member *from = link->from, *to = link->to;
    bool works;
    if (from->hosted && to->hosted) {
        link->transport = CLQ_TRANSPORT_MAPPED;
        link->reason = asked == CLQ_TRANSPORT_MAPPED ? "as asked" : "both devices share the host's memory";
        return CLQ_OK;
    }
    link->transport = CLQ_TRANSPORT_STAGED;
    link->reason = asked == CLQ_TRANSPORT_STAGED ? "as asked" : "one device shares the host's memory";
    if (from->hosted || to->hosted || asked == CLQ_TRANSPORT_STAGED) return CLQ_OK;
    CLQ_TRY(check_peer(link, &works));
    if (!works) return CLQ_OK;
    link->transport = CLQ_TRANSPORT_PEER;
    link->reason = "as asked";
    if (asked == CLQ_TRANSPORT_PEER) return CLQ_OK;
    link->transport = CLQ_TRANSPORT_AUTO;
    link->reason = "both were measured, and peer copies passed their test";
    return clq_link_measure(link);
}

static clq_status make_pinned(const clq_member *member, clq_buffer **out) {
    if (member->hosted) return CLQ_OK;
    return clq_buffer_create(member->device, CLQ_MEMORY_PINNED, member->comm->slots * member->comm->chunk_bytes,
                             "staging slots", out);
}

static clq_status make_staging(const clq_comm *comm, clq_link *link) {
    CLQ_TRY(make_pinned(link->from, &link->outgoing));
    CLQ_TRY(make_pinned(link->to, &link->incoming));
    for (unsigned i = 0; i < comm->slots; i++) {
        const size_t at = i * comm->chunk_bytes;
        if (link->outgoing) link->slots[i].outgoing = (char *)clq_buffer_host(link->outgoing) + at;
        if (link->incoming) link->slots[i].incoming = (char *)clq_buffer_host(link->incoming) + at;
    }
    if (link->to->hosted) return CLQ_OK;
    return clq_buffer_create(link->to->device, CLQ_MEMORY_DEVICE, comm->slots * comm->chunk_bytes, "received chunks",
                             &link->scratch);
}

static clq_status open_link(clq_link *link) {
    const clq_comm *comm = link->from->comm;
    const bool by_commands = !link->from->hosted && !link->to->hosted;
    CLQ_TRY(clq_gate_init(&link->filled));
    CLQ_TRY(clq_gate_init(&link->freed));
    link->slots = clq_alloc(comm->slots, sizeof *link->slots);
    if (!link->slots) return CLQ_ERROR_MEMORY;
    link->slot_count = comm->slots;
    if (!(by_commands && comm->transport == CLQ_TRANSPORT_PEER)) CLQ_TRY(make_staging(comm, link));
    const bool lands = by_commands && comm->transport != CLQ_TRANSPORT_STAGED &&
                       clq_device_same_context(link->from->device, link->to->device);
    for (unsigned i = 0; lands && i < comm->slots; i++)
        CLQ_TRY(clq_buffer_create(link->to->device, CLQ_MEMORY_DEVICE, comm->chunk_bytes, "a peer's chunk",
                                  &link->slots[i].landing));
    return choose_transport(link);
}

clq_status clq_link_create(clq_member *from, clq_member *to, clq_link **out) {
    clq_link *link = clq_alloc_aligned(_Alignof(clq_link), sizeof *link);
    if (!link) return CLQ_ERROR_MEMORY;
    link->from = from;
    link->to = to;
    clq_status status = open_link(link);
    if (status == CLQ_OK)
        *out = link;
    else
        clq_link_destroy(link);
    return status;
}

clq_status clq_link_prepare_exchange(clq_link *link) {
    const clq_comm *comm = link->from->comm;
    if (!link->from->hosted || link->aside) return CLQ_OK;
    link->aside = clq_alloc_aligned(CLQ_PART_ALIGN, comm->slots * comm->chunk_bytes);
    if (!link->aside) return CLQ_ERROR_MEMORY;
    for (unsigned i = 0; i < comm->slots; i++) link->slots[i].outgoing = link->aside + i * comm->chunk_bytes;
    return CLQ_OK;
}

static void end_slot(const clq_slot *slot) {
    clq_event_destroy(slot->filled);
    clq_event_destroy(slot->freed);
    clq_event_destroy(slot->uploaded);
    clq_event_destroy(slot->used);
    clq_buffer_destroy(slot->landing);
}

void clq_link_destroy(clq_link *link) {
    if (!link) return;
    for (unsigned i = 0; i < link->slot_count; i++) end_slot(&link->slots[i]);
    clq_free(link->slots);
    clq_free(link->aside);
    clq_buffer_destroy(link->outgoing);
    clq_buffer_destroy(link->incoming);
    clq_buffer_destroy(link->scratch);
    clq_gate_end(&link->filled);
    clq_gate_end(&link->freed);
    clq_free(link);
}

clq_transport clq_link_transport(const clq_link *link, size_t bytes) {
    if (link->transport != CLQ_TRANSPORT_AUTO) return link->transport;
    const clq_cost *staged = &link->costs[CLQ_TRANSPORT_STAGED], *peer = &link->costs[CLQ_TRANSPORT_PEER];
    bool closer = peer->alpha_s + peer->beta_s * (double)bytes <= staged->alpha_s + staged->beta_s * (double)bytes;
    return closer ? CLQ_TRANSPORT_PEER : CLQ_TRANSPORT_STAGED;
}

/* ---- sending ---- */

/* Waits until the slot for the next chunk is free: the receiver is done with the slot, or has handed over the event to
 * wait for. */
static clq_status await_slot(clq_link *link) {
    if (link->sent < link->slot_count) return CLQ_OK;
    clq_member *sender = link->from;
    const size_t freed = link->sent - link->slot_count + 1;
    if (!sender->hosted && !clq_gate_reached(&link->freed, freed)) CLQ_TRY(clq_member_hand_over(sender));
    clq_status status = clq_gate_wait(&link->freed, freed, sender->until, &sender->comm->family->failed);
    if (status == CLQ_ERROR_TIMEOUT)
        return clq_fail(status, "rank %u on %s took no chunk" CLQ_LATE, link->to->world,
                        clq_device_label(link->to->device), sender->comm->deadline_s);
    return status;
}

/* Offers the receiver the chunk in the sender's own memory, or a copy if the sender will overwrite it. */
static void fill_by_host(const clq_departure *chunk, clq_slot *slot) {
    slot->at = chunk->exchanged ? slot->outgoing : chunk->from.host;
    if (chunk->exchanged) memcpy(slot->outgoing, chunk->from.host, chunk->bytes);
}

static clq_status fill_by_command(clq_link *link, const clq_departure *chunk, clq_slot *slot) {
    clq_member *sender = link->from;
    clq_queue *queue = clq_member_queue(sender, CLQ_LANE_DOWN);
    const clq_place_at *from = &chunk->from.place;
    clq_order order;
    CLQ_TRY(clq_member_order(sender, clq_member_own_event(sender, chunk->after), slot->freed, &order));
    order.done = &slot->filled;
    slot->at = slot->outgoing;
    if (clq_link_transport(link, chunk->bytes) == CLQ_TRANSPORT_STAGED)
        CLQ_TRY(clq_queue_read_after(queue, from->buffer, from->offset, slot->outgoing, chunk->bytes, &order));
    else
        CLQ_TRY(clq_queue_copy_after(queue, from->buffer, from->offset, slot->landing, 0, chunk->bytes, &order));
    clq_event_destroy(slot->freed);
    slot->freed = NULL;
    return clq_member_enqueued(sender, CLQ_LANE_DOWN, slot->filled);
}

clq_status clq_link_send(clq_link *link, const clq_departure *chunk, clq_event **sent) {
    const clq_member *sender = link->from;
    clq_slot *slot = &link->slots[link->sent % link->slot_count];
    CLQ_TRY(await_slot(link));
    if (sender->hosted)
        fill_by_host(chunk, slot);
    else
        CLQ_TRY(fill_by_command(link, chunk, slot));
    *sent = slot->filled;
    link->sent++;
    if (!sender->hosted && sender->one_queue) return CLQ_OK; /* the receiver is told after the flush */
    clq_gate_raise(&link->filled, link->sent_told = link->sent);
    return CLQ_OK;
}

/* ---- receiving ---- */

static clq_status take_by_host(const clq_member *member, const clq_slot *slot, const clq_arrival *chunk) {
    const clq_task *call = &member->work.task;
    if (slot->filled) CLQ_TRY(clq_member_wait(member, slot->filled));
    if (!chunk->combined) {
        memcpy(chunk->to.host, slot->at, chunk->bytes);
        return CLQ_OK;
    }
    clq_redop op = call->op == CLQ_REDOP_AVG && !chunk->last ? CLQ_REDOP_SUM : call->op;
    const void *in[2] = {chunk->operand.host, slot->at};
    if (chunk->came_first) in[0] = slot->at, in[1] = chunk->operand.host;
    clq_reduce_find(call->dtype, op)(in, 2, (void *[]){chunk->to.host}, 1, 0,
                                     chunk->bytes / clq_dtype_bytes(call->dtype), member->comm->size, false);
    return CLQ_OK;
}

/* Replaces *out by another reference to the same OpenCL event, for an owner that keeps it longer. */
static clq_status share(const clq_event *event, clq_event **out) {
    clq_event *other;
    CLQ_TRY(clq_event_share(event, &other));
    clq_event_destroy(*out);
    *out = other;
    return CLQ_OK;
}

/* Staged: copies the chunk from the sender's slot to the receiver's, and enqueues its write to the scratch or to its
 * place. */
static clq_status upload(clq_member *member, clq_slot *slot, clq_place_at to, size_t bytes) {
    clq_order order;
    bool free = true;
    if (slot->uploaded) CLQ_TRY(clq_event_look(slot->uploaded, &free));
    if (!free) CLQ_TRY(clq_member_wait(member, slot->uploaded));
    if (slot->filled) CLQ_TRY(clq_member_wait(member, slot->filled));
    memcpy(slot->incoming, slot->at, bytes);
    CLQ_TRY(clq_member_order(member, clq_member_own_event(member, slot->used), NULL, &order));
    order.done = &slot->uploaded;
    CLQ_TRY(clq_queue_write_after(clq_member_queue(member, CLQ_LANE_UP), to.buffer, to.offset, slot->incoming, bytes,
                                  &order));
    return clq_member_enqueued(member, CLQ_LANE_UP, slot->uploaded);
}

/* Enqueues the combination of what came, which is at `came`, with the operand. order: what it waits for. */
static clq_status combine(const clq_member *member, clq_slot *slot, const clq_arrival *chunk, clq_place_at came,
                          clq_order *order) {
    const clq_task *call = &member->work.task;
    bool average = call->op == CLQ_REDOP_AVG && chunk->last;
    const clq_place_at *mine = &chunk->operand.place;
    order->done = &slot->used;
    return clq_combine_launch(call->queue, member->combine[call->dtype][call->op], call->dtype, chunk->to.place,
                              chunk->came_first ? came : *mine, chunk->came_first ? *mine : came, chunk->bytes,
                              average ? member->comm->size : 0, order);
}

static clq_status take_staged(clq_link *link, clq_slot *slot, const clq_arrival *chunk) {
    clq_member *member = link->to;
    const clq_place_at scratch = {link->scratch, link->received % link->slot_count * member->comm->chunk_bytes};
    clq_order order;
    CLQ_TRY(upload(member, slot, chunk->combined ? scratch : chunk->to.place, chunk->bytes));
    if (!chunk->combined) return CLQ_OK;
    CLQ_TRY(clq_member_order(member, clq_member_own_event(member, slot->uploaded),
                             clq_member_own_event(member, chunk->after), &order));
    CLQ_TRY(combine(member, slot, chunk, scratch, &order));
    return clq_member_enqueued(member, CLQ_LANE_OWN, slot->used);
}

static clq_status take_from_peer(clq_member *member, clq_slot *slot, const clq_arrival *chunk) {
    const clq_place_at landing = {slot->landing, 0}, *to = &chunk->to.place;
    clq_order order;
    CLQ_TRY(clq_member_order(member, clq_member_own_event(member, chunk->after), slot->filled, &order));
    order.done = &slot->used;
    if (chunk->combined)
        CLQ_TRY(combine(member, slot, chunk, landing, &order));
    else
        CLQ_TRY(clq_queue_copy_after(member->work.task.queue, landing.buffer, 0, to->buffer, to->offset, chunk->bytes,
                                     &order));
    CLQ_TRY(share(slot->used, &slot->freed));
    return clq_member_enqueued(member, CLQ_LANE_OWN, slot->used);
}

static clq_status take_by_command(clq_link *link, clq_slot *slot, const clq_arrival *chunk, clq_event **ready) {
    bool staged = clq_link_transport(link, chunk->bytes) == CLQ_TRANSPORT_STAGED;
    CLQ_TRY(staged ? take_staged(link, slot, chunk) : take_from_peer(link->to, slot, chunk));
    if (link->to->one_queue) return CLQ_OK; /* what is sent next is behind it in the same queue */
    return share(staged && !chunk->combined ? slot->uploaded : slot->used, ready);
}

/* If the host took the chunk, tells the sender at once, unless earlier chunks are untold: their commands are not
 * flushed. */
static void note_received(clq_link *link, bool taken) {
    const bool all_told = link->received_told == link->received;
    link->received++;
    if (taken ? all_told : !link->to->one_queue) clq_gate_raise(&link->freed, link->received_told = link->received);
}

clq_status clq_link_receive(clq_link *link, const clq_arrival *chunk, clq_event **ready) {
    clq_member *receiver = link->to;
    const clq_comm *comm = receiver->comm;
    clq_slot *slot = &link->slots[link->received % link->slot_count];
    if (!receiver->hosted) CLQ_TRY(clq_member_hand_over(receiver));
    clq_status status = clq_gate_wait(&link->filled, link->received + 1, receiver->until, &comm->family->failed);
    if (status == CLQ_ERROR_TIMEOUT)
        return clq_fail(status, "rank %u on %s sent no chunk" CLQ_LATE, link->from->world,
                        clq_device_label(link->from->device), comm->deadline_s);
    CLQ_TRY(status);
    if (receiver->hosted)
        CLQ_TRY(take_by_host(receiver, slot, chunk));
    else
        CLQ_TRY(take_by_command(link, slot, chunk, ready));
    note_received(link, slot->freed == NULL);
    return CLQ_OK;
}
