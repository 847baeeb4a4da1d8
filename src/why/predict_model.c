/* Rows of strategies that share out the model: stages of a pipeline, and layers that devices split. */
#include "why/predict.h"

/* ---- a pipeline ---- */

/* The parts of one micro-batch on a stage: the stage's share of what the whole model takes. micro_batches: of an
 * update; if there are several, the stage adds their gradients up. */
static clq_step_parts stage_parts(const clq_probes *p, const clq_group_probe *g, unsigned s, double micro_batches,
                                  clq_slowing *slow) {
    const clq_pipe_probe *pipe = &g->pipe;
    const clq_device_probe *d = &p->devices[s];
    const size_t micro_batch = clq_ceil_div(p->batch, (size_t)pipe->micro_batches);
    const clq_step_parts all = clq_parts_alone(p, d, micro_batch, 1);
    const double own = pipe->forward[s] + pipe->backward[s];
    clq_step_parts parts = {.input = all.input * own,
                            .launches = all.launches * own,
                            .fixed = CLQ_MAX(all.fixed - d->update_s, 0.0) * own,
                            .compute = all.compute * own};
    *slow = clq_slowing_of(p, g, s);
    if (micro_batches > 1) parts.fixed += clq_adding_seconds(p, d) * pipe->parameters[s];
    parts.sharing = clq_parts_sum(&parts) * (slow->memory + slow->cores);
    parts.communication = (pipe->sent_bytes[s] + pipe->back_bytes[s]) / (pipe->copy_gbps * 1e9);
    if (s > 0) parts.communication += (pipe->sent_bytes[s - 1] + pipe->back_bytes[s - 1]) / (pipe->copy_gbps * 1e9);
    return parts;
}

/* The first stage is the last to be done with a step; the other stages make their update meanwhile. */
bool clq_predict_pipeline(const clq_probes *p, const clq_way *way, clq_outline *out) {
    const clq_group_probe *g = clq_group_of(p, way->replicas);
    double forward[CLQ_REPLICAS_MAX], backward[CLQ_REPLICAS_MAX];
    if (!g || !g->pipe.stages || way->first != 0 || out->shares || way->batch != p->batch) return false;
    const unsigned n = g->pipe.stages;
    const double k = (double)way->accumulate, micro_batches = g->pipe.micro_batches;
    for (unsigned s = 0; s < n; s++) {
        clq_slowing slow;
        clq_step_parts parts = stage_parts(p, g, s, k * micro_batches, &slow);
        const double seconds = clq_parts_sum(&parts), own = g->pipe.forward[s] + g->pipe.backward[s];
        forward[s] = own > 0 ? seconds * g->pipe.forward[s] / own : seconds / 2;
        backward[s] = seconds - forward[s];
        clq_parts_add(&out->parts, &parts, k * micro_batches / n);
        out->parts.fixed += p->devices[s].update_s * g->pipe.parameters[s] / n;
        out->slow.memory += slow.memory / n;
        out->slow.cores += slow.cores / n;
    }
    const double step_s = k * clq_pipeline_seconds(n, g->pipe.micro_batches, forward, backward, g->pipe.hop_s) +
                          p->devices[0].update_s * g->pipe.parameters[0];
    out->parts.waiting = CLQ_MAX(step_s - clq_parts_sum(&out->parts), 0.0);
    out->parts.host = clq_host_seconds(p, n) * k;
    out->bubble = true;
    return true;
}

/* ---- layers that are split ---- */

bool clq_predict_tensor(const clq_probes *p, const clq_way *way, clq_outline *out) {
    const unsigned n = way->replicas;
    const clq_group_probe *g = clq_group_of(p, n);
    const double k = (double)way->accumulate;
    double longest = 0;
    if (!g || !g->slices.exchanges || way->first != 0 || out->shares) return false;
    const clq_slice_probe *slices = &g->slices;
    const double further = g->beta_s * (double)slices->bytes * ((double)way->batch / (double)p->batch - 1);
    for (unsigned r = 0; r < n; r++) {
        const clq_device_probe *d = &p->devices[r];
        const clq_slowing slow = clq_slowing_of(p, g, r);
        clq_step_parts parts = clq_parts_alone(p, d, way->batch, way->accumulate);
        parts.launches = k * (double)slices->launches * d->launch_s;
        parts.fixed -= (1 - slices->parameters) * CLQ_MIN(d->update_s, parts.fixed);
        parts.compute *= slices->work;
        parts.sharing = clq_parts_sum(&parts) * (slow.memory + slow.cores);
        longest = CLQ_MAX(longest, clq_parts_sum(&parts));
        parts.communication = k * (slices->exchange_s + further);
        clq_parts_add(&out->parts, &parts, 1.0 / n);
        out->slow.memory += slow.memory / n;
        out->slow.cores += slow.cores / n;
    }
    out->parts.waiting = CLQ_MAX(longest - (clq_parts_sum(&out->parts) - out->parts.communication), 0.0);
    out->parts.host = clq_host_seconds(p, n) * k;
    return true;
}
