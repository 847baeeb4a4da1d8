/* One replica's life, its queue of commands, and what each command does on its device. */
#include "strategy/replica.h"

#include <stdio.h>
#include <string.h>

/* ---- commands, in order ---- */

void clq_replica_post(clq_replica *replica, const clq_command *command) {
    pthread_mutex_lock(&replica->mutex);
    if (replica->posted - replica->taken == replica->ahead)
        while (replica->posted - replica->taken > replica->ahead / 2)
            pthread_cond_wait(&replica->changed, &replica->mutex);
    replica->commands[replica->posted++ % CLQ_COMMANDS_MAX] = *command;
    pthread_cond_signal(&replica->changed);
    pthread_mutex_unlock(&replica->mutex);
}

static clq_command take(clq_replica *replica) {
    pthread_mutex_lock(&replica->mutex);
    while (replica->posted == replica->taken) pthread_cond_wait(&replica->changed, &replica->mutex);
    clq_command command = replica->commands[replica->taken % CLQ_COMMANDS_MAX];
    replica->taken++;
    if (replica->posted - replica->taken == replica->ahead / 2) pthread_cond_signal(&replica->changed);
    pthread_mutex_unlock(&replica->mutex);
    return command;
}

void clq_latch_count_down(clq_latch *latch) {
    if (!latch) return;
    pthread_mutex_lock(&latch->mutex);
    if (--latch->remaining == 0) pthread_cond_signal(&latch->zero);
    pthread_mutex_unlock(&latch->mutex);
}

/* ---- rows to the device ---- */

static clq_staging *next_slot(clq_replica *replica) {
    pthread_mutex_lock(&replica->mutex);
    while (replica->filled - replica->freed == replica->slots) pthread_cond_wait(&replica->changed, &replica->mutex);
    clq_staging *slot = &replica->staging[replica->filled++ % replica->slots];
    pthread_mutex_unlock(&replica->mutex);
    return slot;
}

clq_staging *clq_replica_stage(clq_replica *replica, const void *samples, const void *labels, size_t count) {
    const clq_strategy_config *config = &replica->strategy->config;
    clq_staging *staging = next_slot(replica);
    size_t sample_bytes = config->sample_elements * clq_dtype_bytes(config->plan.sample_dtype);
    memcpy(clq_buffer_host(staging->samples), samples, count * sample_bytes);
    if (labels && staging->labels) memcpy(clq_buffer_host(staging->labels), labels, count * config->label_bytes);
    return staging;
}

static void free_oldest_slot(clq_replica *replica) {
    pthread_mutex_lock(&replica->mutex);
    if (replica->filled - ++replica->freed == replica->slots / 2) pthread_cond_signal(&replica->changed);
    pthread_mutex_unlock(&replica->mutex);
}

/* Frees the slot of the step before the last few, once the device has read it: by now it most likely has. */
static clq_status free_read_slot(clq_replica *replica, clq_staging *next) {
    clq_staging **place = &replica->under_way[replica->next_under_way++ % CLQ_STEPS_AHEAD], *staging = *place;
    *place = next;
    if (!staging) return CLQ_OK;
    clq_status status = staging->read ? clq_event_wait(staging->read) : CLQ_OK;
    free_oldest_slot(replica);
    return status;
}

/* Into the next of the replica's own slots, which the device has read some steps ago. */
static clq_status copy_rows(clq_replica *replica, const clq_rows *rows, clq_staging **out) {
    clq_staging *own = &replica->own[replica->next_own++ % CLQ_OWN_SLOTS];
    clq_status status = own->read ? clq_event_wait(own->read) : CLQ_OK;
    if (status == CLQ_OK) {
        clq_rows_copy_samples(rows, clq_buffer_host(own->samples));
        clq_rows_copy_labels(rows, clq_buffer_host(own->labels));
    }
    *out = own;
    return status;
}

static clq_status write_rows(clq_replica *replica, clq_buffer *to, const clq_buffer *pinned, size_t bytes) {
    return clq_queue_write(replica->queue, to, 0, clq_buffer_host(pinned), bytes, false);
}

static clq_status upload(clq_replica *replica, clq_staging *staging, size_t count) {
    const clq_strategy_config *config = &replica->strategy->config;
    size_t sample_bytes = config->sample_elements * clq_dtype_bytes(config->plan.sample_dtype);
    clq_queue_name(replica->queue, "upload", "samples");
    CLQ_TRY(write_rows(replica, clq_plan_samples(replica->plan), staging->samples, count * sample_bytes));
    if (staging->labels) {
        clq_queue_name(replica->queue, "upload", "labels");
        CLQ_TRY(write_rows(replica, clq_plan_labels(replica->plan), staging->labels, count * config->label_bytes));
    }
    return clq_queue_mark_again(replica->queue, &staging->read);
}

/* The command's rows, where the plan's next run reads them; *out: their slot, NULL where there are none. */
static clq_status bring_rows(clq_replica *replica, const clq_command *command, clq_staging **out) {
    clq_staging *staging = command->staged;
    clq_status status = free_read_slot(replica, staging);
    if (status == CLQ_OK && command->rows.count > 0) status = copy_rows(replica, &command->rows, &staging);
    *out = staging;
    if (status != CLQ_OK || !staging) return status;
    return replica->reads_in_place ? clq_plan_set_input(replica->plan, staging->samples, staging->labels)
                                   : upload(replica, staging, command->count);
}

/* ---- what commands do ---- */

static void set_step(clq_replica *replica, const clq_command *command) {
    clq_plan_set_count(replica->plan, command->count, command->scale);
    clq_plan_set_slot(replica->plan, command->slot);
}

static clq_status run_on_rows(clq_replica *replica, clq_staging *rows, clq_segment last) {
    CLQ_TRY(clq_plan_run(replica->plan, replica->queue, CLQ_SEGMENT_FORWARD, last));
    return rows && replica->reads_in_place ? clq_queue_mark_again(replica->queue, &rows->read) : CLQ_OK;
}

/* The batch, and all launches up to the end of `last`. */
static clq_status run_batch(clq_replica *replica, const clq_command *command, clq_segment last) {
    clq_staging *rows;
    CLQ_TRY(bring_rows(replica, command, &rows));
    set_step(replica, command);
    return run_on_rows(replica, rows, last);
}

static clq_status forward(clq_replica *replica, const clq_command *command) {
    return run_batch(replica, command, CLQ_SEGMENT_LOSS);
}

static const double begin_patience_s = 1e-3;
/* Of what the own gradient took: who is late by less is done sooner than help would have brought its caches along. */
static const double help_patience = 0.03;

/* Whether the count reaches the step before the time is over, or everything ends. */
static bool comes_to(const clq_replica *replica, atomic_uint_fast64_t *count, uint64_t step, double seconds) {
    for (double until = clq_now() + seconds; atomic_load(count) < step;)
        if (clq_now() > until || atomic_load(&replica->strategy->failed)) return false;
    return true;
}

/* Whether the other is computing the gradient of the step that this one has ended, and will be for a while: it may be
 * about to begin, or to end. */
static bool is_at_work(const clq_replica *replica, clq_replica *other) {
    uint64_t step = atomic_load(&replica->ended);
    if (!comes_to(replica, &other->begun, step, begin_patience_s)) return false;
    bool ends = comes_to(replica, &other->ended, step, help_patience * replica->gradient_s);
    return !ends && !atomic_load(&replica->strategy->failed);
}

/* Takes over what the others have not begun yet, while there is nothing else to do but to wait for them. None of them
 * gets to its next step before this one is through with helping, because the exchange comes between. */
static clq_status help_others(clq_replica *replica) {
    clq_strategy *strategy = replica->strategy;
    for (unsigned i = 1; i < strategy->count; i++) {
        unsigned r = (replica->index + i) % strategy->count;
        clq_replica *other = &strategy->replicas[r];
        if (!is_at_work(replica, other)) continue;
        CLQ_TRY(clq_plan_help(other->plan, replica->helpers[r], replica->queue, strategy->count - 1));
        CLQ_TRY(clq_queue_flush(replica->queue));
    }
    return CLQ_OK;
}

/* The gradient of a step, by all replicas' hands. */
static clq_status gradients_together(clq_replica *replica, const clq_command *command) {
    clq_staging *rows;
    CLQ_TRY(bring_rows(replica, command, &rows));
    set_step(replica, command);
    clq_plan_set_helpers(replica->plan, replica->strategy->count - 1);
    atomic_fetch_add(&replica->begun, 1);
    double began = clq_now();
    CLQ_TRY(run_on_rows(replica, rows, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_queue_flush(replica->queue));
    replica->gradient_s = clq_now() - began;
    atomic_fetch_add(&replica->ended, 1);
    clq_plan_set_helpers(replica->plan, 0);
    return help_others(replica);
}

static clq_status gradients(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(run_batch(replica, command, CLQ_SEGMENT_BACKWARD));
    return clq_queue_flush(replica->queue);
}

clq_status clq_replica_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced) {
    clq_buffer *gradient = clq_plan_gradient(replica->plan);
    if (traced) CLQ_TRY(clq_queue_finish(queue)); /* waiting for backward is no part of the exchange */
    double began = traced ? clq_now() : 0.0;
    CLQ_TRY(clq_crew_all_reduce(replica->strategy->crew, replica->index, queue, gradient, begin, gradient, begin,
                                (end - begin) / sizeof(float)));
    return traced ? clq_timeline_add(&replica->exchange, began, "all-reduce", "bytes", end - begin) : CLQ_OK;
}

static clq_status reduce(clq_replica *replica) {
    clq_crew *crew = replica->strategy->crew;
    if (!crew) return CLQ_OK;
    uint64_t before = clq_crew_busy_ns(crew);
    CLQ_TRY(clq_replica_exchange(replica, replica->queue, 0, clq_plan_arena_bytes(replica->plan), replica->tracing));
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

typedef struct sharded {
    clq_replica *replica;
    float rate;
} sharded;

/* When all have come: until then others who help read the plan's parameters. */
static clq_status update_part(void *context) {
    const sharded *update = context;
    clq_replica *replica = update->replica;
    clq_plan_set_rate(replica->plan, update->rate);
    return clq_plan_run_sharded_update(replica->plan, replica->queue);
}

/* The gradient is added up by those who update: one way through it less, and half of the other. */
static clq_status reduce_and_apply_together(clq_replica *replica, const clq_command *command) {
    clq_crew *crew = replica->strategy->crew;
    uint64_t before = clq_crew_busy_ns(crew);
    sharded update = {replica, command->rate};
    CLQ_TRY(clq_crew_run(
        crew, replica->index,
        &(clq_task){.collective = CLQ_BARRIER, .queue = replica->queue, .between = update_part, .context = &update}));
    if (replica->index == 0) atomic_fetch_add(&replica->exposed_ns, clq_crew_busy_ns(crew) - before);
    return clq_plan_turn(replica->plan);
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

static clq_status collect_state(clq_replica *replica) {
    for (unsigned slot = 0; slot < clq_plan_optimizer_slots(replica->plan); slot++)
        CLQ_TRY(collect(replica, clq_plan_optimizer_slot(replica->plan, slot)));
    return CLQ_OK;
}

static clq_status apply(clq_replica *replica, const clq_command *command) {
    clq_plan_set_rate(replica->plan, command->rate);
    CLQ_TRY(clq_plan_run(replica->plan, replica->queue, CLQ_SEGMENT_NORM, CLQ_SEGMENT_UPDATE));
    return clq_queue_flush(replica->queue);
}

static clq_status step_alone(clq_replica *replica, const clq_command *command) {
    clq_plan_set_rate(replica->plan, command->rate);
    CLQ_TRY(run_batch(replica, command, CLQ_SEGMENT_UPDATE));
    return clq_queue_flush(replica->queue);
}

static clq_status step(clq_replica *replica, const clq_command *command) {
    if (!replica->strategy->crew || replica->strategy->apart) return step_alone(replica, command);
    if (replica->reducer) {
        CLQ_TRY(forward(replica, command));
        CLQ_TRY(backward_and_reduce(replica));
    } else {
        CLQ_TRY(replica->helpers ? gradients_together(replica, command) : gradients(replica, command));
        if (replica->strategy->shards_updates) return reduce_and_apply_together(replica, command);
        CLQ_TRY(reduce(replica));
    }
    return apply(replica, command);
}

static clq_status predict(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(forward(replica, command));
    if (command->count == 0) return CLQ_OK;
    return clq_queue_read(replica->queue, clq_plan_output(replica->plan), 0, command->to, command->bytes, true);
}

static clq_buffer *memory_of(const clq_replica *replica, clq_memory memory) {
    switch (memory) {
    case CLQ_PARAMETERS: return clq_plan_parameters(replica->plan);
    case CLQ_GRADIENT: return clq_plan_gradient(replica->plan);
    case CLQ_METRICS: return clq_plan_metrics(replica->plan);
    case CLQ_NORMS: return clq_plan_norms(replica->plan);
    }
    return NULL;
}

static clq_status carry_out(clq_replica *replica, const clq_command *command) {
    clq_buffer *memory = memory_of(replica, command->memory);
    switch (command->kind) {
    case CLQ_COMMAND_STEP: return step(replica, command);
    case CLQ_COMMAND_GRADIENTS: return gradients(replica, command);
    case CLQ_COMMAND_FORWARD: CLQ_TRY(forward(replica, command)); return clq_queue_flush(replica->queue);
    case CLQ_COMMAND_REDUCE: return reduce(replica);
    case CLQ_COMMAND_APPLY: return apply(replica, command);
    case CLQ_COMMAND_COLLECT_GRADIENT: return collect(replica, clq_plan_gradient(replica->plan));
    case CLQ_COMMAND_COLLECT_STATE: return collect_state(replica);
    case CLQ_COMMAND_PREDICT: return predict(replica, command);
    case CLQ_COMMAND_READ:
        return clq_queue_read(replica->queue, memory, command->offset, command->to, command->bytes, true);
    case CLQ_COMMAND_WRITE:
        return clq_queue_write(replica->queue, memory, command->offset, command->from, command->bytes, true);
    case CLQ_COMMAND_SYNC: return clq_queue_finish(replica->queue);
    case CLQ_COMMAND_STOP: break;
    }
    return CLQ_OK;
}

static bool takes_batch(clq_command_kind kind) {
    return kind == CLQ_COMMAND_STEP || kind == CLQ_COMMAND_GRADIENTS || kind == CLQ_COMMAND_FORWARD ||
           kind == CLQ_COMMAND_PREDICT;
}

/* Carries out and records, the first batches with all that lies between them. */
static clq_status trace(clq_replica *replica, const clq_command *command) {
    static const char *const names[] = {
        [CLQ_COMMAND_STEP] = "step",
        [CLQ_COMMAND_GRADIENTS] = "gradients",
        [CLQ_COMMAND_FORWARD] = "evaluate",
        [CLQ_COMMAND_REDUCE] = "reduce",
        [CLQ_COMMAND_APPLY] = "apply",
        [CLQ_COMMAND_PREDICT] = "predict",
        [CLQ_COMMAND_COLLECT_GRADIENT] = "collect",
        [CLQ_COMMAND_COLLECT_STATE] = "collect",
        [CLQ_COMMAND_READ] = "read",
        [CLQ_COMMAND_WRITE] = "write",
        [CLQ_COMMAND_SYNC] = "wait",
        [CLQ_COMMAND_STOP] = "stop",
    };
    if (takes_batch(command->kind) && replica->traced++ == replica->strategy->config.trace_steps) {
        replica->tracing = false;
        clq_queue_stop_trace(replica->queue);
        return carry_out(replica, command);
    }
    double began = clq_now();
    CLQ_TRY(carry_out(replica, command));
    return takes_batch(command->kind)
               ? clq_timeline_add(&replica->steps, began, names[command->kind], "batch", replica->traced)
               : clq_timeline_add(&replica->steps, began, names[command->kind], NULL, 0);
}

/* A thread whose device is behind it goes on by fits and starts, whenever a slot is free: over as many steps as there
 * are slots its pace is the device's. */
static void note_time(clq_replica *replica, clq_command_kind kind) {
    if (kind == CLQ_COMMAND_GRADIENTS || kind == CLQ_COMMAND_REDUCE) return; /* of a step that APPLY ends */
    if (kind != CLQ_COMMAND_STEP && kind != CLQ_COMMAND_APPLY) {
        replica->steps_in_row = 0;
        return;
    }
    unsigned steps = clq_device_runs_in_caller(replica->device) ? 1 : CLQ_OWN_SLOTS;
    double now = clq_now(), *ended = &replica->steps_ended[replica->steps_in_row % steps];
    if (replica->steps_in_row++ >= steps)
        replica->step_s[replica->steps_timed++ % CLQ_STEP_TIMES] = (float)((now - *ended) / steps);
    *ended = now;
}

/* What a replica still has under way when training has failed is waited for so long: more than a few steps take, and
 * no more than anyone waits for an error's message. */
static const double settle_s = 10.0;

static void drive(void *context) {
    clq_replica *replica = context;
    for (;;) {
        clq_command command = take(replica);
        if (!atomic_load(&replica->strategy->failed)) {
            clq_status status = replica->tracing ? trace(replica, &command) : carry_out(replica, &command);
            if (status != CLQ_OK) clq_strategy_fail(replica->strategy, status, replica);
            note_time(replica, command.kind);
        } else if (command.staged) {
            free_oldest_slot(replica); /* the poster may be waiting for one */
        }
        clq_latch_count_down(command.latch);
        if (command.kind == CLQ_COMMAND_STOP) break;
    }
    /* Commands under way read the staging memory, after a failure, too. */
    if (!atomic_load(&replica->strategy->failed))
        (void)clq_queue_finish(replica->queue);
    else
        clq_queue_settle(replica->queue, clq_now() + settle_s);
}

/* ---- life
 * ------------------------------------------------------------------------------------------------------------- */

/* So many that small steps ride over slow wake-ups of the poster, and no more memory than that is worth. */
static unsigned staging_slots(size_t bytes) {
    const size_t slots_least = 4, bytes_most = 1 << 20;
    return (unsigned)CLQ_MAX(CLQ_MIN(bytes_most / bytes, (size_t)CLQ_STAGING_SLOTS_MAX), slots_least);
}

static clq_status open_slot(clq_replica *replica, size_t sample_bytes, clq_staging *slot) {
    const clq_strategy_config *config = &replica->strategy->config;
    clq_memory_kind kind = replica->reads_in_place ? CLQ_MEMORY_DEVICE : CLQ_MEMORY_PINNED;
    CLQ_TRY(clq_buffer_create(replica->device, kind, replica->share * sample_bytes, "sample staging", &slot->samples));
    if (!config->plan.loss) return CLQ_OK;
    return clq_buffer_create(replica->device, kind, replica->share * config->label_bytes, "label staging",
                             &slot->labels);
}

static clq_status open_staging(clq_replica *replica) {
    const clq_strategy_config *config = &replica->strategy->config;
    size_t sample_bytes = config->sample_elements * clq_dtype_bytes(config->plan.sample_dtype);
    replica->slots = staging_slots(replica->share * sample_bytes);
    replica->reads_in_place = clq_buffer_host(clq_plan_samples(replica->plan)) != NULL;
    for (unsigned i = 0; i < replica->slots; i++) CLQ_TRY(open_slot(replica, sample_bytes, &replica->staging[i]));
    for (unsigned i = 0; i < CLQ_OWN_SLOTS && config->plan.update; i++)
        CLQ_TRY(open_slot(replica, sample_bytes, &replica->own[i]));
    return CLQ_OK;
}

static void close_slots(clq_staging *slots, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        clq_event_destroy(slots[i].read);
        clq_buffer_destroy(slots[i].samples);
        clq_buffer_destroy(slots[i].labels);
    }
}

/* As many as take some ten milliseconds: the poster, and who interrupts it, wait for them. Most commands are steps. */
static unsigned commands_ahead(const clq_plan *plan) {
    const double flops_ahead = 1e9;
    const unsigned least = 8;
    double ahead = flops_ahead / CLQ_MAX(clq_plan_flops(plan), 1.0);
    return CLQ_MAX(least, (unsigned)CLQ_MIN(ahead, (double)CLQ_COMMANDS_MAX));
}

clq_status clq_replica_open(clq_replica *replica, bool joined) {
    clq_plan_config plan = replica->strategy->config.plan;
    plan.capacity = (uint32_t)replica->share;
    plan.joined = joined;
    replica->tracing = replica->strategy->config.trace_steps > 0;
    CLQ_TRY(clq_queue_create(replica->device, replica->tracing ? CLQ_QUEUE_TRACE : 0, &replica->queue));
    CLQ_TRY(clq_plan_create(replica->strategy->model, replica->device, &plan, &replica->plan));
    replica->ahead = commands_ahead(replica->plan);
    replica->step_s = clq_alloc(CLQ_STEP_TIMES, sizeof *replica->step_s);
    if (!replica->step_s) return CLQ_MEMORY;
    return open_staging(replica);
}

clq_status clq_replica_start(clq_replica *replica) {
    if (pthread_mutex_init(&replica->mutex, NULL) != 0) return clq_fail(CLQ_SYSTEM, "cannot create a lock");
    if (pthread_cond_init(&replica->changed, NULL) != 0) {
        pthread_mutex_destroy(&replica->mutex);
        return clq_fail(CLQ_SYSTEM, "cannot create a condition variable");
    }
    replica->ready = true;
    char name[16];
    snprintf(name, sizeof name, "replica %u", replica->index % 1000u);
    return clq_thread_start(name, drive, replica, &replica->thread);
}

void clq_replica_stop(clq_replica *replica) {
    if (!replica->thread) return;
    clq_replica_post(replica, &(clq_command){.kind = CLQ_COMMAND_STOP});
    clq_thread_join(replica->thread);
    replica->thread = NULL;
}

void clq_replica_close(clq_replica *replica) {
    if (replica->ready) {
        pthread_cond_destroy(&replica->changed);
        pthread_mutex_destroy(&replica->mutex);
    }
    close_slots(replica->staging, CLQ_STAGING_SLOTS_MAX);
    close_slots(replica->own, CLQ_OWN_SLOTS);
    clq_free(replica->buckets);
    clq_free(replica->step_s);
    clq_free(replica->steps.spans);
    clq_free(replica->exchange.spans);
    clq_plan_destroy(replica->plan);
    clq_queue_destroy(replica->queue);
    clq_device_close(replica->device);
}
