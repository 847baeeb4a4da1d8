/* clique-bench: `clique bench NAME` runs it. */
#include "bench.h"

#include "cli/benches.h"
#include "cli/help.h"
#include "cli/program.h"

#include <string.h>

static const struct {
    const char *name;
    clq_status (*run)(int argc, char **argv);
    const char *help;
} benches[] = {
#define ROW(name, help) {#name, clq_bench_##name, help},
    CLQ_BENCHES(ROW)
#undef ROW
};

static clq_status refuse(const char *name) {
    clq_nearest nearest = clq_nearest_of(name);
    for (size_t i = 0; i < CLQ_COUNT_OF(benches); i++) clq_nearest_try(&nearest, benches[i].name);
    clq_nearest_try(&nearest, "--help");
    return clq_nearest_fail(&nearest, "unknown benchmark '%s': clique bench --help lists the benchmarks", name);
}

static clq_status print_help(void) {
    clq_text text = {0};
    clq_text_add(&text, "Usage: clique bench NAME [OPTION…]\n\n");
    clq_help_paragraph(0, "Runs a benchmark; clique bench NAME --help shows its options.", &text);
    clq_text_add(&text, "\nBenchmarks:\n");
    for (size_t i = 0; i < CLQ_COUNT_OF(benches); i++) clq_help_entry(benches[i].name, benches[i].help, &text);
    return clq_help_write(&text);
}

static clq_status run(int argc, char **argv) {
    if (argc >= 2 && strcmp(argv[1], "--help") == 0) return print_help();
    for (size_t i = 0; argc >= 2 && i < CLQ_COUNT_OF(benches); i++)
        if (strcmp(argv[1], benches[i].name) == 0) return benches[i].run(argc - 1, argv + 1);
    if (argc >= 2) return refuse(argv[1]);
    return clq_fail(CLQ_ERROR_ARGUMENT, "no benchmark is named: clique bench --help lists the benchmarks");
}

int main(int argc, char **argv) { return clq_program_run(argc, argv, run); }
