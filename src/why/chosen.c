/* Choices that are kept for later runs of the same on this machine. */
#include "why/why.h"

#include <stdio.h>
#include <string.h>

/* What later may have changed behind the numbers of a SPEC. */
static clq_status describe(const clq_devices *devices, clq_hash128 *out) {
    clq_text text = {0};
    for (uint32_t i = 0; i < devices->count; i++) {
        const clq_device_choice *item = &devices->items[i];
        const clq_device_info *info = clq_system_device_info(devices->system, item->index);
        clq_text_add(&text, "%u/%u:%u %s %s %s %u units\n", item->index, item->parts, item->part, info->driver,
                     info->name, info->driver_version, info->compute_units);
    }
    if (!text.failed) *out = clq_hash128_of(text.data, text.length, 0);
    clq_free(text.data);
    return text.failed ? CLQ_MEMORY : CLQ_OK;
}

clq_status clq_why_keep_choice(clq_hash128 key, const clq_devices *devices, const char *strategy, double images_per_s) {
    clq_kept_choice *kept = clq_alloc(1, sizeof *kept); /* zero where nothing is: what is kept is the same each time */
    if (!kept) return CLQ_MEMORY;
    clq_status status = CLQ_OK;
    if (!clq_why_spec(devices, 0, devices->count, kept->devices, sizeof kept->devices))
        status = clq_fail(CLQ_ARGUMENT, "%u devices are too many to be kept as a choice", devices->count);
    (void)snprintf(kept->strategy, sizeof kept->strategy, "%s", strategy);
    kept->images_per_s = images_per_s;
    if (status == CLQ_OK) status = describe(devices, &kept->described);
    if (status == CLQ_OK) status = clq_machine_keep(key, kept, sizeof *kept);
    clq_free(kept);
    return status;
}

clq_status clq_why_recall_choice(clq_hash128 key, bool *known, clq_kept_choice *out) {
    void *kept = NULL;
    size_t bytes = 0;
    *known = false;
    CLQ_TRY(clq_machine_recall(key, &kept, &bytes));
    if (kept && bytes == sizeof *out) {
        memcpy(out, kept, sizeof *out);
        *known = memchr(out->devices, '\0', sizeof out->devices) && memchr(out->strategy, '\0', sizeof out->strategy);
    }
    clq_free(kept);
    return CLQ_OK;
}

clq_status clq_why_choice_holds(const clq_kept_choice *kept, const clq_devices *devices, bool *holds) {
    clq_hash128 now;
    CLQ_TRY(describe(devices, &now));
    *holds = now.low == kept->described.low && now.high == kept->described.high;
    return CLQ_OK;
}
