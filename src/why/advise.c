/* Finds the changes that would help most. */
#include "why/predict.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double gain_least = 1.05;
enum { BATCH_FACTOR_MOST = 4 /* as far as steps were probed */, ACCUMULATE = 4, WEIGHT_MOST = 12 };

typedef struct advising {
    const clq_probes *probes;
    const clq_devices *devices;
    clq_prediction now, alone; /* now: with the present options; alone: the same on the first device alone; {0} if that
                                  does not fit its memory */
    char changed[CLQ_ADVICE_TEXT / 2 - 16]; /* " --strategy central", if `now` is not as configured; otherwise "" */
    clq_advice all[CLQ_REPLICAS_MAX + 8];
    size_t count;
} advising;

static const char *strategy_for(unsigned replicas) { return replicas == 1 ? "single" : "mirrored"; }

static clq_advice *add(advising *a, const clq_prediction *then, const char *effect) {
    const double gain = then->images_per_s / a->now.images_per_s;
    if (gain < gain_least || a->count == CLQ_COUNT_OF(a->all)) return NULL;
    clq_advice *advice = &a->all[a->count++];
    *advice = (clq_advice){.effect = effect, .gain = gain, .images_per_s = then->images_per_s};
    return advice;
}

/* The effect of changing which device computes what. */
static const char *effect_of_place(const advising *a) {
    return a->probes->own_statistics ? "the same but for rounding, and for statistics that each replica has of its own"
                                     : "the same but for rounding";
}

/* ---- devices ---- */

/* Whether the items begin with all parts of one device, in order. A SPEC has them as one item. */
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

/* Advises fewer devices. Mirrored also takes one device. */
static void advise_devices(advising *a, unsigned first, unsigned count) {
    clq_prediction then;
    char names[CLQ_ADVICE_TEXT / 2];
    if (count >= a->probes->device_count || !clq_why_spec(a->devices, first, count, names, sizeof names)) return;
    const clq_way way = {strategy_for(count), first, count, a->probes->batch, a->probes->accumulate};
    if (!clq_why_predict_one(a->probes, &way, &then)) return;
    if (first > 0 && then.images_per_s < gain_least * a->alone.images_per_s) return; /* the first does as well */
    clq_advice *advice = add(a, &then, effect_of_place(a));
    if (!advice) return;
    const bool mirrors = !a->changed[0] && strcmp(a->now.way.strategy, strategy_for(a->now.way.replicas)) == 0;
    (void)snprintf(advice->text, sizeof advice->text, "use device%s %s only", count > 1 ? "s" : "", names);
    (void)snprintf(advice->options, sizeof advice->options, "--devices %s%s", names,
                   mirrors ? "" : " --strategy mirrored");
}

/* ---- other strategies ---- */

static const char *effect_of_strategy(const advising *a, const clq_way *way) {
    if (clq_way_is_asynchronous(way)) return "other updates: gradients are applied late";
    return strcmp(way->strategy, "pipeline") == 0 && a->probes->own_statistics
               ? "the same but for rounding, and for statistics, which are of micro-batches"
               : effect_of_place(a);
}

/* Advises `now` if the configured way does not fit the memory: then `now` is a way that fits. */
static void advise_now(advising *a) {
    if (!a->changed[0] || a->count == CLQ_COUNT_OF(a->all)) return;
    clq_advice *advice = &a->all[a->count++];
    *advice = (clq_advice){
        .effect = effect_of_strategy(a, &a->now.way), .gain = (double)INFINITY, .images_per_s = a->now.images_per_s};
    (void)snprintf(advice->text, sizeof advice->text, "strategy %s on %u device%s", a->now.way.strategy,
                   a->now.way.replicas, a->now.way.replicas > 1 ? "s" : "");
    (void)snprintf(advice->options, sizeof advice->options, "%s", a->changed + 1);
}

/* Advises the best other strategy that is, or is not, asynchronous. above: the least rate. */
static void advise_strategy(advising *a, bool asynchronous, double above) {
    clq_prediction all[CLQ_PREDICTIONS_MAX];
    const clq_prediction *best = NULL;
    const size_t count = clq_why_predict(a->probes, all, CLQ_PREDICTIONS_MAX);
    for (size_t i = 0; i < count; i++) {
        const clq_way *way = &all[i].way;
        if (way->replicas != a->probes->device_count || clq_way_is_asynchronous(way) != asynchronous) continue;
        if (strcmp(way->strategy, a->now.way.strategy) == 0) continue;
        if (!best || all[i].images_per_s > best->images_per_s) best = &all[i];
    }
    if (!best || best->images_per_s < above) return;
    clq_advice *advice = add(a, best, effect_of_strategy(a, &best->way));
    if (!advice) return;
    (void)snprintf(advice->text, sizeof advice->text, "strategy %s", best->way.strategy);
    (void)snprintf(advice->options, sizeof advice->options, "--strategy %s", best->way.strategy);
}

/* ---- shares ---- */

/* Finds the shares with which all devices take equally long. It begins with even shares, and moves each device's share
 * towards the device's speed at that share. */
static void find_shares(const advising *a, double *shares) {
    enum { ROUNDS = 16 };
    const clq_probes *p = a->probes;
    const clq_group_probe *g = clq_group_of(p, p->device_count);
    for (unsigned r = 0; r < p->device_count; r++) shares[r] = 1.0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t offsets[CLQ_REPLICAS_MAX], counts[CLQ_REPLICAS_MAX];
        clq_shares_split(p->batch, p->device_count, shares, offsets, counts);
        double speeds[CLQ_REPLICAS_MAX], most = 0;
        for (unsigned r = 0; r < p->device_count; r++) {
            const clq_slowing slow = clq_slowing_of(p, g, r);
            const size_t count = CLQ_MAX(counts[r], (size_t)1);
            speeds[r] = (double)count / (clq_step_alone(&p->devices[r], count) * (1 + slow.memory + slow.cores));
            most = CLQ_MAX(most, speeds[r]);
        }
        for (unsigned r = 0; r < p->device_count; r++) shares[r] = (shares[r] + speeds[r] / most) / 2;
    }
}

/* "3,1" */
static bool name_shares(const double *weights, unsigned count, char *text, size_t bytes) {
    size_t used = 0;
    for (unsigned r = 0; r < count && used < bytes; r++)
        used += (size_t)clq_format(text + used, bytes - used, "%s%.0f", r ? "," : "", weights[r]);
    return used < bytes;
}

/* Advises shares in the smallest whole numbers that give nearly the rate of the best shares. */
static void advise_shares(advising *a) {
    static const double nearly = 0.97;
    const clq_probes *p = a->probes;
    double shares[CLQ_REPLICAS_MAX], weights[CLQ_REPLICAS_MAX], most = 0;
    clq_prediction best, then;
    char names[CLQ_ADVICE_TEXT / 2];
    if (p->device_count < 2 || strcmp(a->now.way.strategy, "mirrored") != 0) return;
    if (a->now.way.replicas != p->device_count) return;
    if (!clq_group_of(p, p->device_count)) return;
    find_shares(a, shares);
    if (!clq_predict_by_shares(p, &a->now.way, shares, &best)) return;
    for (unsigned r = 0; r < p->device_count; r++) most = CLQ_MAX(most, shares[r]);
    for (unsigned largest = 2; largest <= WEIGHT_MOST; largest++) {
        for (unsigned r = 0; r < p->device_count; r++)
            weights[r] = (double)(unsigned)(shares[r] / most * largest + 0.5);
        if (!clq_predict_by_shares(p, &a->now.way, weights, &then)) continue;
        if (then.images_per_s < nearly * best.images_per_s && largest < WEIGHT_MOST) continue;
        clq_advice *advice =
            name_shares(weights, p->device_count, names, sizeof names) ? add(a, &then, effect_of_place(a)) : NULL;
        if (!advice) return;
        (void)snprintf(advice->text, sizeof advice->text, "shares %s", names);
        (void)snprintf(advice->options, sizeof advice->options, "--shares %s%s", names, a->changed);
        return;
    }
}

/* ---- larger updates ---- */

/* Advises a larger batch: the smallest one with nearly the rate of the best. */
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
    clq_advice *advice = best.way.batch ? add(a, &best, "fewer and larger updates: another training") : NULL;
    if (!advice) return;
    (void)snprintf(advice->text, sizeof advice->text, "batch %zu", best.way.batch);
    (void)snprintf(advice->options, sizeof advice->options, "--batch %zu%s", best.way.batch, a->changed);
}

/* Advises one exchange and one update for several batches. */
static void advise_accumulation(advising *a) {
    clq_prediction then;
    clq_way way = a->now.way;
    if (way.accumulate >= ACCUMULATE || way.batch * ACCUMULATE > a->probes->samples) return;
    way.accumulate = ACCUMULATE;
    clq_advice *advice = clq_why_predict_one(a->probes, &way, &then)
                             ? add(a, &then, "fewer and larger updates: another training")
                             : NULL;
    if (!advice) return;
    (void)snprintf(advice->text, sizeof advice->text, "accumulate %d batches", ACCUMULATE);
    (void)snprintf(advice->options, sizeof advice->options, "--accumulate %d%s", ACCUMULATE, a->changed);
}

/* ---- all ---- */

static int by_gain(const void *left, const void *right) {
    const double a = ((const clq_advice *)left)->gain, b = ((const clq_advice *)right)->gain;
    return (a < b) - (a > b);
}

/* Makes `then` the way that gains are relative to, and notes the options that lead to it. */
static bool change_to(advising *a, const clq_prediction *then) {
    const clq_way *way = &then->way;
    char names[CLQ_ADVICE_TEXT / 4 - 8] = ""; /* room for the longest strategy */
    const bool all = way->first == 0 && way->replicas == a->probes->device_count;
    if (!all && !clq_why_spec(a->devices, way->first, way->replicas, names, sizeof names)) return false;
    (void)snprintf(a->changed, sizeof a->changed, " --strategy %s%s%s", way->strategy, all ? "" : " --devices ", names);
    a->now = *then;
    return true;
}

/* Predicts the configured way (mirrored, if that has no row). If it cannot be predicted, takes mirrored; if that cannot
 * be predicted either, takes the best way that fits the memory. */
static bool predict_now(advising *a) {
    const clq_probes *p = a->probes;
    const unsigned n = p->device_count;
    clq_way way = {p->strategy ? p->strategy : strategy_for(n), 0, n, p->batch, p->accumulate};
    if (clq_why_predict_one(p, &way, &a->now)) return true;
    clq_prediction mirrored;
    way.strategy = strategy_for(n);
    if (clq_why_predict_one(p, &way, &mirrored)) return change_to(a, &mirrored);
    clq_prediction all[CLQ_PREDICTIONS_MAX];
    const clq_prediction *best = clq_why_best(all, clq_why_predict(p, all, CLQ_PREDICTIONS_MAX));
    return best && change_to(a, best);
}

/* Advises only the best choice of devices: the table of predictions has the others. */
size_t clq_why_advise(const clq_probes *probes, const clq_devices *devices, clq_advice *out, size_t capacity) {
    advising a = {.probes = probes, .devices = devices};
    const clq_way first = {strategy_for(1), 0, 1, probes->batch, probes->accumulate};
    if (!predict_now(&a)) return 0;
    (void)clq_why_predict_one(probes, &first, &a.alone);
    for (unsigned r = 0; r < probes->device_count; r++) advise_devices(&a, r, 1);
    for (unsigned g = 0; g < probes->group_count; g++) advise_devices(&a, 0, probes->groups[g].count);
    qsort(a.all, a.count, sizeof a.all[0], by_gain);
    a.count = CLQ_MIN(a.count, (size_t)1);
    advise_now(&a);
    const size_t before = a.count;
    advise_strategy(&a, false, 0);
    advise_strategy(&a, true, a.count > before ? gain_least * a.all[before].images_per_s : 0);
    advise_shares(&a);
    advise_batch(&a);
    advise_accumulation(&a);
    qsort(a.all, a.count, sizeof a.all[0], by_gain);
    const size_t count = CLQ_MIN(a.count, capacity);
    for (size_t i = 0; i < count; i++) out[i] = a.all[i];
    return count;
}
