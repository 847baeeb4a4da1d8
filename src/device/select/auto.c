/* The devices that "auto" means: every distinct GPU that works and does not hold the others up. If there is none, the
 * fastest CPU device. If there is no CPU device either, a device of any other type. */
#include "device/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The drivers in the order of preference. The order decides between several drivers of one physical device, and between
 * CPU devices of equal speed. The maker's own driver comes first, and tools for testing last. */
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

/* GPUs come first, in the order of their drivers. Then come CPUs by speed, then the rest. The table's order decides
 * last. */
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

/* ---- one device, seen through two drivers ----
 *
 * All devices that one platform lists are different devices, even if their addresses or names are equal: tiles and
 * partitions of a card have one address, and AMD's driver leaves out the domain. So the second device of its kind on a
 * platform can only be the second device of that kind on another platform. */

/* A recalled list has no platforms yet. */
static bool same_platform(const clq_device_entry *a, const clq_device_entry *b) {
    if (a->platform || b->platform) return a->platform == b->platform;
    return strcmp(a->info.platform, b->info.platform) == 0;
}

/* Compares what both drivers tell: the address if both have one, otherwise the name. */
static bool same_kind(const clq_device_entry *a, const clq_device_entry *b, bool by_address) {
    if (a->info.type != b->info.type) return false;
    return by_address ? clq_pci_same(a->info.pci, b->info.pci) : strcmp(a->info.name, b->info.name) == 0;
}

/* How many devices of the kind of `other` the platform of `like` lists before `like`. */
static uint32_t same_before(const clq_system *system, const clq_device_entry *like, const clq_device_entry *other,
                            bool by_address) {
    uint32_t count = 0;
    for (const clq_device_entry *at = system->entries; at < like; at++)
        count += same_platform(at, like) && same_kind(at, other, by_address);
    return count;
}

static bool same_device(const clq_system *system, const clq_device_entry *a, const clq_device_entry *b) {
    bool by_address = a->info.pci[0] && b->info.pci[0];
    if (same_platform(a, b) || !same_kind(a, b, by_address)) return false;
    return same_before(system, a, b, by_address) == same_before(system, b, a, by_address);
}

/* ---- choosing ---- */

static clq_status choose(clq_system *system, const clq_device_entry *const *order, uint32_t *out, uint32_t *count) {
    uint32_t taken = 0;
    for (size_t i = 0; i < system->count && taken < CLQ_REPLICAS_MAX; i++) {
        const clq_device_entry *entry = order[i];
        if (taken > 0 && class_of(entry) != 0) break; /* GPUs were found, or the one device of another type was */
        bool known = false;
        for (uint32_t k = 0; k < taken && !known; k++) known = same_device(system, &system->entries[out[k]], entry);
        if (known) continue;
        CLQ_TRY(clq_system_test_device(system, entry->info.index));
        if (entry->info.usable) out[taken++] = entry->info.index;
    }
    *count = taken;
    return CLQ_OK;
}

/* A GPU is left out if its rate is below this part of the fastest one's. Devices get equal shares of a batch: if an
 * integrated GPU worked beside a graphics card, all would wait for it. */
static const double slowest_part = 1.0 / 3;

static bool are_alike(const clq_system *system, const uint32_t *indices, uint32_t count) {
    const clq_device_info *first = &system->entries[indices[0]].info;
    for (uint32_t i = 1; i < count; i++) {
        const clq_device_info *info = &system->entries[indices[i]].info;
        if (strcmp(info->name, first->name) != 0 || info->compute_units != first->compute_units ||
            strcmp(info->driver, first->driver) != 0)
            return false;
    }
    return true;
}

static clq_status leave_out_slow(clq_system *system, uint32_t *indices, uint32_t *count) {
    double rates[CLQ_REPLICAS_MAX]; /* NaN: not known */
    uint32_t best = 0, kept = 0;
    if (*count < 2 || system->entries[indices[0]].info.type != CLQ_DEVICE_GPU || are_alike(system, indices, *count))
        return CLQ_OK;
    for (uint32_t i = 0; i < *count; i++) {
        CLQ_TRY(clq_system_rate(system, indices[i], &rates[i]));
        if (!(rates[i] <= rates[best])) best = isnan(rates[i]) ? best : i;
    }
    for (uint32_t i = 0; i < *count; i++) {
        if (!(rates[i] < rates[best] * slowest_part)) {
            indices[kept++] = indices[i];
            continue;
        }
        char slow[CLQ_LABEL_MAX], fast[CLQ_LABEL_MAX];
        clq_entry_label(&system->entries[indices[i]], slow, sizeof slow);
        clq_entry_label(&system->entries[indices[best]], fast, sizeof fast);
        clq_log(
            CLQ_LOG_WARNING,
            "auto leaves out %s: it does %.3g GFLOP/s, less than a third of what %s does (%.3g), which would have to "
            "wait for it in every step; --devices gpu takes all GPUs",
            slow, rates[i], fast, rates[best]);
    }
    *count = kept;
    return CLQ_OK;
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

clq_status clq_select_auto(clq_system *system, uint32_t out[CLQ_REPLICAS_MAX], uint32_t *count) {
    const clq_device_entry **order = clq_alloc(system->count, sizeof *order);
    if (!order) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < system->count; i++) order[i] = &system->entries[i];
    if (system->count > 1) qsort(order, system->count, sizeof *order, by_preference);
    clq_status status = choose(system, order, out, count);
    clq_free(order);
    CLQ_TRY(status);
    CLQ_TRY(leave_out_slow(system, out, count));
    if (*count > 1) qsort(out, *count, sizeof *out, by_value); /* replicas in the table's order */
    return CLQ_OK;
}
