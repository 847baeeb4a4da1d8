/* The activations: one row of a table each. To add an activation: a value of clq_activation, a row, a function that
 * builds it from instructions, and a reference in tests/ref. The formulas are Keras's. */
#include "ops/ops.h"

#include <string.h>

/* ---- instructions ---- */

static unsigned of_one(clq_element_program *p, clq_element_op op, unsigned a) {
    return clq_element_do(p, (clq_instruction){.op = op, .a = a});
}
static unsigned of_two(clq_element_program *p, clq_element_op op, unsigned a, unsigned b) {
    return clq_element_do(p, (clq_instruction){.op = op, .a = a, .b = b});
}
static unsigned number(clq_element_program *p, double value) {
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_CONSTANT, .number = value});
}
static unsigned scaled(clq_element_program *p, unsigned a, double factor) {
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SCALE, .a = a, .number = factor});
}
static unsigned chosen(clq_element_program *p, unsigned which, unsigned then, unsigned otherwise) {
    return clq_element_do(p, (clq_instruction){.op = CLQ_ELEMENT_SELECT, .a = which, .b = then, .c = otherwise});
}

/* ---- activations of several instructions ---- */

static unsigned silu(clq_element_program *p, unsigned x) {
    return of_two(p, CLQ_ELEMENT_MULTIPLY, x, of_one(p, CLQ_ELEMENT_SIGMOID, x));
}

/* x (1 + erf(x / sqrt(2))) / 2 (Hendrycks and Gimpel, "Gaussian error linear units", 2016). */
static unsigned gelu(clq_element_program *p, unsigned x) {
    const unsigned erf = of_one(p, CLQ_ELEMENT_ERF, scaled(p, x, 0.70710678118654752));
    const unsigned twice = of_two(p, CLQ_ELEMENT_ADD, number(p, 1), erf);
    return of_two(p, CLQ_ELEMENT_MULTIPLY, scaled(p, x, 0.5), twice);
}

/* The same paper's approximation, x (1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3): (1 + tanh(u)) / 2 is
 * sigmoid(2 u). */
static unsigned gelu_approximate(clq_element_program *p, unsigned x) {
    const double first = 1.5957691216057308, third = first * 0.044715;
    const unsigned square = of_one(p, CLQ_ELEMENT_SQUARE, x);
    const unsigned slope = of_two(p, CLQ_ELEMENT_ADD, scaled(p, square, third), number(p, first));
    const unsigned gate = of_one(p, CLQ_ELEMENT_SIGMOID, of_two(p, CLQ_ELEMENT_MULTIPLY, x, slope));
    return of_two(p, CLQ_ELEMENT_MULTIPLY, x, gate);
}

/* At x = 6, the minimum takes the constant, so that the slope is 0 there, as in TensorFlow. */
static unsigned relu6(clq_element_program *p, unsigned x) {
    return of_two(p, CLQ_ELEMENT_MINIMUM, number(p, 6), of_one(p, CLQ_ELEMENT_RELU, x));
}

unsigned clq_leaky_relu_do(clq_element_program *p, double slope, unsigned x) {
    const unsigned positive = of_two(p, CLQ_ELEMENT_GREATER, x, number(p, 0));
    return chosen(p, positive, x, scaled(p, x, slope));
}
static unsigned leaky_relu(clq_element_program *p, unsigned x) { return clq_leaky_relu_do(p, 0.2, x); }

/* exp gets numbers up to 0. For a large x, it would be infinite, and the gradient NaN. */
unsigned clq_elu_do(clq_element_program *p, double alpha, unsigned x) {
    const unsigned zero = number(p, 0), below = of_two(p, CLQ_ELEMENT_MINIMUM, x, zero);
    const unsigned bend = scaled(p, of_one(p, CLQ_ELEMENT_EXPM1, below), alpha);
    return chosen(p, of_two(p, CLQ_ELEMENT_GREATER, x, zero), x, bend);
}
static unsigned elu(clq_element_program *p, unsigned x) { return clq_elu_do(p, 1, x); }

/* Klambauer et al., "Self-normalizing neural networks", 2017. */
static unsigned selu(clq_element_program *p, unsigned x) {
    return scaled(p, clq_elu_do(p, 1.6732632423543772, x), 1.0507009873554805);
}

static unsigned exponential(clq_element_program *p, unsigned x) { return of_one(p, CLQ_ELEMENT_EXP, x); }

static unsigned softsign(clq_element_program *p, unsigned x) {
    return of_two(p, CLQ_ELEMENT_DIVIDE, x, of_two(p, CLQ_ELEMENT_ADD, number(p, 1), of_one(p, CLQ_ELEMENT_ABS, x)));
}

static unsigned log_sigmoid(clq_element_program *p, unsigned x) {
    return of_one(p, CLQ_ELEMENT_NEGATE, of_one(p, CLQ_ELEMENT_SOFTPLUS, of_one(p, CLQ_ELEMENT_NEGATE, x)));
}

static unsigned hard_sigmoid(clq_element_program *p, unsigned x) {
    return scaled(p, relu6(p, of_two(p, CLQ_ELEMENT_ADD, x, number(p, 3))), 1.0 / 6);
}
static unsigned hard_silu(clq_element_program *p, unsigned x) {
    return of_two(p, CLQ_ELEMENT_MULTIPLY, x, hard_sigmoid(p, x));
}
static unsigned hard_tanh(clq_element_program *p, unsigned x) {
    return of_two(p, CLQ_ELEMENT_MINIMUM, number(p, 1), of_two(p, CLQ_ELEMENT_MAXIMUM, number(p, -1), x));
}

static unsigned tanh_shrink(clq_element_program *p, unsigned x) {
    return of_two(p, CLQ_ELEMENT_SUBTRACT, x, of_one(p, CLQ_ELEMENT_TANH, x));
}
static unsigned soft_shrink(clq_element_program *p, unsigned x) {
    const unsigned half = number(p, 0.5);
    const unsigned above = of_one(p, CLQ_ELEMENT_RELU, of_two(p, CLQ_ELEMENT_SUBTRACT, x, half));
    const unsigned sum = of_two(p, CLQ_ELEMENT_ADD, x, half);
    const unsigned below = of_one(p, CLQ_ELEMENT_RELU, of_one(p, CLQ_ELEMENT_NEGATE, sum));
    return of_two(p, CLQ_ELEMENT_SUBTRACT, above, below);
}
static unsigned hard_shrink(clq_element_program *p, unsigned x) {
    const unsigned large = of_two(p, CLQ_ELEMENT_GREATER, of_one(p, CLQ_ELEMENT_ABS, x), number(p, 0.5));
    return chosen(p, large, x, number(p, 0));
}

static unsigned squareplus(clq_element_program *p, unsigned x) {
    const unsigned sum = of_two(p, CLQ_ELEMENT_ADD, of_one(p, CLQ_ELEMENT_SQUARE, x), number(p, 4));
    return scaled(p, of_two(p, CLQ_ELEMENT_ADD, x, of_one(p, CLQ_ELEMENT_SQRT, sum)), 0.5);
}

/* ---- the table ---- */

static const clq_activation_row activations[] = {
    [CLQ_ACTIVATION_LINEAR] = {.name = "linear"},
    [CLQ_ACTIVATION_RELU] = {.name = "relu", .op = CLQ_ELEMENT_RELU, .slope = CLQ_ELEMENT_RELU_SLOPE},
    [CLQ_ACTIVATION_SIGMOID] = {.name = "sigmoid", .op = CLQ_ELEMENT_SIGMOID, .slope = CLQ_ELEMENT_SIGMOID_SLOPE},
    [CLQ_ACTIVATION_TANH] = {.name = "tanh", .op = CLQ_ELEMENT_TANH, .slope = CLQ_ELEMENT_TANH_SLOPE},
    [CLQ_ACTIVATION_SOFTMAX] = {.name = "softmax"},
    [CLQ_ACTIVATION_MISH] = {.name = "mish",
                             .op = CLQ_ELEMENT_MISH,
                             .slope = CLQ_ELEMENT_MISH_SLOPE,
                             .slope_of_input = true},
    [CLQ_ACTIVATION_SILU] = {.name = "silu", .build = silu},
    [CLQ_ACTIVATION_GELU] = {.name = "gelu", .build = gelu},
    [CLQ_ACTIVATION_GELU_APPROXIMATE] = {.name = "gelu_approximate", .build = gelu_approximate},
    [CLQ_ACTIVATION_RELU6] = {.name = "relu6", .build = relu6},
    [CLQ_ACTIVATION_LEAKY_RELU] = {.name = "leaky_relu", .build = leaky_relu},
    [CLQ_ACTIVATION_ELU] = {.name = "elu", .build = elu},
    [CLQ_ACTIVATION_SELU] = {.name = "selu", .build = selu},
    [CLQ_ACTIVATION_EXPONENTIAL] = {.name = "exponential", .build = exponential},
    [CLQ_ACTIVATION_SOFTPLUS] = {.name = "softplus",
                                 .op = CLQ_ELEMENT_SOFTPLUS,
                                 .slope = CLQ_ELEMENT_SOFTPLUS_SLOPE,
                                 .slope_of_input = true},
    [CLQ_ACTIVATION_SOFTSIGN] = {.name = "softsign", .build = softsign},
    [CLQ_ACTIVATION_LOG_SIGMOID] = {.name = "log_sigmoid", .build = log_sigmoid},
    [CLQ_ACTIVATION_HARD_SIGMOID] = {.name = "hard_sigmoid", .build = hard_sigmoid},
    [CLQ_ACTIVATION_HARD_SILU] = {.name = "hard_silu", .build = hard_silu},
    [CLQ_ACTIVATION_HARD_TANH] = {.name = "hard_tanh", .build = hard_tanh},
    [CLQ_ACTIVATION_TANH_SHRINK] = {.name = "tanh_shrink", .build = tanh_shrink},
    [CLQ_ACTIVATION_SOFT_SHRINK] = {.name = "soft_shrink", .build = soft_shrink},
    [CLQ_ACTIVATION_HARD_SHRINK] = {.name = "hard_shrink", .build = hard_shrink},
    [CLQ_ACTIVATION_SQUAREPLUS] = {.name = "squareplus", .build = squareplus},
};

static const struct alias {
    const char *name;
    clq_activation of;
} aliases[] = {{"swish", CLQ_ACTIVATION_SILU}, {"hard_swish", CLQ_ACTIVATION_HARD_SILU}, {"celu", CLQ_ACTIVATION_ELU}};

const clq_activation_row *clq_activation_row_of(clq_activation activation) {
    return (size_t)activation < CLQ_COUNT_OF(activations) ? &activations[activation] : NULL;
}

bool clq_activation_named(const char *name, clq_activation *out) {
    for (size_t i = 0; i < CLQ_COUNT_OF(aliases); i++)
        if (strcmp(aliases[i].name, name) == 0) {
            *out = aliases[i].of;
            return true;
        }
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

unsigned clq_activation_do(clq_element_program *p, clq_activation activation, unsigned x) {
    const clq_activation_row *row = &activations[activation];
    if (row->build) return row->build(p, x);
    return row->op == CLQ_ELEMENT_INPUT ? x : of_one(p, row->op, x);
}
