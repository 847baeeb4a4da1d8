/* A custom operation for tests, with kernels of its own: y = w x^2 + s x. w has one number per channel, and s is one
 * number. The forward kernel keeps the slope for the backward kernel. */
#ifndef CLQ_TEST_OWN_OPERATION_H
#define CLQ_TEST_OWN_OPERATION_H

#include <clique/custom.h>

/* NUMBER0 chooses a mistake; 0: none. */
static const char own_source[] =
    "kernel void parabola(int count, global const float *x, global const float *w, global const float *s,\n"
    "                     global float *y, global float *slope) {\n"
    "    const int i = (int)get_global_id(0), all = count * Y_SIZE, flaw = (int)NUMBER0;\n"
    "    if (i == 0 && flaw == 1) y[4 * Y_SIZE] = 0;\n"
    "    if (i == 0 && flaw == 2) y[-1] = 0;\n"
    "    if (i == 0 && flaw == 3) y[all] = 0;\n"
    "    if (i == 0 && flaw == 4) ((global float *)x)[0] = 0;\n"
    "    if (i >= all || (i == 1 && flaw == 5)) return;\n"
    "    slope[i] = 2 * w[i % W0_SIZE] * x[i] + s[0];\n"
    "    y[i] = (w[i % W0_SIZE] * x[i] + s[0]) * x[i] + (flaw == 6 ? x[all] : 0);\n"
    "}\n"
    "\n"
    "    __kernel void parabola_gradient(int count, global const float *x, global const float *w, global const float "
    "*s,\n"
    "                                global const float *y, global const float *slope, global const float *dy,\n"
    "                                global float *dx, global float *dw, global float *ds) {\n"
    "    const int i = (int)get_global_id(0), n = i / BACKWARD_ITEMS, at = i % BACKWARD_ITEMS;\n"
    "    const global float *mine = x + n * X0_SIZE, *of_mine = dy + n * X0_SIZE;\n"
    "    float sum = 0;\n"
    "    if (n >= count) return;\n"
    "    dx[i] = dy[i] * slope[i] * (NUMBER0 == 7 || (NUMBER0 == 9 && at == X0_SIZE - 1) ? 1.02f : 1);\n"
    "    if (at >= W0_SIZE) return;\n"
    "    for (int k = at; k < X0_SIZE; k += W0_SIZE) sum += of_mine[k] * mine[k] * mine[k];\n"
    "    dw[n * W0_SIZE + at] = NUMBER0 == 8 || (NUMBER0 == 10 && at == 0) ? -sum : sum;\n"
    "    if (at > 0) return;\n"
    "    sum = 0;\n"
    "    for (int k = 0; k < X0_SIZE; k++) sum += of_mine[k] * mine[k];\n"
    "    ds[n] = sum;\n"
    "}\n";
enum { OWN_FLAWS = 8, OWN_FLAWS_AT_ENDS = 10 }; /* mistakes 9 and 10: at one derivative of each sample */

static clq_status own_infer(void *user, clq_custom_shapes *s) {
    (void)user;
    const clq_shape *x = &s->inputs[0];
    if (x->rank > 3) return CLQ_ERROR_UNSUPPORTED;
    s->variable_count = 2;
    s->variables[0] = (clq_custom_variable){.name = "w", .shape = CLQ_SHAPE(x->dims[x->rank - 1])};
    s->variables[1] = (clq_custom_variable){
        .name = "s", .shape = CLQ_SHAPE(1), .initialiser = {.kind = CLQ_INITIALISER_CONSTANT, .value = 1}};
    s->kept_count = 1;
    s->kept[0] = *x;
    return CLQ_OK;
}

static inline clq_custom_operation own_operation(void) {
    return (clq_custom_operation){.name = "parabola",
                                  .source = own_source,
                                  .forward = "parabola",
                                  .backward = "parabola_gradient",
                                  .infer = own_infer,
                                  .unread_output = true};
}

#endif
