/* Settings by key, for the command line and <clique/settings.h>: their descriptions, and their values as texts. */
#include "train/trainer.h"

#include <string.h>

/* ---- rows ---- */

static unsigned uses_of(const clq_setting *row) {
    return row->uses | (row->member.type != CLQ_MEMBER_NONE ? (unsigned)CLQ_SETTING_OF_TRAINER : 0) |
           (row->change ? (unsigned)CLQ_SETTING_CHANGES : 0);
}

size_t clq_setting_count(void) {
    const clq_setting *row;
    size_t count = 0;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) count += uses_of(row) != 0;
    return count;
}

const clq_setting *clq_setting_at(size_t index) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++)
        if (uses_of(row) != 0 && index-- == 0) return row;
    return NULL;
}

clq_status clq_setting_find(const char *key, const clq_setting **out) {
    const clq_setting *row;
    if (!key) return clq_fail(CLQ_ERROR_ARGUMENT, "the key of a setting is NULL: clq_setting_at lists all");
    clq_nearest nearest = clq_nearest_of(key);
    for (size_t i = 0; (row = clq_setting_at(i)) != NULL; i++) {
        if (strcmp(row->name, key) == 0) return *out = row, CLQ_OK;
        clq_nearest_try(&nearest, row->name);
    }
    return clq_nearest_fail(&nearest, "setting '%s' is unknown: clq_setting_at lists all", key);
}

const char *clq_setting_key(const clq_setting *setting) { return setting->name; }
const char *clq_setting_placeholder(const clq_setting *setting) { return setting->value ? setting->value : ""; }
const char *clq_setting_help(const clq_setting *setting) {
    return setting->programs_help ? setting->programs_help : setting->help;
}
const char *clq_setting_group(const clq_setting *setting) { return clq_setting_group_title(setting->group); }
static bool is_choice(const clq_setting *row) {
    return row->type == CLQ_SETTING_TEXT && row->member.type == CLQ_MEMBER_KIND;
}
clq_setting_type clq_setting_kind(const clq_setting *setting) {
    return is_choice(setting) ? CLQ_SETTING_CHOICE : setting->type;
}
const char *clq_setting_choice(const clq_setting *setting, size_t index) {
    return is_choice(setting) && index < setting->member.count ? setting->member.name_of(index) : NULL;
}
unsigned clq_setting_uses(const clq_setting *setting) { return uses_of(setting); }

const char *clq_setting_default(const clq_setting *setting) {
    if (setting->type == CLQ_SETTING_FLAG) return "0";
    return setting->initial ? setting->initial : setting->implied;
}

bool clq_setting_range(const clq_setting *setting, double *least, double *most) {
    const bool seconds = setting->type == CLQ_SETTING_SECONDS;
    if (setting->type != CLQ_SETTING_COUNT && !seconds) return false;
    if (least) *least = seconds ? CLQ_SECONDS_LEAST : (double)setting->min;
    if (most) *most = seconds ? CLQ_SECONDS_MOST : (double)setting->max;
    return true;
}

/* ---- values ---- */

static clq_status take_named(const clq_setting *row, const char *text, clq_named_texts *to) {
    const size_t most = row->max ? (size_t)row->max : CLQ_COUNT_OF(to->texts);
    if (to->count == most) return clq_fail(CLQ_ERROR_ARGUMENT, "%s is given more than %zu times", row->name, most);
    to->texts[to->count++] = text;
    return CLQ_OK;
}

static clq_status take_count(const clq_setting *row, const char *text, uint64_t *out) {
    if (clq_parse_u64(text, row->min, row->max, out)) return CLQ_OK;
    if (row->max == UINT64_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected a whole number of at least %llu", row->name, text,
                        (unsigned long long)row->min);
    return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected a whole number from %llu to %llu", row->name, text,
                    (unsigned long long)row->min, (unsigned long long)row->max);
}

static clq_status take_flag(const clq_setting *row, const char *text, bool *out) {
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected 0 or 1", row->name, text);
    *out = *text == '1';
    return CLQ_OK;
}

static void *field_of(clq_settings *settings, const clq_setting *row) { return (char *)settings + row->field; }

clq_status clq_settings_take(clq_settings *settings, const clq_setting *row, const char *text) {
    void *field = field_of(settings, row);
    switch (row->type) {
    case CLQ_SETTING_COUNT: return take_count(row, text, field);
    case CLQ_SETTING_FLAG: return take_flag(row, text, field);
    case CLQ_SETTING_SECONDS:
        if (clq_parse_seconds(text, field)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected %s", row->name, text, clq_seconds_range);
    case CLQ_SETTING_NAMED: CLQ_TRY(clq_settings_check_value(row, text)); return take_named(row, text, field);
    case CLQ_SETTING_CHOICE:
    case CLQ_SETTING_TEXT:
        CLQ_TRY(clq_settings_check_value(row, text));
        *(const char **)field = text;
        return CLQ_OK;
    }
    return CLQ_OK;
}

/* Drops what was given, and sets the default. The table's defaults are right: they are not checked, so nothing can
 * fail. */
static void reset(clq_settings *settings, const clq_setting *row) {
    void *field = field_of(settings, row);
    switch (row->type) {
    case CLQ_SETTING_COUNT:
        *(uint64_t *)field = 0;
        if (row->initial) (void)clq_parse_u64(row->initial, row->min, row->max, field);
        break;
    case CLQ_SETTING_FLAG: *(bool *)field = false; break;
    case CLQ_SETTING_SECONDS: *(double *)field = 0; break;
    case CLQ_SETTING_NAMED: ((clq_named_texts *)field)->count = 0; break;
    case CLQ_SETTING_CHOICE:
    case CLQ_SETTING_TEXT: *(const char **)field = row->initial; break;
    }
}

void clq_settings_init(clq_settings *settings) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++)
        if (row->initial) reset(settings, row);
}

/* ---- settings of programs ---- */

/* What the settings of a program own: copies of texts, and the config that was given out last, with what it points
 * to. */
struct clq_settings_own {
    char **texts; /* (count) in use, then (retired) that the config given out may still point to */
    size_t count, retired, capacity;
    clq_made_config made;
    bool is_given;   /* `made` was given out */
    char number[32]; /* the text of a number that clq_settings_get gave last */
};

clq_status clq_settings_create(clq_settings **out) {
    clq_settings *settings = clq_alloc(1, sizeof *settings);
    if (!settings) return CLQ_ERROR_MEMORY;
    settings->own = clq_alloc(1, sizeof *settings->own);
    if (!settings->own) {
        clq_free(settings);
        return CLQ_ERROR_MEMORY;
    }
    clq_settings_init(settings);
    *out = settings;
    return CLQ_OK;
}

static void free_retired(struct clq_settings_own *own) {
    for (size_t i = 0; i < own->retired; i++) clq_free(own->texts[own->count + i]);
    own->retired = 0;
}

void clq_settings_destroy(clq_settings *settings) {
    if (!settings) return;
    struct clq_settings_own *own = settings->own;
    free_retired(own);
    for (size_t i = 0; i < own->count; i++) clq_free(own->texts[i]);
    clq_free(own->texts);
    clq_made_config_release(&own->made);
    clq_free(own);
    clq_free(settings);
}

/* Retires a text that the settings own. Other texts are defaults, which are constants of the table. */
static void forget_text(struct clq_settings_own *own, const char *text) {
    for (size_t i = 0; text && i < own->count; i++) {
        if (own->texts[i] != text) continue;
        char *gone = own->texts[i];
        own->texts[i] = own->texts[--own->count];
        own->texts[own->count] = gone;
        own->retired++;
        if (!own->is_given) free_retired(own);
        return;
    }
}

static void set_default(clq_settings *settings, const clq_setting *row) {
    void *field = field_of(settings, row);
    const clq_named_texts *all = row->type == CLQ_SETTING_NAMED ? field : NULL;
    for (size_t i = 0; all && i < all->count; i++) forget_text(settings->own, all->texts[i]);
    if (row->type == CLQ_SETTING_TEXT) forget_text(settings->own, *(const char *const *)field);
    reset(settings, row);
}

static void keep_text(struct clq_settings_own *own, char *text) {
    own->texts[own->count + own->retired] = own->texts[own->count];
    own->texts[own->count++] = text;
}

static clq_status set_text(clq_settings *settings, const clq_setting *row, const char *value) {
    struct clq_settings_own *own = settings->own;
    const char *before = row->type == CLQ_SETTING_TEXT ? *(const char *const *)field_of(settings, row) : NULL;
    char **grown = clq_grow(own->texts, own->count + own->retired, &own->capacity, 16, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    own->texts = grown;
    char *text = clq_strdup(value);
    if (!text) return CLQ_ERROR_MEMORY;
    const clq_status status = clq_settings_take(settings, row, text);
    if (status != CLQ_OK) {
        clq_free(text);
        return status;
    }
    keep_text(own, text);
    forget_text(own, before);
    return CLQ_OK;
}

clq_status clq_settings_set(clq_settings *settings, const char *key, const char *value) {
    const clq_setting *row;
    CLQ_TRY(clq_setting_find(key, &row));
    if (!value) {
        set_default(settings, row);
        return CLQ_OK;
    }
    const bool is_text = row->type == CLQ_SETTING_TEXT || row->type == CLQ_SETTING_NAMED;
    return is_text ? set_text(settings, row, value) : clq_settings_take(settings, row, value);
}

/* A number's text, in own->number. If both numbers are 0, none was given, and the default's text is returned. */
static const char *number_text(struct clq_settings_own *own, const clq_setting *row, double seconds, uint64_t count) {
    if (seconds == 0.0 && count == 0) return clq_setting_default(row);
    if (row->type == CLQ_SETTING_SECONDS)
        clq_format(own->number, sizeof own->number, "%.17g", seconds);
    else
        clq_format(own->number, sizeof own->number, "%llu", (unsigned long long)count);
    return own->number;
}

static const char *text_of(clq_settings *settings, const clq_setting *row, size_t index) {
    const void *field = field_of(settings, row);
    const clq_named_texts *all;
    const char *text;
    switch (row->type) {
    case CLQ_SETTING_COUNT: return number_text(settings->own, row, 0, *(const uint64_t *)field);
    case CLQ_SETTING_SECONDS: return number_text(settings->own, row, *(const double *)field, 0);
    case CLQ_SETTING_FLAG: return *(const bool *)field ? "1" : "0";
    case CLQ_SETTING_NAMED:
        all = field;
        if (index < all->count) return all->texts[index];
        return index == 0 ? clq_setting_default(row) : NULL;
    case CLQ_SETTING_CHOICE:
    case CLQ_SETTING_TEXT: text = *(const char *const *)field; return text ? text : clq_setting_default(row);
    }
    return NULL;
}

clq_status clq_settings_get(clq_settings *settings, const char *key, size_t index, const char **out) {
    const clq_setting *row;
    CLQ_TRY(clq_setting_find(key, &row));
    *out = row->type == CLQ_SETTING_NAMED || index == 0 ? text_of(settings, row, index) : NULL;
    return CLQ_OK;
}

void clq_settings_set_world(clq_settings *settings, clq_world *world) { settings->world = world; }

/* ---- what programs make of them ---- */

clq_status clq_settings_open_system(const clq_settings *settings, clq_system **out) {
    const clq_system_config config = {.memory_limit_bytes = settings->memory_limit,
                                      .build_deadline_s = settings->build_deadline};
    return clq_system_open(&config, out);
}

clq_status clq_settings_create_trainer(const clq_settings *settings, clq_system *system, const clq_model *model,
                                       clq_trainer **out) {
    clq_devices devices;
    clq_made_config *made = clq_alloc(1, sizeof *made);
    const uint64_t turns = clq_world_turns(settings->world);
    clq_status status = made ? clq_devices_select(system, settings->devices, &devices) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = clq_settings_make(settings, model, devices.count, made);
    if (status != CLQ_OK)
        status = clq_trainer_end_world(settings->world, turns, status);
    else
        status = clq_trainer_create(model, &devices, &made->config, out);
    if (made) clq_made_config_release(made);
    clq_free(made);
    return status;
}

clq_status clq_settings_trainer_config_sized(clq_settings *settings, const clq_model *model, unsigned devices,
                                             clq_trainer_config *out, size_t out_bytes) {
    struct clq_settings_own *own = settings->own;
    own->is_given = false;
    free_retired(own);
    CLQ_TRY(clq_settings_make(settings, model, devices, &own->made));
    own->is_given = true;
    clq_struct_give(&own->made.config, sizeof own->made.config, out, out_bytes);
    return CLQ_OK;
}

clq_status clq_trainer_set(clq_trainer *trainer, const char *key, const char *value) {
    const clq_setting *row;
    CLQ_TRY(clq_setting_find(key, &row));
    if (!row->change)
        return clq_fail(CLQ_ERROR_ARGUMENT, "setting '%s' stays what the trainer was made with: make another trainer",
                        key);
    return row->change(trainer, value);
}
