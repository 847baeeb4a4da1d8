/* A Functional or Sequential model of a file as a graph. keras_nodes.c reads the nodes of its layers, and
 * keras_functional.c adds them to a clq_model. */
#ifndef CLQ_INTEROP_KERAS_GRAPH_H
#define CLQ_INTEROP_KERAS_GRAPH_H

#include "interop/keras.h"

#include <string.h>

enum { CLQ_KERAS_INPUTS_MAX = 1024, CALLS_MAX = 1 << 16, CLQ_KERAS_OUTPUTS_MAX = 1024 };
#define CLQ_KERAS_GIVEN UINT32_MAX /* the node that a Sequential model without an InputLayer reads */

/* Output number `output` of a node. */
typedef struct clq_keras_source {
    uint32_t node, output;
} clq_keras_source;

typedef struct clq_keras_node {
    uint32_t layer; /* index in config.layers */
    uint32_t first_source, source_count;
    uint32_t positional; /* how many of the first sources are the layer's inputs, by place or by their names */
    uint32_t masks; /* of an inner model that is no block: how many of the last sources are masks of its first inputs;
                       if the file has null for a mask, the input itself is the source */
    unsigned given; /* of a block: bit i: the call gives input i */
    json_t *arguments; /* "args" of the call, if some are not tensors; else NULL; borrowed */
    json_t *first;     /* the first argument; NULL: Keras 2 wrote the node; borrowed */
    json_t *keywords;  /* "kwargs" of the call; NULL: none; borrowed */
    enum { WAITING, OPEN, DONE } state;
    /* Once DONE: the output; outputs: the list of all outputs if there are several, else NULL; owned. */
    clq_tensor tensor, *outputs;
    uint32_t output_count;
} clq_keras_node;

typedef struct clq_keras_masks clq_keras_masks;
typedef struct clq_keras_graph clq_keras_graph;
struct clq_keras_graph {
    clq_model *model;
    uint32_t *calls;   /* counts the calls of layers in the whole, at most CALLS_MAX: inner models may be applied again
                          and again */
    const char *scope; /* names of the inner models down to this one, joined by dots; NULL: it is the whole */
    char *own_scope;   /* the same, owned */
    bool frozen;       /* it, or a model around it, is not trained */
    bool sequential, in_block;
    bool of_parts; /* its layers are parts of a block that Clique wrote down; no file has them */
    char *
        path; /* path of this inner model in files of weights; NULL: it is the whole, or the path is not known; owned */
    char *place;                 /* in the file's text, as clq_layer.place; NULL: it is the whole; owned */
    char **stores;               /* by layer: its path in files of weights; NULL: it is not known */
    json_t *config, *own_config; /* config: borrowed. own_config: the same, owned, if Clique wrote it; else NULL */
    unsigned heeded, masked;     /* of a block: bits of the inputs whose masks it was written for; masked: those of them
                                    that had a mask */
    unsigned bits;               /* of a block: bits of the inputs that its first call gives */
    json_t *flags, *given_arguments; /* flags: the keywords of its first call; given_arguments: that call's arguments if
                                        some are not tensors, else NULL; borrowed */
    clq_tensor given;
    clq_keras_graph **inner; /* by layer: the graph of an inner model, once it is open; else NULL */
    json_t *layers, *index;  /* index: by a layer's name, its place in `layers` */
    clq_keras_node *nodes;   /* of all layers, one layer after the other */
    uint32_t *first_node;    /* by layer, and one more at the end */
    uint32_t *added;         /* by layer: id of its first tensor in the model; 0: it is not there yet */
    json_t **keywords;       /* by layer: the keywords of its first call; borrowed */
    json_t **arguments;      /* by layer: the arguments of its first call, if some are not tensors; borrowed */
    uint32_t *positional;    /* by layer: clq_keras_node.positional of its first call */
    clq_keras_source *sources;
    clq_keras_masks *masks; /* what Keras does to masks (keras_masks.h); NULL: of a block, or not noted yet; owned */
    uint32_t node_count, source_count;
    size_t source_capacity;
};

static inline json_t *clq_keras_layer_at(const clq_keras_graph *f, size_t i) { return json_array_get(f->layers, i); }
static inline bool clq_keras_is_input(json_t *layer) { return strcmp(clq_keras_class(layer), "InputLayer") == 0; }
static inline bool clq_keras_is_sequential(json_t *layer) { return strcmp(clq_keras_class(layer), "Sequential") == 0; }

/* Whether a layer is a model: one of Keras's own classes, or a block. */
static inline bool clq_keras_is_model(json_t *layer) {
    const char *module = json_string_value(json_object_get(layer, "module"));
    const bool keras = !module || strcmp(module, "keras") == 0 || strncmp(module, "keras.", 6) == 0;
    const char *class_name = clq_keras_class(layer);
    if (clq_keras_is_block(layer)) return true;
    return keras && (clq_keras_is_sequential(layer) || strcmp(class_name, "Functional") == 0 ||
                     strcmp(class_name, "Model") == 0);
}

/* Whether a layer is a model that is no block. The file then has the model's layers. */
static inline bool clq_keras_is_inner_model(json_t *layer) {
    return clq_keras_is_model(layer) && !clq_keras_is_block(layer);
}

static inline const char *clq_keras_name(json_t *layer) {
    const char *name = json_string_value(json_object_get(layer, "name"));
    return name ? name : json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
}

/* Allocates the arrays that have an entry for each layer. */
clq_status clq_keras_make_room(clq_keras_graph *f);
/* Notes the paths of the layers in files of weights (keras_paths.c). */
clq_status clq_keras_note_stores(clq_keras_graph *f);
/* To be called in this order: they index the layers by name, count the nodes of each, and read what each node reads. */
clq_status clq_keras_index_layers(clq_keras_graph *f);
clq_status clq_keras_count_nodes(clq_keras_graph *f);
clq_status clq_keras_read_nodes(clq_keras_graph *f);
/* Whether two calls have tensors in the same places of their arguments, and equal values in the others. */
bool clq_keras_same_arguments(json_t *a, json_t *b);
/* Finds the node of the tensor [layer, node, tensor]. Whether the node gives so many tensors is known only once it is
 * added. */
clq_status clq_keras_find_node(const clq_keras_graph *f, json_t *history, const char *where, clq_keras_source *out);
/* The inputs and outputs of a model, in Keras's order. A block, too, is such a model, and may have several outputs.
 * Errors: FORMAT, UNSUPPORTED, MEMORY. */
clq_status clq_keras_find_inputs(const clq_keras_graph *f, clq_keras_source out[CLQ_MODEL_INPUTS_MAX], size_t *count);
clq_status clq_keras_find_outputs(const clq_keras_graph *f, clq_keras_source out[CLQ_BLOCK_OUTPUTS_MAX], size_t *count);

#endif
