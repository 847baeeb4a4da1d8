/* Prepares models that were made here for being saved as .keras files. The model is written, and the text is
 * read back as a second model. From that one, the model takes over the text, and where Keras keeps each layer's
 * variables. */
#include "interop/keras_reading.h"

#include <string.h>

static void swap(char **a, char **b) {
    char *kept = *a;
    *a = *b;
    *b = kept;
}

/* The layers of both models come in the same order, except for those that a file has no layer for. */
static void take_paths(clq_model *model, clq_model *from) {
    for (uint32_t i = 0, next = 0; i < model->layer_count && from->layer_count > 0; i++)
        for (uint32_t tried = 0; tried < from->layer_count; tried++) {
            clq_layer *layer = &from->layers[(next + tried) % from->layer_count];
            if (strcmp(layer->name, model->layers[i].name) != 0) continue;
            swap(&model->layers[i].path, &layer->path);
            swap(&model->layers[i].place, &layer->place);
            next = (next + tried + 1) % from->layer_count;
            break;
        }
}

clq_status clq_model_prepare_keras(clq_model *model) {
    clq_text text = {0};
    clq_model *again = NULL;
    if (!model->finished) return clq_fail(CLQ_ERROR_STATE, "model %s is not finished", model->name);
    if (model->keras_config) return CLQ_OK;
    clq_status status = clq_keras_write_text(model, &text);
    if (status == CLQ_OK) status = clq_keras_read_text(text.data, text.length, NULL, model->name, &again);
    if (status == CLQ_OK) {
        take_paths(model, again);
        model->keras_config = again->keras_config;
        again->keras_config = NULL;
    }
    clq_model_destroy(again);
    clq_free(text.data);
    return status;
}
