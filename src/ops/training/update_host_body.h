/* The rules, compiled for one width of vectors. The including file defines VECTOR, the bytes of a vector; TARGET, the
 * attribute that lets the compiler use such vectors; and TABLE, the name of the table of functions. This file defines
 * what cl/update_rules.cl expects of the language in which it is compiled. */
#include "ops/training/update_host.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <math.h>
#endif

typedef float floatv __attribute__((vector_size(VECTOR)));
typedef int32_t intv __attribute__((vector_size(VECTOR)));
enum { LANES = VECTOR / sizeof(float) };
#define ALWAYS_INLINE TARGET __attribute__((always_inline)) static inline

ALWAYS_INLINE floatv roots(floatv v) {
#if defined(__x86_64__) && VECTOR == 32
    return (floatv)_mm256_sqrt_ps((__m256)v);
#elif defined(__x86_64__)
    return (floatv)_mm_sqrt_ps((__m128)v);
#else
    for (int i = 0; i < LANES; i++) v[i] = sqrtf(v[i]);
    return v;
#endif
}
#define sqrt(v) roots(v)

ALWAYS_INLINE floatv pick(intv condition, floatv a, floatv b) {
    return (floatv)(((intv)a & condition) | ((intv)b & ~condition));
}
#define PICK(condition, a, b) pick(condition, a, b)
#define ALL(number) ((floatv){0} + (number))

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" /* all rules have the same parameters */
#include "update_rules.cl"
#pragma GCC diagnostic pop

/* Loads `bytes` bytes of a vector. The other lanes are 0. */
ALWAYS_INLINE floatv load(const float *from, size_t bytes) {
    floatv v = {0};
    memcpy(&v, from, bytes);
    return v;
}

ALWAYS_INLINE floatv gradient_at(const clq_host_update *u, size_t i, size_t bytes) {
    floatv sum = load(u->gradients[0] + i, bytes);
    for (unsigned r = 1; r < u->gradient_count; r++) sum += load(u->gradients[r] + i, bytes);
    sum *= u->factor;
    if (u->sum) memcpy(u->sum + i, &sum, bytes);
    return sum;
}

ALWAYS_INLINE floatv limited(floatv g, float limit) {
    return limit > 0 ? PICK(g > limit, ALL(limit), PICK(g < -limit, ALL(-limit), g)) : g;
}

ALWAYS_INLINE void move_average(float *average, floatv w, float part, size_t bytes) {
    const floatv before = load(average, bytes), after = before + (w - before) * part;
    memcpy(average, &after, bytes);
}

ALWAYS_INLINE void set_weights(const clq_host_update *u, const clq_host_numbers *n, size_t i, floatv w, size_t bytes) {
    memcpy(u->w + i, &w, bytes);
    if (u->average) move_average(u->average + i, w, n->average, bytes);
    for (unsigned k = 0; k < u->copy_count; k++) memcpy(u->copies[k] + i, &w, bytes);
}

/* Runs NAME_at over all floats of an update. */
#define RUN(NAME)                                                                                                      \
    TARGET static void NAME##_run(const clq_host_update *u, const clq_host_numbers *n) {                               \
        const size_t end = u->first + u->floats;                                                                       \
        size_t i = u->first;                                                                                           \
        for (; i + LANES <= end; i += LANES) NAME##_at(u, n, i, VECTOR);                                               \
        if (i < end) NAME##_at(u, n, i, (end - i) * sizeof(float));                                                    \
    }

/* Updates one vector, from float i on. The rule computes lanes beyond `bytes`, too, but they are not stored. */
#define RULE(NAME, STATES)                                                                                             \
    ALWAYS_INLINE void NAME##_at(const clq_host_update *u, const clq_host_numbers *n, size_t i, size_t bytes) {        \
        const clq_update_rates *r = &n->rates;                                                                         \
        const float *c = n->constants;                                                                                 \
        floatv s[STATES + 1], old = load(u->w + i, bytes);                                                             \
        const floatv g = limited(gradient_at(u, i, bytes), u->limit);                                                  \
        for (int k = 0; k < STATES; k++) s[k] = load(u->states[k] + i, bytes);                                         \
        if (r->decay != 0) old -= old * r->decay;                                                                      \
        const floatv w = rule_##NAME(old, g, s, r->rate, r->second, r->third, c[0], c[1], c[2]);                       \
        for (int k = 0; k < STATES; k++) memcpy(u->states[k] + i, &s[k], bytes);                                       \
        set_weights(u, n, i, w, bytes);                                                                                \
    }                                                                                                                  \
    RUN(NAME)
UPDATE_RULES(RULE)

/* Adds the squares of a vector's numbers to several chains, which do not depend on the width of vectors. So the sums do
 * not depend on it, either. */
enum { CHAINS = 8 };
ALWAYS_INLINE void add_squares(double *sums, floatv v, size_t at, size_t bytes) {
    float lanes[LANES] = {0};
    memcpy(lanes, &v, bytes);
    for (size_t k = 0; k < LANES; k++) sums[(at + k) % CHAINS] += (double)lanes[k] * (double)lanes[k];
}

static double sum_of(const double *sums) {
    double sum = 0;
    for (size_t k = 0; k < CHAINS; k++) sum += sums[k];
    return sum;
}

/* Both passes of a rule with a trust ratio. */
#define TRUST_RATIO_RULE(NAME, STATES)                                                                                 \
    ALWAYS_INLINE void NAME##_direction_at(const clq_host_update *u, const clq_host_numbers *n, size_t i,              \
                                           size_t bytes, double sums[2][CHAINS]) {                                     \
        const clq_update_rates *r = &n->rates;                                                                         \
        const float *c = n->constants;                                                                                 \
        floatv s[STATES + 1], old = load(u->w + i, bytes);                                                             \
        const floatv g = limited(gradient_at(u, i, bytes), u->limit);                                                  \
        for (int k = 0; k < STATES; k++) s[k] = load(u->states[k] + i, bytes);                                         \
        if (r->decay != 0) old -= old * r->decay;                                                                      \
        const floatv d = direction_##NAME(old, g, s, r->rate, r->second, r->third, c[0], c[1], c[2]);                  \
        for (int k = 0; k < STATES; k++) memcpy(u->states[k] + i, &s[k], bytes);                                       \
        add_squares(sums[0], old, i - u->first, bytes);                                                                \
        add_squares(sums[1], d, i - u->first, bytes);                                                                  \
    }                                                                                                                  \
    TARGET static void NAME##_direct(const clq_host_update *u, const clq_host_numbers *n, double squares[2]) {         \
        const size_t end = u->first + u->floats;                                                                       \
        double sums[2][CHAINS] = {{0}};                                                                                \
        size_t i = u->first;                                                                                           \
        for (; i + LANES <= end; i += LANES) NAME##_direction_at(u, n, i, VECTOR, sums);                               \
        if (i < end) NAME##_direction_at(u, n, i, (end - i) * sizeof(float), sums);                                    \
        for (int k = 0; k < 2; k++) squares[k] = sum_of(sums[k]);                                                      \
    }                                                                                                                  \
    ALWAYS_INLINE void NAME##_at(const clq_host_update *u, const clq_host_numbers *n, size_t i, size_t bytes) {        \
        const clq_update_rates *r = &n->rates;                                                                         \
        const float *c = n->constants;                                                                                 \
        floatv s[STATES + 1], old = load(u->w + i, bytes);                                                             \
        for (int k = 0; k < STATES; k++) s[k] = load(u->states[k] + i, bytes);                                         \
        if (r->decay != 0) old -= old * r->decay;                                                                      \
        set_weights(u, n, i, rule_##NAME(old, ALL(u->ratio), s, r->rate, r->second, r->third, c[0], c[1], c[2]),       \
                    bytes);                                                                                            \
    }                                                                                                                  \
    RUN(NAME)
TRUST_RATIO_RULES(TRUST_RATIO_RULE)

TARGET static void sum_run(const clq_host_update *u, const clq_host_numbers *n) {
    const size_t end = u->first + u->floats;
    size_t i = u->first;
    (void)n;
    for (; i + LANES <= end; i += LANES) (void)gradient_at(u, i, VECTOR);
    if (i < end) (void)gradient_at(u, i, (end - i) * sizeof(float));
}

#define ROW(NAME, STATES) {#NAME, NAME##_run, NULL},
#define TRUST_RATIO_ROW(NAME, STATES) {#NAME, NAME##_run, NAME##_direct},
const clq_host_rule_row TABLE[] = {UPDATE_RULES(ROW) TRUST_RATIO_RULES(TRUST_RATIO_ROW){NULL, sum_run, NULL}};
