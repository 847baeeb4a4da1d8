/* Learning-rate schedules: reading them from texts, and checking them. */
#include "train/words.h"

#include <string.h>

static const clq_option warmups[] = {
    {"warmup", 0, 0, 1e15, CLQ_WHOLE}, {"warmup_from", 0, 0, 1e6, CLQ_NUMBER}, {NULL, 0, 0, 0, CLQ_NUMBER}};
enum { WARMUPS = CLQ_COUNT_OF(warmups) - 1, PLACES_BEFORE = CLQ_LR_WARMUP };

static const char *schedule_name(size_t i) { return clq_lr_schedule_row_of((clq_lr_schedule_kind)i)->name; }

static const char *listed_schedule(size_t i) { return i < clq_lr_schedule_count() ? schedule_name(i) : NULL; }

static void list_schedule(size_t i, clq_option keys[CLQ_LISTED_KEYS_MAX]) {
    const clq_lr_schedule_row *row = clq_lr_schedule_row_of((clq_lr_schedule_kind)i);
    size_t count = 0;
    for (; row->options[count].key; count++) keys[count] = row->options[count];
    for (const clq_lr_list *list = row->lists; list->key; list++)
        keys[count++] = (clq_option){list->key, list->min - 1, list->min, list->max, CLQ_NUMBER};
    memcpy(keys + count, warmups, sizeof warmups);
}

const clq_listing clq_listed_schedules = {.name = listed_schedule, .keys = list_schedule};

static clq_status check_lists(const clq_lr_schedule_row *row, const double *values) {
    for (const clq_lr_list *list = row->lists; list->key; list++)
        for (unsigned i = 0; i < list->most; i++) {
            const double value = values[list->first + i];
            if (value != 0.0 && !(value >= list->min && value <= list->max))
                return clq_fail(CLQ_ERROR_ARGUMENT, "schedule %s: %s: %g is not a number from %g to %g", row->name,
                                list->key, value, list->min, list->max);
        }
    return row->check ? row->check(values) : CLQ_OK;
}

clq_status clq_lr_schedule_check(const clq_lr_schedule *schedule) {
    if ((size_t)schedule->kind >= clq_lr_schedule_count())
        return clq_fail(CLQ_ERROR_ARGUMENT, "schedule %d is none of clq_lr_schedule_kind", (int)schedule->kind);
    const clq_lr_schedule_row *row = clq_lr_schedule_row_of(schedule->kind);
    CLQ_TRY(clq_check_values("schedule", row->name, row->options, schedule->values));
    CLQ_TRY(check_lists(row, schedule->values));
    CLQ_TRY(clq_check_values("schedule", row->name, warmups, schedule->values + CLQ_LR_WARMUP));
    const double warmup = schedule->values[CLQ_LR_WARMUP];
    if (warmup == 0.0 && schedule->values[CLQ_LR_WARMUP_FROM] != 0.0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "schedule %s: warmup_from without warmup: say how many updates it takes",
                        row->name);
    return CLQ_OK;
}

/* Reads "1/0.5/0.1". *count: how many numbers there are. */
static clq_status set_list(const char *text, const clq_lr_list *list, const char *numbers, double *values,
                           unsigned *count) {
    for (*count = 0;; numbers++) {
        char word[CLQ_WORD_MAX];
        const size_t length = strcspn(numbers, "/");
        if (*count == list->most)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "schedule '%s': %s has at most %u numbers; a program may have a learning_rate function",
                            text, list->key, list->most);
        if (!clq_copy_word(word, numbers, length) ||
            !clq_parse_double(word, list->min, list->max, &values[list->first + *count]))
            return clq_fail(CLQ_ERROR_ARGUMENT, "schedule '%s': %s: expected numbers from %g to %g, as 1/2/3, at '%s'",
                            text, list->key, list->min, list->max, numbers);
        ++*count;
        numbers += length;
        if (!*numbers) return CLQ_OK;
    }
}

/* Takes the lists out of the words. counts: how many numbers each list has. */
static clq_status set_lists(const char *text, const clq_lr_schedule_row *row, clq_words *words, double *values,
                            unsigned *counts) {
    unsigned left = 0;
    for (unsigned i = 0; i < words->count; i++) {
        const clq_lr_list *list = row->lists;
        while (list->key && strcmp(list->key, words->options[i].key) != 0) list++;
        if (list->key)
            CLQ_TRY(set_list(text, list, words->options[i].value, values, &counts[list - row->lists]));
        else
            words->options[left++] = words->options[i];
    }
    words->count = left;
    return CLQ_OK;
}

clq_status clq_lr_schedule_parse(const char *text, clq_lr_schedule *out) {
    clq_words words;
    CLQ_TRY(clq_parse_words("schedule", text, clq_lr_schedule_count(), schedule_name, NULL, &words));
    clq_lr_schedule result = {.kind = (clq_lr_schedule_kind)words.kind};
    const clq_lr_schedule_row *row = clq_lr_schedule_row_of(result.kind);
    clq_option options[PLACES_BEFORE + WARMUPS + CLQ_COUNT_OF(row->lists) + 1] = {{0}};
    double values[CLQ_COUNT_OF(options)] = {0};
    unsigned counts[CLQ_COUNT_OF(row->lists)] = {0}; /* how many numbers each list has */
    size_t own = 0, count;
    CLQ_TRY(set_lists(text, row, &words, result.values, counts));
    for (; row->options[own].key; own++) options[own] = row->options[own];
    count = own;
    for (size_t i = 0; i < WARMUPS; i++) options[count++] = warmups[i];
    for (size_t i = 0; i < count; i++) values[i] = options[i].value;
    /* The words have no lists any more: the lists' keys are added for messages only. */
    for (const clq_lr_list *list = row->lists; list->key; list++) options[count++].key = list->key;
    CLQ_TRY(clq_set_values("schedule", text, &words, options, values));
    if (row->lists[0].key && counts[1] != counts[0] + 1)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "schedule '%s': expected %s=…,%s=…, with one number more of the latter; got %u and %u", text,
                        row->lists[0].key, row->lists[1].key, counts[0], counts[1]);
    for (size_t i = 0; i < own; i++)
        if (values[i] < options[i].min)
            return clq_fail(CLQ_ERROR_ARGUMENT, "schedule '%s': %s has to be given, as %s:%s=1000", text,
                            options[i].key, row->name, options[i].key);
    if (own) memcpy(result.values, values, own * sizeof *values);
    memcpy(result.values + CLQ_LR_WARMUP, values + own, WARMUPS * sizeof *values);
    CLQ_TRY(clq_lr_schedule_check(&result));
    *out = result;
    return CLQ_OK;
}
