/* Workers: their threads and channels, how they are waited for, and the first failure. */
#include "strategy/replicas/pool.h"

#include <stdio.h>

/* ---- failures ---- */

void clq_worker_fail(clq_worker *worker, clq_status status) {
    clq_pool *pool = worker->pool;
    const clq_status elsewhere =
        status == CLQ_ERROR_ABORTED && pool->failure_elsewhere ? pool->failure_elsewhere(pool->context) : CLQ_OK;
    if (status == CLQ_ERROR_ABORTED && elsewhere == CLQ_OK) { /* another worker failed, and is about to say why */
        pthread_mutex_lock(&pool->lock);
        while (!atomic_load(&pool->failed)) pthread_cond_wait(&pool->told, &pool->lock);
        pthread_mutex_unlock(&pool->lock);
        return;
    }
    if (pool->count > 1 && elsewhere == CLQ_OK) clq_fail_on(status, worker->device, "replica %u", worker->index);
    clq_error error;
    clq_error_take(elsewhere == CLQ_OK ? status : elsewhere, &error);
    pthread_mutex_lock(&pool->lock);
    if (!atomic_load(&pool->failed)) {
        pool->failure = error;
        atomic_store(&pool->failed, true);
        pthread_cond_broadcast(&pool->told);
    }
    pthread_mutex_unlock(&pool->lock);
    if (pool->on_failure) pool->on_failure(pool->context, &error);
}

clq_status clq_pool_failure(clq_pool *pool) {
    if (!atomic_load(&pool->failed)) return CLQ_OK;
    return clq_error_raise(&pool->failure);
}

/* ---- posting and waiting ---- */

void clq_pool_post(clq_pool *pool, const clq_command *command) {
    for (unsigned w = 0; w < pool->count; w++) clq_channel_put(pool->workers[w]->commands, command);
}

static clq_status finish(clq_worker *worker, const clq_command *command) {
    (void)command;
    return clq_queue_finish(worker->queue);
}
static const clq_command_kind finish_kind = {.name = "wait", .run = finish};

clq_status clq_pool_wait(clq_pool *pool) {
    clq_pool_post(pool, &(clq_command){.kind = &finish_kind});
    for (unsigned w = 0; w < pool->count; w++) clq_channel_wait(pool->workers[w]->commands);
    return clq_pool_failure(pool);
}

void clq_worker_ask(clq_worker *worker, const clq_command *command) {
    clq_channel_put(worker->commands, command);
    clq_channel_wait(worker->commands);
}

clq_status clq_worker_call(clq_worker *worker, const clq_command *command) {
    CLQ_TRY(clq_pool_failure(worker->pool));
    clq_worker_ask(worker, command);
    return clq_pool_failure(worker->pool);
}

/* ---- a worker's thread ---- */

/* Carries out a command and records its time: for the first trace_steps batches, and the commands between them. */
static clq_status trace(clq_worker *worker, const clq_command *command) {
    const clq_command_kind *kind = command->kind;
    const bool batch = kind->traits & CLQ_COMMAND_BATCH;
    if (batch && worker->traced++ == worker->pool->trace_steps) {
        worker->tracing = false;
        clq_queue_stop_trace(worker->queue);
        return kind->run(worker, command);
    }
    double began = clq_now();
    CLQ_TRY(kind->run(worker, command));
    return clq_timeline_add(&worker->steps, began, kind->name, batch ? "batch" : NULL, batch ? worker->traced : 0);
}

/* If the device works behind the thread, the thread goes on in bursts, whenever the device has finished a step. The
 * mean over as many steps as may be in flight shows the device's pace. */
static void note_time(clq_worker *worker, unsigned traits) {
    if (traits & CLQ_COMMAND_IN_STEP) return;
    if (!(traits & CLQ_COMMAND_ENDS_STEP)) {
        worker->steps_in_row = 0;
        return;
    }
    const unsigned steps = worker->in_flight;
    const double now = clq_now();
    if (worker->steps_in_row++ >= steps) { /* the step that ended `steps` steps ago is in this row, too */
        const double before = worker->step_ended[(worker->steps_done - steps) % CLQ_STEP_TIMES];
        worker->step_s[worker->steps_timed++ % CLQ_STEP_TIMES] = (float)((now - before) / steps);
    }
    worker->step_ended[worker->steps_done++ % CLQ_STEP_TIMES] = now;
}

/* How long to wait for the commands that a device still has under way when training has failed: longer than a few steps
 * take, but no longer than a user would wait for the error message. */
static const double settle_s = 10.0;

static void drive(void *context) {
    clq_worker *worker = context;
    clq_pool *pool = worker->pool;
    clq_command command;
    while (clq_channel_take(worker->commands, &command)) {
        const clq_command_kind *kind = command.kind;
        if (!atomic_load(&pool->failed)) {
            clq_status status = worker->tracing ? trace(worker, &command) : kind->run(worker, &command);
            if (status == CLQ_OK)
                note_time(worker, kind->traits);
            else
                clq_worker_fail(worker, status);
        } else if (kind->skip) {
            kind->skip(worker, &command);
        }
        clq_channel_done(worker->commands);
    }
    /* Commands under way read the staging memory, even after a failure. */
    if (!atomic_load(&pool->failed))
        (void)clq_queue_finish(worker->queue);
    else
        clq_queue_settle(worker->queue, clq_now_running() + settle_s);
}

/* ---- life ---- */

clq_status clq_worker_open(clq_worker *worker, clq_pool *pool) {
    worker->pool = pool;
    worker->index = pool->count;
    worker->tracing = pool->trace_steps > 0;
    CLQ_TRY(clq_queue_create(worker->device, worker->tracing ? CLQ_QUEUE_TRACE : 0, &worker->queue));
    worker->step_s = clq_alloc(CLQ_STEP_TIMES, sizeof *worker->step_s);
    worker->step_ended = clq_alloc(CLQ_STEP_TIMES, sizeof *worker->step_ended);
    if (!worker->step_s || !worker->step_ended) return CLQ_ERROR_MEMORY;
    pool->workers[pool->count++] = worker;
    return CLQ_OK;
}

clq_status clq_worker_start(clq_worker *worker, unsigned ahead) {
    char name[16];
    CLQ_TRY(clq_channel_create(sizeof(clq_command), ahead, &worker->commands));
    snprintf(name, sizeof name, "replica %u", worker->index % 1000u);
    return clq_thread_start(name, drive, worker, &worker->thread);
}

void clq_worker_stop(clq_worker *worker) {
    if (!worker->thread) return;
    clq_channel_close(worker->commands);
    clq_thread_join(worker->thread);
    worker->thread = NULL;
}

void clq_worker_close(clq_worker *worker) {
    clq_channel_destroy(worker->commands);
    clq_free(worker->step_s);
    clq_free(worker->step_ended);
    clq_free(worker->steps.spans);
    clq_queue_destroy(worker->queue);
}
