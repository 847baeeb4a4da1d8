/* Replicas whose variables lie in a store (store.h), or on store ranks (remote.h): what central storage and the
 * parameter servers share (central.c, ps.c). Private to these.
 *
 * Replicas compute gradients with copies of the parameters. Their threads share one lock; the thread whose gradient
 * completes an update makes it, with the store's servers. */
#ifndef CLQ_STRATEGY_STORAGE_H
#define CLQ_STRATEGY_STORAGE_H

#include "strategy/exchange/remote.h"
#include "strategy/exchange/store.h"
#include "strategy/module.h"

/* A replica's side of the store. */
typedef struct clq_client {
    clq_buffer *pinned;    /* its gradient on the host; NULL where the host sees the device's memory */
    const float *gradient; /* there, or in the device's memory; whole between a push and the next step */
    float *parameters;     /* the device's, where the host sees them; else NULL */
    clq_buffer *landing;   /* of a remote store, where `parameters` is NULL: on their way to the device */
    clq_event *done;       /* of the transfer of the gradient; reused */
    bool met;              /* it has arrived at the next meeting of all */
} clq_client;

/* Begins what a module has of its own: strategy->own points to it. */
typedef struct clq_storage {
    clq_store *store;   /* NULL for inference only, and with store ranks */
    clq_remote *remote; /* of these; NULL: there are none */
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
/* Copies the store's parameters to the replica, of store ranks once `least` updates are made. *version: theirs; set
 * before the copy begins. May be NULL. */
clq_status clq_storage_pull(clq_replica *replica, uint64_t least, uint64_t *version);
/* The same of store ranks, for a gradient that is to be computed with them. */
clq_status clq_storage_begin_far(clq_replica *replica);
/* Behind a round of store ranks: copies what it has left to the replica. */
clq_status clq_storage_take(clq_replica *replica);
/* A round of store ranks (clq_remote_round), by gradients of this process's replicas. The parameters are left for
 * clq_storage_take; the squares in the row of the step. */
clq_status clq_storage_round(clq_strategy *strategy, const float *const *gradients, unsigned count,
                             const clq_step_params *params);
/* Notes the time from `began` to now, between a gradient and new parameters. */
clq_status clq_storage_note_exchange(clq_replica *replica, double began);
/* Squared norms of a gradient, by variable, to the row of `slot`; of the store's before the next update. */
void clq_storage_measure(const clq_strategy *strategy, uint32_t slot, const float *gradient);

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

/* For snapshots. parameters, slots (clq_storage_states): (arena bytes) each. With no step under way; with store ranks,
 * write is called by all processes. */
unsigned clq_storage_states(const clq_storage *storage); /* 0: nothing is updated */
clq_status clq_storage_read_all(const clq_storage *storage, char *parameters, char *const *slots);
clq_status clq_storage_write_all(const clq_storage *storage, const char *parameters, char *const *slots);

#endif
