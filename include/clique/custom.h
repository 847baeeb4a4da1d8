/* clique/custom.h: operations of a program's own, as layers of a model (clique/model.h, whose rules hold): expressions,
 * which need no kernel and no derivative, and operations with kernels in OpenCL C. */
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
    double reserved[4]; /* 0 */
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

/* What an operation makes of the shapes of its inputs. Shapes are of one sample. */
typedef struct clq_custom_shapes {
    size_t input_count; /* these are given, and stay as they are */
    clq_shape inputs[CLQ_CUSTOM_INPUTS_MAX];
    /* These are set by `infer`. */
    clq_shape output; /* at first that of input 0 */
    size_t variable_count;
    clq_custom_variable variables[CLQ_CUSTOM_VARIABLES_MAX];
    size_t kept_count; /* what forward keeps for backward, beside its output */
    clq_shape kept[CLQ_CUSTOM_KEPT_MAX];
    /* Work-items for each sample. 0: one for each element of the output; of input 0. */
    size_t forward_items, backward_items;
    /* Work-items of a work-group, of which both are multiples; at most CLQ_CUSTOM_GROUP_MOST, and what the device's
     * driver takes for the kernel. 0: any, and the last group may have more work-items than the samples need. */
    size_t group;
    double operations; /* arithmetic of forward, for a sample, for predictions. 0: one for each element of the output */
} clq_custom_shapes;
enum { CLQ_CUSTOM_GROUP_MOST = 1024 };

/* An operation computes each sample from that sample and from its variables alone, in float32, and the same bits
 * whenever it runs: then it means the same for any strategy, batch and number of devices, and may be computed again
 * (clq_trainer_config.recompute). clq_custom_check looks at that. Start with {0}, and name members.
 *
 *     kernel void FORWARD(int count, global const float *x0, ..., global const float *w0, ...,
 *                         global float *y, global float *kept0, ...)
 *     kernel void BACKWARD(int count, global const float *x0, ..., global const float *w0, ..., global const float *y,
 *                          global const float *kept0, ..., global const float *dy,
 *                          global float *dx0, ..., global float *dw0, ...)
 *
 * Arguments: inputs x, variables w, the output y, what is kept, the gradient dy of the loss by the output, its
 * gradients dx by the inputs; each is (count, elements), variables but (elements). dw is (count, elements of the
 * variable): what each sample contributes; these are added up in a fixed order. What a kernel makes it writes whole,
 * whether or not anybody wants it, for `count` samples, which may be fewer than there is memory for; what is behind
 * them must not be touched. A launch has get_global_size(0) work-items, at least count * FORWARD_ITEMS or count *
 * BACKWARD_ITEMS: those beyond do nothing.
 *
 * Macros: X0_SIZE, W0_SIZE, Y_SIZE, KEPT0_SIZE, … are elements; X0_DIM0, X0_DIM1, … sizes of axes; FORWARD_ITEMS,
 * BACKWARD_ITEMS; NUMBER0 to NUMBER7. So a program is compiled for each set of shapes and numbers. In front of the
 * source is the library's prelude (cl/prelude.cl), whose names are taken: floatv, LOADV, … */
typedef struct clq_custom_operation {
    const char *name;               /* 1 to 40 letters, digits and '_', for messages */
    const char *source;             /* OpenCL C 1.2 */
    const char *forward, *backward; /* names of kernels. backward NULL: no gradient goes through (no variables then) */
    /* Sets what follows from `shapes`. It gets `user`, is called several times, in any thread, and does the same for
     * the same shapes. A failure refuses the layer. NULL: nothing is set. */
    clq_status (*infer)(void *user, clq_custom_shapes *shapes);
    bool unread_inputs, unread_output;      /* backward does not read them: they need no memory until it runs, and
                                               behind its arguments for them is nothing */
    double numbers[CLQ_CUSTOM_NUMBERS_MAX]; /* finite; floats in kernels */
    void *user;
    void (*destroy)(void *user); /* NULL: none. Called once: when the layer is not added, or is left
                                     out when the model is finished, or the model is destroyed */
    void *reserved[4]; /* 0 */
} clq_custom_operation;

/* A layer of 1 to CLQ_CUSTOM_INPUTS_MAX inputs. Texts are copied. name: of the layer; NULL: made. Masks end here.
 * Values have 32 bits in mixed precision, too. Errors: ARGUMENT, MEMORY, what infer returns; a kernel that does not
 * compile is BUILD, with the compiler's first words, from clq_trainer_create on. */
CLQ_API clq_tensor clq_custom(clq_model *model, const clq_custom_operation *operation, const clq_tensor *inputs,
                              size_t count, const char *name);

enum { CLQ_CUSTOM_COMPARED = 64 }; /* derivatives by an input or a variable that a check compares at most */
/* What a check measured. */
typedef struct clq_custom_report {
    size_t gradients;      /* derivatives that were compared */
    double gradient_error; /* the largest difference, over the largest derivative by the same input or variable */
    char gradient[64];     /* where that was: "dx0[5]" */
    double reserved[4]; /* 0 */
} clq_custom_report;

/* Runs an operation on each of the devices with made-up numbers (0.1 to 1, of both signs; `seed` chooses), for inputs
 * of these shapes (count), and tells of the first thing that is wrong: an output that is not written, not finite, or
 * depends on other samples or on memory that is not the kernel's; a write beyond the outputs, into the inputs, or of
 * samples behind `count`; other bits in a second run; derivatives that differ from central differences (of 1 / 256) by
 * more than 0.2 % of the largest one. Compared are all derivatives by an input of three samples or by a variable, or,
 * if these are more than CLQ_CUSTOM_COMPARED, so many of them: the first and the last of each sample, and others that
 * `seed` chooses. Near a kink differences are no derivatives: take another seed. A work-item that writes far beyond its
 * memory may end the program. report: may be NULL. operation->destroy is not called. No trainer
 * uses the devices meanwhile. Errors: MISMATCH (one line with what is wrong), ARGUMENT, BUILD, MEMORY, those of the
 * device. */
CLQ_API clq_status clq_custom_check(const clq_devices *devices, const clq_custom_operation *operation,
                                    const clq_shape *shapes, size_t count, uint64_t seed, clq_custom_report *report);

#ifdef __cplusplus
}
#endif
#endif
