/* What most tests need around cmocka. */
#ifndef CLQ_TEST_CHECK_H
#define CLQ_TEST_CHECK_H

#include "base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#undef stop /* a macro of cmocka 2 */

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        clq_status assert_status_ = (call);                                                                            \
        if (assert_status_ != CLQ_OK)                                                                                  \
            fail_msg("%s: %s: %s", #call, clq_status_text(assert_status_), clq_error_detail());                        \
    } while (0)

/* The call fails with the status `expected`, and its error detail contains `word`. */
#define assert_fails(expected, word, call)                                                                             \
    do {                                                                                                               \
        clq_status assert_status_ = (call);                                                                            \
        if (assert_status_ != (expected))                                                                              \
            fail_msg("%s: \"%s\", not \"%s\": %s", #call, clq_status_text(assert_status_), clq_status_text(expected),  \
                     clq_error_detail());                                                                              \
        if (!strstr(clq_error_detail(), word))                                                                         \
            fail_msg("%s: no \"%s\" in: %s", #call, (const char *)(word), clq_error_detail());                         \
    } while (0)

static inline bool is_within(unsigned long long value, unsigned long long least, unsigned long long most) {
    return least <= value && value <= most;
}

/* Checks least <= value <= most, for numbers that are not negative. cmocka's own macro has another name in cmocka 2
 * than in cmocka 1. */
#define assert_within(value, least, most)                                                                              \
    do {                                                                                                               \
        const unsigned long long assert_value_ = (unsigned long long)(value);                                          \
        if (!is_within(assert_value_, (unsigned long long)(least), (unsigned long long)(most)))                        \
            fail_msg("%s is %llu, not %s to %s", #value, assert_value_, #least, #most);                                \
    } while (0)

static inline void expect_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Whether the address sanitizer is on. With it, tests that let calls fail in turn try more failures, because the same
 * checks then find leaks, too. */
#if defined(__SANITIZE_ADDRESS__)
enum { IS_WATCHED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { IS_WATCHED = 1 };
#else
enum { IS_WATCHED = 0 };
#endif
#else
enum { IS_WATCHED = 0 };
#endif

/* Runs the call again and again and makes its first allocation fail, then its second, and so on: in a first round that
 * allocation alone, in a second round that allocation and all after it. The call must fail with CLQ_ERROR_MEMORY and a
 * detail, or succeed. It must undo what it did; the leak sanitizer checks this. The first allocations fail one by one,
 * and then every fifth does. With CLQ_TEST_WHOLE in the environment, all fail one by one. Returns how many allocations
 * the call makes. */
static inline uint64_t walk_allocations(clq_status (*call)(void *), void *context) {
    enum { STRIDE = 5 };
    const uint64_t all_of = getenv("CLQ_TEST_WHOLE") ? UINT64_MAX : IS_WATCHED ? 100 : 30;
    uint64_t total = 0;
    for (int sticky = 0; sticky < 2; sticky++) {
        for (uint64_t nth = 1;; nth += nth < all_of ? 1 : STRIDE) {
            clq_fail(CLQ_OK, "%s", "");
            clq_memory_fail_at(nth, sticky);
            clq_status status = call(context);
            uint64_t made = clq_memory_fail_at(0, false);
            if (made < nth) {
                if (status != CLQ_OK) fail_msg("fails without a failing allocation: %s", clq_error_detail());
                total = made;
                break;
            }
            if (status != CLQ_OK && (status != CLQ_ERROR_MEMORY || !*clq_error_detail()))
                fail_msg("allocation %d: %s: \"%s\"", (int)nth, clq_status_text(status), clq_error_detail());
        }
    }
    return total;
}

#endif
