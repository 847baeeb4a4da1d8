/* A plan's life: arenas laid out, launches added (emit.c), memory placed, kernels bound. */
#include "graph/plan.h"

#include <string.h>

/* Backward finishes the last layer first, and within a layer the bias (summed while the activation's derivative is
 * taken) before the kernel. Laid out in that order, what is finished is always a prefix of the arena. */
static clq_status lay_out_variables(clq_plan *plan) {
    const clq_model *model = plan->model;
    plan->offsets = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *plan->offsets);
    if (!plan->offsets) return CLQ_MEMORY;
    size_t offset = 0;
    for (uint32_t id = model->layer_count; id >= 1; id--) {
        const clq_layer *layer = &model->layers[id - 1];
        const uint32_t finished[2] = {layer->bias, layer->kernel};
        for (unsigned i = 0; i < 2; i++) {
            if (!finished[i]) continue;
            const clq_variable *variable = &model->variables[finished[i] - 1];
            plan->offsets[finished[i] - 1] = offset;
            size_t bytes = 0;
            if (!clq_mul_size(variable->elements, sizeof(float), &bytes) || bytes > SIZE_MAX / 4 - offset)
                return clq_fail(CLQ_ARGUMENT, "model %s has more parameters than fit in memory", model->name);
            offset += clq_round_up(bytes, CLQ_VARIABLE_ALIGN);
        }
    }
    plan->arena_bytes = CLQ_MAX(offset, (size_t)CLQ_VARIABLE_ALIGN);
    return CLQ_OK;
}

static clq_status create_buffer(clq_plan *plan, size_t bytes, const char *what, clq_buffer **out) {
    return clq_buffer_create(plan->device, CLQ_MEMORY_DEVICE, bytes, what, out);
}

static unsigned optimizer_slots(const clq_update_problem *update) {
    if (update->kind == CLQ_OPTIMIZER_ADAM) return 2;
    return update->momentum != 0.0 ? 1 : 0;
}

static clq_status create_buffers(clq_plan *plan) {
    const clq_model *model = plan->model;
    const clq_plan_config *config = &plan->config;
    size_t capacity = config->capacity;
    size_t sample_bytes = model->layers[model->input - 1].elements * clq_dtype_bytes(config->sample_dtype);
    size_t output_elements = model->layers[model->output - 1].elements;
    CLQ_TRY(create_buffer(plan, plan->arena_bytes, "parameters", &plan->parameters));
    CLQ_TRY(create_buffer(plan, capacity * sample_bytes, "samples", &plan->samples));
    if (!config->loss) return create_buffer(plan, capacity * output_elements * sizeof(float), "output", &plan->output);

    bool sparse = plan->loss.kind == CLQ_LOSS_SPARSE_CATEGORICAL;
    size_t label_bytes = sparse ? sizeof(int32_t) : plan->loss.classes * sizeof(float);
    CLQ_TRY(create_buffer(plan, capacity * label_bytes, "labels", &plan->labels));
    CLQ_TRY(create_buffer(plan, (size_t)config->metric_slots * 2 * sizeof(float), "metrics", &plan->metrics));
    if (!config->update) return CLQ_OK;
    CLQ_TRY(create_buffer(plan, plan->arena_bytes, "gradient", &plan->gradient));
    plan->optimizer_slots = optimizer_slots(&plan->update);
    for (unsigned i = 0; i < plan->optimizer_slots; i++)
        CLQ_TRY(create_buffer(plan, plan->arena_bytes, "optimizer state", &plan->optimizer[i]));
    if (config->gradient_norms)
        CLQ_TRY(
            create_buffer(plan, CLQ_MAX(model->variable_count, 1u) * sizeof(float), "gradient norms", &plan->norms));
    return CLQ_OK;
}

static clq_value external(clq_plan *plan, const char *name, clq_buffer *buffer) {
    if (!buffer) return CLQ_NO_VALUE;
    clq_value value = clq_list_value(plan->list, CLQ_VALUE_EXTERNAL, name, clq_buffer_bytes(buffer), 0);
    clq_list_place(plan->list, value, buffer, 0);
    return value;
}

/* Names the buffers as values of the list, each variable's range too. */
static clq_status name_values(clq_plan *plan) {
    const clq_model *model = plan->model;
    plan->v_parameters = external(plan, "parameters", plan->parameters);
    plan->v_gradient = external(plan, "gradient", plan->gradient);
    plan->v_samples = external(plan, "samples", plan->samples);
    plan->v_labels = external(plan, "labels", plan->labels);
    plan->v_output = external(plan, "output", plan->output);
    plan->v_metrics = external(plan, "metrics", plan->metrics);
    plan->v_norms = external(plan, "gradient norms", plan->norms);
    for (unsigned i = 0; i < plan->optimizer_slots; i++)
        plan->v_optimizer[i] = external(plan, "optimizer state", plan->optimizer[i]);

    plan->v_weight = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *plan->v_weight);
    plan->v_weight_gradient = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *plan->v_weight_gradient);
    plan->done = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *plan->done);
    if (!plan->v_weight || !plan->v_weight_gradient || !plan->done) return CLQ_MEMORY;
    for (uint32_t i = 0; i < model->variable_count; i++) {
        const clq_variable *variable = &model->variables[i];
        size_t bytes = variable->elements * sizeof(float);
        plan->v_weight[i] = clq_list_value(plan->list, CLQ_VALUE_EXTERNAL, variable->name, bytes, 0);
        clq_list_place(plan->list, plan->v_weight[i], plan->parameters, plan->offsets[i]);
        if (!plan->gradient) continue;
        plan->v_weight_gradient[i] = clq_list_value(plan->list, CLQ_VALUE_EXTERNAL, variable->name, bytes, 0);
        clq_list_place(plan->list, plan->v_weight_gradient[i], plan->gradient, plan->offsets[i]);
    }
    return clq_list_status(plan->list);
}

static clq_status check(const clq_model *model, clq_device *device, const clq_plan_config *config) {
    if (!model->finished)
        return clq_fail(CLQ_STATE, "model %s is not finished: call clq_model_finish first", model->name);
    if (config->capacity < 1 || config->metric_slots < 1)
        return clq_fail(CLQ_ARGUMENT, "a plan needs a capacity and metric slots of at least 1");
    if (config->update && !config->loss) return clq_fail(CLQ_ARGUMENT, "a plan that updates needs a loss");
    if (config->sample_dtype != CLQ_U8 && config->sample_dtype != CLQ_F32)
        return clq_fail(CLQ_UNSUPPORTED, "samples of type %s: u8 or f32 are supported",
                        clq_dtype_name(config->sample_dtype));
    if (clq_device_view_align(device) > CLQ_VARIABLE_ALIGN)
        return clq_fail(CLQ_UNSUPPORTED, "%s aligns buffers to %zu bytes; at most %d are supported",
                        clq_device_label(device), clq_device_view_align(device), CLQ_VARIABLE_ALIGN);
    size_t outputs = model->layers[model->output - 1].elements;
    if (config->loss && config->loss->classes != outputs)
        return clq_fail(CLQ_MISMATCH, "the loss is over %zu classes and model %s has %zu outputs",
                        config->loss->classes, model->name, outputs);
    return CLQ_OK;
}

clq_status clq_plan_create(const clq_model *model, clq_device *device, const clq_plan_config *config, clq_plan **out) {
    CLQ_TRY(check(model, device, config));
    clq_plan *plan = clq_alloc(1, sizeof *plan);
    if (!plan) return CLQ_MEMORY;
    plan->model = model;
    plan->device = device;
    plan->config = *config;
    if (config->loss) plan->loss = *config->loss;
    if (config->update) plan->update = *config->update;
    clq_status status;
    CLQ_TRY_OR(fail, status, clq_list_create(device, config->capacity, &plan->list));
    clq_list_set_precision(plan->list, config->precision);
    clq_list_set_selections(plan->list, config->selections);
    CLQ_TRY_OR(fail, status, lay_out_variables(plan));
    CLQ_TRY_OR(fail, status, create_buffers(plan));
    CLQ_TRY_OR(fail, status, name_values(plan));
    CLQ_TRY_OR(fail, status, clq_plan_emit(plan));
    CLQ_TRY_OR(fail, status, clq_placement_create(plan->list, &plan->placement));
    clq_list_set_fused(plan->list, config->fused_launches);
    if (!config->unbound) CLQ_TRY_OR(fail, status, clq_list_bind(plan->list));
    *out = plan;
    return CLQ_OK;
fail:
    clq_plan_destroy(plan);
    return status;
}

void clq_plan_destroy(clq_plan *plan) {
    if (!plan) return;
    clq_plan_end_sharding(plan);
    clq_list_destroy(plan->list); /* its kernels and views go before the buffers */
    clq_placement_release(&plan->placement);
    clq_buffer *const buffers[] = {plan->parameters,   plan->gradient, plan->optimizer[0],
                                   plan->optimizer[1], plan->samples,  plan->labels,
                                   plan->output,       plan->metrics,  plan->norms};
    for (size_t i = 0; i < CLQ_COUNT_OF(buffers); i++) clq_buffer_destroy(buffers[i]);
    clq_free(plan->offsets);
    clq_free(plan->v_weight);
    clq_free(plan->v_weight_gradient);
    clq_free(plan->done);
    clq_free(plan);
}

clq_status clq_plan_keep_programs(clq_plan *plan) {
    if (!clq_device_has_unkept(plan->device)) return CLQ_OK;
    if (clq_device_has_quirk(plan->device, CLQ_QUIRK_COMPILES_AT_LAUNCH)) {
        clq_queue *queue;
        CLQ_TRY(clq_queue_create(plan->device, 0, &queue));
        clq_status status = clq_list_launch_first(plan->list, queue);
        clq_queue_destroy(queue);
        CLQ_TRY(status);
    }
    clq_device_keep_programs(plan->device);
    return CLQ_OK;
}

const char *clq_segment_name(clq_segment segment) {
    static const char *const names[CLQ_SEGMENT_COUNT] = {"forward", "loss", "backward", "norm", "update"};
    return names[segment];
}

void clq_plan_segment_range(const clq_plan *plan, clq_segment segment, size_t *first, size_t *end) {
    *first = segment ? plan->segment_end[segment - 1] : 0;
    *end = plan->segment_end[segment];
}

clq_status clq_plan_set_input(clq_plan *plan, clq_buffer *samples, clq_buffer *labels) {
    CLQ_TRY(clq_list_replace(plan->list, plan->v_samples, samples));
    return labels ? clq_list_replace(plan->list, plan->v_labels, labels) : CLQ_OK;
}

clq_status clq_plan_run_part(clq_plan *plan, clq_queue *queue, size_t first, size_t end) {
    return clq_list_run(plan->list, queue, first, end);
}

clq_status clq_plan_run(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last) {
    return clq_plan_run_part(plan, queue, first ? plan->segment_end[first - 1] : 0, plan->segment_end[last]);
}

double clq_plan_flops(const clq_plan *plan) {
    double flops = 0;
    for (size_t i = 0; i < plan->segment_end[CLQ_SEGMENT_BACKWARD]; i++) {
        clq_launch_info info;
        clq_list_launch_info(plan->list, i, &info);
        flops += info.flops;
    }
    return flops;
}

size_t clq_plan_calls(const clq_plan *plan, size_t parts) {
    size_t commands = clq_list_command_count(plan->list);
    return commands < clq_list_launch_count(plan->list) ? commands + parts - 1 : commands;
}

/* What the variables of a layer take of the arena, and after which launch their gradients are whole. */
static size_t layer_bytes(const clq_plan *plan, const clq_layer *layer, size_t *done) {
    const uint32_t variables[2] = {layer->bias, layer->kernel};
    size_t bytes = 0;
    for (unsigned i = 0; i < 2; i++) {
        if (!variables[i]) continue;
        const clq_variable *variable = &plan->model->variables[variables[i] - 1];
        bytes += clq_round_up(variable->elements * sizeof(float), CLQ_VARIABLE_ALIGN);
        *done = CLQ_MAX(*done, plan->done[variables[i] - 1]);
    }
    return bytes;
}

clq_status clq_plan_buckets(const clq_plan *plan, size_t bytes, clq_bucket **out, size_t *count) {
    clq_bucket *buckets = clq_alloc(plan->model->layer_count, sizeof *buckets);
    if (!buckets) return CLQ_MEMORY;
    size_t used = 0, end = 0, done = plan->segment_end[CLQ_SEGMENT_LOSS];
    for (uint32_t id = plan->model->layer_count; id >= 1; id--) {
        end += layer_bytes(plan, &plan->model->layers[id - 1], &done);
        size_t begin = used ? buckets[used - 1].end : 0;
        bool last = id == 1;
        if (end > begin && (end - begin >= bytes || last)) buckets[used++] = (clq_bucket){begin, end, done};
    }
    if (used == 0) buckets[used++] = (clq_bucket){0, plan->arena_bytes, done};
    buckets[used - 1].end = plan->arena_bytes;
    *out = buckets;
    *count = used;
    return CLQ_OK;
}

void clq_plan_set_count(clq_plan *plan, uint32_t count, float scale) {
    clq_list_set_int(plan->list, CLQ_PARAM_COUNT, (int)count);
    clq_list_set_float(plan->list, CLQ_PARAM_SCALE, scale);
}
void clq_plan_set_slot(clq_plan *plan, uint32_t slot) { clq_list_set_int(plan->list, CLQ_PARAM_SLOT, (int)slot); }
void clq_plan_set_rate(clq_plan *plan, float rate) {
    clq_list_set_float(plan->list, CLQ_PARAM_RATE, rate);
    for (unsigned i = 0; i < 2 && plan->sharded.lists[i]; i++)
        clq_list_set_float(plan->sharded.lists[i], CLQ_PARAM_RATE, rate);
}

size_t clq_plan_arena_bytes(const clq_plan *plan) { return plan->arena_bytes; }
clq_buffer *clq_plan_parameters(const clq_plan *plan) { return plan->parameters; }
clq_buffer *clq_plan_gradient(const clq_plan *plan) { return plan->gradient; }
size_t clq_plan_variable_offset(const clq_plan *plan, size_t variable) { return plan->offsets[variable]; }
clq_buffer *clq_plan_samples(const clq_plan *plan) { return plan->samples; }
clq_buffer *clq_plan_labels(const clq_plan *plan) { return plan->labels; }
clq_buffer *clq_plan_output(const clq_plan *plan) { return plan->output; }
clq_buffer *clq_plan_metrics(const clq_plan *plan) { return plan->metrics; }
clq_buffer *clq_plan_norms(const clq_plan *plan) { return plan->norms; }
const clq_list *clq_plan_list(const clq_plan *plan) { return plan->list; }

void clq_plan_get_memory(const clq_plan *plan, clq_plan_memory *out) {
    const clq_buffer *const io[] = {plan->samples, plan->labels, plan->output, plan->metrics, plan->norms};
    size_t io_bytes = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(io); i++) io_bytes += io[i] ? clq_buffer_bytes(io[i]) : 0;
    *out = (clq_plan_memory){.activation_bytes = plan->placement.bytes,
                             .activation_bytes_unplanned = plan->placement.unplanned_bytes,
                             .parameter_bytes = plan->arena_bytes,
                             .gradient_bytes = plan->gradient ? plan->arena_bytes : 0,
                             .optimizer_bytes = plan->optimizer_slots * plan->arena_bytes,
                             .io_bytes = io_bytes};
}
