/* Keeps choices for later runs of the same training on this machine. */
#include "why/why.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Hashes which devices the numbers of a SPEC stand for: later they may stand for others. */
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
    return text.failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

/* A mark that tells two choices under one key apart: the time of the machine's clock. */
static uint64_t mark(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

clq_status clq_why_keep_choice(clq_hash128 key, const clq_devices *devices, clq_kept_choice *choice) {
    clq_kept_choice *kept = clq_alloc(1, sizeof *kept); /* zeros behind texts: nothing else goes to disk */
    if (!kept) return CLQ_ERROR_MEMORY;
    clq_status status = CLQ_OK;
    memcpy(kept, choice, sizeof *kept);
    memset(kept->devices, 0, sizeof kept->devices);
    if (!clq_why_spec(devices, 0, devices->count, kept->devices, sizeof kept->devices))
        status = clq_fail(CLQ_ERROR_ARGUMENT, "%u devices are too many to be kept as a choice", devices->count);
    kept->made = mark();
    if (status == CLQ_OK) status = describe(devices, &kept->described);
    if (status == CLQ_OK) status = clq_machine_keep(key, kept, sizeof *kept);
    if (status == CLQ_OK) *choice = *kept;
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

/* ---- whether it still holds good ---- */

/* reached_least: the part of the prediction that a training is to reach; predictions are no closer to the truth.
 * busier: how much more of the cores others may use in a training than when the choice was measured. */
static const double reached_least = 0.85, busier = 0.1;
enum { SHORT_MOST = 3, RENEWALS_MOST = 3 };

clq_renewal clq_why_renewal(const clq_kept_choice *kept, double others_now) {
    const clq_doubt now = {.others = others_now};
    if (kept->fell_short >= SHORT_MOST) return CLQ_RENEWAL_FELL_SHORT;
    const bool may = kept->renewals < RENEWALS_MOST && !isnan(others_now);
    return may && clq_doubt_is_grave(&kept->doubt) && !clq_doubt_is_grave(&now) ? CLQ_RENEWAL_DOUBTFUL
                                                                                : CLQ_RENEWAL_NONE;
}

bool clq_why_judge_choice(clq_kept_choice *kept, double images_per_s, double others) {
    const double others_then = isnan(kept->doubt.others) ? 0.0 : kept->doubt.others;
    if (!(images_per_s > 0) || others > others_then + busier) return false;
    if (images_per_s >= reached_least * kept->images_per_s) {
        const bool was_short = kept->fell_short > 0;
        kept->fell_short = 0;
        kept->reached_images_per_s = 0;
        return was_short;
    }
    kept->fell_short = CLQ_MIN(kept->fell_short + 1, (uint64_t)SHORT_MOST);
    kept->reached_images_per_s = CLQ_MAX(kept->reached_images_per_s, images_per_s);
    return true;
}

clq_status clq_why_note_failed_renewal(clq_hash128 key, const clq_kept_choice *used) {
    clq_kept_choice now;
    bool known;
    CLQ_TRY(clq_why_recall_choice(key, &known, &now));
    if (!known || now.made != used->made) return CLQ_OK;
    now.renewals = CLQ_MIN(now.renewals + 1, (uint64_t)RENEWALS_MOST);
    now.fell_short = 0;
    return clq_machine_keep(key, &now, sizeof now);
}

clq_status clq_why_note_training(clq_hash128 key, const clq_kept_choice *used, double images_per_s, double others) {
    clq_kept_choice now;
    bool known;
    CLQ_TRY(clq_why_recall_choice(key, &known, &now));
    if (!known || now.made != used->made || !clq_why_judge_choice(&now, images_per_s, others)) return CLQ_OK;
    return clq_machine_keep(key, &now, sizeof now);
}
