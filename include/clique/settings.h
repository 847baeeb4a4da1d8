/* clique/settings.h: a training's settings by name, each as a text.
 *
 * A key is the name that an option has in `clique train`, without its dashes; a value is what the option takes: "batch"
 * and "128", "optimizer" and "sgd:lr=0.1,momentum=0.9", "shard-optimizer" and "1". Keys have the options'
 * defaults. Some keys are for programs alone. Programs and bindings that know no struct's layout make a trainer this
 * way:
 *
 *     clq_settings *settings;
 *     clq_settings_create(&settings);
 *     clq_settings_set(settings, "batch", "128");
 *     clq_settings_open_system(settings, &system);
 *     clq_settings_create_trainer(settings, system, model, &trainer);
 *     clq_settings_fit(settings, trainer, train, validation, NULL, 0);
 *     clq_settings_destroy(settings);
 *
 * A program that also sets what has no text (functions, a struct's other members) gets a clq_trainer_config from
 * the settings (clq_settings_trainer_config) and makes its trainer from that.
 *
 * Thread rules: settings are used by one thread at a time; different ones by different threads. What describes a
 * setting is constant, and may be called by any thread. */
#ifndef CLIQUE_SETTINGS_H
#define CLIQUE_SETTINGS_H

#include <clique/callbacks.h>
#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- which settings there are ---- */

/* A row in the library's table. */
typedef struct clq_setting clq_setting;

/* What a value is. The order is part of the binary interface: add at the end. */
typedef enum clq_setting_type {
    CLQ_SETTING_TEXT,    /* as the help says */
    CLQ_SETTING_FLAG,    /* "0" or "1" */
    CLQ_SETTING_COUNT,   /* a whole number in the setting's range */
    CLQ_SETTING_SECONDS, /* a number in the setting's range */
    CLQ_SETTING_NAMED, /* a text that may be set several times: for outputs "OUTPUT=VALUE", for variables "NAMES=VALUE";
                            without a name in front the last one holds */
    CLQ_SETTING_CHOICE /* one word from clq_setting_choice */
} clq_setting_type;

/* What looks at a setting: bits. */
enum {
    CLQ_SETTING_OF_SYSTEM = 1 << 0,  /* clq_settings_open_system */
    CLQ_SETTING_OF_TRAINER = 1 << 1, /* clq_settings_create_trainer, clq_settings_trainer_config */
    CLQ_SETTING_OF_FIT = 1 << 2,     /* clq_settings_fit */
    CLQ_SETTING_CHANGES = 1 << 3     /* clq_trainer_set, too */
};

/* How many settings there are. */
CLQ_API size_t clq_setting_count(void);
/* NULL: index is not below the count. A program that was compiled before may find more of them, in another order. */
CLQ_API const clq_setting *clq_setting_at(size_t index);
/* By its key. Errors: ARGUMENT, which names the nearest key; NULL is none. */
CLQ_API clq_status clq_setting_find(const char *key, const clq_setting **out);

/* Texts are constant. setting: not NULL. */
CLQ_API const char *clq_setting_key(const clq_setting *setting); /* "batch" */
CLQ_API const char *
clq_setting_placeholder(const clq_setting *setting);               /* "N": what help calls the value; "" for a flag */
CLQ_API const char *clq_setting_help(const clq_setting *setting);  /* a phrase in one line */
CLQ_API const char *clq_setting_group(const clq_setting *setting); /* "Optimizer and loss" */
/* What the setting's values are. */
CLQ_API clq_setting_type clq_setting_kind(const clq_setting *setting);
CLQ_API unsigned clq_setting_uses(const clq_setting *setting); /* CLQ_SETTING_OF_… and CLQ_SETTING_CHANGES */
/* The value that holds unless another is set; NULL: none is set, and help says what that means. To set it is not the
 * same as to leave it: "batch" and "batch-per-replica" exclude each other whatever the values are, "keep" needs
 * "checkpoint", "monitor" needs "save-best", "staleness" and "backup" strategy ps, "loss-scale" and
 * "loss-scale-interval" precision mixed, and "steps" alone has no limit on epochs. So a program sets what its user
 * gave, and leaves all others. */
CLQ_API const char *clq_setting_default(const clq_setting *setting);
/* Of CHOICE: word `index`, from 0; NULL: there are no more, or the setting has another type. */
CLQ_API const char *clq_setting_choice(const clq_setting *setting, size_t index);
/* Of COUNT and SECONDS: the least value and the greatest; false: the setting has no such range. A range that ends with
 * the largest uint64_t has 2^64 as its greatest. NULL: not wanted. */
CLQ_API bool clq_setting_range(const clq_setting *setting, double *least, double *most);

/* ---- settings ---- */

/* A value for each setting. From clq_settings_create to clq_settings_destroy. */
typedef struct clq_settings clq_settings;
/* All have their defaults. Errors: MEMORY. */
CLQ_API clq_status clq_settings_create(clq_settings **out);
/* Takes NULL. Trainers and fits that were made by the settings do not need them any more. */
CLQ_API void clq_settings_destroy(clq_settings *settings);
/* value: copied; NULL: the default again. A setting that may be set several times (NAMED) gets one value more; NULL
 * takes all away. Errors leave the settings as they were: ARGUMENT (no such key, and the message names the nearest; or
 * another value than the message says is expected), MEMORY. What a value names is looked up where it is used: devices,
 * outputs, variables, layers, files and fast paths; and so is what settings say together. */
CLQ_API clq_status clq_settings_set(clq_settings *settings, const char *key, const char *value);
/* The value that a setting has: what was set last, or its default. Of NAMED what was set `index` times before, from 0;
 * for others index is 0. *out: NULL: there is none. It is the settings', until the key is set again or this function is
 * called again. Errors: ARGUMENT (no such key). */
CLQ_API clq_status clq_settings_get(clq_settings *settings, const char *key, size_t index, const char **out);
/* The processes that train together (clq_trainer_config.world). Borrowed; NULL: this process alone. */
CLQ_API void clq_settings_set_world(clq_settings *settings, clq_world *world);

/* clq_system_open with "memory-limit" and "build-deadline". Errors: as clq_system_open. */
CLQ_API clq_status clq_settings_open_system(const clq_settings *settings, clq_system **out);
/* clq_trainer_create for the devices that "devices" selects (clq_devices_select) and a trainer's settings.
 * "devices" auto: GPUs, or the fastest CPU device; what the command has chosen and kept is not looked at. Errors: as of
 * these functions; ARGUMENT (a setting for an output that the model does not have; settings that exclude each other).
 */
CLQ_API clq_status clq_settings_create_trainer(const clq_settings *settings, clq_system *system, const clq_model *model,
                                               clq_trainer **out);
/* The config that clq_settings_create_trainer makes, for so many devices. What it points to is the settings', until
 * they are destroyed or this function is called again. Errors: ARGUMENT, MEMORY. */
CLQ_API clq_status clq_settings_trainer_config_sized(clq_settings *settings, const clq_model *model, unsigned devices,
                                                     clq_trainer_config *out, size_t out_bytes);
/* clq_settings_trainer_config_sized with the size that the caller's config has. */
static inline clq_status clq_settings_trainer_config(clq_settings *settings, const clq_model *model, unsigned devices,
                                                     clq_trainer_config *out) {
    return clq_settings_trainer_config_sized(settings, model, devices, out, sizeof *out);
}

/* clq_fit with a fit's settings: how long ("epochs", "steps"), checkpoints ("checkpoint", "checkpoint-every",
 * "keep", "resume": goes on from the newest), and the callbacks for "early-stopping", "reduce-lr", "save-best" and
 * "csv", in this order, in front of the program's own. validation: NULL: none. callbacks: (count) as
 * clq_fit_config.callbacks. With a world, ranks other than 0 write no files. Errors: as clq_fit, clq_checkpoints_open
 * and clq_checkpoints_restore; ARGUMENT (settings that exclude each other). */
CLQ_API clq_status clq_settings_fit(const clq_settings *settings, clq_trainer *trainer, clq_dataset *train,
                                    clq_dataset *validation, const clq_callback *callbacks, size_t count);

/* Changes a trainer's setting between its steps, or from a callback: one with CLQ_SETTING_CHANGES. "learning-rate":
 * clq_trainer_set_learning_rate. Errors: ARGUMENT (no such key; a setting that cannot change; a value that is not
 * expected), and those that the named function has. */
CLQ_API clq_status clq_trainer_set(clq_trainer *trainer, const char *key, const char *value);

#ifdef __cplusplus
}
#endif
#endif
