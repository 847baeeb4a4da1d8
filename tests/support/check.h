/* What most tests need around cmocka. */
#ifndef CLQ_TEST_CHECK_H
#define CLQ_TEST_CHECK_H

#include "base/base.h"
#include "support/walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        clq_status assert_status_ = (call);                                                                            \
        if (assert_status_ != CLQ_OK)                                                                                  \
            fail_msg("%s: %s: %s", #call, clq_status_text(assert_status_), clq_error_detail());                        \
    } while (0)

/* The call fails so, and its detail says `word`. */
#define assert_fails(expected, word, call)                                                                             \
    do {                                                                                                               \
        clq_status assert_status_ = (call);                                                                            \
        if (assert_status_ != (expected))                                                                              \
            fail_msg("%s: \"%s\", not \"%s\": %s", #call, clq_status_text(assert_status_), clq_status_text(expected),  \
                     clq_error_detail());                                                                              \
        if (!strstr(clq_error_detail(), word))                                                                         \
            fail_msg("%s: no \"%s\" in: %s", #call, (const char *)(word), clq_error_detail());                         \
    } while (0)

static inline void expect_text(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* Whether the address sanitizer watches. Of the calls that fail in turn, the tests without it fail a part: those with it
 * fail all, with the same checks, and see leaks besides. */
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

#endif
