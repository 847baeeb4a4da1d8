/* Printing what drivers, files and arguments named. Private to the commands. */
#ifndef CLQ_CLI_PRINT_H
#define CLQ_CLI_PRINT_H

#include "base/base.h"

#include <stdio.h>

/* As fprintf, but every line is cleaned (clq_clean) before it is printed: a terminal obeys nothing that stands in a
 * name. Fails (MEMORY) with nothing printed. */
clq_status clq_print(FILE *to, const char *format, ...) CLQ_PRINTF(2, 3);
clq_status clq_print_list(FILE *to, const char *format, va_list arguments) CLQ_PRINTF(2, 0);
/* A cleaned copy, for a line that follows work which its failure must not undo; NULL where memory is out. Caller:
 * clq_free. */
char *clq_printable(const char *text);

#endif
