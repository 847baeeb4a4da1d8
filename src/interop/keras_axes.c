/* Blocks of layers whose channels or axes are not the last ones. Each becomes the layer itself between two
 * permutations, of its input and of its output, and has the same variables under the same names. */
#include "interop/keras_blocks.h"

#include <string.h>

/* An order of a sample's axes, which are counted from 1. */
typedef struct order {
    unsigned rank, axes[CLQ_SHAPE_MAX];
} order;

/* The axes of `last` after all others; both keep their order. */
static order order_with_last(unsigned rank, const bool last[CLQ_SHAPE_MAX + 1]) {
    order o = {.rank = 0};
    for (unsigned turn = 0; turn < 2; turn++)
        for (unsigned axis = 1; axis <= rank; axis++)
            if (last[axis] == (turn == 1)) o.axes[o.rank++] = axis;
    return o;
}
static order order_back(const order *o) {
    order back = {.rank = o->rank};
    for (unsigned d = 0; d < o->rank; d++) back.axes[o->axes[d] - 1] = d + 1;
    return back;
}
static bool keeps_order(const order *o) {
    for (unsigned d = 0; d < o->rank; d++)
        if (o->axes[d] != d + 1) return false;
    return true;
}

/* Permutes a tensor. Gives the layer that has the result: `from` itself if there is nothing to permute. */
static const char *add_permuted(clq_block_writer *w, const order *o, const char *name, const char *from) {
    if (keeps_order(o)) return from;
    json_t *dims = json_array();
    for (unsigned d = 0; d < o->rank; d++) (void)json_array_append_new(dims, json_integer((json_int_t)o->axes[d]));
    clq_block_add(w, CLQ_LAYERS, "Permute", name, json_pack("{s:o}", "dims", dims), NULL, CLQ_FROM(from));
    return name;
}

/* Adds the layer itself with another value of one key of its configuration; takes the value. */
static void add_itself(clq_block_writer *w, const char *key, json_t *value, const char *from) {
    json_t *config = clq_json_copy(w->config);
    (void)json_object_set_new(config, key, value);
    (void)json_object_del(config, "trainable"); /* the block's `trainable` counts */
    clq_block_add(w, CLQ_LAYERS, clq_keras_class(w->use->layer), "itself", config, NULL, CLQ_FROM(from));
    clq_block_note_itself(w);
}

static const char *const *give_back(clq_block_writer *w, const order *o, const char *from) {
    const order back = order_back(o);
    from = add_permuted(w, &back, "behind", from);
    return clq_block_give(w, from);
}

/* ---- channels in front ---- */

static bool has_channels_first(json_t *config) {
    const char *format = json_string_value(json_object_get(config, "data_format"));
    return format && strcmp(format, "channels_first") == 0;
}

static order add_channels_last(clq_block_writer *w) {
    const unsigned rank = clq_block_shape_of(w, 0)->rank;
    const bool last[CLQ_SHAPE_MAX + 1] = {[1] = true};
    const order o = order_with_last(rank, last);
    if (clq_block_has_mask(w, 0))
        clq_block_refuse(w, "data_format", "channels_first is not supported of an input that carries a mask");
    add_itself(w, "data_format", json_string("channels_last"), add_permuted(w, &o, "front", "inputs"));
    return o;
}
/* Keras applies the activation to channels_first, where a softmax goes along the last axis, the width. So the
 * activation comes after the permutation back. */
static const char *const *write_channels_first(clq_block_writer *w) {
    const order o = add_channels_last(w);
    json_t *activation = clq_block_take_activation(w, "activation", "linear");
    const char *name = json_string_value(activation);
    if (name && strcmp(name, "linear") == 0) {
        json_decref(activation);
        return give_back(w, &o, "itself");
    }
    clq_block_set(w, "activation", json_string("linear"));
    clq_block_add_activation(w, "activated", activation, give_back(w, &o, "itself")[0]);
    return clq_block_give(w, "activated");
}
/* Pools over all places. Only the channels are left; with `keepdims`, the other axes stay, with size 1. */
static const char *const *write_global(clq_block_writer *w) {
    const order o = add_channels_last(w);
    return clq_block_flag(w, "keepdims", false) ? give_back(w, &o, "itself") : clq_block_give(w, "itself");
}
/* Keras flattens place by place, with all channels of each place together. */
static const char *const *write_flattened(clq_block_writer *w) {
    (void)add_channels_last(w);
    return clq_block_give(w, "itself");
}

/* ---- axes that are not the last ones ---- */

/* Whether the layer's variables have the axes in the order in which the key names them. The permutations here do not
 * follow that order. */
static bool has_order(const clq_block_writer *w) {
    return strcmp(clq_keras_class(w->use->layer), "LayerNormalization") == 0;
}

/* The axes of a key, which are a number or a list. False: there are none, one is not an axis behind the batch, one is
 * named twice, or they are not in order if they should be. */
static bool read_axes(const json_t *value, unsigned rank, bool in_order, bool axes[CLQ_SHAPE_MAX + 1],
                      unsigned *count) {
    const size_t given = json_is_array(value) ? json_array_size(value) : 1;
    json_int_t before = 0;
    *count = 0;
    for (size_t i = 0; i < given; i++) {
        const json_t *item = json_is_array(value) ? json_array_get(value, i) : value;
        const json_int_t number = json_integer_value(item), axis = number < 0 ? number + (json_int_t)rank + 1 : number;
        if (!json_is_integer(item) || axis < 1 || axis > (json_int_t)rank || axes[axis]) return false;
        if (in_order && axis < before) return false;
        before = axis;
        axes[axis] = true;
        ++*count;
    }
    return *count > 0;
}

static bool take_axes(clq_block_writer *w, order *o, unsigned *count) {
    bool axes[CLQ_SHAPE_MAX + 1] = {false};
    const unsigned rank = clq_block_shape_of(w, 0)->rank;
    if (read_axes(clq_block_value_of(w, "axis"), rank, has_order(w), axes, count)) {
        *o = order_with_last(rank, axes);
        return true;
    }
    clq_block_refuse(w, "axis", "should be axes from 1 to %u, %s", rank,
                     has_order(w) ? "the lower ones first" : "each of them once");
    return false;
}

/* Whether axes are -1, or -2 and -1, and so on. Axes counted from the front are the last ones or not by the input's
 * rank: write_with_axes handles these. */
static bool are_last(const json_t *axes) {
    const size_t count = json_is_array(axes) ? json_array_size(axes) : 1;
    for (size_t i = 0; i < count; i++) {
        const json_t *axis = json_is_array(axes) ? json_array_get(axes, i) : axes;
        if (json_integer_value(axis) != (json_int_t)i - (json_int_t)count) return false;
    }
    return true;
}
static bool has_other_axes(json_t *config) {
    json_t *axes = json_object_get(config, "axis");
    return (json_is_array(axes) ? json_array_size(axes) > 0 : json_is_integer(axes)) && !are_last(axes);
}

static const char *const *write_with_axes(clq_block_writer *w) {
    order o;
    unsigned count;
    json_t *last = json_array();
    if (!take_axes(w, &o, &count)) {
        json_decref(last);
        return NULL;
    }
    for (unsigned i = 0; i < count; i++)
        (void)json_array_append_new(last, json_integer((json_int_t)i - (json_int_t)count));
    if (json_is_integer(clq_block_value_of(w, "axis"))) {
        json_decref(last);
        last = json_integer(-1);
    }
    add_itself(w, "axis", last, add_permuted(w, &o, "front", "inputs"));
    w->masked = "inputs";
    return give_back(w, &o, "itself");
}

/* Softmax over several axes: along one axis into which they are joined. */
static bool has_several_axes(json_t *config) { return json_array_size(json_object_get(config, "axis")) > 1; }

static void add_shape(clq_block_writer *w, const char *name, const size_t *dims, unsigned rank, const char *from) {
    json_t *shape = json_array();
    for (unsigned d = 0; d < rank; d++) (void)json_array_append_new(shape, json_integer((json_int_t)dims[d]));
    clq_block_add(w, CLQ_LAYERS, "Reshape", name, json_pack("{s:o}", "target_shape", shape), NULL, CLQ_FROM(from));
}
static const char *const *write_softmax(clq_block_writer *w) {
    const clq_shape *x = clq_block_shape_of(w, 0);
    order o;
    unsigned count;
    size_t dims[CLQ_SHAPE_MAX], rows[CLQ_SHAPE_MAX];
    if (!take_axes(w, &o, &count)) return NULL;
    if (clq_block_has_mask(w, 0))
        clq_block_refuse(w, "axis", "several axes are not supported of an input that carries a mask");
    for (unsigned d = 0; d < o.rank; d++) dims[d] = rows[d] = x->dims[o.axes[d] - 1];
    const unsigned first = o.rank - count;
    for (unsigned d = first + 1; d < o.rank; d++) rows[first] *= dims[d];
    add_shape(w, "joined", rows, first + 1, add_permuted(w, &o, "front", "inputs"));
    clq_block_add(w, CLQ_LAYERS, "Softmax", "softmax", NULL, NULL, CLQ_FROM("joined"));
    add_shape(w, "apart", dims, o.rank, "softmax");
    return give_back(w, &o, "apart");
}

/* ---- the rows ---- */

/* The rows have no keys: the layer itself checks its keys. */
#define ROW(of_class, condition, function)                                                                             \
    { .class_name = (of_class), .names = clq_block_inputs_names, .of_config = (condition), .write = (function) }
#define CHANNELS(of_class) ROW(of_class, has_channels_first, write_channels_first)
#define CHANNELS_OF_ALL(of_class) CHANNELS(of_class "1D"), CHANNELS(of_class "2D"), CHANNELS(of_class "3D")
#define GLOBAL(of_class)                                                                                               \
    ROW(of_class "1D", has_channels_first, write_global), ROW(of_class "2D", has_channels_first, write_global),        \
        ROW(of_class "3D", has_channels_first, write_global)
#define AXES(of_class) ROW(of_class, has_other_axes, write_with_axes)
/* This block has keys, as no layer within it gets the block's configuration. */
#define SOFTMAX(of_module)                                                                                             \
    {                                                                                                                  \
        .module = (of_module), .class_name = "Softmax", .names = clq_block_inputs_names, .keys = "axis",               \
        .of_config = has_several_axes, .write = write_softmax                                                          \
    }
const clq_block_row clq_keras_axes[] = {
    CHANNELS_OF_ALL("Conv"),
    CHANNELS("Conv1DTranspose"),
    CHANNELS("Conv2DTranspose"),
    CHANNELS("Conv3DTranspose"),
    CHANNELS("DepthwiseConv1D"),
    CHANNELS("DepthwiseConv2D"),
    CHANNELS("SeparableConv1D"),
    CHANNELS("SeparableConv2D"),
    CHANNELS_OF_ALL("MaxPooling"),
    CHANNELS_OF_ALL("AveragePooling"),
    CHANNELS_OF_ALL("AdaptiveMaxPooling"),
    CHANNELS_OF_ALL("AdaptiveAveragePooling"),
    CHANNELS_OF_ALL("ZeroPadding"),
    CHANNELS("Cropping2D"),
    CHANNELS("Cropping3D"),
    CHANNELS("UpSampling2D"),
    CHANNELS("UpSampling3D"),
    CHANNELS("SpatialDropout2D"),
    CHANNELS("SpatialDropout3D"),
    GLOBAL("GlobalMaxPooling"),
    GLOBAL("GlobalAveragePooling"),
    ROW("Flatten", has_channels_first, write_flattened),
    AXES("LayerNormalization"),
    AXES("GroupNormalization"),
    AXES("UnitNormalization"),
    SOFTMAX(NULL),
    SOFTMAX(CLQ_NN),
    CLQ_BLOCK_END,
};
