/* What was found out about a device, for as long as it is open. */
#include "device/internal.h"

#include <string.h>

struct clq_verdict {
    clq_hash128 key;
    bool verdict;
};

static struct clq_verdict *find(const clq_device *device, clq_hash128 key) {
    for (size_t i = 0; i < device->verdict_count; i++)
        if (memcmp(&device->verdicts[i].key, &key, sizeof key) == 0) return &device->verdicts[i];
    return NULL;
}

bool clq_device_verdict(clq_device *device, clq_hash128 key, bool *verdict) {
    (void)pthread_mutex_lock(&device->lock);
    const struct clq_verdict *found = find(device, key);
    if (found) *verdict = found->verdict;
    (void)pthread_mutex_unlock(&device->lock);
    return found != NULL;
}

void clq_device_note_verdict(clq_device *device, clq_hash128 key, bool verdict) {
    (void)pthread_mutex_lock(&device->lock);
    if (!find(device, key) && device->verdict_count == device->verdict_capacity) {
        size_t wanted = CLQ_MAX(device->verdict_capacity * 2, (size_t)16);
        struct clq_verdict *grown = clq_realloc(device->verdicts, device->verdict_capacity, wanted, sizeof *grown);
        if (grown) {
            device->verdicts = grown;
            device->verdict_capacity = wanted;
        }
    }
    if (!find(device, key) && device->verdict_count < device->verdict_capacity)
        device->verdicts[device->verdict_count++] = (struct clq_verdict){key, verdict};
    (void)pthread_mutex_unlock(&device->lock);
}
