#include "ref/ref_elementwise.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

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

/* log(sum(exp(x))), computed with log1p: the largest term is the 1 in the logarithm. */
static double log_sum_exp(const double *x, size_t n) {
    size_t top = ref_argmax(x, n);
    double rest = 0;
    for (size_t i = 0; i < n; i++)
        if (i != top) rest += exp(x[i] - x[top]);
    return x[top] + log1p(rest);
}

/* Clips to the float32 values of 1e-7 and 1 - 1e-7, as Keras does. The latter is 1.19e-7 below 1. */
static double clip(double p) {
    const double least = 1e-7f, most = 1.0f - 1e-7f;
    return p < least ? least : p > most ? most : p;
}

/* A loss with class indices, as in Keras on TensorFlow: the logarithms of the clipped values are the logits. Unless dx
 * is NULL, writes the derivative through these steps. */
static double sparse_of_probabilities(size_t n, const double *x, const double *target, double *dx) {
    double *logits = clq_alloc(n, sizeof *logits), whole, loss = 0;
    assert_non_null(logits);
    for (size_t i = 0; i < n; i++) logits[i] = log(clip(x[i]));
    whole = log_sum_exp(logits, n);
    for (size_t i = 0; i < n; i++) {
        loss -= target[i] * (logits[i] - whole);
        if (dx) dx[i] = x[i] == clip(x[i]) ? (exp(logits[i] - whole) - target[i]) / x[i] : 0;
    }
    clq_free(logits);
    return loss;
}

/* The share of 0 is 0, also if the whole is 0. Any other share of a whole of 0 is infinite and is clipped later. */
static double share(double x, double whole) { return x == 0 ? 0 : x / whole; }

double ref_cross_entropy(const clq_loss_problem *p, const double *x, const double *target) {
    if (clq_loss_has_index(p) && !p->from_logits) return sparse_of_probabilities(p->classes, x, target, NULL);
    double loss = 0, whole = p->from_logits ? log_sum_exp(x, p->classes) : row_sum(x, p->classes);
    for (size_t i = 0; i < p->classes; i++) {
        double t = smoothed(p, target[i]);
        if (t != 0) loss -= t * (p->from_logits ? x[i] - whole : log(clip(share(x[i], whole))));
    }
    return loss;
}

/* dloss/dx_j = sum over i of dloss/dq_i dq_i/dx_j, where q is softmax(x) or x / sum(x). For logits, a term i with a
 * slope gives -t_i ([i = j] - q_j), as dlog q_i / dx_j = [i = j] - q_j. Otherwise it gives -t_i / q_i ([i = j] - q_i) /
 * sum(x). */
void ref_cross_entropy_gradient(const clq_loss_problem *p, const double *x, const double *target, double *dx) {
    size_t n = p->classes;
    if (clq_loss_has_index(p) && !p->from_logits) {
        (void)sparse_of_probabilities(n, x, target, dx);
        return;
    }
    double whole = p->from_logits ? log_sum_exp(x, n) : row_sum(x, n), mass = 0; /* sum of t over such terms */
    for (size_t i = 0; i < n; i++) {
        const double t = smoothed(p, target[i]), q = p->from_logits ? 1 : share(x[i], whole);
        const bool slopes = p->from_logits || q == clip(q);
        mass += slopes ? t : 0;
        dx[i] = !slopes ? 0 : p->from_logits ? -t : -t / q / whole;
    }
    for (size_t j = 0; j < n && mass != 0; j++) dx[j] += p->from_logits ? mass * exp(x[j] - whole) : mass / whole;
}

/* ---- losses that are means over values ---- */

static double binary(const clq_loss_problem *p, double x, double t, double *slope) {
    t = t * (1 - (double)p->label_smoothing) + (double)p->label_smoothing / 2;
    double q = p->from_logits ? 1 / (1 + exp(-x)) : clip(x);
    *slope = p->from_logits ? q - t : q == x ? -t / q + (1 - t) / (1 - q) : 0;
    if (!p->from_logits) return -t * log(q) - (1 - t) * log(1 - q);
    /* log(q) = -log(1 + exp(-x)), and log(1 - q) = log(q) - x */
    double log_q = x > 0 ? -log1p(exp(-x)) : x - log1p(exp(x));
    return -t * log_q - (1 - t) * (log_q - x);
}

static double huber(double error, double delta, double *slope) {
    double size = fabs(error);
    *slope = size <= delta ? error : copysign(delta, error);
    return size <= delta ? error * error / 2 : delta * size - delta * delta / 2;
}

static double hinge(double x, double t, double *slope) {
    if (t == 0) t = -1;
    *slope = t * x < 1 ? -t : 0;
    return fmax(1 - t * x, 0);
}

static double squared_hinge(double x, double t, double *slope) {
    const double short_of = hinge(x, t, slope);
    *slope *= 2 * short_of;
    return short_of * short_of;
}

/* log((exp(e) + exp(-e)) / 2) */
static double log_cosh(double error, double *slope) {
    *slope = tanh(error);
    return fabs(error) + log1p(exp(-2 * fabs(error))) - log(2);
}

static double poisson(double x, double t, double *slope) {
    *slope = 1 - t / (x + 1e-7);
    if (x + 1e-7 <= 0) return x - t * log(1e-7); /* no logarithm of a negative number */
    return x - t * log(x + 1e-7);
}

static double percentage(double x, double t, double *slope) {
    const double of = fmax(fabs(t), 1e-7);
    *slope = 100 / of * ((x > t) - (x < t));
    return 100 * fabs((t - x) / of);
}

static double squared_logarithmic(double x, double t, double *slope) {
    const double error = log(fmax(x, 1e-7) + 1) - log(fmax(t, 1e-7) + 1);
    *slope = x >= 1e-7 ? 2 * error / (x + 1) : 0;
    return error * error;
}

/* weight * (1 - p_t)^gamma * crossentropy, with p_t = t p + (1 - t) (1 - p). */
static double binary_focal(const clq_loss_problem *p, double x, double t, double *slope) {
    const double g = (double)p->gamma, a = p->balanced ? (double)p->alpha : 1, b = p->balanced ? 1 - a : 1;
    double crossentropy = binary(p, x, t, slope);
    t = t * (1 - (double)p->label_smoothing) + (double)p->label_smoothing / 2;
    const double share = p->from_logits ? 1 / (1 + exp(-x)) : x, by_x = p->from_logits ? share * (1 - share) : 1;
    const double wrong = t * (1 - share) + (1 - t) * share, weight = t * a + (1 - t) * b;
    *slope = weight * (pow(wrong, g) * *slope + g * pow(wrong, g - 1) * (1 - 2 * t) * by_x * crossentropy);
    return weight * pow(wrong, g) * crossentropy;
}

static double value_loss(const clq_loss_problem *p, double x, double t, double *slope) {
    switch (p->kind) {
    case CLQ_LOSS_BINARY: return binary(p, x, t, slope);
    case CLQ_LOSS_MEAN_SQUARED_ERROR: *slope = 2 * (x - t); return (x - t) * (x - t);
    case CLQ_LOSS_MEAN_ABSOLUTE_ERROR: *slope = (x > t) - (x < t); return fabs(x - t);
    case CLQ_LOSS_HUBER: return huber(x - t, (double)p->delta, slope);
    case CLQ_LOSS_HINGE: return hinge(x, t, slope);
    case CLQ_LOSS_SQUARED_HINGE: return squared_hinge(x, t, slope);
    case CLQ_LOSS_LOG_COSH: return log_cosh(x - t, slope);
    case CLQ_LOSS_POISSON: return poisson(x, t, slope);
    case CLQ_LOSS_MEAN_ABSOLUTE_PERCENTAGE_ERROR: return percentage(x, t, slope);
    case CLQ_LOSS_MEAN_SQUARED_LOGARITHMIC_ERROR: return squared_logarithmic(x, t, slope);
    case CLQ_LOSS_BINARY_FOCAL: return binary_focal(p, x, t, slope);
    default: break;
    }
    fail_msg("loss %d has no reference", (int)p->kind);
    return 0;
}

/* ---- other losses of rows ---- */

/* sum(-alpha t (1 - p)^gamma log(p)) with p clipped. The derivative is by dloss/dp_i dp_i/dx_j, as in cross-entropy. */
static double categorical_focal(const clq_loss_problem *p, const double *x, const double *target, double *dx) {
    const size_t n = p->classes;
    const double whole = p->from_logits ? log_sum_exp(x, n) : row_sum(x, n), g = (double)p->gamma;
    double loss = 0;
    for (size_t j = 0; j < n && dx; j++) dx[j] = 0;
    for (size_t i = 0; i < n; i++) {
        const double w = (double)p->alpha * smoothed(p, target[i]);
        const double given = p->from_logits ? exp(x[i] - whole) : share(x[i], whole), q = clip(given);
        const double slope = w * (g * pow(1 - q, g - 1) * log(q) - pow(1 - q, g) / q);
        loss -= w * pow(1 - q, g) * log(q);
        for (size_t j = 0; j < n && dx && q == given; j++)
            dx[j] += slope * (p->from_logits ? q * ((i == j) - exp(x[j] - whole)) : ((i == j) - q) / whole);
    }
    return loss;
}

static double kl_divergence(size_t n, const double *x, const double *target, double *dx) {
    double loss = 0;
    for (size_t i = 0; i < n; i++) {
        const double t = fmin(fmax(target[i], 1e-7), 1), q = fmin(fmax(x[i], 1e-7), 1);
        loss += t * log(t / q);
        if (dx) dx[i] = x[i] == q ? -t / q : 0;
    }
    return loss;
}

static double norm(const double *x, size_t n) {
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += x[i] * x[i];
    return sqrt(squares);
}

static double cosine(size_t n, const double *x, const double *target, double *dx) {
    const double x_norm = norm(x, n), a = 1 / fmax(x_norm, 1e-7), b = 1 / fmax(norm(target, n), 1e-7);
    double dot = 0;
    for (size_t i = 0; i < n; i++) dot += x[i] * a * target[i] * b;
    for (size_t i = 0; i < n && dx; i++)
        dx[i] = -a * (target[i] * b - (x_norm >= 1e-7 ? dot * x[i] * a : 0)); /* the norm depends on x, too */
    return -dot;
}

static double categorical_hinge(size_t n, const double *x, const double *target, double *dx) {
    double right = 0, most = -INFINITY, equals = 0;
    for (size_t i = 0; i < n; i++) {
        right += target[i] * x[i];
        most = (1 - target[i]) * x[i] > most || isnan(x[i]) ? (1 - target[i]) * x[i] : most;
    }
    for (size_t i = 0; i < n; i++) equals += (1 - target[i]) * x[i] == most;
    const double loss = most - right + 1;
    for (size_t i = 0; i < n && dx; i++) {
        const double of_most = (1 - target[i]) * x[i] == most ? (1 - target[i]) / equals : 0;
        dx[i] = loss > 0 ? of_most - target[i] : 0;
    }
    return loss <= 0 ? 0 : loss;
}

static double row_loss(const clq_loss_problem *p, const double *x, const double *target, double *dx) {
    if (p->kind == CLQ_LOSS_CATEGORICAL || p->kind == CLQ_LOSS_SPARSE_CATEGORICAL) {
        if (dx) ref_cross_entropy_gradient(p, x, target, dx);
        return ref_cross_entropy(p, x, target);
    }
    if (p->kind == CLQ_LOSS_CATEGORICAL_FOCAL) return categorical_focal(p, x, target, dx);
    if (p->kind == CLQ_LOSS_KL_DIVERGENCE) return kl_divergence(p->classes, x, target, dx);
    if (p->kind == CLQ_LOSS_COSINE_SIMILARITY) return cosine(p->classes, x, target, dx);
    if (p->kind == CLQ_LOSS_CATEGORICAL_HINGE) return categorical_hinge(p->classes, x, target, dx);
    double sum = 0, slope;
    for (size_t i = 0; i < p->classes; i++) {
        sum += value_loss(p, x[i], target[i], &slope);
        if (dx) dx[i] = slope / (double)p->classes;
    }
    return sum / (double)p->classes;
}

/* The mask's weight of row r: 1 if it counts, 0 if not. */
static double count_row(const clq_loss_problem *p, const double *mask, size_t r) {
    const size_t rows = p->rows ? p->rows : 1;
    return mask ? mask[r / (rows / p->mask_steps)] : 1;
}

double ref_masked_loss(const clq_loss_problem *p, const double *x, const double *target, const double *mask,
                       double part, double *dx) {
    const size_t rows = p->rows ? p->rows : 1, n = p->classes;
    double sum = 0;
    for (size_t r = 0; r < rows; r++) {
        const double counts = part > 0 ? count_row(p, mask, r) / part : 0;
        sum += counts * row_loss(p, x + r * n, target + r * n, dx ? dx + r * n : NULL);
        for (size_t i = r * n; i < (r + 1) * n && dx; i++) dx[i] *= counts * (double)p->weight / (double)rows;
    }
    return sum / (double)rows;
}

double ref_loss(const clq_loss_problem *p, const double *x, const double *target, double *dx) {
    return ref_masked_loss(p, x, target, NULL, 1, dx);
}

/* ---- metrics ---- */

static double correct(clq_metric_kind kind, double number, double x, double t) {
    double slope;
    switch (kind) {
    case CLQ_METRIC_BINARY_ACCURACY: return (x > number) == t;
    case CLQ_METRIC_MEAN_SQUARED_ERROR:
    case CLQ_METRIC_ROOT_MEAN_SQUARED_ERROR: return (x - t) * (x - t);
    case CLQ_METRIC_MEAN_ABSOLUTE_ERROR: return fabs(x - t);
    case CLQ_METRIC_MEAN_ABSOLUTE_PERCENTAGE_ERROR: return percentage(x, t, &slope);
    case CLQ_METRIC_MEAN_SQUARED_LOGARITHMIC_ERROR: return squared_logarithmic(x, t, &slope);
    case CLQ_METRIC_LOG_COSH: return log_cosh(x - t, &slope);
    default: break;
    }
    fail_msg("metric %d has no reference", (int)kind);
    return 0;
}

static bool is_among(size_t n, const double *x, size_t wanted, double most) {
    size_t larger = 0;
    for (size_t i = 0; i < n; i++) larger += x[i] > x[wanted];
    return (double)larger < most;
}

/* Adds the totals of precision, recall or F1. Precision is both / told, recall is both / is, F1 is 2 both / (told +
 * is): told counts values predicted as 1, is counts targets of 1, both counts values that are both. */
static void count_decisions(clq_metric_kind kind, double number, size_t n, const double *x, const double *target,
                            double *totals) {
    for (size_t i = 0; i < n; i++) {
        const double told = x[i] > number, is = target[i] != 0;
        totals[0] += kind == CLQ_METRIC_F1 ? 2 * told * is : told * is;
        totals[1] += kind == CLQ_METRIC_PRECISION ? told : kind == CLQ_METRIC_RECALL ? is : told + is;
    }
}

static double crossentropy(const clq_loss_problem *p, const double *x, const double *target) {
    clq_loss_problem plain = *p;
    plain.label_smoothing = 0;
    return ref_cross_entropy(&plain, x, target);
}

/* Adds a row's totals. */
static void row_metric(clq_metric_kind kind, double number, size_t n, const double *x, const double *target,
                       double *totals) {
    switch (kind) {
    case CLQ_METRIC_CATEGORICAL_ACCURACY: totals[0] += ref_argmax(x, n) == ref_argmax(target, n); return;
    case CLQ_METRIC_TOP_K: totals[0] += is_among(n, x, ref_argmax(target, n), number); return;
    case CLQ_METRIC_KL_DIVERGENCE: totals[0] += kl_divergence(n, x, target, NULL); return;
    case CLQ_METRIC_COSINE_SIMILARITY: totals[0] -= cosine(n, x, target, NULL); return;
    case CLQ_METRIC_PRECISION:
    case CLQ_METRIC_RECALL:
    case CLQ_METRIC_F1: count_decisions(kind, number, n, x, target, totals); return;
    default:
        for (size_t i = 0; i < n; i++) totals[0] += correct(kind, number, x[i], target[i]) / (double)n;
    }
}

/* A histogram of values between neighbours of `number` thresholds from 0 to 1: first for values with a target of 1,
 * then for the others. */
static void count_by_thresholds(double number, size_t n, const double *p, const double *target, double *bins) {
    const size_t each = (size_t)number - 1;
    for (size_t i = 0; i < n; i++) {
        size_t bin = 0;
        while (bin + 1 < each && p[i] > (double)(bin + 1) / (double)each) bin++;
        bins[(target[i] != 0 ? 0 : each) + bin]++;
    }
}

/* The confusion matrix: how many rows of each class were predicted as each class. */
static void count_classes(size_t rows, size_t n, const double *x, const double *target, double *bins) {
    for (size_t r = 0; r < rows; r++) bins[ref_argmax(target + r * n, n) * n + ref_argmax(x + r * n, n)]++;
}

/* The confusion matrix of values that are each 0 or 1. */
static void count_answers(double number, size_t n, const double *p, const double *target, double *bins) {
    for (size_t i = 0; i < n; i++) bins[2 * (target[i] > 0.5) + (p[i] > number)]++;
}

/* What metrics read if the loss reads x: the model's output, and the probabilities that x stands for. */
typedef struct sight {
    double *output, *probabilities;
} sight;

static void metric_totals(const clq_loss_problem *p, unsigned metric, const double *x, const sight *seen,
                          const double *target, const double *mask, double *totals) {
    const size_t rows = p->rows ? p->rows : 1, n = p->classes;
    const clq_metric_kind kind = p->metrics[metric];
    const unsigned count = clq_metric_row_of(kind)->totals;
    /* In Keras, only a MeanMetricWrapper takes masks. These metrics are none, so every row counts. */
    const bool every = kind == CLQ_METRIC_ROOT_MEAN_SQUARED_ERROR || kind == CLQ_METRIC_PRECISION ||
                       kind == CLQ_METRIC_RECALL || kind == CLQ_METRIC_F1;
    for (unsigned k = 0; k < count; k++) totals[k] = 0;
    for (size_t r = 0; r < rows; r++) {
        double one[2] = {0};
        if (kind == CLQ_METRIC_CROSSENTROPY || kind == CLQ_METRIC_PERPLEXITY)
            one[0] = crossentropy(p, x + r * n, target + r * n);
        else
            row_metric(kind, (double)p->metric_values[metric], n, seen->output + r * n, target + r * n, one);
        for (unsigned k = 0; k < count; k++) totals[k] += one[k] * (every ? 1 : count_row(p, mask, r)) / (double)rows;
    }
}

static void metric_bins(const clq_loss_problem *p, unsigned metric, const sight *seen, const double *target,
                        double *bins) {
    const size_t rows = p->rows ? p->rows : 1, n = p->classes;
    const double number = (double)p->metric_values[metric];
    for (size_t k = 0; k < clq_metric_bins(p, metric); k++) bins[k] = 0;
    switch (p->metrics[metric]) {
    case CLQ_METRIC_CONFUSION: count_classes(rows, n, seen->output, target, bins); return;
    case CLQ_METRIC_BINARY_CONFUSION: count_answers(number, rows * n, seen->probabilities, target, bins); return;
    default: count_by_thresholds(number, rows * n, seen->probabilities, target, bins);
    }
}

void ref_totals(const clq_loss_problem *p, const double *x, const double *target, const double *mask, double part,
                double *totals) {
    const size_t rows = p->rows ? p->rows : 1, n = p->classes;
    const clq_activation last = p->from_logits ? clq_loss_row_of(p->kind)->activation : CLQ_ACTIVATION_LINEAR;
    double *bins = totals + clq_loss_sums(p);
    sight seen = {malloc((rows * n + 1) * sizeof(double)), malloc((rows * n + 1) * sizeof(double))};
    assert_true(seen.output && seen.probabilities);
    ref_activation(p->skipped, rows, n, x, seen.output);
    ref_activation(last, rows, n, x, seen.probabilities);
    *totals++ = ref_masked_loss(p, x, target, mask, part, NULL);
    for (unsigned i = 0; i < p->metric_count; i++) {
        const clq_metric_row *row = clq_metric_row_of(p->metrics[i]);
        if (row->bins)
            metric_bins(p, i, &seen, target, bins);
        else
            metric_totals(p, i, x, &seen, target, mask, totals);
        bins += clq_metric_bins(p, i);
        totals += row->totals;
    }
    if (mask) *totals = 0;
    for (size_t s = 0; s < p->mask_steps && mask; s++) *totals += mask[s] / (double)p->mask_steps;
    free(seen.output);
    free(seen.probabilities);
}
