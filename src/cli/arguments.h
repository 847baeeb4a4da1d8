/* Parses command-line options by a table. For clique and clique-bench. */
#ifndef CLQ_CLI_ARGUMENTS_H
#define CLQ_CLI_ARGUMENTS_H

#include "base/base.h"

/* One option. A row with neither a name nor a key ends the table. Every row with a group has a name. If one row of a
 * table is `usual`, all its rows have groups. */
typedef struct clq_argument {
    const char *name;          /* the NAME of --NAME; NULL: the option has only a letter */
    int key;                   /* by which handlers recognize the option; a letter x: also -x */
    const char *value, *help;  /* value: what help calls it; NULL: the option takes none. help: what it does */
    const char *group, *title; /* the group that help lists it in: key word and title. NULL: no group */
    bool usual;                /* if a command has many options, its help explains only the usual ones */
    bool plain;                /* not an option: takes the arguments that are not options, which help calls `name` */
} clq_argument;

/* What arguments a command takes, and what its help says. */
typedef struct clq_arguments {
    const char *program, *about; /* program: e.g. "clique train". about: what it does, in sentences */
    const char *behind;          /* the usage line after the options; NULL: the name of the plain row, if any */
    const clq_argument *rows;
    /* Adds to the text the commands that take an option of this name, e.g. "clique eval and clique plan", or nothing if
     * none does. For the message about an unknown option. NULL: no other commands are known. */
    void (*others)(const char *name, size_t length, clq_text *to);
} clq_arguments;

static inline bool clq_argument_is_end(const clq_argument *row) { return !row->name && !row->key; }
/* The letter x of -x; 0: the option has no letter. */
static inline char clq_argument_letter(const clq_argument *row) {
    return row->key > ' ' && row->key < 127 ? (char)row->key : '\0';
}
/* The plain row of a table; NULL: there is none. */
const clq_argument *clq_arguments_plain(const clq_argument *rows);

/* Called for each option in order; value is NULL if the row has none. */
typedef clq_status (*clq_option_handler)(void *context, const clq_argument *option, const char *value);

/* Accepts --name VALUE, --name=VALUE, an unambiguous beginning of a name, and -x VALUE for a row with a letter. If the
 * table has a plain row, that row takes all arguments that are not options, and all arguments after --. Any other
 * argument is an ARGUMENT failure that names it. Every table also has --help, --help=all and --help=GROUP: they print
 * help (help.h) and end the process by clq_program_end. */
clq_status clq_arguments_parse(const clq_arguments *arguments, int argc, char **argv, clq_option_handler handle,
                               void *context);

/* Parses a time (clq_parse_seconds). Errors: ARGUMENT, which names the option. */
clq_status clq_argument_seconds(const clq_argument *option, const char *text, double *out);

#endif
