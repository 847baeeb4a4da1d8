#include "winograd_2x2.cl"
#include "winograd_4x4.cl"
#include "winograd_strided.cl"
#include "winograd_weights.cl"

/* 3x3 convolutions with a STRIDE of 1 or 2 by Winograd's products, in tiles of SIDE x SIDE outputs, for devices whose
 * work-items are whole cores with vectors. SPREAD: the gradient by the input of a convolution with a stride of 2. A
 * work-item makes BLOCK tiles, from transform to output, in private memory, which stays in its core's cache. Through
 * global memory, transforms would cost more than they save.
 *
 * A work-item makes one column of the products at a time, for GROUP channels of the output. So the cache has room for
 * more tiles of a block, and the weights are read less often. The rows of a column come by pairs of opposite points,
 * whose sums and differences make the outputs. The last pair, 0 and infinity, is added to the first and the last output
 * while it is summed over the channels. With strides of 2, infinity comes alone, beside lines that are rows of the
 * outputs. The columns are added up as they come.
 *
 * The input is (IN_H, IN_W, IN_C), the output (OUT_H, OUT_W, COLUMNS). The channels of both are whole vectors. COLUMNS
 * is a multiple of GROUP, and GROUP of NR vectors. POOLED: a tile is a window whose maximum is kept, in (TILES_H,
 * TILES_W, COLUMNS); else tiles may reach beyond the output. Tiles are STEP_H and STEP_W apart, and the first one
 * begins FIRST_H and FIRST_W before the output. In the input, they are IN_STEP of that apart. Input, weights and output
 * are stored as A_STORAGE, B_STORAGE and C_STORAGE (prelude.cl). Transforms are in floats. */
#define TILES (TILES_H * TILES_W)
#ifdef SPREAD
#define IN_STEP(step) ((step) / 2)
#else
#define IN_STEP(step) ((step)*STRIDE)
#endif

#ifdef WEIGHTS

/* Global size: (vectors of IN_C, vectors of COLUMNS). */
TILE_KERNEL void winograd_tile_weights(global const STORED(B_STORAGE) * w, global float *to) {
    transform_weights(w, to, (int)get_global_id(0) * VEC, (int)get_global_id(1) * VEC);
}

#else

/* PAIRS: pairs of opposite points. If there are lines that belong to no points, they come after the points. */
#if LINES > POINTS
#define PAIRS 2
#else
#define PAIRS (POINTS / 2)
#endif

#ifdef SPREAD
#define ROWS 4 /* rows of the outputs that are made of points */
/* Makes the other rows of the outputs of MR tiles in column j of the products, from the lines after that of infinity,
 * v. */
ALWAYS_INLINE void add_single_rows(const float *v, global const float *u, int j, floatv *y) {
    for (int line = 0; line < 4; line += 2) {
        floatv acc[2][MR][NR];
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
            acc[h][i][n] = 0;
        for (int k = 0; k < IN_C; k++) {
            floatv middle[NR];
            UNROLL for (int n = 0; n < NR; n++) middle[n] = LOADV_ALIGNED(u + (k * 2 + 1) * WIDTH + n * VEC);
            UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < MR; i++) {
                floatv a = (floatv)(v[((line + h + 1) * BLOCK + i) * IN_C + k]);
                UNROLL for (int n = 0; n < NR; n++) acc[h][i][n] += a * middle[n];
            }
        }
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
            add_across(j, acc[h][i][n], y + (i * SIDE + 2 * (line + h) + 1) * SIDE * NR + n);
    }
}
#else
#define ROWS SIDE
#endif

#ifdef SPREAD
/* Adds the line of infinity, v, to the last of the points' rows. */
ALWAYS_INLINE void add_lines(const float *v, global const float *u, floatv (*acc)[MR][NR], floatv (*kept)[NR][2]) {
    for (int k = 0; k < IN_C; k++) {
        floatv last[NR];
        UNROLL for (int n = 0; n < NR; n++) last[n] = LOADV_ALIGNED(u + k * 2 * WIDTH + n * VEC);
        UNROLL for (int i = 0; i < MR; i++) {
            floatv a = (floatv)(v[i * IN_C + k]);
            UNROLL for (int n = 0; n < NR; n++) acc[1][i][n] += a * last[n];
        }
    }
}
#endif

#if STRIDE == 2
/* Adds the line of infinity, v, to the last row, and each line of odd inputs after it to a row. */
ALWAYS_INLINE void add_lines(const float *v, global const float *u, floatv (*acc)[MR][NR], floatv (*kept)[NR][2]) {
    for (int k = 0; k < IN_C; k++) {
        floatv last[NR], middle[NR];
        UNROLL for (int n = 0; n < NR; n++) {
            last[n] = LOADV_ALIGNED(u + k * 2 * WIDTH + n * VEC);
            middle[n] = LOADV_ALIGNED(u + (k * 2 + 1) * WIDTH + n * VEC);
        }
        UNROLL for (int i = 0; i < MR; i++) {
            const float *at = v + i * IN_C + k;
            floatv first = (floatv)(at[BLOCK * IN_C]), end = (floatv)(at[4 * BLOCK * IN_C]), beyond = (floatv)(at[0]);
            UNROLL for (int n = 0; n < NR; n++) {
                acc[0][i][n] += first * middle[n];
                acc[1][i][n] += end * middle[n];
                acc[1][i][n] += beyond * last[n];
            }
        }
    }
    for (int k = 0; k < IN_C; k++) {
        floatv middle[NR];
        UNROLL for (int n = 0; n < NR; n++) middle[n] = LOADV_ALIGNED(u + (k * 2 + 1) * WIDTH + n * VEC);
        UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < MR; i++) {
            floatv a = (floatv)(v[((h + 2) * BLOCK + i) * IN_C + k]);
            UNROLL for (int n = 0; n < NR; n++) kept[i][n][h] += a * middle[n];
        }
    }
}
#endif

/* Makes the sums of MR tiles in column j of the products, from their transformed inputs v and a column of weights. The
 * sums are added up downwards, then added across to y, by tiles of (SIDE, SIDE, NR). */
ALWAYS_INLINE void multiply(const float *v, global const float *u, int j, floatv *y) {
    floatv acc[2][MR][NR], kept[MR][NR][2];
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
        acc[h][i][n] = 0;
    for (int pair = 0; pair < PAIRS; pair++, v += 2 * BLOCK * IN_C) {
        for (int k = 0; k < IN_C; k++, u += 2 * WIDTH) {
            UNROLL for (int h = 0; h < 2; h++) {
                floatv b[NR];
                UNROLL for (int n = 0; n < NR; n++) b[n] = LOADV_ALIGNED(u + h * WIDTH + n * VEC);
                UNROLL for (int i = 0; i < MR; i++) {
                    floatv a = (floatv)(v[(h * BLOCK + i) * IN_C + k]);
                    UNROLL for (int n = 0; n < NR; n++) acc[h][i][n] += a * b[n];
                }
            }
        }
        if (pair == POINTS / 2 - 1) continue; /* the last pair is added as it is summed */
        UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
            join_pair(pair, &acc[0][i][n], &acc[1][i][n], kept[i][n]);
    }
#if LINES > POINTS
    add_lines(v, u, acc, kept);
#endif
    UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++) UNROLL for (int r = 0; r < ROWS; r++)
        add_across(j, row_of(r, acc[0][i][n], acc[1][i][n], kept[i][n]),
                   y + (i * SIDE + r * SIDE / ROWS) * SIDE * NR + n);
#ifdef SPREAD
    add_single_rows(v, u, j, y);
#endif
}

/* Stores the outputs of a tile in a vector of channels. y: (SIDE, SIDE, NR). */
ALWAYS_INLINE void finish(const floatv *y, int tile, int channel, int tiles, global const float *bias,
#ifdef POOLED
                          global uchar *winner,
#endif
                          global STORED(C_STORAGE) * to) {
    floatv out[SIDE * SIDE], offset = 0;
#ifdef BIAS
    offset = LOADV_ALIGNED(bias + channel);
#endif
    UNROLL for (int s = 0; s < SIDE * SIDE; s++) out[s] = y[s * NR] + offset;
#ifdef POOLED
    size_t at = (size_t)tile * COLUMNS + channel;
    intv which = 0;
    floatv best = best_of(out, SIDE * SIDE, tiles >> 31, &which);
    WRITE_V_ALIGNED(C_STORAGE, best, to + at);
#ifdef KEEP
    *(global ucharv *)(winner + at) = CLQ_JOIN(convert_uchar, VEC)(which);
#endif
#else
    int image = tile / TILES, top = tile % TILES / TILES_W * STEP_H - FIRST_H, left = tile % TILES_W * STEP_W - FIRST_W;
    to += ((ptrdiff_t)(image * OUT_H + top) * OUT_W + left) * COLUMNS + channel;
    UNROLL for (int s = 0; s < SIDE * SIDE; s++) {
        bool there = top + s / SIDE < OUT_H && left + s % SIDE < OUT_W;
        if (FIRST_H) there = there && top + s / SIDE >= 0;
        if (FIRST_W) there = there && left + s % SIDE >= 0;
        if (there) WRITE_V_ALIGNED(C_STORAGE, ACTIVATE(floatv, out[s]), to + (s / SIDE * OUT_W + s % SIDE) * COLUMNS);
    }
#endif
}

/* Global size: (blocks of BLOCK tiles). */
TILE_KERNEL void winograd_tile(global const STORED(A_STORAGE) * x, global const float *u, global const float *bias,
                               global STORED(C_STORAGE) * to,
#ifdef POOLED
                               global uchar *winner,
#endif
                               int count) {
    int tiles = count * TILES, first = (int)get_global_id(0) * BLOCK, there = min(tiles - first, BLOCK);
    floatv v[AT_ONCE * LINES * BLOCK * IN_C / VEC], y[BLOCK * SIDE * SIDE * GROUP / VEC];
    for (int group = 0; group < COLUMNS; group += GROUP) {
        for (int j = 0; j < LINES; j++) {
            for (int i = 0; i < (there + MR - 1) / MR * MR && j % AT_ONCE == 0; i++) {
                int tile = min(first + i, tiles - 1), image = tile / TILES, place = tile % TILES;
                winograd_input(x + (size_t)image * (IN_H * IN_W * IN_C), place / TILES_W * IN_STEP(STEP_H) - PAD_TOP,
                               place % TILES_W * IN_STEP(STEP_W) - PAD_LEFT, j, (float *)v + i * IN_C);
            }
            for (int part = 0; part < GROUP / WIDTH; part++) {
                global const float *panel =
                    u + ((size_t)(group / WIDTH + part) * POINTS + TAPS_OF(j)) * (POINTS * IN_C * WIDTH);
                for (int i = 0; i < there; i += MR)
                    multiply((const float *)v + (j % AT_ONCE * LINES * BLOCK + i) * IN_C, panel, j,
                             y + (part * BLOCK + i) * SIDE * SIDE * NR);
            }
        }
        for (int i = 0; i < there; i++) {
            for (int part = 0; part < GROUP / WIDTH; part++)
                UNROLL for (int n = 0; n < NR; n++) finish(y + (part * BLOCK + i) * SIDE * SIDE * NR + n, first + i,
                                                           group + part * WIDTH + n * VEC, tiles, bias,
#ifdef POOLED
                                                           winner,
#endif
                                                           to);
        }
    }
}

#endif
