/* Crews of some of a crew's ranks: those that a caller asks for, and the pairs that messages between two ranks make. A
 * crew has links, gates, barriers and queues of its own, so that each is a stream of collectives of its own; the
 * devices, and with them the built programs, are the same. */
#include "comm/crew.h"

/* The crew is in the parent's family, and nobody knows of it yet. */
static clq_status make_of(const clq_crew *parent, const unsigned *ranks, unsigned count, bool complete,
                          clq_crew **out) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    unsigned worlds[CLQ_REPLICAS_MAX];
    /* A rank that is lost may take long to be missed. */
    if (atomic_load(&parent->family->failed)) return clq_family_raise(parent->family);
    for (unsigned i = 0; i < count; i++) {
        devices[i] = parent->members[ranks[i]].device;
        worlds[i] = parent->members[ranks[i]].world;
    }
    clq_crew *crew;
    CLQ_TRY(clq_crew_make(devices, worlds, count, &parent->config, &crew));
    clq_status status = complete ? clq_crew_complete(crew) : CLQ_OK;
    /* Last of all: what fails before is the caller's failure alone. */
    if (status == CLQ_OK) status = clq_family_join(parent->family, crew);
    if (status == CLQ_OK)
        *out = crew;
    else
        clq_crew_destroy(crew);
    return status;
}

clq_status clq_crew_split(clq_crew *crew, const unsigned *ranks, unsigned count, clq_crew **out) {
    bool taken[CLQ_REPLICAS_MAX] = {false};
    if (!ranks || count < 1 || count > crew->size)
        return clq_fail(CLQ_INTERNAL, "a group of %u ranks: expected 1 to %u of those of the group that is split",
                        ranks ? count : 0, crew->size);
    for (unsigned i = 0; i < count; i++) {
        if (ranks[i] >= crew->size)
            return clq_fail(CLQ_INTERNAL, "rank %u is out of range: the group has %u ranks", ranks[i], crew->size);
        if (taken[ranks[i]]) return clq_fail(CLQ_INTERNAL, "rank %u is there twice", ranks[i]);
        taken[ranks[i]] = true;
    }
    return make_of(crew, ranks, count, true, out);
}

/* ---- two ranks ---- */

static clq_status find_pair(clq_crew *crew, unsigned low, unsigned high, clq_crew **out) {
    const unsigned ranks[2] = {low, high};
    _Atomic(clq_crew *) *place = &crew->pairs[low * crew->size + high];
    clq_crew *pair = atomic_load(place);
    clq_status status = CLQ_OK;
    if (!pair) {
        pthread_mutex_lock(&crew->pairs_lock); /* both come at the same time */
        pair = atomic_load(place);
        if (!pair) status = make_of(crew, ranks, low == high ? 1 : 2, false, &pair);
        if (status == CLQ_OK) atomic_store(place, pair);
        pthread_mutex_unlock(&crew->pairs_lock);
    }
    if (status == CLQ_OK) *out = pair;
    return status;
}

clq_status clq_crew_route(clq_crew *crew, const clq_task *task, clq_crew **by, clq_task *there) {
    const unsigned root = task->root, to = task->to;
    const bool apart = task->collective == CLQ_SEND_RECV && (root == to ? crew->size > 1 : crew->size > 2);
    clq_crew *pair = crew;
    if (task->collective == CLQ_SEND_RECV && CLQ_MAX(root, to) >= crew->size)
        return clq_fail(CLQ_INTERNAL, "rank %u is out of range: the group has %u ranks", CLQ_MAX(root, to), crew->size);
    if (apart) CLQ_TRY(find_pair(crew, CLQ_MIN(root, to), CLQ_MAX(root, to), &pair));
    *by = pair;
    *there = *task;
    if (apart) {
        there->root = root > to;
        there->to = to > root;
    }
    return CLQ_OK;
}

clq_status clq_crew_send(clq_crew *crew, unsigned rank, clq_queue *queue, clq_buffer *data, size_t offset, size_t bytes,
                         unsigned to) {
    const clq_task task = {.collective = CLQ_SEND_RECV,
                           .queue = queue,
                           .in = data,
                           .in_offset = offset,
                           .count = bytes,
                           .dtype = CLQ_U8,
                           .root = rank,
                           .to = to};
    if (to == rank) return clq_fail(CLQ_INTERNAL, "rank %u sends to itself", rank);
    return clq_crew_run(crew, rank, &task);
}

clq_status clq_crew_receive(clq_crew *crew, unsigned rank, clq_queue *queue, clq_buffer *data, size_t offset,
                            size_t bytes, unsigned from) {
    const clq_task task = {.collective = CLQ_SEND_RECV,
                           .queue = queue,
                           .out = data,
                           .out_offset = offset,
                           .count = bytes,
                           .dtype = CLQ_U8,
                           .root = from,
                           .to = rank};
    if (from == rank) return clq_fail(CLQ_INTERNAL, "rank %u receives from itself", rank);
    return clq_crew_run(crew, rank, &task);
}
