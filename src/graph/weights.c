/* A model's variables on a device: where each lies, and the memory that they and training need. */
#include "graph/plan.h"

#include <string.h>

static const clq_variable *variable_at(const clq_weights *weights, size_t index) {
    return &weights->model->variables[index];
}

/* Lays out a variable at the end of an arena, which has *arena bytes so far. */
static clq_status lay_out(clq_weights *weights, uint32_t index, size_t *arena) {
    const clq_variable *variable = variable_at(weights, index);
    const size_t elements = clq_weight_slice_elements(&weights->slices[index], variable);
    size_t bytes = 0;
    weights->offsets[index] = *arena;
    if (!clq_mul_size(elements, clq_dtype_bytes(variable->dtype), &bytes) || bytes > SIZE_MAX / 4 - *arena)
        return clq_fail(CLQ_ERROR_ARGUMENT, "model %s has more parameters than fit in memory", weights->model->name);
    *arena += clq_round_up(bytes, CLQ_VARIABLE_ALIGN);
    return CLQ_OK;
}

static bool has(const clq_weights *weights, uint32_t variable) {
    return clq_stage_has_variable(weights->stage, weights->model, variable);
}

static clq_status take_slices(clq_weights *weights, const clq_slicing *slicing, unsigned rank) {
    const uint32_t count = weights->model->variable_count;
    weights->slices = clq_alloc(CLQ_MAX(count, 1u), sizeof *weights->slices);
    if (!weights->slices) return CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const clq_variable *variable = variable_at(weights, i);
        weights->slices[i] =
            slicing ? clq_slicing_of(slicing, rank, i) : (clq_weight_slice){.count = variable->shape.dims[0]};
        weights->sliced = weights->sliced || clq_weight_slice_is_part(&weights->slices[i], variable);
    }
    return CLQ_OK;
}

/* Trainable variables lie in the model's order backwards, since this is the order in which backward finishes their
 * gradients: the last layer first, and in a layer the bias before the kernel (the bias is summed while the activation's
 * derivative is taken). So what is finished is always a prefix of the arena of gradients. State has no gradients. It
 * lies in the model's order, in two parts, so that what replicas average is a prefix. */
static clq_status lay_out_trained(clq_weights *weights, bool slices) {
    for (uint32_t i = weights->model->variable_count; i-- > 0;) {
        const clq_variable *variable = variable_at(weights, i);
        if (variable->role == CLQ_ROLE_TRAINABLE && has(weights, i) &&
            clq_weight_slice_is_part(&weights->slices[i], variable) == slices)
            CLQ_TRY(lay_out(weights, i, &weights->arena_bytes));
    }
    return CLQ_OK;
}

static clq_status lay_out_state(clq_weights *weights, bool shared) {
    for (uint32_t i = 0; i < weights->model->variable_count; i++) {
        const clq_variable *variable = variable_at(weights, i);
        if (variable->role == CLQ_ROLE_STATE && clq_variable_is_shared(variable) == shared && has(weights, i))
            CLQ_TRY(lay_out(weights, i, &weights->state_bytes));
    }
    return CLQ_OK;
}

static clq_status lay_out_variables(clq_weights *weights) {
    weights->offsets = clq_alloc(CLQ_MAX(weights->model->variable_count, 1u), sizeof *weights->offsets);
    if (!weights->offsets) return CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < weights->model->variable_count; i++) weights->offsets[i] = CLQ_NO_OFFSET;
    CLQ_TRY(lay_out_trained(weights, false));
    weights->whole_bytes = weights->arena_bytes;
    CLQ_TRY(lay_out_trained(weights, true));
    CLQ_TRY(lay_out_state(weights, false));
    weights->apart_bytes = weights->state_bytes;
    CLQ_TRY(lay_out_state(weights, true));
    weights->arena_bytes = CLQ_MAX(weights->arena_bytes, (size_t)CLQ_VARIABLE_ALIGN);
    return CLQ_OK;
}

/* Pads the arenas to `parts` equal parts, and takes part number `part`. */
static void take_part(clq_weights *weights, unsigned part, unsigned parts) {
    const size_t bytes = clq_round_up(clq_ceil_div(weights->arena_bytes, parts), CLQ_VARIABLE_ALIGN);
    weights->arena_bytes = bytes * parts;
    weights->part_begin = bytes * part;
    weights->part_end = bytes * (part + 1);
}

/* Updates, sums and means take an arena for one range of values, so all its variables must have one type. */
static clq_status take_types(clq_weights *weights) {
    const clq_variable *first[] = {NULL, NULL};
    for (uint32_t i = 0; i < weights->model->variable_count; i++) {
        const clq_variable *variable = &weights->model->variables[i];
        const clq_arena arena = clq_variable_arena(variable);
        if (!has(weights, i)) continue;
        if (!first[arena]) first[arena] = variable;
        if (variable->dtype != first[arena]->dtype)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "'%s' is %s and '%s' is %s: variables of one arena have one type",
                            first[arena]->name, clq_dtype_name(first[arena]->dtype), variable->name,
                            clq_dtype_name(variable->dtype));
        weights->dtypes[arena] = variable->dtype;
    }
    return CLQ_OK;
}

static clq_status create_arena(const clq_weights *weights, const char *what, clq_buffer **out) {
    return clq_buffer_create(weights->device, CLQ_MEMORY_DEVICE, weights->arena_bytes, what, out);
}

static clq_status take_treatments(clq_weights *weights, const clq_treatment *treatments) {
    const uint32_t count = weights->model->variable_count;
    weights->treatments = clq_alloc(CLQ_MAX(count, 1u), sizeof *weights->treatments);
    if (!weights->treatments) return CLQ_ERROR_MEMORY;
    if (treatments) memcpy(weights->treatments, treatments, count * sizeof *treatments);
    for (uint32_t i = 0; i < count; i++) weights->spares = weights->spares || weights->treatments[i].spared;
    return CLQ_OK;
}

static clq_status create_arenas(clq_weights *weights, const clq_optimizer *update, const clq_holding *holding) {
    static const clq_update_options none = {0};
    const clq_update_options *options = holding->options ? holding->options : &none;
    CLQ_TRY(create_arena(weights, "parameters", &weights->parameters));
    if (weights->state_bytes)
        CLQ_TRY(clq_buffer_create(weights->device, CLQ_MEMORY_DEVICE, weights->state_bytes, "state", &weights->state));
    if (!update) return CLQ_OK;
    CLQ_TRY(create_arena(weights, "gradient", &weights->gradient));
    weights->averages = options->averages;
    weights->optimizer_slots = clq_update_slots(update, options);
    for (unsigned i = 0; i < weights->optimizer_slots; i++)
        CLQ_TRY(clq_buffer_create(weights->device, CLQ_MEMORY_DEVICE, weights->part_end - weights->part_begin,
                                  "optimizer state", &weights->optimizer[i]));
    weights->first_scale = options->scaling.initial;
    if (options->scaling.initial > 0)
        CLQ_TRY(clq_buffer_create(weights->device, CLQ_MEMORY_DEVICE, clq_values_bytes(CLQ_I32, CLQ_SCALING_INTS),
                                  "loss scale", &weights->scaling));
    CLQ_TRY(take_treatments(weights, options->treatments));
    CLQ_TRY(clq_weights_take_optimizers(weights, update, options));
    weights->measures_whole = !holding->slicing || holding->rank == 0;
    return clq_block_table_create(weights, weights->part_begin, weights->part_end, &weights->blocks);
}

clq_status clq_weights_create_holding(const clq_model *model, clq_device *device, const clq_optimizer *update,
                                      const clq_holding *holding, clq_weights **out) {
    if (!model->finished)
        return clq_fail(CLQ_ERROR_STATE, "model %s is not finished: call clq_model_finish first", model->name);
    if (clq_device_view_align(device) > CLQ_VARIABLE_ALIGN)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s aligns buffers to %zu bytes; at most %d are supported",
                        clq_device_label(device), clq_device_view_align(device), CLQ_VARIABLE_ALIGN);
    clq_weights *weights = clq_alloc(1, sizeof *weights);
    if (!weights) return CLQ_ERROR_MEMORY;
    weights->model = model;
    weights->device = device;
    if (holding->stage) {
        weights->whose = *holding->stage;
        weights->stage = &weights->whose;
    }
    clq_status status;
    CLQ_TRY_OR(fail, status, take_types(weights));
    CLQ_TRY_OR(fail, status, take_slices(weights, holding->slicing, holding->rank));
    CLQ_TRY_OR(fail, status, lay_out_variables(weights));
    take_part(weights, holding->part, CLQ_MAX(holding->parts, 1u));
    CLQ_TRY_OR(fail, status, create_arenas(weights, update, holding));
    *out = weights;
    return CLQ_OK;
fail:
    clq_weights_destroy(weights);
    return status;
}

clq_status clq_weights_create(const clq_model *model, clq_device *device, const clq_optimizer *update,
                              clq_weights **out) {
    return clq_weights_create_holding(model, device, update, &(clq_holding){0}, out);
}

void clq_weights_destroy(clq_weights *weights) {
    if (!weights) return;
    clq_list_destroy(weights->mean); /* views go before the buffers */
    clq_list_destroy(weights->weigh);
    for (size_t i = 0; i < CLQ_COUNT_OF(weights->hashers); i++) clq_hasher_release(&weights->hashers[i]);
    clq_buffer_destroy(weights->parameters);
    clq_buffer_destroy(weights->state);
    clq_buffer_destroy(weights->gradient);
    for (unsigned i = 0; i < CLQ_UPDATE_STATES_MAX; i++) clq_buffer_destroy(weights->optimizer[i]);
    clq_buffer_destroy(weights->scaling);
    clq_block_table_release(&weights->blocks);
    clq_free(weights->treatments);
    clq_free(weights->runs);
    clq_free(weights->held);
    clq_free(weights->slices);
    clq_free(weights->offsets);
    clq_free(weights);
}

clq_buffer *clq_weights_arena(const clq_weights *weights, clq_arena arena) {
    switch (arena) {
    case CLQ_ARENA_PARAMETERS: return weights->parameters;
    case CLQ_ARENA_STATE: return weights->state;
    case CLQ_ARENA_GRADIENT: return weights->gradient;
    }
    return NULL;
}

size_t clq_weights_arena_bytes(const clq_weights *weights, clq_arena arena) {
    return arena == CLQ_ARENA_STATE ? weights->state_bytes : weights->arena_bytes;
}

size_t clq_weights_apart_bytes(const clq_weights *weights) { return weights->apart_bytes; }
clq_dtype clq_weights_dtype(const clq_weights *weights, clq_arena arena) {
    return weights->dtypes[arena == CLQ_ARENA_STATE ? CLQ_ARENA_STATE : CLQ_ARENA_PARAMETERS];
}

clq_arena clq_variable_arena(const clq_variable *variable) {
    return variable->role == CLQ_ROLE_STATE ? CLQ_ARENA_STATE : CLQ_ARENA_PARAMETERS;
}

void clq_weights_part(const clq_weights *weights, size_t *begin, size_t *end) {
    *begin = weights->part_begin;
    *end = weights->part_end;
}

size_t clq_weights_offset(const clq_weights *weights, size_t variable) { return weights->offsets[variable]; }
const clq_held *clq_weights_held(const clq_weights *weights, size_t *count) {
    *count = weights->held_count;
    return weights->held;
}
clq_weight_slice clq_weights_slice(const clq_weights *weights, size_t variable) { return weights->slices[variable]; }
size_t clq_weights_variable_bytes(const clq_weights *weights, size_t variable) {
    const clq_variable *of = variable_at(weights, variable);
    return clq_values_bytes(of->dtype, clq_weight_slice_elements(&weights->slices[variable], of));
}
size_t clq_weights_whole_bytes(const clq_weights *weights) { return weights->whole_bytes; }
clq_buffer *clq_weights_scaling(const clq_weights *weights) { return weights->scaling; }
unsigned clq_weights_optimizer_slots(const clq_weights *weights) { return weights->optimizer_slots; }
clq_buffer *clq_weights_optimizer_slot(const clq_weights *weights, unsigned slot) { return weights->optimizer[slot]; }

/* Backward writes the gradients of all trainable variables, zeros if need be. So it overwrites all old weights
 * there. */
void clq_weights_turn(clq_weights *weights) {
    clq_buffer *parameters = weights->gradient;
    weights->gradient = weights->parameters;
    weights->parameters = parameters;
    weights->turned = !weights->turned;
}
