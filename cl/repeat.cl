/* Values repeated along an axis, and their sums over it. Of each sample x is (outer, inner) and y (outer, repeats,
 * inner). -DWIDTH: floats of a vector, of which `inner` is a multiple, in vectors as an argument; with -DSPREAD inner is
 * 1, and `repeats` is counted in vectors. */
#if WIDTH == 1
typedef float part;
#define LOAD(pointer) (*(pointer))
#define STORE(value, pointer) (*(pointer) = (value))
#else
typedef CLQ_JOIN(float, WIDTH) part;
#define LOAD(pointer) CLQ_JOIN(vload, WIDTH)(0, pointer)
#define STORE(value, pointer) CLQ_JOIN(vstore, WIDTH)(value, 0, pointer)
#endif

/* Of an item: the rows of y where kernels are tiles, else vectors of y. */
KERNEL void repeat(const global float *x, global float *y, int count, int outer, int repeats, int inner, float scale) {
    const size_t rows = (size_t)count * outer;
#ifdef SPREAD
#ifdef TILE
    FOR_MY(o, rows) {
        const part value = scale * x[o];
        for (int r = 0; r < repeats; r++) STORE(value, y + (o * repeats + r) * WIDTH);
    }
#else
    FOR_MY(piece, rows * repeats) STORE((part)(scale * x[piece / repeats]), y + piece * WIDTH);
#endif
#else
#ifdef TILE
    FOR_MY(row, rows * repeats) {
        const global float *from = x + row / repeats * inner * WIDTH;
        global float *to = y + row * inner * WIDTH;
        for (int i = 0; i < inner; i++) STORE(scale * LOAD(from + i * WIDTH), to + i * WIDTH);
    }
#else
    FOR_MY(piece, rows * repeats * inner) {
        const size_t row = piece / inner, i = piece - row * inner;
        STORE(scale * LOAD(x + (row / repeats * inner + i) * WIDTH), y + piece * WIDTH);
    }
#endif
#endif
}

/* The sum of n vectors, `step` floats apart. In blocks, so that its rounding grows with the blocks, not with n. */
ALWAYS_INLINE part sum_apart(const global float *x, int n, size_t step) {
    const int block = 16;
    part total = 0;
    for (int begin = 0; begin < n; begin += block) {
        const int end = min(begin + block, n);
        part sum = 0;
        for (int r = begin; r < end; r++) sum += LOAD(x + r * step);
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

KERNEL void reduce(const global float *y, global float *x, int count, int outer, int repeats, int inner, float scale) {
    const size_t rows = (size_t)count * outer;
#ifdef SPREAD
    FOR_MY(o, rows) x[o] = scale * sum_of(sum_apart(y + o * repeats * WIDTH, repeats, WIDTH));
#else
    FOR_MY(piece, rows * inner) {
        const size_t o = piece / inner, i = piece - o * inner;
        STORE(scale * sum_apart(y + (o * repeats * inner + i) * WIDTH, repeats, (size_t)inner * WIDTH),
              x + piece * WIDTH);
    }
#endif
}
