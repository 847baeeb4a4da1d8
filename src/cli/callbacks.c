/* Callbacks of `clique train`: what its options ask for, and what came of it. */
#include "cli/cli.h"

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

/* Of early stopping; NULL: there is none. */
static json_t *state_of(const clq_train_callbacks *callbacks) {
    char text[CLQ_CALLBACK_STATE_MAX];
    const clq_callback *one = callbacks->early_stopping;
    return one && one->save(one->context, text, sizeof text) == CLQ_OK ? json_loads(text, 0, NULL) : NULL;
}

/* Epochs are counted from 1, as the lines of epochs do. */
clq_status clq_train_callbacks_tell(const clq_train_callbacks *callbacks, FILE *to) {
    json_t *state = state_of(callbacks);
    const json_t *best = json_object_get(state, "best");
    const bool stopped = json_is_true(json_object_get(state, "stopped"));
    const bool restored = json_is_true(json_object_get(state, "restored_best"));
    clq_status status = CLQ_OK;
    if (json_is_number(best) && (stopped || restored))
        status = clq_print(to, "%sepoch %lld was the best, with %.4f%s\n", stopped ? "stopped early: " : "",
                           (long long)json_integer_value(json_object_get(state, "best_epoch")) + 1,
                           json_number_value(best), restored ? ": its weights are put back" : "");
    else if (stopped)
        status = clq_print(to, "stopped early: no epoch had a number\n");
    json_decref(state);
    return status;
}

json_t *clq_train_callbacks_describe(const clq_train_callbacks *callbacks) {
    static const char *const keys[] = {"stopped", "best_epoch", "best", "restored_best"};
    json_t *state = state_of(callbacks), *document = json_object();
    if (!state) {
        json_decref(document);
        return json_null();
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(keys); i++)
        document = clq_json_put(document, keys[i], json_incref(json_object_get(state, keys[i])));
    json_decref(state);
    return document;
}
