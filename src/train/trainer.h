/* A trainer's inside. Private to train. */
#ifndef CLQ_TRAIN_TRAINER_H
#define CLQ_TRAIN_TRAINER_H

#include "train/train.h"

/* Rows of the metrics buffer: how many steps may pass before the host must read them. */
enum { CLQ_METRIC_SLOTS = 1024 };

/* How far the gradient of the next update is. */
typedef enum clq_gradient_state {
    CLQ_GRADIENT_NONE,  /* not made since the last update */
    CLQ_GRADIENT_PARTS, /* each replica has its own part of the sum */
    CLQ_GRADIENT_SUM    /* each replica has the sum */
} clq_gradient_state;

struct clq_trainer {
    const clq_model *model;
    clq_trainer_config config;
    clq_loss_problem loss;
    clq_update_problem update;
    clq_strategy *strategy;
    uint64_t step;       /* updates so far */
    uint64_t rows;       /* metrics rows written so far; row k is slot k % CLQ_METRIC_SLOTS */
    size_t last_count;   /* samples of the last gradients; 0: there were none */
    uint64_t last_row;   /* their metrics row, */
    bool last_kept;      /* an evaluation came after them and may reuse the slot: */
    double last_sums[2]; /* then this is what the row held */
    clq_gradient_state gradient;
    struct clq_metrics *metrics; /* those under way: of the epoch that is trained, or of an evaluation; NULL: none */
    const clq_dataset *rows_of;  /* the dataset whose rows replicas copy while clq_fit runs; NULL: none */
    double created;              /* from where a trace counts; clq_now */
    clq_timeline input;          /* waiting for batches, while a trace is recorded */
    float *one_hot;              /* (global batch, classes): where integer labels become rows; NULL until needed */
};

/* STATE while metrics are under way, so inside clq_fit's callbacks: a step of the caller's own would count as one of
 * the epoch's, or of the evaluation's. `call` is the function that the caller called. */
clq_status clq_trainer_refuse_in_callback(const clq_trainer *trainer, const char *call);
/* Checks that batches of a dataset fit the model and the trainer. */
clq_status clq_trainer_check_dataset(const clq_trainer *trainer, const clq_dataset *dataset);
/* The batch as the strategy takes it, checked; borrowed like `batch`, until the next call. labels:
 * whether they matter. */
clq_status clq_trainer_take_batch(clq_trainer *trainer, const clq_batch *batch, bool labels, clq_batch *out);
/* clq_step, for clq_fit. */
clq_status clq_trainer_step_batch(clq_trainer *trainer, const clq_batch *batch);
/* The same on rows of a dataset that was checked, which stay where they are until the trainer was waited for. Only for
 * datasets whose labels the loss takes as they are. */
clq_status clq_trainer_step_rows(clq_trainer *trainer, const clq_rows *rows);
/* Before an evaluation: keeps what clq_step_read tells of the last step. */
clq_status clq_trainer_keep_last_step(clq_trainer *trainer);
bool clq_trainer_takes_rows(const clq_trainer *trainer, const clq_dataset *dataset);
clq_status clq_trainer_set_initial_weights(clq_trainer *trainer);
/* Of the next gradients and of the update that they are for. */
clq_step_params clq_trainer_next_params(const clq_trainer *trainer);
/* The rate of update `step` (from 1) as the update kernels take it. */
float clq_optimizer_rate(const clq_optimizer *optimizer, uint64_t step);

/* Loss and right answers of many batches, summed in double. The trainer's rows belong to the metrics that were started
 * last; those that they interrupt (an epoch, when a callback of clq_fit evaluates) go on behind them. */
typedef struct clq_metrics {
    struct clq_metrics *interrupted; /* NULL: none */
    uint64_t first;                  /* the first row not yet collected */
    double loss, correct;
    size_t samples; /* the collected rows' samples */
    size_t pending[CLQ_METRIC_SLOTS];
} clq_metrics;
/* What succeeded is ended by clq_metrics_end, whatever happens between. */
clq_status clq_metrics_start(clq_metrics *metrics, clq_trainer *trainer);
/* After each batch: notes its samples; collects when all rows are in use. */
clq_status clq_metrics_note(clq_metrics *metrics, clq_trainer *trainer, size_t samples);
clq_status clq_metrics_collect(clq_metrics *metrics, clq_trainer *trainer);
void clq_metrics_end(clq_metrics *metrics, clq_trainer *trainer); /* the sums stay */

#endif
