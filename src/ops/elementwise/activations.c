/* The activations: a row of a table for each. To add one: a value of clq_activation, a row, its two rules among the
 * instructions of cl/elementwise.cl, references in tests/ref. Formulas are Keras's. */
#include "ops/ops.h"

#include <string.h>

static const clq_activation_row activations[] = {
    [CLQ_LINEAR] = {.name = "linear"},
    [CLQ_RELU] = {.name = "relu", .op = CLQ_ELEMENT_RELU, .slope = CLQ_ELEMENT_RELU_SLOPE},
    [CLQ_SIGMOID] = {.name = "sigmoid", .op = CLQ_ELEMENT_SIGMOID, .slope = CLQ_ELEMENT_SIGMOID_SLOPE},
    [CLQ_TANH] = {.name = "tanh", .op = CLQ_ELEMENT_TANH, .slope = CLQ_ELEMENT_TANH_SLOPE},
    [CLQ_SOFTMAX] = {.name = "softmax"},
    [CLQ_MISH] = {.name = "mish", .op = CLQ_ELEMENT_MISH, .slope = CLQ_ELEMENT_MISH_SLOPE, .slope_of_input = true},
};

const clq_activation_row *clq_activation_row_of(clq_activation activation) {
    return (size_t)activation < CLQ_COUNT_OF(activations) ? &activations[activation] : NULL;
}

bool clq_activation_named(const char *name, clq_activation *out) {
    for (size_t a = 0; a < CLQ_COUNT_OF(activations); a++)
        if (strcmp(activations[a].name, name) == 0) {
            *out = (clq_activation)a;
            return true;
        }
    return false;
}

bool clq_activation_joins(clq_activation activation) {
    const clq_activation_row *row = &activations[activation];
    return row->op != CLQ_ELEMENT_INPUT && !row->slope_of_input;
}
