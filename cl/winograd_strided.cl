/* The transforms of 3x3 convolutions with strides of 2: 4x4 outputs y from 9x9 inputs d, with 81 products per channel
 * instead of 144. SPREAD: those of their gradient by the input: 8x8 gradients y from 5x5 d.
 *
 * Along an axis, y[i] = g[0] d[2i] + g[1] d[2i + 1] + g[2] d[2i + 2]. The first and the last term are a convolution of
 * two taps with the inputs at even places. Winograd's F(4, 2) makes it by five products, of the points NEAR, -NEAR,
 * FAR, -FAR and infinity (as in winograd_4x4.cl; 1/2 and 3/2 lose least here). The other term is a product of each odd
 * input with the middle tap. So an axis has 9 LINES: those of the five points, and those of the four odd inputs. The
 * latter share a line of taps, so there are 6 lines of taps, POINTS.
 *
 * With SPREAD, y[2i] = g[0] d[i] + g[2] d[i + 1] and y[2i + 1] = g[1] d[i + 1] for i from 0 to 3. The even outputs are
 * made of the lines of the points, and each odd output of the line of one input. CHANNELS channels of an image (IN_H,
 * IN_W, IN_C) are transformed, by one column at a time. */
#if STRIDE == 2 || SIDE == 8
#define POINTS 6
#define LINES 9
#define TAPS_OF(line) min(line, 5)
#define WIDTH (NR * VEC)
#define ROW_OF(slot) (slot)
/* 1 / N of the points NEAR and FAR */
#define AT_NEAR (1 / (2 * NEAR * (NEAR_2 - FAR_2)))
#define AT_FAR (1 / (2 * FAR * (FAR_2 - NEAR_2)))

/* G g for three taps in a row. */
ALWAYS_INLINE void from_taps(floatv a, floatv b, floatv c, floatv *to) {
    floatv near = AT_NEAR * a, near_odd = AT_NEAR * NEAR * c, far = AT_FAR * a, far_odd = AT_FAR * FAR * c;
    to[0] = near_odd + near, to[1] = near_odd - near, to[2] = far_odd + far, to[3] = far_odd - far;
    to[4] = c, to[5] = b;
}

/* G^T m. */
ALWAYS_INLINE void to_taps(const floatv *m, floatv *to) {
    to[0] = AT_NEAR * (m[0] - m[1]) + AT_FAR * (m[2] - m[3]);
    to[1] = m[5];
    to[2] = AT_NEAR * NEAR * (m[0] + m[1]) + AT_FAR * FAR * (m[2] + m[3]) + m[4];
}

/* A z, by lines. */
ALWAYS_INLINE void from_outputs(const floatv *z, floatv *lines) {
    floatv near = z[0] + NEAR_2 * z[2], near_odd = NEAR * (z[1] + NEAR_2 * z[3]), far = z[0] + FAR_2 * z[2],
           far_odd = FAR * (z[1] + FAR_2 * z[3]);
    lines[0] = near + near_odd, lines[1] = near - near_odd, lines[2] = far + far_odd, lines[3] = far - far_odd;
    lines[4] = z[3];
    UNROLL for (int i = 0; i < 4; i++) lines[5 + i] = z[i];
}

/* The point of column j, 0 to 3: NEAR, -NEAR, FAR, -FAR. */
ALWAYS_INLINE float point_of(int j) { return (j % 2 ? -1 : 1) * (j < 2 ? NEAR : FAR); }

#ifdef SPREAD
#define APART 2 /* the outputs of the points are 2 apart */
#else
#define APART 1
#endif
ALWAYS_INLINE void add_across(int j, floatv row, floatv *y) {
    enum { NEXT = APART * NR };
    const float point = point_of(j), square = point * point;
    floatv odd = point * row;
    if (j == 0)
        y[0] = row, y[NEXT] = odd, y[2 * NEXT] = square * row, y[3 * NEXT] = square * odd;
    else if (j < 4)
        y[0] += row, y[NEXT] += odd, y[2 * NEXT] += square * row, y[3 * NEXT] += square * odd;
    else if (j == 4)
        y[3 * NEXT] += row;
#ifdef SPREAD
    else
        y[(j - 5) * NEXT + NR] = row;
#else
    else
        y[(j - 5) * NEXT] += row;
#endif
}

#ifdef BLOCK
/* Element j of A z for a row of four gradients of outputs, of which the first `inside` lie inside the output. */
ALWAYS_INLINE floatv winograd_gradient_at(global const STORED(B_STORAGE) * z, int inside, int j) {
    floatv sum = 0;
    if (j > 3) {
        int c = j == 4 ? 3 : j - 5;
        return c < inside ? READ_V_ALIGNED(B_STORAGE, z + c * COLUMNS) : sum;
    }
    const float point = point_of(j);
    for (int c = min(inside, 4) - 1; c >= 0; c--) sum = point * sum + READ_V_ALIGNED(B_STORAGE, z + c * COLUMNS);
    return sum;
}

#ifdef SPREAD
#define EVEN(i) (i) /* the inputs of the points, then those of the other lines */
#define ODD(i) ((i) + 1)
#else
#define EVEN(i) (2 * (i))
#define ODD(i) (2 * (i) + 1)
#endif
/* Transforms column j to 9 lines of v that are BLOCK tiles apart. (top, left): the tile's first place. It may lie
 * outside of the image, and so may others; zeros count there. */
ALWAYS_INLINE void winograd_input(global const STORED(A_STORAGE) * image, int top, int left, int j, float *v) {
    floatv d[EVEN(4) + 1][CHANNELS / VEC];
    /* The columns of d that column j is made of, and their factors: a row of B^T. The column of an odd input is made of
     * that input alone. */
    const bool last = j == 4, single = j > 4;
    const float point = point_of(j), others = j < 2 ? FAR_2 : NEAR_2;
    float wanted[4] = {-point * others, -others, point, 1};
    if (last) wanted[0] = NEAR_2 * FAR_2, wanted[1] = -NEAR_2 - FAR_2, wanted[2] = 1, wanted[3] = 0;
    if (single) wanted[0] = 1, wanted[1] = wanted[2] = wanted[3] = 0;
    float factor[4];
    int at[4];
    UNROLL for (int s = 0; s < 4; s++) {
        int place = left + (single ? ODD(j - 5) : last ? EVEN(2 * min(s, 2)) : EVEN(s));
        factor[s] = place >= 0 && place < IN_W ? wanted[s] : 0;
        at[s] = clamp(place, 0, IN_W - 1) * IN_C;
    }
    for (int i = 0; i <= EVEN(4); i++) {
        bool there = top + i >= 0 && top + i < IN_H;
        global const STORED(A_STORAGE) *row = image + clamp(top + i, 0, IN_H - 1) * (IN_W * IN_C);
        for (int k = 0; k < CHANNELS / VEC; k++) {
            floatv sum = 0;
            if (there && single) sum = factor[0] * READ_V_ALIGNED(A_STORAGE, row + at[0] + k * VEC);
            if (there && !single)
                UNROLL for (int s = 0; s < 4; s++) sum += factor[s] * READ_V_ALIGNED(A_STORAGE, row + at[s] + k * VEC);
            d[i][k] = sum;
        }
    }
    for (int k = 0; k < CHANNELS / VEC; k++) {
        floatv e0 = d[EVEN(0)][k], e1 = d[EVEN(1)][k], e2 = d[EVEN(2)][k], e3 = d[EVEN(3)][k], e4 = d[EVEN(4)][k];
        floatv near = e3 - FAR_2 * e1, near_odd = NEAR * (e2 - FAR_2 * e0), far = e3 - NEAR_2 * e1,
               far_odd = FAR * (e2 - NEAR_2 * e0);
        floatv lines[9] = {near + near_odd, near - near_odd, far + far_odd, far - far_odd,
                           NEAR_2 * FAR_2 * e0 - (NEAR_2 + FAR_2) * e2 + e4};
        UNROLL for (int i = 0; i < 4; i++) lines[5 + i] = d[ODD(i)][k];
        UNROLL for (int line = 0; line < 9; line++) * (floatv *)(v + line * (BLOCK * CHANNELS) + k * VEC) = lines[line];
    }
}
#endif
#endif
