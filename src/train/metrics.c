/* Loss and metrics over many batches: they stay on the devices until all rows are in use or somebody asks. */
#include "train/trainer.h"

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
    metrics->pending[(trainer->rows - 1) % CLQ_METRIC_SLOTS] = samples;
    if (metrics->log) clq_fit_log_note(metrics->log, trainer, samples);
    return trainer->rows - metrics->first == CLQ_METRIC_SLOTS ? clq_metrics_collect(metrics, trainer) : CLQ_OK;
}

/* ---- rows read from the devices ---- */

typedef struct reading {
    uint32_t first, count;
    unsigned width;
    double *rows;   /* (count, width) */
    float *squares; /* (count, variables); NULL: not wanted */
} reading;

static void free_reading(reading *r) {
    clq_free(r->rows);
    clq_free(r->squares);
}

/* Of all rows that were not collected yet. */
static clq_status make_reading(const clq_metrics *metrics, const clq_trainer *trainer, reading *out) {
    reading r = {.first = (uint32_t)(metrics->first % CLQ_METRIC_SLOTS),
                 .count = (uint32_t)(trainer->rows - metrics->first),
                 .width = clq_losses_width(trainer->losses, trainer->model->output_count)};
    const bool norms = metrics->log && metrics->log->steps && trainer->config.measure_gradient;
    r.rows = clq_alloc((size_t)r.count * r.width, sizeof *r.rows);
    if (norms)
        r.squares =
            clq_alloc(r.count, CLQ_MAX(clq_model_variable_count(trainer->model), (size_t)1) * sizeof *r.squares);
    if (!r.rows || (norms && !r.squares)) {
        free_reading(&r);
        return CLQ_MEMORY;
    }
    *out = r;
    return CLQ_OK;
}

static void take_rows(clq_metrics *metrics, const clq_trainer *trainer, const reading *r, size_t count) {
    const size_t variables = clq_model_variable_count(trainer->model);
    for (size_t i = 0; i < count; i++, metrics->first++) {
        const double *row = r->rows + i * r->width;
        for (unsigned k = 0; k < r->width; k++) metrics->totals[k] += row[k];
        metrics->samples += metrics->pending[metrics->first % CLQ_METRIC_SLOTS];
        if (metrics->log) clq_fit_log_fill(metrics->log, trainer, row, r->squares ? r->squares + i * variables : NULL);
    }
}

clq_status clq_metrics_collect(clq_metrics *metrics, clq_trainer *trainer) {
    reading r;
    if (metrics->first == trainer->rows) return clq_strategy_failure(trainer->strategy);
    CLQ_TRY(make_reading(metrics, trainer, &r));
    clq_status status = clq_strategy_read_figures(trainer->strategy, r.first, r.count, r.rows, r.squares);
    if (status == CLQ_OK) take_rows(metrics, trainer, &r, r.count);
    free_reading(&r);
    return status;
}

void clq_metrics_rescue(clq_metrics *metrics, clq_trainer *trainer) {
    reading r;
    if (metrics->first == trainer->rows || make_reading(metrics, trainer, &r) != CLQ_OK) return;
    if (clq_strategy_rescue_figures(trainer->strategy, r.first, r.count, r.rows, r.squares)) {
        /* The last rows may be of steps that a replica did not get to. */
        const uint64_t done = clq_strategy_steps_done(trainer->strategy), before = trainer->step - r.count;
        take_rows(metrics, trainer, &r, done > before ? (size_t)CLQ_MIN(done - before, (uint64_t)r.count) : 0);
    }
    free_reading(&r);
}
