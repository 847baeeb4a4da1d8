/* An exchange of compressed gradients. Each replica keeps the compression error, and adds it to its next gradient. */
#include "strategy/module.h"

bool clq_compresses(const clq_strategy_options *options) {
    return options->compression.kind == CLQ_COMPRESSION_F16 || options->compression.kind == CLQ_COMPRESSION_TOP_K;
}

clq_status clq_compression_check(const clq_strategy_config *config, const clq_strategy_module *module) {
    const clq_compression *how = &config->options.compression;
    const bool between = how->kind == CLQ_COMPRESSION_F16_BETWEEN;
    if ((unsigned)how->kind > CLQ_COMPRESSION_F16_BETWEEN)
        return clq_fail(CLQ_ERROR_ARGUMENT, "compression %d is none of clq_compression_kind", (int)how->kind);
    if (how->kind == CLQ_COMPRESSION_TOP_K && !(how->fraction > 0 && how->fraction <= 1))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "compression topk=%g: the fraction of the gradient is above 0 and at most 1", how->fraction);
    if (how->kind == CLQ_COMPRESSION_OFF) return CLQ_OK;
    if (config->options.shard_optimizer && !between)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "compression and a sharded optimizer do not go together: leave out one of them");
    if (module == &clq_strategy_mirrored || (between && module == &clq_strategy_pipeline)) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_ARGUMENT,
        "only mirrored replicas compress gradients: use strategy mirrored in place of %s, or no compression",
        module->name);
}

static clq_compressor *compressor_of(const clq_strategy *strategy, unsigned replica) {
    clq_compressor **all = strategy->exchange_own;
    return all[replica];
}

static clq_status reduce(clq_replica *replica) {
    clq_compressor *compressor = compressor_of(replica->strategy, replica->worker.index);
    clq_queue *queue = replica->worker.queue;
    const clq_compressed message = clq_compressor_message(compressor);
    CLQ_TRY(clq_compressor_pack(compressor, queue));
    const clq_task task = {.collective = message.gathered ? CLQ_ALL_GATHER : CLQ_ALL_REDUCE,
                           .queue = queue,
                           .in = message.sent,
                           .out = message.arrived,
                           .count = message.count,
                           .dtype = message.dtype};
    CLQ_TRY(clq_peers_run_exposed(replica, &task, clq_values_bytes(message.dtype, message.count)));
    return clq_compressor_unpack(compressor, queue);
}

static clq_status open(clq_strategy *strategy) {
    clq_compressor **all = strategy->exchange_own = clq_alloc(strategy->count, sizeof *all);
    if (!all) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < strategy->count; r++)
        CLQ_TRY(clq_compressor_create(strategy->replicas[r].weights, &strategy->config.options.compression,
                                      strategy->total, &all[r]));
    return CLQ_OK;
}

static void close(clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count && strategy->exchange_own; r++)
        clq_compressor_destroy(compressor_of(strategy, r));
    clq_free(strategy->exchange_own);
}

static void keeps(clq_strategy *strategy, clq_kept *out) {
    for (unsigned r = 0; r < strategy->count; r++) out->errors[r] = clq_compressor_error(compressor_of(strategy, r));
}

const clq_exchange_kind clq_exchange_compressed = {.open = open,
                                                   .close = close,
                                                   .begin = clq_exchange_run_backward,
                                                   .update = clq_replica_apply,
                                                   .reduce = reduce,
                                                   .keeps = keeps,
                                                   .runs = clq_exchange_two_runs};
