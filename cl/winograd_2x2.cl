/* The transforms of Winograd's F(2x2, 3x3) (Lavin and Gray, CVPR 2016): 2x2 outputs y from 4x4 inputs d and 3x3 taps g,
 * with 16 products per channel instead of 36:
 *
 *   y = A^T ((G g G^T) (B^T d B)) A
 *
 * The product of the two inner brackets is elementwise, and is summed over the channels of the input.
 *
 *        1    0    0
 *   G = 1/2  1/2  1/2      A^T = 1  1  1  0              1  0 -1  0
 *       1/2 -1/2  1/2            0  1 -1  1        B^T = 0  1  1  0
 *        0    0    1                                     0 -1  1  0
 *                                                        0 -1  0  1
 *
 * The last row of B^T, and so the last column of A^T, has the opposite sign of the usual one: so its results are added.
 * The gradient of the taps is G^T (sum over tiles of (A z A^T) (B^T d B)) G; z is the gradient of the outputs.
 *
 * LINES: the number of rows, and of columns, of a tile's transformed inputs. POINTS: that of the transformed taps. Line
 * TAPS_OF(line) of the taps goes with a line of the inputs. A slot is a row's place in memory.
 *
 * AT_ONCE: how many columns of all tiles of a block are in use at a time, 1 or all 4. The rows of a column come in the
 * order 1, 2, 0, 3: users make sums and differences of rows 1 and 2 first. CHANNELS channels of an image (IN_H, IN_W,
 * IN_C) are transformed. */
#if SIDE == 2
#define POINTS 4
#define LINES POINTS
#define TAPS_OF(line) (line)
#define WIDTH (NR * VEC)
#define ROW_OF(slot) ((slot) < 2 ? (slot) + 1 : ((slot)-2) * 3)

/* G g for three taps in a row. */
ALWAYS_INLINE void from_taps(floatv a, floatv b, floatv c, floatv *to) {
    floatv sum = a + c;
    to[0] = a, to[1] = 0.5f * (sum + b), to[2] = 0.5f * (sum - b), to[3] = c;
}

/* G^T m. */
ALWAYS_INLINE void to_taps(const floatv *m, floatv *to) {
    floatv both = 0.5f * (m[1] + m[2]);
    to[0] = m[0] + both, to[1] = 0.5f * (m[1] - m[2]), to[2] = both + m[3];
}

/* A z, in the order of slots. */
ALWAYS_INLINE void from_outputs(const floatv *z, floatv *slots) {
    slots[0] = z[0] + z[1], slots[1] = z[0] - z[1], slots[2] = z[0], slots[3] = z[1];
}

/* Joins the two rows of pair `pair`, which are sums over the channels. The last pair is not joined: its rows are added
 * to what this leaves. kept: two numbers from one pair to the next. */
ALWAYS_INLINE void join_pair(int pair, floatv *acc, floatv *other, floatv *kept) {
    floatv sum = *acc + *other;
    *other = *acc - *other, *acc = sum;
}

/* Row r of the outputs, for one column of the products. */
ALWAYS_INLINE floatv row_of(int r, floatv acc, floatv other, const floatv *kept) { return r ? other : acc; }

/* Adds `row`, column j's part of a row of the outputs, to the sum y over all columns. Numbers of y are NR vectors
 * apart. */
ALWAYS_INLINE void add_across(int j, floatv row, floatv *y) {
    if (j == 0) y[0] = row;
    if (j == 1) y[0] += row, y[NR] = row;
    if (j == 2) y[0] += row, y[NR] -= row;
    if (j == 3) y[NR] += row;
}

#ifdef BLOCK
/* Element j of A z for a row of two gradients of outputs, of which the first `inside` lie inside the output. */
ALWAYS_INLINE floatv winograd_gradient_at(global const STORED(B_STORAGE) * z, int inside, int j) {
    floatv first = 0, second = 0;
    if (j < 3) first = READ_V_ALIGNED(B_STORAGE, z);
    if (j > 0 && inside > 1) second = READ_V_ALIGNED(B_STORAGE, z + COLUMNS);
    return j == 2 ? first - second : first + second;
}

/* Transforms columns j to j + AT_ONCE - 1, each to 4 rows of v that are BLOCK tiles apart. (top, left): the tile's
 * first place. It may lie outside of the image, and so may others; zeros count there. */
ALWAYS_INLINE void winograd_input(global const STORED(A_STORAGE) * image, int top, int left, int j, float *v) {
    bool inside = top >= 0 && top + 4 <= IN_H && left >= 0 && left + 4 <= IN_W;
    for (int k = 0; k < CHANNELS; k += VEC) {
        UNROLL for (int c = 0; c < AT_ONCE; c++) {
            int one = j + c, other = one < 2 ? 2 : 1; /* d0 - d2, d1 + d2, d2 - d1, d3 - d1 */
            float sign = one == 1 ? 1 : -1;
            floatv d[4];
            UNROLL for (int i = 0; i < 4; i++) {
                global const STORED(A_STORAGE) *row = image + ((top + i) * IN_W + left) * IN_C + k;
                if (inside) {
                    d[i] = READ_V_ALIGNED(A_STORAGE, row + one * IN_C) +
                           sign * READ_V_ALIGNED(A_STORAGE, row + other * IN_C);
                } else {
                    bool there = top + i >= 0 && top + i < IN_H;
                    d[i] = 0;
                    if (there && left + one >= 0 && left + one < IN_W)
                        d[i] = READ_V_ALIGNED(A_STORAGE, row + one * IN_C);
                    if (there && left + other >= 0 && left + other < IN_W)
                        d[i] += sign * READ_V_ALIGNED(A_STORAGE, row + other * IN_C);
                }
            }
            floatv rows[4] = {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[3] - d[1]};
            UNROLL for (int slot = 0; slot < 4; slot++) * (floatv *)(v + (c * 4 + slot) * (BLOCK * CHANNELS) + k) =
                rows[ROW_OF(slot)];
        }
    }
}
#endif
#endif
