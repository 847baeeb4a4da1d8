/* Text forms of options cut into words, and tables of keys. */
#include "train/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool copy(char *to, size_t room, const char *text, size_t length) {
    if (length == 0 || length >= room) return false;
    memcpy(to, text, length);
    to[length] = '\0';
    return true;
}

bool clq_copy_word(char *to, const char *text, size_t length) { return copy(to, CLQ_WORD_MAX, text, length); }

/* Adds all pairs from `at` to the end. text: the whole text, for messages. */
static clq_status cut_pairs(const char *what, const char *text, const char *at, clq_words *words) {
    for (;; at++) {
        size_t length = strcspn(at, ","), key_length = strcspn(at, "=,");
        if (words->count == CLQ_WORDS_MAX || key_length == length ||
            !clq_copy_word(words->options[words->count].key, at, key_length) ||
            !copy(words->options[words->count].value, CLQ_WORD_VALUE_MAX, at + key_length + 1, length - key_length - 1))
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected key=value at '%s'", what, text, at);
        for (unsigned i = 0; i < words->count; i++)
            if (strcmp(words->options[i].key, words->options[words->count].key) == 0)
                return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': %s is given twice", what, text, words->options[i].key);
        words->count++;
        at += length;
        if (!*at) return CLQ_OK;
    }
}

static clq_status cut_words(const char *what, const char *text, clq_words *out) {
    clq_words words = {0};
    const size_t length = strcspn(text, ":");
    if (!clq_copy_word(words.name, text, length))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': expected NAME or NAME:key=value,…", what, text);
    if (text[length]) CLQ_TRY(cut_pairs(what, text, text + length + 1, &words));
    *out = words;
    return CLQ_OK;
}

clq_status clq_parse_pairs(const char *what, const char *text, clq_words *out) {
    clq_words words = {0};
    if (*text) CLQ_TRY(cut_pairs(what, text, text, &words));
    *out = words;
    return CLQ_OK;
}

/* ---- options of a row of a table ---- */

const clq_option *clq_find_option(const clq_option *options, const char *key) {
    for (; options->key; options++)
        if (strcmp(options->key, key) == 0) return options;
    return NULL;
}

static bool allows(const clq_option *option, double value) {
    return value >= option->min && value <= option->max && (option->type == CLQ_NUMBER || floor(value) == value);
}

/* "a whole number from 0 to 1", or "to below 1" if printing would round the largest number up. */
void clq_option_range(const clq_option *option, char text[80]) {
    char most[32];
    double printed = 0;
    clq_format(most, sizeof most, option->type == CLQ_WHOLE && option->max < 1e9 ? "%.0f" : "%g", option->max);
    (void)clq_parse_number(most, &printed);
    if (option->type == CLQ_FLAG)
        snprintf(text, 80, "0 or 1");
    else
        clq_format(text, 80, "a %snumber from %g to %s%s", option->type == CLQ_WHOLE ? "whole " : "", option->min,
                   printed > option->max ? "below " : "", most);
}

clq_status clq_check_values(const char *what, const char *name, const clq_option *options, const double *values) {
    char range[80];
    for (size_t i = 0; options[i].key; i++) {
        if (allows(&options[i], values[i])) continue;
        clq_option_range(&options[i], range);
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s %s: %s=%g is not %s", what, name, options[i].key, values[i], range);
    }
    return CLQ_OK;
}

clq_status clq_refuse_key(const char *what, const char *text, const char *name, const clq_option *options,
                          const char *key) {
    clq_text known = {0};
    clq_nearest nearest = clq_nearest_of(key);
    for (size_t i = 0; options[i].key; i++) {
        clq_text_add(&known, "%s%s", i ? " " : *name ? " takes: " : "it takes: ", options[i].key);
        clq_nearest_try(&nearest, options[i].key);
    }
    if (!known.data) clq_text_add(&known, "%s", *name ? " takes no keys" : "it takes no keys");
    clq_nearest_add(&nearest, &known);
    clq_status status = known.failed ? clq_fail_memory("naming the keys")
                                     : clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': unknown key '%s'; %s%s", what, text, key,
                                                name, known.data);
    clq_free(known.data);
    return status;
}

clq_status clq_set_values(const char *what, const char *text, const clq_words *words, const clq_option *options,
                          double *values) {
    for (unsigned i = 0; i < words->count; i++) {
        const char *key = words->options[i].key, *value = words->options[i].value;
        const clq_option *option = clq_find_option(options, key);
        double parsed;
        if (!option) return clq_refuse_key(what, text, words->name, options, key);
        if (!clq_parse_double(value, option->min, option->max, &parsed) || !allows(option, parsed)) {
            char range[80];
            clq_option_range(option, range);
            return clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s': %s=%s is not %s", what, text, key, value, range);
        }
        values[option - options] = parsed;
    }
    return CLQ_OK;
}

/* ---- names ---- */

/* "adam, sgd or lion; did you mean 'lion'?" */
static clq_status refuse_name(const char *what, const char *name, size_t count, const char *(*name_of)(size_t)) {
    clq_text known = {0};
    clq_nearest nearest = clq_nearest_of(name);
    for (size_t i = 0; i < count; i++) {
        clq_text_add(&known, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " or ", name_of(i));
        clq_nearest_try(&nearest, name_of(i));
    }
    clq_nearest_add(&nearest, &known);
    clq_status status = known.failed || !known.data
                            ? clq_fail_memory("naming what there is")
                            : clq_fail(CLQ_ERROR_ARGUMENT, "%s '%s' is unknown: expected %s", what, name, known.data);
    clq_free(known.data);
    return status;
}

clq_status clq_parse_name(const char *what, const char *name, size_t count, const char *(*name_of)(size_t),
                          const char *(*alias_of)(size_t), size_t *out) {
    for (size_t i = 0; i < count; i++) {
        const char *alias = alias_of ? alias_of(i) : NULL;
        if (strcmp(name_of(i), name) != 0 && !(alias && strcmp(alias, name) == 0)) continue;
        *out = i;
        return CLQ_OK;
    }
    return refuse_name(what, name, count, name_of);
}

clq_status clq_parse_words(const char *what, const char *text, size_t count, const char *(*name_of)(size_t),
                           const char *(*alias_of)(size_t), clq_words *out) {
    CLQ_TRY(cut_words(what, text, out));
    return clq_parse_name(what, out->name, count, name_of, alias_of, &out->kind);
}
