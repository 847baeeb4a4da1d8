/* Loss and metrics over many batches. Their rows stay on the devices until all rows are in use, or somebody asks. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

clq_status clq_metrics_start(clq_metrics *metrics, clq_fit_log *log, clq_trainer *trainer) {
    if (trainer->metrics) CLQ_TRY(clq_metrics_collect(trainer->metrics, trainer)); /* its rows will be overwritten */
    *metrics = (clq_metrics){.interrupted = trainer->metrics, .log = log, .first = trainer->rows};
    trainer->metrics = metrics;
    return CLQ_OK;
}

void clq_metrics_end(clq_metrics *metrics, clq_trainer *trainer) {
    trainer->metrics = metrics->interrupted;
    if (metrics->interrupted) metrics->interrupted->first = trainer->rows;
}

clq_status clq_metrics_note(clq_metrics *metrics, clq_trainer *trainer, size_t samples) {
    const size_t slot = (trainer->rows - 1) % CLQ_METRIC_SLOTS;
    metrics->pending[slot] = clq_strategy_own_samples(trainer->strategy, samples);
    metrics->ends[slot] = trainer->accumulated == 0;
    metrics->updates[slot] = trainer->step + (trainer->accumulated > 0);
    if (metrics->log && metrics->ends[slot]) clq_fit_log_note(metrics->log, trainer, trainer->last_count);
    return trainer->rows - metrics->first == CLQ_METRIC_SLOTS ? clq_metrics_collect(metrics, trainer) : CLQ_OK;
}

/* ---- rows read from the devices ---- */

static clq_status read_rows(clq_trainer *trainer, bool failed, uint32_t first, uint32_t count, double *rows,
                            float *squares) {
    if (!failed) return clq_strategy_read_figures(trainer->strategy, first, count, rows, squares);
    if (clq_strategy_rescue_figures(trainer->strategy, first, count, rows, squares)) return CLQ_OK;
    return clq_strategy_failure(trainer->strategy);
}

/* Whether the next row is of a step that every replica has handed to its device. */
static bool is_of_finished_step(const clq_fit_log *log, const clq_trainer *trainer) {
    return log->filled < log->noted && log->steps[log->filled].step <= clq_strategy_steps_done(trainer->strategy);
}

/* Warns of a loss that is not finite, once in a fit. */
static void notice_divergence(const clq_metrics *metrics, clq_trainer *trainer, size_t slot, const double *row) {
    double loss;
    clq_metric_values values;
    if (!metrics->trains || trainer->diverged > 0) return;
    clq_trainer_tell(trainer, row, metrics->pending[slot], &loss, &values);
    if (isfinite(loss)) return;
    trainer->diverged = metrics->updates[slot];
    clq_log(CLQ_LOG_WARNING,
            "the loss of step %llu is not finite; training goes on: a lower learning rate, or a limit of the "
            "gradient (clip), may keep it finite, and check_numerics names the first number that is not",
            (unsigned long long)trainer->diverged);
}

/* For the log, adds up `count` rows from slot `first` on, and their squares, over all processes. *out: `rows` if there
 * is nothing to add up; otherwise a copy, which the caller frees. After a failure the other processes cannot be
 * asked. */
static clq_status take_rows_of_all(const clq_metrics *metrics, const clq_trainer *trainer, bool failed, uint32_t first,
                                   uint32_t count, double *rows, float *squares, double **out) {
    const size_t values = (size_t)count * clq_trainer_width(trainer);
    *out = rows;
    if (!metrics->log || !clq_strategy_spans(trainer->strategy)) return CLQ_OK;
    if (failed) return CLQ_ERROR_ABORTED;
    *out = clq_alloc(values, sizeof *rows);
    if (!*out) return CLQ_ERROR_MEMORY;
    memcpy(*out, rows, values * sizeof *rows);
    return clq_strategy_add_up_rows(trainer->strategy, first, count, *out, squares);
}

/* Collects all rows that were not collected yet; if the strategy failed, those that can be rescued. */
static clq_status take_rows(clq_metrics *metrics, clq_trainer *trainer, bool failed) {
    const uint32_t first = (uint32_t)(metrics->first % CLQ_METRIC_SLOTS);
    const unsigned width = clq_trainer_width(trainer);
    const size_t variables = clq_model_variable_count(trainer->model);
    const bool norms = metrics->log && trainer->config.measure_gradient;
    const uint32_t count = (uint32_t)(trainer->rows - metrics->first);
    double *rows = clq_alloc((size_t)count * width, sizeof *rows), *of_all = NULL;
    float *squares = norms ? clq_alloc(count, CLQ_MAX(variables, (size_t)1) * sizeof *squares) : NULL;
    clq_status status = CLQ_ERROR_MEMORY;
    if (rows && (squares || !norms)) status = read_rows(trainer, failed, first, count, rows, squares);
    if (status == CLQ_OK) status = take_rows_of_all(metrics, trainer, failed, first, count, rows, squares, &of_all);
    for (size_t i = 0; i < count && status == CLQ_OK; i++, metrics->first++) {
        const double *row = rows + i * width;
        if (failed && !is_of_finished_step(metrics->log, trainer)) break;
        for (unsigned k = 0; k < width; k++) metrics->totals[k] += row[k];
        const size_t slot = metrics->first % CLQ_METRIC_SLOTS;
        metrics->samples += metrics->pending[slot];
        notice_divergence(metrics, trainer, slot, row);
        if (metrics->log)
            clq_fit_log_fill(metrics->log, trainer, (uint32_t)slot, of_all + i * width,
                             squares ? squares + i * variables : NULL, metrics->ends[slot]);
    }
    if (of_all != rows) clq_free(of_all);
    clq_free(rows);
    clq_free(squares);
    return status;
}

clq_status clq_metrics_collect(clq_metrics *metrics, clq_trainer *trainer) {
    if (metrics->first == trainer->rows) return clq_strategy_failure(trainer->strategy);
    return take_rows(metrics, trainer, false);
}

clq_status clq_metrics_of_all(const clq_metrics *metrics, const clq_trainer *trainer, double *totals, size_t *samples) {
    double all[CLQ_METRICS_ROW_MAX + 1];
    const unsigned width = clq_trainer_width(trainer);
    memcpy(all, metrics->totals, width * sizeof *all);
    all[width] = (double)metrics->samples;
    CLQ_TRY(clq_strategy_add_up_processes(trainer->strategy, all, width + 1));
    memcpy(totals, all, width * sizeof *all);
    *samples = (size_t)all[width];
    return CLQ_OK;
}

clq_status clq_metrics_add_up(clq_metrics *metrics, clq_trainer *trainer) {
    return clq_metrics_of_all(metrics, trainer, metrics->totals, &metrics->samples);
}

void clq_metrics_rescue(clq_metrics *metrics, clq_trainer *trainer) {
    if (metrics->first < trainer->rows) (void)take_rows(metrics, trainer, true);
}
