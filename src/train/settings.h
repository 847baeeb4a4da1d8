/* The settings of a training. Each is a row of one table (settings.c), which says how users set it, which member of a
 * trainer's config it is, and what depends on it. The rows become the command line's options, and the keys of
 * <clique/settings.h> for programs. Checkpoints record and compare the settings that change results. Keys of what is
 * kept between runs contain the settings whose rows say so (setting_values.c). A new setting needs a row, a member of
 * clq_settings and, if trainers have it, a member of clq_trainer_config. */
#ifndef CLQ_TRAIN_SETTINGS_H
#define CLQ_TRAIN_SETTINGS_H

#include "formats/formats.h"
#include "strategy/strategy.h"
#include <clique/settings.h>

/* ---- what is given ---- */

/* A setting that may be given several times, with a name in front or without: OUTPUT=VALUE for outputs, PATTERN=VALUE
 * for optimizers. */
typedef struct clq_named_texts {
    const char *texts[2 * CLQ_MODEL_OUTPUTS_MAX]; /* as they were given */
    size_t count;
} clq_named_texts;

/* A trainer's config that was made from settings, with all that it points to. Start with {0}. */
typedef struct clq_made_config {
    clq_trainer_config config;
    clq_output_config outputs[CLQ_MODEL_OUTPUTS_MAX];
    double shares[CLQ_REPLICAS_MAX];
    double *class_weights;
    clq_optimizer_config optimizers[CLQ_OPTIMIZERS_MAX - 1];
    char optimizer_names[CLQ_OPTIMIZERS_MAX - 1][512];
} clq_made_config;

/* The value of each setting, or its default, for all commands; a training's come first. Texts are borrowed, but
 * settings of clq_settings_create own their texts. */
struct clq_settings {
    const char *model, *input_shape, *data, *devices, *optimizer, *strategy, *cross_device_ops, *compress;
    clq_named_texts losses, loss_weights, metrics, optimizers; /* each of the optimizers has names in front */
    const char *schedule, *shares, *staleness, *clip, *no_decay, *ema, *class_weights, *labels;
    const char *sample_weights; /* the command's: the file of weights */
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
    /* For programs only. */
    const char *learning_rate, *sample_dtype, *transport;
    uint64_t parts, part, trace_steps, loss_scale_interval;
    bool measure_gradient, inference_only, weighted;
    clq_world *world;
    struct clq_settings_own *own; /* what settings of clq_settings_create own; NULL: other settings (setting_keys.c) */
};

/* ---- the table ---- */

/* The commands that take a setting. */
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

/* The groups in which help lists options; settings.c has their titles and key words. NONE: the setting is no option. */
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

/* The keys that a setting is part of. Under these keys, results are kept between runs: predictions of `clique why`,
 * measured times of a pipeline's stages, choices of devices and strategy. */
enum { CLQ_KEY_PREDICTION = 1 << 0, CLQ_KEY_STAGES = 1 << 1, CLQ_KEY_CHOICE = 1 << 2 };

/* What happens if a training that resumes from a checkpoint has another value of a setting. */
typedef enum clq_resumption {
    CLQ_RESUMED_TAKEN,  /* the new value holds from there on */
    CLQ_RESUMED_WARNED, /* the same, and a warning names both values */
    CLQ_RESUMED_ANEW,   /* the same, and what was counted or compared under the old value begins anew, with a warning */
    /* The new value holds. If epochs then have other batches, the training goes on at the same part of the epoch, with
     * a warning. */
    CLQ_RESUMED_PLACED,
    CLQ_RESUMED_KEPT,   /* the checkpoint's value stays */
    CLQ_RESUMED_REFUSED /* the checkpoint is skipped: it has no state for this value */
} clq_resumption;

/* Types of members of clq_trainer_config. NONE: the setting has no member. OWN: the row's functions read and write
 * it. */
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

/* What is done with the file whose path a TEXT is. */
typedef enum clq_file_use { CLQ_FILE_NONE, CLQ_FILE_READ, CLQ_FILE_WRITTEN } clq_file_use;

/* A row of the table. The row's type says what its member of clq_settings is: TEXT a const char *, FLAG a bool, COUNT a
 * uint64_t, SECONDS a double, NAMED a clq_named_texts, to which each value is added. No row has the type CHOICE:
 * programs see it if the type is TEXT and the member of the config is a KIND. */
struct clq_setting {
    const char *name;          /* the option's, without the dashes */
    const char *value, *help;  /* what help calls the value (NULL: it takes none), and what help says */
    const char *programs_help; /* for programs, if `help` speaks of the command; NULL: `help` */
    clq_setting_type type;
    uint64_t min, max;   /* COUNT: the range. NAMED, max: how often it may be given; 0: as often as there is room */
    const char *initial; /* the default, as a user would give it; NULL: none, or 0 */
    const char *implied; /* without `initial`: what holds if no value is given; NULL: only help can say */
    size_t field;        /* offset of its member in clq_settings */
    unsigned commands;
    unsigned strategies; /* bits 1 << clq_strategy_kind: those that it is for; 0: all */
    bool results;        /* another value trains other weights */
    unsigned keys;
    clq_resumption resumed;
    clq_help_group group;
    bool usual;                            /* among the few options that help lists first if a command has many */
    unsigned uses;                         /* CLQ_SETTING_OF_…, besides those that follow from `member` */
    clq_status (*check)(const char *text); /* checks a value that is given; NULL: other checks suffice */
    clq_status (*change)(clq_trainer *trainer, const char *text); /* NULL: a trainer keeps its value */
    struct {
        clq_file_use use;
        const char *(*path)(const char *value); /* the path in a value, or NULL. Not set: a value is a path */
        bool (*holds)(const char *name); /* the path is a folder: whether a file there counts; NULL: it is a file */
    } file;
    struct {
        clq_member_type type;
        size_t at;                                                  /* offset in clq_trainer_config */
        const char *c_name;                                         /* KIND, and OWN of an enumeration: its name in C */
        const char *words;                                          /* KIND: what messages call it; NULL: `name` */
        unsigned count;                                             /* of the enumeration: how many values it has */
        const char *(*name_of)(size_t);                             /* KIND: the values' names */
        clq_status (*parse)(const char *text, clq_made_config *to); /* OWN; NULL: clq_settings_make reads the value */
        /* OWN, or if the text is not just the number: writes the value as text, or nothing if it is not set. */
        void (*write)(const clq_trainer_config *config, clq_text *to);
    } member;
};

/* The rows by index; NULL after the last. Two rows may have the same name, for different commands. */
const clq_setting *clq_setting_row(size_t index);
/* A group's key word, by which users ask for its help, and its title. */
const char *clq_setting_group_key(clq_help_group group);
const char *clq_setting_group_title(clq_help_group group);

/* ---- settings are given (setting_keys.c) ---- */

/* Gives settings that are {0} their defaults. */
void clq_settings_init(clq_settings *settings);
/* Checks and takes a value of the row's setting; text is borrowed. Errors: ARGUMENT (says what was expected),
 * MEMORY. */
clq_status clq_settings_take(clq_settings *settings, const clq_setting *row, const char *text);

/* ---- what is made of them (setting_values.c) ---- */

/* Makes the config for a model and this many devices. Releases what *out had before. The config borrows the settings'
 * texts. Errors: ARGUMENT (names the setting), MEMORY. */
clq_status clq_settings_make(const clq_settings *settings, const clq_model *model, size_t devices,
                             clq_made_config *out);
void clq_made_config_release(clq_made_config *made); /* takes {0} */
/* Checks a value by reading it into a scratch config: fails as clq_settings_make would. */
clq_status clq_settings_check_value(const clq_setting *row, const char *text);
/* Sets the loss, its weight and the metrics for each output. (setting_outputs.c) */
clq_status clq_settings_make_outputs(const clq_settings *settings, const clq_model *model, clq_made_config *to);

/* ---- what a fit needs besides (setting_fit.c) ---- */

/* Start with {0}, close in any case. */
typedef struct clq_fit_callbacks {
    clq_callback list[4];
    size_t count;
    const clq_callback *early_stopping; /* in `list`; NULL: there is none */
} clq_fit_callbacks;
clq_status clq_fit_callbacks_open(const clq_settings *settings, const clq_trainer *trainer, clq_fit_callbacks *out);
void clq_fit_callbacks_close(clq_fit_callbacks *callbacks);
/* Opens the folder of checkpoints, and resumes from its newest if the settings say so. *out: NULL if they name no
 * folder. *step: the update that the training resumes from, or 0. */
clq_status clq_fit_checkpoints_open(const clq_settings *settings, clq_world *world, clq_trainer *trainer,
                                    clq_dataset *train, clq_checkpoints **out, uint64_t *step);
/* Sets how long to train and how often to validate: the members epochs, steps and validation_freq. */
void clq_fit_set_length(const clq_settings *settings, clq_fit_config *fit);

/* ---- what is made of a config (setting_values.c) ---- */

/* Checks that enumerations and flags have values that exist, and that seconds are not negative. Errors: ARGUMENT. */
clq_status clq_settings_check_config(const clq_trainer_config *config);
/* Whether every setting that only some strategies take has its default value. */
bool clq_settings_are_plain(const clq_settings *settings);
/* Adds the settings that are part of this key, for a training with `strategy`: "precision mixed\n". */
void clq_settings_add_key(const clq_trainer_config *config, unsigned key, clq_strategy_kind strategy, clq_text *to);
/* The settings that change results, for checkpoints: texts by names such as "settings/seed". The caller calls
 * json_decref. Errors: MEMORY. */
clq_status clq_settings_record(const clq_trainer_config *config, json_t **out);
/* Logs which settings differ when a training resumes: WARNED as a warning, TAKEN as information. before: recorded by
 * the checkpoint; a setting that it lacks is not compared. */
void clq_settings_compare(const json_t *before, const json_t *now, const char *folder);

#endif
