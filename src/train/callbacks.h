/* What the callbacks of <clique/callbacks.h> share. Private to train. */
#ifndef CLQ_TRAIN_CALLBACKS_H
#define CLQ_TRAIN_CALLBACKS_H

#include "train/meeting.h"
#include <clique/callbacks.h>

/* Call a fit's callbacks in order (callbacks.c). *begun: how many callbacks have begun, also if one fails. With several
 * processes, a callback's INTERRUPTED waits for the next meeting, and the callbacks after it are still called. */
clq_status clq_callbacks_begin(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting, size_t *begun);
bool clq_callbacks_want_steps(const clq_fit_config *config);
clq_status clq_callbacks_step(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                              const clq_step_info *info);
clq_status clq_callbacks_epoch(const clq_fit_config *config, clq_trainer *trainer, clq_meeting *meeting,
                               const clq_epoch_info *info);
/* Calls on_end of the callbacks that have begun. Returns the status that the fit ends with, and its error. */
clq_status clq_callbacks_end(const clq_fit_config *config, clq_trainer *trainer, size_t begun, clq_status status);

/* ---- what is watched (monitor.c) ---- */

/* A value that is watched, and the best one so far. As in Keras, the first value is taken whatever it is: after a first
 * NaN no value is better. */
typedef struct clq_watch {
    clq_monitor monitor;
    bool any;
    double best;
    /* A hash of what the value was when it was last watched: the loss's settings, or whose labels a metric compares.
     * 0: it was not watched yet. */
    clq_hash128 figure;
    bool anew; /* the best was of another value, and was forgotten: the callback resets the rest of its state, too */
} clq_watch;
/* Errors: ARGUMENT (mode, min_delta, name). who: for messages. */
clq_status clq_watch_open(clq_watch *watch, const clq_monitor *monitor, const char *who);
/* Called when a fit begins. If the loss, or whose labels a metric compares, has changed, the best value is forgotten,
 * with a warning. Errors: ARGUMENT (the monitor's value is not measured; the message names those that are), MEMORY. */
clq_status clq_watch_begin(clq_watch *watch, const clq_trainer *trainer, const clq_fit_config *config, const char *who);
double clq_watch_value(const clq_watch *watch, const clq_epoch_info *info);
/* Whether the epoch has the value: a training value needs training totals, a validation value a validation. Callbacks
 * skip an epoch without it. */
bool clq_watch_has_value(const clq_watch *watch, const clq_epoch_info *info);
/* Whether `value` is better than `than` by more than min_delta. NaN never is. */
bool clq_watch_improves(const clq_watch *watch, double value, double than);
/* Makes `value` the best one if it improves on the best so far, or is the first. Returns whether it did. */
bool clq_watch_take(clq_watch *watch, double value);
void clq_watch_forget(clq_watch *watch); /* no value so far */
/* Adds the watch to a callback's state. "monitor", "mode" and "losses" say what is watched. "best", a number or null,
 * is for human readers. "best_value" is a text, which can also be NaN or an infinity. Takes over the document and
 * returns it; NULL: no memory. */
json_t *clq_watch_save(const clq_watch *watch, json_t *document);
/* Reads the watch from a callback's state. If the state is of another monitor or mode, its best value is forgotten,
 * with a warning. Errors: FORMAT. */
clq_status clq_watch_restore(const char *what, const json_t *document, clq_watch *watch);

/* Reads "key=value" pairs: `monitor` and `mode` go to *monitor, numbers to values[], one for each option. Messages list
 * monitor and mode before the options. Errors: ARGUMENT, MEMORY. */
clq_status clq_watch_parse(const char *what, const char *text, const clq_option *options, clq_monitor *monitor,
                           double *values);

/* ---- states as JSON text (callbacks.c) ---- */

/* Writes a callback's state into text[bytes], and takes over the document. what: the callback's name. Errors: MEMORY
 * (also if document is NULL), ARGUMENT (too little room). */
clq_status clq_state_write(const char *what, json_t *document, char *text, size_t bytes);
/* Reads a state, whose member "callback" must be `what`. The caller calls json_decref. Errors: FORMAT, MEMORY. */
clq_status clq_state_read(const char *what, const char *text, json_t **out);
/* Read a member of a state. A number may be null, which means NaN. A count is a whole number of at least 0. Errors:
 * FORMAT. */
clq_status clq_state_number(const char *what, const json_t *document, const char *key, double *out);
clq_status clq_state_count(const char *what, const json_t *document, const char *key, uint64_t *out);

#endif
