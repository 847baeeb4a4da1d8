/* Products of small matrices, many for each sample: C = scale * A B, by pitches. A is (m, k), B (k, n), C (m, n);
 * number (i, j) of a matrix lies at i * row + j * column. A sample has counts0 * counts1 of each, at p * pitch0 + q *
 * pitch1; a value that all samples share has a pitch of 0 between samples. The columns of C lie side by side. With
 * -DDOT so do those of A and the rows of B; with -DB_APART the columns of B do not. A_STORAGE and so on: how numbers
 * are stored (prelude.cl). */
typedef STORED(A_STORAGE) a_number;
typedef STORED(B_STORAGE) b_number;
typedef STORED(C_STORAGE) c_number;

#ifdef TILE

#define ROWS 4
#ifdef DOT
#define COLUMNS 4

/* Rows from i on and columns from j on: sums over vectors of k. */
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

/* VEC columns of B from `b` on, of which `left` there are. */
ALWAYS_INLINE floatv columns_of(global const b_number *b, int left, int b_column) {
#ifdef B_APART
    float lanes[VEC];
    for (int l = 0; l < VEC; l++) lanes[l] = l < left ? READ(B_STORAGE, b + (size_t)l * b_column) : 0.0f;
    return CLQ_JOIN(vload, VEC)(0, lanes);
#else
    return left >= VEC ? READ_V(B_STORAGE, b) : READ_V_UNTIL(B_STORAGE, b, b + left);
#endif
}

/* Rows from i on, and VECTORS vectors of columns from j on, or fewer: numbers of A times vectors of B. */
#define DEFINE_TILE(name, VECTORS)                                                                                     \
    ALWAYS_INLINE void name(global const a_number *a, global const b_number *b, global c_number *c, int i, int j,      \
                            int m, int n, int k, float scale, int a_row, int a_column, int b_row, int b_column,        \
                            int c_row) {                                                                               \
        floatv sums[ROWS][VECTORS];                                                                                    \
        UNROLL for (int r = 0; r < ROWS; r++) UNROLL for (int v = 0; v < VECTORS; v++) sums[r][v] = 0;                 \
        for (int at = 0; at < k; at++) {                                                                               \
            floatv right[VECTORS];                                                                                     \
            UNROLL for (int v = 0; v < VECTORS; v++) right[v] =                                                        \
                columns_of(b + (size_t)at * b_row + (size_t)(j + v * VEC) * b_column, n - j - v * VEC, b_column);      \
            UNROLL for (int r = 0; r < ROWS; r++) {                                                                    \
                const float left = READ(A_STORAGE, a + (size_t)min(i + r, m - 1) * a_row + (size_t)at * a_column);     \
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
    const int blocks = (m + ROWS - 1) / ROWS;
    FOR_MY (piece, (size_t)count * counts0 * counts1 * blocks) {
        const size_t matrix = piece / blocks, first = matrix / counts1, sample = first / counts0;
        const int i = (int)(piece - matrix * blocks) * ROWS, q = (int)(matrix - first * counts1),
                  p = (int)(first - sample * counts0);
        global const a_number *left = a + sample * a_sample + (size_t)p * a_pitch0 + (size_t)q * a_pitch1;
        global const b_number *right = b + sample * b_sample + (size_t)p * b_pitch0 + (size_t)q * b_pitch1;
        global c_number *to = c + sample * c_sample + (size_t)p * c_pitch0 + (size_t)q * c_pitch1;
#ifdef DOT
        for (int j = 0; j < n; j += COLUMNS) tile(left, right, to, i, j, m, n, k, scale, a_row, b_column, c_row);
#else
        int j = 0;
        for (; j + VEC < n; j += 2 * VEC)
            tile_of_two(left, right, to, i, j, m, n, k, scale, a_row, a_column, b_row, b_column, c_row);
        if (j < n) tile_of_one(left, right, to, i, j, m, n, k, scale, a_row, a_column, b_row, b_column, c_row);
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
