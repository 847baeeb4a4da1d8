/* The options of commands, by the table of settings, and the frame of a command that has them. */
#include "cli/cli.h"
#include "cli/ranks.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_KEY = 256 };

/* Those that processes carry out together, if a launcher started several. */
static const unsigned of_several = CLQ_COMMAND_TRAIN | CLQ_COMMAND_WHY;

/* What the library says of a setting, with the dashes of the option: "batch '0': …". At the beginning of a line alone,
 * and of a key that something is said of. */
clq_status clq_options_name(clq_status status) {
    const clq_setting *row;
    static const char *const begins[] = {" '", ": ", " is ", " and ", " needs "};
    const char *said = clq_error_detail();
    if (status == CLQ_OK) return status;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        const size_t length = strlen(row->name);
        const char *behind = said + length;
        if (!row->commands || strncmp(said, row->name, length) != 0) continue;
        for (size_t k = 0; k < CLQ_COUNT_OF(begins); k++)
            if (strncmp(behind, begins[k], strlen(begins[k])) == 0) return clq_fail(status, "--%s", said);
    }
    return status;
}

/* option: its key is the row's index behind FIRST_KEY. */
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
                return clq_fail(CLQ_INTERNAL, "a command has more than %d options", CLQ_ARGUMENTS_MAX);
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
    CLQ_TRY(clq_settings_init(options));
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

/* status: of the options. */
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

/* There is nothing to put in order. */
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
    case CLQ_SETTING_TEXT: return sizeof(const char *);
    case CLQ_SETTING_FLAG: return sizeof(bool);
    }
    return 0;
}

/* What eval takes of the options of a training; all others have their defaults, and so has the strategy: this host need
 * not have as many devices. */
static clq_status take_for_eval(const clq_options *train, clq_options *out) {
    const clq_setting *row;
    CLQ_TRY(clq_settings_init(out));
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++)
        if ((row->commands & CLQ_COMMAND_EVAL) && !row->strategies && row->field != offsetof(clq_options, strategy))
            memcpy((char *)out + row->field, (const char *)train + row->field, field_bytes(row));
    out->follow = true;
    return CLQ_OK;
}

/* Evaluation has the same results for each batch: a process's part of one fits this machine, as it fits the others. */
static uint64_t batch_of_process(const clq_options *train, unsigned processes) {
    if (train->batch_per_replica) return train->batch_per_replica;
    return clq_ceil_div(train->batch ? train->batch : CLQ_BATCH_DEFAULT, processes);
}

clq_status clq_command_follow(int argc, char **argv, unsigned processes, const clq_followed *followed) {
    clq_options train = {0}, options = {0};
    clq_setup setup = {.followed = *followed};
    end_at_once();
    clq_status status = parse(clq_subcommand_find("train"), argc, argv, &train);
    if (status == CLQ_OK) status = take_for_eval(&train, &options);
    if (status == CLQ_OK) status = clq_setup_evaluator(&setup, &options, processes);
    options.batch = batch_of_process(&train, processes);
    return carry_out(&setup, &options, status, clq_command_eval);
}
