/* Vectors of one width, VECTOR bytes, that the processor has: their types, how halves are loaded and stored, how sums
 * become averages, how results are streamed. Included once by each file that makes the functions for a width; TARGET is
 * the attribute that lets the compiler use it.
 *
 * Vectors by hand rather than by the compiler: in place, inputs and outputs are the same memory, which its check for
 * overlap would send to the scalar loop. Never wider than the processor's own: those go through memory. */
#ifndef CLQ_COMM_REDUCE_VECTOR_H
#define CLQ_COMM_REDUCE_VECTOR_H

#include "comm/reduce/reduce.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE TARGET __attribute__((always_inline)) static inline

/* For every element type T: T_work, a vector of what is computed in; T_stored, as many elements as they lie in memory;
 * T_mask, what comparing two T_work gives; T_element, one of its elements. */
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

/* ---- halves ---- */

#if VECTOR == 64
#define FROM_HALVES(halves) _mm512_cvtph_ps((__m256i)(halves))
#define TO_HALVES(floats) _mm512_cvtps_ph((__m512)(floats), _MM_FROUND_TO_NEAREST_INT)
INLINE void widen(u32_work *to, const bf16_stored *from) { *to = (u32_work)_mm512_cvtepu16_epi32((__m256i)*from); }
INLINE void narrow(bf16_stored *to, const u32_work *from) { *to = (bf16_stored)_mm512_cvtepi32_epi16((__m512i)*from); }
#elif VECTOR == 32
#define FROM_HALVES(halves) _mm256_cvtph_ps((__m128i)(halves))
#define TO_HALVES(floats) _mm256_cvtps_ph((__m256)(floats), _MM_FROUND_TO_NEAREST_INT)
INLINE void widen(u32_work *to, const bf16_stored *from) { *to = (u32_work)_mm256_cvtepu16_epi32((__m128i)*from); }
INLINE void narrow(bf16_stored *to, const u32_work *from) {
    __m256i words = (__m256i)*from;
    *to = (bf16_stored)_mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
}
#elif defined(__x86_64__)
INLINE void widen(u32_work *to, const bf16_stored *from) {
    *to = (u32_work)_mm_unpacklo_epi16(_mm_loadl_epi64((const void *)from), _mm_setzero_si128());
}
/* The packing saturates as signed. */
INLINE void narrow(bf16_stored *to, const u32_work *from) {
    __m128i extended = _mm_srai_epi32(_mm_slli_epi32((__m128i)*from, 16), 16);
    _mm_storel_epi64((void *)to, _mm_packs_epi32(extended, extended));
}
#else
INLINE void widen(u32_work *to, const bf16_stored *from) { *to = __builtin_convertvector(*from, u32_work); }
INLINE void narrow(bf16_stored *to, const u32_work *from) { *to = __builtin_convertvector(*from, bf16_stored); }
#endif

/* To nearest, ties to even, as the processors do it; but a NaN keeps only its sign. */
#if VECTOR >= 32
INLINE void load_f16(f16_work *to, const f16_stored *from) { *to = (f16_work)FROM_HALVES(*from); }
INLINE void store_f16(f16_stored *to, const f16_work *from) {
    u32_work nan = ((u32_work)*from & 0x80000000u) | 0x7fc00000u;
    f16_work value = SELECT(f16, *from != *from, nan, *from);
    *to = (f16_stored)TO_HALVES(value);
}
#else
INLINE void load_f16(f16_work *to, const f16_stored *from) {
    u32_work half;
    widen(&half, from);
    u32_work sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    u32_work normal = (rest << 13) + (112u << 23), special = (rest << 13) | 0x7f800000u;
    i32_work compared = (i32_work)rest; /* no processor of this width compares unsigned ones */
    u32_work tiny = (u32_work)(__builtin_convertvector(compared, f32_work) * 0x1p-24f);
    u32_work bits = SELECT(u32, compared >= 0x7c00, special, normal);
    *to = (f16_work)(SELECT(u32, compared < 0x400, tiny, bits) | sign);
}

/* Below 2^-14 the addition rounds: a unit of 0.5 is that of the small halves. */
INLINE void store_f16(f16_stored *to, const f16_work *from) {
    u32_work bits = (u32_work)*from, sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    u32_work normal = (rest + 0xfffu + ((rest >> 13) & 1u) - (112u << 23)) >> 13;
    u32_work tiny = (u32_work)((f32_work)rest + 0.5f) - 0x3f000000u;
    i32_work compared = (i32_work)rest;
    u32_work special = ((u32_work)(compared > 0x7f800000) & 0x200u) | 0x7c00u;
    u32_work half = SELECT(u32, compared >= 0x47800000, special, normal);
    u32_work made = SELECT(u32, compared < 0x38800000, tiny, half) | sign;
    narrow(to, &made);
}
#endif

INLINE void load_bf16(bf16_work *to, const bf16_stored *from) {
    u32_work half;
    widen(&half, from);
    *to = (bf16_work)(half << 16);
}

/* Not by the processors' own conversion, which takes the smallest numbers for zero. */
INLINE void store_bf16(bf16_stored *to, const bf16_work *from) {
    u32_work bits = (u32_work)*from, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    u32_work half = SELECT(u32, *from != *from, (bits >> 16) | 0x40u, rounded);
    narrow(to, &half);
}

#define LOAD_SAME(to, from) (*(to) = *(from))

/* ---- averages of integers: no processor divides vectors of them ---- */

/* v / n of whole numbers below 2^16 * n and 2^16: (v - (n - 1) / 2) / n lies at least 1 / 2n off what would round to
 * another than the result, and the two roundings before err by less; adding 1.5 * 2^23 leaves it in the lowest bits. */
INLINE void divide_16(u32_work *v, unsigned n) {
    f32_work x = (f32_work)(*v | 0x4b000000u) - 0x1p23f;
    x = (x - (float)(n - 1) * 0.5f) * (1.0f / (float)n) + 0x1.8p23f;
    *v = (u32_work)x & 0x3fffffu;
}

/* The same of numbers below 2^32 * n. */
INLINE void divide_32(u64_work *v, unsigned n) {
    f64_work x = (f64_work)(*v | 0x4330000000000000u) - 0x1p52;
    x = (x - (double)(n - 1) * 0.5) * (1.0 / (double)n) + 0x1.8p52;
    *v = (u64_work)x & 0x7ffffffffffffu;
}

INLINE void divide_u8(u8_work *sums, unsigned n) {
    u32_work all = (u32_work)*sums, made = all ^ all;
    for (unsigned bit = 0; bit < 32; bit += 8) {
        u32_work v = (all >> bit) & 0xffu;
        divide_16(&v, n);
        made |= v << bit;
    }
    *sums = (u8_work)made;
}

INLINE void divide_u16(u16_work *sums, unsigned n) {
    u32_work low = (u32_work)*sums & 0xffffu, high = (u32_work)*sums >> 16;
    divide_16(&low, n);
    divide_16(&high, n);
    *sums = (u16_work)(low | high << 16);
}

INLINE void divide_u32(u32_work *sums, unsigned n) {
    u64_work low = (u64_work)*sums & 0xffffffffu, high = (u64_work)*sums >> 32;
    divide_32(&low, n);
    divide_32(&high, n);
    *sums = (u32_work)(low | high << 32);
}

/* By digits of 32 bits: what the first leaves goes before the second. */
INLINE void divide_u64(u64_work *sums, unsigned n) {
    u64_work high = *sums >> 32, low = *sums & 0xffffffffu, first = high;
    divide_32(&first, n);
    low |= (high - (u64_work)((u32_work)first * n)) << 32;
    divide_32(&low, n);
    *sums = first << 32 | low;
}

/* Towards zero, as C divides: the size, and the sign again. */
#define DEFINE_SIGNED_DIVIDE(T, UNSIGNED)                                                                              \
    INLINE void divide_##T(UNSIGNED##_work *sums, unsigned n) {                                                        \
        UNSIGNED##_work minus = (UNSIGNED##_work)((T##_work) * sums < 0), size = (*sums ^ minus) - minus;              \
        divide_##UNSIGNED(&size, n);                                                                                   \
        *sums = (size ^ minus) - minus;                                                                                \
    }
DEFINE_SIGNED_DIVIDE(i8, u8)
DEFINE_SIGNED_DIVIDE(i16, u16)
DEFINE_SIGNED_DIVIDE(i32, u32)
DEFINE_SIGNED_DIVIDE(i64, u64)

/* ---- streaming ---- */

/* Lines of outputs are written past the caches without being fetched first, and those of inputs are fetched ahead and
 * past the larger caches, which gains a tenth; in place, where no line is spared, a fifth. */
enum { LINE = 64, FETCH_AHEAD = 4096 };

INLINE void fetch_ahead(const void *const *in, unsigned ins, size_t at, size_t block) {
    for (unsigned k = 0; k < ins; k++)
        for (size_t line = 0; line < block; line += LINE)
            __builtin_prefetch((const char *)in[k] + at + FETCH_AHEAD + line, 0, 0);
}

/* The outputs that are not also inputs, whose lines are there already: a bit for each. */
INLINE uint64_t apart_from_inputs(const void *const *in, unsigned ins, void *const *out, unsigned outs) {
    uint64_t apart = 0;
    for (unsigned k = 0; k < outs; k++) {
        uint64_t bit = (uint64_t)1 << k;
        for (unsigned j = 0; j < ins; j++)
            if (in[j] == out[k]) bit = 0;
        apart |= bit;
    }
    return apart;
}

/* Bytes to reduce before `to` is aligned. An output that is not aligned as the first one is gets usual stores. */
INLINE size_t stream_head(const char *to, size_t aligned, size_t element) {
    size_t head = (size_t)(-(uintptr_t)to) % aligned;
    return head % element == 0 ? head : 0;
}

/* A stored vector, VECTOR bytes or half of that, to where it is aligned. */
INLINE void stream_vector(char *to, const void *from, size_t bytes) {
#if VECTOR == 64
    if (bytes == 64)
        _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
    else
        _mm256_stream_si256((void *)to, _mm256_loadu_si256(from));
#elif VECTOR == 32
    if (bytes == 32)
        _mm256_stream_si256((void *)to, _mm256_loadu_si256(from));
    else
        _mm_stream_si128((void *)to, _mm_loadu_si128(from));
#elif defined(__x86_64__)
    long long word;
    memcpy(&word, from, sizeof word);
    if (bytes == 16)
        _mm_stream_si128((void *)to, _mm_loadu_si128(from));
    else
        _mm_stream_si64((void *)to, word);
#else
    memcpy(to, from, bytes);
#endif
}

INLINE void stream_end(void) {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

#endif
