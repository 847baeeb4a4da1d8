#include "ref/ref_elementwise.h"
#include "support/check.h"

#include <math.h>

void ref_sgd(size_t n, double rate, double momentum, bool nesterov, double *w, const double *g, double *v) {
    for (size_t i = 0; i < n; i++) {
        if (momentum == 0) {
            w[i] -= rate * g[i];
            continue;
        }
        v[i] = momentum * v[i] - rate * g[i];
        w[i] += nesterov ? momentum * v[i] - rate * g[i] : v[i];
    }
}

void ref_adam(size_t n, double rate, double beta1, double beta2, double epsilon, double *w, const double *g, double *m,
              double *v) {
    for (size_t i = 0; i < n; i++) {
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        w[i] -= rate * m[i] / (sqrt(v[i]) + epsilon);
    }
}

/* The accumulator, which Keras starts at `initial`, without it. */
static void adagrad(size_t n, double rate, double initial, double epsilon, double *w, const double *g, double *sum) {
    for (size_t i = 0; i < n; i++) {
        sum[i] += g[i] * g[i];
        w[i] -= rate * g[i] / sqrt(initial + sum[i] + epsilon);
    }
}

void ref_update(const clq_optimizer *optimizer, size_t n, double rate, double *w, const double *g,
                double *const *states) {
    const double *h = optimizer->values; /* lr and the others, in the order of clq_optimizer_kind's comment */
    switch (optimizer->kind) {
    case CLQ_OPTIMIZER_SGD: ref_sgd(n, rate, h[1], h[2] != 0, w, g, states[0]); return;
    case CLQ_OPTIMIZER_ADAM: ref_adam(n, rate, h[1], h[2], h[3], w, g, states[0], states[1]); return;
    case CLQ_OPTIMIZER_ADAGRAD: adagrad(n, rate, h[1], h[2], w, g, states[0]); return;
    }
    fail_msg("optimizer %d has no reference", (int)optimizer->kind);
}

double ref_square_sum(size_t n, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}
