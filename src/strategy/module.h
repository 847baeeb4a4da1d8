/* What a strategy is made of: its replicas, its module, and the exchange by which they come to the same update. Private
 * to strategy. */
#ifndef CLQ_STRATEGY_MODULE_H
#define CLQ_STRATEGY_MODULE_H

#include "strategy/exchange/exchange.h"
#include "strategy/replicas/replica.h"

/* What may not be current on every replica: arenas by clq_arena, and the optimizer's slots. */
enum { CLQ_CURRENT_OPTIMIZER = CLQ_ARENA_GRADIENT + 1, CLQ_CURRENT_COUNT };

/* A batch over replicas: the first sample of each, and how many it has. */
typedef struct clq_batch_cut {
    size_t *offsets, *counts; /* (replicas of all processes) */
} clq_batch_cut;

/* What a replica gets of a batch. */
typedef struct clq_batch_part {
    size_t first, count; /* rows of the batch */
    bool runs;           /* the command is posted to it */
    bool measures;       /* its row of metrics counts, and predictions are read from it */
} clq_batch_part;

/* ---- modules ----
 * A step has stages: input (rows where kernels read them) and execute, which are clq_replica_run; exchange and update;
 * and reading back, which are transfers. A module says how a step is made of them. A row of the table in strategy.c. */

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
    bool stores;           /* variables lie in the host's memory */
    bool sums_in_step;     /* plans may add up values of all replicas within a step (clq_peers_all_reduce) */
    /* Says what each replica is to be, when all devices are open and before the first plan is made: its capacity, and
     * whether it measures norms. NULL: as of clq_strategy_prepare_shares. */
    clq_status (*prepare)(clq_strategy *strategy);
    /* Makes what replicas share, their peers and the strategy's exchange among it, when all are open and before their
     * threads start. close is called in any case, once the threads have ended. NULL: nothing is shared. */
    clq_status (*open)(clq_strategy *strategy);
    void (*close)(clq_strategy *strategy);
    /* After a replica's first failure: ends waits of the other replicas that are not collectives; the strategy aborts
     * its communicators itself. From any thread. NULL: there are none. */
    void (*abort)(clq_strategy *strategy);
    /* By the poster: which rows of a batch of `total` each replica gets. kind NULL: for a report, nothing is posted.
     * split NULL: as clq_strategy_split_shares. */
    void (*split)(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts);
    /* Carried out by each replica's thread: the whole step; what a step does before the sum of all replicas' gradients;
     * the update by it; a batch by the plan for evaluation or prediction, up to the loss or the output (of a stage:
     * read, too). step NULL: clq_exchange_step. gradients, apply, forward NULL: each replica does it by itself. */
    clq_status (*step)(clq_replica *replica, const clq_command *command);
    clq_status (*gradients)(clq_replica *replica, const clq_command *command);
    clq_status (*apply)(clq_replica *replica, const clq_step_params *params);
    clq_status (*forward)(clq_replica *replica, clq_mode mode, const clq_command *command);
    /* As of clq_plan_config.norm_parts: of the ranks that have parts of the replica's gradient, or {0}. NULL: each
     * replica has the whole gradient. */
    clq_step_sum (*add_squares)(const clq_strategy *strategy, const clq_replica *replica);
    /* Writes a variable where it lies outside the replicas, too, after clq_strategy_write has posted it to them. NULL:
     * variables lie on the replicas only. */
    clq_status (*write)(clq_strategy *strategy, size_t variable, const void *from);
    /* Of a row of metrics: the squares that clq_strategy_read_figures tells; whence its update is. NULL: replicas
     * measure; every update is of all replicas. */
    void (*squares)(const clq_strategy *strategy, uint32_t slot, float *out);
    clq_origin *(*origin)(const clq_strategy *strategy, uint32_t slot);
    /* If replicas do not all make the same steps: how many steps were made, up to the first that was not; and when
     * `step`, one of these, and all steps before it were made. False, or NULL: as the face counts. */
    bool (*progress)(const clq_strategy *strategy, uint64_t step, uint64_t *done, double *ended);
    clq_status (*go_on)(clq_strategy *strategy, uint64_t step); /* of snapshots: behind update `step`. NULL: nothing */
    /* For reports. */
    size_t (*runs)(const clq_strategy *strategy, unsigned replica); /* NULL: the exchange's */
    bool tells_waits;                                               /* of replicas for slower ones */
} clq_strategy_module;
extern const clq_strategy_module clq_strategy_mirrored, clq_strategy_central, clq_strategy_ps, clq_strategy_pipeline,
    clq_strategy_tensor;
/* Of a config with `parts`. Errors: ARGUMENT (no such part, another strategy, several devices). */
clq_status clq_part_choose(const clq_strategy_config *config, unsigned devices, const clq_strategy_module **out);

/* ARGUMENT where what the config says is out of range, or does not go together or with the module and the replicas of
 * all processes (settings.c); of compression (compress.c); of local steps (local.c); of the loss scale (scaling.c). */
clq_status clq_settings_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_properties_check(const clq_model *model, const clq_strategy_config *config);
clq_status clq_compression_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_local_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_scaling_check(const clq_strategy_config *config, const clq_strategy_module *module);
/* The same where batches are to be accumulated. */
clq_status clq_accumulation_check(const clq_strategy_module *module, const clq_strategy_options *options);

/* ---- strategies (strategy.c) ---- */

struct clq_strategy {
    const clq_model *model;
    clq_strategy_config config;
    clq_feed feed; /* what plans with the config's loss read; plans without a loss read the arrays before the labels */
    const clq_strategy_module *module;
    void *own; /* the module's, NULL until it makes it */
    const clq_exchange_kind *exchange;
    void *exchange_own; /* likewise */
    /* (comm_count) the communicators of its replicas: of peers, and of each pipeline's stages. At most one for each
     * stage and one for each pipeline. No other comes once threads have started. */
    clq_comm *comms[CLQ_REPLICAS_MAX + 1];
    unsigned comm_count;
    atomic_uint_fast64_t exposed_ns; /* of replica 0: exchanges that did not overlap backward */
    clq_shares *shares;              /* NULL: even */
    bool shards_optimizer;           /* each replica has the optimizer's state of its part alone, and updates that */
    clq_tune_log tune_log;
    clq_pool pool;
    clq_paths paths;
    unsigned count;
    unsigned first, total; /* the number of its first replica among those of all processes, and how many these are */
    unsigned tag;          /* with several processes: of messages between them about snapshots */
    unsigned *starts;      /* (processes + 1) by rank: the number of its first replica; the last is `total` */
    const clq_brought *brought; /* to the batch that is posted; NULL: every process has all of it */
    unsigned group;             /* replicas that have one model together: r / group is the model that replica r is of */
    clq_replica *replicas;
    uint64_t *
        measured_by; /* (metric_slots) of the batch that a row of metrics is about: bits of replicas whose row counts */
    bool apart;      /* each replica trains alone */
    bool
        by_batches; /* with other processes: a batch is one replica's, of any process, and its figures are that one's */
    uint64_t posted;                  /* the update (params.step) that is posted, or was posted last */
    size_t own_samples;               /* of the batch that was posted last: those of this process */
    bool outdated[CLQ_CURRENT_COUNT]; /* on some replica; the poster's */
    unsigned step_outdates;           /* bits of what a step leaves so; set when opened */
    clq_batch_cut cut;                /* of all processes' replicas; ranks.c's */
    bool *computed;                   /* (total) which computed gradients of samples since state was averaged */
    /* Posted since the last update: batches whose gradients are accumulated, and their samples. */
    size_t accumulated_batches, accumulated_samples;
    uint64_t steps_before; /* the first that workers count: of a training that goes on from a snapshot */
};

static inline clq_replica *clq_replica_of(const clq_worker *worker) { return worker->owner; }

/* The global batch is shared out as the options say; replica 0 measures norms. */
clq_status clq_strategy_prepare_shares(clq_strategy *strategy);
void clq_strategy_split_shares(clq_strategy *strategy, const clq_command_kind *kind, size_t total,
                               clq_batch_part *parts);
/* As the module does it. */
void clq_strategy_split(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts);

/* One command to every replica with its rows of a batch. */
clq_status clq_strategy_post_batch(clq_strategy *strategy, clq_command command, const clq_rows *batch);
/* Which replicas' rows of a batch count (bits), before its commands are posted: a module may know better when one is
 * carried out. */
void clq_strategy_note_row(clq_strategy *strategy, uint32_t slot, uint64_t measured_by);
/* Whether a step adds up the squares of replicas that have a part of the gradient each: updates need them, or replicas
 * of other processes measure. Else reading the figures adds them up. */
bool clq_strategy_adds_squares(const clq_strategy *strategy);
/* Gradients of a batch of `samples` were posted to all replicas that have a part. by_step: in a whole step; else for a
 * step by hand. */
void clq_strategy_note_gradients(clq_strategy *strategy, bool by_step, size_t samples);
/* Posts what makes every replica's copy of `what` current, for a read that is posted after it. */
void clq_strategy_make_current(clq_strategy *strategy, unsigned what);
/* The plans for a mode, once. */
clq_status clq_strategy_need_plans(clq_strategy *strategy, clq_mode mode);
/* Before commands for evaluation are posted: their plans, and state that is whole. */
clq_status clq_strategy_prepare_evaluation(clq_strategy *strategy);

/* Whether what the config says goes together, with so many devices of this process. Of a config with a world all
 * processes call it, and one of them reports the failure. Errors: ARGUMENT; as clq_world_check. */
clq_status clq_strategy_check(const clq_strategy_config *config, unsigned devices);
/* As clq_strategy_create, which chooses activations_most: by replica, as of clq_plan_config; NULL: any number. */
clq_status clq_strategy_make(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                             const size_t *activations_most, clq_strategy **out);

/* facts.c: CLQ_FACT_… that hold of a replica, before and after its plan is made; and of all together. */
unsigned clq_facts_of_replica(const clq_strategy *strategy, unsigned replica);
unsigned clq_facts_of_all(const clq_strategy *strategy);

/* alike.c: ARGUMENT where no two replicas have the same weights; INTERNAL where such have them in other places. */
clq_status clq_alike_open(const clq_strategy *strategy);

/* ranks.c: fills what config has of all processes: which of their replicas these devices' are. Errors: UNSUPPORTED
 * (what processes do not do together), ARGUMENT (a batch that is too small), and those of clq_world_gather. */
clq_status clq_ranks_count(clq_strategy_config *config, const clq_devices *devices);
/* Room for clq_ranks_cut, which replicas are whose, and a tag. With a world all call it. close takes a strategy for
 * which open failed. Errors: MEMORY, UNSUPPORTED (no tag is left), and those of clq_world_gather. */
clq_status clq_ranks_open(clq_strategy *strategy);
void clq_ranks_close(clq_strategy *strategy);
/* A batch over the replicas of all processes; the one that processes bring, if they do. By the poster; until its next
 * call. */
clq_batch_cut clq_ranks_cut(const clq_strategy *strategy, size_t samples);
/* Where the rows that this process has begin in such a batch. */
size_t clq_ranks_rows_begin(const clq_strategy *strategy);
/* The same over the replicas of this process alone, in proportion to their room; and how many samples fit at once. */
clq_batch_cut clq_ranks_cut_here(const clq_strategy *strategy, size_t samples);
size_t clq_ranks_room_here(const clq_strategy *strategy);
/* Those of all processes that have samples of it have computed. By the poster. */
void clq_ranks_note_computed(clq_strategy *strategy, size_t samples);
/* If batches are one replica's: all processes come to know which computed. All call it. */
void clq_ranks_share_computed(clq_strategy *strategy);

#endif
