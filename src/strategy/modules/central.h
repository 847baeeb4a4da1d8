/* Rounds of synchronous steps over a store: central storage, and the parameter server without staleness. Private to
 * central.c and ps.c. */
#ifndef CLQ_STRATEGY_CENTRAL_H
#define CLQ_STRATEGY_CENTRAL_H

#include "strategy/exchange/server.h"

/* Of a replica. */
typedef struct clq_turn_of_round {
    uint64_t given;   /* rounds that it was given */
    bool came;        /* its gradient has arrived for the present one, */
    uint32_t samples; /* of so many samples */
} clq_turn_of_round;

typedef struct clq_rounds {
    clq_server server; /* first: clq_server_of */
    unsigned needed;   /* replicas whose gradients make an update */
    /* Under the server's lock. */
    uint64_t made, arrived; /* rounds so far; gradients that have arrived for the next one */
    clq_turn_of_round turns[CLQ_REPLICAS_MAX];
} clq_rounds;

static inline clq_rounds *clq_rounds_of(const clq_replica *replica) { return replica->strategy->own; }

/* A replica's step in the next round. */
clq_status clq_rounds_step(clq_replica *replica, const clq_command *command);

#endif
