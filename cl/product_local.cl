#include "product_units.cl"

/* Products for devices with work-groups and local memory.
 *
 * A work-group takes BK terms of the sum at a time, through two buffers in local memory. While one buffer is
 * multiplied, the next numbers are loaded from global memory into registers. So one barrier for each step is enough.
 * Matrix units multiply (product_units.cl), or the items multiply by themselves. An item's share is then in squares of
 * 4 x 4, which are GM squares apart downwards and GN across: so neighbouring items read and write neighbouring float4s.
 * REQUIRE: the compiler is told the size of a sub-group. */
#ifdef REQUIRE
#define GROUP __attribute__((reqd_work_group_size(GN, GM, 1), intel_reqd_sub_group_size(GN)))
#else
#define GROUP __attribute__((reqd_work_group_size(GN, GM, 1)))
#endif

#if !defined(UNIT_MMA) && !defined(UNIT_DPAS)
typedef float4 accumulators[TM][TN / 4];

/* acc += the product of the parts of A and B in local memory. */
#if WORD_TERMS == 2
#ifdef UNIT_NATIVE
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#endif
/* sum + the products of both terms of a word. */
ALWAYS_INLINE float dot(uint a, uint b, float sum) {
#ifdef UNIT_NATIVE
    return __builtin_amdgcn_fdot2(as_half2(a), as_half2(b), sum, false);
#else
    sum += vload_half(0, (const half *)&a) * vload_half(0, (const half *)&b);
    return sum + vload_half(1, (const half *)&a) * vload_half(1, (const half *)&b);
#endif
}
ALWAYS_INLINE float4 add_product(uint a, uint4 b, float4 sum) {
    return (float4)(dot(a, b.x, sum.x), dot(a, b.y, sum.y), dot(a, b.z, sum.z), dot(a, b.w, sum.w));
}
#else
ALWAYS_INLINE float4 add_product(float a, float4 b, float4 sum) { return sum + a * b; }
#endif
ALWAYS_INLINE void multiply(const local word *a_part, const local word *b_part, accumulators acc) {
    int lx = (int)get_local_id(0), ly = (int)get_local_id(1);
    UNROLL_STEPS for (int d = 0; d < BK_WORDS; d++) {
        word4 av[TM / 4], bv[TN / 4];
        UNROLL for (int r = 0; r < TM / 4; r++) av[r] =
            *(const local word4 *)(a_part + d * (BM + PAD) + (r * GM + ly) * 4);
        UNROLL for (int q = 0; q < TN / 4; q++) bv[q] =
            *(const local word4 *)(b_part + d * (BN + PAD) + (q * GN + lx) * 4);
        UNROLL for (int r = 0; r < TM / 4; r++) {
            UNROLL for (int q = 0; q < TN / 4; q++) {
                acc[4 * r][q] = add_product(av[r].x, bv[q], acc[4 * r][q]);
                acc[4 * r + 1][q] = add_product(av[r].y, bv[q], acc[4 * r + 1][q]);
                acc[4 * r + 2][q] = add_product(av[r].z, bv[q], acc[4 * r + 2][q]);
                acc[4 * r + 3][q] = add_product(av[r].w, bv[q], acc[4 * r + 3][q]);
            }
        }
    }
}

/* Stores the item's squares of C (rows, COLUMNS): acc, plus what C already has unless `first`. If `last`, the sum is
 * complete, and gets bias and activation. acc is zero afterwards. */
ALWAYS_INLINE void settle(global C_NUMBER *c, global const float *bias, int m0, int rows, int n0, bool first, bool last,
                          accumulators acc) {
    int m = m0 + (int)get_local_id(1) * 4, n = n0 + (int)get_local_id(0) * 4;
    c += (size_t)m * COLUMNS + n;
    UNROLL for (int q = 0; q < TN / 4; q++) {
        int right = q * GN * 4, there = COLUMNS - n - right;
        if (there <= 0) continue;
#ifdef BIAS
        float4 add = last ? load_floats(bias + n + right, there) : (float4)0;
#endif
        UNROLL for (int r = 0; r < TM; r++) {
            int down = r / 4 * GM * 4 + r % 4;
            if (down >= rows - m) continue;
            global C_NUMBER *to = c + down * COLUMNS + right;
            float4 v = acc[r][q];
            if (!first) v += load_c(to, there);
#ifdef BIAS
            v += add;
#endif
            store_c(to, there, last ? ACTIVATE(float4, v) : v);
            acc[r][q] = 0;
        }
    }
}
#endif

/* Makes the block at (m0, n0) of C, summed over k in [k0, k1). If the sum is long, it is added to C every BLOCKED
 * terms, so that rounding does not grow with its length: registers have no room for a second sum. */
ALWAYS_INLINE void block(global const A_NUMBER *a, global const B_NUMBER *b, global const float *bias,
                         global C_NUMBER *c, int m0, int rows, int m_last, int n0, int k0, int k1, local word *a_part,
                         local word *b_part) {
    int item = (int)get_local_id(1) * GN + (int)get_local_id(0), k = k0;
    accumulators acc;
    a_numbers a_way;
    b_numbers b_way;
    UNROLL for (int i = 0; i < sizeof acc / sizeof acc[0]; i++)
        UNROLL for (int j = 0; j < sizeof acc[0] / sizeof acc[0][0]; j++) acc[i][j] = 0;
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
            multiply(a_part + now * A_WORDS, b_part + now * B_WORDS, acc);
            if (more) put(a_part + (now ^ 1) * A_WORDS, b_part + (now ^ 1) * B_WORDS, item, a_way, b_way);
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
    local word a_part[2 * A_WORDS] __attribute__((aligned(16)));                                                       \
    local word b_part[2 * B_WORDS] __attribute__((aligned(16)))

/* Work-groups: (blocks of columns, blocks of rows, slices). Slice s sums its share of the depth. */
#ifndef OUTER
kernel GROUP void product_rows(global const A_NUMBER *restrict a, global const B_NUMBER *restrict b,
                               global const float *restrict bias, global C_NUMBER *restrict c, int count) {
    LOCAL_PARTS;
    int n0 = (int)get_group_id(0) * BN, m0 = (int)get_group_id(1) * BM, rows = count * ROWS_PER_EXAMPLE * PIXELS;
    int slice = (int)get_group_id(2), k0 = slice * SHARE, k1 = min(k0 + SHARE, DEPTH);
    c += (size_t)slice * rows * COLUMNS;
    block(a, b, bias, c, m0, rows, rows - 1, n0, k0, k1, a_part, b_part);
}

#else
/* Work-groups: (blocks of columns, blocks of rows, slices). Slice s sums its share of the pixels. */
kernel GROUP void product_outer(global const A_NUMBER *restrict a, global const B_NUMBER *restrict b,
                                global C_NUMBER *restrict c, int count) {
    LOCAL_PARTS;
    int n0 = (int)get_group_id(0) * BN, m0 = (int)get_group_id(1) * BM, slice = (int)get_group_id(2);
    int pixels = count * ROWS_PER_EXAMPLE * PIXELS, share = (pixels + SLICES - 1) / SLICES;
    int k0 = min(slice * share, pixels), k1 = min(k0 + share, pixels);
    c += (size_t)slice * DEPTH * COLUMNS;
    block(a, b, 0, c, m0, DEPTH, DEPTH - A_WIDTH, n0, k0, k1, a_part, b_part);
}
#endif
