/* The parts of the reader of Keras's model files: the file (keras_json.c), Functional models (keras_functional.c),
 * layers by class (keras_layers.c), their attributes (keras_attributes.c, keras_initialisers.c). Private to interop. */
#ifndef CLQ_INTEROP_KERAS_H
#define CLQ_INTEROP_KERAS_H

#include "interop/interop.h"

const char *clq_keras_class(json_t *object); /* its class_name; "" where it has none */
/* Whether an argument of a call is a tensor: what a layer gave. */
bool clq_keras_is_tensor(json_t *argument);
/* How many tensors an argument is: one, or a list of them if there may be several; 0: it is none. */
size_t clq_keras_tensors(json_t *argument, bool several);
/* Both are taken; NULL if memory is out. A layer of a Functional model's file, which is applied as its nodes say; and
 * what names a tensor there: output number `output` of a layer's node. shape NULL: of a file that is never Keras's. */
json_t *clq_keras_write_layer(const char *module, const char *class_name, const char *name, json_t *config,
                              json_t *nodes);
json_t *clq_keras_refer(const char *layer, uint32_t node, uint32_t output, const clq_shape *shape);
/* FORMAT unless it is an array of layers; UNSUPPORTED where it has too many. */
clq_status clq_keras_check_layers(json_t *layers);
/* "config.layers[3] (conv2d)" */
void clq_keras_describe_place(json_t *layer, size_t index, char where[160]);

/* ---- a layer's attributes ---- */

/* Every key is either taken or known to be harmless; what is left at the end is refused by its path, so that nothing a
 * file asks for is silently ignored. */
typedef struct clq_keras_attributes {
    json_t *object;     /* borrowed */
    json_t *left;       /* what nobody has taken yet */
    json_t *arguments;  /* of the call, if some are no tensors and nobody has taken them yet; borrowed */
    json_t *first;      /* of the call's arguments; NULL: it is not known; borrowed */
    json_t *keywords;   /* of the call; borrowed */
    size_t next_tensor; /* number of the next input that a keyword gives, from 1 on */
    bool is_part;       /* as of clq_keras_call */
    char path[256];     /* "config.layers[3] (conv2d).config" */
    clq_status status;  /* the first failure, whose detail is this thread's; what is taken behind it is not looked at */
} clq_keras_attributes;
/* The configuration of config.layers[index]. Close it in any case. */
void clq_keras_open(json_t *layer, size_t index, clq_keras_attributes *out);
/* Refuses what is left, unless null, and ends. The first failure of all calls. */
clq_status clq_keras_close(clq_keras_attributes *a);
/* Notes a failure of the attribute: "path.key: …". */
void clq_keras_refuse(clq_keras_attributes *a, clq_status status, const char *key, const char *format, ...)
    CLQ_PRINTF(4, 5);
/* Each takes the value of a key. Borrowed; NULL: it is missing or null. */
json_t *clq_keras_attribute(clq_keras_attributes *a, const char *key);
const char *clq_keras_text(clq_keras_attributes *a, const char *key, const char *fallback); /* NULL: it is needed */
bool clq_keras_flag(clq_keras_attributes *a, const char *key, bool fallback);
bool clq_keras_is_size(const json_t *value, size_t *out); /* a whole number from 1 on */
/* An initialiser by name or as an object; the default if it is missing. */
void clq_keras_read_initialiser(clq_keras_attributes *a, const char *key, clq_initialiser *out);
/* What the kind's rows take, of a layer whose first input is x. config: of the kind, zero. */
void clq_keras_read_rows(clq_keras_attributes *a, const clq_layer_kind *kind, const clq_model_tensor *x, void *config);

/* ---- properties of variables (keras_properties.c) ---- */

/* What keys with one end give to variables. In clq_properties each reads and writes its own alone. */
typedef struct clq_keras_property {
    const char *end;     /* "_regularizer" */
    const char *one;     /* what variables have: "a penalty" */
    const char *besides; /* "activity": "activity_regularizer" is about no variable. NULL: all are */
    bool (*read)(json_t *value, clq_properties *out); /* false: it is none of Keras's own */
    void (*give)(clq_model *model, clq_tensor x, const char *variable, const clq_properties *found);
    bool (*is_on)(const clq_properties *found);
    bool (*is_same)(const clq_properties *a, const clq_properties *b);
    json_t *(*write)(const clq_properties *found); /* NULL if memory is out */
} clq_keras_property;
extern const clq_keras_property clq_keras_penalty, clq_keras_constraint;
bool clq_keras_is_own(json_t *object); /* no module of others is named */

/* Takes the keys that are supported. */
void clq_keras_take_properties(clq_keras_attributes *a);
/* Gives the variables of the layer that gave x the properties of its configuration. */
void clq_keras_give_properties(clq_model *model, clq_tensor x, json_t *config);
/* Adds them to what is written of the layer. *config: NULL once memory is out. Errors: UNSUPPORTED. */
clq_status clq_keras_write_properties(const clq_model *model, const clq_layer *layer, json_t **config);

/* ---- layers ---- */

/* Whether layers of a type or policy keep float32. Those of mixed precision do: in how many bits Clique computes is the
 * trainer's precision. name: what the file calls it; NULL: nothing. */
bool clq_keras_keeps_floats(json_t *dtype, const char **name);
/* Of config.layers[index]. Whether the layer's class is one that clq_keras_add_layer adds. */
clq_status clq_keras_check_class(json_t *layer, size_t index);
/* What a layer is applied to. */
typedef struct clq_keras_call {
    const clq_tensor *inputs; /* (count) */
    size_t count, positional; /* the first so many are no keywords' */
    json_t *arguments;        /* "args" of the call, if some of these are no tensors; else NULL */
    json_t *first;            /* of "args"; NULL: it is not known */
    json_t *keywords;         /* "kwargs" of the call; NULL: none */
    const char *scope;        /* the model within the model that the layer is of; NULL: it is of the whole */
    bool frozen;              /* a model that it is within is not trained */
    bool is_part;             /* no file has the layer: a block was written as such */
    bool is_itself;           /* the block that it is of, whose name it has */
} clq_keras_call;
/* Whether keywords of two calls of the layer ask for the same. */
bool clq_keras_same_keywords(json_t *layer, json_t *a, json_t *b);
/* Whether the layer's kind takes a keyword of a call. */
bool clq_keras_takes_keyword(json_t *layer, const char *key);
/* Whether a call of the layer does the opposite (clq_layer_kind.opposite). */
bool clq_keras_is_opposite(json_t *layer, json_t *keywords);
/* Whether a keyword of calls of the layer asks for one more tensor (clq_layer_kind.further). */
bool clq_keras_is_further(json_t *layer, const char *key);
/* The rows of the layer's kind whose keywords may be tensors, in order: number i; NULL: there are no more. */
const clq_attribute *clq_keras_tensor_row(json_t *layer, size_t i);
/* The keyword by which a call of the layer may pass input i; NULL: none. */
const char *clq_keras_input_name(json_t *layer, size_t i);
/* Whether a call of the layer ends masks, as of clq_layer_kind; and whether it looks at those of its inputs. */
bool clq_keras_ends_masks(json_t *layer);
bool clq_keras_heeds_masks(json_t *layer);
bool clq_keras_takes_mask(json_t *layer); /* as of clq_layer_kind */
/* Adds the layer to the model, and applies it. */
clq_status clq_keras_add_layer(clq_model *model, json_t *layer, size_t index, const clq_keras_call *call,
                               clq_tensor *out);
/* Of an InputLayer, config.layers[index], which is the model's input number `input`. name: borrowed; NULL: it has none.
 */
clq_status clq_keras_read_input(json_t *layer, size_t index, const clq_keras_sizes *sizes, size_t input, clq_shape *out,
                                const char **name);
/* Whether the model has as many inputs as shapes are asked for. */
clq_status clq_keras_check_sizes(const clq_keras_sizes *sizes, size_t inputs);
/* Adds an input of the shape that an InputLayer or a "build_input_shape" has: the batch in front must be null. */
clq_status clq_keras_add_shape(clq_model *model, const clq_keras_sizes *sizes, json_t *shape, const char *name,
                               const char *path, clq_tensor *out);

/* ---- layers that are made of others (keras_blocks.c) ---- */

bool clq_keras_is_block(json_t *layer);
/* The name of what a block is applied to, by place and by keyword; NULL: there are no more. */
const char *clq_keras_block_input(json_t *layer, size_t i);
/* How many of its tensors a block, or any layer, may be given by their places. */
size_t clq_keras_block_places(json_t *layer);
/* Whether calls of a block take the keyword, which is true or false; and whether two calls have the same of these. */
bool clq_keras_block_takes_flag(json_t *layer, const char *key);
bool clq_keras_block_same_flags(json_t *layer, json_t *a, json_t *b);
/* Whether calls of a block take arguments that are no tensors. */
bool clq_keras_block_takes_arguments(json_t *layer);
/* Whether a call of the block ends the mask of its first input, as MultiHeadAttention does. */
bool clq_keras_block_ends_mask(json_t *layer);
/* Whether all its layers are parts, which no file has; a wrapper of Keras has layers of the file. */
bool clq_keras_block_has_parts(json_t *layer);
/* Of all blocks whose class has no kind; NULL: there are no more. */
const char *clq_keras_block_class(size_t i);
enum { CLQ_BLOCK_OUTPUTS_MAX = 64 }; /* tensors that a block gives */
/* A use of a block. */
typedef struct clq_keras_block_use {
    const clq_model *model;
    json_t *layer;            /* the block */
    const clq_tensor *inputs; /* those that are given, in the order of their names */
    unsigned given;           /* bit i: the one of name i */
    json_t *keywords;         /* of the call; NULL: none */
    json_t *arguments;        /* "args" of the call, if some of these are no tensors; else NULL */
    unsigned *heeded;         /* bits of `inputs` are set here: of those without a mask, later calls have none */
} clq_keras_block_use;
/* The config of a Functional model that does the same: its inputs are those that are given, and "mask_of" is the tensor
 * whose mask its output has, if it has one. The caller's. path: the block, for messages. */
clq_status clq_keras_write_block(json_t *layer, const char *path, const clq_keras_block_use *use, json_t **out);

/* FORMAT or UNSUPPORTED unless type and `trainable` of a layer that is written as others are as they may be. layer: its
 * place; NULL: it is the whole. */
clq_status clq_keras_check_common(json_t *config, const char *layer);

/* ---- keras_hub's backbones by class name and hyper-parameters (keras_backbones.c) ---- */

bool clq_keras_is_backbone(json_t *root);
const char *clq_keras_backbone_class(size_t i); /* of all backbones; NULL: there are no more */
/* The config of a Functional model that does the same; the caller's. Errors: FORMAT, UNSUPPORTED, MEMORY. */
clq_status clq_keras_write_backbone(json_t *root, json_t **out);

/* Adds all layers of a Functional model's config and finishes the model. written: no file has the config as it is, so
 * that files of weights have its layers by their names. */
clq_status clq_keras_read_functional(clq_model *model, const clq_keras_sizes *sizes, json_t *config, bool written);
/* The same of a Sequential model's layers. config: an object, or as early versions had it NULL. given: what the first
 * one reads, unless that is an InputLayer. */
clq_status clq_keras_read_sequential(clq_model *model, const clq_keras_sizes *sizes, json_t *config, json_t *layers,
                                     clq_tensor given);

#endif
