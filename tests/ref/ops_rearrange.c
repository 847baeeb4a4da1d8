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

/* Goes through the places of y, counting in the last axis first. */
void ref_arrange(const clq_arrangement *a, size_t count, size_t x_elements, const double *x, double *y) {
    const size_t elements = clq_arrangement_elements(a);
    for (size_t n = 0; n < count * elements; n++) {
        size_t rest = n % elements, from = n / elements * x_elements;
        bool found = true;
        for (unsigned d = a->rank; d-- > 0; rest /= a->axes[d].out) {
            const clq_arranged_axis *axis = &a->axes[d];
            const long at = axis->first + (long)(rest % axis->out) * axis->step;
            if (at < 0 || at % axis->spread != 0 || at / axis->spread >= (long)axis->in)
                found = false;
            else
                from += (size_t)(at / axis->spread) * axis->pitch;
        }
        y[n] = found ? x[from] : 0;
    }
}
