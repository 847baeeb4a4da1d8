/* pool: worker threads, one per device, which carry out commands in order. A command is a function with its arguments.
 * Private to strategy.
 *
 * One thread posts to all workers of a pool; each works through a channel of its own, so the poster runs ahead by some
 * steps while devices compute. The first failure of any worker is the pool's: the commands behind it are skipped, and
 * every later wait returns it. */
#ifndef CLQ_STRATEGY_POOL_H
#define CLQ_STRATEGY_POOL_H

#include "strategy/strategy.h"

#include <pthread.h>

/* STEP_TIMES: of so many steps it is kept how long they took. */
enum { CLQ_COMMANDS_MAX = 64, CLQ_STEP_TIMES = 4096 };

typedef struct clq_worker clq_worker;
typedef struct clq_command clq_command;

enum {
    CLQ_COMMAND_BATCH = 1,        /* works on a batch: traces count these */
    CLQ_COMMAND_ENDS_STEP = 2,    /* an update ends with it */
    CLQ_COMMAND_IN_STEP = 4,      /* a part of a step that another ends */
    CLQ_COMMAND_MEASURES = 8,     /* writes a row of metrics */
    CLQ_COMMAND_ACCUMULATES = 16, /* its gradient is one of several that become one */
    CLQ_COMMAND_MAY_DROP = 32     /* may leave its batch unused */
};

/* What a command does. */
typedef struct clq_command_kind {
    const char *name; /* for traces */
    unsigned traits;  /* CLQ_COMMAND_… */
    clq_status (*run)(clq_worker *worker, const clq_command *command);
    /* In place of run, after a failure; NULL: nothing is to be done. */
    void (*skip)(clq_worker *worker, const clq_command *command);
} clq_command_kind;

struct clq_command {
    const clq_command_kind *kind;
    /* Arguments, as far as the kind has them. */
    clq_step_params params;
    bool counts;                /* that averages: the worker's own values are part of the mean */
    struct clq_staging *staged; /* the batch's rows. NULL without any, and for */
    clq_rows rows;              /* those that stay, which the worker is to copy; count 0: none */
    unsigned memory;            /* of transfers: clq_arena. Arenas change places while commands wait */
    size_t offset, bytes;
    size_t variable;                 /* of transfers of slices */
    uint32_t first_slot, slot_count; /* of figures: which rows of the metrics */
    void *to;
    const void *from;
    float *const *outputs; /* of predictions: as clq_strategy_predict */
};

struct clq_worker {
    struct clq_pool *pool;
    unsigned index;
    clq_device *device; /* not owned */
    clq_queue *queue;
    void *owner;        /* who the commands are about */
    unsigned in_flight; /* steps that the device may be behind the thread */
    clq_channel *commands;
    clq_thread *thread;
    bool tracing;       /* until trace_steps batches were */
    uint64_t traced;    /* batches so far; while tracing */
    clq_timeline steps; /* commands, as the thread carried them out */
    float *step_s;      /* (CLQ_STEP_TIMES) of steps right behind a step, in turn */
    uint64_t steps_timed;
    uint64_t steps_in_row; /* with nothing between */
    uint64_t steps_done;   /* whole ones, handed to the device */
    double *step_ended;    /* (CLQ_STEP_TIMES) when each was, round and round */
};

/* Starts with CLQ_POOL_START, or that and trace_steps and what ends with a failure. */
typedef struct clq_pool {
    clq_worker *workers[CLQ_REPLICAS_MAX];
    unsigned count;
    size_t trace_steps;
    atomic_bool failed;
    clq_error failure; /* of the first worker that said why it failed; written before `failed` */
    pthread_mutex_t lock;
    pthread_cond_t told; /* `failed` is set */
    /* What else is to end when a worker has failed, as waiting for that one. Set before the first thread starts. */
    void (*on_failure)(void *context, const clq_error *error);
    /* What ended the waits of this process's workers, if it was none of them: the calling thread's failure. CLQ_OK: it
     * was one of them. NULL: nothing else can. */
    clq_status (*failure_elsewhere)(void *context);
    void *context;
} clq_pool;
#define CLQ_POOL_START .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER

/* Gives a worker its queue and puts it into the pool. device, owner and in_flight are set. Close in any case. */
clq_status clq_worker_open(clq_worker *worker, clq_pool *pool);
/* `ahead`: how many commands may wait for it, 1 to CLQ_COMMANDS_MAX. */
clq_status clq_worker_start(clq_worker *worker, unsigned ahead);
void clq_worker_stop(clq_worker *worker);  /* ends its thread, after what was posted */
void clq_worker_close(clq_worker *worker); /* stopped; its device is closed by who opened it */

void clq_pool_post(clq_pool *pool, const clq_command *command); /* to all */
/* Waits until all that was posted is done and the devices have nothing more to do; the first failure. */
clq_status clq_pool_wait(clq_pool *pool);
/* Posts one command and waits until it is done: for transfers. */
clq_status clq_worker_call(clq_worker *worker, const clq_command *command);
/* The same also after a failure, when the kind's `skip` is what is carried out. */
void clq_worker_ask(clq_worker *worker, const clq_command *command);
/* The first failure of any worker so far, or OK. Waits for nothing. */
clq_status clq_pool_failure(clq_pool *pool);
/* A failure of a worker, by its own threads. */
void clq_worker_fail(clq_worker *worker, clq_status status);

#endif
