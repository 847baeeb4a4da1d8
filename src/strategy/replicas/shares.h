/* How a batch is split over replicas unevenly: by given weights, or by weights that follow from how long each replica
 * computes. Private to strategy.
 *
 * A replica's thread measures how long the replica computes from one exchange to the next. The time for which it waits
 * for rows or for other replicas does not count. The poster reads these times, and sets the shares of the next steps.
 * It is the only thread that does, so all replicas agree on the shares of each step. Shares are those of a full global
 * batch; smaller batches are split in the same proportions. With several processes, the posters exchange their times
 * once in a fixed number of steps, and each does the same arithmetic with them. */
#ifndef CLQ_STRATEGY_SHARES_H
#define CLQ_STRATEGY_SHARES_H

#include "strategy/strategy.h"

struct clq_replica;
typedef struct clq_shares clq_shares;

/* ---- arithmetic ---- */

/* What samples cost a replica, in seconds of a step: fixed_s + samples * sample_s. {0}: nothing is known. */
typedef struct clq_share_cost {
    double fixed_s, sample_s;
    size_t samples; /* of the last observation */
    double took_s;  /* how long these samples took; 0: nothing was observed */
} clq_share_cost;
/* Takes in an observation. If it has as many samples as the last one, a difference means that the replica's speed has
 * changed. If it has another number of samples, it tells the fixed part from the part per sample. */
void clq_share_cost_observe(clq_share_cost *cost, size_t samples, double seconds);
double clq_share_cost_of(const clq_share_cost *cost, size_t samples);
/* Finds the shares of `total` samples with which the slowest replica finishes the soonest: counts (replicas), at most
 * most[r] each. The sum of `most` is at least total. A replica gets no samples if its fixed part alone takes longer
 * than the others need for all samples. */
void clq_shares_balance(size_t total, unsigned replicas, const clq_share_cost *costs, const size_t *most,
                        size_t *counts);

/* ---- of a strategy ---- */

/* Checks that the options' weights, if any are given, fit the number of replicas. Errors: ARGUMENT, UNSUPPORTED (more
 * replicas than can have uneven shares). */
clq_status clq_shares_check(const clq_strategy_options *options, unsigned replicas);
/* By the options. *out NULL: shares are even. Errors: ARGUMENT (weights), UNSUPPORTED, MEMORY, SYSTEM. */
clq_status clq_shares_create(const clq_strategy *strategy, clq_shares **out);
void clq_shares_destroy(clq_shares *shares);                /* takes NULL */
bool clq_shares_are_measured(const clq_shares *shares);     /* takes NULL */
const double *clq_shares_weights(const clq_shares *shares); /* takes NULL: NULL */
/* How many samples a replica needs room for. */
uint32_t clq_shares_capacity(const clq_strategy *strategy, unsigned replica);
/* Learns the capacity of every replica. All processes call it. Errors: MEMORY, and those of clq_world_gather. */
clq_status clq_shares_take_rooms(clq_strategy *strategy);
/* Called before step `step` is split: changes the shares if that pays. By the poster of each process; all come to the
 * same shares. Errors: MEMORY, and those of clq_world_gather. */
clq_status clq_shares_review(clq_strategy *strategy, uint64_t step);
/* For snapshots. The first gives the present shares of a full global batch, counts (replicas of all processes). False:
 * no shares are measured. The second sets the shares from `step` on; shares that do not fit are ignored. Errors:
 * MEMORY. */
bool clq_shares_now(const clq_strategy *strategy, size_t *counts);
clq_status clq_shares_go_on(clq_strategy *strategy, uint64_t step, const size_t *counts);
/* As clq_strategy_share_changes and clq_strategy_share_change. */
size_t clq_shares_change_count(const clq_shares *shares);
uint64_t clq_shares_change(const clq_shares *shares, size_t index, size_t *counts);

/* ---- by a replica's thread, in steps; these do nothing if shares are not measured ---- */

/* How long a replica has computed since the last exchange of gradients. */
typedef struct clq_pace {
    double since;        /* when it began or resumed to compute (clq_now); 0: it does not compute now */
    double spent_s;      /* seconds of computing so far, up to `since` */
    double last_s;       /* the last measurement, in seconds */
    unsigned unmeasured; /* steps since that measurement */
} clq_pace;
/* The replica begins or resumes to compute: at the beginning of a step, and behind an exchange. */
void clq_pace_compute(struct clq_replica *replica);
/* The replica stops computing: before an exchange, and at the end of a step. device: first waits for the device, if
 * this step is measured. The exchange would have to wait for the device anyway. */
clq_status clq_pace_rest(struct clq_replica *replica, bool device);
/* Likewise, before the exchange of a gradient of `samples` samples. Completes a measurement. */
clq_status clq_pace_arrive(struct clq_replica *replica, size_t samples);

#endif
