/* Facts about replicas, by which fast paths are decided. */
#include "strategy/module.h"

/* Whether there are enough cores for fused launches. Work-groups of a fused launch spin while they wait for each other,
 * so each compute unit of all replicas needs a core. A device with one unit waits for nobody. */
static bool has_cores(const clq_strategy *strategy, const clq_device *own) {
    const uint64_t own_units = clq_device_get_info(own)->compute_units;
    uint64_t units = 0;
    for (unsigned r = 0; r < strategy->count; r++) {
        const clq_device *device = strategy->replicas[r].worker.device;
        if (clq_device_family(device) == CLQ_FAMILY_TILE) units += clq_device_get_info(device)->compute_units;
    }
    return own_units == 1 || units <= clq_cpu_count();
}

/* The facts of a replica that has a plan. If its launches were to be fused (`joined`), SINGLE_ITEMS holds only if they
 * were fused, or if nothing but sums within the step kept them apart. */
static unsigned facts_of_plan(const clq_replica *replica) {
    const clq_buffer *samples = clq_plan_samples(replica->plan);
    unsigned facts = samples && clq_buffer_host(samples) ? CLQ_FACT_HOST_MEMORY : 0;
    if (clq_plan_exchanges(replica->plan)) facts |= CLQ_FACT_EXCHANGES; /* launches between them are fused into one */
    if (!replica->joined || clq_list_is_fused(clq_plan_list(replica->plan)) || facts & CLQ_FACT_EXCHANGES)
        facts |= CLQ_FACT_SINGLE_ITEMS;
    return facts;
}

unsigned clq_facts_of_replica(const clq_strategy *strategy, unsigned replica) {
    const clq_replica *own = &strategy->replicas[replica];
    const clq_device *device = own->worker.device;
    const clq_strategy_config *config = &strategy->config;
    unsigned facts = own->plan ? facts_of_plan(own) : CLQ_FACT_SINGLE_ITEMS;
    if (has_cores(strategy, device)) facts |= CLQ_FACT_CORES;
    if (config->trace_steps > 0 || config->plan.check_numerics) facts |= CLQ_FACT_TRACED;
    if (config->plan.update) facts |= CLQ_FACT_TRAINS;
    if (!clq_device_get_info(device)->host_unified) facts |= CLQ_FACT_OWN_MEMORY;
    if (clq_device_runs_in_caller(device)) facts |= CLQ_FACT_IN_CALLER;
    if (own->stage) facts |= CLQ_FACT_STAGES;
    if (config->options.backup) facts |= CLQ_FACT_BACKUP;
    return facts;
}

/* Collectives in the host's memory take the cores that backward needs, so overlap does not pay. Over links, it pays
 * from some gradient size on. Between machines this size is smaller, because a transfer takes long and needs little of
 * a core. */
static bool overlap_pays(const clq_strategy *strategy) {
    const clq_replica *first = &strategy->replicas[0];
    const size_t wanted = strategy->config.bucket_bytes,
                 bytes = clq_weights_arena_bytes(first->weights, CLQ_ARENA_GRADIENT);
    const bool by_messages = first->peers && !clq_comm_is_direct(first->peers);
    return (wanted || by_messages) && clq_buckets_pay(bytes, wanted, clq_peers_are_far(strategy));
}

static unsigned facts_of_settings(const clq_strategy *strategy) {
    const clq_strategy_config *config = &strategy->config;
    const bool several = strategy->total > 1, trains = config->plan.update != NULL;
    unsigned facts = 0;
    if (several) facts |= CLQ_FACT_REPLICAS;
    if (trains) facts |= CLQ_FACT_TRAINS;
    if (config->bucket_bytes == SIZE_MAX) facts |= CLQ_FACT_NO_BUCKETS;
    if (several && trains && clq_compresses(&config->options)) facts |= CLQ_FACT_COMPRESSED;
    if (several && trains && config->options.local_steps > 0) facts |= CLQ_FACT_LOCAL_STEPS;
    if (strategy->shards_optimizer) facts |= CLQ_FACT_SHARDED_OPTIMIZER;
    if (config->plan.slicing) facts |= CLQ_FACT_SLICED;
    if (config->options.accumulate > 1) facts |= CLQ_FACT_ACCUMULATES;
    if (strategy->module->stores) facts |= CLQ_FACT_STORE;
    return facts;
}

unsigned clq_facts_of_all(const clq_strategy *strategy) {
    const clq_replica *first = &strategy->replicas[0];
    unsigned facts = facts_of_settings(strategy) | CLQ_FACT_IN_CALLER | CLQ_FACT_PARTS | CLQ_FACT_ONE_LAUNCH;
    if (strategy->count <= clq_cpu_count()) facts |= CLQ_FACT_CORES;
    if (first->peers && clq_comm_is_direct(first->peers)) facts |= CLQ_FACT_DIRECT;
    if (overlap_pays(strategy)) facts |= CLQ_FACT_OVERLAP_PAYS;
    if (clq_plan_exchanges(first->plan)) facts |= CLQ_FACT_EXCHANGES;
    if (first->stage) facts |= CLQ_FACT_STAGES;
    for (unsigned r = 0; r < strategy->count; r++) {
        const clq_replica *replica = &strategy->replicas[r];
        if (!clq_device_runs_in_caller(replica->worker.device)) facts &= ~(unsigned)CLQ_FACT_IN_CALLER;
        if (!clq_plan_can_shard_update(replica->plan, strategy->count)) facts &= ~(unsigned)CLQ_FACT_PARTS;
        if (!clq_list_is_fused(clq_plan_list(replica->plan))) facts &= ~(unsigned)CLQ_FACT_ONE_LAUNCH;
    }
    return facts;
}
