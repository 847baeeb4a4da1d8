#include "product_patch.cl"

/* Products for devices with sub-groups. The items of a sub-group share numbers through their registers. Nothing goes
 * through local memory, so no barrier is needed either.
 *
 * A sub-group of GN items makes TM rows of C by GN * TN columns. An item makes those columns that are GN apart, from
 * its own place on. A work-group is GM sub-groups, one below the other. Each item loads its numbers of B from memory.
 * Numbers of A are loaded by one item each, which broadcasts them. REQUIRE: the compiler is told the size of a
 * sub-group. */
#ifdef cl_khr_subgroups
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#endif
#ifdef REQUIRE
#define SUB_GROUPS __attribute__((reqd_work_group_size(GN, GM, 1), intel_reqd_sub_group_size(GN)))
#else
#define SUB_GROUPS __attribute__((reqd_work_group_size(GN, GM, 1)))
#endif

/* How many terms of B are fetched at a time. */
#ifdef B_TRANSPOSED
#define AT_A_TIME B_WIDTH
#else
#define AT_A_TIME 1
#endif
#define COLUMN(j) min(n0 + (j)*GN, COLUMNS - 1)

/* acc += one term. */
ALWAYS_INLINE void add_term(const float a[TM], const float b[TN], float acc[TM][TN]) {
    UNROLL for (int i = 0; i < TM; i++) UNROLL for (int j = 0; j < TN; j++) acc[i][j] += a[i] * b[j];
}

/* Stores the item's numbers of C from row m0 and column n0 on: acc, plus what C already has unless `first`. If `last`,
 * the sum is complete, and gets bias and activation. acc is zero afterwards. */
ALWAYS_INLINE void settle(global C_NUMBER *c, global const float *bias, int m0, int rows, int n0, bool first, bool last,
                          float acc[TM][TN]) {
    UNROLL for (int j = 0; j < TN; j++) {
        int n = n0 + j * GN;
        if (n >= COLUMNS) continue;
#ifdef BIAS
        float add = last ? bias[n] : 0;
#endif
        UNROLL for (int i = 0; i < TM; i++) {
            if (m0 + i >= rows) continue;
            global C_NUMBER *to = c + (size_t)(m0 + i) * COLUMNS + n;
            float v = acc[i][j];
            if (!first) v += load_one(to);
#ifdef BIAS
            v += add;
#endif
            store_one(to, last ? ACTIVATE(float, v) : v);
            acc[i][j] = 0;
        }
    }
}

#ifndef OUTER
/* Adds terms k to end - 1, at most GN. Item l loads term k + l of A's rows. */
ALWAYS_INLINE void add_terms(global const A_NUMBER *a, global const B_NUMBER *b, int lane, int m0, int m_last, int n0,
                             int k, int end, float acc[TM][TN]) {
    float own[TM];
    UNROLL for (int i = 0; i < TM; i++) own[i] = A_AT(min(m0 + i, m_last), min(k + lane, DEPTH - 1), 1).x;
    UNROLL for (int l = 0; l < GN; l += AT_A_TIME) {
        if (K_ENDS && k + l >= end) break;
        float4 fetched[TN];
        UNROLL for (int j = 0; j < TN; j++) fetched[j] = B_AT(k + l, COLUMN(j), AT_A_TIME);
        UNROLL for (int t = 0; t < AT_A_TIME; t++) {
            float terms[TM], b_terms[TN];
            UNROLL for (int i = 0; i < TM; i++) terms[i] = sub_group_broadcast(own[i], l + t);
            UNROLL for (int j = 0; j < TN; j++) b_terms[j] = ((const float *)&fetched[j])[t];
            add_term(terms, b_terms, acc);
        }
    }
}
#else
/* Adds terms k to end - 1, at most BK. Item l loads those rows of A that are GN apart, from row l on. */
ALWAYS_INLINE void add_terms(global const A_NUMBER *a, global const B_NUMBER *b, int lane, int m0, int m_last, int n0,
                             int k, int end, float acc[TM][TN]) {
    UNROLL for (int l = 0; l < BK; l++) {
        if (k + l >= end) break;
        float own[(TM + GN - 1) / GN], terms[TM], b_terms[TN];
        UNROLL for (int i = 0; i < TM; i += GN) own[i / GN] = A_AT(min(m0 + i + lane, m_last), k + l, 1).x;
        UNROLL for (int i = 0; i < TM; i++) terms[i] = sub_group_broadcast(own[i / GN], i % GN);
        UNROLL for (int j = 0; j < TN; j++) b_terms[j] = B_AT(k + l, COLUMN(j), 1).x;
        add_term(terms, b_terms, acc);
    }
}
#endif

/* Makes the sub-group's part of C at (m0, n0), summed over k in [k0, k1). If the sum is long, it is added to C every
 * BLOCKED terms. */
ALWAYS_INLINE void part(global const A_NUMBER *a, global const B_NUMBER *b, global const float *bias,
                        global C_NUMBER *c, int m0, int rows, int n0, int k0, int k1) {
    int lane = (int)get_sub_group_local_id(), k = k0;
    float acc[TM][TN];
    UNROLL for (int i = 0; i < TM * TN; i++) acc[i / TN][i % TN] = 0;
    m0 += (int)get_sub_group_id() * TM;
    n0 += lane;
    do {
#ifdef BLOCKED
        int end = min(k + BLOCKED, k1);
#else
        int end = k1;
#endif
        bool first = k == k0;
        for (; k < end; k += BK) add_terms(a, b, lane, m0, rows - 1, n0, k, end, acc);
        k = end;
        settle(c, bias, m0, rows, n0, first, SLICES == 1 && k == k1, acc);
    } while (k < k1);
}

/* Work-groups: (blocks of columns, blocks of rows, slices). Slice s sums its share of the depth. */
#ifndef OUTER
kernel SUB_GROUPS void product_rows(global const A_NUMBER *restrict a, global const B_NUMBER *restrict b,
                                    global const float *restrict bias, global C_NUMBER *restrict c, int count) {
    int n0 = (int)get_group_id(0) * BN, m0 = (int)get_group_id(1) * BM, rows = count * ROWS_PER_EXAMPLE * PIXELS;
    int slice = (int)get_group_id(2), k0 = slice * SHARE, k1 = min(k0 + SHARE, DEPTH);
    c += (size_t)slice * rows * COLUMNS;
    part(a, b, bias, c, m0, rows, n0, k0, k1);
}
#else
/* Work-groups: (blocks of columns, blocks of rows, slices). Slice s sums its share of the pixels. */
kernel SUB_GROUPS void product_outer(global const A_NUMBER *restrict a, global const B_NUMBER *restrict b,
                                     global C_NUMBER *restrict c, int count) {
    int n0 = (int)get_group_id(0) * BN, m0 = (int)get_group_id(1) * BM, slice = (int)get_group_id(2);
    int pixels = count * ROWS_PER_EXAMPLE * PIXELS, share = (pixels + SLICES - 1) / SLICES;
    int k0 = min(slice * share, pixels), k1 = min(k0 + share, pixels);
    c += (size_t)slice * DEPTH * COLUMNS;
    part(a, b, 0, c, m0, DEPTH, n0, k0, k1);
}
#endif
