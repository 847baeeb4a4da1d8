/* What is made of settings with the table's help: a trainer's config, keys, and the texts that checkpoints compare. */
#include "train/settings.h"
#include "train/trainer.h"
#include "train/words.h"

#include <stdio.h>
#include <string.h>

/* ---- a trainer's config ---- */

static void *member_of(clq_trainer_config *config, const clq_setting *row) { return (char *)config + row->member.at; }

/* The value of a member that is a whole number or an enumeration; 0: it is neither. */
static uint64_t number_of(const clq_trainer_config *config, const clq_setting *row) {
    const char *at = (const char *)config + row->member.at;
    unsigned kind;
    switch (row->member.type) {
    case CLQ_MEMBER_OWN:
        if (row->member.count == 0) return 0;
        memcpy(&kind, at, sizeof kind);
        return kind;
    case CLQ_MEMBER_KIND: memcpy(&kind, at, sizeof kind); return kind;
    case CLQ_MEMBER_BOOL: return *(const bool *)at;
    case CLQ_MEMBER_FLAG:
    case CLQ_MEMBER_U32: return *(const uint32_t *)(const void *)at;
    case CLQ_MEMBER_U64: return *(const uint64_t *)(const void *)at;
    case CLQ_MEMBER_SIZE: return *(const size_t *)(const void *)at;
    default: return 0;
    }
}

static clq_status apply_kind(const clq_setting *row, const char *text, clq_trainer_config *config) {
    size_t kind;
    CLQ_TRY(clq_parse_name(row->member.words ? row->member.words : row->name, text, row->member.count,
                           row->member.name_of, NULL, &kind));
    const unsigned value = (unsigned)kind; /* an enumeration has the same size */
    memcpy(member_of(config, row), &value, sizeof value);
    return CLQ_OK;
}

static void apply_number(const clq_setting *row, const void *given, clq_trainer_config *config) {
    void *to = member_of(config, row);
    switch (row->member.type) {
    case CLQ_MEMBER_BOOL: *(bool *)to = *(const bool *)given; return;
    case CLQ_MEMBER_FLAG: *(uint32_t *)to = *(const bool *)given; return;
    case CLQ_MEMBER_U32: *(uint32_t *)to = (uint32_t) * (const uint64_t *)given; return;
    case CLQ_MEMBER_U64: *(uint64_t *)to = *(const uint64_t *)given; return;
    case CLQ_MEMBER_SIZE: *(size_t *)to = (size_t) * (const uint64_t *)given; return;
    case CLQ_MEMBER_REAL: *(double *)to = *(const double *)given; return;
    default: return;
    }
}

/* Reads a text of the row's setting. */
static clq_status apply_text(const clq_setting *row, const char *text, clq_made_config *to) {
    if (row->member.type == CLQ_MEMBER_KIND) return apply_kind(row, text, &to->config);
    return row->member.parse ? row->member.parse(text, to) : CLQ_OK;
}

clq_status clq_settings_check_value(const clq_setting *row, const char *text) {
    if (row->check) CLQ_TRY(row->check(text));
    clq_made_config *scratch = clq_alloc(1, sizeof *scratch);
    if (!scratch) return CLQ_ERROR_MEMORY;
    scratch->config = clq_trainer_config_default();
    const clq_status status = apply_text(row, text, scratch);
    clq_made_config_release(scratch);
    clq_free(scratch);
    return status;
}

static clq_status apply_row(const clq_settings *from, const clq_setting *row, clq_made_config *to) {
    const void *given = (const char *)from + row->field;
    if (row->member.type == CLQ_MEMBER_NONE) return CLQ_OK;
    if (row->type == CLQ_SETTING_NAMED) {
        const clq_named_texts *all = given;
        for (size_t i = 0; i < all->count; i++) CLQ_TRY(apply_text(row, all->texts[i], to));
        return CLQ_OK;
    }
    if (row->type == CLQ_SETTING_TEXT) {
        const char *text = *(const char *const *)given;
        return text ? apply_text(row, text, to) : CLQ_OK;
    }
    apply_number(row, given, &to->config);
    return CLQ_OK;
}

/* Refuses settings of strategy ps with another strategy. */
static clq_status check_server(const clq_settings *s, const clq_trainer_config *config) {
    if (config->strategy == CLQ_STRATEGY_PS || config->inference_only || !(s->staleness || s->backup)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "%s is an option of strategy ps, and the strategy is %s: use ps, or leave it out",
                    s->staleness ? "staleness" : "backup", s->strategy);
}

static clq_status make(const clq_settings *s, const clq_model *model, size_t devices, clq_made_config *to) {
    const clq_setting *row;
    clq_trainer_config *config = &to->config;
    *config = clq_trainer_config_default();
    const size_t batch = config->global_batch;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) CLQ_TRY(apply_row(s, row, to));
    CLQ_TRY(clq_strategy_parse(s->strategy, &config->strategy, &config->strategy_options));
    CLQ_TRY(check_server(s, config));
    CLQ_TRY(clq_settings_make_outputs(s, model, to));
    if (s->batch && s->batch_per_replica)
        return clq_fail(CLQ_ERROR_ARGUMENT, "batch and 'batch-per-replica' exclude each other");
    if (!s->batch) config->global_batch = s->batch_per_replica ? (size_t)s->batch_per_replica * devices : batch;
    config->world = s->world;
    return CLQ_OK;
}

clq_status clq_settings_make(const clq_settings *settings, const clq_model *model, size_t devices,
                             clq_made_config *out) {
    clq_made_config_release(out);
    const clq_status status = make(settings, model, devices, out);
    if (status != CLQ_OK) clq_made_config_release(out);
    return status;
}

void clq_made_config_release(clq_made_config *made) {
    clq_free(made->class_weights);
    memset(made, 0, sizeof *made);
}

clq_status clq_settings_check_config(const clq_trainer_config *config) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        const uint64_t value = number_of(config, row);
        if (row->member.count > 0 && value >= row->member.count)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s %d is none of %s", row->name, (int)(unsigned)value,
                            row->member.c_name);
        if (row->member.type == CLQ_MEMBER_FLAG && value > 1)
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s is %u: expected 0 or 1", row->name, (unsigned)value);
        if (row->member.type == CLQ_MEMBER_REAL) {
            const double real = *(const double *)(const void *)((const char *)config + row->member.at);
            if (!(real >= 0.0))
                return clq_fail(CLQ_ERROR_ARGUMENT, "%s is %g: expected seconds, or 0 for the default", row->name,
                                real);
        }
    }
    return CLQ_OK;
}

bool clq_settings_are_plain(const clq_settings *settings) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        const char *given = (const char *)settings + row->field;
        if (row->strategies == 0) continue;
        if (row->type == CLQ_SETTING_COUNT && *(const uint64_t *)(const void *)given != 0) return false;
        if (row->type == CLQ_SETTING_FLAG && *(const bool *)given) return false;
        const char *text = row->type == CLQ_SETTING_TEXT ? *(const char *const *)(const void *)given : NULL;
        if (text && (!row->initial || strcmp(text, row->initial) != 0)) return false;
    }
    return true;
}

/* ---- texts ---- */

/* Writes a setting's value, or nothing if the setting is off. */
static void write(const clq_setting *row, const clq_trainer_config *config, clq_text *to) {
    const uint64_t number = number_of(config, row);
    if (row->member.write) {
        row->member.write(config, to);
        return;
    }
    switch (row->member.type) {
    case CLQ_MEMBER_NONE:
    case CLQ_MEMBER_OWN: return;
    case CLQ_MEMBER_KIND: clq_text_add(to, "%s", row->member.name_of((size_t)number)); return;
    case CLQ_MEMBER_REAL:
        clq_text_add(to, "%.9g", *(const double *)(const void *)((const char *)config + row->member.at));
        return;
    default: clq_text_add(to, "%llu", (unsigned long long)number);
    }
}

void clq_settings_add_key(const clq_trainer_config *config, unsigned key, clq_strategy_kind strategy, clq_text *to) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        if (!(row->keys & key) || (row->strategies && !(row->strategies & (1u << strategy)))) continue;
        clq_text_add(to, "%s ", row->name);
        write(row, config, to);
        clq_text_add(to, "\n");
    }
}

/* The setting's name in a checkpoint: "settings/seed". */
enum { NAME_MAX = 64 };
static const char *name_of(const clq_setting *row, char name[NAME_MAX]) {
    (void)snprintf(name, NAME_MAX, "settings/%s", row->name);
    return name;
}

clq_status clq_settings_record(const clq_trainer_config *config, json_t **out) {
    const clq_setting *row;
    char name[NAME_MAX];
    json_t *all = json_object();
    bool failed = all == NULL;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL && !failed; i++) {
        clq_text text = {0};
        if (!row->results || row->member.type == CLQ_MEMBER_NONE) continue;
        clq_text_add(&text, "%s", "");
        write(row, config, &text);
        failed = text.failed || json_object_set_new(all, name_of(row, name), clq_json_text(text.data)) != 0;
        clq_free(text.data);
    }
    if (!failed) *out = all;
    if (!failed) return CLQ_OK;
    json_decref(all);
    return clq_fail_memory("noting the settings");
}

void clq_settings_compare(const json_t *before, const json_t *now, const char *folder) {
    const clq_setting *row;
    char name[NAME_MAX];
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        const char *was = json_string_value(json_object_get(before, name_of(row, name)));
        const char *is = json_string_value(json_object_get(now, name));
        if (!was || !is || strcmp(was, is) == 0) continue;
        const bool warns = row->resumed == CLQ_RESUMED_WARNED;
        if (!warns && row->resumed != CLQ_RESUMED_TAKEN) continue; /* other code compares these, and logs it */
        clq_log(warns ? CLQ_LOG_WARNING : CLQ_LOG_INFO,
                "%s: its training had %s %s, and this one has %s, which holds from here on%s", folder, row->name,
                *was ? was : "off", *is ? is : "off", warns ? ": it does not go on bit for bit" : "");
    }
}
