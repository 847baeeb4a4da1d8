/* What the stages of a pipeline are, for reports. */
#include "strategy/pipeline/pipeline.h"

/* Work as in the estimates of cuts.c: operations, with a moved byte as CLQ_OPERATIONS_PER_BYTE. */
static double work_of(const clq_plan *plan, clq_segment first, clq_segment last) {
    size_t begin, end, unused;
    double work = 0;
    clq_plan_segment_range(plan, first, &begin, &unused);
    clq_plan_segment_range(plan, last, &unused, &end);
    for (size_t i = begin; i < end; i++) {
        clq_launch_info info;
        clq_list_launch_info(clq_plan_list(plan), i, &info);
        work += info.flops + CLQ_OPERATIONS_PER_BYTE * info.bytes;
    }
    return work;
}

static size_t parameters_of(const clq_model *model, const clq_stage *stage) {
    size_t parameters = 0;
    for (uint32_t v = 0; v < model->variable_count; v++)
        if (clq_stage_has_variable(stage, model, v)) parameters += model->variables[v].elements;
    return parameters;
}

const char *clq_cut_basis_name(clq_cut_basis basis) {
    static const char *const names[] = {"marks", "estimates", "measured time"};
    return names[basis];
}

bool clq_strategy_stage(const clq_strategy *strategy, size_t index, clq_stage_info *out) {
    if (strategy->module != &clq_strategy_pipeline) return false;
    const clq_pipeline *pipeline = strategy->own;
    if (index >= pipeline->stages) return false;
    const clq_replica *replica = &strategy->replicas[index];
    const clq_cut *cut = &replica->stage->after;
    const bool trains = strategy->config.plan.update;
    const clq_stage_times *times = &pipeline->times[pipeline->kind_of[index]];
    *out =
        (clq_stage_info){.stage = replica->stage,
                         .replica = (unsigned)index,
                         .parameters = parameters_of(strategy->model, replica->stage),
                         .memory_bytes = clq_device_memory_used(replica->worker.device),
                         .forward = work_of(replica->plan, CLQ_SEGMENT_FORWARD, CLQ_SEGMENT_LOSS),
                         .backward = trains ? work_of(replica->plan, CLQ_SEGMENT_BACKWARD, CLQ_SEGMENT_BACKWARD) : 0,
                         .took = clq_stage_times_find(times, replica->stage->before.at, cut->at),
                         .sent_bytes = replica->plan_capacity * clq_cut_bytes(strategy->model, cut, false),
                         .back_bytes = trains ? replica->plan_capacity * clq_cut_bytes(strategy->model, cut, true) : 0};
    return true;
}

bool clq_strategy_pipelines(const clq_strategy *strategy, clq_pipeline_info *out) {
    double forward[CLQ_REPLICAS_MAX], backward[CLQ_REPLICAS_MAX];
    clq_stage_info info;
    bool timed = true;
    if (!clq_strategy_stage(strategy, 0, &info)) return false;
    const clq_pipeline *pipeline = strategy->own;
    for (unsigned s = 0; clq_strategy_stage(strategy, s, &info); s++) timed &= info.took != NULL;
    for (unsigned s = 0; clq_strategy_stage(strategy, s, &info); s++) {
        forward[s] = timed ? info.took->forward : info.forward;
        backward[s] = timed ? info.took->backward : info.backward;
    }
    *out = (clq_pipeline_info){.stages = pipeline->stages,
                               .pipelines = pipeline->pipelines,
                               .micro_batches = pipeline->micro_batches,
                               .basis = pipeline->basis,
                               .timed = timed,
                               .bubble = (pipeline->stages - 1.0) / (pipeline->micro_batches + pipeline->stages - 1.0),
                               .bubble_expected =
                                   clq_pipeline_bubble(pipeline->stages, pipeline->micro_batches, forward, backward)};
    return true;
}
