/* Computes a step of all processes from what each of them measured. Arithmetic alone; scale simulates the exchange
 * between processes. */
#include "why/predict.h"
#include "why/rig.h"

#include <math.h>

/* ---- a process ---- */

/* The value at `place` on the line through low (place 0) and high (place 1), but at least 0. A batch that is not
 * between two probed ones lies on the line through the two nearest. */
static double along(double low, double high, double place) { return CLQ_MAX(low + (high - low) * place, 0.0); }

static clq_step_parts parts_between(const clq_machine_step *low, const clq_machine_step *high, size_t batch) {
    const double place = ((double)batch - (double)low->batch) / ((double)high->batch - (double)low->batch);
    const clq_step_parts *a = &low->parts, *b = &high->parts;
    return (clq_step_parts){.input = along(a->input, b->input, place),
                            .host = along(a->host, b->host, place),
                            .launches = along(a->launches, b->launches, place),
                            .fixed = along(a->fixed, b->fixed, place),
                            .compute = along(a->compute, b->compute, place),
                            .sharing = along(a->sharing, b->sharing, place),
                            .waiting = along(a->waiting, b->waiting, place),
                            .communication = along(a->communication, b->communication, place)};
}

/* The parts of a step of one batch. */
static clq_step_parts parts_at(const clq_machine_probe *p, size_t batch) {
    unsigned high = 1;
    if (batch == 0) return (clq_step_parts){.fixed = p->update_s}; /* the process has no share */
    if (p->step_count == 1) {                                      /* what grows with the batch does so in proportion */
        const double factor = (double)batch / (double)p->steps[0].batch;
        clq_step_parts parts = p->steps[0].parts;
        parts.input *= factor;
        parts.compute *= factor;
        parts.sharing *= factor;
        return parts;
    }
    while (high + 1 < p->step_count && p->steps[high].batch < batch) high++;
    return parts_between(&p->steps[high - 1], &p->steps[high], batch);
}

/* How much longer a step takes beside all other processes, as a part of the step; below 0: it takes less long. */
static double slowing_of(const clq_machine_probe *p, size_t share) {
    const clq_step_parts alone = parts_at(p, share);
    return p->together_s > 0 ? p->together_s / clq_parts_sum(&alone) - 1 : 0.0;
}

double clq_why_machine_alone(const clq_machine_probe *p, size_t pace) {
    const clq_step_parts parts = parts_at(p, pace);
    return clq_parts_sum(&parts);
}

double clq_why_machine_together(const clq_machine_probe *p, size_t pace) {
    return p->together_s > 0 ? p->together_s : clq_why_machine_alone(p, pace);
}

/* ---- shares ---- */

clq_status clq_why_machine_shares(const unsigned *devices, unsigned count, size_t batch, size_t *shares,
                                  size_t *paces) {
    unsigned total = 0;
    for (unsigned r = 0; r < count; r++) total += devices[r];
    size_t *offsets = clq_alloc(2 * (size_t)total, sizeof *offsets);
    if (!offsets) return CLQ_ERROR_MEMORY;
    size_t *counts = offsets + total;
    clq_shares_split(batch, total, NULL, offsets, counts);
    for (unsigned r = 0, device = 0; r < count; r++) {
        shares[r] = paces[r] = 0;
        for (unsigned i = 0; i < devices[r]; i++, device++) {
            shares[r] += counts[device];
            paces[r] = CLQ_MAX(paces[r], CLQ_MIN(devices[r] * counts[device], batch));
        }
    }
    clq_free(offsets);
    return CLQ_OK;
}

/* What a way does, process by process. */
typedef struct work {
    const clq_machines *machines;
    const clq_machines_way *way;
    size_t *paces, *usual; /* (machines) as clq_why_machine_shares has them; usual: of all processes in the batch that
                              was measured */
    size_t *shares, *offsets; /* (machines) scratch */
    double *weights;          /* (3 machines) of shares by speed, and the two terms that these are made from */
} work;

static clq_status open_work(const clq_machines *machines, const clq_machines_way *way, work *w) {
    const size_t n = machines->count;
    *w = (work){.machines = machines, .way = way};
    w->shares = clq_alloc(4 * n, sizeof *w->shares);
    w->weights = clq_alloc(3 * n, sizeof *w->weights);
    unsigned *devices = clq_alloc(n, sizeof *devices);
    clq_status status = w->shares && w->weights && devices ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) {
        w->offsets = w->shares + n;
        w->paces = w->offsets + n;
        w->usual = w->paces + n;
        for (size_t r = 0; r < n; r++) devices[r] = machines->probes[r].devices;
        status = clq_why_machine_shares(devices, machines->count, machines->batch, w->shares, w->usual);
    }
    if (status == CLQ_OK) status = clq_why_machine_shares(devices, way->machines, way->batch, w->shares, w->paces);
    clq_free(devices);
    return status;
}

static void close_work(work *w) {
    clq_free(w->shares);
    clq_free(w->weights);
}

/* How many steps have one exchange between them. */
static double averaged_over(const clq_machines_way *way) { return way->local_steps ? (double)way->local_steps : 1.0; }

/* The parts of an update, with all its batches, on process r. The other processes change them in proportion to how many
 * of them train. They take cores and memory; or, if slowing is below 0, a process that waits for them gets its cores
 * sooner when it goes on. The devices of a process meet once in an update or, with local steps, once in that many
 * steps. */
static clq_step_parts parts_of(const work *w, unsigned r) {
    const clq_machine_probe *p = &w->machines->probes[r];
    const double k = (double)w->way->accumulate, others = (w->way->machines - 1.0) / (w->machines->count - 1.0),
                 slowing = slowing_of(p, w->usual[r]) * others;
    const clq_step_parts alone = parts_at(p, w->paces[r]);
    clq_step_parts parts = {0};
    clq_parts_add(&parts, &alone, k * CLQ_MIN(1 + slowing, 1.0));
    parts.sharing += k * clq_parts_sum(&alone) * CLQ_MAX(slowing, 0.0);
    parts.communication /= k * averaged_over(w->way);
    parts.waiting /= averaged_over(w->way);
    if (k > 1) parts.fixed = CLQ_MAX(parts.fixed - (k - 1) * p->update_s, 0.0) + k * p->adding_s;
    return parts;
}

static bool fits(const work *w) {
    for (unsigned r = 0; r < w->way->machines; r++) {
        const clq_machine_probe *p = &w->machines->probes[r];
        if ((w->paces[r] == 0 && !w->way->by_speed) || (p->too_large && w->paces[r] >= p->too_large)) return false;
    }
    return true;
}

/* *stays: the seconds that do not depend on the process's share. Returns the seconds for each sample of the share. */
static double growth_of(const work *w, unsigned r, double *stays) {
    const clq_step_parts parts = parts_of(w, r);
    const double grows = parts.input + parts.compute + parts.sharing;
    *stays = clq_parts_sum(&parts) - grows;
    return CLQ_MAX(grows / (double)w->paces[r], 1e-12);
}

/* The time that all processes with samples take. A process gets no samples if what stays takes it longer than that. */
static double equal_time(const work *w, const double *stays, const double *grows) {
    double time_s = (double)INFINITY;
    for (bool changed = true; changed;) {
        const double before = time_s;
        double ways = (double)w->way->batch, slownesses = 0;
        for (unsigned r = 0; r < w->way->machines; r++) {
            if (stays[r] >= before) continue;
            ways += stays[r] / grows[r];
            slownesses += 1 / grows[r];
        }
        time_s = ways / slownesses;
        changed = time_s < before;
    }
    return time_s;
}

/* Shares the batch so that all processes take the same time: T = c_r + s_r b_r. The shares b_r add up to the batch, so
 * T = (batch + sum(c / s)) / sum(1 / s). This is repeated, because c and s depend on the share. A process without a
 * share at first begins with one sample. */
static void share_by_speed(work *w) {
    enum { ROUNDS = 8 };
    const unsigned n = w->way->machines;
    double *stays = w->weights + n, *grows = stays + n;
    for (unsigned r = 0; r < n; r++) w->paces[r] = CLQ_MAX(w->paces[r], (size_t)1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned r = 0; r < n; r++)
            if (w->paces[r] > 0) grows[r] = growth_of(w, r, &stays[r]);
        const double time_s = equal_time(w, stays, grows);
        for (unsigned r = 0; r < n; r++) w->weights[r] = CLQ_MAX((time_s - stays[r]) / grows[r], 0.0);
        clq_shares_split(w->way->batch, n, w->weights, w->offsets, w->paces);
    }
}

/* ---- the exchange ---- */

clq_link_probe clq_why_slowest_link(const clq_machines *machines, unsigned count) {
    clq_link_probe worst = {0};
    for (unsigned r = 0; r < count && count > 1; r++) {
        if (r + 1 == count && count < machines->count) break; /* the link from there to process 0 was not measured */
        worst.alpha_s = CLQ_MAX(worst.alpha_s, machines->links[r].alpha_s);
        worst.beta_s = CLQ_MAX(worst.beta_s, machines->links[r].beta_s);
    }
    return worst;
}

unsigned clq_why_worst_link(const clq_machines *machines) {
    double bytes = 0, longest = 0;
    unsigned worst = 0;
    for (size_t i = 0; i < machines->piece_count; i++) bytes += (double)machines->pieces[i].bytes;
    for (unsigned r = 0; r < machines->count; r++) {
        const double seconds = machines->links[r].alpha_s + machines->links[r].beta_s * bytes / machines->count;
        if (seconds > longest) worst = r;
        longest = CLQ_MAX(longest, seconds);
    }
    return worst;
}

clq_status clq_why_middle_link(const clq_machines *machines, clq_link_probe *out) {
    const size_t count = machines->count;
    double *values = clq_alloc(2 * count, sizeof *values);
    if (!values) return CLQ_ERROR_MEMORY;
    for (size_t r = 0; r < count; r++) {
        values[r] = machines->links[r].alpha_s;
        values[count + r] = machines->links[r].beta_s;
    }
    *out = (clq_link_probe){clq_median(values, count), clq_median(values + count, count)};
    clq_free(values);
    return CLQ_OK;
}

static clq_scale_link link_of(const work *w) {
    const clq_link_probe worst = clq_why_slowest_link(w->machines, w->way->machines);
    return (clq_scale_link){.latency_s = worst.alpha_s,
                            .byte_s = worst.beta_s / w->way->link_factor,
                            .add_byte_s = clq_scale_add_byte_s,
                            .message_bytes = w->machines->message_bytes};
}

/* Whether backward hides a part of the exchange. */
static bool overlaps(const work *w) {
    return w->way->local_steps == 0 && w->way->compression != CLQ_COMPRESSION_F16 && w->way->accumulate == 1 &&
           w->machines->sums == 0;
}

/* Simulates a step in which all processes compute as long as the slowest one: compute_s, of which backward takes the
 * usual part. */
static clq_status exchange(const work *w, double compute_s, clq_scale_result *out) {
    const clq_machines *m = w->machines;
    const size_t divisor = w->way->compression == CLQ_COMPRESSION_OFF ? 1 : 2; /* 16 bits halve pieces and buckets */
    const bool whole = !overlaps(w) || m->bucket_bytes == CLQ_SCALE_WHOLE;
    clq_scale_piece *pieces = clq_alloc(m->piece_count, sizeof *pieces);
    if (!pieces) return CLQ_ERROR_MEMORY;
    for (size_t i = 0; i < m->piece_count; i++)
        pieces[i] = (clq_scale_piece){m->pieces[i].part, m->pieces[i].bytes / divisor};
    const clq_scale_task task = {.machines = w->way->machines,
                                 .devices = 1,
                                 .forward_s = compute_s * (1 - clq_backward_part),
                                 .backward_s = compute_s * clq_backward_part,
                                 .pieces = pieces,
                                 .piece_count = m->piece_count,
                                 .between = link_of(w),
                                 .algorithm = m->algorithm,
                                 .bucket_bytes = whole ? CLQ_SCALE_WHOLE : m->bucket_bytes / divisor};
    const clq_status status = clq_scale_step(&task, out);
    clq_free(pieces);
    return status;
}

/* Seconds of a sum of few bytes within a step, which nothing hides. */
static clq_status small_sum(const work *w, double *seconds) {
    enum { BYTES = 1024 };
    const clq_scale_piece piece = {1, BYTES};
    const clq_scale_task task = {.machines = w->way->machines,
                                 .devices = 1,
                                 .pieces = &piece,
                                 .piece_count = 1,
                                 .between = link_of(w),
                                 .algorithm = w->machines->algorithm,
                                 .bucket_bytes = CLQ_SCALE_WHOLE};
    clq_scale_result result;
    CLQ_TRY(clq_scale_step(&task, &result));
    *seconds = result.exposed_s;
    return CLQ_OK;
}

/* ---- the step ---- */

/* The unevenness in one look. */
static double unevenness_in(const clq_machines *m, unsigned count, unsigned look) {
    const unsigned rounds = m->probes[0].look_rounds; /* the same in all processes */
    double slowest = 0, mean_of_slowest = 0;
    for (unsigned r = 0; r < count; r++) {
        double mean = 0;
        for (unsigned i = 0; i < rounds; i++) mean += (double)m->probes[r].rounds_s[look * rounds + i] / rounds;
        slowest = CLQ_MAX(slowest, mean);
    }
    for (unsigned i = 0; i < rounds; i++) {
        double most = 0;
        for (unsigned r = 0; r < count; r++) most = CLQ_MAX(most, (double)m->probes[r].rounds_s[look * rounds + i]);
        mean_of_slowest += most / rounds;
    }
    return slowest > 0 ? mean_of_slowest / slowest - 1 : 0.0;
}

/* Now one process is the slowest, now another. Unevenness is the mean over rounds of the slowest process's time, over
 * the slowest process's mean time, less 1. It comes from steps that each process made beside the others without meeting
 * them. */
static double unevenness(const clq_machines *m, unsigned count) {
    double looks[CLQ_MACHINE_LOOKS];
    unsigned looked = CLQ_MACHINE_LOOKS;
    for (unsigned r = 0; r < count; r++) looked = CLQ_MIN(looked, m->probes[r].look_count);
    for (unsigned i = 0; i < looked; i++) looks[i] = unevenness_in(m, count, i);
    return looked > 0 ? clq_middle_mean(looks, looked) : 0.0;
}

/* What processes do without the others. Returns how long the slowest process takes, unevenness included.
 * *slowest_hides: the slowest process's time that can hide an exchange. */
static double compute(const work *w, clq_machines_prediction *out, double *slowest_hides) {
    const unsigned n = w->way->machines;
    double longest = 0, mean = 0;
    for (unsigned r = 0; r < n; r++) {
        const clq_machine_probe *p = &w->machines->probes[r];
        const clq_step_parts parts = parts_of(w, r);
        const double seconds = clq_parts_sum(&parts);
        clq_parts_add(&out->parts, &parts, 1.0 / n);
        out->doubt = r ? clq_doubt_worse(&out->doubt, &p->doubt) : p->doubt;
        mean += seconds / n;
        if (seconds <= longest) continue;
        longest = seconds;
        *slowest_hides = CLQ_MAX(seconds - parts.communication - p->update_s, 0.0);
        out->slowest = r;
    }
    const double uneven_s = n > 1 ? longest * unevenness(w->machines, n) / averaged_over(w->way) : 0.0;
    out->waited_s = longest - mean + uneven_s;
    out->parts.waiting += out->waited_s;
    return longest + uneven_s;
}

static clq_status predict(const work *w, clq_machines_prediction *out) {
    const clq_machines_way *way = w->way;
    const double averaged = averaged_over(way);
    double hides_s = 0, sum_s = 0;
    clq_scale_result met = {0};
    double step_s = compute(w, out, &hides_s);
    if (way->machines > 1) {
        CLQ_TRY(exchange(w, hides_s, &met));
        if (w->machines->sums) CLQ_TRY(small_sum(w, &sum_s));
        /* Rounding to 16 bits and back, of the last bucket, which nothing hides. */
        const double passes = way->compression == CLQ_COMPRESSION_OFF ? 0 : 2,
                     rounding_s = passes * w->machines->probes[out->slowest].adding_s / (double)met.buckets;
        const double exposed_s =
            (met.exposed_s + rounding_s) / averaged + sum_s * w->machines->sums * (double)way->accumulate;
        out->parts.communication += exposed_s;
        step_s += exposed_s;
    }
    out->exchange_s = met.exchange_s / averaged;
    out->algorithm = met.algorithm;
    out->bucket_bytes = overlaps(w) ? w->machines->bucket_bytes : CLQ_SCALE_WHOLE;
    out->step_s = step_s;
    out->images_per_s = (double)way->batch * (double)way->accumulate / step_s;
    /* If most of the waiting is not for other processes, it is for a device within a process. */
    const bool between = out->waited_s > 0 && 2 * out->waited_s >= out->parts.waiting;
    out->limit =
        clq_limit_of(&out->parts, CLQ_LIMIT_SHARED_CORES, between ? CLQ_LIMIT_SLOW_MACHINE : CLQ_LIMIT_SLOW_DEVICE);
    return CLQ_OK;
}

clq_status clq_why_predict_machines(const clq_machines *machines, const clq_machines_way *way, bool *known,
                                    clq_machines_prediction *out) {
    work w;
    clq_machines_prediction found = {.way = *way};
    *known = false;
    clq_status status = open_work(machines, way, &w);
    if (status == CLQ_OK && fits(&w)) {
        if (way->by_speed) share_by_speed(&w);
        *known = fits(&w);
        if (*known) status = predict(&w, &found);
    }
    close_work(&w);
    if (status == CLQ_OK && *known) *out = found;
    return status;
}
