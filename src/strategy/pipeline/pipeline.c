/* The pipelined strategy: each device has a stage of the model, and micro-batches go through them, forward and back
 * (Huang et al., "GPipe", 2019). Several pipelines are mirrored: their gradients are summed stage by stage. */
#include "strategy/pipeline/pipeline.h"

static clq_pipeline *pipeline_of(const clq_strategy *strategy) { return strategy->own; }
static clq_pipeline_part *part_of(const clq_replica *replica) {
    return &pipeline_of(replica->strategy)->parts[replica->worker.index];
}
static unsigned pipeline_number(const clq_replica *replica) {
    return replica->worker.index / pipeline_of(replica->strategy)->stages;
}
static unsigned stage_of(const clq_replica *replica) {
    return replica->worker.index % pipeline_of(replica->strategy)->stages;
}

/* ---- micro-batches ---- */

/* A replica's rows of a batch, in `count` micro-batches whose sizes differ by one sample at most. */
typedef struct pass {
    clq_replica *replica;
    const clq_command *command;
    clq_staging *rows; /* NULL: none */
    clq_segment last;  /* the last segment that a forward pass runs */
    unsigned stage, stages, count;
} pass;

static clq_status begin_pass(clq_replica *replica, const clq_command *command, pass *out) {
    const clq_pipeline *pipeline = pipeline_of(replica->strategy);
    *out = (pass){.replica = replica, .command = command, .last = CLQ_SEGMENT_LOSS};
    out->stage = stage_of(replica);
    out->stages = pipeline->stages;
    out->count = CLQ_MAX(CLQ_MIN(pipeline->micro_batches, command->params.count), 1u);
    return clq_replica_take_rows(replica, command, &out->rows);
}

static uint32_t first_row(const pass *p, unsigned micro_batch) {
    return (uint32_t)((uint64_t)p->command->params.count * micro_batch / p->count);
}

/* Micro-batches add up their gradients; if batches are accumulated, they also add to the sum of the batches before.
 * Only the last micro-batch gets the command's factor, which in an update's last batch turns the sum into the mean. */
static float sum_factor(const pass *p, unsigned micro_batch) {
    const float factor = p->command->params.sum_factor;
    if (micro_batch == 0 && factor == 0.0f) return 0;
    return micro_batch + 1 == p->count && factor != 0.0f ? factor : 1;
}

static clq_step_params params_of(const pass *p, unsigned micro_batch) {
    clq_step_params params = p->command->params;
    params.count = first_row(p, micro_batch + 1) - first_row(p, micro_batch);
    params.first_row += first_row(p, micro_batch);
    params.sum_factor = sum_factor(p, micro_batch);
    params.slot = params.slot * pipeline_of(p->replica->strategy)->micro_batches + micro_batch;
    return params;
}

/* ---- a stage's work ---- */

static clq_pipeline_part *previous(const pass *p) { return p->stage > 0 ? part_of(p->replica) - 1 : NULL; }

static clq_status note_wait(clq_replica *replica, double began, const char *what, uint32_t count) {
    if (!replica->worker.tracing) return CLQ_OK;
    return clq_timeline_add(&replica->exchanges, began, what, "samples", count);
}

static clq_status receive(clq_replica *replica, clq_pipe *pipe, const clq_plan *plan, uint32_t count,
                          const char *what) {
    const double began = clq_now();
    if (!pipe) return CLQ_OK;
    CLQ_TRY(clq_pipe_receive(pipe, replica->worker.queue, plan, count));
    return note_wait(replica, began, what, count);
}

static clq_status send(clq_replica *replica, clq_pipe *pipe, const clq_plan *plan, uint32_t count, const char *what) {
    const double began = clq_now();
    if (!pipe) return clq_queue_flush(replica->worker.queue);
    CLQ_TRY(clq_pipe_send(pipe, replica->worker.queue, plan, count));
    return note_wait(replica, began, what, count);
}

/* Runs a plan up to the end of segment p->last. In training, the last stage also runs backward here. */
static clq_status forward(const pass *p, clq_plan *plan, unsigned micro_batch) {
    clq_replica *replica = p->replica;
    const clq_pipeline_part *before = previous(p);
    const clq_step_params params = params_of(p, micro_batch);
    const bool last_rows = micro_batch + 1 == p->count;
    CLQ_TRY(receive(replica, before ? before->values : NULL, plan, params.count, "receive values"));
    if (p->rows)
        CLQ_TRY(clq_replica_upload_rows(replica, plan, p->rows, first_row(p, micro_batch), params.count,
                                        last_rows ? &p->rows->read : NULL));
    clq_plan_set_params(plan, &params);
    CLQ_TRY(clq_plan_run(plan, replica->worker.queue, CLQ_SEGMENT_FORWARD, p->last));
    return send(replica, part_of(replica)->values, plan, params.count, "send values");
}

static clq_status backward(const pass *p, clq_plan *plan, unsigned micro_batch) {
    clq_replica *replica = p->replica;
    const clq_pipeline_part *before = previous(p);
    const uint32_t count = params_of(p, micro_batch).count;
    if (p->last < CLQ_SEGMENT_BACKWARD) {
        CLQ_TRY(receive(replica, part_of(replica)->gradients, plan, count, "receive gradients"));
        CLQ_TRY(clq_plan_run(plan, replica->worker.queue, CLQ_SEGMENT_BACKWARD, CLQ_SEGMENT_BACKWARD));
    }
    return send(replica, before ? before->gradients : NULL, plan, count, "send gradients");
}

/* If a batch has fewer samples than there are micro-batches, sets the rows of metrics of the missing ones to zero. */
static clq_status clear_rows(const pass *p, clq_plan *plan) {
    const unsigned micro_batches = pipeline_of(p->replica->strategy)->micro_batches;
    size_t first, end;
    clq_plan_segment_range(plan, CLQ_SEGMENT_LOSS, &first, &end);
    for (unsigned m = p->count; m < micro_batches && first < end; m++) {
        clq_step_params params = p->command->params;
        params.count = 0;
        params.slot = params.slot * micro_batches + m;
        clq_plan_set_params(plan, &params);
        CLQ_TRY(clq_plan_run(plan, p->replica->worker.queue, CLQ_SEGMENT_LOSS, CLQ_SEGMENT_LOSS));
    }
    return CLQ_OK;
}

/* ---- steps ---- */

/* Called at the end of a command: whoever waits for the replica later waits for its queue, without a deadline. */
static clq_status await_sent(const clq_replica *replica) {
    const clq_pipeline_part *part = part_of(replica);
    CLQ_TRY(clq_pipe_await_sent(part->values));
    return stage_of(replica) > 0 ? clq_pipe_await_sent((part - 1)->gradients) : CLQ_OK;
}

static clq_status run_micro_batches(clq_replica *replica, const clq_command *command) {
    const clq_pipeline_part *part = part_of(replica);
    pass p;
    CLQ_TRY(begin_pass(replica, command, &p));
    if (p.stage + 1 == p.stages) p.last = CLQ_SEGMENT_BACKWARD; /* it waits for no gradients */
    for (unsigned i = 0; i < 2 * p.count; i++) {
        const clq_turn turn = clq_pipeline_turn(p.stage, p.stages, p.count, i);
        clq_plan *plan = part->flights[turn.micro_batch % part->flight_count];
        CLQ_TRY(turn.backward ? backward(&p, plan, turn.micro_batch) : forward(&p, plan, turn.micro_batch));
    }
    CLQ_TRY(clear_rows(&p, replica->plan));
    return clq_queue_flush(replica->worker.queue);
}

static clq_status gradients(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(run_micro_batches(replica, command));
    return await_sent(replica);
}

static clq_status step(clq_replica *replica, const clq_command *command) {
    clq_step_params params = command->params;
    params.count = 0; /* the update reads no samples, and the batch may exceed the plan's capacity */
    CLQ_TRY(run_micro_batches(replica, command));
    CLQ_TRY(clq_peers_add_up_gradients(replica)); /* over all pipelines */
    CLQ_TRY(clq_replica_apply(replica, &params));
    return await_sent(replica);
}

static clq_status run_forward(clq_replica *replica, clq_mode mode, const clq_command *command) {
    clq_plan *plan = replica->plans[mode];
    pass p;
    CLQ_TRY(begin_pass(replica, command, &p));
    if (mode == CLQ_MODE_PREDICT) p.last = CLQ_SEGMENT_FORWARD;
    for (unsigned m = 0; m < p.count; m++) {
        const clq_step_params params = params_of(&p, m);
        CLQ_TRY(forward(&p, plan, m));
        if (mode == CLQ_MODE_PREDICT)
            CLQ_TRY(clq_replica_read_outputs(replica, plan, command, params.first_row, params.count));
    }
    if (mode == CLQ_MODE_EVALUATE) CLQ_TRY(clear_rows(&p, plan));
    CLQ_TRY(clq_queue_flush(replica->worker.queue));
    return await_sent(replica);
}

/* ---- what each replica is ---- */

static clq_status check_model(const clq_model *model) {
    for (uint32_t v = 0; v < model->variable_count; v++)
        if (model->variables[v].synchronized)
            return clq_fail(
                CLQ_ERROR_UNSUPPORTED,
                "layer '%s' needs statistics of the global batch, and a pipeline has those of micro-batches: "
                "use it without `synchronized`, or use strategy mirrored",
                model->layers[model->variables[v].layer - 1].name);
    for (uint32_t i = 0; i < model->output_count; i++)
        if (model->tensors[model->outputs[i] - 1].mask)
            return clq_fail(
                CLQ_ERROR_UNSUPPORTED,
                "output '%s' has a mask, and a loss that leaves masked steps out is a mean over the steps of "
                "the global batch that count, where a pipeline has micro-batches: use strategy mirrored",
                clq_model_output_name(model, i));
    return CLQ_OK;
}

/* Four micro-batches for each stage: stages then wait for about a fifth of the time. Fewer, but at least one for each
 * stage, if micro-batches would have fewer than samples_least samples. */
static unsigned default_micro_batches(unsigned stages, size_t share) {
    static const size_t samples_least = 4;
    return (unsigned)CLQ_MAX(CLQ_MIN(4 * (size_t)stages, share / samples_least), CLQ_MIN((size_t)stages, share));
}

static clq_status take_options(const clq_strategy *strategy, clq_pipeline *out) {
    const clq_strategy_options *options = &strategy->config.options;
    const unsigned stages = options->stages ? options->stages : strategy->count;
    if (strategy->count % stages != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "pipelines of %u stages need a multiple of %u devices and there are %u: use such a number, or "
                        "a number of stages that divides %u",
                        stages, stages, strategy->count, strategy->count);
    out->stages = stages;
    out->pipelines = strategy->count / stages;
    const size_t share = clq_ceil_div(strategy->config.global_batch, strategy->total / stages);
    if (options->micro_batches > share)
        return clq_fail(
            CLQ_ERROR_ARGUMENT,
            "%u micro-batches are more than the %zu sample%s that a pipeline gets of a batch of %zu: use at "
            "most %zu, or a larger batch",
            options->micro_batches, share, clq_plural(share), strategy->config.global_batch, share);
    out->micro_batches = options->micro_batches ? options->micro_batches : default_micro_batches(stages, share);
    return CLQ_OK;
}

static bool updates_by_squares(const clq_strategy *strategy) {
    return strategy->config.plan.update && clq_updates_by_squares(&strategy->config.plan.update_options);
}

/* Sets each stage's memory to the least over all processes. */
static clq_status find_least_memory(clq_world *world, clq_cut_wishes *wishes) {
    uint64_t *all = clq_alloc(clq_world_size(world), sizeof wishes->memory);
    clq_status status = clq_world_check(world, all ? CLQ_OK : CLQ_ERROR_MEMORY);
    if (status == CLQ_OK) status = clq_world_gather(world, wishes->memory, sizeof wishes->memory, all);
    for (unsigned r = 0; status == CLQ_OK && r < clq_world_size(world); r++)
        for (unsigned s = 0; s < wishes->stages; s++)
            wishes->memory[s] = CLQ_MIN(wishes->memory[s], all[r * CLQ_COUNT_OF(wishes->memory) + s]);
    clq_free(all);
    return status;
}

/* Each process measures its own times, so all processes take the cuts of rank 0. */
static clq_status choose_cuts(clq_strategy *strategy, clq_cut_wishes *wishes) {
    clq_world *world = strategy->config.world;
    clq_pipeline *pipeline = pipeline_of(strategy);
    if (!clq_strategy_spans(strategy)) return clq_pipeline_choose_cuts(strategy, wishes);
    CLQ_TRY(find_least_memory(world, wishes));
    CLQ_TRY(clq_world_check(world, clq_pipeline_choose_cuts(strategy, wishes)));
    return clq_world_broadcast(world, pipeline->cut, pipeline->stages * sizeof pipeline->cut[0]);
}

static clq_status cut_model(clq_strategy *strategy) {
    clq_pipeline *pipeline = pipeline_of(strategy);
    const clq_optimizer *update = strategy->config.plan.update;
    const size_t share = clq_ceil_div(strategy->config.global_batch, strategy->total / pipeline->stages);
    clq_cut_wishes wishes = {.stages = pipeline->stages,
                             .micro_batch = (uint32_t)clq_ceil_div(share, pipeline->micro_batches),
                             .micro_batches = pipeline->micro_batches,
                             .trains = update != NULL,
                             .slots = update ? clq_update_slots(update, &strategy->config.plan.update_options) : 0,
                             .sample_bytes = strategy->feed.arrays[0].bytes};
    for (unsigned r = 0; r < strategy->count; r++) {
        uint64_t *memory = &wishes.memory[r % pipeline->stages];
        const uint64_t budget = clq_device_memory_budget(strategy->replicas[r].worker.device);
        *memory = r < pipeline->stages ? budget : CLQ_MIN(*memory, budget);
    }
    CLQ_TRY(choose_cuts(strategy, &wishes));
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        replica->capacity = (uint32_t)share;
        replica->stage = &pipeline->cut[r % pipeline->stages];
        replica->plan_capacity = wishes.micro_batch;
        replica->metric_rows = pipeline->micro_batches;
        /* All pipelines have the same gradient, so the first one measures it. If updates use its squares, each stage
         * gets the sum of all stages' squares, so only the first stage reports them. */
        replica->measures_norms = r == 0 || (r < pipeline->stages && !updates_by_squares(strategy));
    }
    return CLQ_OK;
}

static clq_status prepare(clq_strategy *strategy) {
    clq_pipeline *pipeline = clq_alloc(1, sizeof *pipeline);
    if (!pipeline) return CLQ_ERROR_MEMORY;
    strategy->own = pipeline;
    CLQ_TRY(check_model(strategy->model));
    CLQ_TRY(clq_world_check(strategy->config.world, take_options(strategy, pipeline)));
    strategy->group = pipeline->stages;
    return cut_model(strategy);
}

/* ---- life ---- */

static void abort_pipes(clq_strategy *strategy) {
    clq_pipeline *pipeline = pipeline_of(strategy);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_pipe_abort(pipeline->parts[r].values);
        clq_pipe_abort(pipeline->parts[r].gradients);
    }
}

/* Makes a plan for each micro-batch that the stage holds at once. */
static clq_status open_flights(clq_replica *replica) {
    const clq_pipeline *pipeline = pipeline_of(replica->strategy);
    clq_pipeline_part *part = part_of(replica);
    part->flights[part->flight_count++] = replica->plan;
    if (!replica->strategy->config.plan.update) return CLQ_OK;
    const unsigned flights = clq_pipeline_in_flight(stage_of(replica), pipeline->stages, pipeline->micro_batches);
    clq_plan_config config = clq_replica_plan_config(replica, CLQ_MODE_TRAIN);
    config.metrics_of = replica->plan;
    /* Only the first plan makes the update. */
    config.gradient_norms = false;
    config.updated_elsewhere = true;
    replica->flights = flights;
    while (part->flight_count < flights) {
        CLQ_TRY(clq_plan_create(replica->weights, &config, &part->flights[part->flight_count]));
        part->flight_count++;
    }
    return CLQ_OK;
}

/* Makes the pipes between the replica's stage and the next one. */
static clq_status open_pipes(clq_replica *replica, double deadline_s) {
    clq_pipeline_part *part = part_of(replica);
    const clq_replica *next = replica + 1;
    clq_pipe_config config = {.model = replica->strategy->model,
                              .cut = &replica->stage->after,
                              .capacity = replica->plan_capacity,
                              .from = replica->worker.device,
                              .to = next->worker.device,
                              .deadline_s = deadline_s};
    CLQ_TRY(clq_pipe_create(&config, &part->values));
    if (!replica->strategy->config.plan.update || clq_cut_bytes(config.model, config.cut, true) == 0) return CLQ_OK;
    config.gradients = true;
    config.from = next->worker.device;
    config.to = replica->worker.device;
    return clq_pipe_create(&config, &part->gradients);
}

/* Makes a communicator of a pipeline's stages, which add up the squares that each measures of its gradient. */
static clq_status open_row(clq_strategy *strategy, unsigned number) {
    clq_pipeline *pipeline = pipeline_of(strategy);
    if (pipeline->stages == 1 || !updates_by_squares(strategy)) return CLQ_OK;
    return clq_strategy_make_comm(strategy, number * pipeline->stages, 1, pipeline->stages, &pipeline->rows[number]);
}

static clq_status add_up_squares(void *context, clq_queue *queue, clq_buffer *values, size_t count) {
    const clq_replica *replica = context;
    return clq_comm_all_reduce(pipeline_of(replica->strategy)->rows[pipeline_number(replica)], stage_of(replica), queue,
                               values, 0, values, 0, count, CLQ_F32);
}

/* A stage has whole variables. So squares are summed over stages only if updates need those of all variables. */
static clq_step_sum add_squares(const clq_strategy *strategy, const clq_replica *replica) {
    if (!updates_by_squares(strategy)) return (clq_step_sum){0};
    return (clq_step_sum){stage_of(replica), pipeline_of(strategy)->stages, add_up_squares, (void *)replica};
}

static clq_status open_stages(clq_strategy *strategy) {
    clq_pipeline *pipeline = pipeline_of(strategy);
    const double deadline_s = clq_strategy_deadline(strategy);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        const unsigned stage = r % pipeline->stages;
        clq_status status = open_flights(replica);
        if (status == CLQ_OK && stage + 1 < pipeline->stages) status = open_pipes(replica, deadline_s);
        if (status != CLQ_OK) return clq_fail_within(status, "stage %u", stage);
    }
    for (unsigned s = 0; s < pipeline->stages; s++)
        CLQ_TRY(clq_strategy_make_peers(strategy, s, pipeline->stages, pipeline->pipelines));
    for (unsigned p = 0; p < pipeline->pipelines; p++) CLQ_TRY(open_row(strategy, p));
    return clq_exchange_choose(strategy, &clq_exchange_whole);
}

static void close_stages(clq_strategy *strategy) {
    clq_pipeline *pipeline = pipeline_of(strategy);
    if (!pipeline) return;
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_pipeline_part *part = &pipeline->parts[r];
        clq_pipe_destroy(part->values);
        clq_pipe_destroy(part->gradients);
        while (part->flight_count > 1) clq_plan_destroy(part->flights[--part->flight_count]);
        clq_free(pipeline->times[r].items);
    }
    clq_free(pipeline);
}

/* ---- reports ---- */

static size_t runs(const clq_strategy *strategy, unsigned replica) {
    (void)replica;
    return 2 * (size_t)pipeline_of(strategy)->micro_batches + 1;
}

const clq_strategy_module clq_strategy_pipeline = {.kind = CLQ_STRATEGY_PIPELINE,
                                                   .name = "pipeline",
                                                   .accumulates = true,
                                                   .scales_losses = true,
                                                   .prepare = prepare,
                                                   .open = open_stages,
                                                   .close = close_stages,
                                                   .abort = abort_pipes,
                                                   .step = step,
                                                   .gradients = gradients,
                                                   .forward = run_forward,
                                                   .add_squares = add_squares,
                                                   .runs = runs};
