#include "product_tiles.cl"
/* Products as register tiles, for devices whose work-items are whole cores with vectors. One work-item makes a tile of
 * MR rows x NR vectors of C, with its accumulators in registers. It reads A by single floats and B by vectors, in
 * place.
 *
 *   C (m, n) = sum over k of A (m, k) B (k, n)
 *
 * The program is one of
 *   MATRIX        product_rows:  A (rows, depth) row-major, B (depth, columns); each example has rows_each rows
 *   MATRIX OUTER  product_outer: C (depth, columns) = A^T B, summed over the rows of all examples; with few columns,
 *                                NARROW
 *   PATCHES       product_rows:  A (pixels of the output, DEPTH): patches of an image (IN_H, IN_W, IN_C), read in
 *                                place; DEPTH is TAPS_H * TAPS_W * IN_C
 *   OUTER         product_outer: C (DEPTH, COLUMNS) = patches^T dz, summed over the pixels of all examples
 * ADDS, with OUTER: C = factor * (C + sums over examples), or, if `factor` is 0, C = the sums.
 * If A has 16 bits, the numbers that a tile needs become floats first, by whole vectors, in private memory. */

#ifdef ADDS
/* sums = factor * (a row of C + sums), for a row of a tile. If `factor` is 0, sums stay as they are. */
ALWAYS_INLINE void add_row(floatv sums[NR], global const c_number *row, int column, int columns, float factor) {
    if (factor == 0) return;
    UNROLL for (int j = 0; j < NR; j++) {
#if WHOLE_PANELS
        floatv there = READ_V_ALIGNED(C_STORAGE, row + column + j * VEC);
#else
        floatv there = READ_V_UNTIL(C_STORAGE, row + column + j * VEC, row + columns);
#endif
        sums[j] = factor * (there + sums[j]);
    }
}
#endif

#ifdef MATRIX

#ifndef OUTER

#if A_STORAGE
#define A_TERMS 256 /* terms that become floats at a time */
#define A_ROW(i) own_[(i)*A_TERMS + k - block]
#else
#define A_ROW(i) a[(size_t)(i)*depth + k]
#endif

/* Global size: (tiles of rows, panels). The last tile begins early enough to be whole, and stores only the rows that
 * are its own. If there are fewer rows than a tile has, it also reads the rows after them, which the capacity has, but
 * does not store their results. */
TILE_KERNEL void product_rows(global const a_number *a, global const b_number *b, global const float *bias,
                              global c_number *c, int count, int rows_each, int depth, int columns) {
    int rows = count * rows_each, first = (int)get_global_id(0) * MR, start = max(min(first, rows - MR), 0);
    int panel = (int)get_global_id(1), column = panel * WIDTH;
    global const b_number *end = b + (size_t)depth * columns;
    b += PANEL_OFFSET(panel, depth);
    a += (size_t)start * depth;
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
#endif
#if A_STORAGE
    floatv own[MR * A_TERMS / VEC];
    float *own_ = (float *)own;
    for (int block = 0; block < depth; block += A_TERMS) {
        int block_end = min(block + A_TERMS, depth);
        for (int i = 0; i < MR; i++)
            READ_RUN(A_STORAGE, own_ + i * A_TERMS, a + (size_t)i * depth + block, block_end - block,
                     a + (size_t)MR * depth);
        for (int k = block; k < block_end; k++) STEP(acc, A_ROW, b + (size_t)k * B_STRIDE(columns), end);
        FLUSH(total, acc)
    }
#elif defined(BLOCKED)
    for (int block = 0; block < depth; block += BLOCKED) {
        for (int k = block; k < min(block + BLOCKED, depth); k++)
            STEP(acc, A_ROW, b + (size_t)k * B_STRIDE(columns), end);
        FLUSH(total, acc)
    }
#else
    for (int k = 0; k < depth; k++) STEP(acc, A_ROW, b + (size_t)k * B_STRIDE(columns), end);
#endif
    finish(RESULT(total, acc), first - start, rows - start, column, columns, bias, c + (size_t)start * columns,
           columns);
}

#elif defined(NARROW)

/* An outer product of one slice, with no more columns than a vector has lanes. The arguments are those of any outer
 * product. The lanes of a vector are rows of C, so that none is wasted. The vectors are transposed before they are
 * stored. Global size: (tiles of WIDTH rows). */
TILE_KERNEL void product_outer(global const a_number *a, global const b_number *b, global c_number *c, int count,
                               float factor, int rows_each, int depth, int columns, int slices) {
    int terms = count * rows_each, row = (int)get_global_id(0) * WIDTH;
    global const a_number *end = a + (size_t)terms * depth;
#if B_STORAGE
    global const b_number *b_end = b + (size_t)terms * COLUMNS;
    float b_numbers[VEC];
#else
    global const float *b_numbers;
#endif
    a += row;
    floatv acc[COLUMNS][NR];
    UNROLL for (int i = 0; i < COLUMNS; i++) UNROLL for (int j = 0; j < NR; j++) acc[i][j] = 0;
    for (int k = 0; k < terms; k++, a += depth, b += COLUMNS) {
        floatv a_[NR];
        UNROLL for (int j = 0; j < NR; j++) a_[j] = READ_V_UNTIL(A_STORAGE, a + j * VEC, end);
#if B_STORAGE
        READ_RUN(B_STORAGE, b_numbers, b, COLUMNS, b_end);
#else
        b_numbers = b;
#endif
        UNROLL for (int i = 0; i < COLUMNS; i++) {
            floatv b_ = (floatv)(b_numbers[i]);
            UNROLL for (int j = 0; j < NR; j++) acc[i][j] += a_[j] * b_;
        }
    }
    int floats = min(WIDTH, depth - row) * COLUMNS; /* of this tile; the next store overwrites the lanes after a row */
    c += (size_t)row * COLUMNS;
    UNROLL for (int j = 0; j < NR; j++) {
        floatv square[VEC];
        UNROLL for (int i = 0; i < VEC; i++) square[i] = i < COLUMNS ? acc[i < COLUMNS ? i : 0][j] : (floatv)0;
        floatv_transpose(square);
        UNROLL for (int l = 0; l < VEC; l++) {
            int place = (j * VEC + l) * COLUMNS;
            if (place + VEC <= floats) {
                WRITE_V(C_STORAGE, square[l], c + place);
            } else if (place < floats) {
                float lanes[VEC];
                CLQ_JOIN(vstore, VEC)(square[l], 0, lanes);
                for (int i = 0; i < COLUMNS; i++) WRITE(C_STORAGE, lanes[i], c + place + i);
            }
        }
    }
}

#else

#define A_PLACE(i) numbers[i]

/* Global size: (tiles of MR rows of C, panels, slices). Slice s sums its share of the rows of A: c (slices, depth,
 * columns). */
TILE_KERNEL void product_outer(global const a_number *a, global const b_number *b, global c_number *c, int count,
                               float factor, int rows_each, int depth, int columns, int slices) {
    int first = (int)get_global_id(0) * MR, column = (int)get_global_id(1) * WIDTH, slice = (int)get_global_id(2);
    int terms = count * rows_each, share = (terms + slices - 1) / slices, term = min(slice * share, terms),
        last = min(term + share, terms), start = min(first, depth - MR);
    global const b_number *end = b + (size_t)terms * columns;
    a += (size_t)term * depth + start;
    b += (size_t)term * columns + column;
#if A_STORAGE
    global const a_number *a_end = a + (size_t)(terms - term) * depth - start;
    floatv own[(MR + VEC - 1) / VEC];
#endif
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
    int terms_left = BLOCKED;
#endif
    for (; term < last; term++, a += depth, b += columns) {
#if A_STORAGE
        READ_RUN(A_STORAGE, (float *)own, a, MR, a_end);
        const float *numbers = (const float *)own;
#else
        global const float *numbers = a;
#endif
        STEP(acc, A_PLACE, b, end);
#ifdef BLOCKED
        if (--terms_left == 0) {
            FLUSH(total, acc)
            terms_left = BLOCKED;
        }
#endif
    }
    FLUSH(total, acc)
    c += ((size_t)slice * depth + start) * columns;
    UNROLL for (int i = 0; i < MR; i++, c += columns) {
        if (start + i < first) continue;
#ifdef ADDS
        add_row(RESULT(total, acc)[i], c, column, columns, factor);
#endif
        UNROLL for (int j = 0; j < NR; j++) store_c(c, column + j * VEC, columns, RESULT(total, acc)[i][j]);
    }
}

#endif

#elif defined(PATCHES)

/* Output pixel x and tap kx meet at input pixel (x * STEP_W + FIRST_W + kx * TAP_W) / DIVIDE_W, if that is whole and
 * lies inside; the same downwards. A tile is MR output pixels of one row, DIVIDE_W apart, so that all of them meet the
 * same taps. */
#define A_NEAR(i) near_[(i)*NEAR_STEP * IN_C]
#define A_FAR(i) far_[i][k]

#if A_STORAGE
/* The input pixels of a row that a tile meets, as floats, with zeros for those that lie outside: SPAN pixels from
 * `left` on. If TAPS_W is 1, they are only the pixels that the tap meets. */
#define NEAR_STEP (TAPS_W == 1 ? 1 : STEP_W)
#define REACH ((TAPS_W - 1) * TAP_W) /* offset of the last tap */
#define SPAN ((MR - 1) * NEAR_STEP + (REACH < 0 ? -REACH : REACH) / DIVIDE_W + (DIVIDE_W > 1 ? 2 : 1))
#define ROW_SPACE const float
ALWAYS_INLINE int left_of(int x0) {
    int x = x0 * STEP_W + FIRST_W + (REACH < 0 ? REACH : 0);
    return (x - (x < 0 ? DIVIDE_W - 1 : 0)) / DIVIDE_W;
}
ALWAYS_INLINE void take_pixels(float *to, global const a_number *row, int left, int pixels,
                               global const a_number *end) {
    int from = clamp(-left, 0, pixels), until = clamp(IN_W - left, from, pixels);
    for (int i = 0; i < from * IN_C; i++) to[i] = 0;
    if (until > from) READ_RUN(A_STORAGE, to + from * IN_C, row + (left + from) * IN_C, (until - from) * IN_C, end);
    for (int i = until * IN_C; i < pixels * IN_C; i++) to[i] = 0;
}
ALWAYS_INLINE void take_row(float *to, global const a_number *row, int left, global const a_number *end) {
    if (NEAR_STEP == STEP_W) {
        take_pixels(to, row, left, SPAN, end);
    } else {
        for (int i = 0; i < MR; i++) take_pixels(to + i * IN_C, row, left + i * STEP_W, 1, end);
    }
}
#else
#define NEAR_STEP STEP_W
#define ROW_SPACE global const float
#endif

/* Adds one tap in all channels. x: the input pixel at which the tile's first pixel meets the tap, not always inside.
 * row: begins at pixel `left`. */
ALWAYS_INLINE void tap(floatv acc[MR][NR], ROW_SPACE *row, int left, int x, global const b_number *b,
                       global const b_number *end, global const a_number *zeros) {
#ifdef FOLDED /* x is known at compile time, so taps that lie outside cost nothing */
    for (int k = 0; k < IN_C; k++) {
        floatv b_[NR];
        load_b(b_, b + k * B_STRIDE(COLUMNS), end);
        UNROLL for (int i = 0; i < MR; i++) {
            if (x + i * STEP_W < 0 || x + i * STEP_W >= IN_W) continue;
            floatv a_ = (floatv)(row[(x - left + i * NEAR_STEP) * IN_C + k]);
            UNROLL for (int j = 0; j < NR; j++) acc[i][j] += a_ * b_[j];
        }
    }
#else
    if (A_STORAGE || (x >= 0 && x + (MR - 1) * STEP_W < IN_W)) {
        ROW_SPACE *near_ = row + (x - left) * IN_C;
        for (int k = 0; k < IN_C; k++, near_++) STEP(acc, A_NEAR, b + k * B_STRIDE(COLUMNS), end);
        return;
    }
#if defined(PADDED) && !A_STORAGE
    global const float *far_[MR];
    UNROLL for (int i = 0; i < MR; i++) far_[i] =
        x + i * STEP_W >= 0 && x + i * STEP_W < IN_W ? row + (x + i * STEP_W) * IN_C : zeros;
    for (int k = 0; k < IN_C; k++) STEP(acc, A_FAR, b + k * B_STRIDE(COLUMNS), end);
#endif
#endif
}

/* Global size: (rows of pixels * tiles of a row, images, panels). */
TILE_KERNEL void product_rows(global const a_number *a, global const b_number *b, global const float *bias,
                              global c_number *c, global const a_number *zeros) {
    int id = (int)get_global_id(0), image = (int)get_global_id(1), panel = (int)get_global_id(2),
        column = panel * WIDTH;
    int part = id % (TILES * DIVIDE_W), y = id / (TILES * DIVIDE_W), phase = part % DIVIDE_W, tile = part / DIVIDE_W;
    int pixels = (OUT_W - phase + DIVIDE_W - 1) / DIVIDE_W, first = tile * MR; /* pixels of this phase in a row */
    if (first >= pixels) return;
#ifdef FOLDED
    const int start = 0, x0 = 0;
#else
    int start = min(first, pixels - MR), x0 = phase + start * DIVIDE_W;
#endif
    global const b_number *end = b + (size_t)DEPTH * COLUMNS;
    b += PANEL_OFFSET(panel, DEPTH);
    a += (size_t)image * IN_H * IN_W * IN_C;
#if A_STORAGE
    floatv own[(SPAN * IN_C + 2 * VEC - 1) / VEC];
    const int left = left_of(x0);
#else
    const int left = 0;
#endif
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
#endif
    for (int ky = 0; ky < TAPS_H; ky++) {
        int iy = y * STEP_H + FIRST_H + ky * TAP_H;
        if (iy < 0 || iy % DIVIDE_H != 0 || iy / DIVIDE_H >= IN_H) continue;
        global const b_number *taps = b + (size_t)ky * TAPS_W * IN_C * B_STRIDE(COLUMNS);
#if A_STORAGE
        take_row((float *)own, a + (size_t)(iy / DIVIDE_H) * IN_W * IN_C, left, a + (size_t)IN_H * IN_W * IN_C);
        const float *row = (const float *)own;
#else
        global const float *row = a + (size_t)(iy / DIVIDE_H) * IN_W * IN_C;
#endif
#ifdef RUNS /* the taps of a row lie side by side, and all are inside */
        ROW_SPACE *near_ = row + (x0 * STEP_W + FIRST_W - left) * IN_C;
#if TAPS_W * IN_C <= 16
        UNROLL
#endif
        for (int k = 0; k < TAPS_W * IN_C; k++, near_++) STEP(acc, A_NEAR, taps + k * B_STRIDE(COLUMNS), end);
#else
#ifdef FOLDED
        UNROLL
#endif
        for (int kx = 0; kx < TAPS_W; kx++) {
            int ix = x0 * STEP_W + FIRST_W + kx * TAP_W;
            if (ix % DIVIDE_W == 0)
                tap(acc, row, left, ix / DIVIDE_W, taps + kx * IN_C * B_STRIDE(COLUMNS), end, zeros);
#if TAPS_W * IN_C > 1024
            FLUSH(total, acc)
#endif
        }
#endif
        FLUSH(total, acc)
    }
    size_t pixel = ((size_t)image * OUT_H + y) * OUT_W + x0;
    finish(RESULT(total, acc), first - start, MR, column, COLUMNS, bias, c + pixel * COLUMNS, DIVIDE_W * COLUMNS);
}

#else

/* The rows of C are runs of RUN rows, whose input numbers lie side by side: TAPS_W * IN_C if the taps of a row do
 * (RUNS), else IN_C. A tile is TL rows of a run, or several whole runs, one below the other: MR = TR * TL. */
#define TR (MR / TL)
#ifdef RUNS
#define RUN (TAPS_W * IN_C)
#define RUNS_ACROSS 1
#else
#define RUN IN_C
#define RUNS_ACROSS TAPS_W
#endif
#define RUN_TILES ((RUN + TL - 1) / TL)
#if A_STORAGE
/* PIXELS_MOST: how many pixels become floats at a time, for each row of taps. If they lie close together, they are
 * copied as they lie; else only what a tile needs of each pixel is copied. */
#define PIXELS_MOST (OUT_W < 32 ? OUT_W : 32)
#define RUN_ROOM ((TL + VEC - 1) / VEC * VEC)
#define IS_CLOSE (STEP_W * IN_C <= RUN_ROOM)
#define APART (IS_CLOSE ? STEP_W * IN_C : RUN_ROOM)
#define ROW_ROOM ((PIXELS_MOST * APART + RUN_ROOM + VEC) / VEC * VEC)
#define A_PIXEL(i) pixel_[(i) / TL * ROW_ROOM + (i) % TL]
ALWAYS_INLINE void take_pixels(float *to, global const a_number *from, int pixels, global const a_number *end) {
    for (int r = 0; r < TR; r++, to += ROW_ROOM, from += TAP_H * IN_W * IN_C) {
        if (IS_CLOSE) {
            READ_RUN(A_STORAGE, to, from, (pixels - 1) * APART + TL, end);
        } else {
            for (int i = 0; i < pixels; i++) READ_RUN(A_STORAGE, to + i * APART, from + i * STEP_W * IN_C, TL, end);
        }
    }
}
#else
#define A_PIXEL(i) pixel_[(size_t)((i) / TL) * TAP_H * IN_W * IN_C + (i) % TL]
#endif

/* The numbers o of [0, outputs) with 0 <= o * stride + offset < inputs are inside_from to inside_until - 1. */
ALWAYS_INLINE int inside_from(int offset, int stride) { return offset < 0 ? (-offset + stride - 1) / stride : 0; }
ALWAYS_INLINE int inside_until(int offset, int stride, int inputs, int outputs) {
    return inputs - offset <= 0 ? 0 : min((inputs - offset + stride - 1) / stride, outputs);
}

/* Global size: (tiles of a run * runs across * tiles of rows of taps, panels, slices). Slice s sums its share of the
 * examples: c (slices, DEPTH, COLUMNS). */
TILE_KERNEL void product_outer(global const a_number *a, global const b_number *b, global c_number *c, int count,
                               float factor, int rows_each, int slices) {
    int id = (int)get_global_id(0), column = (int)get_global_id(1) * WIDTH, slice = (int)get_global_id(2);
    int first = id % RUN_TILES * TL, kx = id / RUN_TILES % RUNS_ACROSS, first_ky = id / (RUN_TILES * RUNS_ACROSS) * TR;
    int start = min(first, RUN - TL), ky = min(first_ky, TAPS_H - TR);
    int top = ky * TAP_H + FIRST_H, left = kx * TAP_W + FIRST_W;
    int y_from = inside_from(top, STEP_H), y_end = inside_until(top, STEP_H, IN_H, OUT_H);
#ifdef RUNS
    const int x_from = 0, x_end = OUT_W;
#else
    int x_from = inside_from(left, STEP_W), x_end = inside_until(left, STEP_W, IN_W, OUT_W);
#endif
    int images = count * rows_each, share = (images + slices - 1) / slices, image = min(slice * share, images),
        last = min(image + share, images);
    global const b_number *end = b + (size_t)images * OUT_H * OUT_W * COLUMNS;
#if A_STORAGE
    global const a_number *a_end = a + (size_t)images * IN_H * IN_W * IN_C;
    floatv own[TR * ROW_ROOM / VEC];
#endif
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
    int rows_left = BLOCKED;
#endif
    for (; image < last; image++) {
        for (int y = y_from; y < y_end; y++) {
            global const a_number *from =
                a + (((size_t)image * IN_H + y * STEP_H + top) * IN_W + x_from * STEP_W + left) * IN_C + start;
            global const b_number *dz = b + (((size_t)image * OUT_H + y) * OUT_W + x_from) * COLUMNS + column;
#if A_STORAGE
            for (int x = x_from; x < x_end; x += PIXELS_MOST, from += PIXELS_MOST * STEP_W * IN_C) {
                int pixels = min(x_end - x, PIXELS_MOST);
                take_pixels((float *)own, from, pixels, a_end);
                const float *pixel_ = (const float *)own;
                for (int i = 0; i < pixels; i++, pixel_ += APART, dz += COLUMNS) STEP(acc, A_PIXEL, dz, end);
            }
#else
            global const float *pixel_ = from;
            for (int x = x_from; x < x_end; x++, pixel_ += STEP_W * IN_C, dz += COLUMNS) STEP(acc, A_PIXEL, dz, end);
#endif
#ifdef BLOCKED
            if (--rows_left == 0) {
                FLUSH(total, acc)
                rows_left = BLOCKED;
            }
#endif
        }
    }
    FLUSH(total, acc)
    c += (size_t)slice * TAPS_H * TAPS_W * IN_C * COLUMNS;
    UNROLL for (int i = 0; i < MR; i++) {
        int run = ky + i / TL, place = start + i % TL;
        if (run < first_ky || place < first) continue;
        global c_number *row = c + ((size_t)(run * RUNS_ACROSS + kx) * RUN + place) * COLUMNS;
#ifdef ADDS
        add_row(RESULT(total, acc)[i], row, column, COLUMNS, factor);
#endif
        UNROLL for (int j = 0; j < NR; j++) store_c(row, column + j * VEC, COLUMNS, RESULT(total, acc)[i][j]);
    }
}

#endif
