/* Choices among the ways to compute an operation, and where selections come from. */
#include "launch/list.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void clq_choice_start(clq_choice *choice, const char *format, ...) {
    *choice = (clq_choice){.count = 0};
    va_list arguments;
    va_start(arguments, format);
    (void)clq_format_list(choice->key, sizeof choice->key, format, arguments);
    va_end(arguments);
}

/* The index of the candidate of that name; count if there is none. */
static size_t find(const clq_choice *choice, const char *name) {
    size_t i = 0;
    while (i < choice->count && strcmp(choice->candidates[i].name, name) != 0) i++;
    return i;
}

void clq_choice_add(clq_choice *choice, uint32_t value0, uint32_t value1, const char *format, ...) {
    struct clq_candidate candidate = {.values = {value0, value1}};
    va_list arguments;
    va_start(arguments, format);
    int length = clq_format_list(candidate.name, sizeof candidate.name, format, arguments);
    va_end(arguments);
    assert(length > 0 && (size_t)length < sizeof candidate.name);
    (void)length;
    if (choice->count < CLQ_CANDIDATES_MOST && find(choice, candidate.name) == choice->count)
        choice->candidates[choice->count++] = candidate;
}

static bool forces(const clq_selection *selection, const clq_choice *choice) {
    size_t length = strlen(selection->key);
    return length > 0 && selection->key[length - 1] == '*' && strncmp(selection->key, choice->key, length - 1) == 0;
}

static bool is_about(const clq_selection *selection, const clq_choice *choice) {
    return strcmp(selection->key, choice->key) == 0 || forces(selection, choice);
}

void clq_choice_add_named(clq_choice *choice, const clq_list *list, uint32_t value0, uint32_t value1,
                          const char *name) {
    const clq_selections *own = list->selections;
    for (size_t i = 0; own && i < own->count; i++) {
        if (!is_about(&own->entries[i], choice) || strcmp(own->entries[i].candidate, name) != 0) continue;
        if (choice->count == CLQ_CANDIDATES_MOST) choice->count--;
        clq_choice_add(choice, value0, value1, "%s", name);
        return;
    }
}

/* ---- keeping ---- */

/* The key of an entry on disk: a hash of all that a measured selection depends on. */
static clq_status make_key(const clq_device *device, const char *tuning_key, clq_hash128 *out) {
    const clq_device_info *info = clq_device_get_info(device);
    char *text = clq_strprintf("answer 2 of clique %s\n%s %s %s %u units\n%s", clq_version(), info->driver, info->name,
                               info->driver_version, info->compute_units, tuning_key);
    if (!text) return CLQ_ERROR_MEMORY;
    *out = clq_hash128_of(text, strlen(text), 0);
    clq_free(text);
    return CLQ_OK;
}

bool clq_selections_are_shared(const clq_device *a, const clq_device *b) {
    const clq_device_info *first = clq_device_get_info(a), *second = clq_device_get_info(b);
    return strcmp(first->driver, second->driver) == 0 && strcmp(first->name, second->name) == 0 &&
           strcmp(first->driver_version, second->driver_version) == 0 && first->compute_units == second->compute_units;
}

/* The name of the candidate that is kept for devices like this one. It is "" if none is kept, or if the entry is
 * damaged. */
static clq_status recall(const clq_device *device, const char *tuning_key, char candidate[CLQ_CANDIDATE_BYTES]) {
    clq_hash128 key;
    void *kept;
    size_t bytes;
    candidate[0] = '\0';
    if (!clq_device_remembers(device)) return CLQ_OK;
    CLQ_TRY(make_key(device, tuning_key, &key));
    CLQ_TRY(clq_device_recall(device, key, &kept, &bytes));
    if (kept && bytes < CLQ_CANDIDATE_BYTES) {
        memcpy(candidate, kept, bytes);
        candidate[bytes] = '\0';
    }
    clq_free(kept);
    return CLQ_OK;
}

clq_status clq_selection_keep(clq_device *device, const char *tuning_key, const char *candidate) {
    clq_hash128 key;
    CLQ_TRY(make_key(device, tuning_key, &key));
    return clq_device_replace(device, key, candidate, strlen(candidate));
}

/* ---- selecting ---- */

void clq_list_set_selections(clq_list *list, const clq_selections *selections) { list->selections = selections; }

static size_t select_in(clq_list *list, clq_choice *choice, bool *forced) {
    const clq_selections *own = list->selections;
    for (size_t i = 0; own && i < own->count; i++) {
        size_t found = find(choice, own->entries[i].candidate);
        *forced = found < choice->count && forces(&own->entries[i], choice);
        if (*forced) return found;
        if (strcmp(own->entries[i].key, choice->key) == 0) return found < choice->count ? found : 0;
    }
    if (own && own->by_rule) return CLQ_MIN(own->nth, choice->count - 1);
    char kept[CLQ_CANDIDATE_BYTES];
    clq_list_latch(list, recall(list->device, choice->key, kept));
    size_t found = find(choice, kept);
    choice->kept = found < choice->count;
    return choice->kept ? found : 0;
}

const struct clq_candidate *clq_list_select(clq_list *list, clq_choice *choice) {
    assert(choice->count > 0);
    choice->index = SIZE_MAX;
    if (choice->count == 1) return &choice->candidates[0];
    bool forced = false;
    choice->selected = list->error.status == CLQ_OK ? select_in(list, choice, &forced) : 0;
    choice->first = list->launch_count;
    if (!forced && CLQ_LIST_GROW(list, choices, choice_count, choice_capacity)) {
        choice->index = list->choice_count++;
        list->choices[choice->index] = *choice;
    }
    return &choice->candidates[choice->selected];
}

void clq_list_end_choice(clq_list *list, const clq_choice *choice) {
    if (choice->index != SIZE_MAX) list->choices[choice->index].end = list->launch_count;
}

size_t clq_list_choice_count(const clq_list *list) { return list->choice_count; }

const clq_choice *clq_list_choice(const clq_list *list, size_t index) { return &list->choices[index]; }
