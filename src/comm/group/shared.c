/* What a group shares with the groups that were split from it: the ranks' devices, the lock for their callers' queues,
 * and memory that callers allocated on the devices. The caller who allocated memory holds it, and so does each call
 * that uses it. */
#include "comm/group/group.h"

/* ---- devices ---- */

clq_status clq_shared_create(const clq_rank *ranks, unsigned count, const clq_build_limit *limit, clq_shared **out) {
    clq_shared *shared = clq_alloc(1, sizeof *shared);
    if (!shared) return CLQ_ERROR_MEMORY;
    const clq_build_limit own = {CLQ_BUILD_DEADLINE_S, "", &shared->stuck};
    atomic_init(&shared->groups, 1);
    int lock = pthread_mutex_init(&shared->lock, NULL), marking = pthread_mutex_init(&shared->marking, NULL);
    shared->lock_made = lock == 0;
    shared->marking_made = marking == 0;
    clq_status status = lock || marking ? clq_fail_lock("a group", lock ? lock : marking) : CLQ_OK;
    for (unsigned r = 0; r < count && status == CLQ_OK; r++) {
        if (ranks[r].context && ranks[r].device)
            status = clq_device_wrap(ranks[r].context, ranks[r].device, limit ? limit : &own, &shared->devices[r]);
        else
            status = clq_fail(CLQ_ERROR_ARGUMENT, "its context or device is NULL");
        if (status != CLQ_OK) clq_fail_within(status, "rank %u", r);
    }
    if (status == CLQ_OK)
        *out = shared;
    else
        clq_shared_release(shared);
    return status;
}

void clq_shared_release(clq_shared *shared) {
    if (atomic_fetch_sub(&shared->groups, 1) != 1) return;
    for (unsigned r = 0; r < CLQ_REPLICAS_MAX; r++) clq_device_close(shared->devices[r]);
    if (shared->lock_made) pthread_mutex_destroy(&shared->lock);
    if (shared->marking_made) pthread_mutex_destroy(&shared->marking);
    clq_free(shared);
}

/* ---- queues ---- */

clq_status clq_shared_mark(const clq_group_rank *rank, clq_event **out) {
    clq_shared *shared = rank->group->shared;
    const bool alone = clq_device_runs_in_caller(rank->device);
    if (alone) pthread_mutex_lock(&shared->marking);
    clq_status status = clq_queue_mark(rank->callers_queue, out);
    if (alone) pthread_mutex_unlock(&shared->marking);
    return status;
}

/* ---- memory ---- */

clq_group_memory *clq_memory_find(const clq_group *group, unsigned rank, cl_mem handle) {
    clq_shared *shared = group->shared;
    pthread_mutex_lock(&shared->lock);
    clq_group_memory *own = shared->memory;
    while (own &&
           (clq_buffer_handle(own->buffer) != handle || clq_buffer_device(own->buffer) != group->ranks[rank].device))
        own = own->next;
    if (own) atomic_fetch_add(&own->holders, 1);
    pthread_mutex_unlock(&shared->lock);
    return own;
}

void clq_memory_release(clq_group_memory *own) {
    if (!own || atomic_fetch_sub(&own->holders, 1) != 1) return;
    clq_buffer_destroy(own->buffer);
    clq_free(own);
}

/* Takes memory that the group's caller allocated off the list. handle NULL: any such memory. Returns NULL if there is
 * none. */
static clq_group_memory *take_out(clq_group *group, cl_mem handle) {
    clq_shared *shared = group->shared;
    pthread_mutex_lock(&shared->lock);
    clq_group_memory **at = &shared->memory;
    while (*at && ((*at)->owner != group || (handle && clq_buffer_handle((*at)->buffer) != handle))) at = &(*at)->next;
    clq_group_memory *own = *at;
    if (own) *at = own->next;
    pthread_mutex_unlock(&shared->lock);
    return own;
}

void clq_memory_release_all(clq_group *group) {
    for (clq_group_memory *own; (own = take_out(group, NULL)) != NULL;) clq_memory_release(own);
}

clq_status clq_group_alloc(clq_group *group, unsigned rank, size_t bytes, cl_mem *out) {
    if (rank >= group->size)
        return clq_fail(CLQ_ERROR_ARGUMENT, "rank %u is out of range: the group has %u ranks", rank, group->size);
    clq_group_memory *own = clq_alloc(1, sizeof *own);
    if (!own) return CLQ_ERROR_MEMORY;
    clq_status status =
        clq_buffer_create(group->ranks[rank].device, CLQ_MEMORY_DEVICE, bytes, "a caller's memory", &own->buffer);
    if (status != CLQ_OK) {
        clq_free(own);
        return status;
    }
    atomic_init(&own->holders, 1);
    own->owner = group;
    *out = clq_buffer_handle(own->buffer);
    pthread_mutex_lock(&group->shared->lock);
    own->next = group->shared->memory;
    group->shared->memory = own;
    pthread_mutex_unlock(&group->shared->lock);
    return CLQ_OK;
}

void clq_group_free(clq_group *group, cl_mem memory) {
    if (memory) clq_memory_release(take_out(group, memory));
}
