#include "cli/arguments.h"

#include "base/base.h"
#include "cli/program.h"

#include <stdlib.h>
#include <string.h>

static bool is_end(const struct argp_option *option) { return !option->name && !option->key; }
static bool is_plain(const struct argp_option *option) { return (option->flags & OPTION_DOC) != 0; }

/* The entry for arguments that are no options, or NULL. */
static const struct argp_option *find_plain(const struct argp_option *table) {
    for (const struct argp_option *option = table; !is_end(option); option++)
        if (is_plain(option)) return option;
    return NULL;
}

/* The entry of --name (length characters): exact, or the only one that begins so. */
static clq_status find_long(const char *program, const struct argp_option *table, const char *name, size_t length,
                            const struct argp_option **out) {
    const struct argp_option *found = NULL;
    bool ambiguous = false;
    for (const struct argp_option *option = table; !is_end(option); option++) {
        if (!option->name || is_plain(option) || strncmp(option->name, name, length) != 0) continue;
        if (strlen(option->name) == length) {
            *out = option;
            return CLQ_OK;
        }
        ambiguous = found != NULL;
        found = option;
    }
    if (!found || ambiguous)
        return clq_fail(CLQ_ARGUMENT, "option '--%.*s' is %s: %s --help lists the options", (int)length, name,
                        found ? "ambiguous" : "unknown", program);
    *out = found;
    return CLQ_OK;
}

static clq_status find_option(const char *program, const struct argp_option *table, const char *argument,
                              const struct argp_option **out) {
    if (strncmp(argument, "--", 2) == 0 && argument[2])
        return find_long(program, table, argument + 2, strcspn(argument + 2, "="), out);
    if (argument[0] == '-' && argument[1] && !argument[2])
        for (const struct argp_option *option = table; !is_end(option); option++)
            if (option->key == argument[1] && !is_plain(option)) {
                *out = option;
                return CLQ_OK;
            }
    if (argument[0] == '-')
        return clq_fail(CLQ_ARGUMENT, "option '%s' is unknown: %s --help lists the options", argument, program);
    return clq_fail(CLQ_ARGUMENT, "unexpected argument '%s': every input is an option (%s --help lists them)", argument,
                    program);
}

static clq_status print_help(const char *program, const char *about, const struct argp_option *table) {
    const struct argp_option *plain = find_plain(table);
    const struct argp argp = {.options = table, .doc = about, .args_doc = plain ? plain->name : NULL};
    char *name = clq_strdup(program); /* argp_help wants it writable */
    if (!name) return CLQ_MEMORY;
    argp_help(&argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_LONG | ARGP_HELP_DOC, name);
    clq_free(name);
    return CLQ_OK;
}

clq_status clq_arguments_parse(const char *program, const char *about, const struct argp_option *table, int argc,
                               char **argv, clq_option_handler handle, void *context) {
    const struct argp_option *plain = find_plain(table);
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
        if (strcmp(argv[i], "--help") == 0) exit(clq_program_end(print_help(program, about, table)));
        const struct argp_option *option;
        CLQ_TRY(find_option(program, table, argv[i], &option));
        const char *equals = strncmp(argv[i], "--", 2) == 0 ? strchr(argv[i], '=') : NULL,
                   *value = equals ? equals + 1 : NULL;
        if (option->arg && !value && i + 1 == argc)
            return clq_fail(CLQ_ARGUMENT, "option '%s' misses its value, %s", argv[i], option->arg);
        if (!option->arg && value) return clq_fail(CLQ_ARGUMENT, "option '--%s' takes no value", option->name);
        if (option->arg && !value) value = argv[++i];
        CLQ_TRY(handle(context, option, value));
    }
    return CLQ_OK;
}

clq_status clq_argument_seconds(const struct argp_option *option, const char *text, double *out) {
    if (clq_parse_double(text, 1e-3, 1e6, out)) return CLQ_OK;
    return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected seconds, from 0.001 to 1000000", option->name, text);
}
