/* Replicas of several processes train as the replicas of one process would. They are numbered through all processes, in
 * the order of the ranks, and each batch is split over all of them. Either every process has the whole batch and takes
 * its own rows, or each process brings only its own rows, and all know how many rows the others bring. Each process
 * computes by itself the shares of all replicas, and which replicas have computed: all come to the same results. */
#include "strategy/module.h"

#include <assert.h>
#include <string.h>

/* ---- what works ---- */

static clq_status refuse(const char *what) {
    return clq_fail(CLQ_ERROR_UNSUPPORTED,
                    "on several machines %s: use strategy mirrored with whole or f16 gradients, local steps or a "
                    "sharded optimizer, pipelines within each, or ps with store ranks",
                    what);
}

static clq_status check_settings(const clq_strategy_config *config) {
    const clq_strategy_options *options = &config->options;
    const unsigned apart = clq_world_apart(config->world);
    if (config->kind == CLQ_STRATEGY_PS && options->backup > 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "backup replicas are of one machine: over several, use ps with a staleness");
    if (config->kind == CLQ_STRATEGY_PS && apart > 0 && config->check_replicas)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "strategy ps has one copy of the weights, on the store ranks: leave out the check "
                        "of replicas, or use strategy mirrored");
    if (config->kind == CLQ_STRATEGY_PS && apart > 0) return CLQ_OK;
    if (config->kind == CLQ_STRATEGY_PS)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "strategy ps on several machines keeps variables on ranks of their own: name "
                        "how many (--ps-ranks, clq_world_set_apart), or use strategy mirrored");
    if (apart > 0)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "%u ranks are set apart, which only strategy ps uses: use it, or set none apart", apart);
    if (config->kind != CLQ_STRATEGY_AUTO && config->kind != CLQ_STRATEGY_MIRRORED &&
        config->kind != CLQ_STRATEGY_PIPELINE)
        return refuse("no strategies but mirrored, pipeline and ps work");
    if (config->parts > 0) return refuse("parts of a model are not trained");
    return options->compression.kind == CLQ_COMPRESSION_TOP_K ? refuse("gradients are not sent in part (topk)")
                                                              : CLQ_OK;
}

static clq_status check_replicas(const clq_strategy_config *config, bool is_even) {
    const unsigned size = clq_world_size(config->world);
    if (config->global_batch < config->total)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a global batch of %zu is smaller than the %u replicas of %u processes: use a larger one",
                        config->global_batch, config->total, size);
    const bool pipelines = config->kind == CLQ_STRATEGY_PIPELINE;
    if ((config->options.shard_optimizer || pipelines) && !is_even)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "%s on several machines need equally many devices on each: choose them (--devices), or leave "
                        "out the %s",
                        pipelines ? "pipelines" : "parts of an optimizer",
                        pipelines ? "strategy" : "sharded optimizer");
    return clq_shares_check(&config->options, config->total);
}

/* ---- the replicas of all processes ---- */

/* What a process tells the others about its replicas. */
typedef struct side {
    uint64_t devices, count; /* devices: a hash of which devices they are */
} side;

static side describe(const clq_devices *devices) {
    side own = {.count = devices->count};
    for (uint32_t r = 0; r < devices->count; r++) {
        const clq_device_info *info = clq_system_device_info(devices->system, devices->items[r].index);
        const uint32_t part[] = {info->index, devices->items[r].part, devices->items[r].parts};
        own.devices = clq_hash128_of(info->driver, strlen(info->driver), own.devices).low;
        own.devices = clq_hash128_of(info->name, strlen(info->name), own.devices).low;
        own.devices = clq_hash128_of(part, sizeof part, own.devices).low;
    }
    return own;
}

static bool count_all(clq_strategy_config *config, const side *all) {
    bool is_even = true;
    config->total = 0;
    for (unsigned r = 0; r < clq_world_size(config->world); r++) {
        if (r == clq_world_rank(config->world)) config->first = config->total;
        config->total += (unsigned)all[r].count;
        is_even = is_even && all[r].count == all[0].count;
    }
    config->devices_of_all = clq_hash128_of(all, clq_world_size(config->world) * sizeof *all, 0).low;
    return is_even;
}

clq_status clq_ranks_count(clq_strategy_config *config, const clq_devices *devices) {
    const unsigned size = clq_world_size(config->world);
    config->first = 0;
    config->total = devices->count;
    if (size == 1 && clq_world_apart(config->world) == 0) return CLQ_OK;
    CLQ_TRY(clq_world_check(config->world, check_settings(config)));
    if (size == 1) return CLQ_OK;
    const side mine = describe(devices);
    side *all = clq_alloc(size, sizeof *all);
    clq_status status = clq_world_check(config->world, all ? CLQ_OK : CLQ_ERROR_MEMORY);
    if (status == CLQ_OK) status = clq_world_gather(config->world, &mine, sizeof mine, all);
    if (status == CLQ_OK) status = check_replicas(config, count_all(config, all));
    clq_free(all);
    return clq_world_check(config->world, status);
}

clq_everyone clq_strategy_everyone(const clq_strategy *strategy) {
    return (clq_everyone){.processes = clq_world_size(strategy->config.world),
                          .replicas = strategy->total,
                          .devices = strategy->config.devices_of_all};
}

/* A strategy that is made only to count memory (recompute.c) has no world, but the same `first` and `total`. */
bool clq_strategy_spans(const clq_strategy *strategy) { return clq_world_size(strategy->config.world) > 1; }

void clq_strategy_settle(clq_strategy *strategy, bool parameters) {
    if (!clq_strategy_spans(strategy)) return;
    clq_strategy_make_current(strategy, CLQ_ARENA_STATE);
    if (parameters) clq_strategy_make_current(strategy, CLQ_ARENA_PARAMETERS);
}

bool clq_strategy_is_by_batches(const clq_strategy *strategy) { return strategy->by_batches; }

/* ---- batches ---- */

/* Learns the first replica of each process. */
static clq_status gather_starts(clq_strategy *strategy) {
    clq_world *world = strategy->config.world;
    const unsigned size = clq_world_size(world);
    strategy->starts = clq_alloc(size + 1, sizeof *strategy->starts);
    CLQ_TRY(clq_world_check(world, strategy->starts ? CLQ_OK : CLQ_ERROR_MEMORY));
    CLQ_TRY(clq_world_gather(world, &strategy->first, sizeof strategy->first, strategy->starts));
    strategy->starts[size] = strategy->total;
    return CLQ_OK;
}

clq_status clq_ranks_open(clq_strategy *strategy) {
    strategy->cut.offsets = clq_alloc(strategy->total, sizeof *strategy->cut.offsets);
    strategy->cut.counts = clq_alloc(strategy->total, sizeof *strategy->cut.counts);
    strategy->computed = clq_alloc(strategy->total, sizeof *strategy->computed);
    if (!strategy->cut.offsets || !strategy->cut.counts || !strategy->computed) return CLQ_ERROR_MEMORY;
    if (!clq_strategy_spans(strategy)) return CLQ_OK;
    CLQ_TRY(gather_starts(strategy));
    return clq_world_new_tags(strategy->config.world, 1, &strategy->tag);
}

void clq_ranks_close(clq_strategy *strategy) {
    clq_free(strategy->starts);
    clq_free(strategy->cut.offsets);
    clq_free(strategy->cut.counts);
    clq_free(strategy->computed);
}

/* Turns a cut over models into a cut over replicas, in place: replicas that have one model together compute on the same
 * samples. */
static clq_batch_cut spread(clq_batch_cut cut, unsigned models, unsigned group) {
    for (unsigned r = models * group; group > 1 && r-- > 0;) {
        cut.offsets[r] = cut.offsets[r / group];
        cut.counts[r] = cut.counts[r / group];
    }
    return cut;
}

/* Cuts a batch over the models of all processes. */
static void cut_whole(const clq_strategy *strategy, size_t samples) {
    clq_shares_split(samples, strategy->total / strategy->group, clq_shares_weights(strategy->shares),
                     strategy->cut.offsets, strategy->cut.counts);
}

/* Each model takes as many samples as it takes of a full batch, while its process has rows left. So no model gets more
 * samples than it has room for. */
static void cut_brought(const clq_strategy *strategy) {
    size_t offset = 0;
    cut_whole(strategy, strategy->brought->full);
    for (unsigned p = 0; p < clq_world_size(strategy->config.world); p++) {
        size_t left = strategy->brought->counts[p];
        for (unsigned m = strategy->starts[p] / strategy->group; m < strategy->starts[p + 1] / strategy->group; m++) {
            const size_t count = CLQ_MIN(strategy->cut.counts[m], left);
            strategy->cut.offsets[m] = offset;
            strategy->cut.counts[m] = count;
            offset += count;
            left -= count;
        }
        assert(left == 0);
    }
}

clq_batch_cut clq_ranks_cut(const clq_strategy *strategy, size_t samples) {
    if (strategy->brought)
        cut_brought(strategy);
    else
        cut_whole(strategy, samples);
    return spread(strategy->cut, strategy->total / strategy->group, strategy->group);
}

void clq_strategy_bring(clq_strategy *strategy, const clq_brought *brought) { strategy->brought = brought; }

static size_t add_up(const size_t *counts, unsigned count) {
    size_t sum = 0;
    for (unsigned i = 0; i < count; i++) sum += counts[i];
    return sum;
}

size_t clq_strategy_samples(const clq_strategy *strategy, size_t rows) {
    return strategy->brought ? add_up(strategy->brought->counts, clq_world_size(strategy->config.world)) : rows;
}

size_t clq_ranks_rows_begin(const clq_strategy *strategy) {
    return strategy->brought ? add_up(strategy->brought->counts, clq_world_rank(strategy->config.world)) : 0;
}

void clq_strategy_split_processes(const clq_strategy *strategy, size_t samples, size_t *counts) {
    cut_whole(strategy, samples);
    for (unsigned p = 0; p < clq_world_size(strategy->config.world); p++) {
        const unsigned first = strategy->starts[p] / strategy->group, end = strategy->starts[p + 1] / strategy->group;
        counts[p] = add_up(strategy->cut.counts + first, end - first);
    }
}

clq_batch_cut clq_ranks_cut_here(const clq_strategy *strategy, size_t samples) {
    const unsigned models = strategy->count / strategy->group;
    double room[CLQ_REPLICAS_MAX];
    if (!clq_strategy_spans(strategy)) return clq_ranks_cut(strategy, samples);
    for (unsigned m = 0; m < models; m++) room[m] = (double)strategy->replicas[m * strategy->group].capacity;
    clq_shares_split(samples, models, room, strategy->cut.offsets, strategy->cut.counts);
    return spread(strategy->cut, models, strategy->group);
}

size_t clq_ranks_room_here(const clq_strategy *strategy) {
    size_t rows = 0;
    for (unsigned r = 0; r < strategy->count; r += strategy->group) rows += strategy->replicas[r].capacity;
    return clq_strategy_spans(strategy) ? rows : strategy->config.global_batch;
}

void clq_ranks_note_computed(clq_strategy *strategy, size_t samples) {
    if (!clq_strategy_spans(strategy) || strategy->by_batches) return;
    const clq_batch_cut cut = clq_ranks_cut(strategy, samples);
    for (unsigned r = 0; r < strategy->total; r++) strategy->computed[r] |= cut.counts[r] > 0;
}

size_t clq_strategy_own_samples(const clq_strategy *strategy, size_t samples) {
    return clq_strategy_spans(strategy) ? strategy->own_samples : samples;
}

size_t clq_strategy_share_of_all(const clq_strategy *strategy, unsigned replica) {
    return clq_ranks_cut(strategy, strategy->config.global_batch).counts[replica];
}

/* Adds in the order of the ranks, so that all processes get the same bits. */
clq_status clq_strategy_add_up_processes(const clq_strategy *strategy, double *values, size_t count) {
    const unsigned size = clq_world_size(strategy->config.world);
    if (size == 1 || count == 0) return CLQ_OK;
    double *all = clq_alloc(size, count * sizeof *all);
    if (!all)
        return clq_world_fail_with(strategy->config.world, CLQ_ERROR_MEMORY); /* the others wait for this process */
    const clq_status status = clq_world_gather(strategy->config.world, values, count * sizeof *values, all);
    for (size_t i = 0; status == CLQ_OK && i < count; i++) {
        values[i] = 0.0;
        for (unsigned r = 0; r < size; r++) values[i] += all[r * count + i];
    }
    clq_free(all);
    return status;
}

/* ---- figures ---- */

/* Whether this process puts in the squares. If one replica computed the batch, only its process knows the squares and
 * the origin. If all replicas took part, all processes know them, and rank 0 puts them in. */
static bool tells(const clq_strategy *strategy, uint32_t slot) {
    const bool measured = strategy->measured_by[slot] != 0;
    return clq_strategy_origin(strategy, slot).replica >= 0 ||
           (measured && clq_world_rank(strategy->config.world) == 0);
}

/* values: the row; replica + 1, or 0 if no single replica is known; staleness; squares. */
static void put_row(const clq_strategy *strategy, uint32_t slot, const double *row, const float *squares, size_t width,
                    double *values) {
    const clq_origin origin = clq_strategy_origin(strategy, slot);
    const bool told = tells(strategy, slot);
    memcpy(values, row, width * sizeof *values);
    values[width] = origin.replica + 1.0;
    values[width + 1] = origin.replica >= 0 ? (double)origin.staleness : 0.0;
    for (size_t v = 0; squares && v < strategy->model->variable_count; v++)
        values[width + 2 + v] = told ? (double)squares[v] : 0.0;
}

static void get_row(clq_strategy *strategy, uint32_t slot, const double *values, size_t width, double *row,
                    float *squares) {
    memcpy(row, values, width * sizeof *row);
    if (values[width] > 0.0)
        *strategy->module->origin(strategy, slot) =
            (clq_origin){.replica = (int32_t)values[width] - 1, .staleness = (uint32_t)values[width + 1], .part = 1.0};
    for (size_t v = 0; squares && v < strategy->model->variable_count; v++) squares[v] = (float)values[width + 2 + v];
}

clq_status clq_strategy_add_up_rows(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows,
                                    float *squares) {
    const size_t width = clq_losses_width(strategy->config.plan.loss, strategy->model->output_count);
    const size_t variables = strategy->model->variable_count, slots = strategy->config.plan.metric_slots;
    const size_t each = width + 2 + (squares ? variables : 0);
    if (!clq_strategy_spans(strategy)) return CLQ_OK;
    if (!strategy->by_batches) return clq_strategy_add_up_processes(strategy, rows, count * width);
    double *values = clq_alloc(count, each * sizeof *values);
    if (!values) return clq_world_fail_with(strategy->config.world, CLQ_ERROR_MEMORY);
    for (size_t i = 0; i < count; i++)
        put_row(strategy, (uint32_t)((first + i) % slots), rows + i * width, squares ? squares + i * variables : NULL,
                width, values + i * each);
    const clq_status status = clq_strategy_add_up_processes(strategy, values, count * each);
    for (size_t i = 0; status == CLQ_OK && i < count; i++)
        get_row(strategy, (uint32_t)((first + i) % slots), values + i * each, width, rows + i * width,
                squares ? squares + i * variables : NULL);
    clq_free(values);
    return status;
}

/* Tells all processes which replicas computed. */
void clq_ranks_share_computed(clq_strategy *strategy) {
    if (!strategy->by_batches || !clq_strategy_spans(strategy)) return;
    double *all = clq_alloc(strategy->total, sizeof *all);
    if (!all) (void)clq_world_fail_with(strategy->config.world, CLQ_ERROR_MEMORY);
    for (unsigned r = 0; all && r < strategy->total; r++) all[r] = strategy->computed[r];
    if (all && clq_strategy_add_up_processes(strategy, all, strategy->total) == CLQ_OK)
        for (unsigned r = 0; r < strategy->total; r++) strategy->computed[r] = all[r] > 0.0;
    clq_free(all);
}
