/* Small programs over the elements of values of one shape, and sums of registers over rows (gradients of biases).
 *
 * Macros describe a program (src/ops/elementwise/elementwise.c). INPUTS, OUTPUTS, WORDS, INSTRUCTIONS and, if there are
 * any, SUMS are counts. IN<j>: the kind of input j. ROW<j>: the row that is taken, if that kind is by channel. OP<i>,
 * A<i>, B<i>, C<i>: instruction i and the registers that it takes. W<i>, V<i>, U<i>: the words that it takes (numbers
 * among the kernel's arguments). OUT<k>, SUM<k>: the register that output or sum k takes. Instruction i makes register
 * i. The macros below make lines of C of all this.
 *
 * Single floats go through a program as vectors do, because the scalar functions of some drivers round differently
 * (PoCL's). What backward computes again must equal what forward had, wherever an element lies. */

#define FOR_0(DO)
#define FOR_1(DO) DO(0)
#define FOR_2(DO) FOR_1(DO) DO(1)
#define FOR_3(DO) FOR_2(DO) DO(2)
#define FOR_4(DO) FOR_3(DO) DO(3)
#define FOR_5(DO) FOR_4(DO) DO(4)
#define FOR_6(DO) FOR_5(DO) DO(5)
#define FOR_7(DO) FOR_6(DO) DO(6)
#define FOR_8(DO) FOR_7(DO) DO(7)
#define FOR_9(DO) FOR_8(DO) DO(8)
#define FOR_10(DO) FOR_9(DO) DO(9)
#define FOR_11(DO) FOR_10(DO) DO(10)
#define FOR_12(DO) FOR_11(DO) DO(11)
#define FOR_13(DO) FOR_12(DO) DO(12)
#define FOR_14(DO) FOR_13(DO) DO(13)
#define FOR_15(DO) FOR_14(DO) DO(14)
#define FOR_16(DO) FOR_15(DO) DO(15)
#define FOR_17(DO) FOR_16(DO) DO(16)
#define FOR_18(DO) FOR_17(DO) DO(17)
#define FOR_19(DO) FOR_18(DO) DO(18)
#define FOR_20(DO) FOR_19(DO) DO(19)
#define FOR_21(DO) FOR_20(DO) DO(20)
#define FOR_22(DO) FOR_21(DO) DO(21)
#define FOR_23(DO) FOR_22(DO) DO(22)
#define FOR_24(DO) FOR_23(DO) DO(23)
#define FOR_INPUTS(DO) CLQ_JOIN(FOR_, INPUTS)(DO)
#define FOR_OUTPUTS(DO) CLQ_JOIN(FOR_, OUTPUTS)(DO)
#define FOR_WORDS(DO) CLQ_JOIN(FOR_, WORDS)(DO)
#define FOR_INSTRUCTIONS(DO) CLQ_JOIN(FOR_, INSTRUCTIONS)(DO)
#define FOR_SUMS(DO) CLQ_JOIN(FOR_, SUMS)(DO)

/* Like CLQ_JOIN, one for each level of nesting: a macro is not expanded within itself. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define REGISTER_(n) r##n
#define REGISTER(n) REGISTER_(n)
#define WORD_(n) m->w##n
#define WORD(n) WORD_(n)

/* ---- a program's memory ---- */

#define TYPE_0 float
#define TYPE_1 uchar
#define TYPE_2 float
#define TYPE_3 float
#define TYPE_4 float
#define TYPE_5 STORED(1)
#define TYPE_6 STORED(2)
#define TYPE_7 STORED(1)
#define TYPE_8 STORED(2)

/* OUT<k>_STORAGE: how output k is stored (cl/prelude.cl).
 * RANDOM: the program draws random numbers, which depend on the step, and on the sample's number among those of all
 * replicas. */
#ifdef RANDOM
#define RANDOM_FIELDS int step, first_row;
#define RANDOM_PARAMETERS , int step, int first_row
#define RANDOM_NAMES , step, first_row
#else
#define RANDOM_FIELDS
#define RANDOM_PARAMETERS
#define RANDOM_NAMES
#endif
#define INPUT_FIELD(j) global const PASTE(TYPE_, IN##j) * x##j;
#define INPUT_PARAMETER(j) , global const PASTE(TYPE_, IN##j) * x##j
#define INPUT_NAME(j) , x##j
#define OUTPUT_FIELD(k) global STORED(OUT##k##_STORAGE) * y##k;
#define OUTPUT_PARAMETER(k) , global STORED(OUT##k##_STORAGE) * y##k
#define OUTPUT_NAME(k) , y##k
#define WORD_FIELD(n) uint w##n;
#define WORD_PARAMETER(n) , int w##n
#define WORD_NAME(n) , (uint)w##n

/* elements: the elements of one sample, which are rows of `channels`. */
typedef struct memory {
    int elements, channels;
    RANDOM_FIELDS
    FOR_INPUTS(INPUT_FIELD)
    FOR_OUTPUTS(OUTPUT_FIELD)
    FOR_WORDS(WORD_FIELD)
} memory;
#define PARAMETERS                                                                                                     \
    int count, int elements,                                                                                           \
        int channels RANDOM_PARAMETERS FOR_INPUTS(INPUT_PARAMETER) FOR_OUTPUTS(OUTPUT_PARAMETER)                       \
            FOR_WORDS(WORD_PARAMETER)
#define MEMORY                                                                                                         \
    { elements, channels RANDOM_NAMES FOR_INPUTS(INPUT_NAME) FOR_OUTPUTS(OUTPUT_NAME) FOR_WORDS(WORD_NAME) }

/* ---- where an element lies ----
 * A place is an element's number among those of all samples. A function takes VEC places from `at` on, or, if `single`,
 * only place `at`. */

/* WIDE: a full batch has 2^32 elements or more. Otherwise places have 32 bits: division of 64 bits takes several times
 * as long. */
#ifdef WIDE
typedef ulong place;
#else
typedef uint place;
#endif

/* Reads row `row` of an input by channel, of storage S. ALIGNED: the channels are whole vectors. */
#ifdef ALIGNED
#define CHANNELS_FROM(S, x, c, channels, lanes) lanes = READ_V_ALIGNED(S, (x) + (c));
#else
#define CHANNELS_FROM(S, x, c, channels, lanes)                                                                        \
    UNROLL for (int k = 0; k < VEC; k++) {                                                                             \
        ((float *)&lanes)[k] = READ(S, (x) + (c));                                                                     \
        c = c + 1 == channels ? 0 : c + 1;                                                                             \
    }
#endif
#define DEFINE_BY_CHANNEL(name, S)                                                                                     \
    ALWAYS_INLINE floatv name(global const STORED(S) * x, int row, int channels, size_t at, bool single) {             \
        int c = (int)((place)at % (place)channels);                                                                    \
        floatv lanes;                                                                                                  \
        x += (size_t)row * channels;                                                                                   \
        if (single) return (floatv)(READ(S, x + c));                                                                   \
        CHANNELS_FROM(S, x, c, channels, lanes)                                                                        \
        return lanes;                                                                                                  \
    }
DEFINE_BY_CHANNEL(by_channel, 0)
DEFINE_BY_CHANNEL(by_channel_half, 1)
DEFINE_BY_CHANNEL(by_channel_bfloat, 2)

/* The same for an input that has a number for each sample and channel. */
ALWAYS_INLINE floatv by_sample(global const float *x, int elements, int channels, size_t at, bool single) {
    size_t sample = (place)at / (place)elements;
    int c = (int)((place)at % (place)channels);
    x += sample * channels;
    if (single) return (floatv)(x[c]);
#ifdef ALIGNED
    return LOADV_ALIGNED(x + c);
#else
    int left = elements - (int)((place)at - (place)sample * (place)elements);
    floatv lanes;
    UNROLL for (int k = 0; k < VEC; k++) {
        bool next = k > 0 && --left == 0;
        if (next) {
            left = elements;
            x += channels;
        }
        ((float *)&lanes)[k] = x[c];
        c = c + 1 == channels ? 0 : c + 1;
    }
    return lanes;
#endif
}

/* The kinds of inputs, in order: a float for each element; a byte for each element; a float for each channel; one
 * float; a float for each sample and channel; a half for each element; a bfloat16 for each element; a half for each
 * channel; a bfloat16 for each channel. */
#define FETCH_0(x, row) (single ? (floatv)((x)[at]) : LOADV_ALIGNED((x) + at))
#define FETCH_1(x, row) (single ? (floatv)((float)(x)[at]) : TO_FLOATV(*(global const ucharv *)((x) + at)))
#define FETCH_2(x, row) by_channel(x, row, m->channels, at, single)
#define FETCH_3(x, row) (floatv)((x)[0])
#define FETCH_4(x, row) by_sample(x, m->elements, m->channels, at, single)
#define FETCH_5(x, row) (single ? (floatv)(READ_1((x) + at)) : READ_V_ALIGNED_1((x) + at))
#define FETCH_6(x, row) (single ? (floatv)(READ_2((x) + at)) : READ_V_ALIGNED_2((x) + at))
#define FETCH_7(x, row) by_channel_half(x, row, m->channels, at, single)
#define FETCH_8(x, row) by_channel_bfloat(x, row, m->channels, at, single)
#define FETCH(j) in[j] = PASTE(FETCH_, IN##j)(m->x##j, ROW##j);

ALWAYS_INLINE void fetch(const memory *m, size_t at, bool single, floatv in[INPUTS + 1]) { FOR_INPUTS(FETCH) }

/* ---- random numbers ---- */

#ifdef RANDOM
/* An element's number in its sample. SLICED: rows of channels are slices of longer rows, and the number is that among
 * the elements of these. */
#ifdef SLICED
#define IN_WHOLE(m, element) ((element) / (uint)(m)->channels * (m)->w2 + (element) % (uint)(m)->channels + (m)->w3)
#else
#define IN_WHOLE(m, element) (element)
#endif

/* The random word of each element. It comes from a Philox block, which has the words of four elements. The block's
 * counter consists of the element's number / 4, its sample's number among those of all replicas, the step and the layer
 * (clq_dropout_words). */
ALWAYS_INLINE uintv random_words(const memory *m, size_t at, bool single, uint key_low, uint key_high, uint layer) {
    uint row = (place)at / (place)m->elements, first = (uint)((place)at - (place)row * (place)m->elements);
    uint step = (uint)m->step, first_row = (uint)m->first_row, elements = (uint)m->elements;
#if VEC == 4 && defined(BLOCKS) /* rows begin at multiples of four, so a vector is a block */
    if (!single)
        return philox4x32((ulong)key_high << 32 | key_low, (ulong)(row + first_row) << 32 | IN_WHOLE(m, first) / 4,
                          (ulong)layer << 32 | step);
#endif
    uintv element = first + (single ? (uintv)0 : CLQ_JOIN(as_uint, VEC)(VEC_INDEX)), sample = row + first_row;
#ifdef LONG_SAMPLES               /* samples have at least VEC elements */
    uint one = min(elements, 1u); /* not known to be 1: oclgrind 21.10 gets a choice between 0 and 1 wrong */
    intv beyond = element >= elements;
    sample = beyond ? sample + one : sample;
    element = beyond ? element - elements : element;
#else
    sample += element / elements;
    element %= elements;
#endif
    element = IN_WHOLE(m, element);
    uintv c0 = element / 4, c1 = sample, c2 = step, c3 = layer;
    for (int round = 0; round < 10; round++) {
        uintv high0 = mul_hi((uintv)0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        uintv high1 = mul_hi((uintv)0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ key_low;
        c1 = low1;
        c2 = high0 ^ c3 ^ key_high;
        c3 = low0;
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
    uintv which = element % 4;
    uintv low = which == 0 ? c0 : c1, high = which == 2 ? c2 : c3;
    return which < 2 ? low : high;
}

ALWAYS_INLINE floatv dropout(const memory *m, size_t at, bool single, floatv x, uint layer, uint least, uint scale) {
    intv stays = random_words(m, at, single, m->w0, m->w1, layer) >= least;
    return stays ? x * as_float(scale) : (floatv)0;
}

/* A random number of the standard normal distribution. The distribution exceeds the number's size with probability v,
 * 0 < v <= 1/2: the size is sqrt(2) times the inverse of erf at 1 - 2 v, by the polynomials of Giles, "Approximating
 * the erfinv function" (GPU Computing Gems, 2011). The highest bit of the random word is the sign. */
ALWAYS_INLINE floatv normal(const memory *m, size_t at, bool single, uint layer) {
    const uintv word = random_words(m, at, single, m->w0, m->w1, layer);
    const floatv v = (CLQ_JOIN(convert_float, VEC)(word & 0x7fffffffu) + 0.5f) * 0x1p-32f;
    const floatv w = -log(4.0f * v * (1.0f - v)), near = w - 2.5f, far = sqrt(w) - 3.0f;
    floatv p = 2.81022636e-08f, q = -0.000200214257f;
    p = fma(p, near, 3.43273939e-07f);
    p = fma(p, near, -3.5233877e-06f);
    p = fma(p, near, -4.39150654e-06f);
    p = fma(p, near, 0.00021858087f);
    p = fma(p, near, -0.00125372503f);
    p = fma(p, near, -0.00417768164f);
    p = fma(p, near, 0.246640727f);
    p = fma(p, near, 1.50140941f);
    q = fma(q, far, 0.000100950558f);
    q = fma(q, far, 0.00134934322f);
    q = fma(q, far, -0.00367342844f);
    q = fma(q, far, 0.00573950773f);
    q = fma(q, far, -0.0076224613f);
    q = fma(q, far, 0.00943887047f);
    q = fma(q, far, 1.00167406f);
    q = fma(q, far, 2.83297682f);
    const floatv size = 1.41421356f * (1.0f - 2.0f * v) * (w < 5.0f ? p : q);
    return word >= 0x80000000u ? -size : size;
}
#endif

/* ---- mish ----
 * With u = exp(x), tanh(log(1 + u)) is u (u + 2) / (u (u + 2) + 2): upper / (upper + rest) below. If x > 0, both are
 * divided by u^2, so that neither overflows: exp is taken of -|x|. */

ALWAYS_INLINE floatv mish_tanh(floatv x, floatv *u, floatv *upper, floatv *rest) {
    *u = exp(-fabs(x));
    *upper = x > 0.0f ? 1.0f + 2.0f * *u : *u * (*u + 2.0f);
    *rest = x > 0.0f ? 2.0f * *u * *u : (floatv)2;
    return *upper / (*upper + *rest);
}

ALWAYS_INLINE floatv mish(floatv x) {
    floatv u, upper, rest;
    return x * mish_tanh(x, &u, &upper, &rest);
}

/* t + x (1 - t^2) sigmoid(x); t is the tanh. */
ALWAYS_INLINE floatv mish_slope(floatv x) {
    floatv u, upper, rest, t = mish_tanh(x, &u, &upper, &rest), sum = upper + rest;
    floatv sigmoid = (x > 0.0f ? (floatv)1 : u) / (1.0f + u);
    return t + x * sigmoid * (rest * (2.0f * upper + rest) / (sum * sum));
}

ALWAYS_INLINE floatv softplus(floatv x) { return fmax(x, (floatv)0) + log1p(exp(-fabs(x))); }

/* ---- erf ---- */

#ifdef TILE
/* erf(x) = x p(x^2) / q(x^2). The polynomials p and q were fitted to the least relative error up to 3.92; from there
 * on, erf rounds to 1. The result differs from erf by at most 3.4e-7 of it. A whole vector is computed at a time: CPU
 * drivers compute erf number by number, which takes several times as long. */
ALWAYS_INLINE floatv error_function(floatv x) {
    const floatv near = x > 3.92f ? (floatv)3.92f : x < -3.92f ? (floatv)-3.92f : x, t = near * near; /* NaNs stay */
    floatv p = fma(t, 2.05009282e-06f, 2.84879490e-04f), q = fma(t, 3.80916051e-05f, 1.16250853e-03f);
    p = fma(p, t, 3.76551197e-03f);
    p = fma(p, t, 5.27483912e-02f);
    p = fma(p, t, 1.90404148e-01f);
    p = fma(p, t, 1.12837915f);
    q = fma(q, t, 1.49690051e-02f);
    q = fma(q, t, 1.14108131e-01f);
    q = fma(q, t, 5.02074024e-01f);
    q = fma(q, t, 1.0f);
    const floatv y = near * p / q;
    return y > 1.0f ? (floatv)1 : y < -1.0f ? (floatv)-1 : y;
}
#else
#define error_function(x) erf(x)
#endif

/* ---- instructions, by their clq_element_op ---- */

#define A(i) REGISTER(A##i)
#define B(i) REGISTER(B##i)
#define C(i) REGISTER(C##i)
#define NUMBER(i) as_float(WORD(W##i))
#define DO_0(i) in[A##i]
#define DO_1(i) (floatv)(NUMBER(i))
#define DO_2(i) A(i) + B(i)
#define DO_3(i) A(i) - B(i)
#define DO_4(i) A(i) * B(i)
#define DO_5(i) (A(i) > B(i)) | (A(i) != A(i)) ? A(i) : B(i)
#define DO_6(i) (A(i) < B(i)) | (A(i) != A(i)) ? A(i) : B(i)
#define DO_7(i) -A(i)
#define DO_8(i) A(i) * A(i)
#define DO_9(i) A(i) * NUMBER(i)
#define DO_10(i) ACTIVATE_1(floatv, A(i))
#define DO_11(i) ACTIVATE_2(floatv, A(i))
#define DO_12(i) ACTIVATE_3(floatv, A(i))
#define DO_13(i) SLOPE_1(floatv, A(i), B(i))
#define DO_14(i) SLOPE_2(floatv, A(i), B(i))
#define DO_15(i) SLOPE_3(floatv, A(i), B(i))
#define DO_16(i) A(i) > B(i) ? (floatv)1 : (floatv)0
#define DO_17(i) A(i) >= B(i) ? (floatv)1 : (floatv)0
#define DO_18(i) A(i) == B(i) ? (floatv)1 : (floatv)0
#define DO_19(i) A(i) != (floatv)0 ? B(i) : C(i)
#define DO_20(i) dropout(m, at, single, A(i), WORD(W##i), WORD(V##i), WORD(U##i))
#define DO_21(i) mish(A(i))
#define DO_22(i) B(i) * mish_slope(A(i))
#define DO_23(i) softplus(A(i))
#define DO_24(i) B(i) * ACTIVATE_2(floatv, A(i))
#define DO_25(i) A(i) / B(i)
#define DO_26(i) exp(A(i))
#define DO_27(i) expm1(A(i))
#define DO_28(i) log(A(i))
#define DO_29(i) log1p(A(i))
#define DO_30(i) sqrt(A(i))
#define DO_31(i) fabs(A(i))
#define DO_32(i) sign(A(i))
#define DO_33(i) error_function(A(i))
#define DO_34(i) sin(A(i))
#define DO_35(i) cos(A(i))
#define DO_36(i) pow(A(i), (floatv)(NUMBER(i)))
#define DO_37(i) normal(m, at, single, WORD(W##i))
#define RUN(i) const floatv r##i = PASTE(DO_, OP##i)(i);

#define STORE(k)                                                                                                       \
    if (single)                                                                                                        \
        PASTE(WRITE_, OUT##k##_STORAGE)(REGISTER(OUT##k).s0, m->y##k + at);                                            \
    else                                                                                                               \
        PASTE(WRITE_V_ALIGNED_, OUT##k##_STORAGE)(REGISTER(OUT##k), m->y##k + at);
#define GIVE(k) terms[k] = REGISTER(SUM##k);
#ifndef SUMS
#define SUMS 0
#endif

/* Runs the program for the inputs that were fetched. All inputs are fetched before any output is stored, since outputs
 * may lie over inputs. */
ALWAYS_INLINE void run(const memory *m, size_t at, bool single, const floatv in[INPUTS + 1],
                       floatv terms[SUMS + 1]){FOR_INSTRUCTIONS(RUN) FOR_OUTPUTS(STORE) FOR_SUMS(GIVE)}

ALWAYS_INLINE void evaluate(const memory *m, size_t at, bool single, floatv terms[SUMS + 1]) {
    floatv in[INPUTS + 1];
    fetch(m, at, single, in);
    run(m, at, single, in, terms);
}

#if SUMS == 0

KERNEL void elementwise(PARAMETERS) {
    const memory m = MEMORY;
    size_t total = (size_t)count * elements;
    floatv none[1];
    FOR_MY (i, total / VEC) evaluate(&m, i * VEC, false, none);
    FOR_MY_FROM (i, total / VEC * VEC, total) evaluate(&m, i, true, none);
}

#else
/* ---- sums over rows ----
 * The rows are taken `fold` at a time as one long row of fold * channels. So long rows are whole vectors (TILE), or
 * wide enough for a work-group. The elements that are left at the end are taken as single floats. Each slice of the
 * long rows leaves its column sums and their rounding errors: shares (slices, SUMS, 2, fold * channels). fold_columns
 * adds up slices and folds. */

#define SUM_PARAMETER(k) , global float *sum##k
#define SUM_NAME(k) sum##k,

/* sum += term without loss: the rounding error is added to `low` (Knuth's two-sum, which needs no order of size). */
static void add(float *sum, float *low, float term) {
    float next = *sum + term, back = next - *sum;
    *low += (*sum - (next - back)) + (term - back);
    *sum = next;
}

#ifdef TILE

/* Makes one sum from the first slice's share, to which the shares of all other slices were added. */
static void fold_share(global const float *share, global float *out, int fold, int channels) {
    size_t width = (size_t)fold * channels;
    for (int c = 0; c < channels; c++) {
        float sum = share[c], low = share[width + c];
        for (int k = 1; k < fold; k++) {
            add(&sum, &low, share[(size_t)k * channels + c]);
            low += share[width + (size_t)k * channels + c];
        }
        out[c] = sum + low;
    }
}

static void fold_shares(global const float *shares, global float *const *out, int fold, int channels) {
    for (int k = 0; k < SUMS; k++) fold_share(shares + (size_t)k * 2 * fold * channels, out[k], fold, channels);
}

ALWAYS_INLINE void add_floatv(global floatv *sum, global floatv *low, floatv term) {
    floatv before = *sum, next = before + term, back = next - before;
    *low += (before - (next - back)) + (term - back);
    *sum = next;
}

/* Sums N neighbouring columns of vectors over `rows` long rows, from vector `at` on. These short sums are plain, and
 * add_floatv adds them to the long ones. */
#define DEFINE_STRIP(name, N)                                                                                          \
    ALWAYS_INLINE void name(const memory *m, size_t at, int rows, size_t pitch, global floatv *sum) {                  \
        floatv columns[SUMS][N];                                                                                       \
        UNROLL for (int s = 0; s < SUMS; s++) { UNROLL for (int k = 0; k < N; k++) columns[s][k] = 0; }                \
        for (int r = 0; r < rows; r++, at += pitch) {                                                                  \
            UNROLL for (int k = 0; k < N; k++) {                                                                       \
                floatv terms[SUMS + 1];                                                                                \
                evaluate(m, (at + k) * VEC, false, terms);                                                             \
                UNROLL for (int s = 0; s < SUMS; s++) columns[s][k] += terms[s];                                       \
            }                                                                                                          \
        }                                                                                                              \
        UNROLL for (int s = 0; s < SUMS; s++) {                                                                        \
            UNROLL for (int k = 0; k < N; k++)                                                                         \
                add_floatv(sum + 2 * s * pitch + k, sum + (2 * s + 1) * pitch + k, columns[s][k]);                     \
        }                                                                                                              \
    }
DEFINE_STRIP(strip1, 1)
DEFINE_STRIP(strip2, 2)
DEFINE_STRIP(strip4, 4)

/* Work-item (g, s) sums group g of the columns in slice s of the long rows. A block of rows stays in the first cache
 * while its strips are added. If there is one work-item only, it makes the final sums; else fold_columns does. */
KERNEL void elementwise_sums(PARAMETERS, global float *shares, int fold FOR_SUMS(SUM_PARAMETER), local float *shared) {
    const memory m = MEMORY;
    size_t slice = get_global_id(1), slices = get_global_size(1), width = (size_t)fold * channels, pitch = width / VEC;
    size_t rows = (size_t)count * (elements / channels), long_rows = rows / fold;
    size_t share = (long_rows + slices - 1) / slices;
    size_t row = min(slice * share, long_rows), end = min(row + share, long_rows);
    size_t part = (pitch + get_global_size(0) - 1) / get_global_size(0);
    size_t first = min(get_global_id(0) * part, pitch), last = min(first + part, pitch);
    global float *sums = shares + 2 * SUMS * slice * width;
    global floatv *sum = (global floatv *)sums;
    for (int k = 0; k < 2 * SUMS; k++)
        for (size_t v = first; v < last; v++) sum[k * pitch + v] = 0;
    int block = (int)clamp((size_t)4096 / (part * VEC), (size_t)8, (size_t)64);
    for (; row < end; row += block) {
        int some = (int)min(end - row, (size_t)block);
        size_t at = row * pitch, v = first;
        for (; v + 4 <= last; v += 4) strip4(&m, at + v, some, pitch, sum + v);
        for (; v + 2 <= last; v += 2) strip2(&m, at + v, some, pitch, sum + v);
        for (; v < last; v++) strip1(&m, at + v, some, pitch, sum + v);
    }
    size_t rest = slice == slices - 1 ? rows * channels - long_rows * width : 0;
    for (size_t c = first * VEC; c < min(rest, last * VEC); c++) {
        floatv terms[SUMS + 1];
        evaluate(&m, long_rows * width + c, true, terms);
        UNROLL for (int k = 0; k < SUMS; k++) sums[2 * k * width + c] += terms[k].s0;
    }
    global float *const out[] = {FOR_SUMS(SUM_NAME)};
    if (slices == 1 && part == pitch) fold_shares(shares, out, fold, channels);
}

/* One work-item. */
KERNEL void fold_columns(global float *shares, int slices, int fold, int channels FOR_SUMS(SUM_PARAMETER)) {
    size_t pitch = (size_t)fold * channels / VEC, slice = 2 * SUMS * pitch;
    for (size_t s = 1; s < slices; s++) {
        for (int k = 0; k < SUMS; k++) {
            global floatv *sum = (global floatv *)shares + 2 * k * pitch, *low = sum + pitch;
            for (size_t v = 0; v < pitch; v++) {
                add_floatv(sum + v, low + v, sum[s * slice + v]);
                low[v] += low[s * slice + v];
            }
        }
    }
    global float *const out[] = {FOR_SUMS(SUM_NAME)};
    fold_shares(shares, out, fold, channels);
}

#else

/* Work-groups have (COLUMNS, ROWS) items. Each takes COLUMNS columns (dimension 0) of one slice (dimension 1).
 * fold_columns makes the final sums. An item fetches TOGETHER places before it stores anything: outputs may lie over
 * inputs, so a compiler cannot move a load before a store. An item that waits for each load alone leaves most of a
 * GPU's bandwidth unused. */
KERNEL void elementwise_sums(PARAMETERS, global float *shares, int fold FOR_SUMS(SUM_PARAMETER), local float *shared) {
    const memory m = MEMORY;
    size_t slice = get_group_id(1), slices = get_num_groups(1), width = (size_t)fold * channels;
    size_t rows = (size_t)count * (elements / channels), long_rows = rows / fold;
    size_t share = (long_rows + slices - 1) / slices;
    size_t row = min(slice * share, long_rows), end = min(row + share, long_rows), column = get_global_id(0);
    int c = (int)get_local_id(0), r = (int)get_local_id(1);
    float sum[SUMS], low[SUMS];
    floatv terms[SUMS + 1];
    UNROLL for (int k = 0; k < SUMS; k++) sum[k] = low[k] = 0;
    if (column < width) {
        for (row += r; row + (TOGETHER - 1) * ROWS < end; row += TOGETHER * ROWS) {
            floatv in[TOGETHER][INPUTS + 1];
            UNROLL for (int t = 0; t < TOGETHER; t++) fetch(&m, (row + t * ROWS) * width + column, true, in[t]);
            UNROLL for (int t = 0; t < TOGETHER; t++) {
                run(&m, (row + t * ROWS) * width + column, true, in[t], terms);
                UNROLL for (int k = 0; k < SUMS; k++) add(&sum[k], &low[k], terms[k].s0);
            }
        }
#if TOGETHER > 1
        for (; row < end; row += ROWS) {
            evaluate(&m, row * width + column, true, terms);
            UNROLL for (int k = 0; k < SUMS; k++) add(&sum[k], &low[k], terms[k].s0);
        }
#endif
        size_t last = long_rows * width + column;
        if (slice == slices - 1 && r == 0 && last < rows * channels) {
            evaluate(&m, last, true, terms);
            UNROLL for (int k = 0; k < SUMS; k++) add(&sum[k], &low[k], terms[k].s0);
        }
    }
    local float *lows = shared + SUMS * ROWS * COLUMNS;
    UNROLL for (int k = 0; k < SUMS; k++) {
        shared[(k * ROWS + r) * COLUMNS + c] = sum[k];
        lows[(k * ROWS + r) * COLUMNS + c] = low[k];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (r > 0 || column >= width) return;
    UNROLL for (int k = 0; k < SUMS; k++) {
        for (int i = 1; i < ROWS; i++) {
            add(&sum[k], &low[k], shared[(k * ROWS + i) * COLUMNS + c]);
            low[k] += lows[(k * ROWS + i) * COLUMNS + c];
        }
        shares[(2 * (slice * SUMS + k)) * width + column] = sum[k];
        shares[(2 * (slice * SUMS + k) + 1) * width + column] = low[k];
    }
}

/* Makes the sums (channels) from the shares of all slices. A work-group makes `columns` channels, a power of two. Each
 * channel has GROUP / columns work-items, its rows. A channel has slices * fold sums; row r adds sums r, r + rows, and
 * so on. The sums of the rows are then added as a tree. */
KERNEL void fold_columns(global const float *shares, int slices, int fold, int channels,
                         int columns FOR_SUMS(SUM_PARAMETER), local float *shared) {
    int item = (int)get_local_id(0), row = item / columns, rows = GROUP / columns, sums = slices * fold;
    int channel = (int)get_group_id(0) * columns + item % columns;
    size_t width = (size_t)fold * channels;
    local float *lows = shared + GROUP;
    global float *const out[] = {FOR_SUMS(SUM_NAME)};
    UNROLL for (int k = 0; k < SUMS; k++) {
        float sum = 0, low = 0;
        if (k > 0) barrier(CLK_LOCAL_MEM_FENCE); /* all items have read the previous sum */
        if (channel < channels) {
            _Pragma("unroll 4") for (int i = row; i < sums; i += rows) {
                size_t at = (i / fold * SUMS + k) * 2 * width + i % fold * channels + channel;
                add(&sum, &low, shares[at]);
                low += shares[at + width];
            }
        }
        shared[item] = sum;
        lows[item] = low;
        for (int step = GROUP / 2; step >= columns; step /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < step) {
                add(&sum, &low, shared[item + step]);
                low += lows[item + step];
                shared[item] = sum;
                lows[item] = low;
            }
        }
        if (row == 0 && channel < channels) out[k][channel] = sum + low;
    }
}

#endif

#endif
