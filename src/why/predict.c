/* From probes to steps: arithmetic alone. decisions/055 derives it. */
#include "why/why.h"

#include <string.h>

/* ---- a step on one device that trains alone ---- */

/* By the line through the two probed batches around it, or the two nearest. */
static double line_at(const clq_step_probe *low, const clq_step_probe *high, double batch) {
    const double slope = (high->step_s - low->step_s) / ((double)high->batch - (double)low->batch);
    return low->step_s + slope * (batch - (double)low->batch);
}

static double step_alone(const clq_device_probe *d, size_t batch) {
    unsigned high = 1;
    for (unsigned i = 0; i < d->step_count; i++)
        if (d->steps[i].batch == batch) return d->steps[i].step_s;
    if (d->step_count == 1) { /* what a step has for any batch stays, the rest grows */
        const double fixed = CLQ_MIN(d->update_s + (double)d->launches * d->launch_s, d->steps[0].step_s);
        return fixed + (d->steps[0].step_s - fixed) * (double)batch / (double)d->steps[0].batch;
    }
    while (high + 1 < d->step_count && d->steps[high].batch < batch) high++;
    return CLQ_MAX(line_at(&d->steps[high - 1], &d->steps[high], (double)batch), d->update_s);
}

/* What a step takes for any batch. */
static double fixed_of(const clq_device_probe *d) {
    const double known = d->update_s + (double)d->launches * d->launch_s;
    return d->step_count == 1 ? known : CLQ_MAX(known, line_at(&d->steps[0], &d->steps[1], 0.0));
}

/* Takes at most what is left of it. */
static double take(double *left, double wanted) {
    const double taken = CLQ_MIN(CLQ_MAX(wanted, 0.0), *left);
    *left -= taken;
    return taken;
}

/* Adding a batch's gradient to those before it: what makes it reads the sum so far, besides. */
static double adding_of(const clq_probes *p, const clq_device_probe *d) {
    return (double)p->gradient_bytes / (d->gbps * 1e9);
}

/* The parts of a step of one batch or of several, which together are it. */
static clq_step_parts parts_alone(const clq_probes *p, const clq_device_probe *d, size_t batch, size_t batches) {
    clq_step_parts parts = {0};
    double left = step_alone(d, batch);
    const double k = (double)batches;
    parts.launches = k * take(&left, (double)d->launches * d->launch_s);
    parts.fixed = k * take(&left, fixed_of(d) - parts.launches / k);
    parts.input = k * take(&left, d->row_s * (double)batch);
    parts.compute = k * left;
    if (batches > 1) /* one update for all */
        parts.fixed = CLQ_MAX(parts.fixed - (k - 1) * d->update_s, 0.0) + k * adding_of(p, d);
    return parts;
}

static double sum_of(const clq_step_parts *p) {
    return p->input + p->host + p->launches + p->fixed + p->compute + p->sharing + p->waiting + p->communication;
}

/* ---- several devices ---- */

static const clq_group_probe *group_of(const clq_probes *probes, unsigned count) {
    for (unsigned g = 0; g < probes->group_count; g++)
        if (probes->groups[g].count == count) return &probes->groups[g];
    return NULL;
}

/* How much longer what a device does takes beside the others: by memory, and by arithmetic, each as far as the step
 * consists of it. */
typedef struct slowing {
    double memory, cores;
} slowing;

static slowing slowing_of(const clq_device_probe *d, const clq_group_probe *g, unsigned r) {
    const double memory = d->gbps / g->gbps[r], cores = d->gflops / g->gflops[r];
    return (slowing){.memory = d->memory_share * CLQ_MAX(memory - 1, 0.0),
                     .cores = (1 - d->memory_share) * CLQ_MAX(cores - 1, 0.0)};
}

/* What backward does not hide. Buckets come evenly over backward, which is two thirds of the arithmetic. */
static double exposed(const clq_probes *p, const clq_group_probe *g, double compute_s, bool accumulates) {
    if (!g->overlaps || accumulates) return g->exchange_s;
    const double all = g->alpha_s * g->buckets + g->beta_s * (double)p->gradient_bytes, last = all / g->buckets;
    return CLQ_MAX(last, all - compute_s * 2 / 3 * (1 - 1.0 / g->buckets));
}

/* The caller's thread posts to each replica. It takes a core from the devices where they keep all of them busy; a step
 * alone was measured with that, if it did there. */
static double host_of(const clq_probes *p, unsigned n) {
    const bool alone = p->busy_cores[0] >= p->cores, together = p->busy_cores[n - 1] >= p->cores;
    return together && !alone ? p->post_s * n : 0.0;
}

/* ---- strategies ---- */

static bool predict_single(const clq_probes *p, const clq_way *way, clq_step_parts *parts, slowing *mean) {
    if (way->replicas != 1) return false;
    *mean = (slowing){0, 0};
    *parts = parts_alone(p, &p->devices[way->first], way->batch, way->accumulate);
    return true;
}

static void add(clq_step_parts *to, const clq_step_parts *more, double factor) {
    to->input += more->input * factor;
    to->launches += more->launches * factor;
    to->fixed += more->fixed * factor;
    to->compute += more->compute * factor;
    to->sharing += more->sharing * factor;
    to->communication += more->communication * factor;
}

static bool predict_mirrored(const clq_probes *p, const clq_way *way, clq_step_parts *out, slowing *mean) {
    const unsigned n = way->replicas;
    const clq_group_probe *g = group_of(p, n);
    size_t offsets[CLQ_REPLICAS_MAX], shares[CLQ_REPLICAS_MAX];
    clq_step_parts total = {0};
    double longest = 0;
    if (!g || way->first != 0) return false;
    *mean = (slowing){0, 0};
    clq_shares_split(way->batch, n, NULL, offsets, shares);
    for (unsigned r = 0; r < n; r++) {
        const clq_device_probe *d = &p->devices[r];
        const slowing slow = slowing_of(d, g, r);
        clq_step_parts parts = parts_alone(p, d, shares[r], way->accumulate);
        if (g->shards_update) parts.fixed = CLQ_MAX(parts.fixed - d->update_s, 0.0) + d->update_s / n;
        parts.sharing = sum_of(&parts) * (slow.memory + slow.cores);
        longest = CLQ_MAX(longest, sum_of(&parts));
        parts.communication =
            exposed(p, g, parts.compute, way->accumulate > 1) + (double)way->accumulate * g->exchanges * g->alpha_s;
        add(&total, &parts, 1.0 / n);
        mean->memory += slow.memory / n;
        mean->cores += slow.cores / n;
    }
    total.waiting = CLQ_MAX(longest - (sum_of(&total) - total.communication), 0.0);
    total.host = host_of(p, n) * (double)way->accumulate;
    *out = total;
    return true;
}

/* A strategy's row: the parts of its step, but for waiting for the pipeline and for the caller's thread. False: not
 * with so many. mean: over its replicas. */
static const struct {
    const char *name;
    bool (*predict)(const clq_probes *probes, const clq_way *way, clq_step_parts *parts, slowing *mean);
} strategies[] = {{"single", predict_single}, {"mirrored", predict_mirrored}};

/* ---- limits ---- */

const char *clq_limit_name(clq_limit limit) {
    static const char *const names[CLQ_LIMIT_COUNT] = {
        [CLQ_LIMIT_COMPUTE] = "compute",
        [CLQ_LIMIT_INPUT] = "input",
        [CLQ_LIMIT_HOST] = "host",
        [CLQ_LIMIT_LAUNCHES] = "launches",
        [CLQ_LIMIT_SMALL_BATCH] = "too small a batch",
        [CLQ_LIMIT_SHARED_MEMORY] = "shared memory",
        [CLQ_LIMIT_SHARED_CORES] = "shared cores",
        [CLQ_LIMIT_SLOW_DEVICE] = "slow device",
        [CLQ_LIMIT_COMMUNICATION] = "communication",
    };
    return names[limit];
}

/* Compute, where it is two thirds of the step: then nothing else is worth much. Else the largest of the others. */
static clq_limit limit_of(const clq_step_parts *p, const slowing *mean) {
    const struct {
        clq_limit limit;
        double seconds;
    } others[] = {
        {CLQ_LIMIT_INPUT, p->input},
        {CLQ_LIMIT_HOST, p->host},
        {CLQ_LIMIT_LAUNCHES, p->launches},
        {CLQ_LIMIT_SMALL_BATCH, p->fixed},
        {mean->memory > mean->cores ? CLQ_LIMIT_SHARED_MEMORY : CLQ_LIMIT_SHARED_CORES, p->sharing},
        {CLQ_LIMIT_SLOW_DEVICE, p->waiting},
        {CLQ_LIMIT_COMMUNICATION, p->communication},
    };
    size_t most = 0;
    if (3 * p->compute >= 2 * sum_of(p)) return CLQ_LIMIT_COMPUTE;
    for (size_t i = 1; i < CLQ_COUNT_OF(others); i++)
        if (others[i].seconds > others[most].seconds) most = i;
    return others[most].limit;
}

/* ---- the face ---- */

bool clq_why_predict_one(const clq_probes *p, const clq_way *way, clq_prediction *out) {
    clq_step_parts parts;
    slowing mean;
    size_t row = 0;
    const double batches = (double)way->accumulate, samples = batches * (double)way->batch;
    while (row < CLQ_COUNT_OF(strategies) && strcmp(strategies[row].name, way->strategy) != 0) row++;
    if (row == CLQ_COUNT_OF(strategies) || way->replicas < 1 || way->first + way->replicas > p->device_count)
        return false;
    if (way->batch < way->replicas || !strategies[row].predict(p, way, &parts, &mean)) return false;
    /* Both are done beside the devices' work, so that only what is longer than it shows. */
    parts.input += CLQ_MAX(samples / p->rows_per_s - sum_of(&parts), 0.0);
    parts.host += CLQ_MAX(p->post_s * way->replicas * batches - sum_of(&parts), 0.0);
    *out = (clq_prediction){.way = *way,
                            .step_s = sum_of(&parts),
                            .images_per_s = samples / sum_of(&parts),
                            .parts = parts,
                            .limit = limit_of(&parts, &mean)};
    return true;
}

size_t clq_why_predict(const clq_probes *p, clq_prediction *out, size_t capacity) {
    size_t count = 0;
    for (unsigned n = 1; n <= p->device_count; n++)
        for (size_t i = 0; i < CLQ_COUNT_OF(strategies) && count < capacity; i++)
            count += clq_why_predict_one(p, &(clq_way){strategies[i].name, 0, n, p->batch, p->accumulate}, &out[count]);
    return count;
}

const clq_prediction *clq_why_best(const clq_prediction *predictions, size_t count) {
    const clq_prediction *best = predictions;
    for (size_t i = 1; i < count; i++)
        if (predictions[i].images_per_s > best->images_per_s) best = &predictions[i];
    return best;
}
