/* clique/train.h: training a model on devices: the step, fit, evaluate, predict, weights.
 *
 * Sizes. Structs that the caller makes (clq_trainer_config, clq_fit_config, clq_step_info, clq_server_counts) may get
 * members at their end. So each is passed with the size that the caller was compiled with. The functions below that
 * take such a struct are inline and call functions named ..._sized: nobody can forget the size or set it wrong. An
 * older caller's struct is read and written up to its end; what is missing is 0, which means the default. A newer
 * caller's struct is refused if it sets what this library does not know. Structs within other structs keep their size
 * in later versions; new members take their room from `reserved`, which is 0. Structs that callbacks get belong to the
 * library and are only read.
 *
 * Thread rules: one thread at a time uses a trainer, except that any thread may call clq_trainer_stop. The trainer's
 * callbacks run on the thread that uses it. The model and the system must outlive it.
 *
 * Asynchronous calls. clq_step and its three parts hand work to the replicas and usually return before the devices are
 * done; they wait only if too many steps are under way. Calls that read or write results wait for all work handed over:
 * clq_step_read, clq_trainer_wait, clq_trainer_step_times, clq_trainer_write_trace, clq_evaluate, clq_predict, the
 * functions for weights. clq_fit returns when its steps are done. clq_trainer_replica, clq_trainer_device_bytes and
 * clq_trainer_comm_times return at once.
 *
 * Errors. Invalid arguments are refused at once (ARGUMENT, MISMATCH, STATE); the trainer is then unchanged. Device
 * errors in this header are what fails on a device or in an exchange: DEVICE, DEVICE_MEMORY, BUILD, TIMEOUT, ABORTED,
 * SYSTEM, MEMORY. A later call than the one that caused it may return such an error. From then on every call that needs
 * the devices returns that first error, and the trainer can only be destroyed.
 *
 * Order of calls. Make a trainer from a finished model. Set or load weights before the first step, or at any time
 * between steps. Then call clq_fit; or clq_step in a loop; or clq_step_gradients, clq_step_reduce and clq_step_apply,
 * in this order, in a loop. Before clq_step or clq_step_gradients, clq_step_accumulate may come any number of times. No
 * pointer to a config or result may be NULL, unless said. */
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

/* Reads class weights, as --class-weights: "0=1,1=2.5". Classes that the text does not name have weight 1. *count: the
 * largest class + 1. weights: the caller's, for that many numbers; NULL: only *count is set. Errors: ARGUMENT (says
 * what was expected, or which class is given twice; the latter is found only with weights). */
CLQ_API clq_status clq_class_weights_parse(const char *text, double *weights, size_t *count);

/* A Keras optimizer with Keras's defaults, which clq_optimizer_kind lists. */
CLQ_API clq_optimizer clq_optimizer_default(clq_optimizer_kind kind);
/* Sets a hyper-parameter by its key, as after --optimizer NAME:, "lr" or "momentum" for instance. Errors: ARGUMENT
 * (names the optimizer's keys, or the range; the optimizer is unchanged). */
CLQ_API clq_status clq_optimizer_set(clq_optimizer *optimizer, const char *key, double value);
/* Reads an optimizer, as --optimizer: "adam", "sgd:lr=0.01,momentum=0.9,nesterov=1". Errors: ARGUMENT (names the
 * word). */
CLQ_API clq_status clq_optimizer_parse(const char *text, clq_optimizer *out);

/* Reads a schedule, as --schedule: "constant:warmup=100", "exponential:decay_steps=1000,decay_rate=0.9",
 * "cosine:decay_steps=1000", "piecewise:boundaries=100/200,values=1/0.5/0.1". Errors: ARGUMENT (names the word). */
CLQ_API clq_status clq_lr_schedule_parse(const char *text, clq_lr_schedule *out);

/* Reads a clip, as --clip: "off", "value=0.5", "norm=1", "global_norm=1". Errors: ARGUMENT (says what was expected). */
CLQ_API clq_status clq_clip_parse(const char *text, clq_clip *out);

/* What is minimised. clq_loss_default gives Keras's parameters. */
typedef struct clq_loss {
    clq_loss_kind kind;
    /* Cross-entropies, focal ones included: the model's values are logits. Default false. If the model ends in softmax
     * or sigmoid, a cross-entropy uses the logits before it with either value, as in Keras. A focal cross-entropy uses
     * them only if this is false and the activation is its own (sigmoid: binary, softmax: categorical); if this is
     * true, it takes the model's values themselves as logits. */
    bool from_logits;
    /* Binary focal loss: multiply the loss for target 1 by alpha, and the loss for target 0 by 1 - alpha. Default
     * false. */
    bool apply_class_balancing;
    /* Categorical, binary and focal losses: 0 to 1. Default 0. */
    double label_smoothing;
    double delta; /* huber: where it becomes straight; 1e-6 to 1e6. Default 1 */
    /* Focal losses: the weight for every class, or for class 1 with apply_class_balancing; 0 to 1. Default 0.25. The
     * binary loss uses it with apply_class_balancing alone. */
    double alpha;
    double gamma; /* focal losses: how much less sure answers count; 0 to 100. Default 2 */
    double reserved[2];
} clq_loss;
/* A Keras loss with Keras's defaults. */
CLQ_API clq_loss clq_loss_default(clq_loss_kind kind);
/* Reads a loss, as --loss: "sparse_categorical_crossentropy:from_logits=1", "mse", "huber:delta=2". Errors: ARGUMENT
 * (names the word). */
CLQ_API clq_status clq_loss_parse(const char *text, clq_loss *out);

/* Reads a strategy, as --strategy: "auto", "single", "mirrored", "central", "ps", "pipeline:stages=2", "tensor". Sets
 * *out, and options->stages if the text gives it; the other options stay. Errors: ARGUMENT (names the word). */
CLQ_API clq_status clq_strategy_parse(const char *text, clq_strategy_kind *out, clq_strategy_options *options);

/* Reads shares, as --shares: "equal", "auto", or weights such as "3,1". Sets shares, share_count and share_weights in
 * *out; the other members stay. weights (CLQ_REPLICAS_MAX): the caller's memory, to which out->share_weights then
 * points. Errors: ARGUMENT (says what was expected). */
CLQ_API clq_status clq_shares_parse(const char *text, double *weights, clq_strategy_options *out);
/* Reads a compression, as --compress: "off", "f16", "f16:between", "topk=0.01". Errors: ARGUMENT (says what was
 * expected). */
CLQ_API clq_status clq_compression_parse(const char *text, clq_compression *out);

/* Reads a recomputation, as --recompute: "off", "auto", "all". Errors: ARGUMENT (says what was expected). */
CLQ_API clq_status clq_recompute_parse(const char *text, clq_recompute_kind *out);

/* Reads a tuning, as --tune: "off", "quick", "full". Errors: ARGUMENT (says what was expected). */
CLQ_API clq_status clq_tuning_parse(const char *text, clq_tuning *out);

/* Reads a precision of matrix multiplications, as --matmul-precision: "highest", "high", "medium". Errors: ARGUMENT
 * (says what was expected). */
CLQ_API clq_status clq_matmul_precision_parse(const char *text, clq_matmul_precision *out);
/* Reads a precision, as --precision: "f32", "mixed", "mixed-bf16". Errors: ARGUMENT (says what was expected). */
CLQ_API clq_status clq_precision_parse(const char *text, clq_precision *out);
/* The name that clq_precision_parse reads. */
CLQ_API const char *clq_precision_name(clq_precision precision);

/* What is minimised and measured at one output, if a model has several. */
typedef struct clq_output_config {
    const char *name; /* the output's (clq_model_output_name) */
    clq_loss loss;
    double weight;       /* finite. The model's loss is the sum over its outputs: weight * loss */
    const char *metrics; /* as clq_trainer_config.metrics */
    double reserved[4];
} clq_output_config;
/* Sparse cross-entropy from probabilities, with weight 1 and its metrics. */
CLQ_API clq_output_config clq_output_config_default(const char *name);

/* An optimizer for some variables. */
typedef struct clq_optimizer_config {
    /* Names, separated by commas: a layer's, which means all its variables ("dense"), or a variable's ("dense/kernel").
     * '*' stands for any characters, '?' for one: "dense*", "*bias". Needed until the trainer is made. */
    const char *variables;
    clq_optimizer optimizer;
    double reserved[4];
} clq_optimizer_config;

/* How a model is trained. Begin with clq_trainer_config_default. */
typedef struct clq_trainer_config {
    clq_optimizer optimizer;
    clq_loss loss;
    clq_strategy_kind strategy; /* AUTO: single for one device, else mirrored */
    /* The largest batch that a step gets; it is split over replicas, or over pipelines. Default 64. */
    size_t global_batch;
    /* CLQ_U8 or CLQ_F32. The device divides bytes by 255, with exceptions: see clq_rescaling. */
    clq_dtype sample_dtype;
    uint64_t seed;         /* for the initial weights (clq_initialiser) */
    bool measure_gradient; /* fill in clq_step_info.grad_norm */
    bool inference_only;   /* no gradient, no optimizer: evaluate with a loss, predict */
    /* For the all-reduce. deadline_s: how many seconds replicas wait for the slowest replica's step, compiling
     * included; 0: 600. */
    clq_group_config group;
    /* clq_step exchanges the gradient in buckets while backward goes on, each with at least this many bytes. 0: if it
     * is profitable; SIZE_MAX: never. */
    size_t bucket_bytes;
    /* Record when everything ran, for clq_trainer_write_trace, in the first steps and evaluated batches, this many.
     * Each kernel is then a separate launch. 0: nothing is recorded, and nothing is slower. */
    size_t trace_steps;
    clq_matmul_precision matmul_precision; /* HIGHEST unless set */
    clq_tuning tuning;                     /* variants are measured before the first step */
    double tuning_s;                       /* seconds; above 0: replaces tuning's own limit */
    /* What is measured besides the loss, as --metrics: at most 8 names, some with a number, such as
     * "accuracy,precision:threshold=0.7"; or "none". NULL: accuracy for losses of classes, else none. accuracy is
     * binary_accuracy for an output with one value in its last axis, else the largest value's accuracy, as in Keras.
     * Needed until the trainer is made. */
    const char *metrics;
    /* Fast paths to switch off, separated by commas, with the names that `clique plan` prints: "overlap,sharded
     * update"; for finding faults. Borrowed while the trainer is created. NULL: none. */
    const char *disabled_paths;
    clq_lr_schedule schedule; /* for the optimizer's lr; CONSTANT unless set */
    /* (output_count) one for each of the model's outputs, in any order; `loss` and `metrics` are then not read. NULL:
     * `loss` and `metrics` apply to every output. Needed until the trainer is made. */
    const clq_output_config *outputs;
    size_t output_count;
    clq_strategy_options strategy_options; /* settings for the strategy: <clique/types.h> */
    /* Model parallelism by hand (<clique/distribute.h>). parts 0: the trainer has the complete model. parts above 0: it
     * has one part of the model, number `part` (from 0) among `parts`, on one device. The model is cut at its marks
     * (clq_pipeline_cut); a model without marks is cut into parts that take about the same time. All trainers with as
     * many parts of a model have the same cuts. */
    uint32_t parts, part;
    /* Clips the reduced gradient before the update; with local_steps, each replica's own gradient. The factor is
     * computed on the device or host that has the gradient: no step waits for the host. */
    clq_clip clip;
    /* Trainable variables without weight decay: parts of their names, separated by commas, as in "bias,gamma,beta"
     * (Keras's exclude_from_weight_decay). Needed until the trainer is made. NULL: all decay. */
    const char *no_decay;
    /* Momentum for a moving average of the trainable variables, from 0 to below 1 (Polyak and Juditsky, 1992; Keras's
     * use_ema and ema_momentum). After the first update the average is the weights; after each later one it is m *
     * average + (1 - m) * weights, with this member as m. It takes as much memory as the parameters. 0: no average is
     * kept. */
    double average;
    /* The program's own schedule: the learning rate for update `step`, from 0 to 1e6. `schedule` is then CONSTANT and
     * may have a warm-up; `step` counts from 0, or from the warm-up's end. The function is called once for each update,
     * in order: before the update's first batch is handed over, or by clq_step_apply in loops with clq_run or parts.
     * The thread that makes steps calls it and waits for it. It may not call functions that take the trainer. Any other
     * rate ends the step (ARGUMENT) and leaves the trainer unchanged; the next try asks again. NULL: none. */
    double (*learning_rate)(void *context, uint64_t step);
    void *learning_rate_context;
    /* Compare the replicas' weights after each update whose number is a multiple of this. 0: never. clq_fit, clq_step
     * and clq_step_apply then compare hashes, which the devices compute, of the weights (parameters, and synchronized
     * statistics) that replicas on devices of the same kind must share bit for bit. With local_steps the check waits
     * for the next average. If replicas differ, the call returns REPLICAS_DIFFER, which names variable, replicas and
     * hashes; the update is made, and the trainer may go on. Other updates do not wait. If there are no two replicas
     * that must have the same weights: ARGUMENT. With several processes the first replicas of all processes are
     * compared, too; the rank that differs has the failure, and the world ends. */
    uint64_t check_replicas;
    /* Batches may have weights (clq_batch.weights, clq_dataset_set_weights). An update's loss and gradient, and the
     * reported loss, are the sum of weight * loss over the number of samples, as in Keras; evaluation uses its own
     * batches' weights. Metrics count each sample once. If an output has a mask, each unmasked step has its sample's
     * weight, and the sum is divided by the number of unmasked steps, not by the sum of weights. */
    bool sample_weights;
    /* (class_weight_count) further sample weights, by the sample's class, in training alone: class_weights[c] for class
     * c. Finite, at least 0; copied. NULL: none. Classes beyond the last weight count once; a weight for a class that
     * the model does not have is refused. A sample's class is its label, the place of its label's largest value, or its
     * only value, rounded. For models with one output that has one row of values for each sample. */
    const double *class_weights;
    size_t class_weight_count;
    clq_precision precision; /* F32 unless set */
    /* With precision MIXED the loss is multiplied by a scale, so that small gradients do not become 0 in float16;
     * updates and norms see the gradient without the scale. A step whose gradient is not finite is skipped: weights,
     * optimizer state and average stay unchanged on all replicas, and the scale is halved, down to 1. After
     * loss_scale_interval finite steps in a row the scale doubles. As Keras's LossScaleOptimizer, except that step
     * numbers count skipped steps, and so do schedules and Adam's bias correction. loss_scale: the first scale, 1 to
     * 2^126; 0: 32768. loss_scale_interval 0: 2000. */
    double loss_scale;
    uint32_t loss_scale_interval;
    /* Find where numbers overflow. A training step with NaN or an infinity ends the trainer with NOT_FINITE, which
     * names the step, and the layer and value that had it first: the samples, a variable as earlier updates left it, a
     * layer's output, the loss, or a gradient. Each value is checked after the kernel that made it, and each step is
     * waited for; fast paths that fuse launches are off. With precision MIXED it also finds a gradient that overflows
     * because of the loss scale, whose step would otherwise be skipped. */
    bool check_numerics;
    /* (optimizer_count, less than CLQ_OPTIMIZERS_MAX) optimizers for some variables. The first one that names a
     * variable updates it; `optimizer` updates the variables that none names. A schedule, a learning-rate function and
     * clq_trainer_set_learning_rate set the rate of `optimizer`; the other rates scale by the same factor, so its lr
     * must then be above 0. Clip and average apply to all variables. Needed until the trainer is made. NULL:
     * `optimizer` updates all, whatever the count. */
    const clq_optimizer_config *optimizers;
    size_t optimizer_count;
    /* Whether activations are kept for backward or computed again. AUTO considers each device's memory
     * (clq_system_config.memory_limit_bytes), and has no effect with inference_only. Losses, gradients and weights keep
     * their bits in any case. */
    clq_recompute_kind recompute;
    /* Processes that train together, each on its own devices, as one mirrored training: the global batch is split over
     * all replicas, and every process has the same weights. Borrowed until the trainer is destroyed. NULL, or a world
     * with one rank: this process alone.
     *
     * - Every process makes the trainer with the same model and config, and then the same calls in the same order with
     *   the same datasets. Calls that only read weights count, too. One exception: in on_epoch, in a callback's
     *   on_epoch, and directly after clq_fit, one process alone may read weights.
     * - Callbacks get values over all processes (totals, progress, steps, log). Set on_log, on_step, and callbacks that
     *   want steps, in every process or in none; checkpoints likewise, with the same world.
     * - If one process calls clq_fit_stop, or a callback in one process returns CLQ_ERROR_INTERRUPTED, all end after
     *   the same update: about 0.25 s later, or one update later if that takes longer.
     * - on_log is called after log_every updates, at meetings, and at each epoch's end.
     * - clq_predict gives each process all rows.
     * - If a process fails otherwise, the world ends, and calls in all other processes fail with ABORTED.
     * - share_weights are for all replicas, in the processes' order. With local steps weights are also averaged at each
     *   epoch's end. A sharded optimizer is sharded over all replicas; each process has equally many.
     * - Strategy ps needs ranks that are set apart (clq_serve, below); the world is then the other ranks. With a
     *   staleness above 0 each batch goes to one replica, in any process; setting variables is then collective, too.
     *
     * Errors: UNSUPPORTED (other strategies; top-k compression; functions on replicas; shares other than EQUAL with
     * more than CLQ_REPLICAS_MAX replicas in all), MISMATCH (another model, settings, weights, data or plan in another
     * process). */
    clq_world *world;
    /* What clq_fit takes from each process's dataset, if a world has several processes.
     *
     * - DATA: the datasets are the same, and each process takes its replicas' rows from each batch.
     * - FILE: each process has its own dataset, with any length; sample shape and type, batch, shuffle and seed are the
     *   same. A process takes as many samples as its replicas take from a full batch, in its own order (seed plus
     *   rank). An epoch ends with the dataset that ends first; its last batch may be smaller. Rank 0 logs how many
     *   samples are skipped for that. clq_evaluate, and a fit's validation, count each process's own samples once. Only
     *   as many processes can resume its checkpoints.
     * - OFF: the datasets are the same, and each process takes its samples from the complete dataset, also in its own
     *   order: an epoch trains on the complete dataset once for each process. Evaluation is as with DATA.
     *
     * With FILE and OFF every process has a share of each batch, and a batch that a program makes by hand is the
     * complete batch in each process. Shares AUTO are then refused (UNSUPPORTED). After clq_fit the dataset is complete
     * again; the next clq_fit goes on where this one ended. */
    clq_shard shard;
} clq_trainer_config;
/* The default: Adam, sparse cross-entropy from probabilities, batch 64, u8 samples. {0} is no default: its batch is
 * 0. */
CLQ_API void clq_trainer_config_init(clq_trainer_config *config, size_t config_bytes);
/* The default config, of the size that the caller is compiled with: see clq_trainer_config_init. */
static inline clq_trainer_config clq_trainer_config_default(void) {
    clq_trainer_config config;
    clq_trainer_config_init(&config, sizeof config);
    return config;
}

/* A model on devices: replicas, weights, optimizer. From clq_trainer_create to clq_trainer_destroy. */
typedef struct clq_trainer clq_trainer;
/* Makes a trainer: opens the devices, plans the model on each, and sets the initial weights. Compiles kernels: seconds
 * the first time on a machine. config and devices are copied; config may not be NULL. The caller destroys *out. Errors:
 *
 * - STATE: the model is not finished.
 * - ARGUMENT, settings: a value that is no enumerator; a flag or reserve out of its range; a batch smaller than the
 *   number of replicas; too many batches to accumulate; a clip's limit out of range; an unknown metric; class weights
 *   below 0, or for several outputs.
 * - ARGUMENT, strategy: single with several devices; pipeline with more stages than the model has parts, with a number
 *   of devices that the stages do not divide, or with more micro-batches than samples; a part that the model does not
 *   have, or on several devices.
 * - ARGUMENT, names: a loss for an output that the model does not have, two losses for one output, or none; a name in
 *   no_decay or optimizers that no variable has; an optimizer without variables.
 * - ARGUMENT, devices: more than CLQ_REPLICAS_MAX, or a sub-device that a device does not have.
 * - NO_DEVICE: none is selected, or one that the machine does not have.
 * - MISMATCH: the model's output does not fit the loss or a metric.
 * - TIMEOUT: a driver's compiler missed clq_system_config.build_deadline_s.
 * - UNSUPPORTED: for instance two outputs with one name, or synchronized statistics in a pipeline.
 * - DEVICE, BUILD, DEVICE_MEMORY, MEMORY, SYSTEM. */
CLQ_API clq_status clq_trainer_create_sized(const clq_model *model, const clq_devices *devices,
                                            const clq_trainer_config *config, size_t config_bytes, clq_trainer **out);
/* clq_trainer_create_sized with the size that the caller's config has. */
static inline clq_status clq_trainer_create(const clq_model *model, const clq_devices *devices,
                                            const clq_trainer_config *config, clq_trainer **out) {
    return clq_trainer_create_sized(model, devices, config, sizeof *config, out);
}
CLQ_API void clq_trainer_destroy(clq_trainer *trainer); /* takes NULL */
/* How many replicas this process has. */
CLQ_API unsigned clq_trainer_replicas(const clq_trainer *trainer);
/* A replica's device and share: how many samples it takes from a full global batch; with CLQ_SHARES_AUTO from the next
 * one. A pipeline stage has its pipeline's share. Errors: ARGUMENT (no such replica). */
CLQ_API clq_status clq_trainer_replica(const clq_trainer *trainer, unsigned replica, clq_device_info *device,
                                       size_t *share);
/* How often shares were set, with CLQ_SHARES_AUTO and several replicas; the first time is for the first step. Otherwise
 * 0. */
CLQ_API size_t clq_trainer_share_changes(const clq_trainer *trainer);
/* Change number `index`, from 0, which holds from step *step on. shares (CLQ_REPLICAS_MAX): each replica's samples in a
 * full global batch; with a world, the replicas in all processes. Errors: ARGUMENT (no such change). */
CLQ_API clq_status clq_trainer_share_change(const clq_trainer *trainer, size_t index, uint64_t *step, size_t *shares);
CLQ_API uint64_t clq_trainer_device_bytes(const clq_trainer *trainer); /* on all devices */
/* Seconds that the steps so far spent in all-reduces (for the gradient, and for synchronized statistics), each counted
 * from when the last replica arrived; and the part that did not overlap with backward. If replicas on CPU devices shard
 * the update, all-reduce and update are one, and the seconds include both. 0 for one replica. */
CLQ_API clq_comm_times clq_trainer_comm_times(const clq_trainer *trainer);
/* Seconds between the ends of back-to-back steps, oldest first, as replica 0's thread sees them: the last steps, at
 * most `most` and at most 4,096. If the device lags that thread, each is the mean over three steps. seconds: the
 * caller's, for `most` numbers. *count: how many were written. Errors: device errors. */
CLQ_API clq_status clq_trainer_step_times(clq_trainer *trainer, size_t most, float *seconds, size_t *count);

/* Writes what was recorded until now as trace events in JSON, for ui.perfetto.dev and chrome://tracing. A trace has a
 * process for each replica, whose threads are its host thread, its queue (kernels by layer; uploads, if the device's
 * memory is not the host's) and its exchanges (for the gradient, and for synchronized statistics); and one process for
 * what waits for data. Device times are converted to the host's clock, within the error that the process's label
 * shows. Waits for all work handed over. The file appears by rename. Errors: STATE (trace_steps is 0), WRITE, DEVICE,
 * MEMORY. */
CLQ_API clq_status clq_trainer_write_trace(clq_trainer *trainer, const char *path);

/* ---- a step in its three parts ---- */

/* Forward and backward on every replica: each replica computes its part of the gradient of the batch's mean loss. The
 * batch may be reused when the call returns. A gradient that no update used is dropped, with the batches accumulated
 * for it; so it is by clq_step and clq_run. Errors: MISMATCH (shape, dtype or labels do not fit), STATE (with
 * local_steps gradients are not summed), TIMEOUT (also synchronized statistics: a replica did not come to their
 * exchange), device errors. */
CLQ_API clq_status clq_step_gradients(clq_trainer *trainer, const clq_batch *batch);
/* All-reduce: afterwards every replica has the gradients' sum; with compression, the sum of what replicas sent. Call it
 * once for each gradient, with one replica too. Errors: STATE (no gradients since the last update, or summed already),
 * device errors. */
CLQ_API clq_status clq_step_reduce(clq_trainer *trainer);
/* The optimizer's update on every replica. Counts as one step. Errors: STATE (clq_step_reduce was not called), ARGUMENT
 * (the learning_rate function gave no valid rate; the gradient stays, and the call may be repeated), device errors. */
CLQ_API clq_status clq_step_apply(clq_trainer *trainer);

/* Gradient accumulation: forward and backward for one of the several batches that make an update. The gradient is added
 * to those from earlier batches since the last update. clq_step or clq_step_gradients takes the update's last batch.
 * The gradient is then the mean over all samples in all these batches, however many each has, and so are loss and
 * metrics from clq_step_read. Replicas exchange gradients only at the end. From the first call on each replica keeps
 * one more buffer, as large as the gradient. Batch normalisation takes its statistics from each batch. Errors: those of
 * clq_step_gradients; STATE (between clq_step_gradients and its update); ARGUMENT (more samples in an update than an
 * int32_t counts; asynchronous ps or backup replicas, which make an update from each batch). */
CLQ_API clq_status clq_step_accumulate(clq_trainer *trainer, const clq_batch *batch);

/* One step: the three parts in the fastest way. The all-reduce for a bucket begins when backward has finished that
 * bucket. Results equal the parts' results, up to rounding, since the all-reduce adds in another order. Errors: those
 * of the parts, without STATE for local_steps. */
CLQ_API clq_status clq_step(clq_trainer *trainer, const clq_batch *batch);

/* The most values in clq_metric_values. */
enum { CLQ_METRIC_VALUES_MAX = 32 };
/* Metrics by name, as they were asked for, in that order. With several outputs, each output in turn has its loss,
 * without its weight, as `LAYER_loss`, and its metrics as `LAYER_accuracy`, as Keras names them. Names belong to the
 * trainer. */
typedef struct clq_metric_values {
    unsigned count;
    const char *names[CLQ_METRIC_VALUES_MAX]; /* "accuracy" */
    double values[CLQ_METRIC_VALUES_MAX];
} clq_metric_values;
/* The metric with this name; NaN if there is none. A confusion matrix is no value: see clq_trainer_read_matrix. */
CLQ_API double clq_metric_value(const clq_metric_values *metrics, const char *name);

/* A step, as clq_step_read tells it and callbacks get it. */
typedef struct clq_step_info {
    uint64_t step; /* updates so far: 1 after the first */
    /* The mean over the samples, before the update; with several outputs the weighted sum. */
    double loss;
    /* L2 norm, over all variables, of the gradient that the update uses (compressed, if it was); with local_steps, of
     * replica 0's own gradient. NaN before the update, and without measure_gradient. */
    double grad_norm;
    double lr;                 /* the last update's; before the first update, its own */
    size_t samples;            /* in all the update's batches */
    clq_metric_values metrics; /* over these samples */
    /* on_log: seconds from the update before, or from the epoch's beginning, to this update, as replica 0's thread sees
     * it. That thread is some steps ahead of its device: single steps vary, sums do not. Otherwise 0. */
    double seconds;
    /* CLQ_STRATEGY_PS with a staleness above 0: the replica that computed the gradient, and how many other updates were
     * made between its read of the parameters and this update. Otherwise -1 and 0. */
    int32_t replica;
    uint32_t staleness;
} clq_step_info;
/* Sets the optimizer's learning rate for updates handed over from now on, as Keras's assignment to
 * optimizer.learning_rate. In clq_fit's callbacks it holds for the steps that clq_fit has not handed over yet. Does not
 * wait. Errors: STATE (the trainer has a schedule, a warm-up or a learning_rate function, which sets the rate),
 * ARGUMENT (out of range; the rate stays). */
CLQ_API clq_status clq_trainer_set_learning_rate(clq_trainer *trainer, double rate);
/* The learning rate of the next update, from whatever sets it: the schedule, the learning_rate function, which is asked
 * once for each update, clq_trainer_set_learning_rate, a callback or a restored checkpoint. (clq_step_info.lr is that
 * of the last update.) Waits for nothing, and cannot fail; also in callbacks of clq_fit. */
CLQ_API double clq_trainer_next_learning_rate(clq_trainer *trainer);

/* Waits for the last step and describes it. Between clq_step_accumulate and the update's end it describes the batches
 * so far. Errors: STATE (no step was made yet), device errors. */
CLQ_API clq_status clq_step_read_sized(clq_trainer *trainer, clq_step_info *out, size_t out_bytes);
/* clq_step_read_sized with the size that the caller's struct has. */
static inline clq_status clq_step_read(clq_trainer *trainer, clq_step_info *out) {
    return clq_step_read_sized(trainer, out, sizeof *out);
}
/* Waits for all work handed over, and returns the first failure. Errors: device errors. */
CLQ_API clq_status clq_trainer_wait(clq_trainer *trainer);

/* Counts since the trainer was made, for strategies that keep variables in the host's memory (CENTRAL, PS). All 0 for
 * other strategies. */
typedef struct clq_server_counts {
    size_t servers;       /* host threads, each of which updates some variables */
    uint64_t updates;     /* made */
    uint64_t least, most; /* fewest and most updates by one server: both equal `updates` */
    uint64_t gradients;   /* pushed by replicas: for a share, or asynchronously for a complete batch */
    /* With backup replicas: gradients that came after their update, or that were not begun because they would have. */
    uint64_t dropped;
} clq_server_counts;
/* Counts so far; waits for all work handed over. With store ranks all processes call it, after the same step, and it
 * waits until all updates up to that step are made, in any process. It counts these, and later ones if another process
 * has gone on meanwhile. Errors: device errors. */
CLQ_API clq_status clq_trainer_server_counts_sized(clq_trainer *trainer, clq_server_counts *out, size_t out_bytes);
/* clq_trainer_server_counts_sized with the size that the caller's struct has. */
static inline clq_status clq_trainer_server_counts(clq_trainer *trainer, clq_server_counts *out) {
    return clq_trainer_server_counts_sized(trainer, out, sizeof *out);
}
/* Runs a store rank. With strategy ps and a world with several ranks, the variables and the optimizer's state lie on
 * the ranks that clq_world_set_apart has set apart; each has a part. Such a rank needs no device, no model and no data:
 * it calls clq_serve, which returns when the other ranks have called clq_serve_end. Then the world includes all ranks
 * again. In between any number of trainers may be made and destroyed, one at a time. Errors: STATE (this rank is not
 * set apart; another trainer is made, or clq_serve_end is called, before one is destroyed), those of clq_world_gather;
 * a failure ends the world. */
CLQ_API clq_status clq_serve(clq_world *world);
/* Ends clq_serve on the store ranks. All other ranks call it, once each has destroyed its trainer. Errors: those of
 * clq_world_gather. */
CLQ_API clq_status clq_serve_end(clq_world *world);

/* Staleness histogram: updates[s] is how many updates had staleness s, from 0 to the bound. updates: the caller's, for
 * `most` numbers; no more are written. *count: bound + 1; 0 if steps are synchronous. Waits and counts as
 * clq_trainer_server_counts does. Errors: device errors. */
CLQ_API clq_status clq_trainer_staleness(clq_trainer *trainer, size_t most, uint64_t *updates, size_t *count);

/* ---- fit, evaluate, predict ---- */

/* What an evaluation, or the training samples of an epoch, came to. */
typedef struct clq_totals {
    double loss; /* mean over the samples; with several outputs the weighted sum */
    size_t samples;
    double seconds;
    double input_s;            /* the part spent waiting for the input pipeline */
    clq_metric_values metrics; /* over the samples */
    double reserved[4];
} clq_totals;
/* How far clq_fit is, for clq_fit_config.on_progress. */
typedef struct clq_progress {
    uint64_t epoch, epochs;  /* from 0 */
    uint64_t batch, batches; /* done in this epoch; the epoch's */
    uint64_t step;
    clq_totals totals; /* over this epoch so far */
    /* The validation after this epoch, whose training batches are then all done. Both 0 while the epoch trains. */
    uint64_t validation_batch, validation_batches;
} clq_progress;
/* An epoch that has ended, for callbacks. */
typedef struct clq_epoch_info {
    uint64_t epoch;
    /* validation.samples 0: there is no validation set, it has no batch, or clq_fit_config.validation_freq left the
     * epoch out; validation.loss is then 0. train.samples 0:
     * the fit has no totals for the epoch; its training loss and metrics are then NaN. Reasons: the dataset was at the
     * epoch's end; or the fit resumed from a checkpoint that has no totals, or totals for another loss or other
     * metrics. */
    clq_totals train, validation;
} clq_epoch_info;

typedef struct clq_checkpoints clq_checkpoints; /* <clique/checkpoint.h> */

/* What clq_fit does. All zero is the default, but epochs and steps may not both be 0. */
typedef struct clq_fit_config {
    uint64_t epochs;         /* 0: as many as `steps` needs */
    uint64_t steps;          /* 0: no limit; else stop after this many updates */
    clq_dataset *validation; /* or NULL */
    void *context;
    /* Each may be NULL. If one returns other than CLQ_OK, the fit ends with that status (CLQ_ERROR_INTERRUPTED to
     * stop). */
    clq_status (*on_step)(void *context, const clq_step_info *info); /* waits for each step: slow */
    /* Called after the first step, then from time to time, after any batch, also during the validation. */
    clq_status (*on_progress)(void *context, const clq_progress *progress);
    clq_status (*on_epoch)(void *context, const clq_epoch_info *info);
    /* Called for every step, once and in order, as on_step, but later; no step is waited for. Step metrics stay on
     * the devices and are read for several steps at once: after log_every steps (0: 50; at most 1,024); at the first
     * step that ends log_every_s seconds (0: 1) after the last read; and at each epoch's end. If the fit is stopped
     * or fails, finished steps are reported first, if the devices still answer. Weights may be those after a later
     * step. */
    clq_status (*on_log)(void *context, const clq_step_info *info);
    uint32_t log_every;
    double log_every_s;
    /* Checkpoints are taken after updates, at the end, and if a callback stops the fit or returns
     * CLQ_ERROR_INTERRUPTED. NULL: none. After clq_checkpoints_restore the fit continues the checkpoint's epoch: epochs
     * and steps count from the earlier fit's beginning, and an epoch's totals include the part before the checkpoint.
     * If loss or metrics differ from the checkpoint's, totals include the batches after it alone. */
    clq_checkpoints *checkpoints;
    /* Called before each checkpoint, after on_log for all its steps. If on_log itself ended the fit, it was not called
     * for the steps after that one. May be NULL. */
    clq_status (*on_checkpoint)(void *context, uint64_t step);
    /* (callback_count) objects that take part (<clique/callbacks.h>), in this order. Borrowed until clq_fit returns;
     * their contexts change. NULL: none, whatever the count. */
    const struct clq_callback *callbacks;
    size_t callback_count;
    /* The validation set is evaluated after every epoch whose number, counted from 1, is a multiple of this (Keras's
     * validation_freq). After other epochs validation.samples is 0. 0: 1, after every epoch. */
    uint64_t validation_freq;
} clq_fit_config;
/* Trains on the dataset from its current place. The dataset's batch must be at most the trainer's global batch.
 * Callbacks may evaluate, predict, and read and write weights; on_step, on_progress and on_log may not make steps or
 * call clq_fit. Errors: ARGUMENT (epochs and steps are both 0; no batch to train on; a negative log_every_s), STATE
 * (called in one of these three callbacks, or after clq_step_accumulate), MISMATCH (the dataset does not fit the
 * model), INTERRUPTED (clq_trainer_stop), device errors, and what a callback returned. */
CLQ_API clq_status clq_fit_sized(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config,
                                 size_t config_bytes);
/* clq_fit_sized with the size that the caller's config has. */
static inline clq_status clq_fit(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config) {
    return clq_fit_sized(trainer, train, config, sizeof *config);
}
/* Stops the clq_fit, clq_evaluate or clq_predict under way, which returns INTERRUPTED after its next update or batch. A
 * fit ends as if a callback had returned INTERRUPTED, with a checkpoint if it takes some; calls by its callbacks end,
 * too. If no update or batch follows, the call ends as it would have, and a later call is not stopped. If no such call
 * is under way, the next one ends after its first update or batch. Any thread may call it, and a signal handler, as
 * long as the trainer exists; it does not wait. With a world, clq_fit ends in all processes after the same update, or
 * after the validation under way; clq_evaluate and clq_predict outside a fit continue, and the next fit ends. */
CLQ_API void clq_trainer_stop(clq_trainer *trainer);
/* The first update in the last clq_fit whose loss was NaN or infinite; 0: none. It is known once its loss was read:
 * with on_log or on_progress some updates later, else at the epoch's end. Such a loss is also logged as a warning, once
 * in a fit, and the fit goes on. */
CLQ_API uint64_t clq_trainer_diverged(const clq_trainer *trainer);
/* With precision MIXED: the loss scale for the next step, and how many steps were skipped so far, including those
 * before the checkpoint that the training resumed from. Waits for all steps so far. NULL: not wanted. Errors: STATE
 * (losses are not scaled), device errors. */
CLQ_API clq_status clq_trainer_loss_scale(clq_trainer *trainer, double *scale, uint64_t *skipped);
/* Loss and metrics over one epoch. The dataset is rewound to the first batch of epoch 0, and each sample in that epoch
 * counts once, except those that drop_remainder drops. Afterwards, also after a failure, the dataset goes on from its
 * place before the call. So it may be the one that clq_fit is training on, as `validation` and in callbacks; the
 * training's metrics do not change. Errors: MISMATCH (the dataset does not fit the model), ARGUMENT (its batch is
 * larger than the trainer's), INTERRUPTED (clq_trainer_stop), device errors. */
CLQ_API clq_status clq_evaluate_sized(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out, size_t out_bytes);
/* clq_evaluate_sized with the size that the caller's struct has. */
static inline clq_status clq_evaluate(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out) {
    return clq_evaluate_sized(trainer, dataset, out, sizeof *out);
}

/* ---- confusion matrices ----
 *
 * The metrics `confusion_matrix` and `binary_confusion_matrix`. The devices count them like other metrics. They are no
 * single numbers: clq_metric_values does not have them, and callbacks cannot watch them. */
/* How many matrices the trainer's metrics include. */
CLQ_API size_t clq_trainer_matrix_count(const clq_trainer *trainer);
/* Describes matrix `index`, from 0, in the order of the metrics. *name: as it was asked for, with several outputs as
 * `LAYER_confusion_matrix`; belongs to the trainer. *classes: how many rows, and columns. Errors: ARGUMENT (no such
 * matrix). */
CLQ_API clq_status clq_trainer_matrix(const clq_trainer *trainer, size_t index, const char **name, size_t *classes);
/* What a matrix counts. The order is part of the binary interface: add at the end. */
typedef enum clq_matrix_source {
    /* The last epoch that clq_fit ended with train.samples above 0; on_epoch and callbacks may already read it. */
    CLQ_MATRIX_OF_TRAINING,
    CLQ_MATRIX_OF_EVALUATION /* the last clq_evaluate, clq_fit's validation, or clq_part_evaluate */
} clq_matrix_source;
/* Writes a matrix into counts (classes, classes), the caller's. counts[t * classes + p]: how many samples with class t
 * the model took for class p; with several rows in an output, how many rows. Each counts once, whatever its weight.
 * Counts are exact up to 2^24 in a batch: each device gives them as float32. With backup replicas, training counts are
 * those from the replicas whose gradients were taken, scaled to the complete batch, as other metrics are; each is
 * rounded, so that their sum may differ from the number of samples. Does not wait. Errors: ARGUMENT (no such matrix),
 * STATE (nothing was counted yet). */
CLQ_API clq_status clq_trainer_read_matrix(const clq_trainer *trainer, size_t index, clq_matrix_source source,
                                           uint64_t *counts);

/* ---- predictions ---- */

/* Writes the model's output, softmax included, for all samples in epoch 0 into out (samples, output), f32, the
 * caller's. The dataset is rewound to that epoch's first batch; rows are in the epoch's order, which is shuffled if the
 * dataset is shuffled. If drop_remainder drops samples, the last rows are not written. Labels are not read. Afterwards
 * the dataset goes on from its place before the call. The first call plans the model for inference on every device.
 * Errors: those of clq_evaluate; ARGUMENT (the model has several outputs). */
CLQ_API clq_status clq_predict(clq_trainer *trainer, clq_dataset *dataset, float *out);
/* The same for any number of outputs: out[i] for output i; NULL if it is not wanted. */
CLQ_API clq_status clq_predict_outputs(clq_trainer *trainer, clq_dataset *dataset, float *const *out);

/* ---- weights ---- */

/* Reads variable `index`, counted from 0 as in clq_model_variable, from replica 0: `elements` f32 in Keras's layout,
 * the caller's. Errors: ARGUMENT (no such variable, or a variable in another part of the model than the trainer's),
 * device errors. */
CLQ_API clq_status clq_trainer_get_variable(clq_trainer *trainer, size_t index, float *out);
/* Writes variable `index` on every replica: `elements` f32 in Keras's layout, copied. Errors: those of
 * clq_trainer_get_variable. */
CLQ_API clq_status clq_trainer_set_variable(clq_trainer *trainer, size_t index, const float *values);
/* The gradient that a replica has, for custom loops and tests. It includes the loss scale that it was computed with,
 * if there is one.
 *
 * - After clq_step_reduce, or a complete step: the sum, which is the gradient of the batch's mean loss.
 * - Between clq_step_gradients and clq_step_reduce: the replica's part.
 * - With local_steps: the gradient of the mean loss over the replica's share.
 * - With accumulated batches: the gradient of the mean over all of them.
 * - After clq_step_accumulate alone, and between clq_part_forward and clq_part_backward: none (STATE).
 * - A pipeline's stage has some variables; for the others it is the gradient on the next replica that has the
 *   variable.
 *
 * out: the caller's. Errors: ARGUMENT (no such variable or replica), STATE (an inference-only trainer), device
 * errors. */
CLQ_API clq_status clq_trainer_get_gradient(clq_trainer *trainer, unsigned replica, size_t index, float *out);
/* Loads or saves all variables. The path's ending chooses the format: `.keras` and `.weights.h5` are Keras's files,
 * which find variables by the layers' classes and order, as in Keras; all others are safetensors with tensors named
 * `layer/variable`. Optimizer state is neither saved nor loaded.
 *
 * Loading needs every variable, in its shape, as f32, f64, f16 or bf16, and refuses tensors that the model does not
 * have; if it fails, nothing changes. If a trainer has a part of the model, it saves that part's variables, and loads
 * them from a file that may have all. A saved file appears by rename. A `.keras` file can be saved for a model that was
 * read from a Keras 3 file, with that file's text, or that was prepared by clq_model_prepare_keras.
 *
 * Errors when loading: NOT_FOUND, READ, FORMAT (also values that are not finite as float32), UNSUPPORTED, MISMATCH
 * (names, shapes, types), device errors; for Keras's files also those of clq_model_read_keras. Errors when saving:
 * WRITE, device errors, UNSUPPORTED (Keras's file cannot express the model); for Keras's files also those of
 * clq_model_read_keras. */
CLQ_API clq_status clq_trainer_load(clq_trainer *trainer, const char *path);
/* Writes the weights: see clq_trainer_load, which has the errors, too. */
CLQ_API clq_status clq_trainer_save(clq_trainer *trainer, const char *path);
/* Checks whether clq_trainer_save can save the model's variables at the path, as well as is known beforehand. Errors:
 * UNSUPPORTED, MEMORY. */
CLQ_API clq_status clq_model_check_save(const clq_model *model, const char *path);

/* What clq_trainer_load_part loaded and what it did not. From it to clq_loaded_destroy. */
typedef struct clq_loaded clq_loaded;
/* Loading for fine-tuning: variables that the file has get its values, the others keep theirs. A tensor whose shape
 * differs from its variable's is skipped, unless a map names it. map: path of a name map (docs/command-line.md); NULL:
 * names as in clq_trainer_load. If it fails, nothing changes. *out: what was loaded and what was not, the caller's to
 * destroy; out NULL: not wanted. Errors: those of clq_trainer_load; MISMATCH (nothing fits; two tensors for one
 * variable), FORMAT (a line in the map), ARGUMENT (a line that names no tensor in the file, or no variable). */
CLQ_API clq_status clq_trainer_load_part(clq_trainer *trainer, const char *path, const char *map, clq_loaded **out);
/* Which names. The order is part of the binary interface: add at the end. */
typedef enum clq_loaded_kind {
    CLQ_LOADED_VARIABLES, /* the model's variables that have the file's values */
    CLQ_LEFT_VARIABLES,   /* the model's variables that keep theirs */
    CLQ_LEFT_TENSORS,     /* the file's tensors that were not taken, except those that a map skips */
    CLQ_LOADED_KINDS
} clq_loaded_kind;
/* How many names of this kind there are. */
CLQ_API size_t clq_loaded_count(const clq_loaded *loaded, clq_loaded_kind kind);
/* A name, in the order of the model or file; index from 0. Borrowed. NULL: there are no more. */
CLQ_API const char *clq_loaded_name(const clq_loaded *loaded, clq_loaded_kind kind, size_t index);
CLQ_API void clq_loaded_destroy(clq_loaded *loaded); /* takes NULL */
/* Exchanges the trainable variables and their moving averages on all replicas: for evaluating, predicting and saving
 * with the averages. A second call puts both back, bit for bit; steps in between would continue from the averages.
 * Errors: STATE (the trainer keeps no average; no update was made yet; in the middle of an update), device errors. */
CLQ_API clq_status clq_trainer_swap_average(clq_trainer *trainer);

#ifdef __cplusplus
}
#endif
#endif
