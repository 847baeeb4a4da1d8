/* A replica's second thread, which exchanges buckets of the gradient while the first goes on with backward. */
#include "strategy/replica.h"

#include <stdio.h>

enum { IN_FLIGHT_MAX = 16 };

typedef struct task {
    const clq_bucket *bucket;
    clq_event *after; /* the bucket is whole */
    bool traced;
} task;

struct clq_reducer {
    clq_replica *replica;
    clq_queue *queue; /* behind nothing: `after` says when */
    clq_thread *thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ready; /* mutex and condition exist */
    task tasks[IN_FLIGHT_MAX];
    uint64_t posted, taken, done;
    bool stop;
};

static clq_status exchange(clq_reducer *reducer, const task *t) {
    CLQ_TRY(clq_event_wait(t->after));
    return clq_replica_exchange(reducer->replica, reducer->queue, t->bucket->begin, t->bucket->end, t->traced);
}

/* False where there is nothing more to do. */
static bool take(clq_reducer *reducer, task *out) {
    pthread_mutex_lock(&reducer->mutex);
    while (reducer->posted == reducer->taken && !reducer->stop) pthread_cond_wait(&reducer->changed, &reducer->mutex);
    bool more = reducer->posted > reducer->taken;
    if (more) *out = reducer->tasks[reducer->taken++ % IN_FLIGHT_MAX];
    pthread_mutex_unlock(&reducer->mutex);
    return more;
}

static void drive(void *context) {
    clq_reducer *reducer = context;
    clq_strategy *strategy = reducer->replica->strategy;
    task t;
    while (take(reducer, &t)) {
        if (!atomic_load(&strategy->failed)) {
            clq_status status = exchange(reducer, &t);
            if (status != CLQ_OK) clq_strategy_fail(strategy, status, reducer->replica);
        }
        clq_event_destroy(t.after);
        pthread_mutex_lock(&reducer->mutex);
        reducer->done++;
        pthread_cond_broadcast(&reducer->changed);
        pthread_mutex_unlock(&reducer->mutex);
    }
}

void clq_reducer_post(clq_reducer *reducer, const clq_bucket *bucket, clq_event *after) {
    pthread_mutex_lock(&reducer->mutex);
    while (reducer->posted - reducer->done == IN_FLIGHT_MAX) pthread_cond_wait(&reducer->changed, &reducer->mutex);
    reducer->tasks[reducer->posted++ % IN_FLIGHT_MAX] = (task){bucket, after, reducer->replica->tracing};
    pthread_cond_broadcast(&reducer->changed);
    pthread_mutex_unlock(&reducer->mutex);
}

void clq_reducer_wait(clq_reducer *reducer) {
    pthread_mutex_lock(&reducer->mutex);
    while (reducer->done < reducer->posted) pthread_cond_wait(&reducer->changed, &reducer->mutex);
    pthread_mutex_unlock(&reducer->mutex);
}

static clq_status make_locks(clq_reducer *reducer) {
    if (pthread_mutex_init(&reducer->mutex, NULL) != 0) return clq_fail(CLQ_SYSTEM, "cannot create a lock");
    if (pthread_cond_init(&reducer->changed, NULL) != 0) {
        pthread_mutex_destroy(&reducer->mutex);
        return clq_fail(CLQ_SYSTEM, "cannot create a condition variable");
    }
    reducer->ready = true;
    return CLQ_OK;
}

clq_status clq_reducer_create(clq_replica *replica, clq_reducer **out) {
    clq_reducer *reducer = clq_alloc(1, sizeof *reducer);
    if (!reducer) return CLQ_MEMORY;
    reducer->replica = replica;
    char name[16];
    snprintf(name, sizeof name, "reducer %u", replica->index % 1000u);
    clq_status status;
    CLQ_TRY_OR(fail, status, make_locks(reducer));
    CLQ_TRY_OR(fail, status, clq_queue_create(replica->device, 0, &reducer->queue));
    CLQ_TRY_OR(fail, status, clq_thread_start(name, drive, reducer, &reducer->thread));
    *out = reducer;
    return CLQ_OK;
fail:
    clq_reducer_destroy(reducer);
    return status;
}

void clq_reducer_destroy(clq_reducer *reducer) {
    if (!reducer) return;
    if (reducer->thread) {
        pthread_mutex_lock(&reducer->mutex);
        reducer->stop = true;
        pthread_cond_broadcast(&reducer->changed);
        pthread_mutex_unlock(&reducer->mutex);
        clq_thread_join(reducer->thread);
    }
    clq_queue_destroy(reducer->queue);
    if (reducer->ready) {
        pthread_cond_destroy(&reducer->changed);
        pthread_mutex_destroy(&reducer->mutex);
    }
    clq_free(reducer);
}
