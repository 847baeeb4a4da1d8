/* Where Keras's files of weights have a model's variables. Keras goes by the classes of layers and their order in the
 * model, not by their names (keras.src.saving.saving_lib): the second Dense is "layers/dense_1", whatever it is called,
 * and its kernel "layers/dense_1/vars/0". */
#include "graph/layers/layer.h"

#include <string.h>

static bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

/* Keras puts a '_' in two passes. First: in front of a capital that small letters follow, unless the capital directly
 * follows such a match. Second: between a small letter and a capital. */
void clq_store_name(const char *class_name, clq_text *to) {
    const char *run = class_name; /* where the next run of the first pass may have its first letter */
    for (const char *c = class_name; *c; c++) {
        if (!clq_is_letter(*c) && !clq_is_digit(*c) && *c != '_') continue;
        const char before = c > class_name ? c[-1] : '\0';
        const bool first = c > run && is_upper(*c) && is_lower(c[1]);
        if (first)
            for (run = c + 1; is_lower(*run); run++) continue;
        const char small = clq_lower(*c);
        if (first || (is_lower(before) && is_upper(*c))) clq_text_add_bytes(to, "_", 1);
        clq_text_add_bytes(to, &small, 1);
    }
}

/* Copies a text to a member. text NULL: the member keeps what was noted before. */
static clq_status note(char **member, const char *text) {
    char *copy = text ? clq_strdup(text) : NULL;
    if (!text) return CLQ_OK;
    if (!copy) return CLQ_ERROR_MEMORY;
    clq_free(*member);
    *member = copy;
    return CLQ_OK;
}

clq_status clq_model_note_path(clq_model *model, clq_tensor x, const char *path, const char *place) {
    clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    CLQ_TRY(note(&layer->path, path));
    return note(&layer->place, place);
}

clq_status clq_model_note_block_store(clq_model *model, clq_tensor x, const char *block, const char *store) {
    clq_layer *layer = &model->layers[model->tensors[x.id - 1].layer - 1];
    layer->block_bytes = strlen(block);
    return note(&layer->block_store, store);
}

/* Whether a path is that of a variable. A layer has such a path if a file has it as a variable of another layer. */
static bool is_variable(const char *path) {
    const char *number = strrchr(path, '/');
    return number && number - path >= 5 && strncmp(number - 5, "/vars", 5) == 0;
}

char *clq_variable_store(const clq_layer *layer, uint32_t variable, const char *path) {
    unsigned before = 0;
    if (is_variable(path)) return clq_strdup(path);
    for (size_t k = 0; k < layer->variable_places; k++) {
        if (layer->variables[k] == variable + 1 && layer->kind->stores)
            return clq_strprintf("%s/%s", path, layer->kind->stores[k]);
        before += layer->variables[k] && layer->variables[k] < variable + 1;
    }
    return clq_strprintf("%s/vars/%u", path, before);
}

/* Layers have their paths from the model's file. If a layer has none, the paths of its variables are not known. */
static clq_status add_layer(const clq_layer *layer, clq_stores *to) {
    for (size_t k = 0; k < layer->variable_places && layer->path; k++) {
        if (!layer->variables[k]) continue;
        const uint32_t variable = layer->variables[k] - 1;
        to->paths[variable] = clq_variable_store(layer, variable, layer->path);
        if (!to->paths[variable]) return CLQ_ERROR_MEMORY;
    }
    if (!layer->path || !layer->kind->zero_store || !layer->variable_places) return CLQ_OK;
    to->zeros[to->zero_count] = clq_strprintf("%s/%s", layer->path, layer->kind->zero_store);
    if (!to->zeros[to->zero_count]) return CLQ_ERROR_MEMORY;
    to->zero_count++;
    return CLQ_OK;
}

clq_status clq_model_stores(const clq_model *model, clq_stores *out) {
    clq_stores all = {.count = model->variable_count};
    all.paths = clq_alloc(CLQ_MAX(model->variable_count, 1u), sizeof *all.paths);
    all.zeros = clq_alloc(CLQ_MAX(model->layer_count, 1u), sizeof *all.zeros);
    clq_status status = all.paths && all.zeros ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (uint32_t i = 0; i < model->layer_count && status == CLQ_OK; i++)
        if (model->layers[i].variable_places) status = add_layer(&model->layers[i], &all);
    if (status == CLQ_OK)
        *out = all;
    else
        clq_stores_release(&all);
    return status;
}

void clq_stores_release(clq_stores *stores) {
    for (uint32_t i = 0; stores->paths && i < stores->count; i++) clq_free(stores->paths[i]);
    for (size_t i = 0; stores->zeros && i < stores->zero_count; i++) clq_free(stores->zeros[i]);
    clq_free(stores->paths);
    clq_free(stores->zeros);
    *stores = (clq_stores){0};
}
