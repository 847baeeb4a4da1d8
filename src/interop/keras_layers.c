/* Adds Keras's layers by class name. Each attribute of a layer's configuration is taken or refused. */
#include "interop/keras.h"

#include <stdio.h>
#include <string.h>

/* ---- what all layers have ---- */

bool clq_keras_keeps_floats(json_t *dtype, const char **name) {
    static const char *const policies[] = {"float32", "mixed_float16", "mixed_bfloat16"};
    if (json_is_object(dtype)) dtype = json_object_get(json_object_get(dtype, "config"), "name");
    *name = json_string_value(dtype);
    for (size_t i = 0; i < CLQ_COUNT_OF(policies) && *name; i++)
        if (strcmp(policies[i], *name) == 0) return true;
    return false;
}

static void take_dtype(clq_keras_attributes *a) {
    json_t *dtype = clq_keras_attribute(a, "dtype");
    const char *name;
    if (!dtype || clq_keras_keeps_floats(dtype, &name)) return;
    if (!name)
        clq_keras_refuse(a, CLQ_ERROR_FORMAT, "dtype", "should name a type");
    else
        clq_keras_refuse(a, CLQ_ERROR_UNSUPPORTED, "dtype",
                         "'%.40s' is not supported, only float32, mixed_float16 and mixed_bfloat16", name);
}

/* Whether the kind has a row for the key. Some functions have dtype as an attribute of their own. */
static bool has_row(const clq_layer_kind *kind, const char *key) {
    for (size_t i = 0; i < kind->attribute_count; i++)
        if (strcmp(kind->attributes[i].key, key) == 0) return true;
    return false;
}

static void take_common(clq_keras_attributes *a, const clq_layer_kind *kind) {
    if (!has_row(kind, "dtype")) take_dtype(a);
    (void)clq_keras_attribute(a, "batch_input_shape"); /* Keras 2's first layer repeats the input's */
}

/* ---- the layers ---- */

void clq_keras_describe_place(json_t *layer, size_t index, char where[160]) {
    const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
    snprintf(where, 160, "config.layers[%zu] (%.60s)", index, name ? name : "no name");
}

/* The layer's kind; NULL: there is none, or the layer is an InputLayer, which clq_keras_read_input reads. */
static const clq_layer_kind *find_kind(json_t *layer) {
    const clq_layer_kind *kind =
        clq_layer_kind_named(clq_keras_class(layer), json_string_value(json_object_get(layer, "module")));
    return kind && kind->inputs[1] > 0 ? kind : NULL;
}

const char *clq_keras_input_name(json_t *layer, size_t i) {
    const clq_layer_kind *kind = find_kind(layer);
    return kind && kind->input_names && i < kind->inputs[1] ? kind->input_names[i] : NULL;
}

bool clq_keras_ends_masks(json_t *layer) {
    const clq_layer_kind *kind = find_kind(layer);
    return kind && kind->ends_masks;
}

bool clq_keras_heeds_masks(json_t *layer) {
    const clq_layer_kind *kind = find_kind(layer);
    for (size_t k = 0; kind && k < kind->attribute_count; k++)
        if (kind->attributes[k].implicit) return true;
    return kind && (kind->mask || kind->takes_mask);
}

bool clq_keras_takes_mask(json_t *layer) {
    const clq_layer_kind *kind = find_kind(layer);
    return kind && kind->takes_mask;
}

const clq_attribute *clq_keras_tensor_row(json_t *layer, size_t i) {
    const clq_layer_kind *kind = find_kind(layer);
    for (size_t k = 0; kind && k < kind->attribute_count; k++)
        if (kind->attributes[k].type == CLQ_ATTRIBUTE_TENSOR && i-- == 0) return &kind->attributes[k];
    return NULL;
}

bool clq_keras_is_opposite(json_t *layer, json_t *keywords) {
    const clq_layer_kind *kind = find_kind(layer);
    return kind && kind->opposite && json_is_true(json_object_get(keywords, kind->opposite));
}

bool clq_keras_is_further(json_t *layer, const char *key) {
    const clq_layer_kind *kind = find_kind(layer);
    return kind && kind->further && strcmp(kind->further, key) == 0;
}

bool clq_keras_same_keywords(json_t *layer, json_t *a, json_t *b) {
    const clq_layer_kind *kind = find_kind(layer);
    for (size_t i = 0; kind && i < kind->attribute_count; i++) {
        const clq_attribute *row = &kind->attributes[i];
        json_t *of_a = json_object_get(a, row->key), *of_b = json_object_get(b, row->key);
        if (row->type == CLQ_ATTRIBUTE_KEYWORD_FLAG && json_is_true(of_a) != json_is_true(of_b)) return false;
        if (row->type == CLQ_ATTRIBUTE_KEYWORD_NUMBER && json_number_value(of_a) != json_number_value(of_b))
            return false;
        if (row->type == CLQ_ATTRIBUTE_TENSOR &&
            clq_keras_tensors(of_a, row->several) != clq_keras_tensors(of_b, row->several))
            return false;
    }
    return true;
}

bool clq_keras_takes_keyword(json_t *layer, const char *key) {
    const clq_layer_kind *kind = find_kind(layer);
    if (kind && kind->opposite && strcmp(kind->opposite, key) == 0) return true;
    for (size_t i = 0; kind && i < kind->attribute_count; i++)
        if ((kind->attributes[i].type == CLQ_ATTRIBUTE_KEYWORD_FLAG ||
             kind->attributes[i].type == CLQ_ATTRIBUTE_KEYWORD_NUMBER ||
             kind->attributes[i].type == CLQ_ATTRIBUTE_TENSOR) &&
            strcmp(kind->attributes[i].key, key) == 0)
            return !kind->attributes[i].unnamed;
    return false;
}

/* Why a class is not supported, and what to do; NULL: this is not known of the class. */
static const char *why_not(const char *class_name) {
    static const char activity[] = "penalties on what layers give are not supported: make what the layer gives an "
                                   "output of the model, with a loss",
                      lookup[] =
                          "TensorFlow computes it in front of the model: store the numbers that it gives in the data";
    static const struct {
        const char *class_name, *reason;
    } reasons[] = {
        {"ActivityRegularization", activity},
        {"SpectralNormalization",
         "it sets its layer's kernel in each step, and which kernel is trained then depends on Keras's backend: leave "
         "it out, and train its layer with a constraint"},
        {"IntegerLookup", lookup},
        {"StringLookup", lookup},
        {"TextVectorization", lookup},
        {"Hashing", lookup},
        {"HashedCrossing", lookup},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(reasons); i++)
        if (strcmp(reasons[i].class_name, class_name) == 0) return reasons[i].reason;
    return NULL;
}

clq_status clq_keras_check_class(json_t *layer, size_t index) {
    const char *class_name = json_string_value(json_object_get(layer, "class_name"));
    if (!class_name) return clq_fail(CLQ_ERROR_FORMAT, "config.layers[%zu].class_name is missing", index);
    if (find_kind(layer)) return CLQ_OK;
    char where[160];
    clq_keras_describe_place(layer, index, where);
    if (why_not(class_name))
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: a %.60s is not supported: %s", where, class_name,
                        why_not(class_name));
    clq_text known = {0};
    for (size_t i = 0; clq_layer_kind_at(i); i++)
        if (clq_layer_kind_at(i)->inputs[1] > 0)
            clq_text_add(&known, "%s%s", known.length ? " " : "", clq_layer_kind_at(i)->type);
    for (size_t i = 0; clq_keras_block_class(i); i++) clq_text_add(&known, " %s", clq_keras_block_class(i));
    clq_status status = clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: a %.60s is not supported; expected %s", where, class_name,
                                 known.data ? known.data : "");
    clq_free(known.data);
    return status;
}

/* config: room for the kind's config, all zero. */
static clq_status add_layer(clq_model *model, json_t *layer, size_t index, const clq_keras_call *call,
                            const clq_layer_kind *kind, void *config, clq_tensor *out) {
    const clq_tensor *inputs = call->inputs;
    const size_t count = call->count;
    clq_keras_attributes a;
    clq_keras_open(layer, index, &a);
    a.arguments = call->arguments;
    a.first = call->first;
    a.keywords = call->keywords;
    a.next_tensor = call->positional + 1;
    a.is_part = call->is_part;
    const char *name = clq_keras_text(&a, "name", NULL);
    take_common(&a, kind);
    clq_keras_take_properties(&a);
    if (clq_keras_attribute(&a, "activity_regularizer"))
        clq_keras_refuse(&a, CLQ_ERROR_UNSUPPORTED, "activity_regularizer", "%s", why_not("ActivityRegularization"));
    const bool frozen = (!clq_keras_flag(&a, "trainable", true) || call->frozen) && kind->declare;
    clq_keras_read_rows(&a, kind, &model->tensors[inputs[0].id - 1], config);
    if (a.arguments) clq_keras_refuse(&a, CLQ_ERROR_UNSUPPORTED, "args", "only tensors can be arguments of a call");
    CLQ_TRY(clq_keras_close(&a));
    char inner[CLQ_LAYER_NAME_MAX]; /* the name of a layer in an inner model, with the model's name in front */
    if (call->is_itself) {
        name = call->scope;
    } else if (call->scope && *name) {
        if (snprintf(inner, sizeof inner, "%s.%s", call->scope, name) >= (int)sizeof inner)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s.name: behind '%.60s' and so on, it is longer than %zu bytes",
                            a.path, call->scope, sizeof inner - 1);
        name = inner;
    }
    *out = clq_model_add_layer(model, kind, name, config, inputs, count);
    if (out->id) clq_keras_give_properties(model, *out, json_object_get(layer, "config"));
    if (frozen && out->id) (void)clq_freeze(model, *out);
    if (model->error.status != CLQ_OK) *out = (clq_tensor){0};
    return out->id ? CLQ_OK : clq_fail_within(clq_error_raise(&model->error), "%s", a.path);
}

clq_status clq_keras_add_layer(clq_model *model, json_t *layer, size_t index, const clq_keras_call *call,
                               clq_tensor *out) {
    CLQ_TRY(clq_keras_check_class(layer, index));
    const clq_layer_kind *kind = find_kind(layer);
    if (kind->module && strcmp(kind->module, "clique") == 0 && !call->is_part)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "a %s is a part of blocks, which no file has by itself", kind->type);
    void *config = clq_alloc(1, CLQ_MAX(kind->config_bytes, (size_t)1));
    if (!config) return CLQ_ERROR_MEMORY;
    const clq_status status = add_layer(model, layer, index, call, kind, config, out);
    clq_layer_release_config(kind, config);
    clq_free(config);
    return status;
}

/* ---- inputs ---- */

static clq_status refuse_size(const char *path, size_t axis, size_t known, size_t given) {
    return clq_fail(CLQ_ERROR_MISMATCH, "%s[%zu] is %zu, and the shape that is asked for has %zu there", path, axis,
                    known, given);
}

/* Takes the sizes that the caller asks for into the shape. A size of 0 in `asked` is left to the file. */
static clq_status take_asked(const clq_shape *asked, const char *path, clq_shape *shape) {
    if (asked->rank != shape->rank)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s has %u axes behind the batch, and the shape that is asked for has %u",
                        path, shape->rank, asked->rank);
    for (unsigned d = 0; d < shape->rank; d++) {
        if (asked->dims[d] && shape->dims[d] && asked->dims[d] != shape->dims[d])
            return refuse_size(path, d + 1, shape->dims[d], asked->dims[d]);
        if (asked->dims[d]) shape->dims[d] = asked->dims[d];
    }
    return CLQ_OK;
}

static clq_status read_shape(const clq_keras_sizes *sizes, size_t input, json_t *shape, const char *path,
                             clq_shape *out) {
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank < 1 || rank > CLQ_SHAPE_MAX + 1 || !json_is_null(json_array_get(shape, 0)))
        return clq_fail(CLQ_ERROR_FORMAT, "%s should be null (the batch) and at most %d sizes", path, CLQ_SHAPE_MAX);
    *out = (clq_shape){.rank = (unsigned)rank - 1};
    for (size_t d = 1; d < rank; d++)
        if (!json_is_null(json_array_get(shape, d)) && !clq_keras_is_size(json_array_get(shape, d), &out->dims[d - 1]))
            return clq_fail(CLQ_ERROR_FORMAT, "%s[%zu] should be a size of at least 1, or null", path, d);
    if (input < sizes->count) CLQ_TRY(take_asked(&sizes->shapes[input], path, out));
    for (size_t d = 1; d < rank; d++) {
        if (out->dims[d - 1] == 0) out->dims[d - 1] = sizes->open;
        if (out->dims[d - 1] == 0)
            return clq_fail(CLQ_ERROR_UNSUPPORTED,
                            "%s[%zu] is open (null): say the input's shape, as --input-shape, or clq_keras_sizes does",
                            path, d);
    }
    return CLQ_OK;
}

clq_status clq_keras_check_sizes(const clq_keras_sizes *sizes, size_t inputs) {
    if (sizes->count <= inputs) return CLQ_OK;
    return clq_fail(CLQ_ERROR_MISMATCH, "shapes of %zu inputs are asked for, and the model has %zu", sizes->count,
                    inputs);
}

clq_status clq_keras_add_shape(clq_model *model, const clq_keras_sizes *sizes, json_t *shape, const char *name,
                               const char *path, clq_tensor *out) {
    clq_shape input;
    CLQ_TRY(read_shape(sizes, 0, shape, path, &input));
    clq_inputs(model, &input, name ? &name : NULL, 1, out);
    return out->id ? CLQ_OK : clq_fail_within(clq_error_raise(&model->error), "%s", path);
}

clq_status clq_keras_read_input(json_t *layer, size_t index, const clq_keras_sizes *sizes, size_t input, clq_shape *out,
                                const char **given_name) {
    char path[256];
    clq_keras_attributes a;
    clq_keras_open(layer, index, &a);
    json_t *shape = clq_keras_attribute(&a, "batch_shape");
    const char *key = shape ? "batch_shape" : "batch_input_shape";
    if (!shape) shape = clq_keras_attribute(&a, "batch_input_shape");
    json_t *name = clq_keras_attribute(&a, "name");
    (void)clq_keras_attribute(&a, "dtype"); /* the samples' type; samples arrive as u8 or f32 */
    const char *const refused[] = {"sparse", "ragged", "optional"};
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++)
        if (clq_keras_flag(&a, refused[i], false))
            clq_keras_refuse(&a, CLQ_ERROR_UNSUPPORTED, refused[i], "is not supported");
    CLQ_TRY(clq_keras_close(&a));
    snprintf(path, sizeof path, "%.220s.%s", a.path, key);
    *given_name = json_string_value(name);
    return read_shape(sizes, input, shape, path, out);
}
