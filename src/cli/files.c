/* Files of a command's options: an output overwrites no input and no other output. */
#include "cli/cli.h"

#include <stdio.h>
#include <unistd.h>

clq_status clq_options_check_files(const char *command, const clq_options *options, char *const *more, size_t number) {
    enum { FILES_MAX = 32 };
    clq_named_file files[FILES_MAX + CLQ_MODEL_OUTPUTS_MAX + 2] = {{.option = NULL}};
    char names[FILES_MAX][32];
    const unsigned bit = clq_subcommand_bit(command);
    const clq_setting *row;
    size_t count = 0;
    if (number > CLQ_MODEL_OUTPUTS_MAX) return clq_fail(CLQ_ERROR_INTERNAL, "%zu files of outputs", number);
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        if (row->file.use == CLQ_FILE_NONE || !(row->commands & bit)) continue;
        const char *value = *(const char *const *)(const void *)((const char *)options + row->field);
        const char *path = value && row->file.path ? row->file.path(value) : value;
        if (!path) continue;
        if (count == FILES_MAX) return clq_fail(CLQ_ERROR_INTERNAL, "a command has more than %d files", FILES_MAX);
        (void)snprintf(names[count], sizeof names[count], "--%s", row->name);
        files[count] = (clq_named_file){names[count], path, -1, row->file.use == CLQ_FILE_WRITTEN,
                                        path == value ? row->file.holds : NULL};
        count++;
    }
    for (size_t i = 0; i < number; i++)
        files[count++] = (clq_named_file){"--out (a further output)", more[i], -1, true, NULL};
    files[count++] = (clq_named_file){"the output", NULL, STDOUT_FILENO, true, NULL};
    files[count++] = (clq_named_file){"the error output", NULL, STDERR_FILENO, true, NULL};
    return clq_files_check(files, count);
}
