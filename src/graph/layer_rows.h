/* Kinds of layers. Each kind is a row in a file of layers/, and in the list of layers/kinds.c. A part of graph.h.
 *
 * A row lists each attribute of its layers once. By this list, the builder checks what it was given, interop reads and
 * writes Keras's files, and models get keys for what is kept of them. */
#ifndef CLQ_GRAPH_LAYER_ROWS_H
#define CLQ_GRAPH_LAYER_ROWS_H

#include "ops/ops.h"
#include <clique/model.h>

typedef enum clq_attribute_type {
    /* The type of the config's member, and how files write it. */
    CLQ_ATTRIBUTE_SIZES,       /* size_t[count]: each at least 1; in files one number may stand for all */
    CLQ_ATTRIBUTE_SIDES,       /* size_t[count][2]: in front of an axis and behind it; in files one number may stand for
                                  several */
    CLQ_ATTRIBUTE_FLAG,        /* bool */
    CLQ_ATTRIBUTE_OPPOSITE,    /* bool: true if the file says false */
    CLQ_ATTRIBUTE_NUMBER,      /* double */
    CLQ_ATTRIBUTE_NUMBERS,     /* clq_numbers: none, one, or a list */
    CLQ_ATTRIBUTE_SEED,        /* uint64_t; 0: none */
    CLQ_ATTRIBUTE_ACTIVATION,  /* clq_activation */
    CLQ_ATTRIBUTE_PADDING,     /* clq_padding */
    CLQ_ATTRIBUTE_AXIS,        /* int: 0 is the first behind the batch, -1 the last, … */
    CLQ_ATTRIBUTE_NEW_AXIS,    /* int: the same, of a tensor that has one axis more than the input */
    CLQ_ATTRIBUTE_AXES,        /* clq_axes: one or several; none: as the layer decides */
    CLQ_ATTRIBUTE_SHARED,      /* unsigned: bit d: all places along axis d share one value; in files a shape with 1
                                  there */
    CLQ_ATTRIBUTE_SHAPE,       /* clq_shape; in files one size may be -1: the size that the others leave */
    CLQ_ATTRIBUTE_BATCH_SHAPE, /* the same; in files with the batch in front */
    CLQ_ATTRIBUTE_OPEN_SHAPE,  /* clq_shape; 0: the size is open, in files null; in files one size may stand without a
                                  list */
    CLQ_ATTRIBUTE_ORDER,       /* clq_shape: axes from 1 on; in files with the batch, 0, in front */
    CLQ_ATTRIBUTE_INITIALISER, /* clq_initialiser */
    CLQ_ATTRIBUTE_RANGE,       /* clq_draw_range; in files one number f means the range from -f, but at least `least`,
                                  to f */
    CLQ_ATTRIBUTE_TEXT,        /* clq_short_text */
    CLQ_ATTRIBUTE_COPY,        /* const char *: a text of any length, or NULL. The layer has a copy. Not in files */
    CLQ_ATTRIBUTE_CHOICE,      /* int: the index of the file's word in `words` */
    CLQ_ATTRIBUTE_PADS,        /* clq_pads; in files with the batch in front */
    CLQ_ATTRIBUTE_SECTIONS,    /* clq_sections */
    CLQ_ATTRIBUTE_AXIS_PAIR,   /* int[2]: as AXIS, of the first input and of the second; in files one may stand for both
                                */
    /* Arguments of a call beside tensors; in files behind the first of them. */
    CLQ_ATTRIBUTE_OPERAND,        /* clq_operand: numbers in place of one of two tensors */
    CLQ_ATTRIBUTE_ARGUMENT,       /* clq_operand: numbers in place of argument number `count` of several */
    CLQ_ATTRIBUTE_TENSOR,         /* size_t: which input is the keyword's tensor, from 1 on; 0: none was given */
    CLQ_ATTRIBUTE_KEYWORD_FLAG,   /* bool, by keyword */
    CLQ_ATTRIBUTE_KEYWORD_NUMBER, /* double, by keyword */
    CLQ_ATTRIBUTE_PLACES,         /* clq_places: what the layer takes of each axis */
    /* Attributes without a member. Files may have only this value: */
    CLQ_ATTRIBUTE_ONLY_WORD,      /* `word` */
    CLQ_ATTRIBUTE_ONLY_NUMBER,    /* `fallback` */
    CLQ_ATTRIBUTE_ONLY_FALSE,     /* false */
    CLQ_ATTRIBUTE_ONLY_NULL,      /* null */
    CLQ_ATTRIBUTE_ONLY_LAST_AXIS, /* the last axis, by whatever number */
    CLQ_ATTRIBUTE_ONLY_FLOAT,     /* a type of floating point; null, too */
    CLQ_ATTRIBUTE_UNUSED,         /* any value: it has a meaning only with another attribute, which is refused */
    CLQ_ATTRIBUTE_TYPES
} clq_attribute_type;

/* Any count of numbers. A layer's config has a copy of its own. */
typedef struct clq_numbers {
    size_t count;
    const float *values;
} clq_numbers;

/* An operand that is a number or an array, in a call with several operands. */
typedef struct clq_operand {
    unsigned place; /* number of the operand, from 1 on; 0: there is none, and a tensor stands in its place */
    double number;
    clq_numbers array; /* if it has numbers, they are the operand, in place of `number` */
    clq_shape shape;   /* of the array, without leading axes of size 1 */
    unsigned in_front; /* how many leading axes of size 1 the array was given with */
} clq_operand;

/* The range that numbers are drawn from at random. */
typedef struct clq_draw_range {
    double low, high;
    bool given;
} clq_draw_range;

/* A short text, for example an equation. */
enum { CLQ_SHORT_TEXT_MAX = 64 };
typedef struct clq_short_text {
    char text[CLQ_SHORT_TEXT_MAX];
} clq_short_text;

/* For each axis behind the batch: how many places are added in front of it and behind it. */
typedef struct clq_pads {
    unsigned rank;
    size_t sides[CLQ_SHAPE_MAX][2];
} clq_pads;

/* How an axis is cut: into `parts` parts of equal size; if parts is 0, in front of each of `places`. */
enum { CLQ_SECTIONS_MAX = 32 };
typedef struct clq_sections {
    size_t parts, count, places[CLQ_SECTIONS_MAX];
} clq_sections;

/* What is taken of the axes behind the batch, in order, as by Python's indices. Axes without an entry are taken
 * whole. */
enum { CLQ_PLACES_MOST = 8 };
typedef enum clq_place_kind {
    CLQ_PLACES_RANGE, /* as Python's first:end:step */
    CLQ_PLACES_ONE,   /* the place `first`; the axis is dropped */
    CLQ_PLACES_NEW    /* a new axis of size 1, which x does not have */
} clq_place_kind;
typedef struct clq_places {
    /* rest: index + 1 of the entry right behind an ellipsis. 0: axes without an entry are the last ones. */
    unsigned count, rest;
    struct clq_index {
        clq_place_kind kind;
        bool from_begin, to_end; /* of a RANGE: `first`, or `end`, is left out */
        long first, end, step;   /* first and end below 0: counted from the axis's end */
    } axes[CLQ_PLACES_MOST];
} clq_places;

typedef struct clq_attribute {
    const char *key, *alias; /* its name in Keras; its name in Keras 2, or NULL */
    clq_attribute_type type;
    size_t at;   /* offset of the member in the config */
    bool needed; /* there is no default */
    /* The default, if it is not zero: for files without the key, and for sizes that are 0 in the builder. Sizes without
     * a default may stay 0; `infer` decides what they mean. A RANGE is from 0 to this by default. */
    double fallback;
    double least, most; /* NUMBER: its range. RANGE: it must overlap this range. Both 0: any finite one */
    bool below;         /* NUMBER: it must be below `most` */
    bool causal;        /* PADDING: CLQ_PADDING_CAUSAL is allowed, too */
    unsigned count;     /* SIZES and SIDES: how many; 0: one. ARGUMENT: its place, from 1 on */
    const char *word;
    const char *const *words; /* CHOICE: the words in order; NULL behind the last */
    unsigned implicit; /* TENSOR: unless a call gives it, it is the mask of the input of this number, from 1 on. 0: no
                          mask */
    bool several;      /* TENSOR: a call may give a list of tensors, too. The layer knows how long the list is */
    bool unnamed;      /* `implicit`: calls have no keyword for it */
    bool alone;        /* `implicit`: no mask if the call has other tensors, as Keras gives masks to calls */
    bool each;         /* `implicit`: the masks of all inputs in order, if any input has one. In place of a missing mask
                          stands the input */
    bool whole;        /* NUMBER and NUMBERS: files have whole numbers */
    bool not_null;     /* CHOICE: null in a file is not the default, but refused */
    bool newer;        /* earlier versions of Keras refuse the key, so a default is not written */
    bool listed;       /* NUMBERS: Keras takes only lists, also for one number */
    bool own;          /* Keras has no such key: only parts of blocks have a value */
} clq_attribute;

/* The clq_layer_kind.output_member of a config's member. */
#define CLQ_OUTPUT_MEMBER(config, member) (offsetof(config, member) + 1)

typedef struct clq_layer clq_layer;
typedef struct clq_model_tensor clq_model_tensor;
typedef struct clq_expansion clq_expansion;
typedef struct clq_layer_kind {
    const char *type;    /* Keras's class name, for files and tables: "Conv2D" */
    const char *stem;    /* how made names begin: "conv2d" */
    size_t inputs[2];    /* least and most */
    size_t config_bytes; /* size of the config that the builder is given; 0: there is none */
    const clq_attribute *attributes;
    size_t attribute_count;
    const char *module;             /* module of the class in Keras. NULL: Keras's layers */
    const char *const *input_names; /* (inputs[1]) keywords by which calls may pass tensors. NULL: none */
    bool moves;                     /* its output has its input's values, in other places, and perhaps zeros */
    bool draws;                     /* it draws random numbers in training: each use takes a stream of its own
                                       (clq_expansion) */
    bool takes_scalars;             /* its inputs may be without axes: one value for each sample */
    bool is_table;                  /* its variable has a row for each number or place, and a token reads one row */
    /* Whether the layer is for samples of bytes as they are, from 0 to 255. For other layers, bytes are divided by 255.
     * NULL: it is not. */
    bool (*takes_bytes)(const clq_layer *layer);
    /* Frees what a config has beside its attributes. NULL: nothing. */
    void (*release)(void *config);
    bool takes_list; /* in files, its inputs are one argument of a call: a list */
    /* How many tensors the layer gives. NULL: one. A kind can give several in two ways. With output_member
     * (CLQ_OUTPUT_MEMBER), each tensor is a layer of its own; this member of its config, a size_t, has the tensor's
     * number. If output_member is 0, the layer gives the values of all tensors in one, and `output` finds where tensor
     * `index` is in that, and its shape. */
    unsigned (*output_count)(const clq_layer *layer);
    size_t output_member;
    clq_status (*output)(const clq_model *model, const clq_model_tensor *y, unsigned index, clq_arrangement *places,
                         clq_shape *shape);
    /* If this keyword of a call is true, the layer does the opposite. Such a use has its tensor a second time as an
     * input. NULL: there is no such keyword. */
    const char *opposite;
    /* If this keyword of a call is true, Keras gives one more tensor behind the layer's own. No layer here gives this
     * tensor: models that read it are refused. NULL: there is no such keyword. */
    const char *further;
    /* How many rows there are to read, for a layer whose input is row numbers. NULL: the input is not row numbers. */
    size_t (*rows)(const clq_layer *layer);
    /* Finds the mask of the layer's output y: a tensor that is not 0 at each step that counts. If its id is 0, all
     * steps count. The function may add layers. NULL: the inputs' masks end here. */
    clq_tensor (*mask)(clq_model *model, uint32_t layer, clq_tensor y);
    /* In Keras, a call takes the masks off its positional inputs, so that layers which run later see none. Models here
     * keep these masks. In models from files, keras_masks.c takes them off. */
    bool ends_masks;
    /* Keras's call of the layer has an argument `mask`. Unless the call gives it, it is the mask of the layer's one
     * input. */
    bool takes_mask;
    /* Whether the layer makes each token of y only of the inputs' tokens at the same place, and perhaps of tokens in
     * front of this place. The tokens of y lie along its first axis. Only such layers can be in models that decode
     * (decode.c): there `infer` sees one token, and `expand` adds what computes this token. NULL: no. */
    bool (*by_token)(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y);
    /* Checks the layer's settings against the shapes of y's inputs; sets y's shape. */
    clq_status (*infer)(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
    /* Declares the layer's variables (clq_model_declare_variable), each time it is applied. NULL: it has none. */
    clq_status (*declare)(clq_model *model, clq_layer *layer, const clq_model_tensor *y);
    /* stores: for each variable, by its number, where Keras's files of weights have it, behind the layer's place. NULL:
     * "vars/0" and so on, in the order in which variables are declared. zero_store: the same for a whole number that
     * Keras stores beside the variables. NULL: there is none. */
    const char *const *stores;
    const char *zero_store;
    /* Adds the operations that compute e->y to a step graph. x: the values of y's inputs. Gives y's value (a
     * clq_id). */
    uint32_t (*expand)(clq_expansion *e, const uint32_t *x);
} clq_layer_kind;

/* A clq_layer_kind.mask: y has the mask of the layer's first input. (model.c) */
clq_tensor clq_layer_keep_mask(clq_model *model, uint32_t layer, clq_tensor y);
/* A clq_layer_kind.mask for several inputs: a step counts if it counts in any input. If an input has no mask, all steps
 * count. (merge.c) */
clq_tensor clq_layer_join_masks(clq_model *model, uint32_t layer, clq_tensor y);

/* All kinds that files may have, one by one from 0 on; NULL: there are no more. */
const clq_layer_kind *clq_layer_kind_at(size_t index);
/* The kind of a class in a module (clq_layer_kind.module); NULL: there is none. module NULL: Keras's layers. */
const clq_layer_kind *clq_layer_kind_named(const char *type, const char *module);

/* Frees what attributes of a config point to; takes NULL. (layers/attributes.c) */
void clq_layer_release_config(const clq_layer_kind *kind, void *config);

/* Adds a layer and applies it to inputs[0 … count). name NULL: made as Keras does. config: of the kind's type; it is
 * copied, with what its attributes point to. Gives its output's tensor, or none with a failure noted. */
clq_tensor clq_model_add_layer(clq_model *model, const clq_layer_kind *kind, const char *name, const void *config,
                               const clq_tensor *inputs, size_t count);
/* clq_model_outputs_of: how many tensors the layer of x gives. clq_model_output_of: tensor `index` of these. x is
 * tensor 0, or has the values of all. name NULL: made. (layers/outputs.c) */
unsigned clq_model_outputs_of(const clq_model *model, clq_tensor x);
clq_tensor clq_model_output_of(clq_model *model, clq_tensor x, unsigned index, const char *name);

#endif
