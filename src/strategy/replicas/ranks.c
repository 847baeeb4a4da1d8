/* Replicas of several processes train as those of one would: their numbers go through all processes, in the order of
 * the ranks, and each batch is shared out over all of them. Every process has the whole batch, and takes its own rows.
 */
#include "strategy/module.h"

/* ---- what works ---- */

static clq_status refuse(const char *what) {
    return clq_fail(
        CLQ_UNSUPPORTED,
        "on several machines %s: use strategy mirrored with equal shares, whole gradients, no local steps and "
        "an optimizer that is not sharded",
        what);
}

static clq_status check_settings(const clq_strategy_config *config) {
    const clq_strategy_options *options = &config->options;
    if (config->kind != CLQ_STRATEGY_AUTO && config->kind != CLQ_STRATEGY_MIRRORED)
        return refuse("no strategy but mirrored works");
    if (config->parts > 0) return refuse("parts of a model are not trained");
    if (options->shares != CLQ_SHARES_EQUAL) return refuse("shares are equal");
    if (options->local_steps > 0) return refuse("there are no local steps");
    if (options->compression.kind != CLQ_COMPRESSION_OFF) return refuse("gradients are not compressed");
    return options->shard_optimizer ? refuse("the optimizer is not sharded") : CLQ_OK;
}

/* ---- which they are ---- */

clq_status clq_ranks_count(clq_strategy_config *config, unsigned count) {
    const unsigned size = clq_world_size(config->world), rank = clq_world_rank(config->world);
    const uint32_t mine = count;
    config->first = 0;
    config->total = count;
    if (size == 1) return CLQ_OK;
    CLQ_TRY(clq_world_check(config->world, check_settings(config)));
    uint32_t *all = clq_alloc(size, sizeof *all);
    if (!all) return CLQ_MEMORY;
    const clq_status status = clq_world_gather(config->world, &mine, sizeof mine, all);
    config->total = 0;
    for (unsigned r = 0; status == CLQ_OK && r < size; r++) {
        if (r == rank) config->first = config->total;
        config->total += all[r];
    }
    clq_free(all);
    CLQ_TRY(status);
    return clq_world_check(config->world, config->global_batch >= config->total
                                              ? CLQ_OK
                                              : clq_fail(CLQ_ARGUMENT,
                                                         "a global batch of %zu is smaller than the %u replicas of %u "
                                                         "processes: use a larger one",
                                                         config->global_batch, config->total, size));
}

bool clq_strategy_spans(const clq_strategy *strategy) { return strategy->total > strategy->count; }

void clq_strategy_settle(clq_strategy *strategy) {
    if (clq_strategy_spans(strategy)) clq_strategy_make_current(strategy, CLQ_ARENA_STATE);
}

/* ---- batches ---- */

/* As clq_shares_split, which has equal shares of as many replicas as one process may have. */
static size_t begin_of(const clq_strategy *strategy, size_t samples, unsigned replica) {
    return CLQ_MIN(clq_ceil_div(samples, strategy->total) * replica, samples);
}

void clq_ranks_split(const clq_strategy *strategy, size_t samples, clq_batch_part *parts) {
    for (unsigned r = 0; r < strategy->count; r++) {
        const size_t begin = begin_of(strategy, samples, strategy->first + r);
        const size_t end = begin_of(strategy, samples, strategy->first + r + 1);
        parts[r] = (clq_batch_part){.first = begin, .count = end - begin, .runs = true, .measures = true};
    }
}

size_t clq_strategy_own_samples(const clq_strategy *strategy, size_t samples) {
    if (!clq_strategy_spans(strategy)) return samples;
    return begin_of(strategy, samples, strategy->first + strategy->count) -
           begin_of(strategy, samples, strategy->first);
}

size_t clq_strategy_share_of_all(const clq_strategy *strategy, unsigned replica) {
    const size_t batch = strategy->config.global_batch;
    return begin_of(strategy, batch, replica + 1) - begin_of(strategy, batch, replica);
}

unsigned clq_ranks_elsewhere(const clq_strategy *strategy, size_t samples) {
    unsigned all = 0, here = 0;
    for (unsigned r = 0; r < strategy->total && clq_strategy_spans(strategy); r++) {
        const bool has = begin_of(strategy, samples, r) < samples;
        all += has;
        here += has && r >= strategy->first && r < strategy->first + strategy->count;
    }
    return all - here;
}

/* In the order of the ranks, so that all have the same bits. */
clq_status clq_strategy_add_up_processes(const clq_strategy *strategy, double *values, size_t count) {
    const unsigned size = clq_world_size(strategy->config.world);
    if (size == 1 || count == 0) return CLQ_OK;
    double *all = clq_alloc(size, count * sizeof *all);
    if (!all) return clq_world_fail_with(strategy->config.world, CLQ_MEMORY); /* the others wait for this process */
    const clq_status status = clq_world_gather(strategy->config.world, values, count * sizeof *values, all);
    for (size_t i = 0; status == CLQ_OK && i < count; i++) {
        values[i] = 0.0;
        for (unsigned r = 0; r < size; r++) values[i] += all[r * count + i];
    }
    clq_free(all);
    return status;
}
