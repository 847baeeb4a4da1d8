/* Finds the changes that would help most, over several machines. */
#include "why/why.h"

#include <stdio.h>
#include <stdlib.h>

static const double gain_least = 1.05, nearly = 0.95, faster_link = 10;
enum { BATCH_FACTOR_MOST = 4 /* as far as steps were probed */, ACCUMULATE = 4, LOCAL_STEPS_MOST = 16 };

typedef struct advising {
    const clq_machines *machines;
    const clq_machines_prediction *now;
    clq_advice all[CLQ_MACHINES_ADVICE_MAX];
    size_t count;
} advising;

static const char *const larger = "fewer and larger updates: another training";

/* Adds the advice, unless it gains too little or cannot be predicted. */
static clq_status add(advising *a, const clq_machines_way *way, const char *text, const char *options,
                      const char *effect) {
    clq_machines_prediction then;
    bool known;
    CLQ_TRY(clq_why_predict_machines(a->machines, way, &known, &then));
    const double gain = known ? then.images_per_s / a->now->images_per_s : 0;
    if (gain < gain_least || a->count == CLQ_MACHINES_ADVICE_MAX) return CLQ_OK;
    clq_advice *advice = &a->all[a->count++];
    *advice = (clq_advice){.effect = effect, .gain = gain, .images_per_s = then.images_per_s};
    (void)snprintf(advice->text, sizeof advice->text, "%s", text);
    (void)snprintf(advice->options, sizeof advice->options, "%s", options);
    return CLQ_OK;
}

/* Tries the factors `most`, half of it, and so on. *out: the smallest that gives nearly the best rate of these; 0: none
 * can be predicted. */
static clq_status find_least(const advising *a, uint64_t most, void (*change)(clq_machines_way *, uint64_t),
                             uint64_t *out) {
    double best = 0;
    *out = 0;
    for (uint64_t factor = most; factor > 1; factor /= 2) {
        clq_machines_way way = a->now->way;
        clq_machines_prediction then;
        bool known;
        change(&way, factor);
        if (way.batch * way.accumulate > a->machines->samples) continue;
        CLQ_TRY(clq_why_predict_machines(a->machines, &way, &known, &then));
        if (!known || then.images_per_s < nearly * best) continue;
        best = CLQ_MAX(best, then.images_per_s);
        *out = factor;
    }
    return CLQ_OK;
}

static void enlarge(clq_machines_way *way, uint64_t factor) { way->batch *= (size_t)factor; }
static void average(clq_machines_way *way, uint64_t steps) { way->local_steps = steps; }

static clq_status advise_batch(advising *a) {
    clq_machines_way way = a->now->way;
    char text[64], options[64];
    uint64_t factor;
    CLQ_TRY(find_least(a, BATCH_FACTOR_MOST, enlarge, &factor));
    if (factor == 0) return CLQ_OK;
    enlarge(&way, factor);
    (void)snprintf(text, sizeof text, "batch %zu", way.batch);
    (void)snprintf(options, sizeof options, "--batch %zu", way.batch);
    return add(a, &way, text, options, larger);
}

static clq_status advise_accumulation(advising *a) {
    clq_machines_way way = a->now->way;
    char text[64], options[64];
    if (way.accumulate >= ACCUMULATE || way.local_steps > 0 || way.batch * ACCUMULATE > a->machines->samples)
        return CLQ_OK;
    way.accumulate = ACCUMULATE;
    (void)snprintf(text, sizeof text, "accumulate %d batches", ACCUMULATE);
    (void)snprintf(options, sizeof options, "--accumulate %d", ACCUMULATE);
    return add(a, &way, text, options, larger);
}

static clq_status advise_local_steps(advising *a) {
    clq_machines_way way = a->now->way;
    char text[64], options[64];
    uint64_t steps;
    if (way.local_steps > 0 || way.compression != CLQ_COMPRESSION_OFF || way.accumulate > 1 || a->machines->sums > 0 ||
        a->machines->scales_loss)
        return CLQ_OK;
    CLQ_TRY(find_least(a, LOCAL_STEPS_MOST, average, &steps));
    if (steps == 0) return CLQ_OK;
    average(&way, steps);
    (void)snprintf(text, sizeof text, "average weights after %llu steps", (unsigned long long)steps);
    (void)snprintf(options, sizeof options, "--local-steps %llu", (unsigned long long)steps);
    return add(a, &way, text, options, "other updates: each device makes its own between two averages");
}

static clq_status advise_halves(advising *a) {
    clq_machines_way way = a->now->way;
    if (way.compression == CLQ_COMPRESSION_F16_BETWEEN || way.local_steps > 0) return CLQ_OK;
    way.compression = CLQ_COMPRESSION_F16_BETWEEN;
    return add(a, &way, "exchange gradients between machines in 16 bits", "--compress f16:between",
               "sums between machines are rounded to 16 bits");
}

static clq_status advise_shares(advising *a) {
    clq_machines_way way = a->now->way;
    if (way.by_speed || way.local_steps > 0) return CLQ_OK;
    way.by_speed = true;
    return add(a, &way, "shares by speed", "--shares auto", "the same but for rounding");
}

static clq_status advise_link(advising *a) {
    clq_machines_way way = a->now->way;
    way.link_factor = faster_link;
    return add(a, &way, "a network of ten times the rate", "", "the same");
}

static clq_status advise_fewer(advising *a, const clq_machines_prediction *best) {
    char text[64], options[64];
    if (best->way.machines >= a->now->way.machines) return CLQ_OK;
    if (best->way.machines == 1)
        (void)snprintf(text, sizeof text, "use the first machine only");
    else
        (void)snprintf(text, sizeof text, "use the first %u machines only", best->way.machines);
    (void)snprintf(options, sizeof options, "mpirun -n %u", best->way.machines);
    return add(a, &best->way, text, options, "the same but for rounding");
}

static int by_gain(const void *left, const void *right) {
    const double a = ((const clq_advice *)left)->gain, b = ((const clq_advice *)right)->gain;
    return (a < b) - (a > b);
}

clq_status clq_why_advise_machines(const clq_machines *machines, const clq_machines_prediction *now,
                                   const clq_machines_prediction *best, clq_advice *out, size_t capacity,
                                   size_t *count) {
    advising a = {.machines = machines, .now = now};
    CLQ_TRY(advise_fewer(&a, best));
    CLQ_TRY(advise_batch(&a));
    CLQ_TRY(advise_accumulation(&a));
    CLQ_TRY(advise_local_steps(&a));
    CLQ_TRY(advise_halves(&a));
    CLQ_TRY(advise_shares(&a));
    CLQ_TRY(advise_link(&a));
    qsort(a.all, a.count, sizeof a.all[0], by_gain);
    *count = CLQ_MIN(a.count, capacity);
    for (size_t i = 0; i < *count; i++) out[i] = a.all[i];
    return CLQ_OK;
}
