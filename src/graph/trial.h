/* Trials of plans that differ in one selection. Private to graph: tune.c decides by them. */
#ifndef CLQ_GRAPH_TRIAL_H
#define CLQ_GRAPH_TRIAL_H

#include "graph/plan.h"

/* What every plan of a model gets to compute with, and the queue that it runs on. */
typedef struct clq_trials {
    clq_queue *queue;
    void *variables[2];      /* first values: of arena PARAMETERS, of STATE */
    void *inputs[CLQ_FEED_MAX]; /* by the plan's feed; NULL: it does not read that */
    const clq_tune_config *tune;
} clq_trials;
/* As large as `plan` takes. Release also after a failure. */
clq_status clq_trials_open(const clq_plan *plan, const clq_tune_config *tune, clq_trials *trials);
void clq_trials_release(clq_trials *trials);

/* Puts these weights and samples in a plan. */
clq_status clq_trials_prepare(clq_trials *trials, clq_plan *plan);

/* Launches of a plan. */
typedef struct clq_trial_part {
    clq_plan *plan;
    size_t first, end;
} clq_trial_part;
/* Those that depend on a choice. */
clq_trial_part clq_trial_part_of(clq_plan *plan, const clq_choice *choice);

/* The least of some trials of launches, of which there is at least one. */
clq_status clq_trials_least(clq_trials *trials, clq_trial_part part, double *seconds);

/* Medians of trials in turn, and whether b's are clearly less. Ends early where they are clearly more, and goes on
 * where it is doubtful; if it stays so b does not win. */
typedef struct clq_trial_result {
    double a_s, b_s;
    size_t rounds;
    bool b_wins;
} clq_trial_result;
clq_status clq_trials_compare(clq_trials *trials, clq_trial_part a, clq_trial_part b, clq_trial_result *out);

#endif
