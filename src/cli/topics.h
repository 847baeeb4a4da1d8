/* `clique help`: commands, topics and options. A topic is a row of the table in topics.c. */
#ifndef CLQ_CLI_TOPICS_H
#define CLQ_CLI_TOPICS_H

#include "cli/cli.h"
#include "cli/help.h"

typedef struct clq_topic {
    const char *name, *help;
    const char *option;        /* the option whose values it lists; NULL: it has `add` */
    void (*add)(clq_text *to); /* adds what it says after "name: help" */
} clq_topic;
const clq_topic *clq_topic_at(size_t index); /* NULL after the last one */

/* What no other table of the code has: tables that end with an entry without `what`, and sentences about them.
 * (topic_facts.c) */
typedef struct clq_fact {
    const char *what, *means;
} clq_fact;
extern const clq_fact clq_device_facts[], clq_variable_facts[], clq_exit_facts[];
extern const char clq_devices_sentence[], clq_failure_sentence[];

/* What clique does, in a sentence; and what manuals and completions say of its command help. (topics.c) */
extern const char clq_purpose_sentence[], clq_help_of_help[];

/* What `clique --help` and `clique help` print. */
clq_status clq_topics_overview(clq_text *to);
/* `clique help [WORD]`: prints all that the word names, one after another: a command, a topic, an option. Errors:
 * ARGUMENT. */
clq_status clq_command_help(int argc, char **argv);
/* Fails (ARGUMENT): there is no such command. The message names the nearest. */
clq_status clq_topics_refuse(const char *word);

/* ---- what topics say (topic_names.c, from tables of names; topic_facts.c) ---- */

void clq_topic_add_values(const char *option, clq_text *to);
void clq_topic_add_devices(clq_text *to);
void clq_topic_add_environment(clq_text *to);
void clq_topic_add_exit_codes(clq_text *to);

/* Visits the names of all options of clique's commands in alphabetical order, each once: returns the name after `last`
 * (at first ""), or NULL after the last one. (topics.c) */
const char *clq_option_next(const char *last);

/* ---- words of values (topic_names.c) ---- */

/* Adds the words that the value of an option may be, or begin with, each after a space. Adds nothing if there are none,
 * or if the option has only a letter. */
void clq_option_words(const clq_argument *option, clq_text *to);
/* Whether the value of an option is the path of a file or of a folder. */
bool clq_option_names_file(const clq_argument *option);

#endif
