/* The transform B^T d B of a tile of 4x4 inputs d, which winograd_tile.cl and winograd_outer.cl multiply:
 *
 *        1  0 -1  0
 *   B^T = 0  1  1  0
 *        0 -1  1  0
 *        0 -1  0  1
 *
 * By AT_ONCE columns, 1 or all 4 of them: what is in use at a time of all tiles of a block. A column's rows come in the
 * order 1, 2, 0, 3: users make sums and differences of rows 1 and 2 first. CHANNELS of an image (IN_H, IN_W, IN_C) are
 * transformed. */
#define ROW_OF(slot) ((slot) < 2 ? (slot) + 1 : ((slot)-2) * 3)

#ifdef BLOCK
/* Columns j to j + AT_ONCE - 1, each to v by 4 rows that are BLOCK tiles apart. (top, left): the tile's first place,
 * which may lie outside of the image, as may others: zeros there. */
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
