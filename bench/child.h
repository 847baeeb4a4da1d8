/* Runs other programs, one after the other. Each runs in a process group of its own, which ends with it. posix_spawn
 * starts them, because a process that has loaded an OpenCL driver must not fork. A benchmark that starts programs
 * itself loads no driver. */
#ifndef CLQ_BENCH_CHILD_H
#define CLQ_BENCH_CHILD_H

#include "base/base.h"

/* Finds a program as execvp does: a name with a slash is the path itself; any other name is looked up in the folders of
 * PATH. *out NULL: there is none. The caller frees *out. */
clq_status clq_bench_find_program(const char *name, char **out);

typedef struct clq_bench_child {
    char *const *argv; /* the program's path first; ended by NULL */
    const char *out_path, *err_path;
    double limit_s; /* after this time, in seconds, the program is stopped */
} clq_bench_child;

typedef struct clq_bench_ending {
    int code;   /* its exit status; -1: a signal ended it */
    int signal; /* the signal that ended it; 0: none */
    bool late;  /* whether it was stopped at its limit */
} clq_bench_ending;

/* Runs the program to its end. Errors: INTERRUPTED (Ctrl-C was pressed), SYSTEM (it could not be started). No process
 * of its group is left afterwards, also after an error. */
clq_status clq_bench_child_run(const clq_bench_child *child, clq_bench_ending *out);

/* Gets a line of a file, in printable ASCII. start NULL: the last line that has a letter or a digit. Otherwise: the
 * first line that begins with `start`. "" if there is none. */
enum { CLQ_BENCH_LINE_MAX = 240 };
void clq_bench_line_of(const char *path, const char *start, char out[CLQ_BENCH_LINE_MAX]);

#endif
