/* storage: replicas whose variables lie in a store (store.h) or on store ranks (remote.h). Central storage (central.c)
 * and the parameter server (ps.c) have this in common. Private to them and to snapshots (state/snapshot.c).
 *
 * Each replica computes gradients with its own copy of the parameters. The replicas' threads share one lock. The thread
 * whose gradient completes an update makes that update, together with the store's servers. */
#ifndef CLQ_STRATEGY_STORAGE_H
#define CLQ_STRATEGY_STORAGE_H

#include "strategy/exchange/remote.h"
#include "strategy/exchange/store.h"
#include "strategy/module.h"

/* A replica's side of the store. */
typedef struct clq_client {
    clq_buffer *pinned;    /* the gradient's copy on the host; NULL if the host sees the device's memory */
    const float *gradient; /* in `pinned` or in the device's memory; complete between a push and the next step */
    float *parameters;     /* the parameters in the device's memory; NULL if the host does not see it */
    clq_buffer *landing;   /* with store ranks, if `parameters` is NULL: parameters on their way to the device */
    clq_event *done;       /* the end of the gradient's transfer; reused */
    bool met;              /* the replica has arrived at the next meeting of all */
} clq_client;

/* The first member of what a module has of its own, so strategy->own points to it. */
typedef struct clq_storage {
    clq_store *store;   /* NULL: inference only, or store ranks */
    clq_remote *remote; /* the store ranks; NULL: there are none */
    double deadline_s;
    clq_client clients[CLQ_REPLICAS_MAX];
    const clq_strategy *strategy;
    unsigned count;
    float *squares;      /* (metric_slots, variables) the squared norms of gradients; NULL: not measured */
    clq_origin *origins; /* (metric_slots) */
    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked;                /* the lock was made */
    atomic_bool aborted;        /* a replica failed */
    uint64_t meetings, present; /* meetings of all replicas so far; replicas that have arrived at the next one */
    uint64_t pushed, dropped;   /* gradients that were pushed; that came too late or were not begun */
    uint64_t version;           /* of the store: the updates so far, without one that is under way */
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
/* Copies the store's parameters to the replica. With store ranks, waits until `least` updates are made. *version: the
 * version of the parameters, set before the copy begins, and not set with store ranks; NULL: not wanted. */
clq_status clq_storage_pull(clq_replica *replica, uint64_t least, uint64_t *version);
/* The same from store ranks, for a gradient that is to be computed: waits until the bound allows it. */
clq_status clq_storage_begin_far(clq_replica *replica);
/* After a round of store ranks: copies the new parameters to the replica. */
clq_status clq_storage_take(clq_replica *replica);
/* Makes a round of store ranks (clq_remote_round) by gradients of this process's replicas. The new parameters wait for
 * clq_storage_take. The squares go to the row of the step. */
clq_status clq_storage_round(clq_strategy *strategy, const float *const *gradients, unsigned count,
                             const clq_step_params *params);
/* Notes the time from `began` to now, between the end of a gradient and the new parameters, as exposed time of an
 * exchange; in the timeline, too, while the replica traces. */
clq_status clq_storage_note_exchange(clq_replica *replica, double began);
/* Writes the squared norms of a gradient, by variable, to the row of `slot`. A store's gradient is to be measured
 * before the next update. */
void clq_storage_measure(const clq_strategy *strategy, uint32_t slot, const float *gradient);

/* For the tables of modules. The module allocates strategy->own before clq_storage_open. clq_storage_close frees it. */
clq_status clq_storage_prepare(clq_strategy *strategy);
clq_status clq_storage_open(clq_strategy *strategy, const clq_exchange_kind *exchange);
void clq_storage_close(clq_strategy *strategy);
void clq_storage_abort(clq_strategy *strategy);
clq_status clq_storage_apply(clq_replica *replica, const clq_step_params *params);
clq_status clq_storage_write(clq_strategy *strategy, size_t variable, const void *from);
void clq_storage_squares(const clq_strategy *strategy, uint32_t slot, float *out);
clq_origin *clq_storage_origin(const clq_strategy *strategy, uint32_t slot);
/* For the tables of these modules' exchanges. */
clq_status clq_storage_reduce(clq_replica *replica);
void clq_storage_collect(clq_strategy *strategy, unsigned what);
void clq_storage_keeps(clq_strategy *strategy, clq_kept *out);

/* For snapshots, while no step is under way. parameters, and each of the slots (clq_storage_states): (arena bytes).
 * With store ranks, all processes call clq_storage_write_all. */
unsigned clq_storage_states(const clq_storage *storage); /* 0: nothing is updated */
clq_status clq_storage_read_all(const clq_storage *storage, char *parameters, char *const *slots);
clq_status clq_storage_write_all(const clq_storage *storage, const char *parameters, char *const *slots);

#endif
