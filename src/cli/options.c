/* The options of commands by the table of settings, and how a command that has such options is run. */
#include "cli/cli.h"
#include "cli/ranks.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_KEY = 256 };

/* The commands that processes carry out together, if a launcher started several. */
static const unsigned of_several = CLQ_COMMAND_TRAIN | CLQ_COMMAND_WHY;

/* Whether text begins with an option's name. *behind: what follows the name. */
static bool begins_with_option(const char *text, const char **behind) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        *behind = text + strlen(row->name);
        if (row->commands && strncmp(text, row->name, strlen(row->name)) == 0 &&
            !strchr("-abcdefghijklmnopqrstuvwxyz", **behind))
            return true;
    }
    return false;
}

/* The library's messages name settings by their keys, at the beginning of a line and in quotation marks, as in "keep
 * needs 'checkpoint'" and "batch '0': …". A first word that only looks like a key is left alone, as in "loss of the
 * model": what follows it decides. */
clq_status clq_options_name(clq_status status) {
    static const char *const verbs[] = {" '", ": ", " is ", " and ", " needs "};
    char said[CLQ_DETAIL_MAX];
    const char *behind;
    clq_text text = {0};
    bool names = false;
    if (status == CLQ_OK || strlen(clq_error_detail()) >= sizeof said) return status;
    memcpy(said, clq_error_detail(), strlen(clq_error_detail()) + 1);
    if (begins_with_option(said, &behind))
        for (size_t i = 0; i < CLQ_COUNT_OF(verbs); i++)
            names = names || strncmp(behind, verbs[i], strlen(verbs[i])) == 0;
    if (!names) return status;
    if (strncmp(behind, verbs[0], 2) == 0) return clq_fail(status, "--%s", said); /* a value is quoted, not a key */
    clq_text_add(&text, "--");
    for (const char *at = said; *at;) {
        const bool quotes = *at == '\'' && begins_with_option(at + 1, &behind) && *behind == '\'';
        if (quotes) clq_text_add(&text, "--");
        const char *end = quotes ? behind : at + 1;
        clq_text_add_bytes(&text, at + quotes, (size_t)(end - at) - quotes);
        at = end + quotes;
    }
    status = text.failed ? clq_fail_memory("naming an option") : clq_fail(status, "%s", text.data);
    clq_free(text.data);
    return status;
}

/* option->key is FIRST_KEY plus the index of the setting's row. */
static clq_status set_option(void *context, const clq_argument *option, const char *text) {
    const clq_setting *row = clq_setting_row((size_t)(option->key - FIRST_KEY));
    return clq_options_name(clq_settings_take(context, row, text ? text : "1"));
}

clq_argument clq_options_row(size_t index) {
    const clq_setting *row = clq_setting_row(index);
    return (clq_argument){row->name,
                          FIRST_KEY + (int)index,
                          row->value,
                          row->help,
                          clq_setting_group_key(row->group),
                          clq_setting_group_title(row->group),
                          row->usual,
                          false};
}

clq_status clq_options_rows(unsigned commands, clq_argument rows[CLQ_ARGUMENTS_MAX]) {
    const clq_setting *row;
    size_t taken = 0;
    for (unsigned group = 0; group < CLQ_HELP_COUNT; group++)
        for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
            if (row->group != group || !(row->commands & commands)) continue;
            if (taken + 1 == CLQ_ARGUMENTS_MAX)
                return clq_fail(CLQ_ERROR_INTERNAL, "a command has more than %d options", CLQ_ARGUMENTS_MAX);
            rows[taken++] = clq_options_row(i);
        }
    rows[taken] = (clq_argument){0};
    return CLQ_OK;
}

static clq_status parse_words(const clq_subcommand *command, int argc, char **argv, clq_options *options) {
    clq_argument rows[CLQ_ARGUMENTS_MAX];
    clq_arguments arguments;
    char program[64];
    CLQ_TRY(clq_subcommand_arguments(command, rows, program, &arguments));
    clq_settings_init(options);
    return clq_arguments_parse(&arguments, argc, argv, set_option, options);
}

static clq_status parse(const clq_subcommand *command, int argc, char **argv, clq_options *options) {
    CLQ_TRY(parse_words(command, argc, argv, options));
    return clq_options_check_files(command->name, options, NULL, 0);
}

clq_status clq_command_options(int argc, char **argv, clq_options *out) {
    const clq_subcommand *command = clq_subcommand_find(argv[0]);
    return command && command->body ? parse_words(command, argc, argv, out) : CLQ_OK;
}

/* status: the result of parsing the options. */
static clq_status carry_out(clq_setup *setup, const clq_options *options, clq_status status,
                            clq_status (*body)(clq_setup *, const clq_options *)) {
    clq_error error;
    if (status == CLQ_OK) status = body(setup, options);
    clq_ranks_end(setup->world, setup->begun, status);
    clq_end_if_stuck(setup->system, setup->begun, status);
    clq_error_take(status, &error);
    clq_setup_close_trainer(setup);
    status = clq_ranks_leave(setup->world, clq_error_raise(&error));
    setup->world = NULL;
    clq_end_if_stuck(setup->system, setup->begun, status);
    clq_setup_release(setup);
    return status;
}

/* For commands that have nothing to clean up when a signal ends them. */
static void end_at_once(void) { clq_interrupts_end_at_once("clique: error: interrupted\n"); }

clq_status clq_command_run(const clq_subcommand *command, int argc, char **argv) {
    clq_options options = {0};
    clq_setup setup = {0};
    clq_status status = parse(command, argc, argv, &options);
    if (command->bit & of_several)
        status = clq_setup_world(&setup, &options, command->bit == CLQ_COMMAND_TRAIN, status);
    else
        end_at_once();
    if (status == CLQ_OK && !(command->bit & of_several))
        status = clq_setup_name_files(&setup, command->name, &options);
    return carry_out(&setup, &options, status, command->body);
}

/* ---- the evaluator of a training ---- */

static size_t field_bytes(const clq_setting *row) {
    switch (row->type) {
    case CLQ_SETTING_NAMED: return sizeof(clq_named_texts);
    case CLQ_SETTING_COUNT: return sizeof(uint64_t);
    case CLQ_SETTING_SECONDS: return sizeof(double);
    case CLQ_SETTING_CHOICE:
    case CLQ_SETTING_TEXT: return sizeof(const char *);
    case CLQ_SETTING_FLAG: return sizeof(bool);
    }
    return 0;
}

/* Takes those options of a training that eval has, too. All others get their defaults. So does the strategy: this host
 * need not have as many devices. */
static void take_for_eval(const clq_options *train, clq_options *out) {
    const clq_setting *row;
    clq_settings_init(out);
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++)
        if ((row->commands & CLQ_COMMAND_EVAL) && !row->strategies && row->field != offsetof(clq_options, strategy))
            memcpy((char *)out + row->field, (const char *)train + row->field, field_bytes(row));
    out->follow = true;
}

/* The results of an evaluation do not depend on the batch. One process's part of the training's batch fits this
 * machine, as it fits the others. */
static uint64_t batch_of_process(const clq_options *train, unsigned processes) {
    if (train->batch_per_replica) return train->batch_per_replica;
    return clq_ceil_div(train->batch ? train->batch : CLQ_BATCH_DEFAULT, processes);
}

clq_status clq_command_follow(int argc, char **argv, unsigned processes, const clq_followed *followed) {
    clq_options train = {0}, options = {0};
    clq_setup setup = {.followed = *followed};
    end_at_once();
    clq_status status = parse(clq_subcommand_find("train"), argc, argv, &train);
    if (status == CLQ_OK) take_for_eval(&train, &options);
    if (status == CLQ_OK) status = clq_setup_evaluator(&setup, &options, processes);
    options.batch = batch_of_process(&train, processes);
    return carry_out(&setup, &options, status, clq_command_eval);
}
