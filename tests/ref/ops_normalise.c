#include "ref/ref_elementwise.h"

#include <math.h>

void ref_moments(size_t rows, size_t channels, const double *x, double *mean, double *variance) {
    for (size_t c = 0; c < channels; c++) {
        mean[c] = variance[c] = 0;
        for (size_t r = 0; r < rows; r++) mean[c] += x[r * channels + c] / (double)rows;
        for (size_t r = 0; r < rows; r++) variance[c] += pow(x[r * channels + c] - mean[c], 2) / (double)rows;
    }
}

void ref_normalise(size_t rows, size_t channels, double epsilon, const double *x, const double *mean,
                   const double *variance, const double *gamma, const double *beta, double *y) {
    for (size_t i = 0; i < rows * channels; i++) {
        size_t c = i % channels;
        y[i] = (x[i] - mean[c]) / sqrt(variance[c] + epsilon) * (gamma ? gamma[c] : 1) + (beta ? beta[c] : 0);
    }
}

/* Goes through the gradients of variance and mean. */
static void channel_gradient(size_t rows, size_t channels, size_t c, double epsilon, const double *x, const double *dy,
                             double mean, double variance, double gamma, double *dx) {
    double deviation = sqrt(variance + epsilon), d_variance = 0, d_mean = 0, n = (double)rows;
    for (size_t i = c; i < rows * channels; i += channels)
        d_variance += dy[i] * gamma * (x[i] - mean) * -0.5 / pow(deviation, 3);
    for (size_t i = c; i < rows * channels; i += channels)
        d_mean -= dy[i] * gamma / deviation + d_variance * 2 * (x[i] - mean) / n;
    for (size_t i = c; i < rows * channels; i += channels)
        dx[i] = dy[i] * gamma / deviation + d_variance * 2 * (x[i] - mean) / n + d_mean / n;
}

void ref_normalise_gradient(size_t rows, size_t channels, double epsilon, const double *x, const double *gamma,
                            const double *dy, const double *mean, const double *variance, double *dx, double *dgamma,
                            double *dbeta) {
    for (size_t c = 0; c < channels; c++) {
        dgamma[c] = dbeta[c] = 0;
        for (size_t i = c; i < rows * channels; i += channels) {
            dgamma[c] += dy[i] * (x[i] - mean[c]) / sqrt(variance[c] + epsilon);
            dbeta[c] += dy[i];
        }
        channel_gradient(rows, channels, c, epsilon, x, dy, mean[c], variance[c], gamma ? gamma[c] : 1, dx);
    }
}

/* The index in a sample of number i of a row. */
static size_t place_of(const clq_row_norm_problem *p, size_t row, size_t i) {
    const size_t block = row / p->groups, group = row % p->groups, channels = p->groups * p->width;
    return (block * p->positions + i / p->width) * channels + group * p->width + i % p->width;
}

static void statistics_of(const clq_row_norm_problem *p, const double *x, size_t row, double *mean, double *rate) {
    const size_t n = p->positions * p->width;
    double squares = 0;
    *mean = 0;
    for (size_t i = 0; i < n && p->centred; i++) *mean += x[place_of(p, row, i)] / (double)n;
    for (size_t i = 0; i < n; i++) squares += pow(x[place_of(p, row, i)] - *mean, 2) / (double)n;
    *rate = 1 / sqrt(squares + p->epsilon);
}

void ref_row_norm(const clq_row_norm_problem *p, size_t count, const double *x, const double *gamma, const double *beta,
                  double *y, double *statistics) {
    const size_t n = p->positions * p->width, rows = count * p->outer * p->groups, channels = p->groups * p->width;
    for (size_t row = 0; row < rows; row++) {
        double mean, rate;
        statistics_of(p, x, row, &mean, &rate);
        if (statistics) statistics[2 * row] = mean, statistics[2 * row + 1] = rate;
        for (size_t i = 0; i < n; i++) {
            const size_t at = place_of(p, row, i), c = at % channels;
            y[at] = (x[at] - mean) * rate * (gamma ? gamma[c] : 1) + (beta ? beta[c] : 0);
        }
    }
}

void ref_row_norm_gradient(const clq_row_norm_problem *p, size_t count, const double *x, const double *gamma,
                           const double *dy, double *dx, double *dgamma, double *dbeta) {
    const size_t n = p->positions * p->width, rows = count * p->outer * p->groups, channels = p->groups * p->width;
    for (size_t c = 0; c < channels; c++) dgamma[c] = dbeta[c] = 0;
    for (size_t row = 0; row < rows; row++) {
        double mean, rate, first = 0, second = 0;
        statistics_of(p, x, row, &mean, &rate);
        for (size_t i = 0; i < n; i++) {
            const size_t at = place_of(p, row, i), c = at % channels;
            const double normal = (x[at] - mean) * rate, slope = dy[at] * (gamma ? gamma[c] : 1);
            first += slope / (double)n;
            second += slope * normal / (double)n;
            dgamma[c] += dy[at] * normal;
            dbeta[c] += dy[at];
        }
        for (size_t i = 0; i < n; i++) {
            const size_t at = place_of(p, row, i), c = at % channels;
            const double normal = (x[at] - mean) * rate, slope = dy[at] * (gamma ? gamma[c] : 1);
            dx[at] = rate * (slope - (p->centred ? first : 0) - normal * second);
        }
    }
}
