/* How long a plan's launches take on a device, and the key of a model under which such times are kept. */
#include "graph/layers/layer.h"
#include "graph/model.h"
#include "graph/trial.h"

/* ---- times ---- */

static clq_status time_part(clq_trials *trials, clq_plan *plan, size_t first, size_t end, double *seconds) {
    *seconds = 0;
    return first < end ? clq_trials_least(trials, (clq_trial_part){plan, first, end}, seconds) : CLQ_OK;
}

static clq_status time_plan(clq_trials *trials, clq_plan *plan, clq_plan_seconds *out) {
    const size_t turn = plan->segment_end[CLQ_SEGMENT_LOSS];
    clq_plan_seconds result;
    CLQ_TRY(clq_trials_prepare(trials, plan));
    CLQ_TRY(time_part(trials, plan, 0, turn, &result.forward));
    CLQ_TRY(time_part(trials, plan, turn, plan->segment_end[CLQ_SEGMENT_BACKWARD], &result.backward));
    *out = result;
    return CLQ_OK;
}

clq_status clq_plan_time(const clq_model *model, clq_device *device, const clq_plan_config *config,
                         const clq_tune_config *tune, clq_plan_seconds *out) {
    clq_trials trials;
    clq_plan *plan;
    CLQ_TRY(clq_plan_create_alone(model, device, config, &plan));
    clq_status status = clq_trials_open(plan, tune, &trials);
    if (status == CLQ_OK) status = time_plan(&trials, plan, out);
    if (status != CLQ_OK && trials.queue) (void)clq_queue_finish(trials.queue); /* before its memory goes */
    clq_plan_destroy(plan);
    clq_trials_release(&trials);
    return status;
}

/* ---- the key ---- */

void clq_model_add_key(const clq_model *model, clq_text *to) {
    for (uint32_t id = 1; id <= model->tensor_count; id++) {
        const clq_model_tensor *y = &model->tensors[id - 1];
        const clq_layer *layer = &model->layers[y->layer - 1];
        clq_text_add(to, "%s%s %u of", layer->kind->module ? "function " : "", layer->kind->type, y->layer);
        for (uint32_t i = 0; i < y->input_count; i++) clq_text_add(to, " %u", model->inputs[y->first_input + i]);
        clq_text_add(to, " shape");
        for (uint32_t d = 0; d < y->shape.rank; d++) clq_text_add(to, " %zu", y->shape.dims[d]);
        clq_layer_add_key(layer, to);
        clq_text_add(to, "\n");
    }
    for (uint32_t v = 0; v < model->variable_count; v++) {
        const clq_variable *variable = &model->variables[v];
        clq_text_add(to, "variable of %u role %d", variable->layer, (int)variable->role);
        for (uint32_t d = 0; d < variable->shape.rank; d++) clq_text_add(to, " %zu", variable->shape.dims[d]);
        clq_properties_add_key(&variable->properties, to);
        clq_text_add(to, "\n");
    }
    for (uint32_t o = 0; o < model->output_count; o++) clq_text_add(to, "output %u\n", model->outputs[o]);
}
