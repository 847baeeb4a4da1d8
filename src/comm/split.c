/* Communicators of some of a communicator's ranks: those that a caller asks for, and the pairs for messages between two
 * ranks. Each has its own links, gates, barriers and queues, and so is a separate stream of collectives. The devices,
 * and with them the built programs, are shared. */
#include "comm/communicator.h"

/* Makes a communicator in the parent's family. No other thread knows it yet. */
static clq_status make_of(const clq_comm *parent, const unsigned *ranks, unsigned count, bool is_pair, clq_comm **out) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    unsigned worlds[CLQ_REPLICAS_MAX];
    clq_comm *comm;
    /* If a rank is lost, the rest of this function may take long to notice that. */
    if (atomic_load(&parent->family->failed)) return clq_family_raise(parent->family);
    for (unsigned i = 0; i < count; i++) {
        devices[i] = parent->members[ranks[i]].device;
        worlds[i] = parent->members[ranks[i]].world;
    }
    CLQ_TRY(clq_comm_make(devices, worlds, count, &parent->config, is_pair, &comm));
    /* Joins last: an earlier failure is the caller's alone, not the family's. */
    clq_status status = clq_family_join(parent->family, comm);
    if (status == CLQ_OK)
        *out = comm;
    else
        clq_comm_destroy(comm);
    return status;
}

clq_status clq_comm_split(clq_comm *comm, const unsigned *ranks, unsigned count, clq_comm **out) {
    bool taken[CLQ_REPLICAS_MAX] = {false};
    if (comm->wide) return clq_fail(CLQ_ERROR_UNSUPPORTED, "a group that spans several processes cannot be split");
    if (!ranks || count < 1 || count > comm->size)
        return clq_fail(CLQ_ERROR_INTERNAL, "a group of %u ranks: expected 1 to %u of those of the group that is split",
                        ranks ? count : 0, comm->size);
    for (unsigned i = 0; i < count; i++) {
        if (ranks[i] >= comm->size)
            return clq_fail(CLQ_ERROR_INTERNAL, "rank %u is out of range: the group has %u ranks", ranks[i],
                            comm->size);
        if (taken[ranks[i]]) return clq_fail(CLQ_ERROR_INTERNAL, "rank %u is there twice", ranks[i]);
        taken[ranks[i]] = true;
    }
    return make_of(comm, ranks, count, false, out);
}

/* ---- two ranks ---- */

static clq_status find_pair(clq_comm *comm, unsigned low, unsigned high, clq_comm **out) {
    const unsigned ranks[2] = {low, high};
    _Atomic(clq_comm *) *place = &comm->pairs[low * comm->size + high];
    clq_comm *pair = atomic_load(place);
    clq_status status = CLQ_OK;
    if (!pair) {
        pthread_mutex_lock(&comm->pairs_lock); /* the sender and the receiver may come at the same time */
        pair = atomic_load(place);
        if (!pair) status = make_of(comm, ranks, low == high ? 1 : 2, true, &pair);
        if (status == CLQ_OK) atomic_store(place, pair);
        pthread_mutex_unlock(&comm->pairs_lock);
    }
    if (status == CLQ_OK) *out = pair;
    return status;
}

clq_status clq_comm_route(clq_comm *comm, const clq_task *task, clq_comm **by, clq_task *there) {
    const unsigned root = task->root, to = task->to;
    const bool apart = task->collective == CLQ_SEND_RECV && (root == to ? comm->size > 1 : comm->size > 2);
    clq_comm *pair = comm;
    if (task->collective == CLQ_SEND_RECV && CLQ_MAX(root, to) >= comm->size)
        return clq_fail(CLQ_ERROR_INTERNAL, "rank %u is out of range: the group has %u ranks", CLQ_MAX(root, to),
                        comm->size);
    if (apart) CLQ_TRY(find_pair(comm, CLQ_MIN(root, to), CLQ_MAX(root, to), &pair));
    *by = pair;
    *there = *task;
    if (apart) {
        there->root = root > to;
        there->to = to > root;
    }
    return CLQ_OK;
}
