/* The device SPEC: ITEM[,ITEM]... with ITEM = WHAT[:k][*K | /K[:p]] and WHAT an index, a type, a driver's tag, or auto.
 */
#include "device/internal.h"

#include <stdio.h>
#include <string.h>

const char *const clq_spec_words[] = {CLQ_SPEC_AUTO, CLQ_SPEC_ALL,         CLQ_SPEC_GPU,
                                      CLQ_SPEC_CPU,  CLQ_SPEC_ACCELERATOR, NULL};

enum { WORD_MAX = 32, LIST_MAX = 640 };

typedef struct spec_item {
    char text[2 * WORD_MAX]; /* as written, for messages */
    char word[WORD_MAX];     /* "" if the item is an index */
    uint32_t index;          /* if word is "" */
    bool has_ordinal;        /* word:ordinal */
    uint32_t ordinal, replicas, parts;
    bool has_part; /* /parts:part, one of them */
    uint32_t part;
} spec_item;

/* ---- what exists, for messages ---- */

static void list_devices(const clq_system *system, char *out, size_t bytes) {
    if (system->count == 0) {
        (void)snprintf(out, bytes,
                       "no OpenCL device was found; install a driver, for a CPU for example pocl-opencl-icd");
        return;
    }
    size_t used = (size_t)snprintf(out, bytes, "there are");
    for (size_t i = 0; i < system->count && used < bytes; i++) {
        const clq_device_entry *entry = &system->entries[i];
        used += (size_t)snprintf(out + used, bytes - used, "%s %zu = %s:%u (%.40s)", i ? "," : "", i,
                                 entry->info.driver, (unsigned)entry->ordinal, entry->info.name);
    }
}

/* word: the item's word; "" if the item is an index. */
static clq_status no_match(const clq_system *system, const char *what, const char *word) {
    char list[LIST_MAX];
    clq_nearest nearest = clq_nearest_of(word);
    for (size_t i = 0; clq_spec_words[i]; i++) clq_nearest_try(&nearest, clq_spec_words[i]);
    for (uint32_t i = 0; i < system->count; i++) clq_nearest_try(&nearest, system->entries[i].info.driver);
    list_devices(system, list, sizeof list);
    /* A distance of 0 means that the word is known, but what it names is not there. */
    if (!nearest.found || nearest.distance == 0)
        return clq_fail(CLQ_ERROR_NO_DEVICE, "no device matches '%s': %s", what, list);
    return clq_fail(CLQ_ERROR_NO_DEVICE, "no device matches '%s': %s; did you mean '%s'?", what, list, nearest.found);
}

static clq_status bad_syntax(const clq_system *system, const char *what, const char *why) {
    char list[LIST_MAX];
    list_devices(system, list, sizeof list);
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "devices '%.60s': %s; give indices, " CLQ_SPEC_GPU ", " CLQ_SPEC_CPU ", " CLQ_SPEC_ACCELERATOR
                    ", " CLQ_SPEC_ALL ", driver tags or " CLQ_SPEC_AUTO ": %s",
                    what, why, list);
}

/* ---- parsing ---- */

/* Reads decimal digits at *at, and moves *at behind them. */
static bool read_number(const char **at, uint32_t max, uint32_t *out) {
    const char *start = *at;
    uint64_t value = 0;
    while (clq_is_digit(**at) && *at - start < 10) value = value * 10 + (uint64_t)(*(*at)++ - '0');
    if (*at == start || value > max || clq_is_digit(**at)) return false;
    *out = (uint32_t)value;
    return true;
}

static void read_word(const char **at, char *out) {
    size_t length = 0;
    if (!clq_is_letter(**at)) return;
    while ((clq_is_letter(**at) || clq_is_digit(**at) || **at == '_' || **at == '-') && length + 1 < WORD_MAX)
        out[length++] = clq_lower(*(*at)++);
    out[length] = '\0';
}

/* Returns NULL, or what is wrong with the item. */
static const char *parse_item(const char *text, spec_item *out) {
    const char *at = text;
    if (*at == '\0') return "an item is empty";
    if (clq_is_digit(*at)) {
        if (!read_number(&at, UINT32_MAX, &out->index)) return "an index is too large";
    } else {
        read_word(&at, out->word);
        if (out->word[0] == '\0') return "an item is neither an index nor a word";
        if (*at == ':') {
            at++;
            out->has_ordinal = true;
            if (strcmp(out->word, CLQ_SPEC_AUTO) == 0) return CLQ_SPEC_AUTO " takes no :k";
            if (!read_number(&at, UINT32_MAX, &out->ordinal)) return "behind ':' belongs a number from 0";
        }
    }
    char suffix = *at;
    if (suffix == '*' || suffix == '/') {
        at++;
        uint32_t *count = suffix == '*' ? &out->replicas : &out->parts;
        if (!read_number(&at, CLQ_REPLICAS_MAX, count) || *count == 0)
            return "behind '*' and '/' belongs a number from 1 to 64";
        if (suffix == '/' && *at == ':') {
            at++;
            out->has_part = true;
            if (!read_number(&at, out->parts - 1, &out->part)) return "'/K:' needs a number from 0 to K - 1 behind it";
        }
    }
    return *at == '\0' ? NULL : "there is something behind an item that does not belong there";
}

/* Reads the item at *at, and moves *at to the next item; to NULL after the last one. */
static clq_status next_item(const clq_system *system, const char *spec, const char **at, spec_item *out) {
    *out = (spec_item){.replicas = 1, .parts = 1};
    const char *start = *at + strspn(*at, " \t"), *end = start + strcspn(start, ",");
    *at = *end == ',' ? end + 1 : NULL;
    while (end > start && strchr(" \t", end[-1])) end--;
    if ((size_t)(end - start) >= sizeof out->text) return bad_syntax(system, spec, "an item is too long");
    memcpy(out->text, start, (size_t)(end - start));
    const char *wrong = parse_item(out->text, out);
    return wrong ? bad_syntax(system, spec, wrong) : CLQ_OK;
}

/* ---- matching ---- */

static bool matches_word(const clq_device_entry *entry, const char *word) {
    if (strcmp(word, CLQ_SPEC_ALL) == 0) return true;
    if (strcmp(word, CLQ_SPEC_GPU) == 0) return entry->info.type == CLQ_DEVICE_GPU;
    if (strcmp(word, CLQ_SPEC_CPU) == 0) return entry->info.type == CLQ_DEVICE_CPU;
    if (strcmp(word, CLQ_SPEC_ACCELERATOR) == 0) return entry->info.type == CLQ_DEVICE_ACCELERATOR;
    return strcmp(word, entry->info.driver) == 0;
}

static clq_status append(clq_devices *devices, uint32_t index, const spec_item *item) {
    const uint32_t more = item->has_part ? 1 : item->replicas * item->parts; /* one of the two is 1 */
    if (more > CLQ_REPLICAS_MAX - devices->count)
        return clq_fail(CLQ_ERROR_ARGUMENT, "devices '%s': more than %d replicas in all", item->text,
                        (int)CLQ_REPLICAS_MAX);
    const clq_device_entry *entry = &devices->system->entries[index];
    uint32_t most = item->parts > 1 ? clq_device_parts_max(entry) : 1;
    if (item->parts > most)
        return clq_fail(CLQ_ERROR_NO_DEVICE, "devices '%s': %s:%u (%.60s) can be split into %u part%s at most",
                        item->text, entry->info.driver, (unsigned)entry->ordinal, entry->info.name, (unsigned)most,
                        clq_plural(most));
    for (uint32_t i = 0; i < more; i++)
        devices->items[devices->count++] =
            (clq_device_choice){index, item->parts > 1 ? item->part + i : 0, item->parts};
    return CLQ_OK;
}

static clq_status not_usable(const clq_device_entry *entry, const spec_item *item) {
    return clq_fail(CLQ_ERROR_NO_DEVICE, "devices '%s': %s:%u (%.60s) cannot be used: %s", item->text,
                    entry->info.driver, (unsigned)entry->ordinal, entry->info.name, entry->info.reason);
}

/* Appends a device that was named alone, by its index or as WHAT:k. It must work. */
static clq_status append_named(clq_devices *devices, uint32_t index, const spec_item *item) {
    CLQ_TRY(clq_system_test_device(devices->system, index));
    const clq_device_entry *entry = &devices->system->entries[index];
    return entry->info.usable ? append(devices, index, item) : not_usable(entry, item);
}

/* Appends the devices that match WHAT and work. WHAT:k names one device alone, which must work. */
static clq_status append_matching(clq_devices *devices, const spec_item *item) {
    clq_system *system = devices->system;
    uint32_t seen = 0, taken = 0;
    const clq_device_entry *failed = NULL;
    for (uint32_t i = 0; i < system->count; i++) {
        const clq_device_entry *entry = &system->entries[i];
        if (!matches_word(entry, item->word)) continue;
        if (item->has_ordinal) {
            if (seen++ == item->ordinal) return append_named(devices, i, item);
            continue;
        }
        CLQ_TRY(clq_system_test_device(system, i));
        if (!entry->info.usable) {
            failed = entry;
            continue;
        }
        CLQ_TRY(append(devices, i, item));
        taken++;
    }
    if (taken > 0) return CLQ_OK;
    return failed ? not_usable(failed, item) : no_match(system, item->text, item->word);
}

static clq_status append_auto(clq_devices *devices, const spec_item *item) {
    uint32_t indices[CLQ_REPLICAS_MAX], count = 0;
    CLQ_TRY(clq_select_auto(devices->system, indices, &count));
    if (count == 0) {
        const clq_system *system = devices->system; /* all were tried, and failed */
        return system->count > 0 ? not_usable(&system->entries[0], item) : no_match(system, item->text, item->word);
    }
    for (uint32_t i = 0; i < count; i++) CLQ_TRY(append(devices, indices[i], item));
    return CLQ_OK;
}

static clq_status append_item(clq_devices *devices, const spec_item *item) {
    if (strcmp(item->word, CLQ_SPEC_AUTO) == 0) return append_auto(devices, item);
    if (item->word[0] != '\0') return append_matching(devices, item);
    if (item->index >= devices->system->count) return no_match(devices->system, item->text, item->word);
    return append_named(devices, item->index, item);
}

clq_status clq_devices_select(clq_system *system, const char *spec, clq_devices *out) {
    clq_devices devices = {.system = system};
    const char *at = spec ? spec : CLQ_SPEC_AUTO;
    /* Checks all of the syntax before the first device is touched. */
    for (const char *check = at; check;) {
        spec_item unused;
        CLQ_TRY(next_item(system, at, &check, &unused));
    }
    for (const char *rest = at; rest;) {
        spec_item item;
        CLQ_TRY(next_item(system, at, &rest, &item));
        CLQ_TRY(append_item(&devices, &item));
    }
    *out = devices;
    return CLQ_OK;
}
