/* The losses and the metrics: one row of a table each. The rules are functions of cl/loss_rules.cl and cl/loss.cl.
 * Formulas and defaults are Keras's. To add a loss or a metric: a value of clq_loss_kind or clq_metric_kind, a row, a
 * rule in one of the .cl files, and a reference in tests/ref. */
#include "ops/training/bins.h"

#include <math.h>

static const clq_loss_row losses[] = {
    [CLQ_LOSS_CATEGORICAL] = {.name = "categorical_crossentropy",
                              .target = CLQ_TARGET_DISTRIBUTION,
                              .rule = "crossentropy",
                              .rule_of_logits = "crossentropy_of_logits",
                              .by_row = true,
                              .activation = CLQ_ACTIVATION_SOFTMAX,
                              .any_logits = true,
                              .one_hot = true,
                              .takes = CLQ_TAKES_FROM_LOGITS | CLQ_TAKES_LABEL_SMOOTHING,
                              .metrics = "accuracy"},
    [CLQ_LOSS_SPARSE_CATEGORICAL] = {.name = "sparse_categorical_crossentropy",
                                     .target = CLQ_TARGET_INDEX,
                                     .rule = "crossentropy",
                                     .rule_of_logits = "crossentropy_of_logits",
                                     .by_row = true,
                                     .activation = CLQ_ACTIVATION_SOFTMAX,
                                     .any_logits = true,
                                     .takes = CLQ_TAKES_FROM_LOGITS,
                                     .metrics = "accuracy"},
    [CLQ_LOSS_BINARY] = {.name = "binary_crossentropy",
                         .target = CLQ_TARGET_VALUES,
                         .rule = "binary_crossentropy",
                         .rule_of_logits = "binary_crossentropy_of_logits",
                         .activation = CLQ_ACTIVATION_SIGMOID,
                         .any_logits = true,
                         .one_hot = true,
                         .takes = CLQ_TAKES_FROM_LOGITS | CLQ_TAKES_LABEL_SMOOTHING,
                         .metrics = "accuracy"},
    [CLQ_LOSS_MEAN_SQUARED_ERROR] = {.name = "mean_squared_error",
                                     .alias = "mse",
                                     .target = CLQ_TARGET_VALUES,
                                     .rule = "mean_squared_error",
                                     .metrics = ""},
    [CLQ_LOSS_MEAN_ABSOLUTE_ERROR] = {.name = "mean_absolute_error",
                                      .alias = "mae",
                                      .target = CLQ_TARGET_VALUES,
                                      .rule = "mean_absolute_error",
                                      .metrics = ""},
    [CLQ_LOSS_HUBER] =
        {.name = "huber", .target = CLQ_TARGET_VALUES, .rule = "huber", .takes = CLQ_TAKES_DELTA, .metrics = ""},
    [CLQ_LOSS_HINGE] = {.name = "hinge", .target = CLQ_TARGET_VALUES, .rule = "hinge", .metrics = ""},
    [CLQ_LOSS_SQUARED_HINGE] = {.name = "squared_hinge",
                                .target = CLQ_TARGET_VALUES,
                                .rule = "squared_hinge",
                                .metrics = ""},
    [CLQ_LOSS_CATEGORICAL_HINGE] = {.name = "categorical_hinge",
                                    .target = CLQ_TARGET_DISTRIBUTION,
                                    .rule = "categorical_hinge",
                                    .by_row = true,
                                    .one_hot = true,
                                    .metrics = "accuracy"},
    [CLQ_LOSS_LOG_COSH] = {.name = "log_cosh", .target = CLQ_TARGET_VALUES, .rule = "log_cosh", .metrics = ""},
    [CLQ_LOSS_KL_DIVERGENCE] = {.name = "kl_divergence",
                                .alias = "kld",
                                .target = CLQ_TARGET_DISTRIBUTION,
                                .rule = "kl_divergence",
                                .by_row = true,
                                .one_hot = true,
                                .metrics = "accuracy"},
    [CLQ_LOSS_POISSON] = {.name = "poisson", .target = CLQ_TARGET_VALUES, .rule = "poisson", .metrics = ""},
    [CLQ_LOSS_COSINE_SIMILARITY] = {.name = "cosine_similarity",
                                    .target = CLQ_TARGET_VALUES,
                                    .rule = "cosine_similarity",
                                    .by_row = true,
                                    .metrics = ""},
    [CLQ_LOSS_MEAN_ABSOLUTE_PERCENTAGE_ERROR] = {.name = "mean_absolute_percentage_error",
                                                 .alias = "mape",
                                                 .target = CLQ_TARGET_VALUES,
                                                 .rule = "mean_absolute_percentage_error",
                                                 .metrics = ""},
    [CLQ_LOSS_MEAN_SQUARED_LOGARITHMIC_ERROR] = {.name = "mean_squared_logarithmic_error",
                                                 .alias = "msle",
                                                 .target = CLQ_TARGET_VALUES,
                                                 .rule = "mean_squared_logarithmic_error",
                                                 .metrics = ""},
    /* Lin and others, "Focal loss for dense object detection", 2017 */
    [CLQ_LOSS_BINARY_FOCAL] = {.name = "binary_focal_crossentropy",
                               .target = CLQ_TARGET_VALUES,
                               .rule = "binary_focal",
                               .rule_of_logits = "binary_focal_of_logits",
                               .activation = CLQ_ACTIVATION_SIGMOID,
                               .one_hot = true,
                               .takes = CLQ_TAKES_FROM_LOGITS | CLQ_TAKES_LABEL_SMOOTHING | CLQ_TAKES_FOCUS |
                                        CLQ_TAKES_BALANCING,
                               .metrics = "accuracy"},
    [CLQ_LOSS_CATEGORICAL_FOCAL] = {.name = "categorical_focal_crossentropy",
                                    .target = CLQ_TARGET_DISTRIBUTION,
                                    .rule = "categorical_focal",
                                    .rule_of_logits = "categorical_focal_of_logits",
                                    .by_row = true,
                                    .activation = CLQ_ACTIVATION_SOFTMAX,
                                    .one_hot = true,
                                    .takes = CLQ_TAKES_FROM_LOGITS | CLQ_TAKES_LABEL_SMOOTHING | CLQ_TAKES_FOCUS,
                                    .metrics = "accuracy"},
};

#define THRESHOLD                                                                                                      \
    {                                                                                                                  \
        { "threshold", 0.5, -1e6, 1e6, CLQ_NUMBER }                                                                    \
    }
#define OF_VALUES .totals = 1, .values = true
#define BY_THRESHOLDS                                                                                                  \
    .rule = "thresholds", .options = {{"num_thresholds", 200, 3, 1000, CLQ_WHOLE}}, .bins = clq_threshold_bins,        \
    .probabilities = true, .values = true, .better_high = true
#define OF_CLASSES .totals = 1, .by_row = true, .ranks = true, .classes = true
static const clq_metric_row metrics[] = {
    [CLQ_METRIC_CATEGORICAL_ACCURACY] = {.name = "categorical_accuracy",
                                         .alias = "sparse_categorical_accuracy",
                                         .rule = "categorical_accuracy",
                                         .totals = 1,
                                         .by_row = true,
                                         .ranks = true,
                                         .better_high = true},
    [CLQ_METRIC_BINARY_ACCURACY] =
        {.name = "binary_accuracy", .rule = "binary_accuracy", .options = THRESHOLD, .better_high = true, OF_VALUES},
    [CLQ_METRIC_MEAN_SQUARED_ERROR] = {.name = "mean_squared_error",
                                       .alias = "mse",
                                       .rule = "mean_squared_error",
                                       OF_VALUES},
    [CLQ_METRIC_ROOT_MEAN_SQUARED_ERROR] = {.name = "root_mean_squared_error",
                                            .alias = "rmse",
                                            .rule = "mean_squared_error",
                                            .of_mean = sqrt,
                                            .every_step = true,
                                            OF_VALUES},
    [CLQ_METRIC_MEAN_ABSOLUTE_ERROR] = {.name = "mean_absolute_error",
                                        .alias = "mae",
                                        .rule = "mean_absolute_error",
                                        OF_VALUES},
    [CLQ_METRIC_PRECISION] = {.name = "precision",
                              .rule = "precision",
                              .options = THRESHOLD,
                              .totals = 2,
                              .values = true,
                              .better_high = true},
    [CLQ_METRIC_RECALL] =
        {.name = "recall", .rule = "recall", .options = THRESHOLD, .totals = 2, .values = true, .better_high = true},
    [CLQ_METRIC_TOP_K] = {.name = "top_k_categorical_accuracy",
                          .alias = "sparse_top_k_categorical_accuracy",
                          .rule = "top_k",
                          .options = {{"k", 5, 1, 1e6, CLQ_WHOLE}},
                          .totals = 1,
                          .by_row = true,
                          .ranks = true,
                          .better_high = true},
    [CLQ_METRIC_COSINE_SIMILARITY] =
        {.name = "cosine_similarity", .rule = "cosine_similarity", .by_row = true, .better_high = true, OF_VALUES},
    [CLQ_METRIC_KL_DIVERGENCE] =
        {.name = "kl_divergence", .alias = "kld", .rule = "kl_divergence", .by_row = true, OF_VALUES},
    [CLQ_METRIC_MEAN_ABSOLUTE_PERCENTAGE_ERROR] = {.name = "mean_absolute_percentage_error",
                                                   .alias = "mape",
                                                   .rule = "mean_absolute_percentage_error",
                                                   OF_VALUES},
    [CLQ_METRIC_MEAN_SQUARED_LOGARITHMIC_ERROR] = {.name = "mean_squared_logarithmic_error",
                                                   .alias = "msle",
                                                   .rule = "mean_squared_logarithmic_error",
                                                   OF_VALUES},
    [CLQ_METRIC_LOG_COSH] = {.name = "log_cosh", .alias = "logcosh", .rule = "log_cosh", OF_VALUES},
    [CLQ_METRIC_F1] =
        {.name = "f1_score", .rule = "f1", .options = THRESHOLD, .totals = 2, .values = true, .better_high = true},
    [CLQ_METRIC_CROSSENTROPY] = {.name = "categorical_crossentropy",
                                 .alias = "sparse_categorical_crossentropy",
                                 .rule = "crossentropy",
                                 OF_CLASSES},
    [CLQ_METRIC_PERPLEXITY] = {.name = "perplexity", .rule = "crossentropy", .of_mean = exp, OF_CLASSES},
    [CLQ_METRIC_AUC] = {.name = "auc", .alias = "roc_auc", .of_bins = clq_roc_area, BY_THRESHOLDS},
    [CLQ_METRIC_PR_AUC] = {.name = "pr_auc", .of_bins = clq_precision_recall_area, BY_THRESHOLDS},
    [CLQ_METRIC_CONFUSION] =
        {.name = "confusion_matrix", .rule = "confusion", .bins = clq_confusion_bins, .by_row = true, .ranks = true},
    [CLQ_METRIC_BINARY_CONFUSION] = {.name = "binary_confusion_matrix",
                                     .rule = "binary_confusion",
                                     .options = THRESHOLD,
                                     .bins = clq_binary_confusion_bins,
                                     .probabilities = true,
                                     .values = true},
};

size_t clq_loss_count(void) { return CLQ_COUNT_OF(losses); }
const clq_loss_row *clq_loss_row_of(clq_loss_kind kind) { return &losses[kind]; }

bool clq_loss_takes_input_of(const clq_loss_problem *p, clq_activation activation) {
    if (activation != CLQ_ACTIVATION_SOFTMAX && activation != CLQ_ACTIVATION_SIGMOID) return false;
    return losses[p->kind].any_logits || (!p->from_logits && losses[p->kind].activation == activation);
}
size_t clq_metric_count(void) { return CLQ_COUNT_OF(metrics); }
const clq_metric_row *clq_metric_row_of(clq_metric_kind kind) { return &metrics[kind]; }

bool clq_metric_is_masked(clq_metric_kind kind) { return metrics[kind].totals == 1 && !metrics[kind].every_step; }

double clq_metric_result(clq_metric_kind kind, const double *totals, double samples) {
    double count = metrics[kind].totals == 2 ? totals[1] : samples;
    double mean = count == 0 ? 0 : totals[0] / count;
    return metrics[kind].of_mean ? metrics[kind].of_mean(mean) : mean;
}

size_t clq_metric_bins(const clq_loss_problem *p, unsigned metric) {
    const clq_metric_row *row = &metrics[p->metrics[metric]];
    return row->bins ? row->bins(p->classes, (double)p->metric_values[metric]) : 0;
}

bool clq_metric_is_matrix(clq_metric_kind kind) { return metrics[kind].bins && !metrics[kind].of_bins; }

unsigned clq_loss_sums(const clq_loss_problem *p) {
    unsigned sums = 1 + (p->mask_steps > 0);
    for (unsigned i = 0; i < p->metric_count; i++) sums += metrics[p->metrics[i]].totals;
    return sums;
}

unsigned clq_loss_bins(const clq_loss_problem *p) {
    size_t bins = 0;
    for (unsigned i = 0; i < p->metric_count; i++) bins += clq_metric_bins(p, i);
    return (unsigned)bins;
}

unsigned clq_loss_totals(const clq_loss_problem *p) { return clq_loss_sums(p) + clq_loss_bins(p); }

unsigned clq_loss_metrics_width(const clq_loss_problem *p) {
    return p->metrics_width ? p->metrics_width : clq_loss_totals(p);
}

unsigned clq_losses_width(const clq_loss_problem *problems, size_t count) {
    unsigned width = 0;
    for (size_t i = 0; i < count; i++) width += clq_loss_totals(&problems[i]);
    return width;
}

bool clq_loss_has_index(const clq_loss_problem *p) { return losses[p->kind].target == CLQ_TARGET_INDEX; }

clq_dtype clq_loss_target_dtype(const clq_loss_problem *p) { return clq_loss_has_index(p) ? CLQ_I32 : CLQ_F32; }

size_t clq_loss_target_bytes(const clq_loss_problem *p) {
    return clq_values_bytes(clq_loss_target_dtype(p), clq_loss_target_elements(p));
}

size_t clq_loss_target_elements(const clq_loss_problem *p) { return clq_loss_label_elements(p) + p->weighted; }

size_t clq_loss_label_elements(const clq_loss_problem *p) {
    size_t rows = CLQ_MAX(p->rows, (size_t)1);
    return clq_loss_has_index(p) ? rows : rows * p->classes;
}
