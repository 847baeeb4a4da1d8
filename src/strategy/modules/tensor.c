/* Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019): replicas split the weights (clq_slicing), and each replica
 * runs the whole batch. The plans sum over the replicas within a step. So each replica's gradient is complete when the
 * update begins, and the replica updates its slices and its copy of the rest. Replicas have peers as mirrored replicas
 * do. */
#include "strategy/module.h"

typedef struct clq_tensor_parallel {
    clq_slicing *slicing; /* NULL for one replica */
    bool alike;           /* what is not split gets the same bits on all devices */
} clq_tensor_parallel;

static clq_tensor_parallel *own_of(const clq_strategy *strategy) { return strategy->own; }

/* The squares of the gradient are added over the replicas. Each replica measures the squares of its slices, and only
 * the first replica measures those of whole variables. */
static clq_status prepare(clq_strategy *strategy) {
    clq_tensor_parallel *own = strategy->own = clq_alloc(1, sizeof *own);
    if (!own) return CLQ_ERROR_MEMORY;
    own->alike = true;
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        replica->capacity = (uint32_t)strategy->config.global_batch;
        /* If updates go by the squares, each replica gets the squares of all replicas. */
        replica->measures_norms = r == 0 || !clq_updates_by_squares(&strategy->config.plan.update_options);
        own->alike =
            own->alike && clq_selections_are_shared(strategy->replicas[0].worker.device, replica->worker.device);
    }
    if (strategy->count == 1) return CLQ_OK;
    CLQ_TRY(clq_slicing_create(strategy->model, strategy->count, &own->slicing));
    strategy->config.plan.slicing = own->slicing;
    return CLQ_OK;
}

static clq_status open(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_make_peers(strategy, 0, 1, strategy->count));
    return clq_exchange_choose(strategy, &clq_exchange_none);
}

static void close(clq_strategy *strategy) {
    if (strategy->own) clq_slicing_destroy(own_of(strategy)->slicing);
    clq_free(strategy->own);
}

static void split(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts) {
    (void)kind;
    for (unsigned r = 0; r < strategy->count; r++)
        parts[r] = (clq_batch_part){.first = 0, .count = total, .runs = true, .measures = r == 0};
}

/* Compilers round differently, in forward, backward and the update. The replicas' copies of whole variables would drift
 * apart, until the slices no longer fit one another. So all replicas take the values of the first replica. */
static clq_status keep_alike(clq_replica *replica) {
    const clq_weights *weights = replica->weights;
    clq_buffer *parameters = clq_weights_arena(weights, CLQ_ARENA_PARAMETERS);
    clq_buffer *state = clq_weights_arena(weights, CLQ_ARENA_STATE);
    const size_t bytes = clq_weights_whole_bytes(weights);
    if (own_of(replica->strategy)->alike || replica->strategy->apart) return CLQ_OK;
    if (bytes > 0)
        CLQ_TRY(clq_comm_broadcast(replica->peers, replica->rank, replica->worker.queue, parameters, 0, bytes, 0));
    if (!state) return CLQ_OK;
    return clq_comm_broadcast(replica->peers, replica->rank, replica->worker.queue, state, 0, clq_buffer_bytes(state),
                              0);
}

static clq_status apply(clq_replica *replica, const clq_step_params *params) {
    CLQ_TRY(clq_replica_apply(replica, params));
    return keep_alike(replica);
}

static clq_status step(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(clq_replica_step_alone(replica, command));
    return keep_alike(replica);
}

static clq_step_sum add_squares(const clq_strategy *strategy, const clq_replica *replica) {
    (void)strategy;
    return clq_peers_step_sum(replica);
}

const clq_strategy_module clq_strategy_tensor = {.kind = CLQ_STRATEGY_TENSOR,
                                                 .name = "tensor",
                                                 .accumulates = true,
                                                 .scales_losses = true,
                                                 .sums_in_step = true,
                                                 .prepare = prepare,
                                                 .open = open,
                                                 .close = close,
                                                 .split = split,
                                                 .step = step,
                                                 .apply = apply,
                                                 .add_squares = add_squares};
