/* Manual pages, in the macros of man(7). */
#include "cli/manual/manual.h"

#include <stdio.h>
#include <string.h>

/* ---- roff ---- */

/* The code point of a character of UTF-8 with `bytes` of them. */
static unsigned code_of(const char *at, size_t bytes) {
    static const unsigned char firsts[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    unsigned code = (unsigned char)*at & firsts[bytes];
    for (size_t i = 1; i < bytes; i++) code = code << 6 | ((unsigned char)at[i] & 0x3f);
    return code;
}

/* Text as it stands. In front of a line, a '.' or a ' would be a command. */
static void add(const char *text, clq_text *to) {
    static const struct {
        char letter;
        const char *roff;
    } special[] = {{'\\', "\\e"}, {'-', "\\-"}, {'\'', "\\(aq"}, {'`', "\\(ga"}, {'^', "\\(ha"}, {'~', "\\(ti"}};
    if (text[0] == '.') clq_text_add(to, "\\&");
    for (const char *at = text; *at;) {
        size_t i = 0;
        const size_t bytes = CLQ_MAX(clq_utf8_length(at), (size_t)1);
        while (i < CLQ_COUNT_OF(special) && special[i].letter != *at) i++;
        if (i < CLQ_COUNT_OF(special))
            clq_text_add(to, "%s", special[i].roff);
        else if (bytes > 1 && code_of(at, bytes) == 0x2026)
            clq_text_add(to, "...");
        else if (bytes > 1)
            clq_text_add(to, "\\[u%04X]", code_of(at, bytes));
        else
            clq_text_add_bytes(to, at, 1);
        at += bytes;
    }
}

static void add_line(const char *text, clq_text *to) {
    add(text, to);
    clq_text_add(to, "\n");
}

static void add_font(char font, const char *text, clq_text *to) {
    clq_text_add(to, "\\f%c", font);
    add(text, to);
    clq_text_add(to, "\\fR");
}

/* ---- parts of pages ---- */

/* name: "clique" or "clique-train". */
static void add_title(const char *name, const char *date, const char *help, clq_text *to) {
    char title[64];
    size_t length = 0;
    for (; name[length] && length + 1 < sizeof title; length++)
        title[length] = name[length] >= 'a' && name[length] <= 'z' ? (char)(name[length] - 'a' + 'A') : name[length];
    title[length] = '\0';
    clq_text_add(to, ".TH \"%s\" 1 \"%s\" \"clique %s\" \"Clique\"\n.SH NAME\n", title, date, clq_version());
    add(name, to);
    clq_text_add(to, " \\- ");
    add_line(help, to);
}

static void add_option(const clq_argument *row, clq_text *to) {
    const char letter = clq_argument_letter(row);
    clq_text_add(to, ".TP\n");
    if (row->plain) add_font('I', row->name, to);
    if (letter && !row->plain) clq_text_add(to, "\\fB\\-%c\\fR%s", letter, row->name ? ", " : "");
    if (row->name && !row->plain) {
        clq_text_add(to, "\\fB\\-\\-");
        add(row->name, to);
        clq_text_add(to, "\\fR");
    }
    if (row->value) {
        clq_text_add(to, " ");
        add_font('I', row->value, to);
    }
    clq_text_add(to, "\n");
    add_line(row->help, to);
}

static void add_fact(const clq_fact *fact, clq_text *to) {
    clq_text_add(to, ".TP\n");
    add_font('B', fact->what, to);
    clq_text_add(to, "\n");
    add_line(fact->means, to);
}

static void add_facts(const char *section, const char *sentence, const clq_fact *facts, clq_text *to) {
    clq_text_add(to, ".SH \"%s\"\n", section);
    if (sentence) add_line(sentence, to);
    for (; facts->what; facts++) add_fact(facts, to);
}

static void add_others(const char *own, clq_text *to) {
    const clq_subcommand *command, *next = NULL;
    clq_text_add(to, ".SH \"SEE ALSO\"\n");
    if (own) clq_text_add(to, ".BR clique (1),\n");
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) {
        next = clq_subcommand_at(i + 1);
        if (next && own && strcmp(next->name, own) == 0) next = clq_subcommand_at(i + 2);
        if (own && strcmp(command->name, own) == 0) continue;
        clq_text_add(to, ".BR clique\\-%s (1)%s\n", command->name, next ? "," : "");
    }
}

/* ---- pages ---- */

void clq_manual_overview(const char *date, clq_text *to) {
    const clq_subcommand *command;
    const clq_topic *topic;
    add_title("clique", date, "train neural networks on all OpenCL devices of a machine", to);
    clq_text_add(to, ".SH SYNOPSIS\n.B clique\n\\fICOMMAND\\fR [\\fIOPTION\\fR...]\n.br\n.B clique help\n"
                     "[\\fIWORD\\fR]\n.br\n.B clique \\-\\-version\n.SH DESCRIPTION\n");
    add_line(clq_purpose_sentence, to);
    clq_text_add(to, ".SH COMMANDS\n");
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++)
        add_fact(&(clq_fact){command->name, command->help}, to);
    add_fact(&(clq_fact){"help", clq_help_of_help}, to);
    clq_text_add(to, ".SH TOPICS\n");
    for (size_t i = 0; (topic = clq_topic_at(i)) != NULL; i++) add_fact(&(clq_fact){topic->name, topic->help}, to);
    add_facts("DEVICES", clq_devices_sentence, clq_device_facts, to);
    add_facts("ENVIRONMENT", NULL, clq_variable_facts, to);
    add_facts("EXIT STATUS", clq_failure_sentence, clq_exit_facts, to);
    add_others(NULL, to);
}

/* Each group's options behind its title, in the order of the rows, in which they are together. */
static void add_options(const clq_argument *rows, clq_text *to) {
    const char *title = NULL;
    clq_text_add(to, ".SH OPTIONS\n");
    for (const clq_argument *row = rows; !clq_argument_is_end(row); row++) {
        if (row->title && row->title != title) clq_text_add(to, ".SS \"%s\"\n", title = row->title);
        add_option(row, to);
    }
    const clq_argument of_groups = {.name = "help[=all|=GROUP]", .help = "the usual options, all, or those of a group"},
                       of_all = {.name = "help", .help = "the options, in short"};
    add_option(rows->group ? &of_groups : &of_all, to);
}

static void add_benchmarks(clq_text *to) {
    clq_text_add(to, ".SH SYNOPSIS\n.B clique bench\n\\fINAME\\fR [\\fIOPTION\\fR...]\n.SH DESCRIPTION\n");
    add_line("Runs a benchmark of clique-bench, which lies beside clique. clique bench NAME --help lists its options.",
             to);
    add_facts("BENCHMARKS", NULL, clq_benchmarks, to);
}

clq_status clq_manual_command(const clq_subcommand *command, const char *date, clq_text *to) {
    clq_argument rows[CLQ_ARGUMENTS_MAX];
    clq_arguments arguments;
    char program[64], name[64];
    CLQ_TRY(clq_subcommand_arguments(command, rows, program, &arguments));
    (void)snprintf(name, sizeof name, "clique-%s", command->name);
    add_title(name, date, command->help, to);
    if (!command->about) {
        add_benchmarks(to);
    } else {
        const clq_argument *plain = clq_arguments_plain(arguments.rows);
        const char *behind = arguments.behind ? arguments.behind : plain ? plain->name : "";
        clq_text_add(to, ".SH SYNOPSIS\n.B %s\n[\\fIOPTION\\fR...]%s", program, *behind ? " " : "");
        add_line(behind, to);
        clq_text_add(to, ".SH DESCRIPTION\n");
        add_line(command->about, to);
        add_options(arguments.rows, to);
    }
    add_others(command->name, to);
    return CLQ_OK;
}
