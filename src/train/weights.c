/* Weights: initial values, and one variable at a time. In files: weight_files.c. */
#include "train/weight_files.h"

clq_status clq_image_open(const clq_model *model, clq_image *out) {
    size_t floats = 0;
    out->first = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *out->first);
    for (uint32_t i = 0; out->first && i < model->variable_count; i++) {
        out->first[i] = floats;
        floats += model->variables[i].elements;
    }
    out->values = clq_alloc(CLQ_MAX(floats, (size_t)1), sizeof *out->values);
    return out->first && out->values ? CLQ_OK : CLQ_ERROR_MEMORY;
}

void clq_image_release(clq_image *all) {
    clq_free(all->values);
    clq_free(all->first);
}

clq_status clq_trainer_set_initial_weights(clq_trainer *trainer) {
    const clq_model *model = trainer->model;
    clq_image all = {0};
    clq_status status = clq_image_open(model, &all);
    for (uint32_t i = 0; i < model->variable_count && status == CLQ_OK; i++)
        clq_variable_initialise(&model->variables[i], trainer->config.seed, i, clq_image_of(&all, i));
    if (status == CLQ_OK) status = clq_trainer_put_weights(trainer, all.values);
    clq_image_release(&all);
    return status;
}

static clq_status check_variable(const clq_trainer *trainer, size_t index) {
    const clq_model *model = trainer->model;
    if (index >= model->variable_count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "variable %zu is out of range: model %s has %u", index,
                        clq_model_name(model), model->variable_count);
    if (clq_strategy_has_variable(trainer->strategy, index)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "variable %s is none of part %u of %u of model %s: ask the trainer that has it",
                    model->variables[index].name, trainer->config.part, trainer->config.parts, clq_model_name(model));
}

clq_status clq_trainer_copy_weights(clq_trainer *trainer, float **values) {
    clq_image all = {0};
    clq_status status = clq_image_open(trainer->model, &all);
    for (uint32_t i = 0; i < trainer->model->variable_count && status == CLQ_OK; i++) {
        status = check_variable(trainer, i);
        if (status == CLQ_OK)
            status = clq_strategy_read_variable(trainer->strategy, 0, i, false, clq_image_of(&all, i));
    }
    if (status == CLQ_OK) {
        float *before = *values;
        *values = all.values;
        all.values = before;
    }
    clq_image_release(&all);
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
        return clq_fail(CLQ_ERROR_ARGUMENT, "replica %u is out of range: the trainer has %u", replica,
                        clq_trainer_replicas(trainer));
    if (trainer->model->variables[index].role == CLQ_ROLE_STATE)
        return clq_fail(CLQ_ERROR_ARGUMENT, "variable %s is not trained and has no gradient",
                        trainer->model->variables[index].name);
    if (trainer->accumulated > 0)
        return clq_fail(CLQ_ERROR_STATE,
                        "no gradient while batches are accumulated: it is there after the clq_step_gradients "
                        "or clq_step that ends their update");
    if (trainer->forwarded > 0)
        return clq_fail(CLQ_ERROR_STATE, "no gradient between clq_part_forward and clq_part_backward");
    return clq_strategy_read_variable(trainer->strategy, replica, index, true, out);
}
