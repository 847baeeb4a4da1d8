/* A step by the strategy's exchange, and the plain exchange: replicas exchange whole gradients, and compute nothing
 * meanwhile. */
#include "strategy/module.h"

static const clq_exchange_kind *kind_for(const clq_replica *replica, const clq_command *command) {
    const clq_exchange_kind *kind = replica->strategy->exchange;
    /* During backward, nobody can have the gradient of all accumulated batches, so it is exchanged afterwards. */
    return kind->during_backward && command->params.sum_factor != 0.0f ? &clq_exchange_whole : kind;
}

/* Flushes no queue before an exchange: collectives flush the queue that they are given. */
clq_status clq_exchange_step(clq_replica *replica, const clq_command *command) {
    const clq_exchange_kind *kind = kind_for(replica, command);
    if (kind->step) return kind->step(replica, command);
    CLQ_TRY(kind->begin(replica, command));
    CLQ_TRY(clq_uploads_send_next(replica));
    CLQ_TRY(clq_pace_arrive(replica, command->params.count));
    CLQ_TRY(kind->finish ? kind->finish(replica, &command->params) : kind->reduce(replica));
    clq_pace_compute(replica);
    return kind->update ? kind->update(replica, &command->params) : CLQ_OK;
}

clq_kept clq_exchange_kept(clq_strategy *strategy) {
    clq_kept kept = {0};
    if (strategy->exchange->keeps) strategy->exchange->keeps(strategy, &kept);
    return kept;
}

const clq_exchange_kind clq_exchange_none = {.step = clq_replica_step_alone};

/* ---- whole gradients ---- */

clq_status clq_exchange_run_backward(clq_replica *replica, const clq_command *command) {
    return clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD);
}

size_t clq_exchange_two_runs(const clq_strategy *strategy, unsigned replica) {
    (void)strategy, (void)replica;
    return 2;
}

const clq_exchange_kind clq_exchange_whole = {.begin = clq_exchange_run_backward,
                                              .update = clq_replica_apply,
                                              .reduce = clq_peers_add_up_gradients,
                                              .runs = clq_exchange_two_runs};
