/* clique/custom.h: a program's own operations as layers (clique/model.h, whose rules hold): expressions, which need no
 * kernel and no derivative, and operations with kernels in OpenCL C. */
#ifndef CLIQUE_CUSTOM_H
#define CLIQUE_CUSTOM_H

#include <clique/device.h>
#include <clique/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- expressions ---- */

enum {
    CLQ_EXPRESSION_INPUTS_MAX = 8,
    CLQ_EXPRESSION_VARIABLES_MAX = 4,
    CLQ_EXPRESSION_TERMS_MAX = 64, /* an expression's numbers, names, operators and functions */
    CLQ_EXPRESSION_DEPTH_MAX = 32  /* nested parentheses, signs and powers */
};
/* A trained variable that the expression names: `layer/name`. */
typedef struct clq_expression_variable {
    const char *name; /* starts with a letter or '_', continues with these and digits; no input's or function's. NULL:
                         none */
    double value;     /* its first value; finite */
    bool by_channel;  /* true: one number for each place on the result's last axis, (c); false: one for all, (1) */
} clq_expression_variable;
/* All zero is the default: no variables, and a name that the model gives. */
typedef struct clq_expression_config {
    clq_expression_variable variables[CLQ_EXPRESSION_VARIABLES_MAX]; /* those with a name come first */
    const char *name;
    double reserved[4]; /* 0 */
} clq_expression_config;

/* An expression, computed for each element. It has 1 to CLQ_EXPRESSION_INPUTS_MAX inputs:
 *
 *     clq_expression(m, "x * sigmoid(b * x)", CLQ_TENSORS(x),
 *                    &(clq_expression_config){.variables = {{.name = "b", .value = 1}}});
 *
 * Names. The inputs are x0, x1, … in their order; x, y and z are other names for the first three. All other names are
 * variables. The expression must read every input and variable. Shapes broadcast as in clq_add.
 *
 * Operators, the tightest first: ^ and ** (power, right to left: 2^3^2 is 2^9); unary - and +; * and /; + and -; <,
 * <=, >, >=, == and !=, which give 1 or 0 and cannot be chained. A power whose exponent is no number is exp(b log(a)):
 * its base must be above 0. Numbers are as in C (0.5, 1e-3).
 *
 * Functions: abs, cos, erf, exp, expm1, log, log1p, max(a, b), min(a, b), sign, sin, sqrt, square; where(c, a, b),
 * which is a if c is not 0, else b; and Keras's activations except softmax, by their names (relu, sigmoid, tanh, gelu,
 * …).
 *
 * Gradients. The derivative follows from the expression. Comparisons and sign have no gradient; max and min have those
 * of clq_maximum and clq_minimum. Neighbouring elementwise layers run in the same kernel.
 *
 * config NULL: no variables. Errors: ARGUMENT (with the place in the text, counted from 1, and what was expected
 * there; too long or too deep), UNSUPPORTED (more than two variables, or too many numbers, meet before an input does),
 * MEMORY. */
CLQ_API clq_tensor clq_expression(clq_model *model, const char *expression, const clq_tensor *inputs, size_t count,
                                  const clq_expression_config *config);

/* ---- operations with kernels of their own ---- */

enum {
    CLQ_CUSTOM_INPUTS_MAX = 4,
    CLQ_CUSTOM_VARIABLES_MAX = 4,
    CLQ_CUSTOM_VALUES_MAX = 5, /* inputs and variables together */
    CLQ_CUSTOM_KEPT_MAX = 2,
    CLQ_CUSTOM_NUMBERS_MAX = 8
};

/* A trained variable: `layer/name`. */
typedef struct clq_custom_variable {
    const char *name; /* letters, digits and '_' */
    clq_shape shape;
    clq_initialiser initialiser; /* default: zeros */
} clq_custom_variable;

/* The shapes that follow from an operation's inputs. Shapes are one sample's. */
typedef struct clq_custom_shapes {
    size_t input_count; /* given, and not to be changed */
    clq_shape inputs[CLQ_CUSTOM_INPUTS_MAX];
    /* `infer` sets the members below. */
    clq_shape output; /* before `infer`: input 0's shape */
    size_t variable_count;
    clq_custom_variable variables[CLQ_CUSTOM_VARIABLES_MAX];
    size_t kept_count; /* what forward keeps for backward, besides its output */
    clq_shape kept[CLQ_CUSTOM_KEPT_MAX];
    /* Work-items for each sample. 0: one for each element, forward in the output, backward in input 0. */
    size_t forward_items, backward_items;
    /* Work-items in a work-group; divides forward_items and backward_items; at most CLQ_CUSTOM_GROUP_MOST, and what the
     * device's driver accepts for the kernel. 0: any size, and the last group may have more work-items than the samples
     * need. */
    size_t group;
    /* Arithmetic operations in forward for one sample, for predictions. 0: one for each element in the output. */
    double operations;
} clq_custom_shapes;
/* Work-items of a work-group at most. */
enum { CLQ_CUSTOM_GROUP_MOST = 1024 };

/* An operation with the program's own kernels. It computes each sample from that sample and the variables alone, in
 * float32, with the same bits whenever it runs. Then it means the same with any strategy, batch and number of devices,
 * and may be computed again (clq_trainer_config.recompute). clq_custom_check tests that. Start with {0}, and name
 * members.
 *
 *     kernel void FORWARD(int count, global const float *x0, ..., global const float *w0, ...,
 *                         global float *y, global float *kept0, ...)
 *     kernel void BACKWARD(int count, global const float *x0, ..., global const float *w0, ..., global const float *y,
 *                          global const float *kept0, ..., global const float *dy,
 *                          global float *dx0, ..., global float *dw0, ...)
 *
 * Arguments:
 *
 * - x: inputs; y: the output; kept: what forward keeps. Each is (count, elements).
 * - w: variables, each (elements).
 * - dy: the loss's gradient with respect to the output; dx: the gradients with respect to the inputs. Each is (count,
 *   elements).
 * - dw: (count, the variable's elements): what each sample contributes. Contributions are added up in a fixed order.
 *
 * A kernel writes its results completely, whether or not anybody wants them, for `count` samples. Memory may have room
 * for more samples: do not touch what follows the first `count`. A launch has get_global_size(0) work-items, at least
 * count * FORWARD_ITEMS or count * BACKWARD_ITEMS: those beyond that number do nothing.
 *
 * Macros: X0_SIZE, W0_SIZE, Y_SIZE, KEPT0_SIZE, … count elements; X0_DIM0, X0_DIM1, … are sizes along axes;
 * FORWARD_ITEMS, BACKWARD_ITEMS; NUMBER0 to NUMBER7. So a program is compiled for each set of shapes and numbers. The
 * library's prelude (cl/prelude.cl) comes before the source; its names are taken: floatv, LOADV, … */
typedef struct clq_custom_operation {
    const char *name;   /* 1 to 40 letters, digits and '_', for messages */
    const char *source; /* OpenCL C 1.2 */
    /* The kernels' names. backward NULL: no gradient passes through; such an operation has no variables. */
    const char *forward, *backward;
    /* Sets in `shapes` what follows from the inputs; gets `user`. It is called several times, from any thread, and must
     * give the same result for the same shapes. If it fails, the layer is refused with its status. NULL: nothing is
     * set. */
    clq_status (*infer)(void *user, clq_custom_shapes *shapes);
    /* Backward does not read the inputs, or the output: they need no memory until it runs, and its arguments for them
     * point to nothing. */
    bool unread_inputs, unread_output;
    double numbers[CLQ_CUSTOM_NUMBERS_MAX]; /* finite; floats in kernels */
    void *user;
    /* Destroys `user`; NULL: none. Called once: if the layer is not added, if finishing the model drops it, or when the
     * model is destroyed. */
    void (*destroy)(void *user);
    void *reserved[4]; /* 0 */
} clq_custom_operation;

/* Adds a layer with 1 to CLQ_CUSTOM_INPUTS_MAX inputs. Texts are copied. name: the layer's; NULL: made. Masks end here.
 * Values have 32 bits with mixed precision, too. Errors: ARGUMENT, MEMORY, what infer returns. A kernel that does not
 * compile gives BUILD, with the compiler's first words, from clq_trainer_create on. */
CLQ_API clq_tensor clq_custom(clq_model *model, const clq_custom_operation *operation, const clq_tensor *inputs,
                              size_t count, const char *name);

/* The most derivatives that a check compares for an input or a variable. */
enum { CLQ_CUSTOM_COMPARED = 64 };
/* What a check measured. */
typedef struct clq_custom_report {
    size_t gradients; /* how many derivatives were compared */
    /* The largest difference, relative to the largest derivative with respect to the same input or variable. */
    double gradient_error;
    char gradient[64];  /* its place: "dx0[5]" */
    double reserved[4]; /* 0 */
} clq_custom_report;

/* Tests an operation on each device, with random numbers (0.1 to 1, with both signs; `seed` chooses them) and inputs in
 * these shapes (count). Reports the first fault:
 *
 * - An output is not written, is not finite, or depends on other samples or on memory that is not the kernel's.
 * - The kernel writes beyond the outputs, into the inputs, or to samples after the first `count`.
 * - A second run gives other bits.
 * - A derivative differs from the central difference (step 1 / 256) by more than 0.2 % of the largest derivative.
 *
 * For each input (in three samples) and each variable it compares all derivatives; if there are more than
 * CLQ_CUSTOM_COMPARED, that many: the first and last in each sample, and others that `seed` chooses. Near a kink
 * differences are no derivatives: take another seed. A work-item that writes far beyond its memory may end the program.
 * report: the caller's; may be NULL. operation->destroy is not called. No trainer may use the devices meanwhile.
 * Errors: MISMATCH (one line with the fault), ARGUMENT, BUILD, MEMORY, the device's errors. */
CLQ_API clq_status clq_custom_check(const clq_devices *devices, const clq_custom_operation *operation,
                                    const clq_shape *shapes, size_t count, uint64_t seed, clq_custom_report *report);

#ifdef __cplusplus
}
#endif
#endif
