/* The config of a trainer: its defaults, and the checks that need no model. */
#include "train/settings.h"
#include "train/sharding.h"
#include "train/trainer.h"

void clq_trainer_config_init(clq_trainer_config *config, size_t config_bytes) {
    const clq_trainer_config defaults = {.optimizer = clq_optimizer_default(CLQ_OPTIMIZER_ADAM),
                                         .loss = clq_loss_default(CLQ_LOSS_SPARSE_CATEGORICAL),
                                         .global_batch = 64,
                                         .sample_dtype = CLQ_U8,
                                         .strategy_options = {.staleness = 4}};
    clq_struct_give(&defaults, sizeof defaults, config, config_bytes);
}

/* Checks the reserved members of the structs within the config. Does not read arrays whose counts are too large: the
 * counts are refused later. */
static clq_status check_reserves(const clq_trainer_config *config) {
    const clq_strategy_options *options = &config->strategy_options;
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_loss, &config->loss));
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_strategy_options, options));
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_compression, &options->compression));
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_clip, &config->clip));
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_group_config, &config->group));
    if (options->unused != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "clq_strategy_options.unused is %u: expected 0", options->unused);
    const size_t outputs = config->output_count <= CLQ_MODEL_OUTPUTS_MAX ? config->output_count : 0;
    const size_t optimizers = config->optimizer_count < CLQ_OPTIMIZERS_MAX ? config->optimizer_count : 0;
    for (size_t i = 0; config->outputs && i < outputs; i++) {
        const clq_output_config *output = &config->outputs[i];
        CLQ_TRY(CLQ_RESERVE_CHECK(clq_output_config, output));
        CLQ_TRY(CLQ_RESERVE_CHECK(clq_loss, &output->loss));
    }
    for (size_t i = 0; config->optimizers && i < optimizers; i++)
        CLQ_TRY(CLQ_RESERVE_CHECK(clq_optimizer_config, &config->optimizers[i]));
    return CLQ_OK;
}

clq_status clq_trainer_check_config(const clq_trainer_config *config) {
    CLQ_TRY(check_reserves(config));
    CLQ_TRY(clq_settings_check_config(config));
    CLQ_TRY(clq_optimizer_check(&config->optimizer));
    CLQ_TRY(clq_lr_schedule_check(&config->schedule));
    CLQ_TRY(clq_clip_check(&config->clip));
    CLQ_TRY(clq_average_check(config->average));
    if (config->learning_rate && config->schedule.kind != CLQ_LR_SCHEDULE_CONSTANT)
        return clq_fail(CLQ_ERROR_ARGUMENT, "both a schedule, %s, and a learning_rate function: leave one of them out",
                        clq_lr_schedule_row_of(config->schedule.kind)->name);
    if (config->global_batch == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "the global batch must be at least 1");
    CLQ_TRY(clq_mixed_check(config));
    CLQ_TRY(clq_sharding_check(config));
    if (config->strategy_options.staleness < 0 || config->strategy_options.staleness > CLQ_STALENESS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a staleness of %d: expected 0, which is synchronous, to %d",
                        (int)config->strategy_options.staleness, (int)CLQ_STALENESS_MAX);
    if (config->part > 0 && config->parts == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "part %u of a model, and parts is 0: set how many the model has",
                        config->part);
    return CLQ_OK;
}
