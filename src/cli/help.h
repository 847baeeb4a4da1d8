/* Text for people in lines of at most 80 columns, which are characters, not bytes; and the help of commands, made of
 * their tables. */
#ifndef CLQ_CLI_HELP_H
#define CLQ_CLI_HELP_H

#include "cli/arguments.h"

/* HELP_COLUMN: what an entry says begins there. HELP_FEW: a command with more options shows the usual ones alone. */
enum { CLQ_HELP_WIDTH = 80, CLQ_HELP_COLUMN = 25, CLQ_HELP_FEW = 15 };

/* "--name VALUE", "-x VALUE" or "-x, --name VALUE"; of what is plain its name. */
void clq_help_form(const clq_argument *row, clq_text *to);
/* Lines of words, each behind so many spaces. Nothing for no words. */
void clq_help_paragraph(size_t indent, const char *words, clq_text *to);
/* `left` behind two spaces, and `words` from HELP_COLUMN on: beside it if it leaves two columns between, else from the
 * next line on. */
void clq_help_entry(const char *left, const char *words, clq_text *to);

/* What --help prints (part NULL), --help=all, and --help=GROUP. Errors: ARGUMENT (no such group), which names those
 * that there are. A lack of memory is in the text. */
clq_status clq_help_command(const clq_arguments *arguments, const char *part, clq_text *to);
/* Prints it on stdout and frees it. Errors: MEMORY; what cannot be written shows at the program's end. */
clq_status clq_help_write(clq_text *text);

#endif
