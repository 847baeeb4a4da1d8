/* clique/callbacks.h: objects that take part in clq_fit: early stopping, a lower learning rate on a plateau, the best
 * weights in a file, a table of epochs as CSV, and a program's own. Semantics and defaults are those of tf.keras's
 * callbacks of these names.
 *
 * A callback is a clq_callback: functions and their context. clq_fit_config.callbacks lists any number of them, which
 * are called in that order, behind the config's own on_step and on_epoch, by the thread that called clq_fit. Those of
 * this header are made by the functions below and destroyed by clq_callback_destroy; one may be used for one fit after
 * another, but not for two at once. A program's own callback fills in the struct by itself. */
#ifndef CLIQUE_CALLBACKS_H
#define CLIQUE_CALLBACKS_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CLQ_CALLBACK_STATE_MAX = 1024 }; /* bytes of a callback's state, with its NUL */

/* Each function may be NULL. Those that return other than CLQ_OK end the fit with that status. They may evaluate,
 * predict, read and write weights, set the learning rate and call clq_fit_stop; on_step may not make steps or call
 * clq_fit. The struct keeps its size in later versions; `reserved` is for new members. */
typedef struct clq_callback {
    const char *name; /* in messages, and of its state: needed */
    void *context;
    /* Before the first step. config is the fit's, on loan until on_end. Where one fails, the fit ends before any step,
     * and on_end is called for those before it. */
    clq_status (*on_begin)(void *context, clq_trainer *trainer, const clq_fit_config *config);
    clq_status (*on_step)(void *context, clq_trainer *trainer, const clq_step_info *info); /* each step is waited for */
    clq_status (*on_epoch)(void *context, clq_trainer *trainer, const clq_epoch_info *info);
    /* Once for each on_begin that succeeded, also where the fit failed or was interrupted: `status` is how it ended so
     * far. A failure here is returned by clq_fit where nothing failed before; all callbacks are called in any case. */
    clq_status (*on_end)(void *context, clq_trainer *trainer, clq_status status);
    /* What the callback knows of the epochs so far, as JSON text that ends with NUL, for a checkpoint: at any time from
     * on_begin to on_end, and after it. bytes: room in `text`, at least CLQ_CALLBACK_STATE_MAX. */
    clq_status (*save)(void *context, char *text, size_t bytes);
    /* Before clq_fit, whose on_begin then goes on from there. FORMAT: no state of such a callback; nothing changes. */
    clq_status (*restore)(void *context, const char *text);
    void (*destroy)(void *context);
    /* May be NULL. Called for a checkpoint, beside save and on the same thread: weights that the callback keeps for
     * later, float32, all variables one after the other in the model's order; NULL: none. The callback's memory, read
     * until the callback's next function is called. */
    const float *(*weights)(void *context);
    /* May be NULL. Called directly after restore if the checkpoint has such weights. count: float32 values in all, to
     * be copied. clq_fit fails with what this returns. */
    clq_status (*restore_weights)(void *context, const float *weights, size_t count);
    void *reserved[5]; /* NULL */
} clq_callback;
CLQ_API void clq_callback_destroy(clq_callback *callback); /* takes {0}; makes it {0} */

/* Ends the clq_fit under way without a failure, as tf.keras's model.stop_training: the epoch ends behind the present
 * step, its validation and on_epoch are made as always, and clq_fit returns CLQ_OK. For callbacks, those of
 * clq_fit_config too. Errors: STATE (no clq_fit is under way). */
CLQ_API clq_status clq_fit_stop(clq_trainer *trainer);

/* A figure of an epoch by its name in Keras: "loss", "accuracy" and other metrics, of several outputs "OUTPUT_loss"; of
 * the validation "val_loss", … NaN where there is none of that name. */
CLQ_API double clq_epoch_value(const clq_epoch_info *info, const char *name);

/* Which of two values is better. AUTO: higher is better for accuracies, precision, recall, F1, areas under curves
 * and cosine similarity; lower is better for all others. */
typedef enum clq_monitor_mode { CLQ_MONITOR_AUTO, CLQ_MONITOR_MIN, CLQ_MONITOR_MAX } clq_monitor_mode;
/* What is watched. A value is an improvement where it is better than the best one by more than min_delta. The first
 * value is taken even if it is NaN. After that NaN never counts as an improvement, and nothing improves on a first NaN
 * (as in Keras). */
enum { CLQ_MONITOR_NAME_MAX = 160 };
typedef struct clq_monitor {
    char name[CLQ_MONITOR_NAME_MAX]; /* as of clq_epoch_value; empty: val_loss. clq_fit refuses one that is not measured
                                        (ARGUMENT) */
    clq_monitor_mode mode;
    double min_delta; /* at least 0 */
    double reserved[4];
} clq_monitor;

/* Ends the fit after `patience` epochs in a row without an improvement. */
typedef struct clq_early_stopping {
    clq_monitor monitor;
    uint64_t patience;         /* 0: the first epoch without an improvement ends the fit, except epoch 0 */
    uint64_t start_from_epoch; /* epochs before are not looked at */
    bool has_baseline;         /* epochs count as without improvement until one is better than baseline, too */
    double baseline;
    bool restore_best_weights; /* at the end of a fit that did not fail, stopped or not, the weights of the best epoch
                                  are put back, moving statistics included, and optimizer state not; a copy of all
                                  variables is kept in the host's memory during the fit, and in its checkpoints. Where
                                  a checkpoint has none, since it was taken without this, the last weights stay, with
                                  a warning, unless an epoch improves */
    double reserved[4];
} clq_early_stopping;
/* Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_callback_early_stopping(const clq_early_stopping *config, clq_callback *out);
/* "patience=3,restore_best=1": keys monitor, mode (auto, min, max), min_delta, patience, start_from_epoch, baseline,
 * restore_best, as --early-stopping. Sets *out from its present values on. Errors: ARGUMENT (names the key), MEMORY. */
CLQ_API clq_status clq_early_stopping_parse(const char *text, clq_early_stopping *out);
/* What early stopping found in the last fit. */
typedef struct clq_early_stopping_result {
    bool stopped;               /* it ended the fit */
    bool has_best;              /* the best value is finite; else best_epoch and best are 0: no epoch was looked at, or
                                   the first value was NaN, on which nothing improves, or the best one is infinite */
    uint64_t best_epoch;        /* from 0 */
    double best;                /* the watched value there */
    bool restored_best_weights; /* the trainer has the best epoch's weights; after a first NaN those of that epoch */
    uint64_t reserved[4];       /* the struct keeps its size in later versions */
} clq_early_stopping_result;
/* From the thread of the fit, or after it. Errors: ARGUMENT (another kind of callback). */
CLQ_API clq_status clq_early_stopping_read(const clq_callback *callback, clq_early_stopping_result *out);

/* Multiplies the learning rate by factor whenever `patience` epochs went by without an improvement, which are not
 * counted for `cooldown` epochs after that. A trainer with a schedule is refused (STATE). */
typedef struct clq_reduce_lr {
    clq_monitor monitor;
    double factor; /* above 0, below 1 */
    uint64_t patience, cooldown;
    double min_lr; /* the rate does not go below */
    double reserved[4];
} clq_reduce_lr;
/* Keras's: factor 0.1, patience 10, min_delta 1e-4. */
CLQ_API clq_reduce_lr clq_reduce_lr_default(void);
/* Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_callback_reduce_lr(const clq_reduce_lr *config, clq_callback *out);
/* Keys monitor, mode, min_delta, factor, patience, cooldown, min_lr, as --reduce-lr. Sets *out from its present values
 * on. Errors: ARGUMENT (names the key), MEMORY. */
CLQ_API clq_status clq_reduce_lr_parse(const char *text, clq_reduce_lr *out);

/* Writes the weights by clq_trainer_save whenever an epoch is an improvement. The best value stays from fit to fit, as
 * in Keras, and is part of the state. The file appears by rename. path is copied. Errors: ARGUMENT, MEMORY, WRITE (a
 * path that cannot be written fails at once). */
CLQ_API clq_status clq_callback_save_best(const char *path, const clq_monitor *monitor, clq_callback *out);

/* A line for each epoch: epoch (from 0), loss and metrics, with a validation set val_loss and its metrics, lr (of the
 * epoch's last update). The first line names the columns. The file is opened at once and stays as it is until
 * the fit's first epoch has ended; then it begins anew. With `append` the fit's lines come after those that are there,
 * whose columns have to be the same (MISMATCH, from clq_fit). After a restore, rows of later epochs are cut; another
 * program's comments and line ends stay. path is copied. Errors: WRITE, MEMORY; READ and WRITE also from clq_fit. */
CLQ_API clq_status clq_callback_csv(const char *path, bool append, clq_callback *out);

#ifdef __cplusplus
}
#endif
#endif
