/* A family's one failure, and how it ends every wait in a communicator, in those split from it, and in the pairs of
 * their ranks. */
#include "comm/communicator.h"
#include "comm/outer/wide.h"

clq_status clq_family_create(clq_comm *comm) {
    clq_family *family = clq_alloc(1, sizeof *family);
    if (!family) return CLQ_ERROR_MEMORY;
    int error = pthread_mutex_init(&family->lock, NULL);
    if (error) {
        clq_free(family);
        return clq_fail_lock("a group", error);
    }
    family->comms = comm;
    comm->family = family;
    return CLQ_OK;
}

void clq_family_leave(clq_comm *comm) {
    clq_family *family = comm->family;
    pthread_mutex_lock(&family->lock);
    clq_comm **at = &family->comms;
    while (*at != comm) at = &(*at)->next;
    *at = comm->next;
    bool last = !family->comms;
    pthread_mutex_unlock(&family->lock);
    comm->family = NULL;
    if (!last) return;
    pthread_mutex_destroy(&family->lock);
    clq_free(family);
}

clq_status clq_family_join(clq_family *family, clq_comm *comm) {
    if (atomic_load(&family->failed)) return clq_family_raise(family);
    clq_family_leave(comm);
    pthread_mutex_lock(&family->lock); /* the family may fail meanwhile: every collective looks before it begins */
    comm->family = family;
    comm->next = family->comms;
    family->comms = comm;
    pthread_mutex_unlock(&family->lock);
    return CLQ_OK;
}

static void wake(clq_comm *comm, const clq_error *why) {
    if (comm->wide) clq_wide_fail(comm->wide, why);
    for (size_t i = 0; comm->links && i < (size_t)comm->size * comm->size; i++) {
        clq_link *link = atomic_load(&comm->links[i]);
        if (!link) continue;
        clq_gate_wake(&link->filled);
        clq_gate_wake(&link->freed);
    }
    if (comm->barrier) clq_barrier_abort(comm->barrier);
}

bool clq_family_fail(clq_family *family, const clq_error *why) {
    pthread_mutex_lock(&family->lock);
    bool first = !atomic_load(&family->failed);
    if (first) {
        family->failure = *why;
        family->failed_at = clq_now_running();
        atomic_store(&family->failed, true);
        for (clq_comm *comm = family->comms; comm; comm = comm->next) wake(comm, why);
    }
    pthread_mutex_unlock(&family->lock);
    return first;
}

clq_status clq_family_raise(const clq_family *family) {
    return clq_fail(CLQ_ERROR_ABORTED, "%s", family->failure.detail);
}

void clq_comm_abort(clq_comm *comm, const clq_error *why) {
    const clq_error unnamed = {CLQ_ERROR_ABORTED, "the group was aborted by its owner"};
    clq_family_fail(comm->family, why ? why : &unnamed);
}

clq_status clq_comm_failure(const clq_comm *comm, clq_error *out) {
    if (!atomic_load(&comm->family->failed)) return CLQ_OK;
    if (out) *out = comm->family->failure;
    return comm->family->failure.status;
}
