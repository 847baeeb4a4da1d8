/* `clique help`: commands, topics and options. A topic is a row of the table in topics.c. */
#ifndef CLQ_CLI_TOPICS_H
#define CLQ_CLI_TOPICS_H

#include "cli/cli.h"
#include "cli/help.h"

typedef struct clq_topic {
    const char *name, *help;
    const char *option;        /* whose values it lists; NULL: */
    void (*add)(clq_text *to); /* what it says behind "name: help" */
} clq_topic;
const clq_topic *clq_topic_at(size_t index); /* NULL behind the last */

/* What no other table of the code has: entries, behind which one has no `what`; and a sentence to them.
 * (topic_facts.c) */
typedef struct clq_fact {
    const char *what, *means;
} clq_fact;
extern const clq_fact clq_device_facts[], clq_variable_facts[], clq_exit_facts[];
extern const char clq_devices_sentence[], clq_failure_sentence[];

/* What clique does, in a sentence, and what its command help tells. (topics.c) */
extern const char clq_purpose_sentence[], clq_help_of_help[];

/* What `clique --help` and `clique help` print. */
clq_status clq_topics_overview(clq_text *to);
/* `clique help [WORD]`: all that the word names, one after another: a command, a topic, an option. Errors: ARGUMENT. */
clq_status clq_command_help(int argc, char **argv);
/* ARGUMENT: there is no such command; names the nearest. */
clq_status clq_topics_refuse(const char *word);

/* ---- what topics say (topic_names.c, from tables of names; topic_facts.c) ---- */

void clq_topic_add_values(const char *option, clq_text *to);
void clq_topic_add_devices(clq_text *to);
void clq_topic_add_environment(clq_text *to);
void clq_topic_add_exit_codes(clq_text *to);

/* The name of each option of clique's commands, once, in the order of names: that behind `last`, from "" on; NULL
 * behind the last. (topics.c) */
const char *clq_option_next(const char *last);

/* ---- words of values (topic_names.c) ---- */

/* The words that the value of an option may be, or begin with, each behind a space; nothing if there are none, or if
 * the option has a letter alone. */
void clq_option_words(const clq_argument *option, clq_text *to);
/* Whether its value is the path of a file, or of a folder. */
bool clq_option_names_file(const clq_argument *option);

#endif
