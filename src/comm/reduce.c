#include "comm/reduce.h"

#include <string.h>

/* Vectors by hand rather than by the compiler: in place, inputs and outputs are the same memory, which the compiler's
 * check for overlap would send to the scalar loop. One body, compiled for several widths; chosen by a pointer and not
 * by an ifunc, whose resolver runs before the sanitizers are up and which not every C library has. Plain stores:
 * non-temporal ones lose at every size, because the devices read the result at once. */
enum { WIDTH = 16, BLOCK = 4 * WIDTH };
typedef float vector __attribute__((vector_size(WIDTH * sizeof(float))));

/* Compiles to one unaligned load or store per vector. */
#define LOAD(v, from) memcpy(&(v), (from), sizeof(vector))
#define STORE(to, v) memcpy((to), &(v), sizeof(vector))

static inline __attribute__((always_inline)) void reduce_body(const float *const *in, float *const *out, unsigned ranks,
                                                              size_t begin, size_t end) {
    size_t i = begin;
    for (; i + BLOCK <= end; i += BLOCK) {
        vector a, b, c, d, x;
        LOAD(a, in[0] + i);
        LOAD(b, in[0] + i + WIDTH);
        LOAD(c, in[0] + i + 2 * WIDTH);
        LOAD(d, in[0] + i + 3 * WIDTH);
        for (unsigned k = 1; k < ranks; k++) {
            const float *from = in[k] + i;
            LOAD(x, from);
            a += x;
            LOAD(x, from + WIDTH);
            b += x;
            LOAD(x, from + 2 * WIDTH);
            c += x;
            LOAD(x, from + 3 * WIDTH);
            d += x;
        }
        for (unsigned k = 0; k < ranks; k++) {
            float *to = out[k] + i;
            STORE(to, a);
            STORE(to + WIDTH, b);
            STORE(to + 2 * WIDTH, c);
            STORE(to + 3 * WIDTH, d);
        }
    }
    for (; i < end; i++) {
        float sum = in[0][i];
        for (unsigned k = 1; k < ranks; k++) sum += in[k][i];
        for (unsigned k = 0; k < ranks; k++) out[k][i] = sum;
    }
}

static void reduce_plain(const float *const *in, float *const *out, unsigned ranks, size_t begin, size_t end) {
    reduce_body(in, out, ranks, begin, end);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void reduce_avx2(const float *const *in, float *const *out, unsigned ranks,
                                                        size_t begin, size_t end) {
    reduce_body(in, out, ranks, begin, end);
}

__attribute__((target("avx512f"))) static void reduce_avx512(const float *const *in, float *const *out, unsigned ranks,
                                                             size_t begin, size_t end) {
    reduce_body(in, out, ranks, begin, end);
}

clq_reduce_f32 *clq_reduce_f32_best(void) {
    if (__builtin_cpu_supports("avx512f")) return reduce_avx512;
    if (__builtin_cpu_supports("avx2")) return reduce_avx2;
    return reduce_plain;
}
#else
clq_reduce_f32 *clq_reduce_f32_best(void) { return reduce_plain; }
#endif
