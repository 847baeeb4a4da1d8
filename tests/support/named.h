/* Lets a test program run only the tests that its arguments name, or all tests if it has no arguments. An argument that
 * no test is named after is a failure. */
#ifndef CLQ_TEST_NAMED_H
#define CLQ_TEST_NAMED_H

#include "support/check.h"

#include <stdio.h>
#include <string.h>

enum { NAMED_MOST = 32 };

#define run_named(argc, argv, tests, set_up, tear_down)                                                                \
    run_those_named((argc), (argv), (tests), sizeof(tests) / sizeof *(tests), (set_up), (tear_down))

static inline int run_those_named(int argc, char **argv, const struct CMUnitTest *tests, size_t count,
                                  CMFixtureFunction set_up, CMFixtureFunction tear_down) {
    struct CMUnitTest chosen[NAMED_MOST];
    size_t found = 0;
    for (int a = 1; a < argc; a++) {
        size_t i = 0;
        while (i < count && strcmp(tests[i].name, argv[a]) != 0) i++;
        if (i == count || found == NAMED_MOST) {
            (void)fprintf(stderr, "there is no test '%s', or there are too many names\n", argv[a]);
            return 1;
        }
        chosen[found++] = tests[i];
    }
    return _cmocka_run_group_tests("tests", argc > 1 ? chosen : tests, argc > 1 ? found : count, set_up, tear_down);
}

#endif
