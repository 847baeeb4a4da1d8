#include "ref/ref_elementwise.h"

#include <math.h>

size_t ref_argmax(const double *x, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static double smoothed(const clq_loss_problem *p, double t) {
    if (p->kind == CLQ_LOSS_SPARSE_CATEGORICAL) return t;
    return t * (1 - (double)p->label_smoothing) + (double)p->label_smoothing / (double)p->classes;
}

static double row_sum(const double *x, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

/* log(sum(exp(x))) without the largest term inside the logarithm's 1 + … */
static double log_sum_exp(const double *x, size_t n) {
    size_t top = ref_argmax(x, n);
    double rest = 0;
    for (size_t i = 0; i < n; i++)
        if (i != top) rest += exp(x[i] - x[top]);
    return x[top] + log1p(rest);
}

static double clip(double p) { return p < 1e-7 ? 1e-7 : p > 1 - 1e-7 ? 1 - 1e-7 : p; }

double ref_cross_entropy(const clq_loss_problem *p, const double *x, const double *target) {
    double loss = 0, whole = p->from_logits ? log_sum_exp(x, p->classes) : row_sum(x, p->classes);
    for (size_t i = 0; i < p->classes; i++) {
        double t = smoothed(p, target[i]);
        if (t != 0) loss -= t * (p->from_logits ? x[i] - whole : log(clip(x[i] / whole)));
    }
    return loss;
}

/* dloss/dx_j = sum over i of dloss/dq_i dq_i/dx_j, with q the softmax of x or x / sum(x). */
void ref_cross_entropy_gradient(const clq_loss_problem *p, const double *x, const double *target, double *dx) {
    size_t n = p->classes;
    double whole = p->from_logits ? log_sum_exp(x, n) : row_sum(x, n);
    for (size_t j = 0; j < n; j++) {
        double qj = p->from_logits ? exp(x[j] - whole) : x[j] / whole;
        dx[j] = 0;
        for (size_t i = 0; i < n; i++) {
            double t = smoothed(p, target[i]), qi = x[i] / whole;
            if (p->from_logits)
                dx[j] -= t * ((i == j) - qj); /* dlog q_i / dx_j = [i = j] - q_j */
            else if (qi == clip(qi))
                dx[j] -= t / qi * ((i == j) - qi) / whole;
        }
    }
}
