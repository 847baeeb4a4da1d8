#include "ref/ref_product.h"

#include <string.h>

/* Multiplications of one input element by the filters of its group: z[out + k] += x[in] * w[weight + k], for k below
 * `filters`. */
typedef struct meeting {
    size_t out, in, weight, filters;
} meeting;

/* Calls `each` for all multiplications of a convolution of one example. */
static void for_each_meeting(const clq_grouped_problem *g, void (*each)(void *context, meeting m), void *context) {
    const clq_conv2d_problem *p = &g->conv;
    const size_t inputs = p->in_c / g->groups, filters = p->out_c / g->groups;
    for (size_t oy = 0; oy < p->out_h; oy++)
        for (size_t ox = 0; ox < p->out_w; ox++)
            for (size_t ky = 0; ky < p->kernel_h; ky++)
                for (size_t kx = 0; kx < p->kernel_w; kx++) {
                    long y = (long)(oy * p->stride_h + ky * p->dilation_h) - (long)p->pad_top;
                    long x = (long)(ox * p->stride_w + kx * p->dilation_w) - (long)p->pad_left;
                    if (y < 0 || x < 0 || y >= (long)p->in_h || x >= (long)p->in_w) continue;
                    for (size_t in = 0; in < p->in_c; in++) {
                        const size_t first = in / inputs * filters;
                        each(context,
                             (meeting){.out = (oy * p->out_w + ox) * p->out_c + first,
                                       .in = ((size_t)y * p->in_w + (size_t)x) * p->in_c + in,
                                       .weight = ((ky * p->kernel_w + kx) * inputs + in % inputs) * p->out_c + first,
                                       .filters = filters});
                    }
                }
}

typedef struct arrays {
    const double *x, *w, *dz;
    double *z, *dx, *dw;
} arrays;

static void forward(void *context, meeting m) {
    const arrays *a = context;
    const double x = a->x[m.in], *w = a->w + m.weight;
    double *restrict z = a->z + m.out;
    for (size_t k = 0; k < m.filters; k++) z[k] += x * w[k];
}

enum { PARTS = 4 }; /* partial sums, which a processor adds up in parallel */

static void backward(void *context, meeting m) {
    const arrays *a = context;
    const double x = a->x[m.in], *w = a->w + m.weight, *dz = a->dz + m.out;
    double *restrict dw = a->dw + m.weight, sums[PARTS] = {0};
    size_t k = 0;
    for (; k + PARTS <= m.filters; k += PARTS)
        for (size_t i = 0; i < PARTS; i++) sums[i] += dz[k + i] * w[k + i];
    for (; k < m.filters; k++) sums[0] += dz[k] * w[k];
    for (k = 0; k < m.filters; k++) dw[k] += dz[k] * x;
    a->dx[m.in] += (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void ref_grouped(const clq_grouped_problem *g, size_t count, const double *x, const double *w, const double *b,
                 double *z) {
    const clq_conv2d_problem *p = &g->conv;
    size_t in = p->in_h * p->in_w * p->in_c, out = p->out_h * p->out_w * p->out_c;
    for (size_t i = 0; i < count * out; i++) z[i] = b ? b[i % p->out_c] : 0;
    for (size_t e = 0; e < count; e++)
        for_each_meeting(g, forward, &(arrays){.x = x + e * in, .w = w, .z = z + e * out});
}

void ref_grouped_gradients(const clq_grouped_problem *g, size_t count, const double *x, const double *w,
                           const double *dz, double *dx, double *dw) {
    const clq_conv2d_problem *p = &g->conv;
    size_t in = p->in_h * p->in_w * p->in_c, out = p->out_h * p->out_w * p->out_c;
    memset(dx, 0, count * in * sizeof *dx);
    memset(dw, 0, p->kernel_h * p->kernel_w * (p->in_c / g->groups) * p->out_c * sizeof *dw);
    for (size_t e = 0; e < count; e++)
        for_each_meeting(g, backward,
                         &(arrays){.x = x + e * in, .w = w, .dz = dz + e * out, .dx = dx + e * in, .dw = dw});
}

void ref_conv2d(const clq_conv2d_problem *p, size_t count, const double *x, const double *w, const double *b,
                double *z) {
    ref_grouped(&(clq_grouped_problem){*p, 1}, count, x, w, b, z);
}

void ref_conv2d_gradients(const clq_conv2d_problem *p, size_t count, const double *x, const double *w, const double *dz,
                          double *dx, double *dw) {
    ref_grouped_gradients(&(clq_grouped_problem){*p, 1}, count, x, w, dz, dx, dw);
}
