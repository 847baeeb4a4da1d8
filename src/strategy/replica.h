/* A replica: a device, its plan and the thread that drives it. Private to strategy.
 *
 * The poster adds commands in order; the replica's thread takes them one by one. Rows of a dataset it copies itself
 * from where they lie. Rows of a caller's batch travel in staging slots: the poster fills the next free one and posts,
 * the replica's thread has the device read it and frees it. A poster that finds no room, in the queue or the slots,
 * goes on when half of it is free: waking costs a replica on the same core as much as a small launch. After a failure
 * anywhere the remaining commands are answered, not carried out. */
#ifndef CLQ_STRATEGY_REPLICA_H
#define CLQ_STRATEGY_REPLICA_H

#include "strategy/strategy.h"

/* STEPS_AHEAD: how many steps may be enqueued before the device has got to their rows. STEP_TIMES: of so many steps it
 * is kept how long they took. */
enum { CLQ_COMMANDS_MAX = 64, CLQ_STEP_TIMES = 4096 };
enum { CLQ_STAGING_SLOTS_MAX = 8, CLQ_STEPS_AHEAD = 2, CLQ_OWN_SLOTS = CLQ_STEPS_AHEAD + 1 };

/* Lets a poster wait until `remaining` parties have counted down. */
typedef struct clq_latch {
    pthread_mutex_t mutex;
    pthread_cond_t zero;
    unsigned remaining;
    bool ready; /* mutex and condition exist */
} clq_latch;

typedef enum clq_command_kind {
    CLQ_COMMAND_STEP, /* gradients, reduce and apply in one: the exchange may begin before backward ends */
    CLQ_COMMAND_GRADIENTS,
    CLQ_COMMAND_FORWARD,
    CLQ_COMMAND_REDUCE,
    CLQ_COMMAND_APPLY,
    CLQ_COMMAND_COLLECT_GRADIENT, /* what sharded updates have left in parts */
    CLQ_COMMAND_COLLECT_STATE,
    CLQ_COMMAND_PREDICT,
    CLQ_COMMAND_READ,
    CLQ_COMMAND_WRITE,
    CLQ_COMMAND_SYNC,
    CLQ_COMMAND_STOP
} clq_command_kind;

/* Which of a replica's buffers: arenas change places while commands wait. The first are those of clq_arena. */
typedef enum clq_memory { CLQ_METRICS = CLQ_ARENA_GRADIENT + 1, CLQ_NORMS } clq_memory;

typedef struct clq_command {
    clq_command_kind kind;
    struct clq_staging *staged; /* STEP, GRADIENTS, FORWARD, PREDICT: the rows. NULL without any, and for */
    clq_rows rows;              /* STEP: those that the replica is to copy; count 0: none */
    clq_step_params params;
    clq_latch *latch; /* counted down when the command is done. May be NULL */
    unsigned memory;  /* READ, WRITE: a clq_arena or a clq_memory */
    size_t offset, bytes;
    void *to;         /* READ, PREDICT */
    const void *from; /* WRITE */
} clq_command;

/* Rows on their way to the device, or where its kernels read them: in memory that is the host's too. */
typedef struct clq_staging {
    clq_buffer *samples, *labels;
    clq_event *read; /* the device has read the rows that were last in it; used again */
} clq_staging;

typedef struct clq_reducer clq_reducer;

typedef struct clq_replica {
    struct clq_strategy *strategy;
    unsigned index;
    size_t share;
    clq_device *device;
    clq_queue *queue;
    clq_weights *weights;
    clq_plan *plan;                  /* of the mode that the strategy was made for */
    clq_plan *plans[CLQ_MODE_COUNT]; /* over the same weights; NULL until needed */
    bool joined;                     /* clq_plan_config.fused_launches */
    clq_reducer *reducer;            /* NULL: a step exchanges its gradient at once, when backward has ended */
    clq_bucket *buckets;
    size_t bucket_count;
    atomic_uint_fast64_t exposed_ns; /* of exchanges, in which backward had nothing more to do; for replica 0 */
    clq_staging staging[CLQ_STAGING_SLOTS_MAX]; /* used round and round */
    unsigned slots;
    uint64_t filled, freed;         /* slots, so far; with the mutex */
    clq_staging own[CLQ_OWN_SLOTS]; /* where the replica's thread copies rows to, in turn */
    unsigned next_own;
    bool reads_in_place;                     /* slots are memory of the device, and nothing is uploaded */
    clq_staging *under_way[CLQ_STEPS_AHEAD]; /* of the last steps, in turn; NULL where nothing was staged */
    unsigned next_under_way;
    bool tracing;          /* until trace_steps batches were */
    uint64_t traced;       /* batches so far; while tracing */
    clq_timeline steps;    /* commands, as the replica's thread carried them out */
    clq_timeline exchange; /* by that thread, or the reducer while it waits */
    clq_thread *thread;
    bool ready; /* mutex and condition exist */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    clq_command commands[CLQ_COMMANDS_MAX];
    uint64_t posted, taken;
    unsigned ahead; /* how many may be posted and not taken */
    float *step_s;  /* (CLQ_STEP_TIMES) of steps right behind a step, in turn */
    uint64_t steps_timed;
    uint64_t steps_in_row;             /* with nothing between */
    double steps_ended[CLQ_OWN_SLOTS]; /* when the last of them did */
} clq_replica;

struct clq_strategy {
    const clq_model *model;
    clq_strategy_config config;
    clq_tune_log tune_log;
    unsigned count;
    clq_replica *replicas;
    clq_crew *crew;      /* NULL for one replica */
    bool shards_updates; /* in steps; of these: */
    bool gradient_is_apart, state_is_apart;
    bool apart;      /* each replica trains alone */
    clq_latch latch; /* what the poster waits for */
    clq_latch cause; /* open until the first replica has said why it failed */
    atomic_bool failed;
    clq_error failure;
    size_t *offsets, *counts; /* the split of the batch at hand */
};

/* Makes what it needs on its device, which is open. */
clq_status clq_replica_open(clq_replica *replica);
/* The plan for a mode, while the replica has nothing to do. */
clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode);
clq_status clq_replica_start(clq_replica *replica);
void clq_replica_stop(clq_replica *replica); /* ends its thread, after what was posted */
void clq_replica_close(clq_replica *replica);
void clq_replica_post(clq_replica *replica, const clq_command *command);
/* Opens every replica's device (contexts.c). */
clq_status clq_strategy_open_devices(struct clq_strategy *strategy, const clq_devices *devices);
void clq_latch_count_down(clq_latch *latch);

/* rows.c */
clq_status clq_replica_open_rows(clq_replica *replica); /* the slots; the replica's device and plan exist */
void clq_replica_close_rows(clq_replica *replica);
/* Copies `count` >= 1 rows of a batch into the next slot, once it is free. labels may be NULL. By the poster. */
clq_staging *clq_replica_stage(clq_replica *replica, const void *samples, const void *labels, size_t count);
/* The command's rows, where the plan's next run reads them; *out: their slot, NULL where there are none. */
clq_status clq_replica_bring_rows(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_staging **out);
void clq_replica_free_slot(clq_replica *replica); /* the one that was filled first */

/* step.c: each carries out the command that it is named after. */
clq_status clq_replica_step(clq_replica *replica, const clq_command *command);
clq_status clq_replica_gradients(clq_replica *replica, const clq_command *command);
clq_status clq_replica_forward(clq_replica *replica, const clq_command *command);
clq_status clq_replica_reduce(clq_replica *replica);
clq_status clq_replica_apply(clq_replica *replica, const clq_command *command);
clq_status clq_replica_collect_gradient(clq_replica *replica);
clq_status clq_replica_collect_state(clq_replica *replica);
clq_status clq_replica_predict(clq_replica *replica, const clq_command *command);
/* Exchanges a part of the gradient, where there is anybody to exchange it with; traced: it goes into the timeline. */
clq_status clq_replica_exchange(clq_replica *replica, clq_queue *queue, size_t begin, size_t end, bool traced);

/* reducer.c */
clq_status clq_reducer_create(clq_replica *replica, clq_reducer **out); /* the replica's device and plan exist */
void clq_reducer_destroy(clq_reducer *reducer);                         /* takes NULL; before the crew */
/* All replicas post the same buckets in the same order. Takes the event over. */
void clq_reducer_post(clq_reducer *reducer, const clq_bucket *bucket, clq_event *after);
void clq_reducer_wait(clq_reducer *reducer); /* until all that was posted is exchanged, or has failed */
void clq_strategy_fail(struct clq_strategy *strategy, clq_status status, const clq_replica *replica);

#endif
