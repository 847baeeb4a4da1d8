/* Which options name files, and whether these are read or written: an output overwrites no input and no other output.
 */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

/* A checkpoint's own folders, and what is in them, are written by who keeps the checkpoints. */
static bool is_of_checkpoints(const char *name) {
    return strncmp(name, "step-", 5) == 0 || strncmp(name, "skipped-", 8) == 0;
}

#define OPTION(option, field) "--" option, offsetof(clq_options, field)
static const struct {
    const char *option;
    size_t field; /* of clq_options: a path, or NULL */
    enum { READ, WRITTEN, READ_BY_WHY } use;
    bool (*holds)(const char *name); /* of a folder */
} known[] = {
    {OPTION("data", data), READ, clq_dataset_reads},
    {OPTION("model", model), READ, NULL},
    {OPTION("weights", weights), READ, NULL},
    {OPTION("init", init), READ, NULL},
    {OPTION("sample-weights", sample_weights), READ, NULL},
    {OPTION("checkpoint", checkpoint), READ, is_of_checkpoints},
    {OPTION("save", save), WRITTEN, NULL},
    {OPTION("save-best", save_best), WRITTEN, NULL},
    {OPTION("csv", csv), WRITTEN, NULL},
    {OPTION("log", log), WRITTEN, NULL},
    {OPTION("trace", trace), READ_BY_WHY, NULL},
    {OPTION("out", out), WRITTEN, NULL},
};

/* As clq_setup_model has it: other models are built in, whatever files there are of their names. */
static bool is_file(const char *model) {
    const char *ending = strrchr(model, '.');
    return ending && strcmp(ending, ".json") == 0;
}

clq_status clq_options_check_files(const char *command, const clq_options *options, char *const *more, size_t number) {
    clq_named_file files[CLQ_COUNT_OF(known) + CLQ_MODEL_OUTPUTS_MAX + 2] = {{.option = NULL}};
    size_t count = 0;
    if (number > CLQ_MODEL_OUTPUTS_MAX) return clq_fail(CLQ_INTERNAL, "%zu files of outputs", number);
    for (size_t i = 0; i < CLQ_COUNT_OF(known); i++) {
        const char *path = *(const char *const *)(const void *)((const char *)options + known[i].field);
        const bool writes = known[i].use == WRITTEN || (known[i].use == READ_BY_WHY && strcmp(command, "why") != 0);
        if (!path || (known[i].field == offsetof(clq_options, model) && !is_file(path))) continue;
        files[count++] = (clq_named_file){known[i].option, path, -1, writes, known[i].holds};
    }
    for (size_t i = 0; i < number; i++)
        files[count++] = (clq_named_file){"--out (a further output)", more[i], -1, true, NULL};
    files[count++] = (clq_named_file){"the output", NULL, STDOUT_FILENO, true, NULL};
    files[count++] = (clq_named_file){"the error output", NULL, STDERR_FILENO, true, NULL};
    return clq_files_check(files, count);
}
