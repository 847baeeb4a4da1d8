/* clique: finds the subcommand and runs it. */
#include "cli/cli.h"
#include "cli/page.h"
#include "cli/program.h"
#include "cli/topics.h"

#include <string.h>

static clq_status print(clq_status (*add)(clq_text *to)) {
    clq_text text = {0};
    const clq_status status = add(&text);
    if (status == CLQ_OK) return clq_help_write(&text);
    clq_free(text.data);
    return status;
}

static clq_status run(int argc, char **argv) {
    if (argc < 2) {
        clq_text text = {0};
        clq_topics_overview(&text);
        if (text.data && !text.failed) fputs(text.data, stderr);
        clq_free(text.data);
        return clq_fail(CLQ_ERROR_ARGUMENT, "no command: name one of those above");
    }
    if (strcmp(argv[1], "--help") == 0) return print(clq_topics_overview);
    if (strcmp(argv[1], "help") == 0) return clq_command_help(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0) {
        printf("clique %s (OpenCL, CLBlast, zlib, Jansson, xxHash%s%s)\n", clq_version(),
               clq_page_part("chart") ? ", Chart.js" : "", clq_keras_files_built() ? ", HDF5, libzip" : "");
        return CLQ_OK;
    }
    const clq_subcommand *command = clq_subcommand_find(argv[1]);
    if (!command) return clq_topics_refuse(argv[1]);
    return command->run ? command->run(argc - 1, argv + 1) : clq_command_run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) { return clq_program_run(argc, argv, run); }
