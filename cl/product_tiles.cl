/* What the programs of product_tile.cl and product_blocks.cl have in common: tiles of MR rows x NR vectors of C.
 * B is row-major, or PACKED: panels of NR vectors, [panel][depth][NR * VEC], zero-padded. Long sums are made in blocks
 * (BLOCKED), so that their rounding does not grow with their length.
 * A, B and C are stored as A_STORAGE, B_STORAGE and C_STORAGE (prelude.cl). The bias and the computations are in
 * floats.
 *
 * The sizes of a matrix are arguments of its kernels, so one program serves all matrices that are cut alike, of one
 * model or of several. Its options tell whether its rows are WHOLE_VECTORS, and WHOLE_PANELS. The sizes of images are
 * macros, and so are the columns of narrow products. */
#ifdef COLUMNS
#define WHOLE_VECTORS (COLUMNS % VEC == 0)
#define WHOLE_PANELS (COLUMNS % WIDTH == 0)
#endif
#define WIDTH (NR * VEC)
typedef STORED(A_STORAGE) a_number;
typedef STORED(B_STORAGE) b_number;
typedef STORED(C_STORAGE) c_number;

#ifdef PACKED
#define B_STRIDE(columns) WIDTH
#define PANEL_OFFSET(panel, depth) ((size_t)(panel) * (depth)*WIDTH)
#else
#define B_STRIDE(columns) (columns)
#define PANEL_OFFSET(panel, depth) ((panel)*WIDTH)
#endif

/* Loads NR vectors of a row of B. If the row ends within a vector, the rest of the vector comes from the next row, and
 * its results are never stored. */
ALWAYS_INLINE void load_b(floatv out[NR], global const b_number *b, global const b_number *end) {
    UNROLL for (int j = 0; j < NR; j++) {
#if defined(PACKED) || WHOLE_PANELS
        out[j] = READ_V_ALIGNED(B_STORAGE, b + j * VEC);
#else
        out[j] = READ_V_UNTIL(B_STORAGE, b + j * VEC, end);
#endif
    }
}

/* Stores one vector at column `column` of a row; columns after the last are left out. */
#define STORE(name, S)                                                                                                 \
    ALWAYS_INLINE void name(global STORED(S) * row, int column, int columns, floatv value) {                           \
        if (WHOLE_VECTORS) {                                                                                           \
            if (column < columns) WRITE_V_ALIGNED(S, value, row + column);                                             \
        } else if (column + VEC <= columns) {                                                                          \
            WRITE_V(S, value, row + column);                                                                           \
        } else {                                                                                                       \
            float lanes[VEC];                                                                                          \
            CLQ_JOIN(vstore, VEC)(value, 0, lanes);                                                                    \
            for (int l = 0; column + l < columns; l++) WRITE(S, lanes[l], row + column + l);                           \
        }                                                                                                              \
    }
STORE(store_c, C_STORAGE)

/* acc (MR, NR) += the outer product of a column of A and a row of B. A(i) is the number of A in row i. */
#define STEP(acc, A, b, end)                                                                                           \
    do {                                                                                                               \
        floatv b_[NR];                                                                                                 \
        load_b(b_, b, end);                                                                                            \
        UNROLL for (int i = 0; i < MR; i++) {                                                                          \
            floatv a_ = (floatv)(A(i));                                                                                \
            UNROLL for (int j = 0; j < NR; j++)(acc)[i][j] += a_ * b_[j];                                              \
        }                                                                                                              \
    } while (0)

#define CLEAR(acc) UNROLL for (int i = 0; i < MR; i++) UNROLL for (int j = 0; j < NR; j++)(acc)[i][j] = 0

/* Ends a block of a long sum. */
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

/* Stores rows `from` to `until` - 1 of a tile in C, with bias and activation. Rows of C are `stride` numbers apart. */
ALWAYS_INLINE void finish(floatv acc[MR][NR], int from, int until, int column, int columns, global const float *bias,
                          global c_number *c, size_t stride) {
    floatv offset[NR];
    UNROLL for (int j = 0; j < NR; j++) {
#ifdef BIAS
        offset[j] = READ_V_UNTIL(0, bias + column + j * VEC, bias + columns);
#else
        offset[j] = 0;
#endif
    }
    UNROLL for (int i = 0; i < MR; i++) {
        if (i < from || i >= until) continue;
        UNROLL for (int j = 0; j < NR; j++)
            store_c(c + i * stride, column + j * VEC, columns, ACTIVATE(floatv, acc[i][j] + offset[j]));
    }
}
#endif
