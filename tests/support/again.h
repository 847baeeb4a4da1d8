/* A test that needs further processes runs its own program again, with the name of the part to run as the argument. */
#ifndef CLQ_TEST_AGAIN_H
#define CLQ_TEST_AGAIN_H

#include "base/base.h"
#include "support/check.h"

#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>

/* For functions that the new process runs: returns 1, its exit status, if the condition does not hold. */
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, clq_error_detail());                    \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* Runs this program with the argument `what`, in this process's environment. Returns its exit status, or -1 if it
 * died. */
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
