/* Updates with several optimizers. The arenas are divided into runs, each of which one optimizer updates, by launches
 * of its own. */
#include "graph/plan.h"

unsigned clq_update_slots(const clq_optimizer *main, const clq_update_options *options) {
    unsigned states = clq_optimizer_states(main);
    for (unsigned i = 0; i < options->other_count; i++)
        states = CLQ_MAX(states, clq_optimizer_states(&options->others[i]));
    return states + (options->averages ? 1 : 0);
}

bool clq_updates_have_trust_ratios(const clq_optimizer *main, const clq_update_options *options) {
    bool any = clq_optimizer_has_trust_ratio(main);
    for (unsigned i = 0; i < options->other_count; i++) any = any || clq_optimizer_has_trust_ratio(&options->others[i]);
    return any;
}

const clq_optimizer *clq_updates_optimizer(const clq_updates *updates, unsigned number) {
    return number ? &updates->others[number - 1] : updates->main;
}

/* ---- finding them ---- */

/* Adds a variable to the runs. Variables come in the order of the arenas. */
static void add_variable(clq_weights *weights, uint32_t index) {
    const unsigned optimizer = weights->treatments[index].optimizer;
    clq_run *last = weights->run_count ? &weights->runs[weights->run_count - 1] : NULL;
    if (last && last->optimizer == optimizer) return;
    if (last) last->end = weights->offsets[index];
    weights->runs[weights->run_count++] =
        (clq_run){.begin = last ? weights->offsets[index] : 0, .end = weights->arena_bytes, .optimizer = optimizer};
}

/* Goes through the variables as they were laid out: from the last to the first, and slices behind variables that are
 * whole. */
static void find_runs(clq_weights *weights) {
    const clq_model *model = weights->model;
    for (unsigned slices = 0; slices < 2; slices++)
        for (uint32_t i = model->variable_count; i-- > 0;)
            if (model->variables[i].role == CLQ_ROLE_TRAINABLE && weights->offsets[i] != CLQ_NO_OFFSET &&
                clq_weight_slice_is_part(&weights->slices[i], &model->variables[i]) == (slices == 1))
                add_variable(weights, i);
    if (weights->run_count == 0) weights->runs[weights->run_count++] = (clq_run){.end = weights->arena_bytes};
}

clq_status clq_weights_take_optimizers(clq_weights *weights, const clq_optimizer *main,
                                       const clq_update_options *options) {
    const uint32_t variables = CLQ_MAX(weights->model->variable_count, 1u);
    weights->trust_ratios = clq_updates_have_trust_ratios(main, options);
    weights->main_has_trust_ratio = clq_optimizer_has_trust_ratio(main);
    if (!(weights->runs = clq_alloc(variables, sizeof *weights->runs))) return CLQ_ERROR_MEMORY;
    for (unsigned i = 0; i < options->other_count; i++) weights->others[i] = options->others[i];
    find_runs(weights);
    return clq_find_held(weights, &weights->held, &weights->held_count);
}

bool clq_weights_have_trust_ratio(const clq_weights *weights, uint32_t variable) {
    const unsigned number = weights->treatments[variable].optimizer;
    return number ? clq_optimizer_has_trust_ratio(&weights->others[number - 1]) : weights->main_has_trust_ratio;
}

/* ---- their launches ---- */

clq_updates clq_plan_updates(const clq_plan *plan, size_t begin, size_t end) {
    const clq_weights *weights = plan->weights;
    return (clq_updates){.main = &plan->update,
                         .others = weights->others,
                         .runs = weights->runs,
                         .run_count = weights->run_count,
                         .held = weights->held,
                         .held_count = weights->held_count,
                         .clip = plan->config.update_options.clip,
                         .skips = plan->config.update_options.scaling.initial > 0,
                         .trust_ratios = weights->trust_ratios,
                         .begin = begin,
                         .end = end};
}

/* Gives the part of run `index` that is updated. False: there is none. */
static bool take_run(const clq_updates *updates, size_t index, const clq_update_arenas *all, clq_update_arenas *arenas,
                     clq_update_problem *problem) {
    const clq_run *run = &updates->runs[index];
    const size_t begin = CLQ_MAX(run->begin, updates->begin), end = CLQ_MIN(run->end, updates->end);
    if (begin >= end) return false;
    const size_t before = clq_values_count(CLQ_F32, begin - updates->begin);
    *arenas = *all;
    arenas->first += before;
    arenas->states_first += before;
    arenas->first_block += before / CLQ_UPDATE_BLOCK;
    arenas->floats = clq_values_count(CLQ_F32, end - begin);
    *problem = (clq_update_problem){.optimizer = *clq_updates_optimizer(updates, run->optimizer),
                                    .number = run->optimizer,
                                    .limit = updates->clip.kind == CLQ_CLIP_VALUE ? (float)updates->clip.limit : 0,
                                    .factor_of_all = updates->clip.kind != CLQ_CLIP_NORM,
                                    .skips = updates->skips,
                                    .summed = updates->summed};
    return true;
}

void clq_add_updates(clq_list *list, const clq_updates *updates, const clq_update_arenas *all) {
    clq_update_arenas arenas;
    clq_update_problem problem;
    for (size_t i = 0; i < updates->run_count; i++)
        if (take_run(updates, i, all, &arenas, &problem)) clq_update(list, &problem, &arenas);
    for (size_t i = 0; i < updates->held_count; i++) clq_follow_update(list, &updates->held[i], all->w);
}

clq_value clq_add_directions(clq_list *list, const clq_updates *updates, const clq_update_arenas *all,
                             clq_value squares) {
    clq_update_arenas arenas;
    clq_update_problem problem;
    bool any = false;
    for (size_t i = 0; i < updates->run_count; i++) {
        if (!take_run(updates, i, all, &arenas, &problem) || !clq_optimizer_has_trust_ratio(&problem.optimizer))
            continue;
        clq_update_directions(list, &problem, &arenas, squares);
        any = true;
    }
    return any ? squares : CLQ_NO_VALUE;
}
