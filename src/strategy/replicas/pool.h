/* pool: worker threads, one per device, which carry out commands in order. A command is a function with its arguments.
 * Private to strategy.
 *
 * One thread, the poster, posts commands to all workers of a pool. Each worker has its own channel, so the poster can
 * run some steps ahead of the devices. The first failure of any worker becomes the pool's failure: all workers skip the
 * commands that they have not begun, and every later wait returns the failure. */
#ifndef CLQ_STRATEGY_POOL_H
#define CLQ_STRATEGY_POOL_H

#include "strategy/strategy.h"

#include <pthread.h>

/* CLQ_STEP_TIMES: how many of the last steps have their times kept. */
enum { CLQ_COMMANDS_MAX = 64, CLQ_STEP_TIMES = 4096 };

typedef struct clq_worker clq_worker;
typedef struct clq_command clq_command;

enum {
    CLQ_COMMAND_BATCH = 1,        /* works on a batch; traces number these commands */
    CLQ_COMMAND_ENDS_STEP = 2,    /* a step ends with it: it makes the update */
    CLQ_COMMAND_IN_STEP = 4,      /* a part of a step that another command ends */
    CLQ_COMMAND_MEASURES = 8,     /* writes a row of metrics */
    CLQ_COMMAND_ACCUMULATES = 16, /* its gradient is accumulated; a later command makes the update */
    CLQ_COMMAND_MAY_DROP = 32     /* may leave its batch unused */
};

/* What a command does. */
typedef struct clq_command_kind {
    const char *name; /* for traces */
    unsigned traits;  /* CLQ_COMMAND_… */
    clq_status (*run)(clq_worker *worker, const clq_command *command);
    /* Called in place of run once the pool has failed. NULL: nothing is to be done. */
    void (*skip)(clq_worker *worker, const clq_command *command);
} clq_command_kind;

struct clq_command {
    const clq_command_kind *kind;
    /* Arguments. Each kind uses some of them. */
    clq_step_params params;
    bool counts;                /* for averages: the worker's own values are part of the mean */
    struct clq_staging *staged; /* the slot with the batch's rows. NULL: no rows, or they are in `rows` */
    clq_rows rows;              /* rows that stay: the worker copies them. count 0: none */
    unsigned memory;            /* for transfers: clq_arena. Arenas may swap their buffers while commands wait */
    size_t offset, bytes;
    size_t variable;                 /* for transfers of slices */
    uint32_t first_slot, slot_count; /* for figures: which slots of the metrics */
    void *to;
    const void *from;
    float *const *outputs; /* for predictions: as in clq_strategy_predict */
};

struct clq_worker {
    struct clq_pool *pool;
    unsigned index;
    clq_device *device; /* not owned */
    clq_queue *queue;
    void *owner;        /* the clq_replica that the commands are about */
    unsigned in_flight; /* how many steps the device may be behind the thread */
    clq_channel *commands;
    clq_thread *thread;
    bool tracing;          /* true until trace_steps batches are traced */
    uint64_t traced;       /* batches so far, while tracing */
    clq_timeline steps;    /* when the thread carried out which command */
    float *step_s;         /* ring (CLQ_STEP_TIMES): seconds of steps that followed other steps directly */
    uint64_t steps_timed;  /* entries written to step_s so far */
    uint64_t steps_in_row; /* steps since the last command that is not part of a step */
    uint64_t steps_done;   /* whole steps that were handed to the device so far */
    double *step_ended;    /* ring (CLQ_STEP_TIMES): when each step was handed to the device (clq_now) */
};

/* Initialize with CLQ_POOL_START. The caller may also set trace_steps, on_failure, failure_elsewhere and context. */
typedef struct clq_pool {
    clq_worker *workers[CLQ_REPLICAS_MAX];
    unsigned count;
    size_t trace_steps;
    atomic_bool failed;
    clq_error failure; /* the first cause that a worker reported; written before `failed` */
    pthread_mutex_t lock;
    pthread_cond_t told; /* signalled when `failed` is set */
    /* Called by the thread that failed: ends the waits of other workers for it. NULL: nothing to end. Set before the
     * first thread starts. */
    void (*on_failure)(void *context, const clq_error *error);
    /* Called when a worker's wait was aborted. If the cause is outside this process's workers, returns it as the
     * calling thread's failure. CLQ_OK: a worker of this process is the cause. NULL: nothing else can be. */
    clq_status (*failure_elsewhere)(void *context);
    void *context;
} clq_pool;
#define CLQ_POOL_START .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER

/* Creates the worker's queue, and adds the worker to the pool. The caller has set device, owner and in_flight. Call
 * clq_worker_close even if this fails. */
clq_status clq_worker_open(clq_worker *worker, clq_pool *pool);
/* `ahead`: how many commands may wait for the worker, 1 to CLQ_COMMANDS_MAX. */
clq_status clq_worker_start(clq_worker *worker, unsigned ahead);
void clq_worker_stop(clq_worker *worker);  /* ends its thread, after all posted commands */
void clq_worker_close(clq_worker *worker); /* after clq_worker_stop. Does not close the device */

void clq_pool_post(clq_pool *pool, const clq_command *command); /* to all */
/* Waits until all posted commands are done and the devices are idle. Returns the first failure. */
clq_status clq_pool_wait(clq_pool *pool);
/* Posts one command to one worker, and waits until it is done: for transfers. After a failure, posts nothing. */
clq_status clq_worker_call(clq_worker *worker, const clq_command *command);
/* Likewise, but posts the command even after a failure. Then the worker calls the kind's `skip`. */
void clq_worker_ask(clq_worker *worker, const clq_command *command);
/* The first failure of any worker so far, or CLQ_OK. Does not wait. */
clq_status clq_pool_failure(clq_pool *pool);
/* Reports a failure of a worker. By the worker's own threads. */
void clq_worker_fail(clq_worker *worker, clq_status status);

#endif
