/* Keras's layers by class name, each with every attribute of its configuration. */
#include "interop/keras.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

/* ---- what many layers have ---- */

static void take_dtype(clq_attributes *a) {
    json_t *dtype = clq_attribute(a, "dtype");
    if (!dtype) return;
    if (json_is_object(dtype)) dtype = json_object_get(json_object_get(dtype, "config"), "name");
    const char *name = json_string_value(dtype);
    if (!name)
        clq_attribute_refuse(a, CLQ_FORMAT, "dtype", "should name a type");
    else if (strcmp(name, "float32") != 0)
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, "dtype", "'%.40s' is not supported, only float32", name);
}

static void take_common(clq_attributes *a) {
    take_dtype(a);
    if (!clq_attribute_flag(a, "trainable", true))
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, "trainable", "frozen layers are not supported");
}

/* Initial values are this engine's: glorot_uniform and zeros, Keras's defaults. Another wish is refused. */
static void take_initializer(clq_attributes *a, const char *key, const char *class_name, const char *short_name) {
    json_t *value = clq_attribute(a, key);
    if (!value) return;
    const char *name = json_string_value(json_is_object(value) ? json_object_get(value, "class_name") : value);
    if (!name)
        clq_attribute_refuse(a, CLQ_FORMAT, key, "should name an initializer");
    else if (strcmp(name, class_name) != 0 && strcmp(name, short_name) != 0)
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "'%.60s' is not supported, only %s", name, short_name);
}

static clq_activation activation_by_name(clq_attributes *a, const char *key, const char *name) {
    clq_activation activation = CLQ_LINEAR;
    if (clq_activation_named(name, &activation)) return activation;
    clq_text known = {0};
    for (unsigned i = 0; clq_activation_row_of((clq_activation)i); i++)
        clq_text_add(&known, "%s%s", i ? ", " : "", clq_activation_row_of((clq_activation)i)->name);
    clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "'%.60s' is not supported; there are %s", name,
                         known.data ? known.data : "others");
    clq_free(known.data);
    return activation;
}

static clq_activation take_activation(clq_attributes *a) {
    return activation_by_name(a, "activation", clq_attribute_text(a, "activation", "linear"));
}

static clq_padding take_padding(clq_attributes *a) {
    const char *name = clq_attribute_text(a, "padding", "valid");
    if (strcmp(name, "valid") == 0) return CLQ_VALID;
    if (strcmp(name, "same") != 0)
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, "padding", "'%.60s' is not supported; there are valid and same", name);
    return CLQ_SAME;
}

static bool take_weights(clq_attributes *a) {
    take_initializer(a, "kernel_initializer", "GlorotUniform", "glorot_uniform");
    take_initializer(a, "bias_initializer", "Zeros", "zeros");
    return clq_attribute_flag(a, "use_bias", true);
}

/* ---- the layers ---- */

/* Adds the layer by its attributes; `inputs` has `count` tensors. */
typedef clq_tensor (*add_layer)(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *inputs,
                                size_t count);

static clq_tensor add_dense(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x, size_t count) {
    (void)count;
    clq_dense_config config = {
        .units = clq_attribute_size(a, "units", 0), .activation = take_activation(a), .name = name};
    config.no_bias = !take_weights(a);
    return a->status == CLQ_OK ? clq_dense(model, *x, &config) : *x;
}

static clq_tensor add_conv2d(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x, size_t count) {
    (void)count;
    clq_conv2d_config config = {.filters = clq_attribute_size(a, "filters", 0),
                                .padding = take_padding(a),
                                .activation = take_activation(a),
                                .name = name};
    clq_attribute_pair(a, "kernel_size", 0, config.kernel);
    clq_attribute_pair(a, "strides", 1, config.strides);
    clq_attribute_pair(a, "dilation_rate", 1, config.dilation);
    clq_attribute_only(a, "data_format", "channels_last");
    clq_attribute_only_size(a, "groups", 1);
    config.no_bias = !take_weights(a);
    if ((config.strides[0] > 1 || config.strides[1] > 1) && (config.dilation[0] > 1 || config.dilation[1] > 1))
        clq_attribute_refuse(a, CLQ_FORMAT, "dilation_rate", "cannot be above 1 together with strides");
    return a->status == CLQ_OK ? clq_conv2d(model, *x, &config) : *x;
}

static clq_pool_config take_pool(clq_attributes *a, const char *name) {
    clq_pool_config config = {.padding = take_padding(a), .name = name};
    clq_attribute_pair(a, "pool_size", 2, config.size);
    if (clq_attribute(a, "strides")) clq_attribute_pair(a, "strides", 1, config.strides);
    clq_attribute_only(a, "data_format", "channels_last");
    return config;
}

static clq_tensor add_max_pool2d(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                 size_t count) {
    (void)count;
    clq_pool_config config = take_pool(a, name);
    return a->status == CLQ_OK ? clq_max_pool2d(model, *x, &config) : *x;
}

static clq_tensor add_average_pool2d(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                     size_t count) {
    (void)count;
    clq_pool_config config = take_pool(a, name);
    return a->status == CLQ_OK ? clq_average_pool2d(model, *x, &config) : *x;
}

static clq_tensor add_global_average_pool2d(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                            size_t count) {
    (void)count;
    const bool keep_dims = clq_attribute_flag(a, "keepdims", false);
    clq_attribute_only(a, "data_format", "channels_last");
    return a->status == CLQ_OK ? clq_global_average_pool2d(model, *x, keep_dims, name) : *x;
}

static double take_number(clq_attributes *a, const char *key, double fallback) {
    json_t *value = clq_attribute(a, key);
    if (value && !json_is_number(value)) clq_attribute_refuse(a, CLQ_FORMAT, key, "should be a number");
    return value ? json_number_value(value) : fallback;
}

/* A number from 0 to 1. */
static double take_fraction(clq_attributes *a, const char *key, double fallback) {
    const double number = take_number(a, key, fallback);
    if (!(number >= 0 && number <= 1)) clq_attribute_refuse(a, CLQ_FORMAT, key, "%g should be from 0 to 1", number);
    return number;
}

/* Keras counts the batch as axis 0: an axis behind it, as the builder counts. */
static int take_axis(clq_attributes *a, const clq_shape *shape) {
    json_t *value = clq_attribute(a, "axis");
    const json_int_t axis = value ? json_integer_value(value) : -1, rank = shape->rank;
    if (value && !json_is_integer(value))
        clq_attribute_refuse(a, CLQ_FORMAT, "axis", "should be a whole number");
    else if (axis == 0 || axis > rank || axis < -rank)
        clq_attribute_refuse(a, CLQ_FORMAT, "axis", "%lld should be from 1 to %u, or from -%u to -1", (long long)axis,
                             shape->rank, shape->rank);
    return a->status == CLQ_OK ? (int)(axis > 0 ? axis - 1 : axis) : 0;
}

static clq_tensor add_batch_norm(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                 size_t count) {
    (void)count;
    if (x->id == 0) return *x;
    const clq_shape *shape = &model->tensors[x->id - 1].shape;
    const int axis = take_axis(a, shape);
    if (axis != -1 && axis + 1 != (int)shape->rank)
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, "axis", "%d is not supported, only the last: -1 or %u",
                             axis < 0 ? axis : axis + 1, shape->rank);
    clq_batch_norm_config config = {.momentum = take_fraction(a, "momentum", 0.99),
                                    .epsilon = take_fraction(a, "epsilon", 1e-3),
                                    .no_center = !clq_attribute_flag(a, "center", true),
                                    .no_scale = !clq_attribute_flag(a, "scale", true),
                                    .name = name};
    take_initializer(a, "beta_initializer", "Zeros", "zeros");
    take_initializer(a, "gamma_initializer", "Ones", "ones");
    take_initializer(a, "moving_mean_initializer", "Zeros", "zeros");
    take_initializer(a, "moving_variance_initializer", "Ones", "ones");
    if (clq_attribute_flag(a, "renorm", false))
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, "renorm", "true is not supported");
    clq_attribute_ignore(a, "renorm_clipping"); /* they mean nothing without */
    clq_attribute_ignore(a, "renorm_momentum");
    config.synchronized = clq_attribute_flag(a, "synchronized", false);
    return a->status == CLQ_OK ? clq_batch_norm(model, *x, &config) : *x;
}

static clq_tensor add_dropout(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    (void)count;
    if (!json_is_number(json_object_get(a->object, "rate")))
        clq_attribute_refuse(a, CLQ_FORMAT, "rate", "should be a number");
    clq_dropout_config config = {.rate = take_fraction(a, "rate", 0), .name = name};
    if (config.rate == 1) clq_attribute_refuse(a, CLQ_UNSUPPORTED, "rate", "1 is not supported: nothing would be left");
    json_t *seed = clq_attribute(a, "seed");
    if (seed && !json_is_integer(seed)) clq_attribute_refuse(a, CLQ_FORMAT, "seed", "should be a whole number");
    if (seed) config.seed = (uint64_t)json_integer_value(seed);
    return a->status == CLQ_OK ? clq_dropout(model, *x, &config) : *x;
}

static clq_tensor add_flatten(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    (void)count;
    clq_attribute_only(a, "data_format", "channels_last");
    return a->status == CLQ_OK ? clq_flatten(model, *x, name) : *x;
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

static clq_tensor add_reshape(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    (void)count;
    clq_shape shape;
    if (x->id == 0) return *x;
    if (!resolve_shape(clq_attribute(a, "target_shape"), model->tensors[x->id - 1].elements, &shape))
        clq_attribute_refuse(a, CLQ_FORMAT, "target_shape", "should be 1 to %d whole numbers, one of them perhaps -1",
                             CLQ_SHAPE_MAX);
    if (a->status != CLQ_OK) return *x;
    clq_tensor y = clq_reshape(model, *x, shape, name);
    if (y.id == 0 && model->error.status == CLQ_ARGUMENT)
        clq_attribute_refuse(a, CLQ_FORMAT, "target_shape", "%s", model->error.detail);
    return y;
}

static clq_tensor add_activation(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                 size_t count) {
    (void)count;
    clq_activation activation = take_activation(a);
    return a->status == CLQ_OK ? clq_activate(model, *x, activation, name) : *x;
}

/* A key whose number must be this one. */
static void take_only_number(clq_attributes *a, const char *key, double only) {
    json_t *value = clq_attribute(a, key);
    if (value && (!json_is_number(value) || json_number_value(value) != only))
        clq_attribute_refuse(a, CLQ_UNSUPPORTED, key, "only %g is supported", only);
}

static clq_tensor add_relu(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x, size_t count) {
    (void)count;
    take_only_number(a, "negative_slope", 0.0);
    take_only_number(a, "threshold", 0.0);
    return a->status == CLQ_OK ? clq_activate(model, *x, CLQ_RELU, name) : *x; /* a max_value is left, and refused */
}

static clq_tensor add_softmax(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    (void)count;
    take_only_number(a, "axis", -1.0);
    return a->status == CLQ_OK ? clq_activate(model, *x, CLQ_SOFTMAX, name) : *x;
}

static clq_tensor add_sum(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x, size_t count) {
    return a->status == CLQ_OK ? clq_add(model, x, count, name) : *x;
}
static clq_tensor add_difference(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                 size_t count) {
    return a->status == CLQ_OK ? clq_subtract(model, x, count, name) : *x;
}
static clq_tensor add_product(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    return a->status == CLQ_OK ? clq_multiply(model, x, count, name) : *x;
}
static clq_tensor add_average(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    return a->status == CLQ_OK ? clq_average(model, x, count, name) : *x;
}
static clq_tensor add_maximum(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                              size_t count) {
    return a->status == CLQ_OK ? clq_maximum(model, x, count, name) : *x;
}

static clq_tensor add_concatenate(clq_model *model, clq_attributes *a, const char *name, const clq_tensor *x,
                                  size_t count) {
    const int axis = x->id ? take_axis(a, &model->tensors[x->id - 1].shape) : 0;
    return a->status == CLQ_OK ? clq_concatenate(model, x, count, axis, name) : *x;
}

static const struct layer_class {
    const char *name;
    add_layer add;
    bool merges; /* reads several tensors */
} classes[] = {
    {"Dense", add_dense, false},
    {"Conv2D", add_conv2d, false},
    {"MaxPooling2D", add_max_pool2d, false},
    {"AveragePooling2D", add_average_pool2d, false},
    {"GlobalAveragePooling2D", add_global_average_pool2d, false},
    {"BatchNormalization", add_batch_norm, false},
    {"Dropout", add_dropout, false},
    {"Flatten", add_flatten, false},
    {"Reshape", add_reshape, false},
    {"Activation", add_activation, false},
    {"ReLU", add_relu, false},
    {"Softmax", add_softmax, false},
    {"Add", add_sum, true},
    {"Subtract", add_difference, true},
    {"Multiply", add_product, true},
    {"Average", add_average, true},
    {"Maximum", add_maximum, true},
    {"Concatenate", add_concatenate, true},
};

static const struct layer_class *find_class(const char *name) {
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++)
        if (strcmp(classes[i].name, name) == 0) return &classes[i];
    return NULL;
}

void clq_keras_describe_place(json_t *layer, const char *path, char where[160]) {
    const char *name = json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
    snprintf(where, 160, "%.60s (%.60s)", path, name ? name : "no name");
}

clq_status clq_keras_check_class(json_t *layer, const char *path) {
    const char *class_name = json_string_value(json_object_get(layer, "class_name"));
    if (!class_name) return clq_fail(CLQ_FORMAT, "%s.class_name is missing", path);
    if (find_class(class_name)) return CLQ_OK;
    char where[160];
    clq_keras_describe_place(layer, path, where);
    clq_text known = {0};
    for (size_t i = 0; i < CLQ_COUNT_OF(classes); i++) clq_text_add(&known, "%s%s", i ? " " : "", classes[i].name);
    clq_status status = clq_fail(CLQ_UNSUPPORTED, "%s: a %.60s is not supported; there are %s", where, class_name,
                                 known.data ? known.data : "");
    clq_free(known.data);
    return status;
}

clq_status clq_keras_add_layer(clq_model *model, json_t *layer, const char *path, const clq_tensor *inputs,
                               size_t count, clq_tensor *out) {
    CLQ_TRY(clq_keras_check_class(layer, path));
    const struct layer_class *class = find_class(json_string_value(json_object_get(layer, "class_name")));
    char where[160], config_path[224];
    clq_keras_describe_place(layer, path, where);
    if (!class->merges && count != 1)
        return clq_fail(CLQ_FORMAT, "%s: a %s takes one input, not %zu", where, class->name, count);
    snprintf(config_path, sizeof config_path, "%s.config", where);
    clq_attributes a;
    clq_attributes_open(json_object_get(layer, "config"), config_path, &a);
    const char *name = clq_attribute_text(&a, "name", NULL);
    take_common(&a);
    clq_tensor y = class->add(model, &a, name, inputs, count);
    CLQ_TRY(clq_attributes_close(&a));
    if (y.id == 0) return clq_fail_within(clq_error_raise(&model->error), "%s", config_path);
    *out = y;
    return CLQ_OK;
}

clq_status clq_keras_batch_shape(json_t *shape, const char *path, clq_shape *out) {
    size_t rank = json_array_size(shape);
    if (!json_is_array(shape) || rank < 2 || rank > CLQ_SHAPE_MAX + 1 || !json_is_null(json_array_get(shape, 0)))
        return clq_fail(CLQ_FORMAT, "%s should be null (the batch) and 1 to %d sizes", path, CLQ_SHAPE_MAX);
    clq_shape result = {.rank = (unsigned)rank - 1};
    for (size_t d = 1; d < rank; d++) {
        json_t *dim = json_array_get(shape, d);
        if (!json_is_integer(dim) || json_integer_value(dim) < 1 || json_integer_value(dim) > INT32_MAX)
            return clq_fail(CLQ_UNSUPPORTED, "%s[%zu] should be a known size of at least 1", path, d);
        result.dims[d - 1] = (size_t)json_integer_value(dim);
    }
    *out = result;
    return CLQ_OK;
}
