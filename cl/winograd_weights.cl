/* Transforms the taps of 3x3 convolutions by G of winograd_2x2.cl, winograd_4x4.cl or winograd_strided.cl. The weights
 * are (3, 3, IN_C, COLUMNS), or, if TRANSPOSED, (3, 3, COLUMNS, IN_C) with the taps in reverse order. The result is
 * (panels of NR vectors, POINTS columns, POINTS / 2 pairs of rows, IN_C, 2 rows, NR vectors). Global size: (vectors of
 * IN_C, vectors of COLUMNS). */
#ifdef WEIGHTS
ALWAYS_INLINE void transform_weights(global const STORED(B_STORAGE) * w, global float *to, int first, int column) {
    to += (size_t)(column / WIDTH) * (POINTS * POINTS * IN_C * WIDTH) + column % WIDTH;
    floatv g[9][VEC];
    for (int tap = 0; tap < 9; tap++) {
#ifdef TRANSPOSED
        global const STORED(B_STORAGE) *from = w + (size_t)((8 - tap) * COLUMNS + column) * IN_C + first;
        UNROLL for (int l = 0; l < VEC; l++) g[tap][l] = READ_V_ALIGNED(B_STORAGE, from + l * IN_C);
        floatv_transpose(g[tap]);
#else
        global const STORED(B_STORAGE) *from = w + (size_t)(tap * IN_C + first) * COLUMNS + column;
        UNROLL for (int l = 0; l < VEC; l++) g[tap][l] = READ_V_ALIGNED(B_STORAGE, from + l * COLUMNS);
#endif
    }
    for (int l = 0; l < VEC; l++) {
        floatv down[3][POINTS], all[POINTS]; /* a column of taps to the points, then a row of points */
        UNROLL for (int x = 0; x < 3; x++) from_taps(g[x][l], g[3 + x][l], g[6 + x][l], down[x]);
        UNROLL for (int slot = 0; slot < POINTS; slot++) {
            int row = ROW_OF(slot);
            from_taps(down[0][row], down[1][row], down[2][row], all);
            UNROLL for (int j = 0; j < POINTS; j++) {
                size_t at = ((size_t)(j * (POINTS / 2) + slot / 2) * IN_C + first + l) * 2 + slot % 2;
                STOREV_ALIGNED(all[j], to + at * WIDTH);
            }
        }
    }
}
#endif
