/* Trials of plans that differ in one selection. Private to graph: tune.c decides by them. */
#ifndef CLQ_GRAPH_TRIAL_H
#define CLQ_GRAPH_TRIAL_H

#include "graph/plan.h"

/* The weights and samples that every plan of a model computes with, and the queue of the trials. */
typedef struct clq_trials {
    clq_queue *queue;
    void *variables[2];         /* first values: of arena PARAMETERS, of STATE */
    void *inputs[CLQ_FEED_MAX]; /* by the plan's feed; NULL: the plan does not read it */
    const clq_tune_config *tune;
} clq_trials;
/* Makes weights and samples as large as `plan` needs them. Release the trials even after a failure. */
clq_status clq_trials_open(const clq_plan *plan, const clq_tune_config *tune, clq_trials *trials);
void clq_trials_release(clq_trials *trials);

/* Puts these weights and samples in a plan. */
clq_status clq_trials_prepare(clq_trials *trials, clq_plan *plan);

/* Launches of a plan. */
typedef struct clq_trial_part {
    clq_plan *plan;
    size_t first, end;
} clq_trial_part;
/* The launches that depend on a choice. */
clq_trial_part clq_trial_part_of(clq_plan *plan, const clq_choice *choice);

/* The least time of several trials of a part, which has at least one launch. */
clq_status clq_trials_least(clq_trials *trials, clq_trial_part part, double *seconds);

/* Compares two parts by trials in turn: gives the medians, and whether b is clearly faster. It ends early if b is
 * clearly slower, and goes on if the result is doubtful. If the result stays doubtful, b does not win. */
typedef struct clq_trial_result {
    double a_s, b_s;
    size_t rounds;
    bool b_wins;
} clq_trial_result;
clq_status clq_trials_compare(clq_trials *trials, clq_trial_part a, clq_trial_part b, clq_trial_result *out);

#endif
