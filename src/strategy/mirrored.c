/* The mirrored strategy: every replica has all weights, and makes the same update by the sum of all gradients. */
#include "strategy/mirrored.h"

static clq_mirrored *mirrored_of(const clq_replica *replica) { return replica->strategy->mirrored; }
static clq_mirror *mirror_of(const clq_replica *replica) {
    return &mirrored_of(replica)->mirrors[replica->worker.index];
}

/* ---- the exchange ---- */

clq_status clq_mirrored_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced) {
    clq_buffer *gradient = clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT);
    if (traced) CLQ_TRY(clq_queue_finish(queue)); /* waiting for backward is no part of the exchange */
    double began = traced ? clq_now() : 0.0;
    CLQ_TRY(clq_crew_all_reduce(mirrored_of(replica)->crew, replica->worker.index, queue, gradient, begin, gradient,
                                begin, (end - begin) / sizeof(float)));
    if (!traced) return CLQ_OK;
    return clq_timeline_add(&mirror_of(replica)->exchanges, began, "all-reduce", "bytes", end - begin);
}

static clq_status exchange_all(clq_replica *replica) {
    clq_crew *crew = mirrored_of(replica)->crew;
    if (!crew) return CLQ_OK;
    uint64_t before = clq_crew_busy_ns(crew);
    size_t bytes = clq_weights_arena_bytes(replica->weights, CLQ_ARENA_GRADIENT);
    CLQ_TRY(clq_mirrored_exchange(replica, replica->worker.queue, 0, bytes, replica->worker.tracing));
    if (replica->worker.index == 0) atomic_fetch_add(&mirror_of(replica)->exposed_ns, clq_crew_busy_ns(crew) - before);
    return CLQ_OK;
}

/* Backward in parts; each bucket is handed to the reducer when the device has been told to finish it. */
static clq_status backward_and_reduce(clq_replica *replica) {
    clq_mirror *mirror = mirror_of(replica);
    clq_queue *queue = replica->worker.queue;
    size_t next, end;
    clq_event *backward_done = NULL;
    clq_plan_segment_range(replica->plan, CLQ_SEGMENT_BACKWARD, &next, &end);
    for (size_t i = 0; i < mirror->bucket_count; i++) {
        const clq_bucket *bucket = &mirror->buckets[i];
        clq_event *whole;
        CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, bucket->done));
        CLQ_TRY(clq_queue_mark(queue, &whole));
        clq_reducer_post(mirror->reducer, bucket, whole);
        next = bucket->done;
    }
    CLQ_TRY(clq_plan_run_part(replica->plan, queue, next, end));
    CLQ_TRY(clq_queue_mark(queue, &backward_done));
    clq_status status = clq_event_wait(backward_done);
    clq_event_destroy(backward_done);
    double ended = clq_now();
    clq_reducer_wait(mirror->reducer);
    atomic_fetch_add(&mirror->exposed_ns, (uint64_t)((clq_now() - ended) * 1e9));
    return status;
}

/* ---- the update that replicas shard ---- */

/* When all have come: only then are all gradients whole. */
static clq_status update_part(void *context) {
    clq_replica *replica = context;
    return clq_plan_run_sharded_update(replica->plan, replica->worker.queue);
}

/* The gradient is added up by those who update: one way through it less, and half of the other. */
static clq_status reduce_and_apply_together(clq_replica *replica) {
    clq_crew *crew = mirrored_of(replica)->crew;
    uint64_t before = clq_crew_busy_ns(crew);
    CLQ_TRY(clq_crew_run(
        crew, replica->worker.index,
        &(clq_task){
            .collective = CLQ_BARRIER, .queue = replica->worker.queue, .between = update_part, .context = replica}));
    if (replica->worker.index == 0) atomic_fetch_add(&mirror_of(replica)->exposed_ns, clq_crew_busy_ns(crew) - before);
    clq_weights_turn(replica->weights);
    return CLQ_OK;
}

/* Every rank's part of an arena to the others. */
static clq_status collect(clq_replica *replica, clq_buffer *arena) {
    const unsigned count = replica->strategy->count;
    for (unsigned r = 0; r < count; r++) {
        size_t begin, end;
        clq_plan_updated_part(replica->plan, count, r, &begin, &end);
        CLQ_TRY(clq_crew_broadcast(mirrored_of(replica)->crew, replica->worker.index, replica->worker.queue, arena,
                                   begin, end - begin, r));
    }
    return CLQ_OK;
}

static clq_status collect_gradient(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    (void)command;
    return collect(replica, clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT));
}

static clq_status collect_optimizer(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    (void)command;
    for (unsigned slot = 0; slot < clq_weights_optimizer_slots(replica->weights); slot++)
        CLQ_TRY(collect(replica, clq_weights_optimizer_slot(replica->weights, slot)));
    return CLQ_OK;
}

static const clq_command_kind gradient_kind = {.name = "collect", .run = collect_gradient};
static const clq_command_kind optimizer_kind = {.name = "collect", .run = collect_optimizer};

static void note_gradients(clq_strategy *strategy, bool by_step) {
    clq_mirrored *mirrored = strategy->mirrored;
    mirrored->gradient_is_apart = by_step && mirrored->shards_updates && !strategy->apart;
    if (by_step) mirrored->optimizer_is_apart = mirrored->gradient_is_apart;
}

static void make_current(clq_strategy *strategy, unsigned what) {
    clq_mirrored *mirrored = strategy->mirrored;
    bool *apart = what == CLQ_ARENA_GRADIENT      ? &mirrored->gradient_is_apart
                  : what == CLQ_CURRENT_OPTIMIZER ? &mirrored->optimizer_is_apart
                                                  : NULL;
    if (!apart || !*apart) return;
    const clq_command_kind *kind = what == CLQ_ARENA_GRADIENT ? &gradient_kind : &optimizer_kind;
    clq_pool_post(&strategy->pool, &(clq_command){.kind = kind});
    *apart = false;
}

/* ---- the step ---- */

static clq_status step(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    const clq_mirrored *mirrored = mirrored_of(replica);
    if (!mirrored->crew || replica->strategy->apart) return clq_replica_step_alone(replica, command);
    if (mirror_of(replica)->reducer) {
        CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_LOSS));
        CLQ_TRY(backward_and_reduce(replica));
    } else {
        /* Collectives flush the queue that they are given. */
        CLQ_TRY(clq_replica_run(replica, replica->plan, command, CLQ_SEGMENT_BACKWARD));
        if (mirrored->shards_updates) return reduce_and_apply_together(replica);
        CLQ_TRY(exchange_all(replica));
    }
    return clq_replica_apply(replica, &command->params);
}

static clq_status reduce(clq_worker *worker, const clq_command *command) {
    (void)command;
    return exchange_all(clq_replica_of(worker));
}

/* ---- life ---- */

static void abort_crew(void *context, const clq_error *error) {
    const clq_mirrored *mirrored = context;
    if (mirrored->crew) clq_crew_abort(mirrored->crew, error);
}

/* In an all-reduce of a step, replicas wait for the slowest one's whole step: a CPU's beside a GPU's, a first one for
 * which the driver still compiles. A driver that hangs mostly reports it within
 * seconds. A limit that is too long costs minutes of waiting, one that is too short ends a good training. 600 s is
 * PyTorch's default for NCCL. */
static const double default_deadline_s = 600;

static clq_status create_crew(clq_strategy *strategy) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    for (unsigned r = 0; r < strategy->count; r++) devices[r] = strategy->replicas[r].worker.device;
    clq_group_config config = strategy->config.group;
    if (config.deadline_s == 0) config.deadline_s = default_deadline_s;
    return clq_crew_create(devices, strategy->count, &config, &strategy->mirrored->crew);
}

/* Where memory is the host's own an exchange takes the cores that backward needs; elsewhere it pays
 * from some size on. */
static const size_t overlap_bytes_least = 1 << 20, bucket_bytes_default = 4 << 20;

static bool overlaps(const clq_strategy *strategy) {
    if (!strategy->config.plan.update || strategy->config.bucket_bytes == SIZE_MAX) return false;
    if (strategy->config.bucket_bytes) return true;
    return !clq_crew_is_direct(strategy->mirrored->crew) &&
           clq_weights_arena_bytes(strategy->replicas[0].weights, CLQ_ARENA_GRADIENT) >= overlap_bytes_least;
}

static clq_status create_reducers(clq_strategy *strategy) {
    if (!overlaps(strategy)) return CLQ_OK;
    size_t bytes = strategy->config.bucket_bytes ? strategy->config.bucket_bytes : bucket_bytes_default;
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_mirror *mirror = &strategy->mirrored->mirrors[r];
        CLQ_TRY(clq_plan_buckets(strategy->replicas[r].plan, bytes, &mirror->buckets, &mirror->bucket_count));
        CLQ_TRY(clq_reducer_create(&strategy->replicas[r], &mirror->reducer));
    }
    return CLQ_OK;
}

/* Replicas whose memory is the host's shard the update, unless buckets of the gradient are exchanged before backward
 * ends, or launches are to be seen one by one. */
static clq_status shard_updates(clq_strategy *strategy) {
    clq_mirrored *mirrored = strategy->mirrored;
    clq_plan *plans[CLQ_REPLICAS_MAX];
    bool all = clq_crew_is_direct(mirrored->crew);
    for (unsigned r = 0; r < strategy->count && all; r++) {
        plans[r] = strategy->replicas[r].plan;
        all = !mirrored->mirrors[r].reducer && clq_plan_can_shard_update(plans[r], strategy->count);
    }
    for (unsigned r = 0; r < strategy->count && all; r++)
        CLQ_TRY(clq_plan_shard_update(plans[r], plans, strategy->count, r));
    mirrored->shards_updates = all;
    return CLQ_OK;
}

/* Where each replica's kernels run in its own thread, on a core of its own, and exchange in that thread, the core has
 * nothing better to do while the others are waited for, and a sleep would end late: in virtual machines one wake-up in
 * a thousand takes 6 ms. */
static bool owns_cores(const clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count; r++)
        if (strategy->mirrored->mirrors[r].reducer || !clq_device_runs_in_caller(strategy->replicas[r].worker.device))
            return false;
    return strategy->count <= clq_cpu_count();
}
static const double patience_s = 2e-3;

static clq_status open_mirrored(clq_strategy *strategy) {
    clq_mirrored *mirrored = clq_alloc(1, sizeof *mirrored);
    if (!mirrored) return CLQ_MEMORY;
    strategy->mirrored = mirrored;
    strategy->pool.on_failure = abort_crew;
    strategy->pool.context = mirrored;
    if (strategy->count == 1) return CLQ_OK;
    CLQ_TRY(create_crew(strategy));
    CLQ_TRY(create_reducers(strategy));
    CLQ_TRY(shard_updates(strategy));
    if (owns_cores(strategy)) clq_crew_set_patience(mirrored->crew, patience_s);
    return CLQ_OK;
}

static void close_mirrored(clq_strategy *strategy) {
    clq_mirrored *mirrored = strategy->mirrored;
    if (!mirrored) return;
    for (unsigned r = 0; r < strategy->count; r++) clq_reducer_destroy(mirrored->mirrors[r].reducer);
    for (unsigned r = 0; r < strategy->count; r++) clq_plan_end_sharding(strategy->replicas[r].plan);
    clq_crew_destroy(mirrored->crew); /* nobody is inside now; its memory lies on the devices that close next */
    for (unsigned r = 0; r < strategy->count; r++) {
        clq_free(mirrored->mirrors[r].buckets);
        clq_free(mirrored->mirrors[r].exchanges.spans);
    }
    clq_free(mirrored);
}

/* ---- reports ---- */

static size_t parts(const clq_strategy *strategy, unsigned replica) {
    const clq_mirror *mirror = &strategy->mirrored->mirrors[replica];
    if (!strategy->mirrored->crew) return 1;
    return mirror->reducer ? mirror->bucket_count + 2 : 2; /* as of step */
}

static clq_comm_times comm_times(const clq_strategy *strategy) {
    const clq_mirrored *mirrored = strategy->mirrored;
    if (!mirrored->crew) return (clq_comm_times){0};
    return (clq_comm_times){.total_s = (double)clq_crew_busy_ns(mirrored->crew) * 1e-9,
                            .exposed_s = (double)atomic_load(&mirrored->mirrors[0].exposed_ns) * 1e-9};
}

static const clq_timeline *exchanges(const clq_strategy *strategy, unsigned replica) {
    return &strategy->mirrored->mirrors[replica].exchanges;
}

bool clq_strategy_shards_updates(const clq_strategy *strategy) {
    return strategy->mirrored && strategy->mirrored->shards_updates;
}

const clq_strategy_module clq_strategy_mirrored = {.kind = CLQ_STRATEGY_MIRRORED,
                                                   .name = "mirrored",
                                                   .open = open_mirrored,
                                                   .close = close_mirrored,
                                                   .step = step,
                                                   .reduce = reduce,
                                                   .note_gradients = note_gradients,
                                                   .make_current = make_current,
                                                   .parts = parts,
                                                   .comm_times = comm_times,
                                                   .exchanges = exchanges};
