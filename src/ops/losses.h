/* Losses and metrics (losses.c, one row of a table each; loss.c, their launch). A part of ops.h, which includes it. */
#ifndef CLQ_OPS_LOSSES_H
#define CLQ_OPS_LOSSES_H

#include "launch/launch.h"

/* A number that a row of a table takes, by its key. FLAG: 0 or 1; WHOLE: without a fraction. */
typedef enum clq_option_type { CLQ_NUMBER, CLQ_FLAG, CLQ_WHOLE } clq_option_type;
typedef struct clq_option {
    const char *key; /* NULL: behind the last */
    double value;    /* unless set */
    double min, max;
    clq_option_type type;
} clq_option;

/* What can be named in an option's value, for help and completion: a name for each row of a table, and the keys that it
 * takes. Each list is beside its table. */
enum { CLQ_LISTED_KEYS_MAX = 32 };
typedef struct clq_listing {
    const char *(*name)(size_t i);  /* NULL behind the last */
    const char *(*alias)(size_t i); /* another name, or NULL. NULL: none has one */
    const char *(*words)(size_t i); /* what it is; NULL: its name tells */
    /* Its keys, behind which a row has no key. A default out of the range is none. */
    void (*keys)(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]);
} clq_listing;

/* What a sample's target is: an index (i32) for each row of the output, 0 to classes - 1; a distribution over each row;
 * or any value for each of the output's. The latter two are f32 of the output's shape. */
typedef enum clq_target { CLQ_TARGET_INDEX, CLQ_TARGET_DISTRIBUTION, CLQ_TARGET_VALUES } clq_target;

/* What options a loss takes; FOCUS: alpha and gamma. */
enum { CLQ_TAKES_FROM_LOGITS = 1, CLQ_TAKES_LABEL_SMOOTHING = 2, CLQ_TAKES_DELTA = 4, CLQ_TAKES_FOCUS = 8 };
enum { CLQ_TAKES_BALANCING = 16 };

typedef struct clq_loss_row {
    const char *name, *alias; /* Keras's names; alias may be NULL */
    clq_target target;
    const char *rule, *rule_of_logits; /* of cl/loss_rules.cl: loss_NAME where by_row, else value_NAME */
    bool by_row;                       /* over the values of the last axis together; else each value by itself */
    clq_activation activation;         /* softmax or sigmoid: what makes probabilities of logits. The loss of a model
                                          that ends in it is taken from what goes into it, as in Keras; LINEAR: none */
    bool any_logits;                   /* and so it is of one that ends in the other of the two */
    bool one_hot;                      /* class numbers become rows with a 1 at their place */
    unsigned takes;
    const char *metrics; /* Keras's habit where none are named: "accuracy", or "" */
} clq_loss_row;
size_t clq_loss_count(void);
const clq_loss_row *clq_loss_row_of(clq_loss_kind kind);

/* The rows of the metrics' table, in their order. Those of several outputs and parameters are further rows. */
typedef enum clq_metric_kind {
    CLQ_METRIC_CATEGORICAL_ACCURACY, /* also of index targets */
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
    CLQ_METRIC_CROSSENTROPY, /* of classes, also of index targets */
    CLQ_METRIC_PERPLEXITY,
    CLQ_METRIC_AUC,
    CLQ_METRIC_PR_AUC,
    CLQ_METRIC_CONFUSION,
    CLQ_METRIC_BINARY_CONFUSION
} clq_metric_kind;

typedef struct clq_metric_row {
    const char *name, *alias; /* Keras's names; alias may be NULL */
    const char *rule;         /* metric_NAME of cl/loss.cl, which gets the number */
    clq_option options[2];    /* the number that it takes, if it does: a threshold, or k */
    unsigned totals;          /* 1: the metric is their mean over the samples; 2: the first over the second; 0: bins */
    /* How many bins values or rows are counted into, and what the metric is of these counts. NULL: none. Bins without
     * of_bins are the metric themselves: a square matrix, true class by predicted class. */
    size_t (*bins)(size_t classes, double number);
    double (*of_bins)(const double *bins, size_t count);
    bool probabilities;        /* looks at those that logits stand for, where the loss is of logits */
    double (*of_mean)(double); /* the metric is this of that, such as its square root; NULL: itself */
    bool by_row;               /* as of clq_loss_row */
    bool ranks;                /* looks at x itself, also where it goes into an activation that keeps its order, with
                                  the largest value known */
    bool every_step;           /* a mean over all steps, also with a mask, as in Keras */
    bool values;               /* wants a target for each value: none of an index */
    bool classes;              /* wants a loss whose targets are classes */
    bool better_high;          /* of two values the higher is better; else the lower */
} clq_metric_row;
size_t clq_metric_count(void);
const clq_metric_row *clq_metric_row_of(clq_metric_kind kind);
/* Whether a mask leaves steps out of a metric. As in Keras, counts are of every step. */
bool clq_metric_is_masked(clq_metric_kind kind);
/* The metric from its totals, summed over so many samples; of a masked one, from the part of their steps that counts.
 * 0 / 0 is 0, as in Keras. */
double clq_metric_result(clq_metric_kind kind, const double *totals, double samples);

enum {
    CLQ_METRICS_MAX = 8,
    CLQ_SUMS_MAX = 2 + 2 * CLQ_METRICS_MAX,
    CLQ_METRICS_ROW_MAX = 10240 /* with bins, of all outputs: a row is kept of each step */
};
typedef struct clq_loss_problem {
    clq_loss_kind kind;
    size_t classes;         /* values of a row: of the output's last axis, or of all where nothing goes by rows */
    bool from_logits;       /* else x are probabilities: normalised by rows and clipped to [1e-7, 1 - 1e-7], as Keras
                               does on TensorFlow; with targets that are indices, clipped and then normalised */
    float label_smoothing;  /* s: t (1 - s) + s / classes, where losses go by rows; else t (1 - s) + s / 2 */
    float delta;            /* huber's; above 0 */
    float alpha, gamma;     /* of focal losses */
    bool balanced;          /* the loss of targets 1 is multiplied by alpha, that of targets 0 by 1 - alpha */
    size_t rows;            /* rows in a sample; 0: one */
    float weight;           /* the gradient is of so many times the loss */
    bool weighted;          /* behind a sample's target is its weight, a float: its loss counts so many times */
    size_t mask_steps;      /* steps of a sample, of so many rows each, of which some do not count; 0: all do */
    clq_activation skipped; /* x is what goes into this activation at the model's end, which metrics look behind; else
                               LINEAR */
    unsigned metric_count;
    clq_metric_kind metrics[CLQ_METRICS_MAX];
    float metric_values[CLQ_METRICS_MAX]; /* the number that each takes */
    unsigned metrics_width, metrics_at;   /* floats of a row of the metrics buffer (0: as many as this loss writes), and
                                             where those of this loss are */
} clq_loss_problem;
/* Whether the loss of a model that ends in this activation is taken from what goes into it. A focal loss that is told
 * that the model gives logits takes these as they are. */
bool clq_loss_takes_input_of(const clq_loss_problem *p, clq_activation activation);
/* What it writes into a row of the metrics buffer: the sums, which are the loss, then each metric's totals, and with a
 * mask the part of the sample's steps that counts; and behind these each metric's bins. At most CLQ_METRICS_ROW_MAX. */
unsigned clq_loss_totals(const clq_loss_problem *p);
unsigned clq_loss_sums(const clq_loss_problem *p); /* of these; at most CLQ_SUMS_MAX */
unsigned clq_loss_bins(const clq_loss_problem *p);
/* The bins of a loss's metric; 0: it has totals. */
size_t clq_metric_bins(const clq_loss_problem *p, unsigned metric);
/* Whether a metric is a square matrix of counts, and no single number. */
bool clq_metric_is_matrix(clq_metric_kind kind);
/* The floats of a row of the metrics buffer. */
unsigned clq_loss_metrics_width(const clq_loss_problem *p);
/* Of a row that several losses share: their totals lie one behind the other. At most CLQ_METRICS_ROW_MAX. */
unsigned clq_losses_width(const clq_loss_problem *problems, size_t count);
/* A sample's target: so many values of its type, i32 where they are indices, else f32; and with the bits of its weight,
 * where it has one. */
size_t clq_loss_label_elements(const clq_loss_problem *p);
size_t clq_loss_target_elements(const clq_loss_problem *p);
clq_dtype clq_loss_target_dtype(const clq_loss_problem *p);
size_t clq_loss_target_bytes(const clq_loss_problem *p);
bool clq_loss_has_index(const clq_loss_problem *p);
typedef struct clq_loss_values {
    clq_value x, targets; /* x (rows, classes) */
    /* With steps that do not count: (mask_steps) of a sample, 0 or 1; and how many steps of the batch count, and are. */
    clq_value mask, counting, steps;
    clq_value dx;          /* may be x's own value; none: without a gradient */
    clq_value metrics;
    clq_value scaling; /* state of a loss scale, which dx is multiplied by (clq_take_scale_off), or none */
    float initial;     /* the scale that the state begins with */
} clq_loss_values;
/* Loss, gradient and metrics at once; where metrics have bins, behind a launch that clears them. dx = SCALE * weight *
 * dloss/dx. A sample's loss and each of its totals is the mean over its rows; a weight is of the loss and its gradient
 * alone. With a mask the loss of a step that counts is divided by the part that counts, so that the mean over the batch
 * is one over these steps (0, if no step does); masked metrics add up what these steps have. metrics: in row SLOT of a
 * (slots, width) f32 buffer, from `metrics_at` on, the sums over the samples, and in bins how many rows or values fell
 * into each. A count of 0 writes zeros. An index outside [0, classes) makes the loss NaN (the data layer refuses them).
 */
void clq_loss_and_metrics(clq_list *list, const clq_loss_problem *p, const clq_loss_values *values);

#endif
