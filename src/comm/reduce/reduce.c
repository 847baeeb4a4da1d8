#include "comm/reduce/reduce.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <stdatomic.h>

/* Asks cpuid, since not every compiler can ask for F16C. Asks once, since cpuid traps in virtual machines. */
static bool has_f16c(void) {
    enum { UNKNOWN, NO, YES };
    static atomic_int known;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (answer == UNKNOWN) {
        unsigned a, b, c, d;
        answer = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) ? YES : NO;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == YES;
}

static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* The table is chosen at run time and not by an ifunc: not every C library has ifuncs, and their resolvers run before
 * the sanitizers are up. */
const clq_reduce_table *clq_reduce_table_at(clq_reduce_level level) {
    switch (level) {
    case CLQ_REDUCE_PLAIN: return &clq_reduce_plain;
    case CLQ_REDUCE_AVX2: return __builtin_cpu_supports("avx2") && has_f16c() ? &clq_reduce_avx2 : NULL;
    case CLQ_REDUCE_AVX512: return has_avx512() ? &clq_reduce_avx512 : NULL;
    default: return NULL;
    }
}
#else
const clq_reduce_table *clq_reduce_table_at(clq_reduce_level level) {
    return level == CLQ_REDUCE_PLAIN ? &clq_reduce_plain : NULL;
}
#endif

clq_reduce_function *clq_reduce_find_at(clq_reduce_level level, clq_dtype dtype, clq_redop op) {
    const clq_reduce_table *at = clq_reduce_table_at(level);
    if (!at || (unsigned)dtype >= CLQ_DTYPE_COUNT || (unsigned)op >= CLQ_REDOP_COUNT) return NULL;
    return at->by[dtype][op];
}

clq_reduce_function *clq_reduce_find(clq_dtype dtype, clq_redop op) {
    clq_reduce_function *found = NULL;
    for (int level = CLQ_REDUCE_LEVELS - 1; level >= 0 && !found; level--)
        found = clq_reduce_find_at((clq_reduce_level)level, dtype, op);
    return found;
}

static const clq_reduce_table *widest(void) {
    const clq_reduce_table *found = NULL;
    for (int level = CLQ_REDUCE_LEVELS - 1; !found; level--) found = clq_reduce_table_at((clq_reduce_level)level);
    return found;
}

void clq_reduce_to_halves(const float *floats, uint16_t *halves, size_t count) {
    widest()->to_halves(floats, halves, count);
}

void clq_reduce_from_halves(const uint16_t *halves, float *floats, size_t count) {
    widest()->from_halves(halves, floats, count);
}
