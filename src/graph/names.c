/* Names of layers, made as Keras makes them (dense, dense_1, …), and a hash table of all names. With the table, the
 * time to build or read a model grows linearly with its layers, even for many thousands. */
#include "graph/layers/layer.h"

#include <stdio.h>
#include <string.h>

/* ---- which are taken ---- */

/* The slot that has the name, or that is free for it. The search goes from the slot of the name's hash to the next
 * slots. Fewer than half of the slots are used. */
static size_t find_slot(const clq_model *model, const char *name) {
    size_t at = (size_t)clq_hash128_of(name, strlen(name), 0).low & (model->name_slots - 1);
    while (model->names[at] && strcmp(model->layers[model->names[at] - 1].name, name) != 0)
        at = (at + 1) & (model->name_slots - 1);
    return at;
}

bool clq_model_has_layer(const clq_model *model, const char *name) {
    return model->name_slots > 0 && model->names[find_slot(model, name)] != 0;
}

void clq_names_note(clq_model *model, uint32_t id) { model->names[find_slot(model, model->layers[id - 1].name)] = id; }

void clq_names_note_all(clq_model *model) {
    memset(model->names, 0, model->name_slots * sizeof *model->names);
    for (uint32_t id = 1; id <= model->layer_count; id++) clq_names_note(model, id);
}

clq_status clq_names_reserve(clq_model *model) {
    enum { LEAST = 64 };
    if (2 * ((size_t)model->layer_count + 1) < model->name_slots) return CLQ_OK;
    const size_t larger = CLQ_MAX(2 * model->name_slots, (size_t)LEAST);
    uint32_t *names = clq_alloc(larger, sizeof *names);
    if (!names) return CLQ_ERROR_MEMORY;
    clq_free(model->names);
    model->names = names;
    model->name_slots = larger;
    clq_names_note_all(model);
    return CLQ_OK;
}

/* ---- naming ---- */

static clq_status take_name(const clq_model *model, const char *name, clq_layer *layer) {
    size_t length = strlen(name);
    char clean[CLQ_LAYER_NAME_MAX];
    (void)snprintf(clean, sizeof clean, "%s", name);
    clq_clean(clean);
    if (length == 0 || length >= CLQ_LAYER_NAME_MAX || strchr(name, '/') || strcmp(clean, name) != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "its name must have 1 to %d bytes of UTF-8, no '/' and no control characters",
                        CLQ_LAYER_NAME_MAX - 1);
    if (clq_model_has_layer(model, name))
        return clq_fail(CLQ_ERROR_ARGUMENT, "two layers have this name: give one of them another");
    memcpy(layer->name, name, length + 1);
    layer->named = true;
    return CLQ_OK;
}

/* As Keras does, counts the layers of the class that have made names. Skips a name that the caller has used
 * meanwhile. */
static void make_name(const clq_model *model, clq_layer *layer) {
    const char *stem = layer->kind->stem;
    uint32_t number = 0;
    for (uint32_t i = model->layer_count; i > 0 && layer->made_before == 0; i--)
        if (!model->layers[i - 1].named && model->layers[i - 1].kind == layer->kind)
            layer->made_before = model->layers[i - 1].made_before + 1;
    number = layer->made_before;
    do {
        if (number == 0)
            snprintf(layer->name, sizeof(layer->name), "%s", stem);
        else
            snprintf(layer->name, sizeof(layer->name), "%s_%u", stem, number);
        number++;
    } while (clq_model_has_layer(model, layer->name));
}

clq_status clq_name_layer(const clq_model *model, const char *name, clq_layer *layer) {
    if (name) return take_name(model, name, layer);
    make_name(model, layer);
    return CLQ_OK;
}
