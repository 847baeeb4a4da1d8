/* Activations over flat arrays, and the column sums (gradients of biases) that go with their backward pass.
 * Softmax works on rows: loss.cl. FORWARD: that kernel, else the backward pass, with sums where COLUMNS is given,
 * keeping dz where WRITE_DZ is. */

#ifdef FORWARD

KERNEL void activation_forward(global const float *x, global float *y, int count, int elements) {
    size_t total = (size_t)count * elements;
    FOR_MY (i, total / VEC) {
        floatv v = ((global const floatv *)x)[i];
        ((global floatv *)y)[i] = ACTIVATE(floatv, v);
    }
    FOR_MY_FROM (i, total / VEC * VEC, total) {
        float v = x[i];
        y[i] = ACTIVATE(float, v);
    }
}

#else /* backward */

/* The gradient before the activation at one place; kept where the caller wants it. A linear layer has no y. */
static floatv slope_floatv(global const float *y, global const float *dy, global float *dz, size_t i) {
    floatv gradient = ((global const floatv *)dy)[i];
#if ACT != 0
    floatv output = ((global const floatv *)y)[i];
    gradient = SLOPE(floatv, output, gradient);
#endif
#ifdef WRITE_DZ
    ((global floatv *)dz)[i] = gradient;
#endif
    return gradient;
}

static float slope(global const float *y, global const float *dy, global float *dz, size_t i) {
    float gradient = dy[i];
#if ACT != 0
    float output = y[i];
    gradient = SLOPE(float, output, gradient);
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

/* db from the first slice's share, to which the others were added. */
static void fold_share(global const float *share, global float *db, int fold, int channels, int first, int step) {
    size_t width = (size_t)fold * channels;
    for (int c = first; c < channels; c += step) {
        float sum = share[c], low = share[width + c];
        for (int k = 1; k < fold; k++) {
            add(&sum, &low, share[(size_t)k * channels + c]);
            low += share[width + (size_t)k * channels + c];
        }
        db[c] = sum + low;
    }
}

#ifdef TILE

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
    if (slices == 1 && part == pitch) fold_share(shares, db, fold, channels, 0, 1);
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
    fold_share(shares, db, fold, channels, 0, 1);
}

#else

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
        for (row += r; row < end; row += ROWS) add(&sum, &low, slope(y, dy, dz, row * width + column));
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

/* Work-items by columns of a long row, then by channels: one work-group. */
KERNEL void fold_columns(global float *shares, global float *db, int slices, int fold, int channels) {
    size_t width = (size_t)fold * channels;
    for (size_t c = get_global_id(0); c < width; c += get_global_size(0)) {
        float sum = shares[c], low = shares[width + c];
        for (size_t s = 1; s < slices; s++) {
            add(&sum, &low, shares[2 * s * width + c]);
            low += shares[(2 * s + 1) * width + c];
        }
        shares[c] = sum;
        shares[width + c] = low;
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    fold_share(shares, db, fold, channels, (int)get_global_id(0), (int)get_global_size(0));
}

#endif

#endif

#endif
