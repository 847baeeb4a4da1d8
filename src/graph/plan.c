/* A plan's life: its launches are added (emit.c), its memory is placed, its kernels are bound. */
#include "graph/plan.h"

#include <string.h>

clq_status clq_plan_create_buffer(clq_plan *plan, clq_buffer *beside, size_t bytes, const char *what,
                                  clq_buffer **out) {
    if (!beside || clq_buffer_bytes(beside) != bytes)
        return clq_buffer_create(plan->device, CLQ_MEMORY_DEVICE, bytes, what, out);
    *out = beside;
    return CLQ_OK;
}

void clq_model_feed(const clq_model *model, clq_dtype sample_dtype, const clq_loss_problem *losses, clq_feed *out) {
    *out = (clq_feed){0};
    clq_feed_add(out, CLQ_FEED_SAMPLES, 0, sample_dtype, clq_model_input(model)->elements);
    for (uint32_t i = 0; i < model->output_count && losses; i++)
        clq_feed_add(out, CLQ_FEED_LABELS, i, clq_loss_target_dtype(&losses[i]), clq_loss_target_elements(&losses[i]));
}

/* Whether the plan reads an array of its feed, and not another stage. */
static bool reads(const clq_plan *plan, const clq_feed_array *array) {
    const uint32_t tensor = array->role == CLQ_FEED_SAMPLES ? plan->model->input : plan->model->outputs[array->index];
    return clq_stage_has_tensor(plan->config.stage, tensor);
}

static clq_status create_buffers(clq_plan *plan) {
    const clq_model *model = plan->model;
    const clq_plan_config *config = &plan->config;
    const clq_plan none = {0}, *beside = config->beside ? config->beside : &none;
    size_t capacity = config->capacity;
    clq_model_feed(model, config->sample_dtype, config->loss, &plan->feed);
    for (unsigned i = 0; i < plan->feed.count; i++) {
        const clq_feed_array *array = &plan->feed.arrays[i];
        if (reads(plan, array))
            CLQ_TRY(clq_plan_create_buffer(plan, beside->inputs[i], capacity * array->bytes,
                                           clq_feed_role_name(array->role), &plan->inputs[i]));
    }
    CLQ_TRY(clq_plan_create_crossings(plan));
    for (uint32_t i = 0; i < model->output_count && !config->loss; i++) {
        if (!clq_stage_has_tensor(config->stage, model->outputs[i])) continue;
        const clq_model_tensor *output = clq_model_output(model, i);
        CLQ_TRY(clq_plan_create_buffer(plan, beside->output[i],
                                       capacity * clq_values_bytes(output->dtype, output->elements), "output",
                                       &plan->output[i]));
    }
    if (!config->loss) return CLQ_OK;

    const size_t metrics = (size_t)clq_losses_width(plan->losses, model->output_count) * config->metric_slots;
    if (config->metrics_of) beside = config->metrics_of;
    CLQ_TRY(
        clq_plan_create_buffer(plan, beside->metrics, clq_values_bytes(CLQ_F32, metrics), "metrics", &plan->metrics));
    const bool norms = config->gradient_norms || clq_updates_by_squares(&config->update_options);
    if (!norms || !config->update || config->updated_elsewhere) return CLQ_OK;
    return clq_plan_create_buffer(plan, NULL, clq_values_bytes(CLQ_F32, CLQ_MAX(model->variable_count, 1u)),
                                  "gradient norms", &plan->norms);
}

clq_value clq_plan_value(clq_list *list, const char *name, clq_buffer *buffer, size_t offset, size_t bytes) {
    clq_value value = clq_list_value(list, CLQ_VALUE_EXTERNAL, name, bytes, 0);
    clq_list_place(list, value, buffer, offset);
    return value;
}

clq_value clq_plan_whole_value(clq_list *list, const char *name, clq_buffer *buffer) {
    return buffer ? clq_plan_value(list, name, buffer, 0, clq_buffer_bytes(buffer)) : CLQ_NO_VALUE;
}

/* Makes values of the list of the plan's buffers, and of each variable's range in them. */
static clq_status name_values(clq_plan *plan) {
    const clq_model *model = plan->model;
    const clq_weights *weights = plan->weights;
    clq_list *list = plan->list;
    const size_t part_bytes = weights->part_end - weights->part_begin;
    plan->v_parameters = clq_plan_value(list, "parameters", weights->parameters, weights->part_begin, part_bytes);
    if (weights->gradient)
        plan->v_gradient = clq_plan_value(list, "gradient", weights->gradient, weights->part_begin, part_bytes);
    for (unsigned i = 0; i < plan->feed.count; i++)
        plan->v_inputs[i] = clq_plan_whole_value(list, clq_feed_role_name(plan->feed.arrays[i].role), plan->inputs[i]);
    for (uint32_t i = 0; i < model->output_count; i++)
        plan->v_output[i] = clq_plan_whole_value(list, "output", plan->output[i]);
    for (unsigned kind = 0; kind < CLQ_CROSSING_KINDS; kind++)
        for (unsigned i = 0; i < CLQ_CROSSINGS_MAX; i++)
            plan->v_crossings[kind][i] = clq_plan_whole_value(list, "crossing", plan->crossings[kind][i]);
    plan->v_metrics = clq_plan_whole_value(list, "metrics", plan->metrics);
    plan->v_norms = clq_plan_whole_value(list, "gradient norms", plan->norms);
    for (unsigned i = 0; i < weights->optimizer_slots; i++)
        plan->v_optimizer[i] = clq_plan_whole_value(list, "optimizer state", weights->optimizer[i]);
    plan->v_table = clq_plan_whole_value(list, "table of blocks", weights->blocks.table);
    plan->v_scaling = clq_plan_whole_value(list, "loss scale", weights->scaling);
    plan->v_trust_table = clq_plan_whole_value(list, "table of blocks", weights->blocks.of_trust_ratios);
    plan->v_decays = clq_plan_whole_value(list, "blocks that decay", weights->blocks.decays);

    plan->variables = clq_alloc(model->variable_count, sizeof *plan->variables);
    if (!plan->variables) return CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < model->variable_count; i++) {
        const clq_variable *variable = &model->variables[i];
        const size_t bytes = clq_weights_variable_bytes(weights, i), offset = weights->offsets[i];
        const bool trained = variable->role == CLQ_ROLE_TRAINABLE;
        if (offset == CLQ_NO_OFFSET) continue;
        plan->variables[i].weight =
            clq_plan_value(list, variable->name, trained ? weights->parameters : weights->state, offset, bytes);
        if (trained && weights->gradient)
            plan->variables[i].gradient = clq_plan_value(list, variable->name, weights->gradient, offset, bytes);
    }
    return clq_list_status(list);
}

const clq_optimizer *clq_plan_weights_update(const clq_plan_config *config) {
    static const clq_optimizer without_slots = {.kind = CLQ_OPTIMIZER_SGD};
    return config->update && config->updated_elsewhere ? &without_slots : config->update;
}

const clq_update_options *clq_plan_weights_options(const clq_plan_config *config) {
    static const clq_update_options none = {0};
    return config->update && config->updated_elsewhere ? &none : &config->update_options;
}

/* Whether the weights have what the plan's updates need. */
static bool fits_update(const clq_weights *weights, const clq_plan_config *config) {
    if (!weights->gradient) return false;
    if (config->updated_elsewhere) return true;
    if (!weights->scaling != !(config->update_options.scaling.initial > 0)) return false;
    return weights->averages == config->update_options.averages &&
           weights->optimizer_slots == clq_update_slots(config->update, &config->update_options);
}

static clq_status check(const clq_weights *weights, const clq_plan_config *config) {
    const clq_model *model = weights->model;
    if (config->capacity < 1 || config->metric_slots < 1)
        return clq_fail(CLQ_ERROR_INTERNAL, "a plan needs a capacity and metric slots of at least 1");
    if (config->update && !config->loss) return clq_fail(CLQ_ERROR_INTERNAL, "a plan that updates needs a loss");
    if (config->update && !fits_update(weights, config))
        return clq_fail(CLQ_ERROR_INTERNAL, "a plan that updates needs weights that were made for its update");
    if (config->sample_dtype != CLQ_U8 && config->sample_dtype != CLQ_F32)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "samples of type %s: u8 or f32 are supported",
                        clq_dtype_name(config->sample_dtype));
    for (uint32_t i = 0; i < model->output_count && config->loss; i++) {
        const size_t values = config->loss[i].classes * CLQ_MAX(config->loss[i].rows, (size_t)1),
                     elements = clq_model_output(model, i)->elements;
        if (values != elements)
            return clq_fail(CLQ_ERROR_MISMATCH, "the loss is over %zu value%s and output '%s' of model %s has %zu",
                            values, clq_plural(values), clq_model_output_name(model, i), model->name, elements);
    }
    return CLQ_OK;
}

static clq_status open_list(clq_plan *plan) {
    CLQ_TRY(clq_list_create(plan->device, plan->config.capacity, &plan->list));
    clq_list_set_precision(plan->list, plan->config.precision);
    clq_list_set_selections(plan->list, plan->config.selections);
    return CLQ_OK;
}

/* Adds all launches, over the plan's buffers. */
static clq_status fill_list(clq_plan *plan) {
    CLQ_TRY(name_values(plan));
    CLQ_TRY(clq_checks_open(plan));
    return clq_plan_emit(plan);
}

static void drop_list(clq_plan *plan) {
    clq_list_destroy(plan->list);
    clq_plan_drop_constants(plan);
    clq_checks_release(&plan->checks);
    clq_free(plan->variables);
    plan->list = NULL;
    plan->variables = NULL;
    plan->exchanges = false;
    memset(plan->segment_end, 0, sizeof plan->segment_end);
}

/* Fills the list so that its placement fits into config->activations_most, if that is possible. The pass that
 * recomputes finds fewer bytes than a placement takes, since kernels have scratch memory, and there are gaps between
 * values. So each try lowers the limit of the pass by the bytes that the placement has too many. The last try saves as
 * much as possible. */
static clq_status fill_fitting_list(clq_plan *plan) {
    enum { TRIES = 8 };
    clq_plan_config *config = &plan->config;
    const size_t most = config->activations_most;
    CLQ_TRY(fill_list(plan));
    if (config->recompute != CLQ_RECOMPUTE_AUTO || most == 0) return CLQ_OK;
    for (unsigned i = 0; i < TRIES; i++) {
        clq_placement would;
        CLQ_TRY(clq_placement_measure(plan->list, &would));
        const size_t bytes = would.bytes, limit = config->activations_most;
        clq_placement_release(&would);
        if (bytes <= most) return CLQ_OK;
        config->activations_most = limit - CLQ_MIN(limit - 1, bytes - most);
        if (i + 1 == TRIES) config->recompute = CLQ_RECOMPUTE_ALL;
        drop_list(plan);
        CLQ_TRY(open_list(plan));
        CLQ_TRY(fill_list(plan));
    }
    return CLQ_OK;
}

static clq_status lay_out(clq_plan *plan) {
    const clq_plan_config *config = &plan->config;
    CLQ_TRY(open_list(plan));
    CLQ_TRY(create_buffers(plan));
    CLQ_TRY(fill_fitting_list(plan));
    if (config->unbound) return clq_placement_measure(plan->list, &plan->placement);
    CLQ_TRY(
        clq_placement_create_over(plan->list, config->beside ? &config->beside->placement : NULL, &plan->placement));
    clq_list_set_fused(plan->list, config->fused_launches);
    return clq_list_bind(plan->list);
}

clq_status clq_plan_create(clq_weights *weights, const clq_plan_config *config, clq_plan **out) {
    CLQ_TRY(check(weights, config));
    clq_plan *plan = clq_alloc(1, sizeof *plan);
    if (!plan) return CLQ_ERROR_MEMORY;
    plan->model = weights->model;
    plan->device = weights->device;
    plan->weights = weights;
    plan->parameters = weights->parameters;
    plan->gradient = weights->gradient;
    plan->config = *config;
    plan->config.stage = weights->stage;
    if (config->loss) {
        memcpy(plan->losses, config->loss, plan->model->output_count * sizeof *plan->losses);
        plan->config.loss = plan->losses;
    }
    if (config->update) {
        plan->update = *config->update;
        plan->config.update = &plan->update;
    }
    clq_status status = lay_out(plan);
    if (status == CLQ_OK)
        *out = plan;
    else
        clq_plan_destroy(plan);
    return status;
}

clq_status clq_plan_create_alone(const clq_model *model, clq_device *device, const clq_plan_config *config,
                                 clq_plan **out) {
    clq_weights *weights;
    CLQ_TRY(clq_weights_create_holding(model, device, clq_plan_weights_update(config),
                                       &(clq_holding){.stage = config->stage,
                                                      .slicing = config->slicing,
                                                      .rank = config->joins.rank,
                                                      .options = clq_plan_weights_options(config)},
                                       &weights));
    clq_status status = clq_plan_create(weights, config, out);
    if (status == CLQ_OK)
        (*out)->own_weights = weights;
    else
        clq_weights_destroy(weights);
    return status;
}

void clq_plan_destroy(clq_plan *plan) {
    if (!plan) return;
    clq_plan_end_sharding(plan);
    clq_list_destroy(plan->list); /* its kernels and views go before the buffers */
    clq_placement_release(&plan->placement);
    clq_plan_drop_constants(plan);
    clq_checks_release(&plan->checks);
    const clq_plan none = {0}, *beside = plan->config.beside ? plan->config.beside : &none;
    for (unsigned i = 0; i < CLQ_FEED_MAX; i++)
        if (plan->inputs[i] != beside->inputs[i]) clq_buffer_destroy(plan->inputs[i]);
    for (size_t i = 0; i < CLQ_MODEL_OUTPUTS_MAX; i++)
        if (plan->output[i] != beside->output[i]) clq_buffer_destroy(plan->output[i]);
    if (plan->config.metrics_of) beside = plan->config.metrics_of;
    if (plan->metrics != beside->metrics) clq_buffer_destroy(plan->metrics);
    clq_buffer_destroy(plan->norms);
    clq_plan_destroy_crossings(plan);
    clq_weights_destroy(plan->own_weights);
    clq_free(plan->variables);
    clq_free(plan);
}

clq_status clq_plan_keep_programs(clq_plan *plan) {
    if (plan->config.unbound || !clq_device_has_unkept(plan->device)) return CLQ_OK;
    if (clq_device_has_quirk(plan->device, CLQ_QUIRK_COMPILES_AT_LAUNCH)) {
        clq_queue *queue;
        CLQ_TRY(clq_queue_create(plan->device, 0, &queue));
        clq_status status = clq_list_launch_first(plan->list, queue);
        if (status == CLQ_OK) status = clq_checks_forget(plan, queue);
        clq_queue_destroy(queue);
        CLQ_TRY(status);
    }
    return clq_device_keep_programs(plan->device);
}

const char *clq_segment_name(clq_segment segment) {
    static const char *const names[CLQ_SEGMENT_COUNT] = {"forward", "loss", "backward", "norm", "update"};
    return names[segment];
}

void clq_plan_segment_range(const clq_plan *plan, clq_segment segment, size_t *first, size_t *end) {
    *first = segment ? plan->segment_end[segment - 1] : 0;
    *end = plan->segment_end[segment];
}

clq_status clq_plan_set_input(clq_plan *plan, clq_buffer *const *arrays) {
    for (unsigned i = 0; i < plan->feed.count; i++)
        if (plan->inputs[i]) CLQ_TRY(clq_list_replace(plan->list, plan->v_inputs[i], arrays[i]));
    return CLQ_OK;
}

/* If the weights' arenas have changed places since the plan ran last, gives kernels the new ones. */
static clq_status follow_weights(clq_plan *plan) {
    const clq_weights *weights = plan->weights;
    if (plan->parameters != weights->parameters) {
        CLQ_TRY(clq_list_swap(plan->list, plan->parameters, weights->parameters));
        if (plan->gradient == weights->parameters) plan->gradient = plan->parameters;
        plan->parameters = weights->parameters;
    }
    if (plan->gradient == weights->gradient) return CLQ_OK;
    CLQ_TRY(clq_list_swap(plan->list, plan->gradient, weights->gradient));
    plan->gradient = weights->gradient;
    return CLQ_OK;
}

clq_status clq_plan_run_part(clq_plan *plan, clq_queue *queue, size_t first, size_t end) {
    CLQ_TRY(follow_weights(plan));
    return clq_checks_run(plan, queue, first, end, NULL);
}

clq_status clq_plan_run_after(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last,
                              const clq_order *order) {
    CLQ_TRY(follow_weights(plan));
    return clq_checks_run(plan, queue, first ? plan->segment_end[first - 1] : 0, plan->segment_end[last], order);
}

clq_status clq_plan_run(clq_plan *plan, clq_queue *queue, clq_segment first, clq_segment last) {
    return clq_plan_run_after(plan, queue, first, last, NULL);
}

double clq_plan_launch_flops(const clq_plan *plan, size_t first, size_t end) {
    double flops = 0;
    for (size_t i = first; i < end; i++) {
        clq_launch_info info;
        clq_list_launch_info(plan->list, i, &info);
        flops += info.flops;
    }
    return flops;
}

double clq_plan_flops(const clq_plan *plan) {
    return clq_plan_launch_flops(plan, 0, plan->segment_end[CLQ_SEGMENT_BACKWARD]);
}

size_t clq_plan_calls(const clq_plan *plan, size_t parts) {
    size_t commands = clq_list_command_count(plan->list);
    return commands < clq_list_launch_count(plan->list) ? commands + parts - 1 : commands;
}

bool clq_plan_exchanges(const clq_plan *plan) { return plan->exchanges; }

/* Whether trainable variables of the same layer lie behind variable `index` in the arena. The arena has the model's
 * order backwards. */
static bool layer_goes_on(const clq_model *model, uint32_t index) {
    for (uint32_t i = index; i-- > 0 && model->variables[i].layer == model->variables[index].layer;)
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE) return true;
    return false;
}

clq_status clq_plan_buckets(const clq_plan *plan, size_t bytes, clq_bucket **out, size_t *count) {
    const clq_model *model = plan->model;
    clq_bucket *buckets = clq_alloc((size_t)model->variable_count + 1, sizeof *buckets);
    if (!buckets) return CLQ_ERROR_MEMORY;
    size_t used = 0, begin = 0, done = plan->segment_end[CLQ_SEGMENT_LOSS];
    for (uint32_t i = model->variable_count; i-- > 0;) {
        const clq_variable *variable = &model->variables[i];
        if (variable->role != CLQ_ROLE_TRAINABLE || plan->weights->offsets[i] == CLQ_NO_OFFSET) continue;
        size_t bytes_of_it = clq_weights_variable_bytes(plan->weights, i);
        size_t end = plan->weights->offsets[i] + clq_round_up(bytes_of_it, CLQ_VARIABLE_ALIGN);
        done = CLQ_MAX(done, plan->variables[i].done);
        if (layer_goes_on(model, i) || (end - begin < bytes && end < plan->weights->arena_bytes)) continue;
        buckets[used++] = (clq_bucket){begin, end, done};
        begin = end;
    }
    if (used == 0) buckets[used++] = (clq_bucket){0, plan->weights->arena_bytes, done};
    *out = buckets;
    *count = used;
    return CLQ_OK;
}

void clq_plan_set_params(clq_plan *plan, const clq_step_params *params) {
    clq_list_set_params(plan->list, params);
    plan->checks.step = params->step;
    plan->checks.slot = params->slot;
    for (unsigned i = 0; i < 2 && plan->sharded.lists[i]; i++) clq_list_set_params(plan->sharded.lists[i], params);
    for (unsigned i = 0; i < 2 && plan->sharded.directions[i]; i++)
        clq_list_set_params(plan->sharded.directions[i], params);
}

clq_weights *clq_plan_weights(const clq_plan *plan) { return plan->weights; }
size_t clq_plan_arena_bytes(const clq_plan *plan) { return plan->weights->arena_bytes; }
clq_buffer *clq_plan_parameters(const clq_plan *plan) { return plan->weights->parameters; }
clq_buffer *clq_plan_gradient(const clq_plan *plan) { return plan->weights->gradient; }
size_t clq_plan_variable_offset(const clq_plan *plan, size_t variable) { return plan->weights->offsets[variable]; }
const clq_feed *clq_plan_feed(const clq_plan *plan) { return &plan->feed; }
clq_buffer *clq_plan_array(const clq_plan *plan, unsigned array) { return plan->inputs[array]; }
static clq_buffer *array_of(const clq_plan *plan, clq_feed_role role, size_t index) {
    const unsigned at = clq_feed_find(&plan->feed, role, (unsigned)index);
    return at < plan->feed.count ? plan->inputs[at] : NULL;
}
clq_buffer *clq_plan_samples(const clq_plan *plan) { return array_of(plan, CLQ_FEED_SAMPLES, 0); }
clq_buffer *clq_plan_labels(const clq_plan *plan, size_t index) { return array_of(plan, CLQ_FEED_LABELS, index); }
clq_buffer *clq_plan_output(const clq_plan *plan, size_t index) { return plan->output[index]; }
clq_buffer *clq_plan_metrics(const clq_plan *plan) { return plan->metrics; }
clq_buffer *clq_plan_norms(const clq_plan *plan) { return plan->norms; }
const clq_list *clq_plan_list(const clq_plan *plan) { return plan->list; }

static size_t bytes_of(const clq_buffer *buffer) { return buffer ? clq_buffer_bytes(buffer) : 0; }

void clq_plan_get_memory(const clq_plan *plan, clq_plan_memory *out) {
    size_t io_bytes = bytes_of(plan->metrics) + bytes_of(plan->norms) + clq_plan_crossing_bytes(plan);
    for (unsigned i = 0; i < CLQ_FEED_MAX; i++) io_bytes += bytes_of(plan->inputs[i]);
    for (size_t i = 0; i < CLQ_MODEL_OUTPUTS_MAX; i++) io_bytes += bytes_of(plan->output[i]);
    const clq_weights *weights = plan->weights;
    *out = (clq_plan_memory){.activation_bytes = plan->placement.bytes,
                             .activation_bytes_unplanned = plan->placement.unplanned_bytes,
                             .parameter_bytes = weights->arena_bytes + weights->state_bytes,
                             .gradient_bytes = weights->gradient ? weights->arena_bytes : 0,
                             .optimizer_bytes = weights->optimizer_slots * (weights->part_end - weights->part_begin),
                             .io_bytes = io_bytes};
}
