/* Text for people, in lines of at most 80 columns; a column is a character, not a byte. The help of a command is made
 * from its table of options. */
#ifndef CLQ_CLI_HELP_H
#define CLQ_CLI_HELP_H

#include "cli/arguments.h"

/* CLQ_HELP_COLUMN: where the words of an entry begin. CLQ_HELP_FEW: the help of a command with more options explains
 * only the usual ones. */
enum { CLQ_HELP_WIDTH = 80, CLQ_HELP_COLUMN = 25, CLQ_HELP_FEW = 15 };

/* Adds "--name VALUE", "-x VALUE" or "-x, --name VALUE"; for a plain row its name. */
void clq_help_form(const clq_argument *row, clq_text *to);
/* Adds the words in lines that begin with `indent` spaces. Adds nothing if there are no words. */
void clq_help_paragraph(size_t indent, const char *words, clq_text *to);
/* Adds `left` after two spaces, and `words` from CLQ_HELP_COLUMN on: on the same line if at least two columns remain
 * between them, otherwise from the next line on. */
void clq_help_entry(const char *left, const char *words, clq_text *to);

/* Adds what --help (part NULL), --help=all or --help=GROUP prints. Errors: ARGUMENT (no such group), which names the
 * groups. A lack of memory is noted in the text. */
clq_status clq_help_command(const clq_arguments *arguments, const char *part, clq_text *to);
/* Prints the text on stdout and frees it. Errors: MEMORY. A failure to write is found at the program's end. */
clq_status clq_help_write(clq_text *text);

#endif
