/* Combines a chunk that came from another rank with this rank's: to = operand OP received, for `count` elements. The
 * offsets count elements, and may have any alignment. `to` and `operand` may be the same memory. The arithmetic is that
 * of src/comm/reduce/reduce.c, with the same bits: one operation per element.
 *
 * ELEMENT: the type in memory. WORK: the type of the computation. It is unsigned for sums and products of signed
 * integers, because they wrap. QUOTIENT: the type in which an average of integers is divided. OP: 0 sum, 1 product, 2
 * minimum, 3 maximum. HALF: 1 for f16, 2 for bf16, which are computed in float. */

#ifdef TILE /* few work-items, each with one contiguous range */
#define WIDTH 16
#else /* many work-items, neighbours take neighbouring vectors */
#define WIDTH 4
#endif

#ifdef DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

typedef CLQ_JOIN(WORK, WIDTH) work_v;
#if HALF == 1 /* without cl_khr_fp16 halves have no vectors and no sizeof */
#define ELEMENTS_BYTES (WIDTH * 2)
#else
typedef CLQ_JOIN(ELEMENT, WIDTH) elements;
#define ELEMENTS_BYTES sizeof(elements)
#endif

/* LOADS and STORES take vectors that begin at any element. The _ALIGNED forms take aligned vectors, with one
 * instruction each; for the others, compilers for GPUs make WIDTH instructions. */
#if HALF == 1
#define LOADS_ALIGNED(i, p) CLQ_JOIN(vloada_half, WIDTH)(i, p)
#define STORES_ALIGNED(v, i, p) CLQ_JOIN(CLQ_JOIN(vstorea_half, WIDTH), _rte)(v, i, p)
#ifdef TILE /* as halves_from and halves_to in prelude.cl */
typedef CLQ_JOIN(ushort, WIDTH) ushorts;
typedef ushorts ushorts_anywhere __attribute__((aligned(2)));
static work_v load_halves(ulong i, global const half *p) {
    const ushorts bits = *(global const ushorts_anywhere *)((global const ushort *)p + i * WIDTH);
    return LOADS_ALIGNED(0, (const half *)&bits);
}
static void store_halves(work_v v, ulong i, global half *p) {
    ushorts bits;
    STORES_ALIGNED(v, 0, (half *)&bits);
    *(global ushorts_anywhere *)((global ushort *)p + i * WIDTH) = bits;
}
#define LOADS(i, p) load_halves(i, p)
#define STORES(v, i, p) store_halves(v, i, p)
#else
#define LOADS(i, p) CLQ_JOIN(vload_half, WIDTH)(i, p)
#define STORES(v, i, p) CLQ_JOIN(CLQ_JOIN(vstore_half, WIDTH), _rte)(v, i, p)
#endif
#define LOAD(i, p) vload_half(i, p)
#define STORE(v, i, p) vstore_half_rte(v, i, p)
#elif HALF == 2
typedef CLQ_JOIN(uint, WIDTH) bits_v;

/* Rounds to the nearest, ties to even; NaN stays NaN. */
#define DEFINE_TO_BF16(name, bits_t, work_t, as_bits, to_short, short_t)                                               \
    static short_t name(work_t v) {                                                                                    \
        bits_t bits = as_bits(v), rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;                              \
        return to_short((bits & 0x7fffffffu) > 0x7f800000u ? ((bits >> 16) | 0x40u) : rounded);                        \
    }
DEFINE_TO_BF16(to_bf16s, bits_v, work_v, CLQ_JOIN(as_uint, WIDTH), CLQ_JOIN(convert_ushort, WIDTH),
               CLQ_JOIN(ushort, WIDTH))
DEFINE_TO_BF16(to_bf16, uint, float, as_uint, convert_ushort, ushort)
#define FROM_BF16S(v) CLQ_JOIN(as_float, WIDTH)(CLQ_JOIN(convert_uint, WIDTH)(v) << 16)
#define LOADS_ALIGNED(i, p) FROM_BF16S(((global const elements *)(p))[i])
#define STORES_ALIGNED(v, i, p) (((global elements *)(p))[i] = to_bf16s(v))
#define LOADS(i, p) FROM_BF16S(CLQ_JOIN(vload, WIDTH)(i, p))
#define STORES(v, i, p) CLQ_JOIN(vstore, WIDTH)(to_bf16s(v), i, p)
#define LOAD(i, p) as_float((uint)(p)[i] << 16)
#define STORE(v, i, p) ((p)[i] = to_bf16(v))
#else
#define LOADS_ALIGNED(i, p) (((global const elements *)(p))[i])
#define STORES_ALIGNED(v, i, p) (((global elements *)(p))[i] = (v))
#define LOADS(i, p) CLQ_JOIN(vload, WIDTH)(i, p)
#define STORES(v, i, p) CLQ_JOIN(vstore, WIDTH)(v, i, p)
#define LOAD(i, p) ((p)[i])
#define STORE(v, i, p) ((p)[i] = (v))
#endif

#if OP == 0
#define COMBINE(a, b) ((a) + (b))
#elif OP == 1
#define COMBINE(a, b) ((a) * (b))
#elif defined(REAL) /* NaN wins: < and > with it are false, and it is unequal to itself */
#if OP == 2
#define COMBINE(a, b) (((a) < (b)) || ((a) != (a)) ? (a) : (b))
#define COMBINES(a, b) (((a) < (b)) | ((a) != (a)) ? (a) : (b))
#else
#define COMBINE(a, b) (((a) > (b)) || ((a) != (a)) ? (a) : (b))
#define COMBINES(a, b) (((a) > (b)) | ((a) != (a)) ? (a) : (b))
#endif
#elif OP == 2
#define COMBINE(a, b) min(a, b)
#else
#define COMBINE(a, b) max(a, b)
#endif
#ifndef COMBINES
#define COMBINES COMBINE
#endif

#ifdef REAL
#define AVERAGE(v) ((v)*factor)
#define AVERAGES AVERAGE
#else
#define AVERAGE(v) ((WORK)((QUOTIENT)(v) / factor))
#define AVERAGES(v) CLQ_JOIN(CLQ_JOIN(as_, WORK), WIDTH)(CLQ_JOIN(CLQ_JOIN(as_, QUOTIENT), WIDTH)(v) / factor)
#endif

/* factor, if `average` is set: 1 / ranks for floats, the number of ranks for integers. */
kernel void comm_combine(global ELEMENT *to_memory, ulong to_at, global const ELEMENT *operand_memory, ulong operand_at,
                         global const ELEMENT *received_memory, ulong received_at, ulong count, int average,
                         QUOTIENT factor) {
    global ELEMENT *to = to_memory + to_at;
    global const ELEMENT *operand = operand_memory + operand_at;
    global const ELEMENT *received = received_memory + received_at;
    ulong item = get_global_id(0), items = get_global_size(0), vectors = count / WIDTH;
#ifdef TILE
    ulong share = (vectors + items - 1) / items;
    ulong first = min(vectors, item * share), last = min(vectors, first + share), stride = 1;
#else
    ulong first = item, last = vectors, stride = items;
#endif
#ifndef TILE
    /* Callers' memory may begin anywhere; chunks of an all-reduce begin at whole vectors. */
    if ((((size_t)to | (size_t)operand | (size_t)received) & (ELEMENTS_BYTES - 1)) == 0) {
        for (ulong i = first; i < last; i += stride) {
            work_v a = LOADS_ALIGNED(i, operand), b = LOADS_ALIGNED(i, received), v = COMBINES(a, b);
            if (average) v = AVERAGES(v);
            STORES_ALIGNED(v, i, to);
        }
        first = last;
    }
#endif
    for (ulong i = first; i < last; i += stride) {
        work_v a = LOADS(i, operand), b = LOADS(i, received), v = COMBINES(a, b);
        if (average) v = AVERAGES(v);
        STORES(v, i, to);
    }
    for (ulong i = vectors * WIDTH + item; i < count; i += items) {
        WORK a = LOAD(i, operand), b = LOAD(i, received), v = COMBINE(a, b);
        if (average) v = AVERAGE(v);
        STORE(v, i, to);
    }
}
