/* A Functional or Sequential model as a graph: its layers' nodes (keras_nodes.c), and how they become a model's
 * (keras_functional.c). */
#ifndef CLQ_INTEROP_KERAS_GRAPH_H
#define CLQ_INTEROP_KERAS_GRAPH_H

#include "interop/keras.h"

#include <string.h>

enum { CLQ_KERAS_INPUTS_MAX = 1024, CALLS_MAX = 1 << 16, CLQ_KERAS_OUTPUTS_MAX = 1024 };
#define CLQ_KERAS_GIVEN UINT32_MAX /* what a Sequential model without an InputLayer is applied to */

/* A tensor of a node, by its number. */
typedef struct clq_keras_source {
    uint32_t node, output;
} clq_keras_source;

typedef struct clq_keras_node {
    uint32_t layer; /* index in config.layers */
    uint32_t first_source, source_count;
    uint32_t positional; /* the first so many are the layer's inputs, by place or by their names */
    uint32_t masks;      /* of a model that is no block: the last so many are the masks of its first inputs; where the
                            file has null, the input stands again in the mask's place */
    unsigned given;      /* of a block: bits of the inputs that it is applied to */
    json_t *arguments;   /* of the call, if some are no tensors; borrowed */
    json_t *first;       /* of its arguments; NULL: as Keras 2 wrote it; borrowed */
    json_t *keywords;    /* of the call; borrowed */
    enum { WAITING, OPEN, DONE } state;
    /* Once DONE: what it gives; if that is several, the list of them, its own. */
    clq_tensor tensor, *outputs;
    uint32_t output_count;
} clq_keras_node;

typedef struct clq_keras_masks clq_keras_masks;
typedef struct clq_keras_graph clq_keras_graph;
struct clq_keras_graph {
    clq_model *model;
    uint32_t *calls;   /* of layers so far, in the whole: models within models may be applied again and again */
    const char *scope; /* names of models that it is within, with dots between; NULL: it is the whole */
    char *own_scope;   /* the same, its own */
    bool frozen;       /* it, or a model that it is within, is not trained */
    bool sequential, in_block;
    bool of_parts; /* no file has its layers: a block was written as them */
    char *
        path; /* in files of weights, of a model within the model; NULL: it is the whole, or it is not known; its own */
    char *place;                     /* in the text, as of clq_layer; NULL: it is the whole; its own */
    char **stores;                   /* by layer: its path there; NULL: it is not known */
    json_t *config, *own_config;     /* of a Functional model; that of a block is its own */
    unsigned heeded, masked;         /* of a block: bits of the inputs whose masks it was written for, and of those of
                                        them that had one; */
    unsigned bits;                   /* bits of its inputs, */
    json_t *flags, *given_arguments; /* and the keywords and other arguments of its first call; borrowed */
    clq_tensor given;
    clq_keras_graph **inner; /* by layer: a model within it, once that was applied; else NULL */
    json_t *layers, *index;  /* index: by name, of layers */
    clq_keras_node *nodes;   /* of all layers, one behind the other */
    uint32_t *first_node;    /* by layer; one more at the end */
    uint32_t *added;         /* by layer: its first tensor in the model; 0: it is not there yet */
    json_t **keywords;       /* by layer: those of its first call; borrowed */
    json_t **arguments;      /* by layer: those of its first call, if some were no tensors; borrowed */
    uint32_t *positional;    /* by layer: how many tensors of its first call are no keywords' */
    clq_keras_source *sources;
    clq_keras_masks *masks; /* what Keras does to them (keras_masks.h); NULL: of a block, or not known yet; its own */
    uint32_t node_count, source_count;
    size_t source_capacity;
};

static inline json_t *clq_keras_layer_at(const clq_keras_graph *f, size_t i) { return json_array_get(f->layers, i); }
static inline bool clq_keras_is_input(json_t *layer) { return strcmp(clq_keras_class(layer), "InputLayer") == 0; }
static inline bool clq_keras_is_sequential(json_t *layer) { return strcmp(clq_keras_class(layer), "Sequential") == 0; }

/* A model of Keras's own classes as a layer. */
static inline bool clq_keras_is_model(json_t *layer) {
    const char *module = json_string_value(json_object_get(layer, "module"));
    const bool keras = !module || strcmp(module, "keras") == 0 || strncmp(module, "keras.", 6) == 0;
    const char *class_name = clq_keras_class(layer);
    if (clq_keras_is_block(layer)) return true;
    return keras && (clq_keras_is_sequential(layer) || strcmp(class_name, "Functional") == 0 ||
                     strcmp(class_name, "Model") == 0);
}

/* Such a model that is no block: the file has its layers. */
static inline bool clq_keras_is_inner_model(json_t *layer) {
    return clq_keras_is_model(layer) && !clq_keras_is_block(layer);
}

static inline const char *clq_keras_name(json_t *layer) {
    const char *name = json_string_value(json_object_get(layer, "name"));
    return name ? name : json_string_value(json_object_get(json_object_get(layer, "config"), "name"));
}

/* Room for what is noted of each layer. */
clq_status clq_keras_make_room(clq_keras_graph *f);
/* Notes the paths of the layers in files of weights (keras_paths.c). */
clq_status clq_keras_note_stores(clq_keras_graph *f);
/* Notes the layers by name, then their nodes, then what each node reads. */
clq_status clq_keras_index_layers(clq_keras_graph *f);
clq_status clq_keras_count_nodes(clq_keras_graph *f);
clq_status clq_keras_read_nodes(clq_keras_graph *f);
/* Whether two calls, by their arguments, are given the same beside tensors. */
bool clq_keras_same_arguments(json_t *a, json_t *b);
/* The node that gives the tensor [layer, node, tensor]. How many it gives is known once it is added. */
clq_status clq_keras_find_node(const clq_keras_graph *f, json_t *history, const char *where, clq_keras_source *out);
/* What a model takes, and what it gives, in Keras's order. A block of several outputs is such a model, too. Errors:
 * FORMAT, UNSUPPORTED, MEMORY. */
clq_status clq_keras_find_inputs(const clq_keras_graph *f, clq_keras_source out[CLQ_MODEL_INPUTS_MAX], size_t *count);
clq_status clq_keras_find_outputs(const clq_keras_graph *f, clq_keras_source out[CLQ_BLOCK_OUTPUTS_MAX], size_t *count);

#endif
