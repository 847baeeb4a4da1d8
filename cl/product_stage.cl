#include "product_patch.cl"

/* Moves blocks of A and B to local memory: from global memory into registers while other blocks are multiplied, then
 * into local memory as words, (depth, rows or columns). A word is a float. With F16 or BF16, it is two neighbours in
 * depth of 16 bits each, the first in the lower bits. After the last term of a sum there are zeros. */
#define ITEMS (GM * GN)
#if defined(F16) || defined(BF16)
#define WORD_TERMS 2
typedef uint word;
typedef uint2 word2;
typedef uint4 word4;
#else
#define WORD_TERMS 1
typedef float word;
typedef float2 word2;
typedef float4 word4;
#endif
#define BK_WORDS (BK / WORD_TERMS)
/* The words of one of the two buffers. PAD words follow every BM or BN: neighbouring items store neighbours in depth,
 * which lie a row apart. UNIT_MMA reads words of four rows at a time, which PAD puts into different banks
 * (product_local.c). */
#define A_WORDS (BK_WORDS * (BM + PAD))
#define B_WORDS (BK_WORDS * (BN + PAD))

/* Arrays stay in registers if loops over them are unrolled. CPUs have no use for that, and PoCL takes ten seconds to
 * compile it. */
#ifdef ROLLED
#define UNROLL_LOADS _Pragma("nounroll")
#define UNROLL_STEPS _Pragma("nounroll")
#else
#define UNROLL_LOADS UNROLL
#define UNROLL_STEPS _Pragma("unroll 2")
#endif

/* A part is what an item loads at a time. By depth, a part is DEEP(width) neighbouring terms of a row, in one or two
 * loads. By side, it is `width` neighbours in each of WORD_TERMS rows. Neighbouring parts are neighbours in memory. */
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define DEEP(width) MAX(width, WORD_TERMS)
#define BY_DEPTH(i, SIDE, width, side, depth)                                                                          \
    int side = (i) / (BK / DEEP(width)), depth = (i) % (BK / DEEP(width)) * DEEP(width)
#define BY_SIDE(i, SIDE, width, side, depth)                                                                           \
    int side = (i) % ((SIDE) / (width)) * (width), depth = (i) / ((SIDE) / (width)) * WORD_TERMS
#define DEPTH_LOADS(width) (DEEP(width) / (width)) /* loads of a part */
#define SIDE_LOADS(width) WORD_TERMS
#define DEPTH_STEP(width) (width) /* in depth, from one load to the next */
#define SIDE_STEP(width) 1

#ifdef OUTER
#define A_BY(name) CLQ_JOIN(SIDE_, name)(A_WIDTH)
#define A_PART BY_SIDE
#define A_PARTS (BM / A_WIDTH * BK_WORDS)
#else
#define A_BY(name) CLQ_JOIN(DEPTH_, name)(A_WIDTH)
#define A_PART BY_DEPTH
#define A_PARTS (BM * (BK / DEEP(A_WIDTH)))
#endif
#ifdef B_TRANSPOSED
#define B_BY(name) CLQ_JOIN(DEPTH_, name)(B_WIDTH)
#define B_PART BY_DEPTH
#define B_PARTS (BN * (BK / DEEP(B_WIDTH)))
#define B_ACROSS 1 /* columns that a load takes */
#else
#define B_BY(name) CLQ_JOIN(SIDE_, name)(B_WIDTH)
#define B_PART BY_SIDE
#define B_PARTS (BN / B_WIDTH * BK_WORDS)
#define B_ACROSS B_WIDTH
#endif
#define A_LOADS ((A_PARTS + ITEMS - 1) / ITEMS)
#define B_LOADS ((B_PARTS + ITEMS - 1) / ITEMS)
/* Whether the item has an l-th part. */
#define THERE(l, PARTS) (PARTS % ITEMS == 0 || (l)*ITEMS + item < PARTS)

/* The numbers of one step, in registers. */
typedef float4 a_numbers[A_LOADS][A_BY(LOADS)];
typedef float4 b_numbers[B_LOADS][B_BY(LOADS)];

/* Loads the numbers of one step. No load depends on a condition. Rows and columns after the last repeat the last one,
 * and their results are not stored. Terms after the last also repeat the last one, and count as zeros. */
ALWAYS_INLINE void take(global const A_NUMBER *a, global const B_NUMBER *b, int item, int m0, int m_last, int n0, int k,
                        int k1, a_numbers a_way, b_numbers b_way) {
    UNROLL_LOADS for (int l = 0; l < A_LOADS; l++) {
        A_PART(l * ITEMS + item, BM, A_WIDTH, side, depth);
        depth += k;
        for (int i = 0; i < A_BY(LOADS); i++, depth += A_BY(STEP)) {
            float4 v = A_AT(min(m0 + side, m_last), min(depth, A_LAST(k1, A_WIDTH)), A_WIDTH);
            a_way[l][i] = !K_ENDS || depth < k1 ? v : (float4)0;
        }
    }
    UNROLL_LOADS for (int l = 0; l < B_LOADS; l++) {
        B_PART(l * ITEMS + item, BN, B_WIDTH, side, depth);
        depth += k;
        for (int i = 0; i < B_BY(LOADS); i++, depth += B_BY(STEP)) {
            float4 v = B_AT(min(depth, B_LAST(k1, B_WIDTH)), min(n0 + side, COLUMNS - B_ACROSS), B_WIDTH);
            b_way[l][i] = !K_ENDS || depth < k1 ? v : (float4)0;
        }
    }
}

#if WORD_TERMS == 2
#ifdef F16
ALWAYS_INLINE uint number16(float v) {
    ushort bits;
    vstore_half(v, 0, (half *)&bits);
    return bits;
}
#else
/* Rounds to the nearest, ties to even; NaN stays NaN. */
ALWAYS_INLINE uint number16(float v) {
    uint bits = as_uint(v);
    return (v != v ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
}
#endif
ALWAYS_INLINE uint pair(float first, float second) { return number16(first) | number16(second) << 16; }
#endif

/* Puts a part by depth into local memory: its words lie `stride` apart. */
ALWAYS_INLINE void put_by_depth(local word *p, int width, int stride, const float4 *v) {
#if WORD_TERMS == 2
    if (width == 1) {
        p[0] = pair(v[0].x, v[1].x);
        return;
    }
    p[0] = pair(v[0].x, v[0].y);
    if (width == 4) p[stride] = pair(v[0].z, v[0].w);
#else
    p[0] = v[0].x;
    if (width >= 2) p[stride] = v[0].y;
    if (width == 4) p[2 * stride] = v[0].z;
    if (width == 4) p[3 * stride] = v[0].w;
#endif
}

/* Puts a part by side into local memory: its words lie side by side. */
ALWAYS_INLINE void put_by_side(local word *p, int width, const float4 *v) {
#if WORD_TERMS == 2
    word4 words = (word4)(pair(v[0].x, v[1].x), pair(v[0].y, v[1].y), pair(v[0].z, v[1].z), pair(v[0].w, v[1].w));
#else
    word4 words = v[0];
#endif
    if (width == 4)
        *(local word4 *)p = words;
    else if (width == 2)
        *(local word2 *)p = words.xy;
    else
        *p = words.x;
}

ALWAYS_INLINE void put(local word *a_part, local word *b_part, int item, const a_numbers a_way, const b_numbers b_way) {
    UNROLL_LOADS for (int l = 0; l < A_LOADS; l++) {
        A_PART(l * ITEMS + item, BM, A_WIDTH, side, depth);
        if (!THERE(l, A_PARTS)) continue;
        local word *to = a_part + depth / WORD_TERMS * (BM + PAD) + side;
#ifdef OUTER
        put_by_side(to, A_WIDTH, a_way[l]);
#else
        put_by_depth(to, A_WIDTH, BM + PAD, a_way[l]);
#endif
    }
    UNROLL_LOADS for (int l = 0; l < B_LOADS; l++) {
        B_PART(l * ITEMS + item, BN, B_WIDTH, side, depth);
        if (!THERE(l, B_PARTS)) continue;
        local word *to = b_part + depth / WORD_TERMS * (BN + PAD) + side;
#ifdef B_TRANSPOSED
        put_by_depth(to, B_WIDTH, BN + PAD, b_way[l]);
#else
        put_by_side(to, B_WIDTH, b_way[l]);
#endif
    }
}
