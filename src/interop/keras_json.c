/* Reads what model.to_json() of Keras 3 and Keras 2 gives, which is also the config.json of a .keras file. The file and
 * Sequential models are here, Functional models in keras_functional.c. */
#include "interop/keras_reading.h"

#include <string.h>

enum { FILE_MAX = 64 << 20, DEPTH_MAX = 64, LAYERS_MAX = 10000 };

const char *clq_keras_class(json_t *object) {
    const char *name = json_string_value(json_object_get(object, "class_name"));
    return name ? name : "";
}

bool clq_keras_is_tensor(json_t *argument) {
    return strcmp(clq_keras_class(argument), "__keras_tensor__") == 0 ||
           json_object_get(json_object_get(argument, "config"), "keras_history");
}

size_t clq_keras_tensors(json_t *argument, bool several) {
    size_t i;
    json_t *item;
    if (clq_keras_is_tensor(argument)) return 1;
    if (!several || !json_is_array(argument)) return 0;
    json_array_foreach(argument, i, item) if (!clq_keras_is_tensor(item)) return 0;
    return json_array_size(argument);
}

json_t *clq_keras_write_layer(const char *module, const char *class_name, const char *name, json_t *config,
                              json_t *nodes) {
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "module", module, "class_name", class_name, "name", name, "config",
                     config, "inbound_nodes", nodes);
}

json_t *clq_keras_refer(const char *layer, uint32_t node, uint32_t output, const clq_shape *shape) {
    json_t *config = json_pack("{s:[s, I, I]}", "keras_history", layer, (json_int_t)node, (json_int_t)output);
    if (shape) {
        config = clq_json_put(config, "shape", clq_keras_write_dims(clq_json_append(json_array(), json_null()), shape));
        config = clq_json_put(config, "dtype", json_string("float32"));
    }
    return json_pack("{s:s, s:o}", "class_name", "__keras_tensor__", "config", config);
}

/* Copies the name beside a layer's configuration, which Keras goes by, into the configuration if that has no name. Some
 * functions of keras.ops have none there. */
static clq_status take_names(json_t *layers) {
    size_t i;
    json_t *layer;
    json_array_foreach(layers, i, layer) {
        json_t *config = json_object_get(layer, "config"), *name = json_object_get(layer, "name");
        if (!json_is_object(config) || !json_is_string(name) || json_object_get(config, "name")) continue;
        if (json_object_set(config, "name", name) != 0)
            return clq_fail(CLQ_ERROR_MEMORY, "config.layers: out of memory");
    }
    return CLQ_OK;
}

clq_status clq_keras_check_layers(json_t *layers) {
    if (!json_is_array(layers) || json_array_size(layers) == 0)
        return clq_fail(CLQ_ERROR_FORMAT, "config.layers is missing or empty");
    if (json_array_size(layers) > LAYERS_MAX)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "config.layers has %zu layers; at most %d are read",
                        json_array_size(layers), LAYERS_MAX);
    return take_names(layers);
}

/* ---- Sequential ---- */

/* Adds the input of a model whose first layer is no InputLayer. Keras 2's first layer may have the input's shape. */
static clq_status add_first_shape(clq_model *model, const clq_keras_sizes *sizes, json_t *config, json_t *first,
                                  clq_tensor *x) {
    json_t *shape = json_object_get(config, "build_input_shape"),
           *old = json_object_get(json_object_get(first, "config"), "batch_input_shape");
    if (shape) return clq_keras_add_shape(model, sizes, shape, NULL, "config.build_input_shape", x);
    if (old) return clq_keras_add_shape(model, sizes, old, NULL, "config.layers[0].batch_input_shape", x);
    if (sizes->count > 0) {
        clq_inputs(model, sizes->shapes, NULL, 1, x);
        return x->id ? CLQ_OK : clq_error_raise(&model->error);
    }
    return clq_fail(CLQ_ERROR_FORMAT,
                    "config has no InputLayer with a batch_shape and no build_input_shape: say the input's "
                    "shape, as --input-shape, or clq_keras_sizes does");
}

/* config: an object with the layers as a member, or, in the first versions of Keras 2, the list of layers itself. */
static clq_status read_sequential(clq_model *model, const clq_keras_sizes *sizes, json_t *config) {
    clq_tensor given = {0};
    json_t *layers = json_is_array(config) ? config : json_object_get(config, "layers");
    CLQ_TRY(clq_keras_check_layers(layers));
    CLQ_TRY(clq_keras_check_sizes(sizes, 1));
    if (strcmp(clq_keras_class(json_array_get(layers, 0)), "InputLayer") != 0)
        CLQ_TRY(add_first_shape(model, sizes, config, json_array_get(layers, 0), &given));
    return clq_keras_read_sequential(model, sizes, config, layers, given);
}

/* ---- the file ---- */

static clq_status read_backbone(clq_model *model, const clq_keras_sizes *sizes, json_t *root) {
    json_t *config;
    CLQ_TRY(clq_keras_write_backbone(root, &config));
    const clq_status status = clq_keras_read_functional(model, sizes, config, true);
    json_decref(config);
    return status;
}

static clq_status refuse_class(const char *class_name) {
    clq_text known = {0};
    for (size_t i = 0; clq_keras_backbone_class(i); i++) clq_text_add(&known, ", %s", clq_keras_backbone_class(i));
    const clq_status status =
        clq_fail(CLQ_ERROR_UNSUPPORTED, "class_name: '%.60s' is not supported; there are Sequential, Functional%s",
                 class_name, known.data ? known.data : "");
    clq_free(known.data);
    return status;
}

static clq_status build(json_t *root, const clq_keras_sizes *sizes, clq_model *model) {
    json_t *config = json_object_get(root, "config");
    const char *class_name = clq_keras_class(root);
    const bool sequential = strcmp(class_name, "Sequential") == 0;
    if (!json_is_object(config) && !(sequential && json_is_array(config)))
        return clq_fail(CLQ_ERROR_FORMAT, "config is missing: is this the text of model.to_json()?");
    if (sequential) return read_sequential(model, sizes, config);
    if (strcmp(class_name, "Functional") == 0 || strcmp(class_name, "Model") == 0) /* early Keras 2 wrote "Model" */
        return clq_keras_read_functional(model, sizes, config, false);
    if (clq_keras_is_backbone(root)) return read_backbone(model, sizes, root);
    return refuse_class(class_name);
}

clq_status clq_keras_read_text(const char *text, size_t bytes, const clq_keras_sizes *given, const char *path,
                               clq_model **out) {
    const clq_keras_sizes sizes = given ? *given : (clq_keras_sizes){0};
    json_t *root;
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_keras_sizes, &sizes));
    CLQ_TRY(clq_json_parse(text, bytes, DEPTH_MAX, path, &root));
    const char *name = json_string_value(json_object_get(json_object_get(root, "config"), "name"));
    clq_model *model = NULL;
    clq_text clean = {0};
    clq_text_add_clean(&clean, name && *name ? name : "model");
    clq_status status = clean.failed ? CLQ_ERROR_MEMORY : clq_model_create(clean.data, &model);
    clq_free(clean.data);
    if (status == CLQ_OK) {
        model->keras_config = clq_strdup(text);
        status = model->keras_config ? build(root, &sizes, model) : CLQ_ERROR_MEMORY;
    }
    if (status != CLQ_OK) {
        /* To the caller a bad layer is a bad file, whatever the builder calls it. */
        if (status == CLQ_ERROR_ARGUMENT || status == CLQ_ERROR_STATE) status = CLQ_ERROR_FORMAT;
        clq_fail_within(status, "%s", path);
        clq_model_destroy(model);
        model = NULL;
    }
    json_decref(root);
    if (status == CLQ_OK) *out = model;
    return status;
}

clq_status clq_model_read_keras_json(const char *path, clq_model **out) {
    return clq_model_read_keras_json_sized(path, NULL, out);
}

clq_status clq_model_read_keras_json_sized(const char *path, const clq_keras_sizes *given, clq_model **out) {
    void *text;
    size_t bytes;
    CLQ_TRY(clq_file_read(path, FILE_MAX, &text, &bytes));
    const clq_status status = clq_keras_read_text(text, bytes, given, path, out);
    clq_free(text);
    return status;
}

clq_status clq_model_read_keras(const char *path, const clq_keras_sizes *given, clq_model **out) {
    clq_safetensors *file;
    CLQ_TRY(clq_keras_file_open(path, &file));
    const char *text = clq_safetensors_metadata(file, "keras_config");
    clq_status status;
    if (!text)
        status = clq_fail(CLQ_ERROR_FORMAT, "%s: it has weights alone: a .keras file has a model, too", path);
    else if (strlen(text) > FILE_MAX)
        status = clq_fail(CLQ_ERROR_FORMAT, "%s: config.json has %zu bytes; at most %d are read", path, strlen(text),
                          FILE_MAX);
    else
        status = clq_keras_read_text(text, strlen(text), given, path, out);
    clq_safetensors_close(file);
    return status;
}
