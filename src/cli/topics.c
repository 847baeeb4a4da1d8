/* clique help. */
#include "cli/topics.h"

#include "cli/program.h"

#include <stdio.h>
#include <string.h>

const char clq_purpose_sentence[] = "Trains neural networks on all the OpenCL devices of a machine at once.";
const char clq_help_of_help[] = "what a word names: a command, an option, or a topic";

static void add_options(clq_text *to);

static const clq_topic topics[] = {
    {"models", "models by name, and their options", .option = "model"},
    {"optimizers", "optimizers, with their keys and defaults", .option = "optimizer"},
    {"losses", "losses, with their keys and defaults", .option = "loss"},
    {"metrics", "what can be measured beside the loss", .option = "metrics"},
    {"schedules", "schedules of the learning rate", .option = "schedule"},
    {"strategies", "how devices work together", .option = "strategy"},
    {"devices", "how devices are named (SPEC)", .add = clq_topic_add_devices},
    {"environment", "environment variables", .add = clq_topic_add_environment},
    {"exit-codes", "what a command ends with", .add = clq_topic_add_exit_codes},
    {"options", "each option, and the commands that take it", .add = add_options},
};

const clq_topic *clq_topic_at(size_t index) { return index < CLQ_COUNT_OF(topics) ? &topics[index] : NULL; }

clq_status clq_topics_overview(clq_text *to) {
    const clq_subcommand *command;
    clq_text_add(to, "Usage: clique COMMAND [OPTION…]\n\n");
    clq_help_paragraph(0, clq_purpose_sentence, to);
    clq_text_add(to, "\nCommands:\n");
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) clq_help_entry(command->name, command->help, to);
    clq_text_add(to, "\nTopics (clique help TOPIC):\n");
    for (size_t i = 0; i < CLQ_COUNT_OF(topics); i++) clq_help_entry(topics[i].name, topics[i].help, to);
    clq_text_add(to, "\n");
    clq_help_paragraph(0,
                       "clique COMMAND --help shows a command's options, and clique help OPTION one of them, for "
                       "example clique help accumulate; clique --version prints the version.",
                       to);
    return CLQ_OK;
}

/* ---- options ---- */

/* The lines on an option that follow its form and its help, which names the default. */
enum { RANGE, WORDS, COMMANDS, STRATEGIES, GROUP, FIELDS };
static const char *const field_names[FIELDS] = {"Range:", "Words:", "Commands:", "Strategies:", "Group:"};

static void name_commands(unsigned commands, clq_text *to) {
    const clq_subcommand *command;
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++)
        if (command->bit & commands) clq_text_add(to, "%s%s", to->length ? ", " : "", command->name);
}

static void describe_range(const clq_setting *row, clq_text *to) {
    if (row->type == CLQ_SETTING_SECONDS) clq_text_add(to, "%s", clq_seconds_range);
    if (row->type != CLQ_SETTING_COUNT) return;
    clq_text_add(to, "a whole number from %llu", (unsigned long long)row->min);
    if (row->max != UINT64_MAX) clq_text_add(to, " to %llu", (unsigned long long)row->max);
}

static void name_strategies(unsigned strategies, clq_text *to) {
    const char *name;
    for (size_t i = 0; strategies && (name = clq_strategy_name(i)) != NULL; i++)
        if (strategies & (1u << i)) clq_text_add(to, "%s%s", to->length ? ", " : "", name);
}

/* row NULL: the option is of `command` alone, which has options of its own. */
static void add_argument(const clq_argument *option, const clq_setting *row, const char *command, clq_text *to) {
    clq_text form = {0}, fields[FIELDS] = {{0}};
    clq_help_form(option, &form);
    clq_text_add(to, "%s%s\n", to->length ? "\n" : "", form.data ? form.data : "");
    to->failed = to->failed || form.failed;
    clq_free(form.data);
    clq_help_paragraph(2, option->help, to);
    clq_text_add(to, "\n");
    clq_option_words(option, &fields[WORDS]);
    if (row) {
        describe_range(row, &fields[RANGE]);
        name_commands(row->commands, &fields[COMMANDS]);
        name_strategies(row->strategies, &fields[STRATEGIES]);
        clq_text_add(&fields[GROUP], "%s (--help=%s)", option->title, option->group);
    } else {
        clq_text_add(&fields[COMMANDS], "%s", command);
    }
    for (size_t i = 0; i < FIELDS; i++) {
        to->failed = to->failed || fields[i].failed;
        if (!to->failed && fields[i].length) clq_help_entry(field_names[i], fields[i].data, to);
        clq_free(fields[i].data);
    }
}

/* Adds all options of a name; false: there is none. A letter is no name. */
static bool add_named(const char *name, clq_text *to) {
    bool any = false;
    const clq_setting *row;
    const clq_subcommand *command;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        if (!row->commands || strcmp(row->name, name) != 0) continue;
        const clq_argument option = clq_options_row(i);
        add_argument(&option, row, NULL, to);
        any = true;
    }
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++)
        for (const clq_argument *own = command->options; own && !clq_argument_is_end(own); own++) {
            if (!own->name || own->plain || strcmp(own->name, name) != 0) continue;
            add_argument(own, NULL, command->name, to);
            any = true;
        }
    return any;
}

const char *clq_option_next(const char *last) {
    const char *found = NULL;
    const clq_setting *row;
    const clq_subcommand *command;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++)
        if (row->commands && strcmp(row->name, last) > 0 && (!found || strcmp(row->name, found) < 0)) found = row->name;
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++)
        for (const clq_argument *own = command->options; own && !clq_argument_is_end(own); own++)
            if (own->name && !own->plain && strcmp(own->name, last) > 0 && (!found || strcmp(own->name, found) < 0))
                found = own->name;
    return found;
}

static void add_options(clq_text *to) {
    for (const char *name = clq_option_next(""); name; name = clq_option_next(name)) {
        clq_text form = {0}, commands = {0};
        const clq_subcommand *command;
        clq_text_add(&form, "--%s", name);
        for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++)
            if (clq_subcommand_takes(command, name, strlen(name)))
                clq_text_add(&commands, "%s%s", commands.length ? ", " : "", command->name);
        to->failed = to->failed || form.failed || commands.failed;
        if (!to->failed) clq_help_entry(form.data, commands.data, to);
        clq_free(form.data);
        clq_free(commands.data);
    }
}

/* ---- words ---- */

static void try_commands(clq_nearest *nearest) {
    const clq_subcommand *command;
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) clq_nearest_try(nearest, command->name);
    clq_nearest_try(nearest, "help");
}

clq_status clq_topics_refuse(const char *word) {
    clq_nearest nearest = clq_nearest_of(word);
    try_commands(&nearest);
    clq_nearest_try(&nearest, "--help");
    clq_nearest_try(&nearest, "--version");
    return clq_nearest_fail(&nearest, "unknown command '%s': clique --help lists them", word);
}

/* The word of an option without its dashes. */
static const char *bare(const char *word) { return strncmp(word, "--", 2) == 0 ? word + 2 : word; }

static clq_status refuse(const char *word) {
    clq_nearest nearest = clq_nearest_of(bare(word));
    try_commands(&nearest);
    for (size_t i = 0; i < CLQ_COUNT_OF(topics); i++) clq_nearest_try(&nearest, topics[i].name);
    for (const char *name = clq_option_next(""); name; name = clq_option_next(name)) clq_nearest_try(&nearest, name);
    return clq_nearest_fail(&nearest, "no command, topic or option is '%s': clique help lists commands and topics",
                            word);
}

static clq_status add_command(const clq_subcommand *command, clq_text *to) {
    clq_argument rows[CLQ_ARGUMENTS_MAX];
    clq_arguments arguments;
    char program[64];
    CLQ_TRY(clq_subcommand_arguments(command, rows, program, &arguments));
    return clq_help_command(&arguments, NULL, to);
}

static void add_topic(const clq_topic *topic, clq_text *to) {
    clq_text title = {0};
    if (to->length) clq_text_add(to, "\n");
    clq_text_add(&title, "%s: %s.", topic->name, topic->help);
    to->failed = to->failed || title.failed;
    if (!to->failed) clq_help_paragraph(0, title.data, to);
    clq_free(title.data);
    clq_text_add(to, "\n");
    if (topic->option)
        clq_topic_add_values(topic->option, to);
    else
        topic->add(to);
}

static clq_status add_word(const char *word, clq_text *to) {
    const clq_subcommand *command = clq_subcommand_find(word);
    if (command) CLQ_TRY(add_command(command, to));
    for (size_t i = 0; i < CLQ_COUNT_OF(topics); i++)
        if (strcmp(topics[i].name, word) == 0) add_topic(&topics[i], to);
    (void)add_named(bare(word), to);
    if (to->failed) return clq_fail_memory("writing help");
    return to->length ? CLQ_OK : refuse(word);
}

clq_status clq_command_help(int argc, char **argv) {
    clq_text text = {0};
    if (argc > 2) return clq_fail(CLQ_ERROR_ARGUMENT, "unexpected argument '%s': clique help takes one word", argv[2]);
    const clq_subcommand *command = argc == 2 ? clq_subcommand_find(argv[1]) : NULL;
    if (command && !command->about) { /* another program has its help */
        char help[] = "--help", *words[] = {argv[1], help, NULL};
        return command->run(2, words);
    }
    const bool of_itself = argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0;
    const clq_status status = of_itself ? clq_topics_overview(&text) : add_word(argv[1], &text);
    if (status == CLQ_OK) return clq_help_write(&text);
    clq_free(text.data);
    return status;
}
