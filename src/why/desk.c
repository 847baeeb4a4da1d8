/* How members of a rig meet without a communicator: at a store, as central storage and the parameter server do, or by
 * passing a token on, as stages of a pipeline wait for one another. */
#include "why/rig.h"

#include <string.h>

static const double deadline_s = 30;

clq_status clq_desk_open(clq_rig *rig) {
    CLQ_TRY(clq_lock_create("made-up work", &rig->lock, &rig->changed));
    rig->locked = true;
    return CLQ_OK;
}

void clq_desk_close(clq_rig *rig) {
    if (!rig->locked) return;
    pthread_mutex_destroy(&rig->lock);
    pthread_cond_destroy(&rig->changed);
    rig->locked = false;
}

void clq_desk_abort(clq_rig *rig) {
    pthread_mutex_lock(&rig->lock);
    atomic_store(&rig->aborted, true);
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
}

/* With the lock held. */
static clq_status await(clq_rig *rig, double until) {
    if (atomic_load(&rig->aborted)) return CLQ_ERROR_ABORTED;
    if (clq_now_running() >= until) return clq_fail(CLQ_ERROR_TIMEOUT, "a device did not come within %g s", deadline_s);
    clq_lock_wait(&rig->lock, &rig->changed, CLQ_RUNNING_LOOK_S);
    return CLQ_OK;
}

/* Brings the gradient to where the host sees it, once the work before it is done. */
static clq_status push(clq_rig_member *m, size_t bytes) {
    return m->borrows ? clq_queue_read(m->queue, m->values, 0, m->gradient, bytes, true) : clq_queue_finish(m->queue);
}

static clq_status pull(clq_rig_member *m, size_t bytes) {
    return m->borrows ? clq_queue_write(m->queue, m->copy, 0, m->parameters, bytes, true) : CLQ_OK;
}

/* The last member to come makes the update, which also writes the copies. */
static void update_by_all(clq_rig *rig) {
    const float *gradients[CLQ_REPLICAS_MAX];
    float *copies[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < rig->at_work; r++) {
        gradients[r] = rig->members[r].gradient;
        copies[r] = rig->members[r].parameters;
    }
    (void)clq_store_update(rig->store, &(clq_store_change){.gradients = gradients,
                                                           .count = rig->at_work,
                                                           .factor = 1.0f,
                                                           .copies = copies,
                                                           .copy_count = rig->at_work});
}

clq_status clq_desk_update(clq_rig_member *m, size_t bytes) {
    clq_rig *rig = m->rig;
    CLQ_TRY(push(m, bytes));
    const double until = clq_now_running() + deadline_s;
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&rig->lock);
    const uint64_t mine = rig->met;
    if (++rig->present < rig->at_work) {
        while (rig->met == mine && status == CLQ_OK) status = await(rig, until);
    } else {
        update_by_all(rig);
        rig->present = 0;
        rig->met++;
        pthread_cond_broadcast(&rig->changed);
    }
    pthread_mutex_unlock(&rig->lock);
    CLQ_TRY(status);
    return pull(m, bytes);
}

clq_status clq_desk_update_alone(clq_rig_member *m, size_t bytes) {
    clq_store *store = m->rig->store;
    const float *const gradients[] = {m->gradient};
    CLQ_TRY(push(m, bytes));
    (void)clq_store_update(store, &(clq_store_change){.gradients = gradients, .count = 1, .factor = 1.0f});
    (void)clq_store_begin_read(store);
    memcpy(m->parameters, clq_store_parameters(store), bytes);
    clq_store_end_read(store);
    return pull(m, bytes);
}

clq_status clq_desk_pass_on(clq_rig_member *m) {
    clq_rig *rig = m->rig;
    const double until = clq_now_running() + deadline_s;
    clq_status status = CLQ_OK;
    pthread_mutex_lock(&rig->lock);
    while (rig->turn != m->rank && status == CLQ_OK) status = await(rig, until);
    rig->turn = (m->rank + 1) % rig->at_work;
    pthread_cond_broadcast(&rig->changed);
    pthread_mutex_unlock(&rig->lock);
    return status;
}
