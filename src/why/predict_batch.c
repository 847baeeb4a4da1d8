/* Rows of strategies that share out the batch: each device has the whole model. */
#include "why/predict.h"

bool clq_predict_single(const clq_probes *p, const clq_way *way, clq_outline *out) {
    if (way->replicas != 1 || !clq_step_fits(&p->devices[way->first], way->batch)) return false;
    out->parts = clq_parts_alone(p, &p->devices[way->first], way->batch, way->accumulate);
    return true;
}

/* ---- steps that all make together ---- */

/* update: the part of the update of all weights that each replica makes. exchange_s: what the exchange takes. */
typedef struct manner {
    double update;
    double exchange_s;
    bool overlaps; /* backward hides what it can of the exchange */
} manner;

/* The part of the exchange that backward does not hide. Buckets come evenly over backward, which is two thirds of
 * compute. */
static double exposed(const clq_probes *p, const clq_group_probe *g, const manner *m, double compute_s) {
    if (!m->overlaps) return m->exchange_s;
    const double all = g->alpha_s * g->buckets + g->beta_s * (double)p->gradient_bytes, last = all / g->buckets;
    return CLQ_MAX(last, all - compute_s * clq_backward_part * (1 - 1.0 / g->buckets));
}

static bool predict_together(const clq_probes *p, const clq_way *way, const manner *m, clq_outline *out) {
    const unsigned n = way->replicas;
    const clq_group_probe *g = clq_group_of(p, n);
    size_t offsets[CLQ_REPLICAS_MAX], shares[CLQ_REPLICAS_MAX];
    clq_step_parts total = {0};
    double longest = 0;
    clq_shares_split(way->batch, n, out->shares, offsets, shares);
    for (unsigned r = 0; r < n; r++) {
        const clq_device_probe *d = &p->devices[r];
        if (!clq_step_fits(d, shares[r])) return false;
        const clq_slowing slow = clq_slowing_of(p, g, r);
        clq_step_parts parts = clq_parts_alone(p, d, shares[r], way->accumulate);
        parts.fixed = CLQ_MAX(parts.fixed - d->update_s, 0.0) + d->update_s * m->update;
        parts.sharing = clq_parts_sum(&parts) * (slow.memory + slow.cores);
        longest = CLQ_MAX(longest, clq_parts_sum(&parts));
        parts.communication = exposed(p, g, m, parts.compute) + (double)way->accumulate * g->exchanges * g->alpha_s;
        clq_parts_add(&total, &parts, 1.0 / n);
        out->slow.memory += slow.memory / n;
        out->slow.cores += slow.cores / n;
    }
    total.waiting = CLQ_MAX(longest - (clq_parts_sum(&total) - total.communication), 0.0) + g->waiting_s;
    total.host = clq_host_seconds(p, n) * (double)way->accumulate;
    out->parts = total;
    return true;
}

bool clq_predict_mirrored(const clq_probes *p, const clq_way *way, clq_outline *out) {
    const clq_group_probe *g = clq_group_of(p, way->replicas);
    if (!g || g->too_large || way->first != 0) return false;
    const manner m = {.update = g->shards_update ? 1.0 / g->count : 1.0,
                      .exchange_s = g->exchange_s,
                      .overlaps = g->overlaps && way->accumulate == 1};
    return predict_together(p, way, &m, out);
}

/* If mirrored shards the update anyway, the parts of the optimizer's state are already on their replicas, and the
 * exchange is mirrored's. */
bool clq_predict_sharded(const clq_probes *p, const clq_way *way, clq_outline *out) {
    const clq_group_probe *g = clq_group_of(p, way->replicas);
    if (!g || g->too_large || way->first != 0 || out->shares) return false;
    const manner m = {.update = 1.0 / g->count, .exchange_s = g->shards_update ? g->exchange_s : g->scatter_s};
    return predict_together(p, way, &m, out);
}

/* The exchange includes the store's update; replicas make none. */
bool clq_predict_central(const clq_probes *p, const clq_way *way, clq_outline *out) {
    const clq_group_probe *g = clq_group_of(p, way->replicas);
    if (!g || way->first != 0 || out->shares) return false;
    return predict_together(p, way, &(manner){.exchange_s = g->store_s}, out);
}

/* ---- steps that each makes for itself ---- */

/* All replicas' rates of updates add up. But between two updates of the slowest replica, the others make at most
 * `staleness` updates. Parts are means over replicas of what each spends its time on. */
bool clq_predict_asynchronous(const clq_probes *p, const clq_way *way, clq_outline *out) {
    const unsigned n = way->replicas;
    const clq_group_probe *g = clq_group_of(p, n);
    clq_step_parts shares = {0};
    double rate = 0, longest = 0;
    if (!g || way->first != 0 || way->accumulate > 1 || out->shares || g->exchanges > 0) return false;
    for (unsigned r = 0; r < n; r++) {
        const clq_device_probe *d = &p->devices[r];
        if (!clq_step_fits(d, way->batch)) return false;
        const clq_slowing slow = clq_slowing_of(p, g, r);
        clq_step_parts parts = clq_parts_alone(p, d, way->batch, 1);
        parts.fixed = CLQ_MAX(parts.fixed - d->update_s, 0.0);
        parts.sharing = clq_parts_sum(&parts) * (slow.memory + slow.cores);
        parts.communication = g->own_store_s;
        const double cycle_s = clq_parts_sum(&parts);
        rate += 1 / cycle_s;
        longest = CLQ_MAX(longest, cycle_s);
        clq_parts_add(&shares, &parts, 1 / (n * cycle_s));
        out->slow.memory += slow.memory / n;
        out->slow.cores += slow.cores / n;
    }
    clq_parts_add(&out->parts, &shares, 1 / rate);
    out->parts.waiting = CLQ_MAX(longest / (p->staleness + 1) - 1 / rate, 0.0);
    out->parts.host = clq_host_seconds(p, 1);
    out->posts = 1;
    return true;
}
