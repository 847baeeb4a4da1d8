/* GPUs that are there and that no OpenCL driver lists: what is missing. */
#include "cli/cli.h"

#include <stdio.h>

enum { UNLISTED_MAX = 64, LINE_BYTES = sizeof(clq_unlisted) + 64 };

static size_t find(const clq_system *system, clq_unlisted out[UNLISTED_MAX]) {
    const char *root = clq_environment("CLIQUE_MACHINE_ROOT");
    return clq_system_unlisted(system, root ? root : "", out, UNLISTED_MAX);
}

/* As lines of a file, or as warnings where there is none. */
static void say_unlisted(FILE *to, const clq_system *system) {
    clq_unlisted rows[UNLISTED_MAX];
    size_t count = find(system, rows);
    for (size_t i = 0; i < count; i++) {
        const clq_unlisted *gpu = &rows[i];
        char line[LINE_BYTES];
        (void)snprintf(line, sizeof line, "the %s GPU%s%s is not used: %s; %s", gpu->vendor, gpu->pci[0] ? " " : "",
                       gpu->pci, gpu->reason, gpu->remedy);
        if (to)
            fprintf(to, "%s\n", line);
        else
            clq_log(CLQ_LOG_WARNING, "%s", line);
    }
}

void clq_print_unlisted(FILE *to, const clq_system *system) { say_unlisted(to, system); }

void clq_warn_unlisted(const clq_system *system) { say_unlisted(NULL, system); }

json_t *clq_describe_unlisted(const clq_system *system) {
    clq_unlisted rows[UNLISTED_MAX];
    size_t count = find(system, rows);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = clq_json_append(list, json_pack("{s:s, s:s, s:s, s:s}", "vendor", rows[i].vendor, "pci", rows[i].pci,
                                               "reason", rows[i].reason, "remedy", rows[i].remedy));
    return list;
}
