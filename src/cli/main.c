/* clique: finds the subcommand and runs it. */
#include "cli/cli.h"
#include "cli/page.h"
#include "cli/program.h"

#include <string.h>

static const struct {
    const char *name, *help;
    /* With options of options.c: what its --help begins with, and its work. */
    const char *about;
    clq_status (*body)(clq_setup *setup, const clq_options *options);
    clq_status (*run)(int argc, char **argv); /* with arguments of its own */
} commands[] = {
    {"devices", "list the machine's OpenCL devices",
     "Lists the machine's OpenCL devices and whether each passes its start-up test.", clq_command_devices, NULL},
    {"doctor", "test each device against known answers", "Tests each device against known answers.", clq_command_doctor,
     NULL},
    {"train", "train a model on the devices", "Trains a model on the chosen devices, all at once.", clq_command_train,
     NULL},
    {"eval", "loss and accuracy of saved weights", "Loss and accuracy of saved weights on the test set.",
     clq_command_eval, NULL},
    {"predict", "a model's outputs for every sample, as .npy",
     "Writes the model's output for every sample of the test set.", clq_command_predict, NULL},
    {"generate", "text by a model of tokens, one after another",
     "Writes the text that a model goes on with behind a prompt, token by token.", clq_command_generate, NULL},
    {"tune", "measure which kernels are the fastest for a model",
     "Without --devices, first chooses the devices and the strategy that are the fastest for a model. Then measures on "
     "each kind of device which kernels are the fastest for its training step. What won is kept, and used by all later "
     "runs.",
     clq_command_tune, NULL},
    {"why", "what limits training on 1 to n devices, and what would help",
     "Measures for some seconds what a training step is made of, and predicts its speed on 1 to all of the devices, "
     "what "
     "limits it, and which change would help most. Takes the options of train; with --trace it explains a recorded run "
     "instead.",
     clq_command_why, NULL},
    {"plan", "what a model runs and holds on a device",
     "Shows what a training step launches and how much memory it holds, on the first device.", clq_command_plan, NULL},
    {"launch", "start a command on several hosts", NULL, NULL, clq_command_launch},
    {"bench", "run a benchmark of clique-bench", NULL, NULL, clq_command_bench},
    {"compare", "what changed between two results of a benchmark", NULL, NULL, clq_command_compare},
    {"report", "results of the bench suite as a page with plots", NULL, NULL, clq_command_report},
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
        printf("clique %s (OpenCL, CLBlast, zlib, Jansson, xxHash%s%s)\n", clq_version(),
               clq_page_part("chart") ? ", Chart.js" : "", clq_keras_files_built() ? ", HDF5, libzip" : "");
        return CLQ_OK;
    }
    for (size_t i = 0; i < CLQ_COUNT_OF(commands); i++) {
        if (strcmp(argv[1], commands[i].name) != 0) continue;
        if (commands[i].run) return commands[i].run(argc - 1, argv + 1);
        return clq_command_run(commands[i].about, argc - 1, argv + 1, commands[i].body);
    }
    return clq_fail(CLQ_ARGUMENT, "unknown command '%s': clique --help lists them", argv[1]);
}

int main(int argc, char **argv) { return clq_program_run(argc, argv, run); }
