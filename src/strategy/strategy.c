/* The interface of all strategies: chooses a strategy's module, and posts commands to its replicas. */
#include "strategy/module.h"

/* ---- modules ---- */

/* One device: a step is one run of launches, and nothing is ever outdated. */
static const clq_strategy_module single = {.kind = CLQ_STRATEGY_SINGLE,
                                           .name = "single",
                                           .devices_most = 1,
                                           .accumulates = true,
                                           .scales_losses = true,
                                           .runs_functions = true};

static const clq_strategy_module *const modules[] = {&single,          &clq_strategy_mirrored, &clq_strategy_central,
                                                     &clq_strategy_ps, &clq_strategy_pipeline, &clq_strategy_tensor};

const char *clq_strategy_name(size_t kind) {
    for (size_t i = 0; i < CLQ_COUNT_OF(modules); i++)
        if ((size_t)modules[i]->kind == kind) return modules[i]->name;
    return kind == CLQ_STRATEGY_AUTO ? "auto" : NULL;
}

const char *clq_strategy_own_name(const clq_strategy *strategy) { return strategy->module->name; }

void clq_strategy_settings(const clq_strategy *strategy, clq_strategy_kind *kind, clq_strategy_options *options) {
    *kind = strategy->module->kind;
    *options = strategy->config.options;
    options->share_weights = NULL;
}

/* Chooses the module of the config's kind; for AUTO, the first module that takes so many devices. */
static clq_status choose_module(const clq_strategy_config *config, unsigned devices, const clq_strategy_module **out) {
    const bool spans = config->total > devices; /* single takes one device in all processes */
    const clq_strategy_kind kind = config->kind == CLQ_STRATEGY_AUTO && spans ? CLQ_STRATEGY_MIRRORED : config->kind;
    if (config->parts) return clq_part_choose(config, devices, out);
    const clq_strategy_module *module = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(modules) && !module; i++) {
        bool fits = !modules[i]->devices_most || devices <= modules[i]->devices_most;
        if (kind == CLQ_STRATEGY_AUTO ? fits : modules[i]->kind == kind) module = modules[i];
    }
    if (!module) return clq_fail(CLQ_ERROR_ARGUMENT, "strategy %d is none of clq_strategy_kind", (int)kind);
    if (module->devices_most && devices > module->devices_most)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "strategy %s takes one device and %u are selected: use mirrored or name one device",
                        module->name, devices);
    *out = module;
    return CLQ_OK;
}

/* ---- commands ---- */

/* Frees the batch's slot, because the poster may be waiting for it. */
static void skip_batch(clq_worker *worker, const clq_command *command) {
    if (command->staged) clq_replica_free_slot(clq_replica_of(worker));
}

static clq_status run_step(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    const clq_strategy *strategy = replica->strategy;
    if (strategy->apart) return clq_replica_step_alone(replica, command);
    clq_pace_compute(replica);
    CLQ_TRY((strategy->module->step ? strategy->module->step : clq_exchange_step)(replica, command));
    return clq_pace_rest(replica, false);
}

static clq_status run_reduce(clq_worker *worker, const clq_command *command) {
    clq_replica_of(worker)->behind = command->params.step;
    return clq_replica_of(worker)->strategy->exchange->reduce(clq_replica_of(worker));
}

static clq_status run_gradients(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    const clq_strategy_module *module = replica->strategy->module;
    if (module->gradients) return module->gradients(replica, command);
    if (command->kind->traits & CLQ_COMMAND_ACCUMULATES) clq_pace_compute(replica); /* counts for the batches' update */
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_queue_flush(worker->queue));
    return clq_pace_rest(replica, false);
}

static clq_status run_apply(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    const clq_strategy_module *module = replica->strategy->module;
    return module->apply ? module->apply(replica, &command->params) : clq_replica_apply(replica, &command->params);
}

static clq_status forward(clq_replica *replica, clq_mode mode, const clq_command *command) {
    const clq_strategy_module *module = replica->strategy->module;
    if (module->forward) return module->forward(replica, mode, command);
    return clq_replica_run(replica, replica->plans[mode], command,
                           mode == CLQ_MODE_EVALUATE ? CLQ_SEGMENT_LOSS : CLQ_SEGMENT_FORWARD);
}

static clq_status run_evaluate(clq_worker *worker, const clq_command *command) {
    CLQ_TRY(forward(clq_replica_of(worker), CLQ_MODE_EVALUATE, command));
    return clq_queue_flush(worker->queue);
}

static clq_status run_predict(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    CLQ_TRY(forward(replica, CLQ_MODE_PREDICT, command));
    if (replica->stage || !command->outputs) return CLQ_OK; /* read by micro-batch, or by another replica */
    return clq_replica_read_outputs(replica, replica->plans[CLQ_MODE_PREDICT], command, command->params.first_row,
                                    command->params.count);
}

/* Copies to the host; if `to` is NULL, from the host. */
static clq_status run_transfer(clq_worker *worker, const clq_command *command) {
    clq_buffer *memory = clq_weights_arena(clq_replica_of(worker)->weights, (clq_arena)command->memory);
    if (command->to) return clq_queue_read(worker->queue, memory, command->offset, command->to, command->bytes, true);
    return clq_queue_write(worker->queue, memory, command->offset, command->from, command->bytes, true);
}

static const clq_command_kind step_kind = {"step", CLQ_COMMAND_BATCH | CLQ_COMMAND_ENDS_STEP | CLQ_COMMAND_MEASURES,
                                           run_step, skip_batch};
static const clq_command_kind gradients_kind = {
    "gradients", CLQ_COMMAND_BATCH | CLQ_COMMAND_IN_STEP | CLQ_COMMAND_MEASURES, run_gradients, skip_batch};
static const clq_command_kind accumulate_kind = {
    "accumulate", CLQ_COMMAND_BATCH | CLQ_COMMAND_IN_STEP | CLQ_COMMAND_MEASURES | CLQ_COMMAND_ACCUMULATES,
    run_gradients, skip_batch};
static const clq_command_kind reduce_kind = {"reduce", CLQ_COMMAND_IN_STEP, run_reduce, NULL};
static const clq_command_kind apply_kind = {"apply", CLQ_COMMAND_ENDS_STEP, run_apply, NULL};
static const clq_command_kind evaluate_kind = {"evaluate", CLQ_COMMAND_BATCH | CLQ_COMMAND_MEASURES, run_evaluate,
                                               skip_batch};
static const clq_command_kind predict_kind = {"predict", CLQ_COMMAND_BATCH, run_predict, skip_batch};
static const clq_command_kind read_kind = {"read", 0, run_transfer, NULL};
static const clq_command_kind write_kind = {"write", 0, run_transfer, NULL};

/* ---- posting ---- */

void clq_strategy_split_shares(clq_strategy *strategy, const clq_command_kind *kind, size_t total,
                               clq_batch_part *parts) {
    const clq_batch_cut cut =
        kind == &predict_kind ? clq_ranks_cut_here(strategy, total) : clq_ranks_cut(strategy, total);
    const unsigned first = kind == &predict_kind ? 0 : strategy->first;
    for (unsigned r = 0; r < strategy->count; r++)
        parts[r] = (clq_batch_part){
            .first = cut.offsets[first + r], .count = cut.counts[first + r], .runs = true, .measures = true};
}

void clq_strategy_split(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts) {
    if (strategy->module->split)
        strategy->module->split(strategy, kind, total, parts);
    else
        clq_strategy_split_shares(strategy, kind, total, parts);
}

void clq_strategy_note_row(clq_strategy *strategy, uint32_t slot, uint64_t measured_by) {
    strategy->measured_by[slot] = measured_by;
    if (strategy->module->origin) *strategy->module->origin(strategy, slot) = (clq_origin){.replica = -1, .part = 1.0};
}

void clq_strategy_make_current(clq_strategy *strategy, unsigned what) {
    if (!strategy->outdated[what]) return;
    strategy->outdated[what] = false;
    if (what == CLQ_ARENA_STATE)
        clq_strategy_average_state(strategy);
    else
        strategy->exchange->collect(strategy, what);
}

/* Whether replicas may have different state. Replicas that split the weights do not: each of them computes on the whole
 * batch, so all have the same statistics. */
static bool has_state_of_its_own(const clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count && !strategy->config.plan.slicing; r++)
        if (strategy->replicas[r].peers && clq_weights_apart_bytes(strategy->replicas[r].weights) > 0) return true;
    return false;
}

void clq_strategy_note_gradients(clq_strategy *strategy, bool by_step, size_t samples) {
    const unsigned left = by_step && !strategy->apart ? strategy->step_outdates : 0;
    bool *outdated = strategy->outdated;
    outdated[CLQ_ARENA_GRADIENT] = left >> CLQ_ARENA_GRADIENT & 1;
    if (by_step) outdated[CLQ_CURRENT_OPTIMIZER] = left >> CLQ_CURRENT_OPTIMIZER & 1;
    if (left >> CLQ_ARENA_PARAMETERS & 1) outdated[CLQ_ARENA_PARAMETERS] = true;
    outdated[CLQ_ARENA_STATE] = has_state_of_its_own(strategy);
    if (by_step && strategy->exchange->note) strategy->exchange->note(strategy, samples);
}

static bool computes_gradients(const clq_command *command) {
    return command->kind->traits & (CLQ_COMMAND_IN_STEP | CLQ_COMMAND_ENDS_STEP);
}

/* Sets the params of a batch that makes one update with others. How many samples these batches have is known only when
 * the last one comes. So a sample has the weight that it has in a full batch, and the last batch brings the factor that
 * corrects the sum. A sample's place (first_row) is its place in one batch of all samples. */
static void add_accumulated(clq_strategy *strategy, clq_command *command, size_t total) {
    const size_t batches = strategy->accumulated_batches, samples = strategy->accumulated_samples;
    const double full = (double)strategy->config.global_batch;
    const bool accumulates = command->kind->traits & CLQ_COMMAND_ACCUMULATES;
    if (!accumulates && batches == 0) return;
    command->params.first_row = (uint32_t)samples;
    if (batches > 0) command->params.sum_factor = accumulates ? 1.0f : (float)(full / (double)(samples + total));
    command->params.scale = (float)(1.0 / full);
    strategy->accumulated_batches = accumulates ? batches + 1 : 0;
    strategy->accumulated_samples = accumulates ? samples + total : 0;
}

clq_status clq_strategy_post_batch(clq_strategy *strategy, clq_command command, const clq_rows *batch) {
    float *const *outputs = command.outputs;
    const size_t total = clq_strategy_samples(strategy, batch->count), begin = clq_ranks_rows_begin(strategy);
    const unsigned traits = command.kind->traits;
    clq_batch_part parts[CLQ_REPLICAS_MAX];
    uint64_t measured_by = 0;
    CLQ_TRY(clq_strategy_failure(strategy));
    if (traits & CLQ_COMMAND_ENDS_STEP) strategy->posted = command.params.step;
    if (command.kind == &step_kind && !strategy->apart) CLQ_TRY(clq_shares_review(strategy, command.params.step));
    clq_strategy_split(strategy, command.kind, total, parts);
    CLQ_TRY(clq_strategy_failure(strategy));            /* the split may have waited for replicas, */
    CLQ_TRY(clq_world_failure(strategy->config.world)); /* or for other processes */
    command.params.scale = (float)(1.0 / (double)total);
    strategy->own_samples = 0;
    for (unsigned r = 0; r < strategy->count; r += strategy->group)
        strategy->own_samples += parts[r].runs ? parts[r].count : 0;
    for (unsigned r = 0; r < strategy->count; r++) measured_by |= (uint64_t)(parts[r].runs && parts[r].measures) << r;
    if (traits & CLQ_COMMAND_MEASURES) clq_strategy_note_row(strategy, command.params.slot, measured_by);
    if (computes_gradients(&command)) add_accumulated(strategy, &command, total);
    const size_t before = command.params.first_row;
    for (unsigned r = 0; r < strategy->count && computes_gradients(&command); r++)
        strategy->computed[strategy->first + r] |= parts[r].runs && parts[r].count > 0;
    if (computes_gradients(&command)) clq_ranks_note_computed(strategy, total);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        const clq_batch_part *part = &parts[r];
        if (!part->runs) continue;
        command.outputs = part->measures ? outputs : NULL;
        command.params.count = (uint32_t)part->count;
        command.params.first_row = (uint32_t)(before + part->first);
        const clq_rows rows = clq_rows_part(batch, part->first - begin, part->count);
        clq_replica_give_rows(replica, &rows, &command);
        clq_channel_put(replica->worker.commands, &command);
    }
    if (computes_gradients(&command)) clq_strategy_note_gradients(strategy, traits & CLQ_COMMAND_ENDS_STEP, total);
    return CLQ_OK;
}

clq_status clq_strategy_gradients(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params) {
    clq_strategy_make_current(strategy, CLQ_ARENA_PARAMETERS);
    return clq_strategy_post_batch(strategy, (clq_command){.kind = &gradients_kind, .params = *params}, batch);
}

clq_status clq_strategy_step(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params) {
    return clq_strategy_post_batch(strategy, (clq_command){.kind = &step_kind, .params = *params}, batch);
}

bool clq_strategy_takes_rows(clq_strategy *strategy, bool labels_ready) {
    const unsigned facts = clq_facts_of_replica(strategy, 0) | (labels_ready ? CLQ_FACT_LABELS_READY : 0);
    return clq_paths_decide(&strategy->paths, CLQ_PATH_OWN_ROWS, facts);
}

clq_status clq_strategy_reduce(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_failure(strategy));
    if (strategy->exchange->reduce)
        clq_pool_post(&strategy->pool, &(clq_command){.kind = &reduce_kind, .params.step = (uint32_t)strategy->posted});
    return CLQ_OK;
}

clq_status clq_strategy_apply(clq_strategy *strategy, const clq_step_params *params) {
    CLQ_TRY(clq_strategy_failure(strategy));
    strategy->posted = params->step;
    clq_strategy_make_current(strategy, CLQ_CURRENT_OPTIMIZER);
    clq_pool_post(&strategy->pool, &(clq_command){.kind = &apply_kind, .params = *params});
    return CLQ_OK;
}

/* ---- waiting and reading ---- */

clq_status clq_strategy_failure(clq_strategy *strategy) { return clq_pool_failure(&strategy->pool); }
clq_status clq_strategy_wait(clq_strategy *strategy) { return clq_pool_wait(&strategy->pool); }

clq_status clq_strategy_write(clq_strategy *strategy, size_t variable, const void *from) {
    const clq_variable *v = &strategy->model->variables[variable];
    CLQ_TRY(clq_strategy_failure(strategy));
    clq_strategy_make_current(strategy, clq_variable_arena(v)); /* so no later average changes what is written now */
    for (unsigned r = 0; r < strategy->count; r++) {
        const clq_replica *replica = &strategy->replicas[r];
        if (clq_weights_offset(replica->weights, variable) == CLQ_NO_OFFSET) continue;
        clq_channel_put(
            replica->worker.commands,
            &(clq_command){.kind = clq_replica_has_slice(replica, variable) ? &clq_write_slice : &write_kind,
                           .memory = clq_variable_arena(v),
                           .variable = variable,
                           .offset = clq_weights_offset(replica->weights, variable),
                           .from = from,
                           .bytes = clq_variable_bytes(v)});
    }
    return strategy->module->write ? strategy->module->write(strategy, variable, from) : CLQ_OK;
}

clq_status clq_strategy_read(clq_strategy *strategy, unsigned replica, clq_arena arena, size_t offset, void *to,
                             size_t bytes) {
    if (arena == CLQ_ARENA_GRADIENT && !strategy->config.plan.update)
        return clq_fail(CLQ_ERROR_STATE, "an inference-only trainer has no gradient");
    clq_strategy_make_current(strategy, arena);
    const clq_command command = {.kind = &read_kind, .memory = arena, .offset = offset, .to = to, .bytes = bytes};
    return clq_worker_call(&strategy->replicas[replica].worker, &command);
}

bool clq_strategy_has_variable(const clq_strategy *strategy, size_t variable) {
    for (unsigned r = 0; r < strategy->count; r++)
        if (clq_weights_offset(strategy->replicas[r].weights, variable) != CLQ_NO_OFFSET) return true;
    return false;
}

clq_status clq_strategy_read_variable(clq_strategy *strategy, unsigned replica, size_t variable, bool gradient,
                                      void *to) {
    const clq_variable *v = &strategy->model->variables[variable];
    while (clq_weights_offset(strategy->replicas[replica].weights, variable) == CLQ_NO_OFFSET)
        replica = (replica + 1) % strategy->count; /* to one that has the variable's stage */
    const clq_arena arena = gradient ? CLQ_ARENA_GRADIENT : clq_variable_arena(v);
    if (clq_replica_has_slice(&strategy->replicas[replica], variable) && (!gradient || strategy->config.plan.update))
        return clq_strategy_read_slices(strategy, arena, variable, to);
    return clq_strategy_read(strategy, replica, arena,
                             clq_weights_offset(strategy->replicas[replica].weights, variable), to,
                             clq_variable_bytes(v));
}

clq_status clq_strategy_set_apart(clq_strategy *strategy, bool apart) {
    if (apart && strategy->replicas[0].stage)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "a stage of a model cannot train alone: use strategy mirrored");
    CLQ_TRY(clq_strategy_wait(strategy)); /* then no replica's thread reads `apart` */
    if (apart && strategy->config.plan.updated_elsewhere)
        return clq_fail(CLQ_ERROR_STATE, "replicas of strategy %s cannot train apart: their variables lie in one place",
                        strategy->module->name);
    strategy->apart = apart;
    return CLQ_OK;
}

/* ---- plans beside the one that the strategy was made for ---- */

/* With several replicas: adds the replica that failed, and its stage, to the failure's detail. */
static clq_status within_replica(const clq_strategy *strategy, unsigned r, clq_status status) {
    const clq_model *model = strategy->model;
    const clq_stage *stage = strategy->replicas[r].stage;
    if (status == CLQ_OK || strategy->count == 1) return status;
    if (!stage) return clq_fail_within(status, "replica %u", r);
    return clq_fail_within(status, "replica %u, layers '%s' to '%s'", r,
                           clq_model_tensor_name(model, &model->tensors[stage->before.at - 1]),
                           clq_model_tensor_name(model, &model->tensors[stage->after.at - 2]));
}

clq_status clq_strategy_need_plans(clq_strategy *strategy, clq_mode mode) {
    if (strategy->replicas[strategy->count - 1].plans[mode]) return CLQ_OK;
    CLQ_TRY(clq_strategy_wait(strategy)); /* then nobody uses the memory that a replica's plans share */
    for (unsigned r = 0; r < strategy->count; r++)
        if (!strategy->replicas[r].plans[mode])
            CLQ_TRY(within_replica(strategy, r, clq_replica_make_plan(&strategy->replicas[r], mode)));
    return CLQ_OK;
}

clq_status clq_strategy_prepare_evaluation(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_need_plans(strategy, CLQ_MODE_EVALUATE));
    clq_strategy_make_current(strategy, CLQ_ARENA_PARAMETERS);
    clq_strategy_make_current(strategy, CLQ_ARENA_STATE);
    return CLQ_OK;
}

/* Whether the update can still count these samples, and those of the batch that ends it. */
static clq_status check_room(const clq_strategy *strategy, size_t samples) {
    CLQ_TRY(clq_accumulation_check(strategy->module, &strategy->config.options));
    if (strategy->accumulated_samples + samples + strategy->config.global_batch <= INT32_MAX) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "%zu samples are accumulated: an update takes up to %d",
                    strategy->accumulated_samples, (int)INT32_MAX);
}

static clq_status prepare_accumulation(clq_strategy *strategy, size_t samples) {
    CLQ_TRY(check_room(strategy, samples));
    if (strategy->replicas[strategy->count - 1].adding) return CLQ_OK;
    CLQ_TRY(clq_strategy_wait(strategy)); /* as in clq_strategy_need_plans */
    for (unsigned r = 0; r < strategy->count; r++)
        if (!strategy->replicas[r].adding)
            CLQ_TRY(within_replica(strategy, r, clq_replica_make_adding(&strategy->replicas[r])));
    return CLQ_OK;
}

clq_status clq_strategy_accumulate(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params) {
    CLQ_TRY(prepare_accumulation(strategy, batch->count));
    return clq_strategy_post_batch(strategy, (clq_command){.kind = &accumulate_kind, .params = *params}, batch);
}

void clq_strategy_forget_accumulated(clq_strategy *strategy) {
    strategy->accumulated_batches = strategy->accumulated_samples = 0;
}

clq_status clq_strategy_forward(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params) {
    CLQ_TRY(clq_strategy_prepare_evaluation(strategy));
    return clq_strategy_post_batch(strategy, (clq_command){.kind = &evaluate_kind, .params = *params}, batch);
}

/* Each process predicts all rows by its own replicas. */
clq_status clq_strategy_predict(clq_strategy *strategy, const clq_rows *batch, float *const *out) {
    float *next[CLQ_MODEL_OUTPUTS_MAX] = {NULL};
    CLQ_TRY(clq_strategy_need_plans(strategy, CLQ_MODE_PREDICT));
    clq_strategy_make_current(strategy, CLQ_ARENA_PARAMETERS);
    clq_strategy_make_current(strategy, CLQ_ARENA_STATE);
    for (size_t first = 0, count; first < batch->count; first += count) {
        count = CLQ_MIN(clq_ranks_room_here(strategy), batch->count - first);
        for (uint32_t i = 0; i < strategy->model->output_count; i++)
            if (out[i]) next[i] = out[i] + first * clq_model_output(strategy->model, i)->elements;
        const clq_rows rows = clq_rows_part(batch, first, count);
        CLQ_TRY(clq_strategy_post_batch(strategy, (clq_command){.kind = &predict_kind, .outputs = next}, &rows));
        CLQ_TRY(clq_strategy_wait(strategy));
    }
    return CLQ_OK;
}

/* ---- life ---- */

/* Whether what is measured on one replica holds for the other. */
static bool is_alike(const clq_replica *a, const clq_replica *b) {
    return a->stage == b->stage && clq_selections_are_shared(a->worker.device, b->worker.device);
}

static clq_status tune(clq_strategy *strategy) {
    const clq_strategy_config *config = &strategy->config;
    const clq_tune_config how = clq_tune_config_of(config->tuning, config->tuning_s);
    for (unsigned r = 0; r < strategy->count && config->tuning != CLQ_TUNING_OFF; r++) {
        clq_device *device = strategy->replicas[r].worker.device;
        unsigned alike = 0;
        while (alike < r && !is_alike(&strategy->replicas[alike], &strategy->replicas[r])) alike++;
        size_t first = strategy->tune_log.count;
        clq_plan_config plan = clq_replica_plan_config(&strategy->replicas[r], config->plan.mode);
        plan.check_numerics = false;
        plan.exchange = config->plan.exchange; /* in trials a replica runs alone */
        plan.joins = (clq_step_sum){.rank = r, .ranks = strategy->count};
        if (alike == r) CLQ_TRY(clq_plan_tune(strategy->model, device, &plan, &how, &strategy->tune_log));
        while (first < strategy->tune_log.count) strategy->tune_log.rows[first++].replica = r;
    }
    return CLQ_OK;
}

static clq_status open_replica(clq_strategy *strategy, unsigned r) {
    clq_replica *replica = &strategy->replicas[r];
    replica->joined = clq_paths_decide(&strategy->paths, CLQ_PATH_ONE_LAUNCH, clq_facts_of_replica(strategy, r));
    return clq_replica_open(replica);
}

/* The replicas' devices share a context only if the config asks for peer copies. In a context of several devices each
 * buffer belongs to all devices: drivers keep a copy of the buffer on each device, and move whole buffers between these
 * copies. NVIDIA's driver is unsafe with several devices in one context. */
static clq_status open_devices(clq_strategy *strategy, const clq_devices *devices) {
    const bool together = devices->count > 1 && strategy->config.group.transport == CLQ_TRANSPORT_PEER;
    clq_device *opened[CLQ_REPLICAS_MAX];
    CLQ_TRY(clq_devices_open(devices, together, opened, NULL));
    for (unsigned r = 0; r < devices->count; r++) strategy->replicas[r].worker.device = opened[r];
    return CLQ_OK;
}

/* How many commands may wait for a replica: as many as take some ten milliseconds, because the poster, and whoever
 * interrupts it, waits for them. Most commands are steps. New shares take effect only behind these commands. */
static unsigned commands_ahead(const clq_strategy *strategy, const clq_plan *plan) {
    const double flops_ahead = 1e9;
    const bool measured = clq_shares_are_measured(strategy->shares);
    const unsigned least = measured ? 4 : 8, most = measured ? 8 : CLQ_COMMANDS_MAX;
    double ahead = flops_ahead / CLQ_MAX(clq_plan_flops(plan), 1.0);
    return CLQ_MAX(least, (unsigned)CLQ_MIN(ahead, (double)most));
}

clq_status clq_strategy_prepare_shares(clq_strategy *strategy) {
    /* Replicas have room for any split by these shares. All have the same gradient when its norm is measured, so
     * replica 0 measures it, unless each replica measures its own part. */
    CLQ_TRY(clq_shares_create(strategy, &strategy->shares));
    const bool each_a_part = strategy->shards_optimizer && !clq_strategy_adds_squares(strategy);
    for (unsigned r = 0; r < strategy->count; r++) {
        strategy->replicas[r].capacity = clq_shares_capacity(strategy, r);
        strategy->replicas[r].measures_norms = r == 0 || each_a_part;
    }
    return clq_shares_take_rooms(strategy);
}

static clq_status open_replicas(clq_strategy *strategy, const clq_devices *devices, const size_t *activations_most) {
    const unsigned count = devices->count;
    strategy->replicas = clq_alloc(count, sizeof *strategy->replicas);
    strategy->measured_by = clq_alloc(strategy->config.plan.metric_slots, sizeof *strategy->measured_by);
    if (!strategy->replicas || !strategy->measured_by) return CLQ_ERROR_MEMORY;
    strategy->count = count;
    for (unsigned r = 0; r < count; r++) {
        strategy->replicas[r].strategy = strategy;
        strategy->replicas[r].activations_most = activations_most ? activations_most[r] : 0;
    }
    CLQ_TRY(open_devices(strategy, devices));
    CLQ_TRY(strategy->module->prepare ? strategy->module->prepare(strategy) : clq_strategy_prepare_shares(strategy));
    CLQ_TRY(tune(strategy));
    for (unsigned r = 0; r < count; r++) CLQ_TRY(within_replica(strategy, r, open_replica(strategy, r)));
    /* Reports show the first replica's paths. */
    for (clq_path path = CLQ_PATH_ONE_LAUNCH; path <= CLQ_PATH_UPLOAD_AHEAD; path++)
        (void)clq_paths_decide(&strategy->paths, path, clq_facts_of_replica(strategy, 0));
    if (strategy->module->open) CLQ_TRY(strategy->module->open(strategy));
    if (strategy->config.check_replicas) CLQ_TRY(clq_alike_open(strategy));
    for (unsigned r = 0; r < count; r++)
        CLQ_TRY(clq_worker_start(&strategy->replicas[r].worker, commands_ahead(strategy, strategy->replicas[r].plan)));
    return CLQ_OK;
}

/* Called by the thread of the replica that failed. */
static void abort_exchanges(void *context, const clq_error *error) {
    clq_strategy *strategy = context;
    if (strategy->module->abort) strategy->module->abort(strategy);
    for (unsigned i = 0; i < strategy->comm_count; i++) clq_comm_abort(strategy->comms[i], error);
}

static clq_status failure_of_world(void *context) {
    return clq_world_failure(((const clq_strategy *)context)->config.world);
}

static clq_status check_config(const clq_strategy_config *config, unsigned devices, const clq_strategy_module **out) {
    if (config->global_batch < devices)
        return clq_fail(
            CLQ_ERROR_ARGUMENT,
            "a global batch of %zu is smaller than the %u replicas: use a batch of at least %u or fewer devices",
            config->global_batch, devices, devices);
    if (config->global_batch > INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a global batch of %zu is too large: expected at most %d",
                        config->global_batch, (int)INT32_MAX);
    CLQ_TRY(choose_module(config, devices, out));
    return clq_settings_check(config, *out);
}

clq_status clq_strategy_check(const clq_strategy_config *config, unsigned devices) {
    const clq_strategy_module *module;
    return clq_world_check(config->world, check_config(config, devices, &module));
}

clq_status clq_strategy_make(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                             const size_t *activations_most, clq_strategy **out) {
    const clq_strategy_module *module;
    CLQ_TRY(check_config(config, devices->count, &module));
    CLQ_TRY(clq_properties_check(model, config));
    clq_strategy *strategy = clq_alloc(1, sizeof *strategy);
    if (!strategy) return CLQ_ERROR_MEMORY;
    strategy->shards_optimizer = config->options.shard_optimizer && config->total > 1 && config->plan.update;
    strategy->model = model;
    strategy->module = module;
    strategy->exchange = &clq_exchange_none;
    strategy->group = 1;
    strategy->config = *config;
    strategy->first = config->first;
    strategy->total = config->total;
    clq_model_feed(model, config->plan.sample_dtype, config->plan.loss, &strategy->feed);
    strategy->pool = (clq_pool){CLQ_POOL_START, .trace_steps = config->trace_steps, .on_failure = abort_exchanges,
                                .failure_elsewhere = failure_of_world, .context = strategy};
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_ranks_open(strategy));
    CLQ_TRY_OR(fail, status, clq_paths_open(&strategy->paths, config->disabled_paths));
    CLQ_TRY_OR(fail, status, open_replicas(strategy, devices, activations_most));
    *out = strategy;
    return CLQ_OK;
fail:
    clq_strategy_destroy(strategy);
    return status;
}

void clq_strategy_destroy(clq_strategy *strategy) {
    if (!strategy) return;
    for (unsigned r = 0; r < strategy->count; r++) clq_worker_stop(&strategy->replicas[r].worker);
    if (strategy->exchange->close) strategy->exchange->close(strategy);
    if (strategy->module->close) strategy->module->close(strategy);
    /* No thread is in a collective now. Communicators have memory on the devices, so the devices close later. */
    for (unsigned i = 0; i < strategy->comm_count; i++) clq_comm_destroy(strategy->comms[i]);
    for (unsigned r = 0; r < strategy->count; r++) clq_replica_close_plans(&strategy->replicas[r]);
    for (unsigned r = 0; r < strategy->count; r++) clq_replica_close(&strategy->replicas[r]);
    clq_tune_log_release(&strategy->tune_log);
    clq_shares_destroy(strategy->shares);
    clq_ranks_close(strategy);
    clq_free(strategy->measured_by);
    clq_free(strategy->replicas);
    clq_free(strategy);
}
