/* Strategies whose variables lie in a store (store.h): what they share. Central storage and the synchronous parameter
 * server are central.c; the asynchronous one is ps.c. Private to these two.
 *
 * Replicas compute gradients with copies of the parameters. Their threads share one lock; the thread whose gradient
 * completes an update makes it, with the store's servers. */
#ifndef CLQ_STRATEGY_CENTRAL_H
#define CLQ_STRATEGY_CENTRAL_H

#include "strategy/exchange/store.h"
#include "strategy/module.h"

/* A replica's side of the store. */
typedef struct clq_client {
    clq_buffer *pinned;    /* its gradient on the host; NULL where the host sees the device's memory */
    const float *gradient; /* there, or in the device's memory; whole between a push and the next step */
    float *parameters;     /* the device's, where the host sees them; else NULL */
    clq_event *done;       /* of the transfer of the gradient; reused */
    bool met;              /* it has arrived at the next meeting of all */
    /* Synchronous steps: how many it was given; whether its gradient has arrived for the current one, of how many
     * samples. */
    uint64_t steps;
    bool came;
    uint32_t samples;
    /* Asynchronous steps: batches that it was given and has not finished; whether it computes a gradient, and with
     * which version of the parameters; how long its last batch took. */
    unsigned outstanding;
    bool under_way;
    uint64_t read;
    double seconds;
} clq_client;

typedef struct clq_central {
    clq_store *store; /* NULL for inference only */
    double deadline_s;
    clq_client clients[CLQ_REPLICAS_MAX];
    const clq_strategy *strategy;
    unsigned count;
    unsigned needed; /* replicas whose gradients make a synchronous update */
    bool asynchronous;
    uint64_t bound;                        /* of the staleness */
    unsigned last_given;                   /* who got the last batch; the poster's */
    float *squares;                        /* (metric_slots, variables) of the gradients' norms; NULL: not measured */
    clq_origin *origins;                   /* (metric_slots) */
    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool locked;                /* the lock was made */
    atomic_bool aborted;        /* a replica failed */
    uint64_t meetings, present; /* meetings of all replicas so far; replicas that have arrived at the next one */
    uint64_t steps, arrived;    /* synchronous steps so far; gradients that have arrived for the next one */
    uint64_t pushed, dropped;   /* gradients */
    uint64_t version;           /* the store's, without an update that is under way */
    bool updating;              /* an asynchronous update is under way */
    uint64_t *histogram;        /* (staleness + 1): updates by their staleness; NULL: synchronous */
    uint64_t finished;          /* all steps up to this one (params.step) were applied */
    struct {
        uint64_t step; /* 0: none */
        double ended;  /* when it was applied; once `finished` has passed it: when all steps up to it were */
    } * times;         /* (CLQ_STEP_TIMES) by step; NULL: synchronous */
} clq_central;

static inline clq_central *clq_central_of(const clq_replica *replica) { return replica->strategy->own; }
static inline clq_client *clq_client_of(const clq_replica *replica) {
    return &clq_central_of(replica)->clients[replica->worker.index];
}

/* With the lock held: waits for a change, at most until the time `until` (clq_now_running). Errors: ABORTED; TIMEOUT,
 * whose message names replica `late`. */
clq_status clq_central_await(clq_central *central, double until, unsigned late);
double clq_central_until(const clq_central *central);

/* Brings the replica's gradient to the host, and waits for it. */
clq_status clq_central_push(clq_replica *replica);
/* Copies the store's parameters to the replica. *version: theirs; set before the copy begins. May be NULL. */
clq_status clq_central_pull(clq_replica *replica, uint64_t *version);
/* Notes the time from `began` to now, between a gradient and new parameters. */
clq_status clq_central_note_exchange(clq_replica *replica, double began);
/* Squared norms of the store's gradient, by variable, to the row of `slot`; before the next update. */
void clq_central_measure(const clq_strategy *strategy, uint32_t slot);

/* The module's functions, and those of its exchange. */
clq_status clq_central_prepare(clq_strategy *strategy);
clq_status clq_central_open(clq_strategy *strategy, const clq_exchange_kind *exchange);
void clq_central_close(clq_strategy *strategy);
void clq_central_abort(clq_strategy *strategy);
clq_status clq_central_step(clq_replica *replica, const clq_command *command);
clq_status clq_central_reduce(clq_replica *replica);
clq_status clq_central_apply(clq_replica *replica, const clq_step_params *params);
clq_status clq_central_write(clq_strategy *strategy, size_t variable, const void *from);
void clq_central_collect(clq_strategy *strategy, unsigned what);
void clq_central_keeps(clq_strategy *strategy, clq_kept *out);
void clq_central_squares(const clq_strategy *strategy, uint32_t slot, float *out);
clq_origin *clq_central_origin(const clq_strategy *strategy, uint32_t slot);

#endif
