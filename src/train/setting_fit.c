/* A fit by settings: its length, its checkpoints, and the callbacks that settings ask for. */
#include "train/callbacks.h"
#include "train/settings.h"
#include "world/world.h"
#include <clique/checkpoint.h>

#include <string.h>

/* ---- callbacks ---- */

/* The next free place in the list. */
static clq_callback *next_of(clq_fit_callbacks *callbacks) { return &callbacks->list[callbacks->count]; }

static clq_status add_early_stopping(const clq_settings *s, const clq_trainer *trainer, clq_fit_callbacks *to) {
    clq_early_stopping config = {.patience = 0};
    CLQ_TRY(clq_early_stopping_parse(s->early_stopping, &config));
    if (trainer->config.average > 0.0 && config.restore_best_weights)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "ema and restore_best of 'early-stopping' exclude each other: at the end the "
                        "weights become their averages, or those of the best epoch");
    CLQ_TRY(clq_callback_early_stopping(&config, next_of(to)));
    to->early_stopping = next_of(to);
    to->count++;
    return CLQ_OK;
}

static clq_status add_reduce_lr(const clq_settings *s, const clq_trainer *trainer, clq_fit_callbacks *to) {
    clq_reduce_lr config = clq_reduce_lr_default();
    if (clq_trainer_has_schedule(trainer))
        return clq_fail(CLQ_ERROR_ARGUMENT, "reduce-lr and 'schedule' exclude each other: both set the learning rate");
    CLQ_TRY(clq_reduce_lr_parse(s->reduce_lr, &config));
    CLQ_TRY(clq_callback_reduce_lr(&config, next_of(to)));
    to->count++;
    return CLQ_OK;
}

static clq_status add_save_best(const clq_settings *s, clq_fit_callbacks *to) {
    clq_monitor monitor = {.mode = CLQ_MONITOR_AUTO};
    if (s->monitor && strlen(s->monitor) >= sizeof monitor.name)
        return clq_fail(CLQ_ERROR_ARGUMENT, "monitor '%.40s…' is no name of a metric", s->monitor);
    if (s->monitor) memcpy(monitor.name, s->monitor, strlen(s->monitor) + 1);
    CLQ_TRY(clq_callback_save_best(s->save_best, &monitor, next_of(to)));
    to->count++;
    return CLQ_OK;
}

static clq_status add_csv(const clq_settings *s, clq_fit_callbacks *to) {
    CLQ_TRY(clq_callback_csv(s->csv, false, next_of(to)));
    to->count++;
    return CLQ_OK;
}

clq_status clq_fit_callbacks_open(const clq_settings *s, const clq_trainer *trainer, clq_fit_callbacks *out) {
    if (s->monitor && !s->save_best)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "monitor is what 'save-best' goes by: 'early-stopping' and 'reduce-lr' have a key "
                        "monitor of their own");
    if (s->early_stopping) CLQ_TRY(add_early_stopping(s, trainer, out));
    if (s->reduce_lr) CLQ_TRY(add_reduce_lr(s, trainer, out));
    if (s->save_best) CLQ_TRY(add_save_best(s, out));
    return s->csv ? add_csv(s, out) : CLQ_OK;
}

void clq_fit_callbacks_close(clq_fit_callbacks *callbacks) {
    for (size_t i = 0; i < CLQ_COUNT_OF(callbacks->list); i++) clq_callback_destroy(&callbacks->list[i]);
    *callbacks = (clq_fit_callbacks){.count = 0};
}

/* ---- checkpoints ---- */

clq_status clq_fit_checkpoints_open(const clq_settings *s, clq_world *world, clq_trainer *trainer, clq_dataset *train,
                                    clq_checkpoints **out, uint64_t *step) {
    const char *lonely = s->resume ? "resume" : s->checkpoint_every ? "checkpoint-every" : s->keep ? "keep" : NULL;
    *out = NULL;
    *step = 0;
    if (!s->checkpoint && lonely)
        return clq_world_check(
            world, clq_fail(CLQ_ERROR_ARGUMENT, "%s needs 'checkpoint', the folder of the checkpoints", lonely));
    if (!s->checkpoint) return CLQ_OK;
    const clq_checkpoints_config config = {.folder = s->checkpoint,
                                           .every = s->checkpoint_every,
                                           .keep = (uint32_t)s->keep,
                                           .resume = s->resume,
                                           .world = world};
    clq_status status = clq_checkpoints_open(&config, out);
    if (status != CLQ_OK) return clq_fail_within(status, "checkpoint");
    return s->resume ? clq_checkpoints_restore(*out, trainer, train, step) : CLQ_OK;
}

/* ---- the fit ---- */

void clq_fit_set_length(const clq_settings *s, clq_fit_config *fit) {
    enum { EPOCHS_DEFAULT = 3 };
    fit->steps = s->steps;
    fit->epochs = s->epochs || s->steps ? s->epochs : EPOCHS_DEFAULT;
    fit->validation_freq = s->validation_freq ? s->validation_freq : 1;
}

typedef struct fitting {
    clq_fit_callbacks own;
    clq_checkpoints *checkpoints;
    clq_callback *callbacks; /* (count) those of the settings, then the program's */
    size_t count;
} fitting;

static clq_status open_fit(const clq_settings *s, clq_trainer *trainer, clq_dataset *train,
                           const clq_callback *callbacks, size_t count, fitting *f) {
    uint64_t step;
    clq_world *world = trainer->config.world;
    clq_settings own = *s;
    if (clq_world_rank(world) > 0) own.save_best = own.monitor = own.csv = NULL;
    CLQ_TRY(clq_world_check(world, clq_fit_callbacks_open(&own, trainer, &f->own)));
    f->count = f->own.count + (callbacks ? count : 0);
    f->callbacks = clq_alloc(f->count, sizeof *f->callbacks);
    if (!f->callbacks) return clq_world_check(world, CLQ_ERROR_MEMORY);
    memcpy(f->callbacks, f->own.list, f->own.count * sizeof *f->callbacks);
    if (callbacks) memcpy(f->callbacks + f->own.count, callbacks, count * sizeof *callbacks);
    CLQ_TRY(clq_world_check(world, CLQ_OK));
    return clq_fit_checkpoints_open(s, world, trainer, train, &f->checkpoints, &step);
}

clq_status clq_settings_fit(const clq_settings *settings, clq_trainer *trainer, clq_dataset *train,
                            clq_dataset *validation, const clq_callback *callbacks, size_t count) {
    fitting f = {.count = 0};
    clq_status status = open_fit(settings, trainer, train, callbacks, count, &f);
    clq_fit_config fit = {
        .validation = validation, .checkpoints = f.checkpoints, .callbacks = f.callbacks, .callback_count = f.count};
    clq_fit_set_length(settings, &fit);
    if (status == CLQ_OK) status = clq_fit(trainer, train, &fit);
    clq_checkpoints_close(f.checkpoints);
    clq_free(f.callbacks);
    clq_fit_callbacks_close(&f.own);
    return status;
}
