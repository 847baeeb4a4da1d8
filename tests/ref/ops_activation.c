#include "ref/ref_elementwise.h"

#include <math.h>

static void softmax_row(size_t n, const double *x, double *y) {
    double most = x[0], sum = 0;
    for (size_t i = 1; i < n; i++) most = fmax(most, x[i]);
    for (size_t i = 0; i < n; i++) sum += exp(x[i] - most);
    for (size_t i = 0; i < n; i++) y[i] = exp(x[i] - most) / sum;
}

static double activate(clq_activation act, double x) {
    switch (act) {
    case CLQ_ACTIVATION_RELU: return x > 0 ? x : 0;
    case CLQ_ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case CLQ_ACTIVATION_TANH: return tanh(x);
    case CLQ_ACTIVATION_MISH: return x * tanh(log1p(exp(x)));
    case CLQ_ACTIVATION_SILU: return x / (1 + exp(-x));
    case CLQ_ACTIVATION_GELU: return x / 2 * erfc(-x * M_SQRT1_2);
    case CLQ_ACTIVATION_GELU_APPROXIMATE: return x / 2 * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case CLQ_ACTIVATION_RELU6: return fmin(fmax(x, 0), 6);
    case CLQ_ACTIVATION_LEAKY_RELU: return x > 0 ? x : 0.2 * x;
    case CLQ_ACTIVATION_ELU: return x > 0 ? x : expm1(x);
    case CLQ_ACTIVATION_SELU:
        return 1.0507009873554804934193349852946 * (x > 0 ? x : 1.6732632423543772848170429916717 * expm1(x));
    case CLQ_ACTIVATION_EXPONENTIAL: return exp(x);
    case CLQ_ACTIVATION_SOFTPLUS: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case CLQ_ACTIVATION_SOFTSIGN: return x / (1 + fabs(x));
    case CLQ_ACTIVATION_LOG_SIGMOID: return x > 0 ? -log1p(exp(-x)) : x - log1p(exp(x));
    case CLQ_ACTIVATION_HARD_SIGMOID: return x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5;
    case CLQ_ACTIVATION_HARD_SILU: return x <= -3 ? 0 : x >= 3 ? x : x * (x / 6 + 0.5);
    case CLQ_ACTIVATION_HARD_TANH: return fmax(-1, fmin(1, x));
    case CLQ_ACTIVATION_TANH_SHRINK: return x - tanh(x);
    case CLQ_ACTIVATION_SOFT_SHRINK: return x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0;
    case CLQ_ACTIVATION_HARD_SHRINK: return fabs(x) > 0.5 ? x : 0;
    case CLQ_ACTIVATION_SQUAREPLUS: return (x + sqrt(x * x + 4)) / 2;
    case CLQ_ACTIVATION_LINEAR:
    case CLQ_ACTIVATION_SOFTMAX: break;
    }
    return x;
}

static double slope(clq_activation act, double x) {
    switch (act) {
    case CLQ_ACTIVATION_RELU: return x > 0;
    case CLQ_ACTIVATION_SIGMOID: return 1 / ((1 + exp(-x)) * (1 + exp(x)));
    case CLQ_ACTIVATION_TANH: return 1 / (cosh(x) * cosh(x));
    case CLQ_ACTIVATION_MISH: {
        double t = tanh(log1p(exp(x)));
        return t + x * (1 - t * t) / (1 + exp(-x));
    }
    case CLQ_ACTIVATION_SOFTPLUS: return 1 / (1 + exp(-x));
    case CLQ_ACTIVATION_LINEAR: return 1;
    default: return NAN; /* others have their instructions' derivatives: tests/graph/test_step_graph.c */
    }
}

void ref_activation(clq_activation act, size_t rows, size_t channels, const double *x, double *y) {
    for (size_t r = 0; r < rows; r++) {
        if (act == CLQ_ACTIVATION_SOFTMAX) {
            softmax_row(channels, x + r * channels, y + r * channels);
            continue;
        }
        for (size_t c = 0; c < channels; c++) y[r * channels + c] = activate(act, x[r * channels + c]);
    }
}

/* dx_j = sum over i of dy_i y_i ([i = j] - y_j) */
static void softmax_gradient_row(size_t n, const double *x, const double *dy, double *dx) {
    double sum = 0;
    softmax_row(n, x, dx); /* y */
    for (size_t i = 0; i < n; i++) sum += dy[i] * dx[i];
    for (size_t j = 0; j < n; j++) dx[j] *= dy[j] - sum;
}

void ref_activation_gradient(clq_activation act, size_t rows, size_t channels, const double *x, const double *dy,
                             double *dx, double *db) {
    for (size_t r = 0; r < rows; r++) {
        if (act == CLQ_ACTIVATION_SOFTMAX) {
            softmax_gradient_row(channels, x + r * channels, dy + r * channels, dx + r * channels);
            continue;
        }
        for (size_t i = r * channels; i < (r + 1) * channels; i++) dx[i] = dy[i] * slope(act, x[i]);
    }
    for (size_t c = 0; db && c < channels; c++) {
        db[c] = 0;
        for (size_t r = 0; r < rows; r++) db[c] += dx[r * channels + c];
    }
}
