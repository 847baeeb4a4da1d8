/* The optimizer sharded over replicas on any devices: stage 1 of Rajbhandari et al., "ZeRO: memory optimizations toward
 * training trillion parameter models", 2020. Each replica has the optimizer's slots of its part of the parameters
 * (clq_holding). A reduce-scatter of the gradient, the update of the own part, and an all-gather of
 * the parameters: as many bytes as an all-reduce sends. */
#include "strategy/modules/mirrored.h"

/* In place: the replica's part lies within the arena. */
static clq_status run(clq_replica *replica, clq_collective collective, clq_arena arena) {
    const clq_weights *weights = replica->weights;
    const clq_dtype dtype = clq_weights_dtype(weights, arena);
    clq_buffer *buffer = clq_weights_arena(weights, arena);
    size_t begin, end;
    clq_weights_part(weights, &begin, &end);
    const bool scatters = collective == CLQ_REDUCE_SCATTER;
    return clq_mirrored_run_exposed(replica,
                                    &(clq_task){.collective = collective,
                                                .queue = replica->worker.queue,
                                                .in = buffer,
                                                .out = buffer,
                                                .in_offset = scatters ? 0 : begin,
                                                .out_offset = scatters ? begin : 0,
                                                .count = clq_values_count(dtype, end - begin),
                                                .dtype = dtype,
                                                .op = CLQ_SUM},
                                    clq_buffer_bytes(buffer));
}

bool clq_zero_scatters(const clq_strategy *strategy) { return strategy->shards_optimizer; }

/* Each replica measures its part. */
clq_exchange clq_zero_add_squares(const clq_strategy *strategy, const clq_replica *replica) {
    if (!strategy->shards_optimizer) return (clq_exchange){0};
    return (clq_exchange){replica->worker.index, strategy->count, clq_mirrored_all_reduce, (void *)replica};
}

clq_status clq_zero_apply(clq_replica *replica, const clq_step_params *params) {
    CLQ_TRY(clq_replica_apply(replica, params));
    CLQ_TRY(clq_pace_rest(replica, true));
    return run(replica, CLQ_ALL_GATHER, CLQ_ARENA_PARAMETERS);
}

clq_status clq_zero_step(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_uploads_send_next(replica));
    CLQ_TRY(clq_pace_arrive(replica, command->params.count));
    if (clq_zero_scatters(replica->strategy))
        CLQ_TRY(run(replica, CLQ_REDUCE_SCATTER, CLQ_ARENA_GRADIENT));
    else
        CLQ_TRY(clq_mirrored_reduce(replica));
    clq_pace_compute(replica);
    return clq_zero_apply(replica, &command->params);
}
