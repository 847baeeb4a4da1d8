/* Disguised devices, for tests that run the same work under many orders of their drivers. */
#ifndef CLQ_TEST_STRICT_CASE_H
#define CLQ_TEST_STRICT_CASE_H

#include "support/check.h"
#include "support/strict.h"

/* PoCL's devices become two NVIDIAs, two AMDs and, from the thread pool, a third AMD. One stays a CPU: pocl:0. */
#define STRICT_DISGUISE "disguise=nnaa-a "

/* How many orders of the drivers each case runs under, unless the test's command line asks for more. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { STRICT_SEEDS = 1 };
#else
enum { STRICT_SEEDS = 2 };
#endif

/* Configures the layer with the disguise, the seed and `words` (strict/config.c). */
static inline void strict_disguise(const strict *layer, unsigned seed, const char *words) {
    char all[512];
    (void)snprintf(all, sizeof all, STRICT_DISGUISE "seed=%u %s", seed, words);
    assert_int_equal(layer->configure(all), 0);
}

/* Fails the test if a rule was violated since the last call of this function, or since the counts were reset. */
static inline void strict_expect_no_violation(const strict *layer, const char *where) {
    static const struct {
        strict_count kind;
        const char *name;
    } rules[] = {{STRICT_UNFLUSHED, "unflushed waits"},
                 {STRICT_LIMITS, "launches beyond limits"},
                 {STRICT_LATER, "calls after OpenCL 1.2"},
                 {STRICT_VIEWS, "sub-buffers released under newer ones"}};
    for (size_t i = 0; i < CLQ_COUNT_OF(rules); i++) {
        const unsigned long count = layer->count(-1, rules[i].kind);
        if (count != 0) fail_msg("%s: %lu %s", where, count, rules[i].name);
    }
    assert_true(layer->count(-1, STRICT_COMMANDS) > 0);
    layer->reset();
}

#endif
