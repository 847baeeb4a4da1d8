/* Ctrl-C, for clique and clique-bench: the programs' own affair, the library installs no handler. */
#ifndef CLQ_CLI_INTERRUPT_H
#define CLQ_CLI_INTERRUPT_H

#include <stdbool.h>

/* True once the user pressed Ctrl-C (or the process was told to end); installs the handlers at the first call. A second
 * Ctrl-C ends the process at once. */
bool clq_interrupted(void);

#endif
