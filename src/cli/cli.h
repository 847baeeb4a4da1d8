/* cli: the command `clique`. main.c finds the subcommand; each has a file of its own; options.c has the options that
 * they share. docs/command-line.md and docs/contract.md specify options, outputs and exit codes. */
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

/* All options that some command takes, by the table of settings, with their defaults unless they are given. */
typedef clq_settings clq_options;
/* What failed about a setting, in the words of the command line: its name gets its dashes. */
clq_status clq_options_name(clq_status status);

/* Refuses an output that is an input or another output. more (number): files of a model's further outputs, which follow
 * from --out once the model is known. (files.c) */
clq_status clq_options_check_files(const char *command, const clq_options *options, char *const *more, size_t number);

/* ---- callbacks of train (callbacks.c) ---- */

/* Early stopping: which epoch was the best, where it ended the training or its weights were put back. */
clq_status clq_train_callbacks_tell(const clq_fit_callbacks *callbacks, FILE *to);
json_t *clq_train_callbacks_describe(const clq_fit_callbacks *callbacks); /* early stopping, or null */

/* ---- commands ---- */

enum { CLQ_BATCH_DEFAULT = 64 };

/* What is chosen where --devices or --strategy is auto. (choice.c) */
typedef struct clq_choice_of_setup {
    bool measure;       /* what the command is for; else --tune tells */
    bool to_make;       /* this run measures what to choose */
    bool may_lack_data; /* then a rule chooses */
    bool may_renew;     /* a kept choice is made anew where it does not hold good */
    bool has_key, is_kept, is_new;
    clq_hash128 key, settings; /* settings: all that the speed depends on */
    clq_kept_choice kept;      /* if is_kept */
    clq_renewal renewal;       /* why it is made anew, */
    clq_kept_choice before;    /* and what it was */
    clq_patience patience;     /* of all that the run measures */
} clq_choice_of_setup;

/* A device of a run of several processes. */
typedef struct clq_peer {
    unsigned rank; /* whose it is */
    bool is_used;  /* false: an empty place of a gather */
    uint32_t index;
    clq_device_type type;
    char driver[16], pci[16], name[CLQ_NAME_MAX]; /* as of clq_device_info */
} clq_peer;

/* The training that eval --follow goes along with (eval.c). */
typedef struct clq_followed {
    bool (*has_ended)(void *context); /* NULL: it has when one that was seen to write checkpoints writes none */
    void *context;
} clq_followed;

/* Everything a run stands on, in the order of its making. */
typedef struct clq_setup {
    clq_world *world; /* NULL: this process is alone */
    bool is_silent;   /* a rank other than 0: no output, no files */
    clq_peer *peers;  /* (peer_count) the devices of all, by rank; NULL: alone */
    unsigned peer_count;
    clq_choice_of_setup choice;
    clq_system *recalled; /* until the system is open */
    bool recalled_one;    /* one driver alone was opened */
    bool begun;           /* steps were made: the command does not begin anew */
    clq_followed followed;
    clq_system *system;
    clq_devices devices;
    clq_model *model;
    clq_dataset *train, *test;
    clq_trainer *trainer;
    clq_trainer_config config; /* the trainer's */
    size_t global_batch;
    clq_made_config made;        /* what configs point to */
    clq_loaded *loaded;          /* of --init in part; NULL: nothing was asked for */
    char *data, *sample_weights; /* options with the rank in place of {rank}; NULL: without */
} clq_setup;

/* A command of clique. (commands.c) */
enum { CLQ_ARGUMENTS_MAX = 128 };
typedef struct clq_subcommand {
    const char *name, *help; /* what the list of commands says */
    const char *about;       /* what its own help begins with; NULL: it is another program's */
    const char *behind;      /* as of clq_arguments */
    /* With options of the table of settings: its bit, CLQ_COMMAND_…, and its work. */
    unsigned bit;
    clq_status (*body)(clq_setup *setup, const clq_options *options);
    /* With options of its own: these, and its work. */
    const clq_argument *options;
    clq_status (*run)(int argc, char **argv);
} clq_subcommand;
const clq_subcommand *clq_subcommand_at(size_t index);       /* NULL behind the last */
const clq_subcommand *clq_subcommand_find(const char *name); /* NULL: there is none */
unsigned clq_subcommand_bit(const char *name);               /* 0: it takes no settings */
/* What it takes; its rows lie in `rows` or are the command's. program: room for its name. */
clq_status clq_subcommand_arguments(const clq_subcommand *command, clq_argument rows[CLQ_ARGUMENTS_MAX],
                                    char program[64], clq_arguments *out);
/* Whether it takes --NAME, of `length` bytes. */
bool clq_subcommand_takes(const clq_subcommand *command, const char *name, size_t length);
/* clq_arguments_parse of a command with options of its own. */
clq_status clq_subcommand_parse(const char *name, int argc, char **argv, clq_option_handler handle, void *context);

/* The rows of the options that commands take (bits); each group's together.
 * (options.c) */
clq_argument clq_options_row(size_t setting); /* of the setting with this index */
clq_status clq_options_rows(unsigned commands, clq_argument rows[CLQ_ARGUMENTS_MAX]);

/* Parses the options that a command takes (argv[0] is its name), runs its body, and releases what that has set up. A
 * wrong option is an ARGUMENT failure that names it. --help prints and exits 0. (options.c) */
clq_status clq_command_run(const clq_subcommand *command, int argc, char **argv);
/* The options of the command line of a command that has some (argv[0]: its name), whose files this process does not
 * use: clique launch looks at them. *out: zero before; its texts are argv's. Errors and --help: as clq_command_run. A
 * command of another name has no options. (options.c) */
clq_status clq_command_options(int argc, char **argv, clq_options *out);
/* eval --follow for the training of so many processes that argv is the command line of (argv[0]: "train"). (options.c)
 */
clq_status clq_command_follow(int argc, char **argv, unsigned processes, const clq_followed *followed);
/* The work of each. */
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
/* Commands with options of their own, and these. */
extern const clq_argument clq_launch_options[], clq_compare_options[], clq_report_options[];
clq_status clq_command_launch(int argc, char **argv);
clq_status clq_command_bench(int argc, char **argv);
clq_status clq_command_compare(int argc, char **argv);
clq_status clq_command_report(int argc, char **argv);

/* ---- commands of several processes (world.c) ---- */

/* Instead of the training, on a rank that is set apart; and behind the training (status: how it ended) on all others,
 * whose store ranks end, too, unless it failed. */
clq_status clq_setup_serve(const clq_setup *setup);
clq_status clq_setup_end_stores(clq_setup *setup, clq_status status);
/* Whether a training is by strategy ps, over several processes with store ranks. Errors: ARGUMENT (no strategy). */
clq_status clq_options_train_by_ps(const clq_options *options, bool *is_ps);
/* clq_ranks_join; a training by strategy ps sets the store ranks apart. Ranks other than 0 also lose the options that
 * name output files. */
clq_status clq_setup_world(clq_setup *setup, clq_options *options, bool trains, clq_status status);
/* Options that name a process's own files get its rank in place of "{rank}", and the number of processes in place of
 * "{ranks}": 0 and 1 of one that is alone. They are no outputs either. Errors: ARGUMENT, MEMORY. */
clq_status clq_setup_name_files(clq_setup *setup, const char *command, clq_options *options);
/* Of who evaluates beside so many processes: has no rank, so that "{rank}" in paths of data is "evaluator". */
clq_status clq_setup_evaluator(clq_setup *setup, clq_options *options, unsigned processes);
/* Launchers bind a process to a part of its machine: Open MPI to one core if there are at most two processes. A process
 * with less than its share of its machine's cores takes all that the system allows it, or warns. Before there are
 * drivers, which count cores. (cores.c) */
void clq_widen_affinity(const clq_world *world);
/* Behind the devices; status: of all that was set up so far, on this process. Sets `peers`, and what follows from all
 * devices. Errors: that of the first rank that has one; ARGUMENT (two ranks on one GPU). Alone: status. */
clq_status clq_setup_gather_devices(clq_setup *setup, const clq_options *options, clq_status status);
/* Of all processes, behind the trainer: how many replicas there are, and a replica's share of a full global batch. */
unsigned clq_setup_replicas(const clq_setup *setup);
size_t clq_setup_share(const clq_setup *setup, unsigned replica);
/* The devices of all, behind the trainer: a line each; and "devices" of JSON. */
void clq_introduce_peers(const clq_setup *setup, FILE *to);
json_t *clq_describe_peers(const clq_setup *setup);

/* ---- what several commands do (setup.c) ---- */

/* Closes the trainer's devices, too. Drivers may compile then, once more, what is kept for later runs: clq_end_if_stuck
 * belongs behind this call. */
void clq_setup_close_trainer(clq_setup *setup);
void clq_setup_release(clq_setup *setup);
/* Model, devices and trainer of a training step, for samples of this type. */
clq_status clq_setup_step(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype);
clq_status clq_setup_model(clq_setup *setup, const clq_options *options);
/* Behind the model: what was chosen for it, and which drivers are needed for that. Before there are threads. (choice.c)
 */
clq_status clq_setup_recall(clq_setup *setup, const clq_options *options);
/* How long measurements may be repeated: also without what was chosen. (choice.c) */
void clq_setup_set_patience(clq_setup *setup, const clq_options *options);
/* Where this run is to choose its devices: measures, keeps what won, and takes these devices. out: NULL, or what was
 * compared, for clq_free; NULL where nothing was. Behind the devices. (choice.c) */
clq_status clq_setup_choose(clq_setup *setup, const clq_options *options, clq_choice_made **out);
/* Of devices that were named: keeps the strategy that is predicted to be the fastest on all of them. (choice.c) */
void clq_setup_keep_strategy(clq_setup *setup, const clq_options *options, const clq_prediction *predictions,
                             size_t count);
/* The devices of the system that were chosen or named. (choice.c) */
clq_status clq_setup_select(clq_setup *setup, const clq_options *options);
const char *clq_setup_strategy(const clq_setup *setup, const clq_options *options);
/* Behind a training by the choice, which reached this while others used so much of the cores: for later ones. Of one
 * with other settings than the choice was made for it says nothing.
 * (choice.c)
 */
void clq_setup_note_training(const clq_setup *setup, double images_per_s, double others);
/* The choice in words that can be given as options: a line, where devices were not named; and "chosen" of JSON.
 * (choice.c)
 */
void clq_tell_choice(const clq_setup *setup, const clq_options *options, FILE *to);
void clq_print_alternatives(const clq_choice_made *made, FILE *to);
json_t *clq_describe_alternatives(const clq_choice_made *made);
/* {"others", "spread", "images_per_s" (the bounds that the spread says)}; null where the rate is not known. (choice.c)
 */
json_t *clq_describe_doubt(const clq_doubt *doubt, double images_per_s);
/* Behind rows with a "?": a line that says what it means, where one has it. (choice.c) */
void clq_explain_doubt(const clq_doubt *worst, FILE *to);
json_t *clq_describe_choice(const clq_setup *setup, const clq_options *options, const char *strategy);
/* Opens setup->system with the memory limit and build deadline of the options: what clq_setup_recall recalled, or else
 * all drivers. (setup.c) */
clq_status clq_setup_system(clq_setup *setup, const clq_options *options);
/* The system, and of it the devices of --devices; behind clq_setup_recall. */
clq_status clq_setup_devices(clq_setup *setup, const clq_options *options);
/* One part of the data; fails where it is missing. */
clq_status clq_setup_data(const clq_setup *setup, const clq_options *options, const char *part, clq_dataset **out);
/* The order of the samples that --shuffle and --seed ask for. */
clq_status clq_setup_shuffle(const clq_options *options, clq_dataset *data);
/* What it points to lies in the setup. */
clq_status clq_setup_config(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype, bool inference_only,
                            clq_trainer_config *out);
clq_status clq_setup_trainer(clq_setup *setup, const clq_options *options, clq_dtype sample_dtype, bool inference_only);
/* Loads the weights that the options name, or those of the model's file (weights.c). */
clq_status clq_setup_weights(clq_setup *setup, const clq_options *options);
bool clq_model_has_weights(const clq_options *options); /* --model names a file that has them, too */
clq_status clq_check_init(const clq_options *options);  /* whether options of --init stand beside it */
/* What was loaded in part: one line, and all names. */
clq_status clq_tell_loaded(const clq_loaded *loaded, const char *path, FILE *talk);
json_t *clq_describe_loaded(const clq_loaded *loaded);

/* Begins the command anew, in this process, with the arguments and the environment that it was started with, where the
 * one driver that was opened does not have the devices (any more): says why, which is the thread's error, in a warning,
 * and opens all drivers then. Returns only where that is not possible, with `status` and its error. (restart.c) */
clq_status clq_restart_with_all_drivers(clq_status status);
/* Behind a command or benchmark; system may be NULL. Closes the devices that were only tested, and returns if no driver
 * hangs in its compiler (clq_system_is_stuck). Else the command begins anew, if it can do without the program and has
 * not begun its work; or the process ends here, since calls of that driver, those at the process's exit included, need
 * not return. (restart.c) */
void clq_end_if_stuck(clq_system *system, bool begun, clq_status status);
/* GPUs that no driver lists (clq_system_unlisted), below CLIQUE_MACHINE_ROOT: a line each, where `to` is NULL a warning
 * each, or an array of objects. */
void clq_print_unlisted(FILE *to, const clq_system *system);
json_t *clq_describe_unlisted(const clq_system *system);
/* As clq_devices_select. "auto" means a GPU where there is one: where it takes none, the user is warned of those that
 * no driver lists, whether or not there is another device. (unlisted.c) */
clq_status clq_select_devices(clq_system *system, const char *spec, clq_devices *out);
/* That warning, where none of the devices is a GPU. */
void clq_warn_unlisted(const clq_system *system, const clq_devices *devices);

/* What recomputation would make of a plan: bytes against time (levels.c). measure: also how long steps take. */
typedef struct clq_levels {
    size_t count;
    clq_recompute_level rows[CLQ_RECOMPUTE_LEVELS], taken;
    double seconds[CLQ_RECOMPUTE_LEVELS]; /* of forward and backward; NaN: not measured */
} clq_levels;
clq_status clq_levels_find(const clq_plan *plan, bool measure, clq_levels *out);
void clq_print_levels(const clq_levels *levels);
json_t *clq_describe_levels(const clq_levels *levels);

/* Parts of a step as columns, and in JSON; advice, a line each (parts.c). */
void clq_print_part_names(FILE *to);
void clq_print_parts(const clq_step_parts *parts, FILE *to);
json_t *clq_describe_parts(const clq_step_parts *parts);
void clq_print_advice(const clq_advice *all, size_t count, FILE *to);
json_t *clq_describe_advice(const clq_advice *all, size_t count);
/* why, of several processes (machines.c). */
clq_status clq_why_of_world(clq_setup *setup, const clq_options *options);

/* plan --machines (scale.c): the step on many machines, simulated. check: refuses what is about it where it is not
 * asked for, and numbers that are none. */
clq_status clq_scale_check(const clq_options *options);
clq_status clq_plan_machines(clq_setup *setup, const clq_options *options);

/* What a pipeline is made of; nothing, and NULL, of another strategy. (stages.c) */
void clq_print_stages(const clq_model *model, const clq_strategy *strategy);
json_t *clq_describe_stages(const clq_model *model, const clq_strategy *strategy);

/* Checkpoints of train (checkpoints.c). */
/* The log, before its first line is written: lines of steps after `step` are dropped; 0: all. */
clq_status clq_cli_checkpoints_log(const char *path, uint64_t step, FILE *file);
/* WRITE where the last one failed, which a warning has said: the training's end is in no file. */
clq_status clq_cli_checkpoints_check(clq_checkpoints *checkpoints, clq_trainer *trainer);
/* What became of them: a line; and "checkpoints" of JSON, null without a folder. */
clq_status clq_cli_checkpoints_tell(clq_checkpoints *checkpoints, FILE *to);
json_t *clq_cli_checkpoints_describe(clq_checkpoints *checkpoints, uint64_t resumed);

/* Where people read: stdout, or stderr when stdout is for JSON. */
/* Of a trainer whose strategy keeps variables in the host's memory (server.c); the others' have nothing to tell. */
clq_status clq_describe_server(clq_trainer *trainer, FILE *talk);
clq_status clq_json_put_server(clq_trainer *trainer, json_t **document); /* the member "server" */
FILE *clq_talk(const clq_options *options);
/* (verdict.c) One sentence: what limited a training whose replicas had paid `begun` when it was under way and `ended`
 * at its end, and which rate clique why had predicted for it, where it had. Text: CLQ_VERDICT_TEXT. Errors: MEMORY. */
enum { CLQ_VERDICT_TEXT = 512 };
clq_status clq_judge(const clq_setup *setup, const clq_options *options, const clq_toll *begun, const clq_toll *ended,
                     double images_per_s, char *text);

/* "  PREFIXaccuracy 0.9000", … (measures.c). CLQ_METRICS_TEXT has room for all. */
enum { CLQ_METRICS_TEXT = CLQ_METRIC_VALUES_MAX * 160 };
void clq_describe_metrics(const char *prefix, const clq_metric_values *metrics, char *text, size_t bytes);
/* PREFIXloss and PREFIXaccuracy, … as members; null where `known` is false. The same of failures. */
json_t *clq_json_put_measures(json_t *object, const char *prefix, const clq_totals *totals, bool known);
/* (matrices.c) PREFIXconfusion_matrix, … as members, lists of rows; likewise. */
json_t *clq_json_put_matrices(json_t *object, const char *prefix, const clq_trainer *trainer, clq_matrix_source source,
                              bool known);
/* As tables, where they fit a screen. Errors: MEMORY. */
clq_status clq_print_matrices(FILE *to, const char *prefix, const clq_trainer *trainer, clq_matrix_source source);

/* Prints a document on stdout and releases it. */
clq_status clq_print_json(json_t *document);
clq_status clq_print_json_line(json_t *document); /* in one line, and at once */

#endif
