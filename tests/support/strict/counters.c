/* The counts, and their report when the process ends. */
#include "support/strict/layer.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

static atomic_ulong counts[STRICT_DEVICES_MAX][STRICT_COUNTS];

void strict_counted(const strict_device *device, strict_count what) {
    atomic_fetch_add(&counts[device->index][what], 1);
}

EXPORT unsigned long strict_count_of(int device, int what);
/* device: its number among PoCL's; -1: all. */
unsigned long strict_count_of(int device, int what) {
    unsigned long sum = 0;
    for (int i = 0; i < STRICT_DEVICES_MAX; i++)
        if (device < 0 || device == i) sum += atomic_load(&counts[i][what]);
    return sum;
}

EXPORT void strict_count_reset(void);
void strict_count_reset(void) {
    for (int i = 0; i < STRICT_DEVICES_MAX; i++)
        for (int k = 0; k < STRICT_COUNTS; k++) atomic_store(&counts[i][k], 0);
}

static void report(void) {
    static const char *const names[STRICT_COUNTS] = {
        "commands",    "launches",   "markers",        "flushes",         "finishes", "waits",
        "callbacks",   "polls",      "blocking reads", "blocking writes", "pageable", "foreign pinned",
        "null locals", "migrations", "UNFLUSHED",      "LIMITS",          "LATER", "VIEWS"};
    for (unsigned d = 0; strict_options.report && d < STRICT_DEVICES_MAX; d++) {
        if (atomic_load(&counts[d][STRICT_COMMANDS]) == 0) continue;
        (void)fprintf(stderr, "strict: device %u:", d);
        for (unsigned k = 0; k < STRICT_COUNTS; k++)
            (void)fprintf(stderr, "%s %s %lu", k > 0 ? "," : "", names[k], atomic_load(&counts[d][k]));
        (void)fprintf(stderr, "\n");
    }
}

void strict_counters_start(void) { (void)atexit(report); }
