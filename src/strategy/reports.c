/* Answers questions about a strategy: its replicas, its shares, and how long things took. */
#include "strategy/module.h"

/* ---- what it is ---- */

bool clq_strategy_shards_updates(const clq_strategy *strategy) { return strategy->paths.on[CLQ_PATH_SHARDED_UPDATE]; }
unsigned clq_strategy_replicas(const clq_strategy *strategy) { return strategy->count; }
clq_device *clq_strategy_device(const clq_strategy *strategy, unsigned replica) {
    return strategy->replicas[replica].worker.device;
}
const clq_plan *clq_strategy_plan(const clq_strategy *strategy, unsigned replica) {
    return strategy->replicas[replica].plan;
}
const clq_feed *clq_strategy_feed(const clq_strategy *strategy) { return &strategy->feed; }
size_t clq_strategy_calls(const clq_strategy *strategy, unsigned replica) {
    size_t (*const runs)(const clq_strategy *, unsigned) =
        strategy->module->runs ? strategy->module->runs : strategy->exchange->runs;
    return clq_plan_calls(strategy->replicas[replica].plan, runs ? runs(strategy, replica) : 1);
}
size_t clq_strategy_share(clq_strategy *strategy, unsigned replica) {
    clq_batch_part parts[CLQ_REPLICAS_MAX];
    clq_strategy_split(strategy, NULL, strategy->config.global_batch, parts);
    return parts[replica].count;
}

size_t clq_strategy_share_changes(const clq_strategy *strategy) { return clq_shares_change_count(strategy->shares); }
uint64_t clq_strategy_share_change(const clq_strategy *strategy, size_t index, size_t *counts) {
    return clq_shares_change(strategy->shares, index, counts);
}

size_t clq_strategy_capacity(const clq_strategy *strategy, unsigned replica) {
    return strategy->replicas[replica].capacity;
}

const clq_tune_log *clq_strategy_tune_log(const clq_strategy *strategy) { return &strategy->tune_log; }

double clq_strategy_waited(const clq_strategy *strategy, unsigned replica) {
    const clq_replica *own = &strategy->replicas[replica];
    return strategy->module->tells_waits && own->peers ? (double)clq_comm_waited_ns(own->peers, own->rank) * 1e-9 : 0.0;
}

clq_comm_times clq_strategy_comm_times(const clq_strategy *strategy) {
    const clq_comm *peers = strategy->replicas[0].peers;
    const double exposed_s = (double)atomic_load(&strategy->exposed_ns) * 1e-9;
    const bool among_peers = peers && !strategy->module->stores;
    return (clq_comm_times){.total_s = among_peers ? (double)clq_comm_busy_ns(peers) * 1e-9 : exposed_s,
                            .exposed_s = exposed_s};
}

/* ---- what it did ---- */

clq_status clq_strategy_step_times(clq_strategy *strategy, unsigned replica, size_t most, float *seconds,
                                   size_t *count) {
    CLQ_TRY(clq_strategy_wait(strategy)); /* then the replica's thread has nothing to do */
    const clq_worker *r = &strategy->replicas[replica].worker;
    uint64_t kept = CLQ_MIN(r->steps_timed, (uint64_t)CLQ_STEP_TIMES);
    *count = (size_t)CLQ_MIN(kept, (uint64_t)most);
    for (size_t i = 0; i < *count; i++) seconds[i] = r->step_s[(r->steps_timed - *count + i) % CLQ_STEP_TIMES];
    return CLQ_OK;
}

clq_status clq_strategy_trace(clq_strategy *strategy, unsigned replica, clq_replica_trace *out) {
    CLQ_TRY(clq_strategy_wait(strategy)); /* then the replica's thread does not use its queue */
    const clq_worker *worker = &strategy->replicas[replica].worker;
    clq_queue *uploads = strategy->replicas[replica].uploads.queue;
    clq_replica_trace result = {.steps = &worker->steps, .exchange = &strategy->replicas[replica].exchanges};
    double error_s = 0.0;
    if (uploads) CLQ_TRY(clq_queue_spans(uploads, &result.uploads, &result.upload_count, &error_s));
    clq_status status = clq_queue_spans(worker->queue, &result.queue, &result.queue_count, &result.clock_error_s);
    if (status != CLQ_OK) {
        clq_free(result.uploads);
        return status;
    }
    result.clock_error_s = CLQ_MAX(result.clock_error_s, error_s);
    *out = result;
    return CLQ_OK;
}
