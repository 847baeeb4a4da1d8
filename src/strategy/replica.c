/* One replica's life, and the commands that all strategies have. */
#include "strategy/replica.h"

/* ---- stages ---- */

clq_status clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last) {
    clq_queue *queue = replica->worker.queue;
    clq_staging *rows;
    clq_order order;
    CLQ_TRY(clq_replica_bring_rows(replica, plan, command, &order, &rows));
    clq_plan_set_params(plan, &command->params);
    CLQ_TRY(clq_plan_run_after(plan, queue, CLQ_SEGMENT_FORWARD, last, &order));
    return rows ? clq_queue_mark_again(queue, &rows->read) : CLQ_OK;
}

clq_status clq_replica_apply(clq_replica *replica, const clq_step_params *params) {
    clq_plan_set_params(replica->plan, params);
    CLQ_TRY(clq_plan_run(replica->plan, replica->worker.queue, CLQ_SEGMENT_NORM, CLQ_SEGMENT_UPDATE));
    CLQ_TRY(clq_replica_keep_norms(replica, params->slot));
    return clq_queue_flush(replica->worker.queue);
}

clq_status clq_replica_step_alone(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_UPDATE));
    CLQ_TRY(clq_replica_keep_norms(replica, command->params.slot));
    return clq_queue_flush(replica->worker.queue);
}

/* ---- commands ---- */

void clq_replica_skip(clq_worker *worker, const clq_command *command) {
    if (command->staged) clq_replica_free_slot(clq_replica_of(worker));
}

static clq_status run_gradients(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    return clq_queue_flush(worker->queue);
}

static clq_status run_apply(clq_worker *worker, const clq_command *command) {
    return clq_replica_apply(clq_replica_of(worker), &command->params);
}

static clq_status run_evaluate(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    CLQ_TRY(clq_replica_run(replica, replica->plans[CLQ_MODE_EVALUATE], command, CLQ_SEGMENT_LOSS));
    return clq_queue_flush(worker->queue);
}

static clq_status run_predict(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    clq_plan *plan = replica->plans[CLQ_MODE_PREDICT];
    CLQ_TRY(clq_replica_run(replica, plan, command, CLQ_SEGMENT_FORWARD));
    const clq_model *model = replica->strategy->model;
    const size_t first = command->params.first_row, count = command->params.count;
    for (uint32_t i = 0; i < model->output_count && count > 0; i++) {
        const size_t elements = clq_model_output(model, i)->elements;
        float *to = command->outputs[i];
        if (to)
            CLQ_TRY(clq_queue_read(worker->queue, clq_plan_output(plan, i), 0, to + first * elements,
                                   count * elements * sizeof *to, true));
    }
    return CLQ_OK;
}

static clq_buffer *memory_of(const clq_replica *replica, unsigned memory) {
    return clq_weights_arena(replica->weights, (clq_arena)memory);
}

static clq_status run_read(clq_worker *worker, const clq_command *command) {
    const clq_buffer *memory = memory_of(clq_replica_of(worker), command->memory);
    return clq_queue_read(worker->queue, memory, command->offset, command->to, command->bytes, true);
}

static clq_status run_write(clq_worker *worker, const clq_command *command) {
    clq_buffer *memory = memory_of(clq_replica_of(worker), command->memory);
    return clq_queue_write(worker->queue, memory, command->offset, command->from, command->bytes, true);
}

const clq_command_kind clq_gradients_kind = {.name = "gradients",
                                             .traits = CLQ_COMMAND_BATCH | CLQ_COMMAND_IN_STEP,
                                             .run = run_gradients,
                                             .skip = clq_replica_skip};
const clq_command_kind clq_apply_kind = {.name = "apply", .traits = CLQ_COMMAND_ENDS_STEP, .run = run_apply};
const clq_command_kind clq_evaluate_kind = {
    .name = "evaluate", .traits = CLQ_COMMAND_BATCH, .run = run_evaluate, .skip = clq_replica_skip};
const clq_command_kind clq_predict_kind = {
    .name = "predict", .traits = CLQ_COMMAND_BATCH, .run = run_predict, .skip = clq_replica_skip};
const clq_command_kind clq_read_kind = {.name = "read", .run = run_read};
const clq_command_kind clq_write_kind = {.name = "write", .run = run_write};

/* ---- life ---- */

/* Whether a later replica may take what was compiled for this one. */
static bool has_followers(const clq_replica *replica) {
    const clq_strategy *strategy = replica->strategy;
    for (unsigned r = replica->worker.index + 1; r < strategy->count; r++)
        if (clq_selections_are_shared(replica->worker.device, strategy->replicas[r].worker.device)) return true;
    return false;
}

clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode) {
    const clq_strategy *strategy = replica->strategy;
    clq_plan_config config = strategy->config.plan;
    config.mode = mode;
    config.exchange = (clq_exchange){replica->worker.index, strategy->count, strategy->module->all_reduce, replica};
    config.fused_launches = replica->joined;
    config.beside = replica->plan;
    if (mode != CLQ_MODE_TRAIN) {
        config.update = NULL;
        config.gradient_norms = false;
    }
    if (mode == CLQ_MODE_PREDICT) config.loss = NULL;
    CLQ_TRY(clq_plan_create(replica->weights, &config, &replica->plans[mode]));
    return has_followers(replica) ? clq_plan_keep_programs(replica->plans[mode]) : CLQ_OK;
}

clq_status clq_replica_open(clq_replica *replica) {
    const clq_plan_config *config = &replica->strategy->config.plan;
    clq_worker *worker = &replica->worker;
    worker->owner = replica;
    worker->in_flight = clq_device_runs_in_caller(worker->device) ? 1 : CLQ_OWN_SLOTS;
    CLQ_TRY(clq_worker_open(worker, &replica->strategy->pool));
    CLQ_TRY(clq_weights_create(replica->strategy->model, worker->device, config->update, &replica->weights));
    CLQ_TRY(clq_replica_make_plan(replica, config->mode));
    replica->plan = replica->plans[config->mode];
    CLQ_TRY(clq_replica_open_figures(replica));
    return clq_replica_open_rows(replica);
}

void clq_replica_close(clq_replica *replica) {
    clq_replica_close_rows(replica);
    clq_replica_close_figures(replica);
    for (unsigned mode = 0; mode < CLQ_MODE_COUNT; mode++)
        if (replica->plans[mode] != replica->plan) clq_plan_destroy(replica->plans[mode]);
    clq_plan_destroy(replica->plan); /* the others were beside it */
    clq_weights_destroy(replica->weights);
    clq_worker_close(&replica->worker);
    clq_device_close(replica->worker.device);
}
