/* A convolution, its activation and the maximum over windows of its output that do not overlap, in one, for devices
 * whose work-items are whole cores with vectors. Of the convolution's outputs only each window's largest is kept, and
 * which of the window's places that was; so all other gradients are zero. No window reaches beyond the output, no tap
 * beyond the input (IN_H, IN_W, IN_C). The program is one of
 *
 * - FORWARD;
 * - LISTS: gradients by lists of those that are not zero, for inputs whose channels are whole vectors;
 * - WINNERS: the weights' gradient as an outer product over windows. */
#define PLACES (SIZE_H * SIZE_W)
#define RUN (TAPS_W * IN_C) /* floats side by side that meet a row of taps */
#define ROW (IN_W * IN_C)
#define IMAGE ((size_t)IN_H * ROW)
#define WINDOWS (POOL_H * POOL_W)
#define WIDTH (NR * VEC)

/* From the first input float of a window to that of its place, both as they meet the first tap. */
#define PLACE_OFFSET(place) ((place) / SIZE_W * (STEP_H * ROW) + (place) % SIZE_W * (STEP_W * IN_C))
#define WINDOW_OFFSET(y, x) ((y) * (STRIDE_H * STEP_H * ROW) + (x) * (STRIDE_W * STEP_W * IN_C))

/* Which examples slice `slice` of SLICES sums. */
#define FOR_SLICE(image, slice, count)                                                                                 \
    for (int share_ = ((count) + SLICES - 1) / SLICES, image = min((slice)*share_, count),                             \
             last_ = min(image + share_, count);                                                                       \
         image < last_; image++)

#ifndef LISTS

/* Vectors of a row whose length is no multiple of theirs begin anywhere. */
#if COLUMNS % VEC == 0
typedef floatv floatv_of_row;
#else
typedef floatv_anywhere floatv_of_row;
#endif

/* The vector at p, of which nothing at or behind `end` is read; zeros there. */
ALWAYS_INLINE floatv load_until(global const float *p, global const float *end) {
#if COLUMNS % WIDTH != 0
    if (p + VEC > end) {
        float lanes[VEC];
        for (int l = 0; l < VEC; l++) lanes[l] = p + l < end ? p[l] : 0.0f;
        return CLQ_JOIN(vload, VEC)(0, lanes);
    }
#endif
    return *(global const floatv_of_row *)p;
}

#endif

#ifdef FORWARD

#ifdef STAY /* all weights in registers, for all windows */
#define UNROLL_TAPS UNROLL
#else
#define UNROLL_TAPS
#endif
#ifdef BLOCKED
#define RESULT total
#else
#define RESULT acc
#endif

/* One window's maximum in one vector of channels. */
ALWAYS_INLINE void store_window(const floatv *values, int column, global float *y, global uchar *winner, int none) {
    intv where;
    floatv best = best_of(values, NR, PLACES, none, &where);
#if COLUMNS % VEC == 0
    if (column >= COLUMNS) return;
    *(global floatv *)(y + column) = best;
#ifdef KEEP
    *(global ucharv *)(winner + column) = CLQ_JOIN(convert_uchar, VEC)(where);
#endif
#else
    float lanes[VEC];
    int places[VEC];
    CLQ_JOIN(vstore, VEC)(best, 0, lanes);
    CLQ_JOIN(vstore, VEC)(where, 0, places);
    for (int l = 0; l < VEC && column + l < COLUMNS; l++) {
        y[column + l] = lanes[l];
#ifdef KEEP
        winner[column + l] = (uchar)places[l];
#endif
    }
#endif
}

/* WT windows, from `first`, in NR vectors of channels, from `column`. Windows that are not there are the last one
 * again, and not stored. */
ALWAYS_INLINE void make_tile(int first, int windows, int column, global const float *x, global const float *w,
                             global const float *bias, global float *y, global uchar *winner) {
    global const float *near_[WT], *end = w + DEPTH * COLUMNS;
    UNROLL for (int t = 0; t < WT; t++) {
        int window = min(first + t, windows - 1), image = window / WINDOWS, place = window % WINDOWS;
        near_[t] = x + image * IMAGE + WINDOW_OFFSET(place / POOL_W, place % POOL_W);
    }
    floatv acc[WT * PLACES][NR];
    UNROLL for (int j = 0; j < NR; j++) {
        floatv offset = 0;
#ifdef BIAS
        offset = load_until(bias + column + j * VEC, bias + COLUMNS);
#endif
        UNROLL for (int i = 0; i < WT * PLACES; i++) acc[i][j] = offset;
    }
#ifdef BLOCKED
    floatv total[WT * PLACES][NR];
    UNROLL for (int i = 0; i < WT * PLACES; i++) UNROLL for (int j = 0; j < NR; j++) total[i][j] = 0;
#endif
    w += column;
    UNROLL_TAPS for (int ky = 0; ky < TAPS_H; ky++) {
        UNROLL_TAPS for (int k = 0; k < RUN; k++, w += COLUMNS) {
            floatv b_[NR];
            UNROLL for (int j = 0; j < NR; j++) b_[j] = load_until(w + j * VEC, end);
            UNROLL for (int t = 0; t < WT; t++) {
                UNROLL for (int s = 0; s < PLACES; s++) {
                    floatv a_ = (floatv)(near_[t][ky * ROW + k + PLACE_OFFSET(s)]);
                    UNROLL for (int j = 0; j < NR; j++) acc[t * PLACES + s][j] += a_ * b_[j];
                }
            }
        }
#ifdef BLOCKED /* so that the rounding of long sums does not grow with their length */
        UNROLL for (int i = 0; i < WT * PLACES; i++) UNROLL for (int j = 0; j < NR; j++) {
            total[i][j] += acc[i][j];
            acc[i][j] = 0;
        }
#endif
    }
    UNROLL for (int t = 0; t < WT; t++) {
        if (first + t >= windows) continue;
        size_t row = (size_t)(first + t) * COLUMNS;
        UNROLL for (int j = 0; j < NR; j++)
            store_window(&RESULT[t * PLACES][j], column + j * VEC, y + row, winner + row, windows >> 31);
    }
}

/* (runs of TILES tiles, panels of NR vectors of channels) */
TILE_KERNEL void conv_pool_forward(global const float *x, global const float *w, global const float *bias,
                                   global float *y, global uchar *winner, int count) {
    int windows = count * WINDOWS, first = (int)get_global_id(0) * (WT * TILES), column = (int)get_global_id(1) * WIDTH;
    for (int end = min(first + WT * TILES, windows); first < end; first += WT)
        make_tile(first, windows, column, x, w, bias, y, winner);
}

#elif defined(LISTS)

/* ---- lists of what is not zero: per example and channel how many there are, and for each its value and where the
 * patch of the input begins that it met, in floats from the image's first ---- */

/* (examples). Every place is written, and kept by counting on: nothing here is a jump that depends on the values. */
TILE_KERNEL void list_gradients(global const float *dz, global const uchar *winner, global int2 *lists,
                                global int *lengths) {
    size_t image = get_global_id(0);
    dz += image * (WINDOWS * COLUMNS);
    winner += image * (WINDOWS * COLUMNS);
    lists += image * (WINDOWS * COLUMNS);
    for (int c = 0; c < COLUMNS; c++, lists += WINDOWS) {
        int length = 0, window = c;
        for (int y = 0; y < POOL_H; y++) {
#if POOL_W <= 16
            UNROLL
#endif
            for (int x = 0; x < POOL_W; x++, window += COLUMNS) {
                float value = dz[window];
                lists[length] = (int2)(as_int(value), WINDOW_OFFSET(y, x) + PLACE_OFFSET(winner[window]));
                length += value != 0.0f;
            }
        }
        lengths[image * COLUMNS + c] = length;
    }
}

/* A tile is TL vectors of each of TR rows of taps. */
#define TILES_ACROSS ((RUN / VEC + TL - 1) / TL)
#define TILE_ROW(tile) min((tile) / TILES_ACROSS * TR, TAPS_H - TR)
#define TILE_PLACE(tile) (min((tile) % TILES_ACROSS * TL, RUN / VEC - TL) * VEC)
#define AT(i) ((i) / TL * ROW + (i) % TL * VEC)        /* of vector i of a tile in an image */
#define AT_WEIGHT(i) ((i) / TL * RUN + (i) % TL * VEC) /* and among the weights of an output channel */

/* sums (SLICES, COLUMNS, DEPTH). (tiles, blocks of BLOCK channels, slices) */
TILE_KERNEL void sum_weights(global const float *x, global const int2 *lists, global const int *lengths,
                             global float *sums, int count) {
    int tile = (int)get_global_id(0), c_first = (int)get_global_id(1) * BLOCK, slice = (int)get_global_id(2);
    int c_end = min(c_first + BLOCK, COLUMNS);
    x += TILE_ROW(tile) * ROW + TILE_PLACE(tile);
    sums += (size_t)slice * (COLUMNS * DEPTH) + TILE_ROW(tile) * RUN + TILE_PLACE(tile);
    for (int c = c_first; c < c_end; c++)
        UNROLL for (int i = 0; i < TL * TR; i++) * (global floatv *)(sums + c * DEPTH + AT_WEIGHT(i)) = 0;
    FOR_SLICE(image, slice, count) {
        global const float *from = x + image * IMAGE;
        for (int c = c_first; c < c_end; c++) {
            size_t list = (size_t)image * COLUMNS + c;
            global const int2 *entry = lists + list * WINDOWS;
            floatv acc[TL * TR];
            UNROLL for (int i = 0; i < TL * TR; i++) acc[i] = 0;
            for (int left = lengths[list]; left > 0; left--, entry++) {
                floatv value = (floatv)(as_float(entry->x));
                global const float *patch = from + entry->y;
                UNROLL for (int i = 0; i < TL * TR; i++) acc[i] += value * LOADV_ALIGNED(patch + AT(i));
            }
            UNROLL for (int i = 0; i < TL * TR; i++) {
                global floatv *sum = (global floatv *)(sums + c * DEPTH + AT_WEIGHT(i));
                *sum += acc[i];
            }
        }
    }
}

/* dw (DEPTH, COLUMNS) = the slices' sum, in order. (rows of dw) */
TILE_KERNEL void fold_weights(global const float *sums, global float *dw) {
    size_t row = get_global_id(0);
    for (int c = 0; c < COLUMNS; c++) {
        float sum = sums[c * DEPTH + row];
        for (int s = 1; s < SLICES; s++) sum += sums[((size_t)s * COLUMNS + c) * DEPTH + row];
        dw[row * COLUMNS + c] = sum;
    }
}

/* weights (COLUMNS, DEPTH). dx (IN_H, IN_W, IN_C). (examples) */
TILE_KERNEL void spread_gradients(global const float *weights, global const int2 *lists, global const int *lengths,
                                  global float *dx) {
    size_t image = get_global_id(0);
    dx += image * IMAGE;
    lists += image * (WINDOWS * COLUMNS);
    lengths += image * COLUMNS;
    for (int i = 0; i < IMAGE; i += VEC) *(global floatv *)(dx + i) = 0;
    for (int c = 0; c < COLUMNS; c++) {
        for (int tile = 0; tile < TILES; tile++) {
            global const float *w = weights + c * DEPTH + TILE_ROW(tile) * RUN + TILE_PLACE(tile);
            global float *to = dx + TILE_ROW(tile) * ROW + TILE_PLACE(tile);
            global const int2 *entry = lists + c * WINDOWS;
            floatv tap[TL * TR];
            UNROLL for (int i = 0; i < TL * TR; i++) tap[i] = LOADV_ALIGNED(w + AT_WEIGHT(i));
            for (int left = lengths[c]; left > 0; left--, entry++) {
                floatv value = (floatv)(as_float(entry->x));
                global float *patch = to + entry->y;
                UNROLL for (int i = 0; i < TL * TR; i++) * (global floatv *)(patch + AT(i)) += value * tap[i];
            }
        }
    }
}

/* What of frames is the image without padding; zero where frames end before it. x (x_h, x_w, IN_C). (examples) */
TILE_KERNEL void crop_frames(global const float *frames, global float *x, int x_h, int x_w, int pad_top, int pad_left) {
    size_t image = get_global_id(0);
    frames += image * IMAGE + (pad_top * IN_W + pad_left) * IN_C;
    x += image * x_h * x_w * IN_C;
    int there = min(x_w, IN_W - pad_left) * IN_C, row = x_w * IN_C;
    for (int y = 0; y < x_h; y++, frames += ROW, x += row) {
        int copied = y + pad_top < IN_H ? there : 0;
        for (int i = 0; i < copied; i += VEC) *(global floatv *)(x + i) = LOADV_ALIGNED(frames + i);
        for (int i = copied; i < row; i += VEC) *(global floatv *)(x + i) = 0;
    }
}

#else

/* A tile is TL floats of each of TR rows of taps, by NR vectors of channels. */
#define TILES_ACROSS ((RUN + TL - 1) / TL)
#define AT(i) ((i) / TL * ROW + (i) % TL) /* of row i of a tile in an image */

ALWAYS_INLINE intv load_places(global const uchar *p, global const uchar *end) {
#if COLUMNS % WIDTH != 0
    if (p + VEC > end) {
        int lanes[VEC];
        for (int l = 0; l < VEC; l++) lanes[l] = p + l < end ? p[l] : 0;
        return CLQ_JOIN(vload, VEC)(0, lanes);
    }
#endif
    return CLQ_JOIN(convert_int, VEC)(CLQ_JOIN(vload, VEC)(0, p));
}

ALWAYS_INLINE void store_row(global float *row, int column, floatv value) {
#if COLUMNS % VEC == 0
    if (column < COLUMNS) *(global floatv *)(row + column) = value;
#else
    float lanes[VEC];
    CLQ_JOIN(vstore, VEC)(value, 0, lanes);
    for (int l = 0; l < VEC && column + l < COLUMNS; l++) row[column + l] = lanes[l];
#endif
}

/* sums (SLICES, DEPTH, COLUMNS). (tiles, panels of NR vectors, slices) */
TILE_KERNEL void outer_of_winners(global const float *x, global const float *dz, global const uchar *winner,
                                  global float *sums, int count) {
    int tile = (int)get_global_id(0), column = (int)get_global_id(1) * WIDTH, slice = (int)get_global_id(2);
    int ky = min(tile / TILES_ACROSS * TR, TAPS_H - TR), first = min(tile % TILES_ACROSS * TL, RUN - TL);
    size_t all = (size_t)count * WINDOWS * COLUMNS;
    floatv total[TL * TR][NR], acc[TL * TR][NR];
    UNROLL for (int i = 0; i < TL * TR; i++) UNROLL for (int j = 0; j < NR; j++) total[i][j] = 0;
    FOR_SLICE(image, slice, count) {
        size_t at = (size_t)image * WINDOWS * COLUMNS + column;
        UNROLL for (int i = 0; i < TL * TR; i++) UNROLL for (int j = 0; j < NR; j++) acc[i][j] = 0;
        for (int y = 0; y < POOL_H; y++) {
            global const float *patch = x + image * IMAGE + WINDOW_OFFSET(y, 0) + ky * ROW + first;
            for (int z = 0; z < POOL_W; z++, at += COLUMNS, patch += WINDOW_OFFSET(0, 1)) {
                floatv gradient[NR];
                intv where[NR];
                UNROLL for (int j = 0; j < NR; j++) {
                    gradient[j] = load_until(dz + at + j * VEC, dz + all);
                    where[j] = load_places(winner + at + j * VEC, winner + all);
                }
                UNROLL for (int s = 0; s < PLACES; s++) {
                    floatv won[NR];
                    UNROLL for (int j = 0; j < NR; j++) won[j] = where[j] == s ? gradient[j] : (floatv)0;
                    UNROLL for (int i = 0; i < TL * TR; i++) {
                        floatv a = (floatv)(patch[PLACE_OFFSET(s) + AT(i)]);
                        UNROLL for (int j = 0; j < NR; j++) acc[i][j] += a * won[j];
                    }
                }
            }
        }
        UNROLL for (int i = 0; i < TL * TR; i++) UNROLL for (int j = 0; j < NR; j++) total[i][j] += acc[i][j];
    }
    sums += (size_t)slice * (DEPTH * COLUMNS);
    UNROLL for (int i = 0; i < TL * TR; i++) {
        global float *row = sums + ((ky + i / TL) * RUN + first + i % TL) * COLUMNS;
        UNROLL for (int j = 0; j < NR; j++) store_row(row, column + j * VEC, total[i][j]);
    }
}

#endif
