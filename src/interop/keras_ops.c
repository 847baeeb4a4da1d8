/* Blocks of functions of keras.ops that are short for other functions, and of small layers that are made of others. */
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
/* Adds a function of a layer's output and one number. */
static void add_with_number(clq_block_writer *w, const char *class_name, const char *name, const char *from,
                            double number) {
    add_function(w, class_name, name, from);
    clq_block_append_argument(w, json_real(number));
}
/* Adds a reduction over the axes that a key of the block names, which is `axis` for most blocks. */
static void add_reduction_over(clq_block_writer *w, const char *key, const char *class_name, const char *name,
                               bool keep, const char *from) {
    json_t *axis = clq_block_value_or(w, key, json_null());
    clq_block_add(w, CLQ_NUMPY, class_name, name, json_pack("{s:o, s:b}", "axis", axis, "keepdims", keep), NULL,
                  CLQ_FROM(from));
}
static void add_reduction(clq_block_writer *w, const char *class_name, const char *name, bool keep, const char *from) {
    add_reduction_over(w, "axis", class_name, name, keep, from);
}

/* A NumPy array as an argument, made of nested lists; takes them. */
static json_t *numbers_in(json_t *lists) {
    return json_pack("{s:s, s:{s:o, s:s}}", "class_name", "__numpy__", "config", "value", lists, "dtype", "float32");
}

/* ---- activations with a number or an axis ---- */

/* The first half of an axis times the sigmoid of the second half (Dauphin et al., 2016). */
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

/* Whether the block's number is the one that the activation of this name has. If so, writes that activation. */
static bool is_named(clq_block_writer *w, const char *name, const char *key, double number) {
    if (clq_block_number(w, key, number) != number) return false;
    clq_block_add_activation(w, "activated", json_string(name), "x");
    (void)clq_block_give(w, "activated");
    return true;
}
/* A key's number, which has to be at least 0. */
static double take_positive(clq_block_writer *w, const char *key, double otherwise) {
    const double number = clq_block_number(w, key, otherwise);
    if (!(number >= 0)) clq_block_refuse(w, key, "%g should be at least 0", number);
    return number;
}
/* `from` where `what` is above the number, and another number elsewhere. */
static const char *const *give_above(clq_block_writer *w, const char *what, double number, const char *from,
                                     double elsewhere) {
    add_with_number(w, "Greater", "above", what, number);
    add_of_two(w, "Where", "activated", "above", from);
    clq_block_append_argument(w, json_real(elsewhere));
    return clq_block_give(w, "activated");
}

static const char *const *write_hard_shrink(clq_block_writer *w) {
    if (is_named(w, "hard_shrink", "threshold", 0.5)) return w->output;
    add_function(w, "Absolute", "size", "x");
    return give_above(w, "size", clq_block_number(w, "threshold", 0.5), "x", 0);
}
static const char *const *write_threshold(clq_block_writer *w) {
    return give_above(w, "x", clq_block_number(w, "threshold", 0), "x", clq_block_number(w, "default_value", 0));
}
/* x minus x clipped to [-threshold, threshold]. */
static const char *const *write_soft_shrink(clq_block_writer *w) {
    if (is_named(w, "soft_shrink", "threshold", 0.5)) return w->output;
    const double most = take_positive(w, "threshold", 0.5);
    clq_block_add(w, CLQ_NUMPY, "Clip", "kept", json_pack("{s:f, s:f}", "x_min", -most, "x_max", most), NULL,
                  CLQ_FROM("x"));
    add_of_two(w, "Subtract", "activated", "x", "kept");
    return clq_block_give(w, "activated");
}
/* alpha * elu(x / alpha) (Barron, 2017). */
static const char *const *write_celu(clq_block_writer *w) {
    if (is_named(w, "celu", "alpha", 1)) return w->output;
    const double alpha = clq_block_number(w, "alpha", 1);
    if (!(alpha > 0)) clq_block_refuse(w, "alpha", "%g should be above 0", alpha);
    add_with_number(w, "Divide", "part", "x", alpha);
    clq_block_add_activation(w, "elu", json_string("elu"), "part");
    add_with_number(w, "Multiply", "activated", "elu", alpha);
    return clq_block_give(w, "activated");
}
/* (x + sqrt(x^2 + b)) / 2 (Barron, 2021). */
static const char *const *write_squareplus(clq_block_writer *w) {
    if (is_named(w, "squareplus", "b", 4)) return w->output;
    const double b = take_positive(w, "b", 4);
    add_function(w, "Square", "square", "x");
    add_with_number(w, "Add", "moved", "square", b);
    add_function(w, "Sqrt", "root", "moved");
    add_of_two(w, "Add", "sum", "x", "root");
    add_with_number(w, "Multiply", "activated", "sum", 0.5);
    return clq_block_give(w, "activated");
}
/* Sparse plus is 0 up to -1, (x + 1)^2 / 4 from there to 1, and x above. Sparse sigmoid is its derivative (Martins and
 * Astudillo, 2016). */
static void add_ramp(clq_block_writer *w, double low, double high, const char *from) {
    clq_block_add(w, CLQ_NUMPY, "Clip", "ramp", json_pack("{s:f, s:f}", "x_min", low, "x_max", high), NULL,
                  CLQ_FROM(from));
}
static const char *const *write_sparse_plus(clq_block_writer *w) {
    add_ramp(w, -1, 1, "x");
    add_with_number(w, "Add", "moved", "ramp", 1);
    add_function(w, "Square", "square", "moved");
    add_with_number(w, "Multiply", "curve", "square", 0.25);
    add_with_number(w, "Subtract", "behind", "x", 1);
    clq_block_add_activation(w, "line", json_string("relu"), "behind");
    add_of_two(w, "Add", "activated", "curve", "line");
    return clq_block_give(w, "activated");
}
static const char *const *write_sparse_sigmoid(clq_block_writer *w) {
    add_with_number(w, "Multiply", "half", "x", 0.5);
    add_with_number(w, "Add", "moved", "half", 0.5);
    add_ramp(w, 0, 1, "moved");
    return clq_block_give(w, "ramp");
}

/* ---- logarithms of other bases, averages without weights, full tensors, poolings ---- */

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

/* ---- keras.ops.take with known places: each run of equally spaced places becomes a slice ---- */

enum { PLACES_MOST = 4096, RUNS_MOST = 512 };
typedef struct places {
    size_t count;
    bool one; /* the argument is one number, so the axis is dropped */
    long at[PLACES_MOST];
} places;

static bool read_place(const json_t *value, size_t size, long *out) {
    const json_int_t given = json_integer_value(value), n = (json_int_t)size;
    *out = (long)(given < 0 ? given + n : given);
    return json_is_integer(value) && given >= -n && given < n;
}

/* Reads the call's second argument: places along an axis of this size. */
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
/* Adds a slice: `count` places of a layer's tensor along an axis, where axis 0 is the batch. */
static void add_run(clq_block_writer *w, const char *from, const char *name, unsigned axis, long first, long step,
                    size_t count, bool one) {
    json_t *indices = json_array();
    const long end = first + step * (long)count;
    for (unsigned d = 0; d < axis; d++)
        (void)json_array_append_new(indices, slice_of(json_null(), json_null(), json_null()));
    (void)json_array_append_new(
        indices, one ? json_integer(first)
                     : slice_of(json_integer(first), end < 0 ? json_null() : json_integer(end), json_integer(step)));
    clq_block_add(w, CLQ_NUMPY, "GetItem", name, NULL, NULL, CLQ_FROM(from));
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
        add_run(w, "x", name, axis, p->at[i], step, next - i, p->one);
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

/* The axis that a key names, behind the batch, which is axis 0. Gives 0 after a refusal. */
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
    if (!p) w->status = CLQ_ERROR_MEMORY;
    if (p && (json_array_size(arguments) != 2 || !read_places(json_array_get(arguments, 1), x->dims[axis - 1], p)))
        clq_block_refuse(w, "axis", "its places should be a whole number or a list of at most %d, from -%zu to %zu",
                         PLACES_MOST, x->dims[axis - 1], x->dims[axis - 1] - 1);
    if (w->status == CLQ_OK) add_runs(w, p, axis);
    clq_free(p);
    return w->output;
}

/* Takes places of x (places, channels) that the sample itself gives, (k, 1): a matrix of one-hot rows times x. */
static const char *const along_names[] = {"x", "indices", NULL};
static const char *const *write_take_along(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    const unsigned axis = take_axis(w, "axis");
    const clq_shape *numbers = clq_block_is_given(w, 1) ? clq_block_shape_of(w, 1) : NULL;
    if (!numbers || x->rank != 2 || axis != 1 || numbers->rank != 2 || numbers->dims[1] != 1) {
        clq_block_refuse(w, "axis", "only places (k, 1) along the first axis of (places, channels) are supported");
        return NULL;
    }
    /* Keras counts places below 0 from the end, and what it gives for places beyond the end depends on its backend.
     * Places that are an input of the model are checked before they are read. */
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

/* The place of the largest number along the last axis; the first such place if there are several. */
static const char *const *write_largest_place(clq_block_writer *w) {
    if (take_axis(w, "axis") != clq_block_shape_of(w, 0)->rank)
        clq_block_refuse(w, "axis", "only the last axis is supported");
    clq_block_add(w, MATH, "TopK", "top", json_pack("{s:i}", "k", 1), NULL, CLQ_FROM("x"));
    clq_block_add(w, CLQ_NUMPY, "Sum", "place",
                  json_pack("{s:i, s:b}", "axis", -1, "keepdims", clq_block_flag(w, "keepdims", false)), NULL,
                  CLQ_FROM(NULL));
    clq_block_append_argument(w, clq_block_refer("top", 1)); /* sums one number, to drop the axis */
    return clq_block_give(w, "place");
}

/* ---- norms and moments ---- */

static const char *const *write_reduced(clq_block_writer *w, const char *class_name) {
    add_reduction(w, class_name, "reduced", clq_block_flag(w, "keepdims", false), "x");
    return clq_block_give(w, "reduced");
}
static const char *const *write_amax(clq_block_writer *w) { return write_reduced(w, "Max"); }
static const char *const *write_amin(clq_block_writer *w) { return write_reduced(w, "Min"); }

/* Over one axis: the root of the sum of squares, or for ord 1 the sum of absolute values. Over two axes, this root is
 * called "fro", and ord 1 and 2 mean norms of matrices, which are not supported. */
static const char *const *write_norm(clq_block_writer *w) {
    const json_t *ord = clq_block_value_of(w, "ord"), *axis = clq_block_value_of(w, "axis");
    const bool keep = clq_block_flag(w, "keepdims", false), none = !ord || json_is_null(ord),
               rows = json_is_integer(axis) || json_array_size(axis) == 1;
    const char *name = json_string_value(ord);
    const bool frobenius = name && strcmp(name, "fro") == 0 && json_array_size(axis) == 2;
    const double number = json_number_value(ord);
    if (!axis || json_is_null(axis)) clq_block_refuse(w, "axis", "is missing: a norm over the batch is not supported");
    if (!none && !frobenius && !(rows && json_is_number(ord) && (number == 1 || number == 2)))
        clq_block_refuse(w, "ord", "only null is supported, over one axis 1 and 2, and over two \"fro\"");
    if (number == 1) {
        add_function(w, "Absolute", "sizes", "x");
        add_reduction(w, "Sum", "norm", keep, "sizes");
    } else {
        add_function(w, "Square", "squares", "x");
        add_reduction(w, "Sum", "sum", keep, "squares");
        add_function(w, "Sqrt", "norm", "sum");
    }
    return clq_block_give(w, "norm");
}

/* Mean and variance over axes. */
static const char *const *write_moments(clq_block_writer *w) {
    static const char *const classes[] = {"Mean", "Var"}, *const names[] = {"mean", "variance"};
    const bool keep = clq_block_flag(w, "keepdims", false);
    if (clq_block_flag(w, "synchronized", false)) clq_block_refuse(w, "synchronized", "true is not supported");
    for (unsigned i = 0; i < 2; i++) {
        add_reduction_over(w, "axes", classes[i], names[i], keep, "x");
        w->output[i] = names[i];
    }
    return w->output;
}

/* keras.ops.rms_normalization without a scale (Zhang and Sennrich, 2019). */
static const char *const *write_rms(clq_block_writer *w) {
    add_function(w, "Square", "squares", "x");
    add_reduction(w, "Mean", "mean", true, "squares");
    add_with_number(w, "Add", "positive", "mean", clq_block_number(w, "epsilon", 1e-7));
    clq_block_add(w, MATH, "Rsqrt", "scale", NULL, NULL, CLQ_FROM("positive"));
    add_of_two(w, "Multiply", "normalised", "x", "scale");
    return clq_block_give(w, "normalised");
}

/* ---- parts and joins ---- */

/* The last layer's name, which lives as long as the layer. */
static const char *last_name(const clq_block_writer *w) {
    return json_string_value(json_object_get(json_array_get(w->layers, json_array_size(w->layers) - 1), "name"));
}
static const char *const *write_parts(clq_block_writer *w) {
    const unsigned axis = take_axis(w, "axis");
    if (!axis) return NULL;
    const size_t count = clq_block_shape_of(w, 0)->dims[axis - 1];
    const long given = clq_block_whole(w, "num", (long)count);
    if (given != (long)count) clq_block_refuse(w, "num", "%ld should be the axis's size, %zu", given, count);
    if (count > CLQ_BLOCK_OUTPUTS_MAX)
        clq_block_refuse(w, "axis", "more than %d parts are not supported, and it has %zu", CLQ_BLOCK_OUTPUTS_MAX,
                         count);
    for (size_t i = 0; i < count && w->status == CLQ_OK; i++) {
        char name[40];
        (void)snprintf(name, sizeof name, "part_%zu", i);
        add_run(w, "x", name, axis, (long)i, 1, 1, true);
        w->output[i] = last_name(w);
    }
    return w->output;
}

static const char *const joined_names[] = {"x_0",  "x_1",  "x_2",  "x_3",  "x_4",  "x_5",  "x_6",  "x_7",  "x_8",
                                           "x_9",  "x_10", "x_11", "x_12", "x_13", "x_14", "x_15", "x_16", "x_17",
                                           "x_18", "x_19", "x_20", "x_21", "x_22", "x_23", "x_24", "x_25", "x_26",
                                           "x_27", "x_28", "x_29", "x_30", "x_31", NULL};
static const char *const *write_joined(clq_block_writer *w, json_t *axis) {
    json_t *all = json_array();
    const char *name;
    for (unsigned i = 0; (name = clq_keras_block_input(w->use->layer, i)); i++)
        if (clq_block_is_given(w, i)) (void)json_array_append_new(all, clq_block_refer(name, 0));
    clq_block_add(w, CLQ_NUMPY, "Concatenate", "joined", json_pack("{s:o}", "axis", axis), NULL, CLQ_FROM(NULL));
    clq_block_append_argument(w, all);
    return clq_block_give(w, "joined");
}
static const char *const *write_side_by_side(clq_block_writer *w) { return write_joined(w, json_integer(1)); }
static const char *const appended_names[] = {"a", "b", NULL};
static const char *const *write_appended(clq_block_writer *w) {
    json_t *axis = clq_block_value_of(w, "axis");
    if (!json_is_integer(axis)) {
        clq_block_refuse(w, "axis", "should be a whole number: without one, Keras joins samples of the batch");
        return NULL;
    }
    return write_joined(w, json_incref(axis));
}

/* Subtracts from each place along the axis the one before it, n times. */
enum { ORDERS_MOST = 64 };
static const char *const *write_differences(clq_block_writer *w) {
    const unsigned axis = take_axis(w, "axis");
    if (!axis) return NULL;
    const size_t size = clq_block_shape_of(w, 0)->dims[axis - 1], n = (size_t)clq_block_whole(w, "n", 1);
    if (n == 0) clq_block_refuse(w, "n", "0 should be at least 1");
    if (n >= size) clq_block_refuse(w, "n", "an axis of %zu has no differences of order %zu", size, n);
    if (n > ORDERS_MOST) clq_block_refuse(w, "n", "more than %d is not supported", ORDERS_MOST);
    char from[40] = "x", later[40], earlier[40];
    for (size_t i = 0; i < n && w->status == CLQ_OK; i++) {
        (void)snprintf(later, sizeof later, "later_%zu", i);
        (void)snprintf(earlier, sizeof earlier, "earlier_%zu", i);
        add_run(w, from, later, axis, 1, 1, size - 1 - i, false);
        add_run(w, from, earlier, axis, 0, 1, size - 1 - i, false);
        (void)snprintf(from, sizeof from, "differences_%zu", i);
        add_of_two(w, "Subtract", from, later, earlier);
    }
    return clq_block_give(w, from);
}

/* Takes the last two axes as a matrix, keeps one side of a diagonal, and sets the rest to 0. */
enum { TRIANGLE_MOST = 1 << 20 };
static const char *const *write_triangle(clq_block_writer *w, bool lower) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    json_t *k = clq_block_value_of(w, "k"), *rows = json_array();
    const json_int_t diagonal = json_integer_value(k);
    if (k && !json_is_integer(k)) clq_block_refuse(w, "k", "should be a whole number");
    if (x->rank < 2) clq_block_refuse(w, "k", "its input should have two axes behind the batch");
    const size_t height = x->rank < 2 ? 0 : x->dims[x->rank - 2], width = x->rank < 2 ? 0 : x->dims[x->rank - 1];
    if (height > 0 && width > TRIANGLE_MOST / height)
        clq_block_refuse(w, "k", "matrices of more than %d numbers are not supported", TRIANGLE_MOST);
    for (size_t i = 0; i < height && w->status == CLQ_OK; i++) {
        json_t *row = json_array();
        for (size_t j = 0; j < width; j++) {
            const json_int_t above = (json_int_t)j - (json_int_t)i;
            (void)json_array_append_new(row, json_real((lower ? above <= diagonal : above >= diagonal) ? 1 : 0));
        }
        (void)json_array_append_new(rows, row);
    }
    clq_block_add(w, CLQ_NUMPY, "Where", "triangle", NULL, NULL, CLQ_FROM(NULL));
    clq_block_append_argument(w, numbers_in(rows));
    clq_block_append_argument(w, clq_block_refer("x", 0));
    clq_block_append_argument(w, json_real(0));
    return clq_block_give(w, "triangle");
}
static const char *const *write_lower(clq_block_writer *w) { return write_triangle(w, true); }
static const char *const *write_upper(clq_block_writer *w) { return write_triangle(w, false); }

/* Brightness as people see it: a weighted sum of red, green and blue (ITU-R BT.601, weights of four digits). */
#define SHARES 0.2989, 0.5870, 0.1140
static const char *const *write_grey(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    const char *format = json_string_value(clq_block_value_of(w, "data_format"));
    const bool first = format && strcmp(format, "channels_first") == 0;
    if (format && !first && strcmp(format, "channels_last") != 0)
        clq_block_refuse(w, "data_format", "'%.20s' should be channels_first or channels_last", format);
    const size_t channels = x->rank == 3 ? x->dims[first ? 0 : 2] : 0;
    if (channels != 1 && channels != 3)
        clq_block_refuse(w, "data_format", "it takes %s",
                         first ? "(3 or 1, height, width)" : "(height, width, 3 or 1)");
    if (channels == 1) { /* it is grey already */
        clq_block_add_activation(w, "grey", json_string("linear"), "x");
        return clq_block_give(w, "grey");
    }
    add_function(w, "Multiply", "shares", "x");
    clq_block_append_argument(
        w, numbers_in(first ? json_pack("[[[f]], [[f]], [[f]]]", SHARES) : json_pack("[f, f, f]", SHARES)));
    clq_block_add(w, CLQ_NUMPY, "Sum", "grey", json_pack("{s:i, s:b}", "axis", first ? 1 : -1, "keepdims", 1), NULL,
                  CLQ_FROM("shares"));
    return clq_block_give(w, "grey");
}

/* ---- layers ---- */

static const char *const *write_identity(clq_block_writer *w) {
    clq_block_add_activation(w, "output", json_string("linear"), "inputs");
    w->masked = "inputs";
    return clq_block_give(w, "output");
}

static void add_with_numbers(clq_block_writer *w, const char *name, const char *from, const float *values,
                             size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) (void)json_array_append_new(list, json_real((double)values[i]));
    add_function(w, "Multiply", name, from);
    clq_block_append_argument(w, numbers_in(list));
}
/* Sines in even and cosines in odd channels, of the place times the rate of a channel pair (Vaswani et al., 2017). */
static const char *const *write_waves(clq_block_writer *w) {
    const size_t channels = clq_block_channels_of(w);
    const double wavelength = clq_block_number(w, "max_wavelength", 1e4);
    if (!(wavelength > 0)) clq_block_refuse(w, "max_wavelength", "should be above 0");
    float *rates = clq_alloc(3 * channels, sizeof *rates), *even = rates + channels, *odd = even + channels;
    if (!rates) {
        w->status = CLQ_ERROR_MEMORY;
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
    OP(CLQ_NN, "Threshold", "threshold default_value", write_threshold),
    OP(CLQ_NN, "SparsePlus", "", write_sparse_plus),
    OP(CLQ_NN, "SparseSigmoid", "", write_sparse_sigmoid),
    OP(CLQ_NUMPY, "Amax", "axis keepdims", write_amax),
    OP(CLQ_NUMPY, "Amin", "axis keepdims", write_amin),
    OP("keras.src.ops.linalg", "Norm", "ord axis keepdims", write_norm),
    OP(CLQ_NN, "Moments", "axes keepdims synchronized", write_moments),
    OP(CLQ_NN, "RMSNorm", "axis epsilon", write_rms),
    OP("keras.src.ops.core", "Unstack", "num axis", write_parts),
    CLQ_BLOCK_ROW(CLQ_NUMPY, "Hstack", joined_names, "", write_side_by_side),
    CLQ_BLOCK_ROW(CLQ_NUMPY, "Append", appended_names, "axis", write_appended),
    OP(CLQ_NUMPY, "Diff", "n axis", write_differences),
    OP(CLQ_NUMPY, "Tril", "k", write_lower),
    OP(CLQ_NUMPY, "Triu", "k", write_upper),
    OP("keras.src.ops.image", "RGBToGrayscale", "data_format", write_grey),
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
    CLQ_BLOCK_ROW(NULL, "Identity", clq_block_inputs_names, "", write_identity),
    CLQ_BLOCK_ROW(CLQ_HUB "layers.modeling.sine_position_encoding", "SinePositionEncoding", clq_block_inputs_names,
                  "max_wavelength", write_waves),
    CLQ_BLOCK_END,
};
