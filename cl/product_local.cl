/* Products for devices with work-groups and local memory.
 *
 *   C (m, n) = sum over k of A (m, k) B (k, n)
 *
 * product_rows:  A is the patches of images (IN_H, IN_W, IN_C) as in product_tile.cl, read where they lie: m is an
 *                output pixel of an example, k is (tap, tap, channel). B (DEPTH, COLUMNS), or B_TRANSPOSED (taps,
 *                COLUMNS, IN_C)
 * product_outer: OUTER. C (DEPTH, COLUMNS) = patches^T dz: k is the pixel
 * A matrix is an image of one pixel with one tap (MATRIX). PADDED: some tap lies outside, or between pixels.
 *
 * A work-group of GM x GN items makes a block of BM x BN of C, BK of the sum at a time, through two buffers in local
 * memory: while one is multiplied, the next numbers are on their way from global memory into registers, and one
 * barrier a step is enough. An item's share is in squares of 4 x 4, GM and GN of them apart: neighbours read and write
 * neighbouring float4s. The sum is cut into SLICES where blocks are too few for the device; with several, C is
 * (slices, m, n), to be added up by product_join (rows) or product_reduce (outer). */
#define ITEMS (GM * GN)
#define TM (BM / GM)
#define TN (BN / GN)
#define PIXELS (OUT_H * OUT_W)
/* Behind every BM or BN floats: numbers that are neighbours in depth are stored by neighbouring items, a row apart. */
#define PAD 4
/* What one of the two buffers holds. */
#define A_FLOATS (BK * (BM + PAD))
#define B_FLOATS (BK * (BN + PAD))

/* Floats of global memory taken at a time, all of them inside or all outside: as many as divide the row they lie in. */
#define WIDTH(floats) ((floats) % 4 == 0 ? 4 : (floats) % 2 == 0 ? 2 : 1)
#define A_WIDTH WIDTH(IN_C)
#define C_WIDTH WIDTH(COLUMNS)
#ifdef B_TRANSPOSED
#define B_WIDTH A_WIDTH
#else
#define B_WIDTH C_WIDTH
#endif

ALWAYS_INLINE float4 fetch(global const float *p, int width) {
    if (width == 4) return *(global const float4 *)p;
    if (width == 2) return (float4)(*(global const float2 *)p, 0, 0);
    return (float4)(*p, 0, 0, 0);
}

/* Into local memory, or global: side by side, or `stride` apart. */
ALWAYS_INLINE void put_along(local float *p, int width, float4 v) {
    if (width == 4)
        *(local float4 *)p = v;
    else if (width == 2)
        *(local float2 *)p = v.xy;
    else
        *p = v.x;
}
ALWAYS_INLINE void put_across(local float *p, int width, int stride, float4 v) {
    p[0] = v.x;
    if (width >= 2) p[stride] = v.y;
    if (width == 4) p[2 * stride] = v.z;
    if (width == 4) p[3 * stride] = v.w;
}

/* A_WIDTH floats from place k of the patch of pixel number `pixel` (of all examples). */
ALWAYS_INLINE float4 patch(global const float *a, int pixel, int k) {
#ifdef MATRIX
    return fetch(a + (size_t)pixel * IN_C + k, A_WIDTH);
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
    float4 v = fetch(a + (((size_t)image * IN_H + y) * IN_W + x) * IN_C + k % IN_C, A_WIDTH);
#ifdef PADDED
    v = inside ? v : (float4)0;
#endif
    return v;
#endif
}

/* Arrays stay in registers where loops over them are unrolled. CPUs have no use for that, and PoCL takes ten seconds.
 */
#ifdef ROLLED
#define UNROLL_LOADS _Pragma("nounroll")
#define UNROLL_STEPS _Pragma("nounroll")
#else
#define UNROLL_LOADS UNROLL
#define UNROLL_STEPS _Pragma("unroll 2")
#endif

/* Which part of a BK x SIDE share of A or B is number i: neighbours take neighbouring memory. */
#define BY_DEPTH(i, SIDE, WIDE, side, depth) int side = (i) / (BK / (WIDE)), depth = (i) % (BK / (WIDE)) * (WIDE)
#define BY_SIDE(i, SIDE, WIDE, side, depth) int side = (i) % ((SIDE) / (WIDE)) * (WIDE), depth = (i) / ((SIDE) / (WIDE))
#define PARTS(SIDE, WIDE) ((SIDE)*BK / (WIDE))
#define LOADS(SIDE, WIDE) ((PARTS(SIDE, WIDE) + ITEMS - 1) / ITEMS)
/* Whether the item has an l-th part. */
#define THERE(l, SIDE, WIDE) (PARTS(SIDE, WIDE) % ITEMS == 0 || (l)*ITEMS + item < PARTS(SIDE, WIDE))
#define A_LOADS LOADS(BM, A_WIDTH)
#define B_LOADS LOADS(BN, B_WIDTH)

/* A_LAST, B_LAST: the last place in depth that can be read. B_ACROSS: columns that a load takes. */
#ifdef OUTER
#define A_PART BY_SIDE
#define A_AT(m, k) patch(a, k, m)
#define A_LAST(k1) max((k1)-1, 0)
#define K_ENDS 1
#else
#define A_PART BY_DEPTH
#define A_AT(m, k) patch(a, m, k)
#define A_LAST(k1) (DEPTH - A_WIDTH)
#define K_ENDS (DEPTH % BK != 0) /* slices end at whole steps */
#endif
#ifdef B_TRANSPOSED
#define B_PART BY_DEPTH
#define B_AT(k, n) fetch(b + ((size_t)((k) / IN_C) * COLUMNS + (n)) * IN_C + (k) % IN_C, B_WIDTH)
#define B_LAST(k1) A_LAST(k1)
#define B_ACROSS 1
#else
#define B_PART BY_SIDE
#define B_AT(k, n) fetch(b + (size_t)(k)*COLUMNS + (n), B_WIDTH)
#ifdef OUTER
#define B_LAST(k1) A_LAST(k1)
#else
#define B_LAST(k1) (DEPTH - 1)
#endif
#define B_ACROSS B_WIDTH
#endif

/* The numbers of one step on their way. No load hangs on a condition: rows and columns behind the last are the last
 * again, and what becomes of them is not stored; so are terms behind the last, and count as zeros. */
ALWAYS_INLINE void take(global const float *a, global const float *b, int item, int m0, int m_last, int n0, int k,
                        int k1, float4 a_way[A_LOADS], float4 b_way[B_LOADS]) {
    UNROLL_LOADS for (int l = 0; l < A_LOADS; l++) {
        A_PART(l * ITEMS + item, BM, A_WIDTH, side, depth);
        depth += k;
        float4 v = A_AT(min(m0 + side, m_last), min(depth, A_LAST(k1)));
        a_way[l] = !K_ENDS || depth < k1 ? v : (float4)0;
    }
    UNROLL_LOADS for (int l = 0; l < B_LOADS; l++) {
        B_PART(l * ITEMS + item, BN, B_WIDTH, side, depth);
        depth += k;
        float4 v = B_AT(min(depth, B_LAST(k1)), min(n0 + side, COLUMNS - B_ACROSS));
        b_way[l] = !K_ENDS || depth < k1 ? v : (float4)0;
    }
}

ALWAYS_INLINE void put(local float *a_part, local float *b_part, int item, const float4 a_way[A_LOADS],
                       const float4 b_way[B_LOADS]) {
    UNROLL_LOADS for (int l = 0; l < A_LOADS; l++) {
        A_PART(l * ITEMS + item, BM, A_WIDTH, side, depth);
        if (!THERE(l, BM, A_WIDTH)) continue;
#ifdef OUTER
        put_along(a_part + depth * (BM + PAD) + side, A_WIDTH, a_way[l]);
#else
        put_across(a_part + depth * (BM + PAD) + side, A_WIDTH, BM + PAD, a_way[l]);
#endif
    }
    UNROLL_LOADS for (int l = 0; l < B_LOADS; l++) {
        B_PART(l * ITEMS + item, BN, B_WIDTH, side, depth);
        if (!THERE(l, BN, B_WIDTH)) continue;
#ifdef B_TRANSPOSED
        put_across(b_part + depth * (BN + PAD) + side, B_WIDTH, BN + PAD, b_way[l]);
#else
        put_along(b_part + depth * (BN + PAD) + side, B_WIDTH, b_way[l]);
#endif
    }
}

/* acc += the product of what lies in local memory. */
ALWAYS_INLINE void multiply(const local float *a_part, const local float *b_part, float4 acc[TM][TN / 4]) {
    int lx = (int)get_local_id(0), ly = (int)get_local_id(1);
    UNROLL_STEPS for (int d = 0; d < BK; d++) {
        float4 av[TM / 4], bv[TN / 4];
        UNROLL for (int r = 0; r < TM / 4; r++) av[r] =
            *(const local float4 *)(a_part + d * (BM + PAD) + (r * GM + ly) * 4);
        UNROLL for (int q = 0; q < TN / 4; q++) bv[q] =
            *(const local float4 *)(b_part + d * (BN + PAD) + (q * GN + lx) * 4);
        UNROLL for (int r = 0; r < TM / 4; r++) {
            UNROLL for (int q = 0; q < TN / 4; q++) {
                acc[4 * r][q] += av[r].x * bv[q];
                acc[4 * r + 1][q] += av[r].y * bv[q];
                acc[4 * r + 2][q] += av[r].z * bv[q];
                acc[4 * r + 3][q] += av[r].w * bv[q];
            }
        }
    }
}

/* Four neighbours of C at p, of which `there` exist. */
typedef float4 float4_of_c __attribute__((aligned(4 * C_WIDTH)));
ALWAYS_INLINE void store(global float *p, int there, float4 v) {
    if (C_WIDTH == 4 || there >= 4) {
        *(global float4_of_c *)p = v;
        return;
    }
    p[0] = v.x;
    if (there > 1) p[1] = v.y;
    if (there > 2) p[2] = v.z;
}
ALWAYS_INLINE float4 load(global const float *p, int there) {
    if (C_WIDTH == 4 || there >= 4) return *(global const float4_of_c *)p;
    return (float4)(p[0], there > 1 ? p[1] : 0, there > 2 ? p[2] : 0, 0);
}

/* The item's squares of C (rows, COLUMNS): what is there already, unless `first`, and acc; bias and activation once
 * all is there. acc is zero afterwards. */
ALWAYS_INLINE void settle(global float *c, global const float *bias, int m0, int rows, int n0, bool first, bool last,
                          float4 acc[TM][TN / 4]) {
    int m = m0 + (int)get_local_id(1) * 4, n = n0 + (int)get_local_id(0) * 4;
    c += (size_t)m * COLUMNS + n;
    UNROLL for (int q = 0; q < TN / 4; q++) {
        int right = q * GN * 4, there = COLUMNS - n - right;
        if (there <= 0) continue;
#ifdef BIAS
        float4 add = last ? load(bias + n + right, there) : (float4)0;
#endif
        UNROLL for (int r = 0; r < TM; r++) {
            int down = r / 4 * GM * 4 + r % 4;
            if (down >= rows - m) continue;
            global float *to = c + down * COLUMNS + right;
            float4 v = acc[r][q];
            if (!first) v += load(to, there);
#ifdef BIAS
            v += add;
#endif
            store(to, there, last ? ACTIVATE(float4, v) : v);
            acc[r][q] = 0;
        }
    }
}

/* The block at (m0, n0) of C, summed over k in [k0, k1). Where it is long (BLOCKED terms and more), C takes what
 * there is from time to time, so that rounding does not grow with length: registers have no room for a second sum. */
ALWAYS_INLINE void block(global const float *a, global const float *b, global const float *bias, global float *c,
                         int m0, int rows, int m_last, int n0, int k0, int k1, local float *a_part,
                         local float *b_part) {
    int item = (int)get_local_id(1) * GN + (int)get_local_id(0), k = k0;
    float4 acc[TM][TN / 4], a_way[A_LOADS], b_way[B_LOADS];
    UNROLL for (int i = 0; i < TM * TN / 4; i++) acc[i / (TN / 4)][i % (TN / 4)] = 0;
#ifdef BLOCKED
    do {
        int end = min(k + BLOCKED, k1);
#else
    {
        int end = k1;
#endif
        take(a, b, item, m0, m_last, n0, k, end, a_way, b_way);
        put(a_part, b_part, item, a_way, b_way);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int now = 0, from = k; from < end; from += BK, now ^= 1) {
            bool more = from + BK < end;
            if (more) take(a, b, item, m0, m_last, n0, from + BK, end, a_way, b_way);
            multiply(a_part + now * A_FLOATS, b_part + now * B_FLOATS, acc);
            if (more) put(a_part + (now ^ 1) * A_FLOATS, b_part + (now ^ 1) * B_FLOATS, item, a_way, b_way);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        settle(c, bias, m0, rows, n0, k == k0, SLICES == 1 && end == k1, acc);
#ifdef BLOCKED
        k = end;
    } while (k < k1);
#else
    }
#endif
}
#define LOCAL_PARTS                                                                                                    \
    local float a_part[2 * A_FLOATS] __attribute__((aligned(16)));                                                     \
    local float b_part[2 * B_FLOATS] __attribute__((aligned(16)))

/* (columns, rows) in blocks, slices. Slice s sums its share of the depth. */
#ifndef OUTER
kernel __attribute__((reqd_work_group_size(GN, GM, 1))) void product_rows(global const float *restrict a,
                                                                          global const float *restrict b,
                                                                          global const float *restrict bias,
                                                                          global float *restrict c, int count) {
    LOCAL_PARTS;
    int n0 = (int)get_group_id(0) * BN, m0 = (int)get_group_id(1) * BM, rows = count * ROWS_PER_EXAMPLE * PIXELS;
    int slice = (int)get_group_id(2), k0 = slice * SHARE, k1 = min(k0 + SHARE, DEPTH);
    c += (size_t)slice * rows * COLUMNS;
    block(a, b, bias, c, m0, rows, rows - 1, n0, k0, k1, a_part, b_part);
}

/* y (rows, COLUMNS) = act(the sum of the slices, in order, + bias). An item takes C_WIDTH floats. */
#if SLICES > 1
kernel void product_join(global const float *restrict from, global const float *restrict bias, global float *restrict y,
                         int count) {
    size_t floats = (size_t)count * ROWS_PER_EXAMPLE * PIXELS * COLUMNS, i = get_global_id(0) * C_WIDTH;
    if (i >= floats) return;
    float4 sum = fetch(from + i, C_WIDTH);
    for (int s = 1; s < SLICES; s++) sum += fetch(from + (size_t)s * floats + i, C_WIDTH);
#ifdef BIAS
    sum += fetch(bias + i % COLUMNS, C_WIDTH);
#endif
    sum = ACTIVATE(float4, sum);
#if C_WIDTH == 4
    *(global float4 *)(y + i) = sum;
#elif C_WIDTH == 2
    *(global float2 *)(y + i) = sum.xy;
#else
    y[i] = sum.x;
#endif
}
#endif

#else
/* (columns, rows) in blocks, slices. Slice s sums its share of the pixels. */
kernel __attribute__((reqd_work_group_size(GN, GM, 1))) void
product_outer(global const float *restrict a, global const float *restrict b, global float *restrict c, int count) {
    LOCAL_PARTS;
    int n0 = (int)get_group_id(0) * BN, m0 = (int)get_group_id(1) * BM, slice = (int)get_group_id(2);
    int pixels = count * ROWS_PER_EXAMPLE * PIXELS, share = (pixels + SLICES - 1) / SLICES;
    int k0 = min(slice * share, pixels), k1 = min(k0 + share, pixels);
    c += (size_t)slice * DEPTH * COLUMNS;
    block(a, b, 0, c, m0, DEPTH, DEPTH - A_WIDTH, n0, k0, k1, a_part, b_part);
}
#endif
