/* The transforms of Winograd's F(4x4, 3x3), as in winograd_2x2.cl: 4x4 outputs y from 6x6 inputs d and 3x3 taps g, with
 * 36 products per channel instead of 144. The six points are 0, NEAR, -NEAR, FAR, -FAR and infinity. For a finite point
 * p, let q be the other finite points, and N the product of p - q over them. A has the row (1, p, p^2, p^3), G the row
 * (1, p, p^2) / N, and B^T the coefficients of the product of x - q over them. For infinity, A and G have the last unit
 * vector, and B^T the coefficients of the product of x - q over all finite points (Toom, Cook; Lavin and Gray, CVPR
 * 2016).
 *
 * Here, NEAR and FAR are 3/4 and 3/2. They are exact numbers, as are their products in A and B. Rounding loses half as
 * much as with the usual 1 and 2 (docs/decisions/030).
 *
 * One column is in use at a time. The rows of a column come in the order NEAR, -NEAR, FAR, -FAR, 0, infinity: users
 * make sums and differences of two opposite points first. CHANNELS channels of an image (IN_H, IN_W, IN_C) are
 * transformed. */
#if SIDE >= 4
#if SIDE == 8 || STRIDE == 2 /* winograd_strided.cl */
#define NEAR 0.5f
#else
#define NEAR 0.75f
#endif
#define FAR 1.5f
#define NEAR_2 (NEAR * NEAR)
#define FAR_2 (FAR * FAR)

/* As in winograd_2x2.cl. kept: the second and the third row. */
ALWAYS_INLINE void join_pair(int pair, floatv *acc, floatv *other, floatv *kept) {
    floatv sum = *acc + *other, difference = *acc - *other;
    if (pair == 0) {
        kept[0] = NEAR * difference, kept[1] = sum;
        *acc = *other = 0;
    } else {
        *acc = kept[1] + sum, *other = NEAR_2 * kept[0] + FAR * FAR_2 * difference;
        kept[0] += FAR * difference, kept[1] = NEAR_2 * kept[1] + FAR_2 * sum;
    }
}

ALWAYS_INLINE floatv row_of(int r, floatv acc, floatv other, const floatv *kept) {
    return r == 0 ? acc : r == 3 ? other : kept[r - 1];
}
#endif

#if SIDE == 4 && STRIDE == 1
#define POINTS 6
#define LINES POINTS
#define TAPS_OF(line) (line)
#define WIDTH (NR * VEC)
#define ROW_OF(slot) ((slot) < 4 ? (slot) + 1 : ((slot)-4) * 5)
/* 1 / N of the points 0, NEAR and FAR */
#define AT_ZERO (1 / (NEAR_2 * FAR_2))
#define AT_NEAR (1 / (2 * NEAR_2 * (NEAR_2 - FAR_2)))
#define AT_FAR (1 / (2 * FAR_2 * (FAR_2 - NEAR_2)))

/* G g for three taps in a row. */
ALWAYS_INLINE void from_taps(floatv a, floatv b, floatv c, floatv *to) {
    floatv near = AT_NEAR * (a + NEAR_2 * c), near_odd = AT_NEAR * NEAR * b, far = AT_FAR * (a + FAR_2 * c),
           far_odd = AT_FAR * FAR * b;
    to[0] = AT_ZERO * a, to[1] = near + near_odd, to[2] = near - near_odd;
    to[3] = far + far_odd, to[4] = far - far_odd, to[5] = c;
}

/* G^T m. */
ALWAYS_INLINE void to_taps(const floatv *m, floatv *to) {
    floatv near = AT_NEAR * (m[1] + m[2]), far = AT_FAR * (m[3] + m[4]);
    to[0] = AT_ZERO * m[0] + near + far;
    to[1] = AT_NEAR * NEAR * (m[1] - m[2]) + AT_FAR * FAR * (m[3] - m[4]);
    to[2] = NEAR_2 * near + FAR_2 * far + m[5];
}

/* A z, in the order of slots. */
ALWAYS_INLINE void from_outputs(const floatv *z, floatv *slots) {
    floatv near = z[0] + NEAR_2 * z[2], near_odd = NEAR * (z[1] + NEAR_2 * z[3]), far = z[0] + FAR_2 * z[2],
           far_odd = FAR * (z[1] + FAR_2 * z[3]);
    slots[0] = near + near_odd, slots[1] = near - near_odd, slots[2] = far + far_odd, slots[3] = far - far_odd;
    slots[4] = z[0], slots[5] = z[3];
}

/* The point of column j, 1 to 4: NEAR, -NEAR, FAR, -FAR. */
ALWAYS_INLINE float point_of(int j) { return (j % 2 ? 1 : -1) * (j < 3 ? NEAR : FAR); }

ALWAYS_INLINE void add_across(int j, floatv row, floatv *y) {
    const float point = point_of(j), square = point * point;
    floatv odd = point * row;
    if (j == 0)
        y[0] = row;
    else if (j == 1)
        y[0] += row, y[NR] = odd, y[2 * NR] = square * row, y[3 * NR] = square * odd;
    else if (j < 5)
        y[0] += row, y[NR] += odd, y[2 * NR] += square * row, y[3 * NR] += square * odd;
    else
        y[3 * NR] += row;
}

#ifdef BLOCK
/* Element j of A z for a row of four gradients of outputs, of which the first `inside` lie inside the output. */
ALWAYS_INLINE floatv winograd_gradient_at(global const STORED(B_STORAGE) * z, int inside, int j) {
    const float point = point_of(j);
    floatv sum = 0;
    if (j == 0) return READ_V_ALIGNED(B_STORAGE, z);
    if (j == 5) return inside > 3 ? READ_V_ALIGNED(B_STORAGE, z + 3 * COLUMNS) : sum;
    for (int c = min(inside, 4) - 1; c >= 0; c--) sum = point * sum + READ_V_ALIGNED(B_STORAGE, z + c * COLUMNS);
    return sum;
}

/* Transforms column j to 6 rows of v that are BLOCK tiles apart. (top, left): the tile's first place. It may lie
 * outside of the image, and so may others; zeros count there. */
ALWAYS_INLINE void winograd_input(global const STORED(A_STORAGE) * image, int top, int left, int j, float *v) {
    floatv d[6][CHANNELS / VEC];
    /* The columns of d that column j is made of, and their factors: a row of B^T. */
    const bool ends = j == 0 || j == 5;
    const float point = point_of(j), others = j < 3 ? FAR_2 : NEAR_2;
    const float wanted[4] = {ends ? NEAR_2 * FAR_2 : -point * others, ends ? -NEAR_2 - FAR_2 : -others,
                             ends ? 1 : point, ends ? 0 : 1};
    float factor[4];
    int at[4];
    UNROLL for (int s = 0; s < 4; s++) {
        int place = left + (ends ? min(s, 2) * 2 + j / 5 : s + 1);
        factor[s] = place >= 0 && place < IN_W ? wanted[s] : 0;
        at[s] = clamp(place, 0, IN_W - 1) * IN_C;
    }
    for (int i = 0; i < 6; i++) {
        bool there = top + i >= 0 && top + i < IN_H;
        global const STORED(A_STORAGE) *row = image + clamp(top + i, 0, IN_H - 1) * (IN_W * IN_C);
        for (int k = 0; k < CHANNELS / VEC; k++) {
            floatv sum = 0;
            if (there)
                UNROLL for (int s = 0; s < 4; s++) sum += factor[s] * READ_V_ALIGNED(A_STORAGE, row + at[s] + k * VEC);
            d[i][k] = sum;
        }
    }
    for (int k = 0; k < CHANNELS / VEC; k++) {
        floatv near = d[4][k] - FAR_2 * d[2][k], near_odd = NEAR * (d[3][k] - FAR_2 * d[1][k]),
               far = d[4][k] - NEAR_2 * d[2][k], far_odd = FAR * (d[3][k] - NEAR_2 * d[1][k]);
        floatv rows[6] = {near + near_odd,
                          near - near_odd,
                          far + far_odd,
                          far - far_odd,
                          NEAR_2 * FAR_2 * d[0][k] - (NEAR_2 + FAR_2) * d[2][k] + d[4][k],
                          NEAR_2 * FAR_2 * d[1][k] - (NEAR_2 + FAR_2) * d[3][k] + d[5][k]};
        UNROLL for (int slot = 0; slot < 6; slot++) * (floatv *)(v + slot * (BLOCK * CHANNELS) + k * VEC) = rows[slot];
    }
}
#endif
#endif
