/* Constraints on weights: after an update, they bring the weights back into the allowed range. */
#include "ops/elementwise/cut.h"

#include <math.h>

static const double epsilon = 1e-7; /* Keras's */

static size_t groups_of(const clq_constraint_problem *p) { return p->sizes[0] * p->sizes[2] * p->sizes[4]; }
static size_t elements_of(const clq_constraint_problem *p) { return groups_of(p) * p->sizes[1] * p->sizes[3]; }

void clq_constrain_weights(clq_list *list, const clq_constraint_problem *p, size_t block, clq_value w) {
    const size_t items = p->non_negative ? elements_of(p) : groups_of(p);
    const double floats = (double)elements_of(p), bytes = 3 * floats * sizeof(float);
    const clq_cut cut = clq_cut_make(list, bytes, (double)items, 256);
    const clq_kernel_options options = clq_cut_options(&cut, "%s", p->non_negative ? " -DNON_NEGATIVE" : "");
    clq_launch_begin(list, "constrain", "constrain", options.text, "constrain");
    clq_launch_value(list, w, CLQ_READS_WRITES);
    clq_launch_size(list, block);
    if (p->non_negative) {
        clq_launch_size(list, items);
    } else {
        for (size_t i = 0; i < CLQ_COUNT_OF(p->sizes); i++) clq_launch_size(list, p->sizes[i]);
        clq_launch_float(list, (float)p->least);
        clq_launch_float(list, (float)p->most);
        clq_launch_float(list, (float)p->rate);
    }
    clq_cut_work(list, &cut);
    clq_launch_cost(list, 3 * floats, 0, bytes, 0);
}

/* Constrains the numbers that share a norm: w[a * steps[0] + b * steps[1]], for all a below sizes[1] and b below
 * sizes[3]. */
static void hold(const clq_constraint_problem *p, float *w, const size_t steps[2]) {
    double sum = 0;
    for (size_t a = 0; a < p->sizes[1]; a++)
        for (size_t b = 0; b < p->sizes[3]; b++) {
            const double x = (double)w[a * steps[0] + b * steps[1]];
            sum += x * x;
        }
    const double norm = sqrt(sum), held = fmin(fmax(norm, p->least), p->most);
    const float factor = (float)((p->rate * held + (1 - p->rate) * norm) / (epsilon + norm));
    for (size_t a = 0; a < p->sizes[1]; a++)
        for (size_t b = 0; b < p->sizes[3]; b++) w[a * steps[0] + b * steps[1]] *= factor;
}

void clq_constrain_on_host(const clq_constraint_problem *p, float *w) {
    const size_t *n = p->sizes, steps[2] = {n[2] * n[3] * n[4], n[4]};
    if (p->non_negative) {
        for (size_t i = 0; i < elements_of(p); i++) w[i] = w[i] < 0 ? 0 : w[i];
        return;
    }
    for (size_t i = 0; i < n[0]; i++)
        for (size_t j = 0; j < n[2]; j++)
            for (size_t k = 0; k < n[4]; k++) hold(p, w + (i * n[1] * n[2] + j) * n[3] * n[4] + k, steps);
}
