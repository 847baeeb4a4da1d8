/* Losses and metrics (losses.c: a table with one row each; loss.c: their launch). Part of ops/ops.h. */
#ifndef CLQ_OPS_LOSSES_H
#define CLQ_OPS_LOSSES_H

#include "launch/launch.h"

/* A number that a row of a table takes by a key. FLAG: 0 or 1. WHOLE: no fraction. */
typedef enum clq_option_type { CLQ_NUMBER, CLQ_FLAG, CLQ_WHOLE } clq_option_type;
typedef struct clq_option {
    const char *key; /* NULL: the end of the list */
    double value;    /* the default */
    double min, max;
    clq_option_type type;
} clq_option;

/* The names that the value of a command's option can have, for help and completion: one for each row of a table, with
 * the keys that it takes. Each listing is defined beside its table. */
enum { CLQ_LISTED_KEYS_MAX = 32 };
typedef struct clq_listing {
    const char *(*name)(size_t i);  /* NULL after the last row */
    const char *(*alias)(size_t i); /* another name of the row, or NULL. alias NULL: no row has one */
    const char *(*words)(size_t i); /* what the row is; NULL: the name says it */
    /* Writes the row's keys. An entry without a key ends them. A value outside [min, max] means that the key has no
     * default. */
    void (*keys)(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]);
} clq_listing;

/* A sample's target: a class index (i32, 0 to classes - 1) for each row of the output, a distribution over each row, or
 * any value for each value of the output. The latter two are f32 in the output's shape. */
typedef enum clq_target { CLQ_TARGET_INDEX, CLQ_TARGET_DISTRIBUTION, CLQ_TARGET_VALUES } clq_target;

/* The options that a loss takes. FOCUS: alpha and gamma. */
enum { CLQ_TAKES_FROM_LOGITS = 1, CLQ_TAKES_LABEL_SMOOTHING = 2, CLQ_TAKES_DELTA = 4, CLQ_TAKES_FOCUS = 8 };
enum { CLQ_TAKES_BALANCING = 16 };

typedef struct clq_loss_row {
    const char *name, *alias; /* Keras's names; alias may be NULL */
    clq_target target;
    const char *rule, *rule_of_logits; /* of cl/loss_rules.cl: loss_NAME if by_row, otherwise value_NAME */
    bool by_row;                       /* takes the values of the last axis together; false: each value by itself */
    clq_activation activation; /* softmax or sigmoid: turns logits into probabilities. If the model ends in it, the loss
                                  takes the activation's input, as in Keras. LINEAR: none */
    bool any_logits;           /* the same if the model ends in the other of softmax and sigmoid */
    bool one_hot;              /* class numbers are turned into rows with a 1 at the class */
    unsigned takes;
    const char *metrics; /* Keras's choice if no metrics are named: "accuracy", or "" */
} clq_loss_row;
size_t clq_loss_count(void);
const clq_loss_row *clq_loss_row_of(clq_loss_kind kind);

/* The rows of the metrics' table, in their order. Those of several outputs and parameters are further rows. */
typedef enum clq_metric_kind {
    CLQ_METRIC_CATEGORICAL_ACCURACY, /* also for index targets */
    CLQ_METRIC_BINARY_ACCURACY,
    CLQ_METRIC_MEAN_SQUARED_ERROR,
    CLQ_METRIC_ROOT_MEAN_SQUARED_ERROR,
    CLQ_METRIC_MEAN_ABSOLUTE_ERROR,
    CLQ_METRIC_PRECISION,
    CLQ_METRIC_RECALL,
    CLQ_METRIC_TOP_K,
    CLQ_METRIC_COSINE_SIMILARITY,
    CLQ_METRIC_KL_DIVERGENCE,
    CLQ_METRIC_MEAN_ABSOLUTE_PERCENTAGE_ERROR,
    CLQ_METRIC_MEAN_SQUARED_LOGARITHMIC_ERROR,
    CLQ_METRIC_LOG_COSH,
    CLQ_METRIC_F1,
    CLQ_METRIC_CROSSENTROPY, /* of classes, also for index targets */
    CLQ_METRIC_PERPLEXITY,
    CLQ_METRIC_AUC,
    CLQ_METRIC_PR_AUC,
    CLQ_METRIC_CONFUSION,
    CLQ_METRIC_BINARY_CONFUSION
} clq_metric_kind;

typedef struct clq_metric_row {
    const char *name, *alias; /* Keras's names; alias may be NULL */
    const char *rule;         /* metric_NAME of cl/loss.cl, which gets the option's number */
    clq_option options[2];    /* the number that the metric takes, if any: a threshold, or k */
    unsigned totals;          /* 1: the metric is its mean over the samples; 2: the first over the second; 0: bins */
    /* How many bins the metric counts values or rows into, and the metric's value from these counts. bins NULL: no
     * bins. of_bins NULL: the bins themselves are the metric, a square matrix of true class by predicted class. */
    size_t (*bins)(size_t classes, double number);
    double (*of_bins)(const double *bins, size_t count);
    bool probabilities;        /* takes probabilities, even if the loss takes logits */
    double (*of_mean)(double); /* gives the metric from the mean, for example sqrt; NULL: the mean itself */
    bool by_row;               /* as in clq_loss_row */
    bool ranks;                /* takes x itself, even if an activation is skipped, and the place of the largest x */
    bool every_step;           /* a mean over all steps, even with a mask, as in Keras */
    bool values;               /* needs a target for each value, so not with index targets */
    bool classes;              /* needs a loss whose targets are classes */
    bool better_high;          /* a higher value is better; false: a lower one */
} clq_metric_row;
size_t clq_metric_count(void);
const clq_metric_row *clq_metric_row_of(clq_metric_kind kind);
/* Whether masked steps are left out of a metric. As in Keras, metrics that count include every step. */
bool clq_metric_is_masked(clq_metric_kind kind);
/* The metric from its totals, which are summed over `samples` samples. For a masked metric, `samples` is the sum of the
 * parts of their steps that count. 0 / 0 is 0, as in Keras. */
double clq_metric_result(clq_metric_kind kind, const double *totals, double samples);

enum {
    CLQ_METRICS_MAX = 8,
    CLQ_SUMS_MAX = 2 + 2 * CLQ_METRICS_MAX,
    CLQ_METRICS_ROW_MAX = 10240 /* floats of all outputs, with bins: each step keeps a row */
};
typedef struct clq_loss_problem {
    clq_loss_kind kind;
    size_t classes;   /* values in a row: of the last axis, or of the whole output if nothing is by_row */
    bool from_logits; /* false: x are probabilities, normalised by rows and clipped to [1e-7, 1 - 1e-7], as Keras does
                         on TensorFlow; with index targets clipped first, then normalised */
    float label_smoothing;  /* s: a target t becomes t (1 - s) + s / classes if by_row, otherwise t (1 - s) + s / 2 */
    float delta;            /* huber's; above 0 */
    float alpha, gamma;     /* of focal losses */
    bool balanced;          /* multiplies the loss of targets 1 by alpha, and of targets 0 by 1 - alpha */
    size_t rows;            /* rows in a sample; 0: 1 */
    float weight;           /* the gradient is multiplied by it */
    bool weighted;          /* a float after each sample's target is its weight, which multiplies its loss */
    size_t mask_steps;      /* steps of a sample, which a mask covers; rows / mask_steps rows each. 0: no mask */
    clq_activation skipped; /* the model's last activation, if x is its input; metrics look at its result. LINEAR: x is
                               the model's output */
    unsigned metric_count;
    clq_metric_kind metrics[CLQ_METRICS_MAX];
    float metric_values[CLQ_METRICS_MAX]; /* each metric's number */
    unsigned metrics_width, metrics_at; /* a row of the metrics buffer: its floats (0: as many as this loss writes), and
                                           where this loss's floats begin */
} clq_loss_problem;
/* Whether the loss is taken from the input of this activation if the model ends in it. Exception: a focal loss with
 * from_logits takes the model's output as logits. */
bool clq_loss_takes_input_of(const clq_loss_problem *p, clq_activation activation);
/* The number of floats that a loss writes into a row of the metrics buffer, at most CLQ_METRICS_ROW_MAX. First come the
 * sums: the loss, each metric's totals and, with a mask, the part of the sample's steps that counts. Then come the bins
 * of each metric. */
unsigned clq_loss_totals(const clq_loss_problem *p);
unsigned clq_loss_sums(const clq_loss_problem *p); /* the sums alone; at most CLQ_SUMS_MAX */
unsigned clq_loss_bins(const clq_loss_problem *p);
/* The bins of one metric of a loss; 0: the metric has totals. */
size_t clq_metric_bins(const clq_loss_problem *p, unsigned metric);
/* Whether a metric is a square matrix of counts, not a single number. */
bool clq_metric_is_matrix(clq_metric_kind kind);
/* The floats of a row of the metrics buffer. */
unsigned clq_loss_metrics_width(const clq_loss_problem *p);
/* The width of a row that several losses share: their totals, one after the other. At most CLQ_METRICS_ROW_MAX. */
unsigned clq_losses_width(const clq_loss_problem *problems, size_t count);
/* Sizes of a sample's target. Label elements are i32 if they are indices, otherwise f32. Target elements include the
 * bits of the sample's weight, if it has one. */
size_t clq_loss_label_elements(const clq_loss_problem *p);
size_t clq_loss_target_elements(const clq_loss_problem *p);
clq_dtype clq_loss_target_dtype(const clq_loss_problem *p);
size_t clq_loss_target_bytes(const clq_loss_problem *p);
bool clq_loss_has_index(const clq_loss_problem *p);
typedef struct clq_loss_values {
    clq_value x, targets; /* x (rows, classes) */
    /* Only with mask_steps. mask: (mask_steps) per sample, 0 or 1. counting: the number of steps of the batch that
     * count. steps: the number of all its steps. */
    clq_value mask, counting, steps;
    clq_value dx; /* may be x's own value; none: no gradient */
    clq_value metrics;
    clq_value scaling; /* the state of a loss scale (clq_take_scale_off), by which dx is multiplied; or none */
    float initial;     /* the scale at first */
} clq_loss_values;
/* Computes the loss, the gradient and the metrics in one launch. If several work-groups take part, a second launch adds
 * up their sums. If metrics have bins, two more launches clear the bins before and store them afterwards.
 *
 * dx = SCALE * weight * dloss/dx. A sample's loss and each of its totals is the mean over its rows. A sample's weight
 * applies only to the loss and its gradient.
 *
 * With a mask, the loss of each step that counts is divided by the part of steps that counts. So the mean over the
 * batch is the mean over these steps, or 0 if no step counts. Masked metrics add up only these steps.
 *
 * metrics is a (slots, width) f32 buffer. The sums over the samples go to row SLOT, from `metrics_at` on. A bin gets
 * the number of rows or values that fell into it. A count of 0 writes zeros. An index outside [0, classes) makes the
 * loss NaN (the data layer refuses such indices). */
void clq_loss_and_metrics(clq_list *list, const clq_loss_problem *p, const clq_loss_values *values);

#endif
