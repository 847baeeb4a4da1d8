/* An update that several replicas share, whose plans work on the same memory. Each plan updates a part of the arenas
 * for all replicas (Xu et al., "Automatic cross-replica sharding of weight update in data-parallel training", 2020). */
#include "graph/plan.h"

#include <assert.h>

static size_t part_begin(const clq_plan *plan, unsigned rank, unsigned ranks) {
    size_t blocks = plan->weights->arena_bytes / CLQ_VARIABLE_ALIGN;
    return blocks * rank / ranks * CLQ_VARIABLE_ALIGN;
}

bool clq_plan_can_shard_update(const clq_plan *plan, unsigned ranks) {
    const clq_weights *weights = plan->weights;
    if (!plan->config.update || plan->config.updated_elsewhere || ranks < 2 || ranks > CLQ_UPDATE_RANKS_MAX ||
        weights->arena_bytes / CLQ_VARIABLE_ALIGN < ranks || weights->held_count > 0) /* parts cut variables */
        return false;
    return clq_device_get_info(plan->device)->type == CLQ_DEVICE_CPU && clq_buffer_host(weights->parameters) &&
           clq_buffer_host(weights->gradient);
}

static clq_status add_peer(clq_plan *plan, clq_list *list, clq_buffer *gradient, clq_value *out) {
    clq_sharded_update *sharded = &plan->sharded;
    assert(sharded->alias_count < CLQ_COUNT_OF(sharded->aliases));
    clq_buffer **alias = &sharded->aliases[sharded->alias_count];
    CLQ_TRY(clq_buffer_alias(plan->device, gradient, alias));
    sharded->alias_count++;
    *out = clq_plan_whole_value(list, "a peer's gradient", *alias);
    return CLQ_OK;
}

/* turn 1: for when weights and gradients have changed places. */
static clq_status make_arenas(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank, unsigned turn,
                              clq_list *list, clq_update_arenas *out) {
    const clq_weights *weights = plan->weights;
    size_t begin, end;
    clq_plan_updated_part(plan, ranks, rank, &begin, &end);
    const clq_dtype dtype = clq_weights_dtype(weights, CLQ_ARENA_PARAMETERS);
    *out = (clq_update_arenas){
        .w = clq_plan_whole_value(list, "parameters", turn ? weights->gradient : weights->parameters),
        .g = clq_plan_whole_value(list, "gradient", turn ? weights->parameters : weights->gradient),
        .decays = clq_plan_whole_value(list, "blocks that decay", plan->sharded.blocks.decays),
        .first = clq_values_count(dtype, begin),
        .floats = clq_values_count(dtype, end - begin),
        .states_first = clq_values_count(dtype, begin - weights->part_begin),
        .ranks = ranks,
        .rank = rank};
    for (unsigned i = 0; i + 1 < ranks; i++) {
        const clq_weights *peer = plans[(rank + 1 + i) % ranks]->weights;
        CLQ_TRY(add_peer(plan, list, turn ? peer->parameters : peer->gradient, &out->peers[i]));
    }
    return CLQ_OK;
}

static clq_blocks blocks_of(const clq_plan *plan, clq_list *list, bool of_trust_ratios) {
    const clq_block_table *blocks = &plan->sharded.blocks;
    clq_buffer *table = of_trust_ratios ? blocks->of_trust_ratios : blocks->table;
    return (clq_blocks){.table = clq_plan_whole_value(list, "table of blocks", table),
                        .entries = blocks->entries,
                        .count = blocks->count};
}

/* The sum of the gradients in the plan's part. If the plan has norms, also the squares of the variables there. */
static clq_status make_sum(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank, unsigned turn) {
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &plan->sharded.sums[turn]));
    clq_list *list = plan->sharded.sums[turn];
    clq_update_arenas arenas;
    CLQ_TRY(make_arenas(plan, plans, ranks, rank, turn, list, &arenas));
    const clq_blocks blocks = blocks_of(plan, list, false);
    const clq_value squares = clq_list_scratch(list, "squares of blocks", CLQ_F32, blocks.count, 0);
    clq_list_scope(list, "norms");
    clq_sum_gradients(list, &arenas, squares);
    if (plan->norms)
        clq_squares_from_blocks(list, &blocks, 1, squares, clq_plan_whole_value(list, "norms", plan->norms));
    CLQ_TRY(clq_placement_create(list, &plan->sharded.sum_placements[turn]));
    return clq_list_bind(list);
}

static size_t factor_count(const clq_plan *plan) {
    return plan->config.update_options.clip.kind == CLQ_CLIP_NORM ? plan->sharded.blocks.count : 1;
}

static void add_clip(const clq_plan *plan, clq_list *list, clq_value squares, clq_value off, clq_value factors) {
    const clq_clip *clip = &plan->config.update_options.clip;
    const clq_blocks blocks = blocks_of(plan, list, false);
    if (clip->kind == CLQ_CLIP_GLOBAL_NORM)
        clq_global_factor(list, CLQ_MAX(plan->model->variable_count, 1u), (float)clip->limit, squares, off, factors);
    else
        clq_block_factors(list, &blocks, (float)clip->limit, squares, off, factors);
}

/* Adds the factors of the plan's part of the gradient, which follow from the squares of all plans. May run only once in
 * a step: taking the scale off changes the squares, and moves the state of the scale one step on. */
static void add_factors(const clq_plan *plan, clq_list *list, clq_value *out) {
    const clq_update_options *options = &plan->config.update_options;
    const bool clips = clq_clips_by_norm(&options->clip);
    if (!clq_updates_by_squares(options)) return;
    *out = plan->sharded.factors ? clq_plan_whole_value(list, "factors", plan->sharded.factors)
                                 : clq_list_scratch(list, "factors", CLQ_F32, factor_count(plan), 0);
    const clq_value squares = clq_plan_whole_value(list, "norms", plan->norms);
    clq_value off = CLQ_NO_VALUE;
    if (options->scaling.initial > 0) {
        off = clips ? clq_list_scratch(list, "scale off", CLQ_F32, 1, 0) : *out;
        clq_take_scale_off(list, CLQ_MAX(plan->model->variable_count, 1u), &options->scaling, squares,
                           clq_plan_whole_value(list, "loss scale", plan->weights->scaling), off);
    }
    if (clips) add_clip(plan, list, squares, off, *out);
}

static void add_slots(const clq_plan *plan, clq_list *list, clq_update_arenas *arenas) {
    const clq_weights *weights = plan->weights;
    const unsigned states = weights->optimizer_slots - (weights->averages ? 1 : 0);
    for (unsigned i = 0; i < states; i++)
        arenas->states[i] = clq_plan_whole_value(list, "optimizer state", weights->optimizer[i]);
    if (weights->averages) arenas->average = clq_plan_whole_value(list, "average", weights->optimizer[states]);
}

static clq_updates updates_of(const clq_plan *plan, unsigned ranks, unsigned rank) {
    size_t begin, end;
    clq_plan_updated_part(plan, ranks, rank, &begin, &end);
    clq_updates updates = clq_plan_updates(plan, begin, end);
    updates.summed = clq_plan_sums_first(plan);
    return updates;
}

/* The first pass of an optimizer with a trust ratio, and the squares of the plan's part of the variables. */
static clq_status make_directions(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank,
                                  unsigned turn) {
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &plan->sharded.directions[turn]));
    clq_list *list = plan->sharded.directions[turn];
    const clq_updates updates = updates_of(plan, ranks, rank);
    clq_update_arenas arenas;
    CLQ_TRY(make_arenas(plan, plans, ranks, rank, turn, list, &arenas));
    add_slots(plan, list, &arenas);
    clq_list_scope(list, "update");
    add_factors(plan, list, &arenas.factors);
    const clq_blocks blocks = blocks_of(plan, list, true);
    const clq_value scratch = clq_list_scratch(list, "squares of blocks", CLQ_F32, 2 * blocks.count, 0),
                    squares = clq_add_directions(list, &updates, &arenas, scratch);
    clq_squares_from_blocks(list, &blocks, 2, squares, clq_plan_whole_value(list, "squares", plan->sharded.squares));
    CLQ_TRY(clq_placement_create(list, &plan->sharded.direction_placements[turn]));
    return clq_list_bind(list);
}

static void add_ratios(const clq_plan *plan, clq_list *list, clq_value *out) {
    const clq_blocks blocks = blocks_of(plan, list, true);
    *out = clq_list_scratch(list, "ratios", CLQ_F32, blocks.count, 0);
    clq_block_ratios(list, &blocks, clq_plan_whole_value(list, "squares", plan->sharded.squares), *out);
}

static clq_status make_update(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank, unsigned turn) {
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &plan->sharded.lists[turn]));
    clq_list *list = plan->sharded.lists[turn];
    const clq_updates updates = updates_of(plan, ranks, rank);
    clq_update_arenas arenas;
    CLQ_TRY(make_arenas(plan, plans, ranks, rank, turn, list, &arenas));
    add_slots(plan, list, &arenas);
    clq_list_scope(list, "update");
    if (plan->sharded.squares) add_ratios(plan, list, &arenas.ratios);
    if (plan->sharded.factors)
        arenas.factors = clq_plan_whole_value(list, "factors", plan->sharded.factors);
    else
        add_factors(plan, list, &arenas.factors);
    clq_add_updates(list, &updates, &arenas);
    CLQ_TRY(clq_placement_create(list, &plan->sharded.placements[turn]));
    return clq_list_bind(list);
}

/* Makes the buffers that the first pass of an optimizer with a trust ratio fills for the second. */
static clq_status make_buffers_of_passes(clq_plan *plan) {
    const size_t squares = 2 * CLQ_MAX((size_t)plan->model->variable_count, (size_t)1);
    if (!plan->weights->trust_ratios) return CLQ_OK;
    CLQ_TRY(clq_buffer_create(plan->device, CLQ_MEMORY_DEVICE, clq_values_bytes(CLQ_F32, squares),
                              "squares of weights and steps", &plan->sharded.squares));
    if (!clq_updates_by_squares(&plan->config.update_options)) return CLQ_OK;
    return clq_buffer_create(plan->device, CLQ_MEMORY_DEVICE, clq_values_bytes(CLQ_F32, factor_count(plan)),
                             "factors of the gradient", &plan->sharded.factors);
}

clq_status clq_plan_shard_update(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank) {
    const bool ratios = plan->weights->trust_ratios;
    size_t begin, end;
    clq_plan_updated_part(plan, ranks, rank, &begin, &end);
    CLQ_TRY(clq_block_table_create(plan->weights, begin, end, &plan->sharded.blocks));
    CLQ_TRY(make_buffers_of_passes(plan));
    for (unsigned turn = 0; turn < 2; turn++) {
        if (clq_plan_sums_first(plan)) CLQ_TRY(make_sum(plan, plans, ranks, rank, turn));
        if (ratios) CLQ_TRY(make_directions(plan, plans, ranks, rank, turn));
        CLQ_TRY(make_update(plan, plans, ranks, rank, turn));
    }
    return CLQ_OK;
}

bool clq_plan_sums_first(const clq_plan *plan) { return plan->norms || plan->weights->trust_ratios; }
clq_buffer *clq_plan_step_squares(const clq_plan *plan) { return plan->sharded.squares; }

void clq_plan_end_sharding(clq_plan *plan) {
    if (!plan) return;
    clq_sharded_update *sharded = &plan->sharded;
    for (unsigned i = 0; i < 2; i++) { /* kernels and views before the buffers */
        clq_list_destroy(sharded->lists[i]);
        clq_list_destroy(sharded->sums[i]);
        clq_list_destroy(sharded->directions[i]);
        clq_placement_release(&sharded->placements[i]);
        clq_placement_release(&sharded->sum_placements[i]);
        clq_placement_release(&sharded->direction_placements[i]);
    }
    clq_block_table_release(&sharded->blocks);
    clq_buffer_destroy(sharded->squares);
    clq_buffer_destroy(sharded->factors);
    for (unsigned i = 0; i < sharded->alias_count; i++) clq_buffer_destroy(sharded->aliases[i]);
    *sharded = (clq_sharded_update){0};
}

static clq_status run(const clq_plan *plan, clq_list *const lists[2], clq_queue *queue) {
    clq_list *list = lists[plan->weights->turned];
    return clq_list_run(list, queue, 0, clq_list_launch_count(list));
}

clq_status clq_plan_run_sharded_sum(clq_plan *plan, clq_queue *queue) { return run(plan, plan->sharded.sums, queue); }
clq_status clq_plan_run_sharded_directions(clq_plan *plan, clq_queue *queue) {
    return run(plan, plan->sharded.directions, queue);
}
clq_status clq_plan_run_sharded_update(clq_plan *plan, clq_queue *queue) {
    return run(plan, plan->sharded.lists, queue);
}

void clq_plan_updated_part(const clq_plan *plan, unsigned ranks, unsigned rank, size_t *begin, size_t *end) {
    *begin = part_begin(plan, rank, ranks);
    *end = part_begin(plan, rank + 1, ranks);
}
