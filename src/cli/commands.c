/* The commands of clique: a row each. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const clq_subcommand commands[] = {
    {"devices", "list the machine's OpenCL devices",
     "Lists the machine's OpenCL devices and whether each passes its start-up test.", .bit = CLQ_COMMAND_DEVICES,
     .body = clq_command_devices},
    {"doctor", "test each device against known answers", "Tests each device against known answers.",
     .bit = CLQ_COMMAND_DOCTOR, .body = clq_command_doctor},
    {"train", "train a model on the devices", "Trains a model on the chosen devices, all at once.",
     .bit = CLQ_COMMAND_TRAIN, .body = clq_command_train},
    {"eval", "loss and accuracy of saved weights", "Prints the loss and accuracy of saved weights on the test set.",
     .bit = CLQ_COMMAND_EVAL, .body = clq_command_eval},
    {"predict", "a model's outputs for every sample, as .npy",
     "Writes the model's output for every sample of the test set.", .bit = CLQ_COMMAND_PREDICT,
     .body = clq_command_predict},
    {"generate", "continue a text by a language model", "Continues a prompt by a language model, token by token.",
     .bit = CLQ_COMMAND_GENERATE, .body = clq_command_generate},
    {"tune", "measure which kernels are the fastest for a model",
     "Without --devices, first chooses the devices and the strategy that are the fastest for a model. Then measures on "
     "each kind of device which kernels are the fastest for its training step. All later runs use "
     "the winners.",
     .bit = CLQ_COMMAND_TUNE, .body = clq_command_tune},
    {"why", "what limits training on 1 to n devices, and what would help",
     "Measures for some seconds what a training step is made of, and predicts its speed on 1 to all of the devices, "
     "what limits it, and which change would help most. Takes the options of train; with --trace it explains a "
     "recorded run instead.",
     .bit = CLQ_COMMAND_WHY, .body = clq_command_why},
    {"plan", "what a model runs and holds on a device",
     "Shows what a training step launches and how much memory it holds, on the first device.", .bit = CLQ_COMMAND_PLAN,
     .body = clq_command_plan},
    {"launch", "start a command on several hosts",
     "Starts a command on several hosts by the launcher of an MPI, stays its parent, and ends what is left of it.",
     .behind = "-- clique train …", .options = clq_launch_options, .run = clq_command_launch},
    {"bench", "run a benchmark of clique-bench", .run = clq_command_bench},
    {"compare", "what changed between two results of a benchmark",
     "Shows what changed between two results of one benchmark, row by row.", .options = clq_compare_options,
     .run = clq_command_compare},
    {"report", "results of the bench suite as a page with plots",
     "Writes results of the bench suite as one page of HTML, with plots.", .options = clq_report_options,
     .run = clq_command_report},
};

const clq_subcommand *clq_subcommand_at(size_t index) {
    return index < CLQ_COUNT_OF(commands) ? &commands[index] : NULL;
}

const clq_subcommand *clq_subcommand_find(const char *name) {
    for (size_t i = 0; i < CLQ_COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

unsigned clq_subcommand_bit(const char *name) {
    const clq_subcommand *command = clq_subcommand_find(name);
    return command ? command->bit : 0;
}

static bool is_named(const char *row, const char *name, size_t length) {
    return row && strncmp(row, name, length) == 0 && !row[length];
}

bool clq_subcommand_takes(const clq_subcommand *command, const char *name, size_t length) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++)
        if ((row->commands & command->bit) && is_named(row->name, name, length)) return true;
    for (const clq_argument *own = command->options; own && !clq_argument_is_end(own); own++)
        if (!own->plain && is_named(own->name, name, length)) return true;
    return false;
}

/* For clq_arguments.others: names all commands that take the option. The command at hand does not. */
static void name_others(const char *name, size_t length, clq_text *to) {
    size_t count = 0, told = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(commands); i++) count += clq_subcommand_takes(&commands[i], name, length);
    for (size_t i = 0; i < CLQ_COUNT_OF(commands); i++) {
        if (!clq_subcommand_takes(&commands[i], name, length)) continue;
        clq_text_add(to, "%sclique %s", told == 0 ? "" : told + 1 < count ? ", " : " and ", commands[i].name);
        told++;
    }
}

clq_status clq_subcommand_arguments(const clq_subcommand *command, clq_argument rows[CLQ_ARGUMENTS_MAX],
                                    char program[64], clq_arguments *out) {
    static const clq_argument none[] = {{0}};
    (void)snprintf(program, 64, "clique %s", command->name);
    *out = (clq_arguments){.program = program,
                           .about = command->about,
                           .behind = command->behind,
                           .rows = command->options ? command->options : none,
                           .others = name_others};
    if (!command->bit) return CLQ_OK;
    out->rows = rows;
    return clq_options_rows(command->bit, rows);
}

clq_status clq_subcommand_parse(const char *name, int argc, char **argv, clq_option_handler handle, void *context) {
    clq_argument rows[CLQ_ARGUMENTS_MAX];
    clq_arguments arguments;
    char program[64];
    CLQ_TRY(clq_subcommand_arguments(clq_subcommand_find(name), rows, program, &arguments));
    return clq_arguments_parse(&arguments, argc, argv, handle, context);
}
