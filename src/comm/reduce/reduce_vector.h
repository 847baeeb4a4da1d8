/* Vectors of one width that the processor has, VECTOR bytes: their types, and how they load and store halves, make
 * averages of sums, and stream results. Each file that makes the functions for a width includes this once. TARGET is
 * the attribute that lets the compiler use that width.
 *
 * The vectors are written by hand because of in-place calls: inputs and outputs are then the same memory, and a loop
 * that the compiler vectorized would find that they overlap and take its scalar version. Vectors are never wider than
 * the processor's own, since the compiler would pass wider ones through memory. */
#ifndef CLQ_COMM_REDUCE_VECTOR_H
#define CLQ_COMM_REDUCE_VECTOR_H

#include "comm/reduce/reduce.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE TARGET __attribute__((always_inline)) static inline

/* For every element type T. T_work: a vector of the type that is computed in. T_stored: as many elements as they lie in
 * memory. T_mask: what comparing two T_work gives. T_element: one element of T_work. */
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

/* Takes an element from a if its mask is set, otherwise from b. */
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
/* The packing saturates signed numbers, so the lower 16 bits are sign-extended first. */
INLINE void narrow(bf16_stored *to, const u32_work *from) {
    __m128i extended = _mm_srai_epi32(_mm_slli_epi32((__m128i)*from, 16), 16);
    _mm_storel_epi64((void *)to, _mm_packs_epi32(extended, extended));
}
#else
INLINE void widen(u32_work *to, const bf16_stored *from) { *to = __builtin_convertvector(*from, u32_work); }
INLINE void narrow(bf16_stored *to, const u32_work *from) { *to = __builtin_convertvector(*from, bf16_stored); }
#endif

/* Rounding is to nearest, ties to even, as processors do it. But a NaN keeps only its sign. */
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
    i32_work compared = (i32_work)rest; /* no processor with this width compares unsigned integers */
    u32_work tiny = (u32_work)(__builtin_convertvector(compared, f32_work) * 0x1p-24f);
    u32_work bits = SELECT(u32, compared >= 0x7c00, special, normal);
    *to = (f16_work)(SELECT(u32, compared < 0x400, tiny, bits) | sign);
}

/* Below 2^-14 the addition of 0.5 rounds: the lowest bit of a float from 0.5 to 1 is 2^-24, as that of the subnormal
 * halves. */
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

/* Does not use the processors' own conversion, which treats the smallest numbers as zero. */
INLINE void store_bf16(bf16_stored *to, const bf16_work *from) {
    u32_work bits = (u32_work)*from, rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    u32_work half = SELECT(u32, *from != *from, (bits >> 16) | 0x40u, rounded);
    narrow(to, &half);
}

#define LOAD_SAME(to, from) (*(to) = *(from))

/* ---- averages of integers: no processor divides vectors of integers ---- */

/* v / n, rounded down, for whole numbers v and n below 2^16. (v - (n - 1) / 2) / n rounds to this quotient: it lies at
 * least 1 / 2n away from all that rounds to another number, and the two roundings before err by less. Adding 1.5 * 2^23
 * rounds it, and leaves the quotient in the lowest bits. */
INLINE void divide_16(u32_work *v, unsigned n) {
    f32_work x = (f32_work)(*v | 0x4b000000u) - 0x1p23f;
    x = (x - (float)(n - 1) * 0.5f) * (1.0f / (float)n) + 0x1.8p23f;
    *v = (u32_work)x & 0x3fffffu;
}

/* The same for whole numbers v below 2^32 * n. */
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

/* Long division by digits of 32 bits: the first digit's remainder goes before the second digit. */
INLINE void divide_u64(u64_work *sums, unsigned n) {
    u64_work high = *sums >> 32, low = *sums & 0xffffffffu, first = high;
    divide_32(&first, n);
    low |= (high - (u64_work)((u32_work)first * n)) << 32;
    divide_32(&low, n);
    *sums = first << 32 | low;
}

/* Rounds toward zero, as C does: divides the magnitude, then restores the sign. */
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

/* Output lines are written past the caches without being fetched first. Input lines are prefetched, past the larger
 * caches: that gains a tenth. In place, when output lines are not streamed, it gains a fifth. */
enum { LINE = 64, FETCH_AHEAD = 4096 };

INLINE void fetch_ahead(const void *const *in, unsigned ins, size_t at, size_t block) {
    for (unsigned k = 0; k < ins; k++)
        for (size_t line = 0; line < block; line += LINE)
            __builtin_prefetch((const char *)in[k] + at + FETCH_AHEAD + line, 0, 0);
}

/* A bit for each output that is not also an input. The lines of an output that is an input are in the caches
 * already. */
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

/* How many bytes lie between `to`, a place in the first output, and the next aligned address; these are reduced first.
 * 0: `to` is aligned, or the bytes are no whole elements. Outputs that are aligned differently get ordinary stores. */
INLINE size_t stream_head(const char *to, size_t aligned, size_t element) {
    size_t head = (size_t)(-(uintptr_t)to) % aligned;
    return head % element == 0 ? head : 0;
}

/* Stores a vector, VECTOR bytes or half as many, past the caches to an aligned address. */
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
