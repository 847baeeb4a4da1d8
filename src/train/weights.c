/* Weights: initial values, one variable at a time, and safetensors files. */
#include "train/trainer.h"

#include <string.h>

clq_status clq_trainer_set_initial_weights(clq_trainer *trainer) {
    const clq_plan *plan = clq_trainer_plan(trainer, 0);
    size_t bytes = clq_plan_arena_bytes(plan);
    char *arena = clq_alloc(bytes, 1);
    if (!arena) return CLQ_MEMORY;
    clq_plan_initialize(plan, trainer->config.seed, arena);
    clq_status status = clq_strategy_write_parameters(trainer->strategy, 0, arena, bytes);
    clq_free(arena);
    return status;
}

static clq_status find_variable(const clq_trainer *trainer, size_t index, size_t *offset, size_t *bytes) {
    if (index >= trainer->model->variable_count)
        return clq_fail(CLQ_ARGUMENT, "variable %zu: model %s has %u", index, clq_model_name(trainer->model),
                        trainer->model->variable_count);
    *offset = clq_plan_variable_offset(clq_trainer_plan(trainer, 0), index);
    *bytes = trainer->model->variables[index].elements * sizeof(float);
    return CLQ_OK;
}

clq_status clq_trainer_get_variable(clq_trainer *trainer, size_t index, float *out) {
    size_t offset, bytes;
    CLQ_TRY(find_variable(trainer, index, &offset, &bytes));
    return clq_strategy_read_parameters(trainer->strategy, 0, offset, out, bytes);
}

clq_status clq_trainer_set_variable(clq_trainer *trainer, size_t index, const float *values) {
    size_t offset, bytes;
    CLQ_TRY(find_variable(trainer, index, &offset, &bytes));
    return clq_strategy_write_parameters(trainer->strategy, offset, values, bytes);
}

clq_status clq_trainer_get_gradient(clq_trainer *trainer, unsigned replica, size_t index, float *out) {
    size_t offset, bytes;
    CLQ_TRY(find_variable(trainer, index, &offset, &bytes));
    if (replica >= clq_trainer_replicas(trainer))
        return clq_fail(CLQ_ARGUMENT, "replica %u of %u", replica, clq_trainer_replicas(trainer));
    return clq_strategy_read_gradient(trainer->strategy, replica, offset, out, bytes);
}

/* ---- files ---- */

/* Element i of a tensor that may be unaligned. */
static float element(const clq_safetensors_entry *entry, size_t i) {
    const char *at = (const char *)entry->data + i * clq_dtype_bytes(entry->dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
    } value;
    memcpy(&value, at, clq_dtype_bytes(entry->dtype));
    switch (entry->dtype) {
    case CLQ_F64: return (float)value.f64;
    case CLQ_F16: return clq_half_to_float(value.u16);
    case CLQ_BF16: return clq_bfloat_to_float(value.u16);
    default: return value.f32;
    }
}

static bool is_float(clq_dtype dtype) {
    return dtype == CLQ_F32 || dtype == CLQ_F64 || dtype == CLQ_F16 || dtype == CLQ_BF16;
}

static bool same_shape(const clq_safetensors_entry *entry, const clq_variable *variable) {
    if (entry->rank != variable->shape.rank) return false;
    for (unsigned d = 0; d < entry->rank; d++)
        if (entry->dims[d] != variable->shape.dims[d]) return false;
    return true;
}

static void describe_dims(char *text, size_t bytes, unsigned rank, const size_t *dims) {
    clq_text built = {0};
    for (unsigned d = 0; d < rank; d++) clq_text_add(&built, "%s%zu", d ? ", " : "", dims[d]);
    size_t length = built.failed ? 0 : CLQ_MIN(built.length, bytes - 1);
    memcpy(text, built.data ? built.data : "", length);
    text[length] = '\0';
    clq_free(built.data);
}

static clq_status load_variable(const clq_variable *variable, const clq_safetensors *file, const char *path,
                                float *out) {
    const clq_safetensors_entry *entry = clq_safetensors_find(file, variable->name);
    if (!entry) return clq_fail(CLQ_MISMATCH, "%s has no tensor '%s', which the model needs", path, variable->name);
    if (!is_float(entry->dtype))
        return clq_fail(CLQ_MISMATCH, "%s: tensor '%s' is %s; f32, f64, f16 and bf16 are read", path, variable->name,
                        clq_dtype_name(entry->dtype));
    if (!same_shape(entry, variable)) {
        char got[96], wanted[96];
        describe_dims(got, sizeof got, entry->rank, entry->dims);
        describe_dims(wanted, sizeof wanted, variable->shape.rank, variable->shape.dims);
        return clq_fail(CLQ_MISMATCH, "%s: tensor '%s' has shape (%s) and the model's is (%s)", path, variable->name,
                        got, wanted);
    }
    for (size_t i = 0; i < entry->count; i++) out[i] = element(entry, i);
    return CLQ_OK;
}

static clq_status refuse_strangers(const clq_trainer *trainer, const clq_safetensors *file, const char *path) {
    for (size_t i = 0; i < clq_safetensors_count(file); i++) {
        const char *name = clq_safetensors_at(file, i)->name;
        bool known = false;
        for (uint32_t v = 0; v < trainer->model->variable_count && !known; v++)
            known = strcmp(trainer->model->variables[v].name, name) == 0;
        if (!known)
            return clq_fail(CLQ_MISMATCH, "%s: tensor '%s' is not part of model %s", path, name,
                            clq_model_name(trainer->model));
    }
    return CLQ_OK;
}

/* All tensors are read before the first weight changes: a bad file leaves the trainer as it was. */
clq_status clq_trainer_load(clq_trainer *trainer, const char *path) {
    const clq_plan *plan = clq_trainer_plan(trainer, 0);
    size_t bytes = clq_plan_arena_bytes(plan);
    clq_safetensors *file;
    CLQ_TRY(clq_safetensors_open(path, &file));
    char *arena = clq_alloc(bytes, 1);
    clq_status status = arena ? refuse_strangers(trainer, file, path) : CLQ_MEMORY;
    for (uint32_t i = 0; i < trainer->model->variable_count && status == CLQ_OK; i++)
        status = load_variable(&trainer->model->variables[i], file, path,
                               (float *)(void *)(arena + clq_plan_variable_offset(plan, i)));
    if (status == CLQ_OK) status = clq_strategy_write_parameters(trainer->strategy, 0, arena, bytes);
    clq_free(arena);
    clq_safetensors_close(file);
    return status;
}

clq_status clq_trainer_save(clq_trainer *trainer, const char *path) {
    const clq_plan *plan = clq_trainer_plan(trainer, 0);
    size_t bytes = clq_plan_arena_bytes(plan), count = trainer->model->variable_count;
    char *arena = clq_alloc(bytes, 1);
    clq_safetensors_source *sources = clq_alloc(CLQ_MAX(count, (size_t)1), sizeof *sources);
    clq_status status =
        arena && sources ? clq_strategy_read_parameters(trainer->strategy, 0, 0, arena, bytes) : CLQ_MEMORY;
    for (size_t i = 0; i < count && status == CLQ_OK; i++) {
        const clq_variable *variable = &trainer->model->variables[i];
        sources[i] = (clq_safetensors_source){.name = variable->name,
                                              .dtype = CLQ_F32,
                                              .rank = variable->shape.rank,
                                              .data = arena + clq_plan_variable_offset(plan, i)};
        for (unsigned d = 0; d < variable->shape.rank; d++) sources[i].dims[d] = variable->shape.dims[d];
    }
    const char *const metadata[] = {"format", "clique", "model", clq_model_name(trainer->model)};
    if (status == CLQ_OK) status = clq_safetensors_write(path, sources, count, metadata, 2);
    clq_free(arena);
    clq_free(sources);
    return status;
}
