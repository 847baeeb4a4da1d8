/* strategy: how replicas work together. strategy.c is the interface. One thread, the poster, posts commands through it
 * to all replicas, in one order. A module (module.h, modules/, pipeline/) says how a step is composed of its stages:
 * input, execute, exchange and update. An exchange (exchange/exchange.h) brings replicas to the same update. If a step
 * leaves something current on some replicas only, the exchange can make it current on all. replicas/ has the replicas:
 * a replica is a worker of a pool (pool.c), with a thread, a device, a queue and a channel of commands. A replica also
 * has weights, plans over these weights, rows on their way to the device, and what its steps measured. state/ has what
 * checkpoints keep. reports.c answers questions about a strategy.
 *
 * The first failure of any replica ends the waits of the others; every later call returns this failure. */
#ifndef CLQ_STRATEGY_H
#define CLQ_STRATEGY_H

#include "comm/comm.h"
#include "data/data.h"
#include "graph/graph.h"
#include "strategy/exchange/store.h"

/* Bytes of a bucket of the gradient, if the config sets no bucket_bytes. */
enum { CLQ_BUCKET_BYTES_DEFAULT = 4 << 20 };
/* A gradient of fewer bytes is exchanged whole, unless the config sets bucket_bytes. */
enum { CLQ_OVERLAP_BYTES_LEAST = 1 << 20 };
/* The same limits between machines. Backward cannot hide the exchange of the last bucket, so the gradient is cut into
 * many buckets, of which the last is a small part. But a bucket has at least CLQ_BUCKET_BYTES_LEAST_FAR bytes: below
 * that, the fixed cost of each exchange would count more than the wire. */
enum { CLQ_OVERLAP_BYTES_LEAST_FAR = 512 << 10, CLQ_BUCKETS_FAR = 12, CLQ_BUCKET_BYTES_LEAST_FAR = 64 << 10 };
static inline size_t clq_bucket_bytes_far(size_t gradient_bytes) {
    const size_t bytes = gradient_bytes / CLQ_BUCKETS_FAR;
    return CLQ_MIN(CLQ_MAX(bytes, (size_t)CLQ_BUCKET_BYTES_LEAST_FAR), (size_t)CLQ_BUCKET_BYTES_DEFAULT);
}
/* How a gradient is exchanged, if backward may hide the exchange: whether in buckets, and how many bytes a bucket has.
 * wanted: the config's bucket_bytes; 0: not set. far: between machines. */
static inline bool clq_buckets_pay(size_t gradient_bytes, size_t wanted, bool far) {
    const size_t least = far ? CLQ_OVERLAP_BYTES_LEAST_FAR : CLQ_OVERLAP_BYTES_LEAST;
    return wanted || gradient_bytes >= least;
}
static inline size_t clq_bucket_bytes(size_t gradient_bytes, size_t wanted, bool far) {
    if (wanted) return wanted;
    return far ? clq_bucket_bytes_far(gradient_bytes) : (size_t)CLQ_BUCKET_BYTES_DEFAULT;
}
/* How long a replica's thread spins while it waits for the others, before it sleeps. Threads spin only if each has a
 * core and nothing else to do. A sleep can end late: in virtual machines one wake-up in a thousand takes 6 ms. */
static const double clq_patience_s = 2e-3;

typedef struct clq_strategy_config {
    clq_strategy_kind kind; /* AUTO: single for one device in all processes, otherwise mirrored */
    clq_strategy_options options;
    clq_plan_config
        plan; /* mode TRAIN or EVALUATE; capacity is set by replica. loss, update and selections are borrowed */
    size_t global_batch;
    clq_group_config group;
    size_t bucket_bytes, trace_steps; /* as clq_trainer_config's */
    const char *disabled_paths;       /* as clq_trainer_config's */
    clq_tuning tuning;
    double tuning_s;
    const char *stage_settings; /* the settings that a stage's time depends on, as text: a part of the key under which
                                   measured times are kept. Borrowed while the strategy is created */
    bool check_replicas;        /* clq_strategy_check_replicas will be called */
    bool evaluates_apart;       /* each process evaluates its own samples, perhaps while others do not: evaluation
                                   exchanges no sums */
    clq_world *world;           /* the processes whose replicas train together, each with the same config. Borrowed;
                                   NULL: this process alone */
    /* Set by clq_strategy_create: the number of this process's first replica among the replicas of all processes, how
     * many replicas all processes have, and a hash of all their devices. */
    unsigned first, total;
    uint64_t devices_of_all;
    unsigned parts, part; /* parts above 0: the strategy has part `part` (from 0) of the model's `parts`, on one device.
                             parts 0: it has the whole model */
} clq_strategy_config;

/* ---- traces (timeline.c) ---- */

/* What a host thread did; the first 2^18 spans are kept. Start with {0}, end with clq_free(timeline->spans). */
typedef struct clq_timeline {
    clq_span *spans;
    size_t count, capacity;
} clq_timeline;
/* Adds a span from `begin` (clq_now) to now. */
clq_status clq_timeline_add(clq_timeline *timeline, double begin, const char *name, const char *key, uint64_t value);

typedef struct clq_strategy clq_strategy;
/* The name of a clq_strategy_kind: "auto", "single", … NULL: there is no such kind. */
const char *clq_strategy_name(size_t kind);
/* The name of the strategy's module; with AUTO, of the module that was chosen. */
const char *clq_strategy_own_name(const clq_strategy *strategy);
/* The kind of this module, and the options that the strategy was created with; share_weights is NULL. */
void clq_strategy_settings(const clq_strategy *strategy, clq_strategy_kind *kind, clq_strategy_options *options);
/* Makes one replica for each entry of devices. Variables are zero until clq_strategy_write. In a world of several
 * processes every process calls this; if the call fails in one process, the world ends. */
clq_status clq_strategy_create(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                               clq_strategy **out);
void clq_strategy_destroy(clq_strategy *strategy); /* takes NULL; first carries out what was posted */

unsigned clq_strategy_replicas(const clq_strategy *strategy);
clq_device *clq_strategy_device(const clq_strategy *strategy, unsigned replica);
const clq_plan *clq_strategy_plan(const clq_strategy *strategy, unsigned replica);
/* How often a replica's device is called for a step; uploads and exchanges not counted. */
size_t clq_strategy_calls(const clq_strategy *strategy, unsigned replica);
/* The feed of the model with the config's samples and losses (clq_model_feed). */
const clq_feed *clq_strategy_feed(const clq_strategy *strategy);
bool clq_strategy_shards_updates(const clq_strategy *strategy); /* whether the path "sharded update" is on */
/* Whether each replica should copy its rows from the dataset, so that the caller posts rows that stay (clq_rows.stay).
 * labels_ready: the loss takes the dataset's labels as they are. */
bool clq_strategy_takes_rows(clq_strategy *strategy, bool labels_ready);

/* A fast path (paths.c), as it is for the first replica. */
typedef struct clq_path_info {
    const char *name, *stage; /* "sharded update"; "input", "execute" or "exchange": the stage that it replaces */
    bool on;
    const char *reason; /* why the path is off; NULL: it is on */
} clq_path_info;
bool clq_strategy_path(const clq_strategy *strategy, size_t index, clq_path_info *out); /* false: no such path */
/* disabled: a list as disabled_paths; NULL: empty. The first tells whether the list names a path. The second adds the
 * names of paths that the list has, separated by commas, in the order of the table of paths. */
bool clq_path_is_disabled(const char *disabled, const char *name);
void clq_write_disabled_paths(const char *disabled, clq_text *to);

/* A stage of the first pipeline (stage_info.c). */
typedef struct clq_stage_info {
    const clq_stage *stage; /* owned by the strategy */
    unsigned replica;
    size_t parameters;             /* elements of its variables, state included */
    uint64_t memory_bytes;         /* in use on its device now */
    double forward, backward;      /* work of a full micro-batch, in operations; a byte that is moved counts as 8 */
    const clq_plan_seconds *took;  /* measured for a full micro-batch; owned by the strategy. NULL: not measured */
    size_t sent_bytes, back_bytes; /* of a full micro-batch, across the cut behind it: values; gradients that return */
} clq_stage_info;
/* False: there is no such stage, or the strategy has no pipeline. */
bool clq_strategy_stage(const clq_strategy *strategy, size_t index, clq_stage_info *out);
/* Where cuts come from. */
typedef enum clq_cut_basis { CLQ_CUT_BY_MARKS, CLQ_CUT_BY_ESTIMATE, CLQ_CUT_BY_TIME } clq_cut_basis;
const char *clq_cut_basis_name(clq_cut_basis basis); /* "marks", "estimates", "measured time" */
/* The bubble is the fraction of the time, 0 to 1, in which stages have nothing to do. bubble: if all stages took the
 * same time. bubble_expected: by the stages' measured times if all are known, otherwise by their work. */
typedef struct clq_pipeline_info {
    unsigned stages, pipelines, micro_batches;
    clq_cut_basis basis;
    bool timed; /* all stages' times are known */
    double bubble, bubble_expected;
} clq_pipeline_info;
/* False: the strategy has no pipeline. */
bool clq_strategy_pipelines(const clq_strategy *strategy, clq_pipeline_info *out);
/* How many seconds `count` micro-batches take in a pipeline (schedule.c). forward[], backward[]: each stage's seconds
 * for one micro-batch. hop_s: a stage that waited for another stage goes on so many seconds later. Stages make no other
 * pauses. */
double clq_pipeline_seconds(unsigned stages, unsigned count, const double *forward, const double *backward,
                            double hop_s);

size_t clq_strategy_share(clq_strategy *strategy, unsigned replica); /* its samples of a full global batch */
/* How many of the `samples` of the batch posted last went to this process's replicas: all, if there is no other
 * process. Called by the poster, as clq_strategy_share_of_all. */
size_t clq_strategy_own_samples(const clq_strategy *strategy, size_t samples);
/* A batch of which each process has only its own rows, in the order of the ranks. counts (processes): how many rows
 * each rank has. That is at most what its replicas take of a batch of `full` samples. */
typedef struct clq_brought {
    size_t full;
    const size_t *counts;
} clq_brought;
/* Steps, gradients and evaluations posted from now on get such batches; `brought` is borrowed. NULL: every process has
 * all rows of each batch. Called by the poster, as the next functions. */
void clq_strategy_bring(clq_strategy *strategy, const clq_brought *brought);
/* How many samples the whole batch has, if this process has `rows` rows of it. */
size_t clq_strategy_samples(const clq_strategy *strategy, size_t rows);
/* How many of a batch's `samples` each process takes: counts (processes). */
void clq_strategy_split_processes(const clq_strategy *strategy, size_t samples, size_t *counts);
/* All processes and replicas that train together. devices: a hash of all their devices; 0 with one process. */
typedef struct clq_everyone {
    unsigned processes, replicas;
    uint64_t devices;
} clq_everyone;
clq_everyone clq_strategy_everyone(const clq_strategy *strategy);
/* Whether replicas of other processes train with this process's replicas. */
bool clq_strategy_spans(const clq_strategy *strategy);
/* How many samples of a full global batch a replica takes. replica: its number among the replicas of all processes. */
size_t clq_strategy_share_of_all(const clq_strategy *strategy, unsigned replica);
/* With several processes: makes state (each replica may have its own) the mean over all replicas, and with `parameters`
 * also makes parameters current. Until the next step, reading these needs no other process. All processes call it. */
void clq_strategy_settle(clq_strategy *strategy, bool parameters);
/* Makes values (count) their sums over all processes. All processes call it. Errors: MEMORY, and those of
 * clq_world_gather. */
clq_status clq_strategy_add_up_processes(const clq_strategy *strategy, double *values, size_t count);
/* After clq_strategy_read_figures: makes this process's rows those of all processes, with squares (NULL: not wanted)
 * and origins. All processes call it. Errors: likewise. */
clq_status clq_strategy_add_up_rows(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows,
                                    float *squares);
/* Whether each batch goes to one replica of one process, so that processes do not wait for each other in steps. Reading
 * figures then waits for a whole batch of the slowest process. */
bool clq_strategy_is_by_batches(const clq_strategy *strategy);
/* With measured shares, the first function returns how often shares were set. The second returns the first step with
 * the shares of change `index`, and sets counts (CLQ_REPLICAS_MAX) to these shares of a full global batch. */
size_t clq_strategy_share_changes(const clq_strategy *strategy);
uint64_t clq_strategy_share_change(const clq_strategy *strategy, size_t index, size_t *counts);
size_t clq_strategy_capacity(const clq_strategy *strategy, unsigned replica); /* samples that it has room for */
/* How a batch of `samples` would be split now: replica r gets rows [offsets[r], offsets[r] + counts[r]). */
void clq_strategy_share_out(clq_strategy *strategy, size_t samples, size_t *offsets, size_t *counts);

/* Measurements of kernels (--tune), made before the plans. Replicas with the same stage and like devices are measured
 * once; .replica is the first of them. */
const clq_tune_log *clq_strategy_tune_log(const clq_strategy *strategy);

/* Seconds spent in exchanges so far. */
clq_comm_times clq_strategy_comm_times(const clq_strategy *strategy);
/* Seconds that a replica has waited for slower ones so far. */
double clq_strategy_waited(const clq_strategy *strategy, unsigned replica);

/* As clq_trainer_step_times, for any replica. */
clq_status clq_strategy_step_times(clq_strategy *strategy, unsigned replica, size_t most, float *seconds,
                                   size_t *count);
/* apart true: from now on each replica makes its steps alone, as if there were no others. false: replicas work together
 * again. For benchmarks: afterwards the replicas' weights are no longer those of one training. */
clq_status clq_strategy_set_apart(clq_strategy *strategy, bool apart);

typedef struct clq_replica_trace {
    clq_span *queue; /* the caller frees it with clq_free */
    size_t queue_count;
    clq_span *uploads; /* of the queue of uploads; likewise. NULL: there is no such queue */
    size_t upload_count;
    double clock_error_s;                 /* the error of the queues' times */
    const clq_timeline *steps, *exchange; /* owned by the strategy; valid until it is used again */
} clq_replica_trace;
/* What a replica did so far. Waits for all that was posted. For a strategy with trace_steps. */
clq_status clq_strategy_trace(clq_strategy *strategy, unsigned replica, clq_replica_trace *out);

/* Writes a variable's value to every replica. `from` stays unchanged until the caller has waited for the strategy. */
clq_status clq_strategy_write(clq_strategy *strategy, size_t variable, const void *from);

/* The next functions post work and return before it is done. A batch has 1 to global_batch rows, with the arrays of
 * clq_strategy_feed in any order. Rows that do not stay (clq_rows.stay) are copied before the call returns. If rows
 * stay, each replica's thread copies its part later: the caller keeps these rows unchanged until a call that waits for
 * all posted work has returned, with or without an error.
 * params: the caller sets slot, rate and step, as far as they matter; count, scale and first_row are filled in for each
 * replica. */
/* The whole step: gradients, reduce and apply in one call. They overlap if that pays. */
clq_status clq_strategy_step(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
clq_status clq_strategy_gradients(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
/* Accumulates the batch's gradient. The next clq_strategy_step or clq_strategy_gradients gets the last batch of the
 * update; its params, exchange and update are for all these batches together. All these calls have the same
 * params.step, and each has its own row of metrics. Errors: ARGUMENT (more than INT32_MAX samples), … */
clq_status clq_strategy_accumulate(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
/* Drops what was accumulated. */
void clq_strategy_forget_accumulated(clq_strategy *strategy);
/* Runs forward and loss by the plan for evaluation. The first call makes this plan, and clears the rows of metrics. */
clq_status clq_strategy_forward(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
clq_status clq_strategy_reduce(clq_strategy *strategy);
clq_status clq_strategy_apply(clq_strategy *strategy, const clq_step_params *params);

/* ---- a function of the caller's on each replica (run.c) ---- */

/* One replica's part of a run. Only the replica's thread uses it, while the function runs. */
typedef struct clq_replica_call clq_replica_call;
typedef struct clq_strategy_call {
    clq_mode mode;          /* TRAIN: the function may compute gradients, if the strategy trains; EVALUATE: losses */
    const clq_rows *parts;  /* (replicas) each replica's rows, at most its capacity; they do not stay. count 0: it gets
                               no rows. NULL: no batch */
    clq_step_params params; /* slot and step */
    clq_status (*run)(void *context, unsigned replica, clq_replica_call *call);
    void *context;
    bool *computed; /* (replicas) out: whether the function called clq_replica_call_compute */
} clq_strategy_call;
/* Whether clq_strategy_run is possible. Errors: UNSUPPORTED (there are several processes, or the strategy's replicas
 * cannot compute their parts of a gradient alone). */
clq_status clq_strategy_may_run(const clq_strategy *strategy);
/* Returns when the function has returned on all replicas; their devices may still work. If the function returns a
 * status other than OK, the strategy fails with it. *computed: whether all replicas computed. Errors: STATE (only some
 * replicas computed; the strategy can go on), … */
clq_status clq_strategy_run(clq_strategy *strategy, const clq_strategy_call *call, bool *computed);
/* Called by the function: runs forward and backward (EVALUATE: forward and loss) on the replica's part of the batch.
 * scale: the weight of one sample's loss. Errors: STATE (called a second time), … */
clq_status clq_replica_call_compute(clq_replica_call *call, double scale);
/* Called by the function: reads the replica's own row of metrics. Waits for the device. Errors: STATE (the replica has
 * not computed), … */
clq_status clq_replica_call_read(clq_replica_call *call, double *row);

/* ---- a part of a model (part.c) ----
 * For a strategy with `parts`. Each call returns after it has read and written the arrays that it was given. */

/* What comes from the part on one side and goes to the part on the other side, in host memory. from, to: an array for
 * each tensor of the cut (clq_stage_cut_of), with its rows; in backward, with the gradient of these rows, if the tensor
 * has one. */
typedef struct clq_handover {
    const float *const *from;
    float *const *to;      /* NULL: not wanted */
    float *const *outputs; /* for PREDICT: as clq_strategy_predict's `out`; the part writes its own outputs */
} clq_handover;
clq_status clq_strategy_part_forward(clq_strategy *strategy, clq_mode mode, const clq_rows *batch,
                                     const clq_step_params *params, const clq_handover *handover);
/* Called directly after a forward pass with mode TRAIN and the same number of rows. */
clq_status clq_strategy_part_backward(clq_strategy *strategy, size_t rows, const clq_handover *handover);
/* The part, owned by the strategy; NULL: the strategy has the whole model. */
const clq_stage *clq_strategy_part_stage(const clq_strategy *strategy);

/* The first failure of any replica so far, or OK. Waits for nothing. */
clq_status clq_strategy_failure(clq_strategy *strategy);

/* The next functions wait for all posted work. */
clq_status clq_strategy_wait(clq_strategy *strategy);
/* Reads `count` (1 to metric_slots) rows of metrics from slot `first` on; slot 0 follows the last one. rows (count,
 * clq_losses_width of the plan's losses): sums over this process's replicas, in double. squares (count, variables): the
 * squared norm per variable of the reduced gradient, for rows of steps whose update was made; NULL: not wanted. Errors:
 * STATE (the gradient is not measured), … */
clq_status clq_strategy_read_figures(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows,
                                     float *squares);
/* The same after a failure; waits at most a second for each device. False: a device did not answer, nothing is read. */
bool clq_strategy_rescue_figures(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows, float *squares);
/* Called directly after a read or a rescue of figures. The first returns how many whole steps every replica has handed
 * to its device so far. The second returns when (clq_now) replica 0 had handed over step `step`, which counts from 1
 * and is one of the last CLQ_STEP_TIMES. */
uint64_t clq_strategy_steps_done(const clq_strategy *strategy);
double clq_strategy_step_ended(const clq_strategy *strategy, uint64_t step);
/* Which replicas' gradients made the update of a row of metrics. */
typedef struct clq_origin {
    int32_t replica;    /* the one replica that computed the gradient; -1: all together */
    uint32_t staleness; /* updates between that replica's read of the parameters and the update */
    double part;        /* fraction of the batch's samples whose gradients are in the update */
} clq_origin;
clq_origin clq_strategy_origin(const clq_strategy *strategy, uint32_t slot); /* valid after the row was read */
/* Counts of a strategy with a store of parameters. Read while no step is under way. */
typedef struct clq_gradient_counts {
    unsigned servers;          /* threads, each of which updates a part of the parameters; 0: there is no store */
    uint64_t updates;          /* made by the store */
    uint64_t least, most;      /* updates of the server that made the fewest, and the most */
    uint64_t pushed, dropped;  /* gradients that were pushed; that were too late, or were not begun for this reason */
    const uint64_t *staleness; /* (bound + 1): updates by their staleness; NULL: all were synchronous */
    size_t bound;
} clq_gradient_counts;
clq_gradient_counts clq_strategy_gradient_counts(const clq_strategy *strategy);
/* Computes the outputs for one batch, which needs no labels. The first call makes the plan. out: one array for each
 * output of the model, in the order of the batch's rows; NULL: this output is not wanted. */
clq_status clq_strategy_predict(clq_strategy *strategy, const clq_rows *batch, float *const *out);
/* ---- whether replicas have the same weights (alike.c) ---- */

/* Called between updates: waits for all posted work, and compares the replicas' weights. *checked: false if nothing was
 * compared, because replicas with local steps have their own weights until the next average. step: for the message.
 * Errors: REPLICAS_DIFFER, MEMORY, … */
clq_status clq_strategy_check_replicas(clq_strategy *strategy, uint64_t step, bool *checked);

/* ---- store ranks (serve.c) ---- */

/* Called by a rank that is set apart: keeps and updates variables for the other ranks' trainings, until these ranks
 * have called clq_stores_end. Errors: those of clq_world_wait. An error of this rank itself ends the world. */
clq_status clq_stores_serve(clq_world *world);
/* Called by all other ranks when none of them trains any more: takes back the ranks that are set apart. */
clq_status clq_stores_end(clq_world *world);

/* ---- snapshots (snapshot.c) ----
 * A snapshot has all that later steps depend on, in host memory. It is ordered by variable, so that another number of
 * replicas, or another strategy, can go on from it. If replicas have values of their own, it also has these for each
 * replica. Snapshots are taken and put between updates. */

typedef enum clq_snapshot_kind { CLQ_SNAPSHOT_VALUE, CLQ_SNAPSHOT_SLOT, CLQ_SNAPSHOT_ERROR } clq_snapshot_kind;
typedef struct clq_snapshot_entry {
    uint32_t variable;
    clq_snapshot_kind kind; /* the variable; a slot of the optimizer; the compression error of its gradient */
    unsigned slot;          /* of SLOT */
    int replica;            /* the replica whose own values these are; -1: values of all replicas, or their mean */
    const float *values;    /* (elements of the variable) */
} clq_snapshot_entry;
typedef struct clq_snapshot {
    clq_snapshot_entry *entries; /* entries with replica -1 come first */
    size_t count, capacity;
    unsigned replicas, slots; /* replicas: of all processes; slots: of the optimizer */
    /* These are about replicas with values of their own. computed: bits of the replicas that computed since state was
     * averaged. local_steps, local_samples: steps, and each replica's samples, since weights were averaged. */
    uint64_t computed, local_steps, *local_samples; /* (replicas) */
    bool state_apart, scales;                       /* each replica has its own state; losses are scaled */
    int32_t scaling[CLQ_SCALING_INTS];              /* if losses are scaled: the state of the scale */
    size_t *shares;                                 /* (replicas) measured shares; all 0: none */
    void **blocks;                                  /* the memory of the values */
    size_t block_count, block_capacity;
} clq_snapshot;
/* Waits for all posted work, and changes nothing in the training. If the strategy spans processes, all of them call
 * clq_strategy_settle and then this function. With for_all every process gets the snapshot. Otherwise rank 0 gets it,
 * and the other processes' snapshots are empty. The caller releases *out in any case. Errors: MEMORY (in all processes,
 * if any of them lacks memory), … */
clq_status clq_strategy_take_snapshot(clq_strategy *strategy, bool for_all, clq_snapshot *out);
/* Allocates local_samples and shares, with a zero for each of its `replicas`. Errors: MEMORY. */
clq_status clq_snapshot_open_counts(clq_snapshot *snapshot);
/* Restores a snapshot. It has an entry with replica -1 for every variable and slot that the strategy has. own: each
 * replica also takes its own values, unless the number of replicas differs. The snapshot then comes from the same
 * strategy on the same devices, with the same kinds of values of their own. step: the last update before the snapshot.
 * If a device fails, the strategy has failed. Errors: MEMORY, … */
clq_status clq_strategy_put_snapshot(clq_strategy *strategy, const clq_snapshot *snapshot, bool own, uint64_t step);
void clq_snapshot_release(clq_snapshot *snapshot);   /* takes {0} */
unsigned clq_strategy_slots(clq_strategy *strategy); /* of the optimizer */

/* ---- the loss scale (scaling.c) ---- */

bool clq_strategy_scales(const clq_strategy *strategy);
/* For a strategy that scales losses; called between updates. */
clq_status clq_strategy_read_scaling(clq_strategy *strategy, int32_t state[CLQ_SCALING_INTS]);
clq_status clq_strategy_write_scaling(clq_strategy *strategy, const int32_t state[CLQ_SCALING_INTS]);

/* Whether any replica has the variable. A part of a model has only some variables. */
bool clq_strategy_has_variable(const clq_strategy *strategy, size_t variable);
/* Reads a variable that the strategy has: its value, or its gradient, as `replica` has it. If this replica does not
 * have the variable, the next one that does is read. Errors: STATE (no gradient without update), … */
clq_status clq_strategy_read_variable(clq_strategy *strategy, unsigned replica, size_t variable, bool gradient,
                                      void *to);
/* Reads a range of a replica's arena (clq_weights_arena). Errors: likewise. */
clq_status clq_strategy_read(clq_strategy *strategy, unsigned replica, clq_arena arena, size_t offset, void *to,
                             size_t bytes);

#endif
