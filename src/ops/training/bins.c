/* Metrics whose totals are counts.
 *
 * Areas under curves are of counts of values between thresholds, as Keras's AUC with its summation "interpolation".
 *
 * Of n thresholds the outer ones are 0 and 1 and the others lie evenly between them. Bin b counts the probabilities
 * above threshold b and up to threshold b + 1 (the first those of 0, too): first the n - 1 bins of the values whose
 * target is 1, then those of the others. What lies above a threshold is the sum over its bin and those behind it. */
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

/* Trapezoids under the rate of true positives over that of false ones. */
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

/* Davis and Goadrich, "The relationship between precision-recall and ROC curves", 2006: between two thresholds true
 * positives are linear in all positives, p, with a slope and an intercept: the area is that under
 * slope + intercept / p. */
double clq_precision_recall_area(const double *bins, size_t count) {
    const size_t each = count / 2;
    const double positives = sum_of(bins, each);
    double area = 0, right = 0, told = 0; /* true positives, and all that are told positive, above the threshold */
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
