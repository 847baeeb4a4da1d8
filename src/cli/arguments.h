/* Long options by a table, for clique and clique-bench. */
#ifndef CLQ_CLI_ARGUMENTS_H
#define CLQ_CLI_ARGUMENTS_H

#include "base/base.h"

/* An option. A row with neither a name nor a key ends a table. A row with a group has a name; if one
 * row of a table is usual, all have groups. */
typedef struct clq_argument {
    const char *name;          /* of --name; NULL: it has a letter alone */
    int key;                   /* what handlers know it by; a letter x: -x, too */
    const char *value, *help;  /* what help calls the value; NULL: it has none. And what it says */
    const char *group, *title; /* what help tells it with: the group's key word, and its title. NULL: nothing */
    bool usual;                /* help of a command with many options begins with it */
    bool plain;                /* none: its values are the arguments that are no options. Help calls them `name` */
} clq_argument;

/* What a command takes, and what its help says. */
typedef struct clq_arguments {
    const char *program, *about; /* "clique train"; what it does: sentences */
    const char *behind;          /* of the usage line, behind the options; NULL: nothing but what is plain */
    const clq_argument *rows;
    /* Adds "clique eval and clique plan": other commands that take an option of this name; or nothing. NULL: no other
     * command is known, and help names none. */
    void (*others)(const char *name, size_t length, clq_text *to);
} clq_arguments;

static inline bool clq_argument_is_end(const clq_argument *row) { return !row->name && !row->key; }
/* The letter of -x, or 0. */
static inline char clq_argument_letter(const clq_argument *row) {
    return row->key > ' ' && row->key < 127 ? (char)row->key : '\0';
}
/* The row of arguments that are no options; NULL: there is none. */
const clq_argument *clq_arguments_plain(const clq_argument *rows);

/* Called for each option in order; value is NULL if the row has none. */
typedef clq_status (*clq_option_handler)(void *context, const clq_argument *option, const char *value);

/* Accepts --name VALUE, --name=VALUE, an unambiguous beginning of a name, and -x VALUE for a row with a letter. With a
 * plain row, the arguments that are no options, and all after --, are its values. Anything else is an ARGUMENT failure
 * that names it. --help, --help=all and --help=GROUP, which every table has, print (help.h) and end the process by
 * clq_program_end. */
clq_status clq_arguments_parse(const clq_arguments *arguments, int argc, char **argv, clq_option_handler handle,
                               void *context);

/* A time (clq_parse_seconds); else an ARGUMENT failure that names the option. */
clq_status clq_argument_seconds(const clq_argument *option, const char *text, double *out);

#endif
