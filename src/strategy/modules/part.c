/* A part of a model, on one device. The caller carries the step on from part to part. Forward starts from the output of
 * the part in front, backward from the gradient of this part's own output. The part is a stage, as in a pipeline, and
 * has the plans of a stage. The whole batch is its only micro-batch. */
#include "strategy/pipeline/pipeline.h"

typedef struct part {
    clq_stage stages[CLQ_REPLICAS_MAX]; /* of the whole model */
} part;

/* ---- in the replica's thread ---- */

static const clq_handover *handover_of(const clq_command *command) { return command->from; }

static clq_status give(clq_replica *replica, const clq_plan *plan, clq_crossing kind, uint32_t rows,
                       const float *const *from) {
    const clq_cut *cut = clq_stage_cut_of(replica->stage, kind);
    for (unsigned i = 0; i < cut->count; i++) {
        clq_buffer *to = clq_plan_crossing(plan, kind, i);
        if (!to) continue;
        const size_t elements = replica->strategy->model->tensors[cut->tensors[i] - 1].elements;
        clq_queue_name(replica->worker.queue, "receive", kind == CLQ_RECEIVED ? "values" : "gradients");
        CLQ_TRY(
            clq_queue_write(replica->worker.queue, to, 0, from[i], rows * clq_values_bytes(CLQ_F32, elements), true));
    }
    return CLQ_OK;
}

static clq_status take(clq_replica *replica, const clq_plan *plan, clq_crossing kind, uint32_t rows, float *const *to) {
    const clq_cut *cut = clq_stage_cut_of(replica->stage, kind);
    for (unsigned i = 0; to && i < cut->count; i++) {
        const clq_buffer *from = clq_plan_crossing(plan, kind, i);
        if (!from) continue;
        const size_t elements = replica->strategy->model->tensors[cut->tensors[i] - 1].elements;
        clq_queue_name(replica->worker.queue, "send", kind == CLQ_SENT ? "values" : "gradients");
        CLQ_TRY(
            clq_queue_read(replica->worker.queue, from, 0, to[i], rows * clq_values_bytes(CLQ_F32, elements), true));
    }
    return CLQ_OK;
}

static clq_status forward(clq_replica *replica, clq_mode mode, const clq_command *command) {
    const uint32_t rows = command->params.count;
    clq_plan *plan = replica->plans[mode];
    clq_staging *staged;
    CLQ_TRY(clq_replica_take_rows(replica, command, &staged));
    CLQ_TRY(clq_replica_upload_rows(replica, plan, staged, 0, rows, &staged->read));
    CLQ_TRY(give(replica, plan, CLQ_RECEIVED, rows, handover_of(command)->from));
    clq_plan_set_params(plan, &command->params);
    CLQ_TRY(clq_plan_run(plan, replica->worker.queue, CLQ_SEGMENT_FORWARD,
                         mode == CLQ_MODE_PREDICT ? CLQ_SEGMENT_FORWARD : CLQ_SEGMENT_LOSS));
    CLQ_TRY(clq_queue_flush(replica->worker.queue));
    CLQ_TRY(take(replica, plan, CLQ_SENT, rows, handover_of(command)->to));
    return mode == CLQ_MODE_PREDICT ? clq_replica_read_outputs(replica, plan, command, 0, rows) : CLQ_OK;
}

static clq_status run_train(clq_worker *worker, const clq_command *command) {
    return forward(clq_replica_of(worker), CLQ_MODE_TRAIN, command);
}
static clq_status run_evaluate(clq_worker *worker, const clq_command *command) {
    return forward(clq_replica_of(worker), CLQ_MODE_EVALUATE, command);
}
static clq_status run_predict(clq_worker *worker, const clq_command *command) {
    return forward(clq_replica_of(worker), CLQ_MODE_PREDICT, command);
}

static clq_status run_backward(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    const uint32_t rows = command->params.count;
    CLQ_TRY(give(replica, replica->plan, CLQ_RECEIVED_GRADIENT, rows, handover_of(command)->from));
    CLQ_TRY(clq_plan_run(replica->plan, worker->queue, CLQ_SEGMENT_BACKWARD, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_queue_flush(worker->queue));
    return take(replica, replica->plan, CLQ_SENT_GRADIENT, rows, handover_of(command)->to);
}

/* The poster waits until each of these is done, so it never waits for a slot. */
static const clq_command_kind forward_kinds[CLQ_MODE_COUNT] = {
    [CLQ_MODE_TRAIN] = {"forward", CLQ_COMMAND_BATCH | CLQ_COMMAND_IN_STEP | CLQ_COMMAND_MEASURES, run_train, NULL},
    [CLQ_MODE_EVALUATE] = {"evaluate", CLQ_COMMAND_BATCH | CLQ_COMMAND_MEASURES, run_evaluate, NULL},
    [CLQ_MODE_PREDICT] = {"predict", CLQ_COMMAND_BATCH, run_predict, NULL}};
static const clq_command_kind backward_kind = {"backward", CLQ_COMMAND_IN_STEP, run_backward, NULL};

/* ---- by the poster ---- */

clq_status clq_strategy_part_forward(clq_strategy *strategy, clq_mode mode, const clq_rows *batch,
                                     const clq_step_params *params, const clq_handover *handover) {
    CLQ_TRY(clq_strategy_failure(strategy));
    CLQ_TRY(clq_strategy_need_plans(strategy, mode));
    CLQ_TRY(clq_strategy_post_batch(
        strategy,
        (clq_command){.kind = &forward_kinds[mode], .params = *params, .from = handover, .outputs = handover->outputs},
        batch));
    clq_channel_wait(strategy->replicas[0].worker.commands);
    return clq_strategy_failure(strategy);
}

clq_status clq_strategy_part_backward(clq_strategy *strategy, size_t rows, const clq_handover *handover) {
    const clq_command command = {.kind = &backward_kind, .params = {.count = (uint32_t)rows}, .from = handover};
    return clq_worker_call(&strategy->replicas[0].worker, &command);
}

const clq_stage *clq_strategy_part_stage(const clq_strategy *strategy) { return strategy->replicas[0].stage; }

/* ---- life ---- */

static clq_status prepare(clq_strategy *strategy) {
    const clq_strategy_config *config = &strategy->config;
    part *own = clq_alloc(1, sizeof *own);
    if (!own) return CLQ_ERROR_MEMORY;
    strategy->own = own;
    /* All parts of a model must be cut alike, so the memory of devices does not count. */
    clq_cut_wishes wishes = {.stages = config->parts,
                             .micro_batch = (uint32_t)config->global_batch,
                             .micro_batches = 1,
                             .sample_bytes = strategy->feed.arrays[0].bytes};
    for (unsigned p = 0; p < config->parts; p++) wishes.memory[p] = UINT64_MAX;
    CLQ_TRY(clq_choose_cuts(strategy->model, &wishes, own->stages, NULL));
    CLQ_TRY(clq_strategy_prepare_shares(strategy));
    strategy->replicas[0].stage = &own->stages[config->part];
    return CLQ_OK;
}

static void close_part(clq_strategy *strategy) { clq_free(strategy->own); }

/* Forward, backward, and the update. */
static size_t runs(const clq_strategy *strategy, unsigned replica) {
    (void)strategy, (void)replica;
    return 3;
}

static const clq_strategy_module module = {.kind = CLQ_STRATEGY_SINGLE,
                                           .name = "part",
                                           .devices_most = 1,
                                           .prepare = prepare,
                                           .close = close_part,
                                           .runs = runs};

clq_status clq_part_choose(const clq_strategy_config *config, unsigned devices, const clq_strategy_module **out) {
    if (config->parts > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a model in %u parts: it can be cut into at most %d", config->parts,
                        CLQ_REPLICAS_MAX);
    if (config->part >= config->parts)
        return clq_fail(CLQ_ERROR_ARGUMENT, "part %u of %u: parts are counted from 0", config->part, config->parts);
    if ((config->kind != CLQ_STRATEGY_AUTO && config->kind != CLQ_STRATEGY_SINGLE) || devices != 1)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a part of a model is on one device: select one for each part, without a strategy");
    *out = &module;
    return CLQ_OK;
}
