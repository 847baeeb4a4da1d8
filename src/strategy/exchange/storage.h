/* Replicas whose variables lie in a store (store.h): what central storage and the parameter servers share (central.c,
 * ps.c). Private to these.
 *
 * Replicas compute gradients with copies of the parameters. Their threads share one lock; the thread whose gradient
 * completes an update makes it, with the store's servers. */
#ifndef CLQ_STRATEGY_STORAGE_H
#define CLQ_STRATEGY_STORAGE_H

#include "strategy/exchange/store.h"
#include "strategy/module.h"

/* A replica's side of the store. */
typedef struct clq_client {
    clq_buffer *pinned;    /* its gradient on the host; NULL where the host sees the device's memory */
    const float *gradient; /* there, or in the device's memory; whole between a push and the next step */
    float *parameters;     /* the device's, where the host sees them; else NULL */
    clq_event *done;       /* of the transfer of the gradient; reused */
    bool met;              /* it has arrived at the next meeting of all */
} clq_client;

/* Begins what a module has of its own: strategy->own points to it. */
typedef struct clq_storage {
    clq_store *store; /* NULL for inference only */
    double deadline_s;
    clq_client clients[CLQ_REPLICAS_MAX];
    const clq_strategy *strategy;
    unsigned count;
    float *squares;      /* (metric_slots, variables) of the gradients' norms; NULL: not measured */
    clq_origin *origins; /* (metric_slots) */
    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked;                /* the lock was made */
    atomic_bool aborted;        /* a replica failed */
    uint64_t meetings, present; /* meetings of all replicas so far; replicas that have arrived at the next one */
    uint64_t pushed, dropped;   /* gradients */
    uint64_t version;           /* the store's, without an update that is under way */
    uint64_t *histogram;        /* (bound + 1): updates by their staleness; NULL: synchronous */
    uint64_t bound;             /* of the staleness */
} clq_storage;

static inline clq_storage *clq_storage_of(const clq_replica *replica) { return replica->strategy->own; }
static inline clq_client *clq_client_of(const clq_replica *replica) {
    return &clq_storage_of(replica)->clients[replica->worker.index];
}

/* With the lock held: waits for a change, at most until the time `until` (clq_now_running). Errors: ABORTED; TIMEOUT,
 * whose message names replica `late`. */
clq_status clq_storage_await(clq_storage *storage, double until, unsigned late);
double clq_storage_until(const clq_storage *storage);

/* Brings the replica's gradient to the host, and waits for it. */
clq_status clq_storage_push(clq_replica *replica);
/* Copies the store's parameters to the replica. *version: theirs; set before the copy begins. May be NULL. */
clq_status clq_storage_pull(clq_replica *replica, uint64_t *version);
/* Notes the time from `began` to now, between a gradient and new parameters. */
clq_status clq_storage_note_exchange(clq_replica *replica, double began);
/* Squared norms of the store's gradient, by variable, to the row of `slot`; before the next update. */
void clq_storage_measure(const clq_strategy *strategy, uint32_t slot);

/* For modules' tables. open: strategy->own is allocated. close frees it. */
clq_status clq_storage_prepare(clq_strategy *strategy);
clq_status clq_storage_open(clq_strategy *strategy, const clq_exchange_kind *exchange);
void clq_storage_close(clq_strategy *strategy);
void clq_storage_abort(clq_strategy *strategy);
clq_status clq_storage_apply(clq_replica *replica, const clq_step_params *params);
clq_status clq_storage_write(clq_strategy *strategy, size_t variable, const void *from);
void clq_storage_squares(const clq_strategy *strategy, uint32_t slot, float *out);
clq_origin *clq_storage_origin(const clq_strategy *strategy, uint32_t slot);
/* For their exchanges'. */
clq_status clq_storage_reduce(clq_replica *replica);
void clq_storage_collect(clq_strategy *strategy, unsigned what);
void clq_storage_keeps(clq_strategy *strategy, clq_kept *out);

#endif
