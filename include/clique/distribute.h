/* clique/distribute.h: custom training loops over the replicas of a trainer, in the terms of tf.distribute: values per
 * replica and their reduction, functions that run on each replica, and distributed datasets; and custom steps over the
 * parts of a model (model parallelism by hand).
 * docs/custom-loops.md has the patterns.
 *
 *     clq_distributed_next(data, &batch, &more);                       a part of the batch for each replica
 *     clq_run(trainer, &batch, train_step, &loop);                     train_step: clq_replica_gradients, …
 *     clq_step_reduce(trainer);                                        as in <clique/train.h>
 *     clq_step_apply(trainer);
 *     clq_per_replica_reduce(loop.losses, CLQ_REDUCE_SUM, CLQ_NO_AXIS, &loss, 1);
 *
 * Thread rules. Functions that take a trainer or a distributed dataset are called by one thread at a time. The function
 * that is given to clq_run runs in one thread for each replica, at the same time. It may call the functions below that
 * take a clq_replica_context, and, for its own replica's index, those that say "by one thread for each replica"; it may
 * call no function that takes the trainer. What it writes into its context it writes to its own replica's place, or
 * under a lock. When clq_run returns, the caller may read all of it. A clq_part_values is
 * used by one thread at a time.
 *
 * Errors: as <clique/train.h> says; "…" stands for those of the devices. */
#ifndef CLIQUE_DISTRIBUTE_H
#define CLIQUE_DISTRIBUTE_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- values per replica ---- */

/* A value for each replica (tf.distribute's PerReplica): an array of doubles of one shape, 0 at the start. Only axis 0
 * may be shorter on some replicas, as of the samples of a batch's part. */
typedef struct clq_per_replica clq_per_replica;
/* replicas: 1 to CLQ_REPLICAS_MAX, as clq_trainer_replicas gives them. rank 0: one number each, and shape is not looked
 * at; at most CLQ_SHAPE_MAX. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_per_replica_create(unsigned replicas, unsigned rank, const size_t *shape, clq_per_replica **out);
CLQ_API void clq_per_replica_destroy(clq_per_replica *values); /* takes NULL */
/* A replica's array, row by row, to be written and read: by one thread for each replica. NULL: no such replica. */
CLQ_API double *clq_per_replica_of(clq_per_replica *values, unsigned replica);
/* Sets the length of axis 0 of a replica's array: at most the shape's, which is the default. By one thread for each
 * replica. Errors: ARGUMENT (no such replica, too long, rank 0). */
CLQ_API clq_status clq_per_replica_set_length(clq_per_replica *values, unsigned replica, size_t length);

/* The order is part of the binary interface: add at the end. */
typedef enum clq_reduction { CLQ_REDUCE_SUM, CLQ_REDUCE_MEAN } clq_reduction;
enum { CLQ_NO_AXIS = -1 };
/* Reduces all replicas' arrays to one (tf.distribute's Strategy.reduce). axis CLQ_NO_AXIS: element by element over the
 * replicas; the mean divides by their number. Another axis: over the replicas and along that axis, which the result
 * does not have; the mean divides by the number of entries, so along axis 0 each replica weighs as much as its length,
 * and the mean of no entries is NaN. Sums are made in double, replica 0 first. out: `elements` doubles, the caller's,
 * as many as the result has. Not while a replica writes. Errors: ARGUMENT (no such reduction or axis, another number of
 * elements), MISMATCH (lengths differ, and the axis is not 0). */
CLQ_API clq_status clq_per_replica_reduce(const clq_per_replica *values, clq_reduction reduction, int axis, double *out,
                                          size_t elements);

/* ---- a function on each replica ---- */

/* A batch in parts, one for each replica. A part of count 0 has no samples, and its other members are not read. */
typedef struct clq_distributed_batch {
    unsigned replicas;
    const clq_batch *parts; /* (replicas) */
    size_t count;           /* samples of all parts; clq_run counts for itself */
} clq_distributed_batch;

/* The replica that a function runs on (tf.distribute's ReplicaContext). Read only, and valid until the function
 * returns. */
typedef struct clq_replica_context {
    unsigned index, replicas;      /* this replica, from 0; how many there are */
    const clq_device_info *device; /* the system's */
    const clq_batch *batch;        /* this replica's part; NULL: the run has no batch */
    size_t global_count;           /* samples of all replicas' parts */
    struct clq_replica_run *own;   /* the library's */
} clq_replica_context;

/* Returning other than CLQ_OK ends the run, and the trainer, as a failure of a device does. */
typedef clq_status (*clq_replica_function)(clq_replica_context *replica, void *context);

/* Calls the function once for each replica, in that replica's thread, and returns when all have returned; the devices
 * may be behind. It may train: where it calls clq_replica_gradients, it does so on every replica, and the trainer is
 * then as after clq_step_gradients: clq_step_reduce and clq_step_apply follow, and clq_step_read gives the batch's mean
 * loss. batch: borrowed until the call returns; NULL: none. Its parts may have any sizes that the replicas have room
 * for: each replica has room for the largest share of a full global batch (clq_trainer_replica), and all parts together
 * have at most the global batch. Errors: STATE (called by a callback of clq_fit; with a batch after
 * clq_step_accumulate; some replicas computed gradients and others did not: the gradients are lost, and the trainer
 * goes on), ARGUMENT (parts for another number of replicas; without any sample; too large), MISMATCH (a part does not
 * fit), UNSUPPORTED (a strategy whose replicas cannot make their parts of a gradient by themselves), …, and what the
 * function returned, with the replica's name in the detail. */
CLQ_API clq_status clq_run(clq_trainer *trainer, const clq_distributed_batch *batch, clq_replica_function function,
                           void *context);
/* The same for evaluation: the function calls clq_replica_evaluate in place of clq_replica_gradients. Gradients of a
 * step under way are kept. The first call plans the model for evaluation on every device. */
CLQ_API clq_status clq_run_evaluation(clq_trainer *trainer, const clq_distributed_batch *batch,
                                      clq_replica_function function, void *context);

/* Called by the function, once in a run: forward and backward on the replica's part, also where that has no samples.
 * The gradient is that of `scale` times the sum of the samples' losses. With scale 1 / global_count on every replica
 * the reduced gradient is that of the mean loss over the global batch, with the same bits as by clq_step_gradients.
 * Returns before the device is done. Errors: STATE (a second time; a run for evaluation, or without a batch; an
 * inference-only trainer), TIMEOUT (synchronized statistics: a replica did not come to their exchange), … */
CLQ_API clq_status clq_replica_gradients(clq_replica_context *replica, double scale);
/* Called by the function, once in a run for evaluation: forward alone, as clq_evaluate computes it. Errors: STATE (a
 * second time; a run for training, or without a batch), … */
CLQ_API clq_status clq_replica_evaluate(clq_replica_context *replica);
/* After one of these two: loss and metrics of the replica's part, as means over its samples; 0 without samples. Times
 * are 0. Waits for the device. Errors: STATE (before these), … */
CLQ_API clq_status clq_replica_read_sized(clq_replica_context *replica, clq_totals *out, size_t out_bytes);
static inline clq_status clq_replica_read(clq_replica_context *replica, clq_totals *out) {
    return clq_replica_read_sized(replica, out, sizeof *out);
}

/* ---- metrics that are summed when they are read ---- */

/* A mean of many numbers (Keras's Mean). Each replica has a total and a count of its own, so no lock is needed. */
typedef struct clq_mean clq_mean;
CLQ_API clq_status clq_mean_create(unsigned replicas, clq_mean **out); /* Errors: ARGUMENT, MEMORY */
CLQ_API void clq_mean_destroy(clq_mean *mean);                         /* takes NULL */
/* Adds `count` numbers whose sum is `total`. By one thread for each replica. Errors: ARGUMENT (no such replica). */
CLQ_API clq_status clq_mean_add(clq_mean *mean, unsigned replica, double total, double count);
CLQ_API double clq_mean_read(const clq_mean *mean); /* 0 without numbers. Not while a replica adds */
CLQ_API void clq_mean_reset(clq_mean *mean);        /* likewise */

/* The trainer's loss and metrics over many batches, as totals and counts by replica; so metrics such as precision,
 * which are no means of the batches' values, are right too. */
typedef struct clq_metric_sums clq_metric_sums;
/* The trainer must outlive it. Errors: MEMORY. */
CLQ_API clq_status clq_metric_sums_create(const clq_trainer *trainer, clq_metric_sums **out);
CLQ_API void clq_metric_sums_destroy(clq_metric_sums *sums); /* takes NULL */
/* Called by the function: adds what clq_replica_read gives, as totals. Waits for the device. Errors: as
 * clq_replica_read. */
CLQ_API clq_status clq_metric_sums_add(clq_metric_sums *sums, clq_replica_context *replica);
/* Loss and metrics over all samples so far; times are 0. Not while a replica adds. */
CLQ_API void clq_metric_sums_read_sized(const clq_metric_sums *sums, clq_totals *out, size_t out_bytes);
static inline void clq_metric_sums_read(const clq_metric_sums *sums, clq_totals *out) {
    clq_metric_sums_read_sized(sums, out, sizeof *out);
}
CLQ_API void clq_metric_sums_reset(clq_metric_sums *sums); /* likewise */

/* ---- datasets in parts ---- */

typedef struct clq_distributed_dataset clq_distributed_dataset;

/* From one pipeline, whose batches are global ones (tf.distribute's experimental_distribute_dataset): each is cut as
 * the trainer's strategy cuts batches. With equal shares that is ceil(count / replicas) samples for each replica until
 * none are left: range(8) in batches of 4 over 3 replicas gives [0,1], [2,3], [] and [4,5], [6,7], []. The caller
 * sets the dataset's stages; its batch is at most the trainer's global batch. The dataset is borrowed until the result
 * is destroyed, and nobody else uses it meanwhile. The trainer must outlive the result. Errors: MISMATCH (samples or
 * labels do not fit the trainer), ARGUMENT (a batch that is too large), MEMORY. */
CLQ_API clq_status clq_distribute_dataset(clq_trainer *trainer, clq_dataset *dataset, clq_distributed_dataset **out);

/* How many input pipelines there are (tf.distribute's InputReplicationMode). PER_WORKER: one for this machine, whose
 * batches go to the replicas round-robin. PER_REPLICA: one each. The order is part of the binary interface. */
typedef enum clq_input_replication { CLQ_INPUT_PER_WORKER, CLQ_INPUT_PER_REPLICA } clq_input_replication;
/* For which pipeline a dataset is made (tf.distribute's InputContext). */
typedef struct clq_input_context {
    unsigned index, pipelines; /* this pipeline, from 0; how many there are */
    unsigned replicas;         /* that train together */
} clq_input_context;
/* A replica's part of a global batch. Errors: ARGUMENT (the replicas do not divide it). */
CLQ_API clq_status clq_input_batch_per_replica(const clq_input_context *input, size_t global_batch, size_t *out);
/* Makes the dataset of one pipeline. *out: its stages are set, and its batch is the samples of one replica. The
 * distributed dataset owns it from then on; it is destroyed where this function or a later one fails. Returning other
 * than CLQ_OK ends clq_distribute_function with that status. */
typedef clq_status (*clq_dataset_function)(void *context, const clq_input_context *input, clq_dataset **out);
/* From a function that makes a dataset for each pipeline; it is called for all of them, in their order, before this
 * call returns (tf.distribute's distribute_datasets_from_function). A batch of a pipeline goes to one replica. The
 * function decides which samples a pipeline has. Errors: ARGUMENT (a batch that is larger than a replica's share of the
 * global batch), MISMATCH, MEMORY, and what the function returned. */
CLQ_API clq_status clq_distribute_function(clq_trainer *trainer, clq_input_replication replication,
                                           clq_dataset_function function, void *context, clq_distributed_dataset **out);
CLQ_API void clq_distributed_destroy(clq_distributed_dataset *data); /* takes NULL; before a dataset that it borrows */

/* The next batch in parts, borrowed until the next call. *more is false at the end of the epoch (batch untouched); the
 * call after that begins the next epoch. Where pipelines end at different times, or in the middle of a turn, the
 * replicas that are left without a batch get none; where all pipelines drop their remainders, the epoch ends there, as
 * in TensorFlow with batches of one static size. Errors: MEMORY, SYSTEM (as clq_dataset_next). */
CLQ_API clq_status clq_distributed_next(clq_distributed_dataset *data, clq_distributed_batch *batch, bool *more);

/* ---- a model in parts ----
 * Model parallelism by hand: a trainer for each part of a model (clq_trainer_config.parts), each on a device of its
 * own, and a step that the caller carries from part to part. In PyTorch: y = a(x); loss = f(b(y)); loss.backward();
 * then a step of the optimizers of a and b. Here, with `y` and its gradient `dy` from clq_part_values_create(a,
 * CLQ_PART_OUTPUT, …):
 *
 *     clq_part_forward(a, &batch, NULL, y);     this part takes the batch's samples,
 *     clq_part_forward(b, &batch, y, NULL);     and this one its labels: clq_step_read(b, &info) tells the loss
 *     clq_part_backward(b, NULL, dy);           the gradient of the batch's mean loss by y,
 *     clq_part_backward(a, dy, NULL);           from which the first part goes on
 *     clq_step_apply(a);                        each updates its own variables
 *     clq_step_apply(b);
 *
 * Trainers of the parts of a model are made from that model, or one that was built alike, and from configs that differ
 * in the part, and otherwise only in the optimizer and in what is about the device. Variables, their first values and
 * the random numbers of dropout are then those of the whole model, and such steps equal those of one trainer that has
 * it. What else takes a trainer works with one of a part, for the variables that the part has; but not what makes whole
 * steps or walks over datasets (clq_step and its parts but clq_step_apply, clq_fit, clq_evaluate, clq_predict, clq_run
 * and the like): STATE.
 *
 * The calls below wait until they have read and written the values that they are given; without values to write they
 * return before the device is done. */

/* What crosses between two parts, of a batch, or its gradient: for each tensor that is made in front of the cut and
 * read behind it, rows of f32 in the host's memory. With a skip connection over the cut there are several. */
typedef struct clq_part_values clq_part_values;
/* The order is part of the binary interface. */
typedef enum clq_part_side { CLQ_PART_INPUT, CLQ_PART_OUTPUT } clq_part_side;
/* For what crosses in front of the trainer's part, or behind it, which is what the next part has in front: room for the
 * trainer's global batch, all 0, of no rows. The caller's, to be destroyed before the model. Errors: STATE (the trainer
 * has no part of a model), ARGUMENT (the model begins or ends there), MEMORY. */
CLQ_API clq_status clq_part_values_create(const clq_trainer *trainer, clq_part_side side, clq_part_values **out);
CLQ_API void clq_part_values_destroy(clq_part_values *values);         /* takes NULL */
CLQ_API unsigned clq_part_values_count(const clq_part_values *values); /* tensors that cross: at least 1 */
typedef struct clq_part_tensor {
    const char *name;  /* of the layer that made it; the model's */
    clq_shape shape;   /* without the batch */
    size_t elements;   /* product of shape */
    bool has_gradient; /* it depends on trainable variables; else its gradient is not computed, and stands as 0 */
} clq_part_tensor;
/* Errors: ARGUMENT (no such tensor). */
CLQ_API clq_status clq_part_values_tensor(const clq_part_values *values, unsigned index, clq_part_tensor *out);
/* The tensor's rows (global batch, elements), of which the first are in use; to be read and written. NULL: no such
 * tensor. */
CLQ_API float *clq_part_values_of(clq_part_values *values, unsigned index);
/* Rows in use: as of the batch of the call that wrote them, or set by who writes values by hand. Errors: ARGUMENT (more
 * than there is room for). */
CLQ_API size_t clq_part_values_rows(const clq_part_values *values);
CLQ_API clq_status clq_part_values_set_rows(clq_part_values *values, size_t rows);

/* Forward in training mode. batch: of 1 to global_batch samples; a part looks at its samples where it has the model's
 * input, at its labels where it has an output of the model, and else at its count; borrowed until the call returns.
 * input: NULL for the first part; output: NULL for the last. Behind it clq_step_read tells the losses of the outputs
 * that the part has; those of all parts add up to the model's. It forgets a forward pass that no backward pass
 * followed, and a gradient that no update followed; moving statistics of batch normalisation have followed each pass.
 * Errors: STATE (the trainer has no part of a model, or is inference-only), ARGUMENT (a batch of no samples or of too
 * many; input or output is missing, or given where the model begins or ends), MISMATCH (the batch; values of another
 * cut, or of another number of rows), … */
CLQ_API clq_status clq_part_forward(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                    clq_part_values *output);
/* Backward through what went forward last, once. output: the gradient of the batch's mean loss by the part's output, as
 * the next part gives it; NULL for the last. input: where the gradient by the part's input goes; NULL where it is not
 * wanted, and for the first. Then clq_trainer_get_gradient tells the part's gradient, and clq_step_apply makes its
 * update. Errors: STATE (no clq_part_forward in front of it), ARGUMENT and MISMATCH (likewise), … */
CLQ_API clq_status clq_part_backward(clq_trainer *trainer, const clq_part_values *output, clq_part_values *input);

/* Forward in inference mode, with the losses and metrics of the outputs that the part has. What went forward for a
 * backward pass is forgotten. The first call plans the part for evaluation. Errors: as clq_part_forward. */
CLQ_API clq_status clq_part_evaluate_sized(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                           clq_part_values *output, clq_totals *out, size_t out_bytes);
static inline clq_status clq_part_evaluate(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                           clq_part_values *output, clq_totals *out) {
    return clq_part_evaluate_sized(trainer, batch, input, output, out, sizeof *out);
}
/* Likewise without labels: out[i] gets output i of the model (count, elements), where the part has it; NULL, or out
 * NULL: it is not wanted. */
CLQ_API clq_status clq_part_predict(clq_trainer *trainer, const clq_batch *batch, const clq_part_values *input,
                                    clq_part_values *output, float *const *out);

#ifdef __cplusplus
}
#endif
#endif
