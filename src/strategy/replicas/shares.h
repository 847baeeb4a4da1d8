/* How a batch is split over replicas unevenly: by weights that were given, or by weights that follow from how long each
 * replica computes. Private to strategy.
 *
 * A replica's thread measures how long it computes from one exchange to the next, without the time for which it waits
 * for rows or for other replicas. The poster reads these times, and sets the shares of the next steps. That is one
 * thread, so all replicas agree on the shares of each step. Shares are those of a full global batch; smaller batches
 * are split in the same proportions. With several processes the posters of all exchange their times at counted steps,
 * and each does the same arithmetic with them. */
#ifndef CLQ_STRATEGY_SHARES_H
#define CLQ_STRATEGY_SHARES_H

#include "strategy/strategy.h"

struct clq_replica;
typedef struct clq_shares clq_shares;

/* ---- arithmetic ---- */

/* What samples cost a replica, in seconds of a step: fixed_s + samples * sample_s. {0}: nothing is known. */
typedef struct clq_share_cost {
    double fixed_s, sample_s;
    size_t samples; /* of the last observation, */
    double took_s;  /* and how long they took */
} clq_share_cost;
/* Takes in an observation. If it is of as many samples as the last one, a difference means that the replica's speed has
 * changed. If it is of another number, it tells the fixed part from the part by sample. */
void clq_share_cost_observe(clq_share_cost *cost, size_t samples, double seconds);
double clq_share_cost_of(const clq_share_cost *cost, size_t samples);
/* The shares of `total` samples with which the slowest replica finishes the soonest: counts (replicas), at most most[r]
 * each; the sum of `most` is at least total. A replica whose fixed part alone takes longer than the others need for all
 * samples gets none. */
void clq_shares_balance(size_t total, unsigned replicas, const clq_share_cost *costs, const size_t *most,
                        size_t *counts);

/* ---- of a strategy ---- */

/* Whether the weights are for so many replicas, if any are given. Errors: ARGUMENT, UNSUPPORTED (more replicas than may
 * have weights). */
clq_status clq_shares_check(const clq_strategy_options *options, unsigned replicas);
/* By the options; NULL where shares are even. Errors: ARGUMENT (weights). */
clq_status clq_shares_create(const clq_strategy *strategy, clq_shares **out);
void clq_shares_destroy(clq_shares *shares);                /* takes NULL */
bool clq_shares_are_measured(const clq_shares *shares);     /* takes NULL */
const double *clq_shares_weights(const clq_shares *shares); /* takes NULL: NULL */
/* How many samples a replica is to have room for. */
uint32_t clq_shares_capacity(const clq_strategy *strategy, unsigned replica);
/* Learns the capacity of every replica. Errors: MEMORY, and those of clq_world_gather. */
clq_status clq_shares_take_rooms(clq_strategy *strategy);
/* Before step `step` is split: changes the shares where that pays. By the poster of each process, which all come to the
 * same shares. Errors: MEMORY, and those of clq_world_gather. */
clq_status clq_shares_review(clq_strategy *strategy, uint64_t step);
/* Of snapshots: the present shares of a full global batch (replicas of all processes), false where none are measured; and the shares
 * from `step` on, which are ignored where they do not fit. Errors: MEMORY. */
bool clq_shares_now(const clq_strategy *strategy, size_t *counts);
clq_status clq_shares_go_on(clq_strategy *strategy, uint64_t step, const size_t *counts);
/* As of clq_strategy_share_change. */
size_t clq_shares_change_count(const clq_shares *shares);
uint64_t clq_shares_change(const clq_shares *shares, size_t index, size_t *counts);

/* ---- by a replica's thread, in steps: nothing where shares are not measured ---- */

/* How long it computed since the last exchange of gradients. */
typedef struct clq_pace {
    double since; /* computing; 0: it is not */
    double spent_s;
    double last_s;       /* when it was measured last */
    unsigned unmeasured; /* steps since then */
} clq_pace;
/* The replica begins or resumes to compute: a step begins, an exchange is over. */
void clq_pace_compute(struct clq_replica *replica);
/* The replica stops to compute: before an exchange, and at the end of a step. device: waits for its device first, which
 * the other replicas wait for in the exchange anyway. */
clq_status clq_pace_rest(struct clq_replica *replica, bool device);
/* The same before the exchange of a gradient of `samples` samples, which completes a measurement. */
clq_status clq_pace_arrive(struct clq_replica *replica, size_t samples);

#endif
