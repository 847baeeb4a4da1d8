/* clique-bench: `clique bench NAME` runs it. */
#include "bench.h"

#include "cli/exit.h"

#include <string.h>

static const struct {
    const char *name;
    clq_status (*run)(int argc, char **argv);
    const char *help;
} benches[] = {
    {"train", clq_bench_train, "training speed on 1 to n devices"},
};

static clq_status run(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) {
        for (size_t i = 0; i < CLQ_COUNT_OF(benches); i++)
            printf("clique bench %-8s %s\n", benches[i].name, benches[i].help);
        return CLQ_OK;
    }
    for (size_t i = 0; argc >= 2 && i < CLQ_COUNT_OF(benches); i++)
        if (strcmp(argv[1], benches[i].name) == 0) return benches[i].run(argc - 1, argv + 1);
    return clq_fail(CLQ_ARGUMENT, "%s%s%s: clique bench --help lists the benchmarks",
                    argc >= 2 ? "unknown benchmark '" : "no benchmark is named", argc >= 2 ? argv[1] : "",
                    argc >= 2 ? "'" : "");
}

int main(int argc, char **argv) {
    clq_status status = run(argc, argv);
    if (status != CLQ_OK) fprintf(stderr, "clique: error: %s\n", clq_error_detail());
    return clq_exit_code(status);
}
