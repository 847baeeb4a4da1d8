/* on_log of clq_fit: the measurements of many steps are read at once, and told step by step, in order. */
#include "train/trainer.h"

#include <string.h>

static const uint32_t steps_default = 50;
static const double seconds_default = 1.0;

clq_status clq_fit_log_open(clq_fit_log *log, const clq_fit_config *config, bool is_counted) {
    *log = (clq_fit_log){.config = config, .is_counted = is_counted};
    if (!(config->log_every_s >= 0.0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "log_every_s is %g: expected at least 0", config->log_every_s);
    if (!config->on_log) return CLQ_OK;
    log->every = CLQ_MIN(config->log_every ? config->log_every : steps_default, (uint32_t)CLQ_METRIC_SLOTS);
    log->every_s = config->log_every_s > 0.0 ? config->log_every_s : seconds_default;
    log->steps = clq_alloc(log->every, sizeof *log->steps);
    return log->steps ? CLQ_OK : CLQ_ERROR_MEMORY;
}

void clq_fit_log_note(clq_fit_log *log, clq_trainer *trainer, size_t samples) {
    log->steps[log->noted++] =
        (clq_step_info){.step = trainer->step, .lr = clq_trainer_learning_rate(trainer), .samples = samples};
}

void clq_fit_log_fill(clq_fit_log *log, const clq_trainer *trainer, uint32_t slot, const double *row,
                      const float *squares, bool ends) {
    const unsigned width = clq_trainer_width(trainer);
    for (unsigned k = 0; k < width; k++) log->totals[k] += row[k];
    if (!ends) return;
    clq_step_info *info = &log->steps[log->filled++];
    double ended = clq_strategy_step_ended(trainer->strategy, info->step);
    clq_trainer_tell(trainer, log->totals, info->samples, &info->loss, &info->metrics);
    clq_trainer_tell_origin(trainer, slot, info);
    memset(log->totals, 0, width * sizeof *log->totals);
    info->grad_norm = clq_trainer_norm(trainer, squares);
    info->seconds = ended - log->last_ended;
    log->last_ended = ended;
    log->read_at = clq_now();
}

bool clq_fit_log_is_due(const clq_fit_log *log) {
    if (log->noted == log->filled) return false;
    return log->noted == log->every || (!log->is_counted && clq_now() - log->read_at >= log->every_s);
}

clq_status clq_fit_log_tell(clq_fit_log *log) {
    clq_error wish = {.status = CLQ_OK};
    for (; log->told < log->filled; log->told++) {
        clq_status status = CLQ_ASK(log->config->on_log(log->config->context, &log->steps[log->told]), "on_log");
        if (log->is_counted && status == CLQ_ERROR_INTERRUPTED) { /* steps go on until all processes meet */
            clq_error_take(status, &wish);
            status = CLQ_OK;
        }
        log->refused = status != CLQ_OK;
        CLQ_TRY(status);
    }
    if (log->told == log->noted) log->told = log->filled = log->noted = 0;
    return clq_error_raise(&wish);
}
