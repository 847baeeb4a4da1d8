/* Completion for zsh and fish, which show beside each word what it means. */
#include "cli/manual/manual.h"

#include <stdio.h>
#include <string.h>

/* Text within '…', with a backslash in front of these letters. quote: what ends and begins the text again around one.
 */
static void add_escaped(const char *text, const char *letters, const char *quote, clq_text *to) {
    for (; *text; text++) {
        if (*text == '\'')
            clq_text_add(to, "%s", quote);
        else
            clq_text_add(to, "%s%c", strchr(letters, *text) ? "\\" : "", *text);
    }
}

static void add_zsh(const char *text, clq_text *to) { add_escaped(text, "[]:\\", "'\\''", to); }
static void add_fish(const char *text, clq_text *to) { add_escaped(text, "\\", "\\'", to); }

static void add_row(void (*escape)(const char *, clq_text *), const char *word, const char *help, clq_text *to) {
    clq_text_add(to, " '%s:", word);
    escape(help, to);
    clq_text_add(to, "'");
}

/* Options of clique itself. */
static const clq_fact own_options[] = {{"help", "the commands"}, {"version", "the version"}};

/* What --help says behind '=', each behind a space; nothing if the options have no groups. Rows of a group are
 * together.
 */
void clq_complete_help(const clq_argument *rows, clq_text *to) {
    const char *last = NULL;
    if (!rows->group) return;
    clq_text_add(to, " all");
    for (; !clq_argument_is_end(rows); rows++)
        if (rows->group != last) clq_text_add(to, " %s", last = rows->group);
}

/* ---- zsh ---- */

/* '--name[help]:VALUE:(words)', with and without '='. */
static void add_zsh_option(const clq_argument *row, clq_text *to) {
    clq_text words = {0};
    const char letter = clq_argument_letter(row);
    clq_text_add(to, " \\\n            '");
    if (row->plain)
        clq_text_add(to, "*");
    else if (row->name)
        clq_text_add(to, "--%s%s", row->name, row->value ? "=" : "");
    else
        clq_text_add(to, "-%c", letter);
    if (!row->plain) {
        clq_text_add(to, "[");
        add_zsh(row->help, to);
        clq_text_add(to, "]");
    }
    if (row->value || row->plain) {
        const bool files = row->plain || clq_option_names_file(row);
        clq_option_words(row, &words);
        clq_text_add(to, ":");
        add_zsh(row->plain ? row->name : row->value, to);
        clq_text_add(to, ":");
        if (words.length) {
            clq_text_add(to, files ? "{compadd -- " : "(");
            add_zsh(words.data + 1, to);
            clq_text_add(to, files ? "; _files}" : ")");
        } else {
            clq_text_add(to, files ? "_files" : "");
        }
    }
    clq_text_add(to, "'");
    to->failed = to->failed || words.failed;
    clq_free(words.data);
}

static void add_zsh_help(const clq_argument *rows, clq_text *to) {
    clq_text words = {0};
    clq_complete_help(rows, &words);
    if (words.length)
        clq_text_add(to, " \\\n            '--help=-[the usual options]::GROUP:(%s)' ;;\n", words.data + 1);
    else
        clq_text_add(to, " \\\n            '--help[the options]' ;;\n");
    to->failed = to->failed || words.failed;
    clq_free(words.data);
}

static void add_zsh_words(clq_text *to) {
    const clq_subcommand *command;
    const clq_topic *topic;
    clq_text_add(to, "    own=(");
    for (size_t i = 0; i < CLQ_COUNT_OF(own_options); i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "--%s", own_options[i].what);
        add_row(add_zsh, what, own_options[i].means, to);
    }
    clq_text_add(to, ")\n    commands=(");
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++)
        add_row(add_zsh, command->name, command->help, to);
    add_row(add_zsh, "help", clq_help_of_help, to);
    clq_text_add(to, ")\n    topics=(");
    for (size_t i = 0; (topic = clq_topic_at(i)) != NULL; i++) add_row(add_zsh, topic->name, topic->help, to);
    clq_text_add(to, ")\n    benchmarks=(");
    for (const clq_fact *bench = clq_benchmarks; bench->what; bench++) add_row(add_zsh, bench->what, bench->means, to);
    clq_text_add(to, ")\n    options=(");
    for (const char *name = clq_option_next(""); name; name = clq_option_next(name)) clq_text_add(to, " %s", name);
    clq_text_add(to, ")\n");
}

clq_status clq_complete_zsh(clq_text *to) {
    const clq_subcommand *command;
    clq_text_add(to, "#compdef clique\n# Completion of clique for zsh.\n_clique() {\n"
                     "    local -a own commands topics benchmarks options\n");
    add_zsh_words(to);
    clq_text_add(to, "    if ((CURRENT == 2)); then\n        _describe command commands\n        _describe -o option "
                     "own\n        return\n    fi\n"
                     "    shift words\n    ((CURRENT--))\n    case $words[1] in\n"
                     "    help) _describe command commands; _describe topic topics; compadd -a options ;;\n"
                     "    bench) ((CURRENT == 2)) && _describe benchmark benchmarks ;;\n");
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) {
        clq_argument rows[CLQ_ARGUMENTS_MAX];
        clq_arguments arguments;
        char program[64];
        CLQ_TRY(clq_subcommand_arguments(command, rows, program, &arguments));
        if (!command->about) continue;
        clq_text_add(to, "    %s) _arguments", command->name);
        for (const clq_argument *row = arguments.rows; !clq_argument_is_end(row); row++) add_zsh_option(row, to);
        add_zsh_help(arguments.rows, to);
    }
    clq_text_add(to, "    esac\n}\n_clique \"$@\"\n");
    return CLQ_OK;
}

/* ---- fish ---- */

/* condition: of the command; what: the rest but for the description. */
static void add_fish_line(const char *command, const char *what, const char *help, clq_text *to) {
    clq_text_add(to, "complete -c clique -n '__clique_is %s' %s -d '", command, what);
    add_fish(help, to);
    clq_text_add(to, "'\n");
}

static void add_fish_option(const char *command, const clq_argument *row, clq_text *to) {
    clq_text what = {0}, words = {0};
    const char letter = clq_argument_letter(row);
    if (row->plain) {
        clq_text_add(to, "complete -c clique -n '__clique_is %s' -F\n", command);
        return;
    }
    if (row->value) clq_option_words(row, &words);
    if (letter) clq_text_add(&what, "-s %c ", letter);
    if (row->name) clq_text_add(&what, "-l %s ", row->name);
    if (row->value) clq_text_add(&what, clq_option_names_file(row) ? "-r -F" : "-x");
    if (words.length) clq_text_add(&what, " -a '%s'", words.data + 1);
    to->failed = to->failed || words.failed || what.failed;
    if (!to->failed) add_fish_line(command, what.data, row->help, to);
    clq_free(what.data);
    clq_free(words.data);
}

/* A value that is not required is offered behind '=' alone. */
static void add_fish_help(const char *command, const clq_argument *rows, clq_text *to) {
    clq_text what = {0}, words = {0};
    clq_complete_help(rows, &words);
    clq_text_add(&what, "-l help");
    if (words.length) clq_text_add(&what, " -a '%s'", words.data + 1);
    to->failed = to->failed || words.failed || what.failed;
    if (!to->failed) add_fish_line(command, what.data, words.length ? "the usual options" : "the options", to);
    clq_free(what.data);
    clq_free(words.data);
}

static void add_fish_word(const char *command, const char *word, const char *help, clq_text *to) {
    char what[64];
    (void)snprintf(what, sizeof what, "-a %s", word);
    add_fish_line(command, what, help, to);
}

static void add_fish_words(clq_text *to) {
    const clq_subcommand *command;
    const clq_topic *topic;
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) {
        add_fish_word("\\'\\'", command->name, command->help, to);
        add_fish_word("help", command->name, command->help, to);
    }
    add_fish_word("\\'\\'", "help", clq_help_of_help, to);
    for (size_t i = 0; i < CLQ_COUNT_OF(own_options); i++) {
        char what[32];
        (void)snprintf(what, sizeof what, "-l %s", own_options[i].what);
        add_fish_line("\\'\\'", what, own_options[i].means, to);
    }
    for (size_t i = 0; (topic = clq_topic_at(i)) != NULL; i++) add_fish_word("help", topic->name, topic->help, to);
    clq_text_add(to, "complete -c clique -n '__clique_is help' -a '");
    for (const char *name = clq_option_next(""); name; name = clq_option_next(name)) clq_text_add(to, "%s ", name);
    clq_text_add(to, "'\n");
    for (const clq_fact *bench = clq_benchmarks; bench->what; bench++)
        add_fish_word("bench", bench->what, bench->means, to);
}

clq_status clq_complete_fish(clq_text *to) {
    const clq_subcommand *command;
    clq_text_add(to, "# Completion of clique for fish.\n"
                     "function __clique_is\n    set -l words (commandline -opc)\n"
                     "    test \"$words[2]\" = \"$argv[1]\"\nend\n"
                     "complete -c clique -f\n");
    add_fish_words(to);
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) {
        clq_argument rows[CLQ_ARGUMENTS_MAX];
        clq_arguments arguments;
        char program[64];
        CLQ_TRY(clq_subcommand_arguments(command, rows, program, &arguments));
        for (const clq_argument *row = arguments.rows; !clq_argument_is_end(row); row++)
            add_fish_option(command->name, row, to);
        add_fish_help(command->name, arguments.rows, to);
    }
    return CLQ_OK;
}
