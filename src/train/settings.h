/* The settings of a training, each a row of one table (settings.c): what users set it by, what it is in a trainer's
 * config, and what depends on it. The command line makes its options of the rows, and <clique/settings.h> the keys of
 * programs; checkpoints record and compare what changes results; keys of what is kept between runs have what the rows
 * name for them (setting_values.c). A setting is added as a row, a member of clq_settings and, where trainers have it,
 * a member of clq_trainer_config. */
#ifndef CLQ_TRAIN_SETTINGS_H
#define CLQ_TRAIN_SETTINGS_H

#include "formats/formats.h"
#include "strategy/strategy.h"
#include <clique/settings.h>

/* ---- what is given ---- */

/* A setting that may be given several times, with a name in front or without: of outputs OUTPUT=VALUE, of optimizers
 * PATTERN=VALUE. */
typedef struct clq_named_texts {
    const char *texts[2 * CLQ_MODEL_OUTPUTS_MAX]; /* as they were given */
    size_t count;
} clq_named_texts;

/* A trainer's config by settings, with what it points to: {0} at first. */
typedef struct clq_made_config {
    clq_trainer_config config;
    clq_output_config outputs[CLQ_MODEL_OUTPUTS_MAX];
    double shares[CLQ_REPLICAS_MAX];
    double *class_weights;
    clq_optimizer_config optimizers[CLQ_OPTIMIZERS_MAX - 1];
    char optimizer_names[CLQ_OPTIMIZERS_MAX - 1][512];
} clq_made_config;

/* The value of each setting, or its default: of all commands, a training's first. Texts are borrowed, but in settings
 * of clq_settings_create. */
struct clq_settings {
    const char *model, *input_shape, *data, *devices, *optimizer, *strategy, *cross_device_ops, *compress;
    clq_named_texts losses, loss_weights, metrics, optimizers; /* of these each has names in front */
    const char *schedule, *shares, *staleness, *clip, *no_decay, *ema, *class_weights, *labels;
    const char *sample_weights; /* of the command: the file */
    const char *checkpoint, *early_stopping, *reduce_lr, *save_best, *monitor, *csv;
    uint64_t checkpoint_every, keep;
    bool resume;
    uint64_t check_replicas;
    bool check_numerics;
    const char *init, *init_map, *freeze, *weights, *save, *log, *trace, *out, *write_model, *progress, *shuffle;
    const char *tune, *matmul_precision;
    const char *precision, *loss_scale, *recompute, *disable_paths, *shard;
    uint64_t batch, batch_per_replica, accumulate, epochs, steps, validation_freq, seed, take, bucket_bytes, backup;
    uint64_t local_steps;
    uint64_t ps_ranks, memory_limit, micro_batches, machines, devices_per_machine;
    const char *prompt, *prompt_file, *temperature, *top_p;
    uint64_t tokens, top_k;
    bool whole_window;
    const char *link, *latency, *device_link, *device_latency, *compute_ms, *gradient, *spread;
    double budget, deadline, build_deadline; /* seconds; 0: not given */
    bool drop_remainder, no_test, json, graph, measure, shard_optimizer, share_devices, follow, init_partial;
    /* Of programs alone. */
    const char *learning_rate, *sample_dtype, *transport;
    uint64_t parts, part, trace_steps, loss_scale_interval;
    bool measure_gradient, inference_only, weighted;
    clq_world *world;
    struct clq_settings_own *own; /* of clq_settings_create; else NULL (setting_keys.c) */
};

/* ---- the table ---- */

/* Commands that take a setting. */
enum {
    CLQ_COMMAND_DEVICES = 1 << 0,
    CLQ_COMMAND_DOCTOR = 1 << 1,
    CLQ_COMMAND_TRAIN = 1 << 2,
    CLQ_COMMAND_WHY = 1 << 3,
    CLQ_COMMAND_EVAL = 1 << 4,
    CLQ_COMMAND_PREDICT = 1 << 5,
    CLQ_COMMAND_PLAN = 1 << 6,
    CLQ_COMMAND_TUNE = 1 << 7,
    CLQ_COMMAND_GENERATE = 1 << 8,
    CLQ_COMMANDS_ALL = (1 << 9) - 1
};

/* What help tells settings by: titles and key words are in settings.c. NONE: of no option. */
typedef enum clq_help_group {
    CLQ_HELP_NONE,
    CLQ_HELP_MODEL,
    CLQ_HELP_TRAINING,
    CLQ_HELP_OPTIMIZER,
    CLQ_HELP_DEVICES,
    CLQ_HELP_MEMORY,
    CLQ_HELP_OUTPUT,
    CLQ_HELP_PROCESSES,
    CLQ_HELP_FAULTS,
    CLQ_HELP_MACHINES,
    CLQ_HELP_TEXT,
    CLQ_HELP_COUNT
} clq_help_group;

/* Keys of what is kept between runs that a setting is part of: predictions of `clique why`, measured times of a
 * pipeline's stages, choices of devices and strategy. */
enum { CLQ_KEY_PREDICTION = 1 << 0, CLQ_KEY_STAGES = 1 << 1, CLQ_KEY_CHOICE = 1 << 2 };

/* What becomes of a setting that differs when a training goes on from a checkpoint. */
typedef enum clq_resumption {
    CLQ_RESUMED_TAKEN,  /* it holds from there on */
    CLQ_RESUMED_WARNED, /* the same, and a warning names both values */
    CLQ_RESUMED_ANEW,   /* the same, and what was counted or compared by the former value begins anew, with a warning */
    CLQ_RESUMED_PLACED, /* the same; an epoch may then have other batches: the training goes on at the same part of the
                           epoch, with a warning */
    CLQ_RESUMED_KEPT,   /* that of the checkpoint stays */
    CLQ_RESUMED_REFUSED /* the checkpoint is left out: it has no state for this */
} clq_resumption;

/* Types of members of clq_trainer_config. NONE: the setting is none. OWN: by functions of the row's. */
typedef enum clq_member_type {
    CLQ_MEMBER_NONE,
    CLQ_MEMBER_OWN,
    CLQ_MEMBER_KIND, /* an enumeration */
    CLQ_MEMBER_BOOL,
    CLQ_MEMBER_FLAG, /* a uint32_t, 0 or 1 */
    CLQ_MEMBER_U32,
    CLQ_MEMBER_U64,
    CLQ_MEMBER_SIZE,
    CLQ_MEMBER_REAL
} clq_member_type;

/* What is done with the file that a TEXT is the path of. */
typedef enum clq_file_use { CLQ_FILE_NONE, CLQ_FILE_READ, CLQ_FILE_WRITTEN } clq_file_use;

/* By its type, what is written to the member of clq_settings: TEXT a const char *, FLAG a bool, COUNT a uint64_t,
 * SECONDS a double, NAMED is added to a clq_named_texts. Programs see a TEXT whose member is a KIND as CHOICE, which no
 * row has. */
struct clq_setting {
    const char *name;          /* of the option, without its dashes */
    const char *value, *help;  /* what help calls the value: NULL without one; what it says */
    const char *programs_help; /* where `help` speaks of the command; NULL: it does not */
    clq_setting_type type;
    uint64_t min, max;   /* of COUNT. Of NAMED, max: how many there may be; 0: as many as there is room for */
    const char *initial; /* the default, as it may be given; NULL: none, or 0 */
    const char *implied; /* without it: what holds if none is given, in the same form; NULL: only help can say */
    size_t field;        /* of clq_settings */
    unsigned commands;
    unsigned strategies; /* bits 1 << clq_strategy_kind: of these alone; 0: of all */
    bool results;        /* other values train other weights */
    unsigned keys;
    clq_resumption resumed;
    clq_help_group group;
    bool usual;                            /* among the few options that the help of a command with many begins with */
    unsigned uses;                         /* beside what the member says: CLQ_SETTING_OF_… */
    clq_status (*check)(const char *text); /* of what nothing else checks when it is given; NULL: nothing */
    clq_status (*change)(clq_trainer *trainer, const char *text); /* NULL: it stays what the trainer was made with */
    struct {
        clq_file_use use;
        const char *(*path)(const char *value); /* in a value; NULL: in none. Without it each value is one */
        bool (*holds)(const char *name);        /* of a folder: its files; NULL: it is a file */
    } file;
    struct {
        clq_member_type type;
        size_t at;                      /* of clq_trainer_config */
        const char *c_name;             /* KIND, and OWN if the member is one: the enumeration, */
        const char *words;              /* what messages call it; NULL: by the name */
        unsigned count;                 /* its values, */
        const char *(*name_of)(size_t); /* and their names */
        clq_status (*parse)(const char *text, clq_made_config *to); /* OWN; NULL: clq_settings_make knows more */
        void (*write)(const clq_trainer_config *config,
                      clq_text *to); /* OWN, or of another form than the number: nothing where it is not set */
    } member;
};

/* The rows; NULL behind the last. Two rows may have one name, for different commands. */
const clq_setting *clq_setting_row(size_t index);
/* Of a group: the key word that asks for it, and its title. */
const char *clq_setting_group_key(clq_help_group group);
const char *clq_setting_group_title(clq_help_group group);

/* ---- settings are given (setting_keys.c) ---- */

/* Settings that are {0} get their defaults. */
void clq_settings_init(clq_settings *settings);
/* Takes a value that a row's setting may have; text is borrowed. Errors: ARGUMENT says what was expected. */
clq_status clq_settings_take(clq_settings *settings, const clq_setting *row, const char *text);

/* ---- what is made of them (setting_values.c) ---- */

/* The config for a model and so many devices; what is in *out is released first. Texts are the settings'. Errors:
 * ARGUMENT (names the setting), MEMORY. */
clq_status clq_settings_make(const clq_settings *settings, const clq_model *model, size_t devices,
                             clq_made_config *out);
void clq_made_config_release(clq_made_config *made); /* takes {0} */
/* A scratch for one value: fails as clq_settings_make would. */
clq_status clq_settings_check_value(const clq_setting *row, const char *text);
/* The config's loss, weight and metrics of each output. (setting_outputs.c) */
clq_status clq_settings_make_outputs(const clq_settings *settings, const clq_model *model, clq_made_config *to);

/* ---- what a fit takes along (setting_fit.c) ---- */

/* Start with {0}, close in any case. */
typedef struct clq_fit_callbacks {
    clq_callback list[4];
    size_t count;
    const clq_callback *early_stopping; /* of the list; NULL: there is none */
} clq_fit_callbacks;
clq_status clq_fit_callbacks_open(const clq_settings *settings, const clq_trainer *trainer, clq_fit_callbacks *out);
void clq_fit_callbacks_close(clq_fit_callbacks *callbacks);
/* Opens the folder of checkpoints, and goes on from it if the settings say so. *out: NULL if they name none; *step: the
 * update that the training goes on from, or 0. */
clq_status clq_fit_checkpoints_open(const clq_settings *settings, clq_world *world, clq_trainer *trainer,
                                    clq_dataset *train, clq_checkpoints **out, uint64_t *step);
/* How long, and how often the validation: the members epochs, steps and validation_freq. */
void clq_fit_set_length(const clq_settings *settings, clq_fit_config *fit);

/* ---- what is made of a config (setting_values.c) ---- */

/* Whether enumerations and flags have values that there are. Errors: ARGUMENT. */
clq_status clq_settings_check_config(const clq_trainer_config *config);
/* Whether no setting that is one of some strategies alone differs from its default. */
bool clq_settings_are_plain(const clq_settings *settings);
/* Adds what the settings of this key say, for a training by `strategy`: "precision mixed\n". */
void clq_settings_add_key(const clq_trainer_config *config, unsigned key, clq_strategy_kind strategy, clq_text *to);
/* What changes results: texts by names as "settings/seed", for checkpoints. Caller: json_decref. Errors: MEMORY. */
clq_status clq_settings_record(const clq_trainer_config *config, json_t **out);
/* Logs, of a training that goes on, what differs: a warning or, of what is taken, a line of information. before: as
 * recorded; what it lacks is not compared. */
void clq_settings_compare(const json_t *before, const json_t *now, const char *folder);

#endif
