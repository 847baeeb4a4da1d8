/* Keeps predictions for the verdict of a later training. */
#include "why/why.h"

#include <stdio.h>
#include <string.h>

/* The key of a prediction. row: of the strategy that is predicted; devices: of the replicas, in order. */
static clq_status make_key(const clq_model *model, const char *row, const clq_trainer_config *config,
                           clq_strategy_kind strategy, clq_device *const *devices, unsigned count, clq_hash128 *out) {
    clq_text text = {0};
    clq_text_add(&text, "prediction 6 of clique %s\n%s\n", clq_version(), row);
    clq_trainer_config of_row = *config;
    if (strcmp(row, "ps") != 0) of_row.strategy_options.staleness = 0; /* the row "ps --staleness 0" tells it */
    clq_settings_add_key(&of_row, CLQ_KEY_PREDICTION, strategy, &text);
    clq_model_add_key(model, &text);
    for (unsigned r = 0; r < count; r++) {
        const clq_device_info *info = clq_device_get_info(devices[r]);
        clq_text_add(&text, "%u %s %s %s %u units, %llu bytes\n", info->index, info->driver, info->name,
                     info->driver_version, info->compute_units,
                     (unsigned long long)clq_device_memory_budget(devices[r])); /* stages and recomputation use it */
    }
    if (!text.failed) *out = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

/* The strategy of a row: MIRRORED of "mirrored --shard-optimizer". */
static clq_strategy_kind kind_of(const char *row) {
    const char *name;
    for (size_t kind = 0; (name = clq_strategy_name(kind)) != NULL; kind++)
        if (strlen(name) == strcspn(row, " ") && strncmp(row, name, strlen(name)) == 0) return (clq_strategy_kind)kind;
    return CLQ_STRATEGY_AUTO;
}

clq_status clq_why_keep(const clq_why_task *task, const clq_prediction *predictions, size_t count) {
    const clq_prediction *best = clq_why_best(predictions, count);
    clq_device *devices[CLQ_REPLICAS_MAX];
    clq_status status = CLQ_OK;
    clq_trainer_config config = *task->config;
    if (config.strategy != CLQ_STRATEGY_PS || config.strategy_options.staleness <= 0) /* as probes take it */
        config.strategy_options.staleness = clq_trainer_config_default().strategy_options.staleness;
    CLQ_TRY(clq_devices_open(task->devices, false, devices, NULL));
    for (size_t i = 0; i < count && status == CLQ_OK && clq_device_remembers(devices[0]); i++) {
        const clq_way *way = &predictions[i].way;
        clq_kept_prediction kept = {.images_per_s = predictions[i].images_per_s,
                                    .best_images_per_s = best->images_per_s,
                                    .best_replicas = best->way.replicas,
                                    .limit = predictions[i].limit};
        clq_hash128 key;
        (void)snprintf(kept.best_strategy, sizeof kept.best_strategy, "%s", best->way.strategy);
        config.strategy_options.accumulate = way->accumulate;
        status = make_key(task->model, way->strategy, &config, kind_of(way->strategy), devices, way->replicas, &key);
        if (status == CLQ_OK) status = clq_device_replace(devices[0], key, &kept, sizeof kept);
    }
    for (unsigned r = 0; r < task->devices->count; r++) clq_device_close(devices[r]);
    return status;
}

clq_status clq_why_recall(const clq_trainer *trainer, const clq_model *model, const clq_trainer_config *config,
                          bool *known, clq_kept_prediction *out) {
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
    CLQ_TRY(make_key(model, row, config, kind_of(row), devices, count, &key));
    CLQ_TRY(clq_device_recall(devices[0], key, &kept, &bytes));
    *known = kept && bytes == sizeof *out;
    if (*known) memcpy(out, kept, sizeof *out);
    clq_free(kept);
    return CLQ_OK;
}
