/* The config.json of a .keras archive: the text of the file that the model was read from, or that
 * clq_model_prepare_keras has made, with `trainable` false for layers that were frozen since. */
#include "train/weight_files.h"

#include <assert.h>
#include <string.h>

static bool has_variables(const clq_layer *layer) {
    for (size_t k = 0; k < layer->variable_places; k++)
        if (layer->variables[k]) return true;
    return false;
}

/* frozen: gets, for each place with a frozen layer, the index of that layer. Layers that are one layer in the text,
 * such as a pair of LSTMs, must be frozen together. */
static clq_status find_frozen(const clq_model *model, const char *path, json_t *frozen) {
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const clq_layer *layer = &model->layers[i];
        if (!layer->frozen || !has_variables(layer)) continue;
        if (!layer->place)
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "%s: frozen layer '%s' is none of the layers of the model's file: save .weights.h5 or "
                            ".safetensors",
                            path, layer->name);
        if (json_object_set_new(frozen, layer->place, json_integer((json_int_t)i)) != 0)
            return clq_fail_memory("writing a model as JSON");
    }
    for (uint32_t i = 0; i < model->layer_count; i++) {
        const clq_layer *layer = &model->layers[i];
        json_t *other = layer->place ? json_object_get(frozen, layer->place) : NULL;
        if (!other || layer->frozen || !has_variables(layer)) continue;
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "%s: '%s' is frozen and '%s' is not, and both are one layer of Keras's: freeze both, or save "
                        ".weights.h5 or .safetensors",
                        path, model->layers[json_integer_value(other)].name, layer->name);
    }
    return CLQ_OK;
}

/* The configuration at a place in the text. A place is an index into config.layers, and one more for each model within
 * another, with '/' between. */
static json_t *config_at(json_t *root, const char *place) {
    json_t *config = json_object_get(root, "config");
    for (const char *at = place; *at; at += *at == '/') {
        size_t index = 0;
        for (; clq_is_digit(*at); at++) index = 10 * index + (size_t)(*at - '0');
        json_t *layers = json_is_array(config) ? config : json_object_get(config, "layers");
        config = json_object_get(json_array_get(layers, index), "config");
    }
    return config;
}

/* Sets `trainable` to false, also for the layer in a wrapper and for the layers of a model. Keras's own files say it
 * for each of them, since Keras goes by variables. */
static void freeze(json_t *config, bool *changed, bool *failed) {
    static const char *const wrapped[] = {"layer", "backward_layer"};
    if (!json_is_false(json_object_get(config, "trainable"))) {
        *changed = true;
        *failed = *failed || json_object_set_new(config, "trainable", json_false()) != 0;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(wrapped); i++) {
        json_t *inner = json_object_get(json_object_get(config, wrapped[i]), "config");
        if (json_is_object(inner)) freeze(inner, changed, failed);
    }
    size_t index;
    json_t *layer;
    json_array_foreach(json_object_get(config, "layers"), index, layer) {
        json_t *inner = json_object_get(layer, "config");
        if (json_is_object(inner)) freeze(inner, changed, failed);
    }
}

static clq_status write_frozen(const clq_model *model, const char *path, json_t *root, clq_text *out) {
    json_t *frozen = json_object(), *index;
    const char *place;
    bool changed = false, failed = !frozen;
    const clq_status status = failed ? CLQ_OK : find_frozen(model, path, frozen);
    json_object_foreach(frozen, place, index) {
        json_t *config = config_at(root, place);
        assert(config); /* the places are of this text */
        freeze(config, &changed, &failed);
    }
    json_decref(frozen);
    if (status != CLQ_OK) return status;
    if (changed && !failed)
        clq_json_dump(root, 0, out);
    else
        clq_text_add(out, "%s", model->keras_config);
    return failed || out->failed ? clq_fail_memory("writing a model as JSON") : CLQ_OK;
}

clq_status clq_model_config_text(const clq_model *model, const char *path, clq_text *out) {
    json_t *root = NULL;
    CLQ_TRY(clq_json_parse(model->keras_config, strlen(model->keras_config), SIZE_MAX, path, &root));
    clq_status status = CLQ_OK;
    if (!json_is_string(json_object_get(root, "module")))
        status =
            clq_fail(CLQ_ERROR_UNSUPPORTED,
                     "%s: model %s is of a file of Keras 2, and Keras 3 alone reads .keras files: save .weights.h5 "
                     "or .safetensors",
                     path, clq_model_name(model));
    if (status == CLQ_OK) status = write_frozen(model, path, root, out);
    json_decref(root);
    return status;
}
