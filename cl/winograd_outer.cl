#include "winograd_input.cl"

/* The weights' gradient of 3x3 convolutions by Winograd's F(3x3, 2x2), for devices whose work-items are whole cores
 * with vectors: 3x3 weights from tiles of 4x4 inputs and 2x2 gradients of outputs, by 16 products instead of 36.
 *
 *   dw = A^T (sum over tiles of (B^T d B) (G z G^T)) A
 *
 * B is winograd_input.cl's. The halves of G are left to A, which meets each weight once:
 *
 *       1  0             1  1/2  1/2  0
 *   G = 1  1       A^T = 0  1/2 -1/2  0
 *       1 -1             0  1/2  1/2  1
 *       0  1
 *
 * Input (IN_H, IN_W, IN_C) and gradient (OUT_H, OUT_W, COLUMNS); IN_C is a multiple of CHANNELS and CHANNELS of MR and
 * VEC, COLUMNS is a multiple of NR vectors. Numbers of both have A_STORAGE and B_STORAGE (prelude.cl). */
#define WIDTH (NR * VEC)
#define TILES (TILES_H * TILES_W)
#define PANELS (COLUMNS / WIDTH)
#define SUMS ((size_t)16 * IN_C * COLUMNS) /* (4 columns, 4 rows as winograd_input has them, panels, IN_C, WIDTH) */

#ifdef GRADIENT

/* The slices' sums to weights (3, 3, IN_C, COLUMNS). (vectors of IN_C, panels) */
TILE_KERNEL void winograd_gradient(global const float *sums, global STORED(TO_STORAGE) * to, float factor) {
    int first = (int)get_global_id(0) * VEC, panel = (int)get_global_id(1);
    for (int i = 0; i < VEC * NR; i++) {
        int channel = first + i / NR, part = i % NR * VEC;
        size_t at = ((size_t)panel * IN_C + channel) * WIDTH + part;
        floatv across[4][3]; /* columns of products, rows of taps */
        for (int j = 0; j < 4; j++) {
            floatv m[4];
            for (int row = 0; row < 4; row++) {
                global const float *from = sums + (size_t)(j * 4 + row) * (IN_C * COLUMNS) + at;
                m[row] = LOADV_ALIGNED(from);
                for (int s = 1; s < SLICES; s++) m[row] += LOADV_ALIGNED(from + s * SUMS);
            }
            floatv both = 0.5f * (m[0] + m[1]);
            across[j][0] = m[2] + both;
            across[j][1] = 0.5f * (m[0] - m[1]);
            across[j][2] = both + m[3];
        }
        UNROLL for (int y = 0; y < 3; y++) {
            floatv both = 0.5f * (across[1][y] + across[2][y]);
            floatv taps[3] = {across[0][y] + both, 0.5f * (across[1][y] - across[2][y]), both + across[3][y]};
            UNROLL for (int x = 0; x < 3; x++) {
                global STORED(TO_STORAGE) *place =
                    to + ((size_t)(y * 3 + x) * IN_C + channel) * COLUMNS + panel * WIDTH + part;
#ifdef ADDS /* to what is there, unless factor is 0, and then times it */
                if (factor != 0) taps[x] = factor * (LOADV_ALIGNED(place) + taps[x]);
#endif
                WRITE_V_ALIGNED(TO_STORAGE, taps[x], place);
            }
        }
    }
}

#else

/* A row of a tile's gradients in column j of G z G^T; `two`: whether its second place is inside. */
ALWAYS_INLINE floatv across(global const STORED(B_STORAGE) * z, bool two, int j) {
    floatv first = 0, second = 0;
    if (j < 3) first = READ_V_ALIGNED(B_STORAGE, z);
    if (j > 0 && two) second = READ_V_ALIGNED(B_STORAGE, z + COLUMNS);
    return j == 2 ? first - second : first + second;
}

/* Column j of G z G^T in a panel, to u by 4 rows that are BLOCK tiles apart. (rows, columns): of the tile, inside. */
ALWAYS_INLINE void transform_gradient(global const STORED(B_STORAGE) * z, int rows, int columns, int j, floatv *u) {
    UNROLL for (int n = 0; n < NR; n++) {
        floatv upper = across(z + n * VEC, columns > 1, j), lower = 0;
        if (rows > 1) lower = across(z + OUT_W * COLUMNS + n * VEC, columns > 1, j);
        u[n] = upper + lower;
        u[BLOCK * NR + n] = upper - lower;
        u[2 * BLOCK * NR + n] = upper;
        u[3 * BLOCK * NR + n] = lower;
    }
}

/* MR channels by a panel of the sums, of `tiles` tiles; fresh: nothing is there yet. */
ALWAYS_INLINE void add_products(const float *v, const floatv *u, int tiles, global float *sums, bool fresh) {
    floatv acc[MR][NR];
    UNROLL for (int r = 0; r < MR; r++) UNROLL for (int n = 0; n < NR; n++) {
        acc[r][n] = 0;
        if (!fresh) acc[r][n] = LOADV_ALIGNED(sums + (r * NR + n) * VEC);
    }
    for (int i = 0; i < tiles; i++, v += CHANNELS, u += NR) {
        UNROLL for (int r = 0; r < MR; r++) {
            floatv a = (floatv)(v[r]);
            UNROLL for (int n = 0; n < NR; n++) acc[r][n] += a * u[n];
        }
    }
    UNROLL for (int r = 0; r < MR; r++) UNROLL for (int n = 0; n < NR; n++)
        STOREV_ALIGNED(acc[r][n], sums + (r * NR + n) * VEC);
}

/* Each slice sums its share of the tiles to its part of `to`, for CHANNELS of the input's. (parts of IN_C, slices) */
TILE_KERNEL void winograd_outer(global const STORED(A_STORAGE) * x, global const STORED(B_STORAGE) * dz,
                                global float *to, int count) {
    int channel = (int)get_global_id(0) * CHANNELS, slice = (int)get_global_id(1);
    int share = (count * TILES + SLICES - 1) / SLICES, first = min(slice * share, count * TILES),
        end = min(first + share, count * TILES);
    bool fresh = true;
    floatv v[4 * BLOCK * CHANNELS / VEC], u[4 * BLOCK * NR];
    int image[BLOCK], top[BLOCK], left[BLOCK];
    to += slice * SUMS + (size_t)channel * WIDTH;
    x += channel;
    do { /* once without tiles, too: the sums are zeros then */
        int tiles = min(end - first, BLOCK);
        for (int i = 0; i < tiles; i++) {
            int place = (first + i) % TILES;
            image[i] = (first + i) / TILES, top[i] = place / TILES_W * 2, left[i] = place % TILES_W * 2;
        }
        for (int j = 0; j < 4; j++) {
            for (int i = 0; i < tiles; i++)
                winograd_input(x + (size_t)image[i] * (IN_H * IN_W * IN_C), top[i] - PAD_TOP, left[i] - PAD_LEFT, j,
                               (float *)v + i * CHANNELS);
            for (int panel = 0; panel < PANELS; panel++) {
                for (int i = 0; i < tiles; i++)
                    transform_gradient(dz + (((size_t)image[i] * OUT_H + top[i]) * OUT_W + left[i]) * COLUMNS +
                                           panel * WIDTH,
                                       OUT_H - top[i], OUT_W - left[i], j, u + i * NR);
                for (int row = 0; row < 4; row++) {
                    global float *sums = to + ((size_t)(j * 4 + row) * PANELS + panel) * (IN_C * WIDTH);
                    for (int c = 0; c < CHANNELS; c += MR)
                        add_products((const float *)v + row * BLOCK * CHANNELS + c, u + row * BLOCK * NR, tiles,
                                     sums + c * WIDTH, fresh);
                }
            }
        }
        fresh = false;
        first += BLOCK;
    } while (first < end);
}

#endif
