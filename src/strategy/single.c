/* One device: a step is run in one, and all is always whole. */
#include "strategy/replica.h"

static clq_status step(clq_worker *worker, const clq_command *command) {
    return clq_replica_step_alone(clq_replica_of(worker), command);
}

static size_t parts(const clq_strategy *strategy, unsigned replica) {
    (void)strategy;
    (void)replica;
    return 1;
}

const clq_strategy_module clq_strategy_single = {
    .kind = CLQ_STRATEGY_SINGLE, .name = "single", .devices_most = 1, .step = step, .parts = parts};
