#include "product_stage.cl"

/* Matrix units multiply small matrices whose numbers are spread over the registers of a sub-group.
 *
 * UNIT_MMA:  NVIDIA's mma.sync (PTX ISA, "Matrix multiply-accumulate operation using mma instruction"): 16 x 8 results
 *            by 8 words in depth, 32 items.
 * UNIT_DPAS: Intel's (cl_intel_subgroup_matrix_multiply_accumulate): 8 results by the sub-group's 8 or 16, 8 words.
 * Both take F16 or BF16. UNIT_MMA takes TF32, too: floats of which the unit reads the upper 19 bits. Sums are floats.
 * EXACT: a float is split into two TF32 numbers, and three of the four products are added, which is as good as a
 * product of floats.
 *
 * A sub-group of GN items makes WARP_M x WARP_N of a work-group's results. Sub-groups lie in columns of BM / WARP_M.
 * Devices without the unit imitate it: items hand numbers round by shuffles or broadcasts, and the products are what
 * the unit's are meant to be. */
#if defined(UNIT_MMA) || defined(UNIT_DPAS)

#define WARPS_M (BM / WARP_M)
#define LANE ((int)get_local_id(0))
#define WARP_ROW ((int)get_local_id(1) % WARPS_M * WARP_M)
#define WARP_COLUMN ((int)get_local_id(1) / WARPS_M * WARP_N)

#ifndef UNIT_NATIVE
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#ifdef cl_khr_subgroup_shuffle
#pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
#endif
#endif

#if WORD_TERMS == 2
#define FRAGMENT uint
#else
/* Rounds to the nearest number with ten bits after the point. */
ALWAYS_INLINE float to_tf32(float v) {
#if defined(UNIT_NATIVE) && defined(UNIT_MMA)
    uint out;
    __asm__("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(v));
    return as_float(out);
#else
    return isfinite(v) ? as_float((as_uint(v) + 0x1000u) & ~0x1fffu) : v;
#endif
}
/* The two numbers that together are v. The upper one is what a unit reads of v, and its size is no larger. (If v is
 * infinite, the lower one is NaN.) */
ALWAYS_INLINE float upper(float v) { return as_float(as_uint(v) & ~0x1fffu); }
ALWAYS_INLINE float lower(float v) { return to_tf32(v - upper(v)); }
#define FRAGMENT float
#endif

#ifndef UNIT_NATIVE
/* sum + the product of two words, which have one term or two. */
ALWAYS_INLINE float add_words(FRAGMENT a, FRAGMENT b, float sum) {
#if defined(F16)
    sum = fma(vload_half(0, (const half *)&a), vload_half(0, (const half *)&b), sum);
    return fma(vload_half(1, (const half *)&a), vload_half(1, (const half *)&b), sum);
#elif defined(BF16)
    sum = fma(as_float(a << 16), as_float(b << 16), sum);
    return fma(as_float(a & 0xffff0000u), as_float(b & 0xffff0000u), sum);
#else
    return fma(a, b, sum);
#endif
}
#endif

#endif

/* Registers are reached only by constants, so loops over them are unrolled. Imitations use no such registers, and
 * compile ten times as fast if their loops are not unrolled. */
#ifdef UNIT_NATIVE
#define UNROLL_TILES UNROLL
#else
#define UNROLL_TILES _Pragma("nounroll")
#endif
/* Split numbers take twice the registers: overlapping steps would take all of them, and a core would hold half as much
 * work. */
#ifdef EXACT
#define UNIT_STEPS _Pragma("nounroll")
#else
#define UNIT_STEPS UNROLL_STEPS
#endif

#ifdef UNIT_MMA
#define TILES_M (WARP_M / 16)
#define TILES_N (WARP_N / 8)
/* Item l has rows l / 4 and l / 4 + 8, columns l % 4 * 2 and the next, of each 16 x 8 results. */
typedef float4 accumulators[TILES_M][TILES_N];

/* sum += A B. a: the item's words of A (16, 8): row l / 4, word l % 4; the one 8 rows below; the one 4 words after; the
 * one both below and after. b: the item's words of B (8, 8): word l % 4, column l / 4; the one 4 words after. */
ALWAYS_INLINE float4 mma(const FRAGMENT a[4], const FRAGMENT b[2], float4 sum) {
#ifdef UNIT_NATIVE
#if WORD_TERMS == 1
    __asm__ volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
                     : "r"(as_uint(a[0])), "r"(as_uint(a[1])), "r"(as_uint(a[2])), "r"(as_uint(a[3])),
                       "r"(as_uint(b[0])), "r"(as_uint(b[1])));
#elif defined(F16)
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    __asm__ volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(sum.x), "+f"(sum.y), "+f"(sum.z), "+f"(sum.w)
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
#else
    int row = LANE / 4, column = LANE % 4 * 2;
    float *out = (float *)&sum;
    for (int k = 0; k < 8; k++)
        for (int i = 0; i < 4; i++) {
            FRAGMENT upper = sub_group_shuffle(a[k / 4 * 2], (uint)(row * 4 + k % 4));
            FRAGMENT lower = sub_group_shuffle(a[k / 4 * 2 + 1], (uint)(row * 4 + k % 4));
            FRAGMENT right = sub_group_shuffle(b[k / 4], (uint)((column + i % 2) * 4 + k % 4));
            out[i] = add_words(i < 2 ? upper : lower, right, out[i]);
        }
#endif
    return sum;
}

/* acc += the product of the parts of A and B in local memory. */
ALWAYS_INLINE void multiply(const local word *a_part, const local word *b_part, accumulators acc) {
    a_part += LANE % 4 * (BM + PAD) + WARP_ROW + LANE / 4;
    b_part += LANE % 4 * (BN + PAD) + WARP_COLUMN + LANE / 4;
    UNIT_STEPS for (int d = 0; d < BK_WORDS; d += 8) {
        FRAGMENT b[TILES_N][2];
        UNROLL_TILES for (int j = 0; j < TILES_N; j++) UNROLL_TILES for (int e = 0; e < 2; e++) b[j][e] =
            b_part[(d + e * 4) * (BN + PAD) + j * 8];
#ifdef EXACT
        FRAGMENT b_low[TILES_N][2];
        UNROLL_TILES for (int j = 0; j < TILES_N; j++) UNROLL_TILES for (int e = 0; e < 2; e++) {
            b_low[j][e] = lower(b[j][e]);
            b[j][e] = upper(b[j][e]);
        }
#elif WORD_TERMS == 1
        UNROLL_TILES for (int j = 0; j < TILES_N; j++) UNROLL_TILES for (int e = 0; e < 2; e++) b[j][e] =
            to_tf32(b[j][e]);
#endif
        UNROLL_TILES for (int i = 0; i < TILES_M; i++) {
            FRAGMENT a[4];
            UNROLL_TILES for (int e = 0; e < 4; e++) a[e] = a_part[(d + e / 2 * 4) * (BM + PAD) + i * 16 + e % 2 * 8];
#ifdef EXACT
            FRAGMENT a_low[4];
            UNROLL_TILES for (int e = 0; e < 4; e++) {
                a_low[e] = lower(a[e]);
                a[e] = upper(a[e]);
            }
            /* Units truncate their sums instead of rounding them, so longer sums are made here. */
            UNROLL_TILES for (int j = 0; j < TILES_N; j++) acc[i][j] +=
                mma(a, b[j], mma(a, b_low[j], mma(a_low, b[j], (float4)0)));
#else
#if WORD_TERMS == 1
            UNROLL_TILES for (int e = 0; e < 4; e++) a[e] = to_tf32(a[e]);
#endif
            UNROLL_TILES for (int j = 0; j < TILES_N; j++) acc[i][j] = mma(a, b[j], acc[i][j]);
#endif
        }
    }
}

/* Stores two neighbours of C at p, of which `there` exist. */
ALWAYS_INLINE void settle_pair(global C_NUMBER *p, int there, float2 v, float2 add, bool first, bool last) {
    if (there <= 0) return;
    if (!first) v += (float2)(load_one(p), there > 1 ? load_one(p + 1) : 0);
    v += add;
    if (last) v = ACTIVATE(float2, v);
#if C_WIDTH > 1
    WRITE_PACK(BLOCK_STORAGE, 2, v, p);
#else
    store_one(p, v.x);
    if (there > 1) store_one(p + 1, v.y);
#endif
}

/* Stores the sub-group's numbers of C (rows, COLUMNS): acc, plus what C already has unless `first`. If `last`, the sum
 * is complete, and gets bias and activation. acc is zero afterwards. */
ALWAYS_INLINE void settle(global C_NUMBER *c, global const float *bias, int m0, int rows, int n0, bool first, bool last,
                          accumulators acc) {
    int m = m0 + WARP_ROW + LANE / 4, n = n0 + WARP_COLUMN + LANE % 4 * 2;
    c += (size_t)m * COLUMNS + n;
    UNROLL_TILES for (int j = 0; j < TILES_N; j++) {
        int there = COLUMNS - n - j * 8;
        float2 add = 0;
#ifdef BIAS
        if (last && there > 0) add = (float2)(bias[n + j * 8], there > 1 ? bias[n + j * 8 + 1] : 0);
#endif
        UNROLL_TILES for (int i = 0; i < TILES_M; i++) {
            global C_NUMBER *to = c + (size_t)(i * 16) * COLUMNS + j * 8;
            if (m + i * 16 < rows) settle_pair(to, there, acc[i][j].xy, add, first, last);
            if (m + i * 16 + 8 < rows) settle_pair(to + 8 * COLUMNS, there, acc[i][j].zw, add, first, last);
            acc[i][j] = 0;
        }
    }
}
#endif

#ifdef UNIT_DPAS
#define TILES_M (WARP_M / 8)
#define TILES_N (WARP_N / GN)
/* Item l has the 8 rows of column l of each 8 x GN results. */
typedef float8 accumulators[TILES_M][TILES_N];

/* The words of 8 rows of A (8, 8): item l has word l of each row. In sub-groups of 16, it has number l, half a word. */
#if GN == 8
typedef int8 a_fragment;
#else
typedef short8 a_fragment;
#endif

/* sum += A B. b: item l has the 8 words of column l of B (8, GN). */
ALWAYS_INLINE float8 dpas(a_fragment a, int8 b, float8 sum) {
#if defined(UNIT_NATIVE) && defined(F16)
    return intel_sub_group_f16_f16_matrix_mad_k16(a, b, sum);
#elif defined(UNIT_NATIVE)
    return intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, sum);
#else
    for (int r = 0; r < 8; r++)
        for (int k = 0; k < 8; k++) {
#if GN == 8
            uint pair_of_a = as_uint(sub_group_broadcast(((const int *)&a)[r], k));
#else
            int number = ((const short *)&a)[r];
            uint low = (uint)sub_group_broadcast(number, 2 * k), high = (uint)sub_group_broadcast(number, 2 * k + 1);
            uint pair_of_a = (low & 0xffffu) | high << 16;
#endif
            ((float *)&sum)[r] = add_words(pair_of_a, as_uint(((const int *)&b)[k]), ((const float *)&sum)[r]);
        }
    return sum;
#endif
}

ALWAYS_INLINE a_fragment load_a(const local word *a_part) {
    a_fragment a;
#if GN == 8
    UNROLL_TILES for (int r = 0; r < 8; r++)((int *)&a)[r] = as_int(a_part[LANE * (BM + PAD) + r]);
#else
    const local short *numbers = (const local short *)(a_part + LANE / 2 * (BM + PAD)) + LANE % 2;
    UNROLL_TILES for (int r = 0; r < 8; r++)((short *)&a)[r] = numbers[2 * r];
#endif
    return a;
}

/* acc += the product of the parts of A and B in local memory. */
ALWAYS_INLINE void multiply(const local word *a_part, const local word *b_part, accumulators acc) {
    a_part += WARP_ROW;
    b_part += WARP_COLUMN + LANE;
    UNROLL_STEPS for (int d = 0; d < BK_WORDS; d += 8) {
        int8 b[TILES_N];
        UNROLL_TILES for (int j = 0; j < TILES_N; j++) UNROLL_TILES for (int k = 0; k < 8; k++)((int *)&b[j])[k] =
            as_int(b_part[(d + k) * (BN + PAD) + j * GN]);
        UNROLL_TILES for (int i = 0; i < TILES_M; i++) {
            a_fragment a = load_a(a_part + d * (BM + PAD) + i * 8);
            UNROLL_TILES for (int j = 0; j < TILES_N; j++) acc[i][j] = dpas(a, b[j], acc[i][j]);
        }
    }
}

/* As settle of UNIT_MMA. */
ALWAYS_INLINE void settle(global C_NUMBER *c, global const float *bias, int m0, int rows, int n0, bool first, bool last,
                          accumulators acc) {
    int m = m0 + WARP_ROW, n = n0 + WARP_COLUMN + LANE;
    c += (size_t)m * COLUMNS + n;
    UNROLL_TILES for (int j = 0; j < TILES_N; j++) {
        bool there = n + j * GN < COLUMNS;
        float add = 0;
#ifdef BIAS
        if (last && there) add = bias[n + j * GN];
#endif
        UNROLL_TILES for (int i = 0; i < TILES_M; i++) {
            UNROLL_TILES for (int r = 0; r < 8; r++) {
                global C_NUMBER *to = c + (size_t)(i * 8 + r) * COLUMNS + j * GN;
                if (!there || m + i * 8 + r >= rows) continue;
                float v = ((const float *)&acc[i][j])[r] + add;
                if (!first) v += load_one(to);
                store_one(to, last ? ACTIVATE(float, v) : v);
            }
            acc[i][j] = 0;
        }
    }
}
#endif
