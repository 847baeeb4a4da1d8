/* A fit over several processes. The processes decide together at meetings, about four times a second: each meeting
 * fixes after how many updates the next one is held. There is also a meeting after each epoch. At a meeting each
 * process says whether it wants to end the fit; if one does, all do. A fit of one process has no meetings. Private to
 * train. */
#ifndef CLQ_TRAIN_MEETING_H
#define CLQ_TRAIN_MEETING_H

#include "train/trainer.h"

typedef struct clq_meeting {
    clq_trainer *trainer;
    clq_world *world;     /* NULL: one process */
    uint64_t every, left; /* updates from one meeting to the next; those left until then */
    double held_at;       /* clq_now of the last meeting, or of a later epoch's start */
    clq_error wish;       /* INTERRUPTED: this process wants to end the fit with this error */
    bool stops;           /* all have agreed that the fit ends with CLQ_OK */
    bool is_interrupted;  /* all have agreed that the fit ends with INTERRUPTED */
} clq_meeting;

/* Checks that all processes begin the same fit. Errors: MISMATCH (configs, weights or data differ), and those of the
 * world. */
clq_status clq_meeting_open(clq_meeting *meeting, clq_trainer *trainer, const clq_dataset *train,
                            const clq_fit_config *config);
/* Takes a status, such as a callback's, and returns it. But with several processes, INTERRUPTED is kept for the next
 * meeting, and the result is OK. */
clq_status clq_meeting_take(clq_meeting *meeting, clq_status status);
/* Counts an update: called once after each. Returns whether to hold a meeting now. */
bool clq_meeting_is_due(clq_meeting *meeting);
/* Holds a meeting. Errors: INTERRUPTED (on all processes, if any wants it), MEMORY, and those of the world. */
clq_status clq_meeting_hold(clq_meeting *meeting);
/* Whether the fit is to end: with several processes if they have agreed on it, with one if clq_fit_stop was called. */
bool clq_meeting_stops(const clq_meeting *meeting);
/* Whether all processes have the failure `status`, so that they can still work together. */
bool clq_meeting_agreed(const clq_meeting *meeting, clq_status status);
/* Ends the world after a failure of this process alone, for which the others would wait in vain. Returns `status`. */
clq_status clq_meeting_close(const clq_meeting *meeting, clq_status status);

#endif
