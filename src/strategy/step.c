/* What a replica does of a training step: the gradient; its exchange; the update, of all or of its part. And what is
 * done of it by itself. */
#include "strategy/replica.h"

/* The batch, and all launches up to the end of `last`. */
static clq_status run_batch(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last) {
    clq_staging *rows;
    CLQ_TRY(clq_replica_bring_rows(replica, plan, command, &rows));
    clq_plan_set_params(plan, &command->params);
    CLQ_TRY(clq_plan_run(plan, replica->queue, CLQ_SEGMENT_FORWARD, last));
    return rows && replica->reads_in_place ? clq_queue_mark_again(replica->queue, &rows->read) : CLQ_OK;
}

clq_status clq_replica_forward(clq_replica *replica, const clq_command *command) {
    return run_batch(replica, replica->plans[CLQ_MODE_EVALUATE], command, CLQ_SEGMENT_LOSS);
}

clq_status clq_replica_gradients(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(run_batch(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    return clq_queue_flush(replica->queue);
}

clq_status clq_replica_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced) {
    clq_buffer *gradient = clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT);
    if (traced) CLQ_TRY(clq_queue_finish(queue)); /* waiting for backward is no part of the exchange */
    double began = traced ? clq_now() : 0.0;
    CLQ_TRY(clq_crew_all_reduce(replica->strategy->crew, replica->index, queue, gradient, begin, gradient, begin,
                                (end - begin) / sizeof(float)));
    return traced ? clq_timeline_add(&replica->exchange, began, "all-reduce", "bytes", end - begin) : CLQ_OK;
}

clq_status clq_replica_reduce(clq_replica *replica) {
    clq_crew *crew = replica->strategy->crew;
    if (!crew) return CLQ_OK;
    uint64_t before = clq_crew_busy_ns(crew);
    size_t bytes = clq_weights_arena_bytes(replica->weights, CLQ_ARENA_GRADIENT);
    CLQ_TRY(clq_replica_exchange(replica, replica->queue, 0, bytes, replica->tracing));
    if (replica->index == 0) atomic_fetch_add(&replica->exposed_ns, clq_crew_busy_ns(crew) - before);
    return CLQ_OK;
}

/* Backward in parts; each bucket is handed to the reducer when the device has been told to finish it. */
static clq_status backward_and_reduce(clq_replica *replica) {
    size_t next, end;
    clq_event *backward_done = NULL;
    clq_plan_segment_range(replica->plan, CLQ_SEGMENT_BACKWARD, &next, &end);
    for (size_t i = 0; i < replica->bucket_count; i++) {
        const clq_bucket *bucket = &replica->buckets[i];
        clq_event *whole;
        CLQ_TRY(clq_plan_run_part(replica->plan, replica->queue, next, bucket->done));
        CLQ_TRY(clq_queue_mark(replica->queue, &whole));
        clq_reducer_post(replica->reducer, bucket, whole);
        next = bucket->done;
    }
    CLQ_TRY(clq_plan_run_part(replica->plan, replica->queue, next, end));
    CLQ_TRY(clq_queue_mark(replica->queue, &backward_done));
    clq_status status = clq_event_wait(backward_done);
    clq_event_destroy(backward_done);
    double ended = clq_now();
    clq_reducer_wait(replica->reducer);
    atomic_fetch_add(&replica->exposed_ns, (uint64_t)((clq_now() - ended) * 1e9));
    return status;
}

/* When all have come: only then are all gradients whole. */
static clq_status update_part(void *context) {
    clq_replica *replica = context;
    return clq_plan_run_sharded_update(replica->plan, replica->queue);
}

/* The gradient is added up by those who update: one way through it less, and half of the other. */
static clq_status reduce_and_apply_together(clq_replica *replica) {
    clq_crew *crew = replica->strategy->crew;
    uint64_t before = clq_crew_busy_ns(crew);
    CLQ_TRY(clq_crew_run(
        crew, replica->index,
        &(clq_task){.collective = CLQ_BARRIER, .queue = replica->queue, .between = update_part, .context = replica}));
    if (replica->index == 0) atomic_fetch_add(&replica->exposed_ns, clq_crew_busy_ns(crew) - before);
    clq_weights_turn(replica->weights);
    return CLQ_OK;
}

/* Every rank's part of an arena to the others. */
static clq_status collect(clq_replica *replica, clq_buffer *arena) {
    clq_strategy *strategy = replica->strategy;
    for (unsigned r = 0; r < strategy->count; r++) {
        size_t begin, end;
        clq_plan_updated_part(replica->plan, strategy->count, r, &begin, &end);
        CLQ_TRY(clq_crew_broadcast(strategy->crew, replica->index, replica->queue, arena, begin, end - begin, r));
    }
    return CLQ_OK;
}

clq_status clq_replica_collect_gradient(clq_replica *replica) {
    return collect(replica, clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT));
}

clq_status clq_replica_collect_state(clq_replica *replica) {
    for (unsigned slot = 0; slot < clq_weights_optimizer_slots(replica->weights); slot++)
        CLQ_TRY(collect(replica, clq_weights_optimizer_slot(replica->weights, slot)));
    return CLQ_OK;
}

clq_status clq_replica_apply(clq_replica *replica, const clq_command *command) {
    clq_plan_set_params(replica->plan, &command->params);
    CLQ_TRY(clq_plan_run(replica->plan, replica->queue, CLQ_SEGMENT_NORM, CLQ_SEGMENT_UPDATE));
    return clq_queue_flush(replica->queue);
}

static clq_status step_alone(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(run_batch(replica, replica->plan, command, CLQ_SEGMENT_UPDATE));
    return clq_queue_flush(replica->queue);
}

clq_status clq_replica_step(clq_replica *replica, const clq_command *command) {
    if (!replica->strategy->crew || replica->strategy->apart) return step_alone(replica, command);
    if (replica->reducer) {
        CLQ_TRY(run_batch(replica, replica->plan, command, CLQ_SEGMENT_LOSS));
        CLQ_TRY(backward_and_reduce(replica));
    } else {
        /* Collectives flush the queue that they are given. */
        CLQ_TRY(run_batch(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
        if (replica->strategy->shards_updates) return reduce_and_apply_together(replica);
        CLQ_TRY(clq_replica_reduce(replica));
    }
    return clq_replica_apply(replica, command);
}

clq_status clq_replica_predict(clq_replica *replica, const clq_command *command) {
    clq_plan *plan = replica->plans[CLQ_MODE_PREDICT];
    CLQ_TRY(run_batch(replica, plan, command, CLQ_SEGMENT_FORWARD));
    if (command->params.count == 0) return CLQ_OK;
    return clq_queue_read(replica->queue, clq_plan_output(plan), 0, command->to, command->bytes, true);
}
