/* Rows of values that several lanes share, and the rules of losses over such rows, for loss.cl.
 *
 * One text serves both families of kernels. LANES lanes work on a row. With TILE, they are the lanes of a vector: there
 * are few work-items, each with a range of rows. Otherwise, they are the items of a work-group, and n groups take every
 * n-th row each. lanes_t is what the vector of lanes, or one item, holds. FOR_LANES walks along a row. all_max, all_min
 * and all_sum combine the lanes. */

#ifdef TILE

#define LANES VEC
typedef floatv lanes_t;
typedef intv ilanes_t;
#define LANE VEC_INDEX
#define FOR_LANES(i, classes) for (int i = 0; i < (classes); i += LANES)
#define FIRST_LANE 1
#define FOR_MY_ROW FOR_MY

/* Classes i to i + LANES - 1 of a row, `fill` after its end. `room` floats may be read from the row's start on. */
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

/* Combines the values of the group's items as a tree. The first barrier is for items that still read the previous
 * result. (Local memory comes as an argument: arrays in kernels can end up shared by the threads of PoCL 3.1's pthread
 * device.) */
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

/* Compensated sums (Kahan): the rounding error of an addition is kept in `low`, and subtracted from the next term. */
static void add_lanes(lanes_t *sum, lanes_t *low, lanes_t term) {
    lanes_t rest = term - *low, next = *sum + rest;
    *low = (next - *sum) - rest;
    *sum = next;
}

/* The same for one float; an infinite sum stays infinite. */
static void add(float *sum, float *low, float term) {
    float rest = term - *low, next = *sum + rest;
    *low = isfinite(next) ? (next - *sum) - rest : 0.0f;
    *sum = next;
}

/* The class with the largest value, the first of equal ones. *value: that value. */
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

#ifdef LOSS
/* ---- losses and metrics ----
 * A program measures one loss, -DLOSS=name, and -DMETRICS=n metrics, -DMETRIC_0=name and so on. -DTOTALS: how many
 * floats they give. A rule is one function: loss_NAME of a whole row, or value_NAME of one value and its target
 * (-DOF_VALUES), and metric_NAME of a row. */

/* One row: x, its target (an index, or one number for each x), and where the gradient goes. */
typedef struct row_args {
    global const float *x;
    global float *dx; /* used if GRADIENT is defined */
    int classes;      /* values of the row */
    size_t room;
    float scale; /* factor of the gradient */
    float delta;
    float gamma, balance_1, balance_0; /* focal losses: the exponent; the weights of a target of 1 and of 0 */
    int top;                           /* with TOP: the class with the largest value */
    float most, total;                 /* the largest value; for softmax in metrics, the sum of exp(x - most) */
#ifdef BINS
    volatile global int *bins; /* the bins of the next metric that counts */
#endif
#ifdef SPARSE
    int label;
#else
    global const float *target;
    float smoothing, added; /* a target t is taken as t (1 - smoothing) + added */
#endif
} row_args;

/* The target at places i to i + LANES - 1, as it was given; 0 after the end. */
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

/* Let m = max(x), and rest = the sum of exp(x - m) over all classes but the largest.
 * Then log(sum(exp(x))) = m + log1p(rest), in which nothing cancels if the model is sure.
 * With T = sum(t) and p = softmax(x): loss = T log1p(rest) + sum(t (m - x)), dx = T p - t. */
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
        /* The same for the largest class, with exp(x - m) = 1, without cancellation. */
        lanes_t largest = ((whole - t) - t * rest) / (1.0f + rest);
        row_store(row->dx, i, classes, row->scale * (i + LANE == top ? largest : others));
    }
#endif
    return whole * log1p(rest) + distance;
}

/* Cross-entropy of probabilities, as Keras computes it on TensorFlow. clip(p) limits p to LEAST … MOST, and has no
 * slope outside; [inside] is 1 if it leaves its argument as it is, else 0.
 * Distributions: q = x / sum(x), loss = -sum(t log clip(q)), dx = (D - [inside] t / q) / sum(x), D = the sum of t over
 * the classes inside.
 * Class numbers: p = clip(x), q = p / sum(p), loss = -log(q of the class), dx = [inside] (1 - t / q) / sum(p).
 * If the sum of a row is 0, a share is clipped by its sign, and the share of 0 is 0. */
#define LEAST 1e-7f
#define MOST (1.0f - 1e-7f)
/* NaN stays NaN, which clamp does not promise. */
static inline lanes_t clipped(lanes_t p) { return p < LEAST ? (lanes_t)LEAST : p > MOST ? (lanes_t)MOST : p; }

/* What is summed over the row, and then divided by that sum. */
static inline lanes_t row_part(const row_args *row, int i) {
    lanes_t x = row_load(row->x, i, row->classes, row->room, 0);
#ifdef SPARSE
    return i + LANE < row->classes ? clipped(x) : (lanes_t)0;
#else
    return x;
#endif
}

static inline float row_whole(local float *shared, const row_args *row) {
    lanes_t sum = 0, low = 0;
    FOR_LANES (i, row->classes) {
        add_lanes(&sum, &low, row_part(row, i));
        low = isfinite(sum) ? low : (lanes_t)0;
    }
    float whole = all_sum(shared, sum - low);
    return whole == 0.0f ? FLT_MIN : whole;
}

/* One class's part of the loss. */
static inline lanes_t share_loss(lanes_t q, lanes_t t) {
#ifndef SPARSE
    q = clipped(q);
#endif
    return t == (lanes_t)0 ? (lanes_t)0 : -t * log(q);
}

static inline float loss_crossentropy(local float *shared, const row_args *row) {
    int classes = row->classes;
    float total = row_whole(shared, row), mass = 1;
    lanes_t loss = 0, loss_low = 0, inside = 0;
    FOR_LANES (i, classes) {
        lanes_t q = row_part(row, i) / total, t = row_target(row, i);
        add_lanes(&loss, &loss_low, share_loss(q, t));
        inside += clipped(q) == q ? t : (lanes_t)0;
    }
    float result = all_sum(shared, loss - loss_low);
#ifdef GRADIENT
#ifndef SPARSE
    mass = all_sum(shared, inside);
#endif
    FOR_LANES (i, classes) {
        lanes_t q = row_part(row, i) / total, t = row_target(row, i);
#ifdef SPARSE
        lanes_t x = row_load(row->x, i, classes, row->room, 0);
        lanes_t slope = clipped(x) == x ? 1.0f - t / q : (lanes_t)0;
#else
        lanes_t slope = mass - (clipped(q) == q ? t / q : (lanes_t)0);
#endif
        row_store(row->dx, i, classes, row->scale * (slope / total));
    }
#endif
    return result;
}

/* (1 - p)^gamma times the cross-entropy, for probabilities that were normalised and clipped. For logits, the sum of a
 * row's exponentials is 1 + total; total is `rest` above. */
typedef struct focal {
    lanes_t p, others, loss; /* p; 1 - p without cancellation; the class's part of the loss */
    lanes_t slope; /* p times the derivative of the loss by p, with p as an independent variable; 0 if p was clipped */
} focal;
static inline focal focal_at(const row_args *row, int i, bool of_logits, float total) {
    focal f;
    lanes_t x = row_load(row->x, i, row->classes, row->room, of_logits ? -INFINITY : 0.0f);
    lanes_t w = row_target(row, i) * row->balance_1;
    f.p = of_logits ? exp(x - row->most) / (1.0f + total) : x / total;
    f.others = 1.0f - f.p;
    if (of_logits) f.others = i + LANE == row->top ? (lanes_t)(total / (1.0f + total)) : f.others;
    lanes_t p = clipped(f.p), q = clipped(f.others);
    lanes_t power = pow(q, (lanes_t)(row->gamma - 1.0f)), log_p = q < 0.5f ? log1p(-q) : log(p);
    lanes_t slope = row->gamma * power * p * log_p - power * q;
    f.loss = w == (lanes_t)0 ? (lanes_t)0 : -w * power * q * log_p;
    f.slope = ((w != (lanes_t)0) & (f.p >= LEAST) & (f.others >= LEAST)) ? w * slope : (lanes_t)0;
    return f;
}

static inline float loss_focal(local float *shared, const row_args *row, bool of_logits) {
    int classes = row->classes;
    lanes_t sum = 0, low = 0, loss = 0, loss_low = 0, slopes = 0;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, of_logits ? -INFINITY : 0.0f);
        add_lanes(&sum, &low, !of_logits ? x : i + LANE == row->top ? (lanes_t)0 : exp(x - row->most));
    }
    float total = all_sum(shared, sum - low);
    if (!of_logits && total == 0.0f) total = FLT_MIN; /* as in row_whole */
    FOR_LANES (i, classes) {
        focal f = focal_at(row, i, of_logits, total);
        add_lanes(&loss, &loss_low, f.loss);
        slopes += f.slope;
    }
    float result = all_sum(shared, loss - loss_low);
#ifdef GRADIENT
    float all = all_sum(shared, slopes);
    FOR_LANES (i, classes) {
        focal f = focal_at(row, i, of_logits, total);
        lanes_t by_p = f.slope == (lanes_t)0 ? (lanes_t)0 : f.slope / f.p;
        lanes_t dx = of_logits ? f.slope * f.others - f.p * (all - f.slope) : (by_p - all) / total;
        row_store(row->dx, i, classes, row->scale * dx);
    }
#endif
    return result;
}
static inline float loss_categorical_focal_of_logits(local float *shared, const row_args *row) {
    return loss_focal(shared, row, true);
}
static inline float loss_categorical_focal(local float *shared, const row_args *row) {
    return loss_focal(shared, row, false);
}

/* sum(t log(t / x)), with t and x clipped to [1e-7, 1]. */
static inline float loss_kl_divergence(local float *shared, const row_args *row) {
    int classes = row->classes;
    lanes_t sum = 0, low = 0;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, 1), t = row_target(row, i);
        lanes_t p = x < LEAST ? (lanes_t)LEAST : x > 1.0f ? (lanes_t)1 : x;
        lanes_t u = t < LEAST ? (lanes_t)LEAST : t > 1.0f ? (lanes_t)1 : t;
        add_lanes(&sum, &low, i + LANE < classes ? u * log(u / p) : (lanes_t)0);
#ifdef GRADIENT
        row_store(row->dx, i, classes, p == x ? -row->scale * u / p : (lanes_t)0);
#endif
    }
    return all_sum(shared, sum - low);
}

/* -sum(t x) / (|t| |x|); a norm counts as at least 1e-7. dx = (x sum(t x) / |x|^2 - t) / (|t| |x|). */
static inline float loss_cosine_similarity(local float *shared, const row_args *row) {
    int classes = row->classes;
    lanes_t product = 0, given = 0, found = 0;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, 0), t = row_target(row, i);
        product += x * t;
        given += t * t;
        found += x * x;
    }
    float dot = all_sum(shared, product), t_norm = sqrt(all_sum(shared, given)), squares = all_sum(shared, found);
    float x_norm = sqrt(squares), norms = fmax(t_norm, LEAST) * (x_norm < LEAST ? LEAST : x_norm);
#ifdef GRADIENT
    float along = x_norm < LEAST ? 0.0f : dot / squares;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, 0), t = row_target(row, i);
        row_store(row->dx, i, classes, row->scale / norms * (x * along - t));
    }
#endif
    return -dot / norms;
}

/* max(0, 1 + max((1 - t) x) - sum(t x)). If several classes are equally the largest, they share the gradient. */
static inline float loss_categorical_hinge(local float *shared, const row_args *row) {
    int classes = row->classes;
    lanes_t sum = 0, low = 0, most = -INFINITY;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, 0), t = row_target(row, i), other = (1.0f - t) * x;
        add_lanes(&sum, &low, t * x);
        other = i + LANE < classes ? other : (lanes_t)-INFINITY;
        most = other > most ? other : most;
        most = isnan(x) ? x : most;
    }
    float other = all_max(shared, most), short_of = 1.0f + other - all_sum(shared, sum - low);
#ifdef GRADIENT
    lanes_t equals = 0;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, 0), t = row_target(row, i);
        equals += ((i + LANE < classes) & ((1.0f - t) * x == other)) ? (lanes_t)1 : (lanes_t)0;
    }
    float part = 1.0f / all_sum(shared, equals), scale = short_of > 0.0f ? row->scale : 0.0f;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, 0), t = row_target(row, i), rest = 1.0f - t;
        row_store(row->dx, i, classes, scale * ((rest * x == other ? part * rest : (lanes_t)0) - t));
    }
#endif
    return short_of <= 0.0f ? 0.0f : short_of;
}

/* ---- losses that are means over values ----
 * A rule returns the loss of x with target t, and sets *slope to the derivative of the loss by x. */

static inline lanes_t value_mean_squared_error(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t error = x - t;
    *slope = 2.0f * error;
    return error * error;
}

static inline lanes_t value_mean_absolute_error(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t error = x - t;
    *slope = sign(error);
    return fabs(error);
}

/* Huber, "Robust estimation of a location parameter", 1964: quadratic up to delta, and linear from there. */
static inline lanes_t value_huber(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t error = x - t, size = fabs(error);
    float delta = row->delta;
    *slope = size <= delta ? error : delta * sign(error);
    return size <= delta ? 0.5f * error * error : delta * (size - 0.5f * delta);
}

/* Targets are -1 and 1; as in Keras, 0 stands for -1. */
static inline lanes_t value_hinge(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t sign_of = t == 0.0f ? (lanes_t)-1 : t, short_of = 1.0f - sign_of * x;
    *slope = short_of > 0.0f ? -sign_of : (lanes_t)0;
    return short_of <= 0.0f ? (lanes_t)0 : short_of;
}

static inline lanes_t value_squared_hinge(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t short_of = value_hinge(x, t, row, slope);
    *slope *= 2.0f * short_of;
    return short_of * short_of;
}

/* log(cosh(x - t)). Near 0, nothing cancels with cosh(e) - 1 = m m / (2 (1 + m)), m = exp(e) - 1. */
static inline lanes_t value_log_cosh(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t error = x - t, size = fabs(error), m = expm1(size);
    *slope = tanh(error);
    lanes_t far = size + (log1p(exp(-2.0f * size)) - 0.69314718056f);
    return size < 1.0f ? log1p(m * m / (2.0f * (1.0f + m))) : far;
}

/* x - t log(x + 1e-7). If x + 1e-7 has no logarithm, because it is not above 0, that of 1e-7 is taken. The slope is
 * Keras's. */
static inline lanes_t value_poisson(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t rate = x + LEAST;
    *slope = 1.0f - t / (rate == 0.0f ? (lanes_t)LEAST : rate);
    return x - t * log(rate > 0.0f ? rate : (lanes_t)LEAST);
}

static inline lanes_t value_mean_absolute_percentage_error(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t error = x - t, of = 100.0f / fmax(fabs(t), (lanes_t)LEAST);
    *slope = of * sign(error);
    return of * fabs(error);
}

/* Values below 1e-7 count as 1e-7, and have no slope. */
static inline lanes_t value_mean_squared_logarithmic_error(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t least = x < LEAST ? (lanes_t)LEAST : x, error = log1p(least) - log1p(fmax(t, (lanes_t)LEAST));
    *slope = least == x ? 2.0f * error / (1.0f + x) : (lanes_t)0;
    return error * error;
}

/* -t log(p) - (1 - t) log(1 - p) with p = 1 / (1 + exp(-x)), without overflow. */
static inline lanes_t value_binary_crossentropy_of_logits(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    *slope = 1.0f / (1.0f + exp(-x)) - t;
    return fmax(x, (lanes_t)0) - x * t + log1p(exp(-fabs(x)));
}

/* From probabilities, clipped as in Keras. A clipped value has no slope. */
static inline lanes_t value_binary_crossentropy(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t p = clipped(x);
    *slope = p == x ? (p - t) / (p * (1.0f - p)) : (lanes_t)0;
    return -(t * log(p) + (1.0f - t) * log(1.0f - p));
}

/* The cross-entropy times q^gamma, and times the weight of the target. q = t (1 - p) + (1 - t) p tells how wrong the
 * answer is. by_x: dp/dx. *slope: that of the cross-entropy, which becomes that of the result. If p is no probability,
 * q may be below 0. It has powers if gamma is a whole number; else it counts as FLT_MIN. */
static inline lanes_t focus(lanes_t crossentropy, lanes_t q, lanes_t t, const row_args *row, lanes_t by_x,
                            lanes_t *slope) {
    lanes_t size = floor(row->gamma) == row->gamma ? fabs(q) : q;
    q = size < FLT_MIN ? (lanes_t)FLT_MIN : q;
    lanes_t power = pow(q, (lanes_t)(row->gamma - 1.0f));
    lanes_t weight = t * row->balance_1 + (1.0f - t) * row->balance_0;
    *slope = weight * power * (row->gamma * (1.0f - 2.0f * t) * by_x * crossentropy + q * *slope);
    return weight * power * q * crossentropy;
}

static inline lanes_t value_binary_focal_of_logits(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t p = 1.0f / (1.0f + exp(-x)), rest = 1.0f / (1.0f + exp(x));
    lanes_t crossentropy = value_binary_crossentropy_of_logits(x, t, row, slope);
    return focus(crossentropy, t * rest + (1.0f - t) * p, t, row, p * rest, slope);
}

static inline lanes_t value_binary_focal(lanes_t x, lanes_t t, const row_args *row, lanes_t *slope) {
    lanes_t crossentropy = value_binary_crossentropy(x, t, row, slope);
    return focus(crossentropy, t * (1.0f - x) + (1.0f - t) * x, t, row, (lanes_t)1, slope);
}

#ifdef OF_VALUES
static inline float loss_of_values(local float *shared, const row_args *row) {
    int classes = row->classes;
    lanes_t sum = 0, low = 0;
    FOR_LANES (i, classes) {
        lanes_t slope, x = row_load(row->x, i, classes, row->room, 0);
        lanes_t one = CLQ_JOIN(value_, LOSS)(x, row_target(row, i), row, &slope);
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

#endif
