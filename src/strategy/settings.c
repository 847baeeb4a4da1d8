/* Which settings of strategies go together, and with which strategy. */
#include "strategy/module.h"

/* ---- accumulation ---- */

/* Each replica keeps the gradients that it accumulates, so an update needs all replicas. */
clq_status clq_accumulation_check(const clq_strategy_module *module, const clq_strategy_options *options) {
    if (!module->accumulates)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "strategy %s makes an update of each batch: use single or mirrored to accumulate "
                        "batches, or a larger batch",
                        module->name);
    if (module->kind != CLQ_STRATEGY_PS || (options->staleness <= 0 && options->backup == 0)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "accumulating batches needs all replicas in each update: use strategy ps with a "
                    "staleness of 0 and no backup replicas, or another strategy");
}

static clq_status check_batches(const clq_strategy_config *config) {
    const uint64_t batches = config->options.accumulate;
    if (batches > CLQ_ACCUMULATE_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%llu batches to accumulate are too many: an update takes up to %d",
                        (unsigned long long)batches, CLQ_ACCUMULATE_MAX);
    if (batches * config->global_batch > INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%llu batches of %zu are too large for an update, which takes up to %d samples",
                        (unsigned long long)batches, config->global_batch, (int)INT32_MAX);
    if (batches > 1 && !config->plan.update)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%llu batches are to make an update, and a trainer for inference makes none",
                        (unsigned long long)batches);
    return CLQ_OK;
}

/* ---- all ---- */

/* Checks settings that only some modules have. */
static clq_status check_module(const clq_strategy_module *module, const clq_strategy_options *options,
                               unsigned replicas) {
    if (options->accumulate > 1) CLQ_TRY(clq_accumulation_check(module, options));
    if (options->backup > 0 && module->kind != CLQ_STRATEGY_PS)
        return clq_fail(CLQ_ERROR_ARGUMENT, "strategy %s has no backup replicas: use ps with a staleness of 0",
                        module->name);
    if ((options->stages || options->micro_batches) && module->kind != CLQ_STRATEGY_PIPELINE)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "stages and micro-batches are settings of strategy pipeline: use it in place of %s, or leave "
                        "them out",
                        module->name);
    if (options->shares != CLQ_SHARES_EQUAL && replicas > 1 && !module->takes_shares)
        return clq_fail(CLQ_ERROR_ARGUMENT, "strategy %s splits batches evenly: use strategy mirrored, or equal shares",
                        module->name);
    if (options->shard_optimizer && replicas > 1 && !module->shards_optimizer)
        return clq_fail(
            CLQ_ERROR_ARGUMENT,
            "strategy %s does not shard the optimizer: use strategy mirrored, or leave out the sharded optimizer",
            module->name);
    return CLQ_OK;
}

clq_status clq_settings_check(const clq_strategy_config *config, const clq_strategy_module *module) {
    CLQ_TRY(check_batches(config));
    CLQ_TRY(check_module(module, &config->options, config->total));
    CLQ_TRY(clq_compression_check(config, module));
    CLQ_TRY(clq_scaling_check(config, module));
    return clq_local_check(config, module);
}

/* A property that follows updates needs whole variables, and follows each update that all replicas make together. */
clq_status clq_properties_check(const clq_model *model, const clq_strategy_config *config) {
    const char *with = config->options.local_steps > 0                        ? "local steps"
                       : config->options.shard_optimizer && config->total > 1 ? "the sharded optimizer"
                       : clq_world_apart(config->world) > 0                   ? "store ranks of their own"
                                                                              : NULL;
    const clq_property *follows = clq_model_follows(model);
    if (!with || !config->plan.update || !follows) return CLQ_OK;
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "model %s has %s: leave out these, or %s", clq_model_name(model),
                    follows->names, with);
}
