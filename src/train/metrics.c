/* Loss and accuracy over many batches: they stay on the devices until all rows are in use or somebody asks. */
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
    double rows[CLQ_METRIC_SLOTS][2];
    CLQ_TRY(clq_strategy_read_metrics(trainer->strategy, 0, CLQ_METRIC_SLOTS, rows));
    for (; metrics->first < trainer->rows; metrics->first++) {
        size_t slot = metrics->first % CLQ_METRIC_SLOTS;
        metrics->loss += rows[slot][0];
        metrics->correct += rows[slot][1];
        metrics->samples += metrics->pending[slot];
    }
    return CLQ_OK;
}
