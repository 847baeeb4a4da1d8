/* Metrics that count in bins: how many bins there are, and the metric's value from the counts. For losses.c. */
#ifndef CLQ_OPS_BINS_H
#define CLQ_OPS_BINS_H

#include "ops/ops.h"

/* Counts of values between thresholds: see bins.c. */
size_t clq_threshold_bins(size_t classes, double thresholds);
double clq_roc_area(const double *bins, size_t count);
double clq_precision_recall_area(const double *bins, size_t count);

/* Confusion matrices: of rows' classes, and of values that are 0 or 1. Bin true * classes + predicted. */
size_t clq_confusion_bins(size_t classes, double number);
size_t clq_binary_confusion_bins(size_t classes, double number);

#endif
