/* Which samples each process of a training brings to its batches. */
#include "train/sharding.h"
#include "train/checkpoint.h"
#include "train/words.h"

#include <inttypes.h>

typedef struct place {
    uint64_t epoch, index;
} place;

struct clq_sharding {
    unsigned processes;
    clq_brought brought;       /* what processes bring to the current batch, also in evaluations; .counts is `counts` */
    uint64_t batches;          /* of an epoch; 0: not opened yet */
    bool told_order;           /* has warned that all processes have the same order of samples */
    const clq_dataset *closed; /* the dataset closed last; not read, as it may be destroyed; NULL: none */
    place left, whole;         /* where it was closed: in parts, and in whole batches (whose epochs may be shorter) */
    /* By process: its samples in a full batch, in its whole dataset, and in the current batch. One allocation, which
     * begins with `shares`. */
    size_t *shares, *samples, *counts;
};

clq_status clq_sharding_check(const clq_trainer_config *config) {
    if (config->shard == CLQ_SHARD_DATA || clq_world_size(config->world) == 1) return CLQ_OK;
    if (config->strategy == CLQ_STRATEGY_PS && config->strategy_options.staleness > 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "with shard %s a process brings a part of each batch, and with a staleness of %d a batch is "
                        "one replica's: use a staleness of 0, or shard data",
                        clq_shard_name(config->shard), (int)config->strategy_options.staleness);
    if (config->strategy_options.shares != CLQ_SHARES_AUTO) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "with shard %s the part of each batch that a process brings is fixed, and shares auto would change "
                    "it: give shares as numbers, or use shard data",
                    clq_shard_name(config->shard));
}

/* ---- life ---- */

/* Splits a batch of this size among the processes. */
static clq_status take_shares(const clq_trainer *trainer, size_t batch) {
    struct clq_sharding *s = trainer->sharding;
    clq_strategy_split_processes(trainer->strategy, batch, s->shares);
    for (unsigned p = 0; p < s->processes; p++)
        if (s->shares[p] == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "with shard %s each process brings samples to each batch, and of a batch of %zu %s has "
                            "none: use a larger one, or other shares",
                            clq_shard_name(trainer->config.shard), batch, clq_world_name(trainer->config.world, p));
    s->brought.full = batch;
    return CLQ_OK;
}

clq_status clq_sharding_create(clq_trainer *trainer) {
    if (trainer->config.shard == CLQ_SHARD_DATA || !clq_strategy_spans(trainer->strategy)) return CLQ_OK;
    const unsigned processes = clq_world_size(trainer->config.world);
    struct clq_sharding *s = clq_alloc(1, sizeof *s);
    size_t *arrays = clq_alloc(processes, 3 * sizeof *arrays);
    if (s && arrays) {
        *s = (struct clq_sharding){.processes = processes, .shares = arrays};
        s->samples = arrays + processes;
        s->brought.counts = s->counts = s->samples + processes;
        trainer->sharding = s;
    } else {
        clq_free(s);
        clq_free(arrays);
    }
    CLQ_TRY(clq_world_check(trainer->config.world, trainer->sharding ? CLQ_OK : CLQ_ERROR_MEMORY));
    return clq_world_check(trainer->config.world, take_shares(trainer, trainer->config.global_batch));
}

void clq_sharding_destroy(struct clq_sharding *sharding) {
    if (sharding) clq_free(sharding->shares);
    clq_free(sharding);
}

/* ---- an epoch ---- */

static uint64_t batches_of(const struct clq_sharding *s, unsigned process, bool drops_remainder) {
    const size_t samples = s->samples[process], share = s->shares[process];
    return drops_remainder ? samples / share : clq_ceil_div(samples, share);
}

/* How many samples a process brings to batch `index` of an epoch. */
static size_t rows_of(const struct clq_sharding *s, unsigned process, uint64_t index) {
    return CLQ_MIN(s->shares[process], s->samples[process] - (size_t)index * s->shares[process]);
}

/* The batches of an epoch. *shortest: the process whose dataset ends first. */
static uint64_t count_batches(const struct clq_sharding *s, bool drops_remainder, unsigned *shortest) {
    *shortest = 0;
    for (unsigned p = 1; p < s->processes; p++)
        if (batches_of(s, p, drops_remainder) < batches_of(s, *shortest, drops_remainder)) *shortest = p;
    return batches_of(s, *shortest, drops_remainder);
}

static void tell_left_out(const clq_trainer *trainer, unsigned shortest) {
    const struct clq_sharding *s = trainer->sharding;
    size_t all = 0, taken = 0;
    for (unsigned p = 0; p < s->processes; p++) {
        all += s->samples[p];
        taken += (size_t)CLQ_MIN((uint64_t)s->samples[p], s->batches * s->shares[p]);
    }
    if (taken == all) return;
    clq_log(CLQ_LOG_WARNING,
            "an epoch has %" PRIu64 " batch%s, as %s has only %zu sample%s: %zu of all %zu samples %s left out of each "
            "epoch",
            s->batches, s->batches == 1 ? "" : "es", clq_world_name(trainer->config.world, shortest),
            s->samples[shortest], clq_plural(s->samples[shortest]), all - taken, all, all - taken == 1 ? "is" : "are");
}

/* Logs warnings. Called by rank 0 if an epoch has another number of batches than before. */
static void tell(const clq_trainer *trainer, const clq_dataset *dataset, unsigned shortest) {
    struct clq_sharding *s = trainer->sharding;
    size_t batch, buffer;
    clq_dataset_stages(dataset, &batch, &buffer);
    tell_left_out(trainer, shortest);
    if (trainer->config.shard != CLQ_SHARD_OFF || buffer != 0 || s->told_order) return;
    clq_log(CLQ_LOG_WARNING, "the set is not shuffled: with shard off all processes bring the same samples");
    s->told_order = true;
}

static place place_of(const clq_dataset *dataset) {
    place now;
    clq_dataset_tell(dataset, &now.epoch, &now.index);
    return now;
}

/* Whether this dataset was closed last, and nobody has moved it since. */
static bool is_left(const struct clq_sharding *s, const clq_dataset *dataset, place now) {
    return s->closed == dataset && now.epoch == s->whole.epoch && now.index == s->whole.index;
}

/* Moves the dataset to where it was closed, unless somebody has moved it since. found: its place when it was opened. */
static clq_status go_back(struct clq_sharding *s, place found, clq_dataset *dataset) {
    const bool goes_back = is_left(s, dataset, found);
    s->closed = NULL;
    if (!goes_back) return CLQ_OK;
    return clq_dataset_seek(dataset, s->left.epoch, CLQ_MIN(s->left.index, (uint64_t)clq_dataset_batches(dataset)));
}

static clq_status open_epoch(clq_trainer *trainer, const clq_dataset *dataset) {
    struct clq_sharding *s = trainer->sharding;
    const uint64_t before = s->batches;
    unsigned shortest;
    CLQ_TRY(take_shares(trainer, clq_dataset_batch_size(dataset)));
    s->batches = count_batches(s, clq_dataset_drops_remainder(dataset), &shortest);
    if (s->batches == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%s has %zu sample%s and brings %zu to each batch: an epoch has no batch if the remainder is "
                        "dropped",
                        clq_world_name(trainer->config.world, shortest), s->samples[shortest],
                        clq_plural(s->samples[shortest]), s->shares[shortest]);
    if (s->batches != before && clq_world_rank(trainer->config.world) == 0) tell(trainer, dataset, shortest);
    return CLQ_OK;
}

clq_status clq_sharding_open(clq_trainer *trainer, clq_dataset *dataset) {
    struct clq_sharding *s = trainer->sharding;
    if (!s) return CLQ_OK;
    clq_world *world = trainer->config.world;
    const size_t own = clq_dataset_get_info(dataset)->samples;
    const unsigned rank = clq_world_rank(world);
    const place found = place_of(dataset);
    CLQ_TRY(clq_world_gather(world, &own, sizeof own, s->samples));
    CLQ_TRY(clq_world_check(world, open_epoch(trainer, dataset)));
    clq_dataset_set_part(dataset, &(clq_data_part){.batch = s->shares[rank], .batches = s->batches, .seed = rank});
    return go_back(s, found, dataset);
}

clq_status clq_sharding_close(clq_trainer *trainer, clq_dataset *dataset, const clq_data_part *before,
                              clq_status status) {
    struct clq_sharding *s = trainer->sharding;
    clq_error error;
    if (!s) return status;
    clq_error_take(status, &error);
    const clq_status waited = clq_strategy_wait(trainer->strategy); /* steps under way may read the dataset */
    s->closed = dataset;
    s->left = place_of(dataset);
    clq_dataset_set_part(dataset, before);
    s->whole = place_of(dataset);
    return status == CLQ_OK ? waited : clq_error_raise(&error);
}

uint64_t clq_sharding_tell(const clq_trainer *trainer, const clq_dataset *dataset, uint64_t *epoch, uint64_t *index) {
    const struct clq_sharding *s = trainer->sharding;
    place now = place_of(dataset);
    const bool was_left = s && is_left(s, dataset, now);
    if (was_left) now = s->left;
    *epoch = now.epoch;
    *index = now.index;
    return was_left ? s->batches : clq_dataset_batches(dataset);
}

void clq_sharding_bring(clq_trainer *trainer, const clq_dataset *dataset) {
    struct clq_sharding *s = trainer->sharding;
    uint64_t epoch, next;
    if (!s) return;
    clq_dataset_tell(dataset, &epoch, &next);
    for (unsigned p = 0; p < s->processes; p++) s->counts[p] = rows_of(s, p, next - 1);
    clq_strategy_bring(trainer->strategy, &s->brought);
}

void clq_sharding_done(clq_trainer *trainer) { clq_strategy_bring(trainer->strategy, NULL); }

/* ---- evaluation ---- */

bool clq_sharding_evaluates_own(const clq_trainer *trainer) {
    return trainer->sharding && trainer->config.shard == CLQ_SHARD_FILE;
}

clq_data_part clq_sharding_part_to_evaluate(const clq_trainer *trainer) {
    return (clq_data_part){.batch = trainer->sharding->shares[clq_world_rank(trainer->config.world)]};
}

void clq_sharding_bring_own(clq_trainer *trainer, size_t rows) {
    struct clq_sharding *s = trainer->sharding;
    for (unsigned p = 0; p < s->processes; p++) s->counts[p] = p == clq_world_rank(trainer->config.world) ? rows : 0;
    clq_strategy_bring(trainer->strategy, &s->brought);
}

/* ---- checkpoints ---- */

size_t clq_sharding_samples(const clq_trainer *trainer, const clq_dataset *dataset) {
    const struct clq_sharding *s = trainer->sharding;
    size_t samples = 0;
    if (!s) return clq_dataset_get_info(dataset)->samples;
    for (unsigned p = 0; p < s->processes; p++) samples += s->samples[p];
    return samples;
}

clq_status clq_sharding_put(clq_checkpoint *to, const clq_trainer *trainer) {
    if (trainer->config.shard != CLQ_SHARD_FILE) return CLQ_OK;
    return clq_checkpoint_put_count(to, "data/processes", clq_strategy_everyone(trainer->strategy).processes);
}

clq_status clq_sharding_check_resumed(const clq_checkpoint *from, const char *folder, const clq_trainer *trainer) {
    const unsigned now = clq_strategy_everyone(trainer->strategy).processes;
    uint64_t before;
    if (trainer->config.shard != CLQ_SHARD_FILE || !clq_checkpoint_count(from, "data/processes", &before) ||
        before == now)
        return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH,
                    "%s: it is of %" PRIu64 " process%s with files of their own (shard file), and now there %s %u: go "
                    "on with as many, or with the whole set on each (shard data)",
                    folder, before, before == 1 ? "" : "es", now == 1 ? "is" : "are", now);
}
