/* clique-manual FOLDER DATE: writes clique.1, clique-COMMAND.1, clique.bash, _clique and clique.fish. */
#include "cli/manual/manual.h"

#include "cli/benches.h"
#include "cli/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const clq_fact clq_benchmarks[] = {
#define ROW(name, help) {#name, help},
    CLQ_BENCHES(ROW)
#undef ROW
        {0}};

/* status: of what made the text, which is freed. */
static clq_status put(const char *folder, const char *name, clq_text *text, clq_status status) {
    char path[4096];
    if (status == CLQ_OK && text->failed) status = clq_fail_memory("writing the manual");
    if (status == CLQ_OK && (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        status = clq_fail(CLQ_ERROR_ARGUMENT, "%s: the path is too long", folder);
    FILE *file = status == CLQ_OK ? fopen(path, "wb") : NULL;
    if (status == CLQ_OK && !file) status = clq_fail(CLQ_ERROR_WRITE, "%s: %s", path, strerror(errno));
    if (file) {
        const bool written = fwrite(text->data, 1, text->length, file) == text->length;
        if ((fclose(file) != 0 || !written)) status = clq_fail(CLQ_ERROR_WRITE, "%s cannot be written", path);
    }
    clq_free(text->data);
    *text = (clq_text){0};
    return status;
}

static clq_status run(int argc, char **argv) {
    const clq_subcommand *command;
    clq_text text = {0};
    if (argc != 3) return clq_fail(CLQ_ERROR_ARGUMENT, "usage: clique-manual FOLDER DATE");
    clq_manual_overview(argv[2], &text);
    CLQ_TRY(put(argv[1], "clique.1", &text, CLQ_OK));
    for (size_t i = 0; (command = clq_subcommand_at(i)) != NULL; i++) {
        char name[64];
        (void)snprintf(name, sizeof name, "clique-%s.1", command->name);
        CLQ_TRY(put(argv[1], name, &text, clq_manual_command(command, argv[2], &text)));
    }
    CLQ_TRY(put(argv[1], "clique.bash", &text, clq_complete_bash(&text)));
    CLQ_TRY(put(argv[1], "_clique", &text, clq_complete_zsh(&text)));
    return put(argv[1], "clique.fish", &text, clq_complete_fish(&text));
}

int main(int argc, char **argv) { return clq_program_end(run(argc, argv)); }
