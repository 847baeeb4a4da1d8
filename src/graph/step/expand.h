/* How kinds of layers add their operations to a step graph. Private to graph. */
#ifndef CLQ_GRAPH_EXPAND_H
#define CLQ_GRAPH_EXPAND_H

#include "graph/step/step.h"

/* A model on its way to become operations. */
typedef struct clq_expansion {
    clq_graph *graph;
    const clq_model *model;
    const clq_plan_config *config;
    clq_id *values;    /* by id of the model's tensor */
    clq_id *logits;    /* likewise: what the tensor is the softmax of; 0: it is none */
    clq_id *weights;   /* by variable */
    bool *read;        /* by id of the model's tensor: whether a layer reads it */
    uint32_t dropouts; /* expanded so far */
} clq_expansion;

const clq_layer *clq_expand_layer(const clq_expansion *e, const clq_model_tensor *y);
/* A node of y's layer, in the forward segment, without values. */
clq_node clq_expand_node(const clq_expansion *e, const clq_model_tensor *y, const clq_operation *op);
/* A new value of the step's, of this shape, for y's layer. */
clq_id clq_expand_value(clq_expansion *e, const clq_model_tensor *y, const clq_shape *shape, size_t elements);
/* Variable `index` of y's layer, the same value wherever it is read; 0 where the layer has none. */
clq_id clq_expand_weight(clq_expansion *e, const clq_model_tensor *y, unsigned index);

/* What a state variable of y's layer is after the step: another value in the same memory. */
clq_id clq_expand_new_state(clq_expansion *e, const clq_model_tensor *y, unsigned index);

/* Each adds a node, and gives its output, of y's shape. */
clq_id clq_expand_unary(clq_expansion *e, const clq_model_tensor *y, clq_node node, clq_id x);
/* One instruction of `count` values, at most 3, of y's shape. */
clq_id clq_expand_elements(clq_expansion *e, const clq_model_tensor *y, const clq_instruction *instruction,
                           const clq_id *x, unsigned count);
/* Linear: x itself. */
clq_id clq_expand_activation(clq_expansion *e, const clq_model_tensor *y, clq_activation activation, clq_id x);
/* A product with the layer's kernel and bias, and behind it the softmax, which its kernel cannot apply. */
clq_id clq_expand_product(clq_expansion *e, const clq_model_tensor *y, clq_node node, clq_id x,
                          clq_activation activation);
/* The samples, as the plan gets them, in float32. */
clq_id clq_expand_input(clq_expansion *e, const clq_model_tensor *y);

#endif
