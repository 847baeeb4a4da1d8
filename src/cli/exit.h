/* Exit codes of the programs (docs/contract.md). */
#ifndef CLQ_CLI_EXIT_H
#define CLQ_CLI_EXIT_H

#include <clique/status.h>

enum { CLQ_EXIT_FAILED = 1, CLQ_EXIT_USAGE = 2, CLQ_EXIT_DATA = 3, CLQ_EXIT_DEVICE = 4, CLQ_EXIT_INTERRUPTED = 130 };
int clq_exit_code(clq_status status);

#endif
