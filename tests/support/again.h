/* Tests that need processes of their own run their program again, with the name of what it is to do. */
#ifndef CLQ_TEST_AGAIN_H
#define CLQ_TEST_AGAIN_H

#include "base/base.h"
#include "support/check.h"

#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

/* For what runs there: ends it with exit status 1 where the condition does not hold. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, clq_error_detail());                    \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Runs this program as `what`, in this process's environment; its exit status, or -1 where it died. */
static inline int run(const char *what) {
    extern char **environ;
    char self[] = "/proc/self/exe";
    char *arguments[] = {self, (char *)(uintptr_t)what, NULL};
    pid_t process;
    int status = -1;
    assert_int_equal(posix_spawn(&process, self, NULL, NULL, arguments, environ), 0);
    assert_int_equal(waitpid(process, &status, 0), process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
#endif
