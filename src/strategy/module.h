/* What a strategy is made of: its replicas, its module, and the exchange that brings the replicas to the same update.
 * Private to strategy. */
#ifndef CLQ_STRATEGY_MODULE_H
#define CLQ_STRATEGY_MODULE_H

#include "strategy/exchange/exchange.h"
#include "strategy/replicas/replica.h"

/* What may be outdated on some replicas: arenas, by clq_arena, and the optimizer's slots. */
enum { CLQ_CURRENT_OPTIMIZER = CLQ_ARENA_GRADIENT + 1, CLQ_CURRENT_COUNT };

/* How a batch is split over replicas: each replica's first sample, and how many samples it has. */
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
 * A step has these stages: input (brings rows to where kernels read them) and execute, which clq_replica_run does;
 * exchange; update; and reading back, by transfers. A module says how a step is composed of its stages. Each module is
 * a row of the table in strategy.c. */

typedef struct clq_strategy_module {
    clq_strategy_kind kind;
    const char *name;
    unsigned devices_most; /* 0: any number */
    /* Batches may be accumulated: each replica adds up gradients as params.sum_factor says (as clq_replica_run does),
     * and exchanges and updates with the sum. */
    bool accumulates;
    bool takes_shares;     /* shares may be uneven */
    bool shards_optimizer; /* the optimizer may be sharded, if the options say so */
    bool scales_losses;    /* all replicas see whether a gradient is finite, so that they agree on the loss scale */
    bool runs_functions;   /* each replica can make its part of the gradient and of the loss by its own plan (run.c) */
    bool stores;           /* variables lie in the host's memory */
    bool sums_in_step;     /* plans may add up values of all replicas within a step (clq_peers_all_reduce) */
    /* Called when all devices are open, before the first plan is made: sets what each replica is to be, such as its
     * capacity and whether it measures norms. NULL: clq_strategy_prepare_shares. */
    clq_status (*prepare)(clq_strategy *strategy);
    /* open is called when all replicas are open, before their threads start: it makes what replicas share, such as
     * their peers and the strategy's exchange. close is called after the threads have ended, in any case: also if open
     * failed or was not called. NULL: nothing is shared. */
    clq_status (*open)(clq_strategy *strategy);
    void (*close)(clq_strategy *strategy);
    /* Called after a replica's first failure, from any thread: ends the other replicas' waits that are not collectives.
     * The strategy itself aborts its communicators. NULL: there are no such waits. */
    void (*abort)(clq_strategy *strategy);
    /* Called by the poster: says which rows of a batch of `total` samples each replica gets. kind NULL: for a report,
     * nothing is posted. split NULL: clq_strategy_split_shares. */
    void (*split)(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts);
    /* Called by each replica's thread. step: the whole step; NULL: clq_exchange_step. gradients: what a step does
     * before all replicas' gradients are summed. apply: the update by this sum. forward: a batch by the plan for
     * evaluation, up to the loss; or by the plan for prediction, up to the outputs, which a stage also reads.
     * gradients, apply, forward NULL: each replica does this by itself. */
    clq_status (*step)(clq_replica *replica, const clq_command *command);
    clq_status (*gradients)(clq_replica *replica, const clq_command *command);
    clq_status (*apply)(clq_replica *replica, const clq_step_params *params);
    clq_status (*forward)(clq_replica *replica, clq_mode mode, const clq_command *command);
    /* Gives clq_plan_config.norm_parts: the sum over all ranks that have parts of the same gradient, or {0}. NULL: each
     * replica has the whole gradient. */
    clq_step_sum (*add_squares)(const clq_strategy *strategy, const clq_replica *replica);
    /* Called after clq_strategy_write has posted a variable to the replicas: writes it also where it lies outside the
     * replicas. NULL: variables lie on the replicas only. */
    clq_status (*write)(clq_strategy *strategy, size_t variable, const void *from);
    /* These two are about a row of metrics. squares: writes the squares that clq_strategy_read_figures returns; NULL:
     * replicas measure them. origin: whose gradients made its update; NULL: all replicas', in every update. */
    void (*squares)(const clq_strategy *strategy, uint32_t slot, float *out);
    clq_origin *(*origin)(const clq_strategy *strategy, uint32_t slot);
    /* Used if replicas do not all make the same steps. *done: how many steps were made, up to the first that was not.
     * *ended: when `step`, one of these, and all steps before it were made. False, or NULL: the replicas' own counts
     * hold (clq_strategy_steps_done). */
    bool (*progress)(const clq_strategy *strategy, uint64_t step, uint64_t *done, double *ended);
    /* Called when a snapshot was put: the next update is the one after `step`. NULL: nothing to do. */
    clq_status (*go_on)(clq_strategy *strategy, uint64_t step);
    /* For reports. */
    size_t (*runs)(const clq_strategy *strategy, unsigned replica); /* as the exchange's; NULL: the exchange's */
    bool tells_waits; /* it is known how long replicas wait for slower ones */
} clq_strategy_module;
extern const clq_strategy_module clq_strategy_mirrored, clq_strategy_central, clq_strategy_ps, clq_strategy_pipeline,
    clq_strategy_tensor;
/* Chooses the module for a config with `parts`. Errors: ARGUMENT (no such part, another strategy, several devices). */
clq_status clq_part_choose(const clq_strategy_config *config, unsigned devices, const clq_strategy_module **out);

/* Check the config: its settings, and the model's properties (settings.c); compression (compress.c); local steps
 * (local.c); the loss scale (scaling.c). Errors: ARGUMENT (a setting is out of range, or does not go with another
 * setting, with the module or with the replicas of all processes); UNSUPPORTED, for properties. */
clq_status clq_settings_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_properties_check(const clq_model *model, const clq_strategy_config *config);
clq_status clq_compression_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_local_check(const clq_strategy_config *config, const clq_strategy_module *module);
clq_status clq_scaling_check(const clq_strategy_config *config, const clq_strategy_module *module);
/* The same, if batches are to be accumulated. */
clq_status clq_accumulation_check(const clq_strategy_module *module, const clq_strategy_options *options);

/* ---- strategies (strategy.c) ---- */

struct clq_strategy {
    const clq_model *model;
    clq_strategy_config config;
    clq_feed feed; /* what plans with the config's loss read; plans without a loss read the arrays before the labels */
    const clq_strategy_module *module;
    void *own; /* the module's data; NULL until the module makes it */
    const clq_exchange_kind *exchange;
    void *exchange_own; /* the exchange's data; likewise */
    /* (comm_count) its replicas' communicators: of peers, and of each pipeline's stages; at most one for each stage and
     * one for each pipeline. All are made before threads start. */
    clq_comm *comms[CLQ_REPLICAS_MAX + 1];
    unsigned comm_count;
    atomic_uint_fast64_t exposed_ns; /* replica 0's time in exchanges that did not overlap backward */
    clq_shares *shares;              /* NULL: even */
    bool shards_optimizer;           /* each replica has optimizer state for its part only, and updates this part */
    clq_tune_log tune_log;
    clq_pool pool;
    clq_paths paths;
    unsigned count;
    unsigned first, total; /* the number of its first replica among all processes' replicas, and how many these are */
    unsigned tag;          /* with several processes: the tag of their messages about snapshots */
    unsigned *starts;      /* (processes + 1) by rank: the number of its first replica; the last is `total` */
    const clq_brought *brought; /* which rows of posted batches each process has; NULL: every process has all rows */
    unsigned group;             /* replicas per copy of the model: a pipeline's stages, or 1. r is in copy r / group */
    clq_replica *replicas;
    uint64_t *
        measured_by; /* (metric_slots) for each row of metrics: bits of the replicas whose own rows are summed for it */
    bool apart;      /* each replica trains alone */
    bool by_batches; /* with other processes: a batch goes to one replica of any process, which measures it alone */
    uint64_t posted; /* the update (params.step) that is posted, or was posted last */
    size_t own_samples;               /* this process's samples of the batch posted last */
    bool outdated[CLQ_CURRENT_COUNT]; /* what is outdated on some replica; the poster's */
    unsigned step_outdates;           /* bits of what a step leaves outdated; set when the strategy opens */
    clq_batch_cut cut;                /* over all processes' replicas; used by ranks.c */
    bool *computed; /* (total) which replicas computed gradients of any samples since state was averaged */
    /* Posted since the last update: batches whose gradients are accumulated, and their samples. */
    size_t accumulated_batches, accumulated_samples;
    uint64_t steps_before; /* to be added to a worker's steps_done, if the training goes on from a snapshot */
};

static inline clq_replica *clq_replica_of(const clq_worker *worker) { return worker->owner; }

/* prepare_shares: the global batch is shared out as the options say; replica 0 measures norms, or every replica, if
 * each measures its own part of the gradient. split_shares: splits a batch by these shares. */
clq_status clq_strategy_prepare_shares(clq_strategy *strategy);
void clq_strategy_split_shares(clq_strategy *strategy, const clq_command_kind *kind, size_t total,
                               clq_batch_part *parts);
/* Splits a batch as the module does. */
void clq_strategy_split(clq_strategy *strategy, const clq_command_kind *kind, size_t total, clq_batch_part *parts);

/* Posts the command to every replica that takes part (clq_batch_part.runs), with its rows of the batch, perhaps 0. */
clq_status clq_strategy_post_batch(clq_strategy *strategy, clq_command command, const clq_rows *batch);
/* Notes which replicas' rows of metrics count for a batch (bits). clq_strategy_post_batch calls this before it posts
 * the commands, since a module may correct the bits when a command is carried out. */
void clq_strategy_note_row(clq_strategy *strategy, uint32_t slot, uint64_t measured_by);
/* Whether a step adds up the squares of replicas that each have a part of the gradient: updates need the sum, or
 * replicas of other processes measure, too. Otherwise reading the figures adds up the squares. */
bool clq_strategy_adds_squares(const clq_strategy *strategy);
/* Notes that gradients of a batch of `samples` samples were posted. by_step: in a whole step; otherwise for a step by
 * hand. */
void clq_strategy_note_gradients(clq_strategy *strategy, bool by_step, size_t samples);
/* If `what` is outdated on some replica, posts commands that make it current on all, before a read is posted. */
void clq_strategy_make_current(clq_strategy *strategy, unsigned what);
/* Makes the plans for a mode, unless they exist. */
clq_status clq_strategy_need_plans(clq_strategy *strategy, clq_mode mode);
/* Called before commands for evaluation are posted: makes their plans, and makes parameters and state current. */
clq_status clq_strategy_prepare_evaluation(clq_strategy *strategy);

/* Checks the config, for `devices` devices in this process. With a world all processes call it, and one of them reports
 * the failure. Errors: ARGUMENT, and those of clq_world_check. */
clq_status clq_strategy_check(const clq_strategy_config *config, unsigned devices);
/* As clq_strategy_create, but the caller chooses activations_most: for each replica, as in clq_plan_config; NULL: any
 * number of bytes. */
clq_status clq_strategy_make(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                             const size_t *activations_most, clq_strategy **out);

/* facts.c: the facts (CLQ_FACT_…) that hold for a replica, before or after its plan is made; and for all together. */
unsigned clq_facts_of_replica(const clq_strategy *strategy, unsigned replica);
unsigned clq_facts_of_all(const clq_strategy *strategy);

/* alike.c: checks that replicas can be compared. Errors: ARGUMENT (with one process: no two replicas have the same
 * weights, or the weights lie in a store); INTERNAL (two replicas with the same weights have them in different
 * places). */
clq_status clq_alike_open(const clq_strategy *strategy);

/* ranks.c: sets config's first, total and devices_of_all. Errors: UNSUPPORTED (processes cannot do together what the
 * config says), ARGUMENT (the batch is too small, or settings do not go together), and those of clq_world_gather and
 * clq_world_check. */
clq_status clq_ranks_count(clq_strategy_config *config, const clq_devices *devices);
/* Makes `cut`, `computed` and, with several processes, `starts` and `tag`. With a world all processes call it. close
 * may be called after open failed. Errors: MEMORY, UNSUPPORTED (no tag is left), and those of clq_world_gather. */
clq_status clq_ranks_open(clq_strategy *strategy);
void clq_ranks_close(clq_strategy *strategy);
/* Splits a batch of `samples` over the replicas of all processes; if processes bring their own rows
 * (clq_strategy_bring), splits that batch. Called by the poster. The result is valid until its next such call. */
clq_batch_cut clq_ranks_cut(const clq_strategy *strategy, size_t samples);
/* Where this process's rows begin, if processes bring their own rows; otherwise 0. */
size_t clq_ranks_rows_begin(const clq_strategy *strategy);
/* With several processes: splits a batch over this process's replicas alone, in proportion to their capacities. With
 * one process: as clq_ranks_cut. clq_ranks_room_here: how many samples fit at once. */
clq_batch_cut clq_ranks_cut_here(const clq_strategy *strategy, size_t samples);
size_t clq_ranks_room_here(const clq_strategy *strategy);
/* Notes that all processes' replicas with samples of a batch of `samples` have computed. Called by the poster. */
void clq_ranks_note_computed(clq_strategy *strategy, size_t samples);
/* If each batch goes to one replica (by_batches): tells all processes which replicas computed. All of them call it. */
void clq_ranks_share_computed(clq_strategy *strategy);

#endif
