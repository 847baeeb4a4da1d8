/* A trainer's optimizers: which variables each optimizer updates, and their learning rates. */
#include "train/trainer.h"

#include <string.h>

static bool is_named(const clq_model *model, const clq_variable *variable, const char *word, size_t length) {
    return variable->role == CLQ_ROLE_TRAINABLE &&
           (clq_name_matches(word, length, variable->name) ||
            clq_name_matches(word, length, model->layers[variable->layer - 1].name));
}

static clq_status refuse(const clq_model *model, const char *word, size_t length) {
    clq_nearest nearest = {.word = word, .length = length};
    for (uint32_t i = 0; i < model->layer_count; i++) clq_nearest_try(&nearest, model->layers[i].name);
    for (uint32_t i = 0; i < model->variable_count; i++)
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE) clq_nearest_try(&nearest, model->variables[i].name);
    return clq_nearest_fail(
        &nearest, "optimizers: no layer or trainable variable of model %s is named '%.*s'; a variable is %s",
        clq_model_name(model), (int)length, word, model->variable_count ? model->variables[0].name : "none");
}

/* Gives optimizer `number` the variables that a word names, unless they have an optimizer already. The word must name
 * at least one variable. */
static clq_status give(const clq_model *model, const char *word, size_t length, uint8_t number,
                       clq_treatment *treatments) {
    bool any = false;
    if (length == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "optimizers: expected names of layers or variables with commas between");
    for (uint32_t i = 0; i < model->variable_count; i++) {
        if (!is_named(model, &model->variables[i], word, length)) continue;
        any = true;
        if (treatments[i].optimizer == 0) treatments[i].optimizer = number;
    }
    return any ? CLQ_OK : refuse(model, word, length);
}

static clq_status give_all(const clq_model *model, const clq_optimizer_config *config, uint8_t number,
                           clq_treatment *treatments) {
    for (const char *at = config->variables ? config->variables : "";; at++) {
        const size_t length = strcspn(at, ",");
        CLQ_TRY(give(model, at, length, number, treatments));
        at += length;
        if (!*at) break;
    }
    for (uint32_t i = 0; i < model->variable_count; i++)
        if (treatments[i].optimizer == number) return CLQ_OK;
    return clq_fail(
        CLQ_ERROR_ARGUMENT,
        "optimizers: all variables of '%.40s' already have an earlier optimizer: move this entry in front of "
        "it, or leave it out",
        config->variables);
}

/* Makes the text that a checkpoint's must equal: "adam; dense*=sgd". */
static clq_status describe(clq_trainer *trainer, const clq_trainer_config *config) {
    clq_text text = {0};
    clq_text_add(&text, "%s", clq_optimizer_row_of(config->optimizer.kind)->name);
    for (size_t i = 0; i < config->optimizer_count; i++)
        clq_text_add(&text, "; %s=%s", config->optimizers[i].variables,
                     clq_optimizer_row_of(config->optimizers[i].optimizer.kind)->name);
    trainer->optimizer_text = text.data;
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

static clq_status check(const clq_trainer_config *config) {
    if (config->optimizer_count >= CLQ_OPTIMIZERS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%zu optimizers beside the main one are too many: use at most %d",
                        config->optimizer_count, CLQ_OPTIMIZERS_MAX - 1);
    for (size_t i = 0; i < config->optimizer_count; i++) CLQ_TRY(clq_optimizer_check(&config->optimizers[i].optimizer));
    if (config->optimizer_count == 0 || config->optimizer.values[0] > 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "with several optimizers the main one's lr has to be above 0, as the others' rates follow it: name "
                    "what is not to be trained for an optimizer with lr 0");
}

clq_status clq_trainer_take_optimizers(clq_trainer *trainer, const clq_trainer_config *config,
                                       clq_treatment *treatments) {
    CLQ_TRY(check(config));
    trainer->main_rate = config->optimizer.values[0];
    trainer->other_count = (unsigned)config->optimizer_count;
    for (unsigned i = 0; i < trainer->other_count; i++) trainer->others[i] = config->optimizers[i].optimizer;
    CLQ_TRY(describe(trainer, config));
    for (unsigned i = 0; i < trainer->other_count; i++)
        CLQ_TRY(give_all(trainer->model, &config->optimizers[i], (uint8_t)(1 + i), treatments));
    return CLQ_OK;
}

void clq_trainer_set_rates(const clq_trainer *trainer, double rate, uint64_t step, clq_step_params *params) {
    clq_update_rates rates = clq_optimizer_rates(&trainer->config.optimizer, rate, step);
    clq_set_rates(params, 0, &rates);
    for (unsigned i = 0; i < trainer->other_count; i++) {
        const clq_optimizer *other = &trainer->others[i];
        rates = clq_optimizer_rates(other, rate / trainer->main_rate * other->values[0], step);
        clq_set_rates(params, 1 + i, &rates);
    }
}
