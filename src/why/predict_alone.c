/* A step on one device that trains alone, and what the others cost it. */
#include "why/predict.h"

/* ---- a step on one device that trains alone ---- */

/* On the line through two probed batches: the two around `batch` or, if there are none, the two nearest. */
static double line_at(const clq_step_probe *low, const clq_step_probe *high, double batch) {
    const double slope = (high->step_s - low->step_s) / ((double)high->batch - (double)low->batch);
    return low->step_s + slope * (batch - (double)low->batch);
}

bool clq_step_fits(const clq_device_probe *d, size_t batch) { return !d->too_large || batch < d->too_large; }

double clq_step_alone(const clq_device_probe *d, size_t batch) {
    unsigned high = 1;
    for (unsigned i = 0; i < d->step_count; i++)
        if (d->steps[i].batch == batch) return d->steps[i].step_s;
    if (d->step_count == 1) { /* what does not depend on the batch stays, the rest grows in proportion */
        const double fixed = CLQ_MIN(d->update_s + (double)d->launches * d->launch_s, d->steps[0].step_s);
        return fixed + (d->steps[0].step_s - fixed) * (double)batch / (double)d->steps[0].batch;
    }
    while (high + 1 < d->step_count && d->steps[high].batch < batch) high++;
    return CLQ_MAX(line_at(&d->steps[high - 1], &d->steps[high], (double)batch), d->update_s);
}

/* The part of a step that does not depend on the batch. */
static double fixed_of(const clq_device_probe *d) {
    const double known = d->update_s + (double)d->launches * d->launch_s;
    return d->step_count == 1 ? known : CLQ_MAX(known, line_at(&d->steps[0], &d->steps[1], 0.0));
}

/* Takes what is wanted from *left, but at most all of it. */
static double take(double *left, double wanted) {
    const double taken = CLQ_MIN(CLQ_MAX(wanted, 0.0), *left);
    *left -= taken;
    return taken;
}

/* To add a batch's gradient to the earlier ones, the kernels that make it also read the sum so far. */
double clq_adding_seconds(const clq_probes *p, const clq_device_probe *d) {
    return (double)p->gradient_bytes / (d->gbps * 1e9);
}

/* The parts of a step of one or more batches. They add up to the step. */
clq_step_parts clq_parts_alone(const clq_probes *p, const clq_device_probe *d, size_t batch, size_t batches) {
    clq_step_parts parts = {0};
    double left = clq_step_alone(d, batch);
    const double k = (double)batches;
    parts.launches = k * take(&left, (double)d->launches * d->launch_s);
    parts.fixed = k * take(&left, fixed_of(d) - parts.launches / k);
    parts.input = k * take(&left, d->row_s * (double)batch);
    parts.compute = k * left;
    if (batches > 1) /* one update for all */
        parts.fixed = CLQ_MAX(parts.fixed - (k - 1) * d->update_s, 0.0) + k * clq_adding_seconds(p, d);
    return parts;
}

double clq_parts_sum(const clq_step_parts *p) {
    return p->input + p->host + p->launches + p->fixed + p->compute + p->sharing + p->waiting + p->communication;
}

/* ---- several devices ---- */

const clq_group_probe *clq_group_of(const clq_probes *probes, unsigned count) {
    for (unsigned g = 0; g < probes->group_count; g++)
        if (probes->groups[g].count == count) return &probes->groups[g];
    return NULL;
}

clq_slowing clq_slowing_of(const clq_probes *p, const clq_group_probe *g, unsigned r) {
    const clq_device_probe *d = &p->devices[r];
    const double memory = d->gbps / g->gbps[r], cores = d->gflops / g->gflops[r];
    return (clq_slowing){.memory = d->memory_share * CLQ_MAX(memory - 1, 0.0),
                         .cores = (1 - d->memory_share) * CLQ_MAX(cores - 1, 0.0)};
}

/* The caller's thread posts to each replica. It takes a core from the devices if they keep all cores busy. If one
 * device alone keeps all cores busy, too, its measured step includes this time already. */
double clq_host_seconds(const clq_probes *p, unsigned n) {
    const bool alone = p->busy_cores[0] >= p->cores, together = p->busy_cores[n - 1] >= p->cores;
    return together && !alone ? p->post_s * n : 0.0;
}

void clq_parts_add(clq_step_parts *to, const clq_step_parts *more, double factor) {
    to->input += more->input * factor;
    to->host += more->host * factor;
    to->launches += more->launches * factor;
    to->fixed += more->fixed * factor;
    to->compute += more->compute * factor;
    to->sharing += more->sharing * factor;
    to->waiting += more->waiting * factor;
    to->communication += more->communication * factor;
}
