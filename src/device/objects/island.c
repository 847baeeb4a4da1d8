/* Opens several devices in one context, and tests that copies between each pair arrive. */
#include "device/internal.h"

#include <stdio.h>
#include <string.h>

enum { PROBE_WORDS = 16384 };

static uint32_t probe_word(uint32_t seed, uint32_t i) { return (i * 2654435761u) ^ (seed * 40503u + 1u); }

typedef struct peer {
    clq_queue *queue;
    clq_buffer *buffer, *words; /* words: pinned memory for what is written and what is read back */
} peer;

static void peer_close(peer *p) {
    if (p->queue) (void)clq_queue_finish(p->queue); /* after a failure a write may still be reading the words */
    clq_queue_destroy(p->queue);
    clq_buffer_destroy(p->buffer);
    clq_buffer_destroy(p->words);
}

static clq_status peer_open(clq_device *device, peer *out) {
    CLQ_TRY(clq_queue_create(device, 0, &out->queue));
    CLQ_TRY(clq_buffer_create(device, CLQ_MEMORY_DEVICE, PROBE_WORDS * sizeof(uint32_t), "the test of an island",
                              &out->buffer));
    return clq_buffer_create(device, CLQ_MEMORY_PINNED, PROBE_WORDS * sizeof(uint32_t), "the test of an island",
                             &out->words);
}

/* Writes words on one device. The other device's queue waits for an event of that write, copies the words, and reads
 * them back. */
static clq_status test_copy(peer *from, peer *to, uint32_t seed) {
    const size_t bytes = PROBE_WORDS * sizeof(uint32_t);
    uint32_t *words = clq_buffer_host(from->words);
    for (uint32_t i = 0; i < PROBE_WORDS; i++) words[i] = probe_word(seed, i);
    CLQ_TRY(clq_queue_write(from->queue, from->buffer, 0, words, bytes, false));
    clq_event *written;
    CLQ_TRY(clq_queue_mark(from->queue, &written));
    clq_status status = clq_queue_wait(to->queue, written);
    if (status == CLQ_OK) status = clq_queue_copy(to->queue, from->buffer, 0, to->buffer, 0, bytes);
    if (status == CLQ_OK) status = clq_queue_finish(to->queue);
    clq_event_destroy(written);
    CLQ_TRY(status);
    words = clq_buffer_host(to->words);
    memset(words, 0, bytes);
    CLQ_TRY(clq_queue_read(to->queue, to->buffer, 0, words, bytes, true));
    for (uint32_t i = 0; i < PROBE_WORDS; i++)
        if (words[i] != probe_word(seed, i))
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "word %u of a copy from %s to %s arrived wrong", (unsigned)i,
                            clq_device_label(clq_queue_device(from->queue)),
                            clq_device_label(clq_queue_device(to->queue)));
    return CLQ_OK;
}

static clq_status test_pairs(clq_device *const *devices, uint32_t count) {
    peer peers[CLQ_REPLICAS_MAX];
    memset(peers, 0, sizeof peers);
    clq_status status = CLQ_OK;
    for (uint32_t i = 0; i < count && status == CLQ_OK; i++) status = peer_open(devices[i], &peers[i]);
    for (uint32_t i = 0; i < count && status == CLQ_OK; i++)
        for (uint32_t j = 0; j < count && status == CLQ_OK; j++)
            if (i != j) status = test_copy(&peers[i], &peers[j], i * count + j);
    for (uint32_t i = 0; i < count; i++) peer_close(&peers[i]);
    return status;
}

static clq_status check_platform(const clq_system *system, const clq_device_choice *choices, uint32_t count) {
    if (count == 0 || count > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_INTERNAL, "an island of %u devices", (unsigned)count);
    for (uint32_t i = 0; i < count; i++) {
        if (choices[i].index >= system->count)
            return clq_fail(CLQ_ERROR_NO_DEVICE, "device %u is out of range: the machine has %zu",
                            (unsigned)choices[i].index, system->count);
        const clq_device_entry *entry = &system->entries[choices[i].index];
        if (entry->platform != system->entries[choices[0].index].platform)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "devices of several platforms cannot share a context");
        if (clq_quirks_of(&entry->info, "") >> CLQ_QUIRK_UNSAFE_SHARED_CONTEXT & 1)
            return clq_fail(CLQ_ERROR_UNSUPPORTED, "NVIDIA's driver is unsafe with several devices in one context");
    }
    return CLQ_OK;
}

clq_status clq_island_open(clq_system *system, const clq_device_choice *choices, uint32_t count, clq_device **out) {
    CLQ_TRY(check_platform(system, choices, count));
    clq_device *devices[CLQ_REPLICAS_MAX];
    CLQ_TRY(clq_devices_open_shared(system, choices, count, devices));
    clq_status status = test_pairs(devices, count);
    if (status == CLQ_OK) {
        memcpy(out, devices, count * sizeof(clq_device *));
        return CLQ_OK;
    }
    for (uint32_t i = 0; i < count; i++) clq_device_close(devices[i]);
    if (status == CLQ_ERROR_DEVICE || status == CLQ_ERROR_DEVICE_MEMORY)
        status = clq_fail_within(CLQ_ERROR_UNSUPPORTED, "testing copies in the shared context");
    return status;
}

/* ---- devices of a selection ---- */

clq_status clq_devices_check(const clq_devices *devices) {
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_devices, devices));
    if (devices->count < 1) return clq_fail(CLQ_ERROR_NO_DEVICE, "no device was selected");
    if (devices->count > CLQ_REPLICAS_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "a selection of %u devices: expected 1 to %d", (unsigned)devices->count,
                        CLQ_REPLICAS_MAX);
    if (!devices->system)
        return clq_fail(CLQ_ERROR_ARGUMENT, "the selected devices have no system: open one, and select");
    for (uint32_t i = 0; i < devices->count; i++) {
        const clq_device_choice *item = &devices->items[i];
        if (item->index >= devices->system->count)
            return clq_fail(CLQ_ERROR_NO_DEVICE, "replica %u: device %u is out of range: the machine has %zu",
                            (unsigned)i, (unsigned)item->index, devices->system->count);
        if (item->part >= CLQ_MAX(item->parts, 1u))
            return clq_fail(CLQ_ERROR_ARGUMENT, "replica %u: part %u of device %u, of %u: expected 0 to %u",
                            (unsigned)i, (unsigned)item->part, (unsigned)item->index,
                            CLQ_MAX((unsigned)item->parts, 1u), CLQ_MAX((unsigned)item->parts, 1u) - 1);
    }
    return CLQ_OK;
}

static const clq_device_info *info_of(const clq_devices *devices, uint32_t i) {
    return clq_system_device_info(devices->system, devices->items[i].index);
}

/* Opens `first` and the later devices of its platform in one context, if there are at least two and the driver's copies
 * between them can be trusted. A device is in a context only once: a second replica on it goes into another one. */
static clq_status open_island(const clq_devices *devices, uint32_t first, clq_device **out,
                              char (*reasons)[CLQ_REASON_MAX]) {
    clq_device_choice choices[CLQ_REPLICAS_MAX];
    clq_device *opened[CLQ_REPLICAS_MAX];
    uint32_t owners[CLQ_REPLICAS_MAX], count = 0;
    for (uint32_t i = first; i < devices->count; i++) {
        bool skipped = out[i] || strcmp(info_of(devices, i)->platform, info_of(devices, first)->platform) != 0;
        for (uint32_t k = 0; k < count && !skipped; k++)
            skipped = memcmp(&choices[k], &devices->items[i], sizeof choices[k]) == 0;
        if (skipped) continue;
        owners[count] = i;
        choices[count++] = devices->items[i];
    }
    if (count < 2) return CLQ_OK;
    clq_status status = clq_island_open(devices->system, choices, count, opened);
    if (status != CLQ_OK && status != CLQ_ERROR_UNSUPPORTED) return status;
    for (uint32_t i = 0; i < count; i++) {
        if (status == CLQ_OK)
            out[owners[i]] = opened[i];
        else if (reasons)
            (void)snprintf(reasons[owners[i]], CLQ_REASON_MAX, "%s", clq_error_detail());
    }
    return CLQ_OK;
}

clq_status clq_devices_open(const clq_devices *devices, bool together, clq_device **out,
                            char (*reasons)[CLQ_REASON_MAX]) {
    clq_status status = CLQ_OK;
    memset(out, 0, devices->count * sizeof *out);
    if (reasons) memset(reasons, 0, devices->count * sizeof *reasons);
    for (uint32_t i = 0; i < devices->count && status == CLQ_OK; i++) {
        if (together && !out[i]) status = open_island(devices, i, out, reasons);
        if (status == CLQ_OK && !out[i]) status = clq_device_open(devices->system, devices->items[i], &out[i]);
        if (status != CLQ_OK && devices->count > 1) status = clq_fail_within(status, "replica %u", i);
    }
    if (status == CLQ_OK) return CLQ_OK;
    for (uint32_t i = 0; i < devices->count; i++) {
        clq_device_close(out[i]);
        out[i] = NULL;
    }
    return status;
}
