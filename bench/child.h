/* Programs that a benchmark starts, one after the other: each in a process group of its own, which ends with it, by
 * posix_spawn, for a process that has loaded an OpenCL driver must not fork, and one that starts programs loads none.
 */
#ifndef CLQ_BENCH_CHILD_H
#define CLQ_BENCH_CHILD_H

#include "base/base.h"

/* Where it is, as execvp finds it: `name` itself where it has a slash, else in a folder of PATH. NULL in *out where
 * there is none. Caller frees. */
clq_status clq_bench_find_program(const char *name, char **out);

typedef struct clq_bench_child {
    char *const *argv; /* its path first; ended by NULL */
    const char *out_path, *err_path;
    double limit_s; /* then it is stopped */
} clq_bench_child;

typedef struct clq_bench_ending {
    int code;   /* its exit status; where a signal ended it, -1 */
    int signal; /* 0: none */
    bool late;  /* stopped at its limit */
} clq_bench_ending;

/* Runs it to its end. INTERRUPTED after Ctrl-C, SYSTEM where it could not be started; in every case no process of its
 * group is left. */
clq_status clq_bench_child_run(const clq_bench_child *child, clq_bench_ending *out);

/* The last line of a file that has a letter or a digit, or the first one that begins with `start` if that is given,
 * in printable ASCII; "" where there is none. */
enum { CLQ_BENCH_LINE_MAX = 240 };
void clq_bench_line_of(const char *path, const char *start, char out[CLQ_BENCH_LINE_MAX]);

#endif
