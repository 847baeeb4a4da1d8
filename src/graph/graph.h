/* graph: a model as layers, its weights on a device, and plans over the two. A plan is the model for one capacity and
 * one purpose: a launch list with a memory layout. The builder (model.c, layers/) adds layers. weights.c lays out
 * variables, and slicing.c may give each rank a slice of them. step/ makes the graph of a whole step, emit.c turns the
 * graph into launches, and place.c gives every value its memory. See <clique/model.h> for what users see. */
#ifndef CLQ_GRAPH_H
#define CLQ_GRAPH_H

#include "graph/weights.h"

/* ---- compressed gradients (compress.c) ----
 * Each rank sends a message in place of its gradient. From the messages of all ranks, every rank makes the same
 * gradient (clq_compress_halves and clq_choose_largest say what is exact). The compressor keeps the compression error,
 * and adds it to the next gradient. */

/* How many elements of the trainable variables a message has with `how`, whose kind is TOP_K: the fraction, rounded
 * up. */
size_t clq_compression_chosen(const clq_compression *how, const clq_model *model);

typedef struct clq_compressor clq_compressor;
/* The weights must have a gradient, must never turn (clq_weights_turn), and must outlive the compressor. how->kind is
 * not OFF. The error starts at 0. */
clq_status clq_compressor_create(clq_weights *weights, const clq_compression *how, unsigned ranks,
                                 clq_compressor **out);
void clq_compressor_destroy(clq_compressor *compressor); /* takes NULL */
/* What ranks exchange, the same in each step. Between pack and unpack, the caller fills `arrived`. If `gathered`, the
 * caller writes the ranks' messages there, one behind the other, in the order of ranks. Otherwise it writes their
 * sum. */
typedef struct clq_compressed {
    clq_buffer *sent, *arrived; /* may be the same */
    bool gathered;
    size_t count; /* elements of `sent` */
    clq_dtype dtype;
} clq_compressed;
clq_compressed clq_compressor_message(const clq_compressor *compressor);
clq_buffer *clq_compressor_error(const clq_compressor *compressor);             /* laid out as the gradient */
clq_status clq_compressor_pack(clq_compressor *compressor, clq_queue *queue);   /* makes `sent` of the gradient */
clq_status clq_compressor_unpack(clq_compressor *compressor, clq_queue *queue); /* makes the gradient of `arrived` */

/* ---- plans (plan.c, step/, emit.c, place.c) ---- */

/* What a plan computes. Dropout and the statistics of batch normalisation depend on the mode. */
typedef enum clq_mode {
    CLQ_MODE_TRAIN,
    CLQ_MODE_EVALUATE, /* the loss, with layers in inference mode */
    CLQ_MODE_PREDICT,  /* the output */
    CLQ_MODE_COUNT
} clq_mode;

/* For estimates of work: how many operations take as long as moving one byte. On common CPUs and GPUs it is 4 to 16. */
#define CLQ_OPERATIONS_PER_BYTE 8.0

/* A sum within a step over replicas that train together, for example of statistics of the global batch. All replicas
 * run plans of one model at the same time, each in its own thread. */
typedef struct clq_step_sum {
    unsigned rank, ranks; /* this rank, and the number of ranks. ranks 0 or 1: a replica alone */
    /* Replaces the first `count` floats of `values` by their sum over all ranks, with the same bits on each rank. The
     * plan calls it between two launches: on all ranks for the same values and counts, in the same order. queue: the
     * queue of the launches. Zeros change no bit of a sum: if only one rank's value is not 0, the sum is this value.
     * NULL: the plan leaves out the sums, as in trials of a plan's launches. */
    clq_status (*all_reduce)(void *context, clq_queue *queue, clq_buffer *values, size_t count);
    void *context;
} clq_step_sum;

typedef struct clq_plan_config {
    clq_mode mode;
    uint64_t seed;              /* of random numbers, as in dropout: the same in all replicas */
    clq_step_sum exchange;      /* sums over ranks that split the batch. Its context outlives the plan's runs */
    clq_step_sum joins;         /* sums over ranks that split the weights and run the same samples. Its context outlives
                                   the runs, too */
    const clq_slicing *slicing; /* how clq_plan_create_alone slices the weights that it makes, for rank joins.rank.
                                   NULL: not at all */
    uint32_t capacity;          /* examples that one run can hold; at least 1 */
    clq_dtype sample_dtype;     /* type of the uploaded samples: CLQ_U8 or CLQ_F32 */
    clq_dtype activations;      /* F32; or F16 or BF16, if samples' values are stored in 16 bits (step/precision.c) */
    /* The losses, one for each output of the model, in the order of outputs. NULL: inference only. from_logits
     * describes the output itself, even if the plan computes the loss from the input of its softmax or sigmoid. The
     * plan does not read metrics_width and metrics_at: in a row of the metrics buffer, the totals of the losses lie one
     * behind the other. */
    const clq_loss_problem *loss;
    const clq_optimizer *update; /* NULL: no backward and no update. Otherwise the plan needs a loss, and weights that
                                    were made for this optimizer. Rates come with each step */
    clq_update_options update_options; /* the options that the weights were made for. `treatments` are taken from the
                                          weights */
    /* If ranks hold different variables, or different parts of the arenas: sums the squares of all ranks, for norms and
     * trust ratios that the update uses. Its context outlives the plan's runs. */
    clq_step_sum norm_parts;
    bool measures_all;   /* `norm_parts` also sums norms that no update uses */
    bool gradient_norms; /* also has launches that measure the gradient (segment NORM) */
    /* NORM and UPDATE are empty: the code that adds up the replicas' gradients also measures the sum, and runs `update`
     * in its own memory or by another plan. The weights have a gradient, and need no optimizer slots. */
    bool updated_elsewhere;
    /* The plan adds up gradients over several runs. The parameter `sum_factor` controls a run. In the first run it is
     * 0, and the run overwrites the gradient's arena. In the next runs it is 1. In the last run it is the factor that
     * makes the mean of the sum. If all runs give a sample the same weight (`scale`), the mean is exact, whatever the
     * number of samples in each run. So an exchange or an update can take the result for the gradient of one batch. */
    bool accumulates;
    uint32_t metric_slots;            /* rows of the metrics buffer; at least 1 */
    clq_matmul_precision precision;   /* of products */
    const clq_selections *selections; /* selections for this plan's list, or NULL. clq_plan_create borrows them */
    /* Each run of launches waits for its end, and fails with CLQ_ERROR_NOT_FINITE if a launch of FORWARD to BACKWARD
     * read or made a number that is not finite. */
    bool check_numerics;
    bool unfused_graph;  /* for comparison: without the passes that fuse operations */
    bool lowered_graph;  /* for comparison: with these passes, but each composite is replaced by the operations that it
                            is short for */
    bool fused_launches; /* as of clq_list_set_fused */
    /* A plan over the same weights that never runs at the same time, or NULL. As far as the sizes fit, the new plan
     * uses that plan's memory for samples, labels, outputs, metrics, activations and tensors that cross a cut, in place
     * of memory of its own. That plan must outlive the new plan. */
    const struct clq_plan *beside;
    /* A plan with as many rows of metrics. The new plan uses that plan's metrics buffer, as plans for the micro-batches
     * of one step do. That plan must outlive the new plan. NULL: the new plan has its own buffer, or the buffer of
     * `beside`. */
    const struct clq_plan *metrics_of;
    /* The stage of the weights that clq_plan_create_alone makes. clq_plan_create takes the stage of its weights
     * instead. If a stage has the model's input, its plan has samples. If it has an output of the model, its plan has
     * the labels, loss or values of this output. Rows of metrics are laid out as for the whole model, with zeros for
     * outputs of other stages. NULL: the whole model. */
    const clq_stage *stage;
    /* Which activations backward computes again, in place of keeping them from forward. OFF: those that the model
     * marks. ALL: so many that activations take the least memory that can be found. AUTO: those that the model marks,
     * and more until activations take at most `activations_most` bytes, if that is possible; 0: no limit. Losses and
     * gradients have the same bits in each case. */
    clq_recompute_kind recompute;
    size_t activations_most;
    bool unbound; /* the plan can only be looked at: activations have no memory, no kernel is built, and a run fails
                     with STATE */
} clq_plan_config;

/* The launch list's parts, in order. */
typedef enum clq_segment {
    CLQ_SEGMENT_FORWARD, /* input conversion to the model's output (or, with a loss, to what the loss reads) */
    CLQ_SEGMENT_LOSS,
    CLQ_SEGMENT_BACKWARD,
    CLQ_SEGMENT_NORM,
    CLQ_SEGMENT_UPDATE,
    CLQ_SEGMENT_COUNT
} clq_segment;
const char *clq_segment_name(clq_segment segment); /* "forward", … */

typedef struct clq_plan clq_plan;
/* The optimizer, and the options of updates, that the weights for plans of this config are made for. */
const clq_optimizer *clq_plan_weights_update(const clq_plan_config *config);
const clq_update_options *clq_plan_weights_options(const clq_plan_config *config);
/* Whether gradients are clipped by a norm. */
static inline bool clq_clips_by_norm(const clq_clip *clip) {
    return clip->kind == CLQ_CLIP_NORM || clip->kind == CLQ_CLIP_GLOBAL_NORM;
}
/* Whether updates need the squares of the whole gradient, over all ranks. */
static inline bool clq_updates_by_squares(const clq_update_options *options) {
    return clq_clips_by_norm(&options->clip) || options->scaling.initial > 0;
}
/* The weights must outlive the plan. */
clq_status clq_plan_create(clq_weights *weights, const clq_plan_config *config, clq_plan **out);
/* The plan makes its own weights, for config's update. */
clq_status clq_plan_create_alone(const clq_model *model, clq_device *device, const clq_plan_config *config,
                                 clq_plan **out);
void clq_plan_destroy(clq_plan *plan); /* takes NULL */
/* Keeps the plan's programs that were built from source, so that other devices of the same kind find them and need not
 * compile them. If the driver compiles a kernel at its first launch, the call first launches all kernels, which sets
 * all memory that the plan writes to 0. Call it directly after creating the plan, while no other plan of the device
 * runs. */
clq_status clq_plan_keep_programs(clq_plan *plan);

/* What a sample consists of for plans of a model: the values of the model's input; behind them, if there are losses,
 * the values that the loss of each output takes. losses: by output. NULL: none. */
void clq_model_feed(const clq_model *model, clq_dtype sample_dtype, const clq_loss_problem *losses, clq_feed *out);
const clq_feed *clq_plan_feed(const clq_plan *plan);
/* The memory for an array of the feed: (capacity, values of a sample). NULL: another stage reads this array. */
clq_buffer *clq_plan_array(const clq_plan *plan, unsigned array);
/* From its next run on, the plan reads the feed's arrays from these buffers. Each is as large as the plan's own, and
 * must outlive the plan's launches. If the plan does not read an array, its entry is ignored. */
clq_status clq_plan_set_input(clq_plan *plan, clq_buffer *const *arrays);
/* Runs the segments from `first` to `last`. */
clq_status clq_plan_run(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last);
/* The same with an order (clq_list_run_after). order NULL: none. */
clq_status clq_plan_run_after(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last,
                              const clq_order *order);
/* Sets the parameters of the runs that follow. Before the first call, all are zero. */
void clq_plan_set_params(clq_plan *plan, const clq_step_params *params);

/* ---- updates that replicas shard (update.c) ----
 * Plans of one model can do UPDATE together if they are on CPU devices, whose memory is the host's. Each plan updates
 * its part of the arenas. It adds up all plans' gradients in this part, starting with rank 0's, and writes the new
 * weights over all of these gradients. After all plans have done their parts, the caller lets parameters and gradient
 * change places (clq_weights_turn). From then on, only the plan's own part of its gradient and of its optimizer state
 * is valid. If the weights have optimizer slots for one part alone, that must be the plan's part. */

/* Whether the plan can share an update with so many ranks: its memory is the host's, each rank gets a part, and nothing
 * that needs whole variables follows the update (clq_weights_held). */
bool clq_plan_can_shard_update(const clq_plan *plan, unsigned ranks);
/* Prepares plan `rank` of plans[ranks]. All of them can share the update. Before any of them is destroyed, end the
 * sharding of all. */
clq_status clq_plan_shard_update(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank);
void clq_plan_end_sharding(clq_plan *plan); /* takes NULL, and a plan whose sharding did not begin */
/* These calls update the plan's part by the parameters that are set. All gradients must be complete before.
 * 1. clq_plan_run_sharded_sum, if clq_plan_sums_first. If the plan has norms, the call sets them to the squares in the
 * plan's part. The caller then sums the norms over all plans.
 * 2. clq_plan_run_sharded_directions, if an optimizer has a trust ratio. The caller then also sums the squares of steps
 * over all plans.
 * 3. clq_plan_run_sharded_update. */
bool clq_plan_sums_first(const clq_plan *plan);
clq_status clq_plan_run_sharded_sum(clq_plan *plan, clq_queue *queue);
clq_status clq_plan_run_sharded_directions(clq_plan *plan, clq_queue *queue);
clq_buffer *clq_plan_step_squares(const clq_plan *plan); /* f32 (variables, 2); NULL: no optimizer has a trust ratio */
clq_status clq_plan_run_sharded_update(clq_plan *plan, clq_queue *queue);
/* Which bytes of the arenas plan `rank` updates. */
void clq_plan_updated_part(const clq_plan *plan, unsigned ranks, unsigned rank, size_t *begin, size_t *end);

double clq_plan_flops(const clq_plan *plan); /* of FORWARD to BACKWARD, for a full batch */

/* How many calls of the device a step needs at most, if the step is run in so many parts. Each launch of a part needs
 * one call, or each run of fused launches. */
size_t clq_plan_calls(const clq_plan *plan, size_t parts);
/* Whether launches wait for other ranks (clq_step_sum). */
bool clq_plan_exchanges(const clq_plan *plan);

/* Runs launches [first, end). The numbers come from clq_plan_segment_range or from a bucket. */
clq_status clq_plan_run_part(clq_plan *plan, clq_queue *queue, size_t first, size_t end);

/* A range of the gradient arena that is complete as soon as launch `done` - 1 has run. Buckets lie one behind the
 * other, in the order in which backward finishes them. Each bucket but the last has at least `bytes`. A bucket ends
 * between two layers, at the same place on every device. There is at least one bucket. The plan must have an update.
 * The caller frees *out with clq_free. */
typedef struct clq_bucket {
    size_t begin, end; /* bytes of the arena */
    size_t done;
} clq_bucket;
clq_status clq_plan_buckets(const clq_plan *plan, size_t bytes, clq_bucket **out, size_t *count);

/* The memory of the plan's weights. */
clq_weights *clq_plan_weights(const clq_plan *plan);
size_t clq_plan_arena_bytes(const clq_plan *plan);
clq_buffer *clq_plan_parameters(const clq_plan *plan);
clq_buffer *clq_plan_gradient(const clq_plan *plan);
size_t clq_plan_variable_offset(const clq_plan *plan, size_t variable);
/* Arrays of the plan's feed: its own, or those of the plan beside it. Labels of an output are NULL if the plan has no
 * loss, or if the output is in another stage. */
clq_buffer *clq_plan_samples(const clq_plan *plan);
clq_buffer *clq_plan_labels(const clq_plan *plan, size_t index);
/* f32 (capacity, output) for each output of the model. FORWARD of an inference plan fills it. NULL: the plan has a
 * loss, or the output is in another stage. */
clq_buffer *clq_plan_output(const clq_plan *plan, size_t index);
clq_buffer *clq_plan_metrics(const clq_plan *plan); /* f32 (slots, clq_losses_width) */
/* f32 (variables): for each variable the sum of squares of its gradient, in the model's order. It is 0 for variables of
 * another stage or part. Of the ranks of `joins`, only the first has the squares of variables that are whole; the
 * others have 0. If an update uses norms, or with measures_all, the sums are over all ranks that have parts. NULL:
 * norms are neither measured nor needed. */
clq_buffer *clq_plan_norms(const clq_plan *plan);

/* Tensors that cross the cuts of a stage: f32 (capacity, elements) for each tensor of the cut. FORWARD reads RECEIVED
 * and writes SENT. BACKWARD reads RECEIVED_GRADIENT, the gradients of what was sent, and writes SENT_GRADIENT, the
 * gradients of what was received. */
typedef enum clq_crossing {
    CLQ_RECEIVED,
    CLQ_SENT, /* the buffer of RECEIVED if a tensor passes through the stage */
    CLQ_RECEIVED_GRADIENT,
    CLQ_SENT_GRADIENT,
    CLQ_CROSSING_KINDS
} clq_crossing;
/* The cut of such crossings: the one in front of the stage, or the one behind it. */
const clq_cut *clq_stage_cut_of(const clq_stage *stage, clq_crossing kind);
/* The buffer of tensor `index` of the cut. NULL: the plan is of no stage; or this is a gradient, and the tensor has
 * none or the plan has no backward. */
clq_buffer *clq_plan_crossing(const clq_plan *plan, clq_crossing kind, unsigned index);

/* ---- the tuner (tune.c, trial.c) ----
 * Selects among the candidates of a plan's choices by measuring. Each candidate in turn runs in a plan of its own, on
 * made-up samples, and is compared with the best plan so far. The tuner times only the launches that depend on the
 * choice. If a choice is about the whole list, it times all launches but the update. It keeps the candidate whose
 * median is clearly the least, for all devices of this kind. If the budget does not reach a choice, the tuner keeps the
 * rule's candidate, so that all later runs compute alike. If nothing can be kept, it measures nothing, and warns. Plans
 * that are made afterwards use what was kept, tuned or not. */

typedef struct clq_tune_config {
    bool anew;       /* also measures choices that were measured before */
    bool compares;   /* also measures the step before and after the selection: a last row of the log */
    double budget_s; /* seconds from when the plan by rule is built; 0: no limit */
    /* For tests. A trial gives the seconds of launches [first, end). NULL: the device runs the trial, and clq_now tells
     * the time. */
    clq_status (*trial)(void *context, clq_plan *plan, size_t first, size_t end, double *seconds);
    double (*now)(void *context);
    void *context;
} clq_tune_config;

/* The config of `tuning`, which is not OFF. `seconds`, if more than 0, replaces its own limit. */
clq_tune_config clq_tune_config_of(clq_tuning tuning, double seconds);

typedef struct clq_tune_row {
    unsigned replica;                    /* the caller's */
    clq_choice choice;                   /* .selected is the winner */
    bool measured;                       /* false: no candidate was measured, as when the budget is used up */
    double seconds[CLQ_CANDIDATES_MOST]; /* medians, by candidate; NaN: not measured */
    double flops;                        /* of the winner's launches */
} clq_tune_row;
/* Start with {0}. */
typedef struct clq_tune_log {
    clq_tune_row *rows;
    size_t count, capacity;
} clq_tune_log;
void clq_tune_log_release(clq_tune_log *log);

/* Adds rows to the log, which may be NULL. Errors: those of clq_plan_create and clq_plan_run. If a candidate cannot be
 * built, does not fit into memory or is not supported, it only drops out. */
clq_status clq_plan_tune(const clq_model *model, clq_device *device, const clq_plan_config *config,
                         const clq_tune_config *tune, clq_tune_log *log);

/* ---- how long a plan takes (time.c) ---- */

typedef struct clq_plan_seconds {
    double forward;  /* forward and the loss */
    double backward; /* backward. If the plan accumulates: also adding its gradient to the sum. 0 without update */
} clq_plan_seconds;
/* Measures the launches of a full batch on made-up samples, in a plan of its own. It takes the least of several trials,
 * since other load of the machine can only add time. If tune->trial is set, it gives both times. Errors: those of
 * clq_plan_create and clq_plan_run. */
clq_status clq_plan_time(const clq_model *model, clq_device *device, const clq_plan_config *config,
                         const clq_tune_config *tune, clq_plan_seconds *out);

/* Memory for values that live during one run of a launch list. Every activation and every scratch value of the list
 * gets a range of the chunks, which are made here. For plans, and for code that runs a list of single operations. */
typedef struct clq_placement {
    clq_buffer **chunks; /* each at most as large as the device allocates at once. NULL: chunks were only measured */
    size_t chunk_count;
    size_t bytes;                       /* of all chunks that are its own */
    size_t unplanned_bytes;             /* the sum of the values' bytes: what they take without sharing */
    const struct clq_placement *lender; /* owns the chunks that are not its own. NULL: all chunks are its own */
} clq_placement;
clq_status clq_placement_create(clq_list *list, clq_placement *out);
/* The same, but borrows the lender's chunks that are large enough. The lender must outlive this placement. NULL:
 * none. */
clq_status clq_placement_create_over(clq_list *list, const clq_placement *lender, clq_placement *out);
/* Finds how much memory the placement would take, but makes no chunks: `chunks` is NULL. */
clq_status clq_placement_measure(clq_list *list, clq_placement *out);
void clq_placement_release(clq_placement *placement); /* takes {0} */

/* The memory of a plan, for `clique plan` and for planning capacities. */
typedef struct clq_plan_memory {
    size_t activation_bytes;           /* values whose lifetimes do not overlap share memory */
    size_t activation_bytes_unplanned; /* if every value had memory of its own */
    size_t parameter_bytes, gradient_bytes, optimizer_bytes, io_bytes;
} clq_plan_memory;
void clq_plan_get_memory(const clq_plan *plan, clq_plan_memory *out);
const clq_list *clq_plan_list(const clq_plan *plan);

/* A plan for training with a certain amount of recomputation. */
typedef struct clq_recompute_level {
    clq_recompute_kind recompute; /* OFF, ALL, or AUTO for levels between the two */
    size_t activations_most;      /* the value in a config that makes this plan */
    size_t activation_bytes;
    double work; /* of FORWARD to BACKWARD, for a full batch, in operations; a byte that is moved counts as
                    CLQ_OPERATIONS_PER_BYTE */
} clq_recompute_level;
enum { CLQ_RECOMPUTE_LEVELS = 12 };
clq_recompute_level clq_plan_level(const clq_plan *plan); /* of the plan itself */
/* The levels of a plan: first without recomputation (but for what the model marks), then with more and more, and last
 * with the most. Each level needs fewer bytes than the one before. Errors: those of clq_plan_create. */
clq_status clq_plan_levels(const clq_plan *plan, clq_recompute_level levels[CLQ_RECOMPUTE_LEVELS], size_t *count);
/* As clq_plan_time, for the plan at this level. The plan must not have slices of weights. */
clq_status clq_plan_time_level(const clq_plan *plan, const clq_recompute_level *level, clq_plan_seconds *out);

/* An operation of the plan's step graph, as it was after a pass. */
enum { CLQ_NODE_INPUTS = 9, CLQ_NODE_OUTPUTS = 5 };
typedef struct clq_node_info {
    const char *pass, *operation, *layer; /* "fuse", "conv_pool", "conv2d + max_pooling2d" */
    clq_segment segment;
    size_t output_count, input_count;
    const char *outputs[CLQ_NODE_OUTPUTS], *inputs[CLQ_NODE_INPUTS]; /* "%5: f32(13, 13, 16)"; "%1", "weight …" */
} clq_node_info;
/* Called for each node of the graph after the first pass, in order; then for each node after the second pass, and so
 * on. What it is given lasts until it returns. */
typedef void (*clq_node_visitor)(void *context, const clq_node_info *node);
/* The graph's choices are those of the rules and of what is kept, not the plan's own selections. Errors: MEMORY. */
clq_status clq_plan_visit_graph(const clq_plan *plan, clq_node_visitor visit, void *context);
void clq_plan_segment_range(const clq_plan *plan, clq_segment segment, size_t *first, size_t *end);

/* ---- models by name (named/named.c) ---- */

extern const clq_listing clq_listed_models;

#endif
