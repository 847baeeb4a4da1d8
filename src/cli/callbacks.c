/* Callbacks of `clique train`: what its options ask for, and what came of it. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>

/* Its row in the list. */
static clq_callback *next_of(clq_train_callbacks *callbacks) { return &callbacks->list[callbacks->count]; }

static clq_status add_early_stopping(const clq_options *o, clq_train_callbacks *to) {
    clq_early_stopping config = {.patience = 0};
    CLQ_TRY(clq_early_stopping_parse(o->early_stopping, &config));
    if (o->ema && config.restore_best_weights)
        return clq_fail(CLQ_ARGUMENT, "--ema and restore_best of --early-stopping exclude each other: at the end the "
                                      "weights become their averages, or those of the best epoch");
    CLQ_TRY(clq_callback_early_stopping(&config, next_of(to)));
    to->early_stopping = next_of(to);
    to->count++;
    return CLQ_OK;
}

static clq_status add_reduce_lr(const clq_options *o, clq_train_callbacks *to) {
    clq_reduce_lr config = clq_reduce_lr_default();
    clq_lr_schedule schedule;
    CLQ_TRY(clq_lr_schedule_parse(o->schedule, &schedule));
    if (schedule.kind != CLQ_LR_SCHEDULE_CONSTANT || schedule.values[CLQ_LR_WARMUP] > 0.0)
        return clq_fail(CLQ_ARGUMENT, "--reduce-lr and --schedule exclude each other: both set the learning rate");
    CLQ_TRY(clq_reduce_lr_parse(o->reduce_lr, &config));
    CLQ_TRY(clq_callback_reduce_lr(&config, next_of(to)));
    to->count++;
    return CLQ_OK;
}

static clq_status add_save_best(const clq_options *o, clq_train_callbacks *to) {
    clq_monitor monitor = {.mode = CLQ_MONITOR_AUTO};
    if (o->monitor && strlen(o->monitor) >= sizeof monitor.name)
        return clq_fail(CLQ_ARGUMENT, "--monitor '%.40s…' is no name of a metric", o->monitor);
    if (o->monitor) memcpy(monitor.name, o->monitor, strlen(o->monitor) + 1);
    CLQ_TRY(clq_callback_save_best(o->save_best, &monitor, next_of(to)));
    to->count++;
    return CLQ_OK;
}

static clq_status add_csv(const clq_options *o, clq_train_callbacks *to) {
    CLQ_TRY(clq_callback_csv(o->csv, false, next_of(to)));
    to->count++;
    return CLQ_OK;
}

clq_status clq_train_callbacks_open(const clq_options *o, clq_train_callbacks *out) {
    if (o->monitor && !o->save_best)
        return clq_fail(CLQ_ARGUMENT, "--monitor is what --save-best goes by: --early-stopping and --reduce-lr have a "
                                      "key monitor of their own");
    if (o->early_stopping) CLQ_TRY(add_early_stopping(o, out));
    if (o->reduce_lr) CLQ_TRY(add_reduce_lr(o, out));
    if (o->save_best) CLQ_TRY(add_save_best(o, out));
    return o->csv ? add_csv(o, out) : CLQ_OK;
}

void clq_train_callbacks_close(clq_train_callbacks *callbacks) {
    for (size_t i = 0; i < CLQ_COUNT_OF(callbacks->list); i++) clq_callback_destroy(&callbacks->list[i]);
    *callbacks = (clq_train_callbacks){.count = 0};
}

/* Epochs are counted from 1, as the lines of epochs do. */
clq_status clq_train_callbacks_tell(const clq_train_callbacks *callbacks, FILE *to) {
    clq_early_stopping_result found = {.stopped = false};
    if (callbacks->early_stopping) CLQ_TRY(clq_early_stopping_read(callbacks->early_stopping, &found));
    if (found.has_best && (found.stopped || found.restored_best_weights))
        return clq_print(to, "%sepoch %llu was the best, with %.4f%s\n", found.stopped ? "stopped early: " : "",
                         (unsigned long long)found.best_epoch + 1, found.best,
                         found.restored_best_weights ? ": its weights are put back" : "");
    return found.stopped ? clq_print(to, "stopped early: no epoch had a number\n") : CLQ_OK;
}

json_t *clq_train_callbacks_describe(const clq_train_callbacks *callbacks) {
    clq_early_stopping_result found;
    if (!callbacks->early_stopping || clq_early_stopping_read(callbacks->early_stopping, &found) != CLQ_OK)
        return json_null();
    return json_pack("{s:b, s:I, s:o, s:b}", "stopped", found.stopped, "best_epoch", (json_int_t)found.best_epoch,
                     "best", clq_json_number(found.has_best ? found.best : (double)NAN), "restored_best",
                     found.restored_best_weights);
}
