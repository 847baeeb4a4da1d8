/* Keras's layers by class name, each with every attribute of its configuration. */
#include "interop/keras.h"

#include <stdio.h>
#include <string.h>

/* ---- what all layers have ---- */

static void take_dtype(clq_keras_attributes *a) {
    json_t *dtype = clq_keras_attribute(a, "dtype");
    if (!dtype) return;
    if (json_is_object(dtype)) dtype = json_object_get(json_object_get(dtype, "config"), "name");
    const char *name = json_string_value(dtype);
    if (!name)
        clq_keras_refuse(a, CLQ_FORMAT, "dtype", "should name a type");
    else if (strcmp(name, "float32") != 0)
        clq_keras_refuse(a, CLQ_UNSUPPORTED, "dtype", "'%.40s' is not supported, only float32", name);
}

static void take_common(clq_keras_attributes *a) {
    take_dtype(a);
    (void)clq_keras_attribute(a, "batch_input_shape"); /* Keras 2's first layer repeats the input's */
}

/* ---- the layers ---- */

void clq_keras_describe_place(json_t *layer, size_t index, char where[160]) {
    const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
    snprintf(where, 160, "config.layers[%zu] (%.60s)", index, name ? name : "no name");
}

/* What an InputLayer is, is read by clq_keras_add_input. */
static const clq_layer_kind *find_kind(json_t *layer) {
    const clq_layer_kind *kind =
        clq_layer_kind_named(clq_keras_class(layer), json_string_value(json_object_get(layer, "module")));
    return kind && kind->inputs[1] > 0 ? kind : NULL;
}

const char *clq_keras_input_name(json_t *layer, size_t i) {
    const clq_layer_kind *kind = find_kind(layer);
    return kind && kind->input_names && i < kind->inputs[1] ? kind->input_names[i] : NULL;
}

bool clq_keras_same_keywords(json_t *layer, json_t *a, json_t *b) {
    const clq_layer_kind *kind = find_kind(layer);
    for (size_t i = 0; kind && i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        if (row->type == CLQ_ATTRIBUTE_KEYWORD_FLAG &&
            json_is_true(json_object_get(a, row->key)) != json_is_true(json_object_get(b, row->key)))
            return false;
    }
    return true;
}

bool clq_keras_takes_keyword(json_t *layer, const char *key) {
    const clq_layer_kind *kind = find_kind(layer);
    for (size_t i = 0; kind && i < kind->attribute_count; i++)
        if (kind->attributes[i].type == CLQ_ATTRIBUTE_KEYWORD_FLAG && strcmp(kind->attributes[i].key, key) == 0)
            return true;
    return false;
}

clq_status clq_keras_check_class(json_t *layer, size_t index) {
    const char *class_name = json_string_value(json_object_get(layer, "class_name"));
    if (!class_name) return clq_fail(CLQ_FORMAT, "config.layers[%zu].class_name is missing", index);
    if (find_kind(layer)) return CLQ_OK;
    char where[160];
    clq_keras_describe_place(layer, index, where);
    clq_text known = {0};
    for (size_t i = 0; clq_layer_kind_at(i); i++)
        if (clq_layer_kind_at(i)->inputs[1] > 0)
            clq_text_add(&known, "%s%s", known.length ? " " : "", clq_layer_kind_at(i)->type);
    clq_status status = clq_fail(CLQ_UNSUPPORTED, "%s: a %.60s is not supported; expected %s", where, class_name,
                                 known.data ? known.data : "");
    clq_free(known.data);
    return status;
}

/* config: room for one of the kind. */
static clq_status add_layer(clq_model *model, json_t *layer, size_t index, const clq_keras_call *call,
                            const clq_layer_kind *kind, void *config, clq_tensor *out) {
    const clq_tensor *inputs = call->inputs;
    const size_t count = call->count;
    clq_keras_attributes a;
    clq_keras_open(layer, index, &a);
    a.arguments = call->arguments;
    a.keywords = call->keywords;
    const char *name = clq_keras_text(&a, "name", NULL);
    take_common(&a);
    const bool frozen = !clq_keras_flag(&a, "trainable", true) || call->frozen;
    clq_keras_read_rows(&a, kind, &model->tensors[inputs[0].id - 1], config);
    if (a.arguments) clq_keras_refuse(&a, CLQ_UNSUPPORTED, "args", "only tensors can be arguments of a call");
    CLQ_TRY(clq_keras_close(&a));
    char inner[CLQ_LAYER_NAME_MAX]; /* of a model within the model with its name in front, if there is room */
    if (call->scope && *name && snprintf(inner, sizeof inner, "%s.%s", call->scope, name) < (int)sizeof inner)
        name = inner;
    *out = clq_model_add_layer(model, kind, name, config, inputs, count);
    if (frozen && out->id) (void)clq_freeze(model, *out);
    return out->id ? CLQ_OK : clq_fail_within(clq_error_raise(&model->error), "%s", a.path);
}

clq_status clq_keras_add_layer(clq_model *model, json_t *layer, size_t index, const clq_keras_call *call,
                               clq_tensor *out) {
    CLQ_TRY(clq_keras_check_class(layer, index));
    const clq_layer_kind *kind = find_kind(layer);
    void *config = clq_alloc(1, CLQ_MAX(kind->config_bytes, (size_t)1));
    if (!config) return CLQ_MEMORY;
    const clq_status status = add_layer(model, layer, index, call, kind, config, out);
    clq_layer_release_config(kind, config);
    clq_free(config);
    return status;
}

/* ---- inputs ---- */

static clq_status read_shape(json_t *shape, const char *path, clq_shape *out) {
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank < 2 || rank > CLQ_SHAPE_MAX + 1 || !json_is_null(json_array_get(shape, 0)))
        return clq_fail(CLQ_FORMAT, "%s should be null (the batch) and 1 to %d sizes", path, CLQ_SHAPE_MAX);
    *out = (clq_shape){.rank = (unsigned)rank - 1};
    for (size_t d = 1; d < rank; d++)
        if (!clq_keras_is_size(json_array_get(shape, d), &out->dims[d - 1]))
            return clq_fail(CLQ_UNSUPPORTED, "%s[%zu] should be a known size of at least 1", path, d);
    return CLQ_OK;
}

clq_status clq_keras_add_shape(clq_model *model, json_t *shape, const char *name, const char *path, clq_tensor *out) {
    clq_shape input;
    CLQ_TRY(read_shape(shape, path, &input));
    *out = clq_model_add_input(model, input, name);
    return out->id ? CLQ_OK : clq_fail_within(clq_error_raise(&model->error), "%s", path);
}

clq_status clq_keras_read_input(json_t *layer, size_t index, clq_shape *out, const char **given_name) {
    char path[256];
    clq_keras_attributes a;
    clq_keras_open(layer, index, &a);
    json_t *shape = clq_keras_attribute(&a, "batch_shape");
    const char *key = shape ? "batch_shape" : "batch_input_shape";
    if (!shape) shape = clq_keras_attribute(&a, "batch_input_shape");
    json_t *name = clq_keras_attribute(&a, "name");
    (void)clq_keras_attribute(&a, "dtype"); /* of the samples; they arrive as u8 or f32 */
    const char *const refused[] = {"sparse", "ragged", "optional"};
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++)
        if (clq_keras_flag(&a, refused[i], false))
            clq_keras_refuse(&a, CLQ_UNSUPPORTED, refused[i], "is not supported");
    CLQ_TRY(clq_keras_close(&a));
    snprintf(path, sizeof path, "%.220s.%s", a.path, key);
    *given_name = json_string_value(name);
    return read_shape(shape, path, out);
}
