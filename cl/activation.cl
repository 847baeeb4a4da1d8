/* Chains of activations over flat arrays, and the column sums (gradients of biases) that go with their backward pass.
 * Softmax works on rows: loss.cl. FORWARD: that kernel, else the backward pass, with sums where COLUMNS is given,
 * keeping dz where WRITE_DZ is.
 *
 * The chain has LINKS links: LINK_0 is applied first; those beyond are linear and cost nothing. Single floats go
 * through it as vectors do: drivers' scalar functions round otherwise (PoCL's), and what backward computes again must
 * be what forward had, wherever an element lies. */

#ifndef LINK_0
#define LINK_0 0
#endif
#ifndef LINK_1
#define LINK_1 0
#endif
#ifndef LINK_2
#define LINK_2 0
#endif
#ifndef LINK_3
#define LINK_3 0
#endif
#ifndef LINK_4
#define LINK_4 0
#endif
#ifndef LINK_5
#define LINK_5 0
#endif
#ifndef LINK_6
#define LINK_6 0
#endif
#ifndef LINK_7
#define LINK_7 0
#endif
#define FORTH(link, x) CLQ_JOIN(ACTIVATE_, LINK_##link)(floatv, x)
#define BACK(link, y, dy) CLQ_JOIN(SLOPE_, LINK_##link)(floatv, y, dy)

#ifdef FORWARD

static floatv chain(floatv t0) {
    floatv t1 = FORTH(0, t0), t2 = FORTH(1, t1), t3 = FORTH(2, t2), t4 = FORTH(3, t3);
    floatv t5 = FORTH(4, t4), t6 = FORTH(5, t5), t7 = FORTH(6, t6), t8 = FORTH(7, t7);
    return t8;
}

KERNEL void activation_forward(global const float *x, global float *y, int count, int elements) {
    size_t total = (size_t)count * elements;
    FOR_MY (i, total / VEC) ((global floatv *)y)[i] = chain(((global const floatv *)x)[i]);
    FOR_MY_FROM (i, total / VEC * VEC, total) y[i] = chain((floatv)(x[i])).s0;
}

#else /* backward */

/* The gradient before the activation ACT from its result y, which went through the chain, too, and the gradient behind
 * that. */
static floatv gradient_before(floatv y, floatv dy) {
    floatv t1 = FORTH(0, y), t2 = FORTH(1, t1), t3 = FORTH(2, t2), t4 = FORTH(3, t3);
    floatv t5 = FORTH(4, t4), t6 = FORTH(5, t5), t7 = FORTH(6, t6), t8 = FORTH(7, t7);
    floatv dy7 = BACK(7, t8, dy), dy6 = BACK(6, t7, dy7), dy5 = BACK(5, t6, dy6), dy4 = BACK(4, t5, dy5);
    floatv dy3 = BACK(3, t4, dy4), dy2 = BACK(2, t3, dy3), dy1 = BACK(1, t2, dy2), dy0 = BACK(0, t1, dy1);
    return SLOPE(floatv, y, dy0);
}

/* The same at one place; kept where the caller wants it. A linear layer without a chain has no y. */
static floatv slope_floatv(global const float *y, global const float *dy, global float *dz, size_t i) {
    floatv gradient = ((global const floatv *)dy)[i];
#if ACT != 0 || LINKS > 0
    gradient = gradient_before(((global const floatv *)y)[i], gradient);
#endif
#ifdef WRITE_DZ
    ((global floatv *)dz)[i] = gradient;
#endif
    return gradient;
}

static float slope(global const float *y, global const float *dy, global float *dz, size_t i) {
    float gradient = dy[i];
#if ACT != 0 || LINKS > 0
    gradient = gradient_before((floatv)(y[i]), (floatv)(gradient)).s0;
#endif
#ifdef WRITE_DZ
    dz[i] = gradient;
#endif
    return gradient;
}

#ifndef COLUMNS

KERNEL void activation_backward(global const float *y, global const float *dy, global float *dz, int count,
                                int elements) {
    size_t total = (size_t)count * elements;
    FOR_MY (i, total / VEC) slope_floatv(y, dy, dz, i);
    FOR_MY_FROM (i, total / VEC * VEC, total) slope(y, dy, dz, i);
}

#else
/* ---- column sums ----
 * The rows are taken `fold` at a time as one long row of fold * channels, so that long rows are whole vectors (tiles)
 * or wide enough for a work-group; what is left at the end are single floats. Each slice of the long rows leaves its
 * column sums and what they rounded off: shares (slices, 2, fold * channels). fold_columns adds slices and folds. */

/* sum += term without loss: what is rounded off goes to low (Knuth's two-sum, which needs no order of size). */
static void add(float *sum, float *low, float term) {
    float next = *sum + term, back = next - *sum;
    *low += (*sum - (next - back)) + (term - back);
    *sum = next;
}

#ifdef TILE

/* db from the first slice's share, to which the others were added. */
static void fold_share(global const float *share, global float *db, int fold, int channels) {
    size_t width = (size_t)fold * channels;
    for (int c = 0; c < channels; c++) {
        float sum = share[c], low = share[width + c];
        for (int k = 1; k < fold; k++) {
            add(&sum, &low, share[(size_t)k * channels + c]);
            low += share[width + (size_t)k * channels + c];
        }
        db[c] = sum + low;
    }
}

static void add_floatv(global floatv *sum, global floatv *low, floatv term) {
    floatv before = *sum, next = before + term, back = next - before;
    *low += (before - (next - back)) + (term - back);
    *sum = next;
}

/* Adds N neighbouring columns of vectors over some long rows; short plain sums, joined to the long
 * ones by add_floatv. */
#define DEFINE_STRIP(name, N)                                                                                          \
    static void name(global const float *y, global const float *dy, global float *dz, size_t at, int rows,             \
                     size_t pitch, global floatv *sum, global floatv *low) {                                           \
        floatv columns[N];                                                                                             \
        UNROLL for (int k = 0; k < N; k++) columns[k] = 0;                                                             \
        for (int r = 0; r < rows; r++, at += pitch) {                                                                  \
            UNROLL for (int k = 0; k < N; k++) columns[k] += slope_floatv(y, dy, dz, at + k);                          \
        }                                                                                                              \
        UNROLL for (int k = 0; k < N; k++) add_floatv(sum + k, low + k, columns[k]);                                   \
    }
DEFINE_STRIP(strip1, 1)
DEFINE_STRIP(strip2, 2)
DEFINE_STRIP(strip4, 4)

/* Work-items (g, s): group g of the columns in slice s of the long rows. A block of rows stays in the first cache while
 * its strips are added. Where there is one work-item, it makes db; else fold_columns does. */
KERNEL void activation_backward_sums(global const float *y, global const float *dy, global float *dz,
                                     global float *shares, global float *db, int count, int rows_per_example,
                                     int channels, int fold, local float *shared) {
    size_t slice = get_global_id(1), slices = get_global_size(1), width = (size_t)fold * channels, pitch = width / VEC;
    size_t rows = (size_t)count * rows_per_example, long_rows = rows / fold, share = (long_rows + slices - 1) / slices;
    size_t row = min(slice * share, long_rows), end = min(row + share, long_rows);
    size_t part = (pitch + get_global_size(0) - 1) / get_global_size(0);
    size_t first = min(get_global_id(0) * part, pitch), last = min(first + part, pitch);
    global float *sums = shares + 2 * slice * width;
    global floatv *sum = (global floatv *)sums, *low = sum + pitch;
    for (size_t v = first; v < last; v++) sum[v] = low[v] = 0;
    int block = (int)clamp((size_t)4096 / (part * VEC), (size_t)8, (size_t)64);
    for (; row < end; row += block) {
        int some = (int)min(end - row, (size_t)block);
        size_t at = row * pitch, v = first;
        for (; v + 4 <= last; v += 4) strip4(y, dy, dz, at + v, some, pitch, sum + v, low + v);
        for (; v + 2 <= last; v += 2) strip2(y, dy, dz, at + v, some, pitch, sum + v, low + v);
        for (; v < last; v++) strip1(y, dy, dz, at + v, some, pitch, sum + v, low + v);
    }
    size_t rest = slice == slices - 1 ? rows * channels - long_rows * width : 0;
    for (size_t c = first * VEC; c < min(rest, last * VEC); c++) sums[c] += slope(y, dy, dz, long_rows * width + c);
    if (slices == 1 && part == pitch) fold_share(shares, db, fold, channels);
}

/* One work-item. */
KERNEL void fold_columns(global float *shares, global float *db, int slices, int fold, int channels) {
    size_t pitch = (size_t)fold * channels / VEC;
    global floatv *sum = (global floatv *)shares, *low = sum + pitch;
    for (size_t s = 1; s < slices; s++) {
        for (size_t v = 0; v < pitch; v++) {
            add_floatv(sum + v, low + v, sum[2 * s * pitch + v]);
            low[v] += low[2 * s * pitch + v];
        }
    }
    fold_share(shares, db, fold, channels);
}

#else

/* As slope, at TOGETHER places `step` apart. All loads come first: dz may be dy, so a compiler cannot move a load in
 * front of a store, and an item that waits for each load alone leaves most of a GPU's bandwidth unused. A chain is
 * limited by its arithmetic. */
#if LINKS > 0
#define TOGETHER 1
#else
#define TOGETHER 4
#endif
ALWAYS_INLINE void slopes(global const float *y, global const float *dy, global float *dz, size_t i, size_t step,
                          float gradients[TOGETHER]) {
    UNROLL for (int k = 0; k < TOGETHER; k++) gradients[k] = dy[i + k * step];
#if ACT != 0 || LINKS > 0
    float results[TOGETHER];
    UNROLL for (int k = 0; k < TOGETHER; k++) results[k] = y[i + k * step];
    UNROLL for (int k = 0; k < TOGETHER; k++) gradients[k] =
        gradient_before((floatv)(results[k]), (floatv)(gradients[k])).s0;
#endif
#ifdef WRITE_DZ
    UNROLL for (int k = 0; k < TOGETHER; k++) dz[i + k * step] = gradients[k];
#endif
}

/* Work-groups of (COLUMNS, ROWS) items: one per slice (dimension 1) and COLUMNS columns. db is made by fold_columns. */
KERNEL void activation_backward_sums(global const float *y, global const float *dy, global float *dz,
                                     global float *shares, global float *db, int count, int rows_per_example,
                                     int channels, int fold, local float *shared) {
    size_t slice = get_group_id(1), slices = get_num_groups(1), width = (size_t)fold * channels;
    size_t rows = (size_t)count * rows_per_example, long_rows = rows / fold, share = (long_rows + slices - 1) / slices;
    size_t row = min(slice * share, long_rows), end = min(row + share, long_rows), column = get_global_id(0);
    int c = (int)get_local_id(0), r = (int)get_local_id(1);
    float sum = 0, low = 0;
    if (column < width) {
        for (row += r; row + (TOGETHER - 1) * ROWS < end; row += TOGETHER * ROWS) {
            float gradients[TOGETHER];
            slopes(y, dy, dz, row * width + column, ROWS * width, gradients);
            UNROLL for (int k = 0; k < TOGETHER; k++) add(&sum, &low, gradients[k]);
        }
#if TOGETHER > 1
        for (; row < end; row += ROWS) add(&sum, &low, slope(y, dy, dz, row * width + column));
#endif
        size_t last = long_rows * width + column;
        if (slice == slices - 1 && r == 0 && last < rows * channels) add(&sum, &low, slope(y, dy, dz, last));
    }
    shared[r * COLUMNS + c] = sum;
    shared[(ROWS + r) * COLUMNS + c] = low;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (r == 0 && column < width) {
        for (int k = 1; k < ROWS; k++) {
            add(&sum, &low, shared[k * COLUMNS + c]);
            low += shared[(ROWS + k) * COLUMNS + c];
        }
        shares[2 * slice * width + column] = sum;
        shares[(2 * slice + 1) * width + column] = low;
    }
}

/* db (channels) from all slices' shares. A work-group makes `columns` channels (a power of two) with GROUP / columns
 * work-items, its rows, for each: a channel has slices * fold sums, of which row r adds those numbered r, r + rows, and
 * so on; the rows' sums are then added as a tree. */
KERNEL void fold_columns(global const float *shares, global float *db, int slices, int fold, int channels, int columns,
                         local float *shared) {
    int item = (int)get_local_id(0), row = item / columns, rows = GROUP / columns, sums = slices * fold;
    int channel = (int)get_group_id(0) * columns + item % columns;
    size_t width = (size_t)fold * channels;
    local float *lows = shared + GROUP;
    float sum = 0, low = 0;
    if (channel < channels) {
        _Pragma("unroll 4") for (int i = row; i < sums; i += rows) {
            size_t at = i / fold * 2 * width + i % fold * channels + channel;
            add(&sum, &low, shares[at]);
            low += shares[at + width];
        }
    }
    shared[item] = sum;
    lows[item] = low;
    for (int step = GROUP / 2; step >= columns; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < step) {
            add(&sum, &low, shared[item + step]);
            low += lows[item + step];
            shared[item] = sum;
            lows[item] = low;
        }
    }
    if (row == 0 && channel < channels) db[channel] = sum + low;
}

#endif

#endif

#endif
