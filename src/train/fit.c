/* fit, evaluate, predict: loops over a dataset. */
#include "train/trainer.h"

/* How often progress is told and metrics are collected for it. */
static const double progress_every_s = 0.25;

typedef struct run {
    clq_trainer *trainer;
    clq_dataset *data;
    const clq_fit_config *config;
    clq_metrics metrics;
    double started, input_s;
    double told; /* when progress was last told; 0: not yet */
    uint64_t epoch, epochs, batch;
    bool by_rows; /* replicas copy their rows themselves */
} run;

/* A batch of the dataset, assembled or where it lies. */
typedef struct piece {
    clq_batch batch;
    clq_rows rows;
    size_t count;
} piece;

static clq_totals totals_of(const clq_metrics *metrics, double seconds, double input_s) {
    double samples = metrics->samples ? (double)metrics->samples : 1.0;
    return (clq_totals){.loss = metrics->loss / samples,
                        .accuracy = metrics->correct / samples,
                        .samples = metrics->samples,
                        .seconds = seconds,
                        .input_s = input_s};
}

static clq_status tell_progress(run *r) {
    double now = clq_now();
    if (!r->config->on_progress || (r->told > 0.0 && now - r->told < progress_every_s)) return CLQ_OK;
    CLQ_TRY(clq_metrics_collect(&r->metrics, r->trainer));
    r->told = now;
    clq_progress progress = {.epoch = r->epoch,
                             .epochs = r->epochs,
                             .batch = r->batch,
                             .batches = clq_dataset_batches(r->data),
                             .step = r->trainer->step,
                             .totals = totals_of(&r->metrics, now - r->started, r->input_s)};
    return r->config->on_progress(r->config->context, &progress);
}

static clq_status tell_step(run *r) {
    if (!r->config->on_step) return CLQ_OK;
    clq_step_info info;
    CLQ_TRY(clq_step_read(r->trainer, &info));
    return r->config->on_step(r->config->context, &info);
}

static clq_status train_batch(run *r, const piece *p) {
    CLQ_TRY(r->by_rows ? clq_trainer_step_rows(r->trainer, &p->rows) : clq_step(r->trainer, &p->batch));
    r->batch++;
    CLQ_TRY(clq_metrics_note(&r->metrics, r->trainer, p->count));
    CLQ_TRY(tell_step(r));
    return tell_progress(r);
}

static clq_status next_piece(run *r, piece *p, bool *more) {
    if (r->by_rows) {
        CLQ_TRY(clq_dataset_next_rows(r->data, &p->rows, more));
        if (*more) p->count = p->rows.count;
        return CLQ_OK;
    }
    CLQ_TRY(clq_dataset_next(r->data, &p->batch, more));
    if (*more) p->count = p->batch.count;
    return CLQ_OK;
}

static clq_status next_batch(run *r, piece *p, bool *more) {
    clq_trainer *trainer = r->trainer;
    double asked = clq_now();
    CLQ_TRY(next_piece(r, p, more));
    r->input_s += clq_now() - asked;
    if (trainer->input.count >= trainer->config.trace_steps) return CLQ_OK;
    return clq_timeline_add(&trainer->input, asked, "wait for a batch", "step", trainer->step + 1);
}

static clq_status train_epoch(run *r, uint64_t last_step) {
    clq_metrics_start(&r->metrics, r->trainer);
    r->started = clq_now();
    r->batch = 0;
    r->input_s = 0.0;
    for (;;) {
        piece p;
        bool more;
        if (last_step && r->trainer->step >= last_step) break;
        CLQ_TRY(next_batch(r, &p, &more));
        if (!more) break;
        CLQ_TRY(train_batch(r, &p));
    }
    return clq_metrics_collect(&r->metrics, r->trainer);
}

static clq_status end_epoch(run *r, double seconds) {
    clq_epoch_info info = {.epoch = r->epoch, .train = totals_of(&r->metrics, seconds, r->input_s)};
    if (r->config->validation) CLQ_TRY(clq_evaluate(r->trainer, r->config->validation, &info.validation));
    return r->config->on_epoch ? r->config->on_epoch(r->config->context, &info) : CLQ_OK;
}

static clq_status check_batch(const clq_trainer *trainer, const clq_dataset *data) {
    CLQ_TRY(clq_trainer_check_dataset(trainer, data));
    size_t batch = clq_dataset_batch_size(data), most = trainer->config.global_batch;
    if (batch > most)
        return clq_fail(CLQ_ARGUMENT,
                        "%s is cut into batches of %zu and the trainer was made for a global batch of %zu",
                        clq_dataset_get_info(data)->name, batch, most);
    return CLQ_OK;
}

static clq_status train_epochs(run *r) {
    clq_trainer *trainer = r->trainer;
    uint64_t last_step = r->config->steps ? trainer->step + r->config->steps : 0;
    for (r->epoch = 0; r->epoch < r->epochs && !(last_step && trainer->step >= last_step); r->epoch++) {
        CLQ_TRY(train_epoch(r, last_step));
        CLQ_TRY(end_epoch(r, clq_now() - r->started));
    }
    return CLQ_OK;
}

/* After a failure steps may be under way that read the dataset, which is the caller's to destroy. */
static clq_status let_go(const run *r, clq_status status) {
    clq_error error;
    clq_error_take(status, &error);
    (void)clq_strategy_wait(r->trainer->strategy);
    return clq_error_raise(&error);
}

clq_status clq_fit(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config) {
    CLQ_TRY(check_batch(trainer, train));
    if (config->validation) CLQ_TRY(check_batch(trainer, config->validation));
    uint64_t batches = clq_dataset_batches(train);
    if (batches == 0)
        return clq_fail(CLQ_ARGUMENT,
                        "%s has no batch to train on: the batch is larger than the set and the remainder is dropped",
                        clq_dataset_get_info(train)->name);
    run r = {.trainer = trainer, .data = train, .config = config};
    r.epochs = config->epochs ? config->epochs : (config->steps + batches - 1) / batches;
    r.by_rows = clq_trainer_takes_rows(trainer, train);
    clq_status status = train_epochs(&r);
    return status == CLQ_OK ? CLQ_OK : let_go(&r, status);
}

/* Walks a dataset once, from its start, in order. */
static clq_status for_each_batch(clq_trainer *trainer, clq_dataset *dataset,
                                 clq_status (*each)(clq_trainer *trainer, const clq_batch *batch, void *context),
                                 void *context) {
    CLQ_TRY(check_batch(trainer, dataset));
    CLQ_TRY(clq_dataset_seek(dataset, 0, 0));
    for (;;) {
        clq_batch batch;
        bool more;
        CLQ_TRY(clq_dataset_next(dataset, &batch, &more));
        if (!more) return CLQ_OK;
        CLQ_TRY(each(trainer, &batch, context));
    }
}

static clq_status evaluate_batch(clq_trainer *trainer, const clq_batch *batch, void *context) {
    clq_batch taken;
    CLQ_TRY(clq_trainer_take_batch(trainer, batch, true, &taken));
    CLQ_TRY(clq_strategy_forward(trainer->strategy, &taken, (uint32_t)(trainer->rows % CLQ_METRIC_SLOTS)));
    trainer->rows++;
    return clq_metrics_note(context, trainer, batch->count);
}

clq_status clq_evaluate(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out) {
    clq_metrics metrics;
    clq_metrics_start(&metrics, trainer);
    double started = clq_now();
    CLQ_TRY(for_each_batch(trainer, dataset, evaluate_batch, &metrics));
    CLQ_TRY(clq_metrics_collect(&metrics, trainer));
    *out = totals_of(&metrics, clq_now() - started, 0.0);
    return CLQ_OK;
}

typedef struct predictions {
    clq_strategy *predictor;
    float *next;
    size_t outputs;
} predictions;

static clq_status predict_batch(clq_trainer *trainer, const clq_batch *batch, void *context) {
    predictions *p = context;
    clq_batch taken;
    CLQ_TRY(clq_trainer_take_batch(trainer, batch, false, &taken));
    CLQ_TRY(clq_strategy_predict(p->predictor, &taken, p->next));
    p->next += batch->count * p->outputs;
    return CLQ_OK;
}

clq_status clq_predict(clq_trainer *trainer, clq_dataset *dataset, float *out) {
    predictions p = {.next = out, .outputs = trainer->loss.classes};
    CLQ_TRY(clq_trainer_predictor(trainer, &p.predictor));
    return for_each_batch(trainer, dataset, predict_batch, &p);
}
