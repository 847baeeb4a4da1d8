/* Prints names that come from drivers, files and arguments. Private to the commands. */
#ifndef CLQ_CLI_PRINT_H
#define CLQ_CLI_PRINT_H

#include "base/base.h"

#include <stdio.h>

/* As fprintf, but cleans every line (clq_clean) before it prints it, so that a terminal obeys nothing that is part of a
 * name. Errors: MEMORY; then nothing is printed. */
clq_status clq_print(FILE *to, const char *format, ...) CLQ_PRINTF(2, 3);
clq_status clq_print_list(FILE *to, const char *format, va_list arguments) CLQ_PRINTF(2, 0);
/* A cleaned copy of a text; NULL: out of memory. Make it before the work that the line reports, so that the line cannot
 * fail after the work is done. Caller: clq_free. */
char *clq_printable(const char *text);

#endif
