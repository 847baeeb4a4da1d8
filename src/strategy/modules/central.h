/* Rounds over a store: central storage, and the parameter server without staleness. A round is a synchronous step: it
 * ends with one update by the gradients of `needed` replicas. Private to central.c and ps.c. */
#ifndef CLQ_STRATEGY_CENTRAL_H
#define CLQ_STRATEGY_CENTRAL_H

#include "strategy/exchange/storage.h"

/* A replica in the rounds. */
typedef struct clq_round_share {
    uint64_t given;   /* rounds that it was given */
    bool came;        /* its gradient has arrived for the present round */
    uint32_t samples; /* that this gradient is of */
} clq_round_share;

typedef struct clq_rounds {
    clq_storage storage; /* first: clq_storage_of */
    unsigned needed;   /* replicas whose gradients make an update */
    /* Under the server's lock. */
    uint64_t made, arrived; /* rounds so far; gradients that have arrived for the next one */
    clq_round_share shares[CLQ_REPLICAS_MAX];
} clq_rounds;

static inline clq_rounds *clq_rounds_of(const clq_replica *replica) { return replica->strategy->own; }

/* A replica's step in the next round. */
clq_status clq_rounds_step(clq_replica *replica, const clq_command *command);

#endif
