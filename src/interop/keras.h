/* The reader of Keras's model files, private to interop. Its parts: the file (keras_json.c), Functional models
 * (keras_functional.c), layers by class (keras_layers.c), and the attributes of layers (keras_attributes.c,
 * keras_initialisers.c). */
#ifndef CLQ_INTEROP_KERAS_H
#define CLQ_INTEROP_KERAS_H

#include "interop/interop.h"

const char *clq_keras_class(json_t *object); /* its class_name; "" if it has none */
/* Whether an argument of a call is a tensor, that is, an output of a layer. */
bool clq_keras_is_tensor(json_t *argument);
/* The number of tensors in an argument: 1 if it is a tensor; if `several`, also the length of a list of tensors. 0: the
 * argument is neither. */
size_t clq_keras_tensors(json_t *argument, bool several);
/* clq_keras_write_layer writes a layer of a Functional model's file; it takes config and nodes, the layer's
 * inbound_nodes. clq_keras_refer writes a reference to a tensor: output number `output` of a layer's node. shape NULL:
 * the reference is for a config that Clique alone reads. Both give NULL if memory is out. */
json_t *clq_keras_write_layer(const char *module, const char *class_name, const char *name, json_t *config,
                              json_t *nodes);
json_t *clq_keras_refer(const char *layer, uint32_t node, uint32_t output, const clq_shape *shape);
/* FORMAT if it is not an array of layers; UNSUPPORTED if it has too many. */
clq_status clq_keras_check_layers(json_t *layers);
/* "config.layers[3] (conv2d)" */
void clq_keras_describe_place(json_t *layer, size_t index, char where[160]);

/* ---- a layer's attributes ---- */

/* A layer's configuration while it is read. The reader takes every key that it supports or knows to be harmless. The
 * keys that are left at the end are refused by their paths, so that nothing a file asks for is silently ignored. */
typedef struct clq_keras_attributes {
    json_t *object;     /* borrowed */
    json_t *left;       /* the keys that nobody has taken yet; owned */
    json_t *arguments;  /* "args" of the call, if some are not tensors, until they are taken; else NULL; borrowed */
    json_t *first;      /* the first argument of the call; NULL: not known; borrowed */
    json_t *keywords;   /* "kwargs" of the call; NULL: none; borrowed */
    size_t next_tensor; /* number of the next input that is passed by keyword, counted from 1 */
    bool is_part;       /* as in clq_keras_call */
    char path[256];     /* "config.layers[3] (conv2d).config" */
    clq_status status;  /* the first failure; its detail is this thread's error. After it, no key is looked at */
} clq_keras_attributes;
/* Opens the configuration of config.layers[index]. The caller closes it, also after a failure. */
void clq_keras_open(json_t *layer, size_t index, clq_keras_attributes *out);
/* Refuses the keys that are left, unless their values are null, and frees what *a owns. Gives the first failure of all
 * calls. */
clq_status clq_keras_close(clq_keras_attributes *a);
/* Notes a failure of the attribute, "path.key: …", unless an earlier one was noted. */
void clq_keras_refuse(clq_keras_attributes *a, clq_status status, const char *key, const char *format, ...)
    CLQ_PRINTF(4, 5);
/* Each of these takes a key and gives its value. Borrowed; NULL: the key is missing or null. */
json_t *clq_keras_attribute(clq_keras_attributes *a, const char *key);
const char *clq_keras_text(clq_keras_attributes *a, const char *key, const char *fallback); /* NULL: it is needed */
bool clq_keras_flag(clq_keras_attributes *a, const char *key, bool fallback);
bool clq_keras_is_size(const json_t *value, size_t *out); /* a whole number from 1 to INT32_MAX */
/* Reads an initialiser that is given by name or as an object. If the key is missing, *out is the layer's default. */
void clq_keras_read_initialiser(clq_keras_attributes *a, const char *key, clq_initialiser *out);
/* Reads the attributes of the kind's rows into config, a config of this kind that is all zero. x: the layer's first
 * input. */
void clq_keras_read_rows(clq_keras_attributes *a, const clq_layer_kind *kind, const clq_model_tensor *x, void *config);

/* ---- properties of variables (keras_properties.c) ---- */

/* A property of variables that configurations set by keys with one ending. Each property reads and writes its own
 * members of clq_properties alone. */
typedef struct clq_keras_property {
    const char *end;     /* "_regularizer" */
    const char *one;     /* for messages, what variables have: "a penalty" */
    const char *besides; /* "activity": "activity_regularizer" is about no variable. NULL: all keys are */
    bool (*read)(json_t *value, clq_properties *out); /* false: it is none of Keras's own, or unfit */
    void (*give)(clq_model *model, clq_tensor x, const char *variable, const clq_properties *found);
    bool (*is_on)(const clq_properties *found);
    bool (*is_same)(const clq_properties *a, const clq_properties *b);
    json_t *(*write)(const clq_properties *found); /* NULL if memory is out */
} clq_keras_property;
extern const clq_keras_property clq_keras_penalty, clq_keras_constraint;
bool clq_keras_is_own(json_t *object); /* it names no module but Keras's */

/* Takes the keys of properties, if their values are supported. */
void clq_keras_take_properties(clq_keras_attributes *a);
/* Gives properties to the variables of the layer whose output is x, as config, the layer's configuration, asks for. */
void clq_keras_give_properties(clq_model *model, clq_tensor x, json_t *config);
/* Adds the properties of the layer's variables to *config, the configuration that is written. *config: NULL once memory
 * is out. Errors: UNSUPPORTED. */
clq_status clq_keras_write_properties(const clq_model *model, const clq_layer *layer, json_t **config);

/* ---- layers ---- */

/* Whether layers of this dtype or dtype policy keep float32 variables. Layers of mixed precision do: the trainer's
 * settings, not the file, say in which precision Clique computes. *name: what the file calls the type; NULL: the file
 * names none. */
bool clq_keras_keeps_floats(json_t *dtype, const char **name);
/* OK if clq_keras_add_layer can add a layer of this class. layer: config.layers[index]. Errors: FORMAT, UNSUPPORTED. */
clq_status clq_keras_check_class(json_t *layer, size_t index);
/* A call of a layer: what the layer is applied to. */
typedef struct clq_keras_call {
    const clq_tensor *inputs; /* (count) */
    size_t count, positional; /* the first `positional` inputs are passed by place or input name, the rest by keyword */
    json_t *arguments;        /* "args" of the call, if some of them are not tensors; else NULL */
    json_t *first;            /* the first of "args"; NULL: not known */
    json_t *keywords;         /* "kwargs" of the call; NULL: none */
    const char *scope;        /* names of the inner models around the layer, joined by dots; NULL: it is in none */
    bool frozen;              /* a model around the layer is not trained */
    bool is_part;             /* the layer is a part of a block that Clique wrote down; no file has it */
    bool is_itself;           /* the layer stands for the whole block around it, and has the block's name */
} clq_keras_call;
/* Whether the keywords of two calls of the layer ask for the same. */
bool clq_keras_same_keywords(json_t *layer, json_t *a, json_t *b);
/* Whether the layer's kind takes this keyword of a call. */
bool clq_keras_takes_keyword(json_t *layer, const char *key);
/* Whether the keywords of a call make the layer do its opposite (clq_layer_kind.opposite). */
bool clq_keras_is_opposite(json_t *layer, json_t *keywords);
/* Whether this keyword asks the layer for one more output (clq_layer_kind.further). */
bool clq_keras_is_further(json_t *layer, const char *key);
/* Row number i of those rows of the layer's kind whose keywords may be tensors; NULL: there are no more. */
const clq_attribute *clq_keras_tensor_row(json_t *layer, size_t i);
/* The keyword by which a call of the layer may pass input i; NULL: none. */
const char *clq_keras_input_name(json_t *layer, size_t i);
/* Whether a call of the layer ends masks (clq_layer_kind.ends_masks), and whether it looks at its inputs' masks. */
bool clq_keras_ends_masks(json_t *layer);
bool clq_keras_heeds_masks(json_t *layer);
bool clq_keras_takes_mask(json_t *layer); /* as clq_layer_kind.takes_mask */
/* Adds the layer to the model, and applies it. */
clq_status clq_keras_add_layer(clq_model *model, json_t *layer, size_t index, const clq_keras_call *call,
                               clq_tensor *out);
/* Reads the shape and the name of an InputLayer, config.layers[index], which is the model's input number `input`.
 * *name: borrowed; NULL: it has none. */
clq_status clq_keras_read_input(json_t *layer, size_t index, const clq_keras_sizes *sizes, size_t input, clq_shape *out,
                                const char **name);
/* MISMATCH if the caller asks for the shapes of more inputs than the model has. */
clq_status clq_keras_check_sizes(const clq_keras_sizes *sizes, size_t inputs);
/* Adds an input of the shape that a "build_input_shape" or "batch_input_shape" has. Its first entry, the batch, must be
 * null. */
clq_status clq_keras_add_shape(clq_model *model, const clq_keras_sizes *sizes, json_t *shape, const char *name,
                               const char *path, clq_tensor *out);

/* ---- layers that are made of others (keras_blocks.c) ---- */

bool clq_keras_is_block(json_t *layer);
/* The name of a block's input i, which is also the keyword that passes it; NULL: there are no more. */
const char *clq_keras_block_input(json_t *layer, size_t i);
/* How many tensors a call of a block may pass by their places. SIZE_MAX: the layer is no block. */
size_t clq_keras_block_places(json_t *layer);
/* Whether calls of a block take this keyword, which is true or false; whether two calls agree in all such keywords. */
bool clq_keras_block_takes_flag(json_t *layer, const char *key);
bool clq_keras_block_same_flags(json_t *layer, json_t *a, json_t *b);
/* Whether calls of a block take arguments that are not tensors. */
bool clq_keras_block_takes_arguments(json_t *layer);
/* Whether a call of the block ends the mask of its first input, as MultiHeadAttention does. */
bool clq_keras_block_ends_mask(json_t *layer);
/* Whether all layers of the block are parts, which no file has. A wrapper of Keras, such as Bidirectional, has layers
 * that are in the file. */
bool clq_keras_block_has_parts(json_t *layer);
/* The class of block number i, counting blocks whose class has no kind; NULL: there are no more. */
const char *clq_keras_block_class(size_t i);
enum { CLQ_BLOCK_OUTPUTS_MAX = 64 }; /* most tensors that a block gives */
/* A call of a block. */
typedef struct clq_keras_block_use {
    const clq_model *model;
    json_t *layer;            /* the block */
    const clq_tensor *inputs; /* the inputs that the call gives, in the order of their names */
    unsigned given;           /* bit i: the call gives the input of name i */
    json_t *keywords;         /* "kwargs" of the call; NULL: none */
    json_t *arguments;        /* "args" of the call, if some of them are not tensors; else NULL */
    unsigned *heeded; /* out: bits of the `inputs` whose masks the block was written for. If such an input has no mask
                         in this call, later calls are refused if it has one */
} clq_keras_block_use;
/* Writes the config of a Functional model that computes what the block computes. Its inputs are those that the call
 * gives. "mask_of" names the tensor whose mask the output has; without it, the output has no mask. *out: the caller's.
 * path: the block, for messages. */
clq_status clq_keras_write_block(json_t *layer, const char *path, const clq_keras_block_use *use, json_t **out);

/* Checks the dtype and `trainable` of a block or backbone. layer: its place, for messages; NULL: it is the whole model.
 * Errors: FORMAT, UNSUPPORTED. */
clq_status clq_keras_check_common(json_t *config, const char *layer);

/* ---- keras_hub's backbones by class name and hyper-parameters (keras_backbones.c) ---- */

bool clq_keras_is_backbone(json_t *root);
const char *clq_keras_backbone_class(size_t i); /* the class of backbone i; NULL: there are no more */
/* Writes the config of a Functional model that computes what the backbone computes. *out: the caller's. Errors: FORMAT,
 * UNSUPPORTED, MEMORY. */
clq_status clq_keras_write_backbone(json_t *root, json_t **out);

/* Adds all layers of a Functional model's config and finishes the model. written: Clique wrote the config, and no file
 * has it; files of weights then have the layers by their names. */
clq_status clq_keras_read_functional(clq_model *model, const clq_keras_sizes *sizes, json_t *config, bool written);
/* Adds all layers of a Sequential model and finishes the model. config: an object, or, in files of early Keras 2, the
 * list of layers itself. given: the tensor that the first layer reads, unless that layer is an InputLayer. */
clq_status clq_keras_read_sequential(clq_model *model, const clq_keras_sizes *sizes, json_t *config, json_t *layers,
                                     clq_tensor given);

#endif
