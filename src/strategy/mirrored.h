/* What the mirrored strategy keeps beside the replicas. Private to mirrored.c and reducer.c. */
#ifndef CLQ_STRATEGY_MIRRORED_H
#define CLQ_STRATEGY_MIRRORED_H

#include "strategy/replica.h"

typedef struct clq_reducer clq_reducer;

/* Of a replica. */
typedef struct clq_mirror {
    clq_reducer *reducer; /* NULL: a step exchanges its gradient at once, when backward has ended */
    clq_bucket *buckets;
    size_t bucket_count;
    atomic_uint_fast64_t exposed_ns; /* of exchanges, in which backward had nothing more to do; for replica 0 */
    clq_timeline exchanges;          /* by the replica's thread, or the reducer while it waits */
} clq_mirror;

typedef struct clq_mirrored {
    clq_crew *crew; /* NULL for one replica */
    clq_mirror mirrors[CLQ_REPLICAS_MAX];
    bool shards_updates; /* in steps; of these: */
    bool gradient_is_apart, optimizer_is_apart;
} clq_mirrored;

/* Exchanges a part of the gradient; traced: it goes into the timeline. */
clq_status clq_mirrored_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced);

/* ---- a replica's second thread, which exchanges buckets (reducer.c) ---- */

clq_status clq_reducer_create(clq_replica *replica, clq_reducer **out); /* the replica's device and plan exist */
void clq_reducer_destroy(clq_reducer *reducer);                         /* takes NULL; before the crew */
/* All replicas post the same buckets in the same order. Takes the event over. */
void clq_reducer_post(clq_reducer *reducer, const clq_bucket *bucket, clq_event *after);
void clq_reducer_wait(clq_reducer *reducer); /* until all that was posted is exchanged, or has failed */

#endif
