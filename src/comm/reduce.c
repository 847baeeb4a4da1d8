#include "comm/reduce.h"

#include <string.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

/* Not copied into each of the functions for halves: the call costs a tenth of them, the copies half a megabyte. */
#define CALLED __attribute__((noinline))

/* For every element type T: T_work, a vector of what is computed in; T_stored, as many elements as they lie in memory;
 * T_mask, what comparing two T_work gives; T_element, one of its elements. */
enum { VECTOR = 64 };
#define TYPES(T, STORED, WORK, MASK)                                                                                   \
    typedef WORK T##_work __attribute__((vector_size(VECTOR)));                                                        \
    typedef STORED T##_stored __attribute__((vector_size(VECTOR / sizeof(WORK) * sizeof(STORED))));                    \
    typedef MASK T##_mask __attribute__((vector_size(VECTOR)));                                                        \
    typedef WORK T##_element;
TYPES(f32, float, float, int32_t)
TYPES(f64, double, double, int64_t)
TYPES(f16, uint16_t, float, int32_t)
TYPES(bf16, uint16_t, float, int32_t)
TYPES(i8, int8_t, int8_t, int8_t)
TYPES(i16, int16_t, int16_t, int16_t)
TYPES(i32, int32_t, int32_t, int32_t)
TYPES(i64, int64_t, int64_t, int64_t)
TYPES(u8, uint8_t, uint8_t, int8_t)
TYPES(u16, uint16_t, uint16_t, int16_t)
TYPES(u32, uint32_t, uint32_t, int32_t)
TYPES(u64, uint64_t, uint64_t, int64_t)
#define ELEMENT(T) (sizeof(T##_stored) / (sizeof(T##_work) / sizeof(T##_element)))

/* Vectors a where the mask is set, b elsewhere. */
#define SELECT(T, m, a, b) ((T##_work)(((T##_mask)(a) & (T##_mask)(m)) | ((T##_mask)(b) & ~(T##_mask)(m))))
#define OP_SUM(T, a, b) ((a) + (b))
#define OP_PROD(T, a, b) ((a) * (b))
#define OP_MIN(T, a, b) SELECT(T, (a) < (b), a, b)
#define OP_MAX(T, a, b) SELECT(T, (a) > (b), a, b)
/* NaN wins: it compares with nothing, itself included. */
#define OP_FLOAT_MIN(T, a, b) SELECT(T, ((a) < (b)) | ((a) != (a)), a, b)
#define OP_FLOAT_MAX(T, a, b) SELECT(T, ((a) > (b)) | ((a) != (a)), a, b)

/* What becomes of a vector of sums. */
#define KEEP(T, v) ((void)ranks)
/* By one rounded factor and not by a division, which devices may round as they like: host and devices agree. */
#define SCALE(T, v) ((v) *= (T##_element)1 / (T##_element)ranks)
/* One by one: no processor divides vectors of integers. */
#define DEFINE_DIVIDE(T)                                                                                               \
    static void divide_##T(T##_element *sums, unsigned ranks) {                                                        \
        for (size_t i = 0; i < VECTOR / sizeof *sums; i++) sums[i] = (T##_element)(sums[i] / (T##_element)ranks);      \
    }
DEFINE_DIVIDE(i8)
DEFINE_DIVIDE(i16)
DEFINE_DIVIDE(i32)
DEFINE_DIVIDE(i64)
DEFINE_DIVIDE(u8)
DEFINE_DIVIDE(u16)
DEFINE_DIVIDE(u32)
DEFINE_DIVIDE(u64)
#define DIVIDE_i8(T, v) divide_i8((i8_element *)&(v), ranks)
#define DIVIDE_i16(T, v) divide_i16((i16_element *)&(v), ranks)
#define DIVIDE_i32(T, v) divide_i32((i32_element *)&(v), ranks)
#define DIVIDE_i64(T, v) divide_i64((i64_element *)&(v), ranks)
#define DIVIDE_u8(T, v) divide_u8((u8_element *)&(v), ranks)
#define DIVIDE_u16(T, v) divide_u16((u16_element *)&(v), ranks)
#define DIVIDE_u32(T, v) divide_u32((u32_element *)&(v), ranks)
#define DIVIDE_u64(T, v) divide_u64((u64_element *)&(v), ranks)

typedef void reducer(const void *const *in, unsigned ins, void *const *out, unsigned outs, size_t begin, size_t end,
                     unsigned ranks, bool stream);
/* The last index: whether results are streamed. */
typedef clq_reduce_function *reduce_table[CLQ_DTYPE_COUNT][CLQ_REDOP_COUNT][2];

/* What is less than a block goes through one that is whole: its end is zeros. */
static void reduce_rest(reducer *reduce, size_t block, size_t element, const void *const *in, unsigned ins,
                        void *const *out, unsigned outs, size_t at, size_t bytes, unsigned ranks) {
    char blocks[CLQ_REPLICAS_MAX][4 * VECTOR];
    const void *from[CLQ_REPLICAS_MAX];
    void *to[1] = {blocks[0]};
    for (unsigned k = 0; k < ins; k++) {
        memcpy(blocks[k], (const char *)in[k] + at, bytes);
        memset(blocks[k] + bytes, 0, block - bytes);
        from[k] = blocks[k];
    }
    reduce(from, ins, to, 1, 0, block / element, ranks, false);
    for (unsigned k = 0; k < outs; k++) memcpy((char *)out[k] + at, blocks[0], bytes);
}

/* Streamed: lines of outputs are written past the caches without being fetched first, and those of inputs are fetched
 * ahead and past the larger caches, which gains a tenth. An output that is not aligned as the first one is gets usual
 * stores. */
enum { STREAM_ALIGNED = 64, FETCH_AHEAD = 4096, LINE = 64 };

/* Bytes to reduce before `to` is aligned. */
static size_t stream_head(const char *to, size_t element) {
    size_t head = (size_t)(-(uintptr_t)to) % STREAM_ALIGNED;
    return head % element == 0 ? head : 0;
}

static inline void fetch_ahead(const void *const *in, unsigned ins, size_t at, size_t block) {
    for (unsigned k = 0; k < ins; k++)
        for (size_t line = 0; line < block; line += LINE)
            __builtin_prefetch((const char *)in[k] + at + FETCH_AHEAD + line, 0, 0);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define STREAM_SSE2(to, from) _mm_stream_si128((__m128i *)(to), _mm_loadu_si128((const __m128i *)(from)))
#define STREAM_AVX(to, from) _mm256_stream_si256((__m256i *)(to), _mm256_loadu_si256((const __m256i *)(from)))
#define STREAM_AVX512(to, from) _mm512_stream_si512((__m512i *)(to), _mm512_loadu_si512(from))
#define STREAM_BY(WIDTH, STORE, to, v)                                                                                 \
    for (size_t step = 0; step < sizeof(v); step += (WIDTH))                                                           \
    STORE((void *)((to) + step), (const void *)((const char *)&(v) + step))
static void stream_end(void) { _mm_sfence(); }
#else
static void stream_end(void) {}
#endif

/* Every function, for every width. Chosen by a pointer and not by an ifunc, whose resolver runs before the sanitizers
 * are up and which not every C library has. */
#define LEVEL(name) name##_plain
#define TARGET
#if defined(__x86_64__) && defined(__GNUC__)
#define STREAM(to, v) STREAM_BY(16, STREAM_SSE2, to, v)
#else
#define STREAM(to, v) memcpy(to, &(v), sizeof(v))
#endif
#include "comm/reduce_body.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define LEVEL(name) name##_avx2
#define TARGET __attribute__((target("avx2")))
#define STREAM(to, v) STREAM_BY(32, STREAM_AVX, to, v)
#include "comm/reduce_body.h"
#define LEVEL(name) name##_avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define STREAM(to, v)                                                                                                  \
    do {                                                                                                               \
        if (sizeof(v) % 64 == 0)                                                                                       \
            STREAM_BY(64, STREAM_AVX512, to, v);                                                                       \
        else                                                                                                           \
            STREAM_BY(32, STREAM_AVX, to, v);                                                                          \
    } while (0)
#include "comm/reduce_body.h"

static const reduce_table *widest(void) {
    bool avx512 =
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (avx512) return &table_avx512;
    return __builtin_cpu_supports("avx2") ? &table_avx2 : &table_plain;
}
#else
static const reduce_table *widest(void) { return &table_plain; }
#endif

static clq_reduce_function *find(clq_dtype dtype, clq_redop op, bool stream) {
    if ((unsigned)dtype >= CLQ_DTYPE_COUNT || (unsigned)op >= CLQ_REDOP_COUNT) return NULL;
    return (*widest())[dtype][op][stream];
}

clq_reduce_function *clq_reduce_find(clq_dtype dtype, clq_redop op) { return find(dtype, op, false); }

clq_reduce_function *clq_reduce_find_streaming(clq_dtype dtype, clq_redop op) { return find(dtype, op, true); }
