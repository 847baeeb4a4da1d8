/* A fast path of the exchange: each replica has a second thread, the reducer, which exchanges buckets of the gradient
 * while the first thread goes on with backward. */
#include "strategy/module.h"

#include <stdio.h>

enum { IN_FLIGHT_MAX = 16 };

/* The reducer of a replica. */
typedef struct reducer {
    clq_bucket *buckets;
    size_t bucket_count;
    clq_thread *thread;
    clq_channel *tasks;
    clq_queue *queue;         /* only a task's `after` orders it behind the replica's queue */
    clq_event *backward_done; /* the end of backward of the step under way */
    bool lost;                /* a bucket was not summed; the replica reads it after clq_channel_wait */
} reducer;

typedef struct task {
    const clq_bucket *bucket;
    clq_event *after; /* the device has finished the bucket */
    bool traced;
} task;

static reducer *reducer_of(const clq_replica *replica) {
    return (reducer *)replica->strategy->exchange_own + replica->worker.index;
}

/* ---- in the reducer's thread ---- */

static clq_status exchange(clq_replica *replica, const task *t) {
    const clq_task sum = clq_peers_sum_gradient(replica, reducer_of(replica)->queue, t->bucket->begin, t->bucket->end);
    CLQ_TRY(clq_event_wait(t->after));
    return clq_peers_run(replica, &sum, t->bucket->end - t->bucket->begin, t->traced);
}

static void drive(void *context) {
    clq_replica *replica = context;
    reducer *own = reducer_of(replica);
    task t;
    while (clq_channel_take(own->tasks, &t)) {
        bool summed = false;
        if (!atomic_load(&replica->worker.pool->failed)) {
            clq_status status = exchange(replica, &t);
            summed = status == CLQ_OK;
            if (!summed) clq_worker_fail(&replica->worker, status);
        }
        if (!summed) own->lost = true;
        clq_event_destroy(t.after);
        clq_channel_done(own->tasks);
    }
}

/* ---- in the replica's thread ---- */

/* Runs backward in parts. A bucket goes to the reducer once the launches that complete it are enqueued. */
static clq_status begin(clq_replica *replica, const clq_command *command) {
    reducer *own = reducer_of(replica);
    clq_queue *queue = replica->worker.queue;
    size_t next, end;
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_LOSS));
    clq_plan_segment_range(replica->plan, CLQ_SEGMENT_BACKWARD, &next, &end);
    for (size_t i = 0; i < own->bucket_count; i++) {
        task t = {.bucket = &own->buckets[i], .traced = replica->worker.tracing};
        CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, t.bucket->done));
        CLQ_TRY(clq_queue_mark(queue, &t.after));
        clq_channel_put(own->tasks, &t);
        next = t.bucket->done;
    }
    CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, end));
    return clq_queue_mark_again(queue, &own->backward_done);
}

/* By now the next batch's rows are on their way (clq_exchange_step). They go to the upload block that this backward
 * does not read. The block that this backward reads gets rows only in the next step, after this wait. */
static clq_status finish(clq_replica *replica, const clq_step_params *params) {
    reducer *own = reducer_of(replica);
    (void)params;
    const clq_status status = clq_event_wait(own->backward_done);
    const double ended = clq_now();
    clq_channel_wait(own->tasks);
    clq_peers_note_exposed(replica, (uint64_t)((clq_now() - ended) * 1e9));
    /* If a bucket was not summed, no update is made. The pool has the reducer's failure. */
    return status == CLQ_OK && own->lost ? CLQ_ERROR_ABORTED : status;
}

/* ---- life ---- */

static clq_status start_reducer(clq_replica *replica, size_t bucket_bytes) {
    reducer *own = reducer_of(replica);
    char name[16];
    snprintf(name, sizeof name, "reducer %u", replica->worker.index % 1000u);
    CLQ_TRY(clq_plan_buckets(replica->plan, bucket_bytes, &own->buckets, &own->bucket_count));
    CLQ_TRY(clq_channel_create(sizeof(task), IN_FLIGHT_MAX, &own->tasks));
    CLQ_TRY(clq_queue_create(replica->worker.device, 0, &own->queue));
    return clq_thread_start(name, drive, replica, &own->thread);
}

static size_t bucket_bytes(const clq_strategy *strategy) {
    return clq_bucket_bytes(clq_weights_arena_bytes(strategy->replicas[0].weights, CLQ_ARENA_GRADIENT),
                            strategy->config.bucket_bytes, clq_peers_are_far(strategy));
}

static clq_status open(clq_strategy *strategy) {
    const size_t bytes = bucket_bytes(strategy);
    strategy->exchange_own = clq_alloc(strategy->count, sizeof(reducer));
    if (!strategy->exchange_own) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(start_reducer(&strategy->replicas[r], bytes));
    return CLQ_OK;
}

static void close(clq_strategy *strategy) {
    reducer *all = strategy->exchange_own;
    for (unsigned r = 0; r < strategy->count && all; r++) {
        if (all[r].thread) clq_channel_close(all[r].tasks);
        clq_thread_join(all[r].thread);
        clq_event_destroy(all[r].backward_done);
        clq_queue_destroy(all[r].queue);
        clq_channel_destroy(all[r].tasks);
        clq_free(all[r].buckets);
    }
    clq_free(all);
}

/* One run up to the loss, one for each bucket, and one for the update. */
static size_t runs(const clq_strategy *strategy, unsigned replica) {
    return reducer_of(&strategy->replicas[replica])->bucket_count + 2;
}

const clq_exchange_kind clq_exchange_overlapped = {.open = open,
                                                   .close = close,
                                                   .begin = begin,
                                                   .finish = finish,
                                                   .update = clq_replica_apply,
                                                   .during_backward = true,
                                                   .reduce = clq_peers_add_up_gradients,
                                                   .runs = runs};
