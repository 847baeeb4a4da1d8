/* The options of commands, by the table of settings, and the frame of a command that has them. */
#include "cli/cli.h"
#include "cli/ranks.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_KEY = 256, OPTIONS_MAX = 128 };

/* Bits of `commands` of the table. */
static const struct {
    const char *name;
    unsigned bit;
} commands[] = {{"devices", CLQ_COMMAND_DEVICES}, {"doctor", CLQ_COMMAND_DOCTOR}, {"train", CLQ_COMMAND_TRAIN},
                {"why", CLQ_COMMAND_WHY},         {"eval", CLQ_COMMAND_EVAL},     {"predict", CLQ_COMMAND_PREDICT},
                {"plan", CLQ_COMMAND_PLAN},       {"tune", CLQ_COMMAND_TUNE}};
/* Those that processes carry out together, if a launcher started several. */
static const unsigned of_several = CLQ_COMMAND_TRAIN;

unsigned clq_command_bit(const char *command) {
    size_t i = 0;
    while (strcmp(commands[i].name, command) != 0) i++; /* main.c knows no others */
    return commands[i].bit;
}

static clq_status set_number(const clq_setting *row, const char *text, uint64_t *out) {
    if (clq_parse_u64(text, row->min, row->max, out)) return CLQ_OK;
    if (row->max == UINT64_MAX)
        return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number of at least %llu", row->name, text,
                        (unsigned long long)row->min);
    return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number from %llu to %llu", row->name, text,
                    (unsigned long long)row->min, (unsigned long long)row->max);
}

/* option: its key is the row's index behind FIRST_KEY. */
static clq_status set_option(void *context, const struct argp_option *option, const char *text) {
    const clq_setting *row = clq_setting_at((size_t)(option->key - FIRST_KEY));
    char *field = (char *)context + row->field;
    switch (row->type) {
    case CLQ_SETTING_NAMED: return clq_named_texts_add((clq_named_texts *)(void *)field, row->name, text);
    case CLQ_SETTING_COUNT: return set_number(row, text, (uint64_t *)(void *)field);
    case CLQ_SETTING_SECONDS: return clq_argument_seconds(option, text, (double *)(void *)field);
    case CLQ_SETTING_TEXT: *(const char **)(void *)field = text; return CLQ_OK;
    case CLQ_SETTING_FLAG: *(bool *)field = true; return CLQ_OK;
    }
    return CLQ_OK;
}

/* The table that a command's arguments are parsed by, and the defaults of all. */
static clq_status list_options(unsigned command, struct argp_option table[OPTIONS_MAX], clq_options *options) {
    const clq_setting *row;
    size_t taken = 0;
    for (size_t i = 0; (row = clq_setting_at(i)) != NULL; i++) {
        const struct argp_option option = {row->name, FIRST_KEY + (int)i, row->value, 0, row->help, 0};
        if (row->initial) CLQ_TRY(set_option(options, &option, row->initial));
        if (!(row->commands & command)) continue;
        if (taken + 1 == OPTIONS_MAX) return clq_fail(CLQ_INTERNAL, "a command has more than %d options", OPTIONS_MAX);
        table[taken++] = option;
    }
    return CLQ_OK;
}

static clq_status parse(const char *about, int argc, char **argv, clq_options *options) {
    struct argp_option table[OPTIONS_MAX] = {{0}};
    char program[64];
    CLQ_TRY(list_options(clq_command_bit(argv[0]), table, options));
    snprintf(program, sizeof program, "clique %s", argv[0]);
    CLQ_TRY(clq_arguments_parse(program, about, table, argc, argv, set_option, options));
    return clq_options_check_files(argv[0], options, NULL, 0);
}

clq_status clq_command_run(const char *about, int argc, char **argv,
                           clq_status (*body)(clq_setup *, const clq_options *)) {
    clq_options options = {0};
    clq_setup setup = {0};
    clq_error error;
    clq_status status = parse(about, argc, argv, &options);
    if (clq_command_bit(argv[0]) & of_several) status = clq_setup_world(&setup, &options, status);
    if (status == CLQ_OK) status = body(&setup, &options);
    clq_ranks_end(setup.world, setup.begun, status);
    clq_end_if_stuck(setup.system, setup.begun, status);
    clq_error_take(status, &error);
    clq_setup_close_trainer(&setup);
    status = clq_ranks_leave(setup.world, clq_error_raise(&error));
    setup.world = NULL;
    clq_end_if_stuck(setup.system, setup.begun, status);
    clq_setup_release(&setup);
    return status;
}
