/* This text stands before every kernel file.
 *
 * floatv: VEC floats, as wide as the device's registers (-DCLQ_VECTOR; 16, 8 or 4). intv has as many ints.
 * Loads and stores take pointers to their first element. The _ALIGNED forms need it aligned to the vector. They are one
 * instruction, while a driver's vloadn and vstoren may be several (PoCL 3.1: vstore16 is four). */
#ifndef CLQ_VECTOR
#define CLQ_VECTOR 4
#endif
#define VEC CLQ_VECTOR

#define CLQ_JOIN_(a, b) a##b
#define CLQ_JOIN(a, b) CLQ_JOIN_(a, b)

typedef CLQ_JOIN(float, VEC) floatv;
typedef CLQ_JOIN(int, VEC) intv;
typedef CLQ_JOIN(uint, VEC) uintv;
typedef CLQ_JOIN(uchar, VEC) ucharv;

#define LOADV(pointer) CLQ_JOIN(vload, VEC)(0, pointer)
#define STOREV(value, pointer) CLQ_JOIN(vstore, VEC)(value, 0, pointer)
#define LOADV_ALIGNED(pointer) (*(const global floatv *)(pointer))
#define STOREV_ALIGNED(value, pointer) (*(global floatv *)(pointer) = (value))
/* Conversions of whole vectors: TO_FLOATV(ucharv), TO_INTV(floatv); same bits: AS_FLOATV(intv), AS_INTV(floatv). */
#define TO_FLOATV(value) CLQ_JOIN(convert_float, VEC)(value)
#define TO_INTV(value) CLQ_JOIN(convert_int, VEC)(value)
#define AS_FLOATV(value) CLQ_JOIN(as_float, VEC)(value)
#define AS_INTV(value) CLQ_JOIN(as_int, VEC)(value)

/* A vector that begins at any float, for drivers whose vloadn is slow. */
typedef floatv floatv_anywhere __attribute__((aligned(4)));

/* 0, 1, 2, ... */
#if VEC == 16
#define VEC_INDEX (intv)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif VEC == 8
#define VEC_INDEX (intv)(0, 1, 2, 3, 4, 5, 6, 7)
#else
#define VEC_INDEX (intv)(0, 1, 2, 3)
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
/* Stands before a loop over accumulators: when the loop is unrolled, they stay in registers. */
#define UNROLL _Pragma("unroll")

/* Numbers in global memory, as a value stores them. Computations are in floats. S is the value's storage
 * (clq_options_storage): 0 float, 1 half, 2 bfloat16. READ and WRITE take pointers to STORED(S), and access one number.
 * READ_V and WRITE_V access a vector that begins at any number. READ_V_ALIGNED and WRITE_V_ALIGNED access a vector that
 * begins at a multiple of its own length. Numbers are rounded to the nearest, ties to even; NaN stays NaN. Halves are
 * ushorts here, since half has no size without cl_khr_fp16. */
typedef CLQ_JOIN(ushort, VEC) ushortv;
typedef ushortv ushortv_anywhere __attribute__((aligned(2)));
#define STORED_0 float
#define STORED_1 ushort
#define STORED_2 ushort
#define STORED(S) CLQ_JOIN(STORED_, S)
/* The storages of a kernel's values, unless an option says otherwise. */
#ifndef X_STORAGE
#define X_STORAGE 0
#endif
#ifndef Y_STORAGE
#define Y_STORAGE 0
#endif
#ifndef DX_STORAGE
#define DX_STORAGE 0
#endif
#ifndef DY_STORAGE
#define DY_STORAGE 0
#endif
#ifndef DZ_STORAGE
#define DZ_STORAGE 0
#endif
#ifndef A_STORAGE
#define A_STORAGE 0
#endif
#ifndef B_STORAGE
#define B_STORAGE 0
#endif
#ifndef C_STORAGE
#define C_STORAGE 0
#endif
#ifndef FROM_STORAGE
#define FROM_STORAGE 0
#endif
#ifndef TO_STORAGE
#define TO_STORAGE 0
#endif
#ifndef OUT0_STORAGE
#define OUT0_STORAGE 0
#endif
#ifndef OUT1_STORAGE
#define OUT1_STORAGE 0
#endif
#ifndef OUT2_STORAGE
#define OUT2_STORAGE 0
#endif
#define AS_HALVES(pointer) ((global half *)(pointer))
/* These copy through private memory: from PoCL 5.0 on, vload_half and vstore_half take their vectors as aligned. */
ALWAYS_INLINE floatv halves_from(global const ushort *p) {
    const ushortv bits = *(global const ushortv_anywhere *)p;
    return CLQ_JOIN(vloada_half, VEC)(0, (const half *)&bits);
}
ALWAYS_INLINE void halves_to(floatv value, global ushort *p) {
    ushortv bits;
    CLQ_JOIN(CLQ_JOIN(vstorea_half, VEC), _rte)(value, 0, (half *)&bits);
    *(global ushortv_anywhere *)p = bits;
}
#define TO_BFLOAT(bits, convert)                                                                                       \
    convert(((bits)&0x7fffffffu) > 0x7f800000u ? ((bits) >> 16) | 0x40u                                                \
                                               : ((bits) + 0x7fffu + (((bits) >> 16) & 1u)) >> 16)
ALWAYS_INLINE ushort to_bfloat(float value) { return TO_BFLOAT(as_uint(value), convert_ushort); }
ALWAYS_INLINE ushortv to_bfloatv(floatv value) {
    return TO_BFLOAT(CLQ_JOIN(as_uint, VEC)(value), CLQ_JOIN(convert_ushort, VEC));
}
/* (With PoCL 3.1's convert_uint16 a convolution's weight gradient took 1.7 times as long.) */
#ifdef __has_builtin
#if __has_builtin(__builtin_convertvector)
#define TO_UINTV(value) __builtin_convertvector(value, uintv)
#endif
#endif
#ifndef TO_UINTV
#define TO_UINTV(value) CLQ_JOIN(convert_uint, VEC)(value)
#endif
#define FROM_BFLOATV(value) AS_FLOATV(TO_UINTV(value) << 16)

#define READ_0(p) (*(p))
#define READ_1(p) vload_half(0, AS_HALVES(p))
#define READ_2(p) as_float((uint) * (p) << 16)
#define READ(S, p) CLQ_JOIN(READ_, S)(p)
#define READ_V_0(p) (*(global const floatv_anywhere *)(p))
#define READ_V_1(p) halves_from(p)
#define READ_V_2(p) FROM_BFLOATV(*(global const ushortv_anywhere *)(p))
#define READ_V(S, p) CLQ_JOIN(READ_V_, S)(p)
#define READ_V_ALIGNED_0(p) LOADV_ALIGNED(p)
#define READ_V_ALIGNED_1(p) CLQ_JOIN(vloada_half, VEC)(0, AS_HALVES(p))
#define READ_V_ALIGNED_2(p) FROM_BFLOATV(*(global const ushortv *)(p))
#define READ_V_ALIGNED(S, p) CLQ_JOIN(READ_V_ALIGNED_, S)(p)

#define WRITE_0(v, p) (*(p) = (v))
#define WRITE_1(v, p) vstore_half_rte(v, 0, AS_HALVES(p))
#define WRITE_2(v, p) (*(p) = to_bfloat(v))
#define WRITE(S, v, p) CLQ_JOIN(WRITE_, S)(v, p)
#define WRITE_V_0(v, p) (*(global floatv_anywhere *)(p) = (v))
#define WRITE_V_1(v, p) halves_to(v, p)
#define WRITE_V_2(v, p) (*(global ushortv_anywhere *)(p) = to_bfloatv(v))
#define WRITE_V(S, v, p) CLQ_JOIN(WRITE_V_, S)(v, p)
#define WRITE_V_ALIGNED_0(v, p) STOREV_ALIGNED(v, p)
#define WRITE_V_ALIGNED_1(v, p) CLQ_JOIN(CLQ_JOIN(vstorea_half, VEC), _rte)(v, 0, AS_HALVES(p))
#define WRITE_V_ALIGNED_2(v, p) (*(global ushortv *)(p) = to_bfloatv(v))
#define WRITE_V_ALIGNED(S, v, p) CLQ_JOIN(WRITE_V_ALIGNED_, S)(v, p)

/* The same for N numbers (1, 2, 4, 8 or 16) that begin at a multiple of N. PACK(N) is the type that they are read
 * as. */
#define CLQ_BEHIND_1
#define CLQ_BEHIND_2 2
#define CLQ_BEHIND_4 4
#define CLQ_BEHIND_8 8
#define CLQ_BEHIND_16 16
#define CLQ_ALIGNED_1 /* vload_half: PoCL has no vloada_half of one */
#define CLQ_ALIGNED_2 a
#define CLQ_ALIGNED_4 a
#define CLQ_ALIGNED_8 a
#define CLQ_ALIGNED_16 a
#define CLQ_HALF_NAME(name, N) CLQ_JOIN(CLQ_JOIN(name, CLQ_JOIN(CLQ_ALIGNED_, N)), OF_PACK(_half, N))
#define OF_PACK(name, N) CLQ_JOIN(name, CLQ_JOIN(CLQ_BEHIND_, N))
#define PACK(N) OF_PACK(float, N)
#define READ_PACK_0(N, p) (*(global const PACK(N) *)(p))
#define READ_PACK_1(N, p) CLQ_HALF_NAME(vload, N)(0, AS_HALVES(p))
#define READ_PACK_2(N, p) OF_PACK(as_float, N)(OF_PACK(convert_uint, N)(*(global const OF_PACK(ushort, N) *)(p)) << 16)
#define READ_PACK(S, N, p) CLQ_JOIN(READ_PACK_, S)(N, p)
#define WRITE_PACK_0(N, v, p) (*(global PACK(N) *)(p) = (v))
#define WRITE_PACK_1(N, v, p) CLQ_JOIN(CLQ_HALF_NAME(vstore, N), _rte)(v, 0, AS_HALVES(p))
#define WRITE_PACK_2(N, v, p)                                                                                          \
    (*(global OF_PACK(ushort, N) *)(p) = TO_BFLOAT(OF_PACK(as_uint, N)(v), OF_PACK(convert_ushort, N)))
#define WRITE_PACK(S, N, v, p) CLQ_JOIN(WRITE_PACK_, S)(N, v, p)

/* READ_V_UNTIL: the vector from p on. Nothing at or after `end` is read; those lanes are 0. READ_RUN: n numbers from p
 * on, all of them before `end`, become floats in private memory, which has room for whole vectors. Nothing at or after
 * `end` is read. So 16-bit numbers that are needed one by one are converted by whole vectors. */
#define CLQ_READ_UNTIL(name, S)                                                                                        \
    ALWAYS_INLINE floatv name(global const STORED(S) * p, global const STORED(S) * end) {                              \
        if (p + VEC <= end) return READ_V(S, p);                                                                       \
        float lanes[VEC];                                                                                              \
        for (int l = 0; l < VEC; l++) lanes[l] = p + l < end ? READ(S, p + l) : 0.0f;                                  \
        return CLQ_JOIN(vload, VEC)(0, lanes);                                                                         \
    }
CLQ_READ_UNTIL(read_0_until, 0)
CLQ_READ_UNTIL(read_1_until, 1)
CLQ_READ_UNTIL(read_2_until, 2)
#define READ_V_UNTIL(S, p, end) CLQ_JOIN(CLQ_JOIN(read_, S), _until)(p, end)
#define CLQ_READ_RUN(name, S)                                                                                          \
    ALWAYS_INLINE void name(float *to, global const STORED(S) * p, int n, global const STORED(S) * end) {              \
        int i = 0;                                                                                                     \
        for (; i < n && p + i + VEC <= end; i += VEC) *(floatv_anywhere *)(to + i) = READ_V(S, p + i);                 \
        for (; i < n; i++) to[i] = READ(S, p + i);                                                                     \
    }
CLQ_READ_RUN(read_1_run, 1)
CLQ_READ_RUN(read_2_run, 2)
#define READ_RUN(S, to, p, n, end) CLQ_JOIN(CLQ_JOIN(read_, S), _run)(to, p, n, end)

/* The attributes of kernels whose work-groups have one item. Unless told not to, Intel's compiler for CPUs also
 * vectorizes a kernel across work-items, which takes ten times as long as compiling the kernel alone. */
#ifdef cl_intel_vec_len_hint
#define CLQ_GROUP_OF_ONE __attribute__((reqd_work_group_size(1, 1, 1), intel_vec_len_hint(1)))
#else
#define CLQ_GROUP_OF_ONE __attribute__((reqd_work_group_size(1, 1, 1)))
#endif
/* A kernel whose work-item makes a whole register tile. It is launched with local size 1. */
#ifndef CLQ_JOINED
#define TILE_KERNEL kernel CLQ_GROUP_OF_ONE
#else
/* CLQ_JOINED: kernels are functions. Another kernel calls them, and passes the id of the work-item
 * (src/device/program/source_text.c). They are not inlined, since compilers take several times as long for one large
 * function. Their vectors are as wide as in kernels: otherwise clang halves the vectors of functions that take no
 * vectors (it prefers 256 bits to 512). */
#ifdef __has_attribute
#if __has_attribute(min_vector_width)
#define FULL_VECTORS __attribute__((min_vector_width(32 * VEC)))
#endif
#endif
#ifndef FULL_VECTORS
#define FULL_VECTORS
#endif
#define TILE_KERNEL FULL_VECTORS static __attribute__((noinline))
#define kernel TILE_KERNEL
#define get_global_id(d) clq_id##d
#define get_global_size(d) clq_size##d
#define get_group_id(d) clq_id##d
#define get_num_groups(d) clq_size##d
#endif

/* How work-items share pieces 0 .. n - 1. With TILE, there are few work-items, and each has a range of consecutive
 * pieces, from MY_FIRST to MY_END - 1. Otherwise there are many, and neighbours take neighbouring pieces. With TILE,
 * fewer pieces than work-items are spread over all work-items: drivers give consecutive work-items to one thread, which
 * would get all pieces if only the first work-items had them. FOR_MY_FROM: pieces first .. end - 1, always shared the
 * second way, for numbers that are left beside whole vectors. */
#ifdef TILE
#define KERNEL TILE_KERNEL
#define MY_FIRST(n) ((ulong)get_global_id(0) * (n) / get_global_size(0))
#define MY_END(n) (((ulong)get_global_id(0) + 1) * (n) / get_global_size(0))
#define FOR_MY(i, n) for (ulong all_ = (n), i = MY_FIRST(all_), end_ = MY_END(all_); i < end_; i++)
#else
#define KERNEL kernel
#define FOR_MY(i, n) for (size_t i = get_global_id(0); i < (size_t)(n); i += get_global_size(0))
#endif
#define FOR_MY_FROM(i, first, end)                                                                                     \
    for (size_t i = (size_t)(first) + get_global_id(0); i < (size_t)(end); i += get_global_size(0))

/* Prefetches the memory at p, which is soon read or written. PREFETCH: the compiler makes an instruction of it. The
 * cast is for compilers that keep address spaces apart. */
#ifdef PREFETCH
#define FETCH_TO_READ(p) __builtin_prefetch((const void *)(size_t)(p), 0, 3)
#define FETCH_TO_WRITE(p) __builtin_prefetch((const void *)(size_t)(p), 1, 3)
#else
#define FETCH_TO_READ(p)
#define FETCH_TO_WRITE(p)
#endif

/* Sum and maximum over a vector, by halves. */
static inline float floatv_sum(floatv v) {
#if VEC == 16
    float8 w = v.lo + v.hi;
    float4 x = w.lo + w.hi;
#elif VEC == 8
    float4 x = v.lo + v.hi;
#else
    float4 x = v;
#endif
    float2 y = x.lo + x.hi;
    return y.x + y.y;
}

static inline float floatv_max(floatv v) {
#if VEC == 16
    float8 w = fmax(v.lo, v.hi);
    float4 x = fmax(w.lo, w.hi);
#elif VEC == 8
    float4 x = fmax(v.lo, v.hi);
#else
    float4 x = v;
#endif
    float2 y = fmax(x.lo, x.hi);
    return fmax(y.x, y.y);
}

/* Transposes a square of vectors by perfect shuffles: each pass interleaves row i with row i + VEC / 2. */
ALWAYS_INLINE void floatv_transpose(floatv square[VEC]) {
    UNROLL for (int pass = 1; pass < VEC; pass *= 2) {
        floatv shuffled[VEC];
        UNROLL for (int i = 0; i < VEC / 2; i++) {
            floatv a = square[i], b = square[i + VEC / 2];
            shuffled[2 * i].even = a.lo;
            shuffled[2 * i].odd = b.lo;
            shuffled[2 * i + 1].even = a.hi;
            shuffled[2 * i + 1].odd = b.hi;
        }
        UNROLL for (int i = 0; i < VEC; i++) square[i] = shuffled[i];
    }
}

/* ACTIVATE_: the activations by their clq_activation: 0 linear, 1 relu, 2 sigmoid, 3 tanh. SLOPE_: the gradient before
 * the activation, from its result y and the gradient dy after it. T is the type of the numbers, float or a vector. NaN
 * passes forward. */
#define ACTIVATE_0(T, x) (x)
#define ACTIVATE_1(T, x) ((x) <= 0.0f ? (T)0 : (x))
#define ACTIVATE_2(T, x) (1.0f / (1.0f + exp(-(x))))
#define ACTIVATE_3(T, x) tanh(x)
#define SLOPE_0(T, y, dy) (dy)
#define SLOPE_1(T, y, dy) ((y) > 0.0f ? (dy) : (T)0)
#define SLOPE_2(T, y, dy) ((dy) * (y) * (1.0f - (y)))
#define SLOPE_3(T, y, dy) ((dy) * (1.0f - (y) * (y)))

/* -DACT: the activation that the program is made for. */
#ifndef ACT
#define ACT 0
#endif
#define ACTIVATE(T, x) CLQ_JOIN(ACTIVATE_, ACT)(T, x)
#define SLOPE(T, y, dy) CLQ_JOIN(SLOPE_, ACT)(T, y, dy)

/* The largest of n values after the activation, and which one it is: the first of equal ones. NaN wins and stays. Relu
 * is applied to the largest value only: it keeps the order of values, except where it makes them 0, and there the slope
 * is zero, so that the order does not matter. Other activations may make different values equal, so they are applied to
 * all values. none: 0, but not known to be: oclgrind 21.10 gets wrong what compilers make of a choice between 0 and
 * 1. */
ALWAYS_INLINE floatv best_of(const floatv *values, int n, int none, intv *which) {
    floatv best = values[0];
    intv where = none;
#if ACT > 1
    best = ACTIVATE(floatv, best);
#endif
    UNROLL for (int s = 1; s < n; s++) {
        floatv value = values[s];
#if ACT > 1
        value = ACTIVATE(floatv, value);
#endif
        intv better = (value > best) | (value != value);
        best = better ? value : best;
        where = better ? (intv)s : where;
    }
#if ACT == 1
    best = ACTIVATE(floatv, best);
#endif
    *which = where;
    return best;
}

/* Philox4x32-10 (Salmon et al., SC 2011): the same numbers as clq_philox4x32 makes on the host. */
static inline uint4 philox4x32(ulong key, ulong counter_low, ulong counter_high) {
    uint k0 = (uint)key, k1 = (uint)(key >> 32);
    uint4 c = (uint4)((uint)counter_low, (uint)(counter_low >> 32), (uint)counter_high, (uint)(counter_high >> 32));
    for (int round = 0; round < 10; round++) {
        uint high0 = mul_hi(0xD2511F53u, c.x), low0 = 0xD2511F53u * c.x;
        uint high1 = mul_hi(0xCD9E8D57u, c.z), low1 = 0xCD9E8D57u * c.z;
        c = (uint4)(high1 ^ c.y ^ k0, low1, high0 ^ c.w ^ k1, low0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}
