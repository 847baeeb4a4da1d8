/* The change that would help most. */
#include "why/why.h"

#include <stdio.h>
#include <stdlib.h>

static const double gain_least = 1.05;
enum { BATCH_FACTOR_MOST = 4 /* as far as steps were probed */, ACCUMULATE = 4 };

typedef struct advising {
    const clq_probes *probes;
    const clq_devices *devices;
    clq_prediction now, alone; /* as it is; on the first device, the same otherwise */
    clq_advice all[CLQ_REPLICAS_MAX + 8];
    size_t count;
} advising;

static const char *strategy_for(unsigned replicas) { return replicas == 1 ? "single" : "mirrored"; }

static clq_advice *add(advising *a, const clq_prediction *then) {
    const double gain = then->images_per_s / a->now.images_per_s;
    if (gain < gain_least || a->count == CLQ_COUNT_OF(a->all)) return NULL;
    clq_advice *advice = &a->all[a->count++];
    *advice = (clq_advice){.gain = gain, .images_per_s = then->images_per_s};
    return advice;
}

/* All parts of a device, one behind the other, are one item. */
static bool is_split_device(const clq_device_choice *items, unsigned count) {
    if (items[0].parts < 2 || items[0].parts > count) return false;
    for (unsigned i = 0; i < items[0].parts; i++)
        if (items[i].index != items[0].index || items[i].parts != items[0].parts || items[i].part != i) return false;
    return true;
}

bool clq_why_spec(const clq_devices *devices, unsigned first, unsigned count, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 0; i < count && used < bytes;) {
        const clq_device_choice *item = &devices->items[first + i];
        const bool all = is_split_device(item, count - i);
        used += (size_t)snprintf(text + used, bytes - used, "%s%u", i > 0 ? "," : "", item->index);
        if (item->parts > 1 && used < bytes) used += (size_t)snprintf(text + used, bytes - used, "/%u", item->parts);
        if (item->parts > 1 && !all && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, ":%u", item->part);
        i += all ? item->parts : 1;
    }
    return used < bytes;
}

/* Fewer devices. */
static void advise_devices(advising *a, unsigned first, unsigned count) {
    clq_prediction then;
    char names[CLQ_ADVICE_TEXT / 2];
    if (count >= a->probes->device_count || !clq_why_spec(a->devices, first, count, names, sizeof names)) return;
    const clq_way way = {strategy_for(count), first, count, a->probes->batch, a->probes->accumulate};
    if (!clq_why_predict_one(a->probes, &way, &then)) return;
    if (first > 0 && then.images_per_s < gain_least * a->alone.images_per_s) return; /* the first does as well */
    clq_advice *advice = add(a, &then);
    if (!advice) return;
    (void)snprintf(advice->text, sizeof advice->text, "use device%s %s only", count > 1 ? "s" : "", names);
    (void)snprintf(advice->options, sizeof advice->options, "--devices %s", names);
}

/* A larger batch: the smallest that gives nearly all that can be had so. */
static void advise_batch(advising *a) {
    const clq_probes *p = a->probes;
    clq_prediction then = {0}, best = {0};
    for (size_t factor = BATCH_FACTOR_MOST; factor > 1; factor /= 2) {
        if (factor * p->batch > p->samples) continue;
        clq_way way = a->now.way;
        way.batch *= factor;
        if (!clq_why_predict_one(p, &way, &then)) continue;
        if (best.way.batch == 0 || then.images_per_s >= 0.95 * best.images_per_s) best = then;
    }
    clq_advice *advice = best.way.batch ? add(a, &best) : NULL;
    if (!advice) return;
    (void)snprintf(advice->text, sizeof advice->text, "batch %zu", best.way.batch);
    (void)snprintf(advice->options, sizeof advice->options, "--batch %zu", best.way.batch);
}

/* One exchange and update for several batches. */
static void advise_accumulation(advising *a) {
    clq_prediction then;
    clq_way way = a->now.way;
    if (way.accumulate >= ACCUMULATE || way.batch * ACCUMULATE > a->probes->samples) return;
    way.accumulate = ACCUMULATE;
    clq_advice *advice = clq_why_predict_one(a->probes, &way, &then) ? add(a, &then) : NULL;
    if (!advice) return;
    (void)snprintf(advice->text, sizeof advice->text, "accumulate %d batches", ACCUMULATE);
    (void)snprintf(advice->options, sizeof advice->options, "--accumulate %d", ACCUMULATE);
}

static int by_gain(const void *left, const void *right) {
    const double a = ((const clq_advice *)left)->gain, b = ((const clq_advice *)right)->gain;
    return (a < b) - (a > b);
}

/* Only the best choice of devices is told: the others are in the table. */
size_t clq_why_advise(const clq_probes *probes, const clq_devices *devices, clq_advice *out, size_t capacity) {
    advising a = {.probes = probes, .devices = devices};
    const unsigned n = probes->device_count;
    if (!clq_why_predict_one(probes, &(clq_way){strategy_for(n), 0, n, probes->batch, probes->accumulate}, &a.now))
        return 0;
    if (!clq_why_predict_one(probes, &(clq_way){strategy_for(1), 0, 1, probes->batch, probes->accumulate}, &a.alone))
        return 0;
    for (unsigned r = 0; r < n; r++) advise_devices(&a, r, 1);
    for (unsigned g = 0; g < probes->group_count; g++) advise_devices(&a, 0, probes->groups[g].count);
    qsort(a.all, a.count, sizeof a.all[0], by_gain);
    a.count = CLQ_MIN(a.count, (size_t)1);
    advise_batch(&a);
    advise_accumulation(&a);
    qsort(a.all, a.count, sizeof a.all[0], by_gain);
    const size_t count = CLQ_MIN(a.count, capacity);
    for (size_t i = 0; i < count; i++) out[i] = a.all[i];
    return count;
}
