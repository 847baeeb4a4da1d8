/* strategy: how replicas work together. strategy.c is the face: it posts commands to all replicas, in one order. A
 * module (module.h, modules/, pipeline/) says how a step is made of its stages: input, execute, exchange and update. An
 * exchange (exchange/exchange.h) says how replicas come to the same update, and how what a step leaves on some replicas
 * becomes current on all. replicas/ has what a replica is: a worker of a pool, which is a thread, a device, its queue
 * and a channel of commands (pool.c); weights, plans over them, rows on their way, what its steps measured. state/ has
 * what checkpoints keep; reports.c is what is told.
 *
 * The first failure of any replica aborts what the others wait for; every later call returns it. */
#ifndef CLQ_STRATEGY_H
#define CLQ_STRATEGY_H

#include "comm/comm.h"
#include "data/data.h"
#include "graph/graph.h"
#include "strategy/exchange/store.h"

/* Of a bucket of the gradient, where the config names none. */
enum { CLQ_BUCKET_BYTES_DEFAULT = 4 << 20 };
/* Gradients of fewer bytes are exchanged whole, unless buckets are asked for. */
enum { CLQ_OVERLAP_BYTES_LEAST = 1 << 20 };
/* The same between machines. There nothing hides the exchange of the last bucket, so it is to be a small part of all;
 * of fewer bytes than the least, what each exchange costs beside the wire counts more. */
enum { CLQ_OVERLAP_BYTES_LEAST_FAR = 512 << 10, CLQ_BUCKETS_FAR = 12, CLQ_BUCKET_BYTES_LEAST_FAR = 64 << 10 };
static inline size_t clq_bucket_bytes_far(size_t gradient_bytes) {
    const size_t bytes = gradient_bytes / CLQ_BUCKETS_FAR;
    return CLQ_MIN(CLQ_MAX(bytes, (size_t)CLQ_BUCKET_BYTES_LEAST_FAR), (size_t)CLQ_BUCKET_BYTES_DEFAULT);
}
/* How a gradient is exchanged, where backward may hide it: whether in buckets, and of how many bytes. wanted: of the
 * config; 0: none. far: between machines. */
static inline bool clq_buckets_pay(size_t gradient_bytes, size_t wanted, bool far) {
    const size_t least = far ? CLQ_OVERLAP_BYTES_LEAST_FAR : CLQ_OVERLAP_BYTES_LEAST;
    return wanted || gradient_bytes >= least;
}
static inline size_t clq_bucket_bytes(size_t gradient_bytes, size_t wanted, bool far) {
    if (wanted) return wanted;
    return far ? clq_bucket_bytes_far(gradient_bytes) : (size_t)CLQ_BUCKET_BYTES_DEFAULT;
}
/* How long a replica's thread spins for the others before it sleeps, if it has a core of its own and nothing else to
 * do. A sleep would end late: in virtual machines one wake-up in a thousand takes 6 ms. */
static const double clq_patience_s = 2e-3;

typedef struct clq_strategy_config {
    clq_strategy_kind kind; /* AUTO: the first that takes so many devices */
    clq_strategy_options options;
    clq_plan_config
        plan; /* mode TRAIN or EVALUATE; capacity is each replica's. loss, update and answers are borrowed */
    size_t global_batch;
    clq_group_config group;
    size_t bucket_bytes, trace_steps; /* as clq_trainer_config's */
    const char *disabled_paths;       /* likewise */
    clq_tuning tuning;
    double tuning_s;
    const char *stage_settings; /* settings that the time of a stage depends on, as text: measured times are kept by it.
                                   Borrowed while the strategy is created */
    bool check_replicas;        /* clq_strategy_check_replicas will be called */
    bool evaluates_apart;       /* each process evaluates samples of its own, when the others may not */
    clq_world *world;           /* the processes whose replicas train together, each with the same config. Borrowed;
                                   NULL: this one */
    /* Set by clq_strategy_create: the number of this process's first replica among those of the world, how many these
     * are, and a hash of which devices. */
    unsigned first, total;
    uint64_t devices_of_all;
    unsigned parts, part; /* the strategy is of part `part` of the model's `parts`, on one device; 0: of the model */
} clq_strategy_config;

/* ---- traces (timeline.c) ---- */

/* What a host thread did. Start with {0}, end with clq_free(timeline->spans). Keeps the first 2^18. */
typedef struct clq_timeline {
    clq_span *spans;
    size_t count, capacity;
} clq_timeline;
/* From `begin` to now. */
clq_status clq_timeline_add(clq_timeline *timeline, double begin, const char *name, const char *key, uint64_t value);

typedef struct clq_strategy clq_strategy;
/* "auto", "single", …, by clq_strategy_kind. NULL behind the last. */
const char *clq_strategy_name(size_t kind);
/* The name of the module that a strategy has; with AUTO that of the module that was chosen. */
const char *clq_strategy_own_name(const clq_strategy *strategy);
/* Likewise which kind it is, and how it was set up; share_weights is NULL. */
void clq_strategy_settings(const clq_strategy *strategy, clq_strategy_kind *kind, clq_strategy_options *options);
/* One replica per entry of devices. Variables are zero until clq_strategy_write. With a world of several processes
 * every one of them calls it; if it fails in one, the world ends. */
clq_status clq_strategy_create(const clq_model *model, const clq_devices *devices, const clq_strategy_config *config,
                               clq_strategy **out);
void clq_strategy_destroy(clq_strategy *strategy); /* takes NULL; ends what is under way */

unsigned clq_strategy_replicas(const clq_strategy *strategy);
clq_device *clq_strategy_device(const clq_strategy *strategy, unsigned replica);
const clq_plan *clq_strategy_plan(const clq_strategy *strategy, unsigned replica);
/* How often a replica's device is called for a step; uploads and exchanges not counted. */
size_t clq_strategy_calls(const clq_strategy *strategy, unsigned replica);
/* Of its config (clq_model_feed). */
const clq_feed *clq_strategy_feed(const clq_strategy *strategy);
bool clq_strategy_shards_updates(const clq_strategy *strategy); /* in steps */
/* Whether rows of a dataset that stay are to be used, where labels are, or are not, as the loss takes them. */
bool clq_strategy_takes_rows(clq_strategy *strategy, bool labels_ready);

/* A fast path (paths.c), as of the first replica. */
typedef struct clq_path_info {
    const char *name, *stage; /* "sharded update"; "input", "execute" or "exchange": the stage that it replaces */
    bool on;
    const char *reason; /* why not; NULL where on */
} clq_path_info;
bool clq_strategy_path(const clq_strategy *strategy, size_t index, clq_path_info *out); /* false: there is none */
/* disabled: as disabled_paths; NULL: none. Whether it names the path; its names as the table has them. */
bool clq_path_is_disabled(const char *disabled, const char *name);
void clq_write_disabled_paths(const char *disabled, clq_text *to);

/* A stage of a pipeline (stage_info.c), as of the first pipeline. */
typedef struct clq_stage_info {
    const clq_stage *stage; /* of the model: the strategy's */
    unsigned replica;
    size_t parameters;             /* state included */
    uint64_t memory_bytes;         /* of its device, for all that it does so far */
    double forward, backward;      /* work of a full micro-batch, in operations; a byte that is moved counts as 8 */
    const clq_plan_seconds *took;  /* by a full micro-batch on its device; the strategy's. NULL: it was not measured */
    size_t sent_bytes, back_bytes; /* that cross the cut behind it: of a full micro-batch, and its gradients */
} clq_stage_info;
/* False: there is no such stage, or no pipeline. */
bool clq_strategy_stage(const clq_strategy *strategy, size_t index, clq_stage_info *out);
/* Where cuts come from. */
typedef enum clq_cut_basis { CLQ_CUT_BY_MARKS, CLQ_CUT_BY_ESTIMATE, CLQ_CUT_BY_TIME } clq_cut_basis;
const char *clq_cut_basis_name(clq_cut_basis basis); /* "marks", "estimates", "measured time" */
/* Of pipelines; false where there are none. The bubble is the share of the time in which stages have nothing to do: if
 * all stages took the same time; and as their measured times let expect, or, where a stage's is not known, their work.
 */
typedef struct clq_pipeline_info {
    unsigned stages, pipelines, micro_batches;
    clq_cut_basis basis;
    bool timed; /* all stages' times are known */
    double bubble, bubble_expected;
} clq_pipeline_info;
bool clq_strategy_pipelines(const clq_strategy *strategy, clq_pipeline_info *out);
/* How long `count` micro-batches take in a pipeline (schedule.c), by the stages' seconds of each, forward[] and
 * backward[], with no pause but that a stage which waited for another goes on hop_s seconds later. */
double clq_pipeline_seconds(unsigned stages, unsigned count, const double *forward, const double *backward,
                            double hop_s);

size_t clq_strategy_share(clq_strategy *strategy, unsigned replica); /* of a full global batch */
/* How many of the `samples` of the batch that was posted last the replicas of this process take: all, without a world.
 * By the poster's thread, as clq_strategy_share_of_all. */
size_t clq_strategy_own_samples(const clq_strategy *strategy, size_t samples);
/* Of batches of which each process has its own rows alone, in the order of the ranks: how many rows of this one each
 * has (counts, by rank), at most what its replicas take of a batch of `full` samples. */
typedef struct clq_brought {
    size_t full;
    const size_t *counts;
} clq_brought;
/* Steps, gradients and evaluations from now on get such rows; borrowed. NULL: every process has all rows. By the
 * poster's thread, as what follows. */
void clq_strategy_bring(clq_strategy *strategy, const clq_brought *brought);
/* Samples of a whole batch of which this process has so many rows. */
size_t clq_strategy_samples(const clq_strategy *strategy, size_t rows);
/* How many of a batch's `samples` each process takes: counts (processes). */
void clq_strategy_split_processes(const clq_strategy *strategy, size_t samples, size_t *counts);
/* All that train together. devices: a hash of which devices. */
typedef struct clq_everyone {
    unsigned processes, replicas;
    uint64_t devices;
} clq_everyone;
clq_everyone clq_strategy_everyone(const clq_strategy *strategy);
/* Whether replicas of other processes train with these. */
bool clq_strategy_spans(const clq_strategy *strategy);
/* Of a full global batch: the part of the replica of this number among those of all processes. */
size_t clq_strategy_share_of_all(const clq_strategy *strategy, unsigned replica);
/* With several processes: the state that replicas have of their own becomes the mean of all, and so do parameters if
 * these are wanted, so that reading them asks no other process until the next step. All call it. */
void clq_strategy_settle(clq_strategy *strategy, bool parameters);
/* Sums of this process become those of all processes: values (count). All call it. Errors: those of clq_world_gather.
 */
clq_status clq_strategy_add_up_processes(const clq_strategy *strategy, double *values, size_t count);
/* Of rows that were read (clq_strategy_read_figures): those of this process become those of all, with their squares
 * (NULL: not wanted) and origins. All call it. Errors: likewise, MEMORY. */
clq_status clq_strategy_add_up_rows(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows,
                                    float *squares);
/* Whether replicas make their steps apart from those of other processes: reading figures then waits for a whole batch
 * of the slowest. */
bool clq_strategy_is_by_batches(const clq_strategy *strategy);
/* Where shares are measured: how often they were set; and change `index`: the first step that has it, and counts
 * (CLQ_REPLICAS_MAX), the shares of a full global batch. */
size_t clq_strategy_share_changes(const clq_strategy *strategy);
uint64_t clq_strategy_share_change(const clq_strategy *strategy, size_t index, size_t *counts);
size_t clq_strategy_capacity(const clq_strategy *strategy, unsigned replica); /* samples that it has room for */
/* How a batch of `samples` would be split now: rows [offsets[r], offsets[r] + counts[r]) to replica r. */
void clq_strategy_share_out(clq_strategy *strategy, size_t samples, size_t *offsets, size_t *counts);

/* Measurements of kernels (--tune) before the plans were made, once for devices that are alike; .replica is the first
 * of them. */
const clq_tune_log *clq_strategy_tune_log(const clq_strategy *strategy);

/* Seconds spent in exchanges so far. */
clq_comm_times clq_strategy_comm_times(const clq_strategy *strategy);
/* Seconds that a replica has waited for slower ones so far. */
double clq_strategy_waited(const clq_strategy *strategy, unsigned replica);

/* As clq_trainer_step_times, of any replica. */
clq_status clq_strategy_step_times(clq_strategy *strategy, unsigned replica, size_t most, float *seconds,
                                   size_t *count);
/* apart: from now on each replica takes its steps alone, as if there were no others. Otherwise with them again. For
 * benchmarks: afterwards the replicas' weights are no longer those of one training. */
clq_status clq_strategy_set_apart(clq_strategy *strategy, bool apart);

typedef struct clq_replica_trace {
    clq_span *queue; /* the caller's: clq_free */
    size_t queue_count;
    clq_span *uploads; /* by the queue of uploads; likewise */
    size_t upload_count;
    double clock_error_s;                 /* of the queues' times */
    const clq_timeline *steps, *exchange; /* the strategy's, until it is used again */
} clq_replica_trace;
/* What a replica did so far. Waits for all that was posted. For a strategy with trace_steps. */
clq_status clq_strategy_trace(clq_strategy *strategy, unsigned replica, clq_replica_trace *out);

/* A variable's value, to every replica. `from` stays as it is until the strategy was waited for. */
clq_status clq_strategy_write(clq_strategy *strategy, size_t variable, const void *from);

/* Each of these posts work and returns before it is done. A batch is 1 to global_batch rows, with the arrays of
 * clq_strategy_feed, in any order; for a prediction without labels. Rows that do not stay are copied before the call
 * returns. If rows stay, each replica's thread copies its part, and later: the caller keeps them unchanged until a call
 * that waits for all that was posted has returned, even with an error.
 * params: slot, rate and step, as far as they matter; count, scale and first row are filled in for each replica. */
/* The whole step: gradients, reduce and apply in one, which overlap where that pays. */
clq_status clq_strategy_step(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
clq_status clq_strategy_gradients(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
/* Accumulates the batch's gradient. The next call of a function above (a step, or gradients) takes the last batch of
 * the update: its params, exchange and update are those of all batches together. All have the same params.step, and
 * each has a row of metrics of its own. Errors: ARGUMENT (more samples than an i32 counts), … */
clq_status clq_strategy_accumulate(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
/* Drops what was accumulated. */
void clq_strategy_forget_accumulated(clq_strategy *strategy);
/* Forward and loss by the plan for evaluation. The first call makes that plan, and clears the rows of metrics. */
clq_status clq_strategy_forward(clq_strategy *strategy, const clq_rows *batch, const clq_step_params *params);
clq_status clq_strategy_reduce(clq_strategy *strategy);
clq_status clq_strategy_apply(clq_strategy *strategy, const clq_step_params *params);

/* ---- a function of the caller's on each replica (run.c) ---- */

/* One replica's part of such a run; while its function runs, for its thread. */
typedef struct clq_replica_call clq_replica_call;
typedef struct clq_strategy_call {
    clq_mode mode;          /* TRAIN: it may compute gradients, by a strategy that trains; EVALUATE: losses */
    const clq_rows *parts;  /* (replicas) each one's rows, at most a replica's capacity, which do not stay; of count 0:
                               none. NULL: no batch */
    clq_step_params params; /* slot and step */
    clq_status (*run)(void *context, unsigned replica, clq_replica_call *call);
    void *context;
    bool *computed; /* (replicas) out: whether the function did */
} clq_strategy_call;
/* Errors: UNSUPPORTED (the strategy's replicas cannot make their parts of a gradient by themselves). */
clq_status clq_strategy_may_run(const clq_strategy *strategy);
/* Returns when the function has returned on all replicas; their devices may still work. A status other than OK that the
 * function returned is the strategy's failure. *computed: whether all replicas computed. Errors: STATE (only some of
 * them did; the strategy goes on), … */
clq_status clq_strategy_run(clq_strategy *strategy, const clq_strategy_call *call, bool *computed);
/* Called by the function: forward and backward (EVALUATE: forward and loss) on the replica's part, with the loss
 * scaled. Errors: STATE (a second time), … */
clq_status clq_replica_call_compute(clq_replica_call *call, double scale);
/* Called by the function: the replica's own row of metrics. Waits for the device. Errors: STATE (before it computed),
 * … */
clq_status clq_replica_call_read(clq_replica_call *call, double *row);

/* ---- a part of a model (part.c) ----
 * Of a strategy with `parts`. Each call waits until it has read and written what it was given. */

/* What comes from the part on one side and goes to that on the other, in the host's memory: for each tensor of the cut
 * (clq_stage_cut_of) its rows, or their gradient, where it is trained. */
typedef struct clq_handover {
    const float *const *from;
    float *const *to;      /* NULL: not wanted */
    float *const *outputs; /* of PREDICT: as of clq_strategy_predict, for the part's */
} clq_handover;
clq_status clq_strategy_part_forward(clq_strategy *strategy, clq_mode mode, const clq_rows *batch,
                                     const clq_step_params *params, const clq_handover *handover);
/* Behind a forward pass of TRAIN of so many rows, with nothing between. */
clq_status clq_strategy_part_backward(clq_strategy *strategy, size_t rows, const clq_handover *handover);
const clq_stage *clq_strategy_part_stage(const clq_strategy *strategy); /* the strategy's. NULL: it has the model */

/* The first failure of any replica so far, or OK. Waits for nothing. */
clq_status clq_strategy_failure(clq_strategy *strategy);

/* These wait for all that was posted. */
clq_status clq_strategy_wait(clq_strategy *strategy);
/* What was measured in `count` rows of metrics from slot `first` on, round and round, 1 to metric_slots. rows (count,
 * clq_losses_width of the plan's losses): sums over replicas, in double. squares (count, variables): the squared
 * norm per variable of the reduced gradient, of rows of steps whose update was made; NULL: not wanted. Errors: STATE
 * (the gradient is not measured), … */
clq_status clq_strategy_read_figures(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows,
                                     float *squares);
/* The same after a failure, as far as the devices still answer, for a second each. False: there is nothing. */
bool clq_strategy_rescue_figures(clq_strategy *strategy, uint32_t first, uint32_t count, double *rows, float *squares);
/* Directly after one of these two: whole steps that every replica has handed to its device so far; and when replica 0
 * had handed over step `step`, one of the last CLQ_STEP_TIMES, from 1 (clq_now). */
uint64_t clq_strategy_steps_done(const clq_strategy *strategy);
double clq_strategy_step_ended(const clq_strategy *strategy, uint64_t step);
/* Which replicas' gradients the update of a row of metrics was made by. */
typedef struct clq_origin {
    int32_t replica;    /* the one replica that computed the gradient; -1: all together */
    uint32_t staleness; /* updates between that replica's read of the parameters and the update */
    double part;        /* fraction of the batch's samples whose gradients are in the update */
} clq_origin;
clq_origin clq_strategy_origin(const clq_strategy *strategy, uint32_t slot); /* after a read of the row */
/* Counts of a strategy with a store of parameters, while no step is under way. */
typedef struct clq_gradient_counts {
    unsigned servers;          /* threads, each of which updates a part of the parameters; 0: there is no store */
    uint64_t updates;          /* made by the store */
    uint64_t least, most;      /* updates of the server that made the fewest, and the most */
    uint64_t pushed, dropped;  /* gradients that replicas pushed; that came too late, or were not begun for that */
    const uint64_t *staleness; /* (bound + 1): updates by their staleness; NULL: all were synchronous */
    size_t bound;
} clq_gradient_counts;
clq_gradient_counts clq_strategy_gradient_counts(const clq_strategy *strategy);
/* Outputs for one batch, in the batch's order, by a plan that is made at the first call. out: one place for each output
 * of the model; NULL where it is not wanted. */
clq_status clq_strategy_predict(clq_strategy *strategy, const clq_rows *batch, float *const *out);
/* ---- whether replicas have the same weights (alike.c) ---- */

/* Between updates: waits for all that was posted, and compares. *checked: false where replicas have weights of their
 * own at the moment, between two averages of local steps. step: for the message. Errors: REPLICAS_DIFFER, MEMORY, … */
clq_status clq_strategy_check_replicas(clq_strategy *strategy, uint64_t step, bool *checked);

/* ---- store ranks (serve.c) ---- */

/* By a rank that is set apart: keeps and updates variables for trainings of the others, until these have called
 * clq_stores_end. Errors: those of clq_world_wait; its own end the world. */
clq_status clq_stores_serve(clq_world *world);
/* By all others, once none of them trains: takes the ranks that are set apart back. */
clq_status clq_stores_end(clq_world *world);

/* ---- snapshots (snapshot.c) ----
 * All that later steps depend on, in the host's memory, by variable: so another number of replicas, or another
 * strategy, can go on from it. What replicas have of their own is there for each replica. Between updates. */

typedef enum clq_snapshot_kind { CLQ_SNAPSHOT_VALUE, CLQ_SNAPSHOT_SLOT, CLQ_SNAPSHOT_ERROR } clq_snapshot_kind;
typedef struct clq_snapshot_entry {
    uint32_t variable;
    clq_snapshot_kind kind; /* the variable; a slot of the optimizer; the compression error of its gradient */
    unsigned slot;          /* of SLOT */
    int replica;            /* whose own values these are; -1: all replicas', or their mean */
    const float *values;    /* (elements of the variable) */
} clq_snapshot_entry;
typedef struct clq_snapshot {
    clq_snapshot_entry *entries; /* those of all replicas first */
    size_t count, capacity;
    unsigned replicas, slots; /* replicas: of all processes; slots: of the optimizer */
    /* As far as replicas have values of their own: bits of those that computed since state was averaged; steps since
     * weights were averaged, and each replica's samples. */
    uint64_t computed, local_steps, *local_samples; /* (replicas) */
    bool state_apart, scales;
    int32_t scaling[CLQ_SCALING_INTS]; /* where losses are scaled: the state of the scale */
    size_t *shares;                    /* (replicas) measured; all 0: none */
    void **blocks;                     /* that values lie in */
    size_t block_count, block_capacity;
} clq_snapshot;
/* Waits for all that was posted, and changes nothing in the training. If the strategy spans processes, all call this
 * behind clq_strategy_settle, and rank 0 gets the snapshot, or each does (for_all); the others' is empty. *out is
 * released in any case. Errors: MEMORY, in all processes if any has none; … */
clq_status clq_strategy_take_snapshot(clq_strategy *strategy, bool for_all, clq_snapshot *out);
/* Room for local_samples and shares, zeros, by its `replicas`. Errors: MEMORY. */
clq_status clq_snapshot_open_counts(clq_snapshot *snapshot);
/* Every variable and slot that the strategy has is in the snapshot, of all replicas. own: replicas take their own
 * values, which are of the same devices by the same strategy, that keeps the same values apart. step: the update that
 * was the last. A failure of a device leaves the strategy failed. Errors: MEMORY, … */
clq_status clq_strategy_put_snapshot(clq_strategy *strategy, const clq_snapshot *snapshot, bool own, uint64_t step);
void clq_snapshot_release(clq_snapshot *snapshot);   /* takes {0} */
unsigned clq_strategy_slots(clq_strategy *strategy); /* of the optimizer */

/* ---- the loss scale (scaling.c) ---- */

bool clq_strategy_scales(const clq_strategy *strategy);
/* Of a strategy that does; between updates. */
clq_status clq_strategy_read_scaling(clq_strategy *strategy, int32_t state[CLQ_SCALING_INTS]);
clq_status clq_strategy_write_scaling(clq_strategy *strategy, const int32_t state[CLQ_SCALING_INTS]);

/* Whether any replica has it: a part of a model has some. */
bool clq_strategy_has_variable(const clq_strategy *strategy, size_t variable);
/* A variable that it has: its value, or its gradient, as a replica has it. Errors: STATE (no gradient without update),
 * … */
clq_status clq_strategy_read_variable(clq_strategy *strategy, unsigned replica, size_t variable, bool gradient,
                                      void *to);
/* The same of a range of a replica's arena (clq_weights_arena). */
clq_status clq_strategy_read(clq_strategy *strategy, unsigned replica, clq_arena arena, size_t offset, void *to,
                             size_t bytes);

#endif
