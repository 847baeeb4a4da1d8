/* Peers are replicas that exchange with each other. Here are their communicators, and their collectives. */
#include "strategy/module.h"

#include <string.h>

/* ---- communicators ---- */

/* In the all-reduce of a step, replicas wait for the whole step of the slowest replica. That may be a CPU beside a GPU,
 * or a first step for which the driver still compiles. If a driver hangs, it mostly reports this within seconds. A
 * limit that is too long costs minutes of waiting. A limit that is too short ends a good training. 600 s is PyTorch's
 * default for NCCL. */
static const double default_deadline_s = 600;

double clq_strategy_deadline(const clq_strategy *strategy) {
    return strategy->config.group.deadline_s == 0 ? default_deadline_s : strategy->config.group.deadline_s;
}

clq_status clq_strategy_make_comm(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count,
                                  clq_comm **out) {
    clq_device *devices[CLQ_REPLICAS_MAX];
    clq_group_config config = strategy->config.group;
    clq_comm **comm = &strategy->comms[strategy->comm_count];
    for (unsigned i = 0; i < count; i++) devices[i] = strategy->replicas[first + i * stride].worker.device;
    config.deadline_s = clq_strategy_deadline(strategy);
    CLQ_TRY(clq_comm_create(devices, count, &config, comm));
    strategy->comm_count++;
    *out = *comm;
    return CLQ_OK;
}

clq_status clq_strategy_make_peers(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count) {
    clq_comm *comm;
    if (count == 1 && strategy->total == 1) return CLQ_OK;
    CLQ_TRY(clq_strategy_make_comm(strategy, first, stride, count, &comm));
    CLQ_TRY(clq_comm_span(comm, strategy->config.world));
    for (unsigned i = 0; i < count; i++) {
        clq_replica *replica = &strategy->replicas[first + i * stride];
        replica->peers = comm;
        replica->rank = i;
    }
    return CLQ_OK;
}

bool clq_peers_are_far(const clq_strategy *strategy) {
    return clq_strategy_spans(strategy) && !clq_world_is_near(strategy->config.world);
}

/* ---- collectives ---- */

clq_status clq_peers_run(clq_replica *replica, const clq_task *task, size_t bytes, bool traced) {
    if (traced) CLQ_TRY(clq_queue_finish(task->queue)); /* the wait for earlier kernels is no part of the exchange */
    const double began = traced ? clq_now() : 0.0;
    CLQ_TRY(clq_comm_run(replica->peers, replica->rank, task));
    if (!traced) return CLQ_OK;
    return clq_timeline_add(&replica->exchanges, began, clq_collective_name(task->collective), "bytes", bytes);
}

void clq_peers_note_exposed(clq_replica *replica, uint64_t ns) {
    if (replica->worker.index == 0) atomic_fetch_add(&replica->strategy->exposed_ns, ns);
}

clq_status clq_peers_run_exposed(clq_replica *replica, const clq_task *task, size_t bytes) {
    const uint64_t before = clq_comm_busy_ns(replica->peers);
    CLQ_TRY(clq_peers_run(replica, task, bytes, replica->worker.tracing));
    clq_peers_note_exposed(replica, clq_comm_busy_ns(replica->peers) - before);
    return CLQ_OK;
}

clq_task clq_peers_sum(clq_queue *queue, clq_buffer *values, clq_dtype dtype, size_t begin, size_t end) {
    return (clq_task){.collective = CLQ_ALL_REDUCE,
                      .queue = queue,
                      .in = values,
                      .out = values,
                      .in_offset = begin,
                      .out_offset = begin,
                      .count = clq_values_count(dtype, end - begin),
                      .dtype = dtype,
                      .op = CLQ_REDOP_SUM};
}

bool clq_peers_send_halves(const clq_strategy *strategy) {
    return strategy->config.options.compression.kind == CLQ_COMPRESSION_F16_BETWEEN;
}

clq_task clq_peers_sum_gradient(const clq_replica *replica, clq_queue *queue, size_t begin, size_t end) {
    clq_task task = clq_peers_sum(queue, clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT),
                                  clq_weights_dtype(replica->weights, CLQ_ARENA_GRADIENT), begin, end);
    task.halves = clq_peers_send_halves(replica->strategy);
    return task;
}

clq_status clq_peers_add_up(clq_replica *replica, clq_buffer *values, clq_dtype dtype, size_t bytes) {
    const clq_task task = clq_peers_sum(replica->worker.queue, values, dtype, 0, bytes);
    return clq_peers_run_exposed(replica, &task, bytes);
}

clq_status clq_peers_add_up_gradients(clq_replica *replica) {
    const size_t bytes = clq_buffer_bytes(clq_weights_arena(replica->weights, CLQ_ARENA_GRADIENT));
    if (!replica->peers) return CLQ_OK;
    const clq_task task = clq_peers_sum_gradient(replica, replica->worker.queue, 0, bytes);
    return clq_peers_run_exposed(replica, &task, bytes);
}

/* Replicas that train apart add up nothing. Each has statistics of its own, and the places of other replicas are
 * zero. */
clq_status clq_peers_all_reduce(void *context, clq_queue *queue, clq_buffer *values, size_t count) {
    clq_replica *replica = context;
    const bool computes = replica->pace.since > 0.0;
    (void)queue; /* the replica's queue */
    if (replica->strategy->apart) return CLQ_OK;
    CLQ_TRY(clq_pace_rest(replica, true));
    CLQ_TRY(clq_peers_add_up(replica, values, CLQ_F32, clq_values_bytes(CLQ_F32, count)));
    if (computes) clq_pace_compute(replica);
    return CLQ_OK;
}

clq_step_sum clq_peers_step_sum(const clq_replica *replica) {
    const clq_strategy *strategy = replica->strategy;
    return (clq_step_sum){strategy->first + replica->worker.index, strategy->total, clq_peers_all_reduce,
                          (void *)replica};
}

/* ---- state ---- */

/* Moving statistics are linear in the values that they are made of, and training does not read them. So an average that
 * is made early, because somebody reads the state, changes later averages only by rounding. */
static clq_status average_state(clq_worker *worker, const clq_command *command) {
    clq_replica *replica = clq_replica_of(worker);
    clq_buffer *state = clq_weights_arena(replica->weights, CLQ_ARENA_STATE);
    const clq_dtype dtype = clq_weights_dtype(replica->weights, CLQ_ARENA_STATE);
    const size_t bytes = clq_weights_apart_bytes(replica->weights);
    if (bytes == 0 || !replica->peers) return CLQ_OK; /* a stage may have no state */
    if (!command->counts) CLQ_TRY(clq_queue_fill_zero(worker->queue, state, 0, bytes));
    CLQ_TRY(clq_comm_all_reduce(replica->peers, replica->rank, worker->queue, state, 0, state, 0,
                                clq_values_count(dtype, bytes), dtype));
    return clq_weights_mean_state(replica->weights, worker->queue, command->params.count);
}
static const clq_command_kind average_kind = {.name = "average state", .run = average_state};

void clq_strategy_average_state(clq_strategy *strategy) {
    clq_command command = {.kind = &average_kind};
    clq_ranks_share_computed(strategy);
    for (unsigned r = 0; r < strategy->total; r += strategy->group) command.params.count += strategy->computed[r];
    for (unsigned r = 0; r < strategy->count && command.params.count > 0; r++) {
        command.counts = strategy->computed[strategy->first + r];
        clq_channel_put(strategy->replicas[r].worker.commands, &command);
    }
    memset(strategy->computed, 0, strategy->total * sizeof *strategy->computed);
}
