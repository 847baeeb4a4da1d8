/* An update that the plans of several replicas on the same memory shard: each
 * updates a part of the arenas for all (Xu et al., "Automatic cross-replica sharding of weight update in data-parallel
 * training", 2020). */
#include "graph/plan.h"

static size_t part_begin(const clq_plan *plan, unsigned rank, unsigned ranks) {
    size_t blocks = plan->weights->arena_bytes / CLQ_VARIABLE_ALIGN;
    return blocks * rank / ranks * CLQ_VARIABLE_ALIGN;
}

bool clq_plan_can_shard_update(const clq_plan *plan, unsigned ranks) {
    const clq_weights *weights = plan->weights;
    if (!plan->config.update || plan->config.updated_elsewhere || ranks < 2 || ranks > CLQ_UPDATE_RANKS_MAX ||
        weights->arena_bytes / CLQ_VARIABLE_ALIGN < ranks)
        return false;
    return clq_device_get_info(plan->device)->type == CLQ_DEVICE_CPU && clq_buffer_host(weights->parameters) &&
           clq_buffer_host(weights->gradient);
}

static clq_status add_peer(clq_plan *plan, clq_list *list, const clq_buffer *gradient, clq_value *out) {
    clq_sharded_update *sharded = &plan->sharded;
    clq_buffer **alias = &sharded->aliases[sharded->alias_count];
    CLQ_TRY(clq_buffer_alias(plan->device, gradient, alias));
    sharded->alias_count++;
    *out = clq_plan_whole_value(list, "a peer's gradient", *alias);
    return CLQ_OK;
}

/* turn 1: where weights and gradients have changed places. */
static clq_status make_list(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank, unsigned turn) {
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &plan->sharded.lists[turn]));
    clq_list *list = plan->sharded.lists[turn];
    const clq_weights *weights = plan->weights;
    size_t begin, end;
    clq_plan_updated_part(plan, ranks, rank, &begin, &end);
    const clq_dtype dtype = clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS);
    clq_update_arenas arenas = {
        .w = clq_plan_whole_value(list, "parameters", turn ? weights->gradient : weights->parameters),
        .g = clq_plan_whole_value(list, "gradient", turn ? weights->parameters : weights->gradient),
        .first = clq_values_count(dtype, begin),
        .floats = clq_values_count(dtype, end - begin),
        .states_first = clq_values_count(dtype, begin - weights->part_begin),
        .ranks = ranks,
        .rank = rank};
    for (unsigned i = 0; i < weights->optimizer_slots; i++)
        arenas.states[i] = clq_plan_whole_value(list, "optimizer state", weights->optimizer[i]);
    for (unsigned i = 0; i + 1 < ranks; i++) {
        const clq_weights *peer = plans[(rank + 1 + i) % ranks]->weights;
        CLQ_TRY(add_peer(plan, list, turn ? peer->parameters : peer->gradient, &arenas.peers[i]));
    }
    clq_list_scope(list, "update");
    clq_update(list, &(clq_update_problem){.optimizer = plan->update}, &arenas);
    return clq_list_bind(list);
}

clq_status clq_plan_shard_update(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank) {
    for (unsigned turn = 0; turn < 2; turn++) CLQ_TRY(make_list(plan, plans, ranks, rank, turn));
    return CLQ_OK;
}

void clq_plan_end_sharding(clq_plan *plan) {
    if (!plan) return;
    clq_sharded_update *sharded = &plan->sharded;
    for (unsigned i = 0; i < 2; i++) clq_list_destroy(sharded->lists[i]); /* kernels and views before the buffers */
    for (unsigned i = 0; i < sharded->alias_count; i++) clq_buffer_destroy(sharded->aliases[i]);
    *sharded = (clq_sharded_update){0};
}

clq_status clq_plan_run_sharded_update(clq_plan *plan, clq_queue *queue) {
    clq_list *list = plan->sharded.lists[plan->weights->turned];
    return clq_list_run(list, queue, 0, clq_list_launch_count(list));
}

void clq_plan_updated_part(const clq_plan *plan, unsigned ranks, unsigned rank, size_t *begin, size_t *end) {
    *begin = part_begin(plan, rank, ranks);
    *end = part_begin(plan, rank + 1, ranks);
}
