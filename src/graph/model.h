/* Building a model's layers, tensors and variables. Private to graph. */
#ifndef CLQ_GRAPH_MODEL_H
#define CLQ_GRAPH_MODEL_H

#include "graph/graph.h"

/* What a variable is for its layer. */
typedef struct clq_variable_kind {
    const char *what; /* "kernel": behind the layer's name */
    clq_dtype dtype;  /* f32 unless it is set */
    clq_role role;
    clq_initialiser initialiser;
    size_t ones[2];                                         /* as of clq_variable */
    void (*fill)(const clq_variable *variable, float *out); /* the same */
    unsigned fill_by;
    bool is_bias, decay, synchronized, fixed;
} clq_variable_kind;
extern const clq_variable_kind clq_variable_kernel, clq_variable_bias;
/* The same with another initialiser, unless that is the default. */
clq_variable_kind clq_variable_kind_by(const clq_variable_kind *kind, const clq_initialiser *initialiser);

/* ARGUMENT unless its numbers are in their ranges: "value nan should be finite". (initialisers.c) */
clq_status clq_initialiser_check(const clq_initialiser *initialiser);
/* ARGUMENT unless variables of this shape can have it. */
clq_status clq_initialiser_check_shape(const clq_initialiser *initialiser, const clq_shape *shape);

/* Index + 1 of variable `number` of a layer; 0: it has none. */
static inline uint32_t clq_layer_variable(const clq_layer *layer, unsigned number) {
    return number < layer->variable_places ? layer->variables[number] : 0;
}
/* Declares variable `number` of the layer, with the name `layer/what`. If the layer is applied again, the variable must
 * have the same shape as before. */
clq_status clq_model_declare_variable(clq_model *model, clq_layer *layer, unsigned number, clq_shape shape,
                                      const clq_variable_kind *kind);
/* Makes the layer's variables fixed state: from now on, nobody changes them, and they have no gradient. */
void clq_model_freeze_variables(clq_model *model, const clq_layer *layer);
/* After layers were dropped: drops their variables. kept[id]: the layer's new id; 0: it was dropped. */
void clq_model_keep_variables(clq_model *model, const uint32_t *kept);

/* ---- names of layers (names.c) ---- */

/* Makes room for the name of one more layer. Errors: MEMORY. */
clq_status clq_names_reserve(clq_model *model);
/* Names a layer that is about to be added: by `name`, or if that is NULL, by a name that is made. Errors: ARGUMENT. */
clq_status clq_name_layer(const clq_model *model, const char *name, clq_layer *layer);
/* clq_names_note: enters the name of layer `id`, for which there is room. clq_names_note_all: enters all names anew,
 * after layers were dropped. */
void clq_names_note(clq_model *model, uint32_t id);
void clq_names_note_all(clq_model *model);

/* The last dimension of a tensor. */
static inline size_t clq_model_channels(const clq_model_tensor *tensor) {
    return tensor->shape.dims[tensor->shape.rank - 1];
}
/* Dimensions of a tensor that a builder was given; 0: it is no tensor of the model. */
static inline unsigned clq_model_rank(const clq_model *model, clq_tensor x) {
    return x.model == model && x.id > 0 && x.id <= model->tensor_count ? model->tensors[x.id - 1].shape.rank : 0;
}

/* For a builder that fails before it can add a layer. Latches this thread's detail, unless the model is finished. Gives
 * no tensor. (model.c) */
clq_tensor clq_model_fail(clq_model *model, clq_status status, const char *layer);

/* clq_model_marked_layer: the layer that gave x, for a call that changes this layer. NULL: the call is not allowed, and
 * the failure was noted. clq_model_variable_named: the layer's variable of a name, as "kernel". NULL: it has none.
 * (model.c) */
clq_layer *clq_model_marked_layer(clq_model *model, clq_tensor x, const char *call);
clq_variable *clq_model_variable_named(clq_model *model, const clq_layer *layer, const char *what);

/* Makes room for `more` elements behind those of an owner's array. On failure, the array stays as it is. */
#define CLQ_RESERVE(owner, array, count, more, capacity)                                                               \
    clq_reserve((void **)&(owner)->array, (owner)->count, (more), &(owner)->capacity, sizeof *(owner)->array)
clq_status clq_reserve(void **array, size_t count, size_t more, size_t *capacity, size_t size);

/* The product of the dimensions, each of which is at least 1. It is at most INT32_MAX, as kernels index with 32-bit
 * integers. */
clq_status clq_shape_elements(const clq_shape *shape, size_t *out);
/* The same for a tensor of the model. A tensor without axes has one value. */
clq_status clq_tensor_elements(const clq_shape *shape, size_t *out);
/* "(28, 28, 1)" */
enum { CLQ_SHAPE_TEXT_MAX = 144 };
const char *clq_shape_describe(const clq_shape *shape, char text[CLQ_SHAPE_TEXT_MAX]);

#endif
