/* Early stopping, as keras.callbacks.EarlyStopping: the fit ends when epochs no longer improve. */
#include "train/callbacks.h"

#include <math.h>
#include <string.h>

static const char early_stopping[] = "early_stopping";

typedef struct stopping {
    clq_early_stopping config;
    clq_watch watch;
    uint64_t wait; /* epochs without an improvement, so far */
    uint64_t best_epoch;
    bool stopped, restored; /* stopped: it ended the fit; restored: its state is from a checkpoint */
    bool put_back;          /* the trainer got the best epoch's weights at the end of the last fit */
    float *weights;         /* of best_epoch, while a fit is under way or after a restore; NULL: none */
} stopping;

static void reset(stopping *s) {
    clq_watch_forget(&s->watch);
    s->wait = s->best_epoch = 0;
    clq_free(s->weights);
    s->weights = NULL;
}

static clq_status on_begin(void *context, clq_trainer *trainer, const clq_fit_config *config) {
    stopping *s = context;
    CLQ_TRY(clq_watch_begin(&s->watch, trainer, config, early_stopping));
    if (!s->restored || s->watch.anew) reset(s);
    s->watch.anew = false;
    s->stopped = s->put_back = false;
    return CLQ_OK;
}

static clq_status on_epoch(void *context, clq_trainer *trainer, const clq_epoch_info *info) {
    stopping *s = context;
    const double value = clq_watch_value(&s->watch, info);
    if (info->epoch < s->config.start_from_epoch || !clq_watch_has_value(&s->watch, info)) return CLQ_OK;
    s->wait++;
    if (clq_watch_take(&s->watch, value)) {
        s->best_epoch = info->epoch;
        if (s->config.restore_best_weights) CLQ_TRY(clq_trainer_copy_weights(trainer, &s->weights));
        if (!s->config.has_baseline || clq_watch_improves(&s->watch, value, s->config.baseline)) s->wait = 0;
        return CLQ_OK;
    }
    if (s->wait < s->config.patience || info->epoch == 0) return CLQ_OK;
    s->stopped = true;
    return clq_fit_stop(trainer);
}

static clq_status on_end(void *context, clq_trainer *trainer, clq_status status) {
    stopping *s = context;
    clq_status result = CLQ_OK;
    if (status == CLQ_OK && s->config.restore_best_weights) {
        if (s->weights) result = clq_trainer_put_weights(trainer, s->weights);
        if (!s->weights && s->watch.any)
            clq_log(CLQ_LOG_WARNING,
                    "%s: the last weights stay: the checkpoint that the training goes on from was taken without "
                    "restore_best, and has none of the best epoch",
                    early_stopping);
        s->put_back = s->weights && result == CLQ_OK;
    }
    clq_free(s->weights);
    s->weights = NULL;
    s->restored = false;
    return result;
}

static clq_status save(void *context, char *text, size_t bytes) {
    const stopping *s = context;
    json_t *state = json_pack("{s:I, s:I}", "best_epoch", (json_int_t)s->best_epoch, "wait", (json_int_t)s->wait);
    return clq_state_write(early_stopping, clq_watch_save(&s->watch, state), text, bytes);
}

static clq_status restore(void *context, const char *text) {
    stopping *s = context, result = *s;
    json_t *state;
    CLQ_TRY(clq_state_read(early_stopping, text, &state));
    clq_status status = clq_watch_restore(early_stopping, state, &result.watch);
    if (status == CLQ_OK) status = clq_state_count(early_stopping, state, "best_epoch", &result.best_epoch);
    if (status == CLQ_OK) status = clq_state_count(early_stopping, state, "wait", &result.wait);
    json_decref(state);
    CLQ_TRY(status);
    result.restored = true;
    clq_free(s->weights);
    result.weights = NULL;
    *s = result;
    return CLQ_OK;
}

static const float *weights(void *context) { return ((const stopping *)context)->weights; }

static clq_status restore_weights(void *context, const float *values, size_t count) {
    stopping *s = context;
    if (!s->config.restore_best_weights || !s->watch.any) return CLQ_OK;
    float *copy = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *copy);
    if (!copy) return CLQ_ERROR_MEMORY;
    memcpy(copy, values, count * sizeof *copy);
    clq_free(s->weights);
    s->weights = copy;
    return CLQ_OK;
}

clq_status clq_early_stopping_read(const clq_callback *callback, clq_early_stopping_result *out) {
    if (callback->on_epoch != on_epoch)
        return clq_fail(CLQ_ERROR_ARGUMENT, "callback '%s' is not of clq_callback_early_stopping",
                        callback->name ? callback->name : "");
    const stopping *s = callback->context;
    const bool any = s->watch.any && isfinite(s->watch.best);
    *out = (clq_early_stopping_result){.stopped = s->stopped,
                                       .has_best = any,
                                       .best_epoch = any ? s->best_epoch : 0,
                                       .best = any ? s->watch.best : 0.0,
                                       .restored_best_weights = s->put_back};
    return CLQ_OK;
}

static void destroy(void *context) {
    stopping *s = context;
    clq_free(s->weights);
    clq_free(s);
}

clq_status clq_callback_early_stopping(const clq_early_stopping *config, clq_callback *out) {
    clq_watch watch;
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_early_stopping, config));
    CLQ_TRY(clq_watch_open(&watch, &config->monitor, early_stopping));
    if (config->has_baseline && !isfinite(config->baseline))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s: baseline %g is not finite", early_stopping, config->baseline);
    stopping *s = clq_alloc(1, sizeof *s);
    if (!s) return CLQ_ERROR_MEMORY;
    s->config = *config;
    s->watch = watch;
    *out = (clq_callback){.name = early_stopping,
                          .context = s,
                          .on_begin = on_begin,
                          .on_epoch = on_epoch,
                          .on_end = on_end,
                          .save = save,
                          .restore = restore,
                          .weights = weights,
                          .restore_weights = restore_weights,
                          .destroy = destroy};
    return CLQ_OK;
}

clq_status clq_early_stopping_parse(const char *text, clq_early_stopping *out) {
    static const char what[] = "early stopping";
    static const clq_option options[] = {
        {"min_delta", 0, 0, 1e300, CLQ_NUMBER},      {"patience", 0, 0, 1e15, CLQ_WHOLE},
        {"start_from_epoch", 0, 0, 1e15, CLQ_WHOLE}, {"baseline", 0, -1e300, 1e300, CLQ_NUMBER},
        {"restore_best", 0, 0, 1, CLQ_FLAG},         {NULL, 0, 0, 0, CLQ_NUMBER}};
    clq_early_stopping result = *out;
    double values[] = {result.monitor.min_delta, (double)result.patience, (double)result.start_from_epoch,
                       result.has_baseline ? result.baseline : (double)NAN, result.restore_best_weights};
    CLQ_TRY(clq_watch_parse(what, text, options, &result.monitor, values));
    result.monitor.min_delta = values[0];
    result.patience = (uint64_t)values[1];
    result.start_from_epoch = (uint64_t)values[2];
    result.has_baseline = !isnan(values[3]);
    result.baseline = result.has_baseline ? values[3] : 0.0;
    result.restore_best_weights = values[4] != 0.0;
    *out = result;
    return CLQ_OK;
}
