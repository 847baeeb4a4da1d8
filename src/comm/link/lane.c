/* The queues, during a walk, of a rank that works by commands, and when they are flushed. On three queues each command
 * is flushed at once, since commands on another queue wait for it. On one queue the flush can be left until another
 * rank or the host has to wait: what one round receives and what the next one sends are then handed over together. */
#include "comm/communicator.h"

void clq_member_open_lanes(clq_member *member, bool one_queue) {
    clq_queue *own = member->work.task.queue;
    member->one_queue = one_queue;
    member->lanes[CLQ_LANE_OWN] = (clq_lane){.queue = own};
    member->lanes[CLQ_LANE_UP] = (clq_lane){.queue = member->up};
    member->lanes[CLQ_LANE_DOWN] = (clq_lane){.queue = member->down};
}

static clq_lane_name lane_of(const clq_member *member, clq_lane_name name) {
    return member->one_queue ? CLQ_LANE_OWN : name;
}

clq_queue *clq_member_queue(const clq_member *member, clq_lane_name name) {
    return member->lanes[lane_of(member, name)].queue;
}

clq_event *clq_member_own_event(const clq_member *member, clq_event *event) { return member->one_queue ? NULL : event; }

clq_status clq_member_order(const clq_member *member, clq_event *first, clq_event *second, clq_order *out) {
    *out = (clq_order){.after = {first, second}};
    if (!clq_device_runs_in_caller(member->device)) return CLQ_OK;
    *out = (clq_order){.done = NULL};
    if (first) CLQ_TRY(clq_member_wait(member, first));
    return second ? clq_member_wait(member, second) : CLQ_OK;
}

clq_status clq_member_enqueued(clq_member *member, clq_lane_name name, clq_event *event) {
    clq_lane *lane = &member->lanes[lane_of(member, name)];
    lane->last = event;
    lane->unflushed = member->one_queue;
    return member->one_queue ? CLQ_OK : clq_queue_flush(lane->queue);
}

/* Raises the gates for chunks whose commands were flushed: other ranks may now wait for these commands' events. */
static void tell(const clq_member *member) {
    _Atomic(clq_link *) *links = member->comm->links;
    const unsigned size = member->comm->size;
    for (unsigned other = 0; other < size; other++) {
        clq_link *out = atomic_load(&links[member->rank * size + other]);
        clq_link *in = atomic_load(&links[other * size + member->rank]);
        if (out && out->sent_told != out->sent) clq_gate_raise(&out->filled, out->sent_told = out->sent);
        if (in && in->received_told != in->received) clq_gate_raise(&in->freed, in->received_told = in->received);
    }
}

clq_status clq_member_hand_over(clq_member *member) {
    for (unsigned i = 0; i < CLQ_LANES; i++) {
        clq_lane *lane = &member->lanes[i];
        if (!lane->unflushed) continue;
        CLQ_TRY(clq_queue_flush(lane->queue));
        lane->unflushed = false;
    }
    tell(member);
    return CLQ_OK;
}

clq_status clq_member_drain_lanes(clq_member *member) {
    CLQ_TRY(clq_member_hand_over(member));
    for (unsigned i = 0; i < CLQ_LANES; i++) {
        clq_lane *lane = &member->lanes[i];
        if (lane->last) CLQ_TRY(clq_member_wait(member, lane->last));
        lane->last = NULL;
    }
    return CLQ_OK;
}
