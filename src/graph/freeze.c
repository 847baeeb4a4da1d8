/* Freezes layers by their names. */
#include "graph/layers/layer.h"

#include <string.h>

/* Whether a word names the layer, or a model within the model that has the layer. The name of a layer of an inner model
 * begins with the inner model's name and a '.'. */
static bool names(const char *word, size_t length, const char *layer) {
    char outer[CLQ_LAYER_NAME_MAX];
    if (clq_name_matches(word, length, layer)) return true;
    for (const char *dot = strchr(layer, '.'); dot; dot = strchr(dot + 1, '.')) {
        (void)snprintf(outer, sizeof outer, "%.*s", (int)(dot - layer), layer);
        if (clq_name_matches(word, length, outer)) return true;
    }
    return false;
}

static clq_status refuse(const clq_model *model, const char *word, size_t length) {
    clq_nearest nearest = {.word = word, .length = length};
    for (uint32_t i = 0; i < model->layer_count; i++) clq_nearest_try(&nearest, model->layers[i].name);
    return clq_nearest_fail(&nearest, "freeze: no layer of model %s is named '%.*s'", model->name, (int)length, word);
}

static clq_status mark(const clq_model *model, const char *word, size_t length, bool *marked) {
    bool any = false;
    if (length == 0) return clq_fail(CLQ_ERROR_ARGUMENT, "freeze: expected names of layers with commas between");
    for (uint32_t i = 0; i < model->layer_count; i++) {
        if (!names(word, length, model->layers[i].name)) continue;
        marked[i] = any = true;
    }
    return any ? CLQ_OK : refuse(model, word, length);
}

static clq_status check_rest(const clq_model *model, const bool *marked) {
    for (uint32_t i = 0; i < model->variable_count; i++)
        if (model->variables[i].role == CLQ_ROLE_TRAINABLE && !marked[model->variables[i].layer - 1]) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "freeze: no variable of model %s would be left to train", model->name);
}

clq_status clq_model_freeze(clq_model *model, const char *all) {
    bool *marked = clq_alloc(CLQ_MAX(model->layer_count, 1u), sizeof *marked);
    clq_status status = marked ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (const char *at = all; status == CLQ_OK; at++) {
        const size_t length = strcspn(at, ",");
        status = mark(model, at, length, marked);
        at += length;
        if (!*at) break;
    }
    if (status == CLQ_OK) status = check_rest(model, marked);
    for (uint32_t i = 0; status == CLQ_OK && i < model->layer_count; i++) {
        if (!marked[i]) continue;
        model->layers[i].frozen = true;
        clq_model_freeze_variables(model, &model->layers[i]);
    }
    clq_free(marked);
    return status;
}
