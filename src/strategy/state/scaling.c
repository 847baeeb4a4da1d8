/* The loss scale. Each replica has its own copy of the state. All copies stay the same, because all replicas change
 * them by the squares of the same gradient. */
#include "strategy/module.h"

clq_status clq_scaling_check(const clq_strategy_config *config, const clq_strategy_module *module) {
    const char *with = NULL;
    if (!(config->plan.update_options.scaling.initial > 0) || !config->plan.update) return CLQ_OK;
    if (!module->scales_losses) with = module->name;
    if (config->options.local_steps > 0) with = "local steps";
    if (config->parts > 0) with = "parts of a model";
    if (!with) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_ARGUMENT,
        "precision mixed scales the loss, and %s cannot agree on the scale: use precision mixed-bf16, which "
        "needs none",
        with);
}

static clq_status run_transfer(clq_worker *worker, const clq_command *command) {
    clq_buffer *state = clq_weights_scaling(clq_replica_of(worker)->weights);
    if (command->from) return clq_queue_write(worker->queue, state, 0, command->from, command->bytes, true);
    return clq_queue_read(worker->queue, state, 0, command->to, command->bytes, true);
}
static const clq_command_kind transfer_kind = {.name = "loss scale", .run = run_transfer};

bool clq_strategy_scales(const clq_strategy *strategy) {
    return clq_weights_scaling(strategy->replicas[0].weights) != NULL;
}

clq_status clq_strategy_read_scaling(clq_strategy *strategy, int32_t state[CLQ_SCALING_INTS]) {
    const clq_command command = {.kind = &transfer_kind, .to = state, .bytes = CLQ_SCALING_INTS * sizeof *state};
    return clq_worker_call(&strategy->replicas[0].worker, &command);
}

clq_status clq_strategy_write_scaling(clq_strategy *strategy, const int32_t state[CLQ_SCALING_INTS]) {
    const clq_command command = {.kind = &transfer_kind, .from = state, .bytes = CLQ_SCALING_INTS * sizeof *state};
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(clq_worker_call(&strategy->replicas[r].worker, &command));
    return CLQ_OK;
}
