/* The mirrored strategy: every replica has all weights, and makes the same update by the sum of all gradients. */
#include "strategy/module.h"

static clq_status open(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_make_peers(strategy, 0, 1, strategy->count));
    return clq_exchange_choose(strategy, NULL);
}

static clq_status apply(clq_replica *replica, const clq_step_params *params) {
    return replica->strategy->shards_optimizer ? clq_zero_apply(replica, params) : clq_replica_apply(replica, params);
}

/* With a sharded optimizer, each replica measures its part of the gradient. */
static clq_step_sum add_squares(const clq_strategy *strategy, const clq_replica *replica) {
    if (!strategy->shards_optimizer) return (clq_step_sum){0};
    return clq_peers_step_sum(replica);
}

const clq_strategy_module clq_strategy_mirrored = {.kind = CLQ_STRATEGY_MIRRORED,
                                                   .name = "mirrored",
                                                   .accumulates = true,
                                                   .takes_shares = true,
                                                   .shards_optimizer = true,
                                                   .scales_losses = true,
                                                   .runs_functions = true,
                                                   .sums_in_step = true,
                                                   .tells_waits = true,
                                                   .open = open,
                                                   .apply = apply,
                                                   .add_squares = add_squares};
