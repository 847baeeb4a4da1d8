/* One replica's life, and its queue of commands: rows.c and step.c do what they say. */
#include "strategy/replica.h"

#include <stdio.h>

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

/* ---- carried out ---- */

static clq_buffer *memory_of(const clq_replica *replica, unsigned memory) {
    if (memory == CLQ_METRICS) return clq_plan_metrics(replica->plan);
    if (memory == CLQ_NORMS) return clq_plan_norms(replica->plan);
    return clq_weights_arena(replica->weights, (clq_arena)memory);
}

static clq_status carry_out(clq_replica *replica, const clq_command *command) {
    clq_buffer *memory = memory_of(replica, command->memory);
    switch (command->kind) {
    case CLQ_COMMAND_STEP: return clq_replica_step(replica, command);
    case CLQ_COMMAND_GRADIENTS: return clq_replica_gradients(replica, command);
    case CLQ_COMMAND_FORWARD: CLQ_TRY(clq_replica_forward(replica, command)); return clq_queue_flush(replica->queue);
    case CLQ_COMMAND_REDUCE: return clq_replica_reduce(replica);
    case CLQ_COMMAND_APPLY: return clq_replica_apply(replica, command);
    case CLQ_COMMAND_COLLECT_GRADIENT: return clq_replica_collect_gradient(replica);
    case CLQ_COMMAND_COLLECT_STATE: return clq_replica_collect_state(replica);
    case CLQ_COMMAND_PREDICT: return clq_replica_predict(replica, command);
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
            clq_replica_free_slot(replica); /* the poster may be waiting for one */
        }
        clq_latch_count_down(command.latch);
        if (command.kind == CLQ_COMMAND_STOP) break;
    }
    /* Commands under way read the staging memory, after a failure, too. */
    if (!atomic_load(&replica->strategy->failed))
        (void)clq_queue_finish(replica->queue);
    else
        clq_queue_settle(replica->queue, clq_now_running() + settle_s);
}

/* ---- life ---- */

/* As many as take some ten milliseconds: the poster, and who interrupts it, wait for them. Most commands are steps. */
static unsigned commands_ahead(const clq_plan *plan) {
    const double flops_ahead = 1e9;
    const unsigned least = 8;
    double ahead = flops_ahead / CLQ_MAX(clq_plan_flops(plan), 1.0);
    return CLQ_MAX(least, (unsigned)CLQ_MIN(ahead, (double)CLQ_COMMANDS_MAX));
}

clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode) {
    clq_plan_config config = replica->strategy->config.plan;
    config.mode = mode;
    config.capacity = (uint32_t)replica->share;
    config.fused_launches = replica->joined;
    config.beside = replica->plan;
    if (mode != CLQ_MODE_TRAIN) {
        config.update = NULL;
        config.gradient_norms = false;
    }
    if (mode == CLQ_MODE_PREDICT) config.loss = NULL;
    return clq_plan_create(replica->weights, &config, &replica->plans[mode]);
}

clq_status clq_replica_open(clq_replica *replica) {
    const clq_plan_config *config = &replica->strategy->config.plan;
    replica->tracing = replica->strategy->config.trace_steps > 0;
    CLQ_TRY(clq_queue_create(replica->device, replica->tracing ? CLQ_QUEUE_TRACE : 0, &replica->queue));
    CLQ_TRY(clq_weights_create(replica->strategy->model, replica->device, config->update, &replica->weights));
    CLQ_TRY(clq_replica_make_plan(replica, config->mode));
    replica->plan = replica->plans[config->mode];
    replica->ahead = commands_ahead(replica->plan);
    replica->step_s = clq_alloc(CLQ_STEP_TIMES, sizeof *replica->step_s);
    if (!replica->step_s) return CLQ_MEMORY;
    return clq_replica_open_rows(replica);
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
    clq_replica_close_rows(replica);
    clq_free(replica->buckets);
    clq_free(replica->step_s);
    clq_free(replica->steps.spans);
    clq_free(replica->exchange.spans);
    for (unsigned mode = 0; mode < CLQ_MODE_COUNT; mode++)
        if (replica->plans[mode] != replica->plan) clq_plan_destroy(replica->plans[mode]);
    clq_plan_destroy(replica->plan); /* the others were beside it */
    clq_weights_destroy(replica->weights);
    clq_queue_destroy(replica->queue);
    clq_device_close(replica->device);
}
