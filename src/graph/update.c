/* A plan's update: of its own arenas, or a part of one that the plans of several
 * replicas on the same memory shard (Xu et al., "Automatic cross-replica sharding of weight update in data-parallel
 * training", 2020). */
#include "graph/plan.h"

static void add_update(const clq_plan *plan, clq_list *list, const clq_update_arenas *arenas) {
    const clq_update_problem *update = &plan->update;
    clq_list_scope(list, "update");
    if (update->kind == CLQ_OPTIMIZER_ADAM)
        clq_update_adam(list, arenas, update->beta1, update->beta2, update->epsilon);
    else
        clq_update_sgd(list, arenas, (float)update->momentum, update->nesterov);
}

/* The plan's own arenas as values of a list; a velocity takes the second moment's place. */
static void name_states(clq_update_arenas *arenas, const clq_value *states, unsigned count) {
    if (count == 2) arenas->m = states[0];
    if (count > 0) arenas->v = states[count - 1];
}

void clq_plan_emit_update(clq_plan *plan) {
    clq_update_arenas arenas = {
        .w = plan->v_parameters, .g = plan->v_gradient, .floats = plan->arena_bytes / sizeof(float)};
    name_states(&arenas, plan->v_optimizer, plan->optimizer_slots);
    add_update(plan, plan->list, &arenas);
}

/* ---- sharded ---- */

static size_t part_begin(const clq_plan *plan, unsigned rank, unsigned ranks) {
    size_t blocks = plan->arena_bytes / CLQ_VARIABLE_ALIGN;
    return blocks * rank / ranks * CLQ_VARIABLE_ALIGN;
}

bool clq_plan_can_shard_update(const clq_plan *plan, unsigned ranks) {
    if (!plan->config.update || plan->config.gradient_norms) return false;
    if (ranks < 2 || ranks > CLQ_UPDATE_RANKS_MAX || plan->arena_bytes / CLQ_VARIABLE_ALIGN < ranks) return false;
    return clq_device_get_info(plan->device)->type == CLQ_DEVICE_CPU && clq_buffer_host(plan->parameters) &&
           clq_buffer_host(plan->gradient);
}

static clq_value arena(clq_list *list, const char *name, clq_buffer *buffer) {
    clq_value value = clq_list_value(list, CLQ_VALUE_EXTERNAL, name, clq_buffer_bytes(buffer), 0);
    clq_list_place(list, value, buffer, 0);
    return value;
}

static clq_status peer_gradient(clq_plan *plan, const clq_buffer *of, clq_value *out) {
    clq_sharded_update *sharded = &plan->sharded;
    clq_buffer **alias = &sharded->aliases[sharded->alias_count];
    CLQ_TRY(clq_buffer_alias(plan->device, of, alias));
    sharded->alias_count++;
    *out = arena(sharded->list, "a peer's gradient", *alias);
    return CLQ_OK;
}

clq_status clq_plan_shard_update(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank) {
    clq_sharded_update *sharded = &plan->sharded;
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &sharded->list));
    size_t begin = part_begin(plan, rank, ranks), end = part_begin(plan, rank + 1, ranks);
    clq_update_arenas arenas = {.w = arena(sharded->list, "parameters", plan->parameters),
                                .g = arena(sharded->list, "gradient", plan->gradient),
                                .first = begin / sizeof(float),
                                .floats = (end - begin) / sizeof(float),
                                .ranks = ranks,
                                .rank = rank};
    clq_value states[CLQ_OPTIMIZER_SLOTS_MAX];
    for (unsigned i = 0; i < plan->optimizer_slots; i++)
        states[i] = arena(sharded->list, "optimizer state", plan->optimizer[i]);
    name_states(&arenas, states, plan->optimizer_slots);
    for (unsigned i = 0; i + 1 < ranks; i++)
        CLQ_TRY(peer_gradient(plan, plans[(rank + 1 + i) % ranks]->gradient, &arenas.peers[i]));
    add_update(plan, sharded->list, &arenas);
    clq_update_take(sharded->list, &arenas, plan->arena_bytes / sizeof(float));
    return clq_list_bind(sharded->list);
}

void clq_plan_end_sharding(clq_plan *plan) {
    if (!plan) return;
    clq_sharded_update *sharded = &plan->sharded;
    clq_list_destroy(sharded->list); /* its kernels and views go before the buffers */
    for (unsigned i = 0; i < sharded->alias_count; i++) clq_buffer_destroy(sharded->aliases[i]);
    *sharded = (clq_sharded_update){0};
}

clq_status clq_plan_run_sharded_update(clq_plan *plan, clq_queue *queue) {
    return clq_list_run(plan->sharded.list, queue, 0, 1);
}

clq_status clq_plan_take_weights(clq_plan *plan, clq_queue *queue) {
    return clq_list_run(plan->sharded.list, queue, 1, 2);
}

void clq_plan_updated_part(const clq_plan *plan, unsigned ranks, unsigned rank, size_t *begin, size_t *end) {
    *begin = part_begin(plan, rank, ranks);
    *end = part_begin(plan, rank + 1, ranks);
}

unsigned clq_plan_optimizer_slots(const clq_plan *plan) { return plan->optimizer_slots; }
clq_buffer *clq_plan_optimizer_slot(const clq_plan *plan, unsigned slot) { return plan->optimizer[slot]; }
