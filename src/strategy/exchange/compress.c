/* Another exchange of the mirrored strategy: replicas exchange compressed gradients. Each replica keeps the compression
 * error, and adds it to its next gradient. */
#include "strategy/modules/mirrored.h"

clq_status clq_compression_check(const clq_strategy_config *config, const clq_strategy_module *module) {
    const clq_compression *how = &config->options.compression;
    if ((unsigned)how->kind > CLQ_COMPRESSION_TOP_K)
        return clq_fail(CLQ_ARGUMENT, "compression %d is none of clq_compression_kind", (int)how->kind);
    if (how->kind == CLQ_COMPRESSION_TOP_K && !(how->fraction > 0 && how->fraction <= 1))
        return clq_fail(CLQ_ARGUMENT, "compression topk=%g: the fraction of the gradient is above 0 and at most 1",
                        how->fraction);
    if (how->kind == CLQ_COMPRESSION_OFF) return CLQ_OK;
    if (config->options.shard_optimizer)
        return clq_fail(CLQ_ARGUMENT, "compression and a sharded optimizer do not go together: leave out one of them");
    if (module == &clq_strategy_mirrored) return CLQ_OK;
    return clq_fail(
        CLQ_ARGUMENT,
        "only mirrored replicas compress gradients: use strategy mirrored in place of %s, or no compression",
        module->name);
}

clq_status clq_compressed_reduce(clq_replica *replica) {
    clq_compressor *compressor = clq_mirror_of(replica)->compressor;
    clq_queue *queue = replica->worker.queue;
    const clq_compressed message = clq_compressor_message(compressor);
    CLQ_TRY(clq_compressor_pack(compressor, queue));
    const clq_task task = {.collective = message.gathered ? CLQ_ALL_GATHER : CLQ_ALL_REDUCE,
                           .queue = queue,
                           .in = message.sent,
                           .out = message.arrived,
                           .count = message.count,
                           .dtype = message.dtype};
    CLQ_TRY(clq_mirrored_run_exposed(replica, &task, clq_values_bytes(message.dtype, message.count)));
    return clq_compressor_unpack(compressor, queue);
}

clq_status clq_compression_open(clq_strategy *strategy) {
    const clq_compression *how = &strategy->config.options.compression;
    if (!clq_mirrored_compresses(strategy)) return CLQ_OK;
    for (unsigned r = 0; r < strategy->count; r++)
        CLQ_TRY(clq_compressor_create(strategy->replicas[r].weights, how, strategy->count,
                                      &clq_mirrored_of_strategy(strategy)->mirrors[r].compressor));
    return CLQ_OK;
}

void clq_compression_close(clq_strategy *strategy) {
    for (unsigned r = 0; r < strategy->count; r++)
        clq_compressor_destroy(clq_mirrored_of_strategy(strategy)->mirrors[r].compressor);
}
