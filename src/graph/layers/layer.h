/* Kinds of layers: one row each, beside the builder's functions that add it. Private to graph. */
#ifndef CLQ_GRAPH_LAYER_H
#define CLQ_GRAPH_LAYER_H

#include "graph/model.h"
#include "graph/step/expand.h"

struct clq_layer_kind {
    const char *type; /* Keras's class name, for tables: "Conv2D" */
    const char *stem; /* of the names that are made: "conv2d" */
    size_t inputs_least, inputs_most;
    /* Checks the layer's settings against the shapes of y's inputs; sets y's shape and problem. */
    clq_status (*infer)(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
    /* Declares the layer's variables (clq_model_declare_variable), each time it is applied. NULL: it has none. */
    clq_status (*declare)(clq_model *model, clq_layer *layer, const clq_model_tensor *y);
    /* Adds the operations that compute y to a step graph; x: the values of its inputs. Gives y's value. */
    clq_id (*expand)(clq_expansion *e, const clq_model_tensor *y, const clq_id *x);
};

/* Places among the variables of products. */
enum { CLQ_KERNEL, CLQ_BIAS };

extern const clq_layer_kind clq_layer_input, clq_layer_conv2d, clq_layer_max_pool2d, clq_layer_average_pool2d,
    clq_layer_dense, clq_layer_flatten, clq_layer_reshape, clq_layer_activation, clq_layer_softmax, clq_layer_add,
    clq_layer_subtract, clq_layer_multiply, clq_layer_average, clq_layer_maximum, clq_layer_concatenate,
    clq_layer_global_average_pool2d, clq_layer_batch_norm, clq_layer_dropout;

/* CLQ_ARGUMENT unless it is one of clq_activation. */
clq_status clq_layer_check_activation(clq_activation activation);
/* What a product's own launch applies; another activation is an operation of its own. */
static inline clq_activation clq_layer_fused_activation(clq_activation activation) {
    return clq_activation_joins(activation) ? activation : CLQ_LINEAR;
}

/* ---- windows of convolutions and poolings (window.c) ---- */

typedef struct clq_window {
    const char *axis; /* "height" */
    size_t in, size, stride, dilation;
    size_t out, pad; /* found: positions of the window; zeros in front */
} clq_window;

/* TensorFlow's rule: 'same' gives ceil(in / stride) positions and puts the odd zero behind. */
clq_status clq_window_place(clq_window *window, clq_padding padding);
/* ARGUMENT unless it is (height, width, channels). */
clq_status clq_layer_check_image(const clq_shape *shape);
static inline size_t clq_or_default(size_t value, size_t otherwise) { return value ? value : otherwise; }

#endif
