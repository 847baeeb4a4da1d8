/* graph: a model as layers, its weights on a device, and plans over these: each is the model for a capacity and a
 * purpose, as one launch list with one memory layout. The builder (model.c, layers/) adds layers; weights.c lays out
 * variables, of which slicing.c may give ranks a slice each; step/ makes the graph of a whole step; emit.c turns that
 * into launches; place.c gives every value its memory. See <clique/model.h> for what users see. */
#ifndef CLQ_GRAPH_H
#define CLQ_GRAPH_H

#include "graph/weights.h"

/* ---- compressed gradients (compress.c) ----
 * The message that a rank sends in place of its gradient, and the gradient that all ranks' messages make
 * (clq_compress_halves and clq_choose_largest say what is exact). The compression error is kept from message to
 * message. */

/* How many elements of the trainable variables a message has by `how`, which is TOP_K: the fraction, rounded up. */
size_t clq_compression_chosen(const clq_compression *how, const clq_model *model);

typedef struct clq_compressor clq_compressor;
/* weights: have a gradient, never turn, and outlive the compressor. how->kind is not OFF. The error begins with 0. */
clq_status clq_compressor_create(clq_weights *weights, const clq_compression *how, unsigned ranks,
                                 clq_compressor **out);
void clq_compressor_destroy(clq_compressor *compressor); /* takes NULL */
/* What is exchanged, the same in each step. Between pack and unpack the caller fills `arrived`: where `gathered`, with
 * the ranks' messages one behind the other, in the order of ranks; else with their sum. */
typedef struct clq_compressed {
    clq_buffer *sent, *arrived; /* may be the same */
    bool gathered;
    size_t count; /* of `sent` */
    clq_dtype dtype;
} clq_compressed;
clq_compressed clq_compressor_message(const clq_compressor *compressor);
clq_buffer *clq_compressor_error(const clq_compressor *compressor);             /* laid out as the gradient */
clq_status clq_compressor_pack(clq_compressor *compressor, clq_queue *queue);   /* the gradient to `sent` */
clq_status clq_compressor_unpack(clq_compressor *compressor, clq_queue *queue); /* `arrived` to the gradient */

/* ---- plans (plan.c, step/, emit.c, place.c) ---- */

/* What a plan computes: dropout and the statistics of batch normalisation go by it. */
typedef enum clq_mode {
    CLQ_MODE_TRAIN,
    CLQ_MODE_EVALUATE, /* the loss, as of a model in use */
    CLQ_MODE_PREDICT,  /* the output */
    CLQ_MODE_COUNT
} clq_mode;

/* Where work is estimated: operations that take as long as moving a byte, 4 to 16 on common CPUs and GPUs. */
#define CLQ_OPERATIONS_PER_BYTE 8.0

/* What replicas that train together add up within a step, as statistics of the global batch: all run plans of one model
 * at the same time, each in a thread of its own. */
typedef struct clq_step_sum {
    unsigned rank, ranks; /* this one, and how many there are; ranks 0 or 1: a replica alone */
    /* Makes the first `count` floats of `values` their sum over all ranks, to the same bits on each. Called between two
     * launches, for the same values and counts in the same order by all ranks; queue: that of the launches. A lone 0
     * among the ranks' values changes no bit of the sum. NULL: sums are left out, as in trials of a plan's launches. */
    clq_status (*all_reduce)(void *context, clq_queue *queue, clq_buffer *values, size_t count);
    void *context;
} clq_step_sum;

typedef struct clq_plan_config {
    clq_mode mode;
    uint64_t seed;              /* of dropout: the same in all replicas */
    clq_step_sum exchange;      /* of ranks that split the batch; its context outlives the plan's runs, as that of */
    clq_step_sum joins;         /* ranks that split the weights and run the same samples */
    const clq_slicing *slicing; /* of weights that clq_plan_create_alone makes, of rank joins.rank; NULL: none */
    uint32_t capacity;          /* examples that one run can hold; at least 1 */
    clq_dtype sample_dtype;     /* CLQ_U8 or CLQ_F32, as they are uploaded */
    clq_dtype activations;      /* F32; F16 or BF16: samples' values are stored in 16 bits (step/precision.c) */
    /* One for each output of the model, in their order; NULL: inference only. from_logits is about an output as it
     * stands. metrics_width and metrics_at are not read: the losses' totals lie one behind the other in a row of the
     * metrics buffer. */
    const clq_loss_problem *loss;
    const clq_optimizer *update; /* NULL: no backward, no update. Needs loss, and weights made for it. Rates come step
                                    by step */
    clq_update_options update_options; /* those that the weights were made for. Of variables it is not read */
    /* Where ranks hold different variables, or different parts of the arenas: the exchange that sums the squares of all
     * ranks, for norms that the update uses. Its context outlives the plan's runs. */
    clq_step_sum norm_parts;
    bool measures_all;   /* norms that no update uses are of all ranks, too */
    bool gradient_norms; /* also launches that measure the gradient (segment NORM) */
    /* NORM and UPDATE are empty: who adds up the replicas' gradients measures the sum, and makes `update` in memory of
     * its own, or by another plan. The weights have a gradient, and need no optimizer slots. */
    bool updated_elsewhere;
    /* Gradients are added up over runs: the parameter `sum_factor` is 0 in the first, and whatever the gradient's arena
     * has is overwritten; 1 in the next; and in the last what makes the mean of the sum. With one weight of a sample in
     * all of them (`scale`) the mean is exact, however many samples each had. So what follows, an exchange or an
     * update, takes it for the gradient of one batch. */
    bool accumulates;
    uint32_t metric_slots;            /* rows of the metrics buffer; at least 1 */
    clq_matmul_precision precision;   /* of products */
    const clq_selections *selections; /* the list's own, or NULL; borrowed by clq_plan_create */
    /* Behind each run of launches: CLQ_ERROR_NOT_FINITE where one of them made a number that is not finite; the run
     * waits. */
    bool check_numerics;
    bool unfused_graph;  /* operations stay apart, for comparison: without the passes that fuse them */
    bool lowered_graph;  /* with these passes, but what composites are short for in place of each, for comparison */
    bool fused_launches; /* as of clq_list_set_fused */
    /* A plan over the same weights that never runs at the same time, or NULL: its memory for samples, labels, metrics
     * and activations is used in place of memory of the plan's own where it has the size. It must outlive the plan. */
    const struct clq_plan *beside;
    /* A plan with as many rows of metrics, whose buffer for them is used: of micro-batches of one step. It outlives the
     * plan. NULL: the plan's own, or that of the plan beside it. */
    const struct clq_plan *metrics_of;
    /* For weights that are made with the plan (clq_plan_create_alone); a plan over others is of their stage. A stage
     * has samples where it has the model's input, labels, losses and outputs where it has these of the model; rows of
     * metrics are as of the whole model, with zeros for the others'. NULL: the whole model. */
    const clq_stage *stage;
    /* What of the activations is computed again in backward, in place of being kept. OFF: what the model marks. ALL: so
     * that activations take the least memory that can be found. AUTO: also so little that they take at most
     * `activations_most` bytes, where that can be; 0: any number. The bits of losses and gradients are the same. */
    clq_recompute_kind recompute;
    size_t activations_most;
    bool unbound; /* for reading alone: activations have no memory, no kernel is built, and running it fails with STATE
                   */
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
/* What weights for plans of such a config are made for, and the options of the updates. */
const clq_optimizer *clq_plan_weights_update(const clq_plan_config *config);
const clq_update_options *clq_plan_weights_options(const clq_plan_config *config);
/* Whether gradients are clipped by a norm. */
static inline bool clq_clips_by_norm(const clq_clip *clip) {
    return clip->kind == CLQ_CLIP_NORM || clip->kind == CLQ_CLIP_GLOBAL_NORM;
}
/* Whether updates need the squares of the whole gradient, of all ranks. */
static inline bool clq_updates_by_squares(const clq_update_options *options) {
    return clq_clips_by_norm(&options->clip) || options->scaling.initial > 0;
}
/* Over weights that outlive it. */
clq_status clq_plan_create(clq_weights *weights, const clq_plan_config *config, clq_plan **out);
/* Over weights of its own, made for config's update. */
clq_status clq_plan_create_alone(const clq_model *model, clq_device *device, const clq_plan_config *config,
                                 clq_plan **out);
void clq_plan_destroy(clq_plan *plan); /* takes NULL */
/* For other devices of the kind to find, so that the plan's programs are compiled once: keeps those that were built
 * from source, as they are when all kernels ran. Directly after creating; while no other plan of the device runs.
 * Clears what the plan writes. */
clq_status clq_plan_keep_programs(clq_plan *plan);

/* What a sample consists of for plans of a model: the values of its input, and behind them, with losses, what the loss
 * of each output takes. losses: by output; NULL: none. */
void clq_model_feed(const clq_model *model, clq_dtype sample_dtype, const clq_loss_problem *losses, clq_feed *out);
const clq_feed *clq_plan_feed(const clq_plan *plan);
/* Memory for an array of the feed: (capacity, a sample's). NULL: another stage reads it. */
clq_buffer *clq_plan_array(const clq_plan *plan, unsigned array);
/* Reads the feed's arrays from these, each as large as the plan's own, from the next run on; they must outlive the
 * plan's launches. What the plan has no array for is not looked at. */
clq_status clq_plan_set_input(clq_plan *plan, clq_buffer *const *arrays);
/* Segments first to last. */
clq_status clq_plan_run(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last);
/* The same with an order (clq_list_run_after); NULL: none. */
clq_status clq_plan_run_after(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last,
                              const clq_order *order);
/* Of the runs that follow; all zero until then. */
void clq_plan_set_params(clq_plan *plan, const clq_step_params *params);

/* ---- updates that replicas shard (update.c) ----
 * Plans of one model on CPU devices, whose memory is the host's, can do UPDATE together: each updates its part
 * of the arenas, for which it adds all gradients, that of rank 0 first, and writes the new weights where all gradients
 * were. Then parameters and gradient change places (clq_weights_turn): once all have done their parts. Of a plan's
 * gradient and optimizer state only its own part is valid then. Where weights have slots of a part alone,
 * that is the plan's part. */

/* Whether it can with so many: memory is the host's, and each has a part. */
bool clq_plan_can_shard_update(const clq_plan *plan, unsigned ranks);
/* Prepares plan `rank` of plans[ranks], all of which can. End the sharding of all before any is destroyed. */
clq_status clq_plan_shard_update(clq_plan *plan, clq_plan *const *plans, unsigned ranks, unsigned rank);
void clq_plan_end_sharding(clq_plan *plan); /* takes NULL; also where it was not begun */
/* The plan's part, by the parameters that are set: once all gradients are whole. Where the sum is needed before,
 * clq_plan_run_sharded_sum comes first: of a plan with norms it sets these to the squares in the plan's part, which the
 * caller then makes the sum over all plans. Of an optimizer with a trust ratio clq_plan_run_sharded_directions is next,
 * and the caller makes the squares of steps the sum over all plans, too. */
bool clq_plan_sums_first(const clq_plan *plan);
clq_status clq_plan_run_sharded_sum(clq_plan *plan, clq_queue *queue);
clq_status clq_plan_run_sharded_directions(clq_plan *plan, clq_queue *queue);
clq_buffer *clq_plan_step_squares(const clq_plan *plan); /* f32 (variables, 2); NULL: no optimizer has a trust ratio */
clq_status clq_plan_run_sharded_update(clq_plan *plan, clq_queue *queue);
/* Which bytes of the arenas plan `rank` keeps up. */
void clq_plan_updated_part(const clq_plan *plan, unsigned ranks, unsigned rank, size_t *begin, size_t *end);

double clq_plan_flops(const clq_plan *plan); /* of FORWARD to BACKWARD, for a full batch */

/* How often a device is called, at most, for a step that is run in so many parts: once for each launch, or run of fused
 * launches, of a part. */
size_t clq_plan_calls(const clq_plan *plan, size_t parts);
/* Whether launches wait for other ranks (clq_step_sum). */
bool clq_plan_exchanges(const clq_plan *plan);

/* Part `first` to `end` of the launches of a segment: clq_plan_segment_range's numbers, or a bucket's. */
clq_status clq_plan_run_part(clq_plan *plan, clq_queue *queue, size_t first, size_t end);

/* A run of the gradient arena that is whole once launch `done` - 1 has run. Buckets lie one behind the other, in the
 * order in which backward finishes them, and each but the last has at least `bytes`: they are cut between layers, alike
 * for every device. Caller frees with clq_free; at least one. For a plan with update. */
typedef struct clq_bucket {
    size_t begin, end; /* bytes of the arena */
    size_t done;
} clq_bucket;
clq_status clq_plan_buckets(const clq_plan *plan, size_t bytes, clq_bucket **out, size_t *count);

/* Its memory: of its weights, */
clq_weights *clq_plan_weights(const clq_plan *plan);
size_t clq_plan_arena_bytes(const clq_plan *plan);
clq_buffer *clq_plan_parameters(const clq_plan *plan);
clq_buffer *clq_plan_gradient(const clq_plan *plan);
size_t clq_plan_variable_offset(const clq_plan *plan, size_t variable);
/* and of its own, or of the plan beside it: arrays of its feed. What an output's loss takes is NULL without losses, or
 * in another stage. */
clq_buffer *clq_plan_samples(const clq_plan *plan);
clq_buffer *clq_plan_labels(const clq_plan *plan, size_t index);
/* f32 (capacity, output), one per output of the model: filled by FORWARD of an inference plan; NULL with loss, or in
 * another stage. */
clq_buffer *clq_plan_output(const clq_plan *plan, size_t index);
clq_buffer *clq_plan_metrics(const clq_plan *plan); /* f32 (slots, clq_losses_width) */
/* f32 (variables): sum of squares per variable, in the model's order; 0 of what is whole with another rank than the
 * first of `joins`, and of what another stage or part has. Where gradients are clipped by a norm and ranks have parts,
 * those of all ranks. NULL: neither measured nor needed. */
clq_buffer *clq_plan_norms(const clq_plan *plan);

/* What crosses the cuts of a stage: f32 (capacity, elements) for each tensor of the cut. FORWARD reads what was
 * RECEIVED and writes what is SENT; BACKWARD reads the gradient of what was sent, RECEIVED_GRADIENT, and writes that of
 * what was received, SENT_GRADIENT. */
typedef enum clq_crossing {
    CLQ_RECEIVED,
    CLQ_SENT, /* one buffer with RECEIVED where a tensor passes through */
    CLQ_RECEIVED_GRADIENT,
    CLQ_SENT_GRADIENT,
    CLQ_CROSSING_KINDS
} clq_crossing;
/* The cut in front of the stage, or behind it. */
const clq_cut *clq_stage_cut_of(const clq_stage *stage, clq_crossing kind);
/* Tensor `index` of the cut. NULL: it has no gradient, or the plan has no backward; the plan is of no stage. */
clq_buffer *clq_plan_crossing(const clq_plan *plan, clq_crossing kind, unsigned index);

/* ---- the tuner (tune.c, trial.c) ----
 * Selects among the candidates of a plan's choices by measuring: each candidate in turn runs in a plan of its own,
 * beside the best so far, on made-up samples; the launches that depend on the choice are timed (of the whole list: all
 * but the update). The one with clearly the least median is kept for such devices. Choices that the budget does not
 * reach keep the rule's candidate, so that later runs compute as the next one does. Where nothing can be kept, nothing
 * is measured, with a warning. Plans made afterwards use what was kept, tuned or not. */

typedef struct clq_tune_config {
    bool anew;       /* also what was measured before */
    bool compares;   /* the step as it was and as it is selected then: a last row of the log */
    double budget_s; /* from when the plan by rule is built; 0: without end */
    /* For tests; NULL: of the device, and clq_now. A trial gives the seconds of launches [first, end). */
    clq_status (*trial)(void *context, clq_plan *plan, size_t first, size_t end, double *seconds);
    double (*now)(void *context);
    void *context;
} clq_tune_config;

/* What `tuning` means, with `seconds` in place of its own limit where they are more than 0. Not for OFF. */
clq_tune_config clq_tune_config_of(clq_tuning tuning, double seconds);

typedef struct clq_tune_row {
    unsigned replica;                    /* the caller's */
    clq_choice choice;                   /* .selected is the winner */
    bool measured;                       /* else the budget was at its end */
    double seconds[CLQ_CANDIDATES_MOST]; /* medians; NaN where not measured */
    double flops;                        /* of the winner's launches */
} clq_tune_row;
/* Start with {0}. */
typedef struct clq_tune_log {
    clq_tune_row *rows;
    size_t count, capacity;
} clq_tune_log;
void clq_tune_log_release(clq_tune_log *log);

/* log: rows are added; may be NULL. Errors as of clq_plan_create and clq_plan_run, but of the plan by rule alone. */
clq_status clq_plan_tune(const clq_model *model, clq_device *device, const clq_plan_config *config,
                         const clq_tune_config *tune, clq_tune_log *log);

/* ---- how long a plan takes (time.c) ---- */

typedef struct clq_plan_seconds {
    double forward;  /* and the loss */
    double backward; /* and adding the gradient to those of other batches, where the plan does; 0 without update */
} clq_plan_seconds;
/* Of the launches of a full batch, on made-up samples, by a plan of its own: the least of some trials, since what else
 * a machine does only adds. tune: .trial is used where it is set, and gives both. Errors as of
 * clq_plan_create and clq_plan_run. */
clq_status clq_plan_time(const clq_model *model, clq_device *device, const clq_plan_config *config,
                         const clq_tune_config *tune, clq_plan_seconds *out);

/* Memory for what lives inside one run of a launch list: every activation and scratch value of the list is given its
 * range of the chunks, which are made here. For plans, and for whoever runs a list of single operations. */
typedef struct clq_placement {
    clq_buffer **chunks; /* each at most what the device allocates at once; NULL: they were only measured */
    size_t chunk_count;
    size_t bytes;                       /* of all chunks of its own */
    size_t unplanned_bytes;             /* the values' bytes added up: without sharing */
    const struct clq_placement *lender; /* of chunks that are not its own; NULL: all are */
} clq_placement;
clq_status clq_placement_create(clq_list *list, clq_placement *out);
/* The same, but uses another's chunks where they are large enough; it must outlive this one. NULL: none. */
clq_status clq_placement_create_over(clq_list *list, const clq_placement *lender, clq_placement *out);
/* What it would take, without any memory: `chunks` is NULL. */
clq_status clq_placement_measure(clq_list *list, clq_placement *out);
void clq_placement_release(clq_placement *placement); /* takes {0} */

/* What it costs and holds, for `clique plan` and for planning capacities. */
typedef struct clq_plan_memory {
    size_t activation_bytes;           /* the arena, with lifetimes shared */
    size_t activation_bytes_unplanned; /* if every value had memory of its own */
    size_t parameter_bytes, gradient_bytes, optimizer_bytes, io_bytes;
} clq_plan_memory;
void clq_plan_get_memory(const clq_plan *plan, clq_plan_memory *out);
const clq_list *clq_plan_list(const clq_plan *plan);

/* A plan for training with so much recomputation. */
typedef struct clq_recompute_level {
    clq_recompute_kind recompute; /* OFF, ALL, or between these AUTO */
    size_t activations_most;      /* with which a config makes that plan */
    size_t activation_bytes;
    double work; /* of FORWARD to BACKWARD, for a full batch, in operations; a byte that is moved counts as
                    CLQ_OPERATIONS_PER_BYTE */
} clq_recompute_level;
enum { CLQ_RECOMPUTE_LEVELS = 12 };
clq_recompute_level clq_plan_level(const clq_plan *plan); /* of the plan itself */
/* The same plan with none at all, with more and more, and with the most; each needs fewer bytes than the one before.
 * Errors: as of clq_plan_create. */
clq_status clq_plan_levels(const clq_plan *plan, clq_recompute_level levels[CLQ_RECOMPUTE_LEVELS], size_t *count);
/* As clq_plan_time, of such a plan. For a plan that is not of slices of weights. */
clq_status clq_plan_time_level(const clq_plan *plan, const clq_recompute_level *level, clq_plan_seconds *out);

/* An operation of the plan's step graph, as it was after a pass. */
enum { CLQ_NODE_INPUTS = 9, CLQ_NODE_OUTPUTS = 5 };
typedef struct clq_node_info {
    const char *pass, *operation, *layer; /* "fuse", "conv_pool", "conv2d + max_pooling2d" */
    clq_segment segment;
    size_t output_count, input_count;
    const char *outputs[CLQ_NODE_OUTPUTS], *inputs[CLQ_NODE_INPUTS]; /* "%5: f32(13, 13, 16)"; "%1", "weight …" */
} clq_node_info;
/* Sees the nodes of the graph after the first pass in order, then after the second, … What it is given lasts until it
 * returns. */
typedef void (*clq_node_visitor)(void *context, const clq_node_info *node);
/* Choices are those of the rules and of what is kept, not of the plan's own selections. Errors: MEMORY. */
clq_status clq_plan_visit_graph(const clq_plan *plan, clq_node_visitor visit, void *context);
void clq_plan_segment_range(const clq_plan *plan, clq_segment segment, size_t *first, size_t *end);

/* ---- models by name (named/named.c) ---- */

extern const clq_listing clq_listed_models;

#endif
