/* Loss and metrics over many batches: they stay on the devices until all rows are in use or somebody asks. */
#include "train/trainer.h"

clq_status clq_metrics_start(clq_metrics *metrics, clq_trainer *trainer) {
    if (trainer->metrics) CLQ_TRY(clq_metrics_collect(trainer->metrics, trainer)); /* its rows will be overwritten */
    *metrics = (clq_metrics){.interrupted = trainer->metrics, .first = trainer->rows};
    trainer->metrics = metrics;
    return CLQ_OK;
}

void clq_metrics_end(clq_metrics *metrics, clq_trainer *trainer) {
    trainer->metrics = metrics->interrupted;
    if (metrics->interrupted) metrics->interrupted->first = trainer->rows;
}

clq_status clq_metrics_note(clq_metrics *metrics, clq_trainer *trainer, size_t samples) {
    metrics->pending[(trainer->rows - 1) % CLQ_METRIC_SLOTS] = samples;
    return trainer->rows - metrics->first == CLQ_METRIC_SLOTS ? clq_metrics_collect(metrics, trainer) : CLQ_OK;
}

clq_status clq_metrics_collect(clq_metrics *metrics, clq_trainer *trainer) {
    const unsigned width = clq_losses_width(trainer->losses, trainer->model->output_count);
    double *rows = clq_alloc((size_t)CLQ_METRIC_SLOTS * width, sizeof *rows);
    if (!rows) return CLQ_MEMORY;
    clq_status status = clq_strategy_read_metrics(trainer->strategy, 0, CLQ_METRIC_SLOTS, rows);
    for (; metrics->first < trainer->rows && status == CLQ_OK; metrics->first++) {
        size_t slot = metrics->first % CLQ_METRIC_SLOTS;
        for (unsigned k = 0; k < width; k++) metrics->totals[k] += rows[slot * width + k];
        metrics->samples += metrics->pending[slot];
    }
    clq_free(rows);
    return status;
}
