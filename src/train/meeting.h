/* A fit over several processes. They decide together at meetings: behind a number of updates that the meeting before
 * has fixed, about four times a second, and behind each epoch. There each says what it wants, and what one wants all
 * do. A fit of one process has no meetings. Private to train. */
#ifndef CLQ_TRAIN_MEETING_H
#define CLQ_TRAIN_MEETING_H

#include "train/trainer.h"

typedef struct clq_meeting {
    clq_trainer *trainer;
    clq_world *world;     /* NULL: one process */
    uint64_t every, left; /* updates between two meetings, and until the next */
    double held_at;       /* the last one, or the beginning of the epoch behind it; clq_now */
    clq_error wish;       /* INTERRUPTED: this process wants to end the fit so */
    bool stops;           /* all have agreed that the fit ends with CLQ_OK, */
    bool is_interrupted;  /* or with INTERRUPTED */
} clq_meeting;

/* Checks that all processes begin the same fit. Errors: MISMATCH (another config, other weights or data), and those of
 * the world. */
clq_status clq_meeting_open(clq_meeting *meeting, clq_trainer *trainer, const clq_dataset *train,
                            const clq_fit_config *config);
/* status: of a callback. With several processes INTERRUPTED is kept for the next meeting, and the result is OK. */
clq_status clq_meeting_take(clq_meeting *meeting, clq_status status);
/* Counts an update: called once behind each. Whether to hold a meeting now. */
bool clq_meeting_is_due(clq_meeting *meeting);
/* Errors: INTERRUPTED, on all, if any process wants it; and those of the world. */
clq_status clq_meeting_hold(clq_meeting *meeting);
/* Whether the fit is to end: as agreed, or in one process as clq_fit_stop was called. */
bool clq_meeting_stops(const clq_meeting *meeting);
/* Whether all processes have the failure `status`, and can go on with one another. */
bool clq_meeting_agreed(const clq_meeting *meeting, clq_status status);
/* Ends the world behind a failure that is of this process alone: the others wait for it in vain. Returns `status`. */
clq_status clq_meeting_close(const clq_meeting *meeting, clq_status status);

#endif
