#include "cli/arguments.h"

#include "cli/help.h"
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

const clq_argument *clq_arguments_plain(const clq_argument *rows) {
    for (; !clq_argument_is_end(rows); rows++)
        if (rows->plain) return rows;
    return NULL;
}

/* The row of --help, which every command takes and no table has. */
static const clq_argument help_row = {.name = "help"};

/* The next option after `row` (NULL: the first option). --help comes after the last option of the table, and NULL after
 * --help. */
static const clq_argument *next_option(const clq_arguments *arguments, const clq_argument *row) {
    if (row == &help_row) return NULL;
    row = row ? row + 1 : arguments->rows;
    while (!clq_argument_is_end(row) && row->plain) row++;
    return clq_argument_is_end(row) ? &help_row : row;
}

static bool begins_so(const clq_argument *row, const char *name, size_t length) {
    return row->name && strncmp(row->name, name, length) == 0;
}

/* ---- refusals ---- */

static clq_status refuse(clq_text *why) {
    const clq_status status =
        why->failed ? clq_fail_memory("naming options") : clq_fail(CLQ_ERROR_ARGUMENT, "%s", why->data);
    clq_free(why->data);
    return status;
}

/* name: `length` bytes, without the dashes. */
static clq_status refuse_unknown(const clq_arguments *arguments, const char *name, size_t length) {
    clq_text why = {0}, others = {0};
    if (arguments->others) arguments->others(name, length, &others);
    clq_nearest nearest = {.word = name, .length = length};
    for (const clq_argument *row = NULL; (row = next_option(arguments, row)) != NULL;)
        if (row->name) clq_nearest_try(&nearest, row->name);
    clq_text_add(&why, "option '--%.*s' is ", (int)length, name);
    if (others.length)
        clq_text_add(&why, "of %s: %s does not take it", others.data, arguments->program);
    else
        clq_text_add(&why, "unknown: %s --help lists the options", arguments->program);
    if (nearest.found) clq_text_add(&why, "; did you mean '--%s'?", nearest.found);
    why.failed = why.failed || others.failed;
    clq_free(others.data);
    return refuse(&why);
}

/* Refuses a word with one dash: an unknown letter, or a name that needs two dashes. */
static clq_status refuse_letters(const clq_arguments *arguments, const char *argument) {
    const char *program = arguments->program;
    const size_t length = strcspn(argument + 1, "=");
    for (const clq_argument *row = NULL; length > 1 && (row = next_option(arguments, row)) != NULL;)
        if (begins_so(row, argument + 1, length) && strlen(row->name) == length)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "option '%s' is unknown: %s --help lists the options; did you mean '--%s'?", argument,
                            program, row->name);
    return clq_fail(CLQ_ERROR_ARGUMENT, "option '%s' is unknown: %s --help lists the options", argument, program);
}

static clq_status refuse_ambiguous(const clq_arguments *arguments, const char *name, size_t length) {
    clq_text why = {0};
    const char *between = "";
    clq_text_add(&why, "option '--%.*s' is ambiguous: it begins ", (int)length, name);
    for (const clq_argument *row = NULL; (row = next_option(arguments, row)) != NULL;) {
        if (!begins_so(row, name, length)) continue;
        clq_text_add(&why, "%s--%s", between, row->name);
        between = ", ";
    }
    return refuse(&why);
}

/* ---- finding rows ---- */

/* Finds the row of --name (`length` bytes): the row of exactly this name, or the only row whose name begins so. */
static clq_status find_long(const clq_arguments *arguments, const char *name, size_t length, const clq_argument **out) {
    const clq_argument *found = NULL;
    size_t count = 0;
    for (const clq_argument *row = NULL; (row = next_option(arguments, row)) != NULL;) {
        if (!begins_so(row, name, length)) continue;
        found = row;
        count++;
        if (strlen(row->name) != length) continue;
        count = 1;
        break;
    }
    if (count == 0) return refuse_unknown(arguments, name, length);
    if (count > 1) return refuse_ambiguous(arguments, name, length);
    *out = found;
    return CLQ_OK;
}

static clq_status find_option(const clq_arguments *arguments, const char *argument, const clq_argument **out) {
    const char *program = arguments->program;
    if (strncmp(argument, "--=", 3) == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "option '%s' has no name: %s --help lists the options", argument, program);
    if (strncmp(argument, "--", 2) == 0 && argument[2])
        return find_long(arguments, argument + 2, strcspn(argument + 2, "="), out);
    if (argument[0] == '-' && argument[1] && !argument[2])
        for (const clq_argument *row = NULL; (row = next_option(arguments, row)) != NULL;)
            if (row->key == argument[1]) {
                *out = row;
                return CLQ_OK;
            }
    if (argument[0] == '-') return refuse_letters(arguments, argument);
    return clq_fail(CLQ_ERROR_ARGUMENT, "unexpected argument '%s': every input is an option (%s --help lists them)",
                    argument, program);
}

/* ---- all ---- */

static clq_status print_help(const clq_arguments *arguments, const char *part) {
    clq_text text = {0};
    clq_status status = clq_help_command(arguments, part, &text);
    if (status == CLQ_OK) return clq_help_write(&text);
    clq_free(text.data);
    return status;
}

clq_status clq_arguments_parse(const clq_arguments *arguments, int argc, char **argv, clq_option_handler handle,
                               void *context) {
    const clq_argument *plain = clq_arguments_plain(arguments->rows);
    bool options_ended = false;
    for (int i = 1; i < argc; i++) {
        if (plain && (options_ended || argv[i][0] != '-' || !argv[i][1])) {
            CLQ_TRY(handle(context, plain, argv[i]));
            continue;
        }
        if (plain && strcmp(argv[i], "--") == 0) {
            options_ended = true;
            continue;
        }
        const clq_argument *option;
        CLQ_TRY(find_option(arguments, argv[i], &option));
        const char *equals = strncmp(argv[i], "--", 2) == 0 ? strchr(argv[i], '=') : NULL,
                   *value = equals ? equals + 1 : NULL;
        if (option == &help_row) exit(clq_program_end(print_help(arguments, value)));
        if (option->value && !value && i + 1 == argc)
            return clq_fail(CLQ_ERROR_ARGUMENT, "option '%s' misses its value, %s", argv[i], option->value);
        if (!option->value && value) return clq_fail(CLQ_ERROR_ARGUMENT, "option '--%s' takes no value", option->name);
        if (option->value && !value) value = argv[++i];
        CLQ_TRY(handle(context, option, value));
    }
    return CLQ_OK;
}

clq_status clq_argument_seconds(const clq_argument *option, const char *text, double *out) {
    if (clq_parse_seconds(text, out)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--%s '%s': expected %s", option->name, text, clq_seconds_range);
}
