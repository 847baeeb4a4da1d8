/* cli: the command `clique`. main.c finds the subcommand. Each subcommand has a file of its own. options.c has the
 * options that they share. docs/command-line.md and docs/contract.md specify options, outputs and exit codes. */
#ifndef CLQ_CLI_H
#define CLQ_CLI_H

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/print.h"
#include "interop/interop.h"
#include "train/train.h"
#include "world/world.h"
#include <clique/checkpoint.h>
#include "why/why.h"
#include <clique/callbacks.h>

#include <stdio.h>

/* ---- options (options.c) ---- */

/* The values of all options in the table of settings, whichever commands take them. An option that was not given has
 * its default. */
typedef clq_settings clq_options;
/* Rewrites the message of a failure from the library's words into those of the command line: names of settings get
 * their dashes. Returns the failure's status. */
clq_status clq_options_name(clq_status status);

/* Refuses an output file that is also an input or another output. more: the files of a model's further outputs,
 * `number` of them, which follow from --out once the model is known. (files.c) */
clq_status clq_options_check_files(const char *command, const clq_options *options, char *const *more, size_t number);

/* ---- callbacks of train (callbacks.c) ---- */

/* If early stopping ended the training or put the best weights back: tells which epoch was the best, if any. */
clq_status clq_train_callbacks_tell(const clq_fit_callbacks *callbacks, FILE *to);
json_t *clq_train_callbacks_describe(const clq_fit_callbacks *callbacks); /* early stopping, or null */

/* ---- commands ---- */

enum { CLQ_BATCH_DEFAULT = 64 };

/* What is chosen if --devices or --strategy is auto. (choice.c) */
typedef struct clq_choice_of_setup {
    bool measure;       /* the command is there to choose (why, tune); false: --tune decides */
    bool to_make;       /* this run measures the alternatives and chooses */
    bool may_lack_data; /* there may be no training data: then a rule chooses */
    bool may_renew;     /* the run makes a kept choice anew if it no longer holds good */
    bool has_key, is_kept, is_new;
    clq_hash128 key, settings; /* settings: a hash of all that the speed depends on */
    clq_kept_choice kept;      /* if is_kept */
    clq_renewal renewal;       /* why the choice is made anew; NONE: it is not */
    clq_kept_choice before;    /* the choice that is made anew, as it was */
    clq_patience patience;     /* how long the run may repeat disturbed measurements */
} clq_choice_of_setup;

/* A device of a run of several processes. */
typedef struct clq_peer {
    unsigned rank; /* the rank that the device belongs to */
    bool is_used;  /* false: an unused slot of the gathered array */
    uint32_t index;
    clq_device_type type;
    char driver[16], pci[16], name[CLQ_NAME_MAX]; /* as in clq_device_info */
} clq_peer;

/* The training whose checkpoints eval --follow evaluates (eval.c). */
typedef struct clq_followed {
    bool (*has_ended)(void *context); /* NULL: it has ended if it was seen to write checkpoints and no longer does */
    void *context;
} clq_followed;

/* Everything that a run is built on, in the order in which it is made. */
typedef struct clq_setup {
    clq_world *world; /* NULL: this process is alone */
    bool is_silent;   /* this is a rank other than 0: it prints nothing and writes no files */
    clq_peer *peers;  /* (peer_count) the devices of all processes, by rank; NULL: alone */
    unsigned peer_count;
    clq_choice_of_setup choice;
    clq_system *recalled; /* recalled from an earlier run; NULL once `system` is open */
    bool recalled_one;    /* only one OpenCL driver was opened */
    bool begun;           /* steps were made: the command must not restart */
    clq_followed followed;
    clq_system *system;
    clq_devices devices;
    clq_model *model;
    clq_dataset *train, *test;
    clq_trainer *trainer;
    clq_trainer_config config; /* the trainer's */
    size_t global_batch;
    clq_made_config made;        /* owns what configs point to */
    clq_loaded *loaded;          /* what a partial --init loaded; NULL: the options asked for none */
    char *data, *sample_weights; /* these options after {rank} was replaced; NULL: they had none */
} clq_setup;

/* A command of clique. (commands.c) */
enum { CLQ_ARGUMENTS_MAX = 128 };
typedef struct clq_subcommand {
    const char *name, *help; /* help: what the list of commands says */
    const char *about;       /* how the command's own help begins; NULL: another program does the command */
    const char *behind;      /* as in clq_arguments */
    /* A command with options of the table of settings has its bit, CLQ_COMMAND_…, and its function. */
    unsigned bit;
    clq_status (*body)(clq_setup *setup, const clq_options *options);
    /* Any other command has options of its own (NULL: none) and its function. */
    const clq_argument *options;
    clq_status (*run)(int argc, char **argv);
} clq_subcommand;
const clq_subcommand *clq_subcommand_at(size_t index);       /* NULL after the last one */
const clq_subcommand *clq_subcommand_find(const char *name); /* NULL: there is none */
unsigned clq_subcommand_bit(const char *name);               /* 0: it takes no settings */
/* Describes the arguments that a command takes. out->rows points into `rows` or to the command's own table. program: a
 * buffer for out->program. */
clq_status clq_subcommand_arguments(const clq_subcommand *command, clq_argument rows[CLQ_ARGUMENTS_MAX],
                                    char program[64], clq_arguments *out);
/* Whether the command takes --NAME; the name has `length` bytes. */
bool clq_subcommand_takes(const clq_subcommand *command, const char *name, size_t length);
/* clq_arguments_parse for a command with options of its own. */
clq_status clq_subcommand_parse(const char *name, int argc, char **argv, clq_option_handler handle, void *context);

/* The rows of all options that any of these commands (bits) takes, group by group. (options.c) */
clq_argument clq_options_row(size_t setting); /* the row of the setting with this index */
clq_status clq_options_rows(unsigned commands, clq_argument rows[CLQ_ARGUMENTS_MAX]);

/* Parses the options that a command takes (argv[0] is its name), runs its body, and releases what the body has set up.
 * A wrong option is an ARGUMENT failure that names it. --help prints and exits 0. (options.c) */
clq_status clq_command_run(const clq_subcommand *command, int argc, char **argv);
/* Parses the command line of a command (argv[0]: its name) without running it: clique launch looks at the options. Does
 * not check the files that they name, since this process does not use them. *out is zero before the call; its texts
 * point into argv. Errors and --help: as clq_command_run. Does nothing if the command has no options of the table of
 * settings. (options.c) */
clq_status clq_command_options(int argc, char **argv, clq_options *out);
/* Runs eval --follow beside a training of `processes` processes, whose command line is argv (argv[0]: "train").
 * (options.c) */
clq_status clq_command_follow(int argc, char **argv, unsigned processes, const clq_followed *followed);
/* The functions of the commands. */
clq_status clq_command_devices(clq_setup *setup, const clq_options *options);
clq_status clq_command_doctor(clq_setup *setup, const clq_options *options);
clq_status clq_command_train(clq_setup *setup, const clq_options *options);
clq_status clq_command_eval(clq_setup *setup, const clq_options *options);
clq_status clq_command_predict(clq_setup *setup, const clq_options *options);
clq_status clq_command_generate(clq_setup *setup, const clq_options *options);
clq_status clq_command_plan(clq_setup *setup, const clq_options *options);
clq_status clq_command_tune(clq_setup *setup, const clq_options *options);
clq_status clq_command_why(clq_setup *setup, const clq_options *options);
clq_status clq_explain_trace(const clq_options *options); /* why --trace (queues.c) */
/* Commands with options of their own, and these options. */
extern const clq_argument clq_launch_options[], clq_compare_options[], clq_report_options[];
clq_status clq_command_launch(int argc, char **argv);
clq_status clq_command_bench(int argc, char **argv);
clq_status clq_command_compare(int argc, char **argv);
clq_status clq_command_report(int argc, char **argv);

/* ---- commands of several processes (world.c) ---- */

/* clq_setup_serve runs on a rank that is set apart, in place of the training. clq_setup_end_stores runs on all other
 * ranks after the training, which ended with `status`. It ends the store ranks, too, unless the training failed. */
clq_status clq_setup_serve(const clq_setup *setup);
clq_status clq_setup_end_stores(clq_setup *setup, clq_status status);
/* Whether the options ask for strategy ps, by which a training of several processes has store ranks. Errors: ARGUMENT
 * (no such strategy). */
clq_status clq_options_train_by_ps(const clq_options *options, bool *is_ps);
/* Joins the other processes by clq_ranks_join. For a training by strategy ps, sets the store ranks apart. On ranks
 * other than 0, clears --json, --save, --save-best, --monitor, --csv and --trace. Then calls clq_setup_name_files. */
clq_status clq_setup_world(clq_setup *setup, clq_options *options, bool trains, clq_status status);
/* Replaces "{rank}" by this process's rank and "{ranks}" by the number of processes in the options that name a
 * process's own files (--data, --sample-weights). A process that is alone is rank 0 of 1. Refuses such a file if it is
 * also an output. Errors: ARGUMENT, MEMORY. */
clq_status clq_setup_name_files(clq_setup *setup, const char *command, clq_options *options);
/* The same for a process that evaluates beside a training of `processes` processes. It has no rank, so "{rank}" in
 * --data becomes "evaluator". */
clq_status clq_setup_evaluator(clq_setup *setup, clq_options *options, unsigned processes);
/* Launchers bind a process to a part of its machine: Open MPI to one core if there are at most two processes. If a
 * process has less than its share of its machine's cores, it takes all cores that the system allows it, or warns if it
 * cannot. Call it before drivers are loaded: they count the cores. (cores.c) */
void clq_widen_affinity(const clq_world *world);
/* Call it after the devices are set up. status: the result of this process's setup so far. Sets `peers`, and what
 * follows from the devices of all processes. Errors: that of the first rank that has one; MISMATCH (ranks have
 * different options); ARGUMENT (two ranks on one GPU). Returns `status` if this process is alone. */
clq_status clq_setup_gather_devices(clq_setup *setup, const clq_options *options, clq_status status);
/* Over all processes, once there is a trainer: how many replicas there are, and a replica's share of a full global
 * batch. */
unsigned clq_setup_replicas(const clq_setup *setup);
size_t clq_setup_share(const clq_setup *setup, unsigned replica);
/* The devices of all processes, once there is a trainer: a line each, and "devices" of the JSON output. */
void clq_introduce_peers(const clq_setup *setup, FILE *to);
json_t *clq_describe_peers(const clq_setup *setup);

/* ---- what several commands do (setup.c) ---- */

/* Also closes the trainer's devices. Drivers may then compile once more, for what is kept for later runs, and may hang:
 * call clq_end_if_stuck after this function. */
void clq_setup_close_trainer(clq_setup *setup);
void clq_setup_release(clq_setup *setup);
/* Sets up model, devices and trainer of a training step, for samples of this type. */
clq_status clq_setup_step(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype);
clq_status clq_setup_model(clq_setup *setup, const clq_options *options);
/* Refuses wrong settings, before any driver is loaded. Looks up what was chosen for the model, and which drivers that
 * needs. Call it after clq_setup_model, and before there are threads. (choice.c) */
clq_status clq_setup_recall(clq_setup *setup, const clq_options *options);
/* Sets how long measurements may be repeated. clq_setup_recall calls it. A command that measures, but recalls no
 * choice, calls it itself. (choice.c) */
void clq_setup_set_patience(clq_setup *setup, const clq_options *options);
/* If this run is to choose its devices: measures the alternatives, keeps the winner for later runs, and takes its
 * devices. Call it after clq_setup_devices. out: NULL, or gets what was compared (caller: clq_free), or NULL if nothing
 * was compared. (choice.c) */
clq_status clq_setup_choose(clq_setup *setup, const clq_options *options, clq_choice_made **out);
/* If the devices were named: keeps for later runs the strategy that is predicted to be the fastest on all of them.
 * (choice.c) */
void clq_setup_keep_strategy(clq_setup *setup, const clq_options *options, const clq_prediction *predictions,
                             size_t count);
/* Selects the devices that were chosen or that the options name. (choice.c) */
clq_status clq_setup_select(clq_setup *setup, const clq_options *options);
const char *clq_setup_strategy(const clq_setup *setup, const clq_options *options);
/* Call it after a training on the chosen devices. Keeps, for later trainings, the rate that it reached and which part
 * of the cores others used meanwhile. Does nothing if the choice was made for other settings than those of this
 * training. (choice.c) */
void clq_setup_note_training(const clq_setup *setup, double images_per_s, double others);
/* The choice in words that can be given as options: a line, printed if the devices were not named or a choice was kept.
 * clq_describe_choice makes "chosen" of the JSON output. (choice.c) */
void clq_tell_choice(const clq_setup *setup, const clq_options *options, FILE *to);
void clq_print_alternatives(const clq_choice_made *made, FILE *to);
json_t *clq_describe_alternatives(const clq_choice_made *made);
/* {"others", "spread", "images_per_s" (the lower and upper bound by the spread)}; null if the rate is not known.
 * (choice.c) */
json_t *clq_describe_doubt(const clq_doubt *doubt, double images_per_s);
/* Prints, below a table, a line that says what "?" means, if a row has one. worst: the worst doubt of the rows.
 * (choice.c) */
void clq_explain_doubt(const clq_doubt *worst, FILE *to);
json_t *clq_describe_choice(const clq_setup *setup, const clq_options *options, const char *strategy);
/* Opens setup->system with the memory limit and build deadline of the options. Opens only the driver that
 * clq_setup_recall recalled, or all drivers if it recalled none. (setup.c) */
clq_status clq_setup_system(clq_setup *setup, const clq_options *options);
/* Opens the system and selects the devices of --devices. Comes after clq_setup_recall, if that is called at all. */
clq_status clq_setup_devices(clq_setup *setup, const clq_options *options);
/* Opens one part of the data; fails if it is missing. */
clq_status clq_setup_data(const clq_setup *setup, const clq_options *options, const char *part, clq_dataset **out);
/* Puts the samples into the order that --shuffle and --seed ask for. */
clq_status clq_setup_shuffle(const clq_options *options, clq_dataset *data);
/* Makes a trainer's config from the options. The setup owns what *out points to. */
clq_status clq_setup_config(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype, bool inference_only,
                            clq_trainer_config *out);
clq_status clq_setup_trainer(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype, bool inference_only);
/* Loads the weights that the options name, or those of the model's file (weights.c). */
clq_status clq_setup_weights(clq_setup *setup, const clq_options *options);
bool clq_model_has_weights(const clq_options *options); /* --model names a file that has weights, too */
clq_status clq_check_init(const clq_options *options);  /* ARGUMENT: --init-map or --init-partial without --init */
/* What a partial --init loaded: one line, and all names in JSON. */
clq_status clq_tell_loaded(const clq_loaded *loaded, const char *path, FILE *talk);
json_t *clq_describe_loaded(const clq_loaded *loaded);

/* For a run that opened only one driver, which does not have the devices (any more). Restarts the command in this
 * process, with its original arguments and environment, so that it opens all drivers. Says why in a warning: the reason
 * is the thread's error. Returns only if the restart is not possible, with `status` and its error. (restart.c) */
clq_status clq_restart_with_all_drivers(clq_status status);
/* Call it at the end of a command or benchmark; system may be NULL. Closes the devices that were only tested. Returns
 * if no driver hangs in its compiler (clq_system_is_stuck). Otherwise restarts the command if it failed before its work
 * began and can do without the program that hangs. If not, ends the process here: calls of that driver need not return,
 * including those at the process's exit. (restart.c) */
void clq_end_if_stuck(clq_system *system, bool begun, clq_status status);
/* GPUs that no driver lists (clq_system_unlisted), looked for below CLIQUE_MACHINE_ROOT. Prints a line for each, or
 * logs a warning for each if `to` is NULL. The JSON is an array of objects. */
void clq_print_unlisted(FILE *to, const clq_system *system);
json_t *clq_describe_unlisted(const clq_system *system);
/* As clq_devices_select. "auto" takes GPUs if there are any. If it takes none, this function warns of the GPUs that no
 * driver lists, whether or not it takes another device. (unlisted.c) */
clq_status clq_select_devices(clq_system *system, const char *spec, clq_devices *out);
/* Warns of the GPUs that no driver lists, if none of the devices is a GPU. */
void clq_warn_unlisted(const clq_system *system, const clq_devices *devices);

/* What each level of recomputation would make of a plan: memory against time (levels.c). measure: also times the
 * steps. */
typedef struct clq_levels {
    size_t count;
    clq_recompute_level rows[CLQ_RECOMPUTE_LEVELS], taken;
    double seconds[CLQ_RECOMPUTE_LEVELS]; /* of forward and backward together; NaN: not measured */
} clq_levels;
clq_status clq_levels_find(const clq_plan *plan, bool measure, clq_levels *out);
void clq_print_levels(const clq_levels *levels);
json_t *clq_describe_levels(const clq_levels *levels);

/* The parts of a step, as columns and in JSON; advice, a line each and in JSON (parts.c). */
void clq_print_part_names(FILE *to);
void clq_print_parts(const clq_step_parts *parts, FILE *to);
json_t *clq_describe_parts(const clq_step_parts *parts);
void clq_print_advice(const clq_advice *all, size_t count, FILE *to);
json_t *clq_describe_advice(const clq_advice *all, size_t count);
/* clique why on several processes (machines.c). */
clq_status clq_why_of_world(clq_setup *setup, const clq_options *options);

/* plan --machines (scale.c): simulates the step on many machines. clq_scale_check refuses the options of the simulation
 * without --machines, and --gradient without --compute-ms. */
clq_status clq_scale_check(const clq_options *options);
clq_status clq_plan_machines(clq_setup *setup, const clq_options *options);

/* The stages of a pipeline. For another strategy: prints nothing, and returns NULL. (stages.c) */
void clq_print_stages(const clq_model *model, const clq_strategy *strategy);
json_t *clq_describe_stages(const clq_model *model, const clq_strategy *strategy);

/* Checkpoints of train (checkpoints.c). */
/* Prepares the log before its first line is written: drops the lines of steps after `step`. step 0: drops all lines. */
clq_status clq_cli_checkpoints_log(const char *path, uint64_t step, FILE *file);
/* Errors: WRITE (the last checkpoint was not written, so no file has the training's end; a warning has said so). */
clq_status clq_cli_checkpoints_check(clq_checkpoints *checkpoints, clq_trainer *trainer);
/* What became of the checkpoints: a line, and "checkpoints" of the JSON output, which is null without a folder. */
clq_status clq_cli_checkpoints_tell(clq_checkpoints *checkpoints, FILE *to);
json_t *clq_cli_checkpoints_describe(clq_checkpoints *checkpoints, uint64_t resumed);

/* What the parameter server did, if the trainer's strategy keeps variables in the host's memory. For other strategies
 * there is nothing to tell. (server.c) */
clq_status clq_describe_server(clq_trainer *trainer, FILE *talk);
clq_status clq_json_put_server(clq_trainer *trainer, json_t **document); /* the member "server" */
FILE *clq_talk(const clq_options *options); /* where people read: stdout, or stderr if stdout is for JSON */
/* (verdict.c) Writes one sentence: what limited a training, and which rate clique why had predicted for it, if it had.
 * begun, ended: what the replicas had paid when the training was under way, and at its end. text: CLQ_VERDICT_TEXT
 * bytes. Errors: MEMORY. */
enum { CLQ_VERDICT_TEXT = 512 };
clq_status clq_judge(const clq_setup *setup, const clq_options *options, const clq_toll *begun, const clq_toll *ended,
                     double images_per_s, char *text);

/* Writes "  PREFIXaccuracy 0.9000", … (measures.c). CLQ_METRICS_TEXT bytes hold all metrics. */
enum { CLQ_METRICS_TEXT = CLQ_METRIC_VALUES_MAX * 160 };
void clq_describe_metrics(const char *prefix, const clq_metric_values *metrics, char *text, size_t bytes);
/* Adds PREFIXloss and PREFIXaccuracy, … as members; they are null if `known` is false. Failures: as clq_json_put. */
json_t *clq_json_put_measures(json_t *object, const char *prefix, const clq_totals *totals, bool known);
/* (matrices.c) The same for PREFIXconfusion_matrix, …: each member is a list of rows. */
json_t *clq_json_put_matrices(json_t *object, const char *prefix, const clq_trainer *trainer, clq_matrix_source source,
                              bool known);
/* Prints each matrix as a table or, if it is too wide for a screen, a line that says so. Errors: MEMORY. */
clq_status clq_print_matrices(FILE *to, const char *prefix, const clq_trainer *trainer, clq_matrix_source source);

/* Prints a document on stdout and releases it. */
clq_status clq_print_json(json_t *document);
clq_status clq_print_json_line(json_t *document); /* on one line, and flushes stdout */

#endif
