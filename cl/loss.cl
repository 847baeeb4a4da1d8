/* Rows of classes: softmax, and the cross-entropies with their gradients and metrics.
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
/* ---- cross-entropy ---- */

/* What the rows of one share have come to. */
typedef struct totals {
    float loss, low;
    int right;
} totals;

/* One row: x, its target (an index, or a distribution that is smoothed on the way), and where the gradient goes. */
typedef struct row_args {
    global const float *x;
    global float *dx; /* used where GRADIENT is defined */
    int classes;
    size_t room;
    float scale;
#ifdef SPARSE
    int label;
#else
    global const float *target;
    float smoothing;
#endif
} row_args;

/* The target at classes i to i + LANES; 0 beyond the end. */
static lanes_t row_target(const row_args *row, int i) {
#ifdef SPARSE
    return i + LANE == row->label ? (lanes_t)1 : (lanes_t)0;
#else
    lanes_t t = row_load(row->target, i, row->classes, row->room, 0);
    lanes_t smooth = t * (1.0f - row->smoothing) + row->smoothing / row->classes;
    return i + LANE < row->classes ? smooth : (lanes_t)0;
#endif
}

#ifdef LOGITS

/* With m = max(x) and rest = the sum of exp(x - m) over all classes but the largest,
 * log(sum(exp(x))) = m + log1p(rest): nothing cancels where the model is sure.
 * T = sum(t): loss = T log1p(rest) + sum(t (m - x)), dx = T p - t. */
static float row_loss(local float *shared, const row_args *row, int *top) {
    int classes = row->classes;
    float most, whole = 1;
    *top = row_top(shared, row->x, classes, row->room, &most);
    lanes_t sum = 0, low = 0, gap = 0, mass = 0;
    FOR_LANES (i, classes) {
        lanes_t x = row_load(row->x, i, classes, row->room, -INFINITY), e = exp(x - most), t = row_target(row, i);
        add_lanes(&sum, &low, i + LANE == *top ? (lanes_t)0 : e);
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
        row_store(row->dx, i, classes, row->scale * (i + LANE == *top ? largest : others));
    }
#endif
    return whole * log1p(rest) + distance;
}

#else

/* From probabilities, as Keras: q = x / sum(x), p = clip(q), loss = -sum(t log p). Where q is clipped it has no slope:
 * dx = (D - [inside] t / p) / sum(x) with D = the sum of t over the classes inside. */
#define LEAST 1e-7f
#define MOST (1.0f - 1e-7f)
static float row_loss(local float *shared, const row_args *row, int *top) {
    int classes = row->classes;
    float most;
    *top = row_top(shared, row->x, classes, row->room, &most);
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

#endif

/* The sum of losses and the number of right answers of each share (work-item or group) go to shares[base + share]. */
KERNEL void cross_entropy(global const float *x, global const int *labels, global float *dx, global float2 *shares,
                          int base, int count, int classes, float scale, float smoothing, local float *shared) {
    float loss = 0, low = 0;
    int right = 0;
    size_t rows = count;
    FOR_MY_ROW (r, rows) {
        row_args row;
        row.x = x + r * classes;
        row.dx = dx + r * classes;
        row.classes = classes;
        row.room = (rows - r) * classes;
        row.scale = scale;
        int top, wanted;
#ifdef SPARSE
        wanted = row.label = labels[r];
#else
        float value;
        row.target = (global const float *)labels + r * classes;
        row.smoothing = smoothing;
        wanted = row_top(shared, row.target, classes, row.room, &value);
#endif
        float one = row_loss(shared, &row, &top);
#ifdef SPARSE
        if (wanted < 0 || wanted >= classes) one = NAN;
#endif
        add(&loss, &low, one);
        right += top == wanted;
    }
    if (FIRST_LANE) shares[base + get_group_id(0)] = (float2)(loss, right);
}

/* metrics[slot] = the sum of the shares. One work-group. */
KERNEL void sum_shares(global const float2 *shares, int count, global float2 *metrics, int slot, local float *shared) {
    float loss = 0, low = 0, right = 0;
    for (int i = (int)get_global_id(0); i < count; i += (int)get_global_size(0)) {
        add(&loss, &low, shares[i].x);
        right += shares[i].y;
    }
#ifndef TILE
    loss = all_sum(shared, loss - low);
    right = all_sum(shared, right);
#endif
    if (FIRST_LANE) metrics[slot] = (float2)(loss, right);
}

#endif
