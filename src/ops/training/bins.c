/* Metrics that count in bins.
 *
 * Areas under curves are computed from counts of values between thresholds, as Keras's AUC does with its summation
 * "interpolation".
 *
 * The first of n thresholds is 0, the last is 1, and the others are evenly spaced. Bin b counts the probabilities above
 * threshold b, up to threshold b + 1. Bin 0 also counts probabilities of 0. First come n - 1 bins for values whose
 * target is 1, then n - 1 bins for the other values. The count above a threshold is the sum of its bin and all later
 * bins. */
#include "ops/training/bins.h"

#include <math.h>

size_t clq_threshold_bins(size_t classes, double thresholds) {
    (void)classes;
    return 2 * ((size_t)thresholds - 1);
}

static double sum_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += values[i];
    return sum;
}

/* The area under the ROC curve, by trapezoids: the rate of true positives over the rate of false positives. */
double clq_roc_area(const double *bins, size_t count) {
    const size_t each = count / 2;
    const double positives = sum_of(bins, each), negatives = sum_of(bins + each, each);
    double area = 0, above = 0;
    if (positives == 0 || negatives == 0) return 0;
    for (size_t b = each; b-- > 0;) {
        area += bins[each + b] * (above + bins[b] / 2);
        above += bins[b];
    }
    return area / (positives * negatives);
}

/* Davis and Goadrich, "The relationship between precision-recall and ROC curves", 2006: between two thresholds, the
 * true positives are a linear function of all positives, p, with a slope and an intercept. So the area is that under
 * slope + intercept / p. */
double clq_precision_recall_area(const double *bins, size_t count) {
    const size_t each = count / 2;
    const double positives = sum_of(bins, each);
    double area = 0, right = 0, told = 0; /* true positives, and all predicted positives, above the threshold */
    if (positives == 0) return 0;
    for (size_t b = each; b-- > 0;) {
        const double in_bin = bins[b] + bins[each + b];
        if (in_bin > 0) {
            const double slope = bins[b] / in_bin, intercept = right - slope * told;
            area += slope * (bins[b] + (told > 0 ? intercept * log((told + in_bin) / told) : 0));
        }
        right += bins[b];
        told += in_bin;
    }
    return area / positives;
}

size_t clq_confusion_bins(size_t classes, double number) {
    (void)number;
    return classes * classes;
}

size_t clq_binary_confusion_bins(size_t classes, double number) {
    (void)classes;
    (void)number;
    return 4;
}
