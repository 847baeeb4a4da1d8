#include "ref/ref_elementwise.h"

#include <string.h>

void ref_repeat(const clq_repeat_problem *p, size_t count, const double *x, double *y) {
    for (size_t o = 0; o < count * p->outer; o++)
        for (size_t r = 0; r < p->repeats; r++)
            for (size_t i = 0; i < p->inner; i++)
                y[(o * p->repeats + r) * p->inner + i] = (double)p->scale * x[o * p->inner + i];
}

void ref_reduce_axis(const clq_repeat_problem *p, size_t count, const double *y, double *x) {
    memset(x, 0, count * p->outer * p->inner * sizeof *x);
    for (size_t o = 0; o < count * p->outer; o++)
        for (size_t r = 0; r < p->repeats; r++)
            for (size_t i = 0; i < p->inner; i++)
                x[o * p->inner + i] += (double)p->scale * y[(o * p->repeats + r) * p->inner + i];
}
