/* Kinds of layers: a row for each, in a file of layers/, and in the list of layers/kinds.c. A part of graph.h.
 *
 * A row has each attribute of its layers once: with it the builder checks what it was given, interop reads Keras's
 * files, and what is kept of a model is told from what is kept of another. */
#ifndef CLQ_GRAPH_LAYER_ROWS_H
#define CLQ_GRAPH_LAYER_ROWS_H

#include "ops/ops.h"
#include <clique/model.h>

typedef enum clq_attribute_type {
    /* The type of the config's member. */
    CLQ_ATTRIBUTE_SIZES,       /* size_t[count]: each at least 1; in files one number may stand for all */
    CLQ_ATTRIBUTE_SIDES,       /* size_t[count][2]: in front of an axis and behind it; in files one number, too */
    CLQ_ATTRIBUTE_FLAG,        /* bool */
    CLQ_ATTRIBUTE_OPPOSITE,    /* bool: true if the file says false */
    CLQ_ATTRIBUTE_NUMBER,      /* double */
    CLQ_ATTRIBUTE_NUMBERS,     /* clq_numbers: none, one, or a list */
    CLQ_ATTRIBUTE_SEED,        /* uint64_t; 0: none */
    CLQ_ATTRIBUTE_ACTIVATION,  /* clq_activation */
    CLQ_ATTRIBUTE_PADDING,     /* clq_padding */
    CLQ_ATTRIBUTE_AXIS,        /* int: 0 is the first behind the batch, -1 the last, … */
    CLQ_ATTRIBUTE_NEW_AXIS,    /* int: the same, of a tensor that has one axis more than the input */
    CLQ_ATTRIBUTE_AXES,        /* clq_axes: one or several; none: as the layer has it */
    CLQ_ATTRIBUTE_SHARED,      /* unsigned: bit d: all places along axis d share one; in files a shape with 1 there */
    CLQ_ATTRIBUTE_SHAPE,       /* clq_shape; in files one size may be -1: what the others leave */
    CLQ_ATTRIBUTE_BATCH_SHAPE, /* the same; in files with the batch in front */
    CLQ_ATTRIBUTE_OPEN_SHAPE,  /* clq_shape, with 0 for sizes that are left open; in files null, and one size alone, too
                                */
    CLQ_ATTRIBUTE_ORDER,       /* clq_shape: axes from 1 on; in files with the batch, 0, in front */
    CLQ_ATTRIBUTE_INITIALISER, /* clq_initialiser */
    CLQ_ATTRIBUTE_RANGE,       /* clq_draw_range; in files one number f is from -f, but at least `least`, to f */
    CLQ_ATTRIBUTE_TEXT,        /* clq_short_text */
    CLQ_ATTRIBUTE_COPY,   /* const char *: a text of any length, or NULL, of which the layer has a copy; not of files */
    CLQ_ATTRIBUTE_CHOICE, /* int: the place of the file's word among `words` */
    CLQ_ATTRIBUTE_PADS,   /* clq_pads; in files with the batch in front */
    CLQ_ATTRIBUTE_SECTIONS,  /* clq_sections */
    CLQ_ATTRIBUTE_AXIS_PAIR, /* int[2]: as AXIS, of the first input and of the second; in files one may stand for both
                              */
    /* Of what a call is given beside tensors; in files behind the first of them. */
    CLQ_ATTRIBUTE_OPERAND,        /* clq_operand: numbers in place of one of two tensors */
    CLQ_ATTRIBUTE_ARGUMENT,       /* clq_operand: numbers in place of argument number `count` of several */
    CLQ_ATTRIBUTE_TENSOR,         /* size_t: which input is the keyword's tensor, from 1 on; 0: none was given */
    CLQ_ATTRIBUTE_KEYWORD_FLAG,   /* bool, by keyword */
    CLQ_ATTRIBUTE_KEYWORD_NUMBER, /* double, by keyword */
    CLQ_ATTRIBUTE_PLACES,         /* clq_places: what is taken of each axis */
    /* Without a member: files may have only one value. */
    CLQ_ATTRIBUTE_ONLY_WORD,      /* `word` */
    CLQ_ATTRIBUTE_ONLY_NUMBER,    /* `fallback` */
    CLQ_ATTRIBUTE_ONLY_FALSE,     /* false */
    CLQ_ATTRIBUTE_ONLY_NULL,      /* null */
    CLQ_ATTRIBUTE_ONLY_LAST_AXIS, /* the last axis, by whatever number */
    CLQ_ATTRIBUTE_ONLY_FLOAT,     /* a type of floating point; null, too */
    CLQ_ATTRIBUTE_UNUSED,         /* anything: it means nothing without another one that is refused */
    CLQ_ATTRIBUTE_TYPES
} clq_attribute_type;

/* Numbers of which a file may have any count. A layer's are its own. */
typedef struct clq_numbers {
    size_t count;
    const float *values;
} clq_numbers;

/* A number, or an array, as an operand of several. */
typedef struct clq_operand {
    unsigned place; /* from 1 on; 0: there is none, and a tensor stands there */
    double number;
    clq_numbers array; /* if it has any, they are the operand in place of `number` */
    clq_shape shape;   /* of the array, without axes of one place in front */
    unsigned in_front; /* how many of those the array was given with */
} clq_operand;

/* Numbers between which others are drawn. */
typedef struct clq_draw_range {
    double low, high;
    bool given;
} clq_draw_range;

/* A short text, as of an equation. */
enum { CLQ_SHORT_TEXT_MAX = 64 };
typedef struct clq_short_text {
    char text[CLQ_SHORT_TEXT_MAX];
} clq_short_text;

/* Of each axis behind the batch: places in front of it and behind it. */
typedef struct clq_pads {
    unsigned rank;
    size_t sides[CLQ_SHAPE_MAX][2];
} clq_pads;

/* How an axis is cut: into `parts` of equal size; parts 0: in front of each of these places. */
enum { CLQ_SECTIONS_MAX = 32 };
typedef struct clq_sections {
    size_t parts, count, places[CLQ_SECTIONS_MAX];
} clq_sections;

/* What is taken of the axes behind the batch, in order: as Python's indices. Axes that are not named are taken whole.
 */
enum { CLQ_PLACES_MOST = 8 };
typedef enum clq_place_kind {
    CLQ_PLACES_RANGE, /* from `first`, `step` apart, up to in front of `end` */
    CLQ_PLACES_ONE,   /* `first`, and the axis goes */
    CLQ_PLACES_NEW    /* an axis of one place that x does not have */
} clq_place_kind;
typedef struct clq_places {
    unsigned count, rest; /* rest: index + 1 of the entry in front of which an ellipsis stands; 0: behind all */
    struct clq_index {
        clq_place_kind kind;
        bool from_begin, to_end; /* of a RANGE: `first`, or `end`, is left out */
        long first, end, step;   /* below 0: counted from the axis's end */
    } axes[CLQ_PLACES_MOST];
} clq_places;

typedef struct clq_attribute {
    const char *key, *alias; /* Keras's; what Keras 2 called it, or NULL */
    clq_attribute_type type;
    size_t at;   /* of the member in the config */
    bool needed; /* there is no default */
    /* The default, if it is not zero: of files without the key, and of the builder for sizes that are 0. Sizes without
     * a default may be left 0, and mean what `infer` makes of them. Of a RANGE: from 0 to this. */
    double fallback;
    double least, most; /* of a NUMBER: the range; of a RANGE: what it has a part of; both 0: any finite one; */
    bool below;         /* it ends below `most` */
    bool causal;        /* of a PADDING: CLQ_PADDING_CAUSAL, too */
    unsigned count;     /* of SIZES and SIDES; 0: one. Of an ARGUMENT: its place, from 1 on */
    const char *word;
    const char *const *words; /* of a CHOICE, in order; NULL behind the last */
    unsigned implicit; /* of a TENSOR: the mask of so many-th input, from 1 on, unless the call has one; 0: none */
    bool several;      /* of a TENSOR: a list of them is taken, too; the layer says how long it is */
    bool unnamed;      /* of an `implicit` one: no keyword of a call is it */
    bool alone;        /* of an `implicit` one: not if the call has other tensors, as Keras gives masks to calls */
    bool each;     /* of an `implicit` one: those of all inputs in order, if any has one; without one it is itself */
    bool whole;    /* of a NUMBER or NUMBERS: files have whole ones */
    bool not_null; /* of a CHOICE: null in a file is not the default, and is refused */
    bool newer;    /* earlier versions of Keras refuse the key: a default is not written */
    bool listed;   /* of NUMBERS: Keras takes a list alone, also of one number */
    bool own;      /* Keras has no such key: parts of blocks alone have a value */
} clq_attribute;

/* As of clq_layer_kind.output_member. */
#define CLQ_OUTPUT_MEMBER(config, member) (offsetof(config, member) + 1)

typedef struct clq_layer clq_layer;
typedef struct clq_model_tensor clq_model_tensor;
typedef struct clq_expansion clq_expansion;
typedef struct clq_layer_kind {
    const char *type;    /* Keras's class name, for files and tables: "Conv2D" */
    const char *stem;    /* of the names that are made: "conv2d" */
    size_t inputs[2];    /* least and most */
    size_t config_bytes; /* of what the builder is given; 0: nothing */
    const clq_attribute *attributes;
    size_t attribute_count;
    const char *module;             /* where its class is, if that is not Keras's layers */
    const char *const *input_names; /* (inputs[1]) by which calls may pass tensors; NULL: by none */
    bool moves;                     /* its output has its input's values, in other places, and zeros */
    bool draws;                     /* random numbers in training: each use takes a stream of its own (clq_expansion) */
    bool takes_scalars;             /* its inputs may be without axes: one value for each sample */
    bool is_table;                  /* its variable has a row for each number or place: a token reads one of them */
    /* Whether it is for samples of bytes as they are, 0 to 255, which are divided by 255 otherwise. NULL: no. */
    bool (*takes_bytes)(const clq_layer *layer);
    /* Ends what a config has beside its attributes. NULL: that is nothing. */
    void (*release)(void *config);
    bool takes_list; /* its inputs are one argument of a call in files: a list */
    /* Of layers that give several tensors: how many. NULL: one. Each is a layer of its own, whose config has the
     * tensor's number in a member, a size_t (CLQ_OUTPUT_MEMBER; 0: none); or else the layer gives the values of all in
     * one tensor, and `output` finds where number `index` is in that. */
    unsigned (*output_count)(const clq_layer *layer);
    size_t output_member;
    clq_status (*output)(const clq_model *model, const clq_model_tensor *y, unsigned index, clq_arrangement *places,
                         clq_shape *shape);
    /* The keyword of a call, true, by which the layer does the opposite. Such a use has its tensor a second time. NULL:
     * there is none. */
    const char *opposite;
    /* The keyword of a call, true or false, by which Keras gives one more tensor, behind the layer's own. No layer here
     * gives it: models that read it are refused. NULL: there is none. */
    const char *further;
    /* Of a layer that takes numbers of rows: how many rows there are. NULL: it takes none. */
    size_t (*rows)(const clq_layer *layer);
    /* The mask of what the layer gave: a tensor that is not 0 where a step counts; of id 0: all steps do. It may add
     * layers. NULL: the inputs' masks end here. */
    clq_tensor (*mask)(clq_model *model, uint32_t layer, clq_tensor y);
    /* In Keras a call takes the masks off what it gets by place, so that layers which run later see none. Models here
     * keep them: what comes from files has them taken off (keras_masks.c). */
    bool ends_masks;
    /* Keras's call of the layer has an argument `mask`, which is the mask of its one input unless the call has another.
     */
    bool takes_mask;
    /* Of a tensor y of tokens, which lie along its first axis: whether each is made of the inputs' tokens of the same
     * place alone, or of those in front of it, too. Then the layer is one of models that decode (decode.c): `infer`
     * sees one token, and `expand` adds what computes it. NULL: no. */
    bool (*by_token)(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y);
    /* Checks the layer's settings against the shapes of y's inputs; sets y's shape. */
    clq_status (*infer)(const clq_model *model, const clq_layer *layer, clq_model_tensor *y);
    /* Declares the layer's variables (clq_model_declare_variable), each time it is applied. NULL: it has none. */
    clq_status (*declare)(clq_model *model, clq_layer *layer, const clq_model_tensor *y);
    /* Where Keras's files of weights have each variable, by its number, behind the layer's place. NULL: "vars/0" and so
     * on, in the order in which they are declared. zero_store: of a whole number that Keras has beside them; NULL:
     * none. */
    const char *const *stores;
    const char *zero_store;
    /* Adds the operations that compute e->y to a step graph; x: the values of its inputs. Gives its value. (clq_id) */
    uint32_t (*expand)(clq_expansion *e, const uint32_t *x);
} clq_layer_kind;

/* As clq_layer_kind.mask: y's is that of the layer's first input. (model.c) */
clq_tensor clq_layer_keep_mask(clq_model *model, uint32_t layer, clq_tensor y);
/* A `mask` of kinds of several inputs: a step counts if it does in any of the inputs; if one of them has no mask, all
 * steps do. (merge.c) */
clq_tensor clq_layer_join_masks(clq_model *model, uint32_t layer, clq_tensor y);

/* All kinds that files may have, one by one from 0 on; NULL: there are no more. */
const clq_layer_kind *clq_layer_kind_at(size_t index);
/* The kind of a class and module, as of clq_layer_kind.module; NULL: there is none. module NULL: that of Keras's
 * layers. */
const clq_layer_kind *clq_layer_kind_named(const char *type, const char *module);

/* Frees what attributes of a config point to; takes NULL. (layers/attributes.c) */
void clq_layer_release_config(const clq_layer_kind *kind, void *config);

/* Adds a layer and applies it to inputs[0 … count). name NULL: made as Keras does. config: of the kind's type; it is
 * copied, with what its attributes point to. Gives its output's tensor, or none with a failure noted. */
clq_tensor clq_model_add_layer(clq_model *model, const clq_layer_kind *kind, const char *name, const void *config,
                               const clq_tensor *inputs, size_t count);
/* How many tensors the layer gives that gave x; and number `index` of them, of which x is number 0, or has all. name
 * NULL: made. (layers/outputs.c) */
unsigned clq_model_outputs_of(const clq_model *model, clq_tensor x);
clq_tensor clq_model_output_of(clq_model *model, clq_tensor x, unsigned index, const char *name);

#endif
