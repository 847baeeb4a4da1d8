/* Predictions that are kept for the verdict of a later training. */
#include "why/why.h"

#include <stdio.h>
#include <string.h>

/* What a prediction is of. devices: the replicas', in order. */
static clq_status make_key(const clq_model *model, const char *row, const clq_strategy_options *options,
                           clq_device *const *devices, unsigned count, size_t batch, size_t accumulate,
                           const clq_optimizer *optimizer, clq_precision precision, clq_hash128 *out) {
    clq_text text = {0};
    clq_text_add(&text, "prediction 4 of clique %s\n%s, batch %zu x %zu, optimizer %d, precision %s\n", clq_version(),
                 row, batch, accumulate, (int)optimizer->kind, clq_precision_name(precision));
    clq_model_add_key(model, &text);
    if (strcmp(row, "ps") == 0) clq_text_add(&text, "staleness %d\n", (int)options->staleness);
    if (strcmp(row, "pipeline") == 0) clq_text_add(&text, "micro-batches %u\n", options->micro_batches);
    for (unsigned r = 0; r < count; r++) {
        const clq_device_info *info = clq_device_get_info(devices[r]);
        clq_text_add(&text, "%u %s %s %s %u units\n", info->index, info->driver, info->name, info->driver_version,
                     info->compute_units);
    }
    if (text.failed) {
        clq_free(text.data);
        return CLQ_MEMORY;
    }
    *out = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return CLQ_OK;
}

clq_status clq_why_keep(const clq_why_task *task, const clq_prediction *predictions, size_t count) {
    const clq_prediction *best = clq_why_best(predictions, count);
    clq_device *devices[CLQ_REPLICAS_MAX];
    clq_status status = CLQ_OK;
    clq_strategy_options options = task->config->strategy_options;
    if (task->config->strategy != CLQ_STRATEGY_PS || options.staleness <= 0) /* as probes take it */
        options.staleness = clq_trainer_config_default().strategy_options.staleness;
    CLQ_TRY(clq_devices_open(task->devices, false, devices, NULL));
    for (size_t i = 0; i < count && status == CLQ_OK && clq_device_remembers(devices[0]); i++) {
        clq_kept_prediction kept = {.images_per_s = predictions[i].images_per_s,
                                    .best_images_per_s = best->images_per_s,
                                    .best_replicas = best->way.replicas,
                                    .limit = predictions[i].limit};
        clq_hash128 key;
        (void)snprintf(kept.best_strategy, sizeof kept.best_strategy, "%s", best->way.strategy);
        status = make_key(task->model, predictions[i].way.strategy, &options, devices, predictions[i].way.replicas,
                          task->config->global_batch, predictions[i].way.accumulate, &task->config->optimizer,
                          task->config->precision, &key);
        if (status == CLQ_OK) status = clq_device_replace(devices[0], key, &kept, sizeof kept);
    }
    for (unsigned r = 0; r < task->devices->count; r++) clq_device_close(devices[r]);
    return status;
}

clq_status clq_why_recall(const clq_trainer *trainer, const clq_model *model, size_t batch, size_t accumulate,
                          const clq_optimizer *optimizer, clq_precision precision, bool *known,
                          clq_kept_prediction *out) {
    const clq_strategy *strategy = clq_trainer_strategy(trainer);
    const unsigned count = clq_strategy_replicas(strategy);
    clq_device *devices[CLQ_REPLICAS_MAX];
    clq_strategy_kind kind;
    clq_strategy_options options;
    clq_hash128 key;
    void *kept = NULL;
    size_t bytes = 0;
    *known = false;
    clq_strategy_settings(strategy, &kind, &options);
    const char *row = clq_why_row(kind, &options, count);
    if (!row) return CLQ_OK;
    for (unsigned r = 0; r < count; r++) devices[r] = clq_strategy_device(strategy, r);
    if (!clq_device_remembers(devices[0])) return CLQ_OK;
    CLQ_TRY(make_key(model, row, &options, devices, count, batch, accumulate, optimizer, precision, &key));
    CLQ_TRY(clq_device_recall(devices[0], key, &kept, &bytes));
    *known = kept && bytes == sizeof *out;
    if (*known) memcpy(out, kept, sizeof *out);
    clq_free(kept);
    return CLQ_OK;
}
