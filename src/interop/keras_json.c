/* Keras 3's model.to_json(): Sequential, and Functional where it is a chain. */
#include "interop/attributes.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 64 << 20, DEPTH_MAX = 64, LAYERS_MAX = 10000 };

static const char *class_of(json_t *object) {
    const char *name = json_string_value(json_object_get(object, "class_name"));
    return name ? name : "";
}

/* What an InputLayer or a Sequential's build_input_shape says. */
static clq_status add_input(clq_model *model, json_t *shape, const char *path, clq_tensor *x) {
    clq_shape input;
    CLQ_TRY(clq_keras_batch_shape(shape, path, &input));
    *x = clq_input(model, input);
    return x->id ? CLQ_OK : clq_fail_within(clq_error_raise(&model->error), "%s", path);
}

static clq_status add_input_layer(clq_model *model, json_t *layer, const char *path, clq_tensor *x) {
    char where[160], config_path[224], shape_path[256];
    clq_keras_describe_place(layer, path, where);
    snprintf(config_path, sizeof config_path, "%s.config", where);
    clq_attributes a;
    clq_attributes_open(json_object_get(layer, "config"), config_path, &a);
    json_t *shape = clq_attribute(&a, "batch_shape");
    const char *key = shape ? "batch_shape" : "batch_input_shape";
    if (!shape) shape = clq_attribute(&a, "batch_input_shape");
    clq_attribute_ignore(&a, "name");
    clq_attribute_ignore(&a, "dtype"); /* of the samples; they arrive as u8 or f32 */
    const char *const refused[] = {"sparse", "ragged", "optional"};
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++)
        if (clq_attribute_flag(&a, refused[i], false))
            clq_attribute_refuse(&a, CLQ_UNSUPPORTED, refused[i], "is not supported");
    CLQ_TRY(clq_attributes_close(&a));
    snprintf(shape_path, sizeof shape_path, "%.220s.%s", config_path, key);
    return add_input(model, shape, shape_path, x);
}

static clq_status check_layers(json_t *layers) {
    if (!json_is_array(layers) || json_array_size(layers) == 0)
        return clq_fail(CLQ_FORMAT, "config.layers is missing or empty");
    if (json_array_size(layers) > LAYERS_MAX)
        return clq_fail(CLQ_UNSUPPORTED, "config.layers has %zu layers; at most %d are read", json_array_size(layers),
                        LAYERS_MAX);
    return CLQ_OK;
}

/* ---- Sequential
 * ------------------------------------------------------------------------------------------------------ */

static clq_status read_sequential(clq_model *model, json_t *config, clq_tensor *x) {
    json_t *layers = json_object_get(config, "layers");
    CLQ_TRY(check_layers(layers));
    size_t first = 0;
    if (strcmp(class_of(json_array_get(layers, 0)), "InputLayer") == 0) {
        CLQ_TRY(add_input_layer(model, json_array_get(layers, 0), "config.layers[0]", x));
        first = 1;
    } else {
        json_t *shape = json_object_get(config, "build_input_shape");
        if (!shape)
            return clq_fail(
                CLQ_FORMAT,
                "config has no InputLayer with a batch_shape and no build_input_shape: the input's shape is not known");
        CLQ_TRY(add_input(model, shape, "config.build_input_shape", x));
    }
    for (size_t i = first; i < json_array_size(layers); i++) {
        char path[64];
        snprintf(path, sizeof path, "config.layers[%zu]", i);
        CLQ_TRY(clq_keras_add_layer(model, json_array_get(layers, i), path, x));
    }
    return CLQ_OK;
}

/* ---- Functional
 * ------------------------------------------------------------------------------------------------------- */

static const char *name_of(json_t *layer) {
    const char *name = json_string_value(json_object_get(layer, "name"));
    return name ? name : json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
}

/* The layer that a layer reads: keras_history of its one input tensor. NULL with a failure where it is not one. */
static clq_status source_of(json_t *layer, const char *path, const char **out) {
    json_t *nodes = json_object_get(layer, "inbound_nodes");
    if (json_array_size(nodes) != 1)
        return clq_fail(CLQ_UNSUPPORTED, "%s (%.60s).inbound_nodes: a layer that is used %zu times is not supported",
                        path, name_of(layer), json_array_size(nodes));
    json_t *arguments = json_object_get(json_array_get(nodes, 0), "args");
    json_t *tensor = json_array_get(arguments, 0);
    if (json_is_array(tensor) && json_array_size(tensor) == 1) tensor = json_array_get(tensor, 0);
    json_t *history = json_object_get(json_object_get(tensor, "config"), "keras_history");
    const char *name = json_string_value(json_array_get(history, 0));
    if (json_array_size(arguments) != 1 || !name)
        return clq_fail(
            CLQ_UNSUPPORTED,
            "%s.inbound_nodes: a layer with other than one input is not supported; the model must be a chain", path);
    *out = name;
    return CLQ_OK;
}

/* The index of the layer that reads each layer, by the name of the one that is read. Caller: json_decref. */
static clq_status index_readers(json_t *layers, json_t **out) {
    json_t *readers = json_object();
    clq_status status = readers ? CLQ_OK : clq_fail(CLQ_MEMORY, "config.layers: out of memory");
    for (size_t i = 0; i < json_array_size(layers) && status == CLQ_OK; i++) {
        json_t *layer = json_array_get(layers, i);
        char path[64];
        const char *source = NULL;
        if (strcmp(class_of(layer), "InputLayer") == 0) continue;
        snprintf(path, sizeof path, "config.layers[%zu]", i);
        status = source_of(layer, path, &source);
        if (status != CLQ_OK) break;
        if (json_object_get(readers, source))
            status = clq_fail(CLQ_UNSUPPORTED,
                              "config.layers: '%.80s' is read by two layers; the model must be a chain", source);
        else if (json_object_set_new(readers, source, json_integer((json_int_t)i)) != 0)
            status = clq_fail(CLQ_MEMORY, "config.layers: out of memory");
    }
    if (status == CLQ_OK)
        *out = readers;
    else
        json_decref(readers);
    return status;
}

static clq_status find_input(json_t *layers, size_t *out) {
    size_t found = SIZE_MAX;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        if (!name_of(json_array_get(layers, i))) return clq_fail(CLQ_FORMAT, "config.layers[%zu].name is missing", i);
        if (strcmp(class_of(json_array_get(layers, i)), "InputLayer") != 0) continue;
        if (found != SIZE_MAX)
            return clq_fail(CLQ_UNSUPPORTED, "config.layers[%zu]: a second InputLayer is not supported", i);
        found = i;
    }
    if (found == SIZE_MAX) return clq_fail(CLQ_FORMAT, "config.layers has no InputLayer");
    *out = found;
    return CLQ_OK;
}

/* input_layers and output_layers: ["name", 0, 0] or a list of one such. */
static clq_status check_single(json_t *config, const char *key) {
    json_t *ends = json_object_get(config, key);
    if (!json_is_array(ends) || json_array_size(ends) == 0) return clq_fail(CLQ_FORMAT, "config.%s is missing", key);
    if (json_is_array(json_array_get(ends, 0)) && json_array_size(ends) > 1)
        return clq_fail(CLQ_UNSUPPORTED, "config.%s: %zu are not supported, only one", key, json_array_size(ends));
    return CLQ_OK;
}

/* An unknown layer is named as such before the chain is looked at: it may be what makes it no chain. */
static clq_status check_classes(json_t *layers) {
    for (size_t i = 0; i < json_array_size(layers); i++) {
        char path[64];
        snprintf(path, sizeof path, "config.layers[%zu]", i);
        if (strcmp(class_of(json_array_get(layers, i)), "InputLayer") != 0)
            CLQ_TRY(clq_keras_check_class(json_array_get(layers, i), path));
    }
    return CLQ_OK;
}

/* Adds the layers behind the one at `at`, each the reader of the one before it. */
static clq_status add_chain(clq_model *model, json_t *layers, json_t *readers, size_t at, clq_tensor *x) {
    size_t count = json_array_size(layers), added = 1;
    json_t *reader;
    for (; (reader = json_object_get(readers, name_of(json_array_get(layers, at)))); added++) {
        char path[64];
        at = (size_t)json_integer_value(reader);
        snprintf(path, sizeof path, "config.layers[%zu]", at);
        CLQ_TRY(clq_keras_add_layer(model, json_array_get(layers, at), path, x)); /* a circle meets its own name here */
    }
    if (added == count) return CLQ_OK;
    return clq_fail(CLQ_UNSUPPORTED, "config.layers: %zu of %zu layers are not on one chain from the input",
                    count - added, count);
}

static clq_status read_functional(clq_model *model, json_t *config, clq_tensor *x) {
    json_t *layers = json_object_get(config, "layers"), *readers;
    size_t at;
    char path[64];
    CLQ_TRY(check_layers(layers));
    CLQ_TRY(check_single(config, "input_layers"));
    CLQ_TRY(check_single(config, "output_layers"));
    CLQ_TRY(find_input(layers, &at));
    CLQ_TRY(check_classes(layers));
    snprintf(path, sizeof path, "config.layers[%zu]", at);
    CLQ_TRY(add_input_layer(model, json_array_get(layers, at), path, x));
    CLQ_TRY(index_readers(layers, &readers));
    clq_status status = add_chain(model, layers, readers, at, x);
    json_decref(readers);
    return status;
}

/* ---- the file
 * ---------------------------------------------------------------------------------------------------------- */

static clq_status build(json_t *root, clq_model *model) {
    json_t *config = json_object_get(root, "config");
    const char *class_name = class_of(root);
    clq_tensor x = {0};
    if (!json_is_object(config)) return clq_fail(CLQ_FORMAT, "config is missing: is this the text of model.to_json()?");
    if (strcmp(class_name, "Sequential") == 0)
        CLQ_TRY(read_sequential(model, config, &x));
    else if (strcmp(class_name, "Functional") == 0)
        CLQ_TRY(read_functional(model, config, &x));
    else
        return clq_fail(CLQ_UNSUPPORTED, "class_name: '%.60s' is not supported; there are Sequential and Functional",
                        class_name);
    return clq_model_finish(model, x);
}

clq_status clq_model_read_keras_json(const char *path, clq_model **out) {
    json_t *root;
    CLQ_TRY(clq_json_read(path, FILE_MAX, DEPTH_MAX, &root));
    const char *name = json_string_value(json_object_get(json_object_get(root, "config"), "name"));
    clq_model *model = NULL;
    clq_text clean = {0};
    clq_text_add_clean(&clean, name && *name ? name : "model");
    clq_status status = clean.failed ? CLQ_MEMORY : clq_model_create(clean.data, &model);
    clq_free(clean.data);
    if (status == CLQ_OK) status = build(root, model);
    if (status != CLQ_OK) {
        /* To the caller a bad layer is a bad file, whatever the builder calls it. */
        if (status == CLQ_ARGUMENT || status == CLQ_STATE) status = CLQ_FORMAT;
        clq_fail_within(status, "%s", path);
        clq_model_destroy(model);
        model = NULL;
    }
    json_decref(root);
    if (status == CLQ_OK) *out = model;
    return status;
}
