/* Posts a step's parts to every replica, splits batches, gathers results, keeps the first failure. */
#include "strategy/replica.h"

#include <string.h>

void clq_strategy_fail(clq_strategy *strategy, clq_status status, const clq_replica *replica) {
    clq_latch *cause = &strategy->cause;
    if (status == CLQ_ABORTED) {
        /* Told to give up by the replica that failed, which is about to say why. */
        pthread_mutex_lock(&cause->mutex);
        while (cause->remaining > 0) pthread_cond_wait(&cause->zero, &cause->mutex);
        pthread_mutex_unlock(&cause->mutex);
        return;
    }
    if (strategy->count > 1) clq_fail_on(status, replica->device, "replica %u", replica->index);
    clq_error error;
    clq_error_take(status, &error);
    pthread_mutex_lock(&cause->mutex);
    if (cause->remaining > 0) {
        strategy->failure = error;
        atomic_store(&strategy->failed, true);
        cause->remaining = 0;
        pthread_cond_broadcast(&cause->zero);
    }
    pthread_mutex_unlock(&cause->mutex);
    if (strategy->crew) clq_crew_abort(strategy->crew, &error);
}

clq_status clq_strategy_failure(clq_strategy *strategy) {
    if (!atomic_load(&strategy->failed)) return CLQ_OK;
    return clq_error_raise(&strategy->failure); /* written once, before `failed` */
}

/* ---- posting ---- */

static void expect(clq_strategy *strategy, unsigned parties) {
    pthread_mutex_lock(&strategy->latch.mutex);
    strategy->latch.remaining = parties;
    pthread_mutex_unlock(&strategy->latch.mutex);
}

static clq_status await(clq_strategy *strategy) {
    pthread_mutex_lock(&strategy->latch.mutex);
    while (strategy->latch.remaining > 0) pthread_cond_wait(&strategy->latch.zero, &strategy->latch.mutex);
    pthread_mutex_unlock(&strategy->latch.mutex);
    return clq_strategy_failure(strategy);
}

static void post_all(clq_strategy *strategy, const clq_command *command) {
    for (unsigned r = 0; r < strategy->count; r++) clq_replica_post(&strategy->replicas[r], command);
}

/* The shares of `count` samples. */
static clq_status split(clq_strategy *strategy, size_t count) {
    CLQ_TRY(clq_strategy_failure(strategy));
    if (count > strategy->config.global_batch)
        return clq_fail(CLQ_ARGUMENT,
                        "a batch of %zu samples is larger than the global batch of %zu that the trainer was made for",
                        count, strategy->config.global_batch);
    clq_shares_split(count, strategy->count, NULL, strategy->offsets, strategy->counts);
    return CLQ_OK;
}

static float scale_of(size_t count) { return count ? (float)(1.0 / (double)count) : 0.0f; }

/* One command to every replica with its rows of the batch. */
static clq_status post_batch(clq_strategy *strategy, clq_command command, const clq_batch *batch) {
    const clq_strategy_config *config = &strategy->config;
    CLQ_TRY(split(strategy, batch->count));
    size_t sample_bytes = config->sample_elements * clq_dtype_bytes(config->plan.sample_dtype);
    size_t output_bytes = command.bytes;
    char *out = command.to;
    command.params.scale = scale_of(batch->count);
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        size_t offset = strategy->offsets[r], count = strategy->counts[r];
        const char *samples = batch->samples, *labels = batch->labels;
        command.params.count = (uint32_t)count;
        command.params.first_row = (uint32_t)offset;
        command.staged = NULL;
        if (count > 0)
            command.staged = clq_replica_stage(replica, samples + offset * sample_bytes,
                                               labels ? labels + offset * config->label_bytes : NULL, count);
        if (out) {
            command.to = out + offset * output_bytes;
            command.bytes = count * output_bytes;
        }
        clq_replica_post(replica, &command);
    }
    return CLQ_OK;
}

clq_status clq_strategy_gradients(clq_strategy *strategy, const clq_batch *batch, const clq_step_params *params) {
    strategy->gradient_is_apart = false;
    return post_batch(strategy, (clq_command){.kind = CLQ_COMMAND_GRADIENTS, .params = *params}, batch);
}

static void note_step(clq_strategy *strategy) {
    strategy->gradient_is_apart = strategy->state_is_apart = strategy->shards_updates && !strategy->apart;
}

clq_status clq_strategy_step(clq_strategy *strategy, const clq_batch *batch, const clq_step_params *params) {
    CLQ_TRY(post_batch(strategy, (clq_command){.kind = CLQ_COMMAND_STEP, .params = *params}, batch));
    note_step(strategy);
    return CLQ_OK;
}

clq_status clq_strategy_step_rows(clq_strategy *strategy, const clq_rows *rows, const clq_step_params *params) {
    clq_command command = {.kind = CLQ_COMMAND_STEP, .params = *params};
    command.params.scale = scale_of(rows->count);
    CLQ_TRY(split(strategy, rows->count));
    note_step(strategy);
    for (unsigned r = 0; r < strategy->count; r++) {
        command.params.count = (uint32_t)strategy->counts[r];
        command.params.first_row = (uint32_t)strategy->offsets[r];
        command.rows = clq_rows_part(rows, strategy->offsets[r], strategy->counts[r]);
        clq_replica_post(&strategy->replicas[r], &command);
    }
    return CLQ_OK;
}

clq_status clq_strategy_reduce(clq_strategy *strategy) {
    CLQ_TRY(clq_strategy_failure(strategy));
    if (strategy->crew) post_all(strategy, &(clq_command){.kind = CLQ_COMMAND_REDUCE});
    return CLQ_OK;
}

clq_status clq_strategy_apply(clq_strategy *strategy, const clq_step_params *params) {
    CLQ_TRY(clq_strategy_failure(strategy));
    if (strategy->state_is_apart) post_all(strategy, &(clq_command){.kind = CLQ_COMMAND_COLLECT_STATE});
    strategy->state_is_apart = false;
    post_all(strategy, &(clq_command){.kind = CLQ_COMMAND_APPLY, .params = *params});
    return CLQ_OK;
}

/* ---- waiting and reading ---- */

clq_status clq_strategy_wait(clq_strategy *strategy) {
    expect(strategy, strategy->count);
    post_all(strategy, &(clq_command){.kind = CLQ_COMMAND_SYNC, .latch = &strategy->latch});
    return await(strategy);
}

static clq_status transfer(clq_strategy *strategy, unsigned replica, clq_command command) {
    CLQ_TRY(clq_strategy_failure(strategy));
    command.latch = &strategy->latch;
    expect(strategy, 1);
    clq_replica_post(&strategy->replicas[replica], &command);
    return await(strategy);
}

clq_status clq_strategy_read_metrics(clq_strategy *strategy, uint32_t first, uint32_t count, double (*rows)[2]) {
    float *host = clq_alloc((size_t)count * 2, sizeof *host);
    if (!host) return CLQ_MEMORY;
    for (uint32_t i = 0; i < count; i++) rows[i][0] = rows[i][1] = 0.0;
    clq_status status = CLQ_OK;
    for (unsigned r = 0; r < strategy->count && status == CLQ_OK; r++) {
        status = transfer(strategy, r,
                          (clq_command){.kind = CLQ_COMMAND_READ,
                                        .memory = CLQ_METRICS,
                                        .offset = (size_t)first * 2 * sizeof(float),
                                        .to = host,
                                        .bytes = (size_t)count * 2 * sizeof(float)});
        for (uint32_t i = 0; i < count && status == CLQ_OK; i++) {
            rows[i][0] += (double)host[2 * i];
            rows[i][1] += (double)host[2 * i + 1];
        }
    }
    clq_free(host);
    return status;
}

clq_status clq_strategy_read_norms(clq_strategy *strategy, float *squares) {
    if (!clq_plan_norms(strategy->replicas[0].plan))
        return clq_fail(CLQ_STATE, "this trainer does not measure its gradient: set measure_gradient");
    return transfer(strategy, 0,
                    (clq_command){.kind = CLQ_COMMAND_READ,
                                  .memory = CLQ_NORMS,
                                  .to = squares,
                                  .bytes = strategy->model->variable_count * sizeof(float)});
}

clq_status clq_strategy_write(clq_strategy *strategy, clq_arena arena, size_t offset, const void *from, size_t bytes) {
    for (unsigned r = 0; r < strategy->count; r++)
        CLQ_TRY(transfer(
            strategy, r,
            (clq_command){.kind = CLQ_COMMAND_WRITE, .memory = arena, .offset = offset, .from = from, .bytes = bytes}));
    return CLQ_OK;
}

clq_status clq_strategy_read(clq_strategy *strategy, unsigned replica, clq_arena arena, size_t offset, void *to,
                             size_t bytes) {
    if (arena == CLQ_ARENA_GRADIENT) {
        if (!strategy->config.plan.update) return clq_fail(CLQ_STATE, "an inference-only trainer has no gradient");
        if (strategy->gradient_is_apart) post_all(strategy, &(clq_command){.kind = CLQ_COMMAND_COLLECT_GRADIENT});
        strategy->gradient_is_apart = false;
    }
    return transfer(
        strategy, replica,
        (clq_command){.kind = CLQ_COMMAND_READ, .memory = arena, .offset = offset, .to = to, .bytes = bytes});
}

clq_status clq_strategy_step_times(clq_strategy *strategy, unsigned replica, size_t most, float *seconds,
                                   size_t *count) {
    CLQ_TRY(clq_strategy_wait(strategy)); /* its thread has nothing to do then */
    const clq_replica *r = &strategy->replicas[replica];
    uint64_t kept = CLQ_MIN(r->steps_timed, (uint64_t)CLQ_STEP_TIMES);
    *count = (size_t)CLQ_MIN(kept, (uint64_t)most);
    for (size_t i = 0; i < *count; i++) seconds[i] = r->step_s[(r->steps_timed - *count + i) % CLQ_STEP_TIMES];
    return CLQ_OK;
}

clq_status clq_strategy_set_apart(clq_strategy *strategy, bool apart) {
    CLQ_TRY(clq_strategy_wait(strategy)); /* nobody looks at it then */
    strategy->apart = apart;
    return CLQ_OK;
}

clq_status clq_strategy_trace(clq_strategy *strategy, unsigned replica, clq_replica_trace *out) {
    CLQ_TRY(clq_strategy_wait(strategy)); /* its thread has nothing to do then, and leaves the queue to this one */
    const clq_replica *r = &strategy->replicas[replica];
    clq_replica_trace result = {.steps = &r->steps, .exchange = &r->exchange};
    CLQ_TRY(clq_queue_spans(r->queue, &result.queue, &result.queue_count, &result.clock_error_s));
    *out = result;
    return CLQ_OK;
}

/* ---- plans beside the one that the strategy was made for ---- */

/* Whether a later replica may take what was compiled for this one. */
static bool has_followers(const clq_strategy *strategy, unsigned replica) {
    for (unsigned r = replica + 1; r < strategy->count; r++)
        if (clq_selections_are_shared(strategy->replicas[replica].device, strategy->replicas[r].device)) return true;
    return false;
}

static clq_status make_plan(clq_strategy *strategy, unsigned r, clq_mode mode) {
    clq_replica *replica = &strategy->replicas[r];
    clq_status status = clq_replica_make_plan(replica, mode);
    if (status == CLQ_OK && has_followers(strategy, r)) status = clq_plan_keep_programs(replica->plans[mode]);
    return status != CLQ_OK && strategy->count > 1 ? clq_fail_within(status, "replica %u", r) : status;
}

/* The plans for a mode, once. */
static clq_status need_plans(clq_strategy *strategy, clq_mode mode) {
    if (strategy->replicas[strategy->count - 1].plans[mode]) return CLQ_OK;
    CLQ_TRY(clq_strategy_wait(strategy)); /* nobody works with the memory that they share */
    for (unsigned r = 0; r < strategy->count; r++)
        if (!strategy->replicas[r].plans[mode]) CLQ_TRY(make_plan(strategy, r, mode));
    return CLQ_OK;
}

clq_status clq_strategy_forward(clq_strategy *strategy, const clq_batch *batch, const clq_step_params *params) {
    CLQ_TRY(need_plans(strategy, CLQ_MODE_EVALUATE));
    return post_batch(strategy, (clq_command){.kind = CLQ_COMMAND_FORWARD, .params = *params}, batch);
}

clq_status clq_strategy_predict(clq_strategy *strategy, const clq_batch *batch, float *out) {
    size_t bytes = strategy->model->layers[strategy->model->output - 1].elements * sizeof(float);
    CLQ_TRY(need_plans(strategy, CLQ_MODE_PREDICT));
    CLQ_TRY(post_batch(strategy, (clq_command){.kind = CLQ_COMMAND_PREDICT, .to = out, .bytes = bytes}, batch));
    return clq_strategy_wait(strategy);
}

/* ---- life ---- */

static clq_status create_latch(clq_latch *latch, unsigned parties) {
    if (pthread_mutex_init(&latch->mutex, NULL) != 0) return clq_fail(CLQ_SYSTEM, "cannot create a lock");
    if (pthread_cond_init(&latch->zero, NULL) != 0) {
        pthread_mutex_destroy(&latch->mutex);
        return clq_fail(CLQ_SYSTEM, "cannot create a condition variable");
    }
    latch->remaining = parties;
    latch->ready = true;
    return CLQ_OK;
}

static void destroy_latch(clq_latch *latch) {
    if (!latch->ready) return;
    pthread_cond_destroy(&latch->zero);
    pthread_mutex_destroy(&latch->mutex);
}

/* In an all-reduce of a step, replicas wait for the slowest one's whole step: a CPU's beside a GPU's, a first one for
 * which the driver still compiles. A driver that hangs mostly reports it within
 * seconds. A limit that is too long costs minutes of waiting, one that is too short ends a good training. 600 s is
 * PyTorch's default for NCCL. */
static const double default_deadline_s = 600;

static clq_status create_crew(clq_strategy *strategy) {
    if (strategy->count == 1) return CLQ_OK;
    clq_device *devices[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < strategy->count; r++) devices[r] = strategy->replicas[r].device;
    clq_group_config config = strategy->config.group;
    if (config.deadline_s == 0) config.deadline_s = default_deadline_s;
    return clq_crew_create(devices, strategy->count, &config, &strategy->crew);
}

/* Where memory is the host's own an exchange takes the cores that backward needs; elsewhere it pays
 * from some size on. */
static const size_t overlap_bytes_least = 1 << 20, bucket_bytes_default = 4 << 20;

static bool overlaps(const clq_strategy *strategy) {
    if (!strategy->crew || !strategy->config.plan.update || strategy->config.bucket_bytes == SIZE_MAX) return false;
    if (strategy->config.bucket_bytes) return true;
    return !clq_crew_is_direct(strategy->crew) &&
           clq_weights_arena_bytes(strategy->replicas[0].weights, CLQ_ARENA_GRADIENT) >= overlap_bytes_least;
}

static clq_status create_reducers(clq_strategy *strategy) {
    if (!overlaps(strategy)) return CLQ_OK;
    size_t bytes = strategy->config.bucket_bytes ? strategy->config.bucket_bytes : bucket_bytes_default;
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        CLQ_TRY(clq_plan_buckets(replica->plan, bytes, &replica->buckets, &replica->bucket_count));
        CLQ_TRY(clq_reducer_create(replica, &replica->reducer));
    }
    return CLQ_OK;
}

/* Replicas whose memory is the host's shard the update, unless buckets of the gradient are exchanged before backward
 * ends, or launches are to be seen one by one. */
static clq_status shard_updates(clq_strategy *strategy) {
    clq_plan *plans[CLQ_REPLICAS_MAX];
    bool all = strategy->crew && clq_crew_is_direct(strategy->crew);
    for (unsigned r = 0; r < strategy->count && all; r++) {
        plans[r] = strategy->replicas[r].plan;
        all = !strategy->replicas[r].reducer && clq_plan_can_shard_update(plans[r], strategy->count);
    }
    for (unsigned r = 0; r < strategy->count && all; r++)
        CLQ_TRY(clq_plan_shard_update(plans[r], plans, strategy->count, r));
    strategy->shards_updates = all;
    return CLQ_OK;
}

/* Where each replica's kernels run in its own thread, on a core of its own, and exchange in that thread, the core has
 * nothing better to do while the others are waited for, and a sleep would end late: in virtual machines one wake-up in
 * a thousand takes 6 ms. */
static bool owns_cores(const clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count; r++)
        if (strategy->replicas[r].reducer || !clq_device_runs_in_caller(strategy->replicas[r].device)) return false;
    return strategy->count <= clq_cpu_count();
}
static const double patience_s = 2e-3;

/* Every replica can take the largest share, so that any split of a batch fits. */
static clq_status tune(clq_strategy *strategy) {
    const clq_strategy_config *config = &strategy->config;
    clq_plan_config plan = config->plan;
    plan.capacity = (uint32_t)strategy->counts[0];
    const clq_tune_config how = clq_tune_config_of(config->tuning, config->tuning_s);
    for (unsigned r = 0; r < strategy->count && config->tuning != CLQ_TUNING_OFF; r++) {
        clq_device *device = strategy->replicas[r].device;
        unsigned alike = 0;
        while (alike < r && !clq_selections_are_shared(strategy->replicas[alike].device, device)) alike++;
        size_t first = strategy->tune_log.count;
        if (alike == r) CLQ_TRY(clq_plan_tune(strategy->model, device, &plan, &how, &strategy->tune_log));
        while (first < strategy->tune_log.count) strategy->tune_log.rows[first++].replica = r;
    }
    return CLQ_OK;
}

/* Whether a replica's launches may be one (clq_list_set_fused): where all replicas' threads have cores. A device of
 * one unit waits for nobody in it. */
static bool joins(const clq_strategy *strategy, unsigned replica) {
    if (strategy->config.trace_steps > 0) return false; /* each launch is to be seen */
    uint64_t units = 0, own = clq_device_get_info(strategy->replicas[replica].device)->compute_units;
    for (unsigned r = 0; r < strategy->count; r++) {
        const clq_device *device = strategy->replicas[r].device;
        if (clq_device_family(device) == CLQ_FAMILY_TILE) units += clq_device_get_info(device)->compute_units;
    }
    return own == 1 || units <= clq_cpu_count();
}

static clq_status open_replicas(clq_strategy *strategy, const clq_devices *devices) {
    unsigned count = devices->count;
    strategy->replicas = clq_alloc(count, sizeof *strategy->replicas);
    strategy->offsets = clq_alloc(count, sizeof *strategy->offsets);
    strategy->counts = clq_alloc(count, sizeof *strategy->counts);
    if (!strategy->replicas || !strategy->offsets || !strategy->counts) return CLQ_MEMORY;
    strategy->count = count;
    clq_shares_split(strategy->config.global_batch, count, NULL, strategy->offsets, strategy->counts);
    CLQ_TRY(clq_strategy_open_devices(strategy, devices));
    CLQ_TRY(tune(strategy));
    for (unsigned r = 0; r < count; r++) {
        clq_replica *replica = &strategy->replicas[r];
        replica->strategy = strategy;
        replica->index = r;
        replica->share = strategy->counts[0];
        replica->joined = joins(strategy, r);
        clq_status status = clq_replica_open(replica);
        if (status == CLQ_OK && has_followers(strategy, r)) status = clq_plan_keep_programs(replica->plan);
        if (status != CLQ_OK) return count > 1 ? clq_fail_within(status, "replica %u", r) : status;
    }
    CLQ_TRY(create_crew(strategy));
    CLQ_TRY(create_reducers(strategy));
    CLQ_TRY(shard_updates(strategy));
    if (strategy->crew && owns_cores(strategy)) {
        clq_crew_set_patience(strategy->crew, patience_s);
    }
    for (unsigned r = 0; r < count; r++) CLQ_TRY(clq_replica_start(&strategy->replicas[r]));
    return CLQ_OK;
}

clq_status clq_strategy_create(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                               clq_strategy **out) {
    if (devices->count < 1) return clq_fail(CLQ_NO_DEVICE, "no device was selected");
    if (config->global_batch < devices->count)
        return clq_fail(
            CLQ_ARGUMENT,
            "a global batch of %zu is smaller than the %u replicas: use a batch of at least %u or fewer devices",
            config->global_batch, devices->count, devices->count);
    if (config->global_batch > INT32_MAX)
        return clq_fail(CLQ_ARGUMENT, "a batch of %zu is too large", config->global_batch);
    clq_strategy *strategy = clq_alloc(1, sizeof *strategy);
    if (!strategy) return CLQ_MEMORY;
    strategy->model = model;
    strategy->config = *config;
    clq_status status;
    CLQ_TRY_OR(fail, status, create_latch(&strategy->latch, 0));
    CLQ_TRY_OR(fail, status, create_latch(&strategy->cause, 1));
    CLQ_TRY_OR(fail, status, open_replicas(strategy, devices));
    *out = strategy;
    return CLQ_OK;
fail:
    clq_strategy_destroy(strategy);
    return status;
}

void clq_strategy_destroy(clq_strategy *strategy) {
    if (!strategy) return;
    for (unsigned r = 0; r < strategy->count; r++) clq_replica_stop(&strategy->replicas[r]);
    for (unsigned r = 0; r < strategy->count; r++) clq_reducer_destroy(strategy->replicas[r].reducer);
    for (unsigned r = 0; r < strategy->count; r++) clq_plan_end_sharding(strategy->replicas[r].plan);
    clq_crew_destroy(strategy->crew); /* nobody is inside now; its memory lies on the devices that close next */
    for (unsigned r = 0; r < strategy->count; r++) clq_replica_close(&strategy->replicas[r]);
    destroy_latch(&strategy->latch);
    destroy_latch(&strategy->cause);
    clq_tune_log_release(&strategy->tune_log);
    clq_free(strategy->replicas);
    clq_free(strategy->offsets);
    clq_free(strategy->counts);
    clq_free(strategy);
}

unsigned clq_strategy_replicas(const clq_strategy *strategy) { return strategy->count; }
clq_device *clq_strategy_device(const clq_strategy *strategy, unsigned replica) {
    return strategy->replicas[replica].device;
}
const clq_plan *clq_strategy_plan(const clq_strategy *strategy, unsigned replica) {
    return strategy->replicas[replica].plan;
}
const clq_weights *clq_strategy_weights(const clq_strategy *strategy, unsigned replica) {
    return strategy->replicas[replica].weights;
}
size_t clq_strategy_calls(const clq_strategy *strategy, unsigned replica) {
    const clq_replica *r = &strategy->replicas[replica];
    size_t parts = !strategy->crew ? 1 : r->reducer ? r->bucket_count + 2 : 2; /* as of step.c */
    return clq_plan_calls(r->plan, parts);
}
bool clq_strategy_shards_updates(const clq_strategy *strategy) { return strategy->shards_updates; }
size_t clq_strategy_share(const clq_strategy *strategy, unsigned replica) {
    size_t per_replica = strategy->replicas[0].share, before = replica * per_replica;
    size_t batch = strategy->config.global_batch;
    return before >= batch ? 0 : CLQ_MIN(per_replica, batch - before);
}

const clq_tune_log *clq_strategy_tune_log(const clq_strategy *strategy) { return &strategy->tune_log; }

clq_comm_times clq_strategy_comm_times(const clq_strategy *strategy) {
    if (!strategy->crew) return (clq_comm_times){0};
    return (clq_comm_times){.total_s = (double)clq_crew_busy_ns(strategy->crew) * 1e-9,
                            .exposed_s = (double)atomic_load(&strategy->replicas[0].exposed_ns) * 1e-9};
}
