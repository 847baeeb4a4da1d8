#include "loss_rules.cl"
/* Softmax, and losses with their gradients and metrics. This file has the rules of metrics, and the kernels. */

#ifndef LOSS
/* ---- softmax ---- */

KERNEL void softmax_forward(global const float *x, global float *y, int count, int elements, int classes,
                            local float *shared) {
    size_t rows = (size_t)count * (elements / classes);
    FOR_MY_ROW (r, rows) {
        global const float *from = x + r * classes;
        global float *to = y + r * classes;
        size_t room = (rows - r) * classes;
        float top;
        lanes_t sum = 0, low = 0;
        row_top(shared, from, classes, room, &top);
        FOR_LANES (i, classes) {
            lanes_t v = exp(row_load(from, i, classes, room, -INFINITY) - top);
            add_lanes(&sum, &low, v);
            row_store(to, i, classes, v);
        }
        float total = all_sum(shared, sum - low);
        FOR_LANES (i, classes) row_store(to, i, classes, row_load(to, i, classes, room, 0) / total);
    }
}

/* dz = y * (dy - sum(dy * y)) */
KERNEL void softmax_backward(global const float *y, global const float *dy, global float *dz, int count, int elements,
                             int classes, local float *shared) {
    size_t rows = (size_t)count * (elements / classes);
    FOR_MY_ROW (r, rows) {
        size_t at = r * classes, room = (rows - r) * classes;
        lanes_t sum = 0, low = 0;
        FOR_LANES (i, classes)
            add_lanes(&sum, &low, row_load(y + at, i, classes, room, 0) * row_load(dy + at, i, classes, room, 0));
        float dot = all_sum(shared, sum - low);
        FOR_LANES (i, classes) {
            lanes_t gradient = row_load(dy + at, i, classes, room, 0) - dot;
            row_store(dz + at, i, classes, row_load(y + at, i, classes, room, 0) * gradient);
        }
    }
}

#else

/* ---- metrics ----
 * A rule writes its totals of a row, and returns where the next metric's totals begin. */

/* The row's values as the model gives them. -DSKIPPED: the activation at the end of the model, which was left out for
 * the loss and is applied here. */
#ifndef SKIPPED
#define SKIPPED 0
#endif
#define OUTPUT_0(row, x) (x)
#define OUTPUT_2(row, x) ACTIVATE_2(lanes_t, x)
#define OUTPUT_4(row, x) (exp((x) - (row)->most) / (row)->total)
#ifndef PROBABLE
#define PROBABLE 0
#endif
static inline lanes_t row_output(const row_args *row, int i) {
    lanes_t x = row_load(row->x, i, row->classes, row->room, 0);
    return CLQ_JOIN(OUTPUT_, SKIPPED)(row, x);
}

/* The row's values as probabilities, even if the model gives logits: -DPROBABLE is the activation that makes
 * probabilities. */
static inline lanes_t row_probability(const row_args *row, int i) {
    lanes_t x = row_load(row->x, i, row->classes, row->room, 0);
    return CLQ_JOIN(OUTPUT_, PROBABLE)(row, x);
}

/* The true class: the one with the largest target, the first of equal ones. */
static inline int row_wanted(local float *shared, const row_args *row) {
#ifdef SPARSE
    return row->label;
#else
    float value;
    return row_top(shared, row->target, row->classes, row->room, &value);
#endif
}

static inline float *metric_categorical_accuracy(local float *shared, const row_args *row, float number,
                                                 float *totals) {
    totals[0] = row->top == row_wanted(shared, row) ? 1.0f : 0.0f;
    return totals + 1;
}

/* Whether fewer than `number` values are larger than the value of the true class. */
static inline float *metric_top_k(local float *shared, const row_args *row, float number, float *totals) {
    int wanted = row_wanted(shared, row);
    float value = wanted >= 0 && wanted < row->classes ? row->x[wanted] : NAN;
    lanes_t larger = 0;
    FOR_LANES (i, row->classes)
        larger += row_load(row->x, i, row->classes, row->room, -INFINITY) > value ? (lanes_t)1 : (lanes_t)0;
    totals[0] = all_sum(shared, larger) < number && value == value ? 1.0f : 0.0f;
    return totals + 1;
}

/* float name = the sum over the row of an expression of its values x and their targets t. */
#define SUM_OF_ROW(name, expression)                                                                                   \
    float name;                                                                                                        \
    {                                                                                                                  \
        lanes_t sum = 0;                                                                                               \
        FOR_LANES (i, row->classes) {                                                                                  \
            lanes_t x = row_output(row, i), t = row_given(row, i), one = (expression);                                 \
            sum += i + LANE < row->classes ? one : (lanes_t)0;                                                         \
        }                                                                                                              \
        name = all_sum(shared, sum);                                                                                   \
    }
#define IS(condition) ((condition) ? (lanes_t)1 : (lanes_t)0)

static inline float *metric_mean_squared_error(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(squares, (x - t) * (x - t))
    totals[0] = squares / row->classes;
    return totals + 1;
}

static inline float *metric_mean_absolute_error(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(sizes, fabs(x - t))
    totals[0] = sizes / row->classes;
    return totals + 1;
}

static inline float *metric_binary_accuracy(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(right, IS(IS(x > number) == t))
    totals[0] = right / row->classes;
    return totals + 1;
}

/* How many of the values that are predicted to be 1 are 1. */
static inline float *metric_precision(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(right, IS((x > number) & (t != 0.0f)))
    SUM_OF_ROW(told, IS(x > number))
    totals[0] = right;
    totals[1] = told;
    return totals + 2;
}

/* How many of the values that are 1 are predicted to be 1. */
static inline float *metric_recall(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(right, IS((x > number) & (t != 0.0f)))
    SUM_OF_ROW(present, IS(t != 0.0f))
    totals[0] = right;
    totals[1] = present;
    return totals + 2;
}

/* Twice the right ones over the sum of the predicted and the present ones: the harmonic mean of precision and
 * recall. */
static inline float *metric_f1(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(right, IS((x > number) & (t != 0.0f)))
    SUM_OF_ROW(both, IS(x > number) + IS(t != 0.0f))
    totals[0] = 2.0f * right;
    totals[1] = both;
    return totals + 2;
}

/* The mean of a loss over the row's values. Names are written in full: fused programs rename functions by their
 * text. */
#define DEFINE_METRIC(name, value)                                                                                     \
    static inline float *name(local float *shared, const row_args *row, float number, float *totals) {                 \
        lanes_t slope;                                                                                                 \
        SUM_OF_ROW(all, value(x, t, row, &slope))                                                                      \
        totals[0] = all / row->classes;                                                                                \
        return totals + 1;                                                                                             \
    }
DEFINE_METRIC(metric_mean_absolute_percentage_error, value_mean_absolute_percentage_error)
DEFINE_METRIC(metric_mean_squared_logarithmic_error, value_mean_squared_logarithmic_error)
DEFINE_METRIC(metric_log_cosh, value_log_cosh)

/* NaN stays NaN, which clamp does not promise. */
#define AS_PROBABILITY(p) ((p) < LEAST ? (lanes_t)LEAST : (p) > 1.0f ? (lanes_t)1 : (p))

/* As the losses of these names, but cosine_similarity has the opposite sign: 1 is best. */
static inline float *metric_kl_divergence(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(all, AS_PROBABILITY(t) * log(AS_PROBABILITY(t) / AS_PROBABILITY(x)))
    totals[0] = all;
    return totals + 1;
}

static inline float *metric_cosine_similarity(local float *shared, const row_args *row, float number, float *totals) {
    SUM_OF_ROW(dot, x * t)
    SUM_OF_ROW(found, x * x)
    SUM_OF_ROW(given, t * t)
    totals[0] = dot / (fmax(sqrt(found), LEAST) * fmax(sqrt(given), LEAST));
    return totals + 1;
}

/* As the loss of this name. It takes logits if the loss does, and the target as it was given, not smoothed. */
static inline float *metric_crossentropy(local float *shared, const row_args *row, float number, float *totals) {
#ifdef LOGITS
    lanes_t rest = 0, gap = 0, mass = 0;
    FOR_LANES (i, row->classes) {
        lanes_t x = row_load(row->x, i, row->classes, row->room, -INFINITY), t = row_given(row, i);
        rest += i + LANE == row->top ? (lanes_t)0 : exp(x - row->most);
        gap += t == (lanes_t)0 ? (lanes_t)0 : t * (row->most - x);
        mass += t;
    }
    float whole = all_sum(shared, mass), distance = all_sum(shared, gap);
    totals[0] = whole * log1p(all_sum(shared, rest)) + distance;
#else
    lanes_t all = 0;
    float total = row_whole(shared, row);
    FOR_LANES (i, row->classes) all += share_loss(row_part(row, i) / total, row_given(row, i));
    totals[0] = all_sum(shared, all);
#endif
    return totals + 1;
}

/* ---- metrics that count ----
 * They have bins instead of totals, and advance row->bins to the bins of the next metric. */

#ifdef BINS
/* Counts a probability in its bin between `number` thresholds. The bins of targets of 1 come first, then those of
 * targets of 0 (src/ops/training/bins.c). NaN counts as 0. */
static inline void count_by_threshold(const row_args *row, float probability, float t, float number) {
    int each = (int)number - 1, bin = (int)ceil(fmin(fmax(probability, 0.0f), 1.0f) * (number - 1.0f)) - 1;
    atomic_inc(row->bins + max(bin, 0) + (t != 0.0f ? 0 : each));
}

static inline float *metric_thresholds(local float *shared, row_args *row, float number, float *totals) {
    FOR_LANES (i, row->classes) {
        lanes_t p = row_probability(row, i), t = row_given(row, i);
#ifdef TILE
        for (int k = 0; k < LANES && i + k < row->classes; k++)
            count_by_threshold(row, ((const float *)&p)[k], ((const float *)&t)[k], number);
#else
        count_by_threshold(row, p, t, number);
#endif
    }
    row->bins += 2 * ((int)number - 1);
    return totals;
}

/* Bins are ordered by the true class, then by the class of the largest value. If no value is largest (NaN), that class
 * is 0. */
static inline float *metric_confusion(local float *shared, row_args *row, float number, float *totals) {
    int classes = row->classes, wanted = row_wanted(shared, row), found = row->top < classes ? row->top : 0;
    if (FIRST_LANE && wanted >= 0 && wanted < classes) atomic_inc(row->bins + wanted * classes + found);
    row->bins += classes * classes;
    return totals;
}

/* Each value counts by itself: a target above 0.5 is class 1, and so is a probability above `number`. */
static inline float *metric_binary_confusion(local float *shared, row_args *row, float number, float *totals) {
    SUM_OF_ROW(is, IS(t > 0.5f))
    SUM_OF_ROW(told, IS(row_probability(row, i) > number))
    SUM_OF_ROW(both, IS((t > 0.5f) & (row_probability(row, i) > number)))
    if (FIRST_LANE) {
        atomic_add(row->bins, row->classes - (int)(is + told - both));
        atomic_add(row->bins + 1, (int)(told - both));
        atomic_add(row->bins + 2, (int)(is - both));
        atomic_add(row->bins + 3, (int)both);
    }
    row->bins += 4;
    return totals;
}
#endif

/* ---- the kernels ---- */

#define METRICS_0(DO)
#define METRICS_1(DO) DO(0)
#define METRICS_2(DO) METRICS_1(DO) DO(1)
#define METRICS_3(DO) METRICS_2(DO) DO(2)
#define METRICS_4(DO) METRICS_3(DO) DO(3)
#define METRICS_5(DO) METRICS_4(DO) DO(4)
#define METRICS_6(DO) METRICS_5(DO) DO(5)
#define METRICS_7(DO) METRICS_6(DO) DO(6)
#define METRICS_8(DO) METRICS_7(DO) DO(7)
#ifdef MASKED
#define MEASURE(k)                                                                                                     \
    {                                                                                                                  \
        float *own = end;                                                                                              \
        end = CLQ_JOIN(metric_, METRIC_##k)(shared, &row, METRIC_VALUE_##k, end);                                      \
        if (METRIC_MASKED_##k) *own *= counts;                                                                         \
    }
#else
#define MEASURE(k) end = CLQ_JOIN(metric_, METRIC_##k)(shared, &row, METRIC_VALUE_##k, end);
#endif

/* TOP: finds the row's largest value. If metrics take softmax of the row, also sums up the exponentials. */
static inline void row_prepare(local float *shared, row_args *row) {
#ifdef TOP
    row->top = row_top(shared, row->x, row->classes, row->room, &row->most);
#endif
#if SKIPPED == 4 || PROBABLE == 4
    lanes_t sum = 0;
    FOR_LANES (i, row->classes) sum += exp(row_load(row->x, i, row->classes, row->room, -INFINITY) - row->most);
    row->total = all_sum(shared, sum);
#endif
}

/* How many numbers the target of a sample has. */
#ifdef SPARSE
#define TARGETS(rows, classes) (size_t)(rows)
#else
#define TARGETS(rows, classes) ((size_t)(rows) * (classes))
#endif

/* Each work-item or work-group g sums up the loss and the metrics' totals of its rows, each times `share`. The TOTALS
 * sums go to out[(base + g) * stride + at] and after it. Metrics come before the loss: the gradient may lie over x. */
/* SCALED: the gradient is multiplied by initial * 2^scaling[0]. */
#ifdef SCALED
#define SCALE_PARAMETERS global const int *scaling, float initial,
#define LOSS_SCALE ldexp(initial, scaling[0])
#else
#define SCALE_PARAMETERS
#define LOSS_SCALE 1.0f
#endif

/* MASKED: a row counts in the loss, and in metrics that are means, if mask[step] is 1, and does not if it is 0. The
 * loss is also multiplied by steps[0] / counting[0]: the number of all steps over the number of those that count. */
#ifdef MASKED
#define MASK_PARAMETERS                                                                                                \
    global const float *mask, global const float *counting, global const float *steps, int rows_of_step,
#else
#define MASK_PARAMETERS
#endif

#ifdef BINS
#define BINS_PARAMETER volatile global int *bins,
#else
#define BINS_PARAMETER
#endif

KERNEL void loss_and_metrics(SCALE_PARAMETERS MASK_PARAMETERS BINS_PARAMETER global const float *x,
                             global const int *targets, global float *dx, global float *out, int base, int stride,
                             int at, int count, int rows_of_one, int classes, float scale, float gain, float share,
                             float smoothing, float added, float delta, float gamma, float balance_1, float balance_0,
                             local float *shared) {
    float totals[TOTALS], lows[TOTALS];
    UNROLL for (int k = 0; k < TOTALS; k++) totals[k] = lows[k] = 0;
    size_t rows = (size_t)count * rows_of_one;
    FOR_MY_ROW (r, rows) {
        row_args row;
        row.x = x + r * classes;
        row.dx = dx + r * classes;
        row.classes = classes;
        row.room = (rows - r) * classes;
        row.scale = scale * gain * LOSS_SCALE;
#ifdef WEIGHTED
        /* A sample's weight lies after its target. */
        size_t sample = r / rows_of_one;
        global const int *behind = targets + (sample + 1) * (TARGETS(rows_of_one, classes) + 1) - 1;
        float weight = as_float(*behind);
#else
        size_t sample = 0;
        float weight = 1;
#endif
#ifdef MASKED
        float counts = mask[r / rows_of_step];
        weight *= counting[0] > 0 ? counts * (steps[0] / counting[0]) : 0.0f;
#endif
        row.scale *= weight;
        row.delta = delta;
        row.gamma = gamma;
        row.balance_1 = balance_1;
        row.balance_0 = balance_0;
#ifdef BINS
        row.bins = bins;
#endif
#ifdef SPARSE
        row.label = targets[r + sample];
#else
        row.target = (global const float *)targets + r * classes + sample;
        row.smoothing = smoothing;
        row.added = added;
#endif
        float one[TOTALS], *end = one + 1;
        row_prepare(shared, &row);
        CLQ_JOIN(METRICS_, METRICS)(MEASURE) one[0] = ROW_LOSS(shared, &row);
#ifdef SPARSE
        if (row.label < 0 || row.label >= classes) one[0] = NAN;
#endif
        one[0] *= weight;
#ifdef MASKED
        *end = counts;
#endif
        UNROLL for (int k = 0; k < TOTALS; k++) add(&totals[k], &lows[k], one[k] * share);
    }
    if (FIRST_LANE) {
        out += (base + get_group_id(0)) * stride + at;
        UNROLL for (int k = 0; k < TOTALS; k++) out[k] = totals[k];
    }
}

/* Bins count rows or values. In the end, the counts go to metrics[slot * stride + at] and after it. */
KERNEL void clear_bins(global int *bins, int count) {
    FOR_MY (i, count) bins[i] = 0;
}
KERNEL void store_bins(global const int *bins, int count, global float *metrics, int slot, int stride, int at) {
    FOR_MY (i, count) metrics[slot * stride + at + i] = bins[i];
}

/* metrics[slot * stride + at + k] = the sum of total k over `count` shares. One work-group. */
KERNEL void sum_shares(global const float *shares, int count, global float *metrics, int slot, int stride, int at,
                       local float *shared) {
    UNROLL for (int k = 0; k < TOTALS; k++) {
        float sum = 0, low = 0;
        for (int i = (int)get_global_id(0); i < count; i += (int)get_global_size(0))
            add(&sum, &low, shares[i * TOTALS + k]);
#ifndef TILE
        sum = all_sum(shared, sum - low);
#endif
        if (FIRST_LANE) metrics[slot * stride + at + k] = sum;
    }
}

#endif
