/* What both clique and clique-bench do before a command runs and after it. */
#ifndef CLQ_CLI_PROGRAM_H
#define CLQ_CLI_PROGRAM_H

#include <clique/status.h>

/* Runs `body` as the whole of a program and returns the process's exit code. Before it: opens /dev/null for each of
 * stdin, stdout and stderr that is closed, chooses the OpenCL drivers, and sends the library's log to stderr. */
int clq_program_run(int argc, char **argv, clq_status (*body)(int argc, char **argv));
int clq_program_exit_code(clq_status status); /* docs/contract.md */
/* Flushes stdout, prints a failure as one line on stderr, and returns the exit code. For code that ends
 * the process itself. */
int clq_program_end(clq_status status);

/* Writes a line on stderr for clique launch, which reads it and does not pass it on. A process that clique launch did
 * not start writes nothing. docs/decisions/074-launch-stays-the-parent.md */
#define CLQ_LAUNCH_MARKER "clique: launch "
#define CLQ_LAUNCH_SILENT "silent-" /* begins the id of a run that is not clique train: its processes tell nothing */
void clq_tell_launch(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
