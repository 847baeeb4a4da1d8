/* A fast path of the exchange, for replicas on the same memory: each replica updates a part of the weights, for all
 * replicas (graph/update.c). */
#include "strategy/module.h"

/* Called when all replicas have come to the barrier: only then are all gradients complete. */
static clq_status sum_part(void *context) {
    clq_replica *replica = context;
    return clq_plan_run_sharded_sum(replica->plan, replica->worker.queue);
}

static clq_status update_part(void *context) {
    clq_replica *replica = context;
    return clq_plan_run_sharded_update(replica->plan, replica->worker.queue);
}

static clq_status meet(clq_replica *replica, clq_status (*between)(void *context)) {
    return clq_comm_run(
        replica->peers, replica->rank,
        &(clq_task){.collective = CLQ_BARRIER, .queue = replica->worker.queue, .between = between, .context = replica});
}

static clq_status add_up(clq_replica *replica, clq_buffer *squares) {
    return clq_comm_all_reduce(replica->peers, replica->rank, replica->worker.queue, squares, 0, squares, 0,
                               clq_values_count(CLQ_F32, clq_buffer_bytes(squares)), CLQ_F32);
}

/* Sums the gradients, if the sum is needed before the update. Each replica then gets the squares of all parts. But if
 * the optimizer is sharded, and the update does not go by squares, each replica keeps the squares of its own part. */
static clq_status add_up_gradients(clq_replica *replica) {
    const clq_strategy *strategy = replica->strategy;
    clq_buffer *norms = clq_plan_norms(replica->plan);
    if (!clq_plan_sums_first(replica->plan)) return CLQ_OK;
    CLQ_TRY(meet(replica, sum_part));
    return norms && !strategy->replicas[strategy->count - 1].measures_norms ? add_up(replica, norms) : CLQ_OK;
}

/* The first pass of an optimizer with a trust ratio. */
static clq_status find_directions(clq_replica *replica) {
    clq_buffer *squares = clq_plan_step_squares(replica->plan);
    if (!squares) return CLQ_OK;
    CLQ_TRY(clq_plan_run_sharded_directions(replica->plan, replica->worker.queue));
    return add_up(replica, squares);
}

/* Each replica sums the gradient of its part in the same pass as it updates the part, unless the sum is needed before.
 * This saves one pass through the gradient, and half of another. */
static clq_status finish(clq_replica *replica, const clq_step_params *params) {
    const uint64_t before = clq_comm_busy_ns(replica->peers);
    CLQ_TRY(add_up_gradients(replica));
    CLQ_TRY(find_directions(replica));
    CLQ_TRY(meet(replica, update_part));
    clq_peers_note_exposed(replica, clq_comm_busy_ns(replica->peers) - before);
    CLQ_TRY(clq_replica_keep_norms(replica, params->slot));
    clq_weights_turn(replica->weights);
    return CLQ_OK;
}

/* ---- life ---- */

static clq_status open(clq_strategy *strategy) {
    clq_plan *plans[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < strategy->count; r++) plans[r] = strategy->replicas[r].plan;
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(clq_plan_shard_update(plans[r], plans, strategy->count, r));
    strategy->step_outdates = 1u << CLQ_ARENA_GRADIENT;
    if (!strategy->shards_optimizer) strategy->step_outdates |= 1u << CLQ_CURRENT_OPTIMIZER;
    return CLQ_OK;
}

static void close(clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count; r++) clq_plan_end_sharding(strategy->replicas[r].plan);
}

/* ---- making current ---- */

/* Sends every rank's part of an arena to the other ranks. */
static clq_status collect(clq_replica *replica, clq_buffer *arena) {
    const unsigned count = replica->strategy->total;
    for (unsigned r = 0; r < count; r++) {
        size_t begin, end;
        clq_plan_updated_part(replica->plan, count, r, &begin, &end);
        CLQ_TRY(clq_comm_broadcast(replica->peers, replica->rank, replica->worker.queue, arena, begin, end - begin, r));
    }
    return CLQ_OK;
}

static clq_status run_collect(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    if (command->memory == CLQ_ARENA_GRADIENT)
        return collect(replica, clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT));
    for (unsigned slot = 0; slot < clq_weights_optimizer_slots(replica->weights); slot++)
        CLQ_TRY(collect(replica, clq_weights_optimizer_slot(replica->weights, slot)));
    return CLQ_OK;
}

static const clq_command_kind collect_kind = {.name = "collect", .run = run_collect};

void clq_shards_collect(clq_strategy *strategy, unsigned what) {
    clq_pool_post(&strategy->pool, &(clq_command){.kind = &collect_kind, .memory = what});
}

const clq_exchange_kind clq_exchange_sharded = {.open = open,
                                                .close = close,
                                                .begin = clq_exchange_run_backward,
                                                .finish = finish,
                                                .reduce = clq_peers_add_up_gradients,
                                                .collect = clq_shards_collect,
                                                .runs = clq_exchange_two_runs};
