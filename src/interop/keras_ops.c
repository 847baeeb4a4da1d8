/* Functions of keras.ops that are short for others, and small layers of Keras that are made of others. */
#include "interop/keras_blocks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MATH "keras.src.ops.math"

static const char *const x_names[] = {"x", NULL};

/* ---- parts ---- */

static void add_function(clq_block_writer *w, const char *class_name, const char *name, const char *from) {
    clq_block_add(w, CLQ_NUMPY, class_name, name, NULL, NULL, CLQ_FROM(from));
}
static void add_of_two(clq_block_writer *w, const char *class_name, const char *name, const char *a, const char *b) {
    clq_block_add(w, CLQ_NUMPY, class_name, name, NULL, NULL, CLQ_FROM(a, b));
}
/* Of a layer's numbers and one number. */
static void add_with_number(clq_block_writer *w, const char *class_name, const char *name, const char *from,
                            double number) {
    add_function(w, class_name, name, from);
    clq_block_append_argument(w, json_real(number));
}
/* Over the block's `axis`. */
static void add_reduction(clq_block_writer *w, const char *class_name, const char *name, bool keep, const char *from) {
    json_t *axis = clq_block_value_of(w, "axis");
    clq_block_add(w, CLQ_NUMPY, class_name, name,
                  json_pack("{s:o, s:b}", "axis", axis ? clq_json_copy(axis) : json_null(), "keepdims", keep), NULL,
                  CLQ_FROM(from));
}

/* ---- activations with a number or an axis ---- */

/* The first half, as far as the second half lets it through (Dauphin et al., 2016). */
static const char *const *write_gated(clq_block_writer *w) {
    clq_block_add(
        w, CLQ_NUMPY, "Split", "halves",
        json_pack("{s:i, s:o}", "indices_or_sections", 2, "axis", clq_block_value_or(w, "axis", json_integer(-1))),
        NULL, CLQ_FROM("x"));
    clq_block_add(w, CLQ_NN, "Sigmoid", "gate", NULL, NULL, CLQ_FROM(NULL));
    clq_block_append_argument(w, clq_block_refer("halves", 1));
    add_of_two(w, "Multiply", "gated", "halves", "gate");
    return clq_block_give(w, "gated");
}

/* keras.activations.relu of a tensor. */
static const char *const *write_relu(clq_block_writer *w) {
    clq_block_add(w, CLQ_LAYERS, "ReLU", "relu",
                  json_pack("{s:o, s:f, s:f}", "max_value", clq_block_value_or(w, "max_value", json_null()),
                            "negative_slope", clq_block_number(w, "negative_slope", 0), "threshold",
                            clq_block_number(w, "threshold", 0)),
                  NULL, CLQ_FROM("x"));
    return clq_block_give(w, "relu");
}

/* Activations that have their number by name alone. */
static const char *const *write_named(clq_block_writer *w, const char *name, const char *key, double number) {
    if (clq_block_number(w, key, number) != number) clq_block_refuse(w, key, "only %g is supported", number);
    clq_block_add_activation(w, "activated", json_string(name), "x");
    return clq_block_give(w, "activated");
}
static const char *const *write_hard_shrink(clq_block_writer *w) {
    return write_named(w, "hard_shrink", "threshold", 0.5);
}
static const char *const *write_soft_shrink(clq_block_writer *w) {
    return write_named(w, "soft_shrink", "threshold", 0.5);
}
static const char *const *write_celu(clq_block_writer *w) { return write_named(w, "celu", "alpha", 1); }
static const char *const *write_squareplus(clq_block_writer *w) { return write_named(w, "squareplus", "b", 4); }

/* ---- logarithms of other bases, weighted by nothing, filled, poolings ---- */

static const char *const *write_logarithm(clq_block_writer *w, double base) {
    add_function(w, "Log", "logarithm", "x");
    add_with_number(w, "Multiply", "of_base", "logarithm", 1 / log(base));
    return clq_block_give(w, "of_base");
}
static const char *const *write_log2(clq_block_writer *w) { return write_logarithm(w, 2); }
static const char *const *write_log10(clq_block_writer *w) { return write_logarithm(w, 10); }

static const char *const *write_average(clq_block_writer *w) {
    add_reduction(w, "Mean", "mean", false, "x");
    return clq_block_give(w, "mean");
}

static const char *const *write_full(clq_block_writer *w) {
    json_t *number = json_array_get(w->use->arguments, 1);
    if (json_array_size(w->use->arguments) != 2 || !json_is_number(number)) {
        clq_block_refuse(w, "args", "only a number can be what the tensor is filled with");
        return NULL;
    }
    add_function(w, "OnesLike", "ones", "x");
    add_with_number(w, "Multiply", "full", "ones", json_number_value(number));
    return clq_block_give(w, "full");
}

#define POOL_KEYS "pool_size strides padding data_format"
static const char *const *write_pool(clq_block_writer *w, const char *const classes[3]) {
    static const char *const keys[] = {"pool_size", "strides", "padding", "data_format"};
    const unsigned rank = clq_block_shape_of(w, 0)->rank;
    if (rank < 2 || rank > 4) {
        clq_block_refuse(w, "pool_size", "its input should have 1 to 3 axes and channels");
        return NULL;
    }
    json_t *config = json_object();
    for (size_t i = 0; i < CLQ_COUNT_OF(keys); i++) {
        json_t *value = clq_block_value_of(w, keys[i]);
        if (value && !json_is_null(value)) (void)json_object_set(config, keys[i], value);
    }
    clq_block_add(w, CLQ_LAYERS, classes[rank - 2], "pooled", config, NULL, CLQ_FROM("x"));
    return clq_block_give(w, "pooled");
}
static const char *const *write_max_pool(clq_block_writer *w) {
    static const char *const classes[] = {"MaxPooling1D", "MaxPooling2D", "MaxPooling3D"};
    return write_pool(w, classes);
}
static const char *const *write_average_pool(clq_block_writer *w) {
    static const char *const classes[] = {"AveragePooling1D", "AveragePooling2D", "AveragePooling3D"};
    return write_pool(w, classes);
}

/* ---- keras.ops.take of places that are known: runs of them that are equally far apart are slices ---- */

enum { PLACES_MOST = 4096, RUNS_MOST = 512 };
typedef struct places {
    size_t count;
    bool one; /* a number: the axis goes */
    long at[PLACES_MOST];
} places;

static bool read_place(const json_t *value, size_t size, long *out) {
    const json_int_t given = json_integer_value(value), n = (json_int_t)size;
    *out = (long)(given < 0 ? given + n : given);
    return json_is_integer(value) && given >= -n && given < n;
}

/* The call's second argument, of an axis of so many places. */
static bool read_places(json_t *argument, size_t size, places *out) {
    const char *class_name = json_is_object(argument) ? clq_keras_class(argument) : "";
    const bool array = strcmp(class_name, "__numpy__") == 0 || strcmp(class_name, "__tensor__") == 0;
    json_t *value = array ? json_object_get(json_object_get(argument, "config"), "value") : argument;
    bool fits = json_is_integer(value) || (json_array_size(value) >= 1 && json_array_size(value) <= PLACES_MOST);
    out->one = json_is_integer(value);
    out->count = out->one ? 1 : json_array_size(value);
    for (size_t i = 0; i < out->count && fits; i++)
        fits = read_place(out->one ? value : json_array_get(value, i), size, &out->at[i]);
    return fits;
}

static json_t *slice_of(json_t *first, json_t *end, json_t *step) {
    return json_pack("{s:s, s:{s:o, s:o, s:o}}", "class_name", "__slice__", "config", "start", first, "stop", end,
                     "step", step);
}
/* `count` places along an axis, the batch being axis 0. */
static void add_run(clq_block_writer *w, const char *name, unsigned axis, long first, long step, size_t count,
                    bool one) {
    json_t *indices = json_array();
    const long end = first + step * (long)count;
    for (unsigned d = 0; d < axis; d++)
        (void)json_array_append_new(indices, slice_of(json_null(), json_null(), json_null()));
    (void)json_array_append_new(
        indices, one ? json_integer(first)
                     : slice_of(json_integer(first), end < 0 ? json_null() : json_integer(end), json_integer(step)));
    clq_block_add(w, CLQ_NUMPY, "GetItem", name, NULL, NULL, CLQ_FROM("x"));
    clq_block_append_argument(w, indices);
}

static void add_runs(clq_block_writer *w, const places *p, unsigned axis) {
    json_t *runs = json_array();
    size_t count = 0, next;
    for (size_t i = 0; i < p->count && w->status == CLQ_OK; i = next, count++) {
        char name[40];
        const long step = i + 1 < p->count && p->at[i + 1] != p->at[i] ? p->at[i + 1] - p->at[i] : 1;
        for (next = i + 1; next < p->count && p->at[next] - p->at[next - 1] == step;) next++;
        (void)snprintf(name, sizeof name, "run_%zu", count);
        if (count == RUNS_MOST) clq_block_refuse(w, "axis", "places in more than %d runs are not supported", RUNS_MOST);
        add_run(w, name, axis, p->at[i], step, next - i, p->one);
        (void)json_array_append_new(runs, clq_block_refer(name, 0));
    }
    if (count == 1) {
        (void)clq_block_give(w, "run_0");
        json_decref(runs);
        return;
    }
    clq_block_add(w, CLQ_NUMPY, "Concatenate", "taken", json_pack("{s:i}", "axis", (int)axis), NULL, CLQ_FROM(NULL));
    clq_block_append_argument(w, runs);
    (void)clq_block_give(w, "taken");
}

/* An axis behind the batch, which is axis 0. 0 after a refusal. */
static unsigned take_axis(clq_block_writer *w, const char *key) {
    const json_t *given = clq_block_value_of(w, key);
    const json_int_t rank = (json_int_t)clq_block_shape_of(w, 0)->rank, number = json_integer_value(given),
                     axis = number < 0 ? number + rank + 1 : number;
    if (json_is_integer(given) && axis >= 1 && axis <= rank) return (unsigned)axis;
    clq_block_refuse(w, key, "should be an axis behind the batch");
    return 0;
}

static const char *const *write_take(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    json_t *arguments = w->use->arguments;
    const unsigned axis = take_axis(w, "axis");
    if (!axis) return NULL;
    places *p = clq_alloc(1, sizeof *p);
    if (!p) w->status = CLQ_MEMORY;
    if (p && (json_array_size(arguments) != 2 || !read_places(json_array_get(arguments, 1), x->dims[axis - 1], p)))
        clq_block_refuse(w, "axis", "its places should be a whole number or a list of at most %d, from -%zu to %zu",
                         PLACES_MOST, x->dims[axis - 1], x->dims[axis - 1] - 1);
    if (w->status == CLQ_OK) add_runs(w, p, axis);
    clq_free(p);
    return w->output;
}

/* Places that the samples have: (…, k, 1) of x (…, places, channels), as rows of a table of ones and zeros. */
static const char *const along_names[] = {"x", "indices", NULL};
static const char *const *write_take_along(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    const unsigned axis = take_axis(w, "axis");
    const clq_shape *numbers = clq_block_is_given(w, 1) ? clq_block_shape_of(w, 1) : NULL;
    if (!numbers || x->rank != 2 || axis != 1 || numbers->rank != 2 || numbers->dims[1] != 1) {
        clq_block_refuse(w, "axis", "only places (k, 1) along the first axis of (places, channels) are supported");
        return NULL;
    }
    /* Keras counts those below 0 from the end, and what it gives for those behind the end is its backend's. Those of a
     * sample itself are checked before they are read. */
    const clq_tensor indices = w->use->inputs[1];
    if (!clq_model_find_own(w->use->model, &w->use->model->tensors[indices.id - 1]) &&
        !clq_model_has_places(w->use->model, indices, x->dims[0])) {
        clq_block_refuse(w, "indices",
                         "should be an input, or places of top_k or argmax along an axis of at most %zu, computed no "
                         "further",
                         x->dims[0]);
        return NULL;
    }
    clq_block_add(w, CLQ_NUMPY, "Squeeze", "numbers", json_pack("{s:i}", "axis", -1), NULL, CLQ_FROM("indices"));
    clq_block_add(w, CLQ_NN, "OneHot", "rows", json_pack("{s:I}", "num_classes", (json_int_t)x->dims[0]), NULL,
                  CLQ_FROM("numbers"));
    add_of_two(w, "Matmul", "taken", "rows", "x");
    return clq_block_give(w, "taken");
}

/* The place of the largest along the last axis, the first if there are several. */
static const char *const *write_largest_place(clq_block_writer *w) {
    if (take_axis(w, "axis") != clq_block_shape_of(w, 0)->rank)
        clq_block_refuse(w, "axis", "only the last axis is supported");
    clq_block_add(w, MATH, "TopK", "top", json_pack("{s:i}", "k", 1), NULL, CLQ_FROM("x"));
    clq_block_add(w, CLQ_NUMPY, "Sum", "place",
                  json_pack("{s:i, s:b}", "axis", -1, "keepdims", clq_block_flag(w, "keepdims", false)), NULL,
                  CLQ_FROM(NULL));
    clq_block_append_argument(w, clq_block_refer("top", 1)); /* of one number: the axis goes */
    return clq_block_give(w, "place");
}

/* ---- layers ---- */

static const char *const inputs_names[] = {"inputs", NULL};
static const char *const *write_identity(clq_block_writer *w) {
    clq_block_add_activation(w, "output", json_string("linear"), "inputs");
    w->masked = "inputs";
    return clq_block_give(w, "output");
}

/* Sines in even channels, and cosines in odd ones, of places times a rate for each pair (Vaswani et al., 2017). */
static json_t *numbers_of(const float *values, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) (void)json_array_append_new(list, json_real((double)values[i]));
    return json_pack("{s:s, s:{s:o, s:s}}", "class_name", "__numpy__", "config", "value", list, "dtype", "float32");
}
static void add_with_numbers(clq_block_writer *w, const char *name, const char *from, const float *values,
                             size_t count) {
    add_function(w, "Multiply", name, from);
    clq_block_append_argument(w, numbers_of(values, count));
}
static const char *const *write_waves(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w);
    const double wavelength = clq_block_number(w, "max_wavelength", 1e4);
    if (!(wavelength > 0)) clq_block_refuse(w, "max_wavelength", "should be above 0");
    float *rates = clq_alloc(3 * channels, sizeof *rates), *even = rates + channels, *odd = even + channels;
    if (!rates) {
        w->status = CLQ_MEMORY;
        return NULL;
    }
    for (size_t i = 0; i < channels; i++) {
        rates[i] = (float)pow(1 / wavelength, (double)(i / 2 * 2) / (double)channels);
        even[i] = i % 2 == 0;
        odd[i] = i % 2 == 1;
    }
    add_function(w, "OnesLike", "ones", "inputs");
    clq_block_add(w, CLQ_NUMPY, "Cumsum", "counts", json_pack("{s:i}", "axis", 1), NULL, CLQ_FROM("ones"));
    add_with_number(w, "Subtract", "places", "counts", 1);
    add_with_numbers(w, "angles", "places", rates, channels);
    add_function(w, "Sin", "sines", "angles");
    add_function(w, "Cos", "cosines", "angles");
    add_with_numbers(w, "even", "sines", even, channels);
    add_with_numbers(w, "odd", "cosines", odd, channels);
    add_of_two(w, "Add", "waves", "even", "odd");
    clq_free(rates);
    return clq_block_give(w, "waves");
}

/* ---- the rows ---- */

#define OP(in_module, of_class, its_keys, function) CLQ_BLOCK_ROW(in_module, of_class, x_names, its_keys, function)
const clq_block_row clq_keras_ops[] = {
    OP(CLQ_NN, "Glu", "axis", write_gated),
    OP("keras.src.activations.activations", "ReLU", "negative_slope max_value threshold", write_relu),
    OP(CLQ_NN, "HardShrink", "threshold", write_hard_shrink),
    OP(CLQ_NN, "SoftShrink", "threshold", write_soft_shrink),
    OP(CLQ_NN, "Celu", "alpha", write_celu),
    OP(CLQ_NN, "Squareplus", "b", write_squareplus),
    OP(CLQ_NUMPY, "Log2", "", write_log2),
    OP(CLQ_NUMPY, "Log10", "", write_log10),
    OP(CLQ_NUMPY, "Average", "axis", write_average),
    OP(CLQ_NN, "MaxPool", POOL_KEYS, write_max_pool),
    OP(CLQ_NN, "AveragePool", POOL_KEYS, write_average_pool),
    OP(CLQ_NUMPY, "Argmax", "axis keepdims", write_largest_place),
    {.module = CLQ_NUMPY,
     .class_name = "FullLike",
     .names = x_names,
     .keys = "",
     .write = write_full,
     .takes_arguments = true},
    {.module = CLQ_NUMPY,
     .class_name = "Take",
     .names = x_names,
     .keys = "axis",
     .write = write_take,
     .takes_arguments = true},
    CLQ_BLOCK_ROW(CLQ_NUMPY, "TakeAlongAxis", along_names, "axis", write_take_along),
    CLQ_BLOCK_ROW(NULL, "Identity", inputs_names, "", write_identity),
    CLQ_BLOCK_ROW(CLQ_HUB "layers.modeling.sine_position_encoding", "SinePositionEncoding", inputs_names,
                  "max_wavelength", write_waves),
    CLQ_BLOCK_END,
};
