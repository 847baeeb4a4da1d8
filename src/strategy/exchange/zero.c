/* The optimizer sharded over replicas on any devices: stage 1 of Rajbhandari et al., "ZeRO: memory optimizations toward
 * training trillion parameter models", 2020. Each replica has the optimizer's slots of its part of the parameters
 * (clq_holding). A step is a reduce-scatter of the gradient, the update of the replica's own part, and an all-gather of
 * the parameters. This sends as many bytes as an all-reduce. */
#include "strategy/module.h"

/* An in-place collective: the replica's part lies within the arena. */
static clq_status run(clq_replica *replica, clq_collective collective, clq_arena arena) {
    const clq_weights *weights = replica->weights;
    const clq_dtype dtype = clq_weights_dtype(weights, arena);
    clq_buffer *buffer = clq_weights_arena(weights, arena);
    size_t begin, end;
    clq_weights_part(weights, &begin, &end);
    const bool scatters = collective == CLQ_REDUCE_SCATTER;
    return clq_peers_run_exposed(replica,
                                 &(clq_task){.collective = collective,
                                             .queue = replica->worker.queue,
                                             .in = buffer,
                                             .out = buffer,
                                             .in_offset = scatters ? 0 : begin,
                                             .out_offset = scatters ? begin : 0,
                                             .count = clq_values_count(dtype, end - begin),
                                             .dtype = dtype,
                                             .op = CLQ_REDOP_SUM,
                                             .halves = scatters && clq_peers_send_halves(replica->strategy)},
                                 clq_buffer_bytes(buffer));
}

clq_status clq_zero_apply(clq_replica *replica, const clq_step_params *params) {
    CLQ_TRY(clq_replica_apply(replica, params));
    CLQ_TRY(clq_pace_rest(replica, true));
    return run(replica, CLQ_ALL_GATHER, CLQ_ARENA_PARAMETERS);
}

static clq_status finish(clq_replica *replica, const clq_step_params *params) {
    (void)params;
    return run(replica, CLQ_REDUCE_SCATTER, CLQ_ARENA_GRADIENT);
}

static clq_status open(clq_strategy *strategy) {
    strategy->step_outdates = 1u << CLQ_ARENA_GRADIENT;
    return CLQ_OK;
}

const clq_exchange_kind clq_exchange_zero = {.open = open,
                                             .begin = clq_exchange_run_backward,
                                             .finish = finish,
                                             .update = clq_zero_apply,
                                             .reduce = clq_peers_add_up_gradients,
                                             .collect = clq_shards_collect,
                                             .runs = clq_exchange_two_runs};
