/* Repeats values along an axis, and sums over that axis. In each sample, x is (outer, inner) and y is (outer, repeats,
 * inner). WIDTH: the numbers of a vector. It divides inner, and the argument `inner` counts vectors. With SPREAD, inner
 * is 1, and the argument `repeats` counts vectors. X_STORAGE and Y_STORAGE: how the numbers are stored (prelude.cl). */
typedef STORED(X_STORAGE) x_number;
typedef STORED(Y_STORAGE) y_number;
typedef PACK(WIDTH) part;
#define STORE(S, value, pointer)                                                                                       \
    do {                                                                                                               \
        part value_ = (value);                                                                                         \
        WRITE_PACK(S, WIDTH, value_, pointer);                                                                         \
    } while (0)

/* With TILE, a work-item makes rows of y, else it makes vectors of y. */
KERNEL void repeat(const global x_number *x, global y_number *y, int count, int outer, int repeats, int inner,
                   float scale) {
    const size_t rows = (size_t)count * outer;
#ifdef SPREAD
#ifdef TILE
    FOR_MY (o, rows) {
        const part value = scale * READ(X_STORAGE, x + o);
        for (int r = 0; r < repeats; r++) STORE(Y_STORAGE, value, y + (o * repeats + r) * WIDTH);
    }
#else
    FOR_MY (piece, rows * repeats)
        STORE(Y_STORAGE, (part)(scale * READ(X_STORAGE, x + piece / repeats)), y + piece * WIDTH);
#endif
#else
#ifdef TILE
    FOR_MY (row, rows * repeats) {
        const global x_number *from = x + row / repeats * inner * WIDTH;
        global y_number *to = y + row * inner * WIDTH;
        for (int i = 0; i < inner; i++)
            STORE(Y_STORAGE, scale * READ_PACK(X_STORAGE, WIDTH, from + i * WIDTH), to + i * WIDTH);
    }
#else
    FOR_MY (piece, rows * repeats * inner) {
        const size_t row = piece / inner, i = piece - row * inner;
        STORE(Y_STORAGE, scale * READ_PACK(X_STORAGE, WIDTH, x + (row / repeats * inner + i) * WIDTH),
              y + piece * WIDTH);
    }
#endif
#endif
}

/* The sum of n vectors, `step` numbers apart. It is made in blocks, so that its rounding grows with the blocks, not
 * with n. */
ALWAYS_INLINE part sum_apart(const global y_number *y, int n, size_t step) {
    const int block = 16;
    part total = 0;
    for (int begin = 0; begin < n; begin += block) {
        const int end = min(begin + block, n);
        part sum = 0;
        for (int r = begin; r < end; r++) sum += READ_PACK(Y_STORAGE, WIDTH, y + r * step);
        total += sum;
    }
    return total;
}

#ifdef SPREAD
static float sum_of(part v) {
#if WIDTH == 1
    return v;
#else
    float parts[WIDTH], sum = 0;
    CLQ_JOIN(vstore, WIDTH)(v, 0, parts);
    for (int i = 0; i < WIDTH; i++) sum += parts[i];
    return sum;
#endif
}
#endif

KERNEL void reduce(const global y_number *y, global x_number *x, int count, int outer, int repeats, int inner,
                   float scale) {
    const size_t rows = (size_t)count * outer;
#ifdef SPREAD
    FOR_MY (o, rows) {
        const float sum = scale * sum_of(sum_apart(y + o * repeats * WIDTH, repeats, WIDTH));
        WRITE(X_STORAGE, sum, x + o);
    }
#else
    FOR_MY (piece, rows * inner) {
        const size_t o = piece / inner, i = piece - o * inner;
        STORE(X_STORAGE, scale * sum_apart(y + (o * repeats * inner + i) * WIDTH, repeats, (size_t)inner * WIDTH),
              x + piece * WIDTH);
    }
#endif
}
