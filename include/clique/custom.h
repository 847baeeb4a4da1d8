/* clique/custom.h: operations of a program's own, as layers of a model (clique/model.h, whose rules hold): expressions,
 * which need no kernel and no derivative. */
#ifndef CLIQUE_CUSTOM_H
#define CLIQUE_CUSTOM_H

#include <clique/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- expressions ---- */

enum {
    CLQ_EXPRESSION_INPUTS_MAX = 8,
    CLQ_EXPRESSION_VARIABLES_MAX = 4,
    CLQ_EXPRESSION_TERMS_MAX = 64, /* numbers, names, operators and functions of an expression */
    CLQ_EXPRESSION_DEPTH_MAX = 32  /* of parentheses, signs and powers in one another */
};
/* A trained variable that the expression names: `layer/name`. */
typedef struct clq_expression_variable {
    const char *name; /* a letter or '_', and behind it also digits; no input's or function's. NULL: there is none */
    double value;     /* finite; at first */
    bool by_channel;  /* one for each place of the result's last axis, (c); else one for all, (1) */
} clq_expression_variable;
typedef struct clq_expression_config {
    clq_expression_variable variables[CLQ_EXPRESSION_VARIABLES_MAX]; /* those that have a name are in front */
    const char *name;
} clq_expression_config;

/* An expression for each element of its inputs, of which there are 1 to CLQ_EXPRESSION_INPUTS_MAX:
 *
 *     clq_expression(m, "x * sigmoid(b * x)", CLQ_TENSORS(x),
 *                    &(clq_expression_config){.variables = {{.name = "b", .value = 1}}});
 *
 * The inputs are x0, x1, … in their order; x, y and z are other names of the first three. Their shapes broadcast as
 * those of clq_add do. Other names are those of variables. All inputs and variables that there are must be read. The
 * derivative follows from the expression, and neighbouring elementwise layers run in the same kernel.
 *
 * Operators, the first to bind: ^ and ** (power, from the right: 2^3^2 is 2^9), unary - and +, * and /, + and -, and
 * <, <=, >, >=, == and !=, which give 1 or 0 and do not follow one another. A power whose exponent is no number is
 * exp(b log(a)): its base is above 0. Numbers are as in C (0.5, 1e-3). Functions: abs, cos, erf, exp, expm1, log,
 * log1p, max(a, b), min(a, b), sign, sin, sqrt, square, where(c, a, b), which is a where c is not 0 and else b, and
 * Keras's activations but softmax by their names (relu, sigmoid, tanh, gelu, …). Comparisons and sign have no gradient;
 * gradients of max and min are those of clq_maximum and clq_minimum.
 *
 * config: NULL: no variables. Errors: ARGUMENT (with the place in the text, counted from 1, and what was expected
 * there; too long or too deep), UNSUPPORTED (more than two variables, or too many numbers, meet before an input does),
 * MEMORY. */
CLQ_API clq_tensor clq_expression(clq_model *model, const char *expression, const clq_tensor *inputs, size_t count,
                                  const clq_expression_config *config);

#ifdef __cplusplus
}
#endif
#endif
