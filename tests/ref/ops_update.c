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

/* The change of weight i in update number `t`, from 1, by the papers' formulas, with Keras's epsilons. h: the
 * optimizer's hyper-parameters, in the order of clq_optimizer_kind's comment. s: the states, in the order of
 * cl/update_rules.cl. */
typedef double step_rule(const double *h, double lr, double t, double g, double *const *s, size_t i);

static void moments(const double *h, double g, double *m, double *v) {
    *m = h[1] * *m + (1 - h[1]) * g;
    *v = h[2] * *v + (1 - h[2]) * g * g;
}

static double adam(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    moments(h, g, &s[0][i], &s[1][i]);
    double v = s[1][i];
    if (h[4] != 0) v = s[2][i] = fmax(s[2][i], v);
    return -lr * sqrt(1 - pow(h[2], t)) / (1 - pow(h[1], t)) * s[0][i] / (sqrt(v) + h[3]);
}

static double adamax(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    s[0][i] = h[1] * s[0][i] + (1 - h[1]) * g;
    s[1][i] = fmax(h[2] * s[1][i], fabs(g));
    return -lr / (1 - pow(h[1], t)) * s[0][i] / (s[1][i] + h[3]);
}

static double nadam(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    const double now = h[1] * (1 - 0.5 * pow(0.96, t)), next = h[1] * (1 - 0.5 * pow(0.96, t + 1));
    double product = 1;
    for (double k = 1; k <= t; k++) product *= h[1] * (1 - 0.5 * pow(0.96, k));
    moments(h, g, &s[0][i], &s[1][i]);
    const double m = next * s[0][i] / (1 - product * next) + (1 - now) * g / (1 - product);
    return -lr * m / (sqrt(s[1][i] / (1 - pow(h[2], t))) + h[3]);
}

/* Keras starts the accumulator at `initial`. Here the state leaves `initial` out, and h[1] adds it. */
static double adagrad(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    (void)t;
    s[0][i] += g * g;
    return -lr * g / sqrt(h[1] + s[0][i] + h[2]);
}

static double adadelta(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    (void)t;
    s[0][i] = h[1] * s[0][i] + (1 - h[1]) * g * g;
    const double step = -sqrt(s[1][i] + h[2]) / sqrt(s[0][i] + h[2]) * g;
    s[1][i] = h[1] * s[1][i] + (1 - h[1]) * step * step;
    return lr * step;
}

static double rmsprop(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    double *mean = h[2] != 0 ? &s[2][i] : &s[1][i], under;
    (void)t;
    under = s[0][i] = h[1] * s[0][i] + (1 - h[1]) * g * g;
    if (h[4] != 0) {
        *mean = h[1] * *mean + (1 - h[1]) * g;
        under -= *mean * *mean;
    }
    const double step = lr * g / sqrt(under + h[3]);
    if (h[2] == 0) return -step;
    s[1][i] = h[2] * s[1][i] + step;
    return -s[1][i];
}

static double lion(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    const double direction = h[1] * s[0][i] + (1 - h[1]) * g;
    (void)t;
    s[0][i] = h[2] * s[0][i] + (1 - h[2]) * g;
    return direction > 0 ? -lr : direction < 0 ? lr : 0;
}

static double sgd(const double *h, double lr, double t, double g, double *const *s, size_t i) {
    double step = 0;
    (void)t;
    ref_sgd(1, lr, h[1], h[2] != 0, &step, &g, s[0] + i);
    return step;
}

/* LAMB for a variable of n weights. If the first moment is 0, the direction is 0, also if epsilon is 0. */
static void lamb(const double *h, size_t n, double lr, double t, double *w, const double *g, double *const *s) {
    double weights = 0, directions = 0, *direction = clq_alloc(n, sizeof *direction);
    assert_non_null(direction);
    for (size_t i = 0; i < n; i++) {
        w[i] -= w[i] * h[4] * lr;
        moments(h, g[i], &s[0][i], &s[1][i]);
        direction[i] = s[0][i] == 0 ? 0 : s[0][i] / (1 - pow(h[1], t)) / (sqrt(s[1][i] / (1 - pow(h[2], t))) + h[3]);
        weights += w[i] * w[i];
        directions += direction[i] * direction[i];
    }
    const double ratio = weights > 0 && directions > 0 ? sqrt(weights) / sqrt(directions) : 1;
    for (size_t i = 0; i < n; i++) w[i] -= ratio * lr * direction[i];
    clq_free(direction);
}

void ref_update(const clq_optimizer *optimizer, size_t n, double lr, unsigned t, double *w, const double *g,
                double *const *states) {
    static const struct {
        step_rule *step;
        unsigned decay; /* index of the decay in values */
    } rows[] = {[CLQ_OPTIMIZER_SGD] = {sgd, 3},         [CLQ_OPTIMIZER_ADAM] = {adam, 5},
                [CLQ_OPTIMIZER_ADAGRAD] = {adagrad, 3}, [CLQ_OPTIMIZER_ADAMW] = {adam, 5},
                [CLQ_OPTIMIZER_ADAMAX] = {adamax, 4},   [CLQ_OPTIMIZER_NADAM] = {nadam, 4},
                [CLQ_OPTIMIZER_RMSPROP] = {rmsprop, 5}, [CLQ_OPTIMIZER_ADADELTA] = {adadelta, 3},
                [CLQ_OPTIMIZER_LION] = {lion, 3}};
    if (optimizer->kind == CLQ_OPTIMIZER_LAMB) {
        lamb(optimizer->values, n, lr, t, w, g, states);
        return;
    }
    if ((size_t)optimizer->kind >= CLQ_COUNT_OF(rows)) fail_msg("optimizer %d has no reference", (int)optimizer->kind);
    const double *h = optimizer->values;
    for (size_t i = 0; i < n; i++) {
        w[i] -= w[i] * h[rows[optimizer->kind].decay] * lr;
        w[i] += rows[optimizer->kind].step(h, lr, t, g[i], states, i);
    }
}

double ref_square_sum(size_t n, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
    return sum;
}
