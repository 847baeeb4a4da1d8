/* What recomputation can do for a plan: levels with more and more recomputation, and the bytes and the work of each
 * level. */
#include "graph/plan.h"

#include <math.h>

static double work_of(const clq_plan *plan) {
    double work = 0;
    for (size_t i = 0; i < plan->segment_end[CLQ_SEGMENT_BACKWARD]; i++) {
        clq_launch_info info;
        clq_list_launch_info(plan->list, i, &info);
        work += info.flops + CLQ_OPERATIONS_PER_BYTE * info.bytes;
    }
    return work;
}

clq_recompute_level clq_plan_level(const clq_plan *plan) {
    return (clq_recompute_level){.recompute = plan->config.recompute,
                                 .activations_most = plan->config.activations_most,
                                 .activation_bytes = plan->placement.bytes,
                                 .work = work_of(plan)};
}

/* Makes the level from a plan over the same weights. That plan has no memory of its own. */
static clq_status make_level(const clq_plan *plan, clq_recompute_kind recompute, size_t most,
                             clq_recompute_level *out) {
    clq_plan_config config = plan->config;
    clq_plan *other;
    config.recompute = recompute;
    config.activations_most = most;
    config.unbound = true;
    config.beside = plan;
    config.metrics_of = NULL;
    config.selections = NULL; /* they were only borrowed */
    CLQ_TRY(clq_plan_create(plan->weights, &config, &other));
    *out = clq_plan_level(other);
    out->activations_most = most;
    clq_plan_destroy(other);
    return CLQ_OK;
}

static bool is_same(const clq_recompute_level *a, const clq_recompute_level *b) {
    return a->activation_bytes == b->activation_bytes && fabs(a->work - b->work) <= 1e-9 * a->work;
}

clq_status clq_plan_levels(const clq_plan *plan, clq_recompute_level levels[CLQ_RECOMPUTE_LEVELS], size_t *count) {
    clq_recompute_level all;
    size_t used = 1;
    CLQ_TRY(make_level(plan, CLQ_RECOMPUTE_OFF, 0, &levels[0]));
    CLQ_TRY(make_level(plan, CLQ_RECOMPUTE_ALL, 0, &all));
    const size_t off = levels[0].activation_bytes;
    for (size_t tenths = 9; tenths > 0 && off > 0; tenths--) {
        const size_t most = off / 10 * tenths;
        if (most <= all.activation_bytes) break;
        CLQ_TRY(make_level(plan, CLQ_RECOMPUTE_AUTO, most, &levels[used]));
        if (!is_same(&levels[used], &levels[used - 1]) && !is_same(&levels[used], &all)) used++;
    }
    if (!is_same(&all, &levels[used - 1])) levels[used++] = all;
    *count = used;
    return CLQ_OK;
}

clq_status clq_plan_time_level(const clq_plan *plan, const clq_recompute_level *level, clq_plan_seconds *out) {
    clq_plan_config config = plan->config;
    const clq_tune_config tune = {.anew = false};
    config.recompute = level->recompute;
    config.activations_most = level->activations_most;
    config.beside = config.metrics_of = NULL;
    config.selections = NULL;
    /* Only forward and backward are timed, and the lists in the options were only borrowed, too. */
    config.update_options = (clq_update_options){.scaling = plan->config.update_options.scaling};
    config.exchange.all_reduce = config.joins.all_reduce = config.norm_parts.all_reduce = NULL;
    return clq_plan_time(plan->model, plan->device, &config, &tune, out);
}
