/* fit, evaluate, predict: loops over a dataset. */
#include "train/callbacks.h"
#include "train/checkpoint.h"
#include "train/meeting.h"
#include "train/sharding.h"

#include <math.h>
#include <string.h>

/* How often on_progress is called, and metrics are collected for it. */
static const double progress_every_s = 0.25;

typedef struct run {
    clq_trainer *trainer;
    clq_dataset *data;
    const clq_fit_config *config;
    clq_metrics metrics;
    clq_fit_log log;
    clq_meeting meeting;
    double started, input_s;
    double told;      /* when on_progress was last called; 0: not yet */
    double collected; /* with several processes: when metrics were last collected for a meeting; 0: not yet */
    uint64_t epoch, batch;
    uint64_t epochs;                 /* the fit stops after these; UINT64_MAX: no limit */
    uint64_t expected;               /* how many epochs on_progress is told of */
    uint64_t last_step;              /* the trainer's step to stop at; UINT64_MAX: no limit */
    bool by_rows;                    /* replicas copy their rows from the dataset themselves */
    uint64_t first_step;             /* at which the fit began; if it is resumed, the earlier fit */
    uint64_t data_epoch, data_index; /* the dataset's place after the last update */
    clq_fit_place from;              /* if `resumed`: the place in the checkpoint's fit */
    bool resumed;                    /* the next epoch to train continues a checkpoint's */
    json_t *before;                  /* while callbacks are told of an epoch: their states before; NULL: not saved */
} run;

/* A batch of the dataset: assembled, or, if replicas copy rows themselves, as rows where they lie in the dataset. */
typedef union piece {
    clq_batch batch;
    clq_rows rows;
} piece;

static clq_totals totals_of(const clq_trainer *trainer, const double *row, size_t samples, double seconds,
                            double input_s) {
    clq_totals totals = {.samples = samples, .seconds = seconds, .input_s = input_s};
    clq_trainer_tell(trainer, row, samples, &totals.loss, &totals.metrics);
    return totals;
}

/* Whether it is time to call on_progress. */
static bool tells(const run *r, double now) {
    return r->config->on_progress && (r->told == 0.0 || now - r->told >= progress_every_s);
}

static clq_progress progress_of(const run *r, const clq_totals *totals) {
    return (clq_progress){.epoch = r->epoch,
                          .epochs = r->expected,
                          .batch = r->batch,
                          .batches = clq_dataset_batches(r->data),
                          .step = r->trainer->step,
                          .totals = *totals};
}

/* row: sums over `samples` samples. */
static clq_status tell_sums(run *r, double now, const double *row, size_t samples) {
    r->told = now;
    const clq_totals totals = totals_of(r->trainer, row, samples, r->told - r->started, r->input_s);
    const clq_progress progress = progress_of(r, &totals);
    return CLQ_ASK(r->config->on_progress(r->config->context, &progress), "on_progress");
}

static clq_status tell_progress(run *r) {
    const double now = clq_now();
    if (!tells(r, now)) return CLQ_OK;
    CLQ_TRY(clq_metrics_collect(&r->metrics, r->trainer));
    return tell_sums(r, now, r->metrics.totals, r->metrics.samples);
}

/* Whether metrics are collected for a meeting. If processes do not wait for one another in each step, collecting waits
 * for a whole batch of the slowest process. So it happens once a second at most, and on_progress is told sums that are
 * up to a second old. With on_log, all processes collect together, at every meeting. */
static bool collects(run *r) {
    static const double collect_every_s = 1.0;
    const double now = clq_now();
    if (clq_strategy_is_by_batches(r->trainer->strategy) && !r->log.steps && r->collected > 0.0 &&
        now - r->collected < collect_every_s)
        return false;
    r->collected = now;
    return true;
}

/* With several processes, after an update: holds a meeting if one is due. */
static clq_status meet(run *r) {
    if (!clq_meeting_is_due(&r->meeting)) return CLQ_OK;
    if (collects(r)) CLQ_TRY(clq_metrics_collect(&r->metrics, r->trainer));
    CLQ_TRY(clq_meeting_hold(&r->meeting));
    double row[CLQ_METRICS_ROW_MAX];
    size_t samples;
    CLQ_TRY(clq_metrics_of_all(&r->metrics, r->trainer, row, &samples));
    const double now = clq_now();
    return tells(r, now) ? clq_meeting_take(&r->meeting, tell_sums(r, now, row, samples)) : CLQ_OK;
}

static clq_status tell_step(run *r) {
    if (!r->config->on_step && !clq_callbacks_want_steps(r->config)) return CLQ_OK;
    clq_step_info info;
    CLQ_TRY(clq_step_read(r->trainer, &info));
    if (r->config->on_step)
        CLQ_TRY(clq_meeting_take(&r->meeting, CLQ_ASK(r->config->on_step(r->config->context, &info), "on_step")));
    return clq_callbacks_step(r->config, r->trainer, &r->meeting, &info);
}

/* A signal handler may set trainer->interrupted. */
_Static_assert(ATOMIC_BOOL_LOCK_FREE == 2, "clq_trainer_stop needs atomic booleans without locks");

/* INTERRUPTED if clq_trainer_stop was called. The flag stays set until the outermost call ends. So the fit stops even
 * if the stop first ends a call that a callback makes, and the callback does not return the failure. */
static clq_status take_stop(const clq_trainer *trainer) {
    if (!atomic_load_explicit(&trainer->interrupted, memory_order_relaxed)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_INTERRUPTED, "stopped by clq_trainer_stop behind step %llu",
                    (unsigned long long)trainer->step);
}

static clq_status tell_read(run *r) { return clq_meeting_take(&r->meeting, clq_fit_log_tell(&r->log)); }

/* Calls on_log for all steps that were read, including those that were read for on_progress. */
static clq_status tell_log(run *r) {
    if (clq_fit_log_is_due(&r->log)) CLQ_TRY(clq_metrics_collect(&r->metrics, r->trainer));
    return tell_read(r);
}

/* ---- checkpoints ---- */

/* Takes a checkpoint if one is wanted, but none in the middle of an update. waits: wait for a checkpoint that is still
 * being written. Otherwise this one is skipped while the other is being written. */
static clq_status take_checkpoint(run *r, bool waits) {
    if (!r->config->checkpoints || r->trainer->accumulated > 0) return CLQ_OK;
    bool wanted;
    CLQ_TRY(clq_checkpoints_want(r->config->checkpoints, r->trainer->step, waits, &wanted));
    if (!wanted) return CLQ_OK;
    const bool counts = r->trainer->metrics == &r->metrics; /* after an epoch they are of all processes already */
    if (counts) CLQ_TRY(clq_metrics_collect(&r->metrics, r->trainer));
    if (!r->log.refused) CLQ_TRY(tell_read(r));
    if (r->config->on_checkpoint)
        CLQ_TRY(clq_meeting_take(
            &r->meeting, CLQ_ASK(r->config->on_checkpoint(r->config->context, r->trainer->step), "on_checkpoint")));
    clq_fit_place place = {.epoch = r->epoch,
                           .batch = r->batch,
                           .first_step = r->first_step,
                           .data_epoch = r->data_epoch,
                           .data_index = r->data_index,
                           .samples = r->metrics.samples,
                           .config = r->config,
                           .before = r->before,
                           .seconds = clq_now() - r->started,
                           .input_s = r->input_s};
    memcpy(place.totals, r->metrics.totals, sizeof place.totals);
    if (counts) CLQ_TRY(clq_metrics_of_all(&r->metrics, r->trainer, place.totals, &place.samples));
    return clq_checkpoints_take(r->config->checkpoints, r->trainer, r->data, &place);
}

/* After an update: takes a checkpoint if one is due. The fit's last update always has one. It is taken before
 * callbacks are told of the epoch, so that a longer fit can resume from it. */
static clq_status keep_update(run *r) {
    const bool last = r->trainer->step >= r->last_step ||
                      (r->epoch + 1 >= r->epochs && r->data_index == clq_dataset_batches(r->data));
    if (!r->config->checkpoints) return CLQ_OK;
    return last || clq_checkpoints_are_due(r->config->checkpoints, r->trainer->step) ? take_checkpoint(r, last)
                                                                                     : CLQ_OK;
}

static clq_status take_last_checkpoint(run *r) {
    CLQ_TRY(take_checkpoint(r, true));
    if (r->config->checkpoints) clq_checkpoints_wait(r->config->checkpoints);
    return CLQ_OK;
}

/* Whether the batch that was taken last ends an update. An epoch's last batch always does. */
static bool ends_update(const run *r) {
    uint64_t epoch, next;
    clq_dataset_tell(r->data, &epoch, &next);
    return r->trainer->accumulated + 1 >= clq_trainer_batches_of_update(r->trainer) ||
           next == clq_dataset_batches(r->data);
}

static clq_status step(run *r, const piece *p, bool ends) {
    const size_t rows = r->by_rows ? p->rows.count : p->batch.count;
    CLQ_TRY(r->by_rows ? clq_trainer_step_rows(r->trainer, &p->rows, ends)
                       : clq_trainer_step_batch(r->trainer, &p->batch, ends));
    return clq_metrics_note(&r->metrics, r->trainer, clq_strategy_samples(r->trainer->strategy, rows));
}

static clq_status train_batch(run *r, const piece *p) {
    const bool ends = ends_update(r);
    clq_sharding_bring(r->trainer, r->data);
    const clq_status status = step(r, p, ends);
    clq_sharding_done(r->trainer);
    CLQ_TRY(status);
    r->batch++;
    if (ends) clq_dataset_tell(r->data, &r->data_epoch, &r->data_index);
    if (ends) CLQ_TRY(tell_step(r));
    /* on_progress may interrupt the fit, and in the middle of an update no checkpoint can be taken. So if there are
     * checkpoints, it is called after whole updates alone. */
    if (!r->meeting.world && (ends || (r->told > 0.0 && !r->config->checkpoints))) CLQ_TRY(tell_progress(r));
    if (!ends) return CLQ_OK;
    CLQ_TRY(clq_meeting_take(&r->meeting, take_stop(r->trainer)));
    CLQ_TRY(meet(r));
    CLQ_TRY(tell_log(r));
    CLQ_TRY(clq_trainer_check_replicas(r->trainer));
    return keep_update(r);
}

static clq_status next_batch(run *r, piece *p, bool *more) {
    clq_trainer *trainer = r->trainer;
    double asked = clq_now();
    CLQ_TRY(r->by_rows ? clq_dataset_next_rows(r->data, &p->rows, more) : clq_dataset_next(r->data, &p->batch, more));
    r->input_s += clq_now() - asked;
    if (trainer->input.count >= trainer->config.trace_steps) return CLQ_OK;
    return clq_timeline_add(&trainer->input, asked, "wait for a batch", "step", trainer->step + 1);
}

/* Moves a dataset from an epoch's end to the next epoch's first batch. Otherwise the next fit would begin with an epoch
 * of no batch. */
static clq_status leave_epoch(run *r) {
    uint64_t epoch, next;
    piece p;
    bool more;
    clq_dataset_tell(r->data, &epoch, &next);
    return next == clq_dataset_batches(r->data) ? next_batch(r, &p, &more) : CLQ_OK;
}

/* If the fit is told to stop, an update that has begun is still finished, since its first gradients are made. A
 * checkpoint's epoch may come after the fit's last epoch: then no batch is trained, but callbacks are told of
 * the epoch. */
static clq_status train_batches(run *r) {
    while (r->epoch < r->epochs && r->trainer->step < r->last_step &&
           !(clq_meeting_stops(&r->meeting) && r->trainer->accumulated == 0)) {
        piece p;
        bool more;
        CLQ_TRY(next_batch(r, &p, &more));
        if (!more) break;
        CLQ_TRY(train_batch(r, &p));
    }
    CLQ_TRY(leave_epoch(r));
    CLQ_TRY(clq_metrics_collect(&r->metrics, r->trainer));
    CLQ_TRY(clq_metrics_add_up(&r->metrics, r->trainer));
    clq_strategy_settle(r->trainer->strategy, true); /* callbacks read weights */
    return tell_read(r);
}

/* Calls on_log for the steps that were finished before the failure. */
static void tell_finished(run *r) {
    if (clq_strategy_failure(r->trainer->strategy) == CLQ_OK) (void)clq_metrics_collect(&r->metrics, r->trainer);
    if (clq_strategy_failure(r->trainer->strategy) != CLQ_OK) clq_metrics_rescue(&r->metrics, r->trainer);
    (void)clq_fit_log_tell(&r->log);
}

static clq_status give_up(run *r, clq_status status) {
    clq_error error;
    clq_error_take(status, &error);
    const bool agreed = clq_meeting_agreed(&r->meeting, status);
    if (r->log.steps && !r->log.refused && agreed) tell_finished(r);
    if (status == CLQ_ERROR_INTERRUPTED && agreed) {
        clq_strategy_settle(r->trainer->strategy, false);
        const clq_status kept = take_last_checkpoint(r);
        if (kept == CLQ_OK) clq_strategy_settle(r->trainer->strategy, true); /* clq_fit's caller may read weights */
        if (kept != CLQ_OK) clq_error_take(kept, &error);
    }
    /* Steps under way may read the dataset, which the caller may destroy after this. */
    (void)clq_strategy_wait(r->trainer->strategy);
    return clq_error_raise(&error);
}

/* Continues a checkpoint's epoch in its middle. */
static void go_on(run *r) {
    r->batch = r->from.batch;
    r->started -= r->from.seconds;
    r->input_s = r->from.input_s;
    if (clq_world_rank(r->meeting.world) > 0) return; /* rank 0 alone takes the sums of all processes */
    r->metrics.samples = r->from.samples;
    memcpy(r->metrics.totals, r->from.totals, sizeof r->metrics.totals);
}

static clq_status train_epoch(run *r) {
    CLQ_TRY(clq_metrics_start(&r->metrics, r->log.steps ? &r->log : NULL, r->trainer));
    r->metrics.trains = true;
    r->started = r->log.read_at = r->log.last_ended = r->meeting.held_at = clq_now();
    r->batch = 0;
    r->input_s = 0.0;
    if (r->resumed) go_on(r);
    r->resumed = false;
    clq_dataset_tell(r->data, &r->data_epoch, &r->data_index);
    clq_status status = train_batches(r);
    if (status != CLQ_OK) status = give_up(r, status);
    clq_metrics_end(&r->metrics, r->trainer);
    return status;
}

/* ---- walks over a whole dataset ---- */

typedef clq_status (*visit)(clq_trainer *trainer, const clq_batch *batch, void *context);

/* Visits epoch 0 of the dataset in order, cut as `part` says. Afterwards the dataset goes on from its former place,
 * since it may be the one that clq_fit is training on. */
static clq_status for_each_batch(clq_trainer *trainer, clq_dataset *dataset, const clq_data_part *part, bool labels,
                                 visit each, void *context) {
    const clq_data_part before = clq_dataset_part(dataset);
    uint64_t epoch, index;
    CLQ_TRY(clq_trainer_check_dataset(trainer, dataset, labels));
    /* A seek frees the order of the rows, which steps under way still need to copy theirs. */
    if (trainer->rows_of == dataset) CLQ_TRY(clq_strategy_wait(trainer->strategy));
    clq_dataset_tell(dataset, &epoch, &index);
    clq_dataset_set_part(dataset, part);
    clq_status status = clq_dataset_seek(dataset, 0, 0);
    for (bool more = true; status == CLQ_OK && more;) {
        clq_batch batch;
        status = clq_dataset_next(dataset, &batch, &more);
        if (status == CLQ_OK && more) status = each(trainer, &batch, context);
    }
    clq_dataset_set_part(dataset, &before);
    clq_status returned = clq_dataset_seek(dataset, epoch, index);
    return status == CLQ_OK ? returned : status;
}

typedef struct evaluation {
    clq_metrics metrics;
    run *fit; /* the fit whose validation this is; NULL: none */
    const clq_totals *trained;
    const clq_dataset *data;
    uint64_t batch;
} evaluation;

static clq_status tell_validation(const evaluation *e) {
    double now = clq_now();
    if (!e->fit || !tells(e->fit, now)) return CLQ_OK;
    e->fit->told = now;
    clq_progress progress = progress_of(e->fit, e->trained);
    progress.validation_batch = e->batch;
    progress.validation_batches = clq_dataset_batches(e->data);
    return clq_meeting_take(&e->fit->meeting,
                            CLQ_ASK(e->fit->config->on_progress(e->fit->config->context, &progress), "on_progress"));
}

static clq_status forward(clq_trainer *trainer, const clq_batch *batch, evaluation *e) {
    clq_checked_batch taken;
    const clq_step_params params = clq_trainer_forward_params(trainer);
    CLQ_TRY(clq_trainer_take_batch(trainer, batch, CLQ_TO_EVALUATE, &taken));
    CLQ_TRY(clq_strategy_forward(trainer->strategy, &taken.rows, &params));
    trainer->rows++;
    e->batch++;
    return clq_metrics_note(&e->metrics, trainer, batch->count);
}

/* For calls outside of a fit. With several processes a stop waits for the next fit: if it ended this call, the other
 * processes would wait for this one. */
static clq_status take_stop_alone(const clq_trainer *trainer) {
    return clq_strategy_spans(trainer->strategy) ? CLQ_OK : take_stop(trainer);
}

/* Called at the end of each call that a stop can end. A stop that came after the call's last update or batch must not
 * end a later call. */
static void end_stop(clq_trainer *trainer) {
    if (!trainer->fitting) atomic_store(&trainer->interrupted, false);
}
static void end_stop_alone(clq_trainer *trainer) {
    if (!clq_strategy_spans(trainer->strategy)) end_stop(trainer);
}

static clq_status evaluate_batch(clq_trainer *trainer, const clq_batch *batch, void *context) {
    evaluation *e = context;
    if (clq_sharding_evaluates_own(trainer)) clq_sharding_bring_own(trainer, batch->count);
    const clq_status status = forward(trainer, batch, e);
    clq_sharding_done(trainer);
    CLQ_TRY(status);
    CLQ_TRY(e->fit ? clq_meeting_take(&e->fit->meeting, take_stop(trainer)) : take_stop_alone(trainer));
    return tell_validation(e);
}

static clq_status evaluate(clq_trainer *trainer, clq_dataset *dataset, evaluation *e, clq_totals *out) {
    CLQ_TRY(clq_trainer_keep_last_step(trainer));
    CLQ_TRY(clq_metrics_start(&e->metrics, NULL, trainer));
    double started = clq_now();
    clq_data_part part = {0};
    e->data = dataset;
    if (clq_sharding_evaluates_own(trainer)) part = clq_sharding_part_to_evaluate(trainer);
    clq_status status = for_each_batch(trainer, dataset, &part, true, evaluate_batch, e);
    if (status == CLQ_OK) status = clq_metrics_collect(&e->metrics, trainer);
    if (status == CLQ_OK) status = clq_metrics_add_up(&e->metrics, trainer);
    clq_metrics_end(&e->metrics, trainer);
    CLQ_TRY(status);
    *out = totals_of(trainer, e->metrics.totals, e->metrics.samples, clq_now() - started, 0.0);
    clq_trainer_keep_matrices(trainer, CLQ_MATRIX_OF_EVALUATION, e->metrics.totals);
    return CLQ_OK;
}

clq_status clq_evaluate_sized(clq_trainer *trainer, clq_dataset *dataset, clq_totals *out, size_t out_bytes) {
    evaluation e = {.fit = NULL};
    clq_totals totals;
    const clq_status status = evaluate(trainer, dataset, &e, &totals);
    end_stop_alone(trainer);
    CLQ_TRY(status);
    clq_struct_give(&totals, sizeof totals, out, out_bytes);
    return CLQ_OK;
}

/* ---- fit ---- */

/* Makes loss and metrics NaN, for an epoch that has no training totals (clq_epoch_info). */
static void forget_values(clq_totals *totals) {
    totals->loss = (double)NAN;
    for (unsigned i = 0; i < totals->metrics.count; i++) totals->metrics.values[i] = (double)NAN;
}

static clq_status end_epoch(run *r, double seconds) {
    clq_epoch_info info = {.epoch = r->epoch,
                           .train = totals_of(r->trainer, r->metrics.totals, r->metrics.samples, seconds, r->input_s)};
    clq_dataset *data = r->config->validation;
    if (info.train.samples == 0)
        forget_values(&info.train);
    else
        clq_trainer_keep_matrices(r->trainer, CLQ_MATRIX_OF_TRAINING, r->metrics.totals);
    if (data && (r->epoch + 1) % CLQ_MAX(r->config->validation_freq, (uint64_t)1) == 0) {
        evaluation e = {.fit = r, .trained = &info.train};
        CLQ_TRY(evaluate(r->trainer, data, &e, &info.validation));
    }
    if (r->config->on_epoch)
        CLQ_TRY(clq_meeting_take(&r->meeting, CLQ_ASK(r->config->on_epoch(r->config->context, &info), "on_epoch")));
    return clq_callbacks_epoch(r->config, r->trainer, &r->meeting, &info);
}

/* Takes the checkpoint of a fit that ends after callbacks were told of an epoch. noted: how clq_checkpoints_note ended.
 * If a process had no memory to save its callbacks' states, there is no checkpoint: a fit that resumed from it would
 * tell the callbacks of the epoch twice. */
static clq_status keep_epoch(run *r, const clq_error *noted) {
    bool wanted;
    double lacking = noted->status == CLQ_OK ? 0.0 : 1.0; /* all processes take one, or none does */
    CLQ_TRY(clq_strategy_add_up_processes(r->trainer->strategy, &lacking, 1));
    if (!(lacking > 0.0)) return take_last_checkpoint(r);
    CLQ_TRY(clq_checkpoints_want(r->config->checkpoints, r->trainer->step, true, &wanted));
    if (!wanted) return CLQ_OK;
    (void)clq_fail(CLQ_ERROR_MEMORY, "another process has too little memory for the state of its callbacks");
    if (noted->status != CLQ_OK) (void)clq_error_raise(noted);
    return clq_checkpoints_go_without(r->config->checkpoints, r->trainer);
}

/* Tells the callbacks of the epoch. If the fit ends here before its time, its checkpoint has their states from before
 * they were told, and a fit that resumes from it tells them again. */
static clq_status tell_epoch(run *r) {
    const double seconds = clq_now() - r->started;
    clq_error error = {.status = CLQ_OK}, noted = {.status = CLQ_OK};
    clq_status status = r->config->checkpoints ? clq_checkpoints_note(r->trainer, r->config, &r->before) : CLQ_OK;
    if (status != CLQ_OK && status != CLQ_ERROR_MEMORY) return status;
    if (status != CLQ_OK) clq_error_take(status, &noted);
    status = end_epoch(r, seconds);
    if (status == CLQ_OK) status = clq_meeting_hold(&r->meeting);
    if (status == CLQ_ERROR_INTERRUPTED || (status == CLQ_OK && r->trainer->stop)) {
        clq_error_take(status, &error);
        r->started = clq_now() - seconds; /* of the epoch's steps alone */
        status = keep_epoch(r, &noted);
        if (status == CLQ_OK) status = clq_error_raise(&error);
    }
    json_decref(r->before);
    r->before = NULL;
    return status;
}

/* If processes bring parts of batches (sharding), clq_sharding_open checks them. */
static clq_status check_batches(const clq_trainer *trainer, const clq_dataset *train) {
    if (clq_dataset_batches(train) > 0 || trainer->sharding) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "%s has no batch to train on: the batch is larger than the set and the remainder is dropped",
                    clq_dataset_get_info(train)->name);
}

static clq_status train_epochs(run *r) {
    /* Callbacks were not told of a checkpoint's epoch yet, even if all its batches are trained. */
    for (r->epoch = r->from.epoch;
         r->resumed || (r->epoch < r->epochs && r->trainer->step < r->last_step && !clq_meeting_stops(&r->meeting));
         r->epoch++) {
        CLQ_TRY(check_batches(r->trainer, r->data)); /* on_epoch may have changed the batch size */
        CLQ_TRY(clq_sharding_open(r->trainer, r->data));
        CLQ_TRY(train_epoch(r));
        CLQ_TRY(tell_epoch(r));
    }
    return CLQ_OK;
}

static clq_status check_fit(const clq_trainer *trainer, const clq_dataset *train, const clq_fit_config *config) {
    CLQ_TRY(clq_trainer_refuse_call(trainer, "clq_fit"));
    if (trainer->accumulated > 0)
        return clq_fail(CLQ_ERROR_STATE,
                        "clq_step_accumulate began an update: clq_fit comes after the step that ends it");
    if (config->checkpoints) CLQ_TRY(clq_checkpoints_check(config->checkpoints, trainer));
    if (config->epochs == 0 && config->steps == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "epochs and steps are both 0: set how long to train");
    CLQ_TRY(clq_trainer_check_dataset(trainer, train, true));
    if (config->validation) CLQ_TRY(clq_trainer_check_dataset(trainer, config->validation, true));
    return check_batches(trainer, train);
}

clq_status clq_fit_stop(clq_trainer *trainer) {
    if (!trainer->fitting) return clq_fail(CLQ_ERROR_STATE, "clq_fit_stop: no clq_fit of this trainer is under way");
    trainer->stop = true;
    return CLQ_OK;
}

void clq_trainer_stop(clq_trainer *trainer) { atomic_store(&trainer->interrupted, true); }

/* Calls the callbacks' on_begin, trains, and calls their on_end. on_epoch of another fit may have called this fit; the
 * other one goes on afterwards. */
static clq_status fit_with_callbacks(run *r) {
    clq_trainer *trainer = r->trainer;
    const bool fitting = trainer->fitting, stop = trainer->stop;
    size_t begun = 0;
    if (!fitting) trainer->diverged = 0;
    trainer->fitting = true;
    trainer->stop = false;
    clq_status status = clq_callbacks_begin(r->config, trainer, &r->meeting, &begun);
    if (status == CLQ_OK) status = clq_meeting_hold(&r->meeting);
    if (status == CLQ_OK && r->resumed) clq_checkpoints_leave_place(r->config->checkpoints);
    if (status == CLQ_OK) status = train_epochs(r);
    clq_trainer_forget_accumulated(trainer);         /* gradients of an update that the fit's end left unfinished */
    status = clq_meeting_close(&r->meeting, status); /* before on_end: callbacks would wait for the others in vain */
    status = clq_callbacks_end(r->config, trainer, begun, status);
    trainer->fitting = fitting;
    trainer->stop = stop;
    return status;
}

/* Finds how many epochs the remaining steps need, from the dataset's place in its epoch. */
static clq_status count_epochs(run *r) {
    CLQ_TRY(clq_sharding_open(r->trainer, r->data));
    const uint64_t of_update = clq_trainer_batches_of_update(r->trainer), step = r->trainer->step;
    const uint64_t updates = clq_ceil_div(clq_dataset_batches(r->data), of_update);
    const uint64_t left = r->last_step > step ? r->last_step - step : 0;
    uint64_t epoch, next;
    clq_dataset_tell(r->data, &epoch, &next);
    r->expected =
        r->from.epoch + left / updates + clq_ceil_div(left % updates + clq_ceil_div(next, of_update), updates);
    return CLQ_OK;
}

static clq_status fit(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *config) {
    clq_status status = check_fit(trainer, train, config);
    CLQ_TRY(clq_strategy_spans(trainer->strategy) ? clq_world_check(trainer->config.world, status) : status);
    trainer->labels_are_samples = clq_dataset_get_info(train)->labels_are_samples;
    const clq_data_part part = clq_dataset_part(train);
    run r = {.trainer = trainer, .data = train, .config = config, .last_step = UINT64_MAX};
    r.epochs = config->epochs ? config->epochs : UINT64_MAX;
    r.resumed = config->checkpoints && clq_checkpoints_place(config->checkpoints, &r.from);
    r.first_step = r.resumed ? r.from.first_step : trainer->step;
    if (config->steps > 0 && config->steps < UINT64_MAX - r.first_step) r.last_step = r.first_step + config->steps;
    r.expected = config->epochs;
    r.by_rows = clq_trainer_takes_rows(trainer, train);
    const clq_dataset *before = trainer->rows_of; /* the set of a fit whose on_epoch calls this one */
    if (r.by_rows) trainer->rows_of = train;
    status = clq_meeting_open(&r.meeting, trainer, train, config);
    if (status == CLQ_OK && config->epochs == 0) status = count_epochs(&r);
    if (status == CLQ_OK) status = clq_fit_log_open(&r.log, config, r.meeting.world != NULL);
    if (status == CLQ_OK && r.resumed) status = clq_checkpoints_restore_callbacks(config->checkpoints, config);
    if (status == CLQ_OK) status = fit_with_callbacks(&r);
    clq_free(r.log.steps);
    trainer->rows_of = before;
    return clq_sharding_close(trainer, train, &part, clq_meeting_close(&r.meeting, status));
}

clq_status clq_fit_sized(clq_trainer *trainer, clq_dataset *train, const clq_fit_config *given, size_t given_bytes) {
    clq_fit_config whole;
    CLQ_TRY(clq_struct_take("clq_fit_config", given, given_bytes, &whole, sizeof whole));
    if (!whole.callbacks) whole.callback_count = 0;
    const clq_status status = fit(trainer, train, &whole);
    end_stop(trainer);
    return status;
}

/* ---- predict ---- */

static clq_status predict_batch(clq_trainer *trainer, const clq_batch *batch, void *context) {
    float **next = context; /* (outputs) where this batch's rows go; NULL: not wanted */
    clq_checked_batch taken;
    CLQ_TRY(clq_trainer_take_batch(trainer, batch, CLQ_TO_PREDICT, &taken));
    CLQ_TRY(clq_strategy_predict(trainer->strategy, &taken.rows, next));
    for (uint32_t i = 0; i < trainer->model->output_count; i++)
        if (next[i]) next[i] += batch->count * clq_model_output(trainer->model, i)->elements;
    return take_stop_alone(trainer);
}

clq_status clq_predict_outputs(clq_trainer *trainer, clq_dataset *dataset, float *const *out) {
    float *next[CLQ_MODEL_OUTPUTS_MAX];
    for (uint32_t i = 0; i < trainer->model->output_count; i++) next[i] = out[i];
    const clq_status status = for_each_batch(trainer, dataset, &(clq_data_part){0}, false, predict_batch, next);
    end_stop_alone(trainer);
    return status;
}

clq_status clq_predict(clq_trainer *trainer, clq_dataset *dataset, float *out) {
    if (trainer->model->output_count > 1)
        return clq_fail(CLQ_ERROR_ARGUMENT, "model %s has %u outputs: clq_predict_outputs gives each",
                        clq_model_name(trainer->model), trainer->model->output_count);
    return clq_predict_outputs(trainer, dataset, &out);
}
