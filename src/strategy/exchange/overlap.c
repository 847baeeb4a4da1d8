/* A fast path of the exchange: each replica's second thread, the reducer, exchanges buckets of the gradient while the
 * first goes on with backward. */
#include "strategy/modules/mirrored.h"

#include <stdio.h>

enum { IN_FLIGHT_MAX = 16 };

typedef struct task {
    const clq_bucket *bucket;
    clq_event *after; /* the bucket is whole */
    bool traced;
} task;

static clq_status exchange(clq_replica *replica, const task *t) {
    CLQ_TRY(clq_event_wait(t->after));
    return clq_mirrored_exchange(replica, clq_mirror_of(replica)->queue, t->bucket->begin, t->bucket->end, t->traced);
}

static void drive(void *context) {
    clq_replica *replica = context;
    clq_mirror *mirror = clq_mirror_of(replica);
    task t;
    while (clq_channel_take(mirror->tasks, &t)) {
        bool summed = false;
        if (!atomic_load(&replica->worker.pool->failed)) {
            clq_status status = exchange(replica, &t);
            summed = status == CLQ_OK;
            if (!summed) clq_worker_fail(&replica->worker, status);
        }
        if (!summed) mirror->lost = true;
        clq_event_destroy(t.after);
        clq_channel_done(mirror->tasks);
    }
}

static clq_status start_reducer(clq_replica *replica) {
    clq_mirror *mirror = clq_mirror_of(replica);
    char name[16];
    snprintf(name, sizeof name, "reducer %u", replica->worker.index % 1000u);
    CLQ_TRY(clq_channel_create(sizeof(task), IN_FLIGHT_MAX, &mirror->tasks));
    CLQ_TRY(clq_queue_create(replica->worker.device, 0, &mirror->queue));
    return clq_thread_start(name, drive, replica, &mirror->reducer);
}

/* Backward in parts; each bucket is handed to the reducer when the device has been told to finish it. */
static clq_status backward_and_reduce(clq_replica *replica, size_t samples) {
    clq_mirror *mirror = clq_mirror_of(replica);
    clq_queue *queue = replica->worker.queue;
    size_t next, end;
    clq_event *backward_done = NULL;
    clq_plan_segment_range(replica->plan, CLQ_SEGMENT_BACKWARD, &next, &end);
    for (size_t i = 0; i < mirror->bucket_count; i++) {
        task t = {.bucket = &mirror->buckets[i], .traced = replica->worker.tracing};
        CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, t.bucket->done));
        CLQ_TRY(clq_queue_mark(queue, &t.after));
        clq_channel_put(mirror->tasks, &t);
        next = t.bucket->done;
    }
    CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, end));
    CLQ_TRY(clq_queue_mark(queue, &backward_done));
    /* Into other memory than the rows that backward reads. What comes into theirs is sent a step later, behind the wait
     * for all of backward. */
    clq_status status = clq_uploads_send_next(replica);
    if (status == CLQ_OK) status = clq_event_wait(backward_done);
    clq_event_destroy(backward_done);
    if (status == CLQ_OK) status = clq_pace_arrive(replica, samples);
    double ended = clq_now();
    clq_channel_wait(mirror->tasks);
    clq_mirrored_note_exposed(replica, (uint64_t)((clq_now() - ended) * 1e9));
    /* No update from it, and the step is not finished. The pool has the reason. */
    return status == CLQ_OK && mirror->lost ? CLQ_ABORTED : status;
}

clq_status clq_overlap_step(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_LOSS));
    CLQ_TRY(backward_and_reduce(replica, command->params.count));
    clq_pace_compute(replica);
    return clq_replica_apply(replica, &command->params);
}

clq_status clq_overlap_open(clq_strategy *strategy) {
    size_t bytes = strategy->config.bucket_bytes ? strategy->config.bucket_bytes : CLQ_BUCKET_BYTES_DEFAULT;
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_mirror *mirror = &clq_mirrored_of_strategy(strategy)->mirrors[r];
        CLQ_TRY(clq_plan_buckets(strategy->replicas[r].plan, bytes, &mirror->buckets, &mirror->bucket_count));
        CLQ_TRY(start_reducer(&strategy->replicas[r]));
    }
    return CLQ_OK;
}

void clq_overlap_close(clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_mirror *mirror = &clq_mirrored_of_strategy(strategy)->mirrors[r];
        if (mirror->reducer) clq_channel_close(mirror->tasks);
        clq_thread_join(mirror->reducer);
        clq_queue_destroy(mirror->queue);
        clq_channel_destroy(mirror->tasks);
        clq_free(mirror->buckets);
    }
}
