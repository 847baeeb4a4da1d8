/* Where a model is cut into the stages of a pipeline: at its marks, or by the memory that stages are estimated to need
 * and the time that they take. Times are measured; if any is not known, they are estimated. Estimates need shapes
 * alone, so plans are made only for stages that fit. */
#include "strategy/pipeline/pipeline.h"

#include <math.h>
#include <string.h>

/* ---- estimates ---- */

/* The operations of a layer's product in forward, for a sample; 0: the layer has none. */
static double product_work(const clq_model *model, const clq_model_tensor *y) {
    for (uint32_t v = 0; v < model->variable_count; v++) {
        const clq_variable *variable = &model->variables[v];
        /* A layer's weights are used once for each position of the output. */
        if (variable->layer != y->layer || variable->is_bias || variable->shape.rank < 2) continue;
        return 2.0 * (double)variable->elements *
               ((double)y->elements / (double)variable->shape.dims[variable->shape.rank - 1]);
    }
    return 0;
}

static double tensor_work(const clq_model *model, uint32_t id) {
    const clq_model_tensor *y = &model->tensors[id - 1];
    double moved = (double)y->elements;
    for (uint32_t i = 0; i < y->input_count; i++) moved += (double)clq_model_input_of(model, y, i)->elements;
    /* Backward computes the gradients of inputs and of weights; each takes as much work as forward. */
    return 3 * (product_work(model, y) + CLQ_OPERATIONS_PER_BYTE * moved * (double)clq_dtype_bytes(CLQ_F32));
}

/* Sums over all tensors in front of a tensor. */
typedef struct sums {
    double work;
    uint64_t kept;           /* bytes of a sample that are kept for backward */
    uint64_t trained, state; /* bytes of variables; a layer's variables count at its first tensor */
} sums;

static bool is_first_of_layer(const clq_model *model, uint32_t id) {
    for (uint32_t earlier = 1; earlier < id; earlier++)
        if (model->tensors[earlier - 1].layer == model->tensors[id - 1].layer) return false;
    return true;
}

static void add_tensor(const clq_model *model, const clq_cut_wishes *wishes, uint32_t id, sums *to) {
    const clq_model_tensor *y = &model->tensors[id - 1];
    to->work += tensor_work(model, id);
    to->kept += id == model->input ? wishes->sample_bytes : clq_values_bytes(CLQ_F32, y->elements);
    for (uint32_t v = 0; v < model->variable_count && is_first_of_layer(model, id); v++) {
        const clq_variable *variable = &model->variables[v];
        if (variable->layer != y->layer) continue;
        *(variable->role == CLQ_ROLE_STATE ? &to->state : &to->trained) +=
            clq_round_up(clq_variable_bytes(variable), (size_t)CLQ_VARIABLE_ALIGN);
    }
}

/* Returns sums by tensor id, from 1 to one behind the last; the caller frees them with clq_free. NULL: no memory. */
static sums *add_up(const clq_model *model, const clq_cut_wishes *wishes) {
    sums *all = clq_alloc((size_t)model->tensor_count + 2, sizeof *all);
    for (uint32_t id = 1; all && id <= model->tensor_count; id++) {
        all[id + 1] = all[id];
        add_tensor(model, wishes, id, &all[id + 1]);
    }
    return all;
}

/* What a stage is estimated to need. */
typedef struct estimate {
    double work;   /* of a sample */
    double memory; /* bytes */
} estimate;

static estimate estimate_stage(const clq_model *model, const sums *all, const clq_stage *stage,
                               const clq_cut_wishes *wishes, unsigned index) {
    const sums *begin = &all[stage->before.at], *end = &all[stage->after.at];
    const double crossing =
        (double)clq_cut_bytes(model, &stage->before, false) + (double)clq_cut_bytes(model, &stage->before, true) +
        (double)clq_cut_bytes(model, &stage->after, false) + (double)clq_cut_bytes(model, &stage->after, true);
    const double trained = (double)(end->trained - begin->trained), batch = (double)wishes->micro_batch;
    unsigned flights = 1, arenas = 1;
    if (wishes->trains) { /* arenas: parameters, gradients, and the optimizer's slots */
        flights = clq_pipeline_in_flight(index, wishes->stages, wishes->micro_batches);
        arenas = 2 + wishes->slots;
    }
    return (estimate){.work = end->work - begin->work,
                      .memory = arenas * trained + (double)(end->state - begin->state) +
                                flights * batch * ((double)(end->kept - begin->kept) + crossing) +
                                CLQ_PIPE_SLOTS * batch * crossing / 2};
}

/* ---- marks ---- */

static clq_status use_marks(const clq_model *model, const clq_cut *cuts, size_t count, const clq_cut_wishes *wishes,
                            clq_stage *stages) {
    if (model->mark_count + 1 != wishes->stages)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "model %s is marked for %u stages (clq_pipeline_cut) and %u are asked for: use %u stages, or "
                        "other marks",
                        model->name, model->mark_count + 1, wishes->stages, model->mark_count + 1);
    for (unsigned m = 0; m < model->mark_count; m++) {
        size_t c = 0;
        while (c < count && cuts[c].at != model->marks[m] + 1) c++;
        if (c == count)
            return clq_fail(
                CLQ_ERROR_ARGUMENT,
                "model %s cannot be cut behind layer '%s': it is the input or the output, a layer is applied "
                "on both sides, or more than %d tensors cross: mark another place",
                model->name, clq_model_tensor_name(model, &model->tensors[model->marks[m] - 1]), CLQ_CROSSINGS_MAX);
        stages[m].after = stages[m + 1].before = cuts[c];
    }
    return CLQ_OK;
}

/* ---- the best cuts ---- */

/* ends: the candidate ends of stages. The first is the model's beginning; then come its cuts; the last is its end. */
typedef struct search {
    const clq_model *model;
    const clq_cut_wishes *wishes;
    clq_cut *ends;
    size_t count; /* of ends */
    sums *all;
    double *seconds;               /* (replicas, count) a micro-batch's time up to each end; NULL: some are not known */
    double *cost;                  /* (stages + 1, count) the least cost of that many stages that end there */
    size_t *from;                  /* likewise: the end at which the last of these stages begins */
    double work_most, memory_most; /* limits: a stage above one of them is not taken */
} search;

typedef enum aim { LEAST_FULL, LEAST_WORK, FEWEST_BYTES } aim;

/* Seconds of the model's parts up to an end, on a replica's device; negative: not known. */
static double seconds_before(const search *t, unsigned replica, size_t end) {
    double seconds = 0;
    for (size_t e = 0; e < end; e++) {
        const clq_plan_seconds *part =
            clq_stage_times_find(t->wishes->times[replica], t->ends[e].at, t->ends[e + 1].at);
        if (!part) return -1;
        seconds += part->forward + part->backward;
    }
    return seconds;
}

/* Sets t->seconds, if all parts were measured. */
static clq_status take_times(search *t) {
    const unsigned replicas = t->wishes->replicas;
    for (unsigned r = 0; r < replicas; r++)
        if (seconds_before(t, r, t->count - 1) < 0) return CLQ_OK;
    if (replicas == 0) return CLQ_OK;
    t->seconds = clq_alloc(replicas * t->count, sizeof *t->seconds);
    if (!t->seconds) return CLQ_ERROR_MEMORY;
    for (unsigned r = 0; r < replicas; r++)
        for (size_t e = 0; e < t->count; e++) t->seconds[r * t->count + e] = seconds_before(t, r, e);
    return CLQ_OK;
}

/* Seconds of a stage from end a to end b, on its slowest device: as measured for the stage; if the stage was not
 * measured, the sum of its parts. */
static double time_of(const search *t, unsigned stage, size_t a, size_t b) {
    double most = 0;
    for (unsigned r = stage; r < t->wishes->replicas; r += t->wishes->stages) {
        const double *before = &t->seconds[r * t->count];
        const clq_plan_seconds *whole = clq_stage_times_find(t->wishes->times[r], t->ends[a].at, t->ends[b].at);
        most = CLQ_MAX(most, whole ? whole->forward + whole->backward : before[b] - before[a]);
    }
    return most;
}

/* The cost of stages that end at b, if the last stage begins at a and the stages before it cost `before`. */
static double cost_of(const search *t, aim to, unsigned stage, size_t a, size_t b, double before) {
    const clq_stage made = {t->ends[a], t->ends[b]};
    estimate e = estimate_stage(t->model, t->all, &made, t->wishes, stage);
    const double fullness = e.memory / (double)CLQ_MAX(t->wishes->memory[stage], (uint64_t)1);
    if (to == LEAST_FULL) return CLQ_MAX(before, fullness);
    if (fullness > t->memory_most) return (double)INFINITY;
    if (t->seconds) e.work = time_of(t, stage, a, b);
    if (to == LEAST_WORK) return CLQ_MAX(before, e.work);
    if (e.work > t->work_most) return (double)INFINITY;
    /* If cuts have the same bytes, the most even stages win: the sum of their squares is the least. */
    const double part = t->work_most > 0 ? e.work / t->work_most : 0, unlike = part * part * 1e-3;
    return before + unlike + (double)clq_cut_bytes(t->model, &t->ends[b], false) +
           (double)clq_cut_bytes(t->model, &t->ends[b], true);
}

/* Finds the best stages by dynamic programming over their ends. Returns the least cost. */
static double solve(search *t, aim to) {
    const unsigned stages = t->wishes->stages;
    for (size_t b = 0; b < t->count; b++) t->cost[b] = b == 0 ? 0 : (double)INFINITY;
    for (unsigned s = 0; s < stages; s++)
        for (size_t b = 0; b < t->count; b++) {
            double *best = &t->cost[(s + 1) * t->count + b];
            *best = (double)INFINITY;
            for (size_t a = 0; a < b; a++) {
                const double before = t->cost[s * t->count + a];
                const double cost = isinf(before) ? before : cost_of(t, to, s, a, b, before);
                if (cost >= *best) continue;
                *best = cost;
                t->from[(s + 1) * t->count + b] = a;
            }
        }
    return t->cost[stages * t->count + t->count - 1];
}

/* First finds how full devices must be: stages that fit, or exceed their memory the least. Then finds the least work of
 * the slowest stage. Then, among stages that are nearly as good, takes those with the fewest bytes across cuts. */
static void find_best(search *t, clq_stage *stages) {
    static const double nearly = 1.05;
    t->memory_most = CLQ_MAX(solve(t, LEAST_FULL), 1.0) * (1 + 1e-12);
    t->work_most = solve(t, LEAST_WORK) * nearly;
    (void)solve(t, FEWEST_BYTES);
    size_t end = t->count - 1;
    for (unsigned s = t->wishes->stages; s-- > 0;) {
        const size_t begin = t->from[(s + 1) * t->count + end];
        stages[s] = (clq_stage){t->ends[begin], t->ends[end]};
        end = begin;
    }
}

static void set_ends(const clq_model *model, const clq_cut *cuts, size_t count, clq_cut *ends) {
    ends[0].at = 1;
    memcpy(&ends[1], cuts, count * sizeof *cuts);
    ends[count + 1].at = model->tensor_count + 1;
}

static clq_status search_cuts(const clq_model *model, const clq_cut *cuts, size_t count, const clq_cut_wishes *wishes,
                              clq_stage *stages, clq_cut_basis *basis) {
    search t = {.model = model, .wishes = wishes, .count = count + 2};
    t.ends = clq_alloc(t.count, sizeof *t.ends);
    t.all = add_up(model, wishes);
    t.cost = clq_alloc(t.count, (wishes->stages + 1) * sizeof *t.cost);
    t.from = clq_alloc(t.count, (wishes->stages + 1) * sizeof *t.from);
    clq_status status = t.ends && t.all && t.cost && t.from ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) {
        set_ends(model, cuts, count, t.ends);
        status = take_times(&t);
    }
    if (status == CLQ_OK) {
        *basis = t.seconds ? CLQ_CUT_BY_TIME : CLQ_CUT_BY_ESTIMATE;
        find_best(&t, stages);
    }
    clq_free(t.ends);
    clq_free(t.seconds);
    clq_free(t.all);
    clq_free(t.cost);
    clq_free(t.from);
    return status;
}

clq_status clq_model_parts(const clq_model *model, clq_stage **out, size_t *count) {
    clq_cut *cuts;
    CLQ_TRY(clq_model_cuts(model, &cuts, count));
    clq_stage *parts = clq_alloc(*count + 1, sizeof *parts);
    clq_cut *ends = clq_alloc(*count + 2, sizeof *ends);
    const clq_status status = parts && ends ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) {
        set_ends(model, cuts, *count, ends);
        for (size_t i = 0; i <= *count; i++) parts[i] = (clq_stage){ends[i], ends[i + 1]};
        *out = parts;
        ++*count;
    } else {
        clq_free(parts);
    }
    clq_free(ends);
    clq_free(cuts);
    return status;
}

clq_status clq_choose_cuts(const clq_model *model, const clq_cut_wishes *wishes, clq_stage *stages,
                           clq_cut_basis *basis) {
    clq_cut *cuts;
    size_t count;
    clq_cut_basis found = CLQ_CUT_BY_MARKS;
    CLQ_TRY(clq_model_cuts(model, &cuts, &count));
    clq_status status;
    if (count + 1 < wishes->stages)
        status =
            clq_fail(CLQ_ERROR_ARGUMENT, "model %s can be cut into at most %zu stage%s and %u are asked for: use fewer",
                     model->name, count + 1, clq_plural(count + 1), wishes->stages);
    else if (model->mark_count > 0) {
        stages[0].before = (clq_cut){.at = 1};
        stages[wishes->stages - 1].after = (clq_cut){.at = model->tensor_count + 1};
        status = use_marks(model, cuts, count, wishes, stages);
    } else {
        status = search_cuts(model, cuts, count, wishes, stages, &found);
    }
    clq_free(cuts);
    if (basis && status == CLQ_OK) *basis = found;
    return status;
}
