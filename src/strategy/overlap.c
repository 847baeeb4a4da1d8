/* A fast path of the exchange: each replica's second thread, the reducer, exchanges buckets of the gradient while the
 * first goes on with backward. */
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
    bool lost; /* a bucket was not summed; read behind clq_channel_wait */
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
        bool summed = false;
        if (!atomic_load(&worker->pool->failed)) {
            clq_status status = exchange(reducer, &t);
            summed = status == CLQ_OK;
            if (!summed) clq_worker_fail(worker, status);
        }
        if (!summed) reducer->lost = true;
        clq_event_destroy(t.after);
        clq_channel_done(reducer->tasks);
    }
}

static void destroy_reducer(clq_reducer *reducer) {
    if (!reducer) return;
    if (reducer->thread) clq_channel_close(reducer->tasks);
    clq_thread_join(reducer->thread);
    clq_queue_destroy(reducer->queue);
    clq_channel_destroy(reducer->tasks);
    clq_free(reducer);
}

static clq_status create_reducer(clq_replica *replica, clq_reducer **out) {
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
    destroy_reducer(reducer);
    return status;
}

/* Backward in parts; each bucket is handed to the reducer when the device has been told to finish it. */
static clq_status backward_and_reduce(clq_replica *replica, clq_mirror *mirror) {
    clq_queue *queue = replica->worker.queue;
    size_t next, end;
    clq_event *backward_done = NULL;
    clq_plan_segment_range(replica->plan, CLQ_SEGMENT_BACKWARD, &next, &end);
    for (size_t i = 0; i < mirror->bucket_count; i++) {
        task t = {.bucket = &mirror->buckets[i], .traced = replica->worker.tracing};
        CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, t.bucket->done));
        CLQ_TRY(clq_queue_mark(queue, &t.after));
        clq_channel_put(mirror->reducer->tasks, &t);
        next = t.bucket->done;
    }
    CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, end));
    CLQ_TRY(clq_queue_mark(queue, &backward_done));
    /* Into other memory than the rows that backward reads. What comes into theirs is sent a step later, behind the wait
     * for all of backward. */
    clq_status status = clq_uploads_send_next(replica);
    if (status == CLQ_OK) status = clq_event_wait(backward_done);
    clq_event_destroy(backward_done);
    double ended = clq_now();
    clq_channel_wait(mirror->reducer->tasks);
    clq_mirrored_note_exposed(replica, (uint64_t)((clq_now() - ended) * 1e9));
    /* No update from it, and the step is not finished. The pool has the reason. */
    return status == CLQ_OK && mirror->reducer->lost ? CLQ_ABORTED : status;
}

clq_status clq_overlap_step(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_LOSS));
    CLQ_TRY(backward_and_reduce(replica, &replica->strategy->mirrored->mirrors[replica->worker.index]));
    return clq_replica_apply(replica, &command->params);
}

clq_status clq_overlap_open(clq_strategy *strategy) {
    static const size_t bytes_default = 4 << 20;
    size_t bytes = strategy->config.bucket_bytes ? strategy->config.bucket_bytes : bytes_default;
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_mirror *mirror = &strategy->mirrored->mirrors[r];
        CLQ_TRY(clq_plan_buckets(strategy->replicas[r].plan, bytes, &mirror->buckets, &mirror->bucket_count));
        CLQ_TRY(create_reducer(&strategy->replicas[r], &mirror->reducer));
    }
    return CLQ_OK;
}

void clq_overlap_close(clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_mirror *mirror = &strategy->mirrored->mirrors[r];
        destroy_reducer(mirror->reducer);
        clq_free(mirror->buckets);
    }
}
