/* The trainer's struct, and the functions that train's files share. Private to train. */
#ifndef CLQ_TRAIN_TRAINER_H
#define CLQ_TRAIN_TRAINER_H

#include "train/train.h"

/* Room for a word of an option's text, such as a metric's name, and for a value's name: an output's name, '_' and a
 * metric's name. */
enum { CLQ_WORD_MAX = 48, CLQ_VALUE_NAME_MAX = CLQ_LAYER_NAME_MAX + CLQ_WORD_MAX };
/* Rows of the metrics buffer. Each batch writes one row, so the host must read the rows after this many batches. */
enum { CLQ_METRIC_SLOTS = 1024 };

/* How much of the next update's gradient is done. */
typedef enum clq_gradient_state {
    CLQ_GRADIENT_NONE,  /* not computed since the last update */
    CLQ_GRADIENT_PARTS, /* each replica has its own part of the sum */
    CLQ_GRADIENT_SUM    /* each replica has the sum over all replicas */
} clq_gradient_state;

/* The place of a matrix's counts in a row of metrics: classes * classes numbers from `at` on. */
typedef struct clq_matrix_place {
    size_t classes, at;
} clq_matrix_place;
enum { CLQ_MATRIX_SOURCES = CLQ_MATRIX_OF_EVALUATION + 1 };

struct clq_trainer {
    const clq_model *model;
    clq_trainer_config config;
    clq_loss_problem losses[CLQ_MODEL_OUTPUTS_MAX]; /* by output of the model */
    clq_strategy *strategy;
    clq_optimizer others[CLQ_OPTIMIZERS_MAX - 1]; /* (other_count) optimizers besides the config's */
    unsigned other_count;
    double main_rate;                      /* the config's lr; the rates of `others` change in proportion to it */
    char *optimizer_text;                  /* the optimizers' names, which a checkpoint's must equal */
    json_t *settings;                      /* texts by name (clq_settings_record), which checkpoints compare */
    uint64_t step;                         /* updates so far */
    bool labels_are_samples;               /* of the current training set, or the last one */
    bool rate_set;                         /* clq_trainer_set_learning_rate has changed the config's rate */
    double last_rate;                      /* learning rate of the last update; not set before the first */
    double asked_rate;                     /* what config.learning_rate gave for update asked_step - 1 */
    uint64_t asked_step;                   /* 0: learning_rate is to be called, whatever the update is */
    uint64_t rows;                         /* metrics rows written so far; row k is slot k % CLQ_METRIC_SLOTS */
    size_t accumulated;                    /* batches whose gradients are accumulated for the next update */
    size_t last_count;                     /* samples of the last update, complete or begun; 0: there was none */
    uint32_t last_slot;                    /* of the metrics row of the last update's last batch */
    uint32_t last_rows;                    /* rows of that update that are not in last_sums; the last is last_slot */
    double last_sums[CLQ_METRICS_ROW_MAX]; /* sums of its rows that were read before their slots are reused */
    char metric_names[CLQ_METRIC_VALUES_MAX][CLQ_VALUE_NAME_MAX];
    unsigned metric_count; /* names in metric_names */
    /* (matrix_count) metrics that are matrices, and the last totals that have their counts: matrices.c */
    char matrix_names[CLQ_METRIC_VALUES_MAX][CLQ_VALUE_NAME_MAX];
    clq_matrix_place matrices[CLQ_METRIC_VALUES_MAX];
    unsigned matrix_count;
    double *counted[CLQ_MATRIX_SOURCES]; /* NULL without matrices; has_counted: the totals are set */
    bool has_counted[CLQ_MATRIX_SOURCES];
    clq_gradient_state gradient;
    size_t forwarded;            /* samples of a part's forward pass that has no backward pass yet; 0: none */
    bool running;                /* the caller's function runs on the replicas (run.c) */
    struct clq_metrics *metrics; /* of the epoch or the evaluation under way; NULL: none */
    bool check_is_due;           /* the replicas' weights are to be compared */
    bool fitting, stop;          /* clq_fit is under way, and was told to stop */
    atomic_bool interrupted;     /* clq_trainer_stop was called, and no outermost call has ended since */
    uint64_t diverged;           /* the first update of the last clq_fit whose loss was not finite; 0: none */
    const clq_dataset *rows_of;  /* while clq_fit runs: the dataset that replicas copy rows from; NULL: none */
    double created;              /* clq_now when it was created: time 0 of a trace */
    clq_timeline input;          /* the host's waits for batches, while a trace is recorded */
    double *class_weights;       /* (config.class_weight_count); NULL: none */
    /* By output: room for a global batch's labels in the form that the loss takes; NULL until needed. */
    float *targets[CLQ_MODEL_OUTPUTS_MAX];
    struct clq_parts *parts;       /* the parts that were taken last; NULL until needed */
    struct clq_sharding *sharding; /* NULL: every process has the whole batch (sharding.h) */
};

/* Writes the losses of the model's outputs, with all numbers that they take. validation: the set that they are of;
 * NULL: training (checkpoint_state.c). */
void clq_trainer_describe_losses(const clq_trainer *trainer, const clq_dataset *validation, clq_text *text);
/* Whether labels are the samples themselves. validation: as above. */
bool clq_trainer_labels_are_samples(const clq_trainer *trainer, const clq_dataset *validation);

/* mixed.c: the config's precision, and what it means for plans. */
clq_status clq_mixed_check(const clq_trainer_config *config);
clq_dtype clq_mixed_activations(clq_precision precision);
clq_loss_scaling clq_mixed_scaling(const clq_trainer_config *config);

/* Tells the other processes that this process could not make its trainer: they learn of the failure `status` in their
 * first collective. turns: clq_world_turns before the attempt. Returns the status to report. */
clq_status clq_trainer_end_world(clq_world *world, uint64_t turns, clq_status status);

/* Refuses a call with STATE in three cases. The trainer has a part of a model: then the caller carries each step from
 * part to part. A function runs on the replicas: the call would wait for the function that makes it. Metrics are under
 * way, as in on_step, on_progress and on_log of clq_fit: a step of the caller's would count as one of the epoch or
 * evaluation. call: the refused function's name. */
clq_status clq_trainer_refuse_call(const clq_trainer *trainer, const char *call);
/* STATE if gradients are not summed over the replicas: local_steps with several replicas. */
clq_status clq_trainer_refuse_local_steps(const clq_trainer *trainer);
/* Checks that batches of a dataset fit the model and the trainer. labels: checks the labels, too. */
clq_status clq_trainer_check_dataset(const clq_trainer *trainer, const clq_dataset *dataset, bool labels);
/* Errors: ARGUMENT (no samples, or more than the global batch). */
clq_status clq_trainer_check_size(const clq_trainer *trainer, size_t samples);
/* What a batch is used for. PREDICT ignores labels; TRAIN alone uses class weights. */
typedef enum clq_batch_use { CLQ_TO_PREDICT, CLQ_TO_EVALUATE, CLQ_TO_TRAIN } clq_batch_use;
/* A checked batch as rows. Do not copy the struct: rows.arrays points to `arrays`. */
typedef struct clq_checked_batch {
    clq_rows rows;
    const char *arrays[CLQ_FEED_MAX];
} clq_checked_batch;
/* Checks the batch, and converts its labels to the form that the loss takes; if losses are weighted, each sample's
 * weight comes after its label. *out borrows from `batch`, and from the trainer until the next call. */
clq_status clq_trainer_take_batch(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use,
                                  clq_checked_batch *out);
/* The same for a trainer with a part of a model: samples and labels are read only if the part uses them. */
clq_status clq_trainer_take_part_batch(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use,
                                       clq_checked_batch *out);
/* Each replica's part of a batch, checked. Do not copy this struct, either. */
typedef struct clq_parts {
    clq_rows rows[CLQ_REPLICAS_MAX];
    const char *arrays[CLQ_REPLICAS_MAX][CLQ_FEED_MAX];
    size_t total; /* samples */
} clq_parts;
/* Checks parts (replicas) of a batch, and converts their labels. A part of count 0 has no samples. *out borrows as in
 * clq_trainer_take_batch. Errors: ARGUMENT (no samples; more than a replica, or all of them, have room for), MISMATCH,
 * MEMORY. */
clq_status clq_trainer_take_parts(clq_trainer *trainer, const clq_batch *parts, clq_batch_use use, clq_parts *out);
/* The work of clq_step, or, if the batch does not end an update, of clq_step_accumulate. */
clq_status clq_trainer_step_batch(clq_trainer *trainer, const clq_batch *batch, bool ends);
/* The same for rows of a dataset that was checked. The rows stay where they are until the caller has waited for the
 * trainer. Only for datasets whose labels the loss takes as they are (clq_trainer_takes_rows). */
clq_status clq_trainer_step_rows(clq_trainer *trainer, const clq_rows *rows, bool ends);
/* How many batches clq_fit accumulates for an update: at least 1. */
size_t clq_trainer_batches_of_update(const clq_trainer *trainer);
/* Drops the batches that were accumulated for the next update. */
void clq_trainer_forget_accumulated(clq_trainer *trainer);
/* After an update: compares the replicas' weights if that is due (clq_trainer_config.check_replicas). */
clq_status clq_trainer_check_replicas(clq_trainer *trainer);
/* Saves the last step's sums for clq_step_read. Called before rows of metrics are reused or cleared, as by an
 * evaluation. */
clq_status clq_trainer_keep_last_step(clq_trainer *trainer);
/* Copies all variables into one block, which the caller frees with clq_free. *values: NULL, or the block of an earlier
 * call, which is freed. */
clq_status clq_trainer_copy_weights(clq_trainer *trainer, float **values);
clq_status clq_trainer_put_weights(clq_trainer *trainer, const float *values); /* writes such a block to all replicas */
/* Reads such a block from a file of weights, which must have all variables. The caller frees *values with clq_free.
 * Errors: those of clq_trainer_load. (weight_files.c) */
clq_status clq_read_weights_file(const clq_model *model, const char *path, float **values);
/* Writes "128, 256", cut off at `bytes`. */
void clq_describe_dims(char *text, size_t bytes, unsigned rank, const size_t *dims);
/* Checks that a tensor of the file `path` has the variable's shape. Errors: MISMATCH, with both shapes. */
clq_status clq_check_tensor_shape(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path);
/* Reads a tensor of the file `path` as the variable's values, as float32. Errors: MISMATCH (type, shape), FORMAT (a
 * value that is not finite). */
clq_status clq_read_weights(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path,
                            float *out);
/* Checks that each of the file's tensors whose name begins with `prefix` continues with a variable's name. Errors:
 * MISMATCH. */
clq_status clq_refuse_strangers(const clq_model *model, const clq_safetensors *file, const char *path,
                                const char *prefix);
bool clq_trainer_takes_rows(const clq_trainer *trainer, const clq_dataset *dataset);
clq_status clq_trainer_set_initial_weights(clq_trainer *trainer);
/* Called after each batch whose gradients were computed. ends: the batch is the last of its update. */
void clq_trainer_end_batch(clq_trainer *trainer, size_t samples, bool ends);
/* The parameters of the next forward pass. They have no learning rates, so a learning_rate function is not called. */
clq_step_params clq_trainer_forward_params(const clq_trainer *trainer);
/* The parameters of the next gradients, and of the update that they are for. */
clq_step_params clq_trainer_next_params(clq_trainer *trainer);
/* A list of numbers that a schedule takes as "key=1/2/3". */
typedef struct clq_lr_list {
    const char *key; /* NULL: the end of the lists */
    unsigned first;  /* index of the first number in `values` */
    unsigned most;   /* the most numbers in the list */
    double min, max; /* range of each number; after the last number, `values` has 0 */
} clq_lr_list;
typedef struct clq_lr_schedule_row {
    const char *name;
    clq_option options[CLQ_HYPERPARAMETERS_MAX + 1];
    clq_lr_list lists[3]; /* instead of options: a schedule has one or the other */
    double (*rate)(const double *values, double lr, double step); /* rate of update `step`, from 0 */
    /* Checks what the ranges of options and lists cannot express; NULL: nothing. */
    clq_status (*check)(const double *values);
} clq_lr_schedule_row;
size_t clq_lr_schedule_count(void);
const clq_lr_schedule_row *clq_lr_schedule_row_of(clq_lr_schedule_kind kind);
/* The learning rate of update `step`, from 0. lr: the optimizer's rate. */
double clq_lr_schedule_rate(const clq_lr_schedule *schedule, double lr, uint64_t step);
/* The rate of update `step` within the warm-up, and how many updates the warm-up has. first: the schedule's first
 * rate. */
double clq_lr_warmup_rate(const clq_lr_schedule *schedule, double first, uint64_t step);
uint64_t clq_lr_warmup_steps(const clq_lr_schedule *schedule);

/* Errors: ARGUMENT (names the hyper-parameter, or the option, that is out of its range). */
clq_status clq_optimizer_check(const clq_optimizer *optimizer);
clq_status clq_lr_schedule_check(const clq_lr_schedule *schedule);
clq_status clq_loss_check(const clq_loss *loss);
clq_status clq_clip_check(const clq_clip *clip);
clq_status clq_average_check(double momentum); /* average.c */
/* How far update `step`, from 1, moves the average towards the weights: 1, all the way, in the first. */
float clq_average_part(const clq_trainer_config *config, uint64_t step);
/* optimizers.c: takes the config's optimizers, and sets the optimizer of each variable in treatments (variables).
 * Errors: ARGUMENT (a name that no variable has, …), MEMORY. */
clq_status clq_trainer_take_optimizers(clq_trainer *trainer, const clq_trainer_config *config,
                                       clq_treatment *treatments);
/* Sets the rates of all optimizers for update `step`, from 1. rate: the main optimizer's learning rate. */
void clq_trainer_set_rates(const clq_trainer *trainer, double rate, uint64_t step, clq_step_params *params);
/* updates.c: how updates treat each variable by the config: *out (variables), which the caller frees. Takes the
 * config's optimizers, too. Errors: ARGUMENT (a name that no variable has, …), MEMORY. */
clq_status clq_trainer_treat(clq_trainer *trainer, const clq_trainer_config *config, clq_treatment **out);
/* Fills trainer->losses, metric_names and the matrices from the config and the model's outputs. */
clq_status clq_trainer_set_measures(clq_trainer *trainer, const clq_trainer_config *config);
/* How many floats a row of metrics has. */
static inline unsigned clq_trainer_width(const clq_trainer *trainer) {
    return clq_losses_width(trainer->losses, trainer->model->output_count);
}
/* Computes loss and metrics from totals over `samples` samples. */
void clq_trainer_tell(const clq_trainer *trainer, const double *totals, size_t samples, double *loss,
                      clq_metric_values *metrics);
/* matrices.c: finds the places of matrices in rows of metrics. Called when names and losses are set. Errors: MEMORY. */
clq_status clq_trainer_set_matrices(clq_trainer *trainer);
/* Keeps the totals of an epoch or evaluation for clq_trainer_read_matrix. */
void clq_trainer_keep_matrices(clq_trainer *trainer, clq_matrix_source source, const double *totals);
/* Takes a matrix's counts out of such totals. Errors: ARGUMENT (no such matrix). */
clq_status clq_trainer_take_matrix(const clq_trainer *trainer, const double *totals, size_t index, uint64_t *counts);
/* Checks a config as far as no model is needed. Errors: ARGUMENT, UNSUPPORTED. (trainer_config.c) */
clq_status clq_trainer_check_config(const clq_trainer_config *config);

/* The learning rate of the last update; before any update, that of the first. */
double clq_trainer_learning_rate(clq_trainer *trainer);
/* Whether a schedule, a warm-up or a learning_rate function sets the rate. If so, clq_trainer_set_learning_rate
 * fails. */
bool clq_trainer_has_schedule(const clq_trainer *trainer);
/* Sets which replica's gradient a step's update was made by, its staleness, and how many samples went into it. */
void clq_trainer_tell_origin(const clq_trainer *trainer, uint32_t slot, clq_step_info *info);
/* The gradient's L2 norm, from the squares that clq_strategy_read_figures gives; NaN if it is not measured. */
double clq_trainer_norm(const clq_trainer *trainer, const float *squares);

/* A fit's steps for its on_log, oldest first (log.c). A step is noted when it was made, filled in when its rows of
 * metrics were read, and then told, in order. Without on_log the log stays empty. */
typedef struct clq_fit_log {
    const clq_fit_config *config;
    uint32_t every;       /* rows are read when this many steps are noted */
    double every_s;       /* rows are also read this many seconds after the last read */
    bool is_counted;      /* several processes: every_s does not count, as all must read after the same step */
    double read_at;       /* clq_now of the epoch's last read; before it, the epoch's start */
    double last_ended;    /* the end of the epoch's last filled step; before it, the epoch's start */
    clq_step_info *steps; /* (every) */
    size_t noted, filled, told;
    double totals[CLQ_METRICS_ROW_MAX]; /* of the next step to fill in: sums of its rows that were read */
    bool refused;                       /* on_log returned a failure */
} clq_fit_log;
/* The caller frees log->steps in any case. Errors: ARGUMENT (log_every_s), MEMORY. */
clq_status clq_fit_log_open(clq_fit_log *log, const clq_fit_config *config, bool is_counted);
void clq_fit_log_note(clq_fit_log *log, clq_trainer *trainer, size_t samples); /* after each step */
/* Adds the next row of metrics to the next step. ends: it is the step's last row. Called directly after the row's
 * figures were read. */
void clq_fit_log_fill(clq_fit_log *log, const clq_trainer *trainer, uint32_t slot, const double *row,
                      const float *squares, bool ends);
bool clq_fit_log_is_due(const clq_fit_log *log); /* whether to read rows now */
clq_status clq_fit_log_tell(clq_fit_log *log);   /* tells the steps that are filled in; returns what on_log returned */

/* Totals of many batches, summed in double. The trainer's new rows belong to the metrics that were started last.
 * Metrics that these interrupt go on after them. */
typedef struct clq_metrics {
    struct clq_metrics *interrupted; /* NULL: none */
    clq_fit_log *log;                /* of a fit, whose rows are of steps: the steps are noted there; NULL: none */
    uint64_t first;                  /* the first row not yet collected */
    double totals[CLQ_METRICS_ROW_MAX];
    size_t samples;                     /* samples of the collected rows, in this process */
    size_t pending[CLQ_METRIC_SLOTS];   /* by slot: samples of the row */
    bool ends[CLQ_METRIC_SLOTS];        /* by slot: the row is the last of a step */
    bool trains;                        /* rows are of training steps */
    uint64_t updates[CLQ_METRIC_SLOTS]; /* by slot, if `trains`: the number of the row's update */
} clq_metrics;
/* If it succeeds, the caller must call clq_metrics_end, even if something fails in between. */
clq_status clq_metrics_start(clq_metrics *metrics, clq_fit_log *log, clq_trainer *trainer);
/* Called after each batch: notes its samples, and the step that ended with it. Collects rows if all are in use. */
clq_status clq_metrics_note(clq_metrics *metrics, clq_trainer *trainer, size_t samples);
clq_status clq_metrics_collect(clq_metrics *metrics, clq_trainer *trainer);
/* The collected totals and samples, summed over all processes, which all call it. totals: (CLQ_METRICS_ROW_MAX). */
clq_status clq_metrics_of_all(const clq_metrics *metrics, const clq_trainer *trainer, double *totals, size_t *samples);
/* Replaces the metrics' own totals by those of all processes. Called once, at the end. */
clq_status clq_metrics_add_up(clq_metrics *metrics, clq_trainer *trainer);
/* After a failure of the strategy: collects the rows of finished steps, if they can still be read from the devices. */
void clq_metrics_rescue(clq_metrics *metrics, clq_trainer *trainer);
void clq_metrics_end(clq_metrics *metrics, clq_trainer *trainer); /* the totals stay */

#endif
