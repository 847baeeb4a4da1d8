/* How long parts of a model take on a device. These times are measured, and kept beside built kernels. Only tuning
 * measures. Every other run uses the kept times, so that it cuts a model as the run before it did. */
#include "strategy/pipeline/pipeline.h"

const clq_plan_seconds *clq_stage_times_find(const clq_stage_times *times, uint32_t begin, uint32_t end) {
    for (size_t i = 0; i < times->count; i++)
        if (times->items[i].begin == begin && times->items[i].end == end) return &times->items[i].seconds;
    return NULL;
}

/* ---- keeping ---- */

static clq_status make_key(const clq_stage_timing *of, clq_hash128 *out) {
    const clq_device_info *info = clq_device_get_info(of->device);
    const clq_plan_config *config = &of->config;
    clq_text text = {0};
    clq_text_add(&text, "times of stages 3 of clique %s\n%s %s %s %u units\n", clq_version(), info->driver, info->name,
                 info->driver_version, info->compute_units);
    clq_text_add(&text, "%u samples, trains %d, accumulates %d\n%s", config->capacity, config->update != NULL,
                 (int)config->accumulates, of->settings ? of->settings : "");
    clq_model_add_key(of->model, &text);
    if (!text.failed) *out = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

clq_status clq_stage_times_recall(const clq_stage_timing *of, clq_stage_times *times) {
    clq_hash128 key;
    void *kept;
    size_t bytes;
    if (!clq_device_remembers(of->device)) return CLQ_OK;
    CLQ_TRY(make_key(of, &key));
    CLQ_TRY(clq_device_recall(of->device, key, &kept, &bytes));
    if (!kept) return CLQ_OK;
    *times = (clq_stage_times){.count = bytes / sizeof *times->items, .capacity = bytes / sizeof *times->items};
    times->items = kept; /* it was made by clq_alloc */
    return CLQ_OK;
}

static clq_status keep(const clq_stage_timing *of, clq_stage_times *times) {
    clq_hash128 key;
    CLQ_TRY(make_key(of, &key));
    const clq_status status = clq_device_replace(of->device, key, times->items, times->count * sizeof *times->items);
    if (status == CLQ_OK || status == CLQ_ERROR_MEMORY) return status;
    clq_log(CLQ_LOG_WARNING, "%s: the measured times of stages are not used, since they cannot be kept: %s",
            clq_device_label(of->device), clq_error_detail());
    times->count = 0;
    return CLQ_OK;
}

/* ---- measuring ---- */

/* Adds a stage's time, or replaces the time that was known. */
static clq_status add(clq_stage_times *times, const clq_stage *stage, const clq_plan_seconds *seconds) {
    clq_stage_time *item = times->items, *end = times->items + times->count;
    while (item < end && (item->begin != stage->before.at || item->end != stage->after.at)) item++;
    if (item == end) {
        clq_stage_time *items = clq_grow(times->items, times->count, &times->capacity, 16, sizeof *items);
        if (!items) return CLQ_ERROR_MEMORY;
        times->items = items;
        item = &items[times->count++];
    }
    *item = (clq_stage_time){stage->before.at, stage->after.at, *seconds};
    return CLQ_OK;
}

static clq_status measure_one(const clq_stage_timing *of, const clq_tune_config *tune, const clq_stage *stage,
                              clq_stage_times *times) {
    const void *mark = clq_device_mark_programs(of->device);
    clq_plan_config config = of->config;
    clq_plan_seconds seconds;
    config.stage = stage;
    clq_status status = clq_plan_time(of->model, of->device, &config, tune, &seconds);
    clq_device_drop_programs(of->device, mark);
    if (status == CLQ_ERROR_BUILD || status == CLQ_ERROR_DEVICE_MEMORY || status == CLQ_ERROR_UNSUPPORTED)
        return CLQ_OK;
    return status == CLQ_OK ? add(times, stage, &seconds) : status;
}

static double now(const clq_tune_config *tune) { return tune->now ? tune->now(tune->context) : clq_now(); }

clq_status clq_stage_times_measure(const clq_stage_timing *of, const clq_tune_config *tune, const clq_stage *stages,
                                   size_t count, clq_stage_times *times) {
    if (!clq_device_remembers(of->device)) return CLQ_OK;
    double longest = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        if (clq_stage_times_find(times, stages[i].before.at, stages[i].after.at)) continue;
        if (tune->budget_s > 0 && times->spent_s + longest >= tune->budget_s) break;
        const double begun = now(tune);
        CLQ_TRY(measure_one(of, tune, &stages[i], times));
        const double took = now(tune) - begun;
        longest = CLQ_MAX(longest, took);
        times->spent_s += took;
        any = true;
    }
    return any ? keep(of, times) : CLQ_OK;
}

/* ---- cutting by them ---- */

static clq_stage_timing timing_of(const clq_strategy *strategy, unsigned replica, uint32_t micro_batch) {
    clq_stage_timing of = {.model = strategy->model,
                           .device = strategy->replicas[replica].worker.device,
                           .config = strategy->config.plan,
                           .settings = strategy->config.stage_settings};
    of.config.capacity = micro_batch;
    of.config.accumulates = true; /* as in each stage's plan (clq_replica_plan_config) */
    return of;
}

static clq_status measure_parts(const clq_stage_timing *of, const clq_tune_config *tune, const clq_stage *parts,
                                size_t count, clq_stage_times *times) {
    if (tune->anew) times->count = 0;
    return clq_stage_times_measure(of, tune, parts, count, times);
}

/* Measures the model's parts, and chooses stages by these times. The sum of the parts is only near a stage's time,
 * because launches of neighbouring parts are fused. So the chosen stages are measured, and stages are chosen again, in
 * several rounds, until the choice stands. */
static clq_status measure_stages(clq_strategy *strategy, const clq_cut_wishes *wishes) {
    enum { ROUNDS = 16 };
    clq_pipeline *pipeline = strategy->own;
    const clq_tune_config tune = clq_tune_config_of(strategy->config.tuning, strategy->config.tuning_s);
    clq_stage *parts;
    size_t count;
    CLQ_TRY(clq_model_parts(strategy->model, &parts, &count));
    clq_status status = CLQ_OK;
    for (unsigned round = 0; round <= ROUNDS && status == CLQ_OK; round++) {
        if (round > 0) status = clq_choose_cuts(strategy->model, wishes, pipeline->cut, &pipeline->basis);
        if (round > 0 && pipeline->basis != CLQ_CUT_BY_TIME) break; /* the budget did not suffice for all parts */
        for (unsigned r = 0; r < strategy->count && status == CLQ_OK; r++) {
            const clq_stage_timing of = timing_of(strategy, r, wishes->micro_batch);
            clq_stage_times *times = &pipeline->times[pipeline->kind_of[r]];
            if (round > 0)
                status = clq_stage_times_measure(&of, &tune, &pipeline->cut[r % pipeline->stages], 1, times);
            else if (pipeline->kind_of[r] == r)
                status = measure_parts(&of, &tune, parts, count, times);
        }
    }
    clq_free(parts);
    return status;
}

clq_status clq_pipeline_choose_cuts(clq_strategy *strategy, clq_cut_wishes *wishes) {
    clq_pipeline *pipeline = strategy->own;
    wishes->replicas = strategy->model->mark_count > 0 ? 0 : strategy->count;
    for (unsigned r = 0; r < wishes->replicas; r++) {
        const clq_device *device = strategy->replicas[r].worker.device;
        const clq_stage_timing of = timing_of(strategy, r, wishes->micro_batch);
        unsigned *kind = &pipeline->kind_of[r];
        while (!clq_selections_are_shared(strategy->replicas[*kind].worker.device, device)) ++*kind; /* at most to r */
        if (*kind == r) CLQ_TRY(clq_stage_times_recall(&of, &pipeline->times[r]));
        wishes->times[r] = &pipeline->times[*kind];
    }
    if (wishes->replicas > 0 && strategy->config.tuning != CLQ_TUNING_OFF) CLQ_TRY(measure_stages(strategy, wishes));
    return clq_choose_cuts(strategy->model, wishes, pipeline->cut, &pipeline->basis);
}
