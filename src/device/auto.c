/* The devices that "auto" means: every distinct GPU that works, else the fastest CPU device, else any other. */
#include "device/internal.h"

#include <stdlib.h>
#include <string.h>

/* One physical device may be seen through several drivers; and of CPU devices of equal width one has to be chosen.
 * In both cases the maker's own driver comes first, and tools for testing last. */
static const char *const driver_order[] = {"nvidia", "amd",     "intel",  "apple",   "*",
                                           "pocl",   "rusticl", "clover", "oclgrind"};

static size_t rank_of(const clq_device_entry *entry) {
    size_t other = 0;
    for (size_t i = 0; i < CLQ_COUNT_OF(driver_order); i++) {
        if (strcmp(driver_order[i], entry->info.driver) == 0) return i;
        if (driver_order[i][0] == '*') other = i;
    }
    return other;
}

static uint64_t speed_of(const clq_device_entry *entry) {
    return (uint64_t)entry->info.compute_units * entry->info.vector_width;
}

/* GPUs first in the drivers' order, then CPUs by speed, then the rest; the table's order decides last. */
static int class_of(const clq_device_entry *entry) {
    return entry->info.type == CLQ_DEVICE_GPU ? 0 : entry->info.type == CLQ_DEVICE_CPU ? 1 : 2;
}

static int by_preference(const void *a, const void *b) {
    const clq_device_entry *x = *(const clq_device_entry *const *)a, *y = *(const clq_device_entry *const *)b;
    if (class_of(x) != class_of(y)) return class_of(x) < class_of(y) ? -1 : 1;
    if (class_of(x) != 0 && speed_of(x) != speed_of(y)) return speed_of(x) > speed_of(y) ? -1 : 1;
    if (rank_of(x) != rank_of(y)) return rank_of(x) < rank_of(y) ? -1 : 1;
    return x->info.index < y->info.index ? -1 : x->info.index > y->info.index;
}

/* Drivers that tell no PCI address are compared by name: the second such GPU of a driver is the second of another. */
static bool same_kind(const clq_device_entry *a, const clq_device_entry *b) {
    return a->info.type == b->info.type && strcmp(a->info.name, b->info.name) == 0;
}

static uint32_t same_before(const clq_system *system, const clq_device_entry *entry) {
    uint32_t count = 0;
    for (const clq_device_entry *at = system->entries; at < entry; at++)
        count += at->platform == entry->platform && same_kind(at, entry);
    return count;
}

static bool same_device(const clq_system *system, const clq_device_entry *a, const clq_device_entry *b) {
    if (a->info.pci[0] && b->info.pci[0]) return strcmp(a->info.pci, b->info.pci) == 0;
    return a->platform != b->platform && same_kind(a, b) && same_before(system, a) == same_before(system, b);
}

static clq_status choose(clq_system *system, const clq_device_entry *const *order, uint32_t *out, uint32_t capacity,
                         uint32_t *count) {
    uint32_t taken = 0;
    for (size_t i = 0; i < system->count && taken < capacity; i++) {
        const clq_device_entry *entry = order[i];
        if (taken > 0 && class_of(entry) != 0) break; /* GPUs were found, or the one CPU device was */
        bool known = false;
        for (uint32_t k = 0; k < taken && !known; k++) known = same_device(system, &system->entries[out[k]], entry);
        if (known) continue;
        CLQ_TRY(clq_system_test_device(system, entry->info.index));
        if (entry->info.usable) out[taken++] = entry->info.index;
    }
    *count = taken;
    return CLQ_OK;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

clq_status clq_select_auto(clq_system *system, uint32_t *out, uint32_t capacity, uint32_t *count) {
    const clq_device_entry **order = clq_alloc(system->count, sizeof *order);
    if (!order) return CLQ_MEMORY;
    for (size_t i = 0; i < system->count; i++) order[i] = &system->entries[i];
    if (system->count > 1) qsort(order, system->count, sizeof *order, by_preference);
    clq_status status = choose(system, order, out, capacity, count);
    clq_free(order);
    CLQ_TRY(status);
    if (*count > 1) qsort(out, *count, sizeof *out, by_value); /* replicas in the table's order */
    return CLQ_OK;
}
