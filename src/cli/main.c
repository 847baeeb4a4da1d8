/* clique: finds the subcommand and runs it. */
#include "cli/cli.h"
#include "cli/page.h"
#include "cli/program.h"

#include <string.h>

static const struct {
    const char *name;
    clq_status (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"devices", clq_command_devices, "list the machine's OpenCL devices"},
    {"doctor", clq_command_doctor, "test each device against known answers"},
    {"train", clq_command_train, "train a model on the devices"},
    {"eval", clq_command_eval, "loss and accuracy of saved weights"},
    {"predict", clq_command_predict, "a model's outputs for every sample, as .npy"},
    {"tune", clq_command_tune, "measure which kernels are the fastest for a model"},
    {"plan", clq_command_plan, "what a model runs and holds on a device"},
    {"bench", clq_command_bench, "run a benchmark of clique-bench"},
    {"compare", clq_command_compare, "what changed between two results of a benchmark"},
    {"report", clq_command_report, "results of the bench suite as a page with plots"},
};

static void print_help(FILE *to) {
    fputs(
        "usage: clique COMMAND [OPTION…]\n\nTrains neural networks on all the OpenCL devices of a machine at once.\n\n",
        to);
    for (size_t i = 0; i < CLQ_COUNT_OF(commands); i++) fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].help);
    fputs("\nclique COMMAND --help lists a command's options; clique --version prints the version.\n", to);
}

static clq_status run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return clq_fail(CLQ_ARGUMENT, "no command: name one of those above");
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(stdout);
        return CLQ_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("clique %s (OpenCL, CLBlast, zlib, Jansson, xxHash%s)\n", clq_version(),
               clq_page_part("chart") ? ", Chart.js" : "");
        return CLQ_OK;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 1, argv + 1);
    return clq_fail(CLQ_ARGUMENT, "unknown command '%s': clique --help lists them", argv[1]);
}

int main(int argc, char **argv) { return clq_program_run(argc, argv, run); }
