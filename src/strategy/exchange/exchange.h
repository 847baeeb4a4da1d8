/* Exchanges: how replicas that each compute a gradient come to the same update. Private to strategy.
 *
 * An exchange is a clq_exchange_kind, a table of functions; a strategy chooses one when it is opened (choose.c).
 * Replicas exchange whole gradients (exchange.c); buckets of them during backward (overlap.c); parts, in shared memory
 * (sharded.c) or over links (zero.c); compressed gradients (compress.c); weights, after local steps (local.c); or they
 * give gradients to a store (storage.c), of their process or of ranks of their own (remote.c, serve.c). */
#ifndef CLQ_STRATEGY_EXCHANGE_H
#define CLQ_STRATEGY_EXCHANGE_H

#include "strategy/replicas/pool.h"

struct clq_replica;

/* What an exchange keeps beside the replicas' weights, for snapshots. {0}: nothing. */
typedef struct clq_kept {
    const struct clq_storage *storage;     /* that has parameters and slots; NULL: replicas have them */
    clq_buffer *errors[CLQ_REPLICAS_MAX];  /* of compression, laid out as the gradient; NULL: none */
    uint64_t *local_steps, *local_samples; /* steps since weights were averaged, and samples (replicas of all
                                              processes); NULL: not local */
} clq_kept;

typedef struct clq_exchange_kind {
    /* open makes the strategy's exchange_own, once its replicas have peers. close is called if the kind was chosen,
     * also if open failed, once the replicas' threads have ended. NULL: nothing. */
    clq_status (*open)(clq_strategy *strategy);
    void (*close)(clq_strategy *strategy);

    /* A step, by each replica's thread. */
    clq_status (*begin)(struct clq_replica *replica, /* forward and backward, with what is exchanged meanwhile */
                        const clq_command *command);
    clq_status (*finish)(struct clq_replica *replica, const clq_step_params *params); /* the rest. NULL: reduce */
    clq_status (*update)(struct clq_replica *replica, const clq_step_params *params); /* NULL: finish makes it */
    clq_status (*step)(struct clq_replica *replica, const clq_command *command);      /* in place of these three */
    bool during_backward; /* begin exchanges gradients of one batch: accumulated ones need the whole exchange */
    /* For a step by hand: each replica gets the sum of all gradients. NULL: it has it. */
    clq_status (*reduce)(struct clq_replica *replica);

    /* By the poster. */
    void (*note)(clq_strategy *strategy, size_t samples); /* a step of so many was posted. NULL: nothing */
    /* Makes `what` current on all replicas, which is not STATE. NULL: steps leave nothing outdated. */
    void (*collect)(clq_strategy *strategy, unsigned what);
    void (*keeps)(clq_strategy *strategy, clq_kept *out); /* NULL: nothing */

    size_t (*runs)(const clq_strategy *strategy, unsigned replica); /* of launches in a step. NULL: 1 */
} clq_exchange_kind;
extern const clq_exchange_kind clq_exchange_none; /* replicas that update by themselves */
extern const clq_exchange_kind clq_exchange_whole, clq_exchange_overlapped, clq_exchange_sharded, clq_exchange_zero,
    clq_exchange_compressed, clq_exchange_local;

/* choose.c: decides the fast paths of the exchange, and opens the exchange that they and the settings ask for, or
 * `given`. Once replicas have their peers. */
clq_status clq_exchange_choose(clq_strategy *strategy, const clq_exchange_kind *given);
/* exchange.c: a whole step of a replica, by the strategy's exchange. */
clq_status clq_exchange_step(struct clq_replica *replica, const clq_command *command);
clq_kept clq_exchange_kept(clq_strategy *strategy);
/* For `begin`: all of a step up to the end of backward. For `runs`: two, up to the end of backward and for the update.
 */
clq_status clq_exchange_run_backward(struct clq_replica *replica, const clq_command *command);
size_t clq_exchange_two_runs(const clq_strategy *strategy, unsigned replica);
/* zero.c: the update of a replica's part, and the parameters of all parts. */
clq_status clq_zero_apply(struct clq_replica *replica, const clq_step_params *params);
/* sharded.c: the gradient, or the optimizer's slots (CLQ_CURRENT_OPTIMIZER), of which each replica has a part. */
void clq_shards_collect(clq_strategy *strategy, unsigned what);

/* compress.c: whether replicas compress what they exchange, with or without processes between them. */
bool clq_compresses(const clq_strategy_options *options);

/* ---- peers (peers.c) ---- */

/* How long a replica waits for another one in an exchange. */
double clq_strategy_deadline(const clq_strategy *strategy);
/* A communicator of replicas first, first + stride, …, its ranks in that order. It is the strategy's, which aborts it
 * at the first failure. Before threads start. */
clq_status clq_strategy_make_comm(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count,
                                  clq_comm **out);
/* Makes such a communicator, and these replicas the peers in it. A replica alone keeps peers NULL. */
clq_status clq_strategy_make_peers(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count);
/* Whether some of the replicas are on another machine. */
bool clq_peers_are_far(const clq_strategy *strategy);
/* A replica's part of a collective of its peers. bytes: for the timeline, into which it goes if traced. */
clq_status clq_peers_run(struct clq_replica *replica, const clq_task *task, size_t bytes, bool traced);
/* The same by the replica's own thread, which does nothing else meanwhile; the time counts as exposed. */
clq_status clq_peers_run_exposed(struct clq_replica *replica, const clq_task *task, size_t bytes);
/* Bytes [begin, end) of values become their sum over the peers. queue: the replica's, for its own thread. */
clq_task clq_peers_sum(clq_queue *queue, clq_buffer *values, clq_dtype dtype, size_t begin, size_t end);
/* Likewise of the gradient, of which the setting says what travels between processes. */
clq_task clq_peers_sum_gradient(const struct clq_replica *replica, clq_queue *queue, size_t begin, size_t end);
bool clq_peers_send_halves(const clq_strategy *strategy);
/* The first `bytes` of values become their sum over the peers; exposed, too. */
clq_status clq_peers_add_up(struct clq_replica *replica, clq_buffer *values, clq_dtype dtype, size_t bytes);
/* The sum of all gradients, to each of the peers. */
clq_status clq_peers_add_up_gradients(struct clq_replica *replica);
/* As of clq_step_sum, within a step; context: the replica. And such a sum of all replicas. */
clq_status clq_peers_all_reduce(void *replica, clq_queue *queue, clq_buffer *values, size_t count);
clq_step_sum clq_peers_step_sum(const struct clq_replica *replica);
/* Time that replica 0 spent in an exchange with nothing else to do. */
void clq_peers_note_exposed(struct clq_replica *replica, uint64_t ns);
/* Averages the unsynchronized state over the peers. A replica that has computed on no samples since the last average
 * has older values, which do not count. Posts to all replicas. */
void clq_strategy_average_state(clq_strategy *strategy);

#endif
