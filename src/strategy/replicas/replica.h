/* A replica: a worker with a model's weights on its device, plans over them and memory for rows on their way. And what
 * modules of strategies are made of. Private to strategy.
 *
 * A replica's thread copies rows that stay from where they lie. Other rows travel in staging slots: the poster fills
 * the next free slot and posts, the replica's thread has the device read it and frees it. */
#ifndef CLQ_STRATEGY_REPLICA_H
#define CLQ_STRATEGY_REPLICA_H

#include "strategy/replicas/paths.h"
#include "strategy/replicas/pool.h"
#include "strategy/replicas/shares.h"

/* STEPS_AHEAD: how many steps may be enqueued before the device has got to their rows. */
enum { CLQ_STAGING_SLOTS_MAX = 8, CLQ_STEPS_AHEAD = 2, CLQ_OWN_SLOTS = CLQ_STEPS_AHEAD + 1 };

/* Rows on their way to the device, or where its kernels read them: in memory that is the host's too. */
typedef struct clq_staging {
    clq_buffer *block; /* in which all lie (uploads.c); NULL where each has memory of its own */
    clq_buffer *arrays[CLQ_FEED_MAX]; /* by the strategy's feed; NULL: another stage reads it */
    clq_event *read; /* the device has read the rows that were last in it; used again */
} clq_staging;

/* A queue of its own for batches (uploads.c); {0} where rows go the same way as the launches. */
enum { CLQ_UPLOAD_BLOCKS = 2 };
typedef struct clq_uploads {
    clq_queue *queue;
    size_t at[CLQ_FEED_MAX];               /* where arrays lie in blocks */
    clq_staging blocks[CLQ_UPLOAD_BLOCKS]; /* the device's; .read: by the launches of the batch that was last in it */
    uint64_t sent, used;                   /* batches so far, of replicas without rows too: at most one is ahead */
    clq_staging *from;                     /* the slot of the one that was sent last; NULL: without rows */
} clq_uploads;

/* What steps measured (figures.c), in rows as of the plan's metrics. */
typedef struct clq_figures {
    clq_buffer *norms; /* (slots, variables): squares, as of clq_plan_norms; NULL where it does not measure them */
    size_t variables;  /* 0 without norms */
    clq_buffer *host; /* pinned: (slots, width) and (slots, variables), as far as they were read; NULL without a loss */
} clq_figures;

typedef struct clq_replica {
    clq_worker worker;
    clq_strategy *strategy;
    uint32_t capacity;      /* samples that a command may give it; at least 1 */
    const clq_stage *stage; /* of the model that it has; NULL: all */
    uint32_t plan_capacity; /* samples that its plans run at once; 0: capacity */
    uint32_t metric_rows;   /* for each slot, which add up; 0: 1 */
    bool measures_norms;    /* the gradient's norm is the root of the squares of all replicas that do */
    clq_weights *weights;
    clq_plan *plan;                  /* of the mode that the strategy was made for */
    clq_plan *plans[CLQ_MODE_COUNT]; /* over the same weights; NULL until needed */
    clq_plan *adding; /* for training, of batches behind the first of an update: `plan`, or NULL until needed */
    bool joined;      /* clq_plan_config.fused_launches */
    clq_staging staging[CLQ_STAGING_SLOTS_MAX]; /* used round and round */
    unsigned slots;
    uint64_t filled;                /* slots so far, by the poster */
    clq_channel *in_use;            /* slots that are filled and not free again */
    clq_staging own[CLQ_OWN_SLOTS]; /* where the replica's thread copies rows to, in turn */
    unsigned next_own;
    clq_uploads uploads;
    bool reads_in_place;                     /* slots are memory of the device, and nothing is uploaded */
    clq_staging *under_way[CLQ_STEPS_AHEAD]; /* of the last steps, in turn; NULL where nothing was staged */
    unsigned next_under_way;
    clq_figures figures;
    clq_pace pace;
    size_t activations_most; /* as of clq_plan_config */
    unsigned flights;        /* plans for training, each with activations of its own; 0: one */
} clq_replica;

/* ---- modules ----
 * A step has stages: input (rows where kernels read them) and execute, which are clq_replica_run; exchange and update;
 * and reading back, which are transfers. A module says how a step is made of them. A row of the table in strategy.c. */

/* What module->make_current can make current: arenas by clq_arena, and the optimizer's slots. */
enum { CLQ_CURRENT_OPTIMIZER = CLQ_ARENA_GRADIENT + 1 };

/* What a replica gets of a batch. */
typedef struct clq_part {
    size_t first, count; /* rows of the batch */
    bool runs;           /* the command is posted to it */
    bool measures;       /* its row of metrics counts, and predictions are read from it */
} clq_part;

/* What a module keeps beside the replicas' weights, for snapshots (snapshot.c). {0}: nothing. */
typedef struct clq_kept {
    bool *state_apart; /* replicas have statistics of their own since they computed gradients; NULL: never */
    clq_store *store;  /* that has parameters and slots; NULL: replicas have them */
    clq_buffer *errors[CLQ_REPLICAS_MAX]; /* of compression, laid out as the gradient; NULL: none */
    uint64_t *local_steps,
        *local_samples; /* steps since weights were averaged, and samples (replicas); NULL: not local */
    unsigned group;     /* replicas that are parts of one model; 0: 1 */
} clq_kept;

typedef struct clq_strategy_module {
    clq_strategy_kind kind;
    const char *name;
    unsigned devices_most; /* 0: any number */
    /* Batches may be accumulated: each replica runs each batch by clq_replica_run, and exchanges and updates by the
     * gradient that this leaves. */
    bool accumulates;
    bool takes_shares;     /* other than even ones */
    bool shards_optimizer; /* where the options ask for it */
    bool scales_losses;    /* all replicas see whether a gradient is finite, so that they agree on the loss scale */
    bool runs_functions;   /* each replica can make its part of the gradient and of the loss by its own plan (run.c) */
    /* Says what each replica is to be, when all devices are open and before the first plan is made: its capacity, and
     * whether it measures norms. NULL: as of clq_strategy_prepare_shares. */
    clq_status (*prepare)(clq_strategy *strategy);
    /* Makes what replicas share, when all are open and before their threads start. close is called in any case, once
     * the threads have ended. NULL: nothing is shared. */
    clq_status (*open)(clq_strategy *strategy);
    void (*close)(clq_strategy *strategy);
    /* By the poster: which rows of a batch of `total` each replica gets. kind NULL: for a report, nothing is posted.
     * split NULL: as clq_strategy_split_shares. */
    void (*split)(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_part *parts);
    /* Carried out by each replica's thread: the whole step, in the plain way; the sum of all replicas' gradients; the
     * update by it; a batch by the plan for evaluation or prediction, up to the loss or the output (of a stage: read,
     * too). gradients: what a step does before that sum. reduce NULL: each has the whole gradient. gradients, apply,
     * forward NULL: each replica does it by itself. */
    clq_status (*step)(clq_replica *replica, const clq_command *command);
    clq_status (*gradients)(clq_replica *replica, const clq_command *command);
    clq_status (*reduce)(clq_replica *replica);
    clq_status (*apply)(clq_replica *replica, const clq_step_params *params);
    clq_status (*forward)(clq_replica *replica, clq_mode mode, const clq_command *command);
    /* As of clq_exchange, in a plan of the replica that is its context: of ranks that split the batch or, where the
     * strategy's plans have a slicing, the weights. NULL: there is one replica. */
    clq_status (*all_reduce)(void *replica, clq_queue *queue, clq_buffer *values, size_t count);
    /* As of clq_plan_config.norm_parts: of the ranks that have parts of the replica's gradient, or {0}. NULL: each
     * replica has the whole gradient. */
    clq_exchange (*add_squares)(const clq_strategy *strategy, const clq_replica *replica);
    /* By the poster: gradients were posted to all replicas that have a part. by_step: in a whole step; else for a step
     * by hand. parts NULL: the caller cut the batch. */
    void (*note_gradients)(clq_strategy *strategy, bool by_step, const clq_part *parts);
    /* By the poster: posts what makes every replica's copy of `what` current, for a read that is posted after it. NULL:
     * copies always are current. */
    void (*make_current)(clq_strategy *strategy, unsigned what);
    /* Writes a variable where it lies outside the replicas, too, after clq_strategy_write has posted it to them. NULL:
     * variables lie on the replicas only. */
    clq_status (*write)(clq_strategy *strategy, size_t variable, const void *from);
    /* Of a row of metrics: the squares that clq_strategy_read_figures tells; whence its update is. NULL: replicas
     * measure; every update is of all replicas. */
    void (*squares)(const clq_strategy *strategy, uint32_t slot, float *out);
    clq_origin *(*origin)(const clq_strategy *strategy, uint32_t slot);
    /* Where replicas do not all make the same steps: how many were made, up to the first that was not, and when one of
     * these, `step`, and all before it were. False, or NULL: as the face counts. */
    bool (*progress)(const clq_strategy *strategy, uint64_t step, uint64_t *done, double *ended);
    /* Snapshots: what is kept; and that steps go on behind update `step`. NULL: nothing. */
    void (*keeps)(clq_strategy *strategy, clq_kept *out);
    void (*go_on)(clq_strategy *strategy, uint64_t step);
    /* For reports. */
    size_t (*parts)(const clq_strategy *strategy, unsigned replica); /* that a step's launches are run in. NULL: 1 */
    clq_comm_times (*comm_times)(const clq_strategy *strategy);
    double (*waited)(const clq_strategy *strategy, unsigned replica); /* for slower ones; NULL: nobody waits */
    const clq_timeline *(*exchanges)(const clq_strategy *strategy, unsigned replica);
} clq_strategy_module;
extern const clq_strategy_module clq_strategy_mirrored, clq_strategy_central, clq_strategy_ps, clq_strategy_pipeline,
    clq_strategy_tensor;
/* Of a config with `parts`. Errors: ARGUMENT (no such part, another strategy, several devices). */
clq_status clq_part_choose(const clq_strategy_config *config, unsigned devices, const clq_strategy_module **out);

/* ARGUMENT where what the config says is out of range, or does not go together or with the module and so many devices
 * (settings.c); of compression (compress.c); of local steps (local.c); of the loss scale (scaling.c). */
clq_status clq_settings_check(const clq_strategy_config *config, const clq_strategy_module *module, unsigned devices);
clq_status clq_compression_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_local_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_scaling_check(const clq_strategy_config *config, const clq_strategy_module *module);
/* The same where batches are to be accumulated. */
clq_status clq_accumulation_check(const clq_strategy_module *module, const clq_strategy_options *options);

struct clq_strategy {
    const clq_model *model;
    clq_strategy_config config;
    clq_feed feed; /* what plans with the config's loss read; plans without a loss read the arrays before the labels */
    const clq_strategy_module *module;
    /* The module's, or that of a fast path, which its open sets. */
    clq_status (*step)(clq_replica *replica, const clq_command *command);
    void *own;             /* the module's, NULL until it makes it */
    clq_shares *shares;    /* NULL: even */
    bool shards_optimizer; /* each replica has the optimizer's state of its part alone, and updates that */
    clq_tune_log tune_log;
    clq_pool pool;
    clq_paths paths;
    unsigned count;
    clq_replica *replicas;
    uint64_t *
        measured_by; /* (metric_slots) of the batch that a row of metrics is about: bits of replicas whose row counts */
    bool apart;      /* each replica trains alone */
    uint64_t computed; /* bits of replicas that computed gradients of samples since state was averaged; the poster's */
    /* Posted since the last update, by the poster: batches whose gradients are accumulated, and their samples. */
    size_t accumulated_batches, accumulated_samples;
    uint64_t steps_before; /* the first that workers count: of a training that goes on from a snapshot */
};

static inline clq_replica *clq_replica_of(const clq_worker *worker) { return worker->owner; }

/* The global batch is shared out as the options say; replica 0 measures norms. */
clq_status clq_strategy_prepare_shares(clq_strategy *strategy);
void clq_strategy_split_shares(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_part *parts);
/* As the module does it. */
void clq_strategy_split(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_part *parts);

/* One command to every replica with its rows of a batch. */
clq_status clq_strategy_post_batch(clq_strategy *strategy, clq_command command, const clq_rows *batch);
/* Which replicas' rows of a batch count (bits), before its commands are posted: a module may know better when one is
 * carried out. */
void clq_strategy_note_row(clq_strategy *strategy, uint32_t slot, uint64_t measured_by);
/* The plans for a mode, once. */
clq_status clq_strategy_need_plans(clq_strategy *strategy, clq_mode mode);

/* As clq_strategy_create, which chooses activations_most: by replica, as of clq_plan_config; NULL: any number. */
clq_status clq_strategy_make(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                             const size_t *activations_most, clq_strategy **out);

/* Makes what it needs on its device, which is open. */
clq_status clq_replica_open(clq_replica *replica);
/* First those of all replicas: a plan may read another replica's weights. */
void clq_replica_close_plans(clq_replica *replica);
void clq_replica_close(clq_replica *replica); /* what is left of it */
/* Of a plan for a mode, over its weights. */
clq_plan_config clq_replica_plan_config(const clq_replica *replica, clq_mode mode);
/* The plan for a mode, while the replica has nothing to do. */
clq_status clq_replica_make_plan(clq_replica *replica, clq_mode mode);
clq_status clq_replica_make_adding(clq_replica *replica); /* the same for `adding` */

/* Before commands for evaluation are posted: their plans, and state that is whole. */
clq_status clq_strategy_prepare_evaluation(clq_strategy *strategy);

/* Stages input and execute: the command's rows, and all launches of the plan up to the end of `last`. Where gradients
 * of several batches become one (params.sum_factor), they do in BACKWARD, by the plan for that: what comes later, here
 * or elsewhere, has the gradient of all.
 */
clq_status clq_replica_run(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_segment last);
/* `count` rows of predictions to rows of the command's outputs from `first` on; waits for them. */
clq_status clq_replica_read_outputs(clq_replica *replica, const clq_plan *plan, const clq_command *command,
                                    size_t first, size_t count);
/* The update, by the sum of gradients. */
clq_status clq_replica_apply(clq_replica *replica, const clq_step_params *params);
/* The whole step, as if there were no other replica. */
clq_status clq_replica_step_alone(clq_replica *replica, const clq_command *command);

/* State of which each replica has its own becomes its mean over those that have computed on samples since the last
 * mean: of the others it is older. In groups of so many replicas, which have computed together and each have a part of
 * it. Posts commands of this kind to all replicas; and what these run, with the communicator of those that have the
 * same part. */
void clq_strategy_average_state(clq_strategy *strategy, const clq_command_kind *kind, unsigned group);
clq_status clq_replica_average_state(clq_replica *replica, const clq_command *command, clq_comm *comm, unsigned rank);

/* alike.c: ARGUMENT where no two replicas have the same weights; INTERNAL where such have them in other places. */
clq_status clq_alike_open(const clq_strategy *strategy);

/* figures.c */
clq_status clq_replica_open_figures(clq_replica *replica); /* the replica's device and plan exist */
void clq_replica_close_figures(clq_replica *replica);
/* Behind an update: the norms that were measured become those of the step's row. */
clq_status clq_replica_keep_norms(clq_replica *replica, uint32_t slot);
/* By the replica's thread: its own row of metrics, once the device has written it. */
clq_status clq_replica_read_row(clq_replica *replica, uint32_t slot, double *row);

/* rows.c */
clq_status clq_replica_open_rows(clq_replica *replica); /* the slots; the replica's device and plan exist */
void clq_replica_close_rows(clq_replica *replica);
bool clq_replica_decide_input(clq_replica *replica); /* whether kernels read the slots */
/* Gives a command its rows: those that do not stay are copied into the next slot, once it is free. By the poster. */
void clq_replica_give_rows(clq_replica *replica, const clq_rows *rows, clq_command *command);
/* The slot with the command's rows, which a worker's rows are copied to; NULL where there are none. */
clq_status clq_replica_pick_rows(clq_replica *replica, const clq_command *command, clq_staging **out);
/* The command's rows, where the plan's next run reads them, which is given *order. *out: the slot that the launches
 * themselves read, to be marked behind them; NULL: none. */
clq_status clq_replica_bring_rows(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order,
                                  clq_staging **out);
/* The slot with the command's rows, NULL where there are none; and rows [first, first + count) of it, to where the plan
 * reads them, as far as it does. The two for whoever brings them part by part. read: is set to the end of the transfer;
 * NULL: not the last part. */
clq_status clq_replica_take_rows(clq_replica *replica, const clq_command *command, clq_staging **out);
clq_status clq_replica_upload_rows(clq_replica *replica, const clq_plan *plan, const clq_staging *staging, size_t first,
                                   size_t count, clq_event **read);
void clq_replica_close_slots(clq_staging *slots, unsigned count);
void clq_replica_free_slot(clq_replica *replica); /* the one that was filled first */
/* In place of bringing them. */
clq_status clq_replica_drop_rows(clq_replica *replica, const clq_command *command);

/* slices.c: variables of which each replica has a slice, between its arena and the whole on the host. */
bool clq_replica_has_slice(const clq_replica *replica, size_t variable);
extern const clq_command_kind clq_write_slice; /* memory, variable, from */
clq_status clq_strategy_read_slices(clq_strategy *strategy, clq_arena arena, size_t variable, float *to);

/* uploads.c: a fast path of the input. */
bool clq_uploads_decide(clq_replica *replica);
clq_status clq_uploads_open(clq_replica *replica); /* the replica's device and plan exist */
void clq_uploads_close(clq_replica *replica);      /* before its slots and plans */
/* A slot whose arrays lie in one block. */
clq_status clq_uploads_open_slot(clq_replica *replica, clq_memory_kind kind, const char *what, clq_staging *slot);
/* As clq_replica_bring_rows. */
clq_status clq_uploads_bring(clq_replica *replica, clq_plan *plan, const clq_command *command, clq_order *order);
/* Sends the rows of the command behind the one at hand, where it was posted already: before the thread waits for other
 * replicas. */
clq_status clq_uploads_send_next(clq_replica *replica);

#endif
