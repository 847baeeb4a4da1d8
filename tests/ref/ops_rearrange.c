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

/* Goes through the places of y, the last axis fastest. */
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

/* The index at which matrix (p, q) of a sample begins. */
static size_t begin_of(const clq_batched_matrix *m, size_t sample, size_t p, size_t q) {
    return sample * m->sample + p * m->pitch[0] + q * m->pitch[1];
}

void ref_batched(const clq_batched_problem *p, size_t count, const double *a, const double *b, double *c) {
    for (size_t sample = 0; sample < count; sample++)
        for (size_t x = 0; x < p->counts[0]; x++)
            for (size_t y = 0; y < p->counts[1]; y++)
                for (size_t i = 0; i < p->m; i++)
                    for (size_t j = 0; j < p->n; j++) {
                        double sum = 0;
                        for (size_t k = 0; k < p->k; k++)
                            sum += a[begin_of(&p->a, sample, x, y) + i * p->a.row + k * p->a.column] *
                                   b[begin_of(&p->b, sample, x, y) + k * p->b.row + j * p->b.column];
                        c[begin_of(&p->c, sample, x, y) + i * p->c.row + j * p->c.column] = (double)p->scale * sum;
                    }
}

static size_t row_of(const clq_gather_problem *p, double number) {
    return number < 0 ? 0 : number >= (double)p->rows ? p->rows - 1 : (size_t)number;
}

void ref_gather(const clq_gather_problem *p, size_t count, const double *x, const double *table, double *y) {
    for (size_t t = 0; t < count * p->tokens; t++)
        for (size_t i = 0; i < p->width; i++) y[t * p->width + i] = table[row_of(p, x[t]) * p->width + i];
}

void ref_gather_gradient(const clq_gather_problem *p, size_t count, const double *x, const double *dy, double *dtable) {
    memset(dtable, 0, p->rows * p->width * sizeof *dtable);
    for (size_t t = 0; t < count * p->tokens; t++)
        for (size_t i = 0; i < p->width; i++) dtable[row_of(p, x[t]) * p->width + i] += dy[t * p->width + i];
}
