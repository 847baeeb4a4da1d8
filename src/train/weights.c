/* Weights: initial values, one variable at a time, and safetensors files. */
#include "train/trainer.h"

#include <math.h>
#include <string.h>

/* All variables on the host, one behind the other. Start with {0}, release in any case. */
typedef struct image {
    float *values;
    size_t *first; /* of each variable, in floats */
} image;

static clq_status open_image(const clq_model *model, image *out) {
    size_t floats = 0;
    out->first = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *out->first);
    for (uint32_t i = 0; out->first && i < model->variable_count; i++) {
        out->first[i] = floats;
        floats += model->variables[i].elements;
    }
    out->values = clq_alloc(CLQ_MAX(floats, (size_t)1), sizeof *out->values);
    return out->first && out->values ? CLQ_OK : CLQ_MEMORY;
}

static void release_image(image *all) {
    clq_free(all->values);
    clq_free(all->first);
}

static float *values_in(const image *all, uint32_t index) { return all->values + all->first[index]; }

clq_status clq_trainer_set_initial_weights(clq_trainer *trainer) {
    const clq_model *model = trainer->model;
    image all = {0};
    clq_status status = open_image(model, &all);
    for (uint32_t i = 0; i < model->variable_count && status == CLQ_OK; i++)
        clq_variable_initialise(&model->variables[i], trainer->config.seed, i, values_in(&all, i));
    if (status == CLQ_OK) status = clq_trainer_put_weights(trainer, all.values);
    release_image(&all);
    return status;
}

clq_status clq_trainer_copy_weights(clq_trainer *trainer, float **values) {
    image all = {0};
    clq_status status = open_image(trainer->model, &all);
    for (uint32_t i = 0; i < trainer->model->variable_count && status == CLQ_OK; i++)
        status = clq_strategy_read_variable(trainer->strategy, 0, i, false, values_in(&all, i));
    if (status == CLQ_OK) {
        float *before = *values;
        *values = all.values;
        all.values = before;
    }
    release_image(&all);
    return status;
}

clq_status clq_trainer_put_weights(clq_trainer *trainer, const float *values) {
    clq_status status = CLQ_OK;
    size_t first = 0;
    for (uint32_t i = 0; i < trainer->model->variable_count && status == CLQ_OK; i++) {
        status = clq_strategy_write(trainer->strategy, i, values + first);
        first += trainer->model->variables[i].elements;
    }
    const clq_status waited =
        clq_strategy_wait(trainer->strategy); /* in any case: replicas read the values until then */
    return status == CLQ_OK ? waited : status;
}

static clq_status check_variable(const clq_trainer *trainer, size_t index) {
    const clq_model *model = trainer->model;
    if (index >= model->variable_count)
        return clq_fail(CLQ_ARGUMENT, "variable %zu is out of range: model %s has %u", index, clq_model_name(model),
                        model->variable_count);
    if (clq_strategy_has_variable(trainer->strategy, index)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "variable %s is none of part %u of %u of model %s: ask the trainer that has it",
                    model->variables[index].name, trainer->config.part, trainer->config.parts, clq_model_name(model));
}

clq_status clq_trainer_get_variable(clq_trainer *trainer, size_t index, float *out) {
    CLQ_TRY(check_variable(trainer, index));
    return clq_strategy_read_variable(trainer->strategy, 0, index, false, out);
}

clq_status clq_trainer_set_variable(clq_trainer *trainer, size_t index, const float *values) {
    CLQ_TRY(check_variable(trainer, index));
    CLQ_TRY(clq_strategy_write(trainer->strategy, index, values));
    return clq_strategy_wait(trainer->strategy);
}

clq_status clq_trainer_get_gradient(clq_trainer *trainer, unsigned replica, size_t index, float *out) {
    CLQ_TRY(check_variable(trainer, index));
    if (replica >= clq_trainer_replicas(trainer))
        return clq_fail(CLQ_ARGUMENT, "replica %u is out of range: the trainer has %u", replica,
                        clq_trainer_replicas(trainer));
    if (trainer->model->variables[index].role == CLQ_ROLE_STATE)
        return clq_fail(CLQ_ARGUMENT, "variable %s is not trained and has no gradient",
                        trainer->model->variables[index].name);
    if (trainer->accumulated > 0)
        return clq_fail(CLQ_STATE,
                        "no gradient while batches are accumulated: it is there after the clq_step_gradients "
                        "or clq_step that ends their update");
    if (trainer->forwarded > 0)
        return clq_fail(CLQ_STATE, "no gradient between clq_part_forward and clq_part_backward");
    return clq_strategy_read_variable(trainer->strategy, replica, index, true, out);
}

/* ---- files ---- */

/* Element i of a tensor that may be unaligned. */
static double element(const clq_safetensors_entry *entry, size_t i) {
    const char *at = (const char *)entry->data + i * clq_dtype_bytes(entry->dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
    } value;
    memcpy(&value, at, clq_dtype_bytes(entry->dtype));
    switch (entry->dtype) {
    case CLQ_F64: return value.f64;
    case CLQ_F16: return (double)clq_half_to_float(value.u16);
    case CLQ_BF16: return (double)clq_bfloat_to_float(value.u16);
    default: return (double)value.f32;
    }
}

static bool is_float(clq_dtype dtype) {
    return dtype == CLQ_F32 || dtype == CLQ_F64 || dtype == CLQ_F16 || dtype == CLQ_BF16;
}

void clq_describe_dims(char *text, size_t bytes, unsigned rank, const size_t *dims) {
    clq_text built = {0};
    for (unsigned d = 0; d < rank; d++) clq_text_add(&built, "%s%zu", d ? ", " : "", dims[d]);
    size_t length = built.failed ? 0 : CLQ_MIN(built.length, bytes - 1);
    memcpy(text, built.data ? built.data : "", length);
    text[length] = '\0';
    clq_free(built.data);
}

clq_status clq_check_tensor_shape(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path) {
    const clq_shape *shape = &variable->shape;
    char got[96], wanted[96];
    if (entry->rank == shape->rank && memcmp(entry->dims, shape->dims, shape->rank * sizeof *shape->dims) == 0)
        return CLQ_OK;
    clq_describe_dims(got, sizeof got, entry->rank, entry->dims);
    clq_describe_dims(wanted, sizeof wanted, shape->rank, shape->dims);
    return clq_fail(CLQ_MISMATCH, "%s: tensor '%s' has shape (%s) and the model's is (%s)", path, entry->name, got,
                    wanted);
}

clq_status clq_read_weights(const clq_safetensors_entry *entry, const clq_variable *variable, const char *path,
                            float *out) {
    if (!is_float(entry->dtype))
        return clq_fail(CLQ_MISMATCH, "%s: tensor '%s' is %s; f32, f64, f16 and bf16 are read", path, entry->name,
                        clq_dtype_name(entry->dtype));
    CLQ_TRY(clq_check_tensor_shape(entry, variable, path));
    for (size_t i = 0; i < entry->count; i++) {
        const double value = element(entry, i);
        out[i] = (float)value;
        if (isfinite(out[i])) continue;
        return clq_fail(CLQ_FORMAT, "%s: tensor '%s': value %zu is %g, and weights must be finite as float32", path,
                        entry->name, i, value);
    }
    return CLQ_OK;
}

static clq_status load_variable(const clq_variable *variable, const clq_safetensors *file, const char *path,
                                float *out) {
    const clq_safetensors_entry *entry = clq_safetensors_find(file, variable->name);
    if (!entry) return clq_fail(CLQ_MISMATCH, "%s has no tensor '%s', which the model needs", path, variable->name);
    return clq_read_weights(entry, variable, path, out);
}

clq_status clq_refuse_strangers(const clq_model *model, const clq_safetensors *file, const char *path,
                                const char *prefix) {
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < clq_safetensors_count(file); i++) {
        const char *name = clq_safetensors_at(file, i)->name;
        bool known = strncmp(name, prefix, length) != 0;
        for (uint32_t v = 0; v < model->variable_count && !known; v++)
            known = strcmp(model->variables[v].name, name + length) == 0;
        if (!known)
            return clq_fail(CLQ_MISMATCH, "%s: tensor '%s' is not part of model %s", path, name, clq_model_name(model));
    }
    return CLQ_OK;
}

clq_status clq_read_weights_file(const clq_model *model, const clq_strategy *of, const char *path, float **values) {
    clq_safetensors *file;
    CLQ_TRY(clq_safetensors_open(path, &file));
    image all = {0};
    clq_status status = open_image(model, &all);
    if (status == CLQ_OK) status = clq_refuse_strangers(model, file, path, "");
    for (uint32_t i = 0; i < model->variable_count && status == CLQ_OK; i++)
        if (!of || clq_strategy_has_variable(of, i))
            status = load_variable(&model->variables[i], file, path, values_in(&all, i));
    if (status == CLQ_OK) {
        *values = all.values;
        all.values = NULL;
    }
    release_image(&all);
    clq_safetensors_close(file);
    return status;
}

/* All tensors are read before the first weight changes: a bad file leaves the trainer as it was. */
clq_status clq_trainer_load(clq_trainer *trainer, const char *path) {
    float *values = NULL;
    CLQ_TRY(clq_read_weights_file(trainer->model, trainer->strategy, path, &values));
    const clq_status status = clq_trainer_put_weights(trainer, values);
    clq_free(values);
    return status;
}

clq_status clq_trainer_save(clq_trainer *trainer, const char *path) {
    const uint32_t variables = trainer->model->variable_count;
    size_t count = 0;
    image all = {0};
    clq_status status = open_image(trainer->model, &all);
    clq_safetensors_source *sources = clq_alloc(CLQ_MAX(variables, 1u), sizeof *sources);
    if (!sources) status = CLQ_MEMORY;
    for (uint32_t i = 0; i < variables && status == CLQ_OK; i++) {
        const clq_variable *variable = &trainer->model->variables[i];
        if (!clq_strategy_has_variable(trainer->strategy, i)) continue;
        status = clq_strategy_read_variable(trainer->strategy, 0, i, false, values_in(&all, i));
        clq_safetensors_source *source = &sources[count++];
        *source = (clq_safetensors_source){
            .name = variable->name, .dtype = variable->dtype, .rank = variable->shape.rank, .data = values_in(&all, i)};
        for (unsigned d = 0; d < variable->shape.rank; d++) source->dims[d] = variable->shape.dims[d];
    }
    const char *const metadata[] = {"format", "clique", "model", clq_model_name(trainer->model)};
    if (status == CLQ_OK) status = clq_safetensors_write(path, sources, count, metadata, 2);
    release_image(&all);
    clq_free(sources);
    return status;
}
