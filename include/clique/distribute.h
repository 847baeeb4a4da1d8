/* clique/distribute.h: custom training loops over a trainer's replicas, in tf.distribute's terms: values for each
 * replica and their reduction, functions that run on each replica, and distributed datasets; and custom steps over a
 * model's parts (model parallelism by hand). docs/custom-loops.md has the patterns.
 *
 *     clq_distributed_next(data, &batch, &more);                       a part of the batch for each replica
 *     clq_run(trainer, &batch, train_step, &loop);                     train_step: clq_replica_gradients, …
 *     clq_step_reduce(trainer);                                        as in <clique/train.h>
 *     clq_step_apply(trainer);
 *     clq_per_replica_reduce(loop.losses, CLQ_REDUCE_SUM, CLQ_NO_AXIS, &loss, 1);
 *
 * Thread rules. One thread at a time calls functions that take a trainer or a distributed dataset. The function that
 * clq_run gets runs in one thread for each replica, at the same time. It may call the functions below that take a
 * clq_replica_context and, for its own replica's index, those that say "by one thread for each replica"; it may not
 * call functions that take the trainer. It writes results to its own replica's place, or under a lock. When clq_run
 * returns, the caller may read all results. One thread at a time uses a clq_part_values.
 *
 * Errors: see <clique/train.h>, which also lists the device errors. */
#ifndef CLIQUE_DISTRIBUTE_H
#define CLIQUE_DISTRIBUTE_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values per replica ---- */

/* A value for each replica (tf.distribute's PerReplica): arrays of doubles with one shape, 0 at the start. Only axis 0
 * may be shorter on some replicas, as with the samples in a batch's part. */
typedef struct clq_per_replica clq_per_replica;
/* Makes one array for each replica. replicas: 1 to CLQ_REPLICAS_MAX, as clq_trainer_replicas gives them. rank: at most
 * CLQ_SHAPE_MAX; 0: one number each, and shape is not read. The caller destroys *out. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_per_replica_create(unsigned replicas, unsigned rank, const size_t *shape, clq_per_replica **out);
CLQ_API void clq_per_replica_destroy(clq_per_replica *values); /* takes NULL */
/* A replica's array, row by row, to write and read: by one thread for each replica. NULL: no such replica. */
CLQ_API double *clq_per_replica_of(clq_per_replica *values, unsigned replica);
/* Sets axis 0's length in a replica's array: at most the shape's, which is the default. By one thread for each replica.
 * Errors: ARGUMENT (no such replica, too long, rank 0). */
CLQ_API clq_status clq_per_replica_set_length(clq_per_replica *values, unsigned replica, size_t length);

/* The order is part of the binary interface: add at the end. */
typedef enum clq_reduction { CLQ_REDUCE_SUM, CLQ_REDUCE_MEAN } clq_reduction;
/* Of clq_per_replica_reduce: element by element over the replicas. */
enum { CLQ_NO_AXIS = -1 };
/* Reduces all replicas' arrays to one (tf.distribute's Strategy.reduce). axis CLQ_NO_AXIS: element by element over the
 * replicas; the mean divides by their number. Another axis: over the replicas and along that axis, which the result
 * does not have; the mean divides by the number of entries. So along axis 0 each replica weighs as much as its length,
 * and the mean over no entries is NaN. Sums are computed in double, replica 0 first. out: the caller's, with as many
 * doubles as the result has, which `elements` says. Not while a replica writes. Errors: ARGUMENT (no such reduction or
 * axis, another number of elements), MISMATCH (lengths differ, and the axis is not 0). */
CLQ_API clq_status clq_per_replica_reduce(const clq_per_replica *values, clq_reduction reduction, int axis, double *out,
                                          size_t elements);

/* ---- a function on each replica ---- */

/* A batch in parts, one for each replica. A part with count 0 has no samples, and its other members are not read. */
typedef struct clq_distributed_batch {
    unsigned replicas;
    const clq_batch *parts; /* (replicas) */
    size_t count;           /* samples in all parts; clq_run counts for itself */
} clq_distributed_batch;

/* The replica that a function runs on (tf.distribute's ReplicaContext). Read only; valid until the function returns. */
typedef struct clq_replica_context {
    unsigned index, replicas;      /* this replica, from 0; how many there are */
    const clq_device_info *device; /* the system's */
    const clq_batch *batch;        /* this replica's part; NULL: the run has no batch */
    size_t global_count;           /* samples in all replicas' parts */
    struct clq_replica_run *own;   /* the library's */
} clq_replica_context;

/* A function for one replica. If it returns other than CLQ_OK, the run ends, and so does the trainer, as if a device
 * had failed. */
typedef clq_status (*clq_replica_function)(clq_replica_context *replica, void *context);

/* Calls the function once for each replica, in that replica's thread, and returns when all have returned; the devices
 * may still work. The function may train: it then calls clq_replica_gradients on every replica, and the trainer is as
 * after clq_step_gradients. clq_step_reduce and clq_step_apply follow, and clq_step_read gives the batch's mean loss.
 * batch: borrowed until the call returns; NULL: none. Each part may have up to the largest share of a full global batch
 * (clq_trainer_replica), and all parts together at most the global batch. Errors:
 *
 * - STATE: called in a callback of clq_fit; with a batch after clq_step_accumulate; some replicas computed gradients
 *   and others did not (the gradients are lost, and the trainer goes on).
 * - ARGUMENT: parts for another number of replicas; no samples at all; too large.
 * - MISMATCH: a part does not fit.
 * - UNSUPPORTED: strategies pipeline and tensor, with which no replica computes a gradient alone.
 * - device errors, and what the function returned, with the replica's name in the detail. */
CLQ_API clq_status clq_run(clq_trainer *trainer, const clq_distributed_batch *batch, clq_replica_function function,
                           void *context);
/* The same for evaluation: the function calls clq_replica_evaluate instead of clq_replica_gradients. Gradients for a
 * step under way are kept. The first call plans the model for evaluation on every device. */
CLQ_API clq_status clq_run_evaluation(clq_trainer *trainer, const clq_distributed_batch *batch,
                                      clq_replica_function function, void *context);

/* Forward and backward on the replica's part, also if it has no samples. The function calls it once in a run. The
 * gradient is that of `scale` times the sum of the samples' losses. If scale is 1 / global_count on every replica, the
 * reduced gradient is that of the global batch's mean loss, with the same bits as clq_step_gradients gives. Returns
 * before the device is done. Errors: STATE (a second time; a run for evaluation, or without a batch; an inference-only
 * trainer), TIMEOUT (also synchronized statistics, or a loss with masked steps: a replica did not come to the
 * exchange), device errors. */
CLQ_API clq_status clq_replica_gradients(clq_replica_context *replica, double scale);
/* Forward alone, as clq_evaluate computes it, also if the replica's part has no samples. The function calls it once in
 * a run for evaluation. Errors: STATE (a second time; a run for training, or without a batch), TIMEOUT (also a loss
 * with masked steps: a replica did not come to the exchange), device errors. */
CLQ_API clq_status clq_replica_evaluate(clq_replica_context *replica);
/* Reads loss and metrics for the replica's part, after one of these two: means over its samples; 0 without samples.
 * Times are 0. Waits for the device. Errors: STATE (before these two), device errors. */
CLQ_API clq_status clq_replica_read_sized(clq_replica_context *replica, clq_totals *out, size_t out_bytes);
/* clq_replica_read_sized with the size that the caller's struct has. */
static inline clq_status clq_replica_read(clq_replica_context *replica, clq_totals *out) {
    return clq_replica_read_sized(replica, out, sizeof *out);
}

/* ---- metrics that are summed when they are read ---- */

/* A mean over many numbers (Keras's Mean). Each replica has its own total and count, so no lock is needed. */
typedef struct clq_mean clq_mean;
CLQ_API clq_status clq_mean_create(unsigned replicas, clq_mean **out); /* The caller destroys *out. Errors: ARGUMENT,
                                                                          MEMORY */
CLQ_API void clq_mean_destroy(clq_mean *mean);                         /* takes NULL */
/* Adds `count` numbers whose sum is `total`. By one thread for each replica. Errors: ARGUMENT (no such replica). */
CLQ_API clq_status clq_mean_add(clq_mean *mean, unsigned replica, double total, double count);
CLQ_API double clq_mean_read(const clq_mean *mean); /* 0 without numbers. Not while a replica adds */
CLQ_API void clq_mean_reset(clq_mean *mean);        /* not while a replica adds */

/* The trainer's loss and metrics over many batches, as totals and counts by replica. So metrics that are no means over
 * batches, such as precision, are right too. */
typedef struct clq_metric_sums clq_metric_sums;
/* The trainer must outlive *out, which the caller destroys. Errors: MEMORY. */
CLQ_API clq_status clq_metric_sums_create(const clq_trainer *trainer, clq_metric_sums **out);
CLQ_API void clq_metric_sums_destroy(clq_metric_sums *sums); /* takes NULL */
/* Adds, as totals, what clq_replica_read gives; the function calls it. Waits for the device. Errors: those of
 * clq_replica_read. */
CLQ_API clq_status clq_metric_sums_add(clq_metric_sums *sums, clq_replica_context *replica);
/* Loss and metrics over all samples so far; times are 0. Not while a replica adds. */
CLQ_API void clq_metric_sums_read_sized(const clq_metric_sums *sums, clq_totals *out, size_t out_bytes);
/* clq_metric_sums_read_sized with the size that the caller's struct has. */
static inline void clq_metric_sums_read(const clq_metric_sums *sums, clq_totals *out) {
    clq_metric_sums_read_sized(sums, out, sizeof *out);
}
/* Confusion matrix `index` over all samples so far, laid out as by clq_trainer_read_matrix. Not while a replica adds.
 * Errors: ARGUMENT (no such matrix). */
CLQ_API clq_status clq_metric_sums_read_matrix(const clq_metric_sums *sums, size_t index, uint64_t *counts);
CLQ_API void clq_metric_sums_reset(clq_metric_sums *sums); /* not while a replica adds */

/* ---- datasets in parts ---- */

/* A pipeline, or one for each replica, whose batches are cut for the replicas of a trainer. */
typedef struct clq_distributed_dataset clq_distributed_dataset;

/* Distributes one pipeline, whose batches are global (tf.distribute's experimental_distribute_dataset): each batch is
 * cut as the trainer's strategy cuts batches. With equal shares that is ceil(count / replicas) samples for each replica
 * until none are left: range(8) in batches with 4 samples over 3 replicas gives [0,1], [2,3], [] and [4,5], [6,7], [].
 * The caller sets the dataset's stages; its batch is at most the trainer's global batch. The dataset is borrowed until
 * *out is destroyed, and nobody else uses it meanwhile. The trainer must outlive *out, which the caller destroys.
 * Errors: MISMATCH (samples or labels do not fit the trainer), ARGUMENT (the batch is too large), MEMORY. */
CLQ_API clq_status clq_distribute_dataset(clq_trainer *trainer, clq_dataset *dataset, clq_distributed_dataset **out);

/* How many input pipelines there are (tf.distribute's InputReplicationMode). PER_WORKER: one for this machine, whose
 * batches go to the replicas round-robin. PER_REPLICA: one for each. The order is part of the binary interface. */
typedef enum clq_input_replication { CLQ_INPUT_PER_WORKER, CLQ_INPUT_PER_REPLICA } clq_input_replication;
/* The pipeline that a dataset is made for (tf.distribute's InputContext). */
typedef struct clq_input_context {
    unsigned index, pipelines; /* this pipeline, from 0; how many there are */
    unsigned replicas;         /* how many train together */
} clq_input_context;
/* A replica's part of a global batch. Errors: ARGUMENT (the replicas do not divide it, or are not 1 to
 * CLQ_REPLICAS_MAX). */
CLQ_API clq_status clq_input_batch_per_replica(const clq_input_context *input, size_t global_batch, size_t *out);
/* Makes one pipeline's dataset. It sets the stages in *out; the batch is one replica's samples. From then on the
 * distributed dataset owns *out, and destroys it if this call or a later one fails. If it returns other than CLQ_OK,
 * clq_distribute_function fails with that status. */
typedef clq_status (*clq_dataset_function)(void *context, const clq_input_context *input, clq_dataset **out);
/* Distributes datasets that a function makes, one for each pipeline (tf.distribute's
 * distribute_datasets_from_function). The function is called for all pipelines, in their order, before this call
 * returns, and decides which samples each has. A pipeline's batch goes to one replica. The trainer must outlive *out,
 * which the caller destroys. Errors: ARGUMENT (a batch is larger than a replica's share of the global batch), MISMATCH,
 * MEMORY, and what the function returned. */
CLQ_API clq_status clq_distribute_function(clq_trainer *trainer, clq_input_replication replication,
                                           clq_dataset_function function, void *context, clq_distributed_dataset **out);
CLQ_API void clq_distributed_destroy(clq_distributed_dataset *data); /* takes NULL; destroy it before a dataset that it
                                                                        borrows */

/* The next batch in parts, borrowed until the next call. *more is false at the end of the epoch, and *batch is then
 * unchanged; the call after that begins the next epoch. If pipelines end at different times, or in the middle of a
 * round, the remaining replicas get no samples; if all pipelines drop their remainders, the epoch ends there, as in
 * TensorFlow with batches that have one static size. Errors: MEMORY, SYSTEM (as clq_dataset_next). */
CLQ_API clq_status clq_distributed_next(clq_distributed_dataset *data, clq_distributed_batch *batch, bool *more);

/* ---- a model in parts ----
 *
 * Model parallelism by hand. A trainer has one part of a model (clq_trainer_config.parts) on one device; the caller
 * carries each step from part to part. In PyTorch: y = a(x); loss = f(b(y)); loss.backward(); then an optimizer step
 * for a, and for b. Here y and its gradient dy come from clq_part_values_create(a, CLQ_PART_OUTPUT, …):
 *
 *     clq_part_forward(a, &batch, NULL, y);     the first part reads the samples of the batch
 *     clq_part_forward(b, &batch, y, NULL);     the last part reads the labels; clq_step_read(b, &info) has the loss
 *     clq_part_backward(b, NULL, dy);           dy: the gradient of the batch's mean loss with respect to y
 *     clq_part_backward(a, dy, NULL);
 *     clq_step_apply(a);                        each part updates its own variables
 *     clq_step_apply(b);
 *
 * Make the trainers for a model's parts from that model, or from a model that was built alike. Their configs differ in
 * `part`; besides it, only the optimizer and settings for the device may differ. Variables, their first values and
 * dropout's random numbers are then those in the complete model, and the steps equal those of one trainer with the
 * complete model.
 *
 * Functions that make complete steps, or that read datasets, refuse a part's trainer with STATE: clq_step and all its
 * parts except clq_step_apply, clq_fit, clq_evaluate, clq_predict, clq_run, clq_distribute_dataset, … All other
 * functions for a trainer concern its part's variables.
 *
 * The functions below return when they have read and written the values that the caller gives. A function without
 * values to write may return before the device is done. */

/* The tensors that cross the cut between two parts, or the gradients with respect to them. Each tensor has f32 rows in
 * the host's memory, a row for each sample. A cut has several tensors if a branch crosses it. */
typedef struct clq_part_values clq_part_values;
/* Which cut. The order is part of the binary interface: add at the end. */
typedef enum clq_part_side { CLQ_PART_INPUT, CLQ_PART_OUTPUT } clq_part_side;
/* Makes values for the cut before the trainer's part (INPUT) or after it (OUTPUT); a part's OUTPUT is the next part's
 * INPUT. *out has room for as many rows as the trainer's global batch; all values are 0, and 0 rows are in use. The
 * caller destroys it; the model must outlive it. Errors: STATE (the trainer has the complete model), ARGUMENT (the
 * first part has no INPUT, the last part no OUTPUT), MEMORY. */
CLQ_API clq_status clq_part_values_create(const clq_trainer *trainer, clq_part_side side, clq_part_values **out);
CLQ_API void clq_part_values_destroy(clq_part_values *values);         /* takes NULL */
CLQ_API unsigned clq_part_values_count(const clq_part_values *values); /* tensors that cross: at least 1 */
/* A tensor that crosses from one part to another. */
typedef struct clq_part_tensor {
    const char *name; /* of the layer that computes the tensor; lives as long as the model */
    clq_shape shape;  /* without the batch */
    size_t elements;  /* product of shape */
    /* The tensor depends on trainable variables. If not, the gradient with respect to it is not computed: 0 is written
     * instead. */
    bool has_gradient;
    uint64_t reserved[4]; /* 0 */
} clq_part_tensor;
/* Describes a tensor. Errors: ARGUMENT (no such tensor). */
CLQ_API clq_status clq_part_values_tensor(const clq_part_values *values, unsigned index, clq_part_tensor *out);
/* A tensor's memory (global batch, elements), for the caller to read and write; the first rows are in use. NULL: no
 * such tensor. */
CLQ_API float *clq_part_values_of(clq_part_values *values, unsigned index);
/* The number of rows in use. The functions below set it when they write. */
CLQ_API size_t clq_part_values_rows(const clq_part_values *values);
/* Sets the number of rows in use, up to the global batch: for a caller who fills in the memory. Errors: ARGUMENT (more
 * than that). */
CLQ_API clq_status clq_part_values_set_rows(clq_part_values *values, size_t rows);

/* Forward in training mode.
 *
 * - batch: 1 to global_batch samples, borrowed until the call returns. The part with the model's input reads its
 *   samples, each part with an output of the model its labels, and all parts its count.
 * - input: as many rows as the batch has samples; NULL for the first part.
 * - output: gets the part's output; NULL for the last part.
 *
 * Afterwards clq_step_read reports the losses for the outputs that the part has; all parts' losses add up to the
 * model's. A forward pass drops an earlier forward pass without a backward pass, and a gradient without an update;
 * batch normalisation's moving statistics have changed with each pass. Errors: STATE (the trainer has the complete
 * model, or is inference-only), ARGUMENT (the batch has no samples or too many; input or output is missing, or given
 * but must be NULL), MISMATCH (the batch does not fit; values for another cut, or with another number of rows), device
 * errors. */
CLQ_API clq_status clq_part_forward(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                    clq_part_values *output);
/* Backward, once for each forward pass.
 *
 * - output: the gradient of the batch's mean loss with respect to the part's output, as the next part's
 *   clq_part_backward writes it; NULL for the last part.
 * - input: gets the gradient with respect to the part's input; NULL for the first part, or if it is not wanted.
 *
 * Afterwards clq_trainer_get_gradient gives the gradient for the part's variables, and clq_step_apply updates them.
 * Errors: STATE (no forward pass comes before), ARGUMENT and MISMATCH (as for clq_part_forward), device errors. */
CLQ_API clq_status clq_part_backward(clq_trainer *trainer, const clq_part_values *output, clq_part_values *input);

/* Forward in inference mode, with loss and metrics for the outputs that the part has. It drops a forward pass without a
 * backward pass. The first call plans the part for evaluation. Errors: those of clq_part_forward, except that an
 * inference-only trainer may evaluate. */
CLQ_API clq_status clq_part_evaluate_sized(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                           clq_part_values *output, clq_totals *out, size_t out_bytes);
/* clq_part_evaluate_sized with the size that the caller's struct has. */
static inline clq_status clq_part_evaluate(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                           clq_part_values *output, clq_totals *out) {
    return clq_part_evaluate_sized(trainer, batch, input, output, out, sizeof *out);
}
/* Forward in inference mode, without labels. out[i]: (the batch's samples, the output's elements) for the model's
 * output i, written if the part has that output; NULL if it is not wanted. out NULL: none is wanted. The first call
 * plans the part for prediction. Errors: those of clq_part_evaluate. */
CLQ_API clq_status clq_part_predict(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                    clq_part_values *output, float *const *out);

#ifdef __cplusplus
}
#endif
#endif
