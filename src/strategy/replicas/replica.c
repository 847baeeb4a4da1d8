/* One replica's life, and the stages of its steps. */
#include "strategy/module.h"

/* ---- stages ---- */

static clq_status run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last) {
    clq_queue *queue = replica->worker.queue;
    clq_staging *rows;
    clq_order order;
    CLQ_TRY(clq_replica_bring_rows(replica, plan, command, &order, &rows));
    clq_plan_set_params(plan, &command->params);
    CLQ_TRY(clq_plan_run_after(plan, queue, CLQ_SEGMENT_FORWARD, last, &order));
    return rows ? clq_queue_mark_again(queue, &rows->read) : CLQ_OK;
}

clq_status clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last) {
    clq_plan *adding = replica->adding;
    if (command->params.sum_factor == 0.0f || adding == plan) return run(replica, plan, command, last);
    CLQ_TRY(run(replica, adding, command, CLQ_SEGMENT_BACKWARD));
    clq_plan_set_params(plan, &command->params);
    return last == CLQ_SEGMENT_BACKWARD ? CLQ_OK : clq_plan_run(plan, replica->worker.queue, CLQ_SEGMENT_NORM, last);
}

clq_status clq_replica_read_outputs(clq_replica *replica, const clq_plan *plan, const clq_command *command,
                                    size_t first, size_t count) {
    const clq_model *model = replica->strategy->model;
    for (uint32_t i = 0; i < model->output_count && count > 0; i++) {
        const size_t elements = clq_model_output(model, i)->elements;
        float *to = command->outputs[i];
        if (to && clq_plan_output(plan, i))
            CLQ_TRY(clq_queue_read(replica->worker.queue, clq_plan_output(plan, i), 0, to + first * elements,
                                   count * elements * sizeof *to, true));
    }
    return CLQ_OK;
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

/* ---- life ---- */

/* Whether a later replica can use the programs that were compiled for this one. */
static bool has_followers(const clq_replica *replica) {
    const clq_strategy *strategy = replica->strategy;
    for (unsigned r = replica->worker.index + 1; r < strategy->count; r++)
        if (clq_selections_are_shared(replica->worker.device, strategy->replicas[r].worker.device)) return true;
    return false;
}

bool clq_strategy_adds_squares(const clq_strategy *strategy) {
    const clq_plan_config *plan = &strategy->config.plan;
    const bool measures_apart = strategy->shards_optimizer && clq_strategy_spans(strategy) && plan->gradient_norms;
    return measures_apart || clq_updates_by_squares(&plan->update_options);
}

clq_plan_config clq_replica_plan_config(const clq_replica *replica, clq_mode mode) {
    const clq_strategy *strategy = replica->strategy;
    clq_plan_config config = strategy->config.plan;
    config.mode = mode;
    config.capacity = replica->plan_capacity ? replica->plan_capacity : replica->capacity;
    config.metric_slots *= CLQ_MAX(replica->metric_rows, 1u);
    if (strategy->module->sums_in_step && !(mode == CLQ_MODE_EVALUATE && strategy->config.evaluates_apart))
        *(config.slicing ? &config.joins : &config.exchange) = clq_peers_step_sum(replica);
    if (strategy->module->add_squares && config.update &&
        (clq_strategy_adds_squares(strategy) || clq_updates_have_trust_ratios(config.update, &config.update_options)))
        config.norm_parts = strategy->module->add_squares(strategy, replica);
    config.measures_all = clq_strategy_adds_squares(strategy);
    config.stage = replica->stage;
    config.activations_most = replica->activations_most;
    config.fused_launches = replica->joined;
    /* A pipeline accumulates its micro-batches. A part of a model (part.c) is a stage, too, but accumulates nothing. */
    const bool micro_batches = replica->stage && strategy->module->accumulates;
    config.accumulates = mode == CLQ_MODE_TRAIN && (strategy->config.options.accumulate > 1 || micro_batches);
    if (mode != CLQ_MODE_TRAIN) {
        config.check_numerics = false;
        config.update = NULL;
        config.gradient_norms = false;
    }
    if (mode == CLQ_MODE_PREDICT) config.loss = NULL;
    return config;
}

static clq_status make_plan(clq_replica *replica, clq_plan_config *config, clq_plan **out) {
    config->beside = replica->plan;
    CLQ_TRY(clq_plan_create(replica->weights, config, out));
    return has_followers(replica) ? clq_plan_keep_programs(*out) : CLQ_OK;
}

clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode) {
    clq_plan_config config = clq_replica_plan_config(replica, mode);
    CLQ_TRY(make_plan(replica, &config, &replica->plans[mode]));
    if (config.accumulates) replica->adding = replica->plans[mode];
    return CLQ_OK;
}

clq_status clq_replica_make_adding(clq_replica *replica) {
    clq_plan_config config = clq_replica_plan_config(replica, CLQ_MODE_TRAIN);
    config.accumulates = config.updated_elsewhere = true;
    return make_plan(replica, &config, &replica->adding);
}

clq_status clq_replica_open(clq_replica *replica) {
    const clq_plan_config *config = &replica->strategy->config.plan;
    clq_worker *worker = &replica->worker;
    worker->owner = replica;
    worker->in_flight = clq_device_runs_in_caller(worker->device) ? 1 : CLQ_OWN_SLOTS;
    CLQ_TRY(clq_worker_open(worker, &replica->strategy->pool));
    const bool parts = replica->strategy->shards_optimizer;
    const clq_holding holding = {.stage = replica->stage,
                                 .slicing = config->slicing,
                                 .rank = worker->index,
                                 .part = parts ? replica->strategy->first + worker->index : 0,
                                 .parts = parts ? replica->strategy->total : 1,
                                 .options = clq_plan_weights_options(config)};
    CLQ_TRY(clq_weights_create_holding(replica->strategy->model, worker->device, clq_plan_weights_update(config),
                                       &holding, &replica->weights));
    CLQ_TRY(clq_replica_make_plan(replica, config->mode));
    replica->plan = replica->plans[config->mode];
    CLQ_TRY(clq_replica_open_figures(replica));
    return clq_replica_open_rows(replica);
}

void clq_replica_close_plans(clq_replica *replica) {
    if (replica->adding != replica->plan) clq_plan_destroy(replica->adding);
    for (unsigned mode = 0; mode < CLQ_MODE_COUNT; mode++)
        if (replica->plans[mode] != replica->plan) clq_plan_destroy(replica->plans[mode]);
    clq_plan_destroy(replica->plan); /* last, because the others use its memory (beside) */
}

void clq_replica_close(clq_replica *replica) {
    clq_replica_close_rows(replica);
    clq_replica_close_figures(replica);
    clq_weights_destroy(replica->weights);
    clq_free(replica->exchanges.spans);
    clq_worker_close(&replica->worker);
    clq_device_close(replica->worker.device);
}
