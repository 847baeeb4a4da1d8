/* What the callbacks of <clique/callbacks.h> share. Private to train. */
#ifndef CLQ_TRAIN_CALLBACKS_H
#define CLQ_TRAIN_CALLBACKS_H

#include "train/meeting.h"
#include <clique/callbacks.h>

/* Those of a fit, in order (callbacks.c). *begun: how many on_begin succeeded, also where one fails. With several
 * processes INTERRUPTED waits for their meeting, and the callbacks behind come to their turn. */
clq_status clq_callbacks_begin(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting, size_t *begun);
bool clq_callbacks_want_steps(const clq_fit_config *config);
clq_status clq_callbacks_step(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                              const clq_step_info *info);
clq_status clq_callbacks_epoch(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                               const clq_epoch_info *info);
/* Returns the status that the fit ends with, and its error. */
clq_status clq_callbacks_end(const clq_fit_config *config, clq_trainer *trainer, size_t begun, clq_status status);

/* ---- what is watched (monitor.c) ---- */

/* The best value so far, where there was any. As in Keras the first one is taken whatever it is: behind a first NaN
 * nothing is better. */
typedef struct clq_watch {
    clq_monitor monitor;
    bool any;
    double best;
    clq_hash128 figure; /* what the loss, or a metric's labels, were when it was watched last; 0: nothing was */
    bool anew;          /* what was restored is of another figure, and was forgotten: so has the callback to do */
} clq_watch;
/* Errors: ARGUMENT (mode, min_delta). who: for messages. */
clq_status clq_watch_open(clq_watch *watch, const clq_monitor *monitor, const char *who);
/* When a fit begins. A loss that is another one than before says nothing of the best: it is forgotten, with a warning.
 * ARGUMENT names what is measured where the monitor's name is none of it. */
clq_status clq_watch_begin(clq_watch *watch, const clq_trainer *trainer, const clq_fit_config *config, const char *who);
double clq_watch_value(const clq_watch *watch, const clq_epoch_info *info);
/* Whether the epoch has the value: not a training's of an epoch of no samples. Callbacks leave others out. */
bool clq_watch_has_value(const clq_watch *watch, const clq_epoch_info *info);
/* Whether a value is better by more than min_delta than `than`; NaN never is. */
bool clq_watch_improves(const clq_watch *watch, double value, double than);
/* Whether it improves on the best one, which it then is. */
bool clq_watch_take(clq_watch *watch, double value);
void clq_watch_forget(clq_watch *watch); /* no value so far */
/* Members of a state: "monitor", "mode" and "losses" tell what is watched; "best", a number or null, for who reads;
 * "best_value", a text, which NaN and infinities are in, too. Takes the document. */
json_t *clq_watch_save(const clq_watch *watch, json_t *document);
/* Of another monitor, or mode, than the watch's the best is forgotten, with a warning. Errors: FORMAT. */
clq_status clq_watch_restore(const char *what, const json_t *document, clq_watch *watch);

/* Keys of a monitor, and numbers by an option table. monitor and mode stand in front of the numbers. */
clq_status clq_watch_parse(const char *what, const char *text, const clq_option *options, clq_monitor *monitor,
                           double *values);

/* ---- states as JSON text (callbacks.c) ---- */

/* Takes the document. what: the callback's name. Errors: MEMORY. */
clq_status clq_state_write(const char *what, json_t *document, char *text, size_t bytes);
/* An object whose member "callback" is `what`. Caller: json_decref. Errors: FORMAT, MEMORY. */
clq_status clq_state_read(const char *what, const char *text, json_t **out);
/* A member that is a number, or null, which is NaN; a count is a whole number from 0. Errors: FORMAT. */
clq_status clq_state_number(const char *what, const json_t *document, const char *key, double *out);
clq_status clq_state_count(const char *what, const json_t *document, const char *key, uint64_t *out);

#endif
