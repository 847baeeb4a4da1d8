/* clique/train.h: training a model on devices: the step, fit, evaluate, predict, weights.
 *
 * Structs that the caller makes (clq_trainer_config, clq_fit_config, clq_step_info, clq_totals) may get members at
 * their end. So the size that the caller was compiled with goes along with each: the functions below that take such a
 * struct are inline and call those named ..._sized, and nobody can forget the size or set it wrong. An older caller's
 * struct is read and written as far as it goes, what is missing being 0, which means the default; a newer caller's is
 * refused where it sets what this library does not know. Structs that lie within others are of one size for good, with
 * room of their own (`reserved`, 0). What callbacks get is the library's, and is only read.
 *
 * Thread rules: a trainer is used by one thread at a time; its callbacks run on that thread. The model and the system
 * must outlive it.
 *
 * Asynchronous calls. clq_step and its three parts hand work to the replicas and return, as a rule before the devices
 * are done with it; they wait only where too many steps are under way. Calls that read or write something wait for all
 * work handed over: clq_step_read, clq_trainer_wait, clq_trainer_step_times, clq_trainer_write_trace, clq_evaluate,
 * clq_predict, the weights' functions. clq_fit returns when its steps are done. clq_trainer_replica,
 * clq_trainer_device_bytes and clq_trainer_comm_times return at once.
 *
 * Errors. Invalid arguments are refused at once (ARGUMENT, MISMATCH, STATE), which leaves the trainer as it was. What
 * fails on a device or in an exchange (DEVICE, DEVICE_MEMORY, BUILD, TIMEOUT, ABORTED, SYSTEM, MEMORY) may be returned
 * by a later call than the one that caused it; from then on every call that needs the devices returns that first
 * failure, and the trainer can only be destroyed. These are meant by "…" below.
 *
 * Order of calls. Make a trainer from a finished model; set or load weights before the first step, or at any time
 * between steps; then clq_fit, or loops of clq_step, or of clq_step_gradients, clq_step_reduce, clq_step_apply in this
 * order; in front of clq_step or clq_step_gradients, clq_step_accumulate any number of times. No pointer to a config or
 * out parameter may be NULL, unless said. */
#ifndef CLIQUE_TRAIN_H
#define CLIQUE_TRAIN_H

#include <clique/comm.h>
#include <clique/data.h>
#include <clique/device.h>
#include <clique/model.h>
#include <clique/world.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "0=1,1=2.5", as --class-weights: weights by class, 1 where none is given. *count: the largest class + 1;
 * weights: the caller's, for so many; NULL: only *count is set. ARGUMENT says what was expected, or which class is
 * given twice, which is found with weights alone. */
CLQ_API clq_status clq_class_weights_parse(const char *text, double *weights, size_t *count);

/* An optimizer of Keras with Keras's defaults. kind is one of clq_optimizer_kind. */
CLQ_API clq_optimizer clq_optimizer_default(clq_optimizer_kind kind);
/* A hyper-parameter by its key: "lr", "momentum", as after --optimizer NAME:. ARGUMENT names the keys that the
 * optimizer takes, or the range; the optimizer is unchanged then. */
CLQ_API clq_status clq_optimizer_set(clq_optimizer *optimizer, const char *key, double value);
/* "adam", "sgd:lr=0.01,momentum=0.9,nesterov=1", as the command line's --optimizer. ARGUMENT names the word. */
CLQ_API clq_status clq_optimizer_parse(const char *text, clq_optimizer *out);

/* "constant:warmup=100", "exponential:decay_steps=1000,decay_rate=0.9", "cosine:decay_steps=1000",
 * "piecewise:boundaries=100/200,values=1/0.5/0.1", as --schedule. ARGUMENT names the word. */
CLQ_API clq_status clq_lr_schedule_parse(const char *text, clq_lr_schedule *out);

/* "off", "value=0.5", "norm=1", "global_norm=1", as --clip. ARGUMENT says what was expected. */
CLQ_API clq_status clq_clip_parse(const char *text, clq_clip *out);

typedef struct clq_loss {
    clq_loss_kind kind;
    bool from_logits; /* of cross-entropies, the focal ones too: the model's values are logits. If the model ends in
                         softmax or sigmoid, a cross-entropy uses the logits before it either way, as in Keras; a focal
                         one does so only if this is false and the activation is its own (sigmoid: binary, softmax:
                         categorical), and takes the values themselves as logits if this is true */
    /* Of the binary focal loss: the loss of targets 1 is multiplied by alpha, that of targets 0 by 1 - alpha. */
    bool apply_class_balancing;
    double label_smoothing; /* of categorical, binary and focal losses: 0 to 1 */
    double delta;           /* of huber: where it becomes straight; 1e-6 to 1e6 */
    double alpha; /* of focal losses: the weight of every class, or of the class 1 (apply_class_balancing); 0 to 1 */
    double gamma; /* of focal losses: how much less sure answers count; 0 to 100 */
    double reserved[2];
} clq_loss;
/* With Keras's defaults. kind is one of clq_loss_kind. */
CLQ_API clq_loss clq_loss_default(clq_loss_kind kind);
/* "sparse_categorical_crossentropy:from_logits=1", "mse", "huber:delta=2", as --loss. ARGUMENT names the word. */
CLQ_API clq_status clq_loss_parse(const char *text, clq_loss *out);

/* "auto", "single", "mirrored", "central", "ps", "pipeline:stages=2", "tensor", as --strategy. Sets *out, and
 * options->stages where the text gives it; the other options stay. ARGUMENT names the word. */
CLQ_API clq_status clq_strategy_parse(const char *text, clq_strategy_kind *out, clq_strategy_options *options);

/* "equal", "auto" or weights, "3,1", as --shares. Sets shares, share_count and share_weights of *out; the other members
 * stay. weights (CLQ_REPLICAS_MAX): the caller's memory, to which out->share_weights then points. ARGUMENT says what
 * was expected. */
CLQ_API clq_status clq_shares_parse(const char *text, double *weights, clq_strategy_options *out);
/* "off", "f16", "f16:between", "topk=0.01", as --compress. ARGUMENT says what was expected. */
CLQ_API clq_status clq_compression_parse(const char *text, clq_compression *out);

/* "off", "auto" or "all", as --recompute. ARGUMENT says what was expected. */
CLQ_API clq_status clq_recompute_parse(const char *text, clq_recompute_kind *out);

/* "off", "quick" or "full", as --tune. ARGUMENT says what was expected. */
CLQ_API clq_status clq_tuning_parse(const char *text, clq_tuning *out);

/* "highest", "high" or "medium", as --matmul-precision. ARGUMENT says what was expected. */
CLQ_API clq_status clq_matmul_precision_parse(const char *text, clq_matmul_precision *out);
/* "f32", "mixed" or "mixed-bf16", as --precision. ARGUMENT says what was expected. */
CLQ_API clq_status clq_precision_parse(const char *text, clq_precision *out);
CLQ_API const char *clq_precision_name(clq_precision precision);

/* What is minimised and measured at an output of a model of several outputs. */
typedef struct clq_output_config {
    const char *name; /* the output's (clq_model_output_name) */
    clq_loss loss;
    double weight;       /* finite. The loss of the model is the sum over its outputs of weight * loss */
    const char *metrics; /* as clq_trainer_config.metrics */
    double reserved[4];
} clq_output_config;
/* Sparse cross-entropy from probabilities with weight 1, and its metrics. */
CLQ_API clq_output_config clq_output_config_default(const char *name);

/* An optimizer for some of the variables. */
typedef struct clq_optimizer_config {
    /* Names with commas between: of layers, which mean all their variables ("dense"), or of variables ("dense/kernel").
     * '*' stands for any characters, '?' for one: "dense*", "*bias". Needed until the trainer is made. */
    const char *variables;
    clq_optimizer optimizer;
    double reserved[4];
} clq_optimizer_config;

typedef struct clq_trainer_config {
    clq_optimizer optimizer;
    clq_loss loss;
    clq_strategy_kind strategy; /* AUTO: single for one device, else mirrored */
    size_t global_batch;        /* the largest batch that a step gets; split over the replicas, or over pipelines */
    clq_dtype sample_dtype;     /* CLQ_U8 (divided by 255 on the device, or not: clq_rescaling) or CLQ_F32 */
    uint64_t seed;              /* of the initial weights (clq_initialiser) */
    bool measure_gradient;      /* clq_step_info.grad_norm is filled in */
    bool inference_only;        /* no gradient, no optimizer: evaluate with a loss, predict */
    clq_group_config group;     /* of the all-reduce. deadline_s: how long replicas wait for the slowest one's step,
                                   compiling included; 0: 600 */
    size_t bucket_bytes;        /* clq_step exchanges the gradient in buckets of at least so many bytes while
                                   backward goes on; 0: where it pays; SIZE_MAX: never */
    size_t trace_steps;         /* record when everything ran, for clq_trainer_write_trace, in the first so many
                                   steps and batches evaluated; each kernel is a launch of its own then. 0: nothing
                                   is recorded, and nothing is slower */
    clq_matmul_precision matmul_precision; /* HIGHEST unless set */
    clq_tuning tuning;                     /* before the first step */
    double tuning_s;                       /* in place of tuning's own limit, where more than 0 */
    /* What is measured beside the loss, as --metrics: "accuracy,mean_absolute_error", at most 8, some with a number, as
     * "precision:threshold=0.7"; or "none". NULL: accuracy for losses of classes, none for the others. accuracy is
     * binary_accuracy for an output with one value in its last axis, else that of the largest value, as in Keras.
     * Needed until the trainer is made. */
    const char *metrics;
    const char *disabled_paths; /* fast paths that are not to be used, with commas between, as `clique plan` names them:
                                   "overlap,sharded update"; for finding faults. Borrowed while the trainer is created.
                                   NULL: none */
    clq_lr_schedule schedule;   /* of the optimizer's lr; CONSTANT unless set */
    /* (output_count) one for each output of the model, in any order: then `loss` and `metrics` are not looked at. NULL:
     * these are of every output. Needed until the trainer is made. */
    const clq_output_config *outputs;
    size_t output_count;
    clq_strategy_options strategy_options; /* settings of the strategy: <clique/types.h> */
    /* parts above 0: the trainer has one part of the model, number `part` (from 0) of `parts`, on one device, for model
     * parallelism by hand (<clique/distribute.h>). The model is cut at its marks (clq_pipeline_cut); a model without
     * marks is cut into parts that take about the same time. All trainers with as many parts of a model have the same
     * cuts. parts 0: the trainer has the whole model. */
    uint32_t parts, part;
    clq_clip clip; /* of the reduced gradient, before the update; with local_steps of each replica's own. Its factor is
                      computed where the gradient lies: no step waits for the host */
    /* Trainable variables whose weights do not decay: parts of their names, with commas between, as in
     * "bias,gamma,beta" (Keras's exclude_from_weight_decay). Needed until the trainer is made. NULL: all decay. */
    const char *no_decay;
    /* Momentum of a moving average of the trainable variables, from 0 up to 1: behind each update it becomes average *
     * itself + (1 - average) * weights; behind the first the weights (Polyak and Juditsky, 1992; Keras's use_ema and
     * ema_momentum). It takes as much memory as the parameters. 0: none is kept. */
    double average;
    /* The program's own schedule, in place of `schedule`, which is CONSTANT then and may have a warm-up: the learning
     * rate of update `step`, from 0, or from the end of the warm-up; from 0 to 1e6. Called once for each update, in
     * order: before the update's first batch is handed over, or in loops of clq_run and of parts by clq_step_apply. The
     * thread that makes steps calls it and waits for it; it may not call functions that take the trainer. Another rate
     * ends the step (ARGUMENT) and leaves the trainer as it was; the next try asks again. NULL: none. */
    double (*learning_rate)(void *context, uint64_t step);
    void *learning_rate_context;
    /* Behind each update whose number is a multiple, clq_fit, clq_step and clq_step_apply compare hashes of the weights
     * (parameters, and statistics that are synchronized) that replicas on devices of the same kind must share bit for
     * bit; the devices compute the hashes. With local_steps the check waits for the next averaging of the weights.
     * Where replicas differ the call returns REPLICAS_DIFFER, which names variable, replicas and hashes; the update is
     * made, and the trainer may go on. Other updates do not wait. ARGUMENT where no two replicas have the same weights.
     * Over several processes the first replicas of all are compared, too; the rank that differs has the failure, and
     * the world ends. 0: never. */
    uint64_t check_replicas;
    /* Batches may have weights (clq_batch.weights, clq_dataset_set_weights): the loss of an update, its gradient and
     * the reported loss are the sum of weight * loss over the number of samples, as in Keras; evaluation uses the
     * weights of its own batches. Metrics count each sample once. The steps of an output with a mask that count are
     * weighted as often as the sample is, and divided by how many of them there are, not by the sum of weights. */
    bool sample_weights;
    /* (class_weight_count) further weights of samples, by the sample's class, in training alone: class_weights[c] for
     * class c; classes behind these count once, and a weight of a class that the model does not have is refused. The
     * class is the label, the place of its largest value, or a single value rounded. For models of one output, of one
     * row of values for each sample; finite, at least 0; copied. NULL: none. */
    const double *class_weights;
    size_t class_weight_count;
    clq_precision precision; /* F32 unless set */
    /* With precision MIXED the loss is taken times a scale, so that small gradients do not become 0 in float16; what
     * updates and norms see is the gradient itself. A step whose gradient is not finite is skipped: weights, optimizer
     * state and average stay as they are on all replicas, and the scale is halved, down to 1. After loss_scale_interval
     * steps in a row that were finite the scale doubles. As Keras's LossScaleOptimizer, but that step numbers, and so
     * schedules and Adam's bias correction, count skipped steps. loss_scale: the first scale, 1 to 2^126; 0: 32768.
     * loss_scale_interval 0: 2000. */
    double loss_scale;
    uint32_t loss_scale_interval;
    /* For finding where numbers overflow: a training step ends the trainer with NOT_FINITE, which names the step, and
     * the layer and value that are the first with NaN or an infinity: the samples, a variable as the updates before
     * left it, a layer's output, the loss, a gradient. Each value is looked at behind the kernel that made it, and each
     * step is waited for; fast paths that fuse launches are off. With precision MIXED it also finds a gradient that
     * overflows times the loss scale, whose step is skipped otherwise. */
    bool check_numerics;
    /* (optimizer_count, less than CLQ_OPTIMIZERS_MAX) optimizers for some of the variables: the first one that names a
     * variable updates it, and `optimizer` updates those that none of them names. What sets the learning rate, a
     * schedule, a function or clq_trainer_set_learning_rate, sets that of `optimizer`; the rates of the others
     * scale by the same factor, so its lr must be above 0 then. A clip and an average are of all variables.
     * Needed until the trainer is made. NULL: `optimizer` updates all, whatever the count. */
    const clq_optimizer_config *optimizers;
    size_t optimizer_count;
    /* Whether activations are kept for backward or computed again there. AUTO goes by each device's memory
     * (clq_system_config.memory_limit_bytes), and has no effect on inference_only. Losses, gradients and weights are
     * the same to the bit in any case. */
    clq_recompute_kind recompute;
    /* The processes that train together, each on its own devices, as one mirrored training on all of them: the global
     * batch is shared out over all replicas, and every process has the same weights. Borrowed until the trainer is
     * destroyed; NULL, or a world of one: this process.
     * - Every process makes the trainer with the same model and config, and then the same calls in the same order, with
     *   the same datasets. Calls that only read weights count, too. Exception: in on_epoch, in a callback's on_epoch,
     *   and directly behind clq_fit, one process may read weights alone.
     * - What callbacks get (totals, progress, steps, log) is of all processes. on_log, on_step, and callbacks that want
     *   steps, are set in every process or in none; checkpoints likewise, with the same world.
     * - If one process calls clq_fit_stop, or a callback of one returns CLQ_INTERRUPTED, all end behind the same
     *   update: about 0.25 s later, or one update later if that takes longer.
     * - on_log is called when log_every updates were made, at meetings, and at the end of each epoch.
     * - clq_predict gives each process all rows.
     * - If a process fails otherwise, the world ends, and calls on all others fail with ABORTED.
     * - share_weights are of all replicas, in the order of the processes. With local steps weights are averaged at the
     *   end of each epoch, too. A sharded optimizer is sharded over all replicas: equally many in each process.
     * - Strategy ps needs ranks that are set apart (clq_serve, below): the world is then the others. With a staleness
     *   above 0 each batch is one replica's, of any process; setting variables is collective, too.
     * Errors: UNSUPPORTED (other strategies, top-k compression, functions on replicas, shares other than equal ones of
     * more than CLQ_REPLICAS_MAX replicas in all), MISMATCH (another model, settings, weights, data or plan on another
     * process). */
    clq_world *world;
    /* Of a world of several processes: what clq_fit takes from the dataset that each process gives it.
     * - DATA: the datasets are the same, and each process takes its replicas' rows of each batch.
     * - FILE: the datasets are the process's own, of any lengths; what a sample is, and batch, shuffle and seed are
     *   alike. A process takes as many samples as its replicas take of a full batch, in an order of its own (seed plus
     *   rank). An epoch ends with the set that ends first; the last batch may be smaller. Rank 0 logs how many samples
     *   that leaves out. clq_evaluate, and the validation of a fit, count each process's own samples once. Only as many
     *   processes can resume its checkpoints.
     * - OFF: the datasets are the same, and a process takes samples from all of its own likewise: an epoch trains on
     *   the whole set once for each process. Evaluation is that of DATA.
     * With FILE and OFF a batch that a program makes by hand is the whole one in each process, and each process has a
     * share of each batch. Shares AUTO are refused then (UNSUPPORTED). Behind clq_fit the dataset is whole again; the
     * next clq_fit goes on where it ended. */
    clq_shard shard;
} clq_trainer_config;
/* Adam, sparse cross-entropy from probabilities, batch 64, u8 samples. {0} is no default: its batch is 0. */
CLQ_API void clq_trainer_config_init(clq_trainer_config *config, size_t config_bytes);
static inline clq_trainer_config clq_trainer_config_default(void) {
    clq_trainer_config config;
    clq_trainer_config_init(&config, sizeof config);
    return config;
}

typedef struct clq_trainer clq_trainer;
/* Opens the devices, plans the model on each, sets the initial weights. Compiles kernels: seconds the first time on a
 * machine. config and devices are copied; config may not be NULL. Errors: STATE (the model is not finished), ARGUMENT
 * (an enumerator that there is not, a flag or reserve out of its range; a batch smaller than the replicas; too many
 * batches to accumulate; strategy single with several devices; strategy pipeline with more stages than the model has
 * parts, with devices that are no multiple of the stages, with more micro-batches than samples; a part that the model
 * does not have, or on several devices; an unknown metric; a loss for no output of the model, two for one, or none; a
 * limit that clips, out of range; a name in no_decay or optimizers that no variable has; an optimizer of no variable;
 * class weights below 0 or of several outputs; more than CLQ_REPLICAS_MAX devices, or a part that a
 * device does not have), NO_DEVICE (none selected, or one that the machine does not have), MISMATCH (the model's output
 * does not fit the loss or a metric), DEVICE, BUILD, TIMEOUT (a driver's compiler missed
 * clq_system_config.build_deadline_s), DEVICE_MEMORY, UNSUPPORTED (also two outputs of one name, and synchronized
 * statistics in a pipeline), MEMORY, SYSTEM. */
CLQ_API clq_status clq_trainer_create_sized(const clq_model *model, const clq_devices *devices,
                                            const clq_trainer_config *config, size_t config_bytes, clq_trainer **out);
static inline clq_status clq_trainer_create(const clq_model *model, const clq_devices *devices,
                                            const clq_trainer_config *config, clq_trainer **out) {
    return clq_trainer_create_sized(model, devices, config, sizeof *config, out);
}
CLQ_API void clq_trainer_destroy(clq_trainer *trainer); /* takes NULL */
CLQ_API unsigned clq_trainer_replicas(const clq_trainer *trainer);
/* A replica's device, and its share: how many samples of a full global batch it takes, with CLQ_SHARES_AUTO of the next
 * one. The share of a pipeline's stage is that of its pipeline. Errors: ARGUMENT (no such replica). */
CLQ_API clq_status clq_trainer_replica(const clq_trainer *trainer, unsigned replica, clq_device_info *device,
                                       size_t *share);
/* With CLQ_SHARES_AUTO and several replicas: how often shares were set, the first time for the first step. Otherwise
 * 0. */
CLQ_API size_t clq_trainer_share_changes(const clq_trainer *trainer);
/* The change `index`, from 0: shares (CLQ_REPLICAS_MAX; samples of a full global batch by replica; with a world by
 * replica of all processes), which hold from step *step on. Errors: ARGUMENT (no such change). */
CLQ_API clq_status clq_trainer_share_change(const clq_trainer *trainer, size_t index, uint64_t *step, size_t *shares);
CLQ_API uint64_t clq_trainer_device_bytes(const clq_trainer *trainer); /* on all devices */
/* Seconds that the steps so far spent in all-reduces (of the gradient, and of synchronized statistics), each from when
 * the last replica came to it; and of these the all-reduce time not overlapped with backward. Where replicas on CPU
 * devices shard the update, all-reduce and update are one, and the seconds are of both. 0 for one replica. */
CLQ_API clq_comm_times clq_trainer_comm_times(const clq_trainer *trainer);
/* The time between the ends of back-to-back steps, oldest first, of at most `most` and 4,096 of the last steps, as
 * replica 0's thread sees it; where the device works behind that thread, the mean of three. seconds: the caller's, for
 * `most` numbers. Errors: … */
CLQ_API clq_status clq_trainer_step_times(clq_trainer *trainer, size_t most, float *seconds, size_t *count);

/* What was recorded so far, as trace events in JSON, for ui.perfetto.dev and chrome://tracing: a process per replica
 * whose threads are its host thread, its queue (kernels by layer; uploads, where the device's memory is not the host's)
 * and its exchanges (of the gradient, and of synchronized statistics); and one for what waits for data. Times of the
 * device are put into the host's, within the error that the process's label shows. Waits for all that was asked.
 * Appears by rename. Errors: STATE (trace_steps is 0), WRITE, DEVICE, MEMORY. */
CLQ_API clq_status clq_trainer_write_trace(clq_trainer *trainer, const char *path);

/* ---- a step in its three parts ---- */

/* Forward and backward on every replica: the gradient of the mean loss over the batch, each replica's part of it. The
 * batch may be reused when the call returns. A gradient that no update took is dropped, with the batches that were
 * accumulated for it; so it is by clq_step and clq_run. Errors: MISMATCH (shape, dtype or labels do not fit), STATE
 * (with local_steps there is no sum of gradients), DEVICE, TIMEOUT (synchronized statistics: a replica did not come to
 * their exchange), … */
CLQ_API clq_status clq_step_gradients(clq_trainer *trainer, const clq_batch *batch);
/* All-reduce: every replica then holds the sum; where gradients are compressed, that of what replicas sent. Once for
 * each gradient, with one replica too. Errors: STATE (no gradients since the last update, or summed already), DEVICE,
 * TIMEOUT, … */
CLQ_API clq_status clq_step_reduce(clq_trainer *trainer);
/* The optimizer's update, on every replica. Counts as one step. Errors: STATE (clq_step_reduce was not called),
 * ARGUMENT (the learning_rate function gave no rate; the gradient stays, and the call may be repeated), … */
CLQ_API clq_status clq_step_apply(clq_trainer *trainer);

/* Gradient accumulation. Forward and backward for one of several batches that make an update: the gradient is added to
 * those of the earlier batches since the last update. clq_step, or clq_step_gradients, takes the last batch of the
 * update. The gradient is then the mean over all samples of all these batches, however many each has; so are loss and
 * metrics of clq_step_read. Replicas exchange gradients only at the end. From the first call on each replica keeps one
 * more buffer, as large as the gradient. Batch normalisation takes its statistics from each batch. Errors: as
 * clq_step_gradients; STATE (between clq_step_gradients and its update); ARGUMENT (more samples in an update than an
 * int32_t counts; asynchronous ps or backup replicas, which make an update from each batch). */
CLQ_API clq_status clq_step_accumulate(clq_trainer *trainer, const clq_batch *batch);

/* The three parts in one, and the fastest way through them: the all-reduce of a bucket begins when backward has
 * finished it. The same numbers as from the parts, up to the rounding of other sums in the all-reduce.
 * Errors: as of the parts, without that of local_steps. */
CLQ_API clq_status clq_step(clq_trainer *trainer, const clq_batch *batch);

/* Metrics by name: as they were asked for, in that order. With several outputs, for each in turn its loss, without its
 * weight, as `LAYER_loss`, and its metrics as `LAYER_accuracy`, as Keras names them. Names are the trainer's. */
enum { CLQ_METRIC_VALUES_MAX = 32 };
typedef struct clq_metric_values {
    unsigned count;
    const char *names[CLQ_METRIC_VALUES_MAX]; /* "accuracy" */
    double values[CLQ_METRIC_VALUES_MAX];
} clq_metric_values;
/* NaN where there is none of that name. A confusion matrix is no value: see clq_trainer_read_matrix. */
CLQ_API double clq_metric_value(const clq_metric_values *metrics, const char *name);

typedef struct clq_step_info {
    uint64_t step;             /* updates so far: 1 after the first */
    double loss;               /* mean over the samples, before the update; of several outputs the weighted sum */
    double grad_norm;          /* L2 norm over all variables of the gradient that the update is made by (compressed, if
                                  it was); with local_steps of replica 0's own gradient. NaN unless measure_gradient,
                                  and before the update */
    double lr;                 /* of the last update; before the first, its own */
    size_t samples;            /* of all batches of the update */
    clq_metric_values metrics; /* of these samples */
    double seconds; /* on_log: from the update before, or the beginning of the epoch, to this one, as the thread
                       sees it that drives replica 0, some steps ahead of its device: single steps vary, sums
                       do not. Else 0 */
    /* CLQ_STRATEGY_PS with a staleness above 0: the replica that computed the gradient, and how many other updates were
     * made between its read of the parameters and this update. Otherwise -1 and 0 */
    int32_t replica;
    uint32_t staleness;
} clq_step_info;
/* Sets the optimizer's learning rate for the updates that are handed over from now on, as Keras's assignment to
 * optimizer.learning_rate. In callbacks of clq_fit that holds for the steps that it has not handed over yet. Waits for
 * nothing. Errors: STATE (the trainer has a schedule, a warm-up or a learning_rate function, which sets the rate),
 * ARGUMENT (out of range; the rate stays). */
CLQ_API clq_status clq_trainer_set_learning_rate(clq_trainer *trainer, double rate);

/* Waits for the last step and describes it; between clq_step_accumulate and the end of the update it describes the
 * batches so far. Errors: STATE (no step was made yet), … */
CLQ_API clq_status clq_step_read_sized(clq_trainer *trainer, clq_step_info *out, size_t out_bytes);
static inline clq_status clq_step_read(clq_trainer *trainer, clq_step_info *out) {
    return clq_step_read_sized(trainer, out, sizeof *out);
}
/* Waits for all work handed over; the first failure. Errors: … */
CLQ_API clq_status clq_trainer_wait(clq_trainer *trainer);

/* Counts of the strategies that keep variables in the host's memory (CENTRAL, PS), since the trainer was made. All 0
 * for the others. */
typedef struct clq_server_counts {
    size_t servers;       /* host threads, each of which updates a part of the variables */
    uint64_t updates;     /* made */
    uint64_t least, most; /* updates of the server that made the fewest, and the most: both equal `updates` */
    uint64_t gradients;   /* pushed by replicas: of a share of a batch, or asynchronously of a whole batch */
    uint64_t dropped;     /* with backup replicas: gradients that came after their update, or were not begun for that */
} clq_server_counts;
/* Waits for all work handed over. With store ranks all processes call it, behind the same step, and it waits until all
 * updates up to that one are made, whoever makes them: the counts are of these, and of later ones if another process
 * has gone on meanwhile. Errors: … */
CLQ_API clq_status clq_trainer_server_counts_sized(clq_trainer *trainer, clq_server_counts *out, size_t out_bytes);
static inline clq_status clq_trainer_server_counts(clq_trainer *trainer, clq_server_counts *out) {
    return clq_trainer_server_counts_sized(trainer, out, sizeof *out);
}
/* Store ranks: with strategy ps and a world of several ranks, variables and the optimizer's state lie on the ranks that
 * clq_world_set_apart has set apart, each of which has a part of them. Such a rank needs no device, no model and no
 * data: it calls clq_serve, which returns when the others have called clq_serve_end, and then the world is of all ranks
 * again. Any number of trainers may be made and destroyed between, one at a time. Errors: STATE (this rank is not set
 * apart; another trainer is made, or clq_serve_end is called, before one is destroyed), and those of clq_world_gather;
 * a failure ends the world. */
CLQ_API clq_status clq_serve(clq_world *world);
/* By all ranks that are not set apart, once each has destroyed its trainer. Errors: those of clq_world_gather. */
CLQ_API clq_status clq_serve_end(clq_world *world);

/* Histogram of the staleness: updates[s] is how many updates had staleness s, from 0 to the bound. updates: the
 * caller's, for `most` numbers, of which no more are written. *count: bound + 1; 0 where steps are synchronous. Waits,
 * and is of updates, as clq_trainer_server_counts. Errors: … */
CLQ_API clq_status clq_trainer_staleness(clq_trainer *trainer, size_t most, uint64_t *updates, size_t *count);

/* ---- fit, evaluate, predict ---- */

typedef struct clq_totals {
    double loss; /* mean over the samples; of several outputs the weighted sum */
    size_t samples;
    double seconds;
    double input_s;            /* of these, waiting for the input pipeline */
    clq_metric_values metrics; /* over the samples */
    double reserved[4];
} clq_totals;
typedef struct clq_progress {
    uint64_t epoch, epochs;  /* from 0 */
    uint64_t batch, batches; /* done in this epoch */
    uint64_t step;
    clq_totals totals; /* of this epoch so far */
    /* Of the validation behind this epoch, whose batches are all done then; both 0 while the epoch is trained. */
    uint64_t validation_batch, validation_batches;
} clq_progress;
typedef struct clq_epoch_info {
    uint64_t epoch;
    /* train.samples 0: the fit trained no batch of the epoch and has no totals of it: the dataset was at the epoch's
     * end, or the checkpoint that the fit goes on from has no totals, or those of another loss or other metrics. Loss
     * and metrics of the training are NaN then. validation.samples 0: there is no validation set, or it has no batch;
     * its loss is 0. */
    clq_totals train, validation;
} clq_epoch_info;

typedef struct clq_checkpoints clq_checkpoints; /* <clique/checkpoint.h> */

typedef struct clq_fit_config {
    uint64_t epochs;         /* 0: as many as `steps` needs */
    uint64_t steps;          /* 0: no limit; else stop after so many updates */
    clq_dataset *validation; /* or NULL */
    void *context;
    /* Each may be NULL. Returning other than CLQ_OK ends the fit with that status (CLQ_INTERRUPTED to stop). */
    clq_status (*on_step)(void *context, const clq_step_info *info);        /* waits for each step: costs speed */
    clq_status (*on_progress)(void *context, const clq_progress *progress); /* after the first step, then now and then,
                                                                               behind any batch, also during the
                                                                               validation */
    clq_status (*on_epoch)(void *context, const clq_epoch_info *info);
    /* Called for every step, once and in order, as on_step, but later, and no step is waited for: figures stay on the
     * devices and are read for some steps at once, when log_every steps (0: 50; at most 1,024) were made, at the first
     * step that ends log_every_s seconds (0: 1) after the last read, and at the end of each epoch. When the fit is
     * stopped or fails, the steps that were finished are reported first, as far as the devices still answer. Weights
     * may be those of a later step. */
    clq_status (*on_log)(void *context, const clq_step_info *info);
    uint32_t log_every;
    double log_every_s;
    /* Checkpoints are taken behind updates, at the end, and where a callback stops the fit or returns CLQ_INTERRUPTED;
     * NULL: none. Behind clq_checkpoints_restore the fit goes on in the epoch of the checkpoint's: epochs and steps
     * count from that fit's beginning, and an epoch's totals are those of all of it; where the loss or metrics differ
     * from the checkpoint's, those of the batches behind it. */
    clq_checkpoints *checkpoints;
    /* Called before each checkpoint, when on_log was called for all its steps; where on_log itself ended the fit, not
     * for the steps behind that one. May be NULL. */
    clq_status (*on_checkpoint)(void *context, uint64_t step);
    /* (callback_count) objects that take part (<clique/callbacks.h>), in this order, borrowed until clq_fit returns;
     * their contexts change. NULL: none, whatever the count. */
    const struct clq_callback *callbacks;
    size_t callback_count;
} clq_fit_config;
/* Trains on the dataset from where it is. The dataset's batch must be at most the trainer's global batch. Callbacks may
 * evaluate, predict, and read and write weights; on_step, on_progress and on_log may not make steps or call clq_fit.
 * Errors: ARGUMENT (epochs and steps are both 0; no batch to train on; a negative log_every_s), STATE (called by one of
 * these three, or behind clq_step_accumulate), MISMATCH, DEVICE, TIMEOUT, …, and what a callback returned. */
CLQ_API clq_status clq_fit_sized(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config,
                                 size_t config_bytes);
static inline clq_status clq_fit(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config) {
    return clq_fit_sized(trainer, train, config, sizeof *config);
}
/* Ends the clq_fit, clq_evaluate or clq_predict under way with INTERRUPTED, behind its next update or batch; the fit
 * ends as one whose callback returns INTERRUPTED, with a checkpoint if it takes some. If none is under way, the next
 * one ends so, behind its first update or batch. May be called by any thread, and by a signal's handler, as long as the
 * trainer is there; does not wait. With a world, clq_fit ends on all processes behind one update, and clq_evaluate and
 * clq_predict outside of a fit go on: the fit that comes next ends. */
CLQ_API void clq_trainer_stop(clq_trainer *trainer);
/* The first update of the last clq_fit whose loss was not finite, NaN or infinite, known once its loss was read: with
 * on_log or on_progress some updates later, else at the end of the epoch. 0: there was none. Such a loss is also
 * logged as a warning, once in a fit, and the fit goes on. */
CLQ_API uint64_t clq_trainer_diverged(const clq_trainer *trainer);
/* With precision MIXED: the loss scale that the next step has, and how many steps were skipped so far, also before the
 * checkpoint that the training went on from. Waits for all steps so far. NULL: not wanted. Errors: STATE (losses are
 * not scaled), DEVICE, … */
CLQ_API clq_status clq_trainer_loss_scale(clq_trainer *trainer, double *scale, uint64_t *skipped);
/* Loss and metrics over one epoch of the dataset: it is rewound to the first batch of epoch 0, and each sample of that
 * epoch counts once (without those that drop_remainder drops). The dataset then goes on where it was before the call,
 * also after a failure: it may be the one that clq_fit is training on, as `validation` and in callbacks, and no metrics
 * of the training change. Errors: MISMATCH (the dataset does not fit the model), ARGUMENT (its batch is larger than the
 * trainer's), … */
CLQ_API clq_status clq_evaluate_sized(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out, size_t out_bytes);
static inline clq_status clq_evaluate(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out) {
    return clq_evaluate_sized(trainer, dataset, out, sizeof *out);
}

/* ---- confusion matrices ----
 * The metrics `confusion_matrix` and `binary_confusion_matrix`. The devices count them like other metrics, but they are
 * no single numbers: clq_metric_values is without them, and callbacks cannot watch them. */
CLQ_API size_t clq_trainer_matrix_count(const clq_trainer *trainer);
/* The matrix `index`, from 0, in the order of the metrics. *name: as it was asked for, with several outputs as
 * `LAYER_confusion_matrix`; the trainer's. *classes: rows, and columns. Errors: ARGUMENT (no such matrix). */
CLQ_API clq_status clq_trainer_matrix(const clq_trainer *trainer, size_t index, const char **name, size_t *classes);
/* The order is part of the binary interface: add at the end. */
typedef enum clq_matrix_source {
    CLQ_MATRIX_OF_TRAINING,  /* the last epoch of clq_fit that ended with train.samples above 0; on_epoch and callbacks
                                may read it already */
    CLQ_MATRIX_OF_EVALUATION /* the last clq_evaluate, validation of clq_fit, or clq_part_evaluate */
} clq_matrix_source;
/* counts (classes, classes), the caller's: counts[t * classes + p] is how many samples of class t the model took for
 * class p; of an output of several rows, how many rows. Each counts once, whatever its weight. With backup replicas the
 * counts of training are those of the replicas whose gradients were taken, scaled to the whole batch as other metrics
 * are; each is rounded, so that their sum may differ from the number of samples. Each device gives its counts of a
 * batch as float32: exact up to 2^24. Waits for nothing. Errors: ARGUMENT (no such matrix), STATE (nothing was counted
 * yet). */
CLQ_API clq_status clq_trainer_read_matrix(const clq_trainer *trainer, size_t index, clq_matrix_source source,
                                           uint64_t *counts);

/* ---- predictions ---- */

/* The model's output (softmax included) for the samples of epoch 0, to whose first batch the dataset is rewound, in
 * that epoch's order (shuffled where the dataset is shuffled): out (samples, output) f32, the caller's. Where
 * drop_remainder drops samples, the last rows are not written. Labels are not looked at. The dataset then goes on where
 * it was before the call. The first call plans the model for inference on every device. Errors: as clq_evaluate, and
 * BUILD, DEVICE_MEMORY; ARGUMENT (the model has several outputs). */
CLQ_API clq_status clq_predict(clq_trainer *trainer, clq_dataset *dataset, float *out);
/* The same of models of any number of outputs: out[i] for output i; NULL where it is not wanted. */
CLQ_API clq_status clq_predict_outputs(clq_trainer *trainer, clq_dataset *dataset, float *const *out);

/* ---- weights ---- */

/* Variable `index` of the model, counted from 0 as in clq_model_variable: `elements` f32 in Keras's layout, the
 * caller's. Reads replica 0; writes every replica. Errors: ARGUMENT (no such variable, or one of another part of the
 * model than the trainer's), … */
CLQ_API clq_status clq_trainer_get_variable(clq_trainer *trainer, size_t index, float *out);
CLQ_API clq_status clq_trainer_set_variable(clq_trainer *trainer, size_t index, const float *values);
/* The gradient that a replica holds, for custom loops and tests (times the loss scale that it was computed with, where
 * there is one): after clq_step_reduce or a whole step the sum, which is the gradient of the batch's mean loss; between
 * clq_step_gradients and clq_step_reduce the replica's part of it.
 * With local_steps it is that of the mean loss over the replica's share. With accumulated batches it is that of the
 * mean over all of them; after clq_step_accumulate alone there is none (STATE), nor between clq_part_forward and
 * clq_part_backward. A stage of a pipeline has some of the
 * variables: of the others this is the gradient of the next replica that has the variable. Errors: ARGUMENT (no such
 * variable or replica), STATE (an inference-only trainer), … */
CLQ_API clq_status clq_trainer_get_gradient(clq_trainer *trainer, unsigned replica, size_t index, float *out);
/* By the path's ending: `.keras` and `.weights.h5` are Keras's files, whose variables go by classes and order of
 * layers, as in Keras; all others are safetensors with tensor names `layer/variable`. Loading needs every variable, in
 * its shape, f32, f64, f16 or bf16, and refuses tensors that the model does not have; nothing changes where it fails. A
 * trainer of a part of the model saves the part's variables, and loads these from a file that may have all. Optimizer
 * state is neither saved nor loaded. A saved file appears by rename. As `.keras` a model is saved that was read from a
 * file of Keras 3, with that file's text, or that was prepared for it (clq_model_prepare_keras). Errors: load:
 * NOT_FOUND, READ, FORMAT (values that are not finite as float32, too), UNSUPPORTED, MISMATCH (names, shapes, types),
 * …; save: WRITE, …; of Keras's files also as clq_model_read_keras; saving: UNSUPPORTED (a model of which Keras's file
 * cannot be written). */
CLQ_API clq_status clq_trainer_load(clq_trainer *trainer, const char *path);
CLQ_API clq_status clq_trainer_save(clq_trainer *trainer, const char *path);
/* Whether clq_trainer_save can save the model's variables there as far as that is known beforehand. Errors:
 * UNSUPPORTED, MEMORY. */
CLQ_API clq_status clq_model_check_save(const clq_model *model, const char *path);

/* Loading for fine-tuning: variables that the file has get its values, the others keep theirs. A tensor of another
 * shape than its variable is left out, unless a map names it. map: path of a name map (docs/command-line.md), or NULL:
 * names are as clq_trainer_load takes them. Nothing changes where it fails. *out: what was loaded and what was left,
 * the caller's; out NULL: nobody asks. Errors: as clq_trainer_load; MISMATCH (nothing fits; two tensors for one
 * variable), FORMAT (a line of the map), ARGUMENT (a line that names no tensor of the file, or no variable). */
typedef struct clq_loaded clq_loaded;
CLQ_API clq_status clq_trainer_load_part(clq_trainer *trainer, const char *path, const char *map, clq_loaded **out);
/* The order is part of the binary interface: add at the end. */
typedef enum clq_loaded_kind {
    CLQ_LOADED_VARIABLES, /* names of the model's variables that have the file's values, */
    CLQ_LEFT_VARIABLES,   /* and of those that keep theirs */
    CLQ_LEFT_TENSORS,     /* names of the file's tensors that were not taken, without those that a map leaves out */
    CLQ_LOADED_KINDS
} clq_loaded_kind;
CLQ_API size_t clq_loaded_count(const clq_loaded *loaded, clq_loaded_kind kind);
/* In the order of the model, or of the file; index from 0. Borrowed; NULL: there are no more. */
CLQ_API const char *clq_loaded_name(const clq_loaded *loaded, clq_loaded_kind kind, size_t index);
CLQ_API void clq_loaded_destroy(clq_loaded *loaded); /* takes NULL */
/* The trainable variables and their moving averages change places, on all replicas: for evaluation, prediction and
 * saving by the averages. A second call puts both back, bit for bit; steps in between would go on from the averages.
 * Errors: STATE (the trainer keeps no average; no update was made yet; in the middle of an update), … */
CLQ_API clq_status clq_trainer_swap_average(clq_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
