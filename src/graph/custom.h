/* Operations of a program's own: what layers, nodes and the check of them share. A part of graph. */
#ifndef CLQ_GRAPH_CUSTOM_H
#define CLQ_GRAPH_CUSTOM_H

#include "ops/ops.h"
#include <clique/custom.h>

/* ARGUMENT unless its texts and numbers are as they should be. (layers/custom.c) */
clq_status clq_custom_check_operation(const clq_custom_operation *operation);
/* All that follows from the shapes of the inputs, checked, with defaults in place of zeros. (layers/custom.c) */
clq_status clq_custom_infer(const clq_custom_operation *operation, const clq_shape *inputs, size_t count,
                            clq_custom_shapes *out);

/* The values of a launch, by place; CLQ_NO_VALUE: there is none. */
typedef struct clq_custom_values {
    clq_value inputs[CLQ_CUSTOM_INPUTS_MAX], variables[CLQ_CUSTOM_VARIABLES_MAX], output, kept[CLQ_CUSTOM_KEPT_MAX];
    clq_value output_gradient, input_gradients[CLQ_CUSTOM_INPUTS_MAX], variable_gradients[CLQ_CUSTOM_VARIABLES_MAX];
} clq_custom_values;
/* The operation outlives the list. (step/custom.c) */
void clq_custom_launch(clq_list *list, const clq_custom_operation *operation, const clq_custom_shapes *shapes,
                       bool backward, const clq_custom_values *values);

#endif
