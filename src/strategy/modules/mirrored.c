/* The mirrored strategy: every replica has all weights, and makes the same update by the sum of all gradients. */
#include "strategy/modules/mirrored.h"

/* ---- the exchange ---- */

clq_status clq_mirrored_run(clq_replica *replica, const clq_task *task, size_t bytes, bool traced) {
    if (traced) CLQ_TRY(clq_queue_finish(task->queue)); /* waiting for what computes them is no part of the exchange */
    double began = traced ? clq_now() : 0.0;
    CLQ_TRY(clq_comm_run(clq_mirrored_of(replica)->comm, replica->worker.index, task));
    if (!traced) return CLQ_OK;
    return clq_timeline_add(&clq_mirror_of(replica)->exchanges, began, clq_collective_name(task->collective), "bytes",
                            bytes);
}

void clq_mirrored_note_exposed(clq_replica *replica, uint64_t ns) {
    if (replica->worker.index == 0) atomic_fetch_add(&clq_mirrored_of(replica)->exposed_ns, ns);
}

clq_status clq_mirrored_run_exposed(clq_replica *replica, const clq_task *task, size_t bytes) {
    const clq_comm *comm = clq_mirrored_of(replica)->comm;
    uint64_t before = clq_comm_busy_ns(comm);
    CLQ_TRY(clq_mirrored_run(replica, task, bytes, replica->worker.tracing));
    clq_mirrored_note_exposed(replica, clq_comm_busy_ns(comm) - before);
    return CLQ_OK;
}

/* The sum, of bytes [begin, end) of every replica's values. */
static clq_task sum_of(clq_queue *queue, clq_buffer *values, clq_dtype dtype, size_t begin, size_t end) {
    return (clq_task){.collective = CLQ_ALL_REDUCE,
                      .queue = queue,
                      .in = values,
                      .out = values,
                      .in_offset = begin,
                      .out_offset = begin,
                      .count = clq_values_count(dtype, end - begin),
                      .dtype = dtype,
                      .op = CLQ_SUM};
}

clq_status clq_mirrored_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced) {
    const clq_task task = sum_of(queue, clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT),
                                 clq_weights_dtype(replica->weights, CLQ_ARENA_GRADIENT), begin, end);
    return clq_mirrored_run(replica, &task, end - begin, traced);
}

clq_status clq_mirrored_add_up(clq_replica *replica, clq_buffer *values, clq_dtype dtype, size_t bytes) {
    const clq_task task = sum_of(replica->worker.queue, values, dtype, 0, bytes);
    return clq_mirrored_run_exposed(replica, &task, bytes);
}

clq_status clq_mirrored_reduce(clq_replica *replica) {
    if (!clq_mirrored_of(replica)->comm) return CLQ_OK;
    if (clq_mirror_of(replica)->compressor) return clq_compressed_reduce(replica);
    clq_buffer *gradient = clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT);
    return clq_mirrored_add_up(replica, gradient, clq_weights_dtype(replica->weights, CLQ_ARENA_GRADIENT),
                               clq_buffer_bytes(gradient));
}

/* Within a step. Replicas that train apart have statistics of their own: the others' places are zero. */
clq_status clq_mirrored_all_reduce(void *context, clq_queue *queue, clq_buffer *values, size_t count) {
    clq_replica *replica = context;
    const bool computes = replica->pace.since > 0.0;
    (void)queue; /* the replica's */
    if (replica->strategy->apart) return CLQ_OK;
    CLQ_TRY(clq_pace_rest(replica, true));
    CLQ_TRY(clq_mirrored_add_up(replica, values, CLQ_F32, clq_values_bytes(CLQ_F32, count)));
    if (computes) clq_pace_compute(replica);
    return CLQ_OK;
}

/* ---- what is apart ---- */

static void note_gradients(clq_strategy *strategy, bool by_step, const clq_part *parts) {
    bool *is_apart = clq_mirrored_of_strategy(strategy)->is_apart;
    const bool updates = by_step && clq_strategy_shards_updates(strategy) && !strategy->apart;
    const bool scatters = by_step && clq_zero_scatters(strategy) && !strategy->apart;
    is_apart[CLQ_ARENA_GRADIENT] = updates || scatters;
    if (by_step) is_apart[CLQ_CURRENT_OPTIMIZER] = updates && !strategy->shards_optimizer;
    is_apart[CLQ_ARENA_STATE] =
        clq_mirrored_of_strategy(strategy)->comm && clq_weights_apart_bytes(strategy->replicas[0].weights) > 0;
    if (by_step) clq_local_note(strategy, parts);
}

static clq_status average_state(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    return clq_replica_average_state(replica, command, clq_mirrored_of(replica)->comm, worker->index);
}
static const clq_command_kind average_kind = {.name = "average state", .run = average_state};

static void make_current(clq_strategy *strategy, unsigned what) {
    if (what == CLQ_ARENA_PARAMETERS) {
        clq_local_average(strategy);
        return;
    }
    if (!clq_mirrored_of_strategy(strategy)->is_apart[what]) return;
    if (what == CLQ_ARENA_STATE)
        clq_strategy_average_state(strategy, &average_kind, 1);
    else
        clq_pool_post(&strategy->pool, &(clq_command){.kind = &clq_sharded_collect, .memory = what});
    clq_mirrored_of_strategy(strategy)->is_apart[what] = false;
}

static void keeps(clq_strategy *strategy, clq_kept *out) {
    clq_mirrored *mirrored = strategy->own;
    out->state_apart = &mirrored->is_apart[CLQ_ARENA_STATE];
    for (unsigned r = 0; r < strategy->count; r++)
        if (mirrored->mirrors[r].compressor) out->errors[r] = clq_compressor_error(mirrored->mirrors[r].compressor);
    if (!clq_mirrored_is_local(strategy)) return;
    out->local_steps = &mirrored->local.steps;
    out->local_samples = mirrored->local.samples;
}

/* ---- the step ---- */

/* Collectives flush the queue that they are given. */
static clq_status plain_step(clq_replica *replica, const clq_command *command) {
    CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
    CLQ_TRY(clq_uploads_send_next(replica));
    CLQ_TRY(clq_pace_arrive(replica, command->params.count));
    CLQ_TRY(clq_mirrored_reduce(replica));
    clq_pace_compute(replica);
    return clq_replica_apply(replica, &command->params);
}

static clq_status apply(clq_replica *replica, const clq_step_params *params) {
    return replica->strategy->shards_optimizer ? clq_zero_apply(replica, params) : clq_replica_apply(replica, params);
}

/* ---- the communicator ---- */

static void abort_comm(void *comm, const clq_error *error) { clq_comm_abort(comm, error); }

/* In an all-reduce of a step, replicas wait for the slowest one's whole step: a CPU's beside a GPU's, a first one for
 * which the driver still compiles. A driver that hangs mostly reports it within
 * seconds. A limit that is too long costs minutes of waiting, one that is too short ends a good training. 600 s is
 * PyTorch's default for NCCL. */
static const double default_deadline_s = 600;

static clq_status create_comm(clq_strategy *strategy) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < strategy->count; r++) devices[r] = strategy->replicas[r].worker.device;
    clq_group_config config = strategy->config.group;
    if (config.deadline_s == 0) config.deadline_s = default_deadline_s;
    CLQ_TRY(clq_comm_create(devices, strategy->count, &config, &clq_mirrored_of_strategy(strategy)->comm));
    strategy->pool.on_failure = abort_comm;
    strategy->pool.context = clq_mirrored_of_strategy(strategy)->comm;
    return CLQ_OK;
}

/* ---- fast paths ---- */

/* Where memory is the host's own an exchange takes the cores that backward needs; elsewhere it pays
 * from some size on. */
static bool overlap_pays(const clq_strategy *strategy) {
    static const size_t bytes_least = 1 << 20;
    if (strategy->config.bucket_bytes) return true;
    return !clq_comm_is_direct(clq_mirrored_of_strategy(strategy)->comm) &&
           clq_weights_arena_bytes(strategy->replicas[0].weights, CLQ_ARENA_GRADIENT) >= bytes_least;
}

/* What holds of all replicas. */
static unsigned facts_of(const clq_strategy *strategy) {
    unsigned facts = CLQ_FACT_REPLICAS | CLQ_FACT_IN_CALLER | CLQ_FACT_PARTS | CLQ_FACT_ONE_LAUNCH;
    if (strategy->config.plan.update) facts |= CLQ_FACT_TRAINS;
    if (strategy->config.bucket_bytes == SIZE_MAX) facts |= CLQ_FACT_NO_BUCKETS;
    if (strategy->count <= clq_cpu_count()) facts |= CLQ_FACT_CORES;
    if (clq_comm_is_direct(clq_mirrored_of_strategy(strategy)->comm)) facts |= CLQ_FACT_DIRECT;
    if (clq_mirrored_compresses(strategy)) facts |= CLQ_FACT_COMPRESSED;
    if (clq_mirrored_is_local(strategy)) facts |= CLQ_FACT_LOCAL_STEPS;
    if (overlap_pays(strategy)) facts |= CLQ_FACT_OVERLAP_PAYS;
    if (strategy->shards_optimizer) facts |= CLQ_FACT_SHARDED_OPTIMIZER;
    if (clq_plan_exchanges(strategy->replicas[0].plan)) facts |= CLQ_FACT_EXCHANGES;
    if (strategy->config.plan.slicing) facts |= CLQ_FACT_SLICED;
    if (strategy->config.options.accumulate > 1) facts |= CLQ_FACT_ACCUMULATES;
    for (unsigned r = 0; r < strategy->count; r++) {
        const clq_replica *replica = &strategy->replicas[r];
        if (!clq_device_runs_in_caller(replica->worker.device)) facts &= ~(unsigned)CLQ_FACT_IN_CALLER;
        if (!clq_plan_can_shard_update(replica->plan, strategy->count)) facts &= ~(unsigned)CLQ_FACT_PARTS;
        if (!clq_list_is_fused(clq_plan_list(replica->plan))) facts &= ~(unsigned)CLQ_FACT_ONE_LAUNCH;
    }
    return facts;
}

static clq_status open_paths(clq_strategy *strategy) {
    /* Where each replica's kernels run in its own thread, on a core of its own, and exchange in that thread, the core
     * has nothing better to do while the others are waited for, and a sleep would end late: in virtual machines one
     * wake-up in a thousand takes 6 ms. */
    static const double patience_s = 2e-3;
    clq_mirrored *mirrored = strategy->own;
    unsigned facts = facts_of(strategy);
    if (strategy->shards_optimizer) strategy->step = clq_zero_step;
    if (clq_paths_decide(&strategy->paths, CLQ_PATH_OVERLAP, facts)) {
        facts |= CLQ_FACT_OVERLAP;
        strategy->step = clq_overlap_step;
        CLQ_TRY(clq_overlap_open(strategy));
    }
    if (clq_paths_decide(&strategy->paths, CLQ_PATH_SHARDED_UPDATE, facts)) {
        strategy->step = clq_sharded_step;
        CLQ_TRY(clq_sharded_open(strategy));
    }
    if (clq_paths_decide(&strategy->paths, CLQ_PATH_BUSY_WAIT, facts))
        clq_comm_set_patience(mirrored->comm, patience_s);
    return CLQ_OK;
}

/* ---- life ---- */

clq_status clq_mirrored_open(clq_strategy *strategy) {
    if (!strategy->own) strategy->own = clq_alloc(1, sizeof(clq_mirrored));
    if (!strategy->own) return CLQ_MEMORY;
    if (strategy->count == 1) {
        strategy->step = clq_replica_step_alone;
        return CLQ_OK;
    }
    CLQ_TRY(create_comm(strategy));
    CLQ_TRY(clq_compression_open(strategy));
    CLQ_TRY(clq_local_open(strategy));
    return open_paths(strategy);
}

void clq_mirrored_close(clq_strategy *strategy) {
    clq_mirrored *mirrored = strategy->own;
    if (!mirrored) return;
    clq_overlap_close(strategy);
    clq_sharded_close(strategy);
    clq_compression_close(strategy);
    clq_comm_destroy(mirrored->comm); /* nobody is inside now; its memory lies on the devices that close next */
    for (unsigned r = 0; r < strategy->count; r++) clq_free(mirrored->mirrors[r].exchanges.spans);
    clq_free(mirrored);
}

/* ---- reports ---- */

/* As of its step: up to the first bucket or all of backward, each bucket, the update. */
static size_t parts(const clq_strategy *strategy, unsigned replica) {
    const clq_mirrored *mirrored = strategy->own;
    return mirrored->comm && !clq_mirrored_is_local(strategy) ? mirrored->mirrors[replica].bucket_count + 2 : 1;
}

clq_comm_times clq_mirrored_comm_times(const clq_strategy *strategy) {
    const clq_mirrored *mirrored = strategy->own;
    if (!mirrored->comm) return (clq_comm_times){0};
    return (clq_comm_times){.total_s = (double)clq_comm_busy_ns(mirrored->comm) * 1e-9,
                            .exposed_s = (double)atomic_load(&mirrored->exposed_ns) * 1e-9};
}

static double waited(const clq_strategy *strategy, unsigned replica) {
    const clq_mirrored *mirrored = strategy->own;
    return mirrored->comm ? (double)clq_comm_waited_ns(mirrored->comm, replica) * 1e-9 : 0.0;
}

const clq_timeline *clq_mirrored_exchanges(const clq_strategy *strategy, unsigned replica) {
    return &clq_mirrored_of_strategy(strategy)->mirrors[replica].exchanges;
}

const clq_strategy_module clq_strategy_mirrored = {.kind = CLQ_STRATEGY_MIRRORED,
                                                   .name = "mirrored",
                                                   .accumulates = true,
                                                   .takes_shares = true,
                                                   .shards_optimizer = true,
                                                   .scales_losses = true,
                                                   .runs_functions = true,
                                                   .open = clq_mirrored_open,
                                                   .close = clq_mirrored_close,
                                                   .step = plain_step,
                                                   .reduce = clq_mirrored_reduce,
                                                   .apply = apply,
                                                   .all_reduce = clq_mirrored_all_reduce,
                                                   .add_squares = clq_zero_add_squares,
                                                   .note_gradients = note_gradients,
                                                   .make_current = make_current,
                                                   .keeps = keeps,
                                                   .parts = parts,
                                                   .comm_times = clq_mirrored_comm_times,
                                                   .waited = waited,
                                                   .exchanges = clq_mirrored_exchanges};
