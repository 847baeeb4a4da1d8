/* Completion for bash. */
#include "cli/manual/manual.h"

#include <string.h>

/* "case" rows: COMMAND:--OPTION, and what completes its value. */
static void add_values(const char *command, const clq_argument *row, clq_text *to) {
    clq_text words = {0};
    const char letter = clq_argument_letter(row);
    if (!row->value || row->plain) return;
    clq_option_words(row, &words);
    clq_text_add(to, "    ");
    if (row->name) clq_text_add(to, "%s:--%s", command, row->name);
    if (letter) clq_text_add(to, "%s%s:-%c", row->name ? "|" : "", command, letter);
    clq_text_add(to, ") words='%s'%s ;;\n", words.length ? words.data + 1 : "",
                 clq_option_names_file(row) ? " files=1" : "");
    to->failed = to->failed || words.failed;
    clq_free(words.data);
}

/* body: called for each command that has rows of its own. */
static clq_status each_command(void (*body)(const clq_subcommand *, const clq_argument *, clq_text *), clq_text *to) {
    const clq_subcommand *command;
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) {
        clq_argument rows[CLQ_ARGUMENTS_MAX];
        clq_arguments arguments;
        char program[64];
        CLQ_TRY(clq_subcommand_arguments(command, rows, program, &arguments));
        body(command, arguments.rows, to);
    }
    return CLQ_OK;
}

static void add_names(const clq_subcommand *command, const clq_argument *rows, clq_text *to) {
    clq_text_add(to, "    %s) words='", command->name);
    for (const clq_argument *row = rows; !clq_argument_is_end(row); row++) {
        if (row->plain) continue;
        if (row->name)
            clq_text_add(to, "--%s ", row->name);
        else
            clq_text_add(to, "-%c ", clq_argument_letter(row));
    }
    clq_text_add(to, "--help' ;;\n");
}

static void add_help(const char *command, const clq_argument *rows, clq_text *to) {
    clq_text words = {0};
    clq_complete_help(rows, &words);
    if (words.length) clq_text_add(to, "    %s:--help=) words='%s' ;;\n", command, words.data + 1);
    to->failed = to->failed || words.failed;
    clq_free(words.data);
}

static void add_all_values(const clq_subcommand *command, const clq_argument *rows, clq_text *to) {
    add_help(command->name, rows, to);
    for (; !clq_argument_is_end(rows); rows++) add_values(command->name, rows, to);
}

static void add_plain(const clq_subcommand *command, const clq_argument *rows, clq_text *to) {
    if (clq_arguments_plain(rows)) clq_text_add(to, "%s) files=1 ;;\n    ", command->name);
}

static void add_words_of_help(clq_text *to) {
    const clq_subcommand *command;
    const clq_topic *topic;
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) clq_text_add(to, "%s ", command->name);
    for (size_t i = 0; (topic = clq_topic_at(i)) != NULL; i++) clq_text_add(to, "%s ", topic->name);
    for (const char *name = clq_option_next(""); name; name = clq_option_next(name)) clq_text_add(to, "%s ", name);
}

clq_status clq_complete_bash(clq_text *to) {
    const clq_subcommand *command;
    clq_text_add(to, "# Completion of clique for bash.\n"
                     "_clique() {\n"
                     "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
                     "    local command= first=1 words= files= equals= i\n"
                     "    COMPREPLY=()\n"
                     "    # A value may stand behind '=', which is a word of its own. That of --help has to.\n"
                     "    if [[ $current == = ]]; then current= equals==\n"
                     "    elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]} equals==; fi\n"
                     "    [[ $previous == --help ]] && previous+=$equals\n"
                     "    # The command; behind clique launch … -- clique, that which is launched.\n"
                     "    # --: of another program.\n"
                     "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
                     "        if [[ -z $command ]]; then command=${COMP_WORDS[i]} first=$((i + 1))\n"
                     "        elif [[ $command == launch && ${COMP_WORDS[i]} == -- ]]; then\n"
                     "            ((i++))\n"
                     "            if ((i == COMP_CWORD)) || [[ ${COMP_WORDS[i]##*/} != clique ]]; then\n"
                     "                command=--\n"
                     "                break\n"
                     "            fi\n"
                     "            command= first=$((i + 1))\n"
                     "        fi\n"
                     "    done\n"
                     "    if [[ $command == -- ]]; then\n"
                     "        files=1\n"
                     "        ((i == COMP_CWORD)) && words=clique\n"
                     "    elif [[ -z $command ]]; then\n"
                     "        words='");
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) clq_text_add(to, "%s ", command->name);
    clq_text_add(to, "help --help --version'\n"
                     "    elif [[ $command == help ]]; then\n"
                     "        words='");
    add_words_of_help(to);
    clq_text_add(to, "'\n    elif [[ $command == bench ]]; then\n        ((COMP_CWORD == first)) && words='");
    for (const clq_fact *bench = clq_benchmarks; bench->what; bench++) clq_text_add(to, "%s ", bench->what);
    clq_text_add(to, "--help'\n    elif [[ $current == -* ]]; then case $command in\n");
    CLQ_TRY(each_command(add_names, to));
    clq_text_add(to, "    esac\n    else case $command:$previous in\n");
    CLQ_TRY(each_command(add_all_values, to));
    clq_text_add(to, "    *) case $command in\n    ");
    CLQ_TRY(each_command(add_plain, to));
    clq_text_add(to, "esac ;;\n    esac; fi\n"
                     "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
                     "    if [[ $files ]]; then\n"
                     "        compopt -o filenames 2>/dev/null\n"
                     "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$current\")\n"
                     "    fi\n"
                     "}\n"
                     "complete -F _clique clique\n");
    return CLQ_OK;
}
