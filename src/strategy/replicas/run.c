/* Runs a function of the caller in each replica's thread. */
#include "strategy/module.h"

struct clq_replica_call {
    clq_replica *replica;
    const clq_command *command;
    bool computed;
    clq_error failure; /* of the first call below that failed: ends the strategy, whatever the function returns */
};

static const clq_strategy_call *call_of(const clq_command *command) { return command->from; }

/* ---- called by the function ---- */

static clq_status latch(clq_replica_call *call, clq_status status) {
    if (status == CLQ_OK || call->failure.status != CLQ_OK) return status;
    clq_error_take(status, &call->failure);
    return clq_error_raise(&call->failure);
}

static clq_status compute(clq_replica *replica, const clq_command *command) {
    const clq_mode mode = call_of(command)->mode;
    const clq_segment last = mode == CLQ_MODE_TRAIN ? CLQ_SEGMENT_BACKWARD : CLQ_SEGMENT_LOSS;
    CLQ_TRY(clq_replica_run(replica, replica->plans[mode], command, last));
    return clq_queue_flush(replica->worker.queue);
}

clq_status clq_replica_call_compute(clq_replica_call *call, double scale) {
    if (call->computed) return clq_fail(CLQ_ERROR_STATE, "a replica computes on its part of a batch once in a run");
    clq_command command = *call->command;
    command.params.scale = (float)scale;
    call->computed = true;
    return latch(call, compute(call->replica, &command));
}

clq_status clq_replica_call_read(clq_replica_call *call, double *row) {
    if (!call->computed)
        return clq_fail(CLQ_ERROR_STATE,
                        "nothing is measured yet: the replica has not computed on its part of the batch");
    return latch(call, clq_replica_read_row(call->replica, call->command->params.slot, row));
}

/* ---- in the replica's thread ---- */

/* Adds a detail to the status that a caller's function returned. ABORTED becomes INTERRUPTED: with ABORTED, the pool
 * would wait for a failure of another worker. */
static clq_status refuse(clq_status status) {
    static const char who[] = "the function that runs on each replica";
    if (status != CLQ_ERROR_ABORTED) return clq_fail_returned(status, "%s", who);
    return clq_fail(CLQ_ERROR_INTERRUPTED, "%s returned \"%s\"", who, clq_status_text(status));
}

static clq_status run_call(clq_worker *worker, const clq_command *command) {
    const clq_strategy_call *what = call_of(command);
    clq_replica_call call = {.replica = clq_replica_of(worker), .command = command};
    clq_error_clear(); /* a detail that is there afterwards is the function's */
    clq_status status = what->run(what->context, worker->index, &call);
    if (call.failure.status != CLQ_OK) return clq_error_raise(&call.failure);
    if (status != CLQ_OK) status = refuse(status);
    clq_status dropped = call.computed ? CLQ_OK : clq_replica_drop_rows(call.replica, command);
    what->computed[worker->index] = call.computed;
    return status == CLQ_OK ? dropped : status;
}

static void skip_call(clq_worker *worker, const clq_command *command) {
    if (command->staged) clq_replica_free_slot(clq_replica_of(worker));
}

/* The function may leave its rows unused (MAY_DROP), so they are not sent ahead. */
static const clq_command_kind train_kind = {"run", CLQ_COMMAND_BATCH | CLQ_COMMAND_IN_STEP | CLQ_COMMAND_MAY_DROP,
                                            run_call, skip_call};
static const clq_command_kind evaluate_kind = {"run evaluation", CLQ_COMMAND_BATCH | CLQ_COMMAND_MAY_DROP, run_call,
                                               skip_call};

/* ---- by the poster ---- */

void clq_strategy_share_out(clq_strategy *strategy, size_t samples, size_t *offsets, size_t *counts) {
    clq_batch_part parts[CLQ_REPLICAS_MAX];
    clq_strategy_split(strategy, &train_kind, samples, parts);
    for (unsigned r = 0; r < strategy->count; r++) {
        offsets[r] = parts[r].first;
        counts[r] = parts[r].count;
    }
}

static void post(clq_strategy *strategy, const clq_strategy_call *call) {
    clq_command command = {
        .kind = call->mode == CLQ_MODE_TRAIN ? &train_kind : &evaluate_kind, .params = call->params, .from = call};
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        const size_t count = call->parts ? call->parts[r].count : 0;
        command.params.count = (uint32_t)count;
        if (call->parts) clq_replica_give_rows(replica, &call->parts[r], &command);
        clq_channel_put(replica->worker.commands, &command);
        command.params.first_row += (uint32_t)count;
    }
    for (unsigned r = 0; r < strategy->count; r++) clq_channel_wait(strategy->replicas[r].worker.commands);
}

static clq_status count_computed(clq_strategy *strategy, const clq_strategy_call *call, bool *computed) {
    unsigned count = 0;
    uint64_t all = 0;
    for (unsigned r = 0; r < strategy->count; r++) {
        count += call->computed[r];
        if (call->mode == CLQ_MODE_TRAIN && call->computed[r])
            strategy->computed[strategy->first + r] |= call->parts[r].count > 0;
        all |= (uint64_t)1 << r;
    }
    *computed = count == strategy->count;
    if (count == 0) return CLQ_OK;
    clq_strategy_note_row(strategy, call->params.slot, all);
    if (call->mode == CLQ_MODE_TRAIN) clq_strategy_note_gradients(strategy, false, 0);
    if (*computed) return CLQ_OK;
    return clq_fail(CLQ_ERROR_STATE,
                    "%u of the %u replicas computed on their parts of the batch: all do, those without samples too, or "
                    "none does",
                    count, strategy->count);
}

clq_status clq_strategy_may_run(const clq_strategy *strategy) {
    if (clq_strategy_spans(strategy))
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "functions on replicas are of one machine: use clq_step or clq_fit on several");
    if (strategy->module->runs_functions) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "strategy %s runs no functions on its replicas, of which none computes a gradient alone: use "
                    "mirrored, central or ps, or clq_step_gradients",
                    strategy->module->name);
}

clq_status clq_strategy_run(clq_strategy *strategy, const clq_strategy_call *call, bool *computed) {
    CLQ_TRY(clq_strategy_failure(strategy));
    if (call->mode == CLQ_MODE_EVALUATE)
        CLQ_TRY(clq_strategy_prepare_evaluation(strategy));
    else if (call->parts)
        clq_strategy_make_current(strategy, CLQ_ARENA_PARAMETERS);
    post(strategy, call);
    CLQ_TRY(clq_strategy_failure(strategy));
    return count_computed(strategy, call, computed);
}
