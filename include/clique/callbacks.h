/* clique/callbacks.h: objects that take part in clq_fit: early stopping, a lower learning rate on a plateau, the best
 * weights in a file, a table with the epochs as CSV, and a program's own. Semantics and defaults are those of
 * tf.keras's callbacks with these names.
 *
 * A callback is a clq_callback: functions and their context. clq_fit_config.callbacks lists any number of them. The
 * thread that called clq_fit calls them in that order, after the config's own on_step and on_epoch. The functions below
 * make this header's callbacks, and clq_callback_destroy destroys them. One callback may serve one fit after another,
 * but not two at once. A program's own callback fills in the struct itself. */
#ifndef CLIQUE_CALLBACKS_H
#define CLIQUE_CALLBACKS_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CLQ_CALLBACK_STATE_MAX = 1024 }; /* bytes in a callback's state, with its NUL */

/* Each function may be NULL. If one returns other than CLQ_OK, the fit ends with that status. Functions may evaluate,
 * predict, read and write weights, set the learning rate and call clq_fit_stop; on_step may not make steps or call
 * clq_fit. The struct keeps its size in later versions; `reserved` is for new members. */
typedef struct clq_callback {
    const char *name; /* needed: for messages, and to find its state */
    void *context;
    /* Called before the first step. config is the fit's, borrowed until on_end. If one callback fails, the fit ends
     * before any step, and on_end is called for the callbacks before it. */
    clq_status (*on_begin)(void *context, clq_trainer *trainer, const clq_fit_config *config);
    clq_status (*on_step)(void *context, clq_trainer *trainer, const clq_step_info *info); /* each step is waited for */
    clq_status (*on_epoch)(void *context, clq_trainer *trainer, const clq_epoch_info *info);
    /* Called once for each on_begin that succeeded, also if the fit failed or was interrupted. status: how the fit
     * ended so far. If nothing failed before, clq_fit returns a failure from here; all callbacks are called in any
     * case. */
    clq_status (*on_end)(void *context, clq_trainer *trainer, clq_status status);
    /* Saves the callback's knowledge about the epochs so far for a checkpoint, as JSON text that ends with NUL. Called
     * at any time from on_begin to on_end, and after it. bytes: room in `text`, at least CLQ_CALLBACK_STATE_MAX. */
    clq_status (*save)(void *context, char *text, size_t bytes);
    /* Called before clq_fit with a saved state, from which on_begin then goes on. FORMAT: no state for such a callback;
     * nothing changes. */
    clq_status (*restore)(void *context, const char *text);
    void (*destroy)(void *context);
    /* May be NULL. Called for a checkpoint, next to save and on the same thread: weights that the callback keeps for
     * later, float32, all variables one after the other in the model's order; NULL: none. The memory is the callback's;
     * it is read until the callback's next function is called. */
    const float *(*weights)(void *context);
    /* May be NULL. Called directly after restore if the checkpoint has such weights. count: the number of float32
     * values, which the callback copies. clq_fit fails with what this returns. */
    clq_status (*restore_weights)(void *context, const float *weights, size_t count);
    void *reserved[5]; /* NULL */
} clq_callback;
CLQ_API void clq_callback_destroy(clq_callback *callback); /* takes {0}; makes it {0} */

/* Ends the clq_fit under way without a failure, as tf.keras's model.stop_training: the epoch ends after the present
 * step, its validation and on_epoch follow as always, and clq_fit returns CLQ_OK. For callbacks, those in
 * clq_fit_config too. Errors: STATE (no clq_fit is under way). */
CLQ_API clq_status clq_fit_stop(clq_trainer *trainer);

/* An epoch's value by its name in Keras: "loss", "accuracy" and other metrics; with several outputs "OUTPUT_loss"; for
 * the validation "val_loss", … NaN if no value has that name. */
CLQ_API double clq_epoch_value(const clq_epoch_info *info, const char *name);

/* Which of two values is better. AUTO: higher is better for accuracies, precision, recall, F1, areas under curves and
 * cosine similarity; lower is better for all others. */
typedef enum clq_monitor_mode { CLQ_MONITOR_AUTO, CLQ_MONITOR_MIN, CLQ_MONITOR_MAX } clq_monitor_mode;
/* Bytes for a monitored value's name, with its NUL. */
enum { CLQ_MONITOR_NAME_MAX = 160 };
/* What is watched. A value is an improvement if it is better than the best one by more than min_delta. The first value
 * is taken even if it is NaN. After that NaN is never an improvement, and nothing improves on a first NaN (as in
 * Keras). */
typedef struct clq_monitor {
    /* As in clq_epoch_value; empty: val_loss. clq_fit refuses a value that is not measured (ARGUMENT). */
    char name[CLQ_MONITOR_NAME_MAX];
    clq_monitor_mode mode;
    double min_delta; /* at least 0; 0: any improvement counts */
    double reserved[4];
} clq_monitor;

/* Ends the fit after `patience` epochs in a row without an improvement. */
typedef struct clq_early_stopping {
    clq_monitor monitor;
    /* In epochs. 0: the first epoch without an improvement ends the fit, except epoch 0. */
    uint64_t patience;
    uint64_t start_from_epoch; /* earlier epochs are not considered */
    /* Epochs count as without improvement until one is also better than baseline. */
    bool has_baseline;
    double baseline;
    /* At the end of a fit that did not fail, stopped or not, put the best epoch's weights back: with moving statistics,
     * without optimizer state. During the fit the host's memory, and checkpoints, have a copy of all variables. If a
     * checkpoint has none, since it was taken without this, the last weights stay, with a warning, unless an epoch
     * improves. */
    bool restore_best_weights;
    double reserved[4];
} clq_early_stopping;
/* Makes the callback; config is copied. clq_callback_destroy destroys it. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_callback_early_stopping(const clq_early_stopping *config, clq_callback *out);
/* Reads settings, as --early-stopping: "patience=3,restore_best=1". Keys: monitor, mode (auto, min, max), min_delta,
 * patience, start_from_epoch, baseline, restore_best. Members of *out without a key keep their values. Errors: ARGUMENT
 * (names the key), MEMORY. */
CLQ_API clq_status clq_early_stopping_parse(const char *text, clq_early_stopping *out);
/* What early stopping found in the last fit. */
typedef struct clq_early_stopping_result {
    bool stopped; /* it ended the fit */
    /* The best value is finite. Otherwise best_epoch and best are 0: no epoch was considered; or the first value was
     * NaN, on which nothing improves; or the best value is infinite. */
    bool has_best;
    uint64_t best_epoch; /* from 0 */
    double best;         /* the watched value in that epoch */
    /* The trainer has the best epoch's weights; after a first NaN, that epoch's. */
    bool restored_best_weights;
    uint64_t reserved[4]; /* the struct keeps its size in later versions */
} clq_early_stopping_result;
/* Call it from the fit's thread, or after the fit. Errors: ARGUMENT (another kind of callback). */
CLQ_API clq_status clq_early_stopping_read(const clq_callback *callback, clq_early_stopping_result *out);

/* Multiplies the learning rate by factor after `patience` epochs in a row without an improvement. Epochs do not count
 * for `cooldown` epochs after that. A trainer with a schedule is refused (STATE). */
typedef struct clq_reduce_lr {
    clq_monitor monitor;
    double factor; /* above 0, below 1 */
    uint64_t patience, cooldown;
    double min_lr; /* the lowest rate */
    double reserved[4];
} clq_reduce_lr;
/* Keras's defaults: factor 0.1, patience 10, min_delta 1e-4; all others 0. */
CLQ_API clq_reduce_lr clq_reduce_lr_default(void);
/* Makes the callback; config is copied. clq_callback_destroy destroys it. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_callback_reduce_lr(const clq_reduce_lr *config, clq_callback *out);
/* Reads settings, as --reduce-lr. Keys: monitor, mode, min_delta, factor, patience, cooldown, min_lr. Members of *out
 * without a key keep their values. Errors: ARGUMENT (names the key), MEMORY. */
CLQ_API clq_status clq_reduce_lr_parse(const char *text, clq_reduce_lr *out);

/* Saves the weights with clq_trainer_save after each epoch that is an improvement. The best value stays from fit to
 * fit, as in Keras, and is part of the state. The file appears by rename. path and monitor are copied.
 * clq_callback_destroy destroys the callback. Errors: ARGUMENT, MEMORY, WRITE (a path that cannot be written fails at
 * once). */
CLQ_API clq_status clq_callback_save_best(const char *path, const clq_monitor *monitor, clq_callback *out);

/* Writes a line for each epoch: epoch (from 0), loss and metrics; with a validation set val_loss and its metrics; lr
 * (the epoch's last update's). The first line names the columns. path is copied. clq_callback_destroy destroys the
 * callback.
 *
 * - The file is opened at once. It is unchanged until the fit's first epoch has ended; then it starts anew.
 * - With `append` the fit's lines follow the existing ones, whose columns must be the same (MISMATCH, from clq_fit).
 * - After a restore, rows for later epochs are cut; another program's comments and line ends stay.
 *
 * Errors: WRITE, MEMORY; READ and WRITE also from clq_fit. */
CLQ_API clq_status clq_callback_csv(const char *path, bool append, clq_callback *out);

#ifdef __cplusplus
}
#endif
#endif
