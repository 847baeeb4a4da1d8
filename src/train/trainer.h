/* A trainer's inside. Private to train. */
#ifndef CLQ_TRAIN_TRAINER_H
#define CLQ_TRAIN_TRAINER_H

#include "train/train.h"

/* A word of an option's text, a metric's among them; a value's name: an output's name, '_' and a metric's. */
enum { CLQ_WORD_MAX = 48, CLQ_VALUE_NAME_MAX = CLQ_LAYER_NAME_MAX + CLQ_WORD_MAX };
/* Rows of the metrics buffer: how many steps may pass before the host must read them. */
enum { CLQ_METRIC_SLOTS = 1024 };

/* How far the gradient of the next update is. */
typedef enum clq_gradient_state {
    CLQ_GRADIENT_NONE,  /* not made since the last update */
    CLQ_GRADIENT_PARTS, /* each replica has its own part of the sum */
    CLQ_GRADIENT_SUM    /* each replica has the sum */
} clq_gradient_state;

/* A matrix's counts in a row of metrics: classes * classes of them. */
typedef struct clq_matrix_place {
    size_t classes, at;
} clq_matrix_place;
enum { CLQ_MATRIX_SOURCES = CLQ_MATRIX_OF_EVALUATION + 1 };

struct clq_trainer {
    const clq_model *model;
    clq_trainer_config config;
    clq_loss_problem losses[CLQ_MODEL_OUTPUTS_MAX]; /* by output of the model */
    clq_strategy *strategy;
    clq_optimizer others[CLQ_OPTIMIZERS_MAX - 1]; /* (other_count) optimizers beside the config's */
    unsigned other_count;
    double main_rate;                      /* the config's lr, to which the rates of `others` keep their relation */
    char *optimizer_text;                  /* what checkpoints tell trainings apart by */
    json_t *settings;                      /* likewise: texts by name, as settings.h records them */
    uint64_t step;                         /* updates so far */
    bool labels_are_samples;               /* of the training set that it has, or had last */
    bool rate_set;                         /* by hand: the optimizer's is no longer the config's */
    double last_rate;                      /* learning rate of the last; before the first, nothing */
    double asked_rate;                     /* what learning_rate gave for update asked_step - 1 */
    uint64_t asked_step;                   /* 0: learning_rate was not called yet */
    uint64_t rows;                         /* metrics rows written so far; row k is slot k % CLQ_METRIC_SLOTS */
    size_t accumulated;                    /* batches that are part of the next update: their gradients are made */
    size_t last_count;                     /* samples of the last update, made or begun; 0: there was none */
    uint32_t last_slot;                    /* of the metrics row of the last update's last batch */
    uint32_t last_rows;                    /* rows of that update that are not read yet; the last is last_slot */
    double last_sums[CLQ_METRICS_ROW_MAX]; /* sums of its rows that were read, as other rows may reuse their slots */
    char metric_names[CLQ_METRIC_VALUES_MAX][CLQ_VALUE_NAME_MAX];
    unsigned metric_count; /* of these names */
    /* (matrix_count) metrics that are matrices, and the last rows of metrics that have them: matrices.c */
    char matrix_names[CLQ_METRIC_VALUES_MAX][CLQ_VALUE_NAME_MAX];
    clq_matrix_place matrices[CLQ_METRIC_VALUES_MAX];
    unsigned matrix_count;
    double *counted[CLQ_MATRIX_SOURCES]; /* NULL without matrices; has_counted: it has a row */
    bool has_counted[CLQ_MATRIX_SOURCES];
    clq_gradient_state gradient;
    size_t forwarded;            /* samples that went forward in a part of a model, and not back yet; 0: none */
    bool running;                /* a function of the caller's on each replica (run.c) */
    struct clq_metrics *metrics; /* those under way: of the epoch that is trained, or of an evaluation; NULL: none */
    bool check_is_due;           /* of the replicas' weights */
    bool fitting, stop;          /* clq_fit is under way, and was told to stop */
    atomic_bool interrupted;     /* clq_trainer_stop was called, and no outermost call has ended since */
    uint64_t diverged;           /* the first update of the last clq_fit whose loss was not finite; 0: none */
    const clq_dataset *rows_of;  /* the dataset whose rows replicas copy while clq_fit runs; NULL: none */
    double created;              /* from where a trace counts; clq_now */
    clq_timeline input;          /* waiting for batches, while a trace is recorded */
    double *class_weights;       /* (config.class_weight_count); NULL: none */
    /* By output, of a global batch: where labels become what the loss takes; NULL until needed. */
    float *targets[CLQ_MODEL_OUTPUTS_MAX];
    struct clq_parts *parts;       /* taken last; NULL until needed */
    struct clq_sharding *sharding; /* NULL: every process has the whole batch (sharding.h) */
};

/* What the losses of the model's outputs are, with all numbers that they take: of a validation on this set, or, NULL,
 * of training (checkpoint_state.c). */
void clq_trainer_describe_losses(const clq_trainer *trainer, const clq_dataset *validation, clq_text *text);
bool clq_trainer_labels_are_samples(const clq_trainer *trainer, const clq_dataset *validation); /* likewise */

/* mixed.c: the config's precision, and what plans are made of it. */
clq_status clq_mixed_check(const clq_trainer_config *config);
clq_dtype clq_mixed_activations(clq_precision precision);
clq_loss_scaling clq_mixed_scaling(const clq_trainer_config *config);

/* A trainer that this process could not make, for `status`: tells the others, which meet it at their first collective.
 * turns: clq_world_turns before. Returns the status to report. */
clq_status clq_trainer_end_world(clq_world *world, uint64_t turns, clq_status status);

/* STATE where the trainer has a part of a model, whose step is the caller's to carry on; while metrics are under way,
 * so inside clq_fit's callbacks: a step of the caller's own would count as one of
 * the epoch's, or of the evaluation's; and by a function that runs on a replica, which would wait for itself. `call` is
 * the function that the caller called. */
clq_status clq_trainer_refuse_call(const clq_trainer *trainer, const char *call);
/* STATE where gradients have no sum over the replicas. */
clq_status clq_trainer_refuse_local_steps(const clq_trainer *trainer);
/* Checks that batches of a dataset fit the model and the trainer. labels: whether they matter. */
clq_status clq_trainer_check_dataset(const clq_trainer *trainer, const clq_dataset *dataset, bool labels);
/* Whether the strategy has room for a batch of so many. */
clq_status clq_trainer_check_size(const clq_trainer *trainer, size_t samples);
/* What a batch is taken for: PREDICT looks at no labels, and TRAIN at the weights of classes, too. */
typedef enum clq_batch_use { CLQ_TO_PREDICT, CLQ_TO_EVALUATE, CLQ_TO_TRAIN } clq_batch_use;
/* A checked batch as rows. rows.arrays points to `arrays`, so do not copy the struct. */
typedef struct clq_checked_batch {
    clq_rows rows;
    const char *arrays[CLQ_FEED_MAX];
} clq_checked_batch;
/* The batch, checked; borrowed like `batch`, until the next call. Labels become what the loss takes, with the samples'
 * weights behind them where losses are weighted. */
clq_status clq_trainer_take_batch(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use,
                                  clq_checked_batch *out);
/* The same where the trainer has a part of a model, as far as the part looks at the batch. */
clq_status clq_trainer_take_part_batch(clq_trainer *trainer, const clq_batch *batch, clq_batch_use use,
                                       clq_checked_batch *out);
/* Each replica's part of a batch, likewise. */
typedef struct clq_parts {
    clq_rows rows[CLQ_REPLICAS_MAX];
    const char *arrays[CLQ_REPLICAS_MAX][CLQ_FEED_MAX];
    size_t total; /* samples */
} clq_parts;
/* parts (replicas), checked, with labels; of count 0: none. Borrowed likewise. Errors: ARGUMENT (no samples; more than
 * a replica, or all of them, have room for), MISMATCH, MEMORY. */
clq_status clq_trainer_take_parts(clq_trainer *trainer, const clq_batch *parts, clq_batch_use use, clq_parts *out);
/* clq_step, for clq_fit, or where it does not end an update clq_step_accumulate. */
clq_status clq_trainer_step_batch(clq_trainer *trainer, const clq_batch *batch, bool ends);
/* The same on rows of a dataset that was checked, which stay where they are until the trainer was waited for. Only for
 * datasets whose labels the loss takes as they are. */
clq_status clq_trainer_step_rows(clq_trainer *trainer, const clq_rows *rows, bool ends);
/* Batches of an update that clq_fit makes: at least 1. */
size_t clq_trainer_batches_of_update(const clq_trainer *trainer);
/* The next update is of no batch so far. */
void clq_trainer_forget_accumulated(clq_trainer *trainer);
/* Behind an update: compares the replicas' weights where it is time to (clq_trainer_config.check_replicas). */
clq_status clq_trainer_check_replicas(clq_trainer *trainer);
/* Before an evaluation: keeps what clq_step_read tells of the last step. */
clq_status clq_trainer_keep_last_step(clq_trainer *trainer);
/* All variables in one block, for clq_free; *values is NULL or the block of an earlier call, whose place it takes. */
clq_status clq_trainer_copy_weights(clq_trainer *trainer, float **values);
clq_status clq_trainer_put_weights(clq_trainer *trainer, const float *values); /* to all replicas */
/* The same block of what a file of weights has, which has all variables. The caller frees *values with clq_free.
 * Errors: as of clq_trainer_load. (weight_files.c) */
clq_status clq_read_weights_file(const clq_model *model, const char *path, float **values);
/* "128, 256"; what does not fit is cut off. */
void clq_describe_dims(char *text, size_t bytes, unsigned rank, const size_t *dims);
/* Of a variable in the file `path`. Errors: MISMATCH, with both shapes. */
clq_status clq_check_tensor_shape(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path);
/* The variable's values, as float32. Errors: MISMATCH (type, shape), FORMAT (a value that is not finite). */
clq_status clq_read_weights(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path,
                            float *out);
/* Of the file's tensors whose names begin with `prefix`, what follows is a variable's name. Errors: MISMATCH. */
clq_status clq_refuse_strangers(const clq_model *model, const clq_safetensors *file, const char *path,
                                const char *prefix);
bool clq_trainer_takes_rows(const clq_trainer *trainer, const clq_dataset *dataset);
clq_status clq_trainer_set_initial_weights(clq_trainer *trainer);
/* Behind each batch that gradients were made of; ends: by the last of its update. */
void clq_trainer_end_batch(clq_trainer *trainer, size_t samples, bool ends);
/* Of the next batch that goes forward: no rates, which nobody is asked for. */
clq_step_params clq_trainer_forward_params(const clq_trainer *trainer);
/* Of the next gradients and of the update that they are for. */
clq_step_params clq_trainer_next_params(clq_trainer *trainer);
/* Numbers that a schedule takes as "key=1/2/3". */
typedef struct clq_lr_list {
    const char *key; /* NULL: behind the last */
    unsigned first;  /* place of `values` */
    unsigned most;   /* numbers */
    double min, max; /* of each that is given; 0 stands behind the last */
} clq_lr_list;
typedef struct clq_lr_schedule_row {
    const char *name;
    clq_option options[CLQ_HYPERPARAMETERS_MAX + 1];
    clq_lr_list lists[3];                                         /* in place of options: a schedule has either */
    double (*rate)(const double *values, double lr, double step); /* of update `step`, from 0 */
    /* What the ranges of the options do not tell; NULL: nothing. */
    clq_status (*check)(const double *values);
} clq_lr_schedule_row;
size_t clq_lr_schedule_count(void);
const clq_lr_schedule_row *clq_lr_schedule_row_of(clq_lr_schedule_kind kind);
/* The learning rate of update `step`, from 0, where the optimizer's is lr. */
double clq_lr_schedule_rate(const clq_lr_schedule *schedule, double lr, uint64_t step);
/* The updates of the warm-up, and the rate of one of these where the schedule's first rate is `first`. */
double clq_lr_warmup_rate(const clq_lr_schedule *schedule, double first, uint64_t step);
uint64_t clq_lr_warmup_steps(const clq_lr_schedule *schedule);

/* ARGUMENT names the hyper-parameter, or the option, that is out of its range. */
clq_status clq_optimizer_check(const clq_optimizer *optimizer);
clq_status clq_lr_schedule_check(const clq_lr_schedule *schedule);
clq_status clq_loss_check(const clq_loss *loss);
clq_status clq_clip_check(const clq_clip *clip);
clq_status clq_average_check(double momentum); /* average.c */
/* Which part of its way to the weights the average goes in update `step`, from 1. */
float clq_average_part(const clq_trainer_config *config, uint64_t step);
/* optimizers.c: takes the config's optimizers, and tells each variable (variables) its own. Errors: ARGUMENT (names of
 * no variable, …), MEMORY. */
clq_status clq_trainer_take_optimizers(clq_trainer *trainer, const clq_trainer_config *config,
                                       clq_treatment *treatments);
/* The rates of all optimizers in update `step`, from 1, where the main one's learning rate is `rate`. */
void clq_trainer_set_rates(const clq_trainer *trainer, double rate, uint64_t step, clq_step_params *params);
/* updates.c: how the config has each variable treated (variables); the caller's. Takes its optimizers. Errors: ARGUMENT
 * (names of no variable, …), MEMORY. */
clq_status clq_trainer_treat(clq_trainer *trainer, const clq_trainer_config *config, clq_treatment **out);
/* Fills trainer->losses and metric_names from the config and the model's outputs. */
clq_status clq_trainer_set_measures(clq_trainer *trainer, const clq_trainer_config *config);
/* Floats of a row of what is measured. */
static inline unsigned clq_trainer_width(const clq_trainer *trainer) {
    return clq_losses_width(trainer->losses, trainer->model->output_count);
}
/* Loss and metrics from their totals, summed over so many samples. */
void clq_trainer_tell(const clq_trainer *trainer, const double *totals, size_t samples, double *loss,
                      clq_metric_values *metrics);
/* matrices.c: finds them in rows of metrics, when names and losses are set. Errors: MEMORY. */
clq_status clq_trainer_set_matrices(clq_trainer *trainer);
/* Keeps what an epoch, or an evaluation, counted: a row of totals. */
void clq_trainer_keep_matrices(clq_trainer *trainer, clq_matrix_source source, const double *totals);
/* A matrix of such a row. Errors: ARGUMENT (no such matrix). */
clq_status clq_trainer_take_matrix(const clq_trainer *trainer, const double *totals, size_t index, uint64_t *counts);
/* Errors: ARGUMENT. (trainer_config.c) */
clq_status clq_trainer_check_config(const clq_trainer_config *config);

/* The learning rate of the last update; before the first, its own. */
double clq_trainer_learning_rate(clq_trainer *trainer);
/* Whether something else than clq_trainer_set_learning_rate sets the rate. */
bool clq_trainer_has_schedule(const clq_trainer *trainer);
/* Which replica a step's update is of, and how many of its samples went into it. */
void clq_trainer_tell_origin(const clq_trainer *trainer, uint32_t slot, clq_step_info *info);
/* The gradient's L2 norm from the squares of clq_strategy_read_figures; NaN where it is not measured. */
double clq_trainer_norm(const clq_trainer *trainer, const float *squares);

/* Steps of a fit for its on_log, oldest first: noted when they were made, filled in when their rows of metrics were
 * read, told in order (log.c). Without on_log it stays empty, and nothing is noted. */
typedef struct clq_fit_log {
    const clq_fit_config *config;
    uint32_t every;       /* steps are read when so many were noted */
    double every_s;       /* they are read so many seconds after the last read, too */
    bool is_counted;      /* but not by the clock: of a fit over several processes, which reads at its meetings */
    double read_at;       /* the last read; before the first, where the epoch began */
    double last_ended;    /* the end of the step before; of the first, where the epoch began */
    clq_step_info *steps; /* (every) */
    size_t noted, filled, told;
    double totals[CLQ_METRICS_ROW_MAX]; /* of the rows of the step to be filled in next that were read already */
    bool refused;                       /* on_log returned a failure */
} clq_fit_log;
/* Free its steps in any case. Errors: ARGUMENT (log_every_s), MEMORY. */
clq_status clq_fit_log_open(clq_fit_log *log, const clq_fit_config *config, bool is_counted);
void clq_fit_log_note(clq_fit_log *log, clq_trainer *trainer, size_t samples); /* after each step */
/* The next row of the next step; ends: its last, of the noted step. Directly after its figures were read. */
void clq_fit_log_fill(clq_fit_log *log, const clq_trainer *trainer, uint32_t slot, const double *row,
                      const float *squares, bool ends);
bool clq_fit_log_is_due(const clq_fit_log *log); /* whether it is time to read */
clq_status clq_fit_log_tell(clq_fit_log *log);   /* what is filled in; what on_log returned */

/* Totals of many batches, summed in double. The trainer's rows belong to the metrics that were started
 * last; those that they interrupt (an epoch, when a callback of clq_fit evaluates) go on behind them. */
typedef struct clq_metrics {
    struct clq_metrics *interrupted; /* NULL: none */
    clq_fit_log *log;                /* of a fit, whose rows are those of steps, which are noted there; NULL: none */
    uint64_t first;                  /* the first row not yet collected */
    double totals[CLQ_METRICS_ROW_MAX];
    size_t samples;                     /* the collected rows' samples, of this process */
    size_t pending[CLQ_METRIC_SLOTS];   /* samples of a row */
    bool ends[CLQ_METRIC_SLOTS];        /* of a fit: a step ends with it */
    bool trains;                        /* rows are of updates */
    uint64_t updates[CLQ_METRIC_SLOTS]; /* the update's number of each row, where `trains` */
} clq_metrics;
/* What succeeded is ended by clq_metrics_end, whatever happens between. */
clq_status clq_metrics_start(clq_metrics *metrics, clq_fit_log *log, clq_trainer *trainer);
/* After each batch: notes its samples, and the step that ended with it; collects when all rows are in use. */
clq_status clq_metrics_note(clq_metrics *metrics, clq_trainer *trainer, size_t samples);
clq_status clq_metrics_collect(clq_metrics *metrics, clq_trainer *trainer);
/* What was collected, of the samples of all processes; called by all. totals: (CLQ_METRICS_ROW_MAX). */
clq_status clq_metrics_of_all(const clq_metrics *metrics, const clq_trainer *trainer, double *totals, size_t *samples);
/* The metrics become that, for good: once. */
clq_status clq_metrics_add_up(clq_metrics *metrics, clq_trainer *trainer);
/* After a failure of the strategy: the rows of steps that were finished, where the devices still have them. */
void clq_metrics_rescue(clq_metrics *metrics, clq_trainer *trainer);
void clq_metrics_end(clq_metrics *metrics, clq_trainer *trainer); /* the sums stay */

#endif
