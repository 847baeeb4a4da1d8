/* A convolution, its activation and max pooling in one kernel, for devices whose work-items are whole cores with
 * vectors. The windows of the pooling do not overlap. Only the largest output of each window is kept, and its place in
 * the window. So the gradients of all other outputs are zero. No window reaches beyond the output, and no tap beyond
 * the input (IN_H, IN_W, IN_C). The program is one of
 *
 * - FORWARD;
 * - LISTS: gradients by lists of the nonzero ones, for inputs whose channels are whole vectors;
 * - WINNERS: the gradient of the weights as an outer product over windows.
 *
 * Numbers are stored (prelude.cl) as X_STORAGE in the input, Y_STORAGE in the result, DZ_STORAGE in the gradient of the
 * result, and DX_STORAGE in that of the input. Sums are floats. An input of 16 bits becomes floats by whole vectors, in
 * private memory. */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;
typedef STORED(DZ_STORAGE) dz_number;
typedef STORED(DX_STORAGE) dx_number;
#define PLACES (SIZE_H * SIZE_W)
#define RUN (TAPS_W * IN_C) /* neighbouring input numbers that meet a row of taps */
#define ROW (IN_W * IN_C)
#define IMAGE ((size_t)IN_H * ROW)
#define WINDOWS (POOL_H * POOL_W)
#define WIDTH (NR * VEC)

/* Offsets of the input numbers that the first tap meets: that of a place in its window, and that of window (y, x). */
#define PLACE_OFFSET(place) ((place) / SIZE_W * (STEP_H * ROW) + (place) % SIZE_W * (STEP_W * IN_C))
#define WINDOW_OFFSET(y, x) ((y) * (STRIDE_H * STEP_H * ROW) + (x) * (STRIDE_W * STEP_W * IN_C))

/* Loops over the examples that slice `slice` of SLICES sums up. */
#define FOR_SLICE(image, slice, count)                                                                                 \
    for (int share_ = ((count) + SLICES - 1) / SLICES, image = min((slice)*share_, count),                             \
             last_ = min(image + share_, count);                                                                       \
         image < last_; image++)

#ifndef LISTS

/* The vector at p. Nothing at or after `end` is read; those lanes are 0. If the length of rows is no multiple of VEC,
 * their vectors begin anywhere. */
#define LOAD_UNTIL(name, S)                                                                                            \
    ALWAYS_INLINE floatv name(global const STORED(S) * p, global const STORED(S) * end) {                              \
        if (COLUMNS % WIDTH != 0 && p + VEC > end) {                                                                   \
            float lanes[VEC];                                                                                          \
            for (int l = 0; l < VEC; l++) lanes[l] = p + l < end ? READ(S, p + l) : 0.0f;                              \
            return CLQ_JOIN(vload, VEC)(0, lanes);                                                                     \
        }                                                                                                              \
        if (COLUMNS % VEC == 0) return READ_V_ALIGNED(S, p);                                                           \
        return READ_V(S, p);                                                                                           \
    }

/* The patch of a window's input that a tile meets, from the tile's first number on. A patch of 16 bits becomes floats,
 * in rows of NEAR_ROW. */
#ifdef FORWARD
#define PATCH_ROWS ((SIZE_H - 1) * STEP_H + TAPS_H)
#define PATCH_WIDTH ((SIZE_W - 1) * STEP_W * IN_C + RUN)
#else
#define PATCH_ROWS ((SIZE_H - 1) * STEP_H + TR)
#define PATCH_WIDTH ((SIZE_W - 1) * STEP_W * IN_C + TL)
#endif
#if X_STORAGE
#define NEAR const float
#define NEAR_ROW ((PATCH_WIDTH + VEC - 1) / VEC * VEC)
ALWAYS_INLINE void take_patch(float *to, global const x_number *from, global const x_number *end) {
    for (int r = 0; r < PATCH_ROWS; r++) READ_RUN(X_STORAGE, to + r * NEAR_ROW, from + r * ROW, PATCH_WIDTH, end);
}
#else
#define NEAR global const float
#define NEAR_ROW ROW
#endif
#define NEAR_OFFSET(place) ((place) / SIZE_W * (STEP_H * NEAR_ROW) + (place) % SIZE_W * (STEP_W * IN_C))

#endif

#ifdef FORWARD

LOAD_UNTIL(load_until, 0)

#ifdef STAY /* all weights stay in registers, for all windows */
#define UNROLL_TAPS UNROLL
#else
#define UNROLL_TAPS
#endif
#ifdef BLOCKED
#define RESULT total
#else
#define RESULT acc
#endif

/* Stores one window's maximum in one vector of channels. */
ALWAYS_INLINE void store_window(const floatv *values, int column, global y_number *y, global uchar *winner, int none) {
    intv where;
    floatv best = best_of(values, PLACES, none, &where);
#if COLUMNS % VEC == 0
    if (column >= COLUMNS) return;
    WRITE_V_ALIGNED(Y_STORAGE, best, y + column);
#ifdef KEEP
    *(global ucharv *)(winner + column) = CLQ_JOIN(convert_uchar, VEC)(where);
#endif
#else
    float lanes[VEC];
    int places[VEC];
    CLQ_JOIN(vstore, VEC)(best, 0, lanes);
    CLQ_JOIN(vstore, VEC)(where, 0, places);
    for (int l = 0; l < VEC && column + l < COLUMNS; l++) {
        WRITE(Y_STORAGE, lanes[l], y + column + l);
#ifdef KEEP
        winner[column + l] = (uchar)places[l];
#endif
    }
#endif
}

/* Makes WT windows from `first` on, in NR vectors of channels from `column` on. Windows after the last one repeat the
 * last, and are not stored. */
ALWAYS_INLINE void make_tile(int first, int windows, int column, global const x_number *x, global const float *w,
                             global const float *bias, global y_number *y, global uchar *winner) {
    NEAR *near_[WT];
    global const float *end = w + DEPTH * COLUMNS;
#if X_STORAGE
    floatv own[WT * PATCH_ROWS * NEAR_ROW / VEC];
#endif
    UNROLL for (int t = 0; t < WT; t++) {
        int window = min(first + t, windows - 1), image = window / WINDOWS, place = window % WINDOWS;
        global const x_number *from = x + image * IMAGE + WINDOW_OFFSET(place / POOL_W, place % POOL_W);
#if X_STORAGE
        float *to = (float *)own + t * (PATCH_ROWS * NEAR_ROW);
        take_patch(to, from, x + windows / WINDOWS * IMAGE);
        near_[t] = to;
#else
        near_[t] = from;
#endif
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
                    floatv a_ = (floatv)(near_[t][ky * NEAR_ROW + k + NEAR_OFFSET(s)]);
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
        UNROLL for (int j = 0; j < NR; j++) {
            /* The values are copied side by side: from a pointer into the rows of sums, Rusticl (Mesa 25.0) makes
             * NaN. */
            floatv values[PLACES];
            UNROLL for (int s = 0; s < PLACES; s++) values[s] = RESULT[t * PLACES + s][j];
            store_window(values, column + j * VEC, y + row, winner + row, windows >> 31);
        }
    }
}

/* Global size: (runs of TILES tiles, panels of NR vectors of channels). */
TILE_KERNEL void conv_pool_forward(global const x_number *x, global const float *w, global const float *bias,
                                   global y_number *y, global uchar *winner, int count) {
    int windows = count * WINDOWS, first = (int)get_global_id(0) * (WT * TILES), column = (int)get_global_id(1) * WIDTH;
    for (int end = min(first + WT * TILES, windows); first < end; first += WT)
        make_tile(first, windows, column, x, w, bias, y, winner);
}

#elif defined(LISTS)

/* ---- lists of nonzero gradients ----
 * For each example and channel, `lengths` has the number of nonzero gradients, and `lists` has an entry for each. An
 * entry is the value, and the offset at which the input patch that it met begins, in numbers from the image's first.
 * SHORT: the value is as it was stored, and the offset counts pixels; both have 16 bits. */

#ifdef SHORT
typedef ushort2 entry;
typedef ushort length_of_list;
#define ENTRY(dz, offset) (ushort2)(*(dz), (offset) / IN_C)
#define VALUE(entry) READ(DZ_STORAGE, (global const dz_number *)(entry))
#define OFFSET(entry) ((entry)->y * IN_C)
#else
typedef int2 entry;
typedef int length_of_list;
#define ENTRY(dz, offset) (int2)(as_int(READ(DZ_STORAGE, dz)), offset)
#define VALUE(entry) as_float((entry)->x)
#define OFFSET(entry) (entry)->y
#endif
#if DZ_STORAGE
#define IS_ZERO(dz) ((*(dz)&0x7fff) == 0)
#else
#define IS_ZERO(dz) (*(dz) == 0.0f)
#endif

/* Global size: (examples). Every gradient is written, and a nonzero one is kept by advancing the length: so there is no
 * branch that depends on the values. */
TILE_KERNEL void list_gradients(global const dz_number *dz, global const uchar *winner, global entry *lists,
                                global length_of_list *lengths) {
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
                lists[length] = ENTRY(dz + window, WINDOW_OFFSET(y, x) + PLACE_OFFSET(winner[window]));
                length += !IS_ZERO(dz + window);
            }
        }
        lengths[image * COLUMNS + c] = length;
    }
}

/* A tile is TL vectors of each of TR rows of taps. */
#define TILES_ACROSS ((RUN / VEC + TL - 1) / TL)
#define TILE_ROW(tile) min((tile) / TILES_ACROSS * TR, TAPS_H - TR)
#define TILE_PLACE(tile) (min((tile) % TILES_ACROSS * TL, RUN / VEC - TL) * VEC)
#define AT(i) ((i) / TL * ROW + (i) % TL * VEC)        /* offset of vector i of a tile in an image */
#define AT_WEIGHT(i) ((i) / TL * RUN + (i) % TL * VEC) /* offset of vector i among the weights of an output channel */

/* An image of 16 bits becomes floats in private memory, if that has room for it (OWN_IMAGE). */
#if X_STORAGE && defined(OWN_IMAGE)
#define LOAD_X(p) (*(const floatv *)(p))
typedef const float image_number;
#else
#define LOAD_X(p) READ_V_ALIGNED(X_STORAGE, p)
typedef global const x_number image_number;
#endif

/* sums (SLICES, COLUMNS, DEPTH). Global size: (tiles, blocks of BLOCK channels, slices). */
TILE_KERNEL void sum_weights(global const x_number *x, global const entry *lists, global const length_of_list *lengths,
                             global float *sums, int count) {
    int tile = (int)get_global_id(0), c_first = (int)get_global_id(1) * BLOCK, slice = (int)get_global_id(2);
    int c_end = min(c_first + BLOCK, COLUMNS);
#if X_STORAGE && defined(OWN_IMAGE)
    floatv own[IMAGE / VEC];
#endif
    sums += (size_t)slice * (COLUMNS * DEPTH) + TILE_ROW(tile) * RUN + TILE_PLACE(tile);
    for (int c = c_first; c < c_end; c++)
        UNROLL for (int i = 0; i < TL * TR; i++) * (global floatv *)(sums + c * DEPTH + AT_WEIGHT(i)) = 0;
    FOR_SLICE(image, slice, count) {
#if X_STORAGE && defined(OWN_IMAGE)
        for (int i = 0; i < IMAGE / VEC; i++) own[i] = READ_V_ALIGNED(X_STORAGE, x + image * IMAGE + i * VEC);
        image_number *from = (const float *)own + TILE_ROW(tile) * ROW + TILE_PLACE(tile);
#else
        image_number *from = x + image * IMAGE + TILE_ROW(tile) * ROW + TILE_PLACE(tile);
#endif
        for (int c = c_first; c < c_end; c++) {
            size_t list = (size_t)image * COLUMNS + c;
            global const entry *at = lists + list * WINDOWS;
            floatv acc[TL * TR];
            UNROLL for (int i = 0; i < TL * TR; i++) acc[i] = 0;
            for (int left = lengths[list]; left > 0; left--, at++) {
                floatv value = (floatv)(VALUE(at));
                image_number *patch = from + OFFSET(at);
                UNROLL for (int i = 0; i < TL * TR; i++) acc[i] += value * LOAD_X(patch + AT(i));
            }
            UNROLL for (int i = 0; i < TL * TR; i++) {
                global floatv *sum = (global floatv *)(sums + c * DEPTH + AT_WEIGHT(i));
                *sum += acc[i];
            }
        }
    }
}

/* dw (DEPTH, COLUMNS) = the sum of the slices, in order. Global size: (rows of dw). */
TILE_KERNEL void fold_weights(global const float *sums, global float *dw) {
    size_t row = get_global_id(0);
    for (int c = 0; c < COLUMNS; c++) {
        float sum = sums[c * DEPTH + row];
        for (int s = 1; s < SLICES; s++) sum += sums[((size_t)s * COLUMNS + c) * DEPTH + row];
        dw[row * COLUMNS + c] = sum;
    }
}

/* weights (COLUMNS, DEPTH). dx is (IN_H, IN_W, IN_C) in floats. OWN_DX: dx has 16 bits, and is (X_H, X_W, IN_C),
 * without padding; its sums are made in private memory. Global size: (examples). */
#ifdef OWN_DX
typedef float sum_number;
typedef floatv sum_vector;
typedef dx_number spread_number;
#else
typedef global float sum_number;
typedef global floatv sum_vector;
typedef float spread_number;
#endif
TILE_KERNEL void spread_gradients(global const float *weights, global const entry *lists,
                                  global const length_of_list *lengths, global spread_number *dx) {
    size_t image = get_global_id(0);
#ifdef OWN_DX
    floatv own[IMAGE / VEC];
    float *sums = (float *)own;
#else
    global float *sums = dx + image * IMAGE;
#endif
    lists += image * (WINDOWS * COLUMNS);
    lengths += image * COLUMNS;
    for (int i = 0; i < IMAGE; i += VEC) *(sum_vector *)(sums + i) = 0;
    for (int c = 0; c < COLUMNS; c++) {
        for (int tile = 0; tile < TILES; tile++) {
            global const float *w = weights + c * DEPTH + TILE_ROW(tile) * RUN + TILE_PLACE(tile);
            sum_number *to = sums + TILE_ROW(tile) * ROW + TILE_PLACE(tile);
            global const entry *at = lists + c * WINDOWS;
            floatv tap[TL * TR];
            UNROLL for (int i = 0; i < TL * TR; i++) tap[i] = LOADV_ALIGNED(w + AT_WEIGHT(i));
            for (int left = lengths[c]; left > 0; left--, at++) {
                floatv value = (floatv)(VALUE(at));
                sum_number *patch = to + OFFSET(at);
                UNROLL for (int i = 0; i < TL * TR; i++) * (sum_vector *)(patch + AT(i)) += value * tap[i];
            }
        }
    }
#ifdef OWN_DX
    dx += image * (X_H * X_W * IN_C);
    for (int y = 0; y < X_H; y++) {
        for (int i = 0; i < X_W * IN_C; i += VEC, dx += VEC) {
            bool there = y + PAD_TOP < IN_H && i + PAD_LEFT * IN_C < ROW;
            floatv sum = 0;
            if (there) sum = own[((y + PAD_TOP) * ROW + PAD_LEFT * IN_C + i) / VEC];
            WRITE_V_ALIGNED(DX_STORAGE, sum, dx);
        }
    }
#endif
}

/* x (x_h, x_w, IN_C) = the frames without their padding; 0 for pixels beyond the frame. Global size: (examples). */
TILE_KERNEL void crop_frames(global const float *frames, global dx_number *x, int x_h, int x_w, int pad_top,
                             int pad_left) {
    size_t image = get_global_id(0);
    frames += image * IMAGE + (pad_top * IN_W + pad_left) * IN_C;
    x += image * x_h * x_w * IN_C;
    int there = min(x_w, IN_W - pad_left) * IN_C, row = x_w * IN_C;
    for (int y = 0; y < x_h; y++, frames += ROW, x += row) {
        int copied = y + pad_top < IN_H ? there : 0;
        for (int i = 0; i < copied; i += VEC) WRITE_V_ALIGNED(DX_STORAGE, LOADV_ALIGNED(frames + i), x + i);
        for (int i = copied; i < row; i += VEC) WRITE_V_ALIGNED(DX_STORAGE, (floatv)0, x + i);
    }
}

#else

/* A tile is TL floats of each of TR rows of taps, by NR vectors of channels. */
#define TILES_ACROSS ((RUN + TL - 1) / TL)
#define AT(i) ((i) / TL * NEAR_ROW + (i) % TL) /* offset of row i of a tile in its patch */

LOAD_UNTIL(load_until, DZ_STORAGE)

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

/* sums (SLICES, DEPTH, COLUMNS). Global size: (tiles, panels of NR vectors, slices). */
TILE_KERNEL void outer_of_winners(global const x_number *x, global const dz_number *dz, global const uchar *winner,
                                  global float *sums, int count) {
    int tile = (int)get_global_id(0), column = (int)get_global_id(1) * WIDTH, slice = (int)get_global_id(2);
    int ky = min(tile / TILES_ACROSS * TR, TAPS_H - TR), first = min(tile % TILES_ACROSS * TL, RUN - TL);
    size_t all = (size_t)count * WINDOWS * COLUMNS;
#if X_STORAGE
    floatv own[PATCH_ROWS * NEAR_ROW / VEC];
#endif
    floatv total[TL * TR][NR], acc[TL * TR][NR];
    UNROLL for (int i = 0; i < TL * TR; i++) UNROLL for (int j = 0; j < NR; j++) total[i][j] = 0;
    FOR_SLICE(image, slice, count) {
        size_t at = (size_t)image * WINDOWS * COLUMNS + column;
        UNROLL for (int i = 0; i < TL * TR; i++) UNROLL for (int j = 0; j < NR; j++) acc[i][j] = 0;
        for (int y = 0; y < POOL_H; y++) {
            global const x_number *from = x + image * IMAGE + WINDOW_OFFSET(y, 0) + ky * ROW + first;
            for (int z = 0; z < POOL_W; z++, at += COLUMNS, from += WINDOW_OFFSET(0, 1)) {
#if X_STORAGE
                take_patch((float *)own, from, x + count * IMAGE);
                const float *patch = (const float *)own;
#else
                global const float *patch = from;
#endif
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
                        floatv a = (floatv)(patch[NEAR_OFFSET(s) + AT(i)]);
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
