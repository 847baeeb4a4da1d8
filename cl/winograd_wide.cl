#include "winograd_4x4.cl"
#include "winograd_weights.cl"

/* Convolutions of 3x3 taps one pixel apart by Winograd's F(4x4, 3x3), for devices whose work-items are whole cores with
 * vectors. As in winograd_tile.cl, a work-item makes BLOCK tiles from transform to output in memory of its own, by one
 * column of the products after the other, for GROUP channels of the output. A column's rows come by pairs: 1 and 2, 3
 * and 4, whose sums and differences make the outputs, then 0 and 5, which are added to the first and the last output
 * while they are summed over the channels.
 *
 * Input (IN_H, IN_W, IN_C), output (OUT_H, OUT_W, COLUMNS); channels of both are whole vectors, COLUMNS is a multiple
 * of NR of them; GROUP divides COLUMNS and is a multiple of NR vectors. The last tiles may reach beyond the output.
 * Input, weights and output have numbers of A_STORAGE, B_STORAGE and C_STORAGE (prelude.cl); what is transformed are
 * floats. */
#define TILES (TILES_H * TILES_W)

#ifdef WEIGHTS

/* (vectors of IN_C, vectors of COLUMNS) */
TILE_KERNEL void winograd_wide_weights(global const STORED(B_STORAGE) * w, global float *to) {
    transform_weights(w, to, (int)get_global_id(0) * VEC, (int)get_global_id(1) * VEC);
}

#else

/* MR tiles' sums in column j of the products, added up downwards, from their inputs v, transformed, and a column of
 * weights; then added across to y, by tiles of (4, 4, NR). */
ALWAYS_INLINE void multiply(const float *v, global const float *u, int j, floatv *y) {
    floatv acc[2][MR][NR], kept[2][MR][NR];
    UNROLL for (int h = 0; h < 2; h++) UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++)
        acc[h][i][n] = 0;
    for (int pair = 0; pair < 3; pair++, v += 2 * BLOCK * IN_C) {
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
        if (pair == 2) continue;
        UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++) {
            floatv sum = acc[0][i][n] + acc[1][i][n], difference = acc[0][i][n] - acc[1][i][n];
            if (pair == 0) {
                kept[0][i][n] = sum;
                kept[1][i][n] = NEAR * difference;
                acc[0][i][n] = acc[1][i][n] = 0;
            } else {
                acc[0][i][n] = kept[0][i][n] + sum;
                acc[1][i][n] = NEAR_2 * kept[1][i][n] + FAR * FAR_2 * difference;
                kept[0][i][n] = NEAR_2 * kept[0][i][n] + FAR_2 * sum;
                kept[1][i][n] += FAR * difference;
            }
        }
    }
    const float point = point_of(j), square = point * point;
    UNROLL for (int i = 0; i < MR; i++) UNROLL for (int n = 0; n < NR; n++) {
        floatv rows[4] = {acc[0][i][n], kept[1][i][n], kept[0][i][n], acc[1][i][n]};
        UNROLL for (int r = 0; r < 4; r++) {
            floatv *to = y + (i * 16 + r * 4) * NR + n, odd = point * rows[r];
            if (j == 0) {
                to[0] = rows[r];
            } else if (j == 1) {
                to[0] += rows[r], to[NR] = odd, to[2 * NR] = square * rows[r], to[3 * NR] = square * odd;
            } else if (j < 5) {
                to[0] += rows[r], to[NR] += odd, to[2 * NR] += square * rows[r], to[3 * NR] += square * odd;
            } else {
                to[3 * NR] += rows[r];
            }
        }
    }
}

/* A tile's outputs in a vector of channels, y by (4, 4, NR), to where they belong. */
ALWAYS_INLINE void finish(const floatv *y, int tile, int channel, global const float *bias,
                          global STORED(C_STORAGE) * to) {
    floatv offset = 0;
#ifdef BIAS
    offset = LOADV_ALIGNED(bias + channel);
#endif
    int image = tile / TILES, top = tile % TILES / TILES_W * 4, left = tile % TILES_W * 4;
    to += (((size_t)image * OUT_H + top) * OUT_W + left) * COLUMNS + channel;
    for (int r = 0; r < min(4, OUT_H - top); r++)
        for (int c = 0; c < min(4, OUT_W - left); c++)
            WRITE_V_ALIGNED(C_STORAGE, ACTIVATE(floatv, y[(r * 4 + c) * NR] + offset), to + (r * OUT_W + c) * COLUMNS);
}

/* (blocks of BLOCK tiles) */
TILE_KERNEL void winograd_wide(global const STORED(A_STORAGE) * x, global const float *u, global const float *bias,
                               global STORED(C_STORAGE) * to, int count) {
    int tiles = count * TILES, first = (int)get_global_id(0) * BLOCK, there = min(tiles - first, BLOCK);
    floatv v[6 * BLOCK * IN_C / VEC], y[BLOCK * 16 * GROUP / VEC];
    for (int group = 0; group < COLUMNS; group += GROUP) {
        for (int j = 0; j < 6; j++) {
            for (int i = 0; i < (there + MR - 1) / MR * MR; i++) {
                int tile = min(first + i, tiles - 1), image = tile / TILES, place = tile % TILES;
                winograd_input(x + (size_t)image * (IN_H * IN_W * IN_C), place / TILES_W * 4 - PAD_TOP,
                               place % TILES_W * 4 - PAD_LEFT, j, (float *)v + i * IN_C);
            }
            for (int part = 0; part < GROUP / WIDTH; part++) {
                global const float *panel = u + ((size_t)(group / WIDTH + part) * 6 + j) * (6 * IN_C * WIDTH);
                for (int i = 0; i < there; i += MR)
                    multiply((const float *)v + i * IN_C, panel, j, y + (part * BLOCK + i) * 16 * NR);
            }
        }
        for (int i = 0; i < there; i++)
            for (int part = 0; part < GROUP / WIDTH; part++)
                UNROLL for (int n = 0; n < NR; n++)
                    finish(y + (part * BLOCK + i) * 16 * NR + n, first + i, group + part * WIDTH + n * VEC, bias, to);
    }
}

#endif
