/* GPUs that are there and that no OpenCL driver lists: what is missing. */
#include "cli/cli.h"

enum { UNLISTED_MAX = 64 };

static size_t find(const clq_system *system, clq_unlisted out[UNLISTED_MAX]) {
    const char *root = clq_environment("CLIQUE_MACHINE_ROOT");
    return clq_system_unlisted(system, root ? root : "", out, UNLISTED_MAX);
}

void clq_print_unlisted(FILE *to, const char *begin, const clq_system *system) {
    clq_unlisted rows[UNLISTED_MAX];
    size_t count = find(system, rows);
    for (size_t i = 0; i < count; i++)
        fprintf(to, "%sthe %s GPU%s%s is not used: %s; %s\n", begin, rows[i].vendor, rows[i].pci[0] ? " " : "",
                rows[i].pci, rows[i].reason, rows[i].remedy);
}

json_t *clq_describe_unlisted(const clq_system *system) {
    clq_unlisted rows[UNLISTED_MAX];
    size_t count = find(system, rows);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = clq_json_append(list, json_pack("{s:s, s:s, s:s, s:s}", "vendor", rows[i].vendor, "pci", rows[i].pci,
                                               "reason", rows[i].reason, "remedy", rows[i].remedy));
    return list;
}
