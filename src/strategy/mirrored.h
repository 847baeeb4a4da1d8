/* What the mirrored strategy keeps beside the replicas, and the fast paths of its exchange. Private to mirrored.c,
 * overlap.c and sharded.c. */
#ifndef CLQ_STRATEGY_MIRRORED_H
#define CLQ_STRATEGY_MIRRORED_H

#include "strategy/replica.h"

typedef struct clq_reducer clq_reducer;

/* Of a replica. */
typedef struct clq_mirror {
    clq_reducer *reducer; /* NULL without overlap */
    clq_bucket *buckets;
    size_t bucket_count;
    clq_timeline exchanges; /* by the replica's thread, or the reducer while it waits */
} clq_mirror;

typedef struct clq_mirrored {
    clq_comm *comm; /* NULL for one replica */
    clq_mirror mirrors[CLQ_REPLICAS_MAX];
    /* How a step of several replicas is made: the plain way, or that of a fast path. */
    clq_status (*step)(clq_replica *replica, const clq_command *command);
    atomic_uint_fast64_t exposed_ns;            /* of replica 0's exchanges, in which backward had nothing to do */
    bool gradient_is_apart, optimizer_is_apart; /* sharded steps left them in parts */
    bool state_is_apart;                        /* replicas computed gradients, and each has state of its own */
} clq_mirrored;

/* Exchanges a part of the gradient; traced: it goes into the timeline. */
clq_status clq_mirrored_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced);

/* Time that replica 0 spent in an exchange with nothing else to do. */
void clq_mirrored_note_exposed(clq_replica *replica, uint64_t ns);

/* overlap.c: buckets are exchanged by a second thread of each replica while backward goes on. */
clq_status clq_overlap_open(clq_strategy *strategy);
void clq_overlap_close(clq_strategy *strategy); /* before the communicator ends; also where it was not opened */
clq_status clq_overlap_step(clq_replica *replica, const clq_command *command);

/* sharded.c: every replica updates a part of the weights for all. */
clq_status clq_sharded_open(clq_strategy *strategy);
void clq_sharded_close(clq_strategy *strategy); /* likewise */
clq_status clq_sharded_step(clq_replica *replica, const clq_command *command);
/* Posts what makes the gradient (CLQ_ARENA_GRADIENT) or the optimizer's slots whole on every replica. */
void clq_sharded_collect(clq_strategy *strategy, unsigned what);

#endif
