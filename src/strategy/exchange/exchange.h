/* Exchanges: how replicas that each have a gradient come to the same update. Private to strategy.
 *
 * A replica meets its peers in a communicator (peers.c). What a step exchanges with them, and when, is an
 * exchange_kind, which is chosen once, when a strategy is opened (choose.c): whole gradients, buckets of them while
 * backward goes on (overlap.c), parts in shared memory (sharded.c) or over links (zero.c), fewer bytes (compress.c),
 * weights after local steps (local.c), or gradients for a store in the host's memory (central.c, ps.c). */
#ifndef CLQ_STRATEGY_EXCHANGE_H
#define CLQ_STRATEGY_EXCHANGE_H

#include "strategy/replicas/pool.h"

struct clq_part;
struct clq_replica;

/* What an exchange keeps beside the replicas' weights, for snapshots. {0}: nothing. */
typedef struct clq_kept {
    clq_store *store;                     /* that has parameters and slots; NULL: replicas have them */
    clq_buffer *errors[CLQ_REPLICAS_MAX]; /* of compression, laid out as the gradient; NULL: none */
    uint64_t *local_steps,
        *local_samples; /* steps since weights were averaged, and samples (replicas); NULL: not local */
} clq_kept;

typedef struct clq_exchange_kind {
    /* Makes the strategy's exchange_own, once its replicas have peers. close is called in any case, once the replicas'
     * threads have ended. NULL: nothing. */
    clq_status (*open)(clq_strategy *strategy);
    void (*close)(clq_strategy *strategy);
    /* By a replica's thread, a step in three parts: forward and backward, and what is exchanged meanwhile; the rest of
     * the exchange; the update. update NULL: finish has made it. Or `step`, all in one. */
    clq_status (*begin)(struct clq_replica *replica, const clq_command *command);
    clq_status (*finish)(struct clq_replica *replica, const clq_step_params *params);
    clq_status (*update)(struct clq_replica *replica, const clq_step_params *params);
    clq_status (*step)(struct clq_replica *replica, const clq_command *command);
    bool in_parts; /* begin hands on parts of a batch's gradient: accumulated gradients go whole */
    /* The same for a step by hand: the sum of all gradients, to each replica. NULL: each has it. */
    clq_status (*reduce)(struct clq_replica *replica);
    /* By the poster. A step was posted: which parts of the batch. Makes current what steps leave apart, but for state.
     * NULL: nothing. */
    void (*note)(clq_strategy *strategy, const struct clq_part *parts);
    void (*collect)(clq_strategy *strategy, unsigned what);
    void (*keeps)(clq_strategy *strategy, clq_kept *out); /* NULL: nothing */
    /* For reports: parts that a step's launches are run in, NULL: 1; whether the exchange is not among peers. */
    size_t (*parts)(const clq_strategy *strategy, unsigned replica);
    bool elsewhere;
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
/* What exchanges are made of: all of a step up to the end of backward; parts that a step's launches are run in, if that
 * is one and the update the other. */
clq_status clq_exchange_run_backward(struct clq_replica *replica, const clq_command *command);
size_t clq_exchange_two_parts(const clq_strategy *strategy, unsigned replica);
/* zero.c: the update of a replica's part, and the parameters of all parts. */
clq_status clq_zero_apply(struct clq_replica *replica, const clq_step_params *params);
/* sharded.c: the gradient, or the optimizer's slots (CLQ_CURRENT_OPTIMIZER), of which each replica has a part. */
void clq_parts_collect(clq_strategy *strategy, unsigned what);

/* ---- peers (peers.c) ---- */

/* How long a replica waits for another one in an exchange. */
double clq_strategy_deadline(const clq_strategy *strategy);
/* A communicator of replicas first, first + stride, …, its ranks in that order. It is the strategy's, which aborts it
 * at the first failure. Before threads start. */
clq_status clq_strategy_meet(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count, clq_comm **out);
/* The same as the peers of these replicas. One alone has none. */
clq_status clq_strategy_make_peers(clq_strategy *strategy, unsigned first, unsigned stride, unsigned count);
/* A replica's part of a collective of its peers. bytes: for the timeline, into which it goes if traced. */
clq_status clq_peers_run(struct clq_replica *replica, const clq_task *task, size_t bytes, bool traced);
/* The same by the replica's own thread, which does nothing else meanwhile; the time counts as exposed. */
clq_status clq_peers_run_exposed(struct clq_replica *replica, const clq_task *task, size_t bytes);
/* Bytes [begin, end) of values become their sum over the peers. queue: the replica's, for its own thread. */
clq_task clq_peers_sum(clq_queue *queue, clq_buffer *values, clq_dtype dtype, size_t begin, size_t end);
/* The first `bytes` of values become their sum over the peers; exposed, too. */
clq_status clq_peers_add_up(struct clq_replica *replica, clq_buffer *values, clq_dtype dtype, size_t bytes);
/* The sum of all gradients, to each of the peers. */
clq_status clq_peers_add_up_gradients(struct clq_replica *replica);
/* As of clq_exchange, within a step; context: the replica. */
clq_status clq_peers_all_reduce(void *replica, clq_queue *queue, clq_buffer *values, size_t count);
/* Time that replica 0 spent in an exchange with nothing else to do. */
void clq_peers_note_exposed(struct clq_replica *replica, uint64_t ns);
/* State of which each replica has its own becomes its mean over the peers that have computed on samples since the last
 * mean: of the others it is older. Posts to all replicas. */
void clq_strategy_average_state(clq_strategy *strategy);

#endif
