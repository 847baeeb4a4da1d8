/* clique/train.h: training a model on devices: the step, fit, evaluate, predict, weights.
 *
 * Thread rules: a trainer is used by one thread at a time; its callbacks run on that thread. The model and the system
 * must outlive it. */
#ifndef CLIQUE_TRAIN_H
#define CLIQUE_TRAIN_H

#include <clique/comm.h>
#include <clique/data.h>
#include <clique/device.h>
#include <clique/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Keras's optimizers with Keras's defaults (clq_optimizer_default). */
typedef struct clq_optimizer {
    clq_optimizer_kind kind;
    double lr;
    double momentum;              /* sgd */
    bool nesterov;                /* sgd */
    double beta1, beta2, epsilon; /* adam; epsilon outside the root of the bias-corrected form */
} clq_optimizer;
CLQ_API clq_optimizer clq_optimizer_default(clq_optimizer_kind kind);
/* "adam", "sgd:lr=0.01,momentum=0.9,nesterov=1", as the command line's --optimizer. ARGUMENT names the word. */
CLQ_API clq_status clq_optimizer_parse(const char *text, clq_optimizer *out);

typedef struct clq_loss {
    clq_loss_kind kind;
    bool from_logits;       /* a model that ends in softmax is differentiated from its logits either way, as in Keras */
    double label_smoothing; /* categorical only */
} clq_loss;
/* "sparse_categorical_crossentropy:from_logits=1", as --loss. */
CLQ_API clq_status clq_loss_parse(const char *text, clq_loss *out);

/* "off", "quick" or "full", as --tune. */
CLQ_API clq_status clq_tuning_parse(const char *text, clq_tuning *out);

/* "highest", "high" or "medium", as --matmul-precision. */
CLQ_API clq_status clq_matmul_precision_parse(const char *text, clq_matmul_precision *out);

typedef struct clq_trainer_config {
    clq_optimizer optimizer;
    clq_loss loss;
    clq_strategy_kind strategy; /* AUTO: single for one device, else mirrored */
    size_t global_batch;        /* the largest batch that a step gets; split over the replicas */
    clq_dtype sample_dtype;     /* CLQ_U8 (scaled by 1/255 on the device) or CLQ_F32 */
    uint64_t seed;              /* of the initial weights (glorot_uniform; biases 0) */
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
    const char *disabled_paths; /* fast paths that are not to be used, with commas between, as `clique plan` names them:
                                   "overlap,sharded update"; for finding faults. NULL: none */
} clq_trainer_config;
/* Adam, sparse cross-entropy from probabilities, batch 64, u8 samples. */
CLQ_API clq_trainer_config clq_trainer_config_default(void);

typedef struct clq_trainer clq_trainer;
/* Opens the devices, plans the model on each, sets the initial weights. Errors: ARGUMENT (a batch smaller than the
 * replicas), MISMATCH, DEVICE, BUILD, DEVICE_MEMORY, MEMORY, SYSTEM. */
CLQ_API clq_status clq_trainer_create(const clq_model *model, const clq_devices *devices,
                                      const clq_trainer_config *config, clq_trainer **out);
CLQ_API void clq_trainer_destroy(clq_trainer *trainer); /* takes NULL */
CLQ_API unsigned clq_trainer_replicas(const clq_trainer *trainer);
/* Share and label of a replica: how many of a full global batch it takes. */
CLQ_API clq_status clq_trainer_replica(const clq_trainer *trainer, unsigned replica, clq_device_info *device,
                                       size_t *share);
CLQ_API uint64_t clq_trainer_device_bytes(const clq_trainer *trainer); /* on all devices */
/* Seconds that the steps so far spent in the all-reduce, from when the last replica came to it, and how many of these
 * backward was not at work meanwhile. Where replicas on CPU devices update together, which is all-reduce and update in
 * one, these seconds are of both. 0 for one replica. */
CLQ_API clq_comm_times clq_trainer_comm_times(const clq_trainer *trainer);
/* How long each of the last steps took, oldest first, at most `most` and 4,096 of them: from the end of the step before
 * it to its own, as replica 0's thread has it, for steps with nothing but steps between; where the device works behind
 * the thread, the mean of three. Waits for what was handed to the devices. seconds: the caller's. */
CLQ_API clq_status clq_trainer_step_times(clq_trainer *trainer, size_t most, float *seconds, size_t *count);

/* What was recorded so far, as trace events in JSON, for ui.perfetto.dev and chrome://tracing: a process per replica
 * whose threads are its host thread, its queue (kernels by layer; uploads, where the device's memory is not the host's)
 * and its exchanges of the gradient; and one for what waits for data. Times of the device are put into the host's,
 * within the error that the process's label tells. Waits for all that was asked. Appears by rename. Errors: STATE
 * (trace_steps is 0), WRITE, DEVICE, MEMORY. */
CLQ_API clq_status clq_trainer_write_trace(clq_trainer *trainer, const char *path);

/* ---- a step in its three parts ---- */

/* Forward and backward on every replica: the gradient of the mean loss over the batch, each replica's part of it. The
 * batch may be reused when the call returns. Errors: MISMATCH (shape, dtype or labels do not fit), DEVICE, … */
CLQ_API clq_status clq_step_gradients(clq_trainer *trainer, const clq_batch *batch);
/* All-reduce: every replica then holds the sum. Once for each gradient, with one replica too. Errors: STATE (no
 * gradients since the last update, or summed already), DEVICE, TIMEOUT, … */
CLQ_API clq_status clq_step_reduce(clq_trainer *trainer);
/* The optimizer's update, on every replica. Counts as one step. Errors: STATE (clq_step_reduce was not called), … */
CLQ_API clq_status clq_step_apply(clq_trainer *trainer);

/* The three parts in one, and the fastest way through them: the all-reduce of a bucket begins when backward has
 * finished it. The same numbers as from the parts, up to the rounding of other sums in the all-reduce. */
CLQ_API clq_status clq_step(clq_trainer *trainer, const clq_batch *batch);

typedef struct clq_step_info {
    uint64_t step;    /* updates so far: 1 after the first */
    double loss;      /* mean over the batch, before the update */
    double accuracy;  /* of the batch */
    double grad_norm; /* L2 over all variables; NaN unless measure_gradient */
    double lr;
    size_t samples;
} clq_step_info;
/* Waits for the last step and tells of it. */
CLQ_API clq_status clq_step_read(clq_trainer *trainer, clq_step_info *out);
/* Waits for all that was asked; the first failure. */
CLQ_API clq_status clq_trainer_wait(clq_trainer *trainer);

/* ---- fit, evaluate, predict ---- */

typedef struct clq_totals {
    double loss, accuracy; /* means over the samples */
    size_t samples;
    double seconds;
    double input_s; /* of these, waiting for the input pipeline */
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
    clq_totals train, validation; /* validation.samples is 0 without a validation set */
} clq_epoch_info;

typedef struct clq_fit_config {
    uint64_t epochs;         /* 0: as many as `steps` needs */
    uint64_t steps;          /* 0: no limit; else stop after so many updates */
    clq_dataset *validation; /* or NULL */
    void *context;
    /* Each may be NULL. Returning other than CLQ_OK ends the fit with that status (CLQ_INTERRUPTED to stop). */
    clq_status (*on_step)(void *context, const clq_step_info *info);        /* waits for each step: costs speed */
    clq_status (*on_progress)(void *context, const clq_progress *progress); /* after the first step, then now and then,
                                                                               also during the validation */
    clq_status (*on_epoch)(void *context, const clq_epoch_info *info);
} clq_fit_config;
/* Trains on the dataset from where it is. The dataset's batch must be at most the trainer's global batch. Callbacks may
 * evaluate, predict, and read and write weights; on_step and on_progress may not make steps or call clq_fit. Errors:
 * ARGUMENT (epochs and steps are both 0; no batch to train on), STATE (called by on_step or on_progress), MISMATCH,
 * DEVICE, TIMEOUT, …, and what a callback returned. */
CLQ_API clq_status clq_fit(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config);
/* Loss and accuracy over one epoch of the dataset. The dataset then goes on where it was before the call: it may be the
 * one that clq_fit is training on, as `validation` and in callbacks, and no metrics of the training change. Errors:
 * MISMATCH, ARGUMENT, DEVICE, … */
CLQ_API clq_status clq_evaluate(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out);
/* The model's output (softmax included) of every sample, in the order of the dataset's first epoch (shuffled where the
 * dataset is): out (samples, output) f32, the caller's. Rows of samples that the dataset drops are not written. The
 * dataset then goes on where it was before the call. */
CLQ_API clq_status clq_predict(clq_trainer *trainer, clq_dataset *dataset, float *out);

/* ---- weights ---- */

/* Variable `index` of the model, f32 in Keras's layout, to or from replica memory; set reaches every replica. */
CLQ_API clq_status clq_trainer_get_variable(clq_trainer *trainer, size_t index, float *out);
CLQ_API clq_status clq_trainer_set_variable(clq_trainer *trainer, size_t index, const float *values);
/* The reduced gradient of the last step (after clq_step_reduce), of one replica: for custom loops and tests. */
CLQ_API clq_status clq_trainer_get_gradient(clq_trainer *trainer, unsigned replica, size_t index, float *out);
/* safetensors; tensor names `layer/variable`. Loading needs every variable, in its shape, f32, f64, f16 or bf16, and
 * refuses tensors that the model does not have. Saving appears by rename. */
CLQ_API clq_status clq_trainer_load(clq_trainer *trainer, const char *path);
CLQ_API clq_status clq_trainer_save(clq_trainer *trainer, const char *path);

#ifdef __cplusplus
}
#endif
#endif
