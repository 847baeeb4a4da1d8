/* What the products of work-groups read and write (product_local.cl, product_subgroup.cl):
 *
 *   C (m, n) = sum over k of A (m, k) B (k, n)
 *
 * product_rows:  A is the patches of images (IN_H, IN_W, IN_C) as in product_tile.cl, read in place: m is an output
 *                pixel of an example, k is (tap, tap, channel). B (DEPTH, COLUMNS), or B_TRANSPOSED (taps, COLUMNS,
 *                IN_C)
 * product_outer: OUTER. C (DEPTH, COLUMNS) = patches^T dz: k is the pixel
 * MATRIX: a matrix is an image of one pixel with one tap. PADDED: some tap lies outside of the image, or between
 * pixels.
 *
 * A_STORAGE, B_STORAGE, C_STORAGE: how the numbers of A, B and C are stored (prelude.cl). Computations are in floats. A
 * work-group of GM x GN items makes a block of BM x BN of C, an item makes TM x TN of them. If there are too few blocks
 * for the device, the sum is cut into SLICES. With several slices, C is (slices, m, n) in floats, and product_join
 * (rows) or product_reduce (outer) adds them up. */
#define TM (BM / GM)
#define TN (BN / GN)
#define PIXELS (OUT_H * OUT_W)

#if SLICES == 1 /* how blocks of C are stored */
#define BLOCK_STORAGE C_STORAGE
#else
#define BLOCK_STORAGE 0
#endif
#define A_NUMBER STORED(A_STORAGE)
#define B_NUMBER STORED(B_STORAGE)
#define C_NUMBER STORED(BLOCK_STORAGE)

/* How many numbers are loaded from global memory at a time: as many as divide the row that they lie in, so that all of
 * them are inside or all are outside. */
#define WIDTH(numbers) ((numbers) % 4 == 0 ? 4 : (numbers) % 2 == 0 ? 2 : 1)
#define A_WIDTH WIDTH(IN_C)
#define C_WIDTH WIDTH(COLUMNS)
#ifdef B_TRANSPOSED
#define B_WIDTH A_WIDTH
#else
#define B_WIDTH C_WIDTH
#endif

#define FETCH(name, S)                                                                                                 \
    ALWAYS_INLINE float4 name(global const STORED(S) * p, int width) {                                                 \
        if (width == 4) return READ_PACK(S, 4, p);                                                                     \
        if (width == 2) return (float4)(READ_PACK(S, 2, p), 0, 0);                                                     \
        return (float4)(READ(S, p), 0, 0, 0);                                                                          \
    }
FETCH(fetch, 0)
FETCH(fetch_a, A_STORAGE)
FETCH(fetch_b, B_STORAGE)

/* `width` numbers from place k of the patch of pixel number `pixel`, counted over all examples. */
ALWAYS_INLINE float4 patch(global const A_NUMBER *a, int pixel, int k, int width) {
#ifdef MATRIX
    return fetch_a(a + (size_t)pixel * IN_C + k, width);
#else
    int image = pixel / PIXELS, y = pixel / OUT_W % OUT_H, x = pixel % OUT_W;
    y = y * STEP_H + FIRST_H + k / (IN_C * TAPS_W) * TAP_H;
    x = x * STEP_W + FIRST_W + k / IN_C % TAPS_W * TAP_W;
#ifdef PADDED
    bool inside =
        y >= 0 && y % DIVIDE_H == 0 && y / DIVIDE_H < IN_H && x >= 0 && x % DIVIDE_W == 0 && x / DIVIDE_W < IN_W;
    y = inside ? y / DIVIDE_H : 0;
    x = inside ? x / DIVIDE_W : 0;
#endif
    float4 v = fetch_a(a + (((size_t)image * IN_H + y) * IN_W + x) * IN_C + k % IN_C, width);
#ifdef PADDED
    v = inside ? v : (float4)0;
#endif
    return v;
#endif
}

/* A_LAST, B_LAST: the last place in depth that can be read. K_ENDS: whether the last step of a block may reach beyond
 * it. */
#ifdef OUTER
#define A_AT(m, k, width) patch(a, k, m, width)
#define A_LAST(k1, width) max((k1)-1, 0)
#define K_ENDS 1
#else
#define A_AT(m, k, width) patch(a, m, k, width)
#define A_LAST(k1, width) (DEPTH - (width))
#define K_ENDS (DEPTH % BK != 0) /* slices end at whole steps */
#endif
#ifdef B_TRANSPOSED
#define B_AT(k, n, width) fetch_b(b + ((size_t)((k) / IN_C) * COLUMNS + (n)) * IN_C + (k) % IN_C, width)
#define B_LAST(k1, width) A_LAST(k1, width)
#else
#define B_AT(k, n, width) fetch_b(b + (size_t)(k)*COLUMNS + (n), width)
#ifdef OUTER
#define B_LAST(k1, width) A_LAST(k1, width)
#else
#define B_LAST(k1, width) (DEPTH - 1)
#endif
#endif

/* Loads and stores four neighbours of C at p, of which `there` exist. `there` may be larger than four. */
typedef float4 float4_of_c __attribute__((aligned(4 * C_WIDTH)));
ALWAYS_INLINE float4 load_floats(global const float *p, int there) {
    if (C_WIDTH == 4 || there >= 4) return *(global const float4_of_c *)p;
    return (float4)(p[0], there > 1 ? p[1] : 0, there > 2 ? p[2] : 0, 0);
}
ALWAYS_INLINE void store_floats(global float *p, int there, float4 v) {
    if (C_WIDTH == 4 || there >= 4) {
        *(global float4_of_c *)p = v;
        return;
    }
    p[0] = v.x;
    if (there > 1) p[1] = v.y;
    if (there > 2) p[2] = v.z;
}
ALWAYS_INLINE float load_one(global const C_NUMBER *p) { return READ(BLOCK_STORAGE, p); }
ALWAYS_INLINE void store_one(global C_NUMBER *p, float v) { WRITE(BLOCK_STORAGE, v, p); }
#if BLOCK_STORAGE
ALWAYS_INLINE float4 load_c(global const C_NUMBER *p, int there) {
    return (float4)(load_one(p), there > 1 ? load_one(p + 1) : 0, there > 2 ? load_one(p + 2) : 0,
                    there > 3 ? load_one(p + 3) : 0);
}
ALWAYS_INLINE void store_c(global C_NUMBER *p, int there, float4 v) {
#if C_WIDTH == 4
    WRITE_PACK(BLOCK_STORAGE, 4, v, p);
#else
    store_one(p, v.x);
    if (there > 1) store_one(p + 1, v.y);
    if (there > 2) store_one(p + 2, v.z);
    if (there > 3) store_one(p + 3, v.w);
#endif
}
#else
#define load_c load_floats
#define store_c store_floats
#endif

/* y (rows, COLUMNS) = act(the sum of the slices + bias). A work-group makes `across` times C_WIDTH neighbours; `across`
 * is a power of two. Each C_WIDTH neighbours have items / across work-items, their rows. Row r adds slices r, r + rows,
 * and so on. The sums of the rows are then added as a tree. */
#if !defined(OUTER) && SLICES > 1
ALWAYS_INLINE void store_y(global STORED(C_STORAGE) * y, float4 v) {
#if C_WIDTH == 4
    WRITE_PACK(C_STORAGE, 4, v, y);
#elif C_WIDTH == 2
    WRITE_PACK(C_STORAGE, 2, v.xy, y);
#else
    WRITE(C_STORAGE, v.x, y);
#endif
}
kernel void product_join(global const float *restrict from, global const float *restrict bias,
                         global STORED(C_STORAGE) *restrict y, int count, int across, local float4 *shared) {
    int item = (int)get_local_id(0), items = (int)get_local_size(0), rows = items / across, row = item / across;
    size_t numbers = (size_t)count * ROWS_PER_EXAMPLE * PIXELS * COLUMNS;
    size_t i = (get_group_id(0) * across + item % across) * C_WIDTH;
    float4 sum = 0;
    if (i < numbers) {
        _Pragma("unroll 4") for (int s = row; s < SLICES; s += rows) {
            sum += fetch(from + (size_t)s * numbers + i, C_WIDTH);
        }
    }
    shared[item] = sum;
    for (int step = items / 2; step >= across; step /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (item < step) shared[item] = sum += shared[item + step];
    }
    if (row > 0 || i >= numbers) return;
#ifdef BIAS
    sum += fetch(bias + i % COLUMNS, C_WIDTH);
#endif
    store_y(y + i, ACTIVATE(float4, sum));
}
#endif
