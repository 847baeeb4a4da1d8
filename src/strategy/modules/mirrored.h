/* What the mirrored strategy keeps beside the replicas, and the variants of its exchange and step. Private to
 * mirrored.c, overlap.c, sharded.c, zero.c, compress.c and local.c; tensor.c, whose replicas meet in the same way, uses
 * the functions of mirrored.c. */
#ifndef CLQ_STRATEGY_MIRRORED_H
#define CLQ_STRATEGY_MIRRORED_H

#include "strategy/replicas/replica.h"

/* Of a replica. */
typedef struct clq_mirror {
    clq_timeline exchanges;     /* by the replica's thread, or the reducer while it waits */
    clq_compressor *compressor; /* compress.c's; NULL: the gradient is exchanged as it is */
    /* Of overlap.c; 0 where it is off. */
    clq_bucket *buckets;
    size_t bucket_count;
    clq_thread *reducer;
    clq_channel *tasks; /* of the reducer */
    clq_queue *queue;   /* of the reducer; not ordered behind the replica's queue but by a task's `after` */
    bool lost;          /* a bucket was not summed; read after clq_channel_wait */
} clq_mirror;

/* Steps since the last average of the weights, and samples by replica; the poster's. */
typedef struct clq_local {
    uint64_t steps, samples[CLQ_REPLICAS_MAX];
} clq_local;

typedef struct clq_mirrored {
    clq_comm *comm; /* NULL for one replica */
    clq_mirror mirrors[CLQ_REPLICAS_MAX];
    atomic_uint_fast64_t exposed_ns; /* of replica 0: exchanges that did not overlap backward */
    /* What is not current on every replica: gradient and optimizer's slots that sharded steps left in parts; state that
     * replicas have of their own since they computed gradients. */
    bool is_apart[CLQ_CURRENT_OPTIMIZER + 1];
    clq_local local;
} clq_mirrored;

static inline clq_mirrored *clq_mirrored_of_strategy(const clq_strategy *strategy) { return strategy->own; }
static inline clq_mirrored *clq_mirrored_of(const clq_replica *replica) { return replica->strategy->own; }
static inline clq_mirror *clq_mirror_of(const clq_replica *replica) {
    return &clq_mirrored_of(replica)->mirrors[replica->worker.index];
}

/* A collective of all replicas. bytes: for the timeline, into which it goes if traced. */
clq_status clq_mirrored_run(clq_replica *replica, const clq_task *task, size_t bytes, bool traced);
/* The same by the replica's own thread, which does nothing else meanwhile; the time counts as exposed. */
clq_status clq_mirrored_run_exposed(clq_replica *replica, const clq_task *task, size_t bytes);
/* The first `bytes` of values become their sum over the replicas; exposed, too. */
clq_status clq_mirrored_add_up(clq_replica *replica, clq_buffer *values, clq_dtype dtype, size_t bytes);
/* The sum of all gradients, to each replica. */
clq_status clq_mirrored_reduce(clq_replica *replica);
/* As in clq_strategy_module. Makes the communicator of all replicas, which the first failure aborts. strategy->own may
 * have been allocated by the caller, with a clq_mirrored at its beginning. */
clq_status clq_mirrored_open(clq_strategy *strategy);
void clq_mirrored_close(clq_strategy *strategy); /* frees own */
clq_status clq_mirrored_all_reduce(void *replica, clq_queue *queue, clq_buffer *values, size_t count);
clq_comm_times clq_mirrored_comm_times(const clq_strategy *strategy);
const clq_timeline *clq_mirrored_exchanges(const clq_strategy *strategy, unsigned replica);

/* Exchanges a part of the gradient; traced: it goes into the timeline. */
clq_status clq_mirrored_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced);

/* Time that replica 0 spent in an exchange with nothing else to do. */
void clq_mirrored_note_exposed(clq_replica *replica, uint64_t ns);

/* overlap.c: buckets are exchanged by a second thread of each replica while backward goes on. */
clq_status clq_overlap_open(clq_strategy *strategy);
void clq_overlap_close(clq_strategy *strategy); /* before the communicator ends; also where it was not opened */
clq_status clq_overlap_step(clq_replica *replica, const clq_command *command);

/* zero.c: the optimizer is sharded. The step; and the update by hand, of the replica's part, then the all-gather. */
bool clq_zero_scatters(const clq_strategy *strategy); /* after a step each replica has its part of the gradient only */
clq_exchange clq_zero_add_squares(const clq_strategy *strategy, const clq_replica *replica);
clq_status clq_zero_step(clq_replica *replica, const clq_command *command);
clq_status clq_zero_apply(clq_replica *replica, const clq_step_params *params);

/* compress.c: the gradient is exchanged in fewer bytes. */
static inline bool clq_mirrored_compresses(const clq_strategy *strategy) {
    return strategy->config.options.compression.kind != CLQ_COMPRESSION_OFF && strategy->count > 1 &&
           strategy->config.plan.update;
}
clq_status clq_compression_open(clq_strategy *strategy); /* nothing where nothing is compressed */
void clq_compression_close(clq_strategy *strategy);      /* when no thread is in an exchange */
clq_status clq_compressed_reduce(clq_replica *replica);

/* local.c: replicas update by their own gradients, and average weights now and then. */
static inline bool clq_mirrored_is_local(const clq_strategy *strategy) {
    return strategy->config.options.local_steps > 0 && strategy->count > 1 && strategy->config.plan.update;
}
clq_status clq_local_open(clq_strategy *strategy); /* nothing where steps are not local */
clq_status clq_local_step(clq_replica *replica, const clq_command *command);
void clq_local_note(clq_strategy *strategy, const clq_part *parts); /* a step was posted */
void clq_local_average(clq_strategy *strategy); /* posts an average, where steps were made since the last */

/* sharded.c: every replica updates a part of the weights for all. */
clq_status clq_sharded_open(clq_strategy *strategy);
void clq_sharded_close(clq_strategy *strategy); /* likewise */
clq_status clq_sharded_step(clq_replica *replica, const clq_command *command);
/* Makes the gradient (memory: CLQ_ARENA_GRADIENT) or the optimizer's slots (CLQ_CURRENT_OPTIMIZER) whole again. */
extern const clq_command_kind clq_sharded_collect;

#endif
