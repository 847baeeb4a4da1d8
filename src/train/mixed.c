/* Mixed precision in a trainer's config, and its loss scale. */
#include "train/trainer.h"

#include <math.h>

enum { INTERVAL_DEFAULT = 2000 }; /* Keras's */
static const double scale_default = 0x1p15;

clq_status clq_mixed_check(const clq_trainer_config *config) {
    if ((unsigned)config->precision > CLQ_PRECISION_MIXED_BF16)
        return clq_fail(CLQ_ERROR_ARGUMENT, "precision %d is none of clq_precision", (int)config->precision);
    if (config->loss_scale == 0.0 && config->loss_scale_interval == 0) return CLQ_OK;
    if (config->precision != CLQ_PRECISION_MIXED)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a loss scale is of precision mixed, and the precision is %s: leave it out",
                        clq_precision_name(config->precision));
    if (config->loss_scale != 0.0 && !(config->loss_scale >= 1.0 && config->loss_scale <= CLQ_LOSS_SCALE_MOST))
        return clq_fail(CLQ_ERROR_ARGUMENT, "a loss scale of %g: expected a number from 1 to 2^126",
                        config->loss_scale);
    if (config->loss_scale_interval > INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a loss scale cannot double after %u steps: expected at most %d",
                        config->loss_scale_interval, (int)INT32_MAX);
    return CLQ_OK;
}

clq_dtype clq_mixed_activations(clq_precision precision) {
    switch (precision) {
    case CLQ_PRECISION_F32: break;
    case CLQ_PRECISION_MIXED: return CLQ_F16;
    case CLQ_PRECISION_MIXED_BF16: return CLQ_BF16;
    }
    return CLQ_F32;
}

clq_loss_scaling clq_mixed_scaling(const clq_trainer_config *config) {
    if (config->precision != CLQ_PRECISION_MIXED || config->inference_only) return (clq_loss_scaling){0};
    return (clq_loss_scaling){.initial = (float)(config->loss_scale > 0.0 ? config->loss_scale : scale_default),
                              .interval = config->loss_scale_interval ? config->loss_scale_interval : INTERVAL_DEFAULT};
}

clq_status clq_trainer_loss_scale(clq_trainer *trainer, double *scale, uint64_t *skipped) {
    int32_t state[CLQ_SCALING_INTS];
    if (!clq_strategy_scales(trainer->strategy))
        return clq_fail(CLQ_ERROR_STATE,
                        "this trainer has no loss scale: create it for training, with precision MIXED");
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_trainer_loss_scale"));
    CLQ_TRY(clq_strategy_wait(trainer->strategy));
    CLQ_TRY(clq_strategy_read_scaling(trainer->strategy, state));
    if (scale) *scale = ldexp((double)clq_mixed_scaling(&trainer->config).initial, state[CLQ_SCALING_EXPONENT]);
    if (skipped) *skipped = (uint64_t)state[CLQ_SCALING_SKIPPED];
    return CLQ_OK;
}
