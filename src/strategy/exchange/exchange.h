/* Exchanges: how replicas that each compute a gradient come to the same update. Private to strategy.
 *
 * An exchange is a clq_exchange_kind, which is a table of functions. A strategy chooses its exchange when it is opened
 * (choose.c). Replicas exchange one of these: whole gradients (exchange.c); buckets of the gradient during backward
 * (overlap.c); parts of the gradient, in shared memory (sharded.c) or over links (zero.c); compressed gradients
 * (compress.c); or weights, after local steps (local.c). With a store, replicas push gradients to the store instead
 * (storage.c). The store lies in their process (store.c) or on store ranks (remote.c, serve.c). */
#ifndef CLQ_STRATEGY_EXCHANGE_H
#define CLQ_STRATEGY_EXCHANGE_H

#include "strategy/replicas/pool.h"

struct clq_replica;

/* What a snapshot takes from an exchange, in addition to the replicas' weights. All of it belongs to the exchange; {0}
 * means that nothing is kept. */
typedef struct clq_kept {
    const struct clq_storage *storage;     /* has parameters and slots; NULL: the replicas have them */
    clq_buffer *errors[CLQ_REPLICAS_MAX];  /* the compression error of each replica of this process, laid out as the
                                              gradient; NULL: none */
    uint64_t *local_steps, *local_samples; /* since the weights were last averaged: the number of steps, and the samples
                                              of each replica (replicas of all processes); NULL: no local steps */
} clq_kept;

typedef struct clq_exchange_kind {
    /* open makes strategy->exchange_own, after the replicas got their peers. close is called after the replicas'
     * threads have ended, even if open failed. NULL: nothing to do. */
    clq_status (*open)(clq_strategy *strategy);
    void (*close)(clq_strategy *strategy);

    /* Each replica's thread makes a step by begin, finish and update, in this order. If step is not NULL, it makes the
     * whole step instead. */
    clq_status (*begin)(struct clq_replica *replica, /* forward and backward, and what is exchanged during backward */
                        const clq_command *command);
    clq_status (*finish)(struct clq_replica *replica, const clq_step_params *params); /* the rest; NULL: reduce */
    clq_status (*update)(struct clq_replica *replica, const clq_step_params *params); /* NULL: finish makes it */
    clq_status (*step)(struct clq_replica *replica, const clq_command *command);      /* in place of these three */
    bool during_backward; /* begin exchanges gradients. So steps that accumulate batches use clq_exchange_whole */
    /* Gives each replica the sum of all gradients: in a step by hand, and if finish is NULL. NULL: each replica has the
     * sum already. */
    clq_status (*reduce)(struct clq_replica *replica);

    /* Called by the poster. */
    void (*note)(clq_strategy *strategy, size_t samples); /* a step of `samples` was posted; NULL: nothing to note */
    /* Makes `what`, which is never CLQ_ARENA_STATE, current on all replicas. NULL: steps leave nothing outdated. */
    void (*collect)(clq_strategy *strategy, unsigned what);
    void (*keeps)(clq_strategy *strategy, clq_kept *out); /* for snapshots; NULL: nothing is kept */

    /* In how many parts a step's launches are run. NULL: 1. */
    size_t (*runs)(const clq_strategy *strategy, unsigned replica);
} clq_exchange_kind;
extern const clq_exchange_kind clq_exchange_none; /* each replica updates by itself */
extern const clq_exchange_kind clq_exchange_whole, clq_exchange_overlapped, clq_exchange_sharded, clq_exchange_zero,
    clq_exchange_compressed, clq_exchange_local;

/* choose.c: decides the fast paths of the exchange, and opens an exchange: `given`, or if that is NULL the exchange
 * that the paths and the settings ask for. Called after the replicas got their peers. */
clq_status clq_exchange_choose(clq_strategy *strategy, const clq_exchange_kind *given);
/* exchange.c: a replica's whole step, by the strategy's exchange. */
clq_status clq_exchange_step(struct clq_replica *replica, const clq_command *command);
clq_kept clq_exchange_kept(clq_strategy *strategy);
/* A function for `begin`: all of a step up to the end of backward. A function for `runs`: 2, one part up to the end of
 * backward and one for the update. */
clq_status clq_exchange_run_backward(struct clq_replica *replica, const clq_command *command);
size_t clq_exchange_two_runs(const clq_strategy *strategy, unsigned replica);
/* zero.c: updates the replica's part of the parameters, and gathers the parts of all replicas. */
clq_status clq_zero_apply(struct clq_replica *replica, const clq_step_params *params);
/* sharded.c: a function for `collect`, if each replica keeps only a part of `what` current. what: the gradient, or the
 * optimizer's slots (CLQ_CURRENT_OPTIMIZER). */
void clq_shards_collect(clq_strategy *strategy, unsigned what);

/* compress.c: whether replicas compress the gradients that they exchange, also within one process. False for
 * F16_BETWEEN. */
bool clq_compresses(const clq_strategy_options *options);

/* ---- peers (peers.c) ---- */

/* How many seconds a replica waits for another one in an exchange, at most. */
double clq_strategy_deadline(const clq_strategy *strategy);
/* Makes a communicator of the replicas first, first + stride, …, which are its ranks in that order. The strategy owns
 * the communicator, and aborts it at the first failure. Call before the replicas' threads start. */
clq_status clq_strategy_make_comm(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count,
                                  clq_comm **out);
/* Makes such a communicator, over all processes of the world, and makes these replicas the peers in it. If the strategy
 * has one replica in all processes, its peers stay NULL. */
clq_status clq_strategy_make_peers(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count);
/* Whether some of the replicas are on another machine. */
bool clq_peers_are_far(const clq_strategy *strategy);
/* Runs a replica's part of a collective of its peers. traced: adds the collective to the timeline, with `bytes`. */
clq_status clq_peers_run(struct clq_replica *replica, const clq_task *task, size_t bytes, bool traced);
/* The same, called by the replica's own thread, which does nothing else meanwhile: the time counts as exposed. */
clq_status clq_peers_run_exposed(struct clq_replica *replica, const clq_task *task, size_t bytes);
/* The task that replaces bytes [begin, end) of `values` by their sum over the peers. queue: the replica's queue if the
 * replica's own thread runs the task. */
clq_task clq_peers_sum(clq_queue *queue, clq_buffer *values, clq_dtype dtype, size_t begin, size_t end);
/* Likewise for the gradient, which travels between processes as F16 if the settings say so (clq_peers_send_halves). */
clq_task clq_peers_sum_gradient(const struct clq_replica *replica, clq_queue *queue, size_t begin, size_t end);
bool clq_peers_send_halves(const clq_strategy *strategy);
/* Replaces the first `bytes` of `values` by their sum over the peers. The time counts as exposed, too. */
clq_status clq_peers_add_up(struct clq_replica *replica, clq_buffer *values, clq_dtype dtype, size_t bytes);
/* Gives each of the peers the sum of all gradients. */
clq_status clq_peers_add_up_gradients(struct clq_replica *replica);
/* The function all_reduce of a clq_step_sum, whose context is the replica; and a clq_step_sum over all replicas with
 * this function. */
clq_status clq_peers_all_reduce(void *replica, clq_queue *queue, clq_buffer *values, size_t count);
clq_step_sum clq_peers_step_sum(const struct clq_replica *replica);
/* Adds `ns` to the time that replica 0 spent in exchanges with nothing else to do. For other replicas nothing is
 * added. */
void clq_peers_note_exposed(struct clq_replica *replica, uint64_t ns);
/* Averages the unsynchronized state over the peers, by a command to all replicas. A replica that has computed on no
 * samples since the last average has older values, which do not count. */
void clq_strategy_average_state(clq_strategy *strategy);

#endif
