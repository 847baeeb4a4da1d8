/* Rows of values: softmax, and the losses with their gradients and metrics.
 *
 * One text for both families: a row is worked on by LANES lanes, which are those of a vector (TILE: few work-items,
 * each with a run of rows) or the items of a work-group (LOCAL: each group takes every so-many-th row). lanes_t is what
 * the vector of lanes, or one item, holds. FOR_LANES walks along a row; all_max, all_min
 * and all_sum combine the lanes. */

#ifdef TILE

#define LANES VEC
typedef floatv lanes_t;
typedef intv ilanes_t;
#define LANE VEC_INDEX
#define FOR_LANES(i, classes) for (int i = 0; i < (classes); i += LANES)
#define FIRST_LANE 1
#define FOR_MY_ROW FOR_MY

/* Classes i to i + LANES of a row, `fill` beyond its end. `room` floats may be read from the row's start on. */
static lanes_t row_load(global const float *row, int i, int classes, size_t room, float fill) {
    lanes_t v = fill;
    if (room >= (size_t)i + LANES) {
        lanes_t whole = LOADV(row + i);
        return LANE < classes - i ? whole : v;
    }
    for (int k = 0; k < classes - i; k++) ((float *)&v)[k] = row[i + k];
    return v;
}

static void row_store(global float *row, int i, int classes, lanes_t v) {
    if (i + LANES <= classes) {
        STOREV(v, row + i);
    } else {
        for (int k = 0; k < classes - i; k++) row[i + k] = ((const float *)&v)[k];
    }
}

static float all_max(local float *shared, floatv v) { return floatv_max(v); }
static float all_sum(local float *shared, floatv v) { return floatv_sum(v); }
static int all_min(local float *shared, intv v) {
    int least = INT_MAX;
    UNROLL for (int k = 0; k < VEC; k++) least = min(least, ((const int *)&v)[k]);
    return least;
}

#else

#define LANES GROUP
typedef float lanes_t;
typedef int ilanes_t;
#define LANE ((int)get_local_id(0))
#define FOR_LANES(i, classes) for (int i = 0; i + LANE < (classes); i += LANES)
#define FIRST_LANE (get_local_id(0) == 0)
#define FOR_MY_ROW(i, n) for (size_t i = get_group_id(0); i < (size_t)(n); i += get_num_groups(0))

static lanes_t row_load(global const float *row, int i, int classes, size_t room, float fill) { return row[i + LANE]; }
static void row_store(global float *row, int i, int classes, lanes_t v) { row[i + LANE] = v; }

/* A tree over the group's items. The first barrier is for those who still read the previous result. (Local memory comes
 * as an argument: arrays in kernels can end up shared by the threads of PoCL 3.1's pthread device.) */
#define DEFINE_ALL(name, type, pick)                                                                                   \
    static type name(local float *shared, type v) {                                                                    \
        local type *lanes = (local type *)shared;                                                                      \
        int lane = LANE;                                                                                               \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        lanes[lane] = v;                                                                                               \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        for (int step = GROUP / 2; step > 0; step /= 2) {                                                              \
            if (lane < step) lanes[lane] = pick(lanes[lane], lanes[lane + step]);                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                              \
        }                                                                                                              \
        return lanes[0];                                                                                               \
    }
#define PLUS(a, b) ((a) + (b))
DEFINE_ALL(all_max, float, fmax)
DEFINE_ALL(all_sum, float, PLUS)
DEFINE_ALL(all_min, int, min)

#endif

/* Compensated sums (Kahan): what an addition rounds off is kept in `low` and taken from the next term. */
static void add_lanes(lanes_t *sum, lanes_t *low, lanes_t term) {
    lanes_t rest = term - *low, next = *sum + rest;
    *low = (next - *sum) - rest;
    *sum = next;
}

/* As above; an infinite sum stays infinite. */
static void add(float *sum, float *low, float term) {
    float rest = term - *low, next = *sum + rest;
    *low = isfinite(next) ? (next - *sum) - rest : 0.0f;
    *sum = next;
}

/* The largest class and its value; the first of equals. */
static int row_top(local float *shared, global const float *row, int classes, size_t room, float *value) {
    lanes_t best = -INFINITY;
    ilanes_t where = INT_MAX;
    FOR_LANES (i, classes) {
        lanes_t v = row_load(row, i, classes, room, -INFINITY);
        where = v > best ? i + LANE : where;
        best = v > best ? v : best;
    }
    float top = all_max(shared, best);
    *value = top;
    return all_min(shared, best == top ? where : (ilanes_t)INT_MAX);
}

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
/* ---- losses and metrics ----
 * A program measures one loss, -DLOSS=name, and -DMETRICS=n metrics, -DMETRIC_0=name and so on; -DTOTALS is how many
 * floats they are. A rule is one function: loss_NAME of a whole row, or value_NAME of one value and its target
 * (-DOF_VALUES), and metric_NAME of a row. */

/* One row: x, its target (an index, or one number for each x), and where the gradient goes. */
typedef struct row_args {
    global const float *x;
    global float *dx; /* used where GRADIENT is defined */
    int classes;      /* values of the row */
    size_t room;
    float scale; /* of the gradient */
    float delta;
    int top;           /* with TOP: where the largest value is, */
    float most, total; /* and the value; total: the sum of exp(x - most), where softmax was left out */
#ifdef SPARSE
    int label;
#else
    global const float *target;
    float smoothing, added; /* a target t is taken as t (1 - smoothing) + added */
#endif
} row_args;

/* The target at places i to i + LANES as it was given; 0 beyond the end. */
static inline lanes_t row_given(const row_args *row, int i) {
#ifdef SPARSE
    return i + LANE == row->label ? (lanes_t)1 : (lanes_t)0;
#else
    return row_load(row->target, i, row->classes, row->room, 0);
#endif
}

/* The same, smoothed. */
static inline lanes_t row_target(const row_args *row, int i) {
    lanes_t t = row_given(row, i);
#ifdef SPARSE
    return t;
#else
    lanes_t smooth = t * (1.0f - row->smoothing) + row->added;
    return i + LANE < row->classes ? smooth : (lanes_t)0;
#endif
}

/* ---- losses of whole rows: the loss, and with GRADIENT scale * its derivative ---- */

/* With m = max(x) and rest = the sum of exp(x - m) over all classes but the largest,
 * log(sum(exp(x))) = m + log1p(rest): nothing cancels where the model is sure.
 * T = sum(t): loss = T log1p(rest) + sum(t (m - x)), dx = T p - t. */
static inline float loss_crossentropy_of_logits(local float *shared, const row_args *row) {
    int classes = row->classes, top = row->top;
    float most = row->most, whole = 1;
    lanes_t sum = 0, low = 0, gap = 0, mass = 0;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, -INFINITY), e = exp(x - most), t = row_target(row, i);
        add_lanes(&sum, &low, i + LANE == top ? (lanes_t)0 : e);
        gap += t == (lanes_t)0 ? (lanes_t)0 : t * (most - x);
        mass += t;
    }
    float rest = all_sum(shared, sum - low), distance = all_sum(shared, gap);
#ifndef SPARSE
    whole = all_sum(shared, mass);
#endif
#ifdef GRADIENT
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, -INFINITY), t = row_target(row, i);
        lanes_t others = exp(x - most) * (whole / (1.0f + rest)) - t;
        /* The same with exp(x - m) = 1, without cancellation. */
        lanes_t largest = ((whole - t) - t * rest) / (1.0f + rest);
        row_store(row->dx, i, classes, row->scale * (i + LANE == top ? largest : others));
    }
#endif
    return whole * log1p(rest) + distance;
}

/* From probabilities, as Keras: q = x / sum(x), p = clip(q), loss = -sum(t log p). Where q is clipped it has no slope:
 * dx = (D - [inside] t / p) / sum(x) with D = the sum of t over the classes inside. */
#define LEAST 1e-7f
#define MOST (1.0f - 1e-7f)
static inline float loss_crossentropy(local float *shared, const row_args *row) {
    int classes = row->classes;
    lanes_t sum = 0, low = 0;
    FOR_LANES (i, classes) add_lanes(&sum, &low, row_load(row->x, i, classes, row->room, 0));
    float total = all_sum(shared, sum - low);
    lanes_t loss = 0, loss_low = 0, inside = 0;
    FOR_LANES (i, classes) {
        lanes_t q = row_load(row->x, i, classes, row->room, 0) / total, t = row_target(row, i);
        lanes_t term = t * log(q < LEAST ? (lanes_t)LEAST : q > MOST ? (lanes_t)MOST : q);
        add_lanes(&loss, &loss_low, t == (lanes_t)0 ? (lanes_t)0 : -term);
        inside += ((q >= LEAST) & (q <= MOST)) ? t : (lanes_t)0;
    }
    float result = all_sum(shared, loss - loss_low);
#ifdef GRADIENT
    float mass = all_sum(shared, inside);
    FOR_LANES (i, classes) {
        lanes_t q = row_load(row->x, i, classes, row->room, 0) / total, t = row_target(row, i);
        lanes_t slope = ((q >= LEAST) & (q <= MOST)) ? t / q : (lanes_t)0;
        row_store(row->dx, i, classes, row->scale * ((mass - slope) / total));
    }
#endif
    return result;
}

/* ---- losses that are means over values: of x and its target t, the loss and its derivative by x ---- */

static inline lanes_t value_mean_squared_error(lanes_t x, lanes_t t, float delta, lanes_t *slope) {
    lanes_t error = x - t;
    *slope = 2.0f * error;
    return error * error;
}

static inline lanes_t value_mean_absolute_error(lanes_t x, lanes_t t, float delta, lanes_t *slope) {
    lanes_t error = x - t;
    *slope = sign(error);
    return fabs(error);
}

/* Huber, "Robust estimation of a location parameter", 1964: squared up to delta, and straight from there. */
static inline lanes_t value_huber(lanes_t x, lanes_t t, float delta, lanes_t *slope) {
    lanes_t error = x - t, size = fabs(error);
    *slope = size <= delta ? error : delta * sign(error);
    return size <= delta ? 0.5f * error * error : delta * (size - 0.5f * delta);
}

/* Targets are -1 and 1; as in Keras, 0 stands for -1. */
static inline lanes_t value_hinge(lanes_t x, lanes_t t, float delta, lanes_t *slope) {
    lanes_t sign_of = t == 0.0f ? (lanes_t)-1 : t, short_of = 1.0f - sign_of * x;
    *slope = short_of > 0.0f ? -sign_of : (lanes_t)0;
    return short_of <= 0.0f ? (lanes_t)0 : short_of;
}

/* -t log(p) - (1 - t) log(1 - p) with p = 1 / (1 + exp(-x)), without overflow. */
static inline lanes_t value_binary_crossentropy_of_logits(lanes_t x, lanes_t t, float delta, lanes_t *slope) {
    *slope = 1.0f / (1.0f + exp(-x)) - t;
    return fmax(x, (lanes_t)0) - x * t + log1p(exp(-fabs(x)));
}

/* From probabilities, clipped as Keras does: no slope there. */
static inline lanes_t value_binary_crossentropy(lanes_t x, lanes_t t, float delta, lanes_t *slope) {
    lanes_t p = x < LEAST ? (lanes_t)LEAST : x > MOST ? (lanes_t)MOST : x;
    *slope = p == x ? (p - t) / (p * (1.0f - p)) : (lanes_t)0;
    return -(t * log(p) + (1.0f - t) * log(1.0f - p));
}

#ifdef OF_VALUES
static inline float loss_of_values(local float *shared, const row_args *row) {
    int classes = row->classes;
    lanes_t sum = 0, low = 0;
    FOR_LANES (i, classes) {
        lanes_t slope, x = row_load(row->x, i, classes, row->room, 0);
        lanes_t one = CLQ_JOIN(value_, LOSS)(x, row_target(row, i), row->delta, &slope);
        add_lanes(&sum, &low, i + LANE < classes ? one : (lanes_t)0);
#ifdef GRADIENT
        row_store(row->dx, i, classes, row->scale / classes * slope);
#endif
    }
    return all_sum(shared, sum - low) / classes;
}
#define ROW_LOSS loss_of_values
#else
#define ROW_LOSS CLQ_JOIN(loss_, LOSS)
#endif

/* ---- metrics: a row's totals, of which the next metric's are behind ---- */

/* Values of the row as the model gives them, also where the activation at its end, -DSKIPPED, was left out for the
 * loss. */
#ifndef SKIPPED
#define SKIPPED 0
#endif
#define OUTPUT_0(row, x) (x)
#define OUTPUT_2(row, x) ACTIVATE_2(lanes_t, x)
#define OUTPUT_4(row, x) (exp((x) - (row)->most) / (row)->total)
static inline lanes_t row_output(const row_args *row, int i) {
    lanes_t x = row_load(row->x, i, row->classes, row->room, 0);
    return CLQ_JOIN(OUTPUT_, SKIPPED)(row, x);
}

/* The class that the target tells: the largest, the first of equals. */
static inline int row_wanted(local float *shared, const row_args *row) {
#ifdef SPARSE
    return row->label;
#else
    float value;
    return row_top(shared, row->target, row->classes, row->room, &value);
#endif
}

static inline float *metric_categorical_accuracy(local float *shared, const row_args *row, float *totals) {
    totals[0] = row->top == row_wanted(shared, row) ? 1.0f : 0.0f;
    return totals + 1;
}

/* Whether fewer than five values are larger than that of the class that the target tells. */
static inline float *metric_top_5(local float *shared, const row_args *row, float *totals) {
    int wanted = row_wanted(shared, row);
    float value = wanted >= 0 && wanted < row->classes ? row->x[wanted] : NAN;
    lanes_t larger = 0;
    FOR_LANES (i, row->classes)
        larger += row_load(row->x, i, row->classes, row->room, -INFINITY) > value ? (lanes_t)1 : (lanes_t)0;
    totals[0] = all_sum(shared, larger) < 5.0f && value == value ? 1.0f : 0.0f;
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

static inline float *metric_mean_squared_error(local float *shared, const row_args *row, float *totals) {
    SUM_OF_ROW(squares, (x - t) * (x - t))
    totals[0] = squares / row->classes;
    return totals + 1;
}

static inline float *metric_mean_absolute_error(local float *shared, const row_args *row, float *totals) {
    SUM_OF_ROW(sizes, fabs(x - t))
    totals[0] = sizes / row->classes;
    return totals + 1;
}

static inline float *metric_binary_accuracy(local float *shared, const row_args *row, float *totals) {
    SUM_OF_ROW(right, IS(IS(x > 0.5f) == t))
    totals[0] = right / row->classes;
    return totals + 1;
}

/* Of the values that are told to be 1, how many are; */
static inline float *metric_precision(local float *shared, const row_args *row, float *totals) {
    SUM_OF_ROW(right, IS((x > 0.5f) & (t != 0.0f)))
    SUM_OF_ROW(told, IS(x > 0.5f))
    totals[0] = right;
    totals[1] = told;
    return totals + 2;
}

/* and of those that are 1, how many are told. */
static inline float *metric_recall(local float *shared, const row_args *row, float *totals) {
    SUM_OF_ROW(right, IS((x > 0.5f) & (t != 0.0f)))
    SUM_OF_ROW(present, IS(t != 0.0f))
    totals[0] = right;
    totals[1] = present;
    return totals + 2;
}

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
#define MEASURE(k) end = CLQ_JOIN(metric_, METRIC_##k)(shared, &row, end);

/* What the row's largest value is; and with softmax left out, the sum of the exponentials. */
static inline void row_prepare(local float *shared, row_args *row) {
#ifdef TOP
    row->top = row_top(shared, row->x, row->classes, row->room, &row->most);
#endif
#if SKIPPED == 4
    lanes_t sum = 0;
    FOR_LANES (i, row->classes) sum += exp(row_load(row->x, i, row->classes, row->room, -INFINITY) - row->most);
    row->total = all_sum(shared, sum);
#endif
}

/* The loss and the metrics' totals of the rows of each share (work-item or group), each row's times `share`, go to
 * out[(base + share's number) * stride + at], TOTALS of them. Metrics come first: the gradient may lie over x. */
KERNEL void loss_and_metrics(global const float *x, global const int *targets, global float *dx, global float *out,
                             int base, int stride, int at, int count, int rows_of_one, int classes, float scale,
                             float gain, float share, float smoothing, float added, float delta, local float *shared) {
    float totals[TOTALS], lows[TOTALS];
    UNROLL for (int k = 0; k < TOTALS; k++) totals[k] = lows[k] = 0;
    size_t rows = (size_t)count * rows_of_one;
    FOR_MY_ROW (r, rows) {
        row_args row;
        row.x = x + r * classes;
        row.dx = dx + r * classes;
        row.classes = classes;
        row.room = (rows - r) * classes;
        row.scale = scale * gain;
        row.delta = delta;
#ifdef SPARSE
        row.label = targets[r];
#else
        row.target = (global const float *)targets + r * classes;
        row.smoothing = smoothing;
        row.added = added;
#endif
        float one[TOTALS], *end = one + 1;
        row_prepare(shared, &row);
        CLQ_JOIN(METRICS_, METRICS)(MEASURE)
        one[0] = ROW_LOSS(shared, &row);
#ifdef SPARSE
        if (row.label < 0 || row.label >= classes) one[0] = NAN;
#endif
        UNROLL for (int k = 0; k < TOTALS; k++) add(&totals[k], &lows[k], one[k] * share);
    }
    if (FIRST_LANE) {
        out += (base + get_group_id(0)) * stride + at;
        UNROLL for (int k = 0; k < TOTALS; k++) out[k] = totals[k];
    }
}

/* The totals at metrics[slot * stride + at] = the sums of the shares. One work-group. */
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
