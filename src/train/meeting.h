/* A fit over several processes. What they do alike is decided where all have counted alike: behind an update, after as
 * many updates as they agreed on at the meeting before, some four times a second; and behind each epoch. There each
 * tells what it wants, and all do what one of them wants. In a fit of one process there are no meetings. Private to
 * train. */
#ifndef CLQ_TRAIN_MEETING_H
#define CLQ_TRAIN_MEETING_H

#include "train/trainer.h"

typedef struct clq_meeting {
    clq_trainer *trainer;
    clq_world *world;     /* NULL: one process */
    uint64_t every, left; /* updates between two meetings, and until the next */
    double held_at;       /* the last one; clq_now */
    clq_error wish;       /* INTERRUPTED: this process wants to end the fit so */
    bool stops;           /* agreed: the fit ends as clq_fit_stop has it, */
    bool is_interrupted;  /* or as interrupted */
} clq_meeting;

/* All have the same fit before them. Errors: MISMATCH (another config, other data), and those of the world. */
clq_status clq_meeting_open(clq_meeting *meeting, clq_trainer *trainer, const clq_dataset *train,
                            const clq_fit_config *config);
/* What a callback returned: INTERRUPTED waits for the next meeting. */
clq_status clq_meeting_take(clq_meeting *meeting, clq_status status);
/* Behind each update: whether to hold one now. */
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
