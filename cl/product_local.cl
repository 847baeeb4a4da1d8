/* Products for devices with work-groups and local memory: SIDE x SIDE work-items make a block of 4 SIDE x 4 SIDE of C,
 * DEEP of the sum at a time through local memory; each makes 4 x 4 of it.
 *
 *   C (m, n) = sum over k of A (m, k) B (k, n)
 *
 * product_rows:  A is the patches of images (IN_H, IN_W, IN_C) as in product_tile.cl, read where they lie: m is an
 *                output pixel of an example, k is (tap, tap, channel). B (DEPTH, COLUMNS), or B_TRANSPOSED (taps,
 *                COLUMNS, IN_C)
 * product_outer: OUTER. C (DEPTH, COLUMNS) = patches^T dz: k is the pixel, cut into SLICES
 * A matrix is an image of one pixel with one tap. */
#define BLOCK (4 * SIDE)
#define ITEMS (SIDE * SIDE)
#define PIXELS (OUT_H * OUT_W)

/* Place `k` of the patch of pixel number `pixel` (of all examples). */
static float patch(global const float *a, int pixel, int k) {
#ifdef MATRIX
    return a[(size_t)pixel * IN_C + k];
#else
    int image = pixel / PIXELS, y = pixel / OUT_W % OUT_H, x = pixel % OUT_W;
    y = y * STEP_H + FIRST_H + k / (IN_C * TAPS_W) * TAP_H;
    x = x * STEP_W + FIRST_W + k / IN_C % TAPS_W * TAP_W;
    if (y < 0 || y % DIVIDE_H != 0 || y / DIVIDE_H >= IN_H) return 0;
    if (x < 0 || x % DIVIDE_W != 0 || x / DIVIDE_W >= IN_W) return 0;
    return a[(((size_t)image * IN_H + y / DIVIDE_H) * IN_W + x / DIVIDE_W) * IN_C + k % IN_C];
#endif
}

#ifdef OUTER
#define A_AT(m, k) patch(a, k, m)
#define B_AT(k, n) b[(size_t)(k) * COLUMNS + (n)]
#else
#define A_AT(m, k) patch(a, m, k)
#ifdef B_TRANSPOSED
#define B_AT(k, n) b[((size_t)((k) / IN_C) * COLUMNS + (n)) * IN_C + (k) % IN_C]
#else
#define B_AT(k, n) b[(size_t)(k) * COLUMNS + (n)]
#endif
#endif

/* Item number i of a block's share of A or B: neighbours take neighbouring floats of memory. */
#define BY_DEPTH(i, side, depth) int side = (i) / DEEP, depth = (i) % DEEP
#define BY_SIDE(i, side, depth) int side = (i) % BLOCK, depth = (i) / BLOCK
#ifdef OUTER
#define A_ITEM BY_SIDE
#else
#define A_ITEM BY_DEPTH
#endif
#ifdef B_TRANSPOSED
#define B_ITEM BY_DEPTH
#else
#define B_ITEM BY_SIDE
#endif

/* The block at (m0, n0), summed over k in [k0, k1): acc[r][q] is row r * SIDE + ly, column q * SIDE + lx of it. Rows
 * and columns at or behind `rows` and COLUMNS are zero. */
static void block(global const float *a, global const float *b, int m0, int rows, int n0, int k0, int k1,
                  local float a_part[DEEP][BLOCK + 1], local float b_part[DEEP][BLOCK + 1], float acc[4][4]) {
    int lx = (int)get_local_id(0), ly = (int)get_local_id(1), item = ly * SIDE + lx;
    float total[4][4];
    UNROLL for (int i = 0; i < 16; i++) acc[i / 4][i % 4] = total[i / 4][i % 4] = 0;
    for (int k = k0, step = 1; k < k1; k += DEEP, step++) {
        for (int i = item; i < BLOCK * DEEP; i += ITEMS) {
            A_ITEM(i, side, depth);
            a_part[depth][side] = m0 + side < rows && k + depth < k1 ? A_AT(m0 + side, k + depth) : 0.0f;
        }
        for (int i = item; i < BLOCK * DEEP; i += ITEMS) {
            B_ITEM(i, side, depth);
            b_part[depth][side] = n0 + side < COLUMNS && k + depth < k1 ? B_AT(k + depth, n0 + side) : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int d = 0; d < DEEP; d++) {
            float av[4], bv[4];
            UNROLL for (int r = 0; r < 4; r++) av[r] = a_part[d][r * SIDE + ly];
            UNROLL for (int q = 0; q < 4; q++) bv[q] = b_part[d][q * SIDE + lx];
            UNROLL for (int r = 0; r < 4; r++) UNROLL for (int q = 0; q < 4; q++) acc[r][q] += av[r] * bv[q];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        if (step % 32 == 0) /* the rounding of a long sum does not grow with its length */
            UNROLL for (int i = 0; i < 16; i++) {
                total[i / 4][i % 4] += acc[i / 4][i % 4];
                acc[i / 4][i % 4] = 0;
            }
    }
    UNROLL for (int i = 0; i < 16; i++) acc[i / 4][i % 4] += total[i / 4][i % 4];
}

#ifndef OUTER
/* (columns, rows) in blocks */
kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void
product_rows(global const float *a, global const float *b, global const float *bias, global float *c, int count) {
    local float a_part[DEEP][BLOCK + 1], b_part[DEEP][BLOCK + 1];
    int n0 = (int)get_group_id(0) * BLOCK, m0 = (int)get_group_id(1) * BLOCK, rows = count * ROWS_PER_EXAMPLE * PIXELS;
    float acc[4][4];
    block(a, b, m0, rows, n0, 0, DEPTH, a_part, b_part, acc);
    for (int r = 0; r < 4; r++) {
        int m = m0 + r * SIDE + (int)get_local_id(1);
        for (int q = 0; q < 4; q++) {
            int n = n0 + q * SIDE + (int)get_local_id(0);
            if (m >= rows || n >= COLUMNS) continue;
#ifdef BIAS
            c[(size_t)m * COLUMNS + n] = ACTIVATE(float, acc[r][q] + bias[n]);
#else
            c[(size_t)m * COLUMNS + n] = ACTIVATE(float, acc[r][q]);
#endif
        }
    }
}

#else
/* (columns, rows) in blocks, slices. Slice s sums its share of the pixels: c (slices, DEPTH, COLUMNS). */
kernel __attribute__((reqd_work_group_size(SIDE, SIDE, 1))) void
product_outer(global const float *a, global const float *b, global float *c, int count) {
    local float a_part[DEEP][BLOCK + 1], b_part[DEEP][BLOCK + 1];
    int n0 = (int)get_group_id(0) * BLOCK, m0 = (int)get_group_id(1) * BLOCK, slice = (int)get_group_id(2);
    int pixels = count * ROWS_PER_EXAMPLE * PIXELS, share = (pixels + SLICES - 1) / SLICES;
    int first = min(slice * share, pixels), end = min(first + share, pixels);
    float acc[4][4];
    block(a, b, m0, DEPTH, n0, first, end, a_part, b_part, acc);
    c += (size_t)slice * DEPTH * COLUMNS;
    for (int r = 0; r < 4; r++) {
        int m = m0 + r * SIDE + (int)get_local_id(1);
        for (int q = 0; q < 4; q++) {
            int n = n0 + q * SIDE + (int)get_local_id(0);
            if (m < DEPTH && n < COLUMNS) c[(size_t)m * COLUMNS + n] = acc[r][q];
        }
    }
}
#endif
