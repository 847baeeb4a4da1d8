/* Products as register tiles, for devices whose work-items are whole cores with vectors: one work-item makes a tile of
 * MR rows x NR vectors of C, its accumulators in registers, and reads A by single floats and B by vectors, in place.
 *
 *   C (m, n) = sum over k of A (m, k) B (k, n)
 *
 * The program is one of
 *   MATRIX   product_rows:  A (rows, DEPTH) row-major, B (DEPTH, COLUMNS)
 *   PATCHES  product_rows:  A (pixels of the output, DEPTH): patches of an image (IN_H, IN_W, IN_C), read where they
 *                           lie; DEPTH is TAPS_H * TAPS_W * IN_C
 *   OUTER    product_outer: C (TAPS_H * TAPS_W * IN_C, COLUMNS) = patches^T dz, summed over the pixels of all examples;
 *                           a matrix is an image of one pixel
 * B is row-major; or PACKED: panels of NR vectors, [panel][DEPTH][NR * VEC], zero-padded. Long sums are made in blocks
 * (BLOCKED), so that their rounding does not grow with their length. */
#define WIDTH (NR * VEC)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

#ifdef PACKED
#define B_STRIDE WIDTH
#define PANEL_OFFSET(panel) ((size_t)(panel) * DEPTH * WIDTH)
#else
#define B_STRIDE COLUMNS
#define PANEL_OFFSET(panel) ((panel) * WIDTH)
#endif
#if defined(PACKED) || COLUMNS % WIDTH == 0
#define WHOLE_PANELS
#endif

/* Vectors of a row whose length is no multiple of theirs begin anywhere. */
typedef floatv floatv_anywhere __attribute__((aligned(4)));

/* The vector at p, of which nothing at or behind `end` is read; zeros there. */
ALWAYS_INLINE floatv load_until(global const float *p, global const float *end) {
    if (p + VEC <= end) return *(global const floatv_anywhere *)p;
    float lanes[VEC];
    for (int l = 0; l < VEC; l++) lanes[l] = p + l < end ? p[l] : 0.0f;
    return CLQ_JOIN(vload, VEC)(0, lanes);
}

/* NR vectors of a row of B. Where the row ends within a vector, the rest of it comes from the next row and is never
 * stored. */
ALWAYS_INLINE void load_b(floatv out[NR], global const float *b, global const float *end) {
    UNROLL for (int j = 0; j < NR; j++) {
#ifdef WHOLE_PANELS
        out[j] = LOADV_ALIGNED(b + j * VEC);
#else
        out[j] = load_until(b + j * VEC, end);
#endif
    }
}

/* One vector to column `column` of a row; columns behind the last are left out. */
ALWAYS_INLINE void store_c(global float *row, int column, floatv value) {
#if COLUMNS % VEC == 0
    if (column < COLUMNS) STOREV_ALIGNED(value, row + column);
#else
    if (column + VEC <= COLUMNS) {
        *(global floatv_anywhere *)(row + column) = value;
    } else {
        float lanes[VEC];
        CLQ_JOIN(vstore, VEC)(value, 0, lanes);
        for (int l = 0; column + l < COLUMNS; l++) row[column + l] = lanes[l];
    }
#endif
}

/* acc (MR, NR) += the outer product of a column of A and a row of B. A(i) is a name of what row i has. */
#define STEP(acc, A, b, end)                                                                                           \
    do {                                                                                                               \
        floatv b_[NR];                                                                                                 \
        load_b(b_, b, end);                                                                                            \
        UNROLL for (int i = 0; i < MR; i++) {                                                                          \
            floatv a_ = (floatv)(A(i));                                                                                \
            UNROLL for (int j = 0; j < NR; j++) (acc)[i][j] += a_ * b_[j];                                             \
        }                                                                                                              \
    } while (0)

#define CLEAR(acc) UNROLL for (int i = 0; i < MR; i++) UNROLL for (int j = 0; j < NR; j++) (acc)[i][j] = 0

/* The end of a block of a long sum. */
#ifdef BLOCKED
#define FLUSH(total, acc)                                                                                              \
    UNROLL for (int i = 0; i < MR; i++) UNROLL for (int j = 0; j < NR; j++) {                                          \
        (total)[i][j] += (acc)[i][j];                                                                                  \
        (acc)[i][j] = 0;                                                                                               \
    }
#define RESULT(total, acc) total
#else
#define FLUSH(total, acc)
#define RESULT(total, acc) acc
#endif

#ifndef OUTER

ALWAYS_INLINE floatv activate(floatv x) {
#if ACT == 1
    return x <= 0.0f ? (floatv)0 : x; /* NaN stays NaN */
#elif ACT == 2
    return 1.0f / (1.0f + exp(-x));
#elif ACT == 3
    return tanh(x);
#else
    return x;
#endif
}

/* Rows `from` until `until` of a tile to C, where they are `stride` floats apart, with bias and activation. */
ALWAYS_INLINE void finish(floatv acc[MR][NR], int from, int until, int column, global const float *bias,
                          global float *c, size_t stride) {
    floatv offset[NR];
    UNROLL for (int j = 0; j < NR; j++) {
#ifdef BIAS
        offset[j] = load_until(bias + column + j * VEC, bias + COLUMNS);
#else
        offset[j] = 0;
#endif
    }
    UNROLL for (int i = 0; i < MR; i++) {
        if (i < from || i >= until) continue;
        UNROLL for (int j = 0; j < NR; j++) store_c(c + i * stride, column + j * VEC, activate(acc[i][j] + offset[j]));
    }
}
#endif

#ifdef MATRIX

#define A_ROW(i) a[(size_t)(i) * DEPTH + k]

/* (tiles of rows, panels). The last tile begins early enough to be whole, and stores the rows that are its own. With
 * fewer rows than a tile has, it reads on behind them, where the capacity has rows, and makes nothing of it. */
TILE_KERNEL void product_rows(global const float *a, global const float *b, global const float *bias, global float *c,
                              global const float *zeros, int count) {
    int rows = count * ROWS_PER_EXAMPLE, first = (int)get_global_id(0) * MR, start = max(min(first, rows - MR), 0);
    int panel = (int)get_global_id(1), column = panel * WIDTH;
    global const float *end = b + (size_t)DEPTH * COLUMNS;
    b += PANEL_OFFSET(panel);
    a += (size_t)start * DEPTH;
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
    for (int block = 0; block < DEPTH; block += BLOCKED) {
        for (int k = block; k < min(block + BLOCKED, DEPTH); k++) STEP(acc, A_ROW, b + (size_t)k * B_STRIDE, end);
        FLUSH(total, acc)
    }
#else
    for (int k = 0; k < DEPTH; k++) STEP(acc, A_ROW, b + (size_t)k * B_STRIDE, end);
#endif
    finish(RESULT(total, acc), first - start, rows - start, column, bias, c + (size_t)start * COLUMNS, COLUMNS);
}

#elif defined(PATCHES)

/* Output pixel x and tap kx meet at input pixel (x * STEP_W + FIRST_W + kx * TAP_W) / DIVIDE_W, where that divides and
 * lies inside; the same downwards. A tile is MR output pixels of one row, DIVIDE_W apart, so that all of them meet the
 * same taps. */
#define A_NEAR(i) near_[(i) * STEP_W * IN_C]
#define A_FAR(i) far_[i][k]

/* One tap in all channels. x: where the tile's first pixel meets it, not always inside. */
ALWAYS_INLINE void tap(floatv acc[MR][NR], global const float *row, int x, global const float *b,
                       global const float *end, global const float *zeros) {
#ifdef FOLDED /* x is known here when this is compiled: what lies outside costs nothing */
    for (int k = 0; k < IN_C; k++) {
        floatv b_[NR];
        load_b(b_, b + k * B_STRIDE, end);
        UNROLL for (int i = 0; i < MR; i++) {
            if (x + i * STEP_W < 0 || x + i * STEP_W >= IN_W) continue;
            floatv a_ = (floatv)(row[(x + i * STEP_W) * IN_C + k]);
            UNROLL for (int j = 0; j < NR; j++) acc[i][j] += a_ * b_[j];
        }
    }
#else
    if (x >= 0 && x + (MR - 1) * STEP_W < IN_W) {
        global const float *near_ = row + x * IN_C;
        for (int k = 0; k < IN_C; k++, near_++) STEP(acc, A_NEAR, b + k * B_STRIDE, end);
        return;
    }
#ifdef PADDED
    global const float *far_[MR];
    UNROLL for (int i = 0; i < MR; i++)
        far_[i] = x + i * STEP_W >= 0 && x + i * STEP_W < IN_W ? row + (x + i * STEP_W) * IN_C : zeros;
    for (int k = 0; k < IN_C; k++) STEP(acc, A_FAR, b + k * B_STRIDE, end);
#endif
#endif
}

/* (tiles of a row of pixels by rows of pixels, images, panels) */
TILE_KERNEL void product_rows(global const float *a, global const float *b, global const float *bias, global float *c,
                              global const float *zeros, int count) {
    int id = (int)get_global_id(0), image = (int)get_global_id(1), panel = (int)get_global_id(2),
        column = panel * WIDTH;
    int part = id % (TILES * DIVIDE_W), y = id / (TILES * DIVIDE_W), phase = part % DIVIDE_W, tile = part / DIVIDE_W;
    int pixels = (OUT_W - phase + DIVIDE_W - 1) / DIVIDE_W, first = tile * MR; /* of this phase in a row */
    if (first >= pixels) return;
#ifdef FOLDED
    const int start = 0, x0 = 0;
#else
    int start = min(first, pixels - MR), x0 = phase + start * DIVIDE_W;
#endif
    global const float *end = b + (size_t)DEPTH * COLUMNS;
    b += PANEL_OFFSET(panel);
    a += (size_t)image * IN_H * IN_W * IN_C;
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
#endif
    for (int ky = 0; ky < TAPS_H; ky++) {
        int iy = y * STEP_H + FIRST_H + ky * TAP_H;
        if (iy < 0 || iy % DIVIDE_H != 0 || iy / DIVIDE_H >= IN_H) continue;
        global const float *row = a + (size_t)(iy / DIVIDE_H) * IN_W * IN_C,
                           *taps = b + (size_t)ky * TAPS_W * IN_C * B_STRIDE;
#ifdef RUNS /* the taps of a row lie side by side, and all are inside */
        global const float *near_ = row + (x0 * STEP_W + FIRST_W) * IN_C;
#if TAPS_W * IN_C <= 16
        UNROLL
#endif
        for (int k = 0; k < TAPS_W * IN_C; k++, near_++) STEP(acc, A_NEAR, taps + k * B_STRIDE, end);
#else
#ifdef FOLDED
        UNROLL
#endif
        for (int kx = 0; kx < TAPS_W; kx++) {
            int ix = x0 * STEP_W + FIRST_W + kx * TAP_W;
            if (ix % DIVIDE_W == 0) tap(acc, row, ix / DIVIDE_W, taps + kx * IN_C * B_STRIDE, end, zeros);
#if TAPS_W * IN_C > 1024
            FLUSH(total, acc)
#endif
        }
#endif
        FLUSH(total, acc)
    }
    size_t pixel = ((size_t)image * OUT_H + y) * OUT_W + x0;
    finish(RESULT(total, acc), first - start, MR, column, bias, c + pixel * COLUMNS, DIVIDE_W * COLUMNS);
}

#else

/* The rows of C are runs of RUN, whose input floats lie side by side: TAPS_W * IN_C of them where taps do (RUNS), else
 * IN_C. A tile is TL of a run, or several whole runs: MR = TR * TL, one below the other. */
#define TR (MR / TL)
#ifdef RUNS
#define RUN (TAPS_W * IN_C)
#define RUNS_ACROSS 1
#else
#define RUN IN_C
#define RUNS_ACROSS TAPS_W
#endif
#define RUN_TILES ((RUN + TL - 1) / TL)
#define A_PIXEL(i) pixel_[(size_t)((i) / TL) * TAP_H * IN_W * IN_C + (i) % TL]

/* Numbers o of [0, outputs) with 0 <= o * stride + offset < inputs: from and up to here. */
ALWAYS_INLINE int inside_from(int offset, int stride) { return offset < 0 ? (-offset + stride - 1) / stride : 0; }
ALWAYS_INLINE int inside_until(int offset, int stride, int inputs, int outputs) {
    return inputs - offset <= 0 ? 0 : min((inputs - offset + stride - 1) / stride, outputs);
}

/* (tiles of a run by taps by runs, panels, slices). Slice s sums its share of the examples: c
 * (slices, DEPTH, COLUMNS). */
TILE_KERNEL void product_outer(global const float *a, global const float *b, global float *c, int count) {
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
    int share = (count * ROWS_PER_EXAMPLE + SLICES - 1) / SLICES, image = min(slice * share, count * ROWS_PER_EXAMPLE),
        last = min(image + share, count * ROWS_PER_EXAMPLE);
    global const float *end = b + (size_t)count * ROWS_PER_EXAMPLE * OUT_H * OUT_W * COLUMNS;
    floatv acc[MR][NR];
    CLEAR(acc);
#ifdef BLOCKED
    floatv total[MR][NR];
    CLEAR(total);
    int rows_left = BLOCKED;
#endif
    for (; image < last; image++) {
        for (int y = y_from; y < y_end; y++) {
            global const float *pixel_ =
                a + (((size_t)image * IN_H + y * STEP_H + top) * IN_W + x_from * STEP_W + left) * IN_C + start;
            global const float *dz = b + (((size_t)image * OUT_H + y) * OUT_W + x_from) * COLUMNS + column;
            for (int x = x_from; x < x_end; x++, pixel_ += STEP_W * IN_C, dz += COLUMNS) STEP(acc, A_PIXEL, dz, end);
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
        global float *row = c + ((size_t)(run * RUNS_ACROSS + kx) * RUN + place) * COLUMNS;
        UNROLL for (int j = 0; j < NR; j++) store_c(row, column + j * VEC, RESULT(total, acc)[i][j]);
    }
}

#endif
