#include "winograd_2x2.cl"
#include "winograd_4x4.cl"
#include "winograd_strided.cl"

/* The gradient of the weights of 3x3 convolutions by Winograd's products, for devices whose work-items are whole cores
 * with vectors: dw = G^T (sum over tiles of (B^T d B) (A z A^T)) G, from tiles of inputs d and gradients z of the
 * outputs.
 *
 * The input is (IN_H, IN_W, IN_C), the gradient (OUT_H, OUT_W, COLUMNS). IN_C is a multiple of CHANNELS, CHANNELS of MR
 * and of VEC, and COLUMNS of NR vectors. The input is stored as A_STORAGE, the gradient as B_STORAGE (prelude.cl). */
#define TILES (TILES_H * TILES_W)
#define PANELS (COLUMNS / WIDTH)
/* The sums of a slice: (columns, rows by slots, panels, IN_C, WIDTH). */
#define SUMS ((size_t)(POINTS * POINTS) * IN_C * COLUMNS)

#ifdef GRADIENT

/* Transforms the sums of all slices to the gradient of the weights (3, 3, IN_C, COLUMNS). Global size: (vectors of
 * IN_C, panels). */
TILE_KERNEL void winograd_gradient(global const float *sums, global STORED(TO_STORAGE) * to, float factor) {
    int first = (int)get_global_id(0) * VEC, panel = (int)get_global_id(1);
    for (int i = 0; i < VEC * NR; i++) {
        int channel = first + i / NR, part = i % NR * VEC;
        size_t at = ((size_t)panel * IN_C + channel) * WIDTH + part;
        floatv rows[3][POINTS]; /* rows of taps, columns of products */
        for (int j = 0; j < POINTS; j++) {
            floatv m[POINTS], taps[3];
            UNROLL for (int slot = 0; slot < POINTS; slot++) {
                global const float *from = sums + (size_t)(j * POINTS + slot) * (IN_C * COLUMNS) + at;
                floatv sum = LOADV_ALIGNED(from);
                for (int s = 1; s < SLICES; s++) sum += LOADV_ALIGNED(from + s * SUMS);
                m[ROW_OF(slot)] = sum;
            }
            to_taps(m, taps);
            UNROLL for (int y = 0; y < 3; y++) rows[y][j] = taps[y];
        }
        UNROLL for (int y = 0; y < 3; y++) {
            floatv taps[3];
            to_taps(rows[y], taps);
            UNROLL for (int x = 0; x < 3; x++) {
                global STORED(TO_STORAGE) *place =
                    to + ((size_t)(y * 3 + x) * IN_C + channel) * COLUMNS + panel * WIDTH + part;
#ifdef ADDS /* to = factor * (to + the gradient), unless `factor` is 0 */
                if (factor != 0) taps[x] = factor * (LOADV_ALIGNED(place) + taps[x]);
#endif
                WRITE_V_ALIGNED(TO_STORAGE, taps[x], place);
            }
        }
    }
}

#else

/* Writes column j of A z A^T in a panel to u, in lines that are BLOCK tiles apart. rows, columns: how many rows and
 * columns of the output there are from the tile's first place on. */
ALWAYS_INLINE void transform_gradient(global const STORED(B_STORAGE) * z, int rows, int columns, int j, floatv *u) {
    UNROLL for (int n = 0; n < NR; n++) {
        floatv across[SIDE], lines[LINES];
        UNROLL for (int r = 0; r < SIDE; r++) {
            across[r] = 0;
            if (r < rows) across[r] = winograd_gradient_at(z + r * (OUT_W * COLUMNS) + n * VEC, columns, j);
        }
        from_outputs(across, lines);
        UNROLL for (int line = 0; line < LINES; line++) u[line * (BLOCK * NR) + n] = lines[line];
    }
}

/* Adds the products of `tiles` tiles to MR channels by a panel of the sums. fresh: the sums are not yet set. */
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

/* Each slice sums its share of the tiles to its part of `to`, for CHANNELS channels of the input. Global size: (parts
 * of IN_C, slices). */
TILE_KERNEL void winograd_outer(global const STORED(A_STORAGE) * x, global const STORED(B_STORAGE) * dz,
                                global float *to, int count) {
    int channel = (int)get_global_id(0) * CHANNELS, slice = (int)get_global_id(1);
    int share = (count * TILES + SLICES - 1) / SLICES, first = min(slice * share, count * TILES),
        end = min(first + share, count * TILES);
    bool fresh = true;
    floatv v[LINES * BLOCK * CHANNELS / VEC], u[LINES * BLOCK * NR];
    int image[BLOCK], top[BLOCK], left[BLOCK];
    to += slice * SUMS + (size_t)channel * WIDTH;
    x += channel;
    do { /* once even without tiles: the sums are zeros then */
        int tiles = min(end - first, BLOCK);
        for (int i = 0; i < tiles; i++) {
            int place = (first + i) % TILES;
            image[i] = (first + i) / TILES, top[i] = place / TILES_W * SIDE, left[i] = place % TILES_W * SIDE;
        }
        for (int j = 0; j < LINES; j++) {
            for (int i = 0; i < tiles; i++)
                winograd_input(x + (size_t)image[i] * (IN_H * IN_W * IN_C), top[i] * STRIDE - PAD_TOP,
                               left[i] * STRIDE - PAD_LEFT, j, (float *)v + i * CHANNELS);
            for (int panel = 0; panel < PANELS; panel++) {
                for (int i = 0; i < tiles; i++)
                    transform_gradient(dz + (((size_t)image[i] * OUT_H + top[i]) * OUT_W + left[i]) * COLUMNS +
                                           panel * WIDTH,
                                       OUT_H - top[i], OUT_W - left[i], j, u + i * NR);
                for (int line = 0; line < LINES; line++) { /* lines of the same taps share one sum */
                    const int sum = TAPS_OF(j) * POINTS + TAPS_OF(line);
                    global float *sums = to + ((size_t)sum * PANELS + panel) * (IN_C * WIDTH);
                    for (int c = 0; c < CHANNELS; c += MR)
                        add_products((const float *)v + line * BLOCK * CHANNELS + c, u + line * BLOCK * NR, tiles,
                                     sums + c * WIDTH, fresh && max(j, line) < POINTS);
                }
            }
        }
        fresh = false;
        first += BLOCK;
    } while (first < end);
}

#endif
