/* Topics that are made from tables of names: each name, and the keys that it takes. Also the words that complete an
 * option. */
#include "cli/topics.h"

#include <stdio.h>
#include <string.h>

/* Adds a key as "lr=0.001", and the values that it may have. */
static void add_key(const clq_option *key, clq_text *to) {
    char form[64], range[80];
    clq_option_range(key, range);
    if (key->value >= key->min && key->value <= key->max)
        (void)clq_format(form, sizeof form, "  %s=%g", key->key, key->value);
    else
        (void)snprintf(form, sizeof form, "  %s=…", key->key);
    clq_help_entry(form, range, to);
}

/* Adds the options that only some strategies have, if this strategy is one of them. */
static void add_own_options(size_t strategy, clq_text *to) {
    const clq_setting *row;
    for (size_t i = 0; (row = clq_setting_row(i)) != NULL; i++) {
        clq_text form = {0};
        if (!row->commands || !(row->strategies & (1u << strategy))) continue;
        clq_text_add(&form, "  --%s%s%s", row->name, row->value ? " " : "", row->value ? row->value : "");
        to->failed = to->failed || form.failed;
        if (!to->failed) clq_help_entry(form.data, row->help, to);
        clq_free(form.data);
    }
}

static void add_listing(const clq_listing *listing, clq_text *to) {
    const char *name;
    for (size_t i = 0; (name = listing->name(i)) != NULL; i++) {
        clq_option keys[CLQ_LISTED_KEYS_MAX];
        char form[128];
        const char *alias = listing->alias ? listing->alias(i) : NULL;
        (void)snprintf(form, sizeof form, "%s%s%s", name, alias ? ", " : "", alias ? alias : "");
        clq_help_entry(form, listing->words ? listing->words(i) : "", to);
        listing->keys(i, keys);
        for (const clq_option *key = keys; key->key; key++) add_key(key, to);
        if (listing == &clq_listed_strategies) add_own_options(i, to);
    }
}

/* The options whose values begin with a name of a listing. */
static const struct {
    const char *option, *example;
    const clq_listing *listing;
    const char *note; /* printed after the listing; NULL: none */
} listed[] = {
    {"model", "gpt:layers=2,width=64", &clq_listed_models,
     "classes and input are those of the data unless they are given, and other keys without a default are chosen by "
     "the model. In place of a name: a Keras model's .json or .keras file."},
    {"optimizer", "sgd:lr=0.01,momentum=0.9", &clq_listed_optimizers, NULL},
    {"loss", "binary_crossentropy:from_logits=1", &clq_listed_losses, NULL},
    {"metrics", "accuracy,mae", &clq_listed_metrics, NULL},
    {"schedule", "cosine:decay_steps=1000,warmup=100", &clq_listed_schedules, NULL},
    {"strategy", "pipeline:stages=2", &clq_listed_strategies, NULL},
};

void clq_topic_add_values(const char *option, clq_text *to) {
    clq_text words = {0};
    size_t i = 0;
    while (strcmp(listed[i].option, option) != 0) i++; /* topics.c names no others */
    clq_text_add(&words,
                 "These are the values of --%s, for example --%s %s. Each key is shown with its default and its range.",
                 option, option, listed[i].example);
    to->failed = to->failed || words.failed;
    if (!to->failed) clq_help_paragraph(0, words.data, to);
    clq_text_add(to, "\n");
    clq_free(words.data);
    add_listing(listed[i].listing, to);
    if (!listed[i].note) return;
    clq_text_add(to, "\n");
    clq_help_paragraph(0, listed[i].note, to);
}

/* ---- words of values ---- */

static void add_listed(const clq_listing *listing, clq_text *to) {
    const char *name;
    for (size_t i = 0; (name = listing->name(i)) != NULL; i++) {
        const char *alias = listing->alias ? listing->alias(i) : NULL;
        clq_text_add(to, " %s", name);
        if (alias) clq_text_add(to, " %s", alias);
    }
}

/* Adds the alternatives of "equal|auto|W,W,…" that are written as they stand: they consist of lower-case letters,
 * digits, '-' and ':'. */
static void add_alternatives(const char *value, clq_text *to) {
    for (const char *at = value;; at++) {
        const size_t length = strcspn(at, "|");
        if (strchr(value, '|') && strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-:") == length) {
            clq_text_add(to, " ");
            clq_text_add_bytes(to, at, length);
        }
        at += length;
        if (!*at) return;
    }
}

/* The setting of an option that has a name; NULL: it is not in the table of settings, whose options all have groups.
 * Two settings of one name differ in their help. */
static const clq_setting *setting_of(const clq_argument *option) {
    const clq_setting *row;
    for (size_t i = 0; option->group && (row = clq_setting_row(i)) != NULL; i++)
        if (row->commands && strcmp(row->name, option->name) == 0 && strcmp(row->help, option->help) == 0) return row;
    return NULL;
}

/* Words that are in no listing. */
static const struct {
    const char *option;
    const char *const *words; /* NULL after the last one */
} fixed[] = {{"devices", clq_spec_words}, {"data", clq_dataset_names}};

void clq_option_words(const clq_argument *option, clq_text *to) {
    if (!option->name || !option->value) return;
    const clq_setting *row = setting_of(option);
    for (size_t i = 0; row && i < CLQ_COUNT_OF(listed); i++)
        if (strcmp(listed[i].option, option->name) == 0) {
            add_listed(listed[i].listing, to);
            return;
        }
    for (size_t i = 0; row && i < CLQ_COUNT_OF(fixed); i++)
        if (strcmp(fixed[i].option, option->name) == 0) {
            for (const char *const *word = fixed[i].words; *word; word++) clq_text_add(to, " %s", *word);
            return;
        }
    if (row && row->member.type == CLQ_MEMBER_KIND)
        for (size_t i = 0; i < row->member.count; i++) clq_text_add(to, " %s", row->member.name_of(i));
    else
        add_alternatives(option->value, to);
}

bool clq_option_names_file(const clq_argument *option) {
    return option->value && (strstr(option->value, "FILE") || strstr(option->value, "DIR"));
}
