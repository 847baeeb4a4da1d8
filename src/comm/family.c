/* The one failure of a crew, of those split from it, and of the pairs of their ranks, and how it ends every wait in any
 * of them. */
#include "comm/crew.h"

clq_status clq_family_create(clq_crew *crew) {
    clq_family *family = clq_alloc(1, sizeof *family);
    if (!family) return CLQ_MEMORY;
    int error = pthread_mutex_init(&family->lock, NULL);
    if (error) {
        clq_free(family);
        return clq_fail_lock("a group", error);
    }
    family->crews = crew;
    crew->family = family;
    return CLQ_OK;
}

void clq_family_leave(clq_crew *crew) {
    clq_family *family = crew->family;
    pthread_mutex_lock(&family->lock);
    clq_crew **at = &family->crews;
    while (*at != crew) at = &(*at)->next;
    *at = crew->next;
    bool last = !family->crews;
    pthread_mutex_unlock(&family->lock);
    crew->family = NULL;
    if (!last) return;
    pthread_mutex_destroy(&family->lock);
    clq_free(family);
}

clq_status clq_family_join(clq_family *family, clq_crew *crew) {
    if (atomic_load(&family->failed)) return clq_family_raise(family);
    clq_family_leave(crew);
    pthread_mutex_lock(&family->lock); /* should it fail meanwhile: a crew looks before it begins anything */
    crew->family = family;
    crew->next = family->crews;
    family->crews = crew;
    pthread_mutex_unlock(&family->lock);
    return CLQ_OK;
}

static void wake(clq_crew *crew) {
    for (size_t i = 0; crew->links && i < (size_t)crew->size * crew->size; i++) {
        if (!crew->links[i]) continue;
        clq_gate_wake(&crew->links[i]->filled);
        clq_gate_wake(&crew->links[i]->freed);
    }
    if (crew->barrier) clq_barrier_abort(crew->barrier);
}

bool clq_family_fail(clq_family *family, const clq_error *why) {
    pthread_mutex_lock(&family->lock);
    bool first = !atomic_load(&family->failed);
    if (first) {
        family->failure = *why;
        family->failed_at = clq_now_running();
        atomic_store(&family->failed, true);
        for (clq_crew *crew = family->crews; crew; crew = crew->next) wake(crew);
    }
    pthread_mutex_unlock(&family->lock);
    return first;
}

clq_status clq_family_raise(const clq_family *family) { return clq_fail(CLQ_ABORTED, "%s", family->failure.detail); }

void clq_crew_abort(clq_crew *crew, const clq_error *why) {
    const clq_error unnamed = {CLQ_ABORTED, "the group was aborted by its owner"};
    clq_family_fail(crew->family, why ? why : &unnamed);
}

clq_status clq_crew_failure(const clq_crew *crew, clq_error *out) {
    if (!atomic_load(&crew->family->failed)) return CLQ_OK;
    if (out) *out = crew->family->failure;
    return crew->family->failure.status;
}
