/* rounds: the synchronous steps of replicas with a store, in central storage and in the parameter server without
 * staleness. A round ends with one update, by the gradients of `needed` replicas. Private to central.c and ps.c. */
#ifndef CLQ_STRATEGY_CENTRAL_H
#define CLQ_STRATEGY_CENTRAL_H

#include "strategy/exchange/storage.h"

/* A replica's part in the rounds. */
typedef struct clq_round_share {
    uint64_t given;   /* rounds that the replica was given */
    bool came;        /* its gradient has arrived for the present round */
    uint32_t samples; /* samples that this gradient is computed from */
} clq_round_share;

typedef struct clq_rounds {
    clq_storage storage; /* the first member: clq_storage_of */
    unsigned needed;     /* replicas whose gradients make an update */
    /* Under the storage's lock. */
    uint64_t made, arrived; /* rounds so far; gradients that have arrived for the next one */
    clq_round_share shares[CLQ_REPLICAS_MAX];
} clq_rounds;

static inline clq_rounds *clq_rounds_of(const clq_replica *replica) { return replica->strategy->own; }

/* Makes a replica's step, which is its part of its next round. */
clq_status clq_rounds_step(clq_replica *replica, const clq_command *command);

#endif
