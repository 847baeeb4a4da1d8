/* Long options by a table, for clique and clique-bench. argp prints --help; its parser is not used, because it reports
 * errors in its own words and not in the one line that docs/contract.md promises. */
#ifndef CLQ_CLI_ARGUMENTS_H
#define CLQ_CLI_ARGUMENTS_H

#include <argp.h>
#include <clique/status.h>

/* Called for each option in order; value is NULL where the table has no `arg`. */
typedef clq_status (*clq_option_handler)(void *context, const struct argp_option *option, const char *value);

/* Accepts --name VALUE, --name=VALUE, an unambiguous beginning of a name, and -x VALUE for entries whose name is NULL
 * and whose key is that letter. Where an entry has the flag OPTION_DOC, the arguments that are no options, and all
 * after --, are its values. Anything else is an ARGUMENT failure that names it. --help prints and ends the process by
 * clq_program_end. program: "clique train". */
clq_status clq_arguments_parse(const char *program, const char *about, const struct argp_option *table, int argc,
                               char **argv, clq_option_handler handle, void *context);

/* The value of an option that is a time, from 0.001 to 1,000,000 seconds; else an ARGUMENT failure that names the
 * option. */
clq_status clq_argument_seconds(const struct argp_option *option, const char *text, double *out);

#endif
