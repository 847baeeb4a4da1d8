/* Local SGD, an exchange of weights. For some steps, each replica updates its weights by the gradient of its own share,
 * with an optimizer of its own. Then the weights are averaged over the replicas. Each replica counts by the number of
 * samples that it has seen since the last average (McMahan et al., "Communication-efficient learning of deep networks
 * from decentralized data", 2017). With equal shares this is the plain mean of Stich, 2019. With one local step, and an
 * optimizer that is linear in the gradient and keeps no state, the weights are those of mirrored steps, whatever the
 * shares are. */
#include "strategy/module.h"

#include <string.h>

/* Counts since the last average of the weights. Only the poster uses them. */
typedef struct local {
    uint64_t steps, *samples; /* samples, shares: (replicas of all processes) */
    float *shares;
} local;

clq_status clq_local_check(const clq_strategy_config *config, const clq_strategy_module *module) {
    if (config->options.local_steps == 0) return CLQ_OK;
    if (config->options.compression.kind != CLQ_COMPRESSION_OFF)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "with local steps no gradient is exchanged: leave out local steps, or compression");
    if (config->options.accumulate > 1)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "replicas with local steps accumulate no batches: leave out local steps, or accumulation");
    if (config->options.shard_optimizer || config->options.shares == CLQ_SHARES_AUTO)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "replicas with local steps update all weights by themselves: leave out local steps, or %s",
                        config->options.shard_optimizer ? "the sharded optimizer" : "shares by speed");
    if (module == &clq_strategy_mirrored) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "only mirrored replicas make local steps: use strategy mirrored in place of %s, or no local steps",
                    module->name);
}

/* ---- by replicas ---- */

static clq_status step(clq_replica *replica, const clq_command *command) {
    clq_command own = *command;
    if (own.params.count > 0) {
        own.params.scale = (float)(1.0 / (double)own.params.count);
        return clq_replica_step_alone(replica, &own);
    }
    /* A replica without samples makes no update. Its row of metrics is written, with zeros. */
    CLQ_TRY(clq_replica_run(replica, replica->plan, &own, CLQ_SEGMENT_NORM));
    CLQ_TRY(clq_replica_keep_norms(replica, own.params.slot));
    return clq_queue_flush(replica->worker.queue);
}

static clq_status average(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    CLQ_TRY(clq_weights_weigh(replica->weights, worker->queue, command->params.scale));
    CLQ_TRY(clq_uploads_send_next(replica));
    clq_buffer *parameters = clq_weights_arena(replica->weights, CLQ_ARENA_PARAMETERS);
    return clq_peers_add_up(replica, parameters, clq_weights_dtype(replica->weights, CLQ_ARENA_PARAMETERS),
                            clq_buffer_bytes(parameters));
}
static const clq_command_kind average_kind = {.name = "average", .traits = CLQ_COMMAND_IN_STEP, .run = average};

/* ---- by the poster ---- */

/* Sets each replica's share in the average. The shares add up to exactly 1 in float, so that values on which all
 * replicas agree do not change. */
static void make_shares(const local *own, unsigned count) {
    float *shares = own->shares;
    uint64_t total = 0;
    unsigned most = 0;
    double rest = 1;
    for (unsigned r = 0; r < count; r++) total += own->samples[r];
    for (unsigned r = 1; r < count; r++)
        if (own->samples[r] > own->samples[most]) most = r;
    for (unsigned r = 0; r < count; r++) {
        shares[r] = (float)((double)own->samples[r] / (double)total);
        if (r != most) rest -= (double)shares[r];
    }
    shares[most] = (float)rest;
}

static void average_all(clq_strategy *strategy) {
    local *own = strategy->exchange_own;
    make_shares(own, strategy->total);
    for (unsigned r = 0; r < strategy->count; r++)
        clq_channel_put(strategy->replicas[r].worker.commands,
                        &(clq_command){.kind = &average_kind, .params = {.scale = own->shares[strategy->first + r]}});
    own->steps = 0;
    memset(own->samples, 0, strategy->total * sizeof *own->samples);
    strategy->outdated[CLQ_ARENA_PARAMETERS] = false;
}

static void note(clq_strategy *strategy, size_t samples) {
    local *own = strategy->exchange_own;
    if (strategy->apart) return;
    const clq_batch_cut cut = clq_ranks_cut(strategy, samples);
    for (unsigned r = 0; r < strategy->total; r++) own->samples[r] += cut.counts[r];
    if (++own->steps >= strategy->config.options.local_steps) average_all(strategy);
}

static void collect(clq_strategy *strategy, unsigned what) {
    (void)what; /* parameters: steps leave nothing else outdated */
    average_all(strategy);
}

static void keeps(clq_strategy *strategy, clq_kept *out) {
    local *own = strategy->exchange_own;
    out->local_steps = &own->steps;
    out->local_samples = own->samples;
}

/* ---- life ---- */

static clq_status open(clq_strategy *strategy) {
    if (strategy->config.plan.update && clq_plan_exchanges(strategy->replicas[0].plan))
        return clq_fail(
            CLQ_ERROR_ARGUMENT,
            "model %s has synchronized statistics, or a loss that leaves masked steps out, for which replicas "
            "add up sums in each step: leave out local steps",
            strategy->model->name);
    strategy->step_outdates = 1u << CLQ_ARENA_PARAMETERS;
    local *own = strategy->exchange_own = clq_alloc(1, sizeof *own);
    if (!own) return CLQ_ERROR_MEMORY;
    own->samples = clq_alloc(strategy->total, sizeof *own->samples);
    own->shares = clq_alloc(strategy->total, sizeof *own->shares);
    return own->samples && own->shares ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static void close(clq_strategy *strategy) {
    local *own = strategy->exchange_own;
    if (!own) return;
    clq_free(own->samples);
    clq_free(own->shares);
    clq_free(own);
}

const clq_exchange_kind clq_exchange_local = {
    .open = open, .close = close, .step = step, .note = note, .collect = collect, .keeps = keeps};
