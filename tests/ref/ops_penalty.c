#include "ref/ref_elementwise.h"

#include <math.h>

double ref_penalty(const clq_penalty_problem *p, size_t count, const double *w) {
    double sizes = 0, squares = 0;
    for (size_t i = 0; i < p->elements; i++) {
        sizes += fabs(w[i]);
        squares += w[i] * w[i];
    }
    return (double)count * (p->l1 * sizes + p->l2 * squares);
}

void ref_penalty_gradient(const clq_penalty_problem *p, size_t count, double scale, const double *w, double *dw) {
    for (size_t i = 0; i < p->elements; i++) {
        const double sign = w[i] == 0 ? 0 : copysign(1, w[i]);
        dw[i] = (double)count * scale * (p->l1 * sign + 2 * p->l2 * w[i]);
    }
}
