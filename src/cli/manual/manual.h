/* The program that writes the manual pages and the completions of shells, at build time, from the tables that the
 * commands themselves have. It is not installed. */
#ifndef CLQ_CLI_MANUAL_H
#define CLQ_CLI_MANUAL_H

#include "cli/topics.h"

/* date: of the pages, YYYY-MM-DD. */
void clq_manual_overview(const char *date, clq_text *to);                                     /* clique(1) */
clq_status clq_manual_command(const clq_subcommand *command, const char *date, clq_text *to); /* clique-COMMAND(1) */

/* The words of --help=WORD, each behind a space; nothing if the options have no groups. (zsh_fish.c) */
void clq_complete_help(const clq_argument *rows, clq_text *to);

clq_status clq_complete_bash(clq_text *to);
clq_status clq_complete_zsh(clq_text *to);
clq_status clq_complete_fish(clq_text *to);

/* The benchmarks of clique-bench, behind which a row has no name. (main.c) */
extern const clq_fact clq_benchmarks[];

#endif
