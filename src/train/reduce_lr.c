/* Lowers the learning rate when epochs no longer improve, as keras.callbacks.ReduceLROnPlateau. */
#include "train/callbacks.h"

#include <math.h>

static const char reduce_lr[] = "reduce_lr";

typedef struct reducing {
    clq_reduce_lr config;
    clq_watch watch;
    uint64_t wait, cooldown; /* wait: epochs without an improvement; cooldown: epochs until wait counts again */
    double rate;             /* the last rate that was set; NaN: none */
    bool restored;
} reducing;

static clq_status on_begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    reducing *r = context;
    if (clq_trainer_has_schedule(trainer))
        return clq_fail(CLQ_ERROR_STATE, "%s: the trainer's schedule sets the learning rate: leave one of the two out",
                        reduce_lr);
    CLQ_TRY(clq_watch_begin(&r->watch, trainer, config, reduce_lr));
    if (r->watch.anew) r->wait = 0;
    r->watch.anew = false;
    if (r->restored) return isnan(r->rate) ? CLQ_OK : clq_trainer_set_learning_rate(trainer, r->rate);
    clq_watch_forget(&r->watch);
    r->rate = (double)NAN;
    r->wait = r->cooldown = 0;
    return CLQ_OK;
}

static clq_status reduce(reducing *r, clq_trainer *trainer) {
    const double rate = trainer->config.optimizer.values[0];
    if (!(rate > r->config.min_lr)) return CLQ_OK;
    const double next = fmax(rate * r->config.factor, r->config.min_lr);
    CLQ_TRY(clq_trainer_set_learning_rate(trainer, next));
    clq_log(CLQ_LOG_INFO, "%s: the learning rate is %g, after %g", reduce_lr, next, rate);
    r->rate = next;
    r->cooldown = r->config.cooldown;
    r->wait = 0;
    return CLQ_OK;
}

static clq_status on_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    reducing *r = context;
    if (!clq_watch_has_value(&r->watch, info)) return CLQ_OK;
    if (r->cooldown > 0) {
        r->cooldown--;
        r->wait = 0;
    }
    if (clq_watch_take(&r->watch, clq_watch_value(&r->watch, info)))
        r->wait = 0;
    else if (r->cooldown == 0 && ++r->wait >= r->config.patience)
        return reduce(r, trainer);
    return CLQ_OK;
}

static clq_status on_end(void *context, clq_trainer *trainer, clq_status status) {
    (void)trainer;
    (void)status;
    ((reducing *)context)->restored = false;
    return CLQ_OK;
}

static clq_status save(void *context, char *text, size_t bytes) {
    const reducing *r = context;
    json_t *state = json_pack("{s:o, s:I, s:I}", "rate", clq_json_number(r->rate), "wait", (json_int_t)r->wait,
                              "cooldown", (json_int_t)r->cooldown);
    return clq_state_write(reduce_lr, clq_watch_save(&r->watch, state), text, bytes);
}

static clq_status restore(void *context, const char *text) {
    reducing *r = context, result = *r;
    json_t *state;
    CLQ_TRY(clq_state_read(reduce_lr, text, &state));
    clq_status status = clq_watch_restore(reduce_lr, state, &result.watch);
    if (status == CLQ_OK) status = clq_state_number(reduce_lr, state, "rate", &result.rate);
    if (status == CLQ_OK) status = clq_state_count(reduce_lr, state, "wait", &result.wait);
    if (status == CLQ_OK) status = clq_state_count(reduce_lr, state, "cooldown", &result.cooldown);
    json_decref(state);
    CLQ_TRY(status);
    result.restored = true;
    *r = result;
    return CLQ_OK;
}

clq_reduce_lr clq_reduce_lr_default(void) {
    return (clq_reduce_lr){.monitor = {.min_delta = 1e-4}, .factor = 0.1, .patience = 10};
}

clq_status clq_callback_reduce_lr(const clq_reduce_lr *config, clq_callback *out) {
    clq_watch watch;
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_reduce_lr, config));
    CLQ_TRY(clq_watch_open(&watch, &config->monitor, reduce_lr));
    if (!(config->factor > 0.0 && config->factor < 1.0))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: factor %g is not a number above 0 and below 1", reduce_lr,
                        config->factor);
    if (!(config->min_lr >= 0.0 && config->min_lr <= 1e6))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: min_lr %g is not a number from 0 to 1e6", reduce_lr, config->min_lr);
    reducing *r = clq_alloc(1, sizeof *r);
    if (!r) return CLQ_ERROR_MEMORY;
    *r = (reducing){.config = *config, .watch = watch, .rate = (double)NAN};
    *out = (clq_callback){.name = reduce_lr,
                          .context = r,
                          .on_begin = on_begin,
                          .on_epoch = on_epoch,
                          .on_end = on_end,
                          .save = save,
                          .restore = restore,
                          .destroy = clq_free};
    return CLQ_OK;
}

clq_status clq_reduce_lr_parse(const char *text, clq_reduce_lr *out) {
    static const char what[] = "reduce lr";
    static const clq_option options[] = {
        {"min_delta", 0, 0, 1e300, CLQ_NUMBER}, {"patience", 0, 0, 1e15, CLQ_WHOLE},
        {"cooldown", 0, 0, 1e15, CLQ_WHOLE},    {"factor", 0, 1e-12, 1 - 1e-12, CLQ_NUMBER},
        {"min_lr", 0, 0, 1e6, CLQ_NUMBER},      {NULL, 0, 0, 0, CLQ_NUMBER}};
    clq_reduce_lr result = *out;
    double values[] = {result.monitor.min_delta, (double)result.patience, (double)result.cooldown, result.factor,
                       result.min_lr};
    CLQ_TRY(clq_watch_parse(what, text, options, &result.monitor, values));
    result.monitor.min_delta = values[0];
    result.patience = (uint64_t)values[1];
    result.cooldown = (uint64_t)values[2];
    result.factor = values[3];
    result.min_lr = values[4];
    *out = result;
    return CLQ_OK;
}
