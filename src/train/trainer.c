/* Trainers: a strategy with optimizers and losses, and the step in its three parts (gradients, reduce, apply). */
#include "train/trainer.h"
#include "train/settings.h"
#include "train/sharding.h"

#include <math.h>
#include <string.h>

static clq_update_options update_options(const clq_trainer *trainer, const clq_trainer_config *config,
                                         const clq_treatment *treatments) {
    return (clq_update_options){.clip = config->clip,
                                .scaling = clq_mixed_scaling(config),
                                .averages = config->average > 0.0,
                                .others = trainer->others,
                                .other_count = trainer->other_count,
                                .treatments = treatments};
}

static clq_strategy_config strategy_config(const clq_trainer *trainer, const clq_trainer_config *config,
                                           const clq_update_options *updates, const clq_selections *selections,
                                           const char *stage_settings) {
    return (clq_strategy_config){.kind = config->strategy,
                                 .options = config->strategy_options,
                                 .plan = {.mode = config->inference_only ? CLQ_MODE_EVALUATE : CLQ_MODE_TRAIN,
                                          .seed = config->seed,
                                          .sample_dtype = config->sample_dtype,
                                          .loss = trainer->losses,
                                          .update = config->inference_only ? NULL : &trainer->config.optimizer,
                                          .activations = clq_mixed_activations(config->precision),
                                          .update_options = *updates,
                                          .gradient_norms = config->measure_gradient,
                                          .check_numerics = config->check_numerics && !config->inference_only,
                                          .precision = config->matmul_precision,
                                          .recompute = config->inference_only ? CLQ_RECOMPUTE_OFF : config->recompute,
                                          .metric_slots = CLQ_METRIC_SLOTS,
                                          .selections = selections},
                                 .global_batch = config->global_batch,
                                 .group = config->group,
                                 .bucket_bytes = config->bucket_bytes,
                                 .trace_steps = config->trace_steps,
                                 .disabled_paths = config->disabled_paths,
                                 .tuning = config->tuning,
                                 .tuning_s = config->tuning_s,
                                 .stage_settings = stage_settings,
                                 .check_replicas = config->check_replicas > 0,
                                 .evaluates_apart =
                                     config->shard == CLQ_SHARD_FILE && clq_world_size(config->world) > 1,
                                 .world = config->world,
                                 .parts = config->parts,
                                 .part = config->part};
}

/* The lists are the caller's, and may be freed once the trainer is made. */
static clq_trainer_config without_lists(const clq_trainer_config *config) {
    clq_trainer_config kept = *config;
    kept.metrics = NULL;
    kept.outputs = NULL;
    kept.no_decay = NULL;
    kept.disabled_paths = NULL;
    kept.class_weights = NULL;
    kept.optimizers = NULL;
    return kept;
}

/* Checks that all processes have the same variables, and the same values of settings that change results. */
static clq_status agree(const clq_trainer *trainer) {
    const clq_model *model = trainer->model;
    clq_text text = {0};
    if (clq_world_size(trainer->config.world) == 1) return CLQ_OK;
    char *settings = clq_json_dumps(trainer->settings, JSON_SORT_KEYS);
    if (settings) clq_text_add_text(&text, settings);
    for (uint32_t i = 0; i < model->variable_count; i++)
        clq_text_add(&text, "\n%s %zu", model->variables[i].name, model->variables[i].elements);
    clq_status status = settings && !text.failed ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK)
        status = clq_world_agree(trainer->config.world, "model or settings of the training",
                                 clq_hash128_of(text.data, text.length, 0));
    clq_free(settings);
    clq_free(text.data);
    return status;
}

/* If this process has begun no collective yet, it brings its failure to the others' first one, a clq_world_check.
 * Later, the others would wait for it in vain, so it ends the world. */
clq_status clq_trainer_end_world(clq_world *world, uint64_t turns, clq_status status) {
    if (clq_world_size(world) == 1) return status;
    return clq_world_turns(world) == turns ? clq_world_check(world, status) : clq_world_fail_with(world, status);
}

static clq_status create_trainer(const clq_model *model, const clq_devices *devices, const clq_trainer_config *config,
                                 const clq_selections *selections, clq_trainer **out) {
    if (!model->finished)
        return clq_fail(CLQ_ERROR_STATE, "model %s is not finished: call clq_model_finish first",
                        clq_model_name(model));
    CLQ_TRY(clq_trainer_check_config(config));
    clq_trainer *trainer = clq_alloc(1, sizeof *trainer);
    if (!trainer) return CLQ_ERROR_MEMORY;
    trainer->model = model;
    trainer->config = without_lists(config);
    trainer->created = clq_now();
    clq_status status;
    clq_text stage_settings = {0};
    clq_treatment *treatments = NULL;
    CLQ_TRY_OR(fail, status, clq_trainer_set_measures(trainer, config));
    CLQ_TRY_OR(fail, status, clq_trainer_treat(trainer, config, &treatments));
    const clq_update_options updates = update_options(trainer, config, treatments);
    CLQ_TRY_OR(fail, status, clq_settings_record(config, &trainer->settings));
    clq_settings_add_key(config, CLQ_KEY_STAGES, CLQ_STRATEGY_PIPELINE, &stage_settings);
    if (stage_settings.failed) CLQ_TRY_OR(fail, status, CLQ_ERROR_MEMORY);
    clq_strategy_config strategy = strategy_config(trainer, config, &updates, selections, stage_settings.data);
    bool index = true;
    for (uint32_t i = 0; i < model->output_count; i++)
        index = index && clq_loss_has_index(&trainer->losses[i]) && !trainer->losses[i].weighted;
    CLQ_TRY_OR(fail, status, clq_strategy_create(model, devices, &strategy, &trainer->strategy));
    (void)clq_strategy_takes_rows(trainer->strategy, index); /* decides for a dataset whose labels are classes */
    CLQ_TRY_OR(fail, status, agree(trainer));
    CLQ_TRY_OR(fail, status, clq_sharding_create(trainer));
    CLQ_TRY_OR(fail, status, clq_trainer_set_initial_weights(trainer));
    clq_free(stage_settings.data);
    clq_free(treatments);
    *out = trainer;
    return CLQ_OK;
fail:
    clq_free(stage_settings.data);
    clq_free(treatments);
    clq_trainer_destroy(trainer);
    return status;
}

clq_status clq_trainer_create_with_selections(const clq_model *model, const clq_devices *devices,
                                              const clq_trainer_config *config, const clq_selections *selections,
                                              clq_trainer **out) {
    const uint64_t turns = clq_world_turns(config->world);
    const clq_status status = create_trainer(model, devices, config, selections, out);
    return status == CLQ_OK ? CLQ_OK : clq_trainer_end_world(config->world, turns, status);
}

clq_status clq_trainer_create_sized(const clq_model *model, const clq_devices *devices,
                                    const clq_trainer_config *config, size_t config_bytes, clq_trainer **out) {
    clq_trainer_config whole;
    CLQ_TRY(clq_struct_take("clq_trainer_config", config, config_bytes, &whole, sizeof whole));
    if (!whole.optimizers) whole.optimizer_count = 0;
    return clq_trainer_create_with_selections(model, devices, &whole, NULL, out);
}

void clq_trainer_destroy(clq_trainer *trainer) {
    if (!trainer) return;
    clq_strategy_destroy(trainer->strategy);
    for (size_t i = 0; i < CLQ_MODEL_OUTPUTS_MAX; i++) clq_free(trainer->targets[i]);
    clq_free(trainer->parts);
    clq_sharding_destroy(trainer->sharding);
    clq_free(trainer->class_weights);
    for (size_t i = 0; i < CLQ_MATRIX_SOURCES; i++) clq_free(trainer->counted[i]);
    clq_free(trainer->optimizer_text);
    json_decref(trainer->settings);
    clq_free(trainer->input.spans);
    clq_free(trainer);
}

unsigned clq_trainer_replicas(const clq_trainer *trainer) { return clq_strategy_replicas(trainer->strategy); }
clq_strategy *clq_trainer_strategy(const clq_trainer *trainer) { return trainer->strategy; }

clq_status clq_trainer_replica(const clq_trainer *trainer, unsigned replica, clq_device_info *device, size_t *share) {
    if (replica >= clq_trainer_replicas(trainer))
        return clq_fail(CLQ_ERROR_ARGUMENT, "replica %u is out of range: there are %u", replica,
                        clq_trainer_replicas(trainer));
    *device = *clq_device_get_info(clq_strategy_device(trainer->strategy, replica));
    *share = clq_strategy_share(trainer->strategy, replica);
    return CLQ_OK;
}

size_t clq_trainer_share_changes(const clq_trainer *trainer) { return clq_strategy_share_changes(trainer->strategy); }

clq_status clq_trainer_share_change(const clq_trainer *trainer, size_t index, uint64_t *step, size_t *shares) {
    const size_t changes = clq_trainer_share_changes(trainer);
    if (index >= changes)
        return clq_fail(CLQ_ERROR_ARGUMENT, "change %zu of the shares is out of range: there are %zu", index, changes);
    *step = clq_strategy_share_change(trainer->strategy, index, shares);
    return CLQ_OK;
}

uint64_t clq_trainer_device_bytes(const clq_trainer *trainer) {
    uint64_t bytes = 0;
    for (unsigned r = 0; r < clq_trainer_replicas(trainer); r++)
        bytes += clq_device_memory_used(clq_strategy_device(trainer->strategy, r));
    return bytes;
}

clq_comm_times clq_trainer_comm_times(const clq_trainer *trainer) { return clq_strategy_comm_times(trainer->strategy); }

clq_status clq_trainer_step_times(clq_trainer *trainer, size_t most, float *seconds, size_t *count) {
    *count = 0;
    return clq_strategy_step_times(trainer->strategy, 0, most, seconds, count);
}

clq_status clq_trainer_server_counts_sized(clq_trainer *trainer, clq_server_counts *out, size_t out_bytes) {
    CLQ_TRY(clq_strategy_wait(trainer->strategy));
    const clq_gradient_counts counts = clq_strategy_gradient_counts(trainer->strategy);
    const clq_server_counts result = {.servers = counts.servers,
                                      .updates = counts.updates,
                                      .least = counts.least,
                                      .most = counts.most,
                                      .gradients = counts.pushed,
                                      .dropped = counts.dropped};
    clq_struct_give(&result, sizeof result, out, out_bytes);
    return CLQ_OK;
}

clq_status clq_trainer_staleness(clq_trainer *trainer, size_t most, uint64_t *updates, size_t *count) {
    CLQ_TRY(clq_strategy_wait(trainer->strategy));
    const clq_gradient_counts counts = clq_strategy_gradient_counts(trainer->strategy);
    *count = counts.staleness ? counts.bound + 1 : 0;
    for (size_t s = 0; s < CLQ_MIN(most, *count); s++) updates[s] = counts.staleness[s];
    return CLQ_OK;
}

/* Trains `steps` steps. *rate: batches per second, the sum over replicas. Each replica counts by its own times, so that
 * waiting for others at the end does not matter, and by its share of the batch. The first step of the run, and of each
 * epoch in it, is not timed. */
static clq_status measure_rate(clq_trainer *trainer, clq_dataset *data, uint64_t steps, double *rate) {
    enum { MOST = 1024 };
    float seconds[MOST];
    const size_t updates = clq_ceil_div(clq_dataset_batches(data), clq_trainer_batches_of_update(trainer));
    uint64_t before = trainer->step, begun = 2 + steps / updates;
    CLQ_TRY(clq_fit(trainer, data, &(clq_fit_config){.steps = steps}));
    uint64_t made = trainer->step - before;
    *rate = 0.0;
    for (unsigned r = 0; r < clq_trainer_replicas(trainer) && made > begun; r++) {
        size_t count;
        double sum = 0.0;
        CLQ_TRY(clq_strategy_step_times(trainer->strategy, r, (size_t)CLQ_MIN(made - begun, (uint64_t)MOST), seconds,
                                        &count));
        for (size_t i = 0; i < count; i++) sum += (double)seconds[i];
        const double share = (double)clq_strategy_share(trainer->strategy, r) / (double)trainer->config.global_batch;
        if (sum > 0.0) *rate += share * (double)count / sum;
    }
    return CLQ_OK;
}

clq_status clq_trainer_compare_apart(clq_trainer *trainer, clq_dataset *data, uint64_t steps, double *share) {
    double apart, together = 0.0;
    CLQ_TRY(clq_strategy_set_apart(trainer->strategy, true));
    clq_status status = measure_rate(trainer, data, steps, &apart);
    CLQ_TRY(clq_strategy_set_apart(trainer->strategy, false));
    if (status == CLQ_OK) status = measure_rate(trainer, data, steps, &together);
    *share = status == CLQ_OK && apart > 0.0 ? together / apart : 0.0;
    return status;
}

/* ---- the step ---- */

/* The caller's own schedule is asked once for each update. */
static double ask_rate(clq_trainer *trainer, uint64_t step) {
    if (trainer->asked_step == step + 1) return trainer->asked_rate;
    trainer->asked_rate = trainer->config.learning_rate(trainer->config.learning_rate_context, step);
    trainer->asked_step = step + 1;
    return trainer->asked_rate;
}

/* The learning rate of update `step`, from 0. */
static double learning_rate(clq_trainer *trainer, uint64_t step) {
    const clq_lr_schedule *schedule = &trainer->config.schedule;
    const uint64_t warmup = clq_lr_warmup_steps(schedule);
    if (!trainer->config.learning_rate)
        return clq_lr_schedule_rate(schedule, trainer->config.optimizer.values[0], step);
    return step < warmup ? clq_lr_warmup_rate(schedule, ask_rate(trainer, 0), step) : ask_rate(trainer, step - warmup);
}

double clq_trainer_learning_rate(clq_trainer *trainer) {
    return trainer->step > 0 ? trainer->last_rate : learning_rate(trainer, 0);
}

double clq_trainer_next_learning_rate(clq_trainer *trainer) { return learning_rate(trainer, trainer->step); }

bool clq_trainer_has_schedule(const clq_trainer *trainer) {
    return trainer->config.schedule.kind != CLQ_LR_SCHEDULE_CONSTANT || trainer->config.learning_rate ||
           clq_lr_warmup_steps(&trainer->config.schedule) > 0;
}

static clq_status check_rate(clq_trainer *trainer) {
    if (!trainer->config.learning_rate) return CLQ_OK;
    const double rate = learning_rate(trainer, trainer->step);
    if (rate >= 0.0 && rate <= 1e6) return CLQ_OK;
    trainer->asked_step = 0; /* the next try calls the function again */
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "the learning_rate function gave %g for update %llu: expected a number from 0 to 1e6", rate,
                    (unsigned long long)trainer->step);
}

static clq_status may_step(clq_trainer *trainer) {
    if (trainer->config.inference_only)
        return clq_fail(CLQ_ERROR_STATE, "an inference-only trainer makes no gradients");
    /* An update with more batches than slots takes the slots of its first rows again, so these rows are read now. */
    if (trainer->accumulated > 0 && trainer->last_rows == CLQ_METRIC_SLOTS)
        CLQ_TRY(clq_trainer_keep_last_step(trainer));
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    return check_rate(trainer);
}

clq_status clq_trainer_set_learning_rate(clq_trainer *trainer, double rate) {
    if (clq_trainer_has_schedule(trainer))
        return clq_fail(CLQ_ERROR_STATE,
                        "the trainer's schedule sets the learning rate: make it without one to set the rate "
                        "between steps");
    CLQ_TRY(clq_optimizer_set(&trainer->config.optimizer, "lr", rate));
    trainer->rate_set = true;
    return CLQ_OK;
}

clq_step_params clq_trainer_forward_params(const clq_trainer *trainer) {
    return (clq_step_params){.slot = (uint32_t)(trainer->rows % CLQ_METRIC_SLOTS),
                             .step = (uint32_t)(trainer->step + 1)};
}

clq_step_params clq_trainer_next_params(clq_trainer *trainer) {
    const uint64_t step = trainer->step + 1;
    clq_step_params params = clq_trainer_forward_params(trainer);
    params.average = clq_average_part(&trainer->config, step);
    clq_trainer_set_rates(trainer, learning_rate(trainer, trainer->step), step, &params);
    return params;
}

clq_status clq_trainer_refuse_call(const clq_trainer *trainer, const char *call) {
    if (trainer->config.parts > 0)
        return clq_fail(CLQ_ERROR_STATE,
                        "%s needs a whole model and the trainer has part %u of %u: use clq_part_forward and "
                        "clq_part_backward",
                        call, trainer->config.part, trainer->config.parts);
    if (trainer->running)
        return clq_fail(CLQ_ERROR_STATE, "%s was called by a function that runs on a replica: call it behind clq_run",
                        call);
    if (!trainer->metrics) return CLQ_OK;
    return clq_fail(CLQ_ERROR_STATE, "%s was called by on_step, on_progress or on_log of a clq_fit that is under way",
                    call);
}

static clq_status begin_step(clq_trainer *trainer, const clq_batch *batch, clq_checked_batch *taken) {
    CLQ_TRY(may_step(trainer));
    return clq_trainer_take_batch(trainer, batch, CLQ_TO_TRAIN, taken);
}

void clq_trainer_end_batch(clq_trainer *trainer, size_t samples, bool ends) {
    if (trainer->accumulated == 0) {
        trainer->last_count = trainer->last_rows = 0;
        memset(trainer->last_sums, 0, sizeof trainer->last_sums);
    }
    trainer->last_slot = (uint32_t)(trainer->rows++ % CLQ_METRIC_SLOTS);
    trainer->last_rows++;
    trainer->last_count += samples;
    trainer->accumulated = ends ? 0 : trainer->accumulated + 1;
    trainer->gradient = ends ? CLQ_GRADIENT_PARTS : CLQ_GRADIENT_NONE;
}

static void end_update(clq_trainer *trainer) {
    trainer->last_rate = learning_rate(trainer, trainer->step);
    trainer->step++;
    trainer->gradient = CLQ_GRADIENT_NONE;
}

size_t clq_trainer_batches_of_update(const clq_trainer *trainer) {
    return (size_t)CLQ_MAX(trainer->config.strategy_options.accumulate, (uint64_t)1);
}

void clq_trainer_forget_accumulated(clq_trainer *trainer) {
    trainer->accumulated = 0;
    clq_strategy_forget_accumulated(trainer->strategy);
}

clq_status clq_trainer_refuse_local_steps(const clq_trainer *trainer) {
    if (trainer->config.strategy_options.local_steps == 0 || clq_trainer_replicas(trainer) == 1) return CLQ_OK;
    return clq_fail(CLQ_ERROR_STATE,
                    "with local steps each replica updates by its own gradient, and there is no sum of "
                    "them: use clq_step or clq_fit, or no local steps");
}

clq_status clq_step_gradients(clq_trainer *trainer, const clq_batch *batch) {
    clq_checked_batch taken;
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_step_gradients"));
    CLQ_TRY(clq_trainer_refuse_local_steps(trainer));
    CLQ_TRY(begin_step(trainer, batch, &taken));
    const clq_step_params params = clq_trainer_next_params(trainer);
    CLQ_TRY(clq_strategy_gradients(trainer->strategy, &taken.rows, &params));
    clq_trainer_end_batch(trainer, batch->count, true);
    return CLQ_OK;
}

static clq_status step(clq_trainer *trainer, const clq_rows *rows, const clq_step_params *params, bool ends) {
    CLQ_TRY(ends ? clq_strategy_step(trainer->strategy, rows, params)
                 : clq_strategy_accumulate(trainer->strategy, rows, params));
    clq_trainer_end_batch(trainer, clq_strategy_samples(trainer->strategy, rows->count), ends);
    if (ends) end_update(trainer);
    return CLQ_OK;
}

clq_status clq_trainer_step_batch(clq_trainer *trainer, const clq_batch *batch, bool ends) {
    clq_checked_batch taken;
    const clq_step_params params = clq_trainer_next_params(trainer);
    CLQ_TRY(begin_step(trainer, batch, &taken));
    return step(trainer, &taken.rows, &params, ends);
}

clq_status clq_trainer_check_replicas(clq_trainer *trainer) {
    const uint64_t every = trainer->config.check_replicas;
    bool checked = false;
    if (every == 0) return CLQ_OK;
    trainer->check_is_due = trainer->check_is_due || trainer->step % every == 0;
    if (!trainer->check_is_due) return CLQ_OK;
    const clq_status status = clq_strategy_check_replicas(trainer->strategy, trainer->step, &checked);
    trainer->check_is_due = !checked;
    return status;
}

clq_status clq_step(clq_trainer *trainer, const clq_batch *batch) {
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_step"));
    CLQ_TRY(clq_trainer_step_batch(trainer, batch, true));
    return clq_trainer_check_replicas(trainer);
}

clq_status clq_step_accumulate(clq_trainer *trainer, const clq_batch *batch) {
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_step_accumulate"));
    CLQ_TRY(clq_trainer_refuse_local_steps(trainer));
    if (trainer->gradient != CLQ_GRADIENT_NONE)
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_step_accumulate comes before the clq_step_gradients of its update, or after "
                        "the update's clq_step_apply");
    return clq_trainer_step_batch(trainer, batch, false);
}

clq_status clq_trainer_step_rows(clq_trainer *trainer, const clq_rows *rows, bool ends) {
    const clq_step_params params = clq_trainer_next_params(trainer);
    CLQ_TRY(may_step(trainer));
    /* The dataset was checked, but a callback of clq_fit may have cut it into other batches since. */
    CLQ_TRY(clq_trainer_check_size(trainer, rows->count));
    return step(trainer, rows, &params, ends);
}

clq_status clq_step_reduce(clq_trainer *trainer) {
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    if (trainer->config.parts > 0)
        return clq_fail(CLQ_ERROR_STATE,
                        "a part of a model is on one device, and nothing is reduced: clq_step_apply comes "
                        "after clq_part_backward");
    if (trainer->gradient == CLQ_GRADIENT_NONE)
        return clq_fail(CLQ_ERROR_STATE, "clq_step_reduce comes after clq_step_gradients");
    if (trainer->gradient == CLQ_GRADIENT_SUM)
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_step_reduce was called already for this gradient: a second sum would multiply "
                        "it by the number of replicas");
    CLQ_TRY(clq_strategy_reduce(trainer->strategy));
    trainer->gradient = CLQ_GRADIENT_SUM;
    return CLQ_OK;
}

clq_status clq_step_apply(clq_trainer *trainer) {
    CLQ_TRY(clq_strategy_failure(trainer->strategy));
    if (trainer->gradient != CLQ_GRADIENT_SUM && trainer->config.parts > 0)
        return clq_fail(CLQ_ERROR_STATE, "clq_step_apply comes after the clq_part_backward of its gradient");
    if (trainer->gradient != CLQ_GRADIENT_SUM)
        return clq_fail(CLQ_ERROR_STATE, "clq_step_apply comes after clq_step_gradients and clq_step_reduce%s",
                        trainer->gradient == CLQ_GRADIENT_PARTS ? ", and clq_step_reduce was not called" : "");
    CLQ_TRY(check_rate(trainer)); /* clq_run and parts of a model come here without may_step */
    clq_step_params params = clq_trainer_next_params(trainer);
    params.slot = trainer->last_slot; /* the gradient's row, though evaluations may have written rows since */
    CLQ_TRY(clq_strategy_apply(trainer->strategy, &params));
    end_update(trainer);
    return clq_trainer_check_replicas(trainer);
}

double clq_trainer_norm(const clq_trainer *trainer, const float *squares) {
    double sum = 0.0;
    if (!squares || !trainer->config.measure_gradient) return (double)NAN;
    for (size_t i = 0; i < clq_model_variable_count(trainer->model); i++) sum += (double)squares[i];
    return sqrt(sum);
}

/* Reads the sums of the last update's rows, and the squares of its last row. squares NULL: not wanted. */
static clq_status read_last_rows(clq_trainer *trainer, double totals[CLQ_METRICS_ROW_MAX], float *squares) {
    const unsigned width = clq_trainer_width(trainer);
    const size_t variables = clq_model_variable_count(trainer->model);
    const uint32_t count = CLQ_MAX(trainer->last_rows, 1u); /* 0 rows: reads the last one, but does not add it up */
    const uint32_t first = (trainer->last_slot + CLQ_METRIC_SLOTS + 1 - count) % CLQ_METRIC_SLOTS;
    double *rows = clq_alloc((size_t)count * width, sizeof *rows);
    float *all = squares ? clq_alloc(count, CLQ_MAX(variables, (size_t)1) * sizeof *all) : NULL;
    clq_status status = CLQ_ERROR_MEMORY;
    if (rows && (all || !squares)) status = clq_strategy_read_figures(trainer->strategy, first, count, rows, all);
    if (status == CLQ_OK) memcpy(totals, trainer->last_sums, width * sizeof *totals);
    for (size_t i = 0; i < trainer->last_rows && status == CLQ_OK; i++)
        for (unsigned k = 0; k < width; k++) totals[k] += rows[i * width + k];
    if (status == CLQ_OK && squares) memcpy(squares, all + (count - 1) * variables, variables * sizeof *squares);
    clq_free(rows);
    clq_free(all);
    return status;
}

clq_status clq_trainer_keep_last_step(clq_trainer *trainer) {
    double totals[CLQ_METRICS_ROW_MAX];
    if (trainer->last_rows == 0) return CLQ_OK;
    CLQ_TRY(read_last_rows(trainer, totals, NULL));
    memcpy(trainer->last_sums, totals, clq_trainer_width(trainer) * sizeof *totals);
    trainer->last_rows = 0;
    return CLQ_OK;
}

/* Changes the number of samples only: the loss is a mean over the whole batch already. */
void clq_trainer_tell_origin(const clq_trainer *trainer, uint32_t slot, clq_step_info *info) {
    const clq_origin origin = clq_strategy_origin(trainer->strategy, slot);
    info->replica = origin.replica;
    info->staleness = origin.staleness;
    info->samples = (size_t)llround((double)info->samples * origin.part);
}

static clq_status read_last_step(clq_trainer *trainer, double totals[CLQ_METRICS_ROW_MAX], double *norm) {
    float *squares = NULL;
    if (trainer->config.measure_gradient) {
        squares = clq_alloc(CLQ_MAX(clq_model_variable_count(trainer->model), (size_t)1), sizeof *squares);
        if (!squares) return CLQ_ERROR_MEMORY;
    }
    clq_status status = read_last_rows(trainer, totals, squares);
    if (status == CLQ_OK) status = clq_strategy_add_up_rows(trainer->strategy, trainer->last_slot, 1, totals, squares);
    /* The last row has the squares once the update was made. */
    const bool made = trainer->gradient == CLQ_GRADIENT_NONE && trainer->accumulated == 0 && trainer->forwarded == 0;
    if (status == CLQ_OK) *norm = clq_trainer_norm(trainer, made ? squares : NULL);
    clq_free(squares);
    return status;
}

clq_status clq_step_read_sized(clq_trainer *trainer, clq_step_info *out, size_t out_bytes) {
    if (trainer->last_count == 0) return clq_fail(CLQ_ERROR_STATE, "clq_step_read: no step was made yet");
    double totals[CLQ_METRICS_ROW_MAX], norm;
    CLQ_TRY(read_last_step(trainer, totals, &norm));
    clq_step_info info = {.step = trainer->step,
                          .grad_norm = norm,
                          .lr = clq_trainer_learning_rate(trainer),
                          .samples = trainer->last_count};
    clq_trainer_tell(trainer, totals, trainer->last_count, &info.loss, &info.metrics);
    clq_trainer_tell_origin(trainer, trainer->last_slot, &info);
    clq_struct_give(&info, sizeof info, out, out_bytes);
    return CLQ_OK;
}

/* ---- store ranks ---- */

clq_status clq_serve(clq_world *world) {
    if (!clq_world_is_apart(world))
        return clq_fail(CLQ_ERROR_STATE, "clq_serve: %s is not set apart (clq_world_set_apart)",
                        clq_world_name(world, clq_world_rank(world)));
    CLQ_TRY(clq_stores_serve(world));
    clq_world_take_back(world);
    return CLQ_OK;
}

clq_status clq_serve_end(clq_world *world) { return clq_stores_end(world); }

uint64_t clq_trainer_step(const clq_trainer *trainer) { return trainer->step; }
uint64_t clq_trainer_diverged(const clq_trainer *trainer) { return trainer->diverged; }

clq_status clq_trainer_wait(clq_trainer *trainer) { return clq_strategy_wait(trainer->strategy); }
