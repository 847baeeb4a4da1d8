/* A replica's second thread, which exchanges buckets of the gradient while the first goes on with backward. */
#include "strategy/mirrored.h"

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
    clq_channel *tasks;
    clq_thread *thread;
};

static clq_status exchange(clq_reducer *reducer, const task *t) {
    CLQ_TRY(clq_event_wait(t->after));
    return clq_mirrored_exchange(reducer->replica, reducer->queue, t->bucket->begin, t->bucket->end, t->traced);
}

static void drive(void *context) {
    clq_reducer *reducer = context;
    clq_worker *worker = &reducer->replica->worker;
    task t;
    while (clq_channel_take(reducer->tasks, &t)) {
        if (!atomic_load(&worker->pool->failed)) {
            clq_status status = exchange(reducer, &t);
            if (status != CLQ_OK) clq_worker_fail(worker, status);
        }
        clq_event_destroy(t.after);
        clq_channel_done(reducer->tasks);
    }
}

void clq_reducer_post(clq_reducer *reducer, const clq_bucket *bucket, clq_event *after) {
    const task t = {bucket, after, reducer->replica->worker.tracing};
    clq_channel_put(reducer->tasks, &t);
}

void clq_reducer_wait(clq_reducer *reducer) { clq_channel_wait(reducer->tasks); }

clq_status clq_reducer_create(clq_replica *replica, clq_reducer **out) {
    clq_reducer *reducer = clq_alloc(1, sizeof *reducer);
    if (!reducer) return CLQ_MEMORY;
    reducer->replica = replica;
    char name[16];
    snprintf(name, sizeof name, "reducer %u", replica->worker.index % 1000u);
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_channel_create(sizeof(task), IN_FLIGHT_MAX, &reducer->tasks));
    CLQ_TRY_OR(fail, status, clq_queue_create(replica->worker.device, 0, &reducer->queue));
    CLQ_TRY_OR(fail, status, clq_thread_start(name, drive, reducer, &reducer->thread));
    *out = reducer;
    return CLQ_OK;
fail:
    clq_reducer_destroy(reducer);
    return status;
}

void clq_reducer_destroy(clq_reducer *reducer) {
    if (!reducer) return;
    if (reducer->thread) clq_channel_close(reducer->tasks);
    clq_thread_join(reducer->thread);
    clq_queue_destroy(reducer->queue);
    clq_channel_destroy(reducer->tasks);
    clq_free(reducer);
}
