/* Keras's layers by class name, each with every attribute of its configuration. */
#include "interop/keras.h"
#include "ops/ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checked access to a configuration ---- */

/* Every key is either taken or known to be harmless; what is left at the end is refused by its path, so that nothing a
 * file asks for is silently ignored. */
typedef struct attributes {
    json_t *object;    /* borrowed */
    json_t *left;      /* what nobody has taken yet */
    char path[256];    /* "config.layers[3] (conv2d).config" */
    clq_status status; /* the first failure, whose detail is this thread's */
} attributes;

/* The configuration of config.layers[index]. */
static void attributes_open(json_t *layer, size_t index, attributes *out) {
    char where[160];
    clq_keras_describe_place(layer, index, where);
    *out = (attributes){.object = json_object_get(layer, "config")};
    snprintf(out->path, sizeof out->path, "%s.config", where);
    if (!json_is_object(out->object)) {
        out->status = clq_fail(CLQ_FORMAT, "%s is not an object", out->path);
        return;
    }
    out->left = json_copy(out->object);
    if (!out->left) out->status = clq_fail(CLQ_MEMORY, "out of memory at %s", out->path);
}

/* Notes a failure of the attribute: "path.key: …". */
static void CLQ_PRINTF(4, 5)
    attribute_refuse(attributes *a, clq_status status, const char *key, const char *format, ...) {
    if (a->status != CLQ_OK) return;
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    clq_format_list(text, sizeof text, format, arguments);
    va_end(arguments);
    a->status = clq_fail(status, "%s.%.80s: %s", a->path, key, text);
}

/* A value as the file has it, cut short, for messages. */
static const char *quote(const json_t *value, char text[80]) {
    char *dumped = clq_json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(text, 80, "%.70s", dumped ? dumped : "its value");
    free(dumped);
    return text;
}

static void refuse_value(attributes *a, const char *key, const json_t *value, const char *wanted) {
    char text[80];
    attribute_refuse(a, CLQ_FORMAT, key, "%s should be %s", quote(value, text), wanted);
}

/* Refuses what is left, unless null, and ends. The first failure of all calls. */
static clq_status attributes_close(attributes *a) {
    const char *key;
    json_t *value;
    json_object_foreach(a->left, key, value) {
        char text[80];
        if (json_is_null(value)) continue;
        const char *class_name = json_string_value(json_object_get(value, "class_name"));
        attribute_refuse(a, CLQ_UNSUPPORTED, key, "%.70s is not supported",
                         class_name ? class_name : quote(value, text));
    }
    json_decref(a->left);
    return a->status;
}

/* Takes the value: borrowed; NULL where missing or null. */
static json_t *attribute(attributes *a, const char *key) {
    if (a->status != CLQ_OK) return NULL;
    json_t *value = json_object_get(a->object, key);
    if (value) json_object_del(a->left, key);
    return value && !json_is_null(value) ? value : NULL;
}

/* Text; `fallback` where missing. */
static const char *attribute_text(attributes *a, const char *key, const char *fallback) {
    json_t *value = attribute(a, key);
    if (!value) {
        if (!fallback) attribute_refuse(a, CLQ_FORMAT, key, "is missing");
        return fallback ? fallback : "";
    }
    if (json_is_string(value)) return json_string_value(value);
    const char *class_name = json_string_value(json_object_get(value, "class_name"));
    if (class_name)
        attribute_refuse(a, CLQ_UNSUPPORTED, key, "%.70s as an object is not supported, only names", class_name);
    refuse_value(a, key, value, "a text");
    return "";
}

static bool is_size(const json_t *value, size_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > INT32_MAX) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* A whole number >= 1; fallback 0: needed. */
static size_t attribute_size(attributes *a, const char *key, size_t fallback) {
    json_t *value = attribute(a, key);
    size_t size = fallback;
    if (!value && fallback == 0) attribute_refuse(a, CLQ_FORMAT, key, "is missing");
    if (value && !is_size(value, &size)) refuse_value(a, key, value, "a whole number of at least 1");
    return size;
}

/* n or [n, m]. */
static void attribute_pair(attributes *a, const char *key, size_t fallback, size_t out[2]) {
    json_t *value = attribute(a, key);
    out[0] = out[1] = fallback;
    if (!value) {
        if (fallback == 0) attribute_refuse(a, CLQ_FORMAT, key, "is missing");
    } else if (json_is_array(value)) {
        if (json_array_size(value) != 2 || !is_size(json_array_get(value, 0), &out[0]) ||
            !is_size(json_array_get(value, 1), &out[1]))
            refuse_value(a, key, value, "two whole numbers of at least 1");
    } else if (is_size(value, &out[0])) {
        out[1] = out[0];
    } else {
        refuse_value(a, key, value, "a whole number of at least 1, or two");
    }
}

static bool attribute_flag(attributes *a, const char *key, bool fallback) {
    json_t *value = attribute(a, key);
    if (!value) return fallback;
    if (!json_is_boolean(value)) refuse_value(a, key, value, "true or false");
    return json_is_true(value);
}

/* The value must be `only` (or be missing). */
static void attribute_only(attributes *a, const char *key, const char *only) {
    const char *text = attribute_text(a, key, only);
    if (strcmp(text, only) != 0)
        attribute_refuse(a, CLQ_UNSUPPORTED, key, "'%.60s' is not supported, only '%s'", text, only);
}

/* ---- what many layers have ---- */

static void take_dtype(attributes *a) {
    json_t *dtype = attribute(a, "dtype");
    if (!dtype) return;
    if (json_is_object(dtype)) dtype = json_object_get(json_object_get(dtype, "config"), "name");
    const char *name = json_string_value(dtype);
    if (!name)
        attribute_refuse(a, CLQ_FORMAT, "dtype", "should name a type");
    else if (strcmp(name, "float32") != 0)
        attribute_refuse(a, CLQ_UNSUPPORTED, "dtype", "'%.40s' is not supported, only float32", name);
}

static void take_common(attributes *a) {
    take_dtype(a);
    (void)attribute(a, "batch_input_shape"); /* Keras 2's first layer repeats the input's */
    if (!attribute_flag(a, "trainable", true))
        attribute_refuse(a, CLQ_UNSUPPORTED, "trainable", "frozen layers are not supported");
}

/* As early Keras 2 wrote it: by what it is a case of. */
static bool is_glorot_uniform(const json_t *initializer) {
    const json_t *config = json_object_get(initializer, "config");
    const char *class_name = json_string_value(json_object_get(initializer, "class_name")),
               *mode = json_string_value(json_object_get(config, "mode")),
               *distribution = json_string_value(json_object_get(config, "distribution"));
    return class_name && strcmp(class_name, "VarianceScaling") == 0 && mode && strcmp(mode, "fan_avg") == 0 &&
           distribution && strcmp(distribution, "uniform") == 0 &&
           json_number_value(json_object_get(config, "scale")) == 1.0;
}

/* Initial values are this engine's: glorot_uniform and zeros, Keras's defaults. Another wish is refused. */
static void take_initializer(attributes *a, const char *key, const char *class_name, const char *short_name) {
    json_t *value = attribute(a, key);
    if (!value) return;
    const char *name = json_string_value(json_is_object(value) ? json_object_get(value, "class_name") : value);
    if (!name)
        attribute_refuse(a, CLQ_FORMAT, key, "should name an initializer");
    else if (strcmp(short_name, "glorot_uniform") == 0 && is_glorot_uniform(value))
        return;
    else if (strcmp(name, class_name) != 0 && strcmp(name, short_name) != 0)
        attribute_refuse(a, CLQ_UNSUPPORTED, key, "'%.60s' is not supported, only %s", name, short_name);
}

static clq_activation take_activation(attributes *a) {
    const char *name = attribute_text(a, "activation", "linear");
    clq_activation activation = CLQ_LINEAR;
    if (clq_activation_named(name, &activation)) return activation;
    clq_text known = {0};
    for (unsigned i = 0; clq_activation_row_of((clq_activation)i); i++)
        clq_text_add(&known, "%s%s", i ? ", " : "", clq_activation_row_of((clq_activation)i)->name);
    attribute_refuse(a, CLQ_UNSUPPORTED, "activation", "'%.60s' is not supported; expected %s", name,
                     known.data ? known.data : "others");
    clq_free(known.data);
    return activation;
}

static clq_padding take_padding(attributes *a) {
    const char *name = attribute_text(a, "padding", "valid");
    if (strcmp(name, "valid") == 0) return CLQ_VALID;
    if (strcmp(name, "same") != 0)
        attribute_refuse(a, CLQ_UNSUPPORTED, "padding", "'%.60s' is not supported; there are valid and same", name);
    return CLQ_SAME;
}

static bool take_weights(attributes *a) {
    take_initializer(a, "kernel_initializer", "GlorotUniform", "glorot_uniform");
    take_initializer(a, "bias_initializer", "Zeros", "zeros");
    return attribute_flag(a, "use_bias", true);
}

/* ---- the layers ---- */

static clq_tensor add_dense(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    clq_dense_config config = {.units = attribute_size(a, "units", 0), .activation = take_activation(a), .name = name};
    config.no_bias = !take_weights(a);
    return a->status == CLQ_OK ? clq_dense(model, x, &config) : x;
}

static clq_tensor add_conv2d(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    clq_conv2d_config config = {.filters = attribute_size(a, "filters", 0),
                                .padding = take_padding(a),
                                .activation = take_activation(a),
                                .name = name};
    attribute_pair(a, "kernel_size", 0, config.kernel);
    attribute_pair(a, "strides", 1, config.strides);
    attribute_pair(a, "dilation_rate", 1, config.dilation);
    attribute_only(a, "data_format", "channels_last");
    const size_t groups = attribute_size(a, "groups", 1);
    if (groups != 1) attribute_refuse(a, CLQ_UNSUPPORTED, "groups", "%zu is not supported, only 1", groups);
    config.no_bias = !take_weights(a);
    if ((config.strides[0] > 1 || config.strides[1] > 1) && (config.dilation[0] > 1 || config.dilation[1] > 1))
        attribute_refuse(a, CLQ_FORMAT, "dilation_rate", "cannot be above 1 together with strides");
    return a->status == CLQ_OK ? clq_conv2d(model, x, &config) : x;
}

static clq_pool_config take_pool(attributes *a, const char *name) {
    clq_pool_config config = {.padding = take_padding(a), .name = name};
    attribute_pair(a, "pool_size", 2, config.size);
    if (attribute(a, "strides")) attribute_pair(a, "strides", 1, config.strides);
    attribute_only(a, "data_format", "channels_last");
    return config;
}

static clq_tensor add_max_pool2d(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    clq_pool_config config = take_pool(a, name);
    return a->status == CLQ_OK ? clq_max_pool2d(model, x, &config) : x;
}

static clq_tensor add_average_pool2d(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    clq_pool_config config = take_pool(a, name);
    return a->status == CLQ_OK ? clq_average_pool2d(model, x, &config) : x;
}

static clq_tensor add_global_average_pool2d(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    const bool keep_dims = attribute_flag(a, "keepdims", false);
    attribute_only(a, "data_format", "channels_last");
    return a->status == CLQ_OK ? clq_global_average_pool2d(model, x, keep_dims, name) : x;
}

/* A number from 0 to 1. */
static double take_fraction(attributes *a, const char *key, double fallback) {
    json_t *value = attribute(a, key);
    const double number = value ? json_number_value(value) : fallback;
    if (value && !json_is_number(value)) attribute_refuse(a, CLQ_FORMAT, key, "should be a number");
    if (!(number >= 0 && number <= 1)) attribute_refuse(a, CLQ_FORMAT, key, "%g should be from 0 to 1", number);
    return number;
}

/* Keras counts the batch as axis 0: an axis behind it, as the builder counts. */
static int take_axis(attributes *a, const clq_shape *shape) {
    json_t *value = attribute(a, "axis");
    if (json_array_size(value) == 1) value = json_array_get(value, 0); /* Keras 2's BatchNormalization */
    const json_int_t axis = value ? json_integer_value(value) : -1, rank = shape->rank;
    if (value && !json_is_integer(value))
        attribute_refuse(a, CLQ_FORMAT, "axis", "should be a whole number");
    else if (axis == 0 || axis > rank || axis < -rank)
        attribute_refuse(a, CLQ_FORMAT, "axis", "%lld should be from 1 to %u, or from -%u to -1", (long long)axis,
                         shape->rank, shape->rank);
    return a->status == CLQ_OK ? (int)(axis > 0 ? axis - 1 : axis) : 0;
}

static clq_tensor add_batch_norm(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    const clq_shape *shape = &model->tensors[x.id - 1].shape;
    const int axis = take_axis(a, shape);
    if (axis != -1 && axis + 1 != (int)shape->rank)
        attribute_refuse(a, CLQ_UNSUPPORTED, "axis", "%d is not supported, only the last: -1 or %u",
                         axis < 0 ? axis : axis + 1, shape->rank);
    clq_batch_norm_config config = {.momentum = take_fraction(a, "momentum", 0.99),
                                    .epsilon = take_fraction(a, "epsilon", 1e-3),
                                    .no_center = !attribute_flag(a, "center", true),
                                    .no_scale = !attribute_flag(a, "scale", true),
                                    .name = name};
    take_initializer(a, "beta_initializer", "Zeros", "zeros");
    take_initializer(a, "gamma_initializer", "Ones", "ones");
    take_initializer(a, "moving_mean_initializer", "Zeros", "zeros");
    take_initializer(a, "moving_variance_initializer", "Ones", "ones");
    if (attribute_flag(a, "renorm", false)) attribute_refuse(a, CLQ_UNSUPPORTED, "renorm", "true is not supported");
    (void)attribute(a, "renorm_clipping"); /* they mean nothing without */
    (void)attribute(a, "renorm_momentum");
    config.synchronized = attribute_flag(a, "synchronized", false);
    return a->status == CLQ_OK ? clq_batch_norm(model, x, &config) : x;
}

static clq_tensor add_dropout(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    if (!json_is_number(json_object_get(a->object, "rate")))
        attribute_refuse(a, CLQ_FORMAT, "rate", "should be a number");
    clq_dropout_config config = {.rate = take_fraction(a, "rate", 0), .name = name};
    if (config.rate == 1) attribute_refuse(a, CLQ_UNSUPPORTED, "rate", "1 is not supported: nothing would be left");
    json_t *seed = attribute(a, "seed");
    if (seed && !json_is_integer(seed)) attribute_refuse(a, CLQ_FORMAT, "seed", "should be a whole number");
    if (seed) config.seed = (uint64_t)json_integer_value(seed);
    return a->status == CLQ_OK ? clq_dropout(model, x, &config) : x;
}

static clq_tensor add_flatten(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    attribute_only(a, "data_format", "channels_last");
    return a->status == CLQ_OK ? clq_flatten(model, x, name) : x;
}

/* One dimension may be -1: what the others leave. */
static bool resolve_shape(const json_t *target, size_t elements, clq_shape *out) {
    size_t known = 1, open = SIZE_MAX;
    if (!json_is_array(target) || json_array_size(target) == 0 || json_array_size(target) > CLQ_SHAPE_MAX) return false;
    *out = (clq_shape){.rank = (unsigned)json_array_size(target)};
    for (size_t d = 0; d < out->rank; d++) {
        json_t *dim = json_array_get(target, d);
        json_int_t value = json_is_integer(dim) ? json_integer_value(dim) : 0;
        if (value == -1 && open == SIZE_MAX)
            open = d;
        else if (value < 1 || value > INT32_MAX || !clq_mul_size(known, (size_t)value, &known))
            return false;
        else
            out->dims[d] = (size_t)value;
    }
    if (open != SIZE_MAX) out->dims[open] = elements / known;
    return true;
}

static clq_tensor add_reshape(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    clq_shape shape;
    if (!resolve_shape(attribute(a, "target_shape"), model->tensors[x.id - 1].elements, &shape))
        attribute_refuse(a, CLQ_FORMAT, "target_shape", "should be 1 to %d whole numbers, one of them perhaps -1",
                         CLQ_SHAPE_MAX);
    if (a->status != CLQ_OK) return x;
    clq_tensor y = clq_reshape(model, x, shape, name);
    if (y.id == 0 && model->error.status == CLQ_ARGUMENT)
        attribute_refuse(a, CLQ_FORMAT, "target_shape", "%s", model->error.detail);
    return y;
}

static clq_tensor add_activation(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    clq_activation activation = take_activation(a);
    return a->status == CLQ_OK ? clq_activate(model, x, activation, name) : x;
}

/* A key whose number must be this one. */
static void take_only_number(attributes *a, const char *key, double only) {
    json_t *value = attribute(a, key);
    if (value && (!json_is_number(value) || json_number_value(value) != only))
        attribute_refuse(a, CLQ_UNSUPPORTED, key, "only %g is supported", only);
}

static clq_tensor add_relu(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    take_only_number(a, "negative_slope", 0.0);
    take_only_number(a, "threshold", 0.0);
    return a->status == CLQ_OK ? clq_activate(model, x, CLQ_RELU, name) : x; /* a max_value is left, and refused */
}

static clq_tensor add_softmax(clq_model *model, attributes *a, const char *name, clq_tensor x) {
    take_only_number(a, "axis", -1.0);
    return a->status == CLQ_OK ? clq_activate(model, x, CLQ_SOFTMAX, name) : x;
}

static const struct layer_class {
    const char *name;
    /* Adds a layer that reads one tensor. */
    clq_tensor (*add)(clq_model *model, attributes *a, const char *name, clq_tensor x);
    /* Adds one that reads several, and has no attributes of its own. */
    clq_tensor (*merge)(clq_model *model, const clq_tensor *inputs, size_t count, const char *name);
} classes[] = {
    {"Dense", add_dense, NULL},
    {"Conv2D", add_conv2d, NULL},
    {"MaxPooling2D", add_max_pool2d, NULL},
    {"AveragePooling2D", add_average_pool2d, NULL},
    {"GlobalAveragePooling2D", add_global_average_pool2d, NULL},
    {"BatchNormalization", add_batch_norm, NULL},
    {"Dropout", add_dropout, NULL},
    {"Flatten", add_flatten, NULL},
    {"Reshape", add_reshape, NULL},
    {"Activation", add_activation, NULL},
    {"ReLU", add_relu, NULL},
    {"Softmax", add_softmax, NULL},
    {"Add", NULL, clq_add},
    {"Subtract", NULL, clq_subtract},
    {"Multiply", NULL, clq_multiply},
    {"Average", NULL, clq_average},
    {"Maximum", NULL, clq_maximum},
    {"Concatenate", NULL, NULL}, /* reads several, and has an axis */
};

static const struct layer_class *find_class(const char *name) {
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++)
        if (strcmp(classes[i].name, name) == 0) return &classes[i];
    return NULL;
}

void clq_keras_describe_place(json_t *layer, size_t index, char where[160]) {
    const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
    snprintf(where, 160, "config.layers[%zu] (%.60s)", index, name ? name : "no name");
}

clq_status clq_keras_check_class(json_t *layer, size_t index) {
    const char *class_name = json_string_value(json_object_get(layer, "class_name"));
    if (!class_name) return clq_fail(CLQ_FORMAT, "config.layers[%zu].class_name is missing", index);
    if (find_class(class_name)) return CLQ_OK;
    char where[160];
    clq_keras_describe_place(layer, index, where);
    clq_text known = {0};
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++) clq_text_add(&known, "%s%s", i ? " " : "", classes[i].name);
    clq_status status = clq_fail(CLQ_UNSUPPORTED, "%s: a %.60s is not supported; expected %s", where, class_name,
                                 known.data ? known.data : "");
    clq_free(known.data);
    return status;
}

static clq_tensor add_of_class(const struct layer_class *class, clq_model *model, attributes *a, const char *name,
                               const clq_tensor *inputs, size_t count) {
    if (class->add) return class->add(model, a, name, inputs[0]);
    const int axis = class->merge ? 0 : take_axis(a, &model->tensors[inputs[0].id - 1].shape);
    if (a->status != CLQ_OK) return inputs[0];
    return class->merge ? class->merge(model, inputs, count, name) : clq_concatenate(model, inputs, count, axis, name);
}

clq_status clq_keras_add_layer(clq_model *model, json_t *layer, size_t index, const clq_tensor *inputs, size_t count,
                               clq_tensor *out) {
    CLQ_TRY(clq_keras_check_class(layer, index));
    const struct layer_class *class = find_class(clq_keras_class(layer));
    if (class->add && count != 1) {
        char where[160];
        clq_keras_describe_place(layer, index, where);
        return clq_fail(CLQ_FORMAT, "%s: a %s takes one input, not %zu", where, class->name, count);
    }
    attributes a;
    attributes_open(layer, index, &a);
    const char *name = attribute_text(&a, "name", NULL);
    take_common(&a);
    clq_tensor y = add_of_class(class, model, &a, name, inputs, count);
    CLQ_TRY(attributes_close(&a));
    if (y.id == 0) return clq_fail_within(clq_error_raise(&model->error), "%s", a.path);
    *out = y;
    return CLQ_OK;
}

/* ---- inputs ---- */

clq_status clq_keras_add_shape(clq_model *model, json_t *shape, const char *name, const char *path, clq_tensor *out) {
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank < 2 || rank > CLQ_SHAPE_MAX + 1 || !json_is_null(json_array_get(shape, 0)))
        return clq_fail(CLQ_FORMAT, "%s should be null (the batch) and 1 to %d sizes", path, CLQ_SHAPE_MAX);
    clq_shape input = {.rank = (unsigned)rank - 1};
    for (size_t d = 1; d < rank; d++)
        if (!is_size(json_array_get(shape, d), &input.dims[d - 1]))
            return clq_fail(CLQ_UNSUPPORTED, "%s[%zu] should be a known size of at least 1", path, d);
    *out = clq_model_add_input(model, input, name);
    return out->id ? CLQ_OK : clq_fail_within(clq_error_raise(&model->error), "%s", path);
}

clq_status clq_keras_add_input(clq_model *model, json_t *layer, size_t index, clq_tensor *out) {
    char path[256];
    attributes a;
    attributes_open(layer, index, &a);
    json_t *shape = attribute(&a, "batch_shape");
    const char *key = shape ? "batch_shape" : "batch_input_shape";
    if (!shape) shape = attribute(&a, "batch_input_shape");
    json_t *name = attribute(&a, "name");
    (void)attribute(&a, "dtype"); /* of the samples; they arrive as u8 or f32 */
    const char *const refused[] = {"sparse", "ragged", "optional"};
    for (size_t i = 0; i < CLQ_COUNT_OF(refused); i++)
        if (attribute_flag(&a, refused[i], false))
            attribute_refuse(&a, CLQ_UNSUPPORTED, refused[i], "is not supported");
    CLQ_TRY(attributes_close(&a));
    snprintf(path, sizeof path, "%.220s.%s", a.path, key);
    return clq_keras_add_shape(model, shape, json_string_value(name), path, out);
}
