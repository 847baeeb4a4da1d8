/* Where a model can be cut into stages, and the memory of tensors that cross the cuts. */
#include "graph/plan.h"

#include <string.h>

/* ---- cuts ---- */

/* What is known of a tensor to decide about cuts, by its id. */
typedef struct reach {
    uint32_t last_reader;  /* the last tensor that is computed from it; its own id if there is none */
    uint32_t last_sharing; /* the last tensor of the same layer */
    bool trained;          /* it depends on a trainable variable */
} reach;

static bool layer_trains(const clq_model *model, uint32_t layer) {
    for (uint32_t v = 0; v < model->variable_count; v++)
        if (model->variables[v].layer == layer && model->variables[v].role == CLQ_ROLE_TRAINABLE) return true;
    return false;
}

static void find_reach(const clq_model *model, reach *of) {
    for (uint32_t id = 1; id <= model->tensor_count; id++) {
        const clq_model_tensor *y = &model->tensors[id - 1];
        of[id] = (reach){.last_reader = id, .last_sharing = id, .trained = layer_trains(model, y->layer)};
        for (uint32_t earlier = 1; earlier < id; earlier++)
            if (model->tensors[earlier - 1].layer == y->layer) of[earlier].last_sharing = id;
        for (uint32_t i = 0; i < y->input_count; i++) {
            reach *x = &of[model->inputs[y->first_input + i]];
            x->last_reader = id;
            of[id].trained |= x->trained;
        }
    }
    for (uint32_t i = 0; i < model->output_count; i++) { /* the output's loss reads its mask */
        const uint32_t mask = model->tensors[model->outputs[i] - 1].mask;
        if (!mask) continue;
        of[mask].last_reader = CLQ_MAX(of[mask].last_reader, model->outputs[i]);
        of[model->outputs[i]].last_sharing = CLQ_MAX(of[model->outputs[i]].last_sharing, mask);
    }
}

/* False: the model cannot be cut here, since a layer is applied on both sides, or too many tensors cross. */
static bool cut_at(const reach *of, uint32_t at, clq_cut *out) {
    clq_cut cut = {.at = at};
    for (uint32_t id = 1; id < at; id++) {
        if (of[id].last_sharing >= at) return false;
        if (of[id].last_reader < at) continue;
        if (cut.count == CLQ_CROSSINGS_MAX) return false;
        cut.tensors[cut.count] = id;
        cut.trained[cut.count++] = of[id].trained;
    }
    *out = cut;
    return true;
}

clq_status clq_model_cuts(const clq_model *model, clq_cut **out, size_t *count) {
    reach *of = clq_alloc((size_t)model->tensor_count + 1, sizeof *of);
    clq_cut *cuts = clq_alloc(model->tensor_count, sizeof *cuts);
    if (!of || !cuts) {
        clq_free(of);
        clq_free(cuts);
        return CLQ_ERROR_MEMORY;
    }
    find_reach(model, of);
    *count = 0;
    for (uint32_t at = model->input + 2; at <= model->tensor_count; at++)
        if (cut_at(of, at, &cuts[*count])) ++*count;
    clq_free(of);
    *out = cuts;
    return CLQ_OK;
}

size_t clq_cut_bytes(const clq_model *model, const clq_cut *cut, bool gradients) {
    size_t bytes = 0;
    for (unsigned i = 0; i < cut->count; i++)
        if (!gradients || cut->trained[i])
            bytes += clq_values_bytes(CLQ_F32, model->tensors[cut->tensors[i] - 1].elements);
    return bytes;
}

bool clq_stage_has_tensor(const clq_stage *stage, uint32_t id) {
    return !stage || (id >= stage->before.at && id < stage->after.at);
}

bool clq_stage_has_variable(const clq_stage *stage, const clq_model *model, uint32_t variable) {
    for (uint32_t id = 1; stage && id <= model->tensor_count; id++)
        if (model->tensors[id - 1].layer == model->variables[variable].layer) return clq_stage_has_tensor(stage, id);
    return true;
}

/* ---- what crosses, in a plan ---- */

const clq_cut *clq_stage_cut_of(const clq_stage *stage, clq_crossing kind) {
    return kind == CLQ_RECEIVED || kind == CLQ_SENT_GRADIENT ? &stage->before : &stage->after;
}

/* Whether the plan has this crossing. It has gradients only if it trains, and only of tensors that depend on trained
 * variables. */
static bool has(const clq_plan *plan, clq_crossing kind, unsigned index) {
    const bool gradient = kind == CLQ_RECEIVED_GRADIENT || kind == CLQ_SENT_GRADIENT;
    return !gradient || (plan->config.update && clq_stage_cut_of(plan->config.stage, kind)->trained[index]);
}

/* If a tensor passes through the stage, it is sent from the buffer where it was received: gives this buffer. Otherwise
 * NULL. */
static clq_buffer *passing(const clq_plan *plan, clq_crossing kind, uint32_t tensor) {
    const clq_cut *before = &plan->config.stage->before;
    for (unsigned i = 0; i < before->count && kind == CLQ_SENT; i++)
        if (before->tensors[i] == tensor) return plan->crossings[CLQ_RECEIVED][i];
    return NULL;
}

clq_status clq_plan_create_crossings(clq_plan *plan) {
    static const char *const names[] = {[CLQ_RECEIVED] = "received values",
                                        [CLQ_SENT] = "sent values",
                                        [CLQ_RECEIVED_GRADIENT] = "received gradients",
                                        [CLQ_SENT_GRADIENT] = "sent gradients"};
    for (clq_crossing kind = 0; plan->config.stage && kind < CLQ_CROSSING_KINDS; kind++) {
        const clq_cut *cut = clq_stage_cut_of(plan->config.stage, kind);
        for (unsigned i = 0; i < cut->count; i++) {
            clq_buffer **out = &plan->crossings[kind][i];
            const size_t elements = plan->model->tensors[cut->tensors[i] - 1].elements;
            if (!has(plan, kind, i)) continue;
            *out = passing(plan, kind, cut->tensors[i]);
            if (*out) continue;
            CLQ_TRY(clq_plan_create_buffer(plan, plan->config.beside ? plan->config.beside->crossings[kind][i] : NULL,
                                           plan->config.capacity * clq_values_bytes(CLQ_F32, elements), names[kind],
                                           out));
        }
    }
    return CLQ_OK;
}

/* Whether the plan owns the buffer: the buffer is not borrowed, and it is not the sent buffer of a tensor that passes
 * through. */
static bool owns(const clq_plan *plan, clq_crossing kind, unsigned index) {
    const clq_buffer *buffer = plan->crossings[kind][index];
    if (!buffer || (plan->config.beside && plan->config.beside->crossings[kind][index] == buffer)) return false;
    return passing(plan, kind, clq_stage_cut_of(plan->config.stage, kind)->tensors[index]) != buffer;
}

void clq_plan_destroy_crossings(clq_plan *plan) {
    for (unsigned kind = CLQ_CROSSING_KINDS; plan->config.stage && kind-- > 0;) /* RECEIVED last: owns() reads it */
        for (unsigned i = 0; i < CLQ_CROSSINGS_MAX; i++)
            if (owns(plan, (clq_crossing)kind, i)) clq_buffer_destroy(plan->crossings[kind][i]);
}

size_t clq_plan_crossing_bytes(const clq_plan *plan) {
    size_t bytes = 0;
    for (clq_crossing kind = 0; plan->config.stage && kind < CLQ_CROSSING_KINDS; kind++)
        for (unsigned i = 0; i < CLQ_CROSSINGS_MAX; i++)
            if (plan->crossings[kind][i] &&
                !passing(plan, kind, clq_stage_cut_of(plan->config.stage, kind)->tensors[i]))
                bytes += clq_buffer_bytes(plan->crossings[kind][i]);
    return bytes;
}

clq_buffer *clq_plan_crossing(const clq_plan *plan, clq_crossing kind, unsigned index) {
    return plan->crossings[kind][index];
}
