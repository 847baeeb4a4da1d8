/* Operations with a program's own kernels: what layers, nodes and the check of operations share. A part of graph. */
#ifndef CLQ_GRAPH_CUSTOM_H
#define CLQ_GRAPH_CUSTOM_H

#include "ops/ops.h"
#include <clique/custom.h>

/* ARGUMENT if one of the operation's texts or numbers is not as <clique/custom.h> asks. (layers/custom.c) */
clq_status clq_custom_check_operation(const clq_custom_operation *operation);
/* Finds and checks all shapes that follow from the shapes of the inputs. Puts defaults in place of zeros.
 * (layers/custom.c) */
clq_status clq_custom_infer(const clq_custom_operation *operation, const clq_shape *inputs, size_t count,
                            clq_custom_shapes *out);

/* The values of a launch, by place. CLQ_NO_VALUE: the launch has no such value. */
typedef struct clq_custom_values {
    clq_value inputs[CLQ_CUSTOM_INPUTS_MAX], variables[CLQ_CUSTOM_VARIABLES_MAX], output, kept[CLQ_CUSTOM_KEPT_MAX];
    clq_value output_gradient, input_gradients[CLQ_CUSTOM_INPUTS_MAX], variable_gradients[CLQ_CUSTOM_VARIABLES_MAX];
} clq_custom_values;
/* Adds a launch of the operation's kernel to the list. The operation must outlive the list. (step/custom.c) */
void clq_custom_launch(clq_list *list, const clq_custom_operation *operation, const clq_custom_shapes *shapes,
                       bool backward, const clq_custom_values *values);

#endif
