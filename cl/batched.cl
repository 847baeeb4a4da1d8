/* Products of small matrices, many in each sample: C = scale * A B. A is (m, k), B (k, n), C (m, n). Pitches tell where
 * the numbers lie: number (i, j) of a matrix lies at i * row + j * column. A sample has counts0 * counts1 matrices of
 * each kind, at p * pitch0 + q * pitch1. If all samples share a value, its pitch between samples is 0.
 *
 * The columns of C lie side by side in memory. With TILE, so do the columns of B, unless one of these options is set:
 * - DOT: the columns of A and the rows of B lie side by side.
 * - B_APART: the columns of B lie apart.
 * - PACKED: the rows of B lie side by side, k is at most PACKED, and a panel of B is transposed once for many rows of
 *   C.
 *
 * A_STORAGE and so on: how numbers are stored (prelude.cl). */
typedef STORED(A_STORAGE) a_number;
typedef STORED(B_STORAGE) b_number;
typedef STORED(C_STORAGE) c_number;

#ifdef TILE

#ifdef DOT
#define ROWS 4
#define COLUMNS 4

/* Makes ROWS rows of C from i on by COLUMNS columns from j on, as dot products by vectors along k. */
ALWAYS_INLINE void tile(global const a_number *a, global const b_number *b, global c_number *c, int i, int j, int m,
                        int n, int k, float scale, int a_row, int b_column, int c_row) {
    floatv sums[ROWS][COLUMNS];
    UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int s = 0; s < COLUMNS; s++) sums[r][s] = 0;
    for (int at = 0; at < k; at += VEC) {
        floatv left[ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) {
            global const a_number *row = a + (size_t)min(i + r, m - 1) * a_row;
            left[r] = at + VEC <= k ? READ_V(A_STORAGE, row + at) : READ_V_UNTIL(A_STORAGE, row + at, row + k);
        }
        UNROLL for (int s = 0; s < COLUMNS; s++) {
            global const b_number *column = b + (size_t)min(j + s, n - 1) * b_column;
            const floatv right =
                at + VEC <= k ? READ_V(B_STORAGE, column + at) : READ_V_UNTIL(B_STORAGE, column + at, column + k);
            UNROLL for (int r = 0; r < ROWS; r++) sums[r][s] = fma(left[r], right, sums[r][s]);
        }
    }
    for (int r = 0; r < ROWS && i + r < m; r++)
        for (int s = 0; s < COLUMNS && j + s < n; s++) {
            const float sum = scale * floatv_sum(sums[r][s]);
            WRITE(C_STORAGE, sum, c + (size_t)(i + r) * c_row + j + s);
        }
}

#else

#define ROWS (VEC >= 16 ? 8 : 4) /* so many that the sums and their operands fit in registers */
#define ROW_GROUP 64             /* rows of C that one panel of B serves */

/* VEC columns of a row of B from `b` on, of which `left` exist; the missing ones are 0. */
ALWAYS_INLINE floatv columns_of(global const b_number *b, int left, int b_column) {
#ifdef B_APART
    float lanes[VEC];
    for (int l = 0; l < VEC; l++) lanes[l] = l < left ? READ(B_STORAGE, b + (size_t)l * b_column) : 0.0f;
    return CLQ_JOIN(vload, VEC)(0, lanes);
#else
    return left >= VEC ? READ_V(B_STORAGE, b) : READ_V_UNTIL(B_STORAGE, b, b + left);
#endif
}

#ifdef PACKED
/* Packs k rows of VEC columns of B into every `apart`-th vector of `to`. The numbers of a column lie side by side in B,
 * so the columns are transposed in squares. `left` of the columns exist; the missing ones are 0. */
ALWAYS_INLINE void pack(floatv *to, int apart, global const b_number *b, int left, int k, int b_column) {
    for (int at = 0; at < k; at += VEC) {
        floatv square[VEC];
        for (int l = 0; l < VEC; l++) {
            global const b_number *column = b + (size_t)min(l, max(left - 1, 0)) * b_column;
            square[l] = 0;
            if (l >= left) continue;
            square[l] =
                at + VEC <= k ? READ_V(B_STORAGE, column + at) : READ_V_UNTIL(B_STORAGE, column + at, column + k);
        }
        floatv_transpose(square);
        for (int l = 0; l < VEC && at + l < k; l++) to[(at + l) * apart] = square[l];
    }
}
#define RIGHT(at, v) panel[(at)*2 + (v)]
#else
#define RIGHT(at, v) columns_of(b + (size_t)(at)*b_row + (size_t)(j + (v)*VEC) * b_column, n - j - (v)*VEC, b_column)
#endif

/* Makes ROWS rows of C from i on by VECTORS vectors of columns from j on, as far as they exist: single numbers of A
 * times vectors of B. */
#define DEFINE_TILE(name, VECTORS)                                                                                     \
    ALWAYS_INLINE void name(global const a_number *a, global const b_number *b, const floatv *panel,                   \
                            global c_number *c, int i, int j, int m, int n, int k, float scale, int a_row,             \
                            int a_column, int b_row, int b_column, int c_row) {                                        \
        floatv sums[ROWS][VECTORS];                                                                                    \
        global const a_number *rows[ROWS];                                                                             \
        UNROLL for (int r = 0; r < ROWS; r++) {                                                                        \
            rows[r] = a + (size_t)min(i + r, m - 1) * a_row;                                                           \
            UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = 0;                                                   \
        }                                                                                                              \
        for (int at = 0; at < k; at++) {                                                                               \
            floatv right[VECTORS];                                                                                     \
            UNROLL for (int v = 0; v < VECTORS; v++) right[v] = RIGHT(at, v);                                          \
            UNROLL for (int r = 0; r < ROWS; r++) {                                                                    \
                const float left = READ(A_STORAGE, rows[r] + (size_t)at * a_column);                                   \
                UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = fma((floatv)(left), right[v], sums[r][v]);       \
            }                                                                                                          \
        }                                                                                                              \
        for (int r = 0; r < ROWS && i + r < m; r++) UNROLL for (int v = 0; v < VECTORS; v++) {                         \
                global c_number *to = c + (size_t)(i + r) * c_row + j + v * VEC;                                       \
                const floatv value = scale * sums[r][v];                                                               \
                const int left = n - j - v * VEC;                                                                      \
                if (left >= VEC) {                                                                                     \
                    WRITE_V(C_STORAGE, value, to);                                                                     \
                } else {                                                                                               \
                    float lanes[VEC];                                                                                  \
                    CLQ_JOIN(vstore, VEC)(value, 0, lanes);                                                            \
                    for (int l = 0; l < left; l++) WRITE(C_STORAGE, lanes[l], to + l);                                 \
                }                                                                                                      \
            }                                                                                                          \
    }
DEFINE_TILE(tile_of_two, 2)
DEFINE_TILE(tile_of_one, 1)
#endif

KERNEL void batched(global const a_number *a, global const b_number *b, global c_number *c, int count, int counts0,
                    int counts1, int m, int n, int k, float scale, int a_sample, int a_pitch0, int a_pitch1, int a_row,
                    int a_column, int b_sample, int b_pitch0, int b_pitch1, int b_row, int b_column, int c_sample,
                    int c_pitch0, int c_pitch1, int c_row) {
#ifdef DOT
    const int row_group = ROWS, panels = 1;
#else
    const int row_group = ROW_GROUP, panels = (n + 2 * VEC - 1) / (2 * VEC);
#endif
    const int groups = (m + row_group - 1) / row_group, blocks = groups * panels;
    FOR_MY (piece, (size_t)count * counts0 * counts1 * blocks) {
        const size_t matrix = piece / blocks, first = matrix / counts1, sample = first / counts0;
        const int block = (int)(piece - matrix * blocks), from = block / panels * row_group,
                  end = min(from + row_group, m), q = (int)(matrix - first * counts1),
                  p = (int)(first - sample * counts0);
        global const a_number *left = a + sample * a_sample + (size_t)p * a_pitch0 + (size_t)q * a_pitch1;
        global const b_number *right = b + sample * b_sample + (size_t)p * b_pitch0 + (size_t)q * b_pitch1;
        global c_number *to = c + sample * c_sample + (size_t)p * c_pitch0 + (size_t)q * c_pitch1;
#ifdef DOT
        for (int j = 0; j < n; j += COLUMNS) tile(left, right, to, from, j, m, n, k, scale, a_row, b_column, c_row);
#else
        const int j = block % panels * (2 * VEC);
#ifdef PACKED
        floatv panel[PACKED * 2];
        for (int v = 0; v < 2; v++)
            pack(panel + v, 2, right + (size_t)(j + v * VEC) * b_column, n - j - v * VEC, k, b_column);
#else
        const floatv *panel = 0;
#endif
        for (int i = from; i < end; i += ROWS) {
            if (j + VEC < n)
                tile_of_two(left, right, panel, to, i, j, m, n, k, scale, a_row, a_column, b_row, b_column, c_row);
            else
                tile_of_one(left, right, panel, to, i, j, m, n, k, scale, a_row, a_column, b_row, b_column, c_row);
        }
#endif
    }
}

#else

KERNEL void batched(global const a_number *a, global const b_number *b, global c_number *c, int count, int counts0,
                    int counts1, int m, int n, int k, float scale, int a_sample, int a_pitch0, int a_pitch1, int a_row,
                    int a_column, int b_sample, int b_pitch0, int b_pitch1, int b_row, int b_column, int c_sample,
                    int c_pitch0, int c_pitch1, int c_row) {
    FOR_MY (number, (size_t)count * counts0 * counts1 * m * n) {
        const size_t row = number / n, matrix = row / m, first = matrix / counts1, sample = first / counts0;
        const int j = (int)(number - row * n), i = (int)(row - matrix * m), q = (int)(matrix - first * counts1),
                  p = (int)(first - sample * counts0);
        global const a_number *left =
            a + sample * a_sample + (size_t)p * a_pitch0 + (size_t)q * a_pitch1 + (size_t)i * a_row;
        global const b_number *right =
            b + sample * b_sample + (size_t)p * b_pitch0 + (size_t)q * b_pitch1 + (size_t)j * b_column;
        float sum = 0;
        for (int at = 0; at < k; at++)
            sum = fma(READ(A_STORAGE, left + (size_t)at * a_column), READ(B_STORAGE, right + (size_t)at * b_row), sum);
        const float value = scale * sum;
        WRITE(C_STORAGE, value,
              c + sample * c_sample + (size_t)p * c_pitch0 + (size_t)q * c_pitch1 + (size_t)i * c_row + j);
    }
}

#endif
