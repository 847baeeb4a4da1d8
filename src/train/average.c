/* Moving averages of the weights. They are exchanged with the weights by a snapshot in which the two swap names. */
#include "train/trainer.h"

clq_status clq_average_check(double momentum) {
    if (momentum >= 0.0 && momentum < 1.0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "the momentum of the weights' average is %g: expected a number from 0 up to 1",
                    momentum);
}

float clq_average_part(const clq_trainer_config *config, uint64_t step) {
    return step == 1 ? 1.0f : (float)(1.0 - config->average);
}

static clq_status check(const clq_trainer *trainer) {
    if (trainer->config.average == 0.0)
        return clq_fail(CLQ_ERROR_STATE, "the trainer keeps no average of its weights: set `average`, as 0.99");
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_trainer_swap_average"));
    if (trainer->step == 0)
        return clq_fail(CLQ_ERROR_STATE, "no update was made yet, so there is no average of weights");
    if (trainer->accumulated > 0 || trainer->gradient != CLQ_GRADIENT_NONE)
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_trainer_swap_average: an update is under way: finish it first (clq_step_apply)");
    return CLQ_OK;
}

clq_status clq_trainer_swap_average(clq_trainer *trainer) {
    clq_snapshot snapshot;
    CLQ_TRY(check(trainer));
    CLQ_TRY(clq_trainer_keep_last_step(trainer));
    clq_strategy_settle(trainer->strategy, true);
    clq_status status = clq_strategy_take_snapshot(trainer->strategy, true, &snapshot);
    for (size_t i = 0; i < snapshot.count && status == CLQ_OK; i++) {
        clq_snapshot_entry *e = &snapshot.entries[i];
        const bool trained = trainer->model->variables[e->variable].role == CLQ_ROLE_TRAINABLE;
        if (e->kind == CLQ_SNAPSHOT_SLOT && e->slot + 1 == snapshot.slots)
            e->kind = CLQ_SNAPSHOT_VALUE;
        else if (e->kind == CLQ_SNAPSHOT_VALUE && trained)
            e->kind = CLQ_SNAPSHOT_SLOT, e->slot = snapshot.slots - 1;
    }
    if (status == CLQ_OK) status = clq_strategy_put_snapshot(trainer->strategy, &snapshot, true, trainer->step);
    clq_snapshot_release(&snapshot);
    return status;
}
